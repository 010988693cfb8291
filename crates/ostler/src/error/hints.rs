//! What can be done about an error: the sentence after `hint:`.

use access::AccessError;
use flows::hooks::HooksError;
use flows::work::OrderError;
use flows::writer::DaemonCallError;
use model::hosted::{FaultCode, HostFault};
use openclaw::gateway::{self, GatewayError};
use store::writer::WriterError;
use sys::writer_lock::WriterLockError;

pub(super) fn gateway_hint(error: &GatewayError) -> &'static str {
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

pub(super) fn access_hint(error: &AccessError) -> String {
    match error {
        AccessError::Root(_) => {
            "look at what is in it, then make it a directory of yours with mode 0700".to_owned()
        }
        AccessError::Unusable { skip, .. } => skip.remedy().to_owned(),
        AccessError::NotActive { .. } => "`ostler access open` opens a new one".to_owned(),
        AccessError::Program { program, .. } => {
            format!("install OpenSSH's client programs; `{program}` must be in PATH")
        }
        AccessError::Key { .. } => {
            "`--key` takes the file of a private key; `ssh-keygen -y -f FILE` says whether it is one"
                .to_owned()
        }
        _ => "`ostler access list` shows every session".to_owned(),
    }
}

/// What a person can do about a fault of a hosted terminal.
pub(super) fn terminal_hint(fault: &HostFault) -> Option<&'static str> {
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

/// What can be done about a daemon that does not do what it is asked. Killing it loses nothing.
pub(super) fn signal_hint(pid: Option<u32>) -> String {
    let pid = pid.map_or_else(|| "its pid".to_owned(), |pid| pid.to_string());
    format!("wait for what it does; if it is stopped, `kill -CONT {pid}`; else `kill {pid}`")
}

/// What can be done about an order that was not carried out.
pub(super) fn order_remedy(error: &OrderError) -> &'static str {
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

pub(super) fn hooks_hint(error: &HooksError) -> String {
    let hint = match error {
        HooksError::NoHooks(_) => "`ostler hooks status` lists the agents that have hooks",
        HooksError::UnknownAgent(_) => "that ostler's `ostler setup --undo` takes them out",
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
