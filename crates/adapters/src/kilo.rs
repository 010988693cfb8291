//! Kilo Code: a fork of OpenCode that keeps its schema in a database of its own.
//!
//! `kilo.db` has OpenCode's tables and a few more (`kilo_board…`), which say nothing about a session.
//! Like OpenCode it registers no process. What it shows while it makes a snapshot is a synthetic part
//! that it takes away again.

use std::path::PathBuf;

use model::conversation::ConversationEntry;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::TranscriptDigest;

use crate::files::ReadError;
use crate::opencode::{self, OpenCode};
use crate::{Adapter, AgentProfile, EnvLookup, Opening, Survey, TranscriptSource};

#[derive(Debug)]
pub(crate) struct Kilo;

static KILO_PROFILE: AgentProfile = AgentProfile {
    id: "kilo",
    name: "Kilo Code",
    version: 1,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["kilo", "kilocode", ".kilo"],
        packages: &["@kilocode/cli", "@kilocode/cli-linux-x64"],
        servers: &["serve", "acp", "daemon"],
        helpers: &[
            "agent",
            "attach",
            "auth",
            "cloud",
            "completion",
            "config",
            "console",
            "db",
            "debug",
            "export",
            "github",
            "help",
            "import",
            "mcp",
            "models",
            "plugin",
            "pr",
            "profile",
            "providers",
            "remote",
            "roll-call",
            "session",
            "stats",
            "uninstall",
            "upgrade",
            "worktree",
        ],
    },
    resume_options: &["--session", "-s"],
    continue_options: &["--continue", "-c"],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: None,
    note: "the database of 7.7.7; its plug-ins are not used for hooks",
};

impl Adapter for Kilo {
    fn agent_profile(&self) -> &'static AgentProfile {
        &KILO_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.config/kilo/opencode.json",
            shape: crate::McpSettingsShape::LocalCommand,
        })
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        env.xdg_data().map(|data| data.join("kilo")).into_iter().collect()
    }

    fn survey_root(&self, survey: &mut Survey) {
        opencode::survey_databases(survey, "kilo");
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        OpenCode.read_digest(source)
    }

    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        OpenCode.read_conversation(source, from, say)
    }
}
