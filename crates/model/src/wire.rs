//! What programs read: the JSON contract.
//!
//! Fields are added, never renamed or re-typed. Absent means "not applicable or not known"; nothing
//! is ever `null`. `ostler schema` prints the schema of every type here that stands for a command.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::ConversationEntry;
use crate::rules::attention::AttentionGroup;
pub use crate::rules::explain::Evidence;
use crate::rules::guard;
use crate::rules::judge::{self, Verdict};
use crate::session::{
    Certainty, ClaimBasis, EvidenceSource, FormatCertainty, LinkedSession, ProcessClaim, Session,
    SessionKind, SessionOrigin, SharedHold,
};
use crate::sighting::TokenUsage;
use crate::status::{Activity, Status};
use crate::time::Time;

mod hooks;

pub use hooks::{FileChange, HookAgent, HookFile, HookProblem, HookScope, HookState, HooksResult};

mod agents;
mod badge;
mod collect;
mod finalize;
mod fleet;
pub mod fleet_order;
mod launch;
mod locks;
mod mcp;
mod metrics;
mod notify;
mod pins;
mod search;
mod setup;
mod talk;
mod top;
mod usage;
mod web;
mod webhooks;

pub use agents::*;
pub use badge::*;
pub use collect::*;
pub use finalize::*;
pub use fleet::*;
pub use launch::*;
pub use locks::*;
pub use mcp::*;
pub use metrics::*;
pub use notify::*;
pub use pins::*;
pub use search::*;
pub use setup::*;
pub use talk::*;
pub use top::*;
pub use usage::*;
pub use web::*;
pub use webhooks::*;

/// The envelope around every result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SuccessEnvelope<'a, T> {
    /// Always true.
    pub ok: bool,
    /// The command that was run.
    pub command: &'a str,
    /// When.
    pub timestamp: Time,
    /// What it found.
    pub result: T,
}

/// The envelope around every error.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ErrorEnvelope<'a> {
    /// Always false.
    pub ok: bool,
    /// The command that was run.
    pub command: &'a str,
    /// When.
    pub timestamp: Time,
    /// What went wrong.
    pub error: ErrorBody,
}

/// An error.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorBody {
    /// A stable code in capitals.
    pub code: &'static str,
    /// The thing and the reason.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// More, by code.
    pub details: ErrorDetails,
}

/// Details of an error.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ErrorDetails {
    /// Ids that an ambiguous prefix could mean.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// The offending values, by name.
    #[serde(flatten)]
    pub values: serde_json::Map<String, serde_json::Value>,
}

/// One session.
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
    /// User prompts.
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
    /// Its pid.
    pub pid: u32,
    /// Kernel start time in the platform's own unit.
    pub start: u64,
    /// Short name.
    pub comm: &'a str,
    /// Executable.
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
    /// Absolute path.
    pub path: Cow<'a, str>,
    /// Bytes that belong to this session.
    pub bytes: u64,
    /// Last change.
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

/// Something that could not be read: the answer is right as far as it goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IncompleteSource {
    /// The adapter or part of the system.
    pub source: String,
    /// The file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why.
    pub reason: String,
}

/// An agent process that has not written a session yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnattachedAgent {
    /// The adapter id.
    pub agent: &'static str,
    /// Its pid.
    pub pid: u32,
    /// Its directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Others, of which it may be one instead: there is a session for all but one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub perhaps: Vec<u32>,
}

/// How many sessions a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupCount {
    /// The group.
    pub group: AttentionGroup,
    /// How many.
    pub count: usize,
}

/// The result of `ls`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LsResult<'a> {
    /// Newest activity first, live before ended.
    pub sessions: Vec<SessionView<'a>>,
    /// How many there are.
    pub total: usize,
    /// How many of them are shown.
    pub shown: usize,
    /// How many there are of each group, if groups were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupCount>,
    /// The last one that is shown, if there are more: `--after` goes on from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// What could not be read.
    pub incomplete: &'a [IncompleteSource],
    /// Agent processes that have not written a session yet.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub unattached: &'a [UnattachedAgent],
}

/// The result of `show`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ShowResult<'a> {
    /// The session.
    pub session: SessionView<'a>,
    /// Every fact behind it.
    pub evidence: Vec<Evidence>,
    /// Its sub-agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subagents: Vec<SessionView<'a>>,
    /// The agent that a terminal was made for, as it was noted then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchView>,
    /// The command that opens its conversation again, to be run in its directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Vec<String>>,
    /// What could not be read.
    pub incomplete: &'a [IncompleteSource],
}

/// The result of `why`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WhyResult<'a> {
    /// The session.
    pub session: SessionView<'a>,
    /// What was decided.
    pub verdict: VerdictView,
    /// Every fact that led there.
    pub evidence: Vec<Evidence>,
    /// Whether it could be collected.
    pub collect: Collectability,
    /// What could not be read.
    pub incomplete: &'a [IncompleteSource],
}

/// A verdict.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VerdictView {
    /// The lifecycle state.
    pub status: Status,
    /// What it is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// Working without a sign of life for too long.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// `alive`, `dead` or `unknown`.
    pub liveness: &'static str,
    /// A reason code.
    pub reason: &'static str,
}

impl From<&Verdict> for VerdictView {
    fn from(verdict: &Verdict) -> Self {
        Self {
            status: verdict.status,
            activity: verdict.activity,
            stale: verdict.stale,
            liveness: verdict.liveness.as_str(),
            reason: verdict.liveness.reason_code(),
        }
    }
}

/// Whether a session could be collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Collectability {
    /// Whether.
    pub allowed: bool,
    /// Why, or why not.
    pub reason: String,
    /// What a person can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Collectability {
    /// What the guard says.
    pub fn from_guard(session: &Session, verdict: &Verdict, now: Time) -> Self {
        match guard::may_collect(session, verdict, now) {
            Ok(()) => Self {
                allowed: true,
                reason: format!("it is over ({})", verdict.liveness.reason_code()),
                remedy: None,
            },
            Err(refusal) => Self {
                allowed: false,
                reason: refusal.reason_text(),
                remedy: Some(refusal.remedy().to_owned()),
            },
        }
    }
}

impl From<&crate::plan::Refusal> for Collectability {
    fn from(refusal: &crate::plan::Refusal) -> Self {
        let remedy = Some(refusal.remedy().to_owned());
        Self { allowed: false, reason: refusal.reason_text(), remedy }
    }
}

/// The result of `logs`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LogsResult<'a> {
    /// The session.
    pub id: &'a str,
    /// The adapter id.
    pub agent: &'a str,
    /// The conversation, oldest first.
    pub entries: Vec<ConversationEntry>,
    /// How many earlier entries were left out.
    pub omitted: usize,
}

/// The result of `du`.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DuResult {
    /// Biggest first.
    pub agents: Vec<AgentUse>,
    /// Everything.
    pub total_bytes: u64,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<IncompleteSource>,
}

/// Bytes of one agent.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentUse {
    /// The adapter id.
    pub agent: &'static str,
    /// All its bytes.
    pub bytes: u64,
    /// How many sessions.
    pub sessions: u64,
    /// Bytes of transcripts.
    pub transcript_bytes: u64,
    /// Bytes beside transcripts that belong to a session.
    pub attachment_bytes: u64,
    /// Bytes the agent itself put away.
    pub archive_bytes: u64,
    /// Bytes left over by partial writes.
    pub temporary_bytes: u64,
    /// By directory, biggest first.
    pub projects: Vec<ProjectUse>,
    /// The biggest sessions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub biggest: Vec<SessionUse>,
}

/// Bytes of one project.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ProjectUse {
    /// The directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Bytes.
    pub bytes: u64,
    /// How many sessions.
    pub sessions: u64,
}

/// Bytes of one session.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct SessionUse {
    /// The session.
    pub id: String,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Bytes.
    pub bytes: u64,
}

/// The result of `adapters`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AdaptersResult {
    /// Every adapter.
    pub adapters: Vec<AdapterView>,
}

/// One adapter.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AdapterView {
    /// Its id.
    pub id: &'static str,
    /// The agent's name.
    pub name: &'static str,
    /// Where it looks.
    pub roots: Vec<String>,
    /// Whether any of these is there.
    pub present: bool,
    /// How many sessions it found.
    pub found: usize,
    /// How many processes of the agent run.
    pub processes: usize,
    /// How well the formats are known.
    pub certainty: FormatCertainty,
    /// How far the knowledge goes.
    pub note: &'static str,
    /// Whether the configuration leaves it out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// What could not be read.
    pub problems: Vec<IncompleteSource>,
}

/// The result of `version`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionResult {
    /// The program.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What it was built for.
    pub target: &'static str,
}

/// The result of `config show`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConfigResult {
    /// The file that was read, or would be.
    pub file: String,
    /// Every setting.
    pub settings: Vec<ConfigSetting>,
    /// What of the file does not hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<IncompleteSource>,
}

/// One setting and where it comes from.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConfigSetting {
    /// The key.
    pub key: &'static str,
    /// The value as it would be written in the file.
    pub value: String,
    /// `default`, `file`, or the environment variable.
    pub origin: String,
}

/// The result of `skills list`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkillsResult {
    /// What there is.
    pub skills: Vec<SkillView>,
}

/// A skill.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkillView {
    /// Its name.
    pub name: &'static str,
    /// When to use it.
    pub description: &'static str,
    /// Always `bundled`.
    pub source: &'static str,
}

/// The result of `skills get`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkillResult {
    /// Its name.
    pub name: &'static str,
    /// Always `bundled`.
    pub source: &'static str,
    /// Where a copy of it is.
    pub path: String,
    /// What it says.
    pub content: &'static str,
}

/// The result of `skills path`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkillPathResult {
    /// Its name.
    pub name: &'static str,
    /// Always `bundled`.
    pub source: &'static str,
    /// The directory that a copy of it is in.
    pub path: String,
}
