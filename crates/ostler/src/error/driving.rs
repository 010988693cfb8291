//! Errors of driving agents: launches, prompts and turns, in words.

use flows::worktrees::WorktreeError;

use super::*;

impl From<PromptError> for Error {
    fn from(error: PromptError) -> Self {
        match error {
            PromptError::Refused(refusal) => Self::Drive(refusal),
            PromptError::Terminal(fault) => Self::Terminal(fault),
            PromptError::StillWorking(_) => Self::WaitedInVain(error.to_string()),
            PromptError::NotReady { .. } => Self::WaitedInVain(error.to_string()),
            PromptError::Unfinished(delivery, pause) => {
                let code = match pause {
                    TurnPause::Asks => "BLOCKED",
                    TurnPause::TimedOut => "WAIT_TIMEOUT",
                };
                Self::TurnNotAnswered(delivery, code)
            }
            PromptError::Transcript { path, reason } => Self::Read { path, reason },
            PromptError::Observe(reason) => {
                Self::Read { path: "the machine's sessions".to_owned(), reason }
            }
        }
    }
}

impl From<LaunchError> for Error {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Refused(refusal) => Self::Drive(refusal),
            LaunchError::Terminal(fault) => Self::Terminal(fault),
            LaunchError::NoProgram { .. } => Self::NoProgram(error.to_string()),
            LaunchError::NotExecutable { .. } => Self::NotExecutable(error.to_string()),
            LaunchError::Unfinished(result) => Self::Launch(result),
            LaunchError::Observe(reason) => {
                Self::Read { path: "the machine's sessions".to_owned(), reason }
            }
        }
    }
}

impl From<WorktreeError> for Error {
    fn from(error: WorktreeError) -> Self {
        let message = error.to_string();
        match error {
            WorktreeError::NoRepository { .. } => {
                Self::usage_error(message, "go to a repository, or name one with `--cwd`")
            }
            WorktreeError::NoBase { .. } => Self::usage_error(
                message,
                "`git log` lists commits; `--base` takes any name of one",
            ),
            WorktreeError::Outside { .. } => {
                Self::usage_error(message, "name files of the repository only")
            }
            WorktreeError::Taken { .. } => Self::Refused {
                what: message,
                hint: "choose another name; `ostler groups` lists worktrees that ostler made"
                    .to_owned(),
            },
            WorktreeError::NoSpace { .. } => Self::Refused {
                what: message,
                hint: "`ostler gc --include worktrees` shows what could go".to_owned(),
            },
            WorktreeError::Unreadable(reason) => {
                Self::Read { path: "the repository".to_owned(), reason }
            }
        }
    }
}

/// What became of a turn.
pub(super) fn turn_message(delivery: &DeliveryRecord) -> String {
    let end = delivery.turn.as_ref().map_or("is open", |turn| match turn.end {
        TurnEnd::Open => "is open",
        TurnEnd::Answered => "was answered",
        TurnEnd::Failed => "ended in an error",
        TurnEnd::Interrupted => "was interrupted",
        TurnEnd::Limited => "was ended by a usage limit",
        TurnEnd::Over => "is over, and the record does not say how",
    });
    let taken = if delivery.state == DeliveryState::Queued { "queued" } else { "accepted" };
    format!("the prompt was {taken}, and its turn {end}")
}

/// What became of a start.
pub(super) fn launch_message(result: &LaunchResult) -> String {
    let is_accepted = result.state == LaunchState::Accepted;
    match result.delivery.as_ref().filter(|told| is_accepted && told.turn.is_some()) {
        Some(delivery) => format!("{} was started; {}", result.agent, turn_message(delivery)),
        None => {
            let reason = result.reason.as_deref().unwrap_or("it is not ready");
            format!("{} {}: {reason}", result.agent, launch_verb(result))
        }
    }
}

pub(super) const fn turn_hint(code: &str) -> &'static str {
    match code.as_bytes() {
        b"BLOCKED" => "answer it: `ostler attach`",
        b"WAIT_TIMEOUT" => "`ostler deliveries` tells when it has ended",
        _ => "`ostler logs` shows what the agent recorded",
    }
}

fn launch_verb(result: &LaunchResult) -> &'static str {
    match result.state {
        LaunchState::Blocked => "was started, and waits for a person",
        LaunchState::Failed => "did not start",
        LaunchState::WrongConversation => "went on with another conversation",
        LaunchState::Waiting => "was started, and is not done",
        LaunchState::Ready | LaunchState::Accepted => "was started, and the prompt did not arrive",
    }
}

/// What a person does about an agent that was started.
pub(super) fn launch_hint(result: &LaunchResult) -> String {
    let terminal = result.terminal.as_deref().unwrap_or("");
    match result.state {
        LaunchState::WrongConversation => "`ostler who` shows who holds the right one".to_owned(),
        LaunchState::Failed => format!("`ostler snapshot {terminal}` shows what it said"),
        _ if result.mode == "headless" => format!("`ostler stop {terminal}` ends it"),
        _ => format!("`ostler attach {terminal}` shows it; `ostler stop {terminal}` ends it"),
    }
}

/// What a person does about a prompt that did not arrive.
pub(super) const fn not_delivered_hint(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Stuck | DeliveryState::Composed => {
            "`ostler attach` shows the text in the composer: send or clear it there"
        }
        DeliveryState::Altered => "`ostler logs` shows what the agent recorded",
        DeliveryState::NotComposed | DeliveryState::Ready => {
            "`ostler snapshot` shows what is in the way; nothing was sent"
        }
        _ => "`ostler logs` shows whether it arrives later; it is not sent again",
    }
}
