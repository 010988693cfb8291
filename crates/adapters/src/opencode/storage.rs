//! OpenCode's files before version 1.2: one JSON file for each session, message and part, below
//! `storage/{session/<project>,message/<session>,part/<message>}/`.

use std::path::{Path, PathBuf};

use model::conversation::ConversationRole;
use model::sighting::{TokenUsage, TranscriptDigest};

use super::{Message, Newest, OpenCodeConversation, OpenCodeSessionRow, Prompt, Reading, STORAGE};
use crate::files::{EntryKind, ReadError};
use crate::skim::{self, JsonValue};
use crate::{ExtraFileKind, Survey, TranscriptSource, files};

/// Lists the sessions of `storage/`, except those whose copy in a database is newer.
pub(super) fn survey_storage(survey: &mut Survey, storage: &Path, newest: &Newest) {
    let sessions = storage.join("session");
    for project in survey.list_wanted(&sessions, |_| true) {
        if project.kind != EntryKind::Directory {
            continue;
        }
        let directory = sessions.join(&project.name);
        for entry in survey.list_wanted(&directory, |name| name.ends_with(".json")) {
            let Some(id) = entry.strip_suffix(".json").filter(|_| entry.kind == EntryKind::File)
            else {
                continue;
            };
            let path = directory.join(&entry.name);
            survey_session(survey, storage, id, path, &entry, newest);
        }
    }
}

fn survey_session(
    survey: &mut Survey,
    storage: &Path,
    id: &str,
    path: PathBuf,
    entry: &files::DirEntry,
    newest: &Newest,
) {
    let root = survey.root_path();
    if let Some(&(_, updated)) = newest.get(id) {
        // The copy in the database is what the agent reads now, unless an older version has
        // gone on with this one since.
        let written = files::read_small(&root, &path)
            .ok()
            .and_then(|(json, _)| JsonValue::new(&json).value_at(&["time", "updated"])?.as_i64());
        if written.is_none_or(|written| written <= updated) {
            survey.note_extra(ExtraFileKind::Attachment, entry, path, Some(id.to_owned()));
            return;
        }
        survey.ready.retain(|(source, _)| source.id != id);
    }
    let mut source = TranscriptSource::from_file(id, &root, path, entry.stamp, STORAGE);
    let messages = storage.join("message").join(id);
    let mut bytes = entry.stamp.bytes;
    for entry in survey.list_wanted(&messages, |name| name.ends_with(".json")) {
        if entry.kind == EntryKind::File && entry.strip_suffix(".json").is_some() {
            bytes += entry.stamp.bytes;
            source.beside.push((messages.join(&entry.name), entry.stamp));
        }
    }
    // Ids grow with time.
    source.beside.sort_by(|one, other| one.0.cmp(&other.0));
    source.bytes = Some(bytes);
    survey.note_source(source);
}

pub(super) fn digest_session(source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
    let session = read_file(source, &source.path)?;
    let value = JsonValue::new(&session);
    let text =
        |name| value.get(name).and_then(JsonValue::to_owned_string).filter(|text| !text.is_empty());
    let millis = |name| value.value_at(&["time", name]).and_then(JsonValue::as_i64).unwrap_or(0);
    let mut reading = Reading::new(&OpenCodeSessionRow {
        id: source.id.clone(),
        parent: text("parentID"),
        directory: text("directory"),
        title: text("title"),
        version: text("version"),
        created: millis("created"),
        updated: millis("updated"),
        cost: None,
        tokens: TokenUsage::default(),
    });
    for (path, _) in &source.beside {
        match read_file(source, path) {
            Ok(message) => {
                if let Some(ConversationRole::User) = reading.read_message(Some(&message)) {
                    let mut prompt = Prompt::default();
                    for part in parts_of(source, path) {
                        prompt.add_part(read_file(source, &part).ok().as_deref());
                    }
                    prompt.count_into(&mut reading.digest);
                }
            }
            Err(error) if error.is_absent() => {}
            Err(ReadError::TooLarge(_)) => reading.digest.damage.oversized += 1,
            Err(_) => reading.digest.damage.broken += 1,
        }
    }
    Ok(reading.into_digest())
}

pub(super) fn converse_session(source: &TranscriptSource, telling: &mut OpenCodeConversation<'_>) {
    for (index, (path, _)) in source.beside.iter().enumerate() {
        let is_last = index + 1 == source.beside.len();
        let Ok(message) = read_file(source, path) else {
            continue;
        };
        let message = Message::parse_message(&message).unwrap_or_default();
        let parts = parts_of(source, path);
        for part in &parts {
            telling.tell_part(&message, read_file(source, part).ok().as_deref(), is_last);
        }
        if parts.is_empty() {
            telling.tell_part(&message, None, is_last);
        }
    }
}

fn read_file(source: &TranscriptSource, path: &Path) -> Result<Vec<u8>, ReadError> {
    let (bytes, _) = files::read_small(&source.root, path)?;
    if bytes.trim_ascii().is_empty() {
        return Err(ReadError::Empty);
    }
    let is_whole =
        skim::parse_object(&bytes).is_ok_and(|mut fields| fields.all(|field| field.is_ok()));
    if is_whole { Ok(bytes) } else { Err(ReadError::unknown_format("not the JSON it should be")) }
}

/// `storage/part/<message>/`: the files of a message's parts. Those of a user's message are
/// written once, before the answer begins, so they need no stamp of their own.
fn parts_of(source: &TranscriptSource, message: &Path) -> Vec<PathBuf> {
    let (Some(storage), Some(id)) = (source.path.ancestors().nth(3), message.file_stem()) else {
        return Vec::new();
    };
    let directory = storage.join("part").join(id);
    let entries = files::list_directory(&source.root, &directory).unwrap_or_default();
    let mut parts: Vec<_> = entries
        .into_iter()
        .filter(|entry| entry.kind == EntryKind::File && entry.strip_suffix(".json").is_some())
        .map(|entry| directory.join(entry.name))
        .collect();
    parts.sort();
    parts
}
