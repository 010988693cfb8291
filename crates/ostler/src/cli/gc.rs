//! `ostler gc`

use std::collections::HashSet;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use flows::gc;
use flows::observe::ObserveScope;
use flows::writer::{GcConsent, GcInclude, GcRequest, Work, WorkDone, names_item};
use model::address::AddressError;
use model::json_text::write_plan_element;
use model::time::whole_millis;
use model::wire::{GcResult, ItemFate, PlannedItem};

use crate::cli::registry::AnswerSchema;
use crate::cli::{CliContext, complete, ls};
use crate::error::{self, Error};
use crate::render::colour::{Colour, Painter};
use crate::render::progress::ProgressLine;
use crate::render::{duration, output, size, text};

declare_commands![CommandEntry {
    place: HelpPlace(CleanUp, 2),
    effect: WritesFiles,
    answers: &[
        answer::<wire::GcResult>(),
        AnswerSchema { suffix: " --fleet", ..answer::<wire::FleetGcResult>() }
    ],
    examples: &[
        example("gc", "What may go, and why the rest stays. Nothing is changed."),
        example("gc --include transcripts --older-than 30d", "Transcripts of old sessions, too."),
        example("gc --yes", "Move it to the trash.")
    ],
    cases: &[
        empty("gc"),
        usual("gc --include temps --older-than 0s").harmless(),
        refused("gc --plan abc"),
        incomplete("gc --include temps --older-than 0s").harmless(),
        also("gc --include transcripts,temps --older-than 0s").harmless(),
        also("gc --yes").harmless(),
        also("gc --include transcripts,temps,worktrees --older-than 0s").harmless()
    ],
    ..entry!("gc", GcArgs, run_gc)
}];

/// Show what may be removed and why; with `--yes`, move it to the trash.
///
/// Without `--include` only what ostler itself made is looked at: terminals that are over, notes of
/// agents that are gone, payloads of old reports, dead sockets, the vault above its budget. Whatever
/// is alive, cannot be proved dead, or is pinned stays. `ostler undo` brings everything back.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Move it to the trash. Without this nothing is changed.
    #[arg(short, long)]
    yes: bool,
    /// Only show the plan, which is the default.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Also look at what agents left.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    include: Vec<IncludedKind>,
    /// Only what has been left alone for longer, e.g. 12h or 30d.
    #[arg(long, value_name = "AGE", value_parser = duration::from_argument)]
    older_than: Option<std::time::Duration>,
    /// Let what sessions wrote take at most so much; the oldest go first. E.g. 500MB or 20GB.
    #[arg(long, value_name = "SIZE", value_parser = size::from_argument)]
    max_bytes: Option<u64>,
    /// Keep this session, by its id or its name, or what is at, in or above this path.
    #[arg(long, value_name = "ID|NAME|PATH")]
    keep: Vec<String>,
    /// Only what is of these agents; `ostler` and `terminal` are ours.
    #[arg(long, value_name = "AGENT", value_delimiter = ',',
          add = ArgValueCandidates::new(complete::complete_agents))]
    agent: Vec<String>,
    /// Only carry out this very plan, as shown by an earlier call.
    #[arg(long, value_name = "HASH", requires = "yes")]
    plan: Option<String>,
    /// Of all members of the fleet, in one table (docs/fleet.md).
    #[arg(long, conflicts_with = "plan")]
    fleet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IncludedKind {
    /// Transcripts of sessions that are over; a copy goes to the vault first.
    Transcripts,
    /// Temporary files and archives.
    Temps,
    /// Git worktrees that are merged, clean, pushed, unlocked and nobody's directory.
    Worktrees,
}

/// What is to be kept, as it was named.
#[derive(Debug, Default)]
struct KeptNames {
    /// Whole paths, and whole ids of sessions.
    names: Vec<String>,
    /// What is neither: leftovers may be of sessions that are otherwise gone, and the plan tells of those.
    unresolved: Vec<String>,
}

impl KeptNames {
    /// Of a name that was mistyped nothing would be kept, so it is refused before anything goes.
    fn check_unresolved(&self, preview: &GcResult) -> Result<(), Error> {
        let is_planned =
            |keep: &&String| preview.items.iter().any(|one| names_item(keep, &one.item));
        match self.unresolved.iter().find(|keep| !is_planned(keep)) {
            None => Ok(()),
            Some(keep) => Err(Error::usage_error(
                format!("`--keep {keep}` names no path that is there, and no session"),
                "`ostler gc` shows what may go; `ostler ls -a` lists every session with its id",
            )),
        }
    }
}

impl GcArgs {
    pub(crate) fn run_gc(&self, context: &CliContext) -> Result<ExitCode, Error> {
        if self.fleet {
            let hint = "run it on the command line";
            return Err(Error::usage_error("the fleet's plans are gathered by a person", hint));
        }
        let machine = context.machine()?;
        let kept = self.kept_names(context)?;
        let keep = kept.names.iter().chain(&kept.unresolved).cloned().collect();
        let mut ask = GcRequest { keep, ..self.gc_request(context, machine.runtime())? };
        let preview = gc::plan_gc_here(&mut ask, machine).into_preview();
        kept.check_unresolved(&preview)?;
        if !self.yes {
            return print_plan(context, preview);
        }
        if self.plan.as_ref().is_some_and(|plan| *plan != preview.plan) {
            return Err(Error::Refused {
                what: format!("the plan is another one now ({})", preview.plan),
                hint: "look at it again: `ostler gc`".to_owned(),
            });
        }
        let going = preview.items.iter().filter(|item| item.action == ItemFate::WouldGo);
        let paths: HashSet<String> = going.map(|item| item.item.path.clone()).collect();
        // With nothing to go there is nothing to do, but for finishing what an earlier run began.
        if paths.is_empty() && !reaper::is_interrupted(machine.home()) {
            return print_plan(context, GcResult { applied: true, ..preview });
        }
        let consent = GcConsent { plan: preview.plan, paths };
        let work = Work::Gc { ask: Box::new(ask), consent };
        let mut progress = ProgressLine::new("collecting");
        let (done, transport) = flows::work::carry_out_work(&work, machine, &mut |done, total| {
            progress.show_progress(done, total)
        })
        .map_err(Error::Order)?;
        drop(progress);
        match done {
            WorkDone::Gc(result) => print_plan(
                context,
                GcResult { transport: Some(transport.as_str().to_owned()), ..result },
            ),
            _ => Err(error::unexpected_answer()),
        }
    }

    fn kept_names(&self, context: &CliContext) -> Result<KeptNames, Error> {
        let mut kept = KeptNames::default();
        for keep in &self.keep {
            if let Ok(path) = std::fs::canonicalize(keep) {
                kept.names.push(path.to_string_lossy().into_owned());
                continue;
            }
            let (observation, here) =
                (context.observe_now(ObserveScope::All, &[])?, context.current_dir());
            match flows::address::resolve_session(&observation, keep, &here) {
                Ok(one) => kept.names.push(one.session.id.clone()),
                // Of a beginning that several have, all are kept.
                Err(AddressError::Ambiguous { .. }) => kept.names.push(keep.clone()),
                Err(AddressError::NotFound(_)) => kept.unresolved.push(keep.clone()),
            }
        }
        Ok(kept)
    }

    fn gc_request(
        &self,
        context: &CliContext,
        runtime: &std::path::Path,
    ) -> Result<GcRequest, Error> {
        let agents = self.agent.iter().map(|agent| match agent.as_str() {
            "ostler" => Ok(agent.clone()),
            _ => ls::parse_agent(agent).map_err(|why| {
                Error::usage_error(
                    format!("`--agent {agent}`: {why}"),
                    "`ostler adapters` lists them; `ostler` and `terminal` are ours",
                )
            }),
        });
        let agents = agents.collect::<Result<Vec<_>, _>>()?;
        let config = context.load_config()?.config;
        let retention = config.retention;
        let limits = self.older_than.is_some() || self.max_bytes.is_some();
        let set = retention.transcripts.is_some() || retention.transcript_bytes.is_some();
        if self.include.contains(&IncludedKind::Transcripts) && !limits && !set {
            return Err(Error::usage_error(
                "transcripts are kept for ever unless it is said which may go",
                "add `--older-than 90d` or `--max-bytes 20GB`, or set `transcripts` under \
                 [retention]",
            ));
        }
        Ok(GcRequest {
            include: self.include.iter().map(|one| one.to_include()).collect(),
            older_than_ms: self.older_than.map(whole_millis),
            max_bytes: self.max_bytes,
            keep: Vec::new(),
            agents,
            retention,
            runtime: runtime.to_owned(),
            variables: std::collections::BTreeMap::new(),
            adapter_roots: config.adapter_roots,
        })
    }
}

impl IncludedKind {
    const fn to_include(self) -> GcInclude {
        match self {
            Self::Transcripts => GcInclude::Transcripts,
            Self::Temps => GcInclude::Temps,
            Self::Worktrees => GcInclude::Worktrees,
        }
    }
}

fn print_plan(context: &CliContext, mut result: GcResult) -> Result<ExitCode, Error> {
    if context.json {
        // There may be very many: they are written on all cores.
        let items = std::mem::take(&mut result.items);
        let items: Vec<&PlannedItem> = items.iter().collect();
        output::print_json_with(
            context.name,
            context.now,
            &result,
            "items",
            &items,
            &write_plan_element,
        )?;
    } else {
        print_plan_text(&result)?;
    }
    Ok(error::exit_code_for(&result.incomplete))
}

/// Draws a plan, of this machine or another.
pub(crate) fn print_plan_text(result: &GcResult) -> Result<(), Error> {
    output::print_text(&render_plan_text(result))?;
    ls::report_incomplete(&result.incomplete);
    Ok(())
}

fn render_plan_text(result: &GcResult) -> String {
    let mut page = String::new();
    if !result.items.is_empty() {
        let columns = output::output_columns();
        let paint = Painter::for_stdout();
        page = result.items.iter().map(|item| plan_lines(item, columns, paint)).collect();
        page = text::for_locale(page);
    }
    let size = text::format_bytes(result.bytes);
    let things = text::format_plural(result.count, "thing");
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

/// How far the lines below the first are moved in.
const PLAN_INDENT: &str = "    ";

/// One thing: what is done and why, which is never cut; then what it is of, and where.
fn plan_lines(line: &PlannedItem, columns: Option<usize>, paint: Painter) -> String {
    let (action, colour) = match line.action {
        ItemFate::WouldGo => ("would go", Colour::Yellow),
        ItemFate::Trashed => ("trashed", Colour::Green),
        ItemFate::Discarded => ("removed", Colour::Green),
        ItemFate::Stays => ("stays", Colour::Dim),
    };
    let item = &line.item;
    let why = match &line.refused {
        Some(refusal) => format!("{}; {}", refusal.reason, refusal.remedy),
        None => item.why.clone(),
    };
    let first = text::one_line(&format!("{action}  {}: {why}", item.kind.as_str()));
    let mut wrapped = text::wrap_words(&first, columns, PLAN_INDENT);
    // The word was measured without its colour, and is painted afterwards.
    wrapped.replace_range(..action.len(), &paint.paint(colour, action));
    let age = item.age_ms.map(std::time::Duration::from_millis).map(duration::age_phrase);
    let mut of = vec![item.owner.clone()];
    of.extend(item.title.as_deref().map(|title| text::cut_right(&text::one_line(title), 60)));
    of.push(text::format_bytes(item.bytes));
    of.extend(age);
    let of = text::one_line(&of.join(" · "));
    let path = text::one_line(&text::home_as_tilde(&item.path));
    let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(PLAN_INDENT.len()));
    let fit = |words: &str| match room {
        usize::MAX => words.to_owned(),
        room => text::cut_middle(words, room),
    };
    let below = format!("{PLAN_INDENT}{}\n{PLAN_INDENT}{}", fit(&of), fit(&path));
    format!("{wrapped}\n{}\n", paint.paint(Colour::Dim, &below))
}
