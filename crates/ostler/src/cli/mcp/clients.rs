//! How agents are told of an MCP server: the lines for each agent's own settings. Printed, never written.

use serde_json::json;

/// The shape of an agent's settings.
#[derive(Clone, Copy, Debug)]
enum SettingsShape {
    /// `{"mcpServers": {"ostler": {"command", "args"}}}`
    McpServers,
    /// The same with a `type`, and the tools that may be used.
    TypedMcpServers(&'static str),
    /// `[mcp_servers.ostler]` in TOML.
    TomlTable,
    /// `{"mcp": {"ostler": {"type": "local", "command": […]}}}`
    LocalCommand,
    /// `{"mcp": {"ostler": {"type": "stdio", "command", "args"}}}`
    StdioCommand,
    /// `{"amp.mcpServers": {"ostler": {"command", "args"}}}`
    AmpServers,
}

/// One agent that speaks MCP, and where its settings are.
struct McpClient {
    agent: &'static str,
    file: &'static str,
    shape: SettingsShape,
}

const CLIENTS: &[McpClient] = &[
    McpClient {
        agent: "claude-code",
        file: ".mcp.json of the project, or `claude mcp add-json`",
        shape: SettingsShape::McpServers,
    },
    McpClient { agent: "codex", file: "~/.codex/config.toml", shape: SettingsShape::TomlTable },
    McpClient { agent: "opencode", file: "opencode.json", shape: SettingsShape::LocalCommand },
    McpClient {
        agent: "kilo",
        file: "~/.config/kilo/opencode.json",
        shape: SettingsShape::LocalCommand,
    },
    McpClient {
        agent: "gemini",
        file: "~/.gemini/settings.json",
        shape: SettingsShape::McpServers,
    },
    McpClient { agent: "qwen", file: "~/.qwen/settings.json", shape: SettingsShape::McpServers },
    McpClient {
        agent: "copilot",
        file: "~/.copilot/mcp-config.json",
        shape: SettingsShape::TypedMcpServers("local"),
    },
    McpClient { agent: "cursor", file: "~/.cursor/mcp.json", shape: SettingsShape::McpServers },
    McpClient {
        agent: "droid",
        file: "~/.factory/mcp.json",
        shape: SettingsShape::TypedMcpServers("stdio"),
    },
    McpClient { agent: "kimi", file: "~/.kimi/mcp.json", shape: SettingsShape::McpServers },
    McpClient { agent: "crush", file: "crush.json", shape: SettingsShape::StdioCommand },
    McpClient {
        agent: "amp",
        file: "~/.config/amp/settings.json",
        shape: SettingsShape::AmpServers,
    },
];

/// The agents that can be configured.
pub(crate) fn client_agents() -> impl Iterator<Item = &'static str> {
    CLIENTS.iter().map(|client| client.agent)
}

/// Where an agent's settings are and what goes into them, if it speaks MCP.
pub(crate) fn client_settings(agent: &str, arguments: &[String]) -> Option<(&'static str, String)> {
    let client = CLIENTS.iter().find(|client| client.agent == agent)?;
    let words: Vec<&str> =
        ["mcp"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    let plain = json!({ "command": "ostler", "args": words });
    let typed =
        |kind: &str| json!({ "type": kind, "command": "ostler", "args": words, "tools": ["*"] });
    let document = match client.shape {
        SettingsShape::McpServers => json!({ "mcpServers": { "ostler": plain } }),
        SettingsShape::TypedMcpServers(kind) => json!({ "mcpServers": { "ostler": typed(kind) } }),
        SettingsShape::AmpServers => json!({ "amp.mcpServers": { "ostler": plain } }),
        SettingsShape::LocalCommand => {
            let command: Vec<&str> = ["ostler"].into_iter().chain(words.iter().copied()).collect();
            json!({ "mcp": { "ostler": { "type": "local", "command": command, "enabled": true } } })
        }
        SettingsShape::StdioCommand => {
            json!({ "mcp": { "ostler": { "type": "stdio", "command": "ostler", "args": words } } })
        }
        SettingsShape::TomlTable => {
            let words = serde_json::Value::from(words);
            return Some((
                client.file,
                format!("[mcp_servers.ostler]\ncommand = \"ostler\"\nargs = {words}\n"),
            ));
        }
    };
    Some((client.file, format!("{document:#}\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_is_an_agent_and_its_lines_can_be_parsed() {
        for agent in client_agents() {
            assert!(flows::is_adapter(agent), "{agent}");
            let (_, lines) = client_settings(agent, &["--allow".into(), "prompt".into()]).unwrap();
            assert!(lines.contains("ostler") && lines.contains("--allow"), "{lines}");
            let as_json = serde_json::from_str::<serde_json::Value>(&lines).is_ok();
            assert!(as_json || toml::from_str::<toml::Table>(&lines).is_ok(), "{lines}");
        }
        assert!(client_settings("aider", &[]).is_none());
    }
}
