//! `ostler store verify`

use std::process::ExitCode;

use clap::Args;
use openclaw::store::{StoreSelection, verify_stores};
use openclaw::wire::{StoreVerified, StoreVerifyResult};

use crate::cli::CliContext;
use crate::cli::ls::report_incomplete;
use crate::error::{self, Error};
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(OpenClaw, 4),
    answers: &[answer::<openclaw_wire::StoreVerifyResult>()],
    examples: &[example("store verify", "What is wrong, and what is left over.")],
    cases: &[
        empty("store verify"),
        usual("store verify").on(Store),
        refused("store verify --agent nobody").on(Store),
        incomplete("store verify"),
        also("store verify")
    ],
    ..entry!("store verify", StoreVerifyArgs, run_store_verify)
}];

/// Find what is wrong with stores, and what is left over in them.
///
/// Missing transcripts, transcripts without an entry, writes that did not finish, entries that are no
/// sessions, locks that nobody holds. Nothing is changed; each line says what can be done.
#[derive(Debug, Args)]
pub(crate) struct StoreVerifyArgs {
    #[command(flatten)]
    which: super::StoreSelectionArgs,
}

impl StoreVerifyArgs {
    pub(crate) fn run_store_verify(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
        let config = super::load_openclaw_config(machine)?;
        let (places, skipped) =
            super::find_stores(&config, &self.which.store_selection(StoreSelection::All))?;
        let result = verify_stores(&places, skipped, machine).map_err(Error::Store)?;
        let sound = result.incomplete.is_empty() && result.stores.iter().all(|store| store.sound);
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_verify_text(&result))?;
            report_incomplete(&result.incomplete);
        }
        Ok(if sound { ExitCode::SUCCESS } else { error::exit_code_of("INCOMPLETE") })
    }
}

/// How many findings of one kind are listed.
const MAX_SHOWN_FINDINGS: usize = 10;

fn render_verify_text(result: &StoreVerifyResult) -> String {
    let mut page = String::new();
    for store in &result.stores {
        page.push_str(&render_store_text(store));
    }
    if result.stores.is_empty() {
        page.push_str("no stores\n");
    }
    page
}

fn render_store_text(store: &StoreVerified) -> String {
    let head = format!(
        "{}: {} entries, {} files, {}",
        store.store.path,
        store.store.entries,
        store.files,
        text::format_bytes(store.bytes)
    );
    let mut page = text::one_line(&head) + if store.sound { "\n" } else { ", not sound\n" };
    let mut codes: Vec<&str> = store.findings.iter().map(|finding| finding.code).collect();
    codes.dedup();
    codes.sort_unstable();
    codes.dedup();
    for code in codes {
        let found: Vec<_> = store.findings.iter().filter(|finding| finding.code == code).collect();
        for finding in found.iter().take(MAX_SHOWN_FINDINGS) {
            let line = format!("  {code}  {}: {}", finding.id, finding.reason);
            page.push_str(&text::one_line(&line));
            page.push('\n');
        }
        if found.len() > MAX_SHOWN_FINDINGS {
            page.push_str(&format!("  {code}  and {} more\n", found.len() - MAX_SHOWN_FINDINGS));
        }
        if let Some(first) = found.first() {
            page.push_str(&format!("    {}\n", text::one_line(&first.remedy)));
        }
    }
    page
}
