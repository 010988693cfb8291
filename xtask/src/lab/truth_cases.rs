//! What is typed into each agent for the moments of the truth table.

use super::control_table::ask_before_shell;
use super::stage::Stage;

/// How one agent is brought into the moments that `lab --truth` asks about.
#[derive(Debug)]
pub(crate) struct TruthCase {
    pub(crate) agent: &'static str,
    /// How it is started, if not as elsewhere in the lab.
    pub(crate) command: Option<&'static [&'static str]>,
    /// What is written before its first run, beside what the lab writes.
    pub(crate) prepare: fn(&Stage) -> Result<(), String>,
    /// Begins another conversation in the same window.
    pub(crate) anew: &'static str,
    /// Opens the list of conversations, then the keys that choose the one before.
    pub(crate) resume: (&'static str, &'static [&'static str]),
    /// Shortens the conversation.
    pub(crate) compact: &'static str,
    /// The keys that interrupt a turn.
    pub(crate) interrupt: &'static [&'static str],
    /// What a sub-agent is started with, where there are any.
    pub(crate) helper: Option<&'static str>,
    /// Words of its question for permission, blanks left out.
    pub(crate) question: Option<&'static str>,
    /// How the model makes it ask, if not by its plain shell tool.
    pub(crate) asking: &'static str,
    /// Which of its sessions a window has open is written down by the agent, or concluded.
    pub(crate) registers: bool,
}

/// The same for most.
pub(crate) const COMMON: TruthCase = TruthCase {
    agent: "",
    command: None,
    prepare: |_| Ok(()),
    anew: "/new",
    resume: ("/resume", &["\x1b[B", "\r"]),
    compact: "/compact",
    interrupt: &["\x1b"],
    helper: None,
    question: None,
    asking: "[[tool:touch made-by-truth]]",
    registers: false,
};

/// The case of an agent, if it has one.
pub(crate) fn case_of(agent: &str) -> Option<&'static TruthCase> {
    CASES.iter().find(|case| case.agent == agent)
}

const CASES: &[TruthCase] = &[
    TruthCase {
        agent: "claude-code",
        anew: "/clear",
        resume: ("/resume", &["\r"]),
        helper: Some(
            "{\"description\":\"look\",\"prompt\":\"say done\",\"subagent_type\":\"general-purpose\"}",
        ),
        question: Some("Doyouwantto"),
        registers: true,
        ..COMMON
    },
    TruthCase {
        agent: "codex",
        resume: ("/resume", &["\x1b[B", "\r"]),
        question: Some("Wouldyouliketorun"),
        asking: "[[call:exec_command:{\"cmd\":\"touch made-by-truth\",\"sandbox_permissions\":\"require_escalated\",\"justification\":\"lab\"}]]",
        registers: true,
        ..COMMON
    },
    TruthCase {
        agent: "gemini",
        anew: "/clear",
        compact: "/compress",
        question: Some("Allowexecution"),
        ..COMMON
    },
    TruthCase {
        agent: "qwen",
        anew: "/clear",
        compact: "/compress",
        question: Some("Allowexecution"),
        registers: true,
        ..COMMON
    },
    TruthCase { agent: "pi", ..COMMON },
    TruthCase {
        agent: "opencode",
        resume: ("/sessions", &["\x1b[B", "\r"]),
        interrupt: &["\x1b", "\x1b"],
        prepare: |stage| ask_before_shell(stage, ".config/opencode/opencode.json"),
        helper: Some(
            "{\"description\":\"look\",\"prompt\":\"say done\",\"subagent_type\":\"general\"}",
        ),
        question: Some("Permissionrequired"),
        ..COMMON
    },
    TruthCase {
        agent: "kilo",
        resume: ("/sessions", &["\x1b[B", "\r"]),
        interrupt: &["\x1b", "\x1b"],
        prepare: |stage| ask_before_shell(stage, ".config/kilo/kilo.json"),
        helper: Some(
            "{\"description\":\"look\",\"prompt\":\"say done\",\"subagent_type\":\"general\"}",
        ),
        question: Some("Permissionrequired"),
        ..COMMON
    },
    TruthCase {
        agent: "kimi",
        anew: "/clear",
        resume: ("/sessions", &["\x1b[B", "\r"]),
        question: Some("Runthiscommand?"),
        ..COMMON
    },
    TruthCase {
        agent: "copilot",
        command: Some(&["copilot"]),
        anew: "/clear",
        question: Some("Doyouwanttorun"),
        interrupt: &["\x1b", "\x1b"],
        ..COMMON
    },
];
