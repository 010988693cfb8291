//! `wait` requests: conditions and results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hosted::protocol::HostDialect;
use crate::status::Activity;

/// What to wait for, apart from the screen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitParams {
    /// The program's end.
    #[serde(default)]
    pub exit: bool,
    /// No output for that long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// How long to wait; 0 is for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// What to wait for on the screen: all conditions at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RenderParams {
    /// Text that is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A pattern that matches what is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Text that is not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<String>,
    /// Any other screen than this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_since: Option<String>,
    /// The text stays the same for that long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen_stable_ms: Option<u64>,
    /// The cursor's row, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor_row: Option<u16>,
    /// The cursor's column, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor_col: Option<u16>,
    /// Only screens after this event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<i64>,
    /// How long to wait; 0 is for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Which of agent-tty's renderers is meant; there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renderer_name: Option<String>,
}

/// The result of `wait`, in both families.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitResult {
    /// Whether every condition was true at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<bool>,
    /// Whether the time was up.
    pub timed_out: bool,
    /// What the pattern matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched_text: Option<String>,
    /// The cursor's row, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor_row: Option<u16>,
    /// The cursor's column, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor_col: Option<u16>,
    /// The last event behind the screen; -1 before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_at_seq: Option<i64>,
    /// The screen's hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen_hash: Option<String>,
    /// How the program ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The number of the signal that ended the program; under ostler's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<String>,
    /// What was waited for, when it did not come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The screen, when the condition did not come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// The agent that was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentSeen>,
    /// Of several that were waited for, each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<AwaitedSession>,
}

/// One of several sessions that were waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AwaitedSession {
    /// The session, as it was asked for; of a group its terminal.
    pub session: String,
    /// Whether its agent does what was waited for.
    pub matched: bool,
    /// Whether it is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// Its agent, when it was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentSeen>,
}

impl WaitResult {
    /// The same, without what agent-tty's clients refuse.
    #[must_use]
    pub fn in_dialect(self, dialect: HostDialect) -> Self {
        match dialect {
            HostDialect::Ostler => self,
            HostDialect::AgentTty => Self {
                condition: None,
                screen: None,
                agent: None,
                sessions: Vec::new(),
                exit_signal: None,
                captured_at_seq: self.captured_at_seq.map(|seq| seq.max(0)),
                ..self
            },
        }
    }
}

/// An agent that runs in a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentSeen {
    /// The adapter's id.
    pub agent: String,
    /// The agent's own session id.
    pub id: String,
    /// What it was doing when it was last seen.
    pub activity: Activity,
    /// Whether that is only what an unfinished turn suggests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub derived: bool,
}
