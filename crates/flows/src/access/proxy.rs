//! Between a borrower and the agent: forwards what is allowed, refuses the rest, notes signatures.
//!
//! The protocol is strictly one question, one answer, so each connection is one thread that blocks:
//! nothing is done while nobody asks.

use std::io;
use std::os::unix::net::UnixStream;

use model::access::log::{Destination, Event, Peer};
use model::access::{KEYS_SOCKET, may_be_secret};
use sys::private::Dir;

use super::protocol::{self, Request};
use super::{client, log};
use crate::access::root::Root;

/// What connections of one session share.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) root: Root,
    pub(super) dir: Dir,
    pub(super) id: String,
    /// Whether requests that add keys are refused.
    pub(super) read_only: bool,
}

/// Serves one connection to its end.
pub(super) fn serve(policy: &Policy, mut borrower: UnixStream) -> io::Result<()> {
    let peer = sys::socket::peer(&borrower)?;
    if !peer.is_us() && peer.uid != 0 {
        return Ok(());
    }
    let peer = describe(peer);
    let mut agent: Option<UnixStream> = None;
    let mut bound: Option<Destination> = None;
    while let Some(message) = client::receive(&mut borrower)? {
        // What cannot be understood is not passed on.
        let request = protocol::parse(&message).unwrap_or(Request::Private("a broken request"));
        if let Request::Private(what) = &request
            && (policy.read_only || *what == "a broken request")
        {
            policy.note(Event::Refused { request: (*what).to_owned(), peer: peer.clone() });
            client::send(&mut borrower, &[protocol::FAILURE])?;
            continue;
        }
        // One connection there for each here: the agent remembers what a connection is bound to.
        if agent.is_none() {
            agent = Some(client::connect(&policy.dir, KEYS_SOCKET)?);
        }
        let Some(agent) = &mut agent else { return Ok(()) };
        client::send(agent, &message)?;
        let Some(answer) = client::receive(agent)? else { return Ok(()) };
        let kind = answer.first().copied();
        match request {
            Request::Bind { host_key, forwarded } if kind == Some(protocol::SUCCESS) => {
                bound = Some(Destination { user: None, host_key: Some(host_key), forwarded });
            }
            Request::Sign { fingerprint, destination } => policy.note(Event::Sign {
                fingerprint,
                peer: peer.clone(),
                destination: merged(destination, bound.as_ref()),
                granted: kind == Some(protocol::SIGN_RESPONSE),
            }),
            _ => {}
        }
        client::send(&mut borrower, &answer)?;
    }
    Ok(())
}

/// What the signed data says, and what the connection was bound to.
fn merged(signed: Option<Destination>, bound: Option<&Destination>) -> Option<Destination> {
    match (signed, bound) {
        (signed, None) => signed,
        (None, Some(bound)) => Some(bound.clone()),
        (Some(signed), Some(bound)) => Some(Destination {
            user: signed.user,
            host_key: signed.host_key.or_else(|| bound.host_key.clone()),
            forwarded: bound.forwarded,
        }),
    }
}

/// The process at the other end, as far as it can be named.
fn describe(peer: sys::socket::Peer) -> Option<Peer> {
    let pid = peer.pid?;
    let identity = sys::proc::identify(pid).ok();
    let comm = identity.as_ref().and_then(|identity| identity.comm.clone());
    Some(Peer {
        pid,
        uid: peer.uid,
        start: identity.as_ref().and_then(|identity| identity.start),
        comm: comm.filter(|comm| !may_be_secret(comm)),
    })
}

impl Policy {
    /// Adds a line to the log. Nobody can be told when that fails, and a borrower must not be able
    /// to stop the agent by filling the disk.
    pub(super) fn note(&self, event: Event) {
        let _ = log::append(&self.root, &self.id, event);
    }
}
