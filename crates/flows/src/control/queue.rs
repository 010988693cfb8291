//! The agent's own queue: a command of the agent's that hands a prompt to a live conversation.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use adapters::control::{TemplateValues, fill_template};
use model::control::refusal::DriveRefusal;
use model::hosted::{FaultCode, HostFault};

use super::launch_plan::find_program;
use super::prompt::PromptError;
use super::running::RunningDelivery;
use crate::timeouts::QUEUE_COMMAND_INTERVAL;
use sys::dropped::NoteDropped;

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
    let mut child = Command::new(program)
        .args(filled)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("`{program}` could not be run: {error}")))?;
    let until = Instant::now() + patience;
    let status = loop {
        match child.try_wait().map_err(|error| failed(error.to_string()))? {
            Some(status) => break status,
            None if Instant::now() >= until => {
                child.kill().note_dropped("ending a queue command that hangs");
                let ended = child.wait().ok_or_note("reaping it");
                if ended.is_some_and(|status| status.success()) {
                    return Ok(QueueOutcome::Taken);
                }
                let seconds = patience.as_secs();
                let why = format!("`{program}` did not end within {seconds} s; it may be queued");
                return Ok(QueueOutcome::NotSaid(why));
            }
            None => std::thread::sleep(QUEUE_COMMAND_INTERVAL),
        }
    };
    if status.success() {
        return Ok(QueueOutcome::Taken);
    }
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // Without it the code alone is told.
        std::io::Read::read_to_string(&mut stderr, &mut said)
            .note_dropped("what a queue command said");
    }
    let code =
        status.code().map_or_else(|| "by a signal".to_owned(), |code| format!("with {code}"));
    Err(failed(format!("`{program}` ended {code}: {}", said.trim())))
}
