//! Going on with a deletion that was not finished. The agent is not in the configuration any more:
//! what it was stands in the file that went to the trash when it was taken out.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use model::plan::RemovableKind;
use model::time::Time;
use sys::dropped::NoteDropped;
use sys::machine::Machine;

use super::plan::journal_command;
use crate::config::OpenClawConfig;
use reaper::{JournalAction, Receipt, StepState};

/// What earlier attempts have done.
#[derive(Debug)]
pub struct EarlierDeletion {
    /// The first of them.
    pub receipt: String,
    /// When that was. What has come into being since is something else.
    pub at: Time,
    /// What they have moved away.
    pub(super) done: HashSet<PathBuf>,
}

/// The configuration as it was before the agent was taken out of it, and what was done then.
pub(super) fn find_earlier_deletion(
    config: &OpenClawConfig,
    id: &str,
    machine: &Machine,
) -> Option<(OpenClawConfig, EarlierDeletion)> {
    let (home, command) = (machine.home(), journal_command(id));
    let mut done = HashSet::new();
    // The newest first: attempts that only went on with it come before the one that began it.
    for listed in
        reaper::list_receipts(home).0.into_iter().filter(|receipt| receipt.command == command)
    {
        let Ok(receipt) = reaper::read_receipt(home, &listed.receipt) else { continue };
        for step in receipt.steps.iter().filter(|step| step.state == StepState::Done) {
            done.insert(step.begun.path.0.clone());
        }
        if let Some(before) = configuration_before(home, &receipt, config) {
            let before = OpenClawConfig::with_bytes(&machine.env(), before)
                .ok_or_note("the configuration before a deletion")?;
            let earlier = EarlierDeletion { receipt: receipt.id, at: receipt.at, done };
            return before.has_agent(id).then_some((before, earlier));
        }
    }
    None
}

/// The bytes of the configuration that a run has replaced, if they are still what they were. A run that
/// was killed after it replaced them, and before it wrote that down, has replaced them too.
fn configuration_before(
    home: &Path,
    receipt: &Receipt,
    config: &OpenClawConfig,
) -> Option<Vec<u8>> {
    let now = config.bytes.as_deref().map(sys::hash::sha256);
    receipt.steps.iter().find_map(|step| {
        let begun = &step.begun;
        if begun.kind != RemovableKind::Configuration || begun.path.0 != config.path {
            return None;
        }
        let JournalAction::Replace { before: Some(before), after } = &begun.action else {
            return None;
        };
        let replaced = match step.state {
            StepState::Done => true,
            StepState::Begun => now.as_ref() == Some(after),
            _ => false,
        };
        let bytes = std::fs::read(reaper::slot_content(home, &receipt.id, begun))
            .ok_or_note("the configuration in the trash")?;
        (replaced && sys::hash::sha256(&bytes) == *before).then_some(bytes)
    })
}
