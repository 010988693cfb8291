//! Who holds a conversation, and how it could be handed over.

use model::control::holders::{
    ConversationHolder, HandOverCaller, HandOverWay, HolderKind, decide_hand_over,
    holders_of_session,
};
use model::control::wire::{ConversationHolders, HandOverView, HolderView};
use model::session::SessionKind;

use crate::observe::{Observation, Observed};
use crate::resume::resume_line;

/// Every holder of a session's conversation and the way to it.
pub fn describe_holders(one: &Observed) -> ConversationHolders {
    let holders = holders_of_session(&one.session);
    let caller = HandOverCaller { uid: sys::private::our_uid() };
    let (how, reason) = decide_hand_over(&holders, caller);
    ConversationHolders {
        conversation: one.session.id.clone(),
        agent: one.session.agent.to_owned(),
        cwd: one.session.digest.cwd.clone(),
        holders: holders.iter().map(HolderView::from).collect(),
        hand_over: HandOverView {
            possible: matches!(
                how,
                HandOverWay::Attach | HandOverWay::Resume | HandOverWay::StopAndResume
            ),
            how,
            reason: reason.to_owned(),
            command: hand_over_command(one, how, &holders),
        },
    }
}

/// The conversations that are held in a directory or below it, in the order of the listing.
pub fn held_below<'a>(
    observation: &'a Observation,
    directory: &'a std::path::Path,
) -> impl Iterator<Item = &'a Observed> {
    observation.sessions.iter().filter(move |one| {
        one.session.kind == SessionKind::Native
            && one.verdict.status.is_active()
            && one
                .session
                .digest
                .cwd
                .as_ref()
                .is_some_and(|cwd| std::path::Path::new(cwd).starts_with(directory))
    })
}

/// The agents' own sessions that run in a terminal; none of an agent's session itself.
pub fn agents_within<'a>(observation: &'a Observation, terminal: &Observed) -> Vec<&'a Observed> {
    let is_hosted = terminal.session.kind == SessionKind::Hosted;
    let linked = terminal.session.linked.iter().filter(|_| is_hosted);
    linked
        .filter_map(|link| {
            let is_it =
                |one: &&Observed| one.session.id == link.id && one.session.agent == link.agent;
            observation.sessions.iter().find(is_it)
        })
        .collect()
}

fn hand_over_command(
    one: &Observed,
    how: HandOverWay,
    holders: &[ConversationHolder],
) -> Option<String> {
    match how {
        HandOverWay::Attach => {
            let terminal = holders.iter().find_map(|holder| holder.terminal.as_deref())?;
            Some(format!("ostler attach {terminal}"))
        }
        HandOverWay::Resume => resume_line(&one.session),
        HandOverWay::SupervisorCommand => {
            let control = adapters::by_id(one.session.agent)?.control_table()?;
            let shared = holders.iter().any(|holder| holder.kind == HolderKind::Shared);
            control.supervisor_command.filter(|_| shared).map(str::to_owned)
        }
        HandOverWay::StopAndResume | HandOverWay::Wait | HandOverWay::None => None,
    }
}
