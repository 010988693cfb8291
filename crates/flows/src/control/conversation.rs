//! Conversation lookup: which of the observed sessions is the one that a prompt was for.
//!
//! Of a running agent that is its name. Of one that was just started it may be known only by the terminal
//! that its process runs in, by the path it was told to write to, or by being new in its directory.

use std::collections::HashSet;
use std::path::PathBuf;

use model::control::wire::ConversationBinding;
use model::session::SessionKind;

use crate::observe::{Observation, Observed};
use crate::terminal::sight::TERMINAL_AGENT;

/// What is known of a conversation before it is found.
#[derive(Clone, Debug, Default)]
pub(super) struct ConversationClue {
    /// The adapter's id.
    pub(super) agent: String,
    /// Its id, if that is known or was chosen.
    pub(super) id: Option<String>,
    /// The path that the agent was told to write to.
    pub(super) path: Option<PathBuf>,
    /// The terminal that the agent runs in.
    pub(super) terminal: Option<String>,
    /// Where the agent works, and the conversations that were there before it was started; for one that
    /// nothing else names.
    pub(super) new_in: Option<(String, HashSet<String>)>,
}

impl ConversationClue {
    /// The conversation, and how it was found.
    pub(super) fn find_in<'a>(
        &self,
        observation: &'a Observation,
    ) -> Option<(&'a Observed, ConversationBinding)> {
        let mut own = observation.sessions.iter().filter(|one| {
            one.session.kind == SessionKind::Native && one.session.agent == self.agent
        });
        if let Some(id) = &self.id {
            let found = own.find(|one| one.session.id == *id)?;
            return Some((found, ConversationBinding::Chosen));
        }
        if let Some(path) = &self.path {
            let is_at =
                |one: &&Observed| one.source.as_ref().is_some_and(|source| source.path == *path);
            return Some((own.find(is_at)?, ConversationBinding::Chosen));
        }
        let own: Vec<&Observed> = own.collect();
        let in_terminal = own.iter().find(|one| {
            one.session.linked.iter().any(|linked| {
                linked.agent == TERMINAL_AGENT && Some(&linked.id) == self.terminal.as_ref()
            })
        });
        if let Some(one) = in_terminal {
            return Some((one, ConversationBinding::Registered));
        }
        let (cwd, before) = self.new_in.as_ref()?;
        let mut new = own.into_iter().filter(|one| {
            !before.contains(&one.session.id) && one.session.digest.cwd.as_ref() == Some(cwd)
        });
        match (new.next(), new.next()) {
            (Some(one), None) => Some((one, ConversationBinding::Recorded)),
            _ => None,
        }
    }
}
