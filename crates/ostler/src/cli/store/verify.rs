//! `ostler store verify`

use std::process::ExitCode;

use clap::Args;
use openclaw::store::{Selection, verify};
use openclaw::wire::{StoreVerified, StoreVerifyResult};

use crate::cli::Context;
use crate::cli::ls::report_incomplete;
use crate::error::{self, Error};
use crate::render::{output, text};

/// Find what is wrong with stores, and what is left over in them.
///
/// Missing transcripts, transcripts without an entry, writes that did not finish, entries that are no
/// sessions, locks that nobody holds. Nothing is changed; each line says what can be done.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    which: super::Which,
}

impl Verify {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let config = super::configuration()?;
        let (places, skipped) = super::places(&config, &self.which.selection(Selection::All))?;
        let result = verify(&places, skipped).map_err(Error::Store)?;
        let sound = result.incomplete.is_empty() && result.stores.iter().all(|store| store.sound);
        if context.json {
            context.answer(&result)?;
        } else {
            output::text(&words(&result))?;
            report_incomplete(&result.incomplete);
        }
        Ok(if sound { ExitCode::SUCCESS } else { error::exit_code_of("INCOMPLETE") })
    }
}

/// How many findings of one kind are listed.
const SHOWN: usize = 10;

fn words(result: &StoreVerifyResult) -> String {
    let mut page = String::new();
    for store in &result.stores {
        page.push_str(&one(store));
    }
    if result.stores.is_empty() {
        page.push_str("no stores\n");
    }
    page
}

fn one(store: &StoreVerified) -> String {
    let head = format!(
        "{}: {} entries, {} files, {}",
        store.store.path,
        store.store.entries,
        store.files,
        text::bytes(store.bytes)
    );
    let mut page = text::one_line(&head) + if store.sound { "\n" } else { ", not sound\n" };
    let mut codes: Vec<&str> = store.findings.iter().map(|finding| finding.code).collect();
    codes.dedup();
    codes.sort_unstable();
    codes.dedup();
    for code in codes {
        let found: Vec<_> = store.findings.iter().filter(|finding| finding.code == code).collect();
        for finding in found.iter().take(SHOWN) {
            let line = format!("  {code}  {}: {}", finding.id, finding.reason);
            page.push_str(&text::one_line(&line));
            page.push('\n');
        }
        if found.len() > SHOWN {
            page.push_str(&format!("  {code}  and {} more\n", found.len() - SHOWN));
        }
        if let Some(first) = found.first() {
            page.push_str(&format!("    {}\n", text::one_line(&first.remedy)));
        }
    }
    page
}
