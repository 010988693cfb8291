//! The ledger of deliveries: every prompt is kept without its text, and judged anew from the transcript.
//!
//! A prompt works without the ledger: what could not be noted is said, and nothing more.

use model::control::delivery::{
    DeliveryProof, DeliveryRecord, DeliverySign, DeliveryState, DeliveryTurn, TurnEnd,
};
use model::control::note::{ControlEvent, ControlNote, KeptDelivery};
use model::control::prompt::{PromptMatch, normalise_prompt};
use model::conversation::ConversationRole;
use model::session::SessionName;
use model::time::Time;
use model::wire::IncompleteSource;
use store::state::{DeliveryQuery, StateError, StateStore};
use sys::machine::Machine;

use super::pasted::read_pasted;
use super::rivals::{EqualRecord, choose_late, is_provable, read_rivals};
use super::running::{STAMP_SLACK, read_turn};
use crate::caller::name_calling_session;
use crate::observe::{Observation, Observed};
use crate::timeouts::{NOTE_DONE_TIMEOUT, NOTE_TAKEN_TIMEOUT};
use crate::work::{WorkPatience, carry_out_within};
use crate::writer::{AskLimits, Work, WorkDone};

/// How long a note may keep a prompt waiting.
const NOTE_PATIENCE: WorkPatience = WorkPatience {
    limits: AskLimits { taken: NOTE_TAKEN_TIMEOUT, done: NOTE_DONE_TIMEOUT },
    writer: NOTE_TAKEN_TIMEOUT,
};

/// How many deliveries are listed at most.
const MOST_LISTED: usize = 500;

/// Where deliveries and events of control are written down.
#[derive(Debug)]
pub struct ControlLedger {
    machine: Machine,
    /// The session of the agent that this command runs below, if it is not a person's.
    caller: Option<String>,
    /// What could not be noted.
    pub incomplete: Vec<IncompleteSource>,
}

impl ControlLedger {
    /// The ledger of a home.
    pub fn new(machine: &Machine) -> Self {
        Self { machine: machine.clone(), caller: None, incomplete: Vec::new() }
    }

    /// Events are told in the name of the agent that this command runs below, if there is one.
    #[must_use]
    pub fn for_caller(self, observation: &Observation) -> Self {
        Self { caller: name_calling_session(&self.machine, observation), ..self }
    }

    /// The session of the agent that calls, or the agent and its pid; none if a person does.
    pub(super) fn caller(&self) -> Option<&str> {
        self.caller.as_deref()
    }

    /// Notes a delivery. One whose key another has is not noted: the other is returned.
    pub(super) fn note_delivery(
        &mut self,
        record: &DeliveryRecord,
    ) -> Result<Option<KeptDelivery>, String> {
        let sender =
            self.machine.identify_process(std::process::id()).map_err(|error| error.to_string())?;
        let kept = KeptDelivery { record: record.clone(), sender };
        self.note(ControlNote::Delivery(Box::new(kept)))
    }

    /// Notes a delivery as far as that is possible.
    pub(super) fn keep_delivery(&mut self, record: &DeliveryRecord) {
        if let Err(reason) = self.note_delivery(record) {
            self.note_failure(reason);
        }
    }

    /// Adds an event to the stream, as far as that is possible.
    pub fn keep_event(
        &mut self,
        kind: ControlEvent,
        session: &SessionName,
        mut detail: serde_json::Value,
    ) {
        if let (Some(by), Some(fields)) = (&self.caller, detail.as_object_mut()) {
            fields.insert("by".to_owned(), by.clone().into());
        }
        let note = ControlNote::Event { kind, session: session.clone(), detail };
        if let Err(reason) = self.note(note) {
            self.note_failure(reason);
        }
    }

    pub(super) fn note_failure(&mut self, reason: String) {
        let path = store::state::database_path(self.machine.home()).to_string_lossy().into_owned();
        let told = IncompleteSource { source: "store".to_owned(), path: Some(path), reason };
        if !self.incomplete.contains(&told) {
            self.incomplete.push(told);
        }
    }

    fn note(&self, note: ControlNote) -> Result<Option<KeptDelivery>, String> {
        let (work, machine) = (Work::NoteControl(note), self.machine.next_turn());
        let done = carry_out_within(&work, &machine, NOTE_PATIENCE, &mut |_, _| {});
        match done.map_err(|error| error.to_string())?.0 {
            WorkDone::NoteControl(earlier) => Ok(earlier.map(|kept| *kept)),
            _ => Err("the writer gave an unknown answer".to_owned()),
        }
    }

    pub fn find_delivery(&self, id: &str) -> Result<Option<KeptDelivery>, StateError> {
        match StateStore::open_read_only(self.machine.home())? {
            Some(state) => state.find_delivery(id),
            None => Ok(None),
        }
    }

    /// Deliveries, the newest first, as they were noted.
    pub fn list_deliveries(
        &self,
        session: Option<&SessionName>,
        since: Option<Time>,
    ) -> Result<Vec<KeptDelivery>, StateError> {
        let query = DeliveryQuery { session, since, most: MOST_LISTED };
        let state = StateStore::open_read_only(self.machine.home())?;
        state.map_or_else(|| Ok(Vec::new()), |state| state.list_deliveries(query))
    }

    /// What a delivery is by now: a proof that came late counts, and so does the end of its turn.
    pub fn judge_delivery(
        &mut self,
        kept: KeptDelivery,
        observation: &Observation,
    ) -> DeliveryRecord {
        let KeptDelivery { mut record, sender } = kept;
        let is_session =
            |one: &&Observed| one.session.agent == record.agent && one.session.id == record.session;
        let one = observation.sessions.iter().find(is_session);
        // Where no Enter was pressed, whoever sent the text later did so by other means.
        if is_provable(record.state) {
            if let Some(one) = one
                && let Err(reason) = prove_late(&mut record, one, &self.machine)
            {
                self.note_failure(reason);
            }
            let is_settled =
                !matches!(record.state, DeliveryState::Ready | DeliveryState::Composed);
            if !is_settled && self.machine.probe_process(&sender).is_dead() {
                record.state = DeliveryState::Unproven;
                record.reason = Some("whoever sent it ended before it was settled".to_owned());
            }
        }
        let open = record.turn.as_ref().is_none_or(|turn| turn.end == TurnEnd::Open);
        if record.state == DeliveryState::Accepted
            && open
            && let Some(one) = one
            && let Some(source) = &one.source
        {
            let ended = read_turn(&record, source, self.machine.read_clock());
            let is_there = one.verdict.status.is_active();
            record.turn = ended.or(is_there.then_some(DeliveryTurn {
                end: TurnEnd::Open,
                resets_at: None,
                ended_at: None,
            }));
        }
        record
    }
}

/// Looks for the record of a text of which only the hash is known. Nothing is proven as long as it is not known which
/// records prove other deliveries.
fn prove_late(
    record: &mut DeliveryRecord,
    one: &Observed,
    machine: &Machine,
) -> Result<(), String> {
    let Some(source) = &one.source else { return Ok(()) };
    let since = record.begun_at.minus(STAMP_SLACK);
    let mut found: Vec<EqualRecord> = Vec::new();
    let mut say = |entry: model::conversation::ConversationEntry| {
        let is_older = entry.at.is_some_and(|at| at < since);
        if is_older || entry.role != ConversationRole::User || entry.subagent.is_some() {
            return;
        }
        let is_normalised = |text: &str| {
            sys::hash::sha256(normalise_prompt(text).as_bytes()) == record.normalised_sha256
        };
        if sys::hash::sha256(entry.text.as_bytes()) == record.sha256 {
            found.push((PromptMatch::Exact, entry.at));
        } else if is_normalised(&entry.text) {
            found.push((PromptMatch::Normalised, entry.at));
        } else if read_pasted(&record.agent, source, &entry.text)
            .is_some_and(|pasted| is_normalised(&pasted))
        {
            found.push((PromptMatch::Indirect, entry.at));
        }
    };
    let read =
        crate::converse::read_conversation(&record.agent, source, record.noted_end, &mut say);
    let Ok(end) = read else { return Ok(()) };
    if found.is_empty() {
        return Ok(());
    }
    let own = choose_late(record, &found, &read_rivals(machine, record)?);
    let Some((matched, at)) = own else { return Ok(()) };
    record.state = record.state.after(DeliverySign::Recorded(Some(matched)));
    record.matched = Some(matched);
    (record.reason, record.screen) = (None, None);
    record.proof = Some(DeliveryProof {
        source: "transcript".to_owned(),
        path: source.path.to_string_lossy().into_owned(),
        record: end,
        at,
    });
    Ok(())
}
