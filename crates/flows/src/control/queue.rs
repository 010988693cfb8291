//! The agent's own queue: a command of the agent's that hands a prompt to a live conversation.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

use adapters::control::{TemplateValues, fill_template};
use model::control::refusal::DriveRefusal;
use model::hosted::{FaultCode, HostFault};

use super::launch_plan::find_program;
use super::prompt::PromptError;
use super::running::RunningDelivery;
use sys::bounded_run::{RunLimits, run_bounded};

/// How much of what the agent's command says is told when it fails.
const MOST_SAID_BYTES: usize = 4 << 10;

/// What became of a text that was handed to an agent's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QueueOutcome {
    /// The queue has it.
    Taken,
    /// The command was ended before it said so: the queue may have it.
    NotSaid(String),
}

/// Has the agent's own command put the text into the conversation's queue. The text is an argument of that
/// command: other processes of the machine can read it while it runs.
pub(super) fn put_in_queue(
    delivery: &RunningDelivery,
    words: &[&str],
    path: &OsStr,
    patience: Duration,
) -> Result<QueueOutcome, PromptError> {
    let values = TemplateValues {
        id: Some(&delivery.record.session),
        text: Some(&delivery.text),
        ..TemplateValues::default()
    };
    let filled = fill_template(words, &values).ok_or_else(|| DriveRefusal::NotReachable {
        how: "its queue needs what is not known of it".to_owned(),
    })?;
    let failed =
        |reason: String| PromptError::Terminal(HostFault::new(FaultCode::HostUnreachable, reason));
    let adapter = adapters::by_id(&delivery.clue.agent)
        .ok_or_else(|| DriveRefusal::NotDriven { agent: delivery.clue.agent.clone() })?;
    let program = &find_program(adapter, path).map_err(|error| failed(error.to_string()))?;
    sys::pause::pause_at("queue.before");
    let mut command = Command::new(program);
    command.args(filled);
    let limits = RunLimits { time: patience, output_bytes: MOST_SAID_BYTES };
    let run = run_bounded(&mut command, &[], limits)
        .map_err(|error| failed(format!("`{program}` could not be run: {error}")))?;
    let Some(status) = run.status else {
        let seconds = patience.as_secs();
        let why = format!("`{program}` did not end within {seconds} s; it may be queued");
        return Ok(QueueOutcome::NotSaid(why));
    };
    if status.success() {
        return Ok(QueueOutcome::Taken);
    }
    let said = String::from_utf8_lossy(&run.output);
    let code =
        status.code().map_or_else(|| "by a signal".to_owned(), |code| format!("with {code}"));
    Err(failed(format!("`{program}` ended {code}: {}", said.trim())))
}
