//! Launching agents: a start that ends with a conversation that is known, an agent that takes prompts, and
//! the proof that it has the first one.
//!
//! An id is chosen or proven, never guessed. What a start-up dialog asks is told, and never answered.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use adapters::control::IdRule;
use model::control::delivery::DeliveryState;
use model::control::note::ControlEvent;
use model::control::obstacle::find_obstacle;
use model::control::refusal::DriveRefusal;
use model::control::wire::{
    BlockedLaunch, ConversationBinding, LaunchObstacle, LaunchResult, LaunchState,
    LaunchedConversation, ProcessView,
};
use model::hosted::wire::{
    ReadyResult, RenderParams, SnapshotFormat, SnapshotParams, SubmissionState,
};
use model::hosted::{FaultCode, HostFault};
use model::session::SessionName;
use model::time::whole_millis;
use model::wire::IncompleteSource;
use sys::dropped::NoteDropped;
use sys::machine::Machine;

use super::conversation::ConversationClue;
use super::deliveries::ControlLedger;
use super::headless;
use super::launch_plan::{LaunchPlan, plan_launch};
use super::launch_terms::{arm_ttl, check_alone, hold_place};
use super::running::{DeliveryFault, LookAtMachine, RunningDelivery, SubmitTerms, TurnWait};
use crate::launches::note_launch;
use crate::observe::Observation;
use crate::terminal::create::{CreateTerminalRequest, create_terminal};
use crate::terminal::destroy::destroy_terminal;
use crate::terminal::submit::await_ready;
use crate::terminal::wait::wait_for_render;
use crate::terminal::{HostedSession, TerminalHome, look};
use crate::timeouts::{
    BINDING_TIMEOUT, COMPOSER_REST, COMPOSER_TIMEOUT, DIALOG_INTERVAL, END_WRITTEN_INTERVAL,
    END_WRITTEN_TIMEOUT, FRESH_READY_TIMEOUT, PROOF_INTERVAL, RESUME_VERIFY_TIMEOUT,
};

pub use super::launch_plan::LaunchRequest;

/// The terminal of an agent: wide enough for what agents draw.
const LAUNCH_SIZE: (u16, u16) = (120, 40);

/// Why there is no agent, or none that was told what it should do.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Nothing was started.
    #[error(transparent)]
    Refused(#[from] DriveRefusal),
    /// The terminal or its host.
    #[error(transparent)]
    Terminal(#[from] HostFault),
    /// The agent is not installed.
    #[error("no program of `{agent}` ({names}) is on the PATH")]
    NoProgram {
        agent: String,
        /// What its programs are called.
        names: String,
    },
    /// Its program cannot be run.
    #[error("`{}` is not executable", .program.display())]
    NotExecutable { program: PathBuf },
    /// It was started, and does not do what it should.
    #[error("{}", .0.reason.as_deref().unwrap_or("the agent is not ready"))]
    Unfinished(Box<LaunchResult>),
    /// The machine could not be looked at.
    #[error("{0}")]
    Observe(String),
}

impl From<DeliveryFault> for LaunchError {
    fn from(fault: DeliveryFault) -> Self {
        Self::Observe(fault.to_string())
    }
}

/// What a start works with.
pub struct LaunchScene<'a> {
    /// Where terminals are.
    pub terminals: &'a TerminalHome,
    /// Everything that was there before.
    pub before: &'a Observation,
    /// Where it is written down.
    pub ledger: &'a mut ControlLedger,
    /// Looks at the machine anew.
    pub observe: &'a mut LookAtMachine<'a>,
}

impl std::fmt::Debug for LaunchScene<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaunchScene").field("terminals", &self.terminals).finish_non_exhaustive()
    }
}

/// Says what would be started.
pub fn preview_launch(
    request: &LaunchRequest,
    machine: &Machine,
    before: &Observation,
) -> Result<LaunchResult, LaunchError> {
    let plan = plan_launch(request, machine, before)?;
    check_alone(request, &plan.cwd, before, None)?;
    Ok(LaunchResult { dry_run: true, ..plan.blank_result(request) })
}

/// Starts an agent.
pub fn launch_agent(
    request: &LaunchRequest,
    scene: &mut LaunchScene<'_>,
) -> Result<LaunchResult, LaunchError> {
    let plan = plan_launch(request, &scene.terminals.machine, scene.before)?;
    let _alone = hold_place(request, &plan.cwd, None, scene)?;
    let mut start = StartedAgent::begin(request, plan, scene)?;
    start.come_up(request, scene)?;
    start.finish(scene, ControlEvent::Launched)
}

/// An agent that was started, as far as it has come.
pub(super) struct StartedAgent {
    pub(super) plan: LaunchPlan,
    pub(super) hosted: HostedSession,
    pub(super) result: LaunchResult,
}

impl StartedAgent {
    /// Starts the program. From here on there is something to tell, in every case.
    pub(super) fn begin(
        request: &LaunchRequest,
        mut plan: LaunchPlan,
        scene: &mut LaunchScene<'_>,
    ) -> Result<Self, LaunchError> {
        sys::pause::pause_at("launch.planned");
        let mut result = plan.blank_result(request);
        let create = CreateTerminalRequest {
            command: plan.command.clone(),
            shell: request.shell.clone(),
            cwd: Some(plan.cwd.clone()),
            cols: LAUNCH_SIZE.0,
            rows: LAUNCH_SIZE.1,
            env: [request.env.as_slice(), &request.permits.variables].concat(),
            term: "xterm-256color".to_owned(),
            name: request.name.clone(),
            idle_timeout_ms: 0,
            scrollback_lines: request.scrollback_lines,
            secrets: [request.secrets.as_slice(), &request.permits.secrets].concat(),
            headless: headless::spec_of(&plan),
            runtime: request.runtime.clone(),
        };
        request.permits.make_files().map_err(|error| {
            let why = format!("the files for its requests cannot be made: {error}");
            HostFault::new(FaultCode::StorageWriteError, why)
        })?;
        let created = create_terminal(scene.terminals, create)?;
        sys::pause::pause_at("launch.started");
        let id = created.session_id;
        if let Err(error) = note_launch(scene.terminals, &id, plan.agent, request.note_ttl) {
            // It runs all the same, and nothing rests on the note.
            result.incomplete.push(IncompleteSource {
                source: "launch records".to_owned(),
                path: None,
                reason: error.to_string(),
            });
        }
        if let Some(ttl) = request.ttl {
            let machine = &scene.terminals.machine;
            let armed = arm_ttl(machine, &id, &plan.cwd, ttl, &request.started_by);
            result.fuse = armed.fuse;
            result.incomplete.extend(armed.incomplete);
        }
        sys::pause::pause_at("launch.noted");
        let hosted = scene.terminals.open_session(&id)?;
        let process = hosted.holder.as_ref().and_then(|holder| holder.child.as_ref());
        result.process = process.map(ProcessView::from);
        result.terminal = Some(id.clone());
        plan.clue.terminal = Some(id);
        Ok(Self { plan, hosted, result })
    }

    /// Waits until it takes prompts, and gives it the first one.
    pub(super) fn come_up(
        &mut self,
        request: &LaunchRequest,
        scene: &mut LaunchScene<'_>,
    ) -> Result<(), LaunchError> {
        if self.plan.headless.is_some() {
            return headless::run_headless(self, request, scene);
        }
        let ready = await_ready(&self.hosted, request.ready_timeout)?;
        sys::pause::pause_at("launch.ready");
        if !self.note_readiness(&ready, request) {
            return Ok(());
        }
        if !self.await_composer() {
            return Ok(());
        }
        if self.plan.resumed {
            if !self.verify_conversation(scene) {
                return Ok(());
            }
        } else {
            self.bind(scene, BINDING_TIMEOUT);
        }
        sys::pause::pause_at("launch.bound");
        match self.plan.text.clone() {
            Some(text) => self.give_prompt(text, request, scene),
            None => Ok(()),
        }
    }

    /// Waits for the composer of an agent that switches its terminal over before it has one; `false` if a dialog
    /// is there instead. One that never shows these words, as another version may, is not waited for long: the
    /// submission looks for itself.
    fn await_composer(&mut self) -> bool {
        let Some(words) = self.plan.control.composer_words else { return true };
        let until = Instant::now() + COMPOSER_TIMEOUT;
        let mut seen = String::new();
        loop {
            let params = RenderParams {
                text: Some(words.to_owned()),
                timeout_ms: Some(whole_millis(DIALOG_INTERVAL)),
                ..RenderParams::default()
            };
            let shown = wait_for_render(&self.hosted, &params);
            if shown.is_ok_and(|shown| shown.matched == Some(true)) {
                // It may still load what it needs, redraw everything, and swallow an Enter meanwhile.
                let rests = RenderParams {
                    screen_stable_ms: Some(whole_millis(COMPOSER_REST)),
                    timeout_ms: Some(whole_millis(COMPOSER_REST * 8)),
                    ..params
                };
                wait_for_render(&self.hosted, &rests).note_dropped("waiting for a composer");
                return true;
            }
            // A dialog that is seen twice is no frame of something that is being drawn.
            let screen = self.last_shown();
            if let Some(kind) = find_obstacle(&screen, self.plan.control.trust_words)
                && screen == seen
            {
                self.note_obstacle(kind, &screen);
                return false;
            }
            seen = screen;
            if Instant::now() >= until {
                return true;
            }
        }
    }

    /// What the terminal shows now.
    fn last_shown(&self) -> String {
        let params = SnapshotParams { format: SnapshotFormat::Text, ..SnapshotParams::default() };
        let shown =
            look::take_snapshot(&self.hosted, &params).ok_or_note("the last screen of a launch");
        shown.and_then(|shown| shown.text).unwrap_or_default().trim().to_owned()
    }

    /// Whether it takes prompts; otherwise what is in the way.
    pub(super) fn note_readiness(&mut self, ready: &ReadyResult, request: &LaunchRequest) -> bool {
        if ready.ended {
            self.note_end(&ready.screen);
            return false;
        }
        if let Some(kind) = find_obstacle(&ready.screen, self.plan.control.trust_words) {
            self.note_obstacle(kind, &ready.screen);
            return false;
        }
        if !ready.ready {
            self.result.state = LaunchState::Waiting;
            self.result.blocked_by =
                Some(BlockedLaunch { kind: LaunchObstacle::Unknown, screen: ready.screen.clone() });
            let seconds = request.ready_timeout.as_secs();
            self.result.reason =
                Some(format!("it did not become ready within {seconds} s; nothing was typed"));
        }
        ready.ready
    }

    fn note_obstacle(&mut self, kind: LaunchObstacle, screen: &str) {
        self.result.state = LaunchState::Blocked;
        self.result.blocked_by = Some(BlockedLaunch { kind, screen: screen.to_owned() });
        let what = match kind {
            LaunchObstacle::Trust => "it asks whether it may work in this directory",
            LaunchObstacle::Login => "it asks for a login",
            LaunchObstacle::Update => "it offers an update",
            LaunchObstacle::Unknown => "it asks a person something",
        };
        self.result.reason = Some(what.to_owned());
    }

    /// It ended; what it showed last is the reason.
    pub(super) fn note_end(&mut self, screen: &str) {
        let settled = self.hosted_now();
        self.result.state = LaunchState::Failed;
        self.result.exit_code = settled.manifest.exit_code;
        let shown = match screen.trim() {
            "" => self.last_screen(),
            shown => shown.to_owned(),
        };
        let code = match self.result.exit_code {
            Some(code) => format!("it ended with exit code {code}"),
            None => "it ended".to_owned(),
        };
        self.result.reason =
            Some(if shown.is_empty() { code } else { format!("{code}: {}", last_lines(&shown)) });
        // An agent that never had a conversation has none.
        if self.result.session.as_ref().is_some_and(|one| one.transcript.is_none())
            && !self.plan.resumed
        {
            self.result.session = None;
        }
    }

    /// Its terminal as it is written down now.
    pub(super) fn hosted_now(&self) -> HostedSession {
        let until = Instant::now() + END_WRITTEN_TIMEOUT;
        loop {
            let now = self.hosted.clone().reread().as_settled();
            // The end is answered before it is written down.
            if now.status().is_terminal() || Instant::now() >= until {
                return now;
            }
            std::thread::sleep(END_WRITTEN_INTERVAL);
        }
    }

    fn last_screen(&self) -> String {
        let params = SnapshotParams { format: SnapshotFormat::Text, ..SnapshotParams::default() };
        let shown = look::take_snapshot(&self.hosted_now(), &params)
            .ok_or_note("the last screen of a launch");
        shown.and_then(|shown| shown.text).map(|text| text.trim().to_owned()).unwrap_or_default()
    }

    /// Finds the conversation: what the agent itself wrote down outweighs what it was told.
    pub(super) fn bind(&mut self, scene: &mut LaunchScene<'_>, timeout: Duration) {
        let is_registered = self.plan.control.id_rule == IdRule::Registered;
        let until = Instant::now() + timeout;
        loop {
            let found = (scene.observe)().ok_or_note("looking for a launched conversation");
            let found = found.as_ref().and_then(|seen| self.plan.clue.find_in(seen));
            if let Some((one, bound)) = found {
                let transcript =
                    one.source.as_ref().map(|source| source.path.to_string_lossy().into_owned());
                let id = one.session.id.clone();
                self.result.session = Some(LaunchedConversation { id, transcript, bound });
                return;
            }
            // One that was told its id need not have written anything yet.
            if !is_registered || Instant::now() >= until {
                return;
            }
            std::thread::sleep(PROOF_INTERVAL);
        }
    }

    /// Whether the started process has exactly the conversation that it should; otherwise it is stopped.
    fn verify_conversation(&mut self, scene: &mut LaunchScene<'_>) -> bool {
        let until = Instant::now() + RESUME_VERIFY_TIMEOUT;
        let wanted = self.plan.clue.id.clone();
        let in_terminal = ConversationClue { id: None, new_in: None, ..self.plan.clue.clone() };
        let mut has = None;
        while has.is_none() && Instant::now() < until {
            let seen = (scene.observe)().ok_or_note("looking for a launched conversation");
            let found = seen.as_ref().and_then(|seen| {
                let (one, bound) = in_terminal.find_in(seen).or_else(|| {
                    // A fork is a new conversation, and may be written before it is registered.
                    let new = wanted.is_none().then_some(&self.plan.clue);
                    new.and_then(|clue| clue.find_in(seen))
                })?;
                Some((one, bound))
            });
            if let Some((one, bound)) = found {
                let transcript =
                    one.source.as_ref().map(|source| source.path.to_string_lossy().into_owned());
                let id = one.session.id.clone();
                has = Some(LaunchedConversation { id, transcript, bound });
            } else {
                std::thread::sleep(PROOF_INTERVAL);
            }
        }
        let is_right = match (&has, &wanted) {
            (Some(has), Some(wanted)) => has.id == *wanted,
            (Some(has), None) => !self.plan.is_known(&has.id),
            (None, _) => false,
        };
        if is_right {
            self.plan.clue.id = has.as_ref().map(|has| has.id.clone());
            self.result.session = has;
            return true;
        }
        self.stop_wrong(has.map(|has| has.id));
        false
    }

    /// Ends a process that has another conversation than it should. Nothing was said to it.
    pub(super) fn stop_wrong(&mut self, has: Option<String>) {
        self.result.state = LaunchState::WrongConversation;
        let what = match &has {
            Some(id) => format!("it has the conversation {id}"),
            None => "it is not known which conversation it has".to_owned(),
        };
        let stopped = destroy_terminal(self.hosted.clone(), false);
        let stopped = match stopped {
            Ok(_) => "it was stopped".to_owned(),
            Err(fault) => format!("it could not be stopped: {}", fault.message),
        };
        self.result.reason = Some(format!("{what}; {stopped}, and the prompt was not sent"));
        self.result.session = None;
    }

    fn give_prompt(
        &mut self,
        text: String,
        request: &LaunchRequest,
        scene: &mut LaunchScene<'_>,
    ) -> Result<(), LaunchError> {
        let source =
            (scene.observe)().ok_or_note("looking for a launched conversation").and_then(|seen| {
                let (one, _) = self.plan.clue.find_in(&seen)?;
                one.source.clone()
            });
        let clue = self.plan.clue.clone();
        let mut delivery = RunningDelivery::prepare(
            &scene.terminals.machine,
            clue,
            source,
            text,
            self.plan.channel,
        )?;
        delivery.record.by = scene.ledger.caller().map(str::to_owned);
        delivery.keep(scene.ledger);
        let terms = SubmitTerms {
            over_person: false,
            ready_timeout: Some(FRESH_READY_TIMEOUT),
            accept_timeout: request.accept_timeout,
            if_enters: None,
            control: self.plan.control,
        };
        let submitted = delivery.submit(&self.hosted, terms, scene.observe)?;
        self.note_delivery(&delivery);
        let accepted = delivery.record.state == DeliveryState::Accepted;
        match submitted.state {
            SubmissionState::Ended if !accepted => self.note_end(&submitted.screen),
            SubmissionState::NotComposed | SubmissionState::NotReady => {
                let kind = find_obstacle(&submitted.screen, self.plan.control.trust_words);
                if let Some(kind) = kind {
                    self.note_obstacle(kind, &submitted.screen);
                }
            }
            _ => {}
        }
        if accepted && request.wait_idle {
            let hosted = self.hosted.clone();
            let mut goes_on = || !hosted.clone().reread().as_settled().status().is_terminal();
            let waited = delivery.await_turn_end(request.turn_timeout, scene.observe, &mut goes_on);
            self.note_delivery(&delivery);
            self.note_turn(waited);
        }
        delivery.keep(scene.ledger);
        Ok(())
    }

    fn note_turn(&mut self, waited: TurnWait) {
        let screen = || BlockedLaunch { kind: LaunchObstacle::Unknown, screen: self.last_screen() };
        match waited {
            TurnWait::Over => {}
            TurnWait::Asks => {
                let blocked_by = Some(screen());
                self.result.state = LaunchState::Blocked;
                self.result.blocked_by = blocked_by;
                self.result.reason =
                    Some("the prompt was accepted, and it asks a person".to_owned());
            }
            TurnWait::TimedOut => {
                self.result.state = LaunchState::Waiting;
                self.result.reason =
                    Some("the prompt was accepted, and its turn is open".to_owned());
            }
        }
    }

    /// What became of the first prompt, and of what it says about the conversation.
    pub(super) fn note_delivery(&mut self, delivery: &RunningDelivery) {
        let record = &delivery.record;
        if record.state == DeliveryState::Accepted {
            self.result.state = LaunchState::Accepted;
        } else {
            self.result.reason.clone_from(&record.reason);
        }
        if !record.session.is_empty()
            && let Some(source) = &delivery.source
        {
            let bound = match self.result.session.as_ref() {
                Some(session) => session.bound,
                None => delivery.binding.unwrap_or(ConversationBinding::Recorded),
            };
            let transcript = Some(source.path.to_string_lossy().into_owned());
            let id = record.session.clone();
            self.result.session = Some(LaunchedConversation { id, transcript, bound });
        }
        self.result.delivery = Some(record.clone());
    }

    /// The answer, or what was not reached.
    pub(super) fn finish(
        mut self,
        scene: &mut LaunchScene<'_>,
        event: ControlEvent,
    ) -> Result<LaunchResult, LaunchError> {
        let id = match &self.result.session {
            Some(session) => session.id.clone(),
            None => self.hosted.id.clone(),
        };
        let detail = serde_json::json!({
            "mode": self.result.mode,
            "terminal": self.hosted.id,
            "state": self.result.state,
        });
        scene.ledger.keep_event(event, &SessionName::new(self.plan.agent, &id), detail);
        self.result.incomplete.append(&mut scene.ledger.incomplete);
        match model::control::wire::launch_failure(&self.result) {
            Some(_) => Err(LaunchError::Unfinished(Box::new(self.result))),
            None => Ok(self.result),
        }
    }
}

/// The end of what a program showed, as one line.
pub(super) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(6)..].join(" / ")
}
