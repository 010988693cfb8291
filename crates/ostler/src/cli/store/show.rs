//! `ostler store show`

use std::process::ExitCode;

use clap::Args;
use openclaw::store::{StoreSelection, read_policy, show_session};
use openclaw::wire::StoreShowResult;

use super::ls::age_cell;
use crate::cli::CliContext;
use crate::error::Error;
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(OpenClaw, 2),
    answers: &[answer::<openclaw_wire::StoreShowResult>()],
    examples: &[example(
        "store show agent:main:direct:u",
        "One entry, its files, and what a cleanup would do."
    )
    .on(Store)],
    cases: &[
        empty("store show nothing"),
        usual("store show agent:main:direct:u").on(Store),
        refused("store show nothing").on(Store)
    ],
    uncased: &[ONE_FILE],
    ..entry!("store show", StoreShowArgs, run_store_show)
}];

/// Show one session of a store: its entry, its files, and what a cleanup would do with it.
#[derive(Debug, Args)]
pub(crate) struct StoreShowArgs {
    /// The session's key or id, or an unambiguous beginning.
    key: String,
    #[command(flatten)]
    which: super::StoreSelectionArgs,
}

impl StoreShowArgs {
    pub(crate) fn run_store_show(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
        let config = super::load_openclaw_config(machine)?;
        let policy = read_policy(&config).map_err(Error::Store)?;
        let (places, _) =
            super::find_stores(&config, &self.which.store_selection(StoreSelection::All))?;
        let ask = super::plain_request(StoreSelection::All);
        let pins = store::state::read_pins(machine.home());
        let cleanup = ask.cleanup_request(&config, &policy, &pins, machine);
        let result = show_session(&cleanup, &places, &self.key).map_err(Error::Store)?;
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_session_text(&result))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn render_session_text(result: &StoreShowResult) -> String {
    let one = &result.session;
    let mut page = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            page.push_str(&format!("{name:11} {}\n", text::one_line(value)));
        }
    };
    line("key", &one.key);
    line("kind", one.kind);
    line("agent", one.agent_id.as_deref().unwrap_or(""));
    line("session", one.session_id.as_deref().unwrap_or(""));
    line("label", one.label.as_deref().unwrap_or(""));
    line("changed", &age_cell(one.age_ms));
    line("status", one.status.as_deref().unwrap_or(""));
    line("model", one.model.as_deref().unwrap_or(""));
    line("spawned by", one.spawned_by.as_deref().unwrap_or(""));
    line("fault", one.fault.unwrap_or(""));
    line("store", &one.store);
    line("transcript", result.transcript);
    for file in &result.files {
        line(file.kind, &format!("{} ({})", file.path, text::format_bytes(file.bytes)));
    }
    line("cleanup", &format!("{}: {}", result.action, result.reason));
    page
}
