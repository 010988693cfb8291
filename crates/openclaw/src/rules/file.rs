//! What the names of the files beside an index mean.

use std::time::Duration;

use crate::rules::key::{is_session_id, is_uuid};
use model::time::Time;

/// A temporary file that is older than this was left behind by a write that did not finish.
pub const TEMPORARY_FILE_GRACE: Duration = Duration::from_secs(5 * 60);

/// The directory of prompts that entries refer to by their hash.
pub const PROMPT_BLOBS_DIR: &str = "skills-prompts/sha256";

/// One file of a store's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreDirFile {
    /// Its path from the directory.
    pub name: String,
    pub bytes: u64,
    /// When its content last changed.
    pub modified: Time,
    /// What it is.
    pub kind: StoreFileKind,
    /// Whether it is held, or may be: it is left alone.
    pub held: bool,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreFileKind {
    /// The index itself.
    Store,
    Transcript,
    /// A transcript or index that was put away.
    Archive(ArchiveReason, Option<Time>),
    /// A copy from before a compaction; of which session.
    Checkpoint(String),
    /// What an agent did, beside its transcript; of which session.
    Sidecar(String),
    /// A write of the index that did not finish.
    Temporary,
    /// A transcript's lock.
    Lock,
    /// A prompt that entries refer to; its hash.
    Blob(String),
    /// Anything else: counted, never touched.
    Other,
}

/// Whether a name is that of another session's transcript.
pub fn is_anothers_transcript(name: &str, session: &str) -> bool {
    let other = name.strip_suffix(".jsonl").filter(|other| is_uuid(other));
    other.is_some_and(|other| !other.eq_ignore_ascii_case(session))
}

/// Why something was put away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArchiveReason {
    /// The session began anew.
    Reset,
    /// Its entry was removed.
    Deleted,
    /// A copy from before a change.
    Backup,
}

impl StoreFileKind {
    /// What the file `name` is, in the directory of an index called `store`.
    pub fn from_name(name: &str, store: &str) -> Self {
        if name == store {
            return Self::Store;
        }
        if let Some(rest) = name.strip_prefix(store).and_then(|rest| rest.strip_prefix('.')) {
            if let Some(middle) = rest.strip_suffix(".tmp") {
                let unique = middle.rsplit('.').next().unwrap_or(middle);
                return if is_uuid(unique) { Self::Temporary } else { Self::Other };
            }
            if let Some(digits) = rest.strip_prefix("bak.")
                && !digits.is_empty()
                && digits.bytes().all(|byte| byte.is_ascii_digit())
            {
                return Self::Archive(ArchiveReason::Backup, None);
            }
        }
        if is_our_temporary(name, store) {
            return Self::Temporary;
        }
        if let Some((reason, at)) = parse_archive_name(name) {
            return Self::Archive(reason, Some(at));
        }
        if let Some(hash) = blob_hash(name) {
            return Self::Blob(hash.to_owned());
        }
        if name.contains('/') {
            return Self::Other;
        }
        for suffix in [".trajectory.jsonl", ".trajectory-path.json"] {
            if let Some(session) = name.strip_suffix(suffix) {
                return Self::Sidecar(session.to_owned());
            }
        }
        if name.ends_with(".jsonl.lock") {
            return Self::Lock;
        }
        let Some(stem) = name.strip_suffix(".jsonl") else { return Self::Other };
        match stem.rsplit_once(".checkpoint.") {
            Some((session, uuid)) if is_uuid(uuid) => Self::Checkpoint(session.to_owned()),
            _ => Self::Transcript,
        }
    }

    /// The word for programs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Transcript => "transcript",
            Self::Archive(..) => "archive",
            Self::Checkpoint(_) => "checkpoint",
            Self::Sidecar(_) => "sidecar",
            Self::Temporary => "temporary",
            Self::Lock => "lock",
            Self::Blob(_) => "prompt",
            Self::Other => "other",
        }
    }
}

/// What ostler's own write leaves behind when it is killed: `.<store>.<pid>.<time>.<serial>.tmp`.
fn is_our_temporary(name: &str, store: &str) -> bool {
    let numbers = name
        .strip_prefix('.')
        .and_then(|rest| rest.strip_prefix(store)?.strip_prefix('.')?.strip_suffix(".tmp"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    numbers
        .is_some_and(|numbers| numbers.split('.').count() == 3 && numbers.split('.').all(is_number))
}

/// The session that the name of a transcript says it belongs to.
pub fn session_of(name: &str) -> Option<&str> {
    let stem = name.strip_suffix(".jsonl")?;
    let id = stem.split_once("-topic-").map_or(stem, |(id, _)| id);
    is_session_id(id).then_some(id)
}

/// The hash of a prompt, from its place.
fn blob_hash(name: &str) -> Option<&str> {
    let (shelf, file) = name.strip_prefix(PROMPT_BLOBS_DIR)?.strip_prefix('/')?.split_once('/')?;
    let hash = file.strip_suffix(".txt")?;
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && hash.starts_with(shelf) && shelf.len() == 2).then_some(hash)
}

/// Why and when the file `name` was put away, if it was: `<file>.<reason>.<stamp>`.
pub fn parse_archive_name(name: &str) -> Option<(ArchiveReason, Time)> {
    // The stamp may hold one point, before its milliseconds.
    let split = |text: &str| text.rfind('.');
    let last = split(name)?;
    let (base, at) = match parse_archive_stamp(&name[last + 1..]) {
        Some(at) => (&name[..last], at),
        None => {
            let before = split(&name[..last])?;
            (&name[..before], parse_archive_stamp(&name[before + 1..])?)
        }
    };
    let (file, reason) = base.rsplit_once('.')?;
    let reason = match reason {
        "reset" => ArchiveReason::Reset,
        "deleted" => ArchiveReason::Deleted,
        "bak" => ArchiveReason::Backup,
        _ => return None,
    };
    (!file.is_empty()).then_some((reason, at))
}

/// `2026-02-23T12-34-56.000Z`, with or without milliseconds.
fn parse_archive_stamp(text: &str) -> Option<Time> {
    let bytes = text.as_bytes();
    let shaped = matches!(bytes.len(), 20 | 24)
        && bytes[10] == b'T'
        && bytes[13] == b'-'
        && bytes[16] == b'-'
        && bytes[bytes.len() - 1] == b'Z';
    if !shaped || !text.is_ascii() {
        return None;
    }
    let (date, time) = text.split_at(10);
    Time::parse(&format!("{date}{}", time.replace('-', ":")))
}

/// The name under which a transcript is put away.
pub fn archive_name(name: &str, reason: ArchiveReason, now: Time) -> String {
    let reason = match reason {
        ArchiveReason::Reset => "reset",
        ArchiveReason::Deleted => "deleted",
        ArchiveReason::Backup => "bak",
    };
    format!("{name}.{reason}.{}", now.to_string().replace(':', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = "sessions.json";

    fn kind(name: &str) -> StoreFileKind {
        StoreFileKind::from_name(name, STORE)
    }

    #[test]
    fn row_36_stamps_with_and_without_milliseconds_are_the_same_instant() {
        let at = Time::parse("2026-02-23T12:34:56Z").unwrap();
        assert_eq!(
            parse_archive_name("a.jsonl.deleted.2026-02-23T12-34-56.000Z"),
            Some((ArchiveReason::Deleted, at))
        );
        assert_eq!(
            parse_archive_name("a.jsonl.reset.2026-02-23T12-34-56Z"),
            Some((ArchiveReason::Reset, at))
        );
        assert_eq!(
            parse_archive_name("a.jsonl.bak.2026-02-23T12-34-56Z"),
            Some((ArchiveReason::Backup, at))
        );
        assert_eq!(parse_archive_name("a.jsonl.moved.2026-02-23T12-34-56Z"), None);
        assert_eq!(parse_archive_name("a.jsonl.deleted.2026-99-23T12-34-56Z"), None);
        assert_eq!(parse_archive_name("a.jsonl.deleted.yesterday"), None);
        assert_eq!(
            archive_name("a.jsonl", ArchiveReason::Deleted, at),
            "a.jsonl.deleted.2026-02-23T12-34-56.000Z"
        );
    }

    #[test]
    fn files_are_told_apart() {
        let uuid = "01234567-89ab-cdef-0123-456789abcdef";
        assert_eq!(kind("sessions.json"), StoreFileKind::Store);
        assert_eq!(kind(&format!("sessions.json.{uuid}.tmp")), StoreFileKind::Temporary);
        assert_eq!(kind(&format!("sessions.json.17.{uuid}.tmp")), StoreFileKind::Temporary);
        assert_eq!(kind(".sessions.json.17.1790000000000.0.tmp"), StoreFileKind::Temporary);
        assert_eq!(kind(".sessions.json.mine.tmp"), StoreFileKind::Other);
        assert_eq!(kind("sessions.json.mine.tmp"), StoreFileKind::Other);
        assert_eq!(
            kind("sessions.json.bak.17"),
            StoreFileKind::Archive(ArchiveReason::Backup, None)
        );
        assert_eq!(kind("keep.deleted.keep.jsonl"), StoreFileKind::Transcript);
        assert_eq!(kind("a-topic-7.jsonl"), StoreFileKind::Transcript);
        assert_eq!(kind("a.trajectory.jsonl"), StoreFileKind::Sidecar("a".into()));
        assert_eq!(kind("a.trajectory-path.json"), StoreFileKind::Sidecar("a".into()));
        assert_eq!(
            kind(&format!("a.checkpoint.{uuid}.jsonl")),
            StoreFileKind::Checkpoint("a".into())
        );
        assert_eq!(kind("a.jsonl.lock"), StoreFileKind::Lock);
        assert_eq!(kind("random.txt"), StoreFileKind::Other);
        let hash = "ab".repeat(32);
        assert_eq!(
            kind(&format!("{PROMPT_BLOBS_DIR}/ab/{hash}.txt")),
            StoreFileKind::Blob(hash.clone())
        );
        assert_eq!(kind(&format!("{PROMPT_BLOBS_DIR}/cd/{hash}.txt")), StoreFileKind::Other);
        assert_eq!(session_of("a-topic-7.jsonl"), Some("a"));
        assert_eq!(session_of("a.jsonl"), Some("a"));
        let other = format!("{uuid}.jsonl");
        assert!(is_anothers_transcript(&other, "a"));
        assert!(!is_anothers_transcript(&other, &uuid.to_uppercase()));
        assert!(!is_anothers_transcript("b.jsonl", "a"), "a name that nobody generated");
    }
}
