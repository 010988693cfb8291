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
        McpSettingsShape::NestedServers => json!({ "mcp": { "servers": { "ostler": plain } } }),
        // A list in JSON is one in TOML and in YAML, too.
        shape => return Some((client.file, text_settings(shape, &json!(words).to_string()))),
    };
    Some((client.file, format!("{document:#}\n")))
}

/// The lines of settings that are no JSON; `words` is a list of the arguments.
fn text_settings(shape: McpSettingsShape, words: &str) -> String {
    match shape {
        McpSettingsShape::TomlList => format!(
            "[[mcp_servers]]\nname = \"ostler\"\ntransport = \"stdio\"\ncommand = \"ostler\"\nargs = {words}\n"
        ),
        McpSettingsShape::YamlMap => {
            format!("mcp_servers:\n  ostler:\n    command: ostler\n    args: {words}\n")
        }
        McpSettingsShape::YamlList => {
            format!("mcpServers:\n  - name: ostler\n    command: ostler\n    args: {words}\n")
        }
        McpSettingsShape::GooseExtension => format!(
            "extensions:\n  ostler:\n    name: ostler\n    type: stdio\n    enabled: true\n    cmd: ostler\n    \
             args: {words}\n    timeout: 300\n"
        ),
        _ => format!("[mcp_servers.ostler]\ncommand = \"ostler\"\nargs = {words}\n"),
    }
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
            let (file, _) = client_settings(agent, &[]).unwrap();
            let is_read = match file.rsplit('.').next() {
                Some("toml") => toml::from_str::<toml::Table>(&lines).is_ok(),
                // There is no parser of YAML here: real agents read these in the lab.
                Some("yaml") => lines.contains("\n    args: [\"mcp\",\"--allow\",\"prompt\"]\n"),
                _ => serde_json::from_str::<serde_json::Value>(&lines).is_ok(),
            };
            assert!(is_read, "{agent}: {lines}");
        }
        assert!(client_settings("aider", &[]).is_none());
    }
}
