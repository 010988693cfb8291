//! `ostler store ls`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use openclaw::store::{Listing, Selection, list};
use openclaw::wire::{StoreLsResult, StoreSession};

use crate::cli::Context;
use crate::cli::ls::report_incomplete;
use crate::error::{self, Error};
use crate::render::colour::{Colour, Paint};
use crate::render::table::{Cell, Column, Give, draw};
use crate::render::{duration, output, text};

/// List the sessions of OpenClaw's stores, the last changed first.
///
/// `changed` is when OpenClaw last wrote the entry, which is not when somebody last spoke.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    #[command(flatten)]
    which: super::Which,
    /// Only what was changed within so many minutes.
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..))]
    active: Option<u64>,
    /// How many: a number, or `all`.
    #[arg(long, value_name = "N|all", default_value = "100", value_parser = limit)]
    limit: Limit,
}

/// How many sessions are listed.
#[derive(Clone, Copy, Debug)]
enum Limit {
    All,
    Most(usize),
}

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "all" => Ok(Limit::All),
        text => match text.parse() {
            Ok(count) if count > 0 => Ok(Limit::Most(count)),
            _ => Err("a number above 0, or `all`".to_owned()),
        },
    }
}

const COLUMNS: [Column; 7] = [
    Column { head: "AGENT", give: Give::Drop(2), right: false },
    Column { head: "KIND", give: Give::Rigid, right: false },
    Column { head: "KEY", give: Give::Cut(26), right: false },
    Column { head: "CHANGED", give: Give::Rigid, right: true },
    Column { head: "MODEL", give: Give::Drop(3), right: false },
    Column { head: "TOKENS", give: Give::Drop(4), right: true },
    Column { head: "NOTES", give: Give::Cut(12), right: false },
];

impl Ls {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let config = super::configuration()?;
        let (places, skipped) = super::places(&config, &self.which.selection(Selection::All))?;
        let listing = Listing {
            main_key: &config.main_key,
            now: context.now,
            active_minutes: self.active,
            limit: match self.limit {
                Limit::All => None,
                Limit::Most(count) => Some(count),
            },
        };
        let result = list(&listing, &places, skipped).map_err(Error::Store)?;
        let code = error::exit_code_for(&result.incomplete);
        if context.json {
            context.answer(&result)?;
        } else {
            output::text(&words(&result))?;
            report_incomplete(&result.incomplete);
        }
        Ok(code)
    }
}

fn words(result: &StoreLsResult) -> String {
    if result.sessions.is_empty() {
        return "no sessions\n".to_owned();
    }
    let rows: Vec<Vec<Cell>> = result.sessions.iter().map(row).collect();
    let mut page = draw(&COLUMNS, &rows, output::columns(), Paint::for_stdout());
    if result.has_more {
        page.push_str(&format!(
            "{} of {}; `--limit all` lists the rest\n",
            result.count, result.total_count
        ));
    }
    page
}

fn row(one: &StoreSession) -> Vec<Cell> {
    let tokens = match (one.total_tokens, one.context_tokens) {
        (Some(total), Some(context)) if context > 0 => {
            format!("{} ({}%)", text::count(total), total.saturating_mul(100) / context)
        }
        (Some(total), _) => text::count(total),
        (None, _) => String::new(),
    };
    let mut notes: Vec<&str> = one.fault.into_iter().collect();
    notes.extend(one.status.as_deref().filter(|status| *status != "done"));
    notes.extend(one.aborted_last_run.then_some("aborted"));
    notes.extend(one.label.as_deref());
    let plain = |text: &str| (text::one_line(text), None);
    vec![
        plain(one.agent_id.as_deref().unwrap_or("")),
        (one.kind.to_owned(), Some(Colour::Dim)),
        plain(&one.key),
        (age(one.age_ms), None),
        plain(one.model.as_deref().unwrap_or("")),
        (tokens, None),
        plain(&notes.join(", ")),
    ]
}

/// How long ago something was changed, as a cell.
pub(super) fn age(millis: Option<u64>) -> String {
    match millis {
        Some(millis) => duration::age(Duration::from_millis(millis)),
        None => "unknown".to_owned(),
    }
}
