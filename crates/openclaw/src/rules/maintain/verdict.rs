//! What becomes of entries and files, and why.

use super::HoldReason;
use crate::rules::document::EntryFault;
use crate::rules::key::SessionKeyKind;

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryVerdict {
    Keep(KeepReason),
    /// It stays, and leads to its own transcript again.
    Repair,
    Remove(RemovalReason),
}

impl EntryVerdict {
    /// Whether it goes.
    pub const fn removes(self) -> bool {
        matches!(self, Self::Remove(_))
    }

    /// Whether it does not stay as it is.
    pub const fn changes(self) -> bool {
        !matches!(self, Self::Keep(_))
    }

    /// What is done, for programs.
    pub const fn action_word(self) -> &'static str {
        match self {
            Self::Keep(_) => "keep",
            Self::Repair => "repair",
            Self::Remove(_) => "remove",
        }
    }

    /// The word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keep(_) => "keep",
            Self::Repair => "repair-session-file",
            Self::Remove(removal) => removal.as_str(),
        }
    }

    /// The reason, for people.
    pub const fn reason_text(self) -> &'static str {
        match self {
            Self::Keep(keep) => keep.reason_text(),
            Self::Repair => "its sessionFile leads astray, and its own transcript is there",
            Self::Remove(removal) => removal.reason_text(),
        }
    }
}

/// Why an entry stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepReason {
    /// No limit is reached.
    Recent,
    /// Its age is not known.
    Undated,
    /// The place it takes place in is for keeps.
    Place(SessionKeyKind),
    /// It takes place in a group, a channel or a thread.
    Chat,
    /// It is held.
    Held(HoldReason),
    /// It is no session, and its removal was not asked for.
    Unusable(EntryFault),
}

impl KeepReason {
    const fn reason_text(self) -> &'static str {
        match self {
            Self::Recent => "within every limit",
            Self::Undated => "its age is not known",
            Self::Place(SessionKeyKind::Main) => "the main session of an agent",
            Self::Place(SessionKeyKind::Global) => "the session that all agents share",
            Self::Place(_) | Self::Chat => "a group, channel, thread or topic",
            Self::Held(HoldReason::Active) => "named as active",
            Self::Held(HoldReason::Live) => "a live process works on it",
            Self::Held(HoldReason::Pinned) => "pinned",
            Self::Held(HoldReason::Unknown) => "a process may be working on it",
            Self::Unusable(fault) => fault.reason_text(),
        }
    }
}

/// Why an entry goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// It is no session.
    Unusable(EntryFault),
    /// A direct chat that belongs into the main session now.
    DmScope,
    /// Its transcript is missing.
    Missing,
    /// Its transcript holds nothing.
    HeaderOnly,
    /// It never had a session.
    NoSession,
    /// A probe of a model, a day old.
    ModelRun,
    Stale,
    /// One of too many.
    OverCap,
    /// The directory is too large.
    OverBudget,
}

impl RemovalReason {
    /// The word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unusable(_) => "prune-unusable",
            Self::DmScope => "retire-dm-scope",
            Self::Missing | Self::HeaderOnly | Self::NoSession => "prune-missing",
            Self::ModelRun => "prune-model-run",
            Self::Stale => "prune-stale",
            Self::OverCap => "cap-overflow",
            Self::OverBudget => "evict-budget",
        }
    }

    const fn reason_text(self) -> &'static str {
        match self {
            Self::Unusable(fault) => fault.reason_text(),
            Self::DmScope => "direct chats share the main session (dmScope is main)",
            Self::Missing => "its transcript is missing",
            Self::HeaderOnly => "its transcript holds no message",
            Self::NoSession => "it has no session",
            Self::ModelRun => "a probe of a model, older than a day",
            Self::Stale => "not changed within pruneAfter",
            Self::OverCap => "there are more than maxEntries, and it is among the oldest",
            Self::OverBudget => "the directory is larger than maxDiskBytes",
        }
    }

    /// Whether what only it refers to goes along. What a missing transcript leaves behind may be all
    /// that there is of a session.
    pub const fn takes_files(self) -> bool {
        self.is_policy() || matches!(self, Self::DmScope)
    }

    /// Whether the policy asked for it, not a person.
    pub const fn is_policy(self) -> bool {
        matches!(self, Self::ModelRun | Self::Stale | Self::OverCap | Self::OverBudget)
    }
}

/// What becomes of a file that does not stay as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFileChange {
    /// Which of the files.
    pub file: usize,
    /// What is done to it.
    pub act: StoreFileAction,
    pub why: StoreFileReason,
}

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFileAction {
    /// It is put away under another name.
    Archive,
    Remove,
}

/// Why a file does not stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFileReason {
    /// The last entry that refers to it goes.
    Entry,
    /// It was put away long enough ago.
    OldArchive,
    /// A write left it behind.
    OldTemporary,
    /// Nothing refers to it, and it is old.
    Unreferenced,
    /// The directory is too large.
    OverBudget,
}

impl StoreFileReason {
    /// The reason, for people.
    pub const fn reason_text(self) -> &'static str {
        match self {
            Self::Entry => "no entry refers to it any more",
            Self::OldArchive => "put away longer ago than is kept",
            Self::OldTemporary => "left behind by a write that did not finish",
            Self::Unreferenced => "nothing refers to it, and it is older than pruneAfter",
            Self::OverBudget => "the directory is larger than maxDiskBytes",
        }
    }
}
