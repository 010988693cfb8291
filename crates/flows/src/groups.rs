//! Launch groups: places that are taken before anything is made, and what becomes of their holders.
//!
//! A group is a label. Who belongs to it is a row of the store; whether that is still there is asked of the process
//! that it was started as, every time.

use std::path::Path;

use model::control::groups::{GroupMember, GroupMemberView, SLOT_VARIABLE, SlotState};
use model::failure::{Failure, FailureKind};
use model::liveness::{Death, Liveness};
use store::state::{MemberScope, StateError, StateStore};
use store::writer::StoreWriter;
use sys::dropped::NoteDropped;
use sys::machine::Machine;

use crate::observe::Observed;
use crate::terminal::sight::TERMINAL_AGENT;
use crate::terminal::{HostedSession, TerminalHome};
use crate::writer::GroupOrder;

/// Members of a home, the newest first.
pub fn list_members(home: &Path, scope: MemberScope<'_>) -> Result<Vec<GroupMember>, StateError> {
    let state = StateStore::open_read_only(home)?;
    state.map_or_else(|| Ok(Vec::new()), |state| state.list_members(scope))
}

/// Whether a member is there. One whose launcher was killed is looked for among the terminals: its agent may run.
pub fn judge_member(member: &GroupMember, machine: &Machine) -> Liveness {
    let adopted = adopt_started(member, machine);
    match adopted.as_ref().unwrap_or(member).deciding_process() {
        Some(process) => machine.probe_process(process),
        None => Liveness::Dead(Death::Gone),
    }
}

/// A member of which nothing was written down after its agent was started, as the terminal tells of it.
fn adopt_started(member: &GroupMember, machine: &Machine) -> Option<GroupMember> {
    if member.state != SlotState::Planned || !machine.probe_process(&member.launcher).is_dead() {
        return None;
    }
    let terminals = TerminalHome::at_root(machine.home(), machine);
    let names = std::fs::read_dir(terminals.sessions_directory())
        .ok_or_note("the terminals of a group")?
        .flatten();
    let is_its_own = |hosted: &HostedSession| {
        let given = hosted.manifest.env.as_ref().and_then(|env| env.get(SLOT_VARIABLE));
        given.is_some_and(|given| *given == member.id)
    };
    let hosted = names
        .filter_map(|entry| terminals.open_session(entry.file_name().to_str()?).ok())
        .find(is_its_own)?;
    Some(note_started(member, &hosted))
}

/// A member whose agent runs in a terminal.
pub fn note_started(member: &GroupMember, hosted: &HostedSession) -> GroupMember {
    let process = hosted.holder.as_ref().and_then(|holder| holder.child.clone());
    GroupMember {
        state: SlotState::Started,
        terminal: Some(hosted.id.clone()),
        process: process.or_else(|| member.process.clone()),
        ..member.clone()
    }
}

/// A member as programs see it.
pub fn view_member(member: &GroupMember, machine: &Machine) -> GroupMemberView {
    let made = member.worktree.as_ref();
    let liveness = match judge_member(member, machine) {
        Liveness::Alive(_) => "alive",
        Liveness::Dead(_) => "dead",
        Liveness::Unknown(_) => "unknown",
    };
    GroupMemberView {
        group: member.group.clone(),
        slot: member.slot.clone(),
        agent: member.agent.clone(),
        model: member.model.clone(),
        state: member.state,
        liveness,
        worktree: made.map(|made| made.path.clone()),
        is_present: made.map(|made| Path::new(&made.path).is_dir()),
        branch: made.map(|made| made.branch.clone()),
        base: made.map(|made| made.base.clone()),
        terminal: member.terminal.clone(),
        session: member.session.clone(),
        reason: member.reason.clone(),
        made_at: member.made_at,
    }
}

/// Whether a session is one of these members': its terminal, what runs in that, or the conversation that it began with.
pub fn is_of_members(one: &Observed, members: &[GroupMember]) -> bool {
    let session = &one.session;
    members.iter().any(|member| {
        let is_terminal = |agent: &str, id: &str| {
            agent == TERMINAL_AGENT && member.terminal.as_deref() == Some(id)
        };
        is_terminal(session.agent, &session.id)
            || session.linked.iter().any(|linked| is_terminal(linked.agent, &linked.id))
            || (session.agent == member.agent && member.session.as_ref() == Some(&session.id))
    })
}

/// Does what is ordered about members. The caller holds the writer lock.
pub(crate) fn perform_group_order(
    writer: &mut StoreWriter,
    order: &GroupOrder,
    machine: &Machine,
) -> Result<Vec<GroupMember>, Failure> {
    let state = writer.state_mut().map_err(not_written)?;
    match order {
        GroupOrder::Reserve { members } => {
            for member in members {
                refuse_taken(state, member, machine)?;
            }
            state.put_members(members).map_err(not_written)?;
            Ok(members.clone())
        }
        GroupOrder::Note { member } => {
            state.change_member(member).map_err(not_written)?;
            Ok(vec![(**member).clone()])
        }
    }
}

/// A place is free once no process can be in it any more and nothing is left there.
fn refuse_taken(
    state: &StateStore,
    member: &GroupMember,
    machine: &Machine,
) -> Result<(), Failure> {
    let group = member.group.as_deref().unwrap_or_default();
    let known = state.list_members(MemberScope::Of(group)).map_err(not_written)?;
    let Some(before) = known.into_iter().find(|known| known.slot == member.slot) else {
        return Ok(());
    };
    let made = before.worktree.as_ref().map(|made| made.path.as_str());
    let is_left = made.is_some_and(|path| std::fs::symlink_metadata(path).is_ok());
    let why = match (judge_member(&before, machine).is_dead(), is_left) {
        (true, false) => return Ok(()),
        (true, true) => "its worktree is still there",
        (false, _) => "its agent may still be there",
    };
    Err(Failure {
        kind: FailureKind::Refused,
        message: format!("`{}` is taken: {why}", before.full_name()),
        hint: "choose another name; `ostler groups` lists every member".to_owned(),
    })
}

/// Closes members that are proven to be over, and tells of groups that are done. The caller holds the writer lock.
pub(crate) fn close_ended(state: &mut StateStore, machine: &Machine) -> Result<(), StateError> {
    let mut over = Vec::new();
    for member in state.list_members(MemberScope::Open)? {
        let adopted = adopt_started(&member, machine);
        if let Some(adopted) = &adopted {
            state.change_member(adopted)?;
        }
        let member = adopted.unwrap_or(member);
        if member.deciding_process().is_none_or(|one| machine.probe_process(one).is_dead()) {
            over.push(member);
        }
    }
    match over.is_empty() {
        true => Ok(()),
        false => state.close_members(&over, machine.now()),
    }
}

fn not_written(error: StateError) -> Failure {
    Failure {
        kind: FailureKind::Write,
        message: format!("the group was not changed: {error}"),
        hint: "`ostler doctor` tells what is wrong".to_owned(),
    }
}
