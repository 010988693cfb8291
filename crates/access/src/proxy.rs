//! Filtering proxy between a borrower and the agent: forwards what is allowed, refuses the rest, notes
//! signatures.
//!
//! The protocol is strictly one question, one answer, so each connection is one thread that blocks:
//! nothing is done while there is no request.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use sys::dropped::NoteDropped;

use crate::rules::log::{AccessEvent, LoginDestination, SocketPeer};
use crate::rules::{KEYS_SOCKET, may_be_secret};
use sys::machine::Machine;
use sys::private::PrivateDir;
use sys::sender::AttributedStream;
use sys::socket::PeerCredentials;

use super::connections::ConnectionTurn;
use super::protocol::{self, SshAgentRequest};
use super::{client, log};
use crate::root::AccessRoot;

/// What a request is called that cannot be understood.
const BROKEN: &str = "a broken request";

/// What is refused to a borrower who is at a host that no key may be used for: the agent shows it none.
const NO_KEY_FOR_HOST: &str = "use a key for another destination";

/// What connections of one session share.
#[derive(Debug)]
pub(super) struct ProxyPolicy {
    pub(super) machine: Machine,
    pub(super) root: AccessRoot,
    pub(super) dir: PrivateDir,
    pub(super) id: String,
    /// Whether requests that add or remove keys are refused.
    pub(super) read_only: bool,
    /// Whether a signature that cannot be logged is given all the same.
    pub(super) signs_unlogged: bool,
    /// How often each kind of request was refused.
    pub(super) refusals: Mutex<BTreeMap<&'static str, u64>>,
}

/// Serves one connection to its end. `turn` says whether a request is under way.
pub(super) fn serve_borrower(
    policy: &ProxyPolicy,
    borrower: UnixStream,
    turn: &ConnectionTurn,
) -> io::Result<()> {
    let may_ask = |sender: PeerCredentials| sender.is_us() || sender.uid == 0;
    let mut borrower = AttributedStream::new(borrower)?;
    let mut asker = borrower.sender();
    if !may_ask(asker) {
        return Ok(());
    }
    let mut peer = describe_peer(&policy.machine, asker);
    let mut agent: Option<UnixStream> = None;
    let mut bound: Option<LoginDestination> = None;
    while let Some(message) = client::receive_message(&mut borrower)? {
        // A connection may be passed on: who asks counts, not who connected.
        if borrower.sender() != asker {
            asker = borrower.sender();
            peer = describe_peer(&policy.machine, asker);
        }
        if !may_ask(asker) {
            return Ok(());
        }
        // What cannot be understood is not passed on.
        let request = protocol::parse_request(&message).unwrap_or(SshAgentRequest::Private(BROKEN));
        if let Some(what) = policy.refuses(&request) {
            policy.note_refusal(what, peer.as_ref());
            client::send_message(&mut borrower, &[protocol::FAILURE])?;
            continue;
        }
        let _busy = turn.begin();
        // One connection there for each here: the agent remembers what a connection is bound to.
        if agent.is_none() {
            agent = Some(client::connect_agent(&policy.dir, KEYS_SOCKET)?);
        }
        let Some(agent) = &mut agent else { return Ok(()) };
        client::send_message(agent, &message)?;
        let Some(answer) = client::receive_message(agent)? else { return Ok(()) };
        let kind = answer.first().copied();
        match request {
            SshAgentRequest::Bind { host_key, forwarded } if kind == Some(protocol::SUCCESS) => {
                bound = Some(LoginDestination { user: None, host_key: Some(host_key), forwarded });
            }
            SshAgentRequest::Identities if bound.is_some() && policy.hides_all_keys(&answer) => {
                policy.note_refusal(NO_KEY_FOR_HOST, peer.as_ref());
            }
            SshAgentRequest::Sign { fingerprint, destination } => {
                let event = AccessEvent::Sign {
                    fingerprint,
                    peer: peer.clone(),
                    destination: merge_destinations(destination, bound.as_ref()),
                    granted: kind == Some(protocol::SIGN_RESPONSE),
                };
                // A signature leaves this process only after the line that tells of it.
                if policy.append_event(event).is_err() && !policy.signs_unlogged {
                    client::send_message(&mut borrower, &[protocol::FAILURE])?;
                    continue;
                }
            }
            _ => {}
        }
        client::send_message(&mut borrower, &answer)?;
    }
    Ok(())
}

/// What the signed data says, and what the connection was bound to.
fn merge_destinations(
    signed: Option<LoginDestination>,
    bound: Option<&LoginDestination>,
) -> Option<LoginDestination> {
    match (signed, bound) {
        (signed, None) => signed,
        (None, Some(bound)) => Some(bound.clone()),
        (Some(signed), Some(bound)) => Some(LoginDestination {
            user: signed.user,
            host_key: signed.host_key.or_else(|| bound.host_key.clone()),
            forwarded: bound.forwarded,
        }),
    }
}

/// The process at the other end, as far as it can be named.
fn describe_peer(machine: &Machine, peer: PeerCredentials) -> Option<SocketPeer> {
    let pid = peer.pid?;
    let identity = machine.identify_process(pid).ok();
    let comm = identity.as_ref().and_then(|identity| identity.comm.clone());
    Some(SocketPeer {
        pid,
        uid: peer.uid,
        start: identity.as_ref().and_then(|identity| identity.start),
        comm: comm.filter(|comm| !may_be_secret(comm)),
    })
}

impl ProxyPolicy {
    /// What a request is called, if it is not passed on.
    fn refuses(&self, request: &SshAgentRequest) -> Option<&'static str> {
        match request {
            SshAgentRequest::Private(what) if self.read_only || *what == BROKEN => Some(what),
            SshAgentRequest::Remove if self.read_only => Some("remove keys"),
            _ => None,
        }
    }

    /// Whether a bound connection is shown no key although the agent has some.
    fn hides_all_keys(&self, shown: &[u8]) -> bool {
        let count = |answer: &[u8]| protocol::parse_identities(answer).map_or(0, |keys| keys.len());
        let ask_unbound = || -> io::Result<Option<Vec<u8>>> {
            let mut agent = client::connect_agent(&self.dir, KEYS_SOCKET)?;
            client::send_message(&mut agent, &[protocol::REQUEST_IDENTITIES])?;
            client::receive_message(&mut agent)
        };
        // An agent that does not answer has refused nothing.
        count(shown) == 0 && matches!(ask_unbound(), Ok(Some(all)) if count(&all) > 0)
    }

    /// Adds a line about a refusal, at the first, the second, the fourth and so on of its kind.
    fn note_refusal(&self, what: &'static str, peer: Option<&SocketPeer>) {
        let times = {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            let times = refusals.entry(what).or_default();
            *times += 1;
            *times
        };
        if times.is_power_of_two() {
            let (request, peer) = (what.to_owned(), peer.cloned());
            self.log_event(AccessEvent::Refused { request, peer, times: Some(times) });
        }
    }

    fn append_event(&self, event: AccessEvent) -> io::Result<()> {
        log::append_event(&self.root, &self.id, event, self.machine.read_clock())
    }

    /// Adds a line to the log. A failure has no one to report to, and a borrower must not be able
    /// to stop the agent by filling the disk.
    pub(super) fn log_event(&self, event: AccessEvent) {
        self.append_event(event).note_dropped("adding to the session's log");
    }
}
