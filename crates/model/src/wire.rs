//! What programs read: the JSON contract.
//!
//! Fields are added, never renamed or re-typed. Absent means "not applicable or not known"; nothing
//! is ever `null`. `ostler schema` prints the schema of every type here that stands for a command.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::ConversationEntry;
use crate::hosted::ProgramExit;
use crate::rules::attention::AttentionGroup;
pub use crate::rules::explain::Evidence;
use crate::rules::guard;
use crate::rules::judge::Verdict;
use crate::session::Session;
use crate::status::{Activity, Status};
use crate::time::Time;

mod hooks;

pub use hooks::{FileChange, HookAgent, HookFile, HookProblem, HookScope, HookState, HooksResult};

mod about;
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
mod session;
mod setup;
mod talk;
mod top;
mod usage;
mod web;
mod webhooks;

pub use about::*;
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
pub use session::*;
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
    pub timestamp: Time,
    /// What went wrong.
    pub error: ErrorBody,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorBody {
    /// A stable code in capitals.
    pub code: &'static str,
    /// The thing and the reason.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
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

/// Something that could not be read: the answer is right as far as it goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IncompleteSource {
    /// The adapter or part of the system.
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub reason: String,
}

/// An agent process that has not written a session yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnattachedAgent {
    /// The adapter id.
    pub agent: &'static str,
    pub pid: u32,
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
    pub group: AttentionGroup,
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
    pub session: SessionView<'a>,
    /// Every fact behind it.
    pub evidence: Vec<Evidence>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subagents: Vec<SessionView<'a>>,
    /// The agent that a terminal was made for, as it was noted then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchView>,
    /// How the program of a terminal ended, once it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<ProgramExit>,
    /// The command that opens its conversation again, to be run in its directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Vec<String>>,
    /// The pane of tmux that its process was started in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tmux: Option<TmuxPane>,
    /// What could not be read.
    pub incomplete: &'a [IncompleteSource],
}

/// A pane of tmux, as tmux tells what it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TmuxPane {
    /// Where its server listens.
    pub socket: String,
    /// `%` and a number.
    pub pane: String,
}

/// The result of `why`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WhyResult<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    pub bytes: u64,
    /// How many sessions.
    pub sessions: u64,
}

/// Bytes of one session.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct SessionUse {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub bytes: u64,
}
