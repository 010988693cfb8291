//! Somebody makes a thing anew right after a kill, where one has just gone: a file system gives the number of what is
//! gone to what is new, so that recovery may take the one for the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::Value;

use super::{Numbers, Written, create};

/// Makes everything anew that the newest receipt speaks of and that is not in its place. Gives how many.
pub(super) fn make_what_went(
    trash: &Path,
    numbers: &mut Numbers,
    written: &Mutex<Written>,
) -> usize {
    let listed = fs::read_dir(trash).into_iter().flatten().flatten();
    let Some(newest) = listed.map(|entry| entry.path()).max() else { return 0 };
    let journal = fs::read_to_string(newest.join("journal.jsonl")).unwrap_or_default();
    let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let begun = lines.filter(|line| line["line"] == "begin" && line["action"] == "trash");
    let mut made = 0;
    for path in begun.filter_map(|line| line["path"].as_str().map(PathBuf::from)) {
        let token = format!("token-{:x}-again", numbers.next());
        let is_tree = path.extension().is_none();
        // Another writer may be quicker, and its directory is as good.
        let (at, ready) = match is_tree {
            true => (path.join(format!("{token}.log")), fs::create_dir(&path)),
            false => (path.clone(), Ok(())),
        };
        if ready.and_then(|()| create(&at, &token)).is_err() {
            continue;
        }
        made += 1;
        if let Ok(mut written) = written.lock() {
            written.tokens.insert(token, at);
        }
    }
    made
}

/// Copies that nobody needs any more, by what `trash ls` says.
pub(super) fn spare_copies(listed: &str) -> Vec<PathBuf> {
    let envelope: Value = serde_json::from_str(listed).unwrap_or_default();
    let receipts = envelope["result"]["receipts"].as_array().cloned().unwrap_or_default();
    let items = receipts.iter().filter_map(|receipt| receipt["items"].as_array()).flatten();
    items.filter_map(|item| item["spareCopy"].as_str().map(PathBuf::from)).collect()
}
