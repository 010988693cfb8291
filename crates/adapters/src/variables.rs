//! The variables by which agents tell their tools which session they work for.

/// What agents name their session by in the environment of the tools that they run, agent by agent. The
/// agents' own processes do not have it, so that it says nothing about these.
pub const TOOL_SESSION_VARIABLES: &[(&str, &str)] = &[
    ("claude-code", "CLAUDE_CODE_SESSION_ID"),
    ("codex", "CODEX_THREAD_ID"),
    ("codex", "CODEX_SESSION_ID"),
    ("copilot", "COPILOT_AGENT_SESSION_ID"),
    ("qwen", "QWEN_CODE_SESSION_ID"),
];
