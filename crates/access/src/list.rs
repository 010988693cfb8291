//! What access sessions there are. Reads only, never a secret, and connects to a socket only when
//! told to.

use std::ffi::OsStr;
use std::path::Path;

use crate::rules::agent_env::AgentEnv;
use crate::rules::meta::{Key, Meta};
use crate::rules::presence::Presence;
use crate::rules::skip::Skip;
use crate::rules::state::State;
use crate::wire::{AccessView, AgentView, BoundView, KeyView};

use super::check::{Checked, check};
use super::root::{Root, RootFault};
use super::{AccessError, World};
use model::address::AddressError;

/// Every entry, by name. With `probe`, sockets are connected to.
pub fn list(home: &Path, world: &World<'_>, probe: bool) -> Result<Vec<AccessView>, RootFault> {
    let Some(root) = Root::find(home)? else { return Ok(Vec::new()) };
    let view = |name: &std::ffi::OsString| one(&root, name, world, probe);
    Ok(root.names()?.iter().map(view).collect())
}

/// The session that `text` means.
pub fn show(
    home: &Path,
    world: &World<'_>,
    text: &str,
    probe: bool,
) -> Result<AccessView, AccessError> {
    let not_found = || AddressError::NotFound(text.to_owned());
    let root = Root::find(home)?.ok_or_else(not_found)?;
    let id = root.resolve(text)?;
    Ok(one(&root, OsStr::new(&id), world, probe))
}

fn one(root: &Root, name: &OsStr, world: &World<'_>, probe: bool) -> AccessView {
    match check(root, name, world) {
        Ok(checked) => {
            let presence = checked.presence(world, probe);
            let mut view = view(&checked, presence, world);
            view.id = name.to_string_lossy().into_owned();
            view
        }
        Err(skip) => unknown(name, skip),
    }
}

fn unknown(name: &OsStr, skip: Skip) -> AccessView {
    AccessView {
        id: name.to_string_lossy().into_owned(),
        state: State::Unknown.word(),
        reason: Some(skip.code.word()),
        note: Some(skip.detail),
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

fn view(checked: &Checked, presence: Presence, world: &World<'_>) -> AccessView {
    let Meta { id, label, created_at, expires_at, agent, keys, .. } = &checked.meta;
    let note = if checked.judged.clocks_disagree {
        Some("clock-disagrees".to_owned())
    } else if checked.is_half_removed() {
        Some("its removal was interrupted; `ostler access prune` finishes it".to_owned())
    } else {
        None
    };
    AccessView {
        id: id.clone(),
        state: checked.judged.state.word(),
        reason: None,
        note,
        agent: Some(AgentView {
            presence: presence.word(),
            reason: presence.reason(),
            pid: agent.pid,
        }),
        keeper: checked
            .meta
            .keeper
            .as_ref()
            .map(|keeper| world.liveness(&keeper.identity()).state()),
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
            owner: world.liveness(&binding.owner.identity()).state(),
        }),
    }
}

/// A key as programs see it.
pub fn key_view(key: &Key) -> KeyView {
    KeyView {
        fingerprint: key.fingerprint.clone(),
        kind: key.kind.clone(),
        comment: key.comment.clone(),
    }
}

/// What a borrower needs of a session that is active and whose agent is there.
pub fn lend(home: &Path, world: &World<'_>, text: &str) -> Result<(Meta, AgentEnv), AccessError> {
    let not_found = || AddressError::NotFound(text.to_owned());
    let root = Root::find(home)?.ok_or_else(not_found)?;
    let id = root.resolve(text)?;
    let checked = check(&root, OsStr::new(&id), world)
        .map_err(|skip| AccessError::Unusable { id: id.clone(), skip })?;
    if checked.judged.state != State::Active {
        let what = checked.judged.state.word().to_owned();
        return Err(AccessError::NotActive { id, what });
    }
    let presence = checked.presence(world, true);
    if !matches!(presence, Presence::Present(_)) {
        let what = format!("active, but its agent is {} ({})", presence.word(), presence.reason());
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
