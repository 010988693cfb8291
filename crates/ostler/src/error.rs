//! Errors become text, hints and exit codes here and nowhere else.

use std::process::ExitCode;

use access::AccessError;
use flows::control::launch::LaunchError;
use flows::control::prompt::{PromptError, TurnPause};
use flows::events::EventsError;
use flows::hooks::HooksError;
use flows::openclaw_store::CleanError;
use flows::permits::PermitError;
use flows::pins::PinError;
use flows::terminal::TerminalError;
use flows::vault::VaultError;
use flows::work::OrderError;
use flows::writer::DaemonCallError;
use model::address::AddressError;
use model::control::delivery::{DeliveryRecord, DeliveryState, TurnEnd, delivery_failure};
use model::control::refusal::DriveRefusal;
use model::control::wire::{LaunchResult, LaunchState, launch_failure};
use model::helper::{HelperFailure, HelperFailureKind};
use model::hosted::HostFault;
use model::wire::{ErrorBody, ErrorDetails, IncompleteSource};
use openclaw::gateway::GatewayError;
use openclaw::store::StoreError;
use store::writer::WriterError;
use sys::writer_lock::WriterLockError;

mod codes;
mod driving;
mod exit_codes;
mod hints;
mod wording;

use codes::{access_code, failure_code, gateway_code, helper_code, hooks_code, store_code};
use driving::{launch_hint, launch_message, not_delivered_hint, turn_hint, turn_message};
pub(crate) use exit_codes::EXIT_TABLE;
use hints::{access_hint, gateway_hint, hooks_hint, order_remedy, signal_hint, terminal_hint};

/// Everything that can go wrong, as a person sees it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line is wrong.
    #[error("{message}")]
    Usage {
        /// The thing and the reason.
        message: String,
        hint: Option<String>,
    },
    /// No session, or several.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// No session, and one that was probably meant.
    #[error("no session `{text}`")]
    NearSession {
        /// What was typed.
        text: String,
        /// What would have meant one.
        near: String,
    },
    /// No such thing in a list of its own.
    #[error("no {kind} `{text}`")]
    NotListed {
        /// What was typed.
        text: String,
        /// What was looked for.
        kind: &'static str,
        /// The command that lists what there is.
        list: &'static str,
    },
    /// What a hosted terminal, its host or its files answered.
    #[error(transparent)]
    Terminal(HostFault),
    /// The session is an agent's own, in no terminal of ours.
    #[error("`{session}` is not hosted by ostler{}", running_place(.place))]
    NotHosted {
        /// `agent:id`.
        session: String,
        /// Its process, and the terminal that this runs on.
        place: Option<(u32, Option<String>)>,
        /// The command that opens it.
        resume: Option<String>,
    },
    /// The session has nothing to read.
    #[error("session `{id}` has no transcript to read yet")]
    NoTranscript { id: String },
    /// A file could not be read.
    #[error("cannot read {path}: {reason}")]
    Read { path: String, reason: String },
    /// A file could not be written.
    #[error("cannot write {path}: {reason}")]
    Write { path: String, reason: String },
    /// An agent's hooks were left as they are.
    #[error(transparent)]
    Hooks(HooksError),
    /// The configuration file is wrong.
    #[error("the configuration file {path} is not valid: {reason}")]
    Config {
        path: String,
        /// What and on which line.
        reason: String,
    },
    /// Policy said no.
    #[error("{what}")]
    Refused {
        /// The thing and the reason.
        what: String,
        hint: String,
    },
    /// An agent is not driven; nothing was written, started or signalled.
    #[error(transparent)]
    Drive(DriveRefusal),
    /// A prompt did not arrive, or nothing proves that it did.
    #[error("the prompt was not delivered ({}): {}", .0.state.as_str(), .0.reason.as_deref().unwrap_or("no proof"))]
    NotDelivered(Box<DeliveryRecord>),
    /// A prompt arrived, and the turn that it began did not end with an answer.
    #[error("{}", turn_message(.0))]
    TurnNotAnswered(Box<DeliveryRecord>, &'static str),
    /// An agent was started, and does not do what it should.
    #[error("{}", launch_message(.0))]
    Launch(Box<LaunchResult>),
    /// The agent's program is not there.
    #[error("{0}")]
    NoProgram(String),
    /// The agent's program cannot be run.
    #[error("{0}")]
    NotExecutable(String),
    /// A permission request was not answered.
    #[error(transparent)]
    Permit(PermitError),
    /// What was waited for did not happen.
    #[error("{0}")]
    WaitedInVain(String),
    /// Something about an access session.
    #[error(transparent)]
    Access(AccessError),
    /// Nothing was done to an access session.
    #[error("access session `{id}` was left alone: {why}")]
    AccessRefused { id: String, why: String },
    /// An access session's agent was asked to end and has not.
    #[error("access session `{id}` is not stopped: {why}")]
    AccessStillRunning { id: String, why: String },
    /// A store of OpenClaw's cannot be used.
    #[error(transparent)]
    Store(StoreError),
    /// OpenClaw's gateway did not do what it was asked, or may have.
    #[error(transparent)]
    Gateway(GatewayError),
    /// ostler's own directories cannot be named.
    #[error(transparent)]
    Dirs(#[from] sys::dirs::DirsError),
    /// A change of ostler's state was not made, or is not known to have been.
    #[error(transparent)]
    Order(OrderError),
    /// What is pinned cannot be read.
    #[error(transparent)]
    Pins(PinError),
    /// The stream of events cannot be read.
    #[error(transparent)]
    Events(EventsError),
    /// There is one already.
    #[error("the daemon already runs{}", in_brackets(*.pid))]
    DaemonRuns { pid: Option<u32> },
    /// It holds its lock, and nothing comes through its socket.
    #[error("the daemon{} runs and does not answer", in_brackets(*.pid))]
    DaemonSilent { pid: Option<u32> },
    /// It was told to stop and has not yet.
    #[error("the daemon{} was told to stop and still runs", in_brackets(*.pid))]
    DaemonStays { pid: Option<u32> },
    /// The vault cannot give something back.
    #[error("the vault cannot give it back: {0}")]
    Vault(#[from] VaultError),
    /// What speaks to other machines is not installed.
    #[error("`ostler-net`, which speaks to other machines, is not installed: {0}")]
    HelperMissing(String),
    /// What the network helper answered.
    #[error(transparent)]
    Helper(#[from] HelperFailure),
    /// Output could not be written.
    #[error("cannot write the answer: {0}")]
    Output(#[from] std::io::Error),
    /// A result could not be encoded.
    #[error("cannot encode the answer: {0}")]
    Encode(#[from] serde_json::Error),
}

impl From<AccessError> for Error {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Address(AddressError::NotFound(text)) => {
                Self::NotListed { text, kind: "access session", list: "ostler access list" }
            }
            AccessError::Address(error) => Self::Address(error),
            AccessError::Refused { what, hint } => Self::Refused { what, hint },
            other => Self::Access(other),
        }
    }
}

impl From<EventsError> for Error {
    fn from(error: EventsError) -> Self {
        Self::Events(error)
    }
}

impl From<PinError> for Error {
    fn from(error: PinError) -> Self {
        match error {
            PinError::Address(error) => Self::Address(error),
            PinError::Access(_) => Self::usage_error(
                error.to_string(),
                "it is kept until it is proven to be over; `ostler access show` tells more",
            ),
            PinError::State(_) => Self::Pins(error),
        }
    }
}

impl Error {
    /// An error in the command line with a remedy.
    pub(crate) fn usage_error(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: Some(hint.into()) }
    }

    /// Whether the reader of our output has gone away: not an error worth a word.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Output(error) => error.kind() == std::io::ErrorKind::BrokenPipe,
            Self::Encode(error) => error.io_error_kind() == Some(std::io::ErrorKind::BrokenPipe),
            _ => false,
        }
    }

    /// The stable code.
    pub(crate) fn stable_code(&self) -> &'static str {
        match self {
            Self::Usage { .. } | Self::Config { .. } => "INVALID_INPUT",
            Self::Address(AddressError::NotFound(_))
            | Self::NearSession { .. }
            | Self::NotHosted { .. }
            | Self::NotListed { .. } => "SESSION_NOT_FOUND",
            Self::Address(AddressError::Ambiguous { .. }) => "AMBIGUOUS_ID",
            Self::Terminal(fault) => fault.code.as_str(),
            Self::NoTranscript { .. } | Self::Read { .. } => "STORAGE_READ_ERROR",
            Self::Write { .. } => "STORAGE_WRITE_ERROR",
            Self::Refused { .. } | Self::Drive(_) => "REFUSED",
            Self::NotDelivered(delivery) => {
                delivery_failure(delivery.state, None).unwrap_or("NOT_DELIVERED")
            }
            Self::TurnNotAnswered(_, code) => code,
            Self::Launch(result) => launch_failure(result).unwrap_or("INTERNAL_ERROR"),
            Self::NoProgram(_) => "NOT_FOUND",
            Self::NotExecutable(_) => "HOST_UNREACHABLE",
            Self::WaitedInVain(_) => "WAIT_TIMEOUT",
            Self::Permit(PermitError::MayHaveApplied) => "MAY_HAVE_APPLIED",
            Self::Permit(PermitError::NotAnswered { .. }) => "HOST_UNREACHABLE",
            Self::Permit(_) => "SESSION_NOT_RUNNING",
            Self::Access(error) => access_code(error),
            Self::AccessRefused { .. } => "ACCESS_REFUSED",
            Self::AccessStillRunning { .. } => "ACCESS_STILL_RUNNING",
            Self::Dirs(_) => "INVALID_INPUT",
            Self::Store(error) => store_code(error),
            Self::Gateway(error) => gateway_code(error),
            Self::Order(OrderError::Call(DaemonCallError::MayHaveApplied(_))) => "MAY_HAVE_APPLIED",
            Self::Order(OrderError::NotDone(failure)) => failure_code(failure.kind),
            Self::Order(OrderError::Call(
                DaemonCallError::Refused(_)
                | DaemonCallError::Socket(_)
                | DaemonCallError::NotTaken { .. },
            ))
            | Self::Order(OrderError::Writer(WriterError::Lock(WriterLockError::Held(_))))
            | Self::DaemonRuns { .. }
            | Self::DaemonSilent { .. }
            | Self::DaemonStays { .. } => "REFUSED",
            Self::Order(_) => "STORAGE_WRITE_ERROR",
            Self::Vault(VaultError::NoPlace { .. }) => "REFUSED",
            Self::Pins(_) | Self::Events(_) | Self::Vault(_) => "STORAGE_READ_ERROR",
            Self::Hooks(error) => hooks_code(error),
            Self::HelperMissing(_) => "NOT_FOUND",
            Self::Helper(failure) => helper_code(failure.kind),
            Self::Output(_) | Self::Encode(_) => "INTERNAL_ERROR",
        }
    }

    pub(crate) fn remedy_hint(&self) -> Option<String> {
        match self {
            Self::Usage { hint, .. } => hint.clone(),
            Self::NearSession { near, .. } => Some(format!(
                "did you mean `{near}`? `ostler ls -a` lists every session with its id"
            )),
            Self::Address(AddressError::NotFound(text)) if text == "-" => Some(
                "`-` is the newest session, and there is none yet; `ostler adapters` shows where agents are \
                 looked for"
                    .to_owned(),
            ),
            Self::Address(AddressError::NotFound(_)) => {
                Some("`ostler ls -a` lists every session with its id".to_owned())
            }
            Self::Address(AddressError::Ambiguous { candidates, .. }) => Some(format!(
                "type more of the id, or put the agent in front: {}",
                candidates.iter().take(5).cloned().collect::<Vec<_>>().join(", ")
            )),
            Self::NotListed { list, .. } => Some(format!("`{list}` lists what there is")),
            Self::Drive(refusal) => Some(refusal.remedy()),
            Self::NotDelivered(delivery) => Some(not_delivered_hint(delivery.state).to_owned()),
            Self::TurnNotAnswered(_, code) => Some(turn_hint(code).to_owned()),
            Self::Launch(result) => Some(launch_hint(result)),
            Self::NoProgram(_) => Some("install it, or put its directory on the PATH".to_owned()),
            Self::NotExecutable(_) => Some("`chmod +x` it, or install it again".to_owned()),
            Self::WaitedInVain(_) => Some("raise `--timeout`, or say `--now`".to_owned()),
            Self::Permit(_) => Some("`ostler permits` lists what is asked for now".to_owned()),
            Self::NotHosted { place, resume, .. } => Some(match (place, resume) {
                (Some(_), Some(resume)) => {
                    format!("use the terminal it runs in; once it is left, `{resume}` opens it")
                }
                (None, Some(resume)) => format!("`{resume}` opens it"),
                (_, None) => "`ostler show` and `ostler logs` tell more of it".to_owned(),
            }),
            Self::Terminal(fault) => terminal_hint(fault).map(str::to_owned),
            Self::NoTranscript { .. } => {
                Some("the agent writes it with the first answer; try again then".to_owned())
            }
            Self::Config { path, .. } => Some(format!(
                "put that line of {path} right; docs/configuration.md lists the settings"
            )),
            Self::Store(error) => Some(error.remedy()),
            Self::Gateway(error) => Some(gateway_hint(error).to_owned()),
            Self::Dirs(_) => Some("set HOME or OSTLER_HOME to an absolute path".to_owned()),
            Self::Order(OrderError::NotDone(failure)) => Some(failure.hint.clone()),
            Self::Order(OrderError::Call(DaemonCallError::NotTaken { pid, .. })) => {
                Some(signal_hint(*pid))
            }
            Self::Order(error) => Some(order_remedy(error).to_owned()),
            Self::DaemonRuns { .. } => {
                Some("`ostler daemon status` tells more; `ostler daemon stop` stops it".to_owned())
            }
            Self::DaemonSilent { pid } | Self::DaemonStays { pid } => Some(signal_hint(*pid)),
            Self::Pins(_) | Self::Events(_) => {
                Some("`ostler doctor` tells what is wrong".to_owned())
            }
            Self::Vault(VaultError::NoPlace { .. }) => {
                Some("`--to DIR` writes it below a directory, named by its hash".to_owned())
            }
            Self::Vault(VaultError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::AlreadyExists =>
            {
                Some("`--to DIR` writes it below another directory".to_owned())
            }
            Self::Vault(_) => Some("`ostler vault verify` checks all of it".to_owned()),
            Self::Read { .. } | Self::Write { .. } => {
                Some("check the path and its permissions".to_owned())
            }
            Self::Refused { hint, .. } => Some(hint.clone()),
            Self::Access(error) => Some(access_hint(error)),
            Self::AccessRefused { id, .. } => {
                Some(format!("`ostler access show {id} --probe` shows what is known"))
            }
            Self::AccessStillRunning { id, .. } => {
                Some(format!("`ostler access stop {id} --kill` does not ask"))
            }
            Self::Hooks(error) => Some(hooks_hint(error)),
            Self::HelperMissing(_) => Some(
                "install it beside ostler: `cargo xtask install --net`; packages bring both programs"
                    .to_owned(),
            ),
            Self::Helper(failure) => Some(failure.hint.clone()),
            Self::Output(_) | Self::Encode(_) => None,
        }
    }

    /// The exit code, from the table.
    pub(crate) fn exit_code(&self) -> ExitCode {
        exit_code_of(self.stable_code())
    }

    /// Whether another process holds the writer lock, and nothing was done (a retry is safe).
    pub(crate) fn is_writer_busy(&self) -> bool {
        matches!(
            self,
            Self::Order(
                OrderError::Call(DaemonCallError::NotTaken { .. })
                    | OrderError::Writer(WriterError::Lock(WriterLockError::Held(_)))
            )
        )
    }

    /// The error as programs see it.
    pub(crate) fn to_body(&self) -> ErrorBody {
        let candidates = match self {
            Self::Address(AddressError::Ambiguous { candidates, .. })
            | Self::Store(StoreError::Ambiguous { candidates, .. }) => candidates.clone(),
            _ => Vec::new(),
        };
        ErrorBody {
            code: self.stable_code(),
            message: self.to_string(),
            retryable: match self {
                Self::Terminal(fault) => fault.code.is_retryable(),
                Self::Hooks(HooksError::Busy(_)) => true,
                Self::Order(_) => self.is_writer_busy(),
                Self::Helper(failure) => matches!(
                    failure.kind,
                    HelperFailureKind::Unreachable
                        | HelperFailureKind::Timeout
                        | HelperFailureKind::Busy
                ),
                _ => false,
            },
            hint: self.remedy_hint(),
            details: ErrorDetails {
                candidates,
                values: match self {
                    Self::Terminal(fault) => fault.details.clone(),
                    Self::Drive(refusal) => details_of("reason", &refusal.code()),
                    Self::NotDelivered(delivery) | Self::TurnNotAnswered(delivery, _) => {
                        details_of("delivery", delivery)
                    }
                    Self::Launch(result) => details_of("launch", result),
                    _ => serde_json::Map::new(),
                },
            },
        }
    }
}

/// One offending value.
fn details_of(
    name: &str,
    value: &impl serde::Serialize,
) -> serde_json::Map<String, serde_json::Value> {
    serde_json::to_value(value)
        .map(|value| [(name.to_owned(), value)].into_iter().collect())
        .unwrap_or_default()
}

/// The writer answered something else than it was asked.
pub(crate) fn unexpected_answer() -> Error {
    let call = DaemonCallError::MayHaveApplied("an unknown answer".to_owned());
    Error::Order(OrderError::Call(call))
}

impl From<CleanError> for Error {
    fn from(error: CleanError) -> Self {
        match error {
            CleanError::Store(error) => Self::Store(error),
            CleanError::Gateway(error) => Self::Gateway(error),
            CleanError::Order(error) => Self::Order(error),
        }
    }
}

impl From<HostFault> for Error {
    fn from(fault: HostFault) -> Self {
        Self::Terminal(fault)
    }
}

impl From<TerminalError> for Error {
    fn from(error: TerminalError) -> Self {
        match error {
            TerminalError::Fault(fault) => Self::Terminal(fault),
            TerminalError::Address(error) => Self::Address(error),
        }
    }
}

/// Where a process runs, as part of a sentence.
fn running_place(place: &Option<(u32, Option<String>)>) -> String {
    match place {
        Some((pid, Some(terminal))) => format!(": it runs as pid {pid} on {terminal}"),
        Some((pid, None)) => format!(": it runs as pid {pid}"),
        None => String::new(),
    }
}

fn in_brackets(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

/// The exit code of a command line that is wrong.
const USAGE_EXIT: u8 = 2;

/// The exit code of an error code.
pub(crate) fn exit_code_of(code: &str) -> ExitCode {
    ExitCode::from(exit_number_of(code))
}

/// The same, as a number.
pub(crate) fn exit_number_of(code: &str) -> u8 {
    let row = EXIT_TABLE.iter().find(|exit| exit.codes.split(", ").any(|one| one == code));
    row.map_or(1, |exit| exit.code)
}

/// The exit code of an answer: success, unless something could not be read.
pub(crate) fn exit_code_for(incomplete: &[IncompleteSource]) -> ExitCode {
    if incomplete.is_empty() { ExitCode::SUCCESS } else { exit_code_of("INCOMPLETE") }
}

#[cfg(test)]
mod tests;
