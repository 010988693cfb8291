//! The protocol between `ostler` and its network helper, the program `ostler-net`.
//!
//! One request as JSON on its standard input, one answer on its standard output: nothing secret stands
//! in an argument list, and the helper needs no command line of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::hosted::wire::AttachParams;
use crate::time::Time;
use crate::webhook::WebhookRecord;
use crate::wire::FleetLevel;
use crate::wire::fleet_order::{OrderArguments, OrderedRunResult};

/// The version of what is said between the two; another one is refused.
pub const HELPER_PROTOCOL: u32 = 1;

/// One request to the helper.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HelperRequest {
    /// The version of what is said between the two.
    pub protocol: u32,
    pub home: PathBuf,
    pub cache: PathBuf,
    /// What is wanted.
    pub ask: HelperAsk,
}

/// What the helper can be asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "ask")]
pub enum HelperAsk {
    /// To send a test event to a webhook.
    WebhookTest(Box<WebhookRecord>),
    /// To send events to webhooks until the input ends.
    WebhookSender(DaemonPlace),
    /// Something about the fleet.
    Fleet { what: FleetAsk },
    /// To tell every change in the fleet, one on a line, until the input ends.
    FleetFollow,
    /// To join a terminal of a member: frames both ways until the input ends.
    FleetView(Box<ViewRequest>),
    /// To be this home's link to its hub until the input ends.
    FleetLink {
        /// Where the daemon listens.
        place: DaemonPlace,
        /// What a person set.
        settings: FleetSettings,
    },
}

/// What can be asked about the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "fleet")]
pub enum FleetAsk {
    /// To make a hub's files.
    Init {
        /// Where it listens.
        listen: String,
        /// The names and addresses that members use.
        advertise: Vec<String>,
        /// The site's name.
        site: String,
        /// Whether connections are in the clear: on loopback only.
        plain: bool,
    },
    /// To become the hub's engine.
    Hub,
    /// To ask to be a member.
    Join {
        name: String,
        /// What to be as an operator.
        level: FleetLevel,
        /// Whether new keys are made.
        new: bool,
    },
    /// To be a member, with what the hub answered.
    Joined {
        /// The line of `admit`.
        answer: String,
    },
    /// To ask the hub through ssh and be a member.
    #[serde(rename_all = "camelCase")]
    JoinBySsh {
        /// The hub, as ssh names it.
        target: String,
        name: String,
        /// What to be as an operator.
        level: FleetLevel,
        /// Whether new keys are made.
        new: bool,
    },
    /// To admit a member.
    #[serde(rename_all = "camelCase")]
    Admit {
        /// The line of `join`.
        request: String,
        /// The most it gets as an operator.
        level: Option<FleetLevel>,
        /// How operators reach it by ssh.
        #[serde(default)]
        ssh: Option<String>,
        /// Until when it may do that; without it, what was said before holds.
        #[serde(default)]
        until: Option<Time>,
        /// How long its first lease is waited for.
        wait_ms: u64,
    },
    Leave,
    /// To remove a member.
    Evict {
        /// Its name or id.
        member: String,
    },
    /// To list operators.
    Operators,
    /// To change what an operator may do, or until when. What is not said stays.
    SetOperator {
        name: String,
        /// `none` removes the operator.
        level: Option<FleetLevel>,
        #[serde(default)]
        until: Option<OperatorEnd>,
    },
    /// How everybody is.
    #[serde(rename_all = "camelCase")]
    Overview {
        /// How long the hub is waited for.
        timeout_ms: u64,
    },
    /// What is wrong.
    #[serde(rename_all = "camelCase")]
    Doctor {
        /// How long the hub is waited for.
        timeout_ms: u64,
    },
    /// The sessions of members.
    #[serde(rename_all = "camelCase")]
    Sessions {
        /// Ended ones too.
        all: bool,
        /// Only of these members; empty means all.
        hosts: Vec<String>,
        /// How long the hub is waited for.
        timeout_ms: u64,
    },
    /// An order to members, or a question to them.
    Order(Box<OrderRequest>),
}

/// A command that is to be run by members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderRequest {
    /// Which members, by name; empty means all that are reachable.
    pub hosts: Vec<String>,
    /// The command, as it is typed.
    pub command: String,
    /// What it is given.
    pub args: OrderArguments,
    /// Whether the answer is JSON.
    pub json: bool,
    /// How long the hub is waited for.
    pub timeout_ms: u64,
    /// The way: through the hub, through ssh, or as it goes.
    pub via: Option<OrderWay>,
    /// How ssh reaches members, by name.
    pub ssh: BTreeMap<String, String>,
}

/// A terminal of a member that is to be joined.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewRequest {
    /// Which member, by name.
    pub host: String,
    /// Which terminal there.
    pub terminal: String,
    /// How it is joined.
    pub params: AttachParams,
    /// How long the hub is waited for.
    pub timeout_ms: u64,
}

/// What the daemon is asked for by its link: a terminal for an operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminalVisit {
    /// Which terminal.
    pub terminal: String,
    /// How it is joined.
    pub params: AttachParams,
}

/// How an order goes to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OrderWay {
    /// Through the hub.
    Hub,
    Ssh,
}

impl OrderWay {
    /// In a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Ssh => "ssh",
        }
    }
}

/// What one member answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderReport {
    pub member: String,
    /// The order's id there.
    pub id: String,
    /// The way it went.
    pub via: OrderWay,
    /// What came of it.
    pub done: Result<OrderedRunResult, HelperFailure>,
}

/// What a person set for the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetSettings {
    /// What operators may do here.
    pub allow: FleetLevel,
    /// Whether titles, directories and branches stay here.
    pub minimal: bool,
    /// How often the lease is renewed.
    pub renew_ms: u64,
    /// How often sessions are looked at that report nothing themselves.
    pub look_ms: u64,
    /// What agents on this machine may order on others.
    #[serde(default)]
    pub agents_may: FleetLevel,
    /// How long an order waits for the hub.
    #[serde(default = "default_hub_wait")]
    pub timeout_ms: u64,
}

const fn default_hub_wait() -> u64 {
    2000
}

impl Default for FleetSettings {
    fn default() -> Self {
        Self {
            allow: FleetLevel::Read,
            minimal: false,
            renew_ms: 5000,
            look_ms: 30_000,
            agents_may: FleetLevel::Read,
            timeout_ms: default_hub_wait(),
        }
    }
}

/// What the daemon's settings let operators do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetRights {
    pub allow: FleetLevel,
}

/// What happened on the machine since it was asked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineChange {
    /// The newest event's cursor.
    pub newest: i64,
    /// Whether a session ended or waits for somebody.
    #[serde(default)]
    pub urgent: bool,
}

/// Where the daemon listens that started the helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonPlace {
    pub socket: PathBuf,
    /// Which home it serves.
    pub home_id: String,
    /// The version of ostler.
    pub version: String,
    /// The program that started the helper.
    pub program: PathBuf,
}

/// When an operator's right ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OperatorEnd {
    Never,
    At(Time),
}

/// How the helper failed: it decides how the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HelperFailureKind {
    /// What was asked for makes no sense here.
    Input,
    /// There is no such member, operator or webhook.
    NotFound,
    /// A name could mean several.
    Ambiguous,
    /// Policy said no; nothing was changed.
    Refused,
    /// The other machine cannot be reached; nothing was done there.
    Unreachable,
    /// The other machine did not answer in time.
    Timeout,
    /// The other machine has too much to do; nothing was done there.
    Busy,
    /// A file could not be read.
    Read,
    /// A file could not be written.
    Write,
    /// The other side broke the protocol.
    Protocol,
    /// It was sent, and its outcome is not known.
    MayHaveApplied,
}

/// Why the helper did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct HelperFailure {
    pub kind: HelperFailureKind,
    /// The thing and the reason.
    pub message: String,
    pub hint: String,
}

impl HelperFailure {
    /// A failure with its remedy.
    pub fn new(
        kind: HelperFailureKind,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { kind, message: message.into(), hint: hint.into() }
    }
}

/// What the helper answers: the result of what was asked, or why there is none.
pub type HelperAnswer<T> = Result<T, HelperFailure>;
