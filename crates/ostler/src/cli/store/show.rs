//! `ostler store show`

use std::process::ExitCode;

use clap::Args;
use openclaw::store::{Selection, policy, show};
use openclaw::wire::StoreShowResult;

use super::ls::age;
use crate::cli::Context;
use crate::error::Error;
use crate::render::{output, text};

/// Show one session of a store: its entry, its files, and what a cleanup would do with it.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The session's key or id, or an unambiguous beginning.
    key: String,
    #[command(flatten)]
    which: super::Which,
}

impl Show {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let config = super::configuration()?;
        let policy = policy(&config).map_err(Error::Store)?;
        let (places, _) = super::places(&config, &self.which.selection(Selection::All))?;
        let ask = super::plain(Selection::All);
        let pins = store::state::read_pins(&context.dirs()?.home);
        let cleanup = ask.cleanup(&config, &policy, &pins, context.now);
        let result = show(&cleanup, &places, &self.key).map_err(Error::Store)?;
        if context.json {
            context.answer(&result)?;
        } else {
            output::text(&words(&result))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn words(result: &StoreShowResult) -> String {
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
    line("changed", &age(one.age_ms));
    line("status", one.status.as_deref().unwrap_or(""));
    line("model", one.model.as_deref().unwrap_or(""));
    line("spawned by", one.spawned_by.as_deref().unwrap_or(""));
    line("fault", one.fault.unwrap_or(""));
    line("store", &one.store);
    line("transcript", result.transcript);
    for file in &result.files {
        line(file.kind, &format!("{} ({})", file.path, text::bytes(file.bytes)));
    }
    line("cleanup", &format!("{}: {}", result.action, result.reason));
    page
}
