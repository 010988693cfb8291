//! Answers about the fleet: members, what they said last, and how old that is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fleet_order::{OrderEntry, OrderState};
use super::{GcResult, IncompleteSource};
use crate::time::Time;

/// What an operator may do, and what a member lets operators do.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum FleetLevel {
    /// No access at all.
    None,
    #[default]
    Read,
    /// Type, prompt and start.
    Drive,
    /// Stop and remove.
    Reap,
}

impl FleetLevel {
    /// From the least to the most.
    pub const ALL: [Self; 4] = [Self::None, Self::Read, Self::Drive, Self::Reap];

    /// The word in JSON, in subjects and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Drive => "drive",
            Self::Reap => "reap",
        }
    }

    /// The level of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

/// What is known of a member now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// Its lease is fresh.
    Reachable,
    /// Its lease has lapsed: silence, which proves nothing.
    Unreachable,
    /// It said that its daemon stops.
    Stopped,
    /// Two claim to be it.
    Rival,
    /// What it said cannot be verified or read.
    Unreadable,
    /// It was admitted and never heard.
    Silent,
    /// It said that it leaves.
    Left,
    /// The hub cannot be reached; this is what it said before.
    HubLost,
}

impl MemberState {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Reachable,
        Self::Unreachable,
        Self::Stopped,
        Self::Rival,
        Self::Unreadable,
        Self::Silent,
        Self::Left,
        Self::HubLost,
    ];

    /// The word in JSON and on screen.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reachable => "reachable",
            Self::Unreachable => "unreachable",
            Self::Stopped => "stopped",
            Self::Rival => "rival",
            Self::Unreadable => "unreadable",
            Self::Silent => "silent",
            Self::Left => "left",
            Self::HubLost => "hub-lost",
        }
    }

    /// Whether what it says of its sessions is so now; anything else makes them unknown.
    pub const fn vouches(self) -> bool {
        matches!(self, Self::Reachable)
    }

    /// Whether the answer is incomplete without it.
    pub const fn is_incomplete(self) -> bool {
        !matches!(self, Self::Reachable | Self::Left)
    }

    /// Why its sessions are unknown.
    pub const fn reason_code(self) -> &'static str {
        match self {
            Self::Reachable | Self::Left => "member-said",
            Self::Unreachable | Self::Silent => "member-unreachable",
            Self::Stopped => "daemon-stopped",
            Self::Rival => "rival",
            Self::Unreadable => "member-unreadable",
            Self::HubLost => "hub-lost",
        }
    }
}

/// A member, by id and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberName {
    /// The id, which names its own key.
    pub id: String,
    pub name: String,
}

/// How many sessions a member has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionCounts {
    pub working: u64,
    /// Waiting for a person.
    pub waiting: u64,
    pub idle: u64,
    /// Live or unknown, without saying what they do.
    pub unknown: u64,
    pub ended: u64,
}

/// One member as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberView {
    pub id: String,
    pub name: String,
    /// What is known of it.
    pub state: MemberState,
    /// More about that, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when it has not been heard, by the hub's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// When it was heard last, by the hub's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<Time>,
    /// How long ago that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// The hub's clock less the member's, where they differ by more than 2 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_skew_ms: Option<i64>,
    /// How many sessions it said it has; absent when it never said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<SessionCounts>,
    /// How many sessions it has beyond what it could publish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<u64>,
    /// Its version of ostler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it lets operators do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
    /// Whether it is this home.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub here: bool,
}

/// The hub as seen from here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HubView {
    /// Where it listens.
    pub url: String,
    /// Whether it answered.
    pub reachable: bool,
    /// The version of its engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why it did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A session of a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetSession {
    /// As `ls` lists it, without what is the member's own business.
    #[serde(flatten)]
    pub session: Map<String, Value>,
    /// Whose it is.
    pub member: MemberName,
    /// How long ago it was looked at.
    pub age_ms: u64,
    /// What was said of it last, where it is unknown now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known: Option<Map<String, Value>>,
}

impl FleetSession {
    /// A text of the session.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.session.get(name)?.as_str()
    }
}

/// The result of `ls --fleet`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetLsResult {
    /// The sessions of all members that were asked about.
    pub sessions: Vec<FleetSession>,
    /// How many there are.
    pub total: usize,
    /// How many of them are shown.
    pub shown: usize,
    pub members: Vec<MemberView>,
    pub hub: HubView,
    /// What could not be read: every member that is not reachable.
    pub incomplete: Vec<IncompleteSource>,
}

/// The result of `fleet status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetStatusResult {
    pub site: String,
    pub hub: HubView,
    pub members: Vec<MemberView>,
    /// What could not be read: every member that is not reachable.
    pub incomplete: Vec<IncompleteSource>,
}

/// The result of `fleet init`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetInitResult {
    /// Where the hub's files are.
    pub directory: String,
    /// Where members connect to.
    pub url: String,
    /// The engine's version.
    pub engine: String,
    /// The fleet's public key.
    pub root: String,
    /// A unit that runs the hub.
    pub unit: String,
}

/// The result of `fleet join`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetJoinResult {
    /// The member's name.
    pub name: String,
    pub id: String,
    /// Whether it has joined; otherwise the hub has to admit it first.
    pub joined: bool,
    /// The line for `ostler fleet admit` on the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// What its keys are known by: `fleet admit` shows the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// What it asks for as an operator, or may do when it has joined.
    pub level: FleetLevel,
    /// The hub it joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The result of `fleet admit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetAdmitResult {
    /// The member's name.
    pub name: String,
    pub id: String,
    pub machine: String,
    /// What its keys are known by: `fleet join` shows the same.
    pub fingerprint: String,
    /// What it asked for as an operator.
    pub asked: FleetLevel,
    /// What it may do as an operator.
    pub level: FleetLevel,
    /// The line for `ostler fleet join` on the member.
    pub answer: String,
    /// Whether the member has been heard already.
    pub heard: bool,
}

/// The result of `fleet leave` and `fleet evict`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetDepartureResult {
    /// The member's name.
    pub name: String,
    pub id: String,
    /// Whether the hub was told.
    pub told: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorView {
    pub name: String,
    /// What the operator may do.
    pub level: FleetLevel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
}

/// The result of `fleet operator`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetOperatorsResult {
    /// The list's version.
    pub version: u64,
    pub operators: Vec<OperatorView>,
}

/// What a helper tells of a page of the fleet's health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetFinding {
    /// `ok`, `warning` or `error`.
    pub grade: String,
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub finding: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// The result of `fleet doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetDoctorResult {
    /// Everything that was looked at.
    pub findings: Vec<FleetFinding>,
    /// Whether nothing is wrong.
    pub healthy: bool,
}

/// The result of `outcome`: what became of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeResult {
    /// The order's id.
    pub id: String,
    /// `applied`, `not-applied` or `unknown`.
    pub state: OrderState,
    /// What was noted of it, if it was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderEntry>,
}

/// What one member would collect, or has collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberGc {
    /// Its name; `here` is this home.
    pub member: String,
    /// The way: `local`, `hub` or `ssh`.
    pub via: String,
    /// The order's id there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// How it ended there.
    pub exit: u8,
    /// As `gc` says it there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<GcResult>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The result of `gc --fleet`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetGcResult {
    /// One of each member.
    pub members: Vec<MemberGc>,
    /// Members whose plan is not known.
    pub incomplete: Vec<IncompleteSource>,
}

/// Something that changed in the fleet, or is there when watching begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "change")]
pub enum FleetChange {
    /// A member: how it is now.
    Member(MemberView),
    /// A member that was evicted.
    MemberGone {
        /// The member that is gone.
        member: MemberName,
    },
    /// A session: how it is now.
    Session(FleetSession),
    /// A session that its member does not tell of any more.
    SessionGone {
        /// The member that told of it.
        member: MemberName,
        agent: String,
        id: String,
    },
    /// The hub: it was lost.
    Hub(HubView),
}
