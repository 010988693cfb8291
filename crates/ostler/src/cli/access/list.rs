//! `ostler access list` and `ostler access show`

use std::fmt::Write;
use std::process::ExitCode;

use access::rules::escape;
use access::wire::{AccessListResult, AccessShowResult, AccessView, KeyView};
use access::{World, list};
use clap::Args;
use clap_complete::ArgValueCandidates;
use model::time::Time;

use crate::cli::{Context, complete};
use crate::error::Error;
use crate::render::colour::{Colour, Paint};
use crate::render::table::{Cell, Column, Give, draw};
use crate::render::{duration, output};

/// List access sessions: their state, whether their agent is there, their keys.
///
/// Reads only. An entry that breaks a rule is listed as unknown, with the rule's code.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Connect to each session's socket too (nothing is sent).
    #[arg(long)]
    probe: bool,
}

const COLUMNS: [Column; 7] = [
    Column { head: "ID", give: Give::Rigid, right: false },
    Column { head: "STATE", give: Give::Rigid, right: false },
    Column { head: "AGENT", give: Give::Rigid, right: false },
    Column { head: "CREATED", give: Give::Rigid, right: false },
    Column { head: "EXPIRES", give: Give::Rigid, right: false },
    Column { head: "LABEL", give: Give::Cut(8), right: false },
    Column { head: "KEYS", give: Give::Cut(20), right: false },
];

impl List {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let sessions = list::list(&context.home()?, &World::here(), self.probe)
            .map_err(access::AccessError::from)?;
        if context.json {
            context.answer(AccessListResult { sessions })?;
            return Ok(ExitCode::SUCCESS);
        }
        if sessions.is_empty() {
            output::text("No access sessions.\n")?;
            return Ok(ExitCode::SUCCESS);
        }
        let rows: Vec<Vec<Cell>> = sessions.iter().map(|one| row(one, context.now)).collect();
        output::text(&draw(&COLUMNS, &rows, output::columns(), Paint::for_stdout()))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn row(one: &AccessView, now: Time) -> Vec<Cell> {
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
        (Some(label), _) => escape(label),
        (None, note) => escape(note.as_deref().unwrap_or("")),
    };
    let ago = |time: Option<Time>| time.map(|time| spoken(now, time)).unwrap_or_default();
    let keys: Vec<String> = one.keys.iter().map(|key| escape(&key.fingerprint)).collect();
    vec![
        (escape(&one.id), Some(Colour::Cyan)),
        (one.state.to_owned(), Some(colour)),
        (agent, None),
        (ago(one.created_at), None),
        (ago(one.expires_at), None),
        (label, None),
        (keys.join(" "), Some(Colour::Dim)),
    ]
}

/// A time as people think of it, from now.
fn spoken(now: Time, time: Time) -> String {
    if time > now {
        format!("in {}", duration::age(time.since(now)))
    } else {
        duration::ago(now.since(time))
    }
}

/// Show one access session in full.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The access session: an id or an unambiguous prefix.
    #[arg(add = ArgValueCandidates::new(complete::access_sessions))]
    id: String,
    /// Connect to its socket too (nothing is sent).
    #[arg(long)]
    probe: bool,
}

impl Show {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let session = list::show(&context.home()?, &World::here(), &self.id, self.probe)?;
        if context.json {
            context.answer(AccessShowResult { session })?;
        } else {
            output::text(&details(&session, context.now))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn details(one: &AccessView, now: Time) -> String {
    let paint = Paint::for_stdout();
    let mut out = String::new();
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let name = paint.paint(Colour::Dim, &format!("{name:>12}"));
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{name}  {}", escape(&value));
        }
    };
    let when = |time: Option<Time>| time.map(|time| format!("{time} ({})", spoken(now, time)));
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
        line("key", Some(key_words(key)));
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
    out
}

fn key_words(key: &KeyView) -> String {
    let comment = key.comment.as_deref().unwrap_or("");
    format!("{} {} {comment}", key.fingerprint, key.kind).trim_end().to_owned()
}
