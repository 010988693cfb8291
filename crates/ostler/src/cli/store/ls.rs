//! `ostler store ls`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use openclaw::store::{StoreListing, StoreSelection, list_stores};
use openclaw::wire::{StoreLsResult, StoreSession};

use crate::cli::CliContext;
use crate::cli::ls::report_incomplete;
use crate::error::{self, Error};
use crate::render::colour::{Colour, Painter};
use crate::render::table::{ColumnGive, TableCell, TableColumn, render_table};
use crate::render::{duration, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(OpenClaw, 1),
    answers: &[answer::<openclaw_wire::StoreLsResult>()],
    examples: &[
        example("store ls --limit 20", "The sessions of the store, last changed first.").on(Store)
    ],
    cases: &[
        empty("store ls"),
        usual("store ls").on(Store),
        refused("store ls --agent nobody").on(Store),
        incomplete("store ls --all-agents"),
        also("store ls"),
        also("store ls --limit all")
    ],
    ..entry!("store ls", StoreLsArgs, run_store_ls)
}];

/// List the sessions of OpenClaw's stores, the last changed first.
///
/// `changed` is when OpenClaw last wrote the entry, which is not when the last message came.
#[derive(Debug, Args)]
pub(crate) struct StoreLsArgs {
    #[command(flatten)]
    which: super::StoreSelectionArgs,
    /// Only what was changed within so many minutes.
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..))]
    active: Option<u64>,
    /// How many: a number, or `all`.
    #[arg(long, value_name = "N|all", default_value = "100", value_parser = parse_limit)]
    limit: ListLimit,
}

/// How many sessions are listed.
#[derive(Clone, Copy, Debug)]
enum ListLimit {
    All,
    Most(usize),
}

fn parse_limit(text: &str) -> Result<ListLimit, String> {
    match text {
        "all" => Ok(ListLimit::All),
        text => match text.parse() {
            Ok(count) if count > 0 => Ok(ListLimit::Most(count)),
            _ => Err("a number above 0, or `all`".to_owned()),
        },
    }
}

const SESSION_COLUMNS: [TableColumn; 7] = [
    TableColumn { head: "AGENT", give: ColumnGive::Drop(2), right: false },
    TableColumn { head: "KIND", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "KEY", give: ColumnGive::Cut(26), right: false },
    TableColumn { head: "CHANGED", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "MODEL", give: ColumnGive::Drop(3), right: false },
    TableColumn { head: "TOKENS", give: ColumnGive::Drop(4), right: true },
    TableColumn { head: "NOTES", give: ColumnGive::Cut(12), right: false },
];

impl StoreLsArgs {
    pub(crate) fn run_store_ls(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let config = super::load_openclaw_config(context.machine()?)?;
        let (places, skipped) =
            super::find_stores(&config, &self.which.store_selection(StoreSelection::All))?;
        let listing = StoreListing {
            main_key: &config.main_key,
            now: context.now,
            active_minutes: self.active,
            limit: match self.limit {
                ListLimit::All => None,
                ListLimit::Most(count) => Some(count),
            },
        };
        let result = list_stores(&listing, &places, skipped).map_err(Error::Store)?;
        let code = error::exit_code_for(&result.incomplete);
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_sessions_text(&result))?;
            report_incomplete(&result.incomplete);
        }
        Ok(code)
    }
}

fn render_sessions_text(result: &StoreLsResult) -> String {
    if result.sessions.is_empty() {
        return "no sessions\n".to_owned();
    }
    let rows: Vec<Vec<TableCell>> = result.sessions.iter().map(session_row).collect();
    let mut page =
        render_table(&SESSION_COLUMNS, &rows, output::output_columns(), Painter::for_stdout());
    if result.has_more {
        page.push_str(&format!(
            "{} of {}; `--limit all` lists the rest\n",
            result.count, result.total_count
        ));
    }
    page
}

fn session_row(one: &StoreSession) -> Vec<TableCell> {
    let tokens = match (one.total_tokens, one.context_tokens) {
        (Some(total), Some(context)) if context > 0 => {
            format!("{} ({}%)", text::format_count(total), total.saturating_mul(100) / context)
        }
        (Some(total), _) => text::format_count(total),
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
        (age_cell(one.age_ms), None),
        plain(one.model.as_deref().unwrap_or("")),
        (tokens, None),
        plain(&notes.join(", ")),
    ]
}

/// How long ago something was changed, as a cell.
pub(super) fn age_cell(millis: Option<u64>) -> String {
    match millis {
        Some(millis) => duration::short_age(Duration::from_millis(millis)),
        None => "unknown".to_owned(),
    }
}
