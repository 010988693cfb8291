//! A session: everything known about one continuous piece of work, merged but not yet judged.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::liveness::Liveness;
use crate::sighting::{FileStamp, TranscriptDigest};
use crate::status::{Activity, Status};
use crate::time::Time;

/// What kind of session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionKind {
    /// An agent's own.
    Native,
    /// A terminal that ostler hosts.
    Hosted,
    Access,
}

/// Whether an id that another program chose may become part of a file name or a word on a command
/// line. Others are shown (escaped) and addressed, and never used in a path.
pub fn is_safe_id(id: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:@+-".contains(&byte);
    (1..=200).contains(&id.len()) && id.bytes().all(is_safe) && id != "." && id != ".."
}

/// The name of a session for ever: agents give ids, and two of them may give the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionName {
    /// The adapter's id, or `terminal`.
    pub agent: String,
    /// The agent's own id of it.
    pub id: String,
}

impl SessionName {
    /// That session of that agent.
    pub fn new(agent: impl Into<String>, id: impl Into<String>) -> Self {
        Self { agent: agent.into(), id: id.into() }
    }
}

impl std::fmt::Display for SessionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.agent, self.id)
    }
}

/// How well a format is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FormatCertainty {
    /// Seen in files that the real program wrote.
    Lab,
    /// Read in documentation or source only.
    Documented,
}

/// Which knowledge a session came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionOrigin {
    /// The adapter that read it.
    pub adapter: &'static str,
    /// The directory it was found under.
    pub root: Arc<str>,
    /// The format it was read as.
    pub format: &'static str,
    /// How well that format is known.
    pub certainty: FormatCertainty,
}

/// A transcript on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptFile {
    pub path: PathBuf,
    /// Its identity on disk. For a store that holds many sessions, of the store.
    pub stamp: FileStamp,
    /// Bytes that belong to this session.
    pub bytes: u64,
    /// Whether the file holds other sessions too.
    pub shared: bool,
}

/// One session, merged from its sightings.
#[derive(Clone, Debug)]
pub struct Session {
    /// The agent's own id.
    pub id: String,
    pub kind: SessionKind,
    pub agent: &'static str,
    /// What its transcript and registrations say. Boxed: thousands of sessions are moved and sorted.
    pub digest: Box<TranscriptDigest>,
    /// Where it is written.
    pub transcript: Option<TranscriptFile>,
    /// Where the knowledge came from.
    pub origin: SessionOrigin,
    /// Of a hosted one, the status that its host wrote down last.
    pub written_status: Option<Status>,
    /// The processes that may be working on it.
    pub claims: Vec<ProcessClaim>,
    /// The terminal that it runs in; of a terminal, the agents' sessions in it.
    pub linked: Vec<LinkedSession>,
}

/// Another session that one belongs together with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LinkedSession {
    /// Its agent, or `terminal`.
    pub agent: &'static str,
    pub id: String,
}

impl Session {
    pub fn session_name(&self) -> SessionName {
        SessionName::new(self.agent, &self.id)
    }

    /// The last sign of life: the conversation's own time, else that of a registration's or file's
    /// last change.
    pub fn last_activity_at(&self) -> Option<Time> {
        self.digest
            .last_activity_at
            .or_else(|| self.transcript.as_ref().map(|t| t.stamp.modified_at()))
            .or(self.digest.started_at)
    }

    /// When this very session was last written: its own last record, or the change of a file that
    /// it has for itself. The time of a store that many sessions share says nothing about one.
    pub fn last_written_at(&self) -> Option<Time> {
        let own_file = self.transcript.as_ref().filter(|transcript| !transcript.shared);
        let changed = own_file.map(|transcript| transcript.stamp.modified_at());
        self.digest.last_activity_at.max(changed).or(self.digest.started_at)
    }

    /// The title people see: given, else the first prompt.
    pub fn display_title(&self) -> Option<&str> {
        self.digest.title.as_deref().or(self.digest.first_prompt.as_deref())
    }
}

/// One process that is said, or thought, to be working on a session.
#[derive(Clone, Debug)]
pub struct ProcessClaim {
    /// How the association was made.
    pub how: ClaimBasis,
    /// Whether that process is there.
    pub liveness: Liveness,
    pub identity: Identity,
    /// When it started, by the wall clock.
    pub started_at: Option<Time>,
    /// What the agent says it is doing.
    pub activity: Option<Activity>,
    /// What it waits for.
    pub waiting_for: Option<String>,
    /// The file or table the claim was read from.
    pub source: String,
    /// When it was written (a registration) or seen (a process).
    pub observed_at: Time,
    /// Where the process works, if that is what the claim rests on.
    pub directory: Option<String>,
    /// Of a server of the agent's, which has other conversations too.
    pub shared: Option<SharedHold>,
}

/// What is known of a server that holds conversations for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SharedHold {
    /// How many conversations it holds.
    pub conversations: u32,
    /// How many processes of the agent could show this one: windows that hold nothing themselves, in its
    /// directory. With none, no client is attached.
    pub windows: u32,
}

/// How a process was associated with a session, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClaimBasis {
    /// The process holds the session's terminal.
    Hosts,
    /// The agent's own registration names the session and the process.
    Registered,
    /// The process holds the session's lock.
    Locked,
    /// A hook of the session ran below this process.
    Hook,
    /// The process holds the session's transcript open.
    OpenFile,
    /// The agent's own registration names the store, of which this is the newest session.
    Store,
    /// The process was started with the session's id.
    Argument,
    /// The process carries the session's id in its environment.
    Environment,
    /// The process is the agent, could have the session open, and has written to it.
    Directory,
    /// The process is a server of the agent, which has every session of its store.
    Served,
    /// The process is the agent and could have the session open; nothing more is known.
    CouldOpen,
    /// The end of the session was recorded when it was proven.
    RecordedEnd,
    /// A registration of a process in the session's directory that could not be read.
    UnreadableRegistration,
}

/// How sure a liveness verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// A named process of known identity.
    Proven,
    /// Concluded from circumstances.
    Derived,
}

/// Where the evidence for liveness came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EvidenceSource {
    /// The agent's own files.
    Native,
    Hook,
    /// The process table.
    Process,
    /// The host of a hosted session.
    Host,
    /// Nothing claims it.
    None,
}

impl ClaimBasis {
    /// How sure a living process found this way is.
    pub const fn certainty(self) -> Certainty {
        match self {
            Self::Hosts
            | Self::Registered
            | Self::Locked
            | Self::Hook
            | Self::OpenFile
            | Self::RecordedEnd => Certainty::Proven,
            Self::Store
            | Self::Argument
            | Self::Environment
            | Self::Directory
            | Self::Served
            | Self::CouldOpen
            | Self::UnreadableRegistration => Certainty::Derived,
        }
    }

    /// Where the evidence came from.
    pub const fn evidence_source(self) -> EvidenceSource {
        match self {
            Self::Hosts => EvidenceSource::Host,
            Self::Registered | Self::Locked | Self::Store | Self::UnreadableRegistration => {
                EvidenceSource::Native
            }
            Self::Hook | Self::RecordedEnd => EvidenceSource::Hook,
            Self::OpenFile
            | Self::Argument
            | Self::Environment
            | Self::Directory
            | Self::Served
            | Self::CouldOpen => EvidenceSource::Process,
        }
    }

    /// The fact in words, for `why`.
    pub const fn describe_fact(self) -> &'static str {
        match self {
            Self::Hosts => "this process holds the session's terminal",
            Self::Registered => "the agent registered this process for the session",
            Self::Locked => "this process holds the session's writer lock",
            Self::Hook => "a hook of the session ran below this process",
            Self::OpenFile => "this process holds the session's transcript open",
            Self::Store => "this process has the store open, and this is its newest session",
            Self::Argument => "this process was started with the session's id",
            Self::Environment => "this process has the session's id in its environment",
            Self::Directory => "this process runs the agent and can have written the session",
            Self::Served => "this process is the agent's server and has all of its sessions",
            Self::CouldOpen => "this process runs the agent and could have the session open",
            Self::RecordedEnd => "the end of the session was recorded when it was proven",
            Self::UnreadableRegistration => "a registration for this directory cannot be read",
        }
    }
}
