//! The results of `ostler hooks`.

use schemars::JsonSchema;
use serde::Serialize;

/// How far ostler's hooks are in an agent's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HookState {
    /// They are there as this ostler would write them.
    Installed,
    /// They are there, but the agent does not run them until its user has agreed.
    NotTrusted,
    /// They were written by another version, or start another ostler.
    Outdated,
    /// They were changed, or some were removed.
    ForeignEdited,
    /// There are none.
    NotInstalled,
}

impl HookState {
    /// The state as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::NotTrusted => "not-trusted",
            Self::Outdated => "outdated",
            Self::ForeignEdited => "foreign-edited",
            Self::NotInstalled => "not-installed",
        }
    }
}

/// What came of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileChange {
    /// It is as it was.
    Unchanged,
    /// It was not there before.
    Created,
    /// It has another content.
    Changed,
    /// It is gone.
    Removed,
}

/// Where hooks are installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HookScope {
    /// For all of the user's work.
    #[default]
    User,
    /// For one project.
    Project,
}

/// The result of `hooks install`, `hooks uninstall` and `hooks status`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HooksResult {
    pub scope: HookScope,
    /// Whether nothing was written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    pub agents: Vec<HookAgent>,
}

/// The hooks of one agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookAgent {
    /// The adapter id.
    pub agent: String,
    /// Whether the agent was ever run here.
    pub present: bool,
    /// How far the hooks are; after a change, how far they are now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<HookState>,
    /// The files in question.
    pub files: Vec<HookFile>,
    /// What a person should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why nothing was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<HookProblem>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookFile {
    /// Where it is.
    pub path: String,
    /// What came of it, or would.
    pub change: FileChange,
    /// The file as it was before ostler's hooks, where that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// The change, line by line; only where nothing was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Why an agent's hooks were left as they are.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HookProblem {
    /// A stable code in capitals.
    pub code: &'static str,
    /// The thing and the reason.
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
