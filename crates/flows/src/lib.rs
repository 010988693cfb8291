//! The journeys of ostler, without a terminal: they return data, print nothing and never exit.

pub mod address;
pub mod badge;
pub mod bundle;
pub mod caller;
pub mod control;
mod control_notes;
pub mod converse;
pub mod daemon;
pub mod disk_use;
pub mod doctor;
pub mod events;
pub mod finalize;
pub mod fleet_orders;
pub mod fuses;
pub mod gc;
mod git;
pub mod groups;
pub mod hook;
pub mod hooks;
pub mod launches;
pub mod live;
pub mod locks;
pub mod markdown;
pub mod metrics;
pub mod notify;
pub mod observe;
pub mod openclaw_store;
pub mod pages;
pub mod permit_channel;
mod permit_files;
mod permit_server;
pub mod permits;
pub mod pins;
pub mod process_list;
pub mod redact;
pub mod repository;
pub mod resume;
pub mod search;
pub mod service;
pub mod setup;
pub mod stop;
pub mod terminal;
mod timeouts;
pub mod tracks;
pub mod usage;
pub mod vault;
pub mod webhooks;
pub mod work;
pub mod worktrees;
pub mod writer;

pub use adapters::{McpClientSettings, McpSettingsShape};

/// The ids of every adapter, in the order people see them.
pub fn adapter_ids() -> impl Iterator<Item = &'static str> {
    adapters::ALL_ADAPTERS.iter().map(|adapter| adapter.agent_profile().id)
}

/// Whether sessions can be of that agent: an adapter's id, or `terminal`.
pub fn is_agent(id: &str) -> bool {
    is_adapter(id) || id == terminal::sight::TERMINAL_AGENT
}

/// The agents that can be told of an MCP server, and how.
pub fn mcp_clients() -> impl Iterator<Item = (&'static str, McpClientSettings)> {
    let known = |adapter: &&'static dyn adapters::Adapter| {
        Some((adapter.agent_profile().id, adapter.mcp_client()?))
    };
    adapters::ALL_ADAPTERS.iter().filter_map(known)
}

/// Whether there is an adapter of that id.
pub fn is_adapter(id: &str) -> bool {
    adapters::by_id(id).is_some()
}

/// The agent that people mean by a word: its id, its program's name, or its own name in any spelling.
pub fn agent_named(word: &str) -> Option<&'static str> {
    let plain = |text: &str| text.to_lowercase().replace([' ', '_'], "-");
    let word = plain(word);
    let profiles = || adapters::ALL_ADAPTERS.iter().map(|adapter| adapter.agent_profile());
    let by_id = profiles().find(|profile| profile.id == word);
    let known = by_id
        .or_else(|| profiles().find(|profile| profile.program.names.contains(&word.as_str())))
        .or_else(|| profiles().find(|profile| plain(profile.name) == word));
    let stem = word.strip_suffix("-cli").unwrap_or(&word);
    let initials = |name: &str| -> String {
        name.split(' ')
            .filter_map(|part| part.chars().next())
            .flat_map(char::to_lowercase)
            .collect()
    };
    // As people say `cc`; of several with the same initials the one that people see first.
    let by_initials =
        || profiles().find(|profile| word.len() > 1 && initials(profile.name) == word);
    let short = || profiles().find(|profile| profile.id == stem).or_else(by_initials);
    known.or_else(short).map(|profile| profile.id)
}
