//! One session as programs see it.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use crate::rules::judge::{self, Verdict};
use crate::session::{
    Certainty, ClaimBasis, EvidenceSource, LinkedSession, ProcessClaim, Session, SessionKind,
    SessionOrigin, SharedHold,
};
use crate::sighting::TokenUsage;
use crate::status::{Activity, Status};
use crate::time::Time;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionView<'a> {
    /// The agent's own session id. Unique together with `agent`.
    pub id: &'a str,
    /// What kind of session.
    pub kind: SessionKind,
    /// The adapter id.
    pub agent: &'a str,
    /// The lifecycle state.
    pub status: Status,
    /// What it is doing; only when it may be live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<&'a str>,
    /// Whether `activity` is only what an unfinished turn suggests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub activity_derived: bool,
    /// Working without a sign of life for too long.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// Whether a person said that it is never to be collected.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// When a fuse goes on with it, because a usage limit ended its last turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumes_at: Option<Time>,
    /// Whether its process is there, and how that is known.
    pub liveness: LivenessView,
    /// The process; present exactly when alive and proven.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerView<'a>>,
    /// Every process that is proven to have it open, where there is more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<OwnerView<'a>>,
    /// Where the agent works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<&'a str>,
    /// Custom title, else the first real prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    /// A short name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// The model that answered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// Every model that answered, the last one first; only where there were several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<&'a str>,
    /// The git branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<&'a str>,
    /// The agent's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<&'a str>,
    /// First sign of life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Last sign of life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_activity_at: Option<Time>,
    /// When it ended: the last evidence, for a session that is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Each API message counted once, sub-agents included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenUsage>,
    /// Only where the agent states cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// The parent session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<&'a str>,
    /// The hosted terminal that it runs in; of a terminal, the agents' sessions in it. Only while both
    /// are there: it is concluded from their processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub linked: Vec<&'a LinkedSession>,
    /// Where it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<TranscriptView<'a>>,
    /// Which knowledge this came from.
    pub origin: &'a SessionOrigin,
}

/// Liveness with its reason.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LivenessView {
    /// `alive`, `dead` or `unknown`.
    pub state: &'static str,
    /// A reason code.
    pub reason: &'static str,
    /// Where it was learned.
    pub source: EvidenceSource,
    /// How sure it is.
    pub certainty: Certainty,
}

/// The process a live session belongs to.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnerView<'a> {
    pub pid: u32,
    /// Kernel start time in the platform's own unit.
    pub start: u64,
    pub comm: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exe: Option<&'a str>,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// What it says that it is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// Of a server of the agent's: what else it holds, and whether anybody is attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedHold>,
}

/// A transcript on disk.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TranscriptView<'a> {
    pub path: Cow<'a, str>,
    /// Bytes that belong to this session.
    pub bytes: u64,
    pub modified_at: Time,
}

impl<'a> SessionView<'a> {
    /// The session as programs see it.
    pub fn new(session: &'a Session, verdict: &Verdict) -> Self {
        let digest = &session.digest;
        let last_activity_at = session.last_activity_at();
        let models = match (&digest.model, digest.other_models.is_empty()) {
            (Some(model), false) => std::iter::once(model.as_str())
                .chain(digest.other_models.iter().map(String::as_str))
                .collect(),
            _ => Vec::new(),
        };
        Self {
            id: &session.id,
            kind: session.kind,
            agent: session.agent,
            status: verdict.status,
            activity: verdict.activity,
            waiting_for: judge::waiting_for(session, verdict),
            activity_derived: verdict.activity_derived,
            stale: verdict.stale,
            pinned: false,
            resumes_at: None,
            liveness: LivenessView {
                state: verdict.liveness.as_str(),
                reason: verdict.liveness.reason_code(),
                source: verdict.source,
                certainty: verdict.certainty,
            },
            owner: owner_view(session, verdict),
            owners: owner_views(session, verdict),
            cwd: digest.cwd.as_deref(),
            title: session.display_title(),
            name: digest.name.as_deref(),
            model: digest.model.as_deref(),
            models,
            branch: digest.branch.as_deref(),
            version: digest.version.as_deref(),
            started_at: digest.started_at,
            last_activity_at,
            ended_at: verdict
                .status
                .is_terminal()
                .then(|| recorded_end(session, verdict).or(digest.ended_at).or(last_activity_at))
                .flatten(),
            tokens: digest.tokens,
            cost_micro_usd: digest.cost_micro_usd,
            turns: (session.transcript.is_some()).then_some(digest.turns),
            parent: digest.parent.as_deref(),
            linked: session.linked.iter().collect(),
            transcript: session.transcript.as_ref().map(|transcript| TranscriptView {
                path: transcript.path.to_string_lossy(),
                bytes: transcript.bytes,
                modified_at: transcript.stamp.modified_at(),
            }),
            origin: &session.origin,
        }
    }
}

/// The owner is only named when it is proven to be there.
fn owner_view<'a>(session: &'a Session, verdict: &Verdict) -> Option<OwnerView<'a>> {
    if !verdict.liveness.is_alive() || verdict.certainty != Certainty::Proven {
        return None;
    }
    view_owner(&session.claims[verdict.decided_by?])
}

/// All owners, where there are several.
fn owner_views<'a>(session: &'a Session, verdict: &Verdict) -> Vec<OwnerView<'a>> {
    if !verdict.liveness.is_alive() {
        return Vec::new();
    }
    let owners: Vec<_> = judge::proven_owners(session).filter_map(view_owner).collect();
    if owners.len() > 1 { owners } else { Vec::new() }
}

fn view_owner(claim: &ProcessClaim) -> Option<OwnerView<'_>> {
    let identity = &claim.identity;
    Some(OwnerView {
        pid: identity.pid?,
        start: identity.start?,
        comm: identity.comm.as_deref().unwrap_or(""),
        exe: identity.exe.as_deref(),
        started_at: claim.started_at,
        activity: claim.activity,
        shared: claim.shared,
    })
}

/// When it ended by the record that decided.
fn recorded_end(session: &Session, verdict: &Verdict) -> Option<Time> {
    let claim = &session.claims[verdict.decided_by?];
    (claim.how == ClaimBasis::RecordedEnd).then_some(claim.observed_at)
}
