//! The evidence behind a verdict, fact by fact.

use schemars::JsonSchema;
use serde::Serialize;

use crate::liveness::Liveness;
use crate::rules::judge::{JudgeCircumstances, Verdict};
use crate::session::{ClaimBasis, ProcessClaim, Session};
use crate::sighting::TurnState;
use crate::time::{Time, whole_millis};

/// One fact behind a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    pub fact: String,
    pub value: String,
    /// Where it was read.
    pub source: String,
    /// When it was true.
    pub observed_at: Time,
    /// How long ago that is.
    pub age_ms: u64,
    /// What it did to the verdict.
    pub effect: String,
}

/// Every fact that led to `verdict`, strongest first, with what it did.
pub fn explain_verdict(
    session: &Session,
    verdict: &Verdict,
    circumstances: &JudgeCircumstances,
) -> Vec<Evidence> {
    let mut evidence = EvidenceList { now: circumstances.now, found: Vec::new() };
    let mut claims: Vec<(usize, &ProcessClaim)> = session.claims.iter().enumerate().collect();
    claims.sort_by_key(|(index, _)| Some(*index) != verdict.decided_by);
    for (index, claim) in claims {
        evidence.add_claim(claim, verdict, Some(index) == verdict.decided_by);
    }
    if session.claims.is_empty() {
        let (value, effect) = if circumstances.sees_every_process {
            ("no process, lock or registration names this session", "decides: exited (no-process)")
        } else {
            ("this observer cannot see every process", "decides: unknown (blind)")
        };
        evidence.add(
            "nothing claims the session",
            value.to_owned(),
            "process table",
            circumstances.now,
            effect.to_owned(),
        );
    }
    evidence.add_transcript(session, verdict);
    if let Some(ended) = session.digest.ended_at {
        let source = session.transcript.as_ref().and_then(|transcript| transcript.path.to_str());
        evidence.add(
            "the agent wrote that the session ended",
            ended.to_string(),
            source.unwrap_or("transcript"),
            ended,
            "no effect: only a process proves".to_owned(),
        );
    }
    evidence.found
}

struct EvidenceList {
    now: Time,
    found: Vec<Evidence>,
}

impl EvidenceList {
    fn add(&mut self, fact: &str, value: String, source: &str, at: Time, effect: String) {
        self.found.push(Evidence {
            fact: fact.to_owned(),
            value,
            source: source.to_owned(),
            observed_at: at,
            age_ms: whole_millis(self.now.since(at)),
            effect,
        });
    }

    fn add_claim(&mut self, claim: &ProcessClaim, verdict: &Verdict, decides: bool) {
        let reason = claim.liveness.reason_code();
        let effect = match decides {
            true => format!("decides: {} ({reason})", verdict.status.as_str()),
            false => format!("{} ({reason}), outweighed", claim.liveness.as_str()),
        };
        let (fact, value) = (describe_claim(claim), describe_process(claim));
        self.add(fact, value, &claim.source, claim.observed_at, effect);
        let Some(activity) = claim.activity else { return };
        let effect = if claim.liveness.is_alive() && verdict.activity == Some(activity) {
            format!("decides the activity: {}", activity.as_str())
        } else {
            match claim.how {
                ClaimBasis::Hook => "no effect: the agent's own word or its record decides",
                _ => "no effect: another process or a newer word decides",
            }
            .to_owned()
        };
        let value = claim.waiting_for.as_ref().map_or_else(
            || activity.as_str().to_owned(),
            |reason| format!("{} for {reason}", activity.as_str()),
        );
        let fact = "the agent's own word on what it is doing";
        self.add(fact, value, &claim.source, claim.observed_at, effect);
    }

    fn add_transcript(&mut self, session: &Session, verdict: &Verdict) {
        let Some(transcript) = &session.transcript else { return };
        let path = transcript.path.to_string_lossy();
        let written = transcript.stamp.modified_at();
        self.add(
            "the transcript was last written",
            format!("{} bytes", transcript.bytes),
            &path,
            written,
            "no effect: age proves nothing".to_owned(),
        );
        let (value, says) = match &session.digest.turn {
            TurnState::Unknown => ("the transcript does not say", "unknown"),
            TurnState::Open => ("a turn was started and has not ended", "working"),
            TurnState::Waiting(_) => ("it asked and was not answered", "waiting"),
            TurnState::Asking(_) => ("it asked for consent, and no command runs", "waiting"),
            TurnState::Closed => ("the last turn ended", "idle"),
        };
        let effect = match verdict.activity {
            None => "no effect: the session is over".to_owned(),
            Some(activity) if activity.as_str() == says => format!("fits the activity: {says}"),
            Some(activity) => format!("outweighed by the agent's own word: {}", activity.as_str()),
        };
        self.add(
            "where the last turn stands",
            value.to_owned(),
            &path,
            session.last_activity_at().unwrap_or(written),
            effect,
        );
    }
}

/// The fact in words. A lock without a holder names no process.
fn describe_claim(claim: &ProcessClaim) -> &'static str {
    match (claim.how, claim.identity.pid, claim.liveness) {
        (ClaimBasis::Locked, None, Liveness::Dead(_)) => "nobody holds the session's writer lock",
        (ClaimBasis::Locked, None, _) => "who holds the session's writer lock cannot be seen",
        _ => claim.how.describe_fact(),
    }
}

fn describe_process(claim: &ProcessClaim) -> String {
    if claim.how == ClaimBasis::RecordedEnd {
        return claim.observed_at.to_string();
    }
    let identity = &claim.identity;
    let mut words = match (identity.pid, claim.how) {
        (Some(pid), _) => format!("pid {pid}"),
        (None, ClaimBasis::Locked) if claim.liveness.is_dead() => "it is free".to_owned(),
        (None, ClaimBasis::Locked) => "another namespace may hold it".to_owned(),
        (None, _) => "no pid recorded".to_owned(),
    };
    if let Some(shared) = claim.shared {
        words.push_str(&format!(", a server with {}", count_of(shared.conversations)));
        if shared.windows == 0 {
            words.push_str(", and nobody is attached");
        }
    }
    if let Some(start) = identity.start {
        words.push_str(&format!(", start {start}"));
    }
    if let Some(comm) = &identity.comm {
        words.push_str(&format!(", {comm}"));
    }
    if let Some(directory) = &claim.directory {
        words.push_str(&format!(", in {directory}"));
    }
    words
}

fn count_of(conversations: u32) -> String {
    match conversations {
        1 => "1 conversation".to_owned(),
        many => format!("{many} conversations"),
    }
}
