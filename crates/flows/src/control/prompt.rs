//! Prompt delivery with a receipt: paste, Enter, and proof from the agent's own record.
//!
//! The screen is asked one question only, by the terminal's host: does the text stand in the composer?
//! Whether the prompt arrived is told by the agent's transcript, from where it ended before. Nothing is
//! sent a second time.

use std::path::Path;
use std::time::{Duration, Instant};

use model::control::delivery::{
    DeliveryChannel, DeliveryRecord, DeliverySign, DeliveryState, TurnEnd,
};
use model::control::holders::holders_of_session;
use model::control::note::ControlEvent;
use model::control::prompt::{PromptRoute, check_prompt_text};
use model::control::refusal::DriveRefusal;
use model::hosted::wire::SubmissionState;
use model::hosted::{FaultCode, HostFault};
use model::session::SessionName;

use super::conversation::ConversationClue;
use super::deliveries::ControlLedger;
use super::queue::{QueueOutcome, put_in_queue};
use super::ready_agent::{PromptWay, ReadyAgent, find_named, wait_until_ready};
use super::running::{DeliveryFault, LookAtMachine, RunningDelivery, SubmitTerms, TurnWait};
use crate::permit_files::put_prompt;
use crate::terminal::TerminalHome;
use crate::timeouts::{PROOF_INTERVAL, QUEUE_COMMAND_TIMEOUT};
use sys::dropped::NoteDropped;
use sys::machine::Machine;

/// What is to be delivered, and how.
#[derive(Clone, Debug)]
pub struct PromptRequest {
    /// The session, or the terminal, that was named.
    pub target: SessionName,
    pub text: String,
    /// Whether it is sent into an agent that works, or of which it is not known what it does.
    pub into_working: bool,
    /// Whether the text is meant to be a command of the agent.
    pub is_command: bool,
    /// Whether it is sent although a person types there.
    pub over_person: bool,
    /// The caller's name for this prompt: under one name it is sent once.
    pub key: Option<String>,
    /// Whether the end of the turn is waited for.
    pub wait_idle: bool,
    /// How long the agent may take to become idle, before and after the prompt.
    pub idle_timeout: Duration,
    /// How long the agent's record may take after the last Enter.
    pub accept_timeout: Duration,
    /// Where agents' programs are looked for.
    pub path: std::ffi::OsString,
}

/// Why there is no receipt.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// Nothing was written.
    #[error(transparent)]
    Refused(#[from] DriveRefusal),
    /// The terminal or its host.
    #[error(transparent)]
    Terminal(#[from] HostFault),
    /// The agent did not become idle in time; nothing was written.
    #[error("it was still working after {0} s, and nothing was written")]
    StillWorking(u64),
    /// The program on the terminal does not take texts yet. Nothing was written.
    #[error("it did not become ready for a text, and nothing was written")]
    NotReady {
        /// What its terminal shows.
        screen: String,
    },
    /// The prompt arrived, and then a person was asked something, or the time was up.
    #[error("{}", describe_unfinished(.0))]
    Unfinished(Box<DeliveryRecord>, TurnPause),
    /// The transcript cannot be read, so that nothing could be proven. Nothing was written.
    #[error("its transcript {path} cannot be read: {reason}")]
    Transcript { path: String, reason: String },
    /// The machine could not be looked at.
    #[error("{0}")]
    Observe(String),
}

/// Why a turn that was waited for is still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnPause {
    /// The agent asks a person.
    Asks,
    /// The time is up.
    TimedOut,
}

fn describe_unfinished(record: &DeliveryRecord) -> String {
    format!("the prompt was accepted, and its turn is open (delivery {})", record.id)
}

impl From<DeliveryFault> for PromptError {
    fn from(fault: DeliveryFault) -> Self {
        match fault {
            DeliveryFault::Transcript { path, reason } => Self::Transcript { path, reason },
            DeliveryFault::Machine(reason) => Self::Observe(reason),
        }
    }
}

/// Delivers a prompt. `observe` looks at the machine anew each time it is called.
pub fn deliver_prompt(
    home: &TerminalHome,
    request: &PromptRequest,
    ledger: &mut ControlLedger,
    observe: &mut LookAtMachine<'_>,
) -> Result<DeliveryRecord, PromptError> {
    let until = Instant::now() + request.idle_timeout;
    let mut agent = match wait_until_ready(home, request, until, observe) {
        Err(PromptError::Refused(DriveRefusal::SeveralHolders { pids })) => {
            let detail = serde_json::json!({ "pids": pids });
            ledger.keep_event(ControlEvent::HoldersConflict, &request.target, detail);
            return Err(DriveRefusal::SeveralHolders { pids }.into());
        }
        other => other?,
    };
    let (route, channel) = match &agent.way {
        PromptWay::Terminal(_) => (PromptRoute::Terminal, DeliveryChannel::Terminal),
        PromptWay::Queue(_) => (PromptRoute::Argument, DeliveryChannel::Queue),
        // Its commands are commands there, too.
        PromptWay::Lines(..) => (PromptRoute::Terminal, DeliveryChannel::File),
    };
    let text = check_prompt_text(
        &request.text,
        route,
        agent.control.command_characters,
        request.is_command,
    )
    .map_err(DriveRefusal::Text)?;
    let (clue, source) = (agent.clue(), agent.source.take());
    let mut delivery = RunningDelivery::prepare(&home.machine, clue, source, text, channel)?;
    delivery.record.key.clone_from(&request.key);
    delivery.record.by = ledger.caller().map(str::to_owned);
    if let Some(earlier) = note_begin(&delivery.record, ledger)? {
        return await_earlier(&earlier, request, ledger, observe);
    }
    sys::pause::pause_at("prompt.noted");
    let done = send_in_turn(home, agent, &mut delivery, request, until, ledger, observe);
    let unwritten = matches!(
        done,
        Err(PromptError::Refused(_) | PromptError::NotReady { .. } | PromptError::StillWorking(_))
    );
    if unwritten {
        delivery.record.state = DeliveryState::Refused;
    }
    sys::pause::pause_at("prompt.before-note");
    delivery.keep(ledger);
    done?;
    if delivery.record.state == DeliveryState::Accepted && request.wait_idle {
        wait_for_turn(home, &mut delivery, request, ledger, observe)?;
    }
    Ok(delivery.record)
}

/// Notes that a delivery begins; the earlier one if its key was used for this text before.
fn note_begin(
    record: &DeliveryRecord,
    ledger: &mut ControlLedger,
) -> Result<Option<String>, PromptError> {
    match ledger.note_delivery(record) {
        Ok(None) => Ok(None),
        Ok(Some(earlier)) if earlier.record.sha256 == record.sha256 => Ok(Some(earlier.record.id)),
        Ok(Some(earlier)) => {
            Err(DriveRefusal::KeyReused { delivery: earlier.record.id.clone() }.into())
        }
        Err(why) if record.key.is_some() => Err(DriveRefusal::KeyUnknown { why }.into()),
        Err(why) => {
            ledger.note_failure(why);
            Ok(None)
        }
    }
}

/// What became of the delivery that used the key first: it may still be under way.
fn await_earlier(
    id: &str,
    request: &PromptRequest,
    ledger: &mut ControlLedger,
    observe: &mut LookAtMachine<'_>,
) -> Result<DeliveryRecord, PromptError> {
    let until = Instant::now() + request.accept_timeout;
    loop {
        let kept =
            ledger.find_delivery(id).map_err(|error| PromptError::Observe(error.to_string()))?;
        let observation = observe().map_err(PromptError::Observe)?;
        let Some(kept) = kept else {
            return Err(PromptError::Observe(format!(
                "delivery {id} is not in the store any more"
            )));
        };
        let record = ledger.judge_delivery(kept, &observation);
        let under_way = matches!(record.state, DeliveryState::Ready | DeliveryState::Composed);
        if !under_way || Instant::now() >= until {
            return Ok(record);
        }
        std::thread::sleep(PROOF_INTERVAL);
    }
}

/// Sends it to an agent that is idle: one that another prompt came before is waited for again.
fn send_in_turn(
    home: &TerminalHome,
    mut agent: ReadyAgent,
    delivery: &mut RunningDelivery,
    request: &PromptRequest,
    until: Instant,
    ledger: &mut ControlLedger,
    observe: &mut LookAtMachine<'_>,
) -> Result<(), PromptError> {
    while !send_prompt(home, &agent, delivery, request, observe)? {
        let mut next = wait_until_ready(home, request, until, observe)?;
        if next.way != agent.way {
            return Err(DriveRefusal::MovedOn { now: Some(next.name.id) }.into());
        }
        delivery.aim_at(next.clue(), next.source.take())?;
        delivery.keep(ledger);
        agent = next;
    }
    Ok(())
}

/// Sends it on its way and waits for the proof. `false` if Enter was pressed since the agent was seen idle: nothing was
/// written then.
fn send_prompt(
    home: &TerminalHome,
    agent: &ReadyAgent,
    delivery: &mut RunningDelivery,
    request: &PromptRequest,
    observe: &mut LookAtMachine<'_>,
) -> Result<bool, PromptError> {
    let terminal = match &agent.way {
        PromptWay::Terminal(terminal) => terminal,
        PromptWay::Queue(words) => {
            return send_to_queue(home, words, delivery, request, observe).map(|()| true);
        }
        PromptWay::Lines(input, _) => {
            return send_line(home, input, delivery, request, observe).map(|()| true);
        }
    };
    let session = home.open_session(terminal)?;
    if let Err(fault) = session.check_can_receive() {
        delivery.record.state = DeliveryState::Refused;
        return Err(fault.into());
    }
    let terms = SubmitTerms {
        over_person: request.over_person,
        ready_timeout: None,
        accept_timeout: request.accept_timeout,
        if_enters: agent.enters,
        control: agent.control,
    };
    let submitted = delivery.submit(&session, terms, observe);
    let submitted = match submitted {
        Ok(submitted) => submitted,
        Err(mut fault) => {
            // The host may have pressed Enter before it went: nothing is sent again.
            if fault.code == FaultCode::SessionNotRunning {
                fault.code = FaultCode::HostUnreachable;
            }
            delivery.sign(DeliverySign::Entered);
            delivery.sign(DeliverySign::ProofTimeout { still_shown: false });
            delivery.record.reason = Some(fault.message.clone());
            return Err(fault.into());
        }
    };
    match submitted.state {
        SubmissionState::ComposerNotEmpty => Err(DriveRefusal::ComposerNotEmpty.into()),
        SubmissionState::PersonTypes => Err(DriveRefusal::PersonTypes.into()),
        SubmissionState::NotReady => Err(PromptError::NotReady { screen: submitted.screen }),
        SubmissionState::Overtaken => Ok(false),
        _ if delivery.record.state == DeliveryState::Accepted => Ok(true),
        _ => {
            follow_conversation(delivery, observe);
            Ok(true)
        }
    }
}

/// Hands it to the agent's own queue. A run that ends leaves there what it has not taken up.
fn send_to_queue(
    home: &TerminalHome,
    words: &'static [&'static str],
    delivery: &mut RunningDelivery,
    request: &PromptRequest,
    observe: &mut LookAtMachine<'_>,
) -> Result<(), PromptError> {
    let name = SessionName::new(&delivery.clue.agent, &delivery.record.session);
    let mut goes_on = agent_watch(&home.machine, &name, observe);
    let command_time = QUEUE_COMMAND_TIMEOUT.min(request.accept_timeout);
    let said = put_in_queue(delivery, words, &request.path, command_time)?;
    if let QueueOutcome::NotSaid(why) = said {
        delivery.sign(DeliverySign::Entered);
        if !delivery.await_proof(request.accept_timeout, observe, &mut goes_on) {
            delivery.sign(DeliverySign::ProofTimeout { still_shown: false });
            delivery.record.reason = Some(why);
        }
        return Ok(());
    }
    delivery.sign(DeliverySign::Enqueued);
    let patience = match request.wait_idle {
        true => request.idle_timeout,
        false => request.accept_timeout,
    };
    if delivery.await_proof(patience, observe, &mut goes_on) {
        return Ok(());
    }
    let reason = match goes_on() {
        true => "the agent has not taken it up yet",
        false => {
            delivery.end_turn(TurnEnd::Interrupted);
            "the agent ended before it took it up"
        }
    };
    delivery.record.reason = Some(reason.to_owned());
    Ok(())
}

/// Writes it into the file that the agent reads. No key is pressed: an open question is not touched by it.
fn send_line(
    home: &TerminalHome,
    input: &Path,
    delivery: &mut RunningDelivery,
    request: &PromptRequest,
    observe: &mut LookAtMachine<'_>,
) -> Result<(), PromptError> {
    let name = SessionName::new(&delivery.clue.agent, &delivery.record.session);
    let mut goes_on = agent_watch(&home.machine, &name, observe);
    sys::pause::pause_at("prompt.before-submit");
    put_prompt(input, &delivery.text).map_err(|error| {
        let why = format!("{} cannot be written: {error}", input.display());
        HostFault::new(FaultCode::HostUnreachable, why)
    })?;
    sys::pause::pause_at("prompt.submitted");
    delivery.sign(DeliverySign::Entered);
    if !delivery.await_proof(request.accept_timeout, observe, &mut goes_on) {
        delivery.sign(DeliverySign::ProofTimeout { still_shown: false });
        delivery.record.reason = Some("the agent has not recorded it yet".to_owned());
    }
    Ok(())
}

/// The agent may have gone on to another conversation meanwhile: then the text counts if it is there.
fn follow_conversation(delivery: &mut RunningDelivery, observe: &mut LookAtMachine<'_>) {
    let Ok(observation) = observe() else { return };
    let by_terminal = ConversationClue { id: None, ..delivery.clue.clone() };
    let Some((one, _)) = by_terminal.find_in(&observation) else { return };
    if one.session.id == delivery.record.session {
        return;
    }
    let session = std::mem::replace(&mut delivery.record.session, one.session.id.clone());
    let place = delivery.go_to(one.source.clone());
    if delivery.source.is_some() && delivery.look_for_proof(observe) {
        return;
    }
    delivery.go_back(place);
    delivery.record.session = session;
    let now = &one.session.id;
    delivery.record.reason = Some(format!("moved-on: its agent has the conversation {now} by now"));
}

fn wait_for_turn(
    home: &TerminalHome,
    delivery: &mut RunningDelivery,
    request: &PromptRequest,
    ledger: &mut ControlLedger,
    observe: &mut LookAtMachine<'_>,
) -> Result<(), PromptError> {
    let name = SessionName::new(&delivery.clue.agent, &delivery.record.session);
    let mut goes_on = agent_watch(&home.machine, &name, observe);
    let waited = delivery.await_turn_end(request.idle_timeout, observe, &mut goes_on);
    delivery.keep(ledger);
    let pause = match waited {
        TurnWait::Over => return Ok(()),
        TurnWait::Asks => TurnPause::Asks,
        TurnWait::TimedOut => TurnPause::TimedOut,
    };
    Err(PromptError::Unfinished(Box::new(delivery.record.clone()), pause))
}

/// Says whether the agent of a session is still there: by its identity, once that is known.
fn agent_watch(
    machine: &Machine,
    name: &SessionName,
    observe: &mut LookAtMachine<'_>,
) -> impl FnMut() -> bool + use<> {
    let machine = machine.clone();
    let seen = observe().ok_or_note("looking for the holders of a session");
    let one = seen.as_ref().and_then(|seen| find_named(seen, name));
    let holders = one.map(|one| holders_of_session(&one.session)).unwrap_or_default();
    let alive: Vec<_> = holders
        .into_iter()
        .filter(|holder| holder.liveness.is_alive())
        .map(|holder| holder.process)
        .collect();
    move || {
        let is_dead = |one: &model::identity::Identity| machine.probe_process(one).is_dead();
        alive.is_empty() || !alive.iter().all(is_dead)
    }
}
