//! Transcripts become sessions: two of one session are merged, sub-agents count for their parents.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use adapters::TranscriptSource;
use model::session::{Session, SessionKind, TranscriptFile};
use model::sighting::TranscriptDigest;

use super::SessionMatcher;
use crate::observe::source::FoundSession;

impl SessionMatcher<'_> {
    pub(super) fn add_transcripts(
        &mut self,
        transcripts: Vec<(Box<TranscriptSource>, Box<TranscriptDigest>)>,
    ) {
        // Sources of one root follow each other and share it.
        let mut known: Option<(Arc<Path>, Arc<str>)> = None;
        for (source, digest) in transcripts {
            let root = match &known {
                Some((path, text)) if Arc::ptr_eq(path, &source.root) => text.clone(),
                _ => {
                    let text: Arc<str> = source.root.to_string_lossy().into();
                    known = Some((source.root.clone(), text.clone()));
                    text
                }
            };
            self.merge_transcript(source, digest, root);
        }
        self.attach_subagents();
    }

    /// Adds what one transcript says. Two transcripts of one session: the newer one speaks.
    fn merge_transcript(
        &mut self,
        source: Box<TranscriptSource>,
        digest: Box<TranscriptDigest>,
        root: Arc<str>,
    ) {
        let mut session = Session {
            id: source.id.clone(),
            kind: SessionKind::Native,
            agent: self.adapter.agent_profile().id,
            digest,
            transcript: Some(TranscriptFile {
                path: source.path.clone(),
                stamp: source.stamp,
                bytes: source.bytes.unwrap_or(source.stamp.bytes),
                shared: source.bytes.is_some(),
            }),
            origin: self.session_origin(root, source.format),
            written_status: None,
            claims: Vec::new(),
            linked: Vec::new(),
        };
        session.digest.title = source.title.clone().or(session.digest.title.take());
        session.digest.name = source.name.clone().or(session.digest.name.take());
        session.digest.started_at = session.digest.started_at.or(source.started_at);
        session.digest.parent = source.parent.clone().or(session.digest.parent.take());
        if session.digest.parent.is_some() {
            self.subagents.push(FoundSession { session, source: Some(source) });
            return;
        }
        let known = self.place_of(&session.id);
        let new = FoundSession { session, source: Some(source) };
        match known.map(|place| &mut self.sessions[place]) {
            Some(known) => {
                if new.session.last_activity_at() > known.session.last_activity_at() {
                    *known = new;
                }
            }
            None => {
                self.push_session(new);
            }
        }
    }

    /// What sub-agents used counts for their parents. One whose parent is nowhere to be found is a
    /// session of its own.
    fn attach_subagents(&mut self) {
        let parents: HashMap<String, String> = self
            .subagents
            .iter()
            .filter_map(|one| Some((one.session.id.clone(), one.session.digest.parent.clone()?)))
            .collect();
        let mut kept = Vec::new();
        for one in std::mem::take(&mut self.subagents) {
            let Some(index) = self.top_parent(&one.session, &parents) else {
                self.push_session(one);
                continue;
            };
            let (child, parent) = (&one.session, &mut self.sessions[index].session.digest);
            if let Some(tokens) = child.digest.tokens {
                parent.add_usage(tokens);
            }
            if !parent.cost_covers_subagents
                && let Some(cost) = child.digest.cost_micro_usd
            {
                *parent.cost_micro_usd.get_or_insert_default() += cost;
            }
            parent.last_activity_at = parent.last_activity_at.max(child.digest.last_activity_at);
            kept.push(one);
        }
        self.subagents = kept;
    }

    /// The session at the top of a chain of sub-agents.
    fn top_parent(&self, child: &Session, parents: &HashMap<String, String>) -> Option<usize> {
        let mut parent = child.digest.parent.as_ref()?;
        for _ in 0..32 {
            if let Some(index) = self.place_of(parent) {
                return Some(index);
            }
            parent = parents.get(parent)?;
        }
        None
    }
}
