//! Whether a process is writing a transcript: OpenClaw's lock beside it, judged by the process that
//! it names. Moving a transcript takes that lock first, as OpenClaw would.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::rules::lock::{LockPayload, LockSight, LockVerdict, judge_lock};
use model::plan::Refusal;
use model::time::Time;
use sys::lockfile::{self, LockFile};
use sys::machine::Machine;

/// A lock is a hundred bytes.
const MAX_LOCK_BYTES: u64 = 64 << 10;

/// How often a lock that comes and goes is tried for.
const MAX_LOCK_TRIES: usize = 4;

/// A lock that is there.
#[derive(Debug, PartialEq, Eq)]
pub struct TranscriptLock {
    pub path: PathBuf,
    /// What it says.
    pub payload: LockPayload,
    /// What is to be made of it.
    pub verdict: LockVerdict,
    /// As it is written.
    bytes: Vec<u8>,
}

impl TranscriptLock {
    /// Whether the process that it names is there.
    pub fn is_held(&self) -> bool {
        self.verdict == LockVerdict::Held
    }

    /// Why the transcript must be left alone, if it must.
    pub fn refusal(&self) -> Option<String> {
        let who = match self.payload.pid {
            Some(pid) => format!("process {pid}"),
            None => "somebody".to_owned(),
        };
        match &self.verdict {
            LockVerdict::Free(_) => None,
            LockVerdict::Held => Some(format!("{} is held by {who}", self.path.display())),
            LockVerdict::Doubt(_) => Some(format!("{} may be held by {who}", self.path.display())),
        }
    }
}

/// Where a transcript's lock is: in its real directory, so that all ways to it share one.
pub fn path_for(transcript: &Path) -> PathBuf {
    let mut name = transcript.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let directory = transcript.parent().unwrap_or(Path::new("/"));
    std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned()).join(name)
}

/// The lock of a transcript, if there is one. One that cannot be read may be held.
pub fn find_lock(transcript: &Path, machine: &Machine) -> Option<TranscriptLock> {
    probe_lock(path_for(transcript), machine)
}

/// Takes the lock of a transcript. What a holder who is proven to be gone left behind is taken over.
pub fn take_lock(transcript: &Path, machine: &Machine) -> Result<LockFile, Refusal> {
    let path = path_for(transcript);
    let failed = |error: io::Error| reaper::io_refusal(&path, &error);
    let me = machine
        .identify_process(std::process::id())
        .map_err(|error| Refusal::Unproven { why: error.to_string() })?;
    let signed = LockPayload::signed_by(&me, machine.read_clock());
    for _ in 0..MAX_LOCK_TRIES {
        if let Some(lock) = lockfile::create_lock_file(&path, signed.as_bytes()).map_err(failed)? {
            return Ok(lock);
        }
        // It may have been let go of by now.
        let Some(there) = probe_lock(path.clone(), machine) else { continue };
        if let Some(who) = there.refusal() {
            return Err(Refusal::Busy { who });
        }
        let taken = lockfile::take_over(&path, &there.bytes, signed.as_bytes());
        if let Some(lock) = taken.map_err(failed)? {
            tracing::info!("the lock of a transcript was taken over from a process that is gone");
            return Ok(lock);
        }
    }
    Err(Refusal::Busy { who: format!("others, who take {} in turn", path.display()) })
}

/// Every lock in a directory of transcripts that is held or may be.
pub fn held_in(directory: &Path, machine: &Machine) -> io::Result<Vec<TranscriptLock>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut held = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".jsonl.lock") {
            held.extend(probe_lock(path, machine).filter(|lock| !lock.verdict.is_free()));
        }
    }
    held.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(held)
}

/// Lets go of every lock in a directory that a run of ours was killed over. A process that has taken one
/// meanwhile lets go of it itself.
pub fn let_go_in(directory: &Path, machine: &Machine) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let Some(transcript) = path.to_str().and_then(|path| path.strip_suffix(".lock")) else {
            continue;
        };
        let is_left = |lock: &TranscriptLock| lock.payload.ours && lock.verdict.is_free();
        if transcript.ends_with(".jsonl")
            && probe_lock(path.clone(), machine).is_some_and(|lock| is_left(&lock))
        {
            drop(take_lock(Path::new(transcript), machine));
        }
    }
}

fn probe_lock(path: PathBuf, machine: &Machine) -> Option<TranscriptLock> {
    let (bytes, modified) = match read_lock(&path) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(_) => {
            let (payload, verdict) = (LockPayload::default(), LockVerdict::Doubt(Vec::new()));
            return Some(TranscriptLock { path, payload, verdict, bytes: Vec::new() });
        }
    };
    let payload = LockPayload::parse(&bytes);
    let sight = LockSight {
        owner: machine.probe_process(&payload.holder_identity(modified)),
        own_pid: std::process::id(),
        modified,
        now: machine.read_clock(),
    };
    let verdict = judge_lock(&payload, &sight);
    Some(TranscriptLock { path, payload, verdict, bytes })
}

fn read_lock(path: &Path) -> io::Result<(Vec<u8>, Time)> {
    let metadata = std::fs::symlink_metadata(path)?;
    if !metadata.is_file() || metadata.len() > MAX_LOCK_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a lock"));
    }
    let modified = Time::from_secs_nanos(metadata.mtime(), metadata.mtime_nsec());
    Ok((std::fs::read(path)?, modified))
}

#[cfg(test)]
mod tests {
    fn machine() -> Machine {
        Machine::with_home("/nowhere".into())
    }

    use std::process::Command;
    use std::time::{Duration, SystemTime};

    use testkit::home::TempHome;

    use super::*;

    fn verdict(home: &TempHome, payload: &str) -> LockVerdict {
        home.write("a.jsonl.lock", payload);
        find_lock(&home.join("a.jsonl"), &machine()).unwrap().verdict
    }

    fn lock_of(pid: u32, start: Option<u64>) -> String {
        let created = sys::clock::now();
        serde_json::json!({ "pid": pid, "createdAt": created.to_string(), "starttime": start })
            .to_string()
    }

    #[test]
    fn row_70_locks_of_processes_that_are_gone_are_free() {
        let home = TempHome::new();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let start = sys::proc::identify_process(child.id()).unwrap().start;
        assert!(start.is_some());
        let recycled = start.map(|start| start - 1);
        assert!(verdict(&home, &lock_of(child.id(), recycled)).is_free(), "another process has it");
        assert_eq!(verdict(&home, &lock_of(child.id(), start)), LockVerdict::Held);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(verdict(&home, &lock_of(child.id(), start)).is_free(), "nobody has it");
        assert!(
            verdict(&home, &lock_of(std::process::id(), None)).is_free(),
            "it is not held here"
        );
    }

    #[test]
    fn row_71_a_lock_that_names_nobody_is_free_after_a_while() {
        let home = TempHome::new();
        assert!(!verdict(&home, "{}").is_free());
        let file = std::fs::File::options().write(true).open(home.join("a.jsonl.lock")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_mins(2)).unwrap();
        let lock = find_lock(&home.join("a.jsonl"), &machine()).unwrap();
        assert!(lock.verdict.is_free());
        assert_eq!(lock.refusal(), None);
    }

    #[test]
    fn row_72_a_lock_of_a_live_process_keeps_its_transcript() {
        let home = TempHome::new();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let start = sys::proc::identify_process(child.id()).unwrap().start;
        home.write("b.jsonl.lock", lock_of(child.id(), start));
        home.write("c.jsonl.lock", lock_of(child.id(), start.map(|start| start - 1)));
        home.write("d.jsonl", "{}");
        let held = held_in(home.path(), &machine()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let [lock] = &held[..] else { panic!("{held:?}") };
        assert_eq!(lock.path.file_name().unwrap(), "b.jsonl.lock");
        let refusal = lock.refusal().unwrap();
        assert!(refusal.contains(&format!("held by process {}", child.id())), "{refusal}");
    }

    #[test]
    fn row_73_all_ways_to_a_transcript_share_one_lock() {
        let home = TempHome::new();
        home.directory("real");
        home.link("alias", home.join("real"));
        let path = path_for(&home.join("alias/x.jsonl"));
        assert_eq!(path, path_for(&home.join("real/x.jsonl")));
        home.write("real/x.jsonl.lock", "{}");
        assert!(find_lock(&home.join("alias/x.jsonl"), &machine()).is_some());
    }

    #[test]
    fn row_70_a_lock_is_taken_from_whoever_is_gone_and_from_nobody_else() {
        let home = TempHome::new();
        let machine = machine();
        let (transcript, lock) = (home.join("a.jsonl"), home.join("a.jsonl.lock"));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let left = lock_of(child.id(), sys::proc::identify_process(child.id()).unwrap().start);
        home.write("a.jsonl.lock", &left);
        assert!(matches!(take_lock(&transcript, &machine), Err(Refusal::Busy { .. })));
        assert_eq!(std::fs::read_to_string(&lock).unwrap(), left);
        child.kill().unwrap();
        child.wait().unwrap();
        let held = take_lock(&transcript, &machine).unwrap();
        let payload = LockPayload::parse(&std::fs::read(&lock).unwrap());
        assert!(payload.ours && payload.pid == Some(std::process::id()), "{payload:?}");
        drop(held);
        assert!(!lock.exists());
        home.write("a.jsonl.lock", "{}");
        assert!(matches!(take_lock(&transcript, &machine), Err(Refusal::Busy { .. })), "row 71");
    }

    #[test]
    fn what_is_no_lock_may_be_one() {
        let home = TempHome::new();
        home.link("a.jsonl.lock", "/etc/passwd");
        let lock = find_lock(&home.join("a.jsonl"), &machine()).unwrap();
        assert_eq!(lock.verdict, LockVerdict::Doubt(Vec::new()));
        assert!(held_in(&home.join("nowhere"), &machine()).unwrap().is_empty());
    }
}
