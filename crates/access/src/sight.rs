//! Access sessions among all sessions: what `ls`, `show` and `why` are told about them.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::rules::state::AccessState;
use crate::rules::{ACCESS_AGENT_NAME, COMMAND_BINDING};
use model::identity::Identity;
use model::liveness::{Doubt, Liveness};
use model::refusal::Refusal;
use model::session::{
    ClaimBasis, FormatCertainty, ProcessClaim, Session, SessionKind, SessionOrigin,
};
use model::sighting::TranscriptDigest;
use model::time::Time;
use model::wire::IncompleteSource;

use sys::machine::Machine;

use super::check::{CheckedAccess, check_entry};
use super::root::AccessRoot;

/// Every access session as a session like any other, and what could not be read.
pub fn access_sessions(machine: &Machine) -> (Vec<Session>, Vec<IncompleteSource>) {
    let home = machine.home();
    let incomplete = |reason: String| IncompleteSource {
        source: ACCESS_AGENT_NAME.to_owned(),
        path: Some(home.join("access/sessions").to_string_lossy().into_owned()),
        reason,
    };
    let found = AccessRoot::find(home).and_then(|root| match root {
        None => Ok(None),
        Some(root) => root.entry_names().map(|names| Some((root, names))),
    });
    match found {
        Ok(None) => (Vec::new(), Vec::new()),
        Ok(Some((root, names))) => {
            let session = |name: &std::ffi::OsString| observe_entry(&root, name, machine);
            (names.iter().map(session).collect(), Vec::new())
        }
        Err(fault) => (Vec::new(), vec![incomplete(fault.to_string())]),
    }
}

fn observe_entry(root: &AccessRoot, name: &OsStr, machine: &Machine) -> Session {
    let source = root.sessions_path().join(name).to_string_lossy().into_owned();
    let (digest, claim) = match check_entry(root, name, machine) {
        Ok(checked) => checked_digest(&checked, machine, source),
        Err(skip) => skipped_digest(&skip, machine, source),
    };
    Session {
        id: name.to_string_lossy().into_owned(),
        kind: SessionKind::Access,
        agent: ACCESS_AGENT_NAME,
        digest: Box::new(digest),
        transcript: None,
        origin: SessionOrigin {
            adapter: ACCESS_AGENT_NAME,
            root: Arc::from(root.sessions_path().to_string_lossy()),
            format: "ostler-access-1",
            certainty: FormatCertainty::Lab,
        },
        written_status: None,
        claims: vec![claim],
        linked: Vec::new(),
    }
}

fn checked_digest(
    checked: &CheckedAccess,
    machine: &Machine,
    source: String,
) -> (TranscriptDigest, ProcessClaim) {
    let meta = &checked.meta;
    let identity = meta.agent.to_identity();
    let state = checked.judged.state;
    let ended = match state {
        AccessState::Stopped => checked.stop.as_ref().map(|stop| stop.stopped_at),
        AccessState::Expired => Some(meta.expires_at),
        AccessState::Active | AccessState::Unknown => None,
    };
    let label = meta.label.clone().map(|label| format!("{label} "));
    let digest = TranscriptDigest {
        title: Some(format!("{}[{}]", label.unwrap_or_default(), state.as_str())),
        version: Some(meta.openssh_version.clone()),
        started_at: Some(meta.created_at),
        last_activity_at: Some(ended.unwrap_or(meta.created_at)),
        ended_at: ended,
        parent: meta
            .session
            .as_ref()
            .filter(|bound| bound.agent != COMMAND_BINDING && bound.id.is_ascii())
            .map(|bound| bound.id.clone()),
        ..TranscriptDigest::default()
    };
    let liveness = machine.probe_process(&identity);
    let claim = make_claim(ClaimBasis::Registered, liveness, identity, source, meta.created_at);
    (digest, claim)
}

fn skipped_digest(
    skip: &Refusal,
    machine: &Machine,
    source: String,
) -> (TranscriptDigest, ProcessClaim) {
    let digest = TranscriptDigest {
        title: Some(format!("[unknown: {skip}]")),
        ..TranscriptDigest::default()
    };
    let liveness = Liveness::Unknown(Doubt::Unreadable);
    let how = ClaimBasis::UnreadableRegistration;
    (digest, make_claim(how, liveness, Identity::default(), source, machine.now()))
}

fn make_claim(
    how: ClaimBasis,
    liveness: Liveness,
    identity: Identity,
    source: String,
    at: Time,
) -> ProcessClaim {
    ProcessClaim {
        how,
        liveness,
        identity,
        started_at: None,
        activity: None,
        waiting_for: None,
        source,
        observed_at: at,
        directory: None,
        shared: None,
    }
}
