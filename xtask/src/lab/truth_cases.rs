//! What is typed into each agent for the moments of the truth table.

/// How one agent is brought into the moments that `lab --truth` asks about.
#[derive(Debug)]
pub(crate) struct TruthCase {
    pub(crate) agent: &'static str,
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

const COMMON: TruthCase = TruthCase {
    agent: "",
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
        ..COMMON
    },
    TruthCase {
        agent: "kimi",
        anew: "/clear",
        resume: ("/sessions", &["\x1b[B", "\r"]),
        question: Some("Runthiscommand?"),
        ..COMMON
    },
    TruthCase { agent: "copilot", anew: "/clear", ..COMMON },
];
