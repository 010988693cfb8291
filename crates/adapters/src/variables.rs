//! The variables that a request depends on: noted by who asks, so that whoever carries it out sees the
//! same environment.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::EnvLookup;

/// What agents name their session by in the environment of the tools that they run, agent by agent. The
/// agents' own processes do not have it, so that it says nothing about these.
pub const TOOL_SESSION_VARIABLES: &[(&str, &str)] = &[
    ("claude-code", "CLAUDE_CODE_SESSION_ID"),
    ("codex", "CODEX_THREAD_ID"),
    ("codex", "CODEX_SESSION_ID"),
    ("copilot", "COPILOT_AGENT_SESSION_ID"),
    ("qwen", "QWEN_CODE_SESSION_ID"),
];

/// Does something in an environment, and notes what was looked up in it.
pub fn record_lookups<T>(
    env: &EnvLookup<'_>,
    something: impl FnOnce(&EnvLookup<'_>) -> T,
) -> (T, BTreeMap<String, String>) {
    let asked: RefCell<BTreeMap<String, String>> = RefCell::default();
    let lookup = |name: &str| {
        let value = env.get(name)?;
        if let Some(text) = value.to_str() {
            asked.borrow_mut().insert(name.to_owned(), text.to_owned());
        }
        Some(value)
    };
    let done = something(&EnvLookup::new(&lookup));
    (done, asked.into_inner())
}
