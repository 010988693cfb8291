//! Is the agent still there? The mapping from liveness and the socket's answer.

use model::liveness::{Death, Doubt, Life, Liveness};
use model::refusal::{Refusal, SkipCode};

/// What connecting to a session's socket showed. No request is ever sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketAnswer {
    NotAsked,
    /// No socket, or one without a listener.
    Silent,
    Answers,
    /// The system would not let us connect.
    Refused,
    /// No answer in time.
    TimedOut,
}

/// Present, absent or unknown, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentPresence {
    /// It is there.
    Present(PresenceProof),
    /// Positive proof that it is gone.
    Absent(Death),
    /// Neither can be said.
    Unknown(PresenceDoubt),
}

/// Why an agent is called present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresenceProof {
    /// The very process that was recorded.
    Process(Life),
    /// Some process has the pid, and no start was recorded to tell them apart.
    AnyProcess,
    /// The socket has a listener.
    Socket,
}

/// Why nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresenceDoubt {
    /// The process table does not say.
    Process(Doubt),
    /// The socket may not be asked.
    SocketRefused,
    /// The socket did not answer in time.
    SocketTimedOut,
}

impl AgentPresence {
    /// Puts the process and its socket together. A socket that answers always wins; a socket that
    /// leaves a doubt takes away the proof of absence.
    pub const fn from_process_and_socket(process: Liveness, socket: SocketAnswer) -> Self {
        match (process, socket) {
            (Liveness::Alive(life), _) => Self::Present(PresenceProof::Process(life)),
            (_, SocketAnswer::Answers) => Self::Present(PresenceProof::Socket),
            // The record is ours and names a possible pid: what it lacks is the start.
            (Liveness::Unknown(Doubt::Incomplete | Doubt::ClockUnproven), _) => {
                Self::Present(PresenceProof::AnyProcess)
            }
            (Liveness::Unknown(doubt), _) => Self::Unknown(PresenceDoubt::Process(doubt)),
            (Liveness::Dead(_), SocketAnswer::Refused) => {
                Self::Unknown(PresenceDoubt::SocketRefused)
            }
            (Liveness::Dead(_), SocketAnswer::TimedOut) => {
                Self::Unknown(PresenceDoubt::SocketTimedOut)
            }
            (Liveness::Dead(death), SocketAnswer::Silent | SocketAnswer::NotAsked) => {
                Self::Absent(death)
            }
        }
    }

    /// `present`, `absent` or `unknown`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Present(_) => "present",
            Self::Absent(_) => "absent",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The reason code.
    pub const fn reason_code(self) -> &'static str {
        match self {
            Self::Present(PresenceProof::Process(life)) => Liveness::Alive(life).reason_code(),
            Self::Present(PresenceProof::AnyProcess) => "pid-in-use",
            Self::Present(PresenceProof::Socket) => "socket",
            Self::Absent(Death::Rebooted) => "reboot",
            Self::Absent(death) => Liveness::Dead(death).reason_code(),
            Self::Unknown(PresenceDoubt::Process(doubt)) => Liveness::Unknown(doubt).reason_code(),
            Self::Unknown(PresenceDoubt::SocketRefused) => "socket-refused",
            Self::Unknown(PresenceDoubt::SocketTimedOut) => "socket-timeout",
        }
    }

    /// Whether the agent may be taken to be gone: what permits a removal.
    pub fn require_absent(self) -> Result<Death, Refusal> {
        let skip = |code, detail: &str| {
            Err(Refusal::skip(code, format!("{detail} ({})", self.reason_code())))
        };
        match self {
            Self::Absent(death) => Ok(death),
            Self::Present(PresenceProof::Socket) => {
                skip(SkipCode::AgentAlive, "something listens on its socket")
            }
            Self::Present(_) => skip(SkipCode::AgentAlive, "its agent is there"),
            Self::Unknown(PresenceDoubt::Process(Doubt::ForeignHost)) => {
                skip(SkipCode::ForeignHost, "it was opened on another machine")
            }
            Self::Unknown(PresenceDoubt::Process(Doubt::ForeignNamespace | Doubt::Blind)) => {
                skip(SkipCode::ForeignNamespace, "it was opened in another namespace")
            }
            Self::Unknown(_) => {
                skip(SkipCode::PresenceUnknown, "its agent cannot be proved gone from here")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERS: [SocketAnswer; 5] = [
        SocketAnswer::NotAsked,
        SocketAnswer::Silent,
        SocketAnswer::Answers,
        SocketAnswer::Refused,
        SocketAnswer::TimedOut,
    ];

    #[test]
    fn a_socket_that_answers_always_wins() {
        for process in [
            Liveness::Dead(Death::Gone),
            Liveness::Dead(Death::Rebooted),
            Liveness::Unknown(Doubt::ForeignHost),
        ] {
            let presence = AgentPresence::from_process_and_socket(process, SocketAnswer::Answers);
            assert_eq!(presence, AgentPresence::Present(PresenceProof::Socket));
        }
    }

    #[test]
    fn only_a_dead_process_with_a_silent_socket_may_go() {
        let processes = [
            Liveness::Alive(Life::Running),
            Liveness::Alive(Life::Stopped),
            Liveness::Unknown(Doubt::Incomplete),
            Liveness::Unknown(Doubt::NoProc),
            Liveness::Unknown(Doubt::ForeignHost),
            Liveness::Unknown(Doubt::BootUnknown),
            Liveness::Unknown(Doubt::ForeignNamespace),
            Liveness::Unknown(Doubt::Hidden),
            Liveness::Unknown(Doubt::Unreadable),
            Liveness::Unknown(Doubt::Blind),
            Liveness::Dead(Death::Gone),
            Liveness::Dead(Death::Zombie),
        ];
        for process in processes {
            for answer in ANSWERS {
                let may_go = AgentPresence::from_process_and_socket(process, answer)
                    .require_absent()
                    .is_ok();
                let silent = matches!(answer, SocketAnswer::Silent | SocketAnswer::NotAsked);
                assert_eq!(may_go, process.is_dead() && silent, "{process:?} {answer:?}");
            }
        }
    }
}
