//! How an agent is told of an MCP server: where its settings are, and their shape.

/// Where and how an agent's settings name MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpClientSettings {
    /// The file, for people.
    pub file: &'static str,
    /// What is written into it.
    pub shape: McpSettingsShape,
}

/// The shape of an agent's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpSettingsShape {
    /// `{"mcpServers": {"name": {"command", "args"}}}`
    McpServers,
    /// The same with a `type`, and the tools that may be used.
    TypedMcpServers(&'static str),
    /// `[mcp_servers.name]` in TOML.
    TomlTable,
    /// `{"mcp": {"name": {"type": "local", "command": […]}}}`
    LocalCommand,
    /// `{"mcp": {"name": {"type": "stdio", "command", "args"}}}`
    StdioCommand,
    /// `{"amp.mcpServers": {"name": {"command", "args"}}}`
    AmpServers,
    /// `{"mcp": {"servers": {"name": {"command", "args"}}}}`
    NestedServers,
    /// `[[mcp_servers]]` in TOML, with a name and a transport.
    TomlList,
    /// `mcp_servers:` in YAML, by name.
    YamlMap,
    /// `mcpServers:` in YAML, a list with names.
    YamlList,
    /// `extensions:` in YAML, by name, with a type.
    GooseExtension,
}
