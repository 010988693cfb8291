//! `ostler gc`

use std::collections::HashSet;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use flows::gc::{self, Ask, Consent, Include};
use flows::work::{Done, Work};
use model::time::millis;
use model::wire::{Fate, GcResult, PlannedItem};

use crate::cli::{Context, complete, ls};
use crate::env;
use crate::error::{self, Error};
use crate::render::colour::{Colour, Paint};
use crate::render::progress::Progress;
use crate::render::table::{Cell, Column, Give, draw};
use crate::render::{duration, output, size, text};

/// Show what may be removed and why; with `--yes`, move it to the trash.
///
/// Without `--include` only what ostler itself made is looked at: terminals that are over, notes of
/// agents that are gone, payloads of old reports, dead sockets, the vault above its budget. Whatever
/// is alive, cannot be proved dead, or is pinned stays. `ostler undo` brings everything back.
#[derive(Debug, Args)]
pub(crate) struct Gc {
    /// Move it to the trash. Without this nothing is changed.
    #[arg(short, long)]
    yes: bool,
    /// Only show the plan, which is the default.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Also look at what agents left.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    include: Vec<Included>,
    /// Only what has been left alone for longer, e.g. 12h or 30d.
    #[arg(long, value_name = "AGE", value_parser = duration::from_argument)]
    older_than: Option<std::time::Duration>,
    /// Let what sessions wrote take at most so much; the oldest go first. E.g. 500MB or 20GB.
    #[arg(long, value_name = "SIZE", value_parser = size::from_argument)]
    max_bytes: Option<u64>,
    /// Keep this session or path, whatever the plan says.
    #[arg(long, value_name = "ID|PATH")]
    keep: Vec<String>,
    /// Only what is of these agents; `ostler` and `terminal` are ours.
    #[arg(long, value_name = "AGENT", value_delimiter = ',',
          add = ArgValueCandidates::new(complete::agents))]
    agent: Vec<String>,
    /// Only carry out this very plan, as shown by an earlier call.
    #[arg(long, value_name = "HASH", requires = "yes")]
    plan: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Included {
    /// Transcripts of sessions that are over; a copy goes to the vault first.
    Transcripts,
    /// Temporary files and archives.
    Temps,
    /// Git worktrees that are merged, clean, pushed, unlocked and nobody's directory.
    Worktrees,
}

const COLUMNS: [Column; 5] = [
    Column { head: "ACTION", give: Give::Rigid, right: false },
    Column { head: "WHAT", give: Give::Rigid, right: false },
    Column { head: "AGE", give: Give::Rigid, right: true },
    Column { head: "BYTES", give: Give::Rigid, right: true },
    Column { head: "WHERE AND WHY", give: Give::Cut(40), right: false },
];

impl Gc {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let dirs = context.dirs()?;
        let mut ask = self.ask(context, &dirs.runtime)?;
        let environment = flows::Env::new(&env::lookup);
        let planning = gc::plan_here(&dirs.home, &mut ask, context.now, &environment);
        let preview = planning.preview();
        if !self.yes {
            return tell(context, preview);
        }
        if self.plan.as_ref().is_some_and(|plan| *plan != preview.plan) {
            return Err(Error::Refused {
                what: format!("the plan is another one now ({})", preview.plan),
                hint: "look at it again: `ostler gc`".to_owned(),
            });
        }
        let going = preview.items.iter().filter(|item| item.action == Fate::WouldGo);
        let paths: HashSet<String> = going.map(|item| item.item.path.clone()).collect();
        // With nothing to go there is nothing to do, but for finishing what an earlier run began.
        if paths.is_empty() && !reaper::is_interrupted(&dirs.home) {
            return tell(context, GcResult { applied: true, ..preview });
        }
        let consent = Consent { plan: preview.plan, paths };
        let work = Work::Gc { ask: Box::new(ask), consent };
        let mut progress = Progress::new("collecting");
        let (done, transport) = flows::work::carry_out(
            &dirs.home,
            &dirs.runtime,
            &work,
            context.now,
            &mut |done, total| progress.show(done, total),
        )
        .map_err(Error::Order)?;
        drop(progress);
        match done {
            Done::Gc(result) => {
                tell(context, GcResult { transport: Some(transport.word().to_owned()), ..result })
            }
            _ => Err(error::unexpected_answer()),
        }
    }

    fn ask(&self, context: &Context, runtime: &std::path::Path) -> Result<Ask, Error> {
        let known = |agent: &&String| !flows::is_agent(agent) && agent.as_str() != "ostler";
        if let Some(unknown) = self.agent.iter().find(known) {
            return Err(Error::usage(
                format!("there is no agent `{unknown}`"),
                "`ostler adapters` lists them; `ostler` and `terminal` are ours",
            ));
        }
        let retention = context.config()?.config.retention;
        let limits = self.older_than.is_some() || self.max_bytes.is_some();
        let set = retention.transcripts.is_some() || retention.transcript_bytes.is_some();
        if self.include.contains(&Included::Transcripts) && !limits && !set {
            return Err(Error::usage(
                "transcripts are kept for ever unless it is said which may go",
                "add `--older-than 90d` or `--max-bytes 20GB`, or set `transcripts` under \
                 [retention]",
            ));
        }
        Ok(Ask {
            include: self.include.iter().map(|one| one.flow()).collect(),
            older_than_ms: self.older_than.map(millis),
            max_bytes: self.max_bytes,
            keep: self.keep.clone(),
            agents: self.agent.clone(),
            retention,
            runtime: runtime.to_owned(),
            variables: std::collections::BTreeMap::new(),
        })
    }
}

impl Included {
    const fn flow(self) -> Include {
        match self {
            Self::Transcripts => Include::Transcripts,
            Self::Temps => Include::Temps,
            Self::Worktrees => Include::Worktrees,
        }
    }
}

fn tell(context: &Context, mut result: GcResult) -> Result<ExitCode, Error> {
    if context.json {
        // There may be very many: they are written on all cores.
        let items = std::mem::take(&mut result.items);
        let items: Vec<&PlannedItem> = items.iter().collect();
        output::json_with(context.name, context.now, &result, "items", &items, |item| item)?;
    } else {
        output::text(&words(&result))?;
        ls::report_incomplete(&result.incomplete);
    }
    Ok(error::exit_code_for(&result.incomplete))
}

fn words(result: &GcResult) -> String {
    let mut page = String::new();
    if !result.items.is_empty() {
        let rows: Vec<Vec<Cell>> = result.items.iter().map(row).collect();
        page = draw(&COLUMNS, &rows, output::columns(), Paint::for_stdout());
    }
    let size = text::bytes(result.bytes);
    let things = text::plural(result.count, "thing");
    let them = if result.count == 1 { "it" } else { "them" };
    let line = match (result.applied, result.count, &result.receipt) {
        (false, 0, _) => "nothing to collect".to_owned(),
        (false, ..) => format!(
            "{things}, {size} (plan {}). `ostler gc --yes` with the same options moves {them} to the \
             trash.",
            result.plan
        ),
        (true, 0, _) => "nothing was collected".to_owned(),
        (true, _, Some(receipt)) => {
            format!(
                "{things}, {size}, moved to the trash. `ostler undo {receipt}` brings {them} back."
            )
        }
        (true, ..) => format!("{things}, {size}"),
    };
    page.push_str(&line);
    page.push('\n');
    if result.replanned {
        page.push_str(
            "The plan had changed meanwhile; nothing went that was not in the first one.\n",
        );
    }
    page
}

fn row(line: &PlannedItem) -> Vec<Cell> {
    let (action, colour) = match line.action {
        Fate::WouldGo => ("would go", Colour::Yellow),
        Fate::Trashed => ("trashed", Colour::Green),
        Fate::Discarded => ("removed", Colour::Green),
        Fate::Stays => ("stays", Colour::Dim),
    };
    let item = &line.item;
    let age = item.age_ms.map(std::time::Duration::from_millis).map(duration::age);
    let why = match &line.refused {
        Some(refusal) => format!("{}; {}", refusal.reason, refusal.remedy),
        None => item.why.clone(),
    };
    vec![
        (action.to_owned(), Some(colour)),
        (item.kind.word().to_owned(), None),
        (age.unwrap_or_default(), None),
        (text::bytes(item.bytes), None),
        (text::one_line(&format!("{}: {why}", item.path)), None),
    ]
}
