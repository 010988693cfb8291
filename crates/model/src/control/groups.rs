//! Launch groups: a label for agents that were started together, and the worktree that each of them was given.
//!
//! A group has no life of its own. A member is over when the process that it was started as is proven to be gone;
//! until then, and whenever that is not known, its worktree stays locked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::wire::LaunchResult;
use crate::identity::Identity;
use crate::time::Time;
use crate::wire::IncompleteSource;

/// The variable that names a member to the agent that was started for it. The terminal's manifest keeps it, so that
/// an agent whose launcher was killed before it could write anything down is found again.
pub const SLOT_VARIABLE: &str = "OSTLER_SLOT";

/// The longest name of a group or a slot.
const MAX_LABEL_BYTES: usize = 64;

/// A worktree that was made for a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotWorktree {
    /// Where it is.
    pub path: String,
    /// The branch that was made for it.
    pub branch: String,
    /// Where git keeps what all worktrees of the repository share.
    pub repository: String,
    /// The commit that it began with.
    pub base: String,
}

/// How far a member has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SlotState {
    /// Its place is taken; nothing is started yet.
    Planned,
    /// Its agent was started.
    Started,
    /// Its worktree or its agent could not be had.
    Failed,
}

/// One member of a group, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupMember {
    /// What names this very member: a ULID.
    pub id: String,
    /// The group; none for a worktree of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its name in the group.
    pub slot: String,
    /// The adapter's id.
    pub agent: String,
    /// The model that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<SlotWorktree>,
    /// The terminal that its agent runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// Its conversation, as far as it was known when it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Who starts it.
    pub launcher: Identity,
    /// What was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Identity>,
    /// How far it has come.
    pub state: SlotState,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When its place was taken.
    pub made_at: Time,
}

impl GroupMember {
    /// The process whose end is the member's end: what was started, and before that the process that starts it. None of
    /// one that failed before there was any.
    pub fn deciding_process(&self) -> Option<&Identity> {
        match (&self.process, self.state) {
            (Some(process), _) => Some(process),
            (None, SlotState::Failed) => None,
            (None, _) => Some(&self.launcher),
        }
    }

    /// `group/slot`, or the slot alone.
    pub fn full_name(&self) -> String {
        match &self.group {
            Some(group) => format!("{group}/{}", self.slot),
            None => self.slot.clone(),
        }
    }

    /// What git is told about the lock of its worktree. The id tells it from another lock.
    pub fn lock_reason(&self) -> String {
        format!("ostler: {} ({})", self.full_name(), self.id)
    }
}

/// Whether a text can name a group or a slot: it becomes part of a branch and of a path. Says what is wrong.
pub fn check_label(text: &str) -> Result<(), String> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "._-".contains(one);
    let wrong = if text.is_empty() {
        "a name must not be empty"
    } else if text.len() > MAX_LABEL_BYTES {
        "a name has at most 64 letters"
    } else if !text.chars().all(is_plain) {
        "a name has letters, digits, `.`, `_` and `-` only"
    } else if !text.starts_with(|one: char| one.is_ascii_alphanumeric()) {
        "a name begins with a letter or a digit"
    } else if text.contains("..") || text.ends_with('.') || text.ends_with(".lock") {
        "git takes no name with `..`, and none that ends in `.` or `.lock`"
    } else {
        return Ok(());
    };
    Err(wrong.to_owned())
}

/// What a slot is called by default: its agent, and the model if one is asked for.
pub fn usual_slot_name(agent: &str, model: Option<&str>) -> String {
    let Some(model) = model else { return agent.to_owned() };
    let plain: String =
        model.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' }).collect();
    let mut name = format!("{agent}-{}", plain.trim_matches('-'));
    name.truncate(MAX_LABEL_BYTES);
    name
}

/// The result of `launch` with `--group` or `--matrix`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupLaunchResult {
    pub group: String,
    /// The commit that every worktree began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Whether there were changes that are not committed, and so in no worktree.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub uncommitted: bool,
    /// One for each agent.
    pub slots: Vec<GroupSlotResult>,
    /// Whether nothing was made or started: this is what would be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// What could not be noted or read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<IncompleteSource>,
}

/// What became of one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupSlotResult {
    pub slot: String,
    /// The adapter's id.
    pub agent: String,
    /// The worktree that was made for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// The branch of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Its agent, as far as that was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch: Option<Box<LaunchResult>>,
    /// Why it failed; the others went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<SlotFailure>,
    /// Files that `.worktreeinclude` names and that were not copied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedInclude>,
}

/// Why a slot failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlotFailure {
    /// The code that a launch of its own would have ended with.
    pub code: String,
    pub message: String,
}

/// A file that was not copied into a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkippedInclude {
    /// Where it is in the repository.
    pub path: String,
    /// Why it was left out.
    pub reason: String,
}

/// The result of `groups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupsResult {
    /// Every member, the newest first.
    pub members: Vec<GroupMemberView>,
}

/// A member as programs see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupMemberView {
    /// The group; none for a worktree of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its name in the group.
    pub slot: String,
    /// The adapter's id.
    pub agent: String,
    /// The model that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How far it came.
    pub state: SlotState,
    /// `alive`, `dead` or `unknown`, of the process that it was started as.
    pub liveness: &'static str,
    /// Where its worktree is, or was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// Whether that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_present: Option<bool>,
    /// The branch of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that it began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The terminal that its agent runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// Its conversation, as far as it was known when it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When its place was taken.
    pub made_at: Time,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_become_branches_and_paths() {
        for good in ["fix", "claude-opus-4.5", "0_a"] {
            assert_eq!(check_label(good), Ok(()), "{good}");
        }
        let long = "a".repeat(65);
        let bad = ["", "a/b", "..", "a..b", ".a", "-a", "a.", "a.lock", "a b", "é", "a\n", &long];
        for bad in bad {
            assert!(check_label(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            usual_slot_name("claude-code", Some("z-ai/glm:4.5")),
            "claude-code-z-ai-glm-4-5"
        );
    }

    proptest! {
        #[test]
        fn the_usual_name_of_a_model_is_a_name(model in "\\PC{0,80}") {
            let name = usual_slot_name("codex", Some(&model));
            prop_assert!(check_label(&name).is_ok(), "{}", name);
        }

        #[test]
        fn a_name_never_leaves_its_directory(text in "\\PC{0,12}") {
            if check_label(&text).is_ok() {
                let path = std::path::Path::new(&text);
                prop_assert_eq!(path.components().count(), 1);
                prop_assert!(matches!(path.components().next(), Some(std::path::Component::Normal(_))));
            }
        }
    }
}
