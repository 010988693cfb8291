//! OpenClaw's file stores, up to 2026.7: `sessions.json`, one object from session key to entry,
//! and `<session>.jsonl` beside it (`<session>-topic-<id>.jsonl` for a topic of a chat).
//!
//! The index is rewritten as a whole, grows beyond 100 MB, and has been seen empty and cut off;
//! transcripts without an entry and entries without a transcript are normal. A transcript is
//! written under a lock file that names the process; a kill leaves it behind.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use model::conversation::ConversationEntry;
use model::identity::Identity;
use model::sighting::{
    ProcessRegistration, RegistrationProof, RegistrationScope, TranscriptDigest, TurnState,
    shorten_title,
};

use super::Kin;
use super::events::{self, OpenClawReading};
use crate::files::{self, DirEntry, EntryKind, ReadError};
use crate::skim::{self, JsonValue};
use crate::{ExtraFileKind, Survey, SurveyProblem, TranscriptSource};

const TRANSCRIPT: &str = "openclaw-jsonl";
const INDEX: &str = "openclaw-index";

/// An imported transcript stays where it was, and was written a little after its entry.
const IMPORT_SLACK: Duration = Duration::from_secs(60);

/// An entry of the index.
struct IndexEntry {
    key: String,
    id: String,
    /// The transcript's name, if the entry says one.
    file: Option<String>,
    spawned_by: Option<String>,
    digest: TranscriptDigest,
    bytes: u64,
}

impl IndexEntry {
    fn parse_entry(key: &[u8], entry: JsonValue<'_>) -> Option<Self> {
        let quoted = [b"\"", key, b"\""].concat();
        let key = JsonValue::new(&quoted).to_owned_string()?;
        let text = |name| {
            entry.get(name).and_then(JsonValue::to_owned_string).filter(|text| !text.is_empty())
        };
        let time = |name| entry.get(name).and_then(JsonValue::as_time);
        let id = text("sessionId").filter(|id| !id.contains('/'))?;
        let file = text("sessionFile");
        let mut digest = TranscriptDigest {
            name: Some(key.clone()),
            title: text("label").or_else(|| text("displayName")).as_deref().map(shorten_title),
            model: text("model"),
            turn: match text("status").as_deref() {
                Some("running") => TurnState::Open,
                Some(_) => TurnState::Closed,
                None => TurnState::Unknown,
            },
            ..TranscriptDigest::default()
        };
        for at in [time("sessionStartedAt"), time("lastInteractionAt"), time("updatedAt")] {
            at.into_iter().for_each(|at| digest.widen_span(at));
        }
        Some(Self {
            key,
            id,
            file: file.and_then(|file| Some(Path::new(&file).file_name()?.to_str()?.to_owned())),
            spawned_by: text("spawnedBy"),
            digest,
            bytes: entry.raw().len() as u64,
        })
    }
}

/// Reads the index as far as it goes. The second value says what is wrong with the rest.
fn read_index(root: &Path, path: &Path) -> Result<(Vec<IndexEntry>, Option<String>), ReadError> {
    let (bytes, _) = files::read_document(root, path)?;
    if bytes.trim_ascii().is_empty() {
        return Err(ReadError::Empty);
    }
    let not_json = || "not the JSON it should be: cut off or damaged".to_owned();
    let fields = skim::parse_object(&bytes).map_err(|_| ReadError::unknown_format(not_json()))?;
    let (mut entries, mut odd) = (Vec::new(), 0);
    for field in fields {
        let Ok((key, value)) = field else {
            return Ok((entries, Some(not_json())));
        };
        match IndexEntry::parse_entry(key, value) {
            Some(entry) => entries.push(entry),
            None => odd += 1,
        }
    }
    let reason = (odd > 0).then(|| format!("{odd} entries without a usable session id"));
    Ok((entries, reason))
}

/// Lists `agents/<agent>/sessions/`.
pub(super) fn survey_sessions(survey: &mut Survey, directory: &Path, kin: &mut Kin) {
    let root = survey.root_path();
    let wanted = |name: &str| name.ends_with(".jsonl") || name == "sessions.json";
    let listed = survey.list_wanted(directory, wanted);
    let index = directory.join("sessions.json");
    let entries = match read_index(&root, &index) {
        Ok((entries, None)) => entries,
        Ok((entries, Some(reason))) => {
            survey.problems.push(SurveyProblem { path: index.clone(), reason });
            entries
        }
        Err(error) => {
            survey.note_problem(&index, &error);
            Vec::new()
        }
    };
    for entry in &entries {
        kin.current.entry(entry.key.clone()).or_insert_with(|| entry.id.clone());
        if let Some(key) = &entry.spawned_by {
            kin.spawned.push((entry.id.clone(), key.clone()));
        }
    }
    let mut shelf = Shelf {
        directory,
        by_file: HashMap::new(),
        entries: entries.iter().map(|entry| (entry.id.as_str(), entry)).collect(),
        with_transcript: HashSet::new(),
    };
    for entry in &entries {
        if let Some(file) = &entry.file {
            shelf.by_file.insert(file, &entry.id);
        }
    }
    for entry in listed.iter().filter(|entry| entry.kind == EntryKind::File) {
        shelf.survey_file(survey, entry, kin);
    }
    let stamp = files::stamp_path(&index).unwrap_or_default();
    let mut seen = shelf.with_transcript;
    for entry in entries {
        if !kin.in_database.contains_key(&entry.id) && seen.insert(entry.id.clone()) {
            let source = TranscriptSource {
                name: Some(entry.key),
                bytes: Some(entry.bytes),
                ..TranscriptSource::from_file(entry.id, &root, index.clone(), stamp, INDEX)
            };
            survey.ready.push((source, entry.digest));
        }
    }
}

/// One directory of transcripts while it is being listed.
struct Shelf<'a> {
    directory: &'a Path,
    by_file: HashMap<&'a str, &'a str>,
    entries: HashMap<&'a str, &'a IndexEntry>,
    with_transcript: HashSet<String>,
}

impl Shelf<'_> {
    fn survey_file(&mut self, survey: &mut Survey, entry: &DirEntry, kin: &Kin) {
        let Some(name) = entry.name.to_str() else {
            return;
        };
        if let Some(transcript) = name.strip_suffix(".lock").filter(|name| name.ends_with(".jsonl"))
        {
            self.survey_lock(survey, name, transcript);
        } else if let Some((kind, session)) = side_file(name) {
            survey.note_extra(kind, entry, self.directory.join(name), session.map(str::to_owned));
        } else if name.ends_with(".jsonl") {
            self.survey_transcript(survey, name, entry, kin);
        }
    }

    fn survey_transcript(&mut self, survey: &mut Survey, name: &str, entry: &DirEntry, kin: &Kin) {
        let id = self.session_of(name);
        let path = self.directory.join(name);
        if let Some(updated) = kin.in_database.get(&id) {
            if entry.stamp.modified_at() <= updated.plus(IMPORT_SLACK) {
                survey.note_extra(ExtraFileKind::Attachment, entry, path, Some(id));
                return;
            }
            // An older version has gone on with the file since.
            survey.ready.retain(|(source, _)| source.id != id);
        }
        let known = self.entries.get(id.as_str());
        let source = TranscriptSource {
            name: known.map(|entry| entry.key.clone()),
            title: known.and_then(|entry| entry.digest.title.clone()),
            ..TranscriptSource::from_file(
                id.clone(),
                &survey.root_path(),
                path,
                entry.stamp,
                TRANSCRIPT,
            )
        };
        survey.note_source(source);
        self.with_transcript.insert(id);
    }

    /// The session a transcript belongs to.
    fn session_of(&self, name: &str) -> String {
        let stem = name.strip_suffix(".jsonl").unwrap_or(name);
        let own = stem.split_once("-topic-").map_or(stem, |(id, _)| id);
        self.by_file.get(name).copied().unwrap_or(own).to_owned()
    }

    /// A lock that cannot be read still says which session may be being written.
    fn survey_lock(&self, survey: &mut Survey, name: &str, transcript: &str) {
        let path = self.directory.join(name);
        let identity = match files::read_json::<serde_json::Value>(&survey.root_path(), &path) {
            Ok((lock, stamp)) => {
                let text = lock.to_string();
                let field = |name| JsonValue::new(text.as_bytes()).get(name);
                let pid = field("pid").and_then(JsonValue::as_i64);
                Identity {
                    start: field("starttime").and_then(JsonValue::as_u64),
                    recorded_at: field("createdAt")
                        .and_then(JsonValue::as_time)
                        .or(Some(stamp.modified_at())),
                    comm: Some("openclaw".to_owned()),
                    ..Identity::recorded_by_agent(pid.and_then(|pid| u32::try_from(pid).ok()))
                }
            }
            Err(error) if error.is_absent() => return,
            Err(error) => {
                survey.note_problem(&path, &error);
                Identity::recorded_by_agent(None)
            }
        };
        survey.registrations.push(ProcessRegistration {
            scope: RegistrationScope::Session(self.session_of(transcript)),
            proof: RegistrationProof::Process { identity, holds: None },
            source: path,
            activity: None,
            waiting_for: None,
            digest: TranscriptDigest::default(),
        });
    }
}

/// What a file that is no transcript is, and the session it belongs to.
fn side_file(name: &str) -> Option<(ExtraFileKind, Option<&str>)> {
    if name.starts_with("sessions.json.") {
        let kind =
            if name.ends_with(".tmp") { ExtraFileKind::Temporary } else { ExtraFileKind::Archive };
        return Some((kind, None));
    }
    for archived in [".jsonl.reset.", ".jsonl.deleted.", ".jsonl.bak."] {
        if let Some((id, _)) = name.split_once(archived) {
            return Some((ExtraFileKind::Archive, Some(id)));
        }
    }
    for attached in [".trajectory.jsonl", ".trajectory-path.json", ".checkpoint."] {
        if let Some((id, _)) = name.split_once(attached) {
            return Some((ExtraFileKind::Attachment, Some(id)));
        }
    }
    None
}

pub(super) fn digest_transcript(source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
    if source.format == INDEX {
        let (entries, _) = read_index(&source.root, &source.path)?;
        let found = entries.into_iter().find(|entry| entry.id == source.id);
        return found
            .map(|entry| entry.digest)
            .ok_or_else(|| ReadError::unknown_format("no such session"));
    }
    let mut reading = OpenClawReading::new(source.name.clone());
    let end = source.each_line(0, |line| reading.read_event(line))?;
    reading.digest.damage.oversized = end.oversized;
    Ok(reading.into_digest())
}

/// An entry without a transcript has nothing to tell.
pub(super) fn converse_transcript(
    source: &TranscriptSource,
    from: u64,
    say: &mut dyn FnMut(ConversationEntry),
) -> Result<u64, ReadError> {
    if source.format == INDEX {
        return Ok(from);
    }
    Ok(source.each_line(from, |line| events::emit_event(line, say))?.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beside_transcripts_are_told_apart() {
        assert_eq!(side_file("a.jsonl"), None);
        assert_eq!(side_file("keep.deleted.keep.jsonl"), None);
        let archive = |id| Some((ExtraFileKind::Archive, Some(id)));
        assert_eq!(side_file("a.jsonl.deleted.2026-02-23T12-34-56.000Z"), archive("a"));
        assert_eq!(side_file("a.jsonl.reset.2026-02-23T12-34-56Z"), archive("a"));
        let attached = Some((ExtraFileKind::Attachment, Some("a")));
        assert_eq!(side_file("a.checkpoint.0785f0f1.jsonl"), attached);
        assert_eq!(side_file("a.trajectory.jsonl"), attached);
        assert_eq!(side_file("sessions.json.7.tmp"), Some((ExtraFileKind::Temporary, None)));
        assert_eq!(side_file("sessions.json.bak.17"), Some((ExtraFileKind::Archive, None)));
    }
}
