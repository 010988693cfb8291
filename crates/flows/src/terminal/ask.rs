//! What a running session is told: text, keys, commands, sizes, signals, marks.

use std::time::Duration;

use host::client::{self, PATIENCE};
use host::screen::Personality;
use model::hosted::wire::{
    AttachParams, AttachResult, Dimensions, KeysParams, KeysResult, MarkParams, RunParams,
    RunResult, SeqResult, SignalParams, SignalResult, TextParams,
};
use model::hosted::{Code, Fault};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Home, Session};

impl Session {
    /// Asks the host. A host that cannot be reached is looked for: if it is dead, the session is.
    pub(super) fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize,
        patience: Option<Duration>,
    ) -> Result<T, Fault> {
        let answer = client::call(&self.socket, method, params, patience);
        match answer {
            Err(fault) => Err(self.fault_of_a_host(fault)),
            answer => answer,
        }
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
    session.call("type", TextParams { text, bracketed: false }, Some(PATIENCE))
}

/// Pastes text; `bracketed` puts brackets around it whether or not the program asked for them.
pub fn paste(session: &Session, text: String, bracketed: bool) -> Result<SeqResult, Fault> {
    session.target()?;
    session.call("paste", TextParams { text, bracketed }, Some(PATIENCE))
}

/// Presses keys.
pub fn send_keys(home: &Home, session: &Session, keys: Vec<String>) -> Result<KeysResult, Fault> {
    session.target()?;
    let plain = home.personality == Personality::AgentTty;
    session.call("sendKeys", KeysParams { keys, plain }, Some(PATIENCE))
}

/// Sets a mark.
pub fn mark(session: &Session, label: String) -> Result<SeqResult, Fault> {
    session.target()?;
    session.call("mark", MarkParams { label }, Some(PATIENCE))
}

/// Gives the shell a command.
pub fn run(session: &Session, params: RunParams) -> Result<RunResult, Fault> {
    session.target()?;
    let timeout = params.timeout_ms.map_or(Duration::from_secs(30), Duration::from_millis);
    session.call("run", params, Some(timeout + 2 * PATIENCE))
}

/// Changes the size.
pub fn resize(session: &Session, cols: i64, rows: i64) -> Result<Dimensions, Fault> {
    session.target()?;
    let cells = |number: i64| u16::try_from(number).unwrap_or(0);
    let (cols, rows) = (cells(cols), cells(rows));
    super::create::dimensions(cols, rows)?;
    session.call("resize", Dimensions { cols, rows }, Some(PATIENCE))
}

/// Sends a signal to the program, or to its whole group.
pub fn signal(session: &Session, signal: String, group: bool) -> Result<SignalResult, Fault> {
    session.target()?;
    session.call("signal", SignalParams { signal, group }, Some(PATIENCE))
}

/// Attaches: what the host says, what of the stream came with it, and the stream.
pub fn attach(
    session: &Session,
    params: AttachParams,
) -> Result<(AttachResult, Vec<u8>, std::os::unix::net::UnixStream), Fault> {
    session.target()?;
    client::attach(&session.socket, params).map_err(|fault| session.fault_of_a_host(fault))
}
