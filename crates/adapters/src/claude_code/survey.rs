//! Where Claude Code keeps transcripts, those of sub-agents, and what lies beside them.

use std::path::Path;

use super::FORMAT;
use crate::files::EntryKind;
use crate::{ExtraFileKind, Survey, TranscriptSource};

pub(super) fn survey_project(survey: &mut Survey, project: &Path) {
    for entry in survey.list_wanted(project, |name| name.ends_with(".jsonl")) {
        let path = project.join(&entry.name);
        match entry.kind {
            EntryKind::File => {
                if let Some(id) = entry.strip_suffix(".jsonl") {
                    survey.note_file(id, path, entry.stamp, FORMAT);
                } else if entry.name.to_string_lossy().contains(".tmp") {
                    survey.note_extra(ExtraFileKind::Temporary, &entry, path, None);
                }
            }
            EntryKind::Directory => {
                if let Some(session) = entry.name.to_str() {
                    survey_session_directory(survey, &path, session);
                }
            }
            EntryKind::Escape | EntryKind::Other => {}
        }
    }
}

/// `<session>/`: sub-agents, tool results, a custom title.
pub(super) fn survey_session_directory(survey: &mut Survey, directory: &Path, session: &str) {
    let root = survey.root_path();
    for entry in survey.list_wanted(directory, |_| false) {
        let path = directory.join(&entry.name);
        if entry.kind == EntryKind::File {
            survey.note_extra(ExtraFileKind::Attachment, &entry, path, Some(session.to_owned()));
            continue;
        }
        for inner in survey.list_wanted(&path, |name| name.ends_with(".jsonl")) {
            let inner_path = path.join(&inner.name);
            let agent = inner.strip_suffix(".jsonl").and_then(|stem| stem.strip_prefix("agent-"));
            match agent {
                Some(agent) if entry.name == "subagents" && inner.kind == EntryKind::File => {
                    let meta = path.join(format!("agent-{agent}.meta.json"));
                    let source =
                        TranscriptSource::from_file(agent, &root, inner_path, inner.stamp, FORMAT);
                    let source = TranscriptSource { parent: Some(session.to_owned()), ..source };
                    survey.note_source(source.with_side_file(meta));
                }
                _ => survey.note_extra(
                    ExtraFileKind::Attachment,
                    &inner,
                    inner_path,
                    Some(session.to_owned()),
                ),
            }
        }
    }
}
