//! OpenClaw's part of the ground: a store with entries that are due, and a writer that goes on with its
//! index and its transcripts.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Numbers, Written, append_existing, make_old};
use crate::home::TempHome;

/// The store that `store cleanup` is asked about.
const STORE: &str = ".openclaw/agents/ops/sessions";

/// How many of its own entries the writer keeps; the policy has a limit, too.
const KEPT_ENTRIES: usize = 60;

/// How many entries are due at once.
const DUE_ENTRIES: usize = 6;

/// How old an entry is that is due: more than the thirty days of the policy.
const DUE_AGE_MS: u64 = 40 * 86_400_000;

/// The agent `ops`, and no gateway.
pub(super) fn set_up(home: &TempHome) {
    let config = json!({
        "gateway": { "port": crate::gateway::closed_port() },
        "agents": { "list": [{ "id": "main" }, { "id": "ops" }] },
        "session": { "maintenance": { "mode": "enforce" } },
    });
    home.write(".openclaw/openclaw.json", config.to_string());
    home.write(format!("{STORE}/sessions.json"), "{}");
}

/// Sees to it that entries are due, with their transcripts. It is the index's writer who calls this, as
/// no other process adds to the index.
fn add_due(root: &Path, index: &mut Value, name: &str) -> io::Result<()> {
    let Some(entries) = index.as_object_mut() else { return Ok(()) };
    let is_due = |key: &String| key.contains(":due-");
    if entries.keys().filter(|key| is_due(key)).count() >= DUE_ENTRIES {
        return Ok(());
    }
    let id = format!("due-{name}");
    let transcript = root.join(STORE).join(format!("{id}.jsonl"));
    let header = json!({ "type": "session", "version": 3, "id": id, "cwd": "/somewhere" });
    let message = json!({ "type": "message", "message": { "role": "user", "content": "hello" } });
    // It appears whole: what another writer appends to an empty file would be written over by its beginning.
    let whole = root.join("being-written").join(&id);
    fs::create_dir_all(whole.with_file_name(""))?;
    fs::write(&whole, format!("{header}\n{message}\n"))?;
    make_old(&whole);
    fs::rename(&whole, &transcript)?;
    let updated_at = now_ms() - DUE_AGE_MS;
    let entry = json!({ "sessionId": id, "updatedAt": updated_at,
        "sessionFile": format!("{id}.jsonl") });
    entries.insert(format!("agent:ops:direct:{id}"), entry);
    Ok(())
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The one process that writes to the index, as OpenClaw does: it reads what is there, adds to it, and puts a
/// new file in its place.
pub(super) fn write_index(root: &Path, seed: u64, stop: &AtomicBool, written: &Mutex<Written>) {
    let mut numbers = Numbers(seed.max(1));
    let mut own: VecDeque<String> = VecDeque::new();
    let mut serial = 0;
    while !stop.load(Ordering::Relaxed) {
        serial += 1;
        let token = format!("token-{seed:x}-index-{serial}");
        let index = root.join(STORE).join("sessions.json");
        let saved = read_own(&index, own.back()).and_then(|mut entries| {
            // The numbers of all writers are one sequence, begun at different places: only with the
            // seed in it is a name used once.
            add_due(root, &mut entries, &format!("{seed:x}-{serial}"))?;
            let added = json!({ "sessionId": token, "updatedAt": now_ms() });
            entries[format!("agent:ops:direct:{token}")] = added;
            let forgotten = (own.len() >= KEPT_ENTRIES).then(|| own.pop_front()).flatten();
            if let (Some(forgotten), Some(entries)) = (&forgotten, entries.as_object_mut()) {
                // Its writer takes it out: that is no loss.
                entries.remove(&format!("agent:ops:direct:{forgotten}"));
                written.lock().unwrap().tokens.remove(forgotten);
            }
            let beside = index.with_file_name(format!("sessions.json.{serial}.writing"));
            fs::write(&beside, format!("{entries:#}\n"))?;
            fs::rename(&beside, &index)
        });
        match saved {
            Err(_) => written.lock().unwrap().failed += 1,
            Ok(()) => {
                written.lock().unwrap().tokens.insert(token.clone(), index);
                own.push_back(token);
            }
        }
        // Now and then twice at once, which lands in the middle of what ostler does to the first; and now
        // and then not for so long that a cleanup comes to its end.
        let rest = match numbers.below(4) {
            0 => 0,
            1 | 2 => 5 + numbers.below(30),
            _ => 200 + numbers.below(800),
        };
        std::thread::sleep(Duration::from_millis(rest as u64));
    }
}

/// The index, with the last entry of this writer in it. While ostler takes back what it has exchanged, it may
/// be missing for a moment.
fn read_own(index: &Path, last: Option<&String>) -> io::Result<Value> {
    let mut tries = 0;
    loop {
        tries += 1;
        let text = fs::read_to_string(index)?;
        let entries: Value = serde_json::from_str(&text)?;
        let known = last.is_none_or(|last| text.contains(last.as_str()));
        if known || tries == 50 {
            return Ok(entries);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Goes on with any conversation of the store, whether or not it is due.
pub(super) fn append_to_some(root: &Path, numbers: &mut Numbers, token: &str) -> Option<PathBuf> {
    let listed = fs::read_dir(root.join(STORE)).ok()?.flatten();
    let listed: Vec<PathBuf> =
        listed.map(|entry| entry.path()).filter(|path| is_transcript(path)).collect();
    let path = listed.get(numbers.below(listed.len().max(1)))?.clone();
    append_existing(&path, token).ok()?;
    Some(path)
}

/// How many transcripts of the store ostler has archived, and not brought back.
pub(super) fn count_archived(root: &Path) -> usize {
    let listed = fs::read_dir(root.join(STORE)).into_iter().flatten().flatten();
    listed.filter(|entry| entry.file_name().to_string_lossy().contains(".jsonl.deleted.")).count()
}

fn is_transcript(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("due-") && name.ends_with(".jsonl")
}
