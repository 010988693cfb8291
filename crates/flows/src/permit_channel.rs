//! How an agent is given a way to ask ostler for permissions: an argument or a variable of the one process that is
//! started, and nothing that outlives it.

use std::path::Path;
use std::time::Duration;

use adapters::control::PermissionChannel;
use model::control::permits::PermitMarker;
use model::control::refusal::DriveRefusal;
use serde_json::json;

use crate::permit_files::FilePair;
use crate::permit_server::arrange_server;
use crate::permits::permits_directory;
use crate::timeouts::{WAIT_BEFORE_DIALOG, WAIT_BESIDE_DIALOG, WAITING_HOOK_SLACK};

/// How long requests wait for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitWaits {
    /// Where the agent's own question comes only afterwards.
    pub before_dialog: Duration,
    /// Where it is open beside the request.
    pub beside_dialog: Duration,
}

impl Default for PermitWaits {
    fn default() -> Self {
        Self { before_dialog: WAIT_BEFORE_DIALOG, beside_dialog: WAIT_BESIDE_DIALOG }
    }
}

/// What is added to the start of an agent that asks ostler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermitArrangement {
    /// Arguments of the agent.
    pub arguments: Vec<String>,
    /// Variables, `KEY=VALUE`.
    pub variables: Vec<String>,
    /// Variables that are written down nowhere.
    pub secrets: Vec<(String, String)>,
    /// Files that it reads and writes.
    pub files: Option<FilePair>,
}

impl PermitArrangement {
    /// Makes what has to be there when the agent starts.
    pub fn make_files(&self) -> std::io::Result<()> {
        self.files.as_ref().map_or(Ok(()), FilePair::make)
    }
}

/// Gives one process of an agent a way to ask; `program` is ostler's own, and `home` its state.
pub fn arrange_permissions(
    agent: &str,
    program: &Path,
    home: &Path,
    waits: PermitWaits,
) -> Result<PermitArrangement, DriveRefusal> {
    let cannot = || DriveRefusal::CannotAsk { agent: agent.to_owned() };
    let control = adapters::by_id(agent).and_then(|adapter| adapter.control_table());
    let channel = control.ok_or_else(cannot)?.permission_channel;
    match channel {
        PermissionChannel::Hook => {
            let program = program.to_str().ok_or_else(cannot)?;
            let settings = hook_settings(agent, program, waits.beside_dialog);
            let arguments = vec!["--settings".to_owned(), settings];
            Ok(PermitArrangement { arguments, ..PermitArrangement::default() })
        }
        PermissionChannel::TrustedHook => {
            let marker = format!("{}s", waits.before_dialog.as_secs());
            let variable = format!("{}={marker}", PermitMarker::VARIABLE);
            Ok(PermitArrangement { variables: vec![variable], ..PermitArrangement::default() })
        }
        PermissionChannel::Server(server) => {
            let server = arrange_server(server).map_err(|_| cannot())?;
            Ok(PermitArrangement {
                arguments: server.arguments,
                variables: Vec::new(),
                secrets: vec![server.secret],
                files: None,
            })
        }
        PermissionChannel::FilePair => {
            let pair = FilePair::new_in(&permits_directory(home)).map_err(|_| cannot())?;
            let arguments = pair.arguments();
            Ok(PermitArrangement { arguments, files: Some(pair), ..PermitArrangement::default() })
        }
        _ => Err(cannot()),
    }
}

/// Settings with one hook more. It is there for the question alone: what happens is told by the hooks that the
/// user has installed, if any.
fn hook_settings(agent: &str, program: &str, wait: Duration) -> String {
    let program = crate::hooks::quote_word(program);
    let event = "PermissionRequest";
    let marker = format!("{}=only:{}s", PermitMarker::VARIABLE, wait.as_secs());
    let command = format!("{marker} {program} hook {agent} {event}");
    let seconds = (wait + WAITING_HOOK_SLACK).as_secs();
    let hook = json!({ "type": "command", "command": command, "timeout": seconds });
    json!({ "hooks": { event: [{ "matcher": "*", "hooks": [hook] }] } }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrange(agent: &str) -> Result<PermitArrangement, DriveRefusal> {
        let (program, home) = (Path::new("/opt/my tools/ostler"), Path::new("/home/ostler"));
        arrange_permissions(agent, program, home, PermitWaits::default())
    }

    #[test]
    fn claude_gets_a_hook_codex_a_marker_opencode_a_server_and_qwen_files_of_its_own() {
        let claude = arrange("claude-code").unwrap();
        assert_eq!(claude.arguments[0], "--settings");
        let settings: serde_json::Value = serde_json::from_str(&claude.arguments[1]).unwrap();
        let hook = &settings["hooks"]["PermissionRequest"][0]["hooks"][0];
        let command =
            "OSTLER_PERMITS=only:3600s '/opt/my tools/ostler' hook claude-code PermissionRequest";
        assert_eq!(hook["command"], command);
        assert_eq!(hook["timeout"], 3605);
        let codex = arrange("codex").unwrap();
        assert_eq!(codex.variables, ["OSTLER_PERMITS=60s"]);
        assert!(codex.arguments.is_empty());
        let opencode = arrange("opencode").unwrap();
        assert_eq!(opencode.arguments[0], "--port");
        assert_eq!(opencode.secrets[0].0, "OPENCODE_SERVER_PASSWORD");
        assert!(opencode.variables.is_empty(), "what is written down has no password");
        let qwen = arrange("qwen").unwrap();
        assert_eq!((&*qwen.arguments[0], &*qwen.arguments[2]), ("--input-file", "--json-file"));
        assert!(qwen.arguments[1].starts_with("/home/ostler/permits/"), "{qwen:?}");
    }

    #[test]
    fn who_cannot_ask_is_refused() {
        for agent in ["gemini", "copilot", "kimi", "aider", "nobody"] {
            let refused = arrange(agent).unwrap_err();
            assert_eq!(refused.code(), "cannot-ask", "{agent}");
        }
    }
}
