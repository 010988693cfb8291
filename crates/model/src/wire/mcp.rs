//! The result of `mcp --print-config`.

use schemars::JsonSchema;
use serde::Serialize;

/// How an agent is told of the MCP server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct McpConfigResult {
    /// The adapter id.
    pub agent: String,
    /// Where the lines belong.
    pub file: &'static str,
    /// The lines.
    pub lines: String,
}
