//! Access sessions among all sessions: what `ls`, `show` and `why` are told about them.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use crate::rules::skip::Skip;
use crate::rules::state::State;
use crate::rules::{AGENT, COMMAND};
use model::identity::Identity;
use model::liveness::{Doubt, Liveness, Observer};
use model::session::{Claim, FormatCertainty, How, Kind, Origin, Session};
use model::sighting::Digest;
use model::time::Time;
use model::wire::Incomplete;

use super::World;
use super::check::{Checked, check};
use super::root::Root;

/// Every access session as a session like any other, and what could not be read.
pub fn sessions(home: &Path, observer: &Observer, now: Time) -> (Vec<Session>, Vec<Incomplete>) {
    let incomplete = |reason: String| Incomplete {
        source: AGENT.to_owned(),
        path: Some(home.join("access/sessions").to_string_lossy().into_owned()),
        reason,
    };
    let found = Root::find(home).and_then(|root| match root {
        None => Ok(None),
        Some(root) => root.names().map(|names| Some((root, names))),
    });
    match found {
        Ok(None) => (Vec::new(), Vec::new()),
        Ok(Some((root, names))) => {
            let world = World::seen_by(observer.clone(), now);
            let session = |name: &std::ffi::OsString| session(&root, name, &world);
            (names.iter().map(session).collect(), Vec::new())
        }
        Err(fault) => (Vec::new(), vec![incomplete(fault.to_string())]),
    }
}

fn session(root: &Root, name: &OsStr, world: &World<'_>) -> Session {
    let source = root.sessions_path().join(name).to_string_lossy().into_owned();
    let (digest, claim) = match check(root, name, world) {
        Ok(checked) => known(&checked, world, source),
        Err(skip) => unknown(&skip, world, source),
    };
    Session {
        id: name.to_string_lossy().into_owned(),
        kind: Kind::Access,
        agent: AGENT,
        digest: Box::new(digest),
        transcript: None,
        origin: Origin {
            adapter: AGENT,
            root: Arc::from(root.sessions_path().to_string_lossy()),
            format: "ostler-access-1",
            certainty: FormatCertainty::Lab,
        },
        claims: vec![claim],
        linked: Vec::new(),
    }
}

fn known(checked: &Checked, world: &World<'_>, source: String) -> (Digest, Claim) {
    let meta = &checked.meta;
    let identity = meta.agent.identity();
    let state = checked.judged.state;
    let ended = match state {
        State::Stopped => checked.stop.as_ref().map(|stop| stop.stopped_at),
        State::Expired => Some(meta.expires_at),
        State::Active | State::Unknown => None,
    };
    let label = meta.label.clone().map(|label| format!("{label} "));
    let digest = Digest {
        title: Some(format!("{}[{}]", label.unwrap_or_default(), state.word())),
        version: Some(meta.openssh_version.clone()),
        started_at: Some(meta.created_at),
        last_activity_at: Some(ended.unwrap_or(meta.created_at)),
        ended_at: ended,
        parent: meta
            .session
            .as_ref()
            .filter(|bound| bound.agent != COMMAND && bound.id.is_ascii())
            .map(|bound| bound.id.clone()),
        ..Digest::default()
    };
    let liveness = world.liveness(&identity);
    let claim = claim(How::Registered, liveness, identity, source, meta.created_at);
    (digest, claim)
}

fn unknown(skip: &Skip, world: &World<'_>, source: String) -> (Digest, Claim) {
    let digest = Digest { title: Some(format!("[unknown: {skip}]")), ..Digest::default() };
    let liveness = Liveness::Unknown(Doubt::Unreadable);
    let how = How::UnreadableRegistration;
    (digest, claim(how, liveness, Identity::default(), source, world.clocks.now))
}

fn claim(how: How, liveness: Liveness, identity: Identity, source: String, at: Time) -> Claim {
    Claim {
        how,
        liveness,
        identity,
        started_at: None,
        activity: None,
        waiting_for: None,
        source,
        observed_at: at,
        directory: None,
    }
}
