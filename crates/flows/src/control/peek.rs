//! A glance at an agent: what it does, what was said last, and the question that is open.

use model::control::wire::PeekResult;
use model::conversation::{ConversationEntry, ConversationRole};
use model::hosted::wire::{SnapshotFormat, SnapshotParams};
use model::session::SessionKind;
use model::status::Activity;

use super::who::agents_within;
use crate::observe::{Observation, Observed};
use crate::terminal::sight::TERMINAL_AGENT;
use crate::terminal::{TerminalHome, look};

/// Looks at a session, or at the agent in a terminal. The screen is taken if it is wanted, or a question is
/// open on it.
pub fn peek_session(
    observation: &Observation,
    named: &Observed,
    terminals: &TerminalHome,
    last: usize,
    wants_screen: bool,
) -> PeekResult {
    let within = agents_within(observation, named);
    let one = within.first().copied().unwrap_or(named);
    let linked = one.session.linked.iter().find(|linked| linked.agent == TERMINAL_AGENT);
    let terminal = match named.session.kind {
        SessionKind::Hosted => Some(named.session.id.clone()),
        _ => linked.map(|linked| linked.id.clone()),
    };
    let asks = one.verdict.activity == Some(Activity::Waiting);
    let screen = terminal.as_ref().filter(|_| wants_screen || asks).and_then(|id| {
        let params = SnapshotParams { format: SnapshotFormat::Text, ..SnapshotParams::default() };
        let shown = look::take_snapshot(&terminals.open_session(id).ok()?, &params).ok()?;
        shown.text.map(|text| text.trim_end().to_owned())
    });
    let view = one.session_view();
    PeekResult {
        session: one.session.id.clone(),
        agent: one.session.agent.to_owned(),
        status: one.verdict.status,
        activity: one.verdict.activity,
        waiting_for: view.waiting_for.map(str::to_owned),
        messages: last_messages(one, last),
        terminal,
        screen,
    }
}

/// The last of what was said, without what the agent put in for itself. A transcript that cannot be read has
/// said nothing so far.
fn last_messages(one: &Observed, last: usize) -> Vec<ConversationEntry> {
    let Some(source) = &one.source else { return Vec::new() };
    let mut messages: std::collections::VecDeque<ConversationEntry> = Default::default();
    let mut say = |entry: ConversationEntry| {
        // What a tool answered is long; that it was denied or failed is not.
        let is_talk = match entry.role {
            ConversationRole::System => false,
            ConversationRole::Result => entry.failed,
            _ => true,
        };
        if is_talk && !entry.text.trim().is_empty() || entry.tool.is_some() {
            messages.push_back(entry);
            if messages.len() > last {
                messages.pop_front();
            }
        }
    };
    let read = crate::converse::read_conversation(one.session.agent, source, 0, &mut say);
    if read.is_err() { Vec::new() } else { messages.into() }
}
