//! `ostler access list` and `ostler access show`

use std::process::ExitCode;

use access::list;
use access::rules::escape_untrusted;
use access::wire::{AccessListResult, AccessShowResult, AccessView, KeyView};
use clap::Args;
use clap_complete::ArgValueCandidates;
use model::time::Time;

use crate::cli::{CliContext, complete};
use crate::error::Error;
use crate::render::colour::{Colour, Painter};
use crate::render::fields::FieldPage;
use crate::render::table::{ColumnGive, TableCell, TableColumn, render_table};
use crate::render::{duration, output, text};

declare_commands![
    CommandEntry {
        place: HelpPlace(Credentials, 2),
        answers: &[answer::<access_wire::AccessListResult>()],
        examples: &[example(
            "access list",
            "What is lent, until when, and whether its agent is there."
        )],
        cases: &[
            empty("access list"),
            usual("access list").on(Access),
            refused("access list --no-such-option"),
            also("access list"),
            also("access list --probe"),
            also("access list --probe").on(Access)
        ],
        uncased: &[(
            Incomplete,
            "entries that break a rule are rows in tests/cli/access/rows_records.rs"
        )],
        ..entry!("access list", AccessListArgs, run_access_list)
    },
    CommandEntry {
        place: HelpPlace(Credentials, 3),
        answers: &[answer::<access_wire::AccessShowResult>()],
        examples: &[example("access show ID", "One of them in full.").on(Access)],
        cases: &[
            empty("access show nothing"),
            usual("access show ID").on(Access),
            refused("access show nothing").on(Access)
        ],
        uncased: &[ONE_FILE],
        ..entry!("access show", AccessShowArgs, run_access_show)
    }
];

/// List access sessions: their state, whether their agent is there, their keys.
///
/// Reads only. An entry that breaks a rule is listed as unknown, with the rule's code.
#[derive(Debug, Args)]
pub(crate) struct AccessListArgs {
    /// Connect to each session's socket too (nothing is sent).
    #[arg(long)]
    probe: bool,
}

const ACCESS_COLUMNS: [TableColumn; 8] = [
    TableColumn { head: "ID", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "STATE", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "AGENT", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "CREATED", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "EXPIRES", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "LABEL", give: ColumnGive::Cut(8), right: false },
    TableColumn { head: "LENT TO", give: ColumnGive::Drop(1), right: false },
    TableColumn { head: "KEYS", give: ColumnGive::Cut(20), right: false },
];

impl AccessListArgs {
    pub(crate) fn run_access_list(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let sessions = list::list_access(&context.machine_of_state()?, self.probe)
            .map_err(access::AccessError::from)?;
        if context.json {
            context.print_json(AccessListResult { sessions })?;
            return Ok(ExitCode::SUCCESS);
        }
        if sessions.is_empty() {
            output::print_text("No access sessions.\n")?;
            return Ok(ExitCode::SUCCESS);
        }
        let rows: Vec<Vec<TableCell>> =
            sessions.iter().map(|one| access_row(one, context.now)).collect();
        output::print_text(&render_table(
            &ACCESS_COLUMNS,
            &rows,
            output::output_columns(),
            Painter::for_stdout(),
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn access_row(one: &AccessView, now: Time) -> Vec<TableCell> {
    let colour = match (one.state, one.agent.as_ref().map(|agent| agent.presence)) {
        ("active", Some("present")) => Colour::Green,
        ("active", _) => Colour::Yellow,
        ("unknown", _) => Colour::Red,
        _ => Colour::Dim,
    };
    let agent = match (&one.agent, one.reason) {
        (Some(agent), _) => format!("{} ({})", agent.presence, agent.reason),
        (None, Some(code)) => code.to_owned(),
        (None, None) => String::new(),
    };
    let label = match (&one.label, &one.note) {
        (Some(label), _) => escape_untrusted(label),
        (None, note) => escape_untrusted(note.as_deref().unwrap_or("")),
    };
    let lent_to = one.session.as_ref().map(|bound| {
        escape_untrusted(&text::cut_right(&format!("{}:{}", bound.agent, bound.id), 24))
    });
    let ago = |time: Option<Time>| time.map(|time| relative_time(now, time)).unwrap_or_default();
    let keys: Vec<String> = one.keys.iter().map(|key| escape_untrusted(&key.fingerprint)).collect();
    vec![
        (escape_untrusted(&one.id), Some(Colour::Cyan)),
        (one.state.to_owned(), Some(colour)),
        (agent, None),
        (ago(one.created_at), None),
        (ago(one.expires_at), None),
        (label, None),
        (lent_to.unwrap_or_default(), None),
        (keys.join(" "), Some(Colour::Dim)),
    ]
}

/// A time as people think of it, from now.
fn relative_time(now: Time, time: Time) -> String {
    if time > now {
        format!("in {}", duration::short_age(time.since(now)))
    } else {
        duration::age_phrase(now.since(time))
    }
}

/// Show one access session in full.
#[derive(Debug, Args)]
pub(crate) struct AccessShowArgs {
    /// The access session: an id, an unambiguous prefix or a label.
    #[arg(add = ArgValueCandidates::new(complete::complete_access_sessions))]
    id: String,
    /// Connect to its socket too (nothing is sent).
    #[arg(long)]
    probe: bool,
}

impl AccessShowArgs {
    pub(crate) fn run_access_show(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let session = list::show_access(&context.machine_of_state()?, &self.id, self.probe)?;
        if context.json {
            context.print_json(AccessShowResult { session })?;
        } else {
            output::print_text(&render_access_text(&session, context.now))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn render_access_text(one: &AccessView, now: Time) -> String {
    let mut page = FieldPage::new(Painter::for_stdout());
    let mut line = |name: &str, value: Option<String>| {
        page.push_field(name, &escape_untrusted(value.as_deref().unwrap_or_default()));
    };
    let when =
        |time: Option<Time>| time.map(|time| format!("{time} ({})", relative_time(now, time)));
    line("id", Some(one.id.clone()));
    line("state", Some(one.state.to_owned()));
    line("rule", one.reason.map(str::to_owned));
    line("note", one.note.clone());
    line("label", one.label.clone());
    line(
        "agent",
        one.agent
            .as_ref()
            .map(|agent| format!("{} ({}), pid {}", agent.presence, agent.reason, agent.pid)),
    );
    line("keeper", one.keeper.map(str::to_owned));
    line("created", when(one.created_at));
    line("expires", when(one.expires_at));
    line("stopped", when(one.stopped_at));
    line("socket", one.socket.clone());
    for key in &one.keys {
        line("key", Some(describe_key(key)));
    }
    line("only for", Some(one.destinations.join(", ")));
    line("confirm", one.confirm.then(|| "each use asks".to_owned()));
    line("read-only", one.read_only.then(|| "the borrower may not add keys".to_owned()));
    line(
        "lent to",
        one.session.as_ref().map(|bound| {
            format!("{}:{} (pid {}, {})", bound.agent, bound.id, bound.pid, bound.owner)
        }),
    );
    page.into_text()
}

fn describe_key(key: &KeyView) -> String {
    let comment = key.comment.as_deref().unwrap_or("");
    format!("{} {} {comment}", key.fingerprint, key.kind).trim_end().to_owned()
}
