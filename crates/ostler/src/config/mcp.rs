//! `[mcp]`: what an MCP server may do and see.

use clap::ValueEnum;
use model::wire::ConfigSetting;
use serde::Deserialize;

/// What may be granted to a server beyond looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpRight {
    /// Make terminals of its own, and drive those.
    Terminals,
    /// Send prompts to other sessions, with a receipt.
    Prompt,
}

/// What a server was configured with.
#[derive(Clone, Debug)]
pub(crate) struct McpServerSettings {
    pub(crate) rights: Vec<McpRight>,
    /// Every session of this user, instead of the project's.
    pub(crate) sees_everything: bool,
    /// How many terminals of one client may be alive.
    pub(crate) most_terminals: usize,
    /// How deep agents may start agents.
    pub(crate) most_depth: u32,
}

/// The table as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct McpTable {
    allow: Option<Vec<String>>,
    scope: Option<String>,
    terminals: Option<usize>,
    depth: Option<u32>,
}

/// How many terminals of one client may be alive, unless the settings say.
const DEFAULT_TERMINALS: usize = 8;

/// How deep agents may start agents, unless the settings say.
const DEFAULT_DEPTH: u32 = 2;

/// Reads the table, and where each setting comes from.
pub(super) fn read_mcp_settings(
    table: McpTable,
    file: &str,
) -> Result<(McpServerSettings, Vec<ConfigSetting>), String> {
    let words = table.allow.clone().unwrap_or_default();
    let right = |word: &String| {
        McpRight::from_str(word, false)
            .map_err(|_| format!("`mcp.allow` has {word:?}; there are: terminals, prompt"))
    };
    let rights = words.iter().map(right).collect::<Result<Vec<_>, _>>()?;
    let scope = table.scope.as_deref().unwrap_or("project");
    let sees_everything = match scope {
        "project" => false,
        "all" => true,
        other => return Err(format!("`mcp.scope = {other:?}` is neither \"project\" nor \"all\"")),
    };
    let settings = McpServerSettings {
        rights,
        sees_everything,
        most_terminals: table.terminals.unwrap_or(DEFAULT_TERMINALS),
        most_depth: table.depth.unwrap_or(DEFAULT_DEPTH),
    };
    let origin = |is_set: bool| if is_set { file } else { "default" }.to_owned();
    let told = vec![
        ConfigSetting {
            key: "mcp.allow",
            value: format!("{words:?}"),
            origin: origin(table.allow.is_some()),
        },
        ConfigSetting {
            key: "mcp.scope",
            value: scope.to_owned(),
            origin: origin(table.scope.is_some()),
        },
        ConfigSetting {
            key: "mcp.terminals",
            value: settings.most_terminals.to_string(),
            origin: origin(table.terminals.is_some()),
        },
        ConfigSetting {
            key: "mcp.depth",
            value: settings.most_depth.to_string(),
            origin: origin(table.depth.is_some()),
        },
    ];
    Ok((settings, told))
}
