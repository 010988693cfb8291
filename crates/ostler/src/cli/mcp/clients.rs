//! How agents are told of an MCP server: the lines for each agent's own settings. Printed, never written.

use flows::McpSettingsShape;
use serde_json::json;

/// The agents that can be configured.
pub(crate) fn client_agents() -> impl Iterator<Item = &'static str> {
    flows::mcp_clients().map(|(agent, _)| agent)
}

/// Where an agent's settings are and what goes into them, if it speaks MCP.
pub(crate) fn client_settings(agent: &str, arguments: &[String]) -> Option<(&'static str, String)> {
    let (_, client) = flows::mcp_clients().find(|(id, _)| *id == agent)?;
    let words: Vec<&str> =
        ["mcp"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    let plain = json!({ "command": "ostler", "args": words });
    let typed =
        |kind: &str| json!({ "type": kind, "command": "ostler", "args": words, "tools": ["*"] });
    let document = match client.shape {
        McpSettingsShape::McpServers => json!({ "mcpServers": { "ostler": plain } }),
        McpSettingsShape::TypedMcpServers(kind) => {
            json!({ "mcpServers": { "ostler": typed(kind) } })
        }
        McpSettingsShape::AmpServers => json!({ "amp.mcpServers": { "ostler": plain } }),
        McpSettingsShape::LocalCommand => {
            let command: Vec<&str> = ["ostler"].into_iter().chain(words.iter().copied()).collect();
            json!({ "mcp": { "ostler": { "type": "local", "command": command, "enabled": true } } })
        }
        McpSettingsShape::StdioCommand => {
            json!({ "mcp": { "ostler": { "type": "stdio", "command": "ostler", "args": words } } })
        }
        McpSettingsShape::TomlTable => {
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
