//! Headless agents: the prompt on standard input, the proof in the agent's record, the id in its output.

use std::io::{BufRead, BufReader, Read};
use std::time::Instant;

use model::control::delivery::{DeliverySign, DeliveryState};
use model::control::wire::{ConversationBinding, LaunchState};
use sys::dropped::NoteDropped;

use super::launch::{LaunchError, LaunchRequest, LaunchScene, StartedAgent, last_lines};
use super::launch_plan::LaunchPlan;
use super::running::RunningDelivery;
use crate::terminal::HostedSession;
use crate::terminal::destroy::destroy_terminal;
use crate::terminal::headless::{HeadlessInput, HeadlessSpec};
use crate::timeouts::{PROGRAM_END_INTERVAL, PROOF_INTERVAL};

/// How large each log of a headless agent becomes at most.
const LOG_LIMIT_BYTES: u64 = 16 << 20;

/// How much of an agent's output is looked through for its conversation's id.
const MAX_ID_SEARCH_BYTES: u64 = 1 << 20;

/// How the plan's program is run without a terminal, if it is.
pub(super) fn spec_of(plan: &LaunchPlan) -> Option<HeadlessSpec> {
    let headless = plan.headless?;
    let text = match headless.input {
        adapters::control::PromptInput::Argument => String::new(),
        _ => plan.text.clone().unwrap_or_default(),
    };
    Some(HeadlessSpec { input: HeadlessInput::Text(text), log_limit_bytes: LOG_LIMIT_BYTES })
}

/// Waits until the agent's record holds its prompt, and as far as it is asked for, until it has ended.
pub(super) fn run_headless(
    started: &mut StartedAgent,
    request: &LaunchRequest,
    scene: &mut LaunchScene<'_>,
) -> Result<(), LaunchError> {
    let text = started.plan.text.clone().unwrap_or_default();
    // Of a conversation that goes on, what was recorded before the start is no proof.
    let source = scene.before.sessions.iter().find(|one| {
        started.plan.resumed
            && one.session.agent == started.plan.agent
            && Some(&one.session.id) == started.plan.clue.id.as_ref()
    });
    let source = source.and_then(|one| one.source.clone());
    let clue = started.plan.clue.clone();
    let mut delivery = RunningDelivery::prepare(
        &scene.terminals.machine,
        clue,
        source,
        text,
        started.plan.channel,
    )?;
    delivery.sign(DeliverySign::Entered);
    delivery.keep(scene.ledger);
    let field = started.plan.headless.map_or("", |headless| headless.id_field);
    let until = Instant::now() + request.ready_timeout + request.accept_timeout;
    let hosted = started.hosted.clone();
    let over = || hosted.clone().reread().as_settled().status().is_terminal();
    loop {
        let is_over = over();
        if delivery.clue.id.is_none() && delivery.clue.path.is_none() {
            delivery.clue.id = read_printed_id(&hosted, field);
            if delivery.clue.id.is_some() {
                delivery.binding = Some(ConversationBinding::Recorded);
            }
        }
        if let Some(wanted) = started.plan.clue.id.clone().filter(|_| started.plan.resumed)
            && let Some(has) = read_printed_id(&hosted, field)
            && has != wanted
        {
            started.stop_wrong(Some(has));
            return Ok(());
        }
        if delivery.look_for_proof(scene.observe) || is_over || Instant::now() >= until {
            break;
        }
        std::thread::sleep(PROOF_INTERVAL);
    }
    sys::pause::pause_at("launch.proven");
    let accepted = delivery.record.state == DeliveryState::Accepted;
    if !accepted {
        delivery.sign(DeliverySign::ProofTimeout { still_shown: false });
        delivery.record.reason = Some("the agent has not recorded it".to_owned());
    }
    started.note_delivery(&delivery);
    if accepted && request.wait_idle {
        await_program_end(started, &mut delivery, request, scene);
    }
    if over() {
        note_headless_end(started, accepted);
    }
    delivery.keep(scene.ledger);
    Ok(())
}

/// Waits for the end of the turn, and of the program: one that stays after its turn is stopped.
fn await_program_end(
    started: &mut StartedAgent,
    delivery: &mut RunningDelivery,
    request: &LaunchRequest,
    scene: &mut LaunchScene<'_>,
) {
    let hosted = started.hosted.clone();
    let mut goes_on = || !hosted.clone().reread().as_settled().status().is_terminal();
    let until = Instant::now() + request.turn_timeout;
    delivery.await_turn_end(request.turn_timeout, scene.observe, &mut goes_on);
    started.note_delivery(delivery);
    let is_open = |delivery: &RunningDelivery| {
        let turn = delivery.record.turn.as_ref();
        turn.is_none_or(|turn| turn.end == model::control::delivery::TurnEnd::Open)
    };
    while goes_on() {
        if Instant::now() >= until {
            if is_open(delivery) {
                started.result.state = LaunchState::Waiting;
                started.result.reason = Some("its turn is open, and the time is up".to_owned());
            } else {
                let stopped = destroy_terminal(hosted.clone(), false);
                started.result.reason = Some(match stopped {
                    Ok(_) => "its turn was over and it did not end: it was stopped".to_owned(),
                    Err(fault) => {
                        format!("its turn is over and it does not end: {}", fault.message)
                    }
                });
            }
            return;
        }
        std::thread::sleep(PROGRAM_END_INTERVAL);
    }
}

/// How it ended. Success is a prompt that was taken, independent of the exit code.
fn note_headless_end(started: &mut StartedAgent, accepted: bool) {
    let settled = started.hosted_now();
    started.result.exit_code = settled.manifest.exit_code;
    if accepted {
        return;
    }
    let said = ["stderr.tail.log", "stderr.log", "stdout.tail.log", "stdout.log"]
        .into_iter()
        .map(|name| read_log_end(&settled, name))
        .find(|said| !said.is_empty());
    started.note_end(&said.unwrap_or_default());
}

/// The end of one of a headless program's logs, as one line.
fn read_log_end(hosted: &HostedSession, name: &str) -> String {
    use std::io::{Seek, SeekFrom};
    let Ok(mut file) = sys::private::open_regular(&hosted.directory.join(name)) else {
        return String::new();
    };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::new();
    // What cannot be read is not told.
    let from = length.saturating_sub(4096);
    if file.seek(SeekFrom::Start(from)).and_then(|_| file.read_to_end(&mut bytes)).is_err() {
        return String::new();
    }
    last_lines(&String::from_utf8_lossy(&bytes))
}

/// The id that the agent printed, in the first line that has the field.
fn read_printed_id(hosted: &HostedSession, field: &str) -> Option<String> {
    let file = sys::private::open_regular(&hosted.directory.join("stdout.log"))
        .ok_or_note("the output of a headless agent")?;
    let lines = BufReader::new(file.take(MAX_ID_SEARCH_BYTES)).split(b'\n');
    lines.map_while(Result::ok).find_map(|line| {
        let line: serde_json::Value = serde_json::from_slice(&line).ok()?;
        let id = find_field(&line, field, 3)?;
        model::session::is_safe_id(&id).then_some(id)
    })
}

/// A text field, wherever in the line it stands.
fn find_field(value: &serde_json::Value, name: &str, depth: u8) -> Option<String> {
    let object = value.as_object()?;
    if let Some(text) = object.get(name).and_then(serde_json::Value::as_str) {
        return Some(text.to_owned());
    }
    let deeper = depth.checked_sub(1)?;
    object.values().find_map(|inner| find_field(inner, name, deeper))
}
