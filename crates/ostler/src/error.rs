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
use model::failure::FailureKind;
use model::helper::{HelperFailure, HelperFailureKind};
use model::hosted::{FaultCode, HostFault};
use model::wire::{ErrorBody, ErrorDetails, IncompleteSource};
use openclaw::gateway::{self, GatewayError};
use openclaw::store::StoreError;
use store::writer::WriterError;
use sys::writer_lock::WriterLockError;

mod driving;
mod exit_codes;

use driving::{launch_hint, launch_verb, not_delivered_hint, turn_hint, turn_message};
pub(crate) use exit_codes::EXIT_TABLE;

/// Everything that can go wrong, as a person sees it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line is wrong.
    #[error("{message}")]
    Usage {
        /// The thing and the reason.
        message: String,
        /// The remedy.
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
    /// No such session in a list of its own.
    #[error("no session `{text}` {place}")]
    NotListed {
        /// What was typed.
        text: String,
        /// Where it was looked for.
        place: &'static str,
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
    NoTranscript {
        /// The session.
        id: String,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {reason}")]
    Write {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// An agent's hooks were left as they are.
    #[error(transparent)]
    Hooks(HooksError),
    /// The configuration file is wrong.
    #[error("the configuration file {path} is not valid: {reason}")]
    Config {
        /// The file.
        path: String,
        /// What and on which line.
        reason: String,
    },
    /// Policy said no.
    #[error("{what}")]
    Refused {
        /// The thing and the reason.
        what: String,
        /// The remedy.
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
    #[error("{} {}: {}", .0.agent, launch_verb(.0), .0.reason.as_deref().unwrap_or("it is not ready"))]
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
    AccessRefused {
        /// Which.
        id: String,
        /// Why.
        why: String,
    },
    /// An access session's agent was asked to end and has not.
    #[error("access session `{id}` is not stopped: {why}")]
    AccessStillRunning {
        /// Which.
        id: String,
        /// Why.
        why: String,
    },
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
    DaemonRuns {
        /// Its pid.
        pid: Option<u32>,
    },
    /// It holds its lock, and nothing comes through its socket.
    #[error("the daemon{} runs and does not answer", in_brackets(*.pid))]
    DaemonSilent {
        /// Its pid.
        pid: Option<u32>,
    },
    /// It was told to stop and has not yet.
    #[error("the daemon{} was told to stop and still runs", in_brackets(*.pid))]
    DaemonStays {
        /// Its pid.
        pid: Option<u32>,
    },
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
                Self::NotListed { text, place: "with lent access", list: "ostler access list" }
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

    /// The remedy.
    pub(crate) fn remedy_hint(&self) -> Option<String> {
        match self {
            Self::Usage { hint, .. } => hint.clone(),
            Self::NearSession { near, .. } => Some(format!(
                "did you mean `{near}`? `ostler ls -a` lists every session with its id"
            )),
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
                "install it beside ostler: `cargo xtask install --net`, or the package `ostler-net`"
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

/// The code of something that the writer did not do.
const fn failure_code(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Input => "INVALID_INPUT",
        FailureKind::NotFound => "NOT_FOUND",
        FailureKind::Refused => "REFUSED",
        FailureKind::Read => "STORAGE_READ_ERROR",
        FailureKind::Write => "STORAGE_WRITE_ERROR",
        FailureKind::MayHaveApplied => "MAY_HAVE_APPLIED",
    }
}

/// The code of something that the network helper did not do.
const fn helper_code(kind: HelperFailureKind) -> &'static str {
    match kind {
        HelperFailureKind::Input => "INVALID_INPUT",
        HelperFailureKind::NotFound => "MEMBER_UNKNOWN",
        HelperFailureKind::Ambiguous => "AMBIGUOUS_ID",
        HelperFailureKind::Refused => "REFUSED",
        HelperFailureKind::Unreachable => "MEMBER_UNREACHABLE",
        HelperFailureKind::Timeout => "MEMBER_TIMEOUT",
        HelperFailureKind::Busy => "BUSY",
        HelperFailureKind::Read => "STORAGE_READ_ERROR",
        HelperFailureKind::Write => "STORAGE_WRITE_ERROR",
        HelperFailureKind::Protocol => "PROTOCOL_ERROR",
        HelperFailureKind::MayHaveApplied => "MAY_HAVE_APPLIED",
    }
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

fn store_code(error: &StoreError) -> &'static str {
    match error {
        StoreError::Config(_) | StoreError::Policy { .. } | StoreError::NoAgent { .. } => {
            "INVALID_INPUT"
        }
        StoreError::NoKey(_) => "SESSION_NOT_FOUND",
        StoreError::Nothing(_) => "NOT_FOUND",
        StoreError::Ambiguous { .. } => "AMBIGUOUS_ID",
        StoreError::Read { .. } | StoreError::Broken { .. } | StoreError::Pins(_) => {
            "STORAGE_READ_ERROR"
        }
        StoreError::Database(_) => "REFUSED",
    }
}

fn gateway_code(error: &GatewayError) -> &'static str {
    match error {
        GatewayError::Call(gateway::GatewayCallError::MayHaveApplied(_)) => "MAY_HAVE_APPLIED",
        _ => "REFUSED",
    }
}

fn gateway_hint(error: &GatewayError) -> &'static str {
    match error {
        GatewayError::Call(gateway::GatewayCallError::MayHaveApplied(_)) => {
            "look at `ostler store ls` before trying again"
        }
        GatewayError::Call(gateway::GatewayCallError::Rejected { .. }) => {
            "put `gateway.auth` in OpenClaw's configuration right: what it holds wins over OPENCLAW_GATEWAY_TOKEN and \
             OPENCLAW_GATEWAY_PASSWORD"
        }
        GatewayError::Call(gateway::GatewayCallError::Elsewhere { .. }) => {
            "run it on the gateway's machine"
        }
        GatewayError::Call(_) => "`openclaw gateway status` tells more; stop it to work without it",
        GatewayError::Owned(_) => "stop OpenClaw first: `openclaw gateway stop`",
    }
}

fn access_code(error: &AccessError) -> &'static str {
    match error {
        AccessError::Root(_) => "ACCESS_ROOT",
        AccessError::Address(_) => "SESSION_NOT_FOUND",
        AccessError::Unusable { .. } => "ACCESS_REFUSED",
        AccessError::NotActive { .. } => "SESSION_NOT_RUNNING",
        AccessError::Refused { .. } => "REFUSED",
        AccessError::Io { .. } => "STORAGE_WRITE_ERROR",
        AccessError::Program { .. } | AccessError::Failed { .. } => "ACCESS_FAILED",
    }
}

fn access_hint(error: &AccessError) -> String {
    match error {
        AccessError::Root(_) => {
            "look at what is in it, then make it a directory of yours with mode 0700".to_owned()
        }
        AccessError::Unusable { skip, .. } => skip.remedy().to_owned(),
        AccessError::NotActive { .. } => "`ostler access open` opens a new one".to_owned(),
        AccessError::Program { program, .. } => {
            format!("install OpenSSH's client programs; `{program}` must be in PATH")
        }
        _ => "`ostler access list` shows every session".to_owned(),
    }
}

/// What a person can do about a fault of a hosted terminal.
fn terminal_hint(fault: &HostFault) -> Option<&'static str> {
    Some(match fault.code {
        FaultCode::SessionNotFound => "`ostler ls -a` lists every session with its id",
        FaultCode::SessionNotRunning | FaultCode::SessionAlreadyDestroyed => {
            "`ostler snapshot` and `ostler record export` work on sessions that are over"
        }
        FaultCode::HostUnreachable | FaultCode::HostTimeout => {
            "`ostler inspect` says whether its host is there; `ostler destroy --force` ends it"
        }
        FaultCode::InvalidKeys => "`ostler send-keys --help` shows how keys are written",
        FaultCode::InvalidSignal => "`ostler signal --help` lists the signals",
        FaultCode::StorageReadError | FaultCode::StorageWriteError => {
            "check the path and its permissions"
        }
        FaultCode::ReplayError if fault.message.contains("its last screen does not show") => {
            "nothing more can be shown there: `ostler snapshot` prints its last screen"
        }
        FaultCode::ReplayError => "`ostler verify` says what is wrong with a log",
        _ => return None,
    })
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

/// What can be done about a daemon that does not do what it is asked. Killing it loses nothing.
fn signal_hint(pid: Option<u32>) -> String {
    let pid = pid.map_or_else(|| "its pid".to_owned(), |pid| pid.to_string());
    format!("wait for what it does; if it is stopped, `kill -CONT {pid}`; else `kill {pid}`")
}

/// What can be done about an order that was not carried out.
fn order_remedy(error: &OrderError) -> &'static str {
    match error {
        OrderError::Call(DaemonCallError::MayHaveApplied(_)) => {
            "look at `ostler status --no-sweep` before trying again"
        }
        OrderError::Call(DaemonCallError::Socket(_)) => {
            "remove whatever is in the place of the socket"
        }
        OrderError::Call(_) => "`ostler daemon stop`, then try again",
        OrderError::Writer(WriterError::Lock(WriterLockError::Held(_))) => {
            "wait for it to finish, then try again; a daemon that does not answer: `ostler daemon stop`"
        }
        OrderError::Writer(WriterError::Lock(WriterLockError::NotPrivate(_))) => {
            "check that path and its permissions; `ostler doctor` tells more"
        }
        OrderError::Writer(_)
        | OrderError::Failed(_)
        | OrderError::NotDone(_)
        | OrderError::Sweep(_) => "`ostler doctor` tells what is wrong",
    }
}

fn hooks_code(error: &HooksError) -> &'static str {
    match error {
        HooksError::NoHooks(_) | HooksError::NoProject(_) | HooksError::NoHome(_) => {
            "INVALID_INPUT"
        }
        HooksError::Read { .. } => "STORAGE_READ_ERROR",
        HooksError::Write { .. } => "STORAGE_WRITE_ERROR",
        HooksError::Program(_)
        | HooksError::Wrong { .. }
        | HooksError::LeavesProject { .. }
        | HooksError::Busy(_) => "REFUSED",
    }
}

fn hooks_hint(error: &HooksError) -> String {
    let hint = match error {
        HooksError::NoHooks(_) => "`ostler hooks status` lists the agents that have hooks",
        HooksError::NoProject(_) => "use `--scope user`",
        HooksError::NoHome(_) => "set `HOME`",
        HooksError::LeavesProject { .. } => {
            "put a file in the place of the link, or use `--scope user`"
        }
        HooksError::Program(_) => "put ostler at a path of plain letters",
        HooksError::Read { .. } | HooksError::Write { .. } => "check the path and its permissions",
        HooksError::Wrong { .. } => "put the file right at that place, then try again",
        HooksError::Busy(_) => "try again when it is quiet",
    };
    hint.to_owned()
}

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
