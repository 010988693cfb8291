//! Prompt delivery with a receipt: paste, Enter, and proof from the agent's own record.
//!
//! The screen is asked one question only, by the terminal's host: does the text stand in the composer?
//! Whether the prompt arrived is told by the agent's transcript, from where it ended before. Nothing is
//! sent a second time.

use std::path::Path;
use std::time::{Duration, Instant};

use adapters::TranscriptSource;
use model::control::delivery::{
    DeliveryChannel, DeliveryProof, DeliveryRecord, DeliverySign, DeliveryState,
};
use model::control::holders::holders_of_session;
use model::control::prompt::{PromptMatch, PromptRoute, check_prompt_text, match_prompt};
use model::control::refusal::DriveRefusal;
use model::conversation::{ConversationEntry, ConversationRole};
use model::hosted::HostFault;
use model::hosted::wire::{SubmissionState, SubmitParams, SubmitResult};
use model::session::{SessionKind, SessionName};
use model::status::Activity;
use model::time::{Time, whole_millis};
use sys::watch::DirectoryWatch;

use super::who::agents_within;
use crate::observe::{Observation, Observed};
use crate::resume::resume_line;
use crate::terminal::submit::{settle_submission, submit_text};
use crate::terminal::{HostedSession, TerminalHome};

/// How long the host may take for everything up to the last Enter.
const SUBMISSION_TIMEOUT: Duration = Duration::from_secs(60);

/// How often an agent is looked at anew when no directory can be watched, or its transcript is not there.
const LOOK_AGAIN_INTERVAL: Duration = Duration::from_millis(250);

/// What is to be delivered, and how.
#[derive(Clone, Debug)]
pub struct PromptRequest {
    /// The session, or the terminal, that was named.
    pub target: SessionName,
    /// The text.
    pub text: String,
    /// Whether it is sent into an agent that works, or of which it is not known what it does.
    pub into_working: bool,
    /// Whether the text is meant to be a command of the agent.
    pub is_command: bool,
    /// Whether it is sent although a person types there.
    pub over_person: bool,
    /// How long the agent may take to become idle.
    pub idle_timeout: Duration,
    /// How long the agent's record may take after the last Enter.
    pub accept_timeout: Duration,
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
    /// The transcript cannot be read, so that nothing could be proven. Nothing was written.
    #[error("its transcript {path} cannot be read: {reason}")]
    Transcript {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
    /// The machine could not be looked at.
    #[error("{0}")]
    Observe(String),
}

/// An agent that can take the prompt now.
struct ReadyAgent {
    name: SessionName,
    terminal: String,
    source: Option<Box<TranscriptSource>>,
    command_characters: &'static str,
}

/// Delivers a prompt. `observe` looks at the machine anew each time it is called.
pub fn deliver_prompt(
    home: &TerminalHome,
    request: &PromptRequest,
    observe: &mut dyn FnMut() -> Result<Observation, String>,
) -> Result<DeliveryRecord, PromptError> {
    let agent = wait_until_ready(request, observe)?;
    let route = PromptRoute::Terminal;
    let text =
        check_prompt_text(&request.text, route, agent.command_characters, request.is_command)
            .map_err(DriveRefusal::Text)?;
    let noted_end = match &agent.source {
        Some(source) => read_end(&agent.name.agent, source)?,
        None => 0,
    };
    let session = home.open_session(&agent.terminal)?;
    let id = sys::random::new_ulid().map_err(|error| PromptError::Observe(error.to_string()))?;
    let record = DeliveryRecord {
        session: agent.name.id.clone(),
        agent: agent.name.agent.clone(),
        channel: DeliveryChannel::Terminal,
        sha256: sys::hash::sha256(text.as_bytes()),
        bytes: text.len() as u64,
        state: DeliveryState::Ready,
        begun_at: home.machine.read_clock(),
        key: None,
        terminal: Some(agent.terminal.clone()),
        enters: 0,
        composed_ms: None,
        accepted_ms: None,
        matched: None,
        proof: None,
        turn: None,
        reason: None,
        screen: None,
        noted_end,
        id,
    };
    let mut delivery =
        RunningDelivery { record, text, agent, begun: Instant::now(), foreign: false };
    delivery.run(&session, request, observe)?;
    Ok(delivery.record)
}

/// Waits for an agent that works, and refuses whatever else is in the way.
fn wait_until_ready(
    request: &PromptRequest,
    observe: &mut dyn FnMut() -> Result<Observation, String>,
) -> Result<ReadyAgent, PromptError> {
    let until = Instant::now() + request.idle_timeout;
    loop {
        let observation = observe().map_err(PromptError::Observe)?;
        let (agent, activity) = check_agent(&observation, request)?;
        match activity {
            Activity::Working if !request.into_working => {}
            Activity::Unknown if !request.into_working => {
                return Err(DriveRefusal::ActivityUnknown.into());
            }
            _ => return Ok(agent),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(PromptError::StillWorking(request.idle_timeout.as_secs()));
        }
        let watch = agent.source.as_deref().and_then(watch_transcript);
        wait_for_change(watch.as_ref(), left.min(Duration::from_secs(1)));
    }
}

/// The agent behind the target, if nothing but its work stands in the way.
fn check_agent(
    observation: &Observation,
    request: &PromptRequest,
) -> Result<(ReadyAgent, Activity), DriveRefusal> {
    let gone = || DriveRefusal::NotAlive { why: "it is not listed any more".to_owned() };
    let target = find_named(observation, &request.target).ok_or_else(gone)?;
    let named_terminal = (target.session.kind == SessionKind::Hosted).then_some(target);
    let one = match named_terminal {
        Some(terminal) => linked_agent(observation, terminal)?,
        None => target,
    };
    let not_driven = || DriveRefusal::NotDriven { agent: one.session.agent.to_owned() };
    let adapter = adapters::by_id(one.session.agent).ok_or_else(not_driven)?;
    let control = adapter.control_table().ok_or_else(not_driven)?;
    if control.interactive.is_none() {
        return Err(not_driven());
    }
    if !one.verdict.liveness.is_alive() {
        let why = one.verdict.liveness.reason_code().to_owned();
        return Err(DriveRefusal::NotAlive { why });
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
    let terminal = terminal.or(linked.map(|linked| &linked.id)).ok_or_else(|| {
        let resume = resume_line(&one.session);
        let how = resume.map_or_else(
            || "start it in a terminal of ostler's: `ostler create --agent`".to_owned(),
            |line| format!("end it there, then `{line}` in a terminal of `ostler create`"),
        );
        DriveRefusal::NotReachable { how }
    })?;
    let activity = one.verdict.activity.unwrap_or(Activity::Unknown);
    if activity == Activity::Waiting {
        let asking = one.session.claims.iter().find_map(|claim| claim.waiting_for.clone());
        return Err(DriveRefusal::AgentWaits { question: asking });
    }
    let ready = ReadyAgent {
        name: one.session.session_name(),
        terminal: terminal.clone(),
        source: one.source.clone(),
        command_characters: control.command_characters,
    };
    Ok((ready, activity))
}

fn find_named<'a>(observation: &'a Observation, name: &SessionName) -> Option<&'a Observed> {
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

/// A delivery between the first byte and the answer.
struct RunningDelivery {
    record: DeliveryRecord,
    text: String,
    agent: ReadyAgent,
    begun: Instant,
    /// Whether another prompt was recorded meanwhile.
    foreign: bool,
}

impl RunningDelivery {
    fn run(
        &mut self,
        session: &HostedSession,
        request: &PromptRequest,
        observe: &mut dyn FnMut() -> Result<Observation, String>,
    ) -> Result<(), PromptError> {
        let params = SubmitParams {
            delivery: self.record.id.clone(),
            text: self.text.clone(),
            over_person: request.over_person,
            ready_timeout_ms: None,
        };
        sys::pause::pause_at("prompt.before-submit");
        let submitted = std::thread::scope(|threads| {
            let submission = threads.spawn(|| submit_text(session, &params, SUBMISSION_TIMEOUT));
            let mut told = false;
            while !submission.is_finished() {
                if !told && self.look_for_proof(observe) {
                    // Whether or not it is still under way: Enter is not pressed again.
                    told = settle_submission(session, &self.record.id).is_ok();
                }
                let watch = self.agent.source.as_deref().and_then(watch_transcript);
                wait_for_change(watch.as_ref(), Duration::from_millis(50));
            }
            submission.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        self.note_submission(&submitted)?;
        let until = Instant::now() + request.accept_timeout;
        while self.record.state.may_be_proven_later() && !self.look_for_proof(observe) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || submitted.state == SubmissionState::Stuck {
                self.settle_unproven(&submitted);
                return Ok(());
            }
            let watch = self.agent.source.as_deref().and_then(watch_transcript);
            wait_for_change(watch.as_ref(), left.min(LOOK_AGAIN_INTERVAL));
        }
        Ok(())
    }

    /// What the host saw. A proof that came meanwhile outweighs it.
    fn note_submission(&mut self, submitted: &SubmitResult) -> Result<(), PromptError> {
        self.record.enters = submitted.enters;
        self.record.composed_ms = submitted.composed_ms;
        match submitted.state {
            SubmissionState::ComposerNotEmpty => {
                return Err(DriveRefusal::ComposerNotEmpty.into());
            }
            SubmissionState::PersonTypes => return Err(DriveRefusal::PersonTypes.into()),
            SubmissionState::NotReady | SubmissionState::NotComposed => {
                self.sign(DeliverySign::ComposeTimeout);
                self.fail(
                    "the text was not seen in the composer; Enter was not pressed",
                    submitted,
                );
            }
            SubmissionState::Submitted | SubmissionState::Stuck => {
                self.sign(DeliverySign::Shown);
                self.sign(DeliverySign::Entered);
            }
            SubmissionState::Ended if submitted.enters > 0 => self.sign(DeliverySign::Entered),
            SubmissionState::Ended => {
                self.sign(DeliverySign::ComposeTimeout);
                self.fail("the program ended before Enter was pressed", submitted);
            }
        }
        Ok(())
    }

    fn settle_unproven(&mut self, submitted: &SubmitResult) {
        let still_shown = submitted.state == SubmissionState::Stuck;
        let sign = match (self.foreign, still_shown) {
            (true, false) => DeliverySign::Recorded(None),
            _ => DeliverySign::ProofTimeout { still_shown },
        };
        self.sign(sign);
        let reason = match self.record.state {
            DeliveryState::Altered => "the agent recorded another text",
            DeliveryState::Stuck => "the text still stands in the composer",
            _ => "the agent has not recorded it yet",
        };
        self.fail(reason, submitted);
    }

    fn sign(&mut self, sign: DeliverySign) {
        self.record.state = self.record.state.after(sign);
    }

    fn fail(&mut self, reason: &str, submitted: &SubmitResult) {
        if self.record.state != DeliveryState::Accepted {
            self.record.reason = Some(reason.to_owned());
            self.record.screen = Some(submitted.screen.clone());
        }
    }

    /// Looks whether the agent recorded the text since the transcript's noted end.
    fn look_for_proof(&mut self, observe: &mut dyn FnMut() -> Result<Observation, String>) -> bool {
        if self.record.state == DeliveryState::Accepted {
            return true;
        }
        if self.agent.source.is_none() {
            // Some agents make their transcript with the first prompt.
            let found = observe().ok();
            self.agent.source = found
                .as_ref()
                .and_then(|observation| find_named(observation, &self.agent.name)?.source.clone());
        }
        let Some(source) = &self.agent.source else { return false };
        let mut found: Option<(PromptMatch, Option<Time>)> = None;
        let mut foreign = false;
        let mut say = |entry: ConversationEntry| {
            if entry.role == ConversationRole::User && entry.subagent.is_none() {
                match match_prompt(&self.text, &entry.text) {
                    Some(matched) => found = found.or(Some((matched, entry.at))),
                    None => foreign = true,
                }
            }
        };
        let agent = &self.agent.name.agent;
        // A transcript that cannot be read just now is read again.
        let read =
            crate::converse::read_conversation(agent, source, self.record.noted_end, &mut say);
        self.foreign = foreign;
        let (Ok(end), Some((matched, at))) = (read, found) else { return false };
        self.record.state = self.record.state.after(DeliverySign::Recorded(Some(matched)));
        self.record.matched = Some(matched);
        self.record.accepted_ms = Some(whole_millis(self.begun.elapsed()));
        self.record.proof = Some(DeliveryProof {
            source: "transcript".to_owned(),
            path: source.path.to_string_lossy().into_owned(),
            record: end,
            at,
        });
        true
    }
}

/// Where the transcript ends now, in the adapter's own positions.
fn read_end(agent: &str, source: &TranscriptSource) -> Result<u64, PromptError> {
    crate::converse::read_conversation(agent, source, 0, &mut |_| {}).map_err(|error| {
        PromptError::Transcript {
            path: source.path.to_string_lossy().into_owned(),
            reason: error.to_string(),
        }
    })
}

fn watch_transcript(source: &TranscriptSource) -> Option<DirectoryWatch> {
    DirectoryWatch::watch_directory(source.path.parent().unwrap_or(Path::new("/"))).ok()
}

/// Returns when something changed there, or when the time is up.
fn wait_for_change(watch: Option<&DirectoryWatch>, timeout: Duration) {
    let waited = watch.map(|watch| watch.wait_for(Some(timeout)));
    if !matches!(waited, Some(Ok(_))) {
        std::thread::sleep(timeout.min(LOOK_AGAIN_INTERVAL));
    }
}
