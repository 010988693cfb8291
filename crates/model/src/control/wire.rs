//! JSON answers of `launch`, `resume`, `prompt`, `deliveries`, `stop` and `who`.

use schemars::JsonSchema;
use serde::Serialize;

use super::delivery::{DeliveryRecord, delivery_failure};
use super::holders::{ConversationHolder, HandOverWay, HolderKind};
use crate::conversation::ConversationEntry;
use crate::identity::Identity;
use crate::status::{Activity, Status};
use crate::time::Time;
use crate::wire::IncompleteSource;

/// A process by what names it for ever, as far as programs need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The kernel's start time, in its own unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// The kernel's short name, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
}

impl From<&Identity> for ProcessView {
    fn from(identity: &Identity) -> Self {
        Self { pid: identity.pid, start: identity.start, comm: identity.comm.clone() }
    }
}

/// How a started process and its conversation were brought together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConversationBinding {
    /// ostler chose the id.
    Chosen,
    /// The agent registered it for this process.
    Registered,
    /// The process recorded it: its transcript, or its first line of output.
    Recorded,
}

/// How far a start has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LaunchState {
    /// The agent takes prompts.
    Ready,
    /// It recorded its first prompt.
    Accepted,
    /// A person must answer something first.
    Blocked,
    Failed,
    /// It has not become ready in time, and asks nothing that is known.
    Waiting,
    /// It has another conversation than it should; it was stopped, and told nothing.
    #[serde(rename = "wrong-conversation")]
    WrongConversation,
}

/// What keeps a started agent from taking prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LaunchObstacle {
    /// It asks whether it may work in this directory.
    Trust,
    /// It asks for a login.
    Login,
    /// It offers an update.
    Update,
    /// Something else is on its screen.
    Unknown,
}

/// The obstacle and what the terminal shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedLaunch {
    pub kind: LaunchObstacle,
    /// What the terminal shows.
    pub screen: String,
}

/// The conversation of a started process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaunchedConversation {
    /// The agent's own id.
    pub id: String,
    /// Where it is written, once it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// How the id is known.
    pub bound: ConversationBinding,
}

/// The result of `launch` and `resume`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaunchResult {
    /// The adapter's id.
    pub agent: String,
    /// `terminal` or `headless`.
    pub mode: &'static str,
    /// Where it works.
    pub cwd: String,
    /// The name it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The group it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its name in the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// The worktree that was made for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// Other live sessions in the same directory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also_here: Vec<String>,
    /// The process that was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessView>,
    /// The terminal it runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// Its conversation, once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<LaunchedConversation>,
    /// How far it has come.
    pub state: LaunchState,
    /// Whether an earlier conversation goes on.
    pub resumed: bool,
    /// What it waits for a person to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<BlockedLaunch>,
    /// What became of its first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryRecord>,
    /// The fuse that stops it when its time is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuse: Option<String>,
    /// Of a program that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it is not ready, or how it failed, in its own words where it has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The command line, without the prompt.
    pub argv: Vec<String>,
    /// Whether nothing was started: this is what would be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// What could not be noted or read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<IncompleteSource>,
}

/// What a command that started an agent ends with, as an error code; `None` is success.
pub fn launch_failure(result: &LaunchResult) -> Option<&'static str> {
    let delivery = result.delivery.as_ref();
    match result.state {
        LaunchState::Blocked => Some("BLOCKED"),
        LaunchState::Failed => Some("TURN_FAILED"),
        LaunchState::Waiting => Some("WAIT_TIMEOUT"),
        LaunchState::WrongConversation => Some("NOT_DELIVERED"),
        LaunchState::Ready | LaunchState::Accepted => delivery.and_then(|delivery| {
            delivery_failure(delivery.state, delivery.turn.as_ref().map(|turn| turn.end))
        }),
    }
}

/// The result of `deliveries`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveriesResult {
    /// The newest first, each judged anew from the transcript.
    pub deliveries: Vec<DeliveryRecord>,
    /// What could not be read.
    pub incomplete: Vec<IncompleteSource>,
}

/// The result of `peek`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeekResult {
    pub session: String,
    /// The adapter's id.
    pub agent: String,
    /// The lifecycle state.
    pub status: Status,
    /// What it is doing; only when it may be live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// What it waits for a person to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// The last things that were said on both sides, oldest first.
    pub messages: Vec<ConversationEntry>,
    /// The terminal it runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// What that shows, if it was asked for or a question is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessEnding {
    /// By itself, after it was asked in its own way.
    Exited,
    Term,
    Kill,
    /// Before it was asked.
    AlreadyGone,
    /// It is still there.
    Survived,
    /// Of a dry run: it would be asked to end.
    WouldEnd,
}

/// One process of a stopped tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoppedProcess {
    #[serde(flatten)]
    pub process: ProcessView,
    /// How it ended.
    pub how: ProcessEnding,
    /// After how many milliseconds.
    pub ms: u64,
    /// Why it was not signalled, if it was not and is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_signalled: Option<String>,
}

/// One session that was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoppedSession {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Its processes, in the order in which they were asked.
    pub processes: Vec<StoppedProcess>,
    /// What did not end.
    pub left: Vec<ProcessView>,
    /// What its terminal's program ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether something holds the conversation again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub respawned: bool,
    /// Whether only the turn was interrupted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub turn_only: bool,
}

impl StoppedSession {
    /// Whether everything had ended before the first signal was sent.
    pub fn was_gone_already(&self) -> bool {
        let gone = |told: &StoppedProcess| told.how == ProcessEnding::AlreadyGone;
        !self.processes.is_empty() && self.processes.iter().all(gone)
    }
}

/// The result of `stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StopResult {
    /// One for each session that was named.
    pub stopped: Vec<StoppedSession>,
    /// Whether nothing was signalled: this is what would be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// What could not be noted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<IncompleteSource>,
}

/// The result of `prompt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptResult {
    #[serde(flatten)]
    pub delivery: DeliveryRecord,
    /// What could not be noted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<IncompleteSource>,
}

/// One holder of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HolderView {
    pub kind: HolderKind,
    pub process: ProcessView,
    /// `alive` or `unknown`.
    pub liveness: &'static str,
    /// The terminal of ostler's that it runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// Since when it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// What it does.
    pub activity: Activity,
    /// How it is known.
    pub evidence: String,
    /// Of a server: how many conversations it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<u32>,
}

impl From<&ConversationHolder> for HolderView {
    fn from(holder: &ConversationHolder) -> Self {
        Self {
            kind: holder.kind,
            process: ProcessView::from(&holder.process),
            liveness: if holder.liveness.is_alive() { "alive" } else { "unknown" },
            terminal: holder.terminal.clone(),
            since: holder.since,
            activity: holder.activity,
            evidence: holder.evidence.clone(),
            shares: holder.shares,
        }
    }
}

/// Whether and how a conversation can be taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandOverView {
    /// Whether it can be had now.
    pub possible: bool,
    pub how: HandOverWay,
    /// Why that way.
    pub reason: String,
    /// The command that does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// One conversation and its holders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationHolders {
    /// The agent's own id.
    pub conversation: String,
    /// The adapter's id.
    pub agent: String,
    /// Where it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Every process that holds it, or may.
    pub holders: Vec<HolderView>,
    /// What can be done.
    pub hand_over: HandOverView,
}

/// The result of `who`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhoResult {
    /// The conversation that was named; of a directory, every one that is held there.
    pub conversations: Vec<ConversationHolders>,
    /// What could not be read.
    pub incomplete: Vec<IncompleteSource>,
}
