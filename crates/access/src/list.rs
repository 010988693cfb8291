//! What access sessions there are. Reads only, never a secret, and connects to a socket only when
//! told to.

use std::ffi::OsStr;

use crate::rules::agent_env::AgentEnv;
use crate::rules::meta::{AccessMeta, LentKey};
use crate::rules::presence::AgentPresence;
use crate::rules::state::AccessState;
use crate::wire::{AccessAgentView, AccessView, BoundView, KeyView};
use model::refusal::Refusal;
use sys::machine::Machine;

use super::AccessError;
use super::check::{CheckedAccess, check_entry};
use super::root::{AccessRoot, RootFault};
use model::address::AddressError;

/// Every entry, by name. With `probe`, sockets are connected to.
pub fn list_access(machine: &Machine, probe: bool) -> Result<Vec<AccessView>, RootFault> {
    let Some(root) = AccessRoot::find(machine.home())? else { return Ok(Vec::new()) };
    let view = |name: &std::ffi::OsString| view_entry(&root, name, machine, probe);
    Ok(root.entry_names()?.iter().map(view).collect())
}

/// The session that `text` means.
pub fn show_access(machine: &Machine, text: &str, probe: bool) -> Result<AccessView, AccessError> {
    let not_found = || AddressError::NotFound(text.to_owned());
    let root = AccessRoot::find(machine.home())?.ok_or_else(not_found)?;
    let id = root.resolve_id(text)?;
    Ok(view_entry(&root, OsStr::new(&id), machine, probe))
}

fn view_entry(root: &AccessRoot, name: &OsStr, machine: &Machine, probe: bool) -> AccessView {
    match check_entry(root, name, machine) {
        Ok(checked) => {
            let presence = checked.presence(machine, probe);
            let mut view = checked_view(&checked, presence, machine);
            view.id = name.to_string_lossy().into_owned();
            view
        }
        Err(skip) => skipped_view(name, skip),
    }
}

fn skipped_view(name: &OsStr, skip: Refusal) -> AccessView {
    AccessView {
        id: name.to_string_lossy().into_owned(),
        state: AccessState::Unknown.as_str(),
        reason: Some(skip.skip_code().as_str()),
        note: Some(skip.reason_text()),
        agent: None,
        keeper: None,
        created_at: None,
        expires_at: None,
        stopped_at: None,
        label: None,
        keys: Vec::new(),
        socket: None,
        confirm: false,
        read_only: false,
        destinations: Vec::new(),
        session: None,
    }
}

fn checked_view(checked: &CheckedAccess, presence: AgentPresence, machine: &Machine) -> AccessView {
    let AccessMeta { id, label, created_at, expires_at, agent, keys, .. } = &checked.meta;
    let note = if checked.judged.clocks_disagree {
        Some("clock-disagrees".to_owned())
    } else if checked.is_half_removed() {
        Some("its removal was interrupted; `ostler access prune` finishes it".to_owned())
    } else {
        None
    };
    AccessView {
        id: id.clone(),
        state: checked.judged.state.as_str(),
        reason: None,
        note,
        agent: Some(AccessAgentView {
            presence: presence.as_str(),
            reason: presence.reason_code(),
            pid: agent.pid,
        }),
        keeper: checked
            .meta
            .keeper
            .as_ref()
            .map(|keeper| machine.probe_process(&keeper.to_identity()).as_str()),
        created_at: Some(*created_at),
        expires_at: Some(*expires_at),
        stopped_at: checked.stop.as_ref().map(|stop| stop.stopped_at),
        label: label.clone(),
        keys: keys.iter().map(key_view).collect(),
        socket: checked.env.as_ref().map(|env| env.socket.clone()),
        confirm: checked.meta.confirm,
        read_only: checked.meta.read_only,
        destinations: checked.meta.destinations.clone(),
        session: checked.meta.session.as_ref().map(|binding| BoundView {
            agent: binding.agent.clone(),
            id: binding.id.clone(),
            pid: binding.owner.pid,
            owner: machine.probe_process(&binding.owner.to_identity()).as_str(),
        }),
    }
}

/// A key as programs see it.
pub fn key_view(key: &LentKey) -> KeyView {
    KeyView {
        fingerprint: key.fingerprint.clone(),
        kind: key.kind.clone(),
        comment: key.comment.clone(),
    }
}

/// What a borrower needs of a session that is active and whose agent is there.
pub fn lend_access(machine: &Machine, text: &str) -> Result<(AccessMeta, AgentEnv), AccessError> {
    let not_found = || AddressError::NotFound(text.to_owned());
    let root = AccessRoot::find(machine.home())?.ok_or_else(not_found)?;
    let id = root.resolve_id(text)?;
    let checked = check_entry(&root, OsStr::new(&id), machine)
        .map_err(|skip| AccessError::Unusable { id: id.clone(), skip })?;
    if checked.judged.state != AccessState::Active {
        let what = checked.judged.state.as_str().to_owned();
        return Err(AccessError::NotActive { id, what });
    }
    let presence = checked.presence(machine, true);
    if !matches!(presence, AgentPresence::Present(_)) {
        let what =
            format!("active, but its agent is {} ({})", presence.as_str(), presence.reason_code());
        return Err(AccessError::NotActive { id, what });
    }
    if !checked.is_served() {
        let what = "active, but nobody serves its socket".to_owned();
        return Err(AccessError::NotActive { id, what });
    }
    let env = checked.env.ok_or_else(|| AccessError::NotActive {
        id: id.clone(),
        what: "being removed".to_owned(),
    })?;
    Ok((checked.meta, env))
}
