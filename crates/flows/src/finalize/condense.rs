//! Archival of a session that is over: a summary, and a compressed copy of its files. Idempotent.
//!
//! It takes as long as the budget lets it; what is left over is done by the next sweep. Doing it
//! twice gives the same copy. A session that was revived meanwhile stays uncondensed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;
use sys::dropped::NoteDropped;

use adapters::{Adapter, Survey, TranscriptSource};
use model::session::is_safe_id;
use model::sighting::TranscriptDigest;
use model::summary::{KeptFile, KeptForm, KeptSession, SessionSummary};
use model::wire::SweepResult;
use store::state::{StateStore, TrackedSession};
use sys::machine::Machine;

use super::{SweepError, SweepRequest, lock_session, swept_session};
use crate::observe::Observed;
use crate::vault::{self, VaultError};
use store::writer::StoreWriter;

/// Condenses everything that is over, until the budget is used up.
pub(super) fn condense_all(
    writer: &mut StoreWriter,
    request: &SweepRequest<'_>,
    begun: Instant,
    swept: &mut SweepResult,
) -> Result<(), SweepError> {
    let pending = writer.state()?.uncondensed_sessions()?;
    let mut shelves = SourceCache::default();
    for tracked in pending {
        if begun.elapsed() >= request.budget {
            break;
        }
        let Some(_lock) = lock_session(&writer.home, &tracked) else { continue };
        sys::pause::pause_at("condense.begin");
        let kept = condense_session(request.machine, &tracked, &mut shelves)?;
        sys::pause::pause_at("condense.copied");
        let manifest = serde_json::to_string(&kept).unwrap_or_default();
        let end = tracked.track.end.as_ref();
        let (agent, id) = (tracked.agent.as_str(), tracked.id.as_str());
        if writer.state_mut()?.mark_condensed(agent, id, end, request.machine.now(), &manifest)? {
            swept.condensed.push(swept_session(&tracked, kept.summary.reason));
        }
    }
    Ok(())
}

/// What the vault holds of every session, the newest first.
pub fn list_kept(home: &Path) -> Result<Vec<KeptSession>, SweepError> {
    let manifests = StateStore::open_read_only(home)?
        .map(|state| state.list_kept())
        .transpose()?
        .unwrap_or_default();
    Ok(manifests.iter().filter_map(|text| serde_json::from_slice(text.as_bytes()).ok()).collect())
}

/// What a session came to so far, read from its transcript now.
pub fn summarize_session(one: &Observed) -> SessionSummary {
    let mut summary = SessionSummary::from_digest(&one.session.digest);
    summary.reason = one.verdict.status.as_str().to_owned();
    if let (Some(source), Some(adapter)) = (&one.source, adapters::by_id(one.session.agent)) {
        // A conversation that cannot be read leaves the summary without its prompts.
        adapter
            .read_conversation(source, 0, &mut |entry| summary.add_entry(&entry))
            .note_dropped("reading a conversation for its summary");
    }
    summary
}

/// The sources of one root, by session.
type RootSources = HashMap<String, Vec<TranscriptSource>>;

/// Roots that were surveyed, once for all of their sessions.
#[derive(Default)]
struct SourceCache(HashMap<(&'static str, PathBuf), RootSources>);

impl SourceCache {
    /// Everything on disk that belongs to a session: its transcript first, then its sub-agents'.
    fn session_sources(
        &mut self,
        adapter: &'static dyn Adapter,
        root: &Path,
        id: &str,
    ) -> &[TranscriptSource] {
        let key = (adapter.agent_profile().id, root.to_owned());
        let shelf = self.0.entry(key).or_insert_with(|| {
            let mut survey = Survey::new(root);
            adapter.survey_root(&mut survey);
            let ready = survey.ready.into_iter().map(|(source, _)| source);
            let mut shelf = RootSources::new();
            for source in survey.sources.into_iter().map(|source| *source).chain(ready) {
                let session = source.parent.clone().unwrap_or_else(|| source.id.clone());
                shelf.entry(session).or_default().push(source);
            }
            for sources in shelf.values_mut() {
                sources.sort_by_key(|source| source.parent.is_some());
            }
            shelf
        });
        shelf.get(id).map_or(&[], Vec::as_slice)
    }
}

/// Condenses one session.
fn condense_session(
    machine: &Machine,
    tracked: &TrackedSession,
    shelves: &mut SourceCache,
) -> Result<KeptSession, SweepError> {
    let track = &tracked.track;
    let mut summary = SessionSummary::default();
    let mut files = Vec::new();
    if let Some(adapter) = adapters::by_id(&tracked.agent) {
        let told = track.root.as_ref().map(PathBuf::from);
        let roots = told.into_iter().chain(adapter.session_roots(&machine.env()));
        let sources = roots
            .map(|root| shelves.session_sources(adapter, &root, &tracked.id).to_vec())
            .find(|sources| !sources.is_empty())
            .unwrap_or_default();
        let mut cost_covers_all = false;
        for (index, source) in sources.iter().enumerate() {
            let digest = summarize_transcript(
                adapter,
                source,
                &mut summary,
                (index > 0).then_some(cost_covers_all),
            );
            cost_covers_all |= index == 0 && digest.is_some_and(|one| one.cost_covers_subagents);
            files.extend(keep_transcript(machine, adapter, source)?);
        }
    }
    if let Some(end) = &track.end {
        summary.reason = end.reason.reason_text();
        summary.ended_at = summary.ended_at.max(Some(end.at));
    }
    summary.started_at = summary.started_at.or(track.began_at);
    summary.cwd = summary.cwd.or_else(|| track.cwd.clone());
    summary.title = summary.title.or_else(|| track.first_prompt.clone());
    summary.turns = summary.turns.max(u32::try_from(track.turns).unwrap_or(u32::MAX));
    if summary.models.is_empty() {
        summary.models.extend(track.model.clone());
    }
    Ok(KeptSession {
        agent: tracked.agent.clone(),
        session: tracked.id.clone(),
        kept_at: machine.now(),
        summary,
        files,
    })
}

/// Adds what one transcript says; for a sub-agent's, `covered` is whether the cost is in its
/// parent's already. One that cannot be read is still kept as it is.
fn summarize_transcript(
    adapter: &'static dyn Adapter,
    source: &TranscriptSource,
    summary: &mut SessionSummary,
    covered: Option<bool>,
) -> Option<TranscriptDigest> {
    let digest = adapter.read_digest(source).ok_or_note("the transcript of an ended session")?;
    match covered {
        None => *summary = SessionSummary::from_digest(&digest),
        Some(covered) => summary.add_subagent(&digest, covered),
    }
    let subagent = covered.map(|_| source.id.clone());
    adapter
        .read_conversation(source, 0, &mut |mut entry| {
            entry.subagent = entry.subagent.take().or_else(|| subagent.clone());
            summary.add_entry(&entry);
        })
        .note_dropped("the conversation of an ended session");
    Some(digest)
}

/// The largest file that is copied in one go by the sweep. Copying has no deadline, and the
/// daemon has one thread for it: a sparse file can claim any size.
const MAX_COPIED_FILE: u64 = 2 << 30;

/// Keeps a copy of a transcript. Of a database that many sessions share, the conversation is kept,
/// one entry on a line. Of a file that is too large there is no copy, only the summary: it stays
/// where it is, and `gc` copies it before it goes.
fn keep_transcript(
    machine: &Machine,
    adapter: &'static dyn Adapter,
    source: &TranscriptSource,
) -> Result<Option<KeptFile>, VaultError> {
    let path = source.path.to_string_lossy();
    if source.bytes.is_none() {
        match adapters::files::open_file(&source.root, &source.path) {
            Ok((_, stamp)) if stamp.bytes > MAX_COPIED_FILE => return Ok(None),
            Ok((file, _)) => {
                return vault::keep_copy(machine, &path, KeptForm::File, file).map(Some);
            }
            Err(_) => {}
        }
    }
    let mut lines = Vec::new();
    adapter
        .read_conversation(source, 0, &mut |entry| {
            if serde_json::to_writer(&mut lines, &entry).is_ok() {
                lines.push(b'\n');
            }
        })
        .note_dropped("the conversation for the vault");
    let name = if is_safe_id(&source.id) { format!("{path}#{}", source.id) } else { path.into() };
    vault::keep_copy(machine, &name, KeptForm::Conversation, lines.as_slice()).map(Some)
}
