//! Going on with a deletion that was not finished. The agent is not in the configuration any more:
//! what it was stands in the file that went to the trash when it was taken out.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use adapters::Env;
use model::plan::Kind;
use model::time::Time;

use super::plan::command;
use crate::config::Config;
use reaper::{Action, Receipt, State};

/// What earlier attempts have done.
#[derive(Debug)]
pub struct Earlier {
    /// The first of them.
    pub receipt: String,
    /// When that was. What has come into being since is something else.
    pub at: Time,
    /// What they have moved away.
    pub(super) done: HashSet<PathBuf>,
}

/// The configuration as it was before the agent was taken out of it, and what was done then.
pub(super) fn earlier(
    home: &Path,
    config: &Config,
    id: &str,
    env: &Env<'_>,
) -> Option<(Config, Earlier)> {
    let command = command(id);
    let mut done = HashSet::new();
    // The newest first: attempts that only went on with it come before the one that began it.
    for listed in reaper::list(home).0.into_iter().filter(|receipt| receipt.command == command) {
        let Ok(receipt) = reaper::read_receipt(home, &listed.receipt) else { continue };
        for step in receipt.steps.iter().filter(|step| step.state == State::Done) {
            done.insert(step.begun.path.0.clone());
        }
        if let Some(before) = configuration_before(home, &receipt, config) {
            let before = Config::with_bytes(env, before).ok()?;
            let earlier = Earlier { receipt: receipt.id, at: receipt.at, done };
            return before.has(id).then_some((before, earlier));
        }
    }
    None
}

/// The bytes of the configuration that a run has replaced, if they are still what they were. A run that
/// was killed after it replaced them, and before it wrote that down, has replaced them too.
fn configuration_before(home: &Path, receipt: &Receipt, config: &Config) -> Option<Vec<u8>> {
    let now = config.bytes.as_deref().map(sys::hash::sha256);
    receipt.steps.iter().find_map(|step| {
        let begun = &step.begun;
        if begun.kind != Kind::Configuration || begun.path.0 != config.path {
            return None;
        }
        let Action::Replace { before: Some(before), after } = &begun.action else { return None };
        let replaced = match step.state {
            State::Done => true,
            State::Begun => now.as_ref() == Some(after),
            _ => false,
        };
        let bytes = std::fs::read(reaper::content(home, &receipt.id, begun)).ok()?;
        (replaced && sys::hash::sha256(&bytes) == *before).then_some(bytes)
    })
}
