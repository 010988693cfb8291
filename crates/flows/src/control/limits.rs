//! Usage limits: whether a conversation's last turn ended in one, and whether it may go on when that is over.

use model::control::delivery::TurnEnd;
use model::control::fuses::ResumeAtReset;
use model::session::SessionName;
use model::time::Time;
use sys::dropped::NoteDropped;

use super::ready_agent::find_named;
use super::who::look_at_holders;
use crate::converse::read_conversation;
use crate::observe::{Observation, Observed};

/// A conversation whose last turn ended in a usage limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedTurn {
    /// When that is over, if the agent wrote it down.
    pub resets_at: Option<Time>,
    /// Where the transcript ends.
    pub noted_end: u64,
}

/// Whether the last turn of a conversation ended in a usage limit.
pub fn find_limited_turn(one: &Observed) -> Option<LimitedTurn> {
    let adapter = adapters::by_id(one.session.agent)?;
    let source = one.source.as_deref()?;
    let mut last_prompt = None;
    let noted_end = read_conversation(one.session.agent, source, 0, &mut |entry| {
        if entry.is_prompt_since(None) {
            last_prompt = entry.at;
        }
    });
    let reader = adapter.turn_end_reader()?;
    let turn = (reader.read)(source, 0, last_prompt).ok_or_note("the end of a turn")??;
    let limited = turn.end == TurnEnd::Limited;
    limited.then_some(LimitedTurn { resets_at: turn.resets_at, noted_end: noted_end.ok()? })
}

/// Whether a conversation may go on by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResumptionFinding {
    /// Nobody has it, and nobody prompted it.
    Free,
    /// It is not there any more, or its time is over.
    Moot(String),
    /// Somebody has it, or may.
    HeldBack(String),
    /// Somebody prompted it meanwhile.
    Prompted,
}

/// Judges anew whether a conversation may go on when its limit is over. A prompt of anybody's takes that back, and what
/// is held is not tried.
pub fn judge_resumption(
    observation: &Observation,
    name: &SessionName,
    plan: &ResumeAtReset,
    now: Time,
) -> ResumptionFinding {
    let Some(one) = find_named(observation, name) else {
        return ResumptionFinding::Moot("it is not there any more".to_owned());
    };
    let mut prompted = false;
    let read = one.source.as_deref().map(|source| {
        read_conversation(one.session.agent, source, plan.noted_end, &mut |entry| {
            prompted |= entry.is_prompt_since(None);
        })
    });
    match read {
        None => return ResumptionFinding::Moot("it has no record any more".to_owned()),
        Some(Err(error)) => {
            return ResumptionFinding::HeldBack(format!("its record cannot be read: {error}"));
        }
        Some(Ok(_)) if prompted => return ResumptionFinding::Prompted,
        Some(Ok(_)) => {}
    }
    if plan.until.is_some_and(|until| until < now) {
        return ResumptionFinding::Moot(
            "the time until which it was to be tried is over".to_owned(),
        );
    }
    let holders = look_at_holders(one);
    match holders.iter().find(|holder| !holder.liveness.is_dead()) {
        Some(holder) => {
            let pid = holder.process.pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
            ResumptionFinding::HeldBack(format!("somebody has it{pid}"))
        }
        None => ResumptionFinding::Free,
    }
}
