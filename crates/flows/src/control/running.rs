//! One delivery under way: from the first byte until the agent's record, and the end of its turn.
//!
//! The screen is asked one question only, by the terminal's host: does the text stand in the composer?
//! Whether the prompt arrived is told by the agent's transcript, from where it ended before.

use std::path::Path;
use std::time::{Duration, Instant};

use adapters::{AgentControl, TranscriptSource};
use model::control::delivery::{
    DeliveryChannel, DeliveryProof, DeliveryRecord, DeliverySign, DeliveryState, DeliveryTurn,
    TurnEnd,
};
use model::control::prompt::{PromptMatch, match_prompt, normalise_prompt};
use model::control::wire::ConversationBinding;
use model::conversation::{ConversationEntry, ConversationRole};
use model::hosted::HostFault;
use model::hosted::wire::{SubmissionState, SubmitParams, SubmitResult};
use model::sighting::TurnState;
use model::status::Activity;
use model::time::{Time, whole_millis};
use sys::dropped::NoteDropped;
use sys::machine::Machine;

use super::conversation::ConversationClue;
use super::deliveries::ControlLedger;
use super::pasted::read_pasted;
use super::rivals::{choose_own, read_rivals};
use super::transcript_watch::TranscriptWatch;
use crate::observe::Observation;
use crate::terminal::HostedSession;
use crate::terminal::submit::{ask_readiness, settle_submission, submit_text};
use crate::timeouts::{
    LONGEST_WATCH_SPAN, LOOK_AGAIN_INTERVAL, SUBMISSION_INTERVAL, SUBMISSION_TIMEOUT,
};

/// How much earlier than its delivery a record may say that it was written: some agents write whole seconds.
pub(super) const STAMP_SLACK: Duration = Duration::from_secs(1);

/// Looks at the machine anew each time it is called.
pub type LookAtMachine<'a> = dyn FnMut() -> Result<Observation, String> + 'a;

/// A delivery between the first byte and the answer.
pub(super) struct RunningDelivery {
    pub(super) record: DeliveryRecord,
    pub(super) text: String,
    pub(super) clue: ConversationClue,
    pub(super) source: Option<Box<TranscriptSource>>,
    pub(super) binding: Option<ConversationBinding>,
    pub(super) begun: Instant,
    /// Whether another prompt was recorded meanwhile.
    foreign: bool,
    /// Whether the record held no prompt before: the agent may begin another file with the first one.
    unbegun: bool,
    /// Which file the transcript was when this began.
    noted_file: Option<NotedFile>,
    /// Whether the transcript is not the one that this began with: what is older than this delivery does not count.
    is_other: bool,
    /// Why it is not known which records prove other deliveries.
    unread: Option<String>,
    watch: TranscriptWatch,
    machine: Machine,
}

/// A file by its place and length. One that took its place, or is shorter by now, begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NotedFile {
    device: u64,
    inode: u64,
    bytes: u64,
}

impl NotedFile {
    fn look_at(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let about = std::fs::metadata(path).ok_or_note("the file of a transcript")?;
        Some(Self { device: about.dev(), inode: about.ino(), bytes: about.len() })
    }

    fn was_replaced(self, path: &Path) -> bool {
        let place = |file: Self| (file.device, file.inode);
        Self::look_at(path).is_some_and(|now| place(now) != place(self) || now.bytes < self.bytes)
    }
}

/// How the text is submitted through a terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubmitTerms {
    pub(super) over_person: bool,
    pub(super) ready_timeout: Option<Duration>,
    pub(super) accept_timeout: Duration,
    /// Only if Enter was not pressed more often than that.
    pub(super) if_enters: Option<u64>,
    pub(super) control: &'static AgentControl,
}

/// Where a delivery's proof is looked for.
pub(super) struct ProofPlace {
    source: Option<Box<TranscriptSource>>,
    noted_end: u64,
    is_other: bool,
}

/// How far the wait for the end of a turn came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnWait {
    /// It ended, somehow.
    Over,
    /// A question is open.
    Asks,
    /// The time is up.
    TimedOut,
}

impl RunningDelivery {
    /// A delivery of which nothing was written yet. `source` is where the record is, if it is there.
    pub(super) fn prepare(
        machine: &Machine,
        clue: ConversationClue,
        source: Option<Box<TranscriptSource>>,
        text: String,
        channel: DeliveryChannel,
    ) -> Result<Self, DeliveryFault> {
        let id =
            sys::random::new_ulid().map_err(|error| DeliveryFault::Machine(error.to_string()))?;
        let record = DeliveryRecord {
            session: clue.id.clone().unwrap_or_default(),
            agent: clue.agent.clone(),
            channel,
            sha256: sys::hash::sha256(text.as_bytes()),
            normalised_sha256: sys::hash::sha256(normalise_prompt(&text).as_bytes()),
            bytes: text.len() as u64,
            state: DeliveryState::Ready,
            begun_at: machine.read_clock(),
            key: None,
            by: None,
            terminal: clue.terminal.clone(),
            enters: 0,
            composed_ms: None,
            accepted_ms: None,
            matched: None,
            proof: None,
            turn: None,
            reason: None,
            screen: None,
            noted_end: 0,
            id,
        };
        let mut delivery = Self {
            record,
            text,
            clue: clue.clone(),
            source: None,
            binding: None,
            begun: Instant::now(),
            foreign: false,
            unbegun: true,
            noted_file: None,
            is_other: false,
            unread: None,
            watch: TranscriptWatch::default(),
            machine: machine.clone(),
        };
        delivery.aim_at(clue, source)?;
        Ok(delivery)
    }

    /// Nothing was written yet, and what the agent has recorded by now is not this delivery's.
    pub(super) fn aim_at(
        &mut self,
        clue: ConversationClue,
        source: Option<Box<TranscriptSource>>,
    ) -> Result<(), DeliveryFault> {
        self.noted_file = source.as_ref().and_then(|source| NotedFile::look_at(&source.path));
        (self.record.noted_end, self.unbegun) = match &source {
            Some(source) => read_end(&clue.agent, source)?,
            None => (0, true),
        };
        self.record.session = clue.id.clone().unwrap_or_default();
        self.record.begun_at = self.machine.read_clock();
        (self.begun, self.foreign, self.is_other) = (Instant::now(), false, false);
        (self.clue, self.source) = (clue, source);
        Ok(())
    }

    /// From now on another transcript is meant; returns which one was.
    pub(super) fn go_to(&mut self, source: Option<Box<TranscriptSource>>) -> ProofPlace {
        ProofPlace {
            source: std::mem::replace(&mut self.source, source),
            noted_end: std::mem::take(&mut self.record.noted_end),
            is_other: std::mem::replace(&mut self.is_other, true),
        }
    }

    /// The earlier one is meant again.
    pub(super) fn go_back(&mut self, place: ProofPlace) {
        (self.source, self.record.noted_end) = (place.source, place.noted_end);
        self.is_other = place.is_other;
    }

    /// Pastes, presses Enter and waits for the proof, through a terminal's host.
    pub(super) fn submit(
        &mut self,
        session: &HostedSession,
        terms: SubmitTerms,
        observe: &mut LookAtMachine<'_>,
    ) -> Result<SubmitResult, HostFault> {
        // A host of an earlier release knows no conditions.
        let knows = ask_readiness(session).is_ok_and(|ready| ready.enters.is_some());
        let params = SubmitParams {
            delivery: self.record.id.clone(),
            text: self.text.clone(),
            over_person: terms.over_person,
            ready_timeout_ms: terms.ready_timeout.map(whole_millis),
            if_enters: terms.if_enters,
            questions: if knows { terms.control.words_of_questions() } else { Vec::new() },
        };
        let timeout = SUBMISSION_TIMEOUT + terms.ready_timeout.unwrap_or_default();
        sys::pause::pause_at("prompt.before-submit");
        let submitted = std::thread::scope(|threads| {
            let submission = threads.spawn(|| submit_text(session, &params, timeout));
            while !submission.is_finished() {
                if self.look_for_proof(observe) {
                    // Whether or not it is still under way: Enter is not pressed again.
                    match settle_submission(session, &self.record.id, knows) {
                        Ok(heard) if heard.too_early => self.disown_proof(),
                        // Its host answers the submission at once.
                        Ok(_) => break,
                        Err(_) => {}
                    }
                }
                self.watch.wait(SUBMISSION_INTERVAL);
            }
            submission.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        sys::pause::pause_at("prompt.submitted");
        if submitted.enters == 0 {
            self.disown_proof();
        }
        self.note_submission(&submitted);
        if self.record.state.may_be_proven_later() {
            let patience = match submitted.state {
                SubmissionState::Stuck => Duration::ZERO,
                _ => terms.accept_timeout,
            };
            if !self.await_proof(patience, observe, &mut || true) {
                self.settle_unproven(&submitted);
            }
        }
        Ok(submitted)
    }

    /// Waits until the record holds the text; `goes_on` says whether there is still a process to write it.
    pub(super) fn await_proof(
        &mut self,
        timeout: Duration,
        observe: &mut LookAtMachine<'_>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        let until = Instant::now() + timeout;
        loop {
            // Asked first: what it wrote before its end is read after it.
            let is_last = !goes_on() || Instant::now() >= until;
            if self.look_for_proof(observe) {
                return true;
            }
            if is_last {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            self.watch.wait(left.min(LOOK_AGAIN_INTERVAL));
        }
    }

    /// What the host saw. A proof that came meanwhile outweighs it.
    fn note_submission(&mut self, submitted: &SubmitResult) {
        self.record.enters = submitted.enters;
        self.record.composed_ms = submitted.composed_ms;
        match submitted.state {
            SubmissionState::ComposerNotEmpty | SubmissionState::PersonTypes => {
                self.record.state = DeliveryState::Refused;
            }
            SubmissionState::Overtaken => {}
            SubmissionState::NotReady => {
                self.sign(DeliverySign::ComposeTimeout);
                self.fail("it did not become ready for a text; nothing was written", submitted);
            }
            SubmissionState::NotComposed => {
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
    }

    /// What was recorded before Enter was pressed is another delivery's of the same text.
    fn disown_proof(&mut self) {
        if let Some(proof) = self.record.proof.take() {
            self.record.noted_end = proof.record;
            self.record.state = DeliveryState::Ready;
            (self.record.matched, self.record.accepted_ms) = (None, None);
        }
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
            _ if submitted.state == SubmissionState::Ended => {
                "the agent ended, and has not recorded it"
            }
            _ => "the agent has not recorded it yet",
        };
        self.fail(reason, submitted);
    }

    pub(super) fn sign(&mut self, sign: DeliverySign) {
        self.record.state = self.record.state.after(sign);
    }

    fn fail(&mut self, reason: &str, submitted: &SubmitResult) {
        if self.record.state != DeliveryState::Accepted {
            self.record.reason = Some(reason.to_owned());
            self.record.screen = Some(submitted.screen.clone());
        }
    }

    /// Looks for the conversation's record, if that is not known yet.
    pub(super) fn find_source(&mut self, observe: &mut LookAtMachine<'_>) {
        if self.source.is_some() && !self.unbegun {
            return;
        }
        let Ok(observation) = observe() else { return };
        let Some((one, binding)) = self.clue.find_in(&observation) else { return };
        let path = |source: &Option<Box<TranscriptSource>>| {
            source.as_ref().map(|source| source.path.clone())
        };
        if path(&one.source) == path(&self.source) {
            return;
        }
        self.record.session.clone_from(&one.session.id);
        self.binding = Some(binding);
        self.go_to(one.source.clone());
    }

    /// Looks whether the agent recorded the text since the transcript's noted end.
    pub(super) fn look_for_proof(&mut self, observe: &mut LookAtMachine<'_>) -> bool {
        if self.record.state == DeliveryState::Accepted {
            return true;
        }
        // Some agents make their transcript with the first prompt.
        self.find_source(observe);
        self.watch.follow(self.source.as_deref());
        let Some(source) = &self.source else { return false };
        let mut found: Vec<(PromptMatch, Option<Time>)> = Vec::new();
        let mut foreign = false;
        // In a file that took the transcript's place, what is older than this delivery was copied there.
        let was_replaced = self.record.noted_end > 0
            && self.noted_file.is_some_and(|noted| noted.was_replaced(&source.path));
        let since = self.record.begun_at.minus(STAMP_SLACK);
        let is_other = self.is_other;
        let mut say = |entry: ConversationEntry| {
            let was_copied = was_replaced && entry.at.is_none_or(|at| at < since);
            let is_older = is_other && entry.at.is_some_and(|at| at < since);
            let was_copied = was_copied || is_older;
            if entry.role == ConversationRole::User && entry.subagent.is_none() && !was_copied {
                let matched = match_prompt(&self.text, &entry.text).or_else(|| {
                    let pasted = read_pasted(&self.clue.agent, source, &entry.text)?;
                    match_prompt(&self.text, &pasted).map(|_| PromptMatch::Indirect)
                });
                match matched {
                    Some(matched) => found.push((matched, entry.at)),
                    None => foreign = true,
                }
            }
        };
        // A transcript that cannot be read just now is read again.
        let noted_end = if was_replaced { 0 } else { self.record.noted_end };
        let read =
            crate::converse::read_conversation(&self.clue.agent, source, noted_end, &mut say);
        self.foreign = foreign;
        let Ok(end) = read else { return false };
        if found.is_empty() {
            return false;
        }
        let rivals = read_rivals(&self.machine, &self.record).unwrap_or_else(|reason| {
            self.unread = Some(reason);
            Vec::new()
        });
        let own = choose_own(&self.record, &found, &rivals);
        let Some((matched, at)) = own else { return false };
        self.record.noted_end = noted_end;
        self.record.state = self.record.state.after(DeliverySign::Recorded(Some(matched)));
        self.record.matched = Some(matched);
        self.record.accepted_ms = Some(whole_millis(self.begun.elapsed()));
        self.record.reason = None;
        self.record.screen = None;
        self.record.proof = Some(DeliveryProof {
            source: "transcript".to_owned(),
            path: source.path.to_string_lossy().into_owned(),
            record: end,
            at,
        });
        true
    }

    /// Waits for the end of the turn that the prompt began; `goes_on` says whether its agent is there.
    pub(super) fn await_turn_end(
        &mut self,
        timeout: Duration,
        observe: &mut LookAtMachine<'_>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> TurnWait {
        let until = Instant::now() + timeout;
        loop {
            let agent_is_there = goes_on();
            self.watch.follow(self.source.as_deref());
            let turn = self
                .source
                .as_deref()
                .and_then(|source| read_turn(&self.record, source, self.machine.read_clock()));
            if let Some(turn) = turn {
                self.record.turn = Some(turn);
                return TurnWait::Over;
            }
            if !agent_is_there {
                self.end_turn(TurnEnd::Interrupted);
                return TurnWait::Over;
            }
            if self.is_asked(observe) {
                self.record.turn = Some(open_turn());
                return TurnWait::Asks;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.record.turn = Some(open_turn());
                return TurnWait::TimedOut;
            }
            self.watch.wait(left.min(LONGEST_WATCH_SPAN));
        }
    }

    /// Notes an end that no record tells.
    pub(super) fn end_turn(&mut self, end: TurnEnd) {
        let ended_at = Some(self.machine.read_clock());
        self.record.turn = Some(DeliveryTurn { end, resets_at: None, ended_at });
    }

    /// Whether the agent waits for a person.
    fn is_asked(&self, observe: &mut LookAtMachine<'_>) -> bool {
        observe().is_ok_and(|seen| {
            let found = self.clue.find_in(&seen);
            found.is_some_and(|(one, _)| one.verdict.activity == Some(Activity::Waiting))
        })
    }

    /// Keeps it as it is by now, and notes what could not be read for it.
    pub(super) fn keep(&mut self, ledger: &mut ControlLedger) {
        if let Some(reason) = self.unread.take() {
            ledger.note_failure(reason);
        }
        ledger.keep_delivery(&self.record);
    }
}

const fn open_turn() -> DeliveryTurn {
    DeliveryTurn { end: TurnEnd::Open, resets_at: None, ended_at: None }
}

/// How the turn that a delivery began has ended; `None` while it goes on.
pub(super) fn read_turn(
    delivery: &DeliveryRecord,
    source: &TranscriptSource,
    now: Time,
) -> Option<DeliveryTurn> {
    let adapter = adapters::by_id(&delivery.agent)?;
    let prompt_at = delivery.proof.as_ref().and_then(|proof| proof.at);
    let reader = adapter.turn_end_reader();
    let told = match reader {
        Some(reader) => {
            (reader.read)(source, delivery.noted_end, prompt_at).ok_or_note("the end of a turn")?
        }
        None => None,
    };
    if told.as_ref().is_some_and(|turn| may_try_again(adapter, turn, now)) {
        return None;
    }
    told.or_else(|| {
        if reader.is_some_and(|reader| reader.tells_all) {
            return None;
        }
        // One that tells no more than that its last turn is closed.
        let digest = adapter.read_digest(source).ok_or_note("the end of a turn")?;
        let ended_at = digest.last_activity_at;
        (digest.turn == TurnState::Closed).then_some(DeliveryTurn {
            end: TurnEnd::Over,
            resets_at: None,
            ended_at,
        })
    })
}

/// Whether the agent may go on by itself after an error that it recorded.
fn may_try_again(adapter: &dyn adapters::Adapter, turn: &DeliveryTurn, now: Time) -> bool {
    let within = adapter.control_table().and_then(|control| control.retries_within);
    let is_error = matches!(turn.end, TurnEnd::Failed | TurnEnd::Limited);
    is_error && within.zip(turn.ended_at).is_some_and(|(within, at)| now.since(at) < within)
}

/// Why a delivery could not be begun; nothing was written.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeliveryFault {
    #[error("its transcript {path} cannot be read: {reason}")]
    Transcript { path: String, reason: String },
    #[error("{0}")]
    Machine(String),
}

/// Where the transcript ends now, in the adapter's own positions, and whether it holds no prompt.
fn read_end(agent: &str, source: &TranscriptSource) -> Result<(u64, bool), DeliveryFault> {
    let mut unbegun = true;
    let mut say = |entry: ConversationEntry| unbegun &= entry.role != ConversationRole::User;
    let end = crate::converse::read_conversation(agent, source, 0, &mut say);
    let end = end.map_err(|error| DeliveryFault::Transcript {
        path: source.path.to_string_lossy().into_owned(),
        reason: error.to_string(),
    })?;
    Ok((end, unbegun))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str = r#"{"type":"user","message":{"role":"user","content":"mend it"},"timestamp":"2030-01-01T00:00:00.000Z","sessionId":"s"}"#;
    const ANSWER: &str = r#"{"type":"assistant","message":{"id":"m","role":"assistant","content":[],"stop_reason":"end_turn"},"timestamp":"2030-01-01T00:00:01.000Z","sessionId":"s"}"#;

    fn append(path: &Path, line: &str) {
        sys::append::append_bytes(path, format!("{line}\n").as_bytes()).unwrap();
    }

    /// What is written behind a look is not left to the next tick: the watch was there before the look.
    #[test]
    fn row_29_what_is_recorded_while_it_is_looked_at_ends_the_wait() {
        let home = tempfile::tempdir().unwrap();
        let root: std::sync::Arc<Path> = std::fs::canonicalize(home.path()).unwrap().into();
        let path = root.join("s.jsonl");
        append(&path, PROMPT);
        let machine = Machine::with_home(root.join("ostler"));
        let stamp = model::sighting::FileStamp::default();
        let source = TranscriptSource::from_file("s", &root, path.clone(), stamp, "claude-jsonl");
        let clue = ConversationClue {
            agent: "claude-code".to_owned(),
            id: Some("s".to_owned()),
            path: None,
            new_in: None,
            terminal: None,
        };
        let (text, channel) = ("mend it".to_owned(), DeliveryChannel::Terminal);
        let source = Some(Box::new(source));
        let mut delivery = RunningDelivery::prepare(&machine, clue, source, text, channel).unwrap();
        delivery.record.noted_end = 0;
        delivery.record.state = DeliveryState::Accepted;
        let mut looks = 0;
        // A look at the machine comes behind the look at the record.
        let mut observe = || {
            looks += 1;
            if looks == 1 {
                append(&path, ANSWER);
            }
            Err("nothing is known of the machine".to_owned())
        };
        let begun = Instant::now();
        let waited = delivery.await_turn_end(Duration::from_secs(30), &mut observe, &mut || true);
        assert_eq!((waited, looks), (TurnWait::Over, 1), "and it was not looked at again");
        assert!(begun.elapsed() < LONGEST_WATCH_SPAN, "{:?}", begun.elapsed());
        assert_eq!(delivery.record.turn.unwrap().end, TurnEnd::Answered);
    }
}
