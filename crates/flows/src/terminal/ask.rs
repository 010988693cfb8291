//! What a running session is told: text, keys, commands, sizes, signals, marks.

use std::time::Duration;

use host::client::{self, HOST_ANSWER_TIMEOUT, HostAddress};
use host::screen::Personality;
use model::hosted::protocol::{HostDialect, HostQuery};
use model::hosted::wire::{
    AttachParams, AttachResult, Dimensions, KeysParams, KeysResult, MarkParams, PasteParams,
    RunParams, RunResult, SeqResult, SignalParams, SignalResult, TypeParams,
};
use model::hosted::{Code, Fault};

use super::{Home, Session};

impl Session {
    /// Its host: one that ostler made understands what ostler adds, another one is asked as agent-tty asks.
    pub(super) fn host(&self) -> HostAddress<'_> {
        let dialect = match self.holder {
            Some(_) => HostDialect::Ostler,
            None => HostDialect::AgentTty,
        };
        HostAddress { socket: &self.socket, dialect }
    }

    /// Asks the host. A host that cannot be reached is looked for: if it is dead, the session is.
    pub(super) fn ask<Q: HostQuery>(
        &self,
        query: &Q,
        timeout: Option<Duration>,
    ) -> Result<Q::Answer, Fault> {
        client::ask_host(self.host(), query, timeout).map_err(|fault| self.fault_of_a_host(fault))
    }

    /// Why a host did not answer: its session may have ended in this very moment, or without its host
    /// writing that down. Nothing is corrected here.
    pub(super) fn fault_of_a_host(&self, fault: Fault) -> Fault {
        if fault.code != Code::HostUnreachable {
            return fault;
        }
        let now = self.again().unwrap_or_else(|| self.clone());
        let now = match self.personality {
            Personality::Ostler => now.as_settled(),
            // agent-tty says that the host is gone until somebody corrects the manifest.
            Personality::AgentTty => now,
        };
        now.target().err().unwrap_or(fault)
    }

    /// The same session, as it is written down now.
    pub(super) fn again(&self) -> Option<Self> {
        let manifest = self.files.read_manifest().ok()?;
        Some(Self { manifest, ..self.clone() })
    }
}

/// Types text.
pub fn type_text(session: &Session, text: String) -> Result<SeqResult, Fault> {
    session.target()?;
    session.ask(&TypeParams { text }, Some(HOST_ANSWER_TIMEOUT))
}

/// Pastes text; `bracketed` puts brackets around it whether or not the program asked for them.
pub fn paste(session: &Session, text: String, bracketed: bool) -> Result<SeqResult, Fault> {
    session.target()?;
    session.ask(&PasteParams { text, bracketed }, Some(HOST_ANSWER_TIMEOUT))
}

/// Presses keys.
pub fn send_keys(home: &Home, session: &Session, keys: Vec<String>) -> Result<KeysResult, Fault> {
    session.target()?;
    let plain = home.personality == Personality::AgentTty;
    session.ask(&KeysParams { keys, plain }, Some(HOST_ANSWER_TIMEOUT))
}

/// Sets a mark.
pub fn mark(session: &Session, label: String) -> Result<SeqResult, Fault> {
    session.target()?;
    session.ask(&MarkParams { label }, Some(HOST_ANSWER_TIMEOUT))
}

/// Gives the shell a command.
pub fn run(session: &Session, params: RunParams) -> Result<RunResult, Fault> {
    session.target()?;
    let timeout = params.timeout_ms.map_or(Duration::from_secs(30), Duration::from_millis);
    session.ask(&params, Some(timeout.saturating_add(2 * HOST_ANSWER_TIMEOUT)))
}

/// Changes the size.
pub fn resize(session: &Session, cols: i64, rows: i64) -> Result<Dimensions, Fault> {
    session.target()?;
    let cells = |number: i64| u16::try_from(number).unwrap_or(0);
    let (cols, rows) = (cells(cols), cells(rows));
    super::create::dimensions(cols, rows)?;
    session.ask(&Dimensions { cols, rows }, Some(HOST_ANSWER_TIMEOUT))
}

/// Sends a signal to the program, or to its whole group.
pub fn signal(session: &Session, signal: String, group: bool) -> Result<SignalResult, Fault> {
    session.target()?;
    let query = SignalParams { signal, group };
    session.ask(&query, Some(HOST_ANSWER_TIMEOUT))?;
    Ok(SignalResult { signal: query.signal, delivered: true })
}

/// Attaches: what the host says, what of the stream came with it, and the stream.
pub fn attach(
    session: &Session,
    params: AttachParams,
) -> Result<(AttachResult, Vec<u8>, std::os::unix::net::UnixStream), Fault> {
    session.target()?;
    client::attach_to_host(session.host(), &params).map_err(|fault| session.fault_of_a_host(fault))
}
