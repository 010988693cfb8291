//! What a running session is told: text, keys, commands, sizes, signals, marks.

use std::time::Duration;

use host::client::{self, HOST_ANSWER_TIMEOUT, HostAddress};
use host::screen::Personality;
use model::hosted::protocol::{HostDialect, HostQuery};
use model::hosted::wire::{
    AttachParams, AttachResult, Dimensions, KeysParams, KeysResult, MarkParams, PasteParams,
    RunParams, RunResult, SeqResult, SignalParams, SignalResult, TypeParams,
};
use model::hosted::{FaultCode, HostFault};

use super::{HostedSession, TerminalHome};
use crate::timeouts::DEFAULT_RUN_TIMEOUT;

impl HostedSession {
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
    ) -> Result<Q::Answer, HostFault> {
        client::ask_host(self.host(), query, timeout).map_err(|fault| self.fault_of_a_host(fault))
    }

    /// Notes who types from here on, for the session's log.
    #[must_use]
    pub fn typed_by(self, typist: Option<String>) -> Self {
        Self { typist, ..self }
    }

    /// Asks, and names who does. A host of an earlier version does not take a name, and has then done
    /// nothing: it is asked without.
    fn ask_naming<Q: HostQuery>(
        &self,
        timeout: Option<Duration>,
        query: impl Fn(Option<String>) -> Q,
    ) -> Result<Q::Answer, HostFault> {
        let typist = self.typist.clone().filter(|_| self.holder.is_some());
        let is_named = typist.is_some();
        match self.ask(&query(typist), timeout) {
            Err(fault) if is_named && lacks_names(&fault) => self.ask(&query(None), timeout),
            answer => answer,
        }
    }

    /// Why a host did not answer: its session may have ended in this very moment, or without its host
    /// writing that down. Nothing is corrected here.
    pub(super) fn fault_of_a_host(&self, fault: HostFault) -> HostFault {
        if fault.code != FaultCode::HostUnreachable {
            return fault;
        }
        let now = self.reread_manifest().unwrap_or_else(|| self.clone());
        let now = match self.personality {
            Personality::Ostler => now.as_settled(),
            // agent-tty says that the host is gone until the manifest is corrected.
            Personality::AgentTty => now,
        };
        now.check_can_receive().err().unwrap_or(fault)
    }

    /// The same session, as it is written down now; as it was, if that cannot be read.
    #[must_use]
    pub fn reread(self) -> Self {
        self.reread_manifest().unwrap_or(self)
    }

    /// The same session, as it is now.
    pub(crate) fn now_settled(&self) -> Self {
        self.reread_manifest().unwrap_or_else(|| self.clone()).as_settled()
    }

    /// The same session, as it is written down now.
    pub(super) fn reread_manifest(&self) -> Option<Self> {
        let manifest = self.files.read_manifest().ok()?;
        Some(Self { manifest, ..self.clone() })
    }
}

pub fn type_text(session: &HostedSession, text: String) -> Result<SeqResult, HostFault> {
    session.check_can_receive()?;
    session.ask_naming(Some(HOST_ANSWER_TIMEOUT), |by| TypeParams { text: text.clone(), by })
}

/// Pastes text; `bracketed` puts brackets around it whether or not the program asked for them.
pub fn paste_text(
    session: &HostedSession,
    text: String,
    bracketed: bool,
) -> Result<SeqResult, HostFault> {
    session.check_can_receive()?;
    let query = |by| PasteParams { text: text.clone(), bracketed, by };
    session.ask_naming(Some(HOST_ANSWER_TIMEOUT), query)
}

pub fn send_keys(
    home: &TerminalHome,
    session: &HostedSession,
    keys: Vec<String>,
) -> Result<KeysResult, HostFault> {
    session.check_can_receive()?;
    let plain = home.personality == Personality::AgentTty;
    session.ask_naming(Some(HOST_ANSWER_TIMEOUT), |by| KeysParams { keys: keys.clone(), plain, by })
}

/// Sets a mark.
pub fn set_mark(session: &HostedSession, label: String) -> Result<SeqResult, HostFault> {
    session.check_can_receive()?;
    session.ask(&MarkParams { label }, Some(HOST_ANSWER_TIMEOUT))
}

/// Gives the shell a command.
pub fn run_command(session: &HostedSession, params: RunParams) -> Result<RunResult, HostFault> {
    session.check_can_receive()?;
    let timeout = params.timeout_ms.map_or(DEFAULT_RUN_TIMEOUT, Duration::from_millis);
    let timeout = timeout.saturating_add(2 * HOST_ANSWER_TIMEOUT);
    session.ask_naming(Some(timeout), |by| RunParams { by, ..params.clone() })
}

/// Changes the size.
pub fn resize_terminal(
    session: &HostedSession,
    cols: i64,
    rows: i64,
) -> Result<Dimensions, HostFault> {
    session.check_can_receive()?;
    let cells = |number: i64| u16::try_from(number).unwrap_or(0);
    let (cols, rows) = (cells(cols), cells(rows));
    super::create::check_dimensions(cols, rows)?;
    session.ask(&Dimensions { cols, rows }, Some(HOST_ANSWER_TIMEOUT))
}

/// Sends a signal to the program, or to its whole group.
pub fn send_signal(
    session: &HostedSession,
    signal: String,
    group: bool,
) -> Result<SignalResult, HostFault> {
    session.check_can_receive()?;
    let query = SignalParams { signal, group };
    session.ask(&query, Some(HOST_ANSWER_TIMEOUT))?;
    Ok(SignalResult { signal: query.signal, delivered: true })
}

/// Attaches: what the host says, what of the stream came with it, and the stream.
pub fn attach_terminal(
    session: &HostedSession,
    params: AttachParams,
) -> Result<(AttachResult, Vec<u8>, std::os::unix::net::UnixStream), HostFault> {
    session.check_can_receive()?;
    let attached = match client::attach_to_host(session.host(), &params) {
        Err(fault) if params.by.is_some() && lacks_names(&fault) => {
            client::attach_to_host(session.host(), &AttachParams { by: None, ..params })
        }
        attached => attached,
    };
    attached.map_err(|fault| session.fault_of_a_host(fault))
}

/// Whether a host refused because it is of a version that does not know who types.
fn lacks_names(fault: &HostFault) -> bool {
    fault.message.contains("unknown field `by`")
}
