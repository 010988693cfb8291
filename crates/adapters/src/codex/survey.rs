//! Where Codex keeps threads: rollouts, plain or packed, the locks of their writers, and their names.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use model::sighting::{
    ProcessRegistration, RegistrationProof, RegistrationScope, TranscriptDigest,
};

use super::{COMPRESSED, PLAIN};
use crate::files::EntryKind;
use crate::skim::JsonValue;
use crate::{ExtraFileKind, Survey, files};

pub(super) fn survey_locks(survey: &mut Survey, directory: &Path) {
    for entry in survey.list_wanted(directory, |name| name.ends_with(".lock")) {
        // `.coordination.lock` guards the directory, not a thread.
        let thread = entry.strip_suffix(".lock").filter(|thread| !thread.starts_with('.'));
        if let (EntryKind::File, Some(thread)) = (entry.kind, thread) {
            survey.registrations.push(ProcessRegistration {
                scope: RegistrationScope::Session(thread.to_owned()),
                proof: RegistrationProof::Lock(entry.stamp),
                source: directory.join(&entry.name),
                activity: None,
                waiting_for: None,
                digest: TranscriptDigest::default(),
            });
        }
    }
}

/// Rollouts lie three directories deep (year, month, day), archived ones directly.
pub(super) fn survey_rollouts(survey: &mut Survey, directory: &Path, depth: usize) {
    let wanted = |name: &str| depth > 0 || name.starts_with("rollout-");
    let entries = survey.list_wanted(directory, wanted);
    // While a rollout is being packed or unpacked both forms are there; the agent reads the plain.
    let plain: HashSet<String> = entries
        .iter()
        .filter_map(|entry| entry.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    for entry in entries {
        let path = directory.join(&entry.name);
        match entry.kind {
            EntryKind::Directory if depth > 0 => survey_rollouts(survey, &path, depth - 1),
            EntryKind::File => {
                let packed = entry.strip_suffix(".jsonl.zst");
                let Some(stem) = packed.or_else(|| entry.strip_suffix(".jsonl")) else {
                    continue;
                };
                let Some(thread) = thread_of(stem) else {
                    continue;
                };
                let superseded = packed.is_some_and(|stem| plain.contains(stem));
                if superseded {
                    survey.note_extra(
                        ExtraFileKind::Temporary,
                        &entry,
                        path,
                        Some(thread.to_owned()),
                    );
                    continue;
                }
                let format = if packed.is_some() { COMPRESSED } else { PLAIN };
                survey.note_file(thread, path, entry.stamp, format);
            }
            _ => {}
        }
    }
}

/// The thread in `rollout-<time>-<uuid>`.
pub(super) fn thread_of(stem: &str) -> Option<&str> {
    let rest = stem.strip_prefix("rollout-")?;
    let thread = rest.get(rest.len().checked_sub(36)?..)?;
    thread.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-').then_some(thread)
}

/// The names that people or the agent gave to threads; the last one counts.
pub(super) fn read_names(survey: &mut Survey, index: &Path) -> HashMap<String, String> {
    let mut names = HashMap::new();
    let read = files::open_file(&survey.root_path(), index).and_then(|(file, stamp)| {
        files::each_line(file, stamp.bytes, 0, |line| {
            let line = JsonValue::new(line);
            let text = |field| line.get(field).and_then(JsonValue::to_owned_string);
            if let (Some(id), Some(name)) = (text("id"), text("thread_name")) {
                names.insert(id, name);
            }
        })
    });
    if let Err(error) = read {
        survey.note_problem(index, &error);
    }
    names
}
