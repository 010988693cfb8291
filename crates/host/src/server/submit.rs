//! Submitting a prompt: one bracketed paste, Enter only while the text is seen to stand in the composer.
//!
//! Typed is not delivered, and Enter is dangerous: in a dialog it means yes. A paste is inert there, so a
//! text that is not seen after it was pasted means that no Enter is pressed. Nothing is polled: the screen
//! is looked at when it changes, the clock when something is due, and only while a submission is under way.
//! Several of them come one after the other, in the order in which they were asked for.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use model::hosted::wire::{
    SubmissionProofAnswer, SubmissionProofParams, SubmissionState, SubmitParams, SubmitResult,
};
use model::hosted::{FaultCode, HostFault, LogFact};
use model::time::whole_millis;
use screen::Personality;

use super::composer::{ComposedSpot, ComposedText, SightCounts};
use super::host::{Host, MAX_INPUT_BYTES};
use super::leftover::{LeftoverPaste, UnsentSight};
use super::methods::internal_fault;
use super::typing::TypingWatch;
use super::wait::Waiter;
use crate::timeouts::{
    COMPOSE_TIMEOUT, ENTER_INTERVAL, MODES_CHECK_INTERVAL, PERSON_TYPES_SPAN,
    PROGRAM_READY_TIMEOUT, SETTLED_SPAN, SETTLED_SPOT_SPAN,
};

/// How often Enter is pressed.
const MOST_ENTERS: u32 = 4;

/// How many submissions may wait for their turn.
const MOST_SUBMISSIONS: usize = 64;

/// The submissions of a terminal, and what is known about its composer.
#[derive(Debug, Default)]
pub(super) struct Submissions {
    queue: VecDeque<Submission>,
    typing: TypingWatch,
    /// A paste that met a question, as long as nothing else was typed.
    leftover: Option<LeftoverPaste>,
    last_person: Option<Instant>,
    last_enter: Option<Instant>,
    held: Vec<HeldInput>,
}

/// Input that waits until a submission's Enter is out.
#[derive(Debug)]
struct HeldInput {
    bytes: Vec<u8>,
    /// What is recorded when it is delivered.
    fact: Option<LogFact>,
}

#[derive(Debug)]
struct Submission {
    params: SubmitParams,
    step: SubmitStep,
    noted_seq: i64,
    enters: u32,
    composed_ms: Option<u64>,
}

#[derive(Debug)]
enum SubmitStep {
    /// Another one is before it.
    Queued,
    /// The program is waited for.
    AwaitingReady { until: Instant, look_again: Option<Instant> },
    /// The text was pasted.
    Composing(Box<Composing>),
    /// Enter was pressed.
    Entered(Box<Entered>),
}

#[derive(Debug)]
struct Composing {
    since: Instant,
    text: ComposedText,
    before: SightCounts,
    /// What stood before the cursor, if no question showed.
    composer: Option<String>,
    screen: Option<(Vec<String>, Instant)>,
    spot: Option<(ComposedSpot, Instant)>,
}

#[derive(Debug)]
struct Entered {
    at: Instant,
    text: ComposedText,
    before: SightCounts,
    spot: ComposedSpot,
    gone_since: Option<Instant>,
    /// Another viewer typed after Enter.
    disturbed: bool,
}

impl Submissions {
    /// Whether input of others has to wait.
    fn holds_input(&self) -> bool {
        matches!(self.queue.front(), Some(Submission { step: SubmitStep::Composing(_), .. }))
    }

    /// When something is due although nothing happens.
    pub(super) fn next_check_at(&self) -> Option<Instant> {
        match &self.queue.front()?.step {
            SubmitStep::Queued => None,
            SubmitStep::AwaitingReady { until, look_again } => {
                Some(look_again.map_or(*until, |at| at.min(*until)))
            }
            SubmitStep::Composing(composing) => {
                let mut due = composing.since + COMPOSE_TIMEOUT;
                if let (Some((_, since)), Some((_, spot_since))) =
                    (&composing.screen, &composing.spot)
                {
                    due = due.min(*since + SETTLED_SPAN).min(*spot_since + SETTLED_SPOT_SPAN);
                }
                Some(due)
            }
            SubmitStep::Entered(entered) => {
                Some(entered.gone_since.map_or(entered.at + ENTER_INTERVAL, |at| at + SETTLED_SPAN))
            }
        }
    }

    /// A command was given to a shell with its line break.
    pub(super) fn note_command_sent(&mut self) {
        self.leftover = None;
        self.typing.note_line_sent();
        self.last_enter = Some(Instant::now());
    }

    /// Whether something was typed and not sent.
    pub(super) const fn has_unsent(&self) -> bool {
        self.typing.has_unsent()
    }

    /// How often Enter was pressed.
    pub(super) const fn enters(&self) -> u64 {
        self.typing.enters()
    }

    /// How long ago Enter was pressed last; `None` if it never was.
    pub(super) fn since_enter(&self, now: Instant) -> Option<Duration> {
        self.last_enter.map(|at| now.saturating_duration_since(at))
    }
}

impl Host {
    /// Takes a submission in; it is answered when it is over.
    pub(super) fn submit_text(&mut self, params: SubmitParams) -> Result<Waiter, HostFault> {
        self.check_running()?;
        params.check_text().map_err(HostFault::invalid_input)?;
        let queue = &mut self.submissions.queue;
        if queue.iter().any(|one| one.params.delivery == params.delivery) {
            let message = format!("delivery `{}` is under way already", params.delivery);
            return Err(HostFault::invalid_input(message));
        }
        if queue.len() >= MOST_SUBMISSIONS {
            let message = "too many submissions wait for this session already";
            return Err(HostFault::new(FaultCode::RpcError, message));
        }
        let delivery = params.delivery.clone();
        let (step, noted_seq) = (SubmitStep::Queued, -1);
        queue.push_back(Submission { params, step, noted_seq, enters: 0, composed_ms: None });
        Ok(Waiter::Submit { delivery })
    }

    /// The client has proof, or gives it up: Enter is not pressed any more.
    pub(super) fn settle_submission(
        &mut self,
        SubmissionProofParams { delivery, if_entered }: &SubmissionProofParams,
    ) -> SubmissionProofAnswer {
        let queue = &mut self.submissions.queue;
        let at = queue.iter().position(|one| one.params.delivery == *delivery);
        if *if_entered && at.is_some_and(|at| queue[at].enters == 0) {
            return SubmissionProofAnswer { under_way: true, too_early: true };
        }
        let Some(submission) = at.and_then(|at| queue.remove(at)) else {
            return SubmissionProofAnswer { under_way: false, too_early: false };
        };
        let state = match &submission.step {
            SubmitStep::Queued | SubmitStep::AwaitingReady { .. } => SubmissionState::NotReady,
            SubmitStep::Composing(composing) => {
                self.note_leftover(composing);
                SubmissionState::NotComposed
            }
            SubmitStep::Entered(_) => SubmissionState::Submitted,
        };
        self.end_submission(submission, state);
        SubmissionProofAnswer { under_way: true, too_early: false }
    }

    /// Input of others: held back while a text is being composed.
    pub(super) fn type_in(&mut self, bytes: &[u8]) {
        self.last_activity = Instant::now();
        if self.submissions.holds_input() {
            self.submissions.held.push(HeldInput { bytes: bytes.to_vec(), fact: None });
            return;
        }
        self.note_disturbance();
        self.note_input_beside_leftover(bytes);
        self.write_input(bytes);
    }

    /// A key that answers the question does not stand in the composer; whatever else is typed does.
    fn note_input_beside_leftover(&mut self, bytes: &[u8]) {
        let Some(mut leftover) = self.submissions.leftover.take() else { return };
        if leftover.outlasts_input(bytes, &self.screen.rows()) {
            self.submissions.leftover = Some(leftover);
        }
    }

    /// Whether no more can be kept for the program: viewers are read on when it has taken some of it.
    pub(super) fn is_input_full(&self) -> bool {
        let held: usize = self.submissions.held.iter().map(|held| held.bytes.len()).sum();
        self.input.len() + held >= MAX_INPUT_BYTES
    }

    /// The same, from a person who watches.
    pub(super) fn type_in_as_person(&mut self, bytes: &[u8], by: Option<String>) {
        let data = String::from_utf8_lossy(bytes).into_owned();
        let fact = LogFact::InputText { data, by };
        if !is_report(bytes) {
            self.submissions.last_person = Some(Instant::now());
        }
        if self.submissions.holds_input() {
            self.submissions.held.push(HeldInput { bytes: bytes.to_vec(), fact: Some(fact) });
            return;
        }
        self.type_in(bytes);
        self.record_fact(&fact);
    }

    fn note_disturbance(&mut self) {
        if let Some(Submission { step: SubmitStep::Entered(entered), .. }) =
            self.submissions.queue.front_mut()
        {
            entered.disturbed = true;
        }
    }

    /// Hands bytes to the terminal; what it does not take now it is given later.
    fn write_input(&mut self, bytes: &[u8]) {
        let before = self.submissions.typing.enters();
        self.submissions.typing.note_input(bytes);
        if self.submissions.typing.enters() != before {
            self.submissions.last_enter = Some(Instant::now());
        }
        self.input.extend(bytes);
        self.write_terminal();
    }

    fn release_held_input(&mut self) {
        for held in std::mem::take(&mut self.submissions.held) {
            self.type_in(&held.bytes);
            if let Some(fact) = &held.fact {
                self.record_fact(fact);
            }
        }
    }

    /// Goes on with the submission whose turn it is, and with the next one when it is over.
    pub(super) fn check_submissions(&mut self, now: Instant) {
        while let Some(mut submission) = self.submissions.queue.pop_front() {
            match self.advance_submission(&mut submission, now) {
                Some(state) => self.end_submission(submission, state),
                None => {
                    let holds = matches!(submission.step, SubmitStep::Composing(_));
                    self.submissions.queue.push_front(submission);
                    if !holds {
                        self.release_held_input();
                    }
                    return;
                }
            }
        }
    }

    /// One step further, as far as it goes now; the state if it is over.
    fn advance_submission(
        &mut self,
        submission: &mut Submission,
        now: Instant,
    ) -> Option<SubmissionState> {
        if matches!(submission.step, SubmitStep::Queued) {
            if !self.is_awaited(&submission.params.delivery) {
                // No client would be told, and nothing was written.
                return Some(SubmissionState::NotReady);
            }
            let timeout = submission
                .params
                .ready_timeout_ms
                .map_or(PROGRAM_READY_TIMEOUT, Duration::from_millis);
            let until = now.checked_add(timeout).unwrap_or(now + PROGRAM_READY_TIMEOUT);
            submission.step = SubmitStep::AwaitingReady { until, look_again: None };
        }
        if let SubmitStep::AwaitingReady { until, look_again } = &mut submission.step {
            if let Some(refusal) = self.refuse_submission(&submission.params, now) {
                return Some(refusal);
            }
            match self.look_for_unsent(now) {
                UnsentSight::Nothing => {}
                UnsentSight::Stands => return Some(SubmissionState::ComposerNotEmpty),
                UnsentSight::Settles(at) => {
                    *look_again = Some(at);
                    return (*until <= now).then_some(SubmissionState::ComposerNotEmpty);
                }
            }
            let brackets = self.screen.modes().bracketed_paste;
            if !(brackets && self.has_left_canonical_mode()) {
                *look_again = brackets.then_some(now + MODES_CHECK_INTERVAL);
                return (*until <= now).then_some(SubmissionState::NotReady);
            }
            self.paste_submission(submission, now);
        }
        let step = std::mem::replace(&mut submission.step, SubmitStep::Queued);
        match step {
            SubmitStep::Composing(composing) => self.check_composed(submission, composing, now),
            SubmitStep::Entered(entered) => self.check_entered(submission, entered, now),
            SubmitStep::Queued | SubmitStep::AwaitingReady { .. } => None,
        }
    }

    fn refuse_submission(&self, params: &SubmitParams, now: Instant) -> Option<SubmissionState> {
        let submissions = &self.submissions;
        let types = |since: Instant| now.duration_since(since) < PERSON_TYPES_SPAN;
        if !params.over_person && submissions.last_person.is_some_and(types) {
            return Some(SubmissionState::PersonTypes);
        }
        // Whoever pressed Enter since may have set the agent to work.
        if params.if_enters.is_some_and(|enters| enters != submissions.typing.enters()) {
            return Some(SubmissionState::Overtaken);
        }
        None
    }

    /// Whether something stands in the composer. A paste of ostler's own that a question swallowed does not, once that
    /// is seen.
    fn look_for_unsent(&mut self, now: Instant) -> UnsentSight {
        if !self.submissions.typing.has_unsent() {
            self.submissions.leftover = None;
            return UnsentSight::Nothing;
        }
        let (rows, composer) = (self.screen.rows(), self.row_before_cursor());
        let Some(leftover) = &mut self.submissions.leftover else { return UnsentSight::Stands };
        let sight = leftover.look(rows, &composer, now);
        if sight == UnsentSight::Nothing {
            self.submissions.leftover = None;
            self.submissions.typing.forget_unsent();
        }
        sight
    }

    fn note_leftover(&mut self, composing: &Composing) {
        let Composing { text, composer, .. } = composing;
        let rows = self.screen.rows();
        self.submissions.leftover = LeftoverPaste::of(text.clone(), composer.clone(), &rows);
    }

    /// What stands before the cursor in its row.
    fn row_before_cursor(&self) -> String {
        let cursor = self.screen.cursor();
        let rows = self.screen.rows();
        let row = rows.get(usize::from(cursor.row)).map(String::as_str).unwrap_or_default();
        row.chars().take(usize::from(cursor.col)).collect()
    }

    pub(super) fn has_left_canonical_mode(&self) -> bool {
        self.terminal.as_ref().is_some_and(|terminal| !terminal.master.is_canonical())
    }

    fn is_awaited(&self, wanted: &str) -> bool {
        self.connections
            .waiters()
            .any(|waiter| matches!(waiter, Waiter::Submit { delivery } if delivery == wanted))
    }

    fn paste_submission(&mut self, submission: &mut Submission, now: Instant) {
        let pasted = submission.params.pasted_text();
        let text = ComposedText::new(&pasted, &submission.params.questions);
        let rows = self.screen.rows();
        let before = text.count(&rows);
        let composer = (!text.may_be_asked(&rows)).then(|| self.row_before_cursor());
        submission.noted_seq = self.last_seq();
        sys::pause::pause_at("host-before-paste");
        let data = screen::keys::encode_paste(&pasted, true);
        self.last_activity = now;
        self.write_input(&data);
        let data = String::from_utf8_lossy(&data).into_owned();
        self.record_fact(&LogFact::InputPaste { data, by: None });
        let composing = Composing { since: now, text, before, composer, screen: None, spot: None };
        submission.step = SubmitStep::Composing(Box::new(composing));
    }

    /// Whether the text stands in the composer; if so, Enter, now.
    fn check_composed(
        &mut self,
        submission: &mut Submission,
        mut composing: Box<Composing>,
        now: Instant,
    ) -> Option<SubmissionState> {
        let rows = self.screen.rows();
        let spot = composing.text.spot(&rows, &composing.before);
        // What the terminal has not taken yet cannot be shown whole.
        let spot = spot.filter(|_| self.input.is_empty());
        let since = match composing.screen.take() {
            Some((shown, since)) if shown == rows => since,
            _ => now,
        };
        composing.screen = Some((rows, since));
        composing.spot = spot.map(|spot| match composing.spot.take() {
            Some((seen, since)) if seen == spot => (spot, since),
            _ => (spot, now),
        });
        if let Some((spot, spot_since)) = &composing.spot
            && (now >= since + SETTLED_SPAN || now >= *spot_since + SETTLED_SPOT_SPAN)
            && now >= *spot_since + SETTLED_SPAN
        {
            submission.composed_ms = Some(whole_millis(now.duration_since(composing.since)));
            let spot = spot.clone();
            sys::pause::pause_at("host-before-enter");
            self.press_enter(submission, now);
            let Composing { text, before, .. } = *composing;
            submission.step = SubmitStep::Entered(Box::new(Entered {
                at: now,
                text,
                before,
                spot,
                gone_since: None,
                disturbed: false,
            }));
            return None;
        }
        if now >= composing.since + COMPOSE_TIMEOUT {
            self.note_leftover(&composing);
            return Some(SubmissionState::NotComposed);
        }
        submission.step = SubmitStep::Composing(composing);
        None
    }

    /// Whether the text has left the composer; if not, Enter again after a while.
    fn check_entered(
        &mut self,
        submission: &mut Submission,
        mut entered: Box<Entered>,
        now: Instant,
    ) -> Option<SubmissionState> {
        let rows = self.screen.rows();
        if entered.text.spot(&rows, &entered.before).as_ref() == Some(&entered.spot) {
            entered.gone_since = None;
            if now >= entered.at + ENTER_INTERVAL {
                let more = submission.enters < MOST_ENTERS
                    && !entered.disturbed
                    && self.is_awaited(&submission.params.delivery);
                if !more {
                    return Some(SubmissionState::Stuck);
                }
                self.press_enter(submission, now);
                entered.at = now;
            }
        } else if now >= *entered.gone_since.get_or_insert(now) + SETTLED_SPAN {
            return Some(SubmissionState::Submitted);
        }
        submission.step = SubmitStep::Entered(entered);
        None
    }

    fn press_enter(&mut self, submission: &mut Submission, now: Instant) {
        let enter = screen::keys::encode_key("Enter", &self.screen.modes(), Personality::Ostler);
        self.last_activity = now;
        self.write_input(&enter.unwrap_or_else(|_| b"\r".to_vec()));
        self.record_fact(&LogFact::InputKeys { keys: vec!["Enter".to_owned()], by: None });
        submission.enters += 1;
    }

    fn end_submission(&mut self, submission: Submission, state: SubmissionState) {
        if state == SubmissionState::Stuck {
            self.submissions.typing.note_unsent();
        }
        let result = SubmitResult {
            state,
            enters: submission.enters,
            noted_seq: submission.noted_seq,
            composed_ms: submission.composed_ms,
            screen: self.screen.rows().join("\n").trim_end().to_owned(),
        };
        self.connections.answer_ready(|waiter, _| match waiter {
            Waiter::Submit { delivery } if *delivery == submission.params.delivery => {
                Some(serde_json::to_value(&result).map_err(internal_fault))
            }
            _ => None,
        });
        self.release_held_input();
    }

    /// The program has ended: nothing more comes of them.
    pub(super) fn end_submissions(&mut self) {
        while let Some(submission) = self.submissions.queue.pop_front() {
            self.end_submission(submission, SubmissionState::Ended);
        }
    }
}

/// What a terminal sends by itself: focus, mouse, answers.
fn is_report(bytes: &[u8]) -> bool {
    let last = bytes.last().copied().unwrap_or_default();
    match bytes {
        [0x1b, b'[', b'<' | b'M' | b'?', ..] => true,
        [0x1b, b'[', ..] => matches!(last, b'I' | b'O' | b'R' | b'c' | b'n' | b't'),
        [0x1b, b']' | b'P', ..] => true,
        _ => false,
    }
}
