//! The writer's protocol, as it goes over the daemon's socket: orders and their results.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use access::prune::PruneReport;
use model::config::{OstlerConfig, Retention};
use model::control::fuses::FuseRecord;
use model::control::groups::GroupMember;
use model::control::note::{ControlNote, KeptDelivery};
use model::control::permits::PermitVerdict;
use model::identity::Identity;
use model::plan::{PlanItem, Refusal};
use model::session::SessionName;
use model::time::Time;
use model::webhook::WebhookChange;
use model::wire::{
    AgentDeleteResult, GcResult, LocksResult, PinResult, TrashEmptied, UndoResult, WebhooksResult,
};
use openclaw::agents;
use openclaw::store as openclaw_store;
use openclaw::wire::{StoreCleanupResult, StoreRebuildResult};
use serde::{Deserialize, Serialize};

use super::fuse_orders::FuseOrder;
use super::group_orders::GroupOrder;
use super::page_orders::PageOrder;

/// A permission request that was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermitNote {
    /// The adapter's id.
    pub agent: String,
    /// The agent's own session id.
    pub session: String,
    pub request: String,
    /// What was answered.
    pub verdict: PermitVerdict,
    pub by: String,
    /// How long it had waited.
    pub wait_ms: u64,
}

/// A lock that is wanted, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockRequest {
    /// The directory, absolute.
    pub path: PathBuf,
    pub by: String,
    pub reason: Option<String>,
    /// For how long.
    pub ttl_ms: Option<u64>,
    /// Whether another holder's lock is taken away.
    pub steal: bool,
    /// The process that it is for.
    pub holder: Option<Identity>,
}

/// Something to be done by the writer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "work")]
pub enum Work {
    /// Collect what may go.
    Gc {
        /// What is asked for.
        ask: Box<GcRequest>,
        /// What was shown, and consented to.
        consent: GcConsent,
    },
    /// Undo a run of the reaper.
    Undo {
        /// Which; none means the last one that can be undone.
        receipt: Option<String>,
        /// Whether what has another thing in its place is put beside that.
        #[serde(default)]
        beside: bool,
    },
    /// Empty the trash.
    #[serde(rename_all = "camelCase")]
    EmptyTrash {
        /// Of what was trashed longer ago.
        older_than_ms: u64,
    },
    /// Clean up a store of OpenClaw's.
    StoreCleanup(Box<openclaw_store::SessionStoreRequest>),
    /// Write a new index for one.
    StoreRebuild(Box<openclaw_store::SessionStoreRequest>),
    /// Remove hosted sessions that are over.
    RemoveTerminals {
        /// The directory that holds `sessions/`.
        root: PathBuf,
        ids: Vec<String>,
        /// The command they are removed by.
        command: String,
    },
    /// Delete one of OpenClaw's agents.
    DeleteAgent {
        ask: agents::AgentDeleteRequest,
    },
    /// Remove access sessions that are provably finished.
    #[serde(rename_all = "camelCase")]
    PruneAccess {
        /// Also the logs whose last line is from before.
        logs_before: Option<Time>,
    },
    /// Move a settings file to the trash that ostler alone has written.
    #[serde(rename_all = "camelCase")]
    TrashSettings {
        path: PathBuf,
        /// What its content must be.
        content_hash: String,
    },
    /// Pin sessions, or take their pins away.
    Pin {
        sessions: Vec<SessionName>,
        /// Why, in the words of the person who pins them.
        note: Option<String>,
        /// Whether the pins are taken away.
        remove: bool,
    },
    /// Lock a directory.
    Lock(Box<LockRequest>),
    Unlock(Box<LockRequest>),
    /// Note that a permission request was answered.
    NotePermit(Box<PermitNote>),
    Fuse(Box<FuseOrder>),
    /// Change members of launch groups.
    Group(Box<GroupOrder>),
    /// Write down what control did.
    NoteControl(ControlNote),
    /// Change what is known of webhooks.
    Webhook {
        what: WebhookChange,
    },
    /// Keep something of a page.
    Page(Box<PageOrder>),
}

impl Work {
    /// What is done, for the log: never what it is done to.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Gc { .. } => "gc",
            Self::Undo { .. } => "undo",
            Self::EmptyTrash { .. } => "empty trash",
            Self::StoreCleanup(_) => "store cleanup",
            Self::StoreRebuild(_) => "store rebuild",
            Self::RemoveTerminals { .. } => "remove terminals",
            Self::DeleteAgent { .. } => "delete agent",
            Self::PruneAccess { .. } => "prune access",
            Self::TrashSettings { .. } => "trash settings",
            Self::Pin { .. } => "pin",
            Self::Lock(_) => "lock",
            Self::Unlock(_) => "unlock",
            Self::NotePermit(_) => "note permit",
            Self::Fuse(_) => "fuse",
            Self::Group(_) => "group",
            Self::NoteControl(_) => "note control",
            Self::Webhook { .. } => "webhook",
            Self::Page(_) => "page",
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "done", content = "result")]
pub enum WorkDone {
    /// What was collected.
    Gc(GcResult),
    /// What was undone.
    Undo(UndoResult),
    /// What was emptied.
    EmptyTrash(TrashEmptied),
    /// What went from stores.
    StoreCleanup(Box<StoreCleanupResult>),
    /// What a new index holds.
    StoreRebuild(Box<StoreRebuildResult>),
    /// What became of each session.
    RemoveTerminals(Vec<RemovedTerminal>),
    /// What became of the agent.
    DeleteAgent(Box<AgentDeleteResult>),
    /// What became of each access session.
    PruneAccess(Box<PruneReport>),
    /// Why the file stays, if it does.
    TrashSettings(Option<Refusal>),
    /// Which sessions are pinned now.
    Pin(PinResult),
    /// Which directory is locked, or was.
    Locks(LocksResult),
    /// It is noted.
    Noted,
    /// The fuses that were changed.
    Fuses(Vec<FuseRecord>),
    /// The members that were changed.
    Members(Vec<GroupMember>),
    /// It is written down; of a delivery whose key was used before, the one that used it.
    NoteControl(Option<Box<KeptDelivery>>),
    /// What webhooks there are now.
    Webhook(WebhooksResult),
}

/// Who did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Daemon,
    /// This process, as the writer.
    Local,
}

impl Transport {
    /// In a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Local => "local",
        }
    }
}

/// What of agents' own may go, on request only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GcInclude {
    /// Transcripts of sessions that are over, into the vault first.
    Transcripts,
    /// Temporary files and archives.
    Temps,
    /// Git worktrees that sessions worked in.
    Worktrees,
}

/// What is asked for. It is whole: who carries it out needs nothing else from who asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcRequest {
    /// What of agents' own may go.
    pub include: Vec<GcInclude>,
    /// Only what has been left alone for longer.
    pub older_than_ms: Option<u64>,
    /// How much may be left of what sessions wrote.
    pub max_bytes: Option<u64>,
    /// Sessions and paths that stay.
    pub keep: Vec<String>,
    /// Only what is of these agents; empty means all.
    pub agents: Vec<String>,
    pub retention: Retention,
    /// ostler's directory for sockets.
    pub runtime: PathBuf,
    /// The variables that say where agents keep things.
    pub variables: BTreeMap<String, String>,
    /// Where agents keep things beside that, by the settings of who asks.
    #[serde(default)]
    pub adapter_roots: BTreeMap<String, Vec<PathBuf>>,
}

/// What the person was shown and consented to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcConsent {
    /// What stands for the plan.
    pub plan: String,
    /// Where everything is that would go.
    pub paths: HashSet<String>,
}

impl GcRequest {
    /// The settings that a look for this request goes by. An agent that is switched off is looked at all the same: its
    /// sessions keep what they work in.
    pub(crate) fn observed_config(&self) -> OstlerConfig {
        OstlerConfig { adapter_roots: self.adapter_roots.clone(), ..OstlerConfig::default() }
    }

    /// Whether a path lies in a place that the settings name: those are read, and nothing of them is collected.
    pub(crate) fn is_configured(&self, agent: &str, path: &Path) -> bool {
        let roots = self.adapter_roots.get(agent).into_iter().flatten();
        let resolved = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let mut roots = roots.peekable();
        roots.peek().is_some() && {
            let path = resolved(path);
            roots.any(|root| path.starts_with(resolved(root)))
        }
    }

    /// Whether that is wanted.
    pub(crate) fn includes(&self, include: GcInclude) -> bool {
        self.include.contains(&include)
    }

    /// Whether what is of that agent, or of ostler itself, is wanted.
    pub(crate) fn is_about(&self, agent: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|wanted| wanted == agent)
    }

    /// How old something must be: as asked for, else as set.
    pub(crate) fn older_than(&self, set: Duration) -> Duration {
        self.older_than_ms.map_or(set, Duration::from_millis)
    }

    /// Whether it was asked to be kept.
    pub(crate) fn keeps_item(&self, item: &PlanItem) -> bool {
        self.keep.iter().any(|keep| names_item(keep, item))
    }
}

/// Whether that names it: its path or one in or above it, the session's id or the beginning of that, or its name.
pub fn names_item(keep: &str, item: &PlanItem) -> bool {
    let is_within = |inner: &str, outer: &str| {
        Path::new(outer).is_absolute() && Path::new(inner).starts_with(outer)
    };
    let is_session = |session: &String| session.starts_with(keep);
    !keep.is_empty()
        && (is_within(&item.path, keep)
            || is_within(keep, &item.path)
            || item.session.as_ref().is_some_and(is_session)
            || item.title.as_deref() == Some(keep))
}

/// A hosted session, and what became of it: the bytes it took, or why it stays.
pub type RemovedTerminal = (String, Result<u64, Refusal>);
