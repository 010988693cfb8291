//! The journeys of ostler, without a terminal: they return data, print nothing and never exit.

pub mod address;
pub mod bundle;
pub mod converse;
pub mod daemon;
pub mod disk_use;
pub mod doctor;
pub mod events;
pub mod finalize;
pub mod gc;
pub mod hook;
pub mod hooks;
pub mod intake;
pub mod launches;
pub mod observe;
pub mod openclaw_store;
pub mod pins;
pub mod redact;
pub mod terminal;
pub mod vault;
pub mod work;

pub use adapters::EnvLookup;

/// The ids of every adapter, in the order people see them.
pub fn adapter_ids() -> impl Iterator<Item = &'static str> {
    adapters::ALL_ADAPTERS.iter().map(|adapter| adapter.agent_profile().id)
}

/// Whether sessions can be of that agent: an adapter's id, or `terminal`.
pub fn is_agent(id: &str) -> bool {
    is_adapter(id) || id == terminal::sight::TERMINAL_AGENT
}

/// Whether there is an adapter of that id.
pub fn is_adapter(id: &str) -> bool {
    adapters::by_id(id).is_some()
}
