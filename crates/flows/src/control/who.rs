//! Who holds a conversation, and how it could be handed over.

use adapters::Adapter;
use model::control::holders::{
    ConversationHolder, HandOverCaller, HandOverWay, HolderKind, decide_hand_over,
    holders_of_session,
};
use model::control::wire::{ConversationHolders, HandOverView, HolderView};
use model::session::SessionKind;

use crate::observe::{Observation, Observed};
use crate::resume::resume_line;
use crate::stop::targets::{is_supervised, own_command};

/// The holders of a session by what it claims, and by what stands above their processes: one that a supervisor keeps
/// alive comes back when it is ended, and its supervisor is nobody's to end.
pub(crate) fn look_at_holders(one: &Observed) -> Vec<ConversationHolder> {
    let mut holders = holders_of_session(&one.session);
    let may_be_supervised = |holder: &ConversationHolder| {
        holder.kind == HolderKind::Process && holder.liveness.is_alive()
    };
    let adapter = adapters::by_id(one.session.agent);
    let has_supervisor = |adapter: &&dyn Adapter| {
        adapter.control_table().is_some_and(|control| control.supervisor_command.is_some())
    };
    let Some(adapter) = adapter.filter(has_supervisor) else { return holders };
    if !holders.iter().any(may_be_supervised) {
        return holders;
    }
    let table = sys::proc::read_process_table();
    let program = &adapter.agent_profile().program;
    for holder in holders.iter_mut().filter(|holder| may_be_supervised(holder)) {
        if holder.process.pid.is_some_and(|pid| is_supervised(program, pid, &table)) {
            holder.kind = HolderKind::Supervised;
        }
    }
    holders
}

/// Every holder of a session's conversation and the way to it.
pub fn describe_holders(one: &Observed) -> ConversationHolders {
    let holders = look_at_holders(one);
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
            control.supervisor_command.map(|_| own_command(Some(control), &one.session.id))
        }
        HandOverWay::StopAndResume | HandOverWay::Wait | HandOverWay::None => None,
    }
}
