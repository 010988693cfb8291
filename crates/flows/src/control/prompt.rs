//! Prompt delivery with a receipt: paste, Enter, and proof from the agent's own record.
//!
//! The screen is asked one question only, by the terminal's host: does the text stand in the composer?
//! Whether the prompt arrived is told by the agent's transcript, from where it ended before. Nothing is
//! sent a second time.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use adapters::control::PermissionChannel;
use adapters::{AgentControl, TranscriptSource};
use model::control::delivery::{
    DeliveryChannel, DeliveryRecord, DeliverySign, DeliveryState, TurnEnd,
};
use model::control::holders::{HandOverWay, holders_of_session};
use model::control::note::ControlEvent;
use model::control::prompt::{PromptRoute, check_prompt_text};
use model::control::refusal::DriveRefusal;
use model::hosted::wire::SubmissionState;
use model::hosted::{FaultCode, HostFault};
use model::liveness::{Death, Liveness};
use model::session::{SessionKind, SessionName};
use model::status::Activity;

use super::conversation::ConversationClue;
use super::deliveries::{ControlLedger, judge_delivery};
use super::fresh::{ToldConversation, begins_another, find_unattached, is_fresh, moved_on_to};
use super::queue::put_in_queue;
use super::running::{
    DeliveryFault, LookAtMachine, RunningDelivery, SubmitTerms, TurnWait, wait_for_change,
    watch_transcript,
};
use super::who::{agents_within, describe_holders};
use crate::observe::{Observation, Observed};
use crate::permit_files::{find_input_file, put_prompt};
use crate::permits::permits_directory;
use crate::resume::resume_line;
use crate::terminal::TerminalHome;
use crate::timeouts::{LONGEST_WATCH_SPAN, PROOF_INTERVAL};
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

/// An agent that can take the prompt now.
struct ReadyAgent {
    name: SessionName,
    way: PromptWay,
    source: Option<Box<TranscriptSource>>,
    control: &'static AgentControl,
    /// Whether its record holds a prompt.
    prompted: bool,
    /// The path that it was told to write to, of one without a conversation.
    path: Option<PathBuf>,
    /// Of one without a conversation, where that will be and which are there already.
    new_in: Option<(String, HashSet<String>)>,
}

/// How the prompt gets to it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PromptWay {
    /// Through the terminal of that id.
    Terminal(String),
    /// By the agent's own queue.
    Queue(&'static [&'static str]),
    /// By a line in a file that the agent reads; it runs in the terminal of that id, if in any.
    Lines(PathBuf, Option<String>),
}

/// Delivers a prompt. `observe` looks at the machine anew each time it is called.
pub fn deliver_prompt(
    home: &TerminalHome,
    request: &PromptRequest,
    ledger: &mut ControlLedger,
    observe: &mut LookAtMachine<'_>,
) -> Result<DeliveryRecord, PromptError> {
    let agent = match wait_until_ready(home, request, observe) {
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
    let clue = ConversationClue {
        agent: agent.name.agent.clone(),
        id: Some(agent.name.id.clone()).filter(|id| !id.is_empty()),
        path: agent.path,
        new_in: agent.new_in,
        terminal: match &agent.way {
            PromptWay::Terminal(id) => Some(id.clone()),
            PromptWay::Lines(_, terminal) => terminal.clone(),
            PromptWay::Queue(_) => None,
        },
    };
    let mut delivery = RunningDelivery::prepare(&home.machine, clue, agent.source, text, channel)?;
    delivery.record.key.clone_from(&request.key);
    if let Some(earlier) = note_begin(&delivery.record, ledger)? {
        return await_earlier(home, &earlier, request, ledger, observe);
    }
    sys::pause::pause_at("prompt.noted");
    let done = send_prompt(home, &agent.way, &mut delivery, request, observe);
    if matches!(done, Err(PromptError::Refused(_) | PromptError::NotReady { .. })) {
        delivery.record.state = DeliveryState::Refused;
    }
    sys::pause::pause_at("prompt.before-note");
    ledger.keep_delivery(&delivery.record);
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
    home: &TerminalHome,
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
        let record = judge_delivery(kept, &observation, &home.machine);
        let under_way = matches!(record.state, DeliveryState::Ready | DeliveryState::Composed);
        if !under_way || Instant::now() >= until {
            return Ok(record);
        }
        wait_for_change(None, PROOF_INTERVAL);
    }
}

/// Sends it on its way and waits for the proof.
fn send_prompt(
    home: &TerminalHome,
    way: &PromptWay,
    delivery: &mut RunningDelivery,
    request: &PromptRequest,
    observe: &mut LookAtMachine<'_>,
) -> Result<(), PromptError> {
    let terminal = match way {
        PromptWay::Terminal(terminal) => terminal,
        PromptWay::Queue(words) => {
            return send_to_queue(home, words, delivery, request, observe);
        }
        PromptWay::Lines(input, _) => return send_line(home, input, delivery, request, observe),
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
        _ if delivery.record.state == DeliveryState::Accepted => Ok(()),
        _ => {
            follow_conversation(delivery, observe);
            Ok(())
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
    put_in_queue(delivery, words, &request.path)?;
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
    let noted_end = std::mem::replace(&mut delivery.record.noted_end, 0);
    let source = std::mem::replace(&mut delivery.source, one.source.clone());
    if delivery.source.is_some() && delivery.look_for_proof(observe) {
        delivery.record.session.clone_from(&one.session.id);
        return;
    }
    (delivery.record.noted_end, delivery.source) = (noted_end, source);
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
    ledger.keep_delivery(&delivery.record);
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

/// Waits for an agent that works, and refuses everything else that is in the way.
fn wait_until_ready(
    home: &TerminalHome,
    request: &PromptRequest,
    observe: &mut LookAtMachine<'_>,
) -> Result<ReadyAgent, PromptError> {
    let until = Instant::now() + request.idle_timeout;
    loop {
        let observation = observe().map_err(PromptError::Observe)?;
        let (agent, activity) = check_agent(&observation, home, request)?;
        match activity {
            // Its own queue takes it in any activity.
            _ if matches!(agent.way, PromptWay::Queue(_)) => return Ok(agent),
            Activity::Working if !request.into_working => {}
            Activity::Unknown if !request.into_working && !agent.is_fresh(home) => {
                return Err(DriveRefusal::ActivityUnknown.into());
            }
            _ => return Ok(agent),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(PromptError::StillWorking(request.idle_timeout.as_secs()));
        }
        let watch = agent.source.as_deref().and_then(watch_transcript);
        wait_for_change(watch.as_ref(), left.min(LONGEST_WATCH_SPAN));
    }
}

/// The agent behind the target, if nothing but its work stands in the way.
fn check_agent(
    observation: &Observation,
    home: &TerminalHome,
    request: &PromptRequest,
) -> Result<(ReadyAgent, Activity), DriveRefusal> {
    let gone = || DriveRefusal::NotAlive { why: "it is not listed any more".to_owned() };
    let target = find_named(observation, &request.target).ok_or_else(gone)?;
    let named_terminal = (target.session.kind == SessionKind::Hosted).then_some(target);
    let one = match named_terminal {
        Some(terminal) if terminal.session.linked.is_empty() => {
            let agent = new_agent(observation, home, terminal)?;
            return Ok((agent, Activity::Unknown));
        }
        Some(terminal) => {
            let one = linked_agent(observation, terminal)?;
            if let Some(told) = begins_another(home, terminal, one) {
                let cwd = one.session.digest.cwd.as_deref();
                let agent = beginning_agent(observation, terminal, one.session.agent, cwd, told)?;
                return Ok((agent, Activity::Unknown));
            }
            one
        }
        None => target,
    };
    let not_driven = || DriveRefusal::NotDriven { agent: one.session.agent.to_owned() };
    let adapter = adapters::by_id(one.session.agent).ok_or_else(not_driven)?;
    let control = adapter.control_table().ok_or_else(not_driven)?;
    if control.interactive.is_none() {
        return Err(not_driven());
    }
    if !one.verdict.liveness.is_alive() {
        return Err(refuse_dead(observation, home, one));
    }
    let holders = holders_of_session(&one.session);
    let live: Vec<u32> = holders
        .iter()
        .filter(|holder| holder.liveness.is_alive())
        .filter_map(|holder| holder.process.pid)
        .collect();
    if live.len() > 1 && named_terminal.is_none() {
        return Err(DriveRefusal::SeveralHolders { pids: live });
    }
    let linked = one.session.linked.iter().find(|linked| linked.agent == "terminal");
    let terminal = named_terminal.map(|terminal| &terminal.session.id);
    let terminal = terminal.or(linked.map(|linked| &linked.id));
    let activity = one.verdict.activity.unwrap_or(Activity::Unknown);
    let reads_lines = control.permission_channel == PermissionChannel::FilePair;
    let permits = permits_directory(home.machine.home());
    let input = reads_lines.then(|| find_input_file(&permits, &live)).flatten();
    let works = request.into_working && activity == Activity::Working;
    let way = choose_way(input, terminal, control.queue.filter(|_| terminal.is_none() || works));
    let way = way.ok_or_else(|| refuse_unreachable(one))?;
    if activity == Activity::Waiting {
        let asking = one.session.claims.iter().find_map(|claim| claim.waiting_for.clone());
        return Err(DriveRefusal::AgentWaits { question: asking });
    }
    let ready = ReadyAgent {
        name: one.session.session_name(),
        way,
        source: one.source.clone(),
        control,
        prompted: one.session.digest.turns > 0 || one.session.digest.first_prompt.is_some(),
        path: None,
        new_in: None,
    };
    Ok((ready, activity))
}

/// How a prompt gets to a live conversation, if in any way. Its own queue keeps the order of turns as the agent has it.
fn choose_way(
    input: Option<PathBuf>,
    terminal: Option<&String>,
    queue: Option<&'static [&'static str]>,
) -> Option<PromptWay> {
    if let Some(input) = input {
        return Some(PromptWay::Lines(input, terminal.cloned()));
    }
    queue.map(PromptWay::Queue).or_else(|| terminal.cloned().map(PromptWay::Terminal))
}

impl ReadyAgent {
    /// Whether it is proven to have been told nothing yet.
    fn is_fresh(&self, home: &TerminalHome) -> bool {
        let (PromptWay::Terminal(terminal) | PromptWay::Lines(_, Some(terminal))) = &self.way
        else {
            return false;
        };
        let session = home.open_session(terminal);
        !self.prompted && session.is_ok_and(|session| is_fresh(&session, self.control))
    }
}

/// An agent that begins its conversation with the first prompt.
fn new_agent(
    observation: &Observation,
    home: &TerminalHome,
    terminal: &Observed,
) -> Result<ReadyAgent, DriveRefusal> {
    let nobody = || DriveRefusal::NotAlive {
        why: "no agent with a session of its own runs in that terminal".to_owned(),
    };
    let (agent, cwd) = find_unattached(observation, home, terminal).ok_or_else(nobody)?;
    beginning_agent(observation, terminal, agent, cwd, ToldConversation::default())
}

fn beginning_agent(
    observation: &Observation,
    terminal: &Observed,
    agent: &'static str,
    cwd: Option<&str>,
    told: ToldConversation,
) -> Result<ReadyAgent, DriveRefusal> {
    let not_driven = || DriveRefusal::NotDriven { agent: agent.to_owned() };
    let control = adapters::by_id(agent).and_then(|adapter| adapter.control_table());
    let control = control.filter(|control| control.interactive.is_some());
    let before = observation.known_ids().map(str::to_owned).collect();
    Ok(ReadyAgent {
        name: SessionName::new(agent, told.id.unwrap_or_default()),
        path: told.path,
        way: PromptWay::Terminal(terminal.session.id.clone()),
        source: None,
        control: control.ok_or_else(not_driven)?,
        prompted: false,
        new_in: cwd.map(|cwd| (cwd.to_owned(), before)),
    })
}

/// A conversation without a process: its agent may have gone on to another one.
fn refuse_dead(observation: &Observation, home: &TerminalHome, one: &Observed) -> DriveRefusal {
    let was_here = |claim: &&model::session::ProcessClaim| {
        claim.liveness == Liveness::Dead(Death::NotAttached)
    };
    let pids: Vec<u32> =
        one.session.claims.iter().filter(was_here).filter_map(|claim| claim.identity.pid).collect();
    let has_it = |other: &&Observed| {
        other.session.agent == one.session.agent
            && holders_of_session(&other.session).iter().any(|holder| {
                holder.liveness.is_alive()
                    && holder.process.pid.is_some_and(|pid| pids.contains(&pid))
            })
    };
    let mut others = observation.sessions.iter();
    let now = others.find(has_it).map(|other| other.session.id.clone());
    match now.or_else(|| moved_on_to(observation, home, one)) {
        Some(id) => DriveRefusal::MovedOn { now: Some(id) },
        None => DriveRefusal::NotAlive { why: one.verdict.liveness.reason_code().to_owned() },
    }
}

fn refuse_unreachable(one: &Observed) -> DriveRefusal {
    let view = describe_holders(one).hand_over;
    if let (HandOverWay::SupervisorCommand, Some(command)) = (view.how, view.command) {
        let how = format!("`{command}` has it let go; then `ostler resume {}`", one.session.id);
        return DriveRefusal::NotReachable { how };
    }
    let resume = resume_line(&one.session);
    let how = resume.map_or_else(
        || "start it in a terminal of ostler's: `ostler launch`".to_owned(),
        |_| {
            format!(
                "`ostler resume {} --take-over` takes it into a terminal of ostler's",
                one.session.id
            )
        },
    );
    DriveRefusal::NotReachable { how }
}

pub(super) fn find_named<'a>(
    observation: &'a Observation,
    name: &SessionName,
) -> Option<&'a Observed> {
    observation
        .sessions
        .iter()
        .find(|one| one.session.id == name.id && one.session.agent == name.agent)
}

/// The one agent's session that runs in a terminal.
fn linked_agent<'a>(
    observation: &'a Observation,
    terminal: &Observed,
) -> Result<&'a Observed, DriveRefusal> {
    let mut linked = agents_within(observation, terminal).into_iter();
    match (linked.next(), linked.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(DriveRefusal::SeveralHolders { pids: Vec::new() }),
        (None, _) => Err(DriveRefusal::NotAlive {
            why: "no agent with a session of its own runs in that terminal".to_owned(),
        }),
    }
}
