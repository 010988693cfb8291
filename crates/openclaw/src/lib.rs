//! OpenClaw's own things: its configuration, its gateway, its agents.
//!
//! They belong to OpenClaw. What cannot be read is an error and never a default, and nothing is
//! written while its gateway runs, or may run.

pub mod agents;
pub mod config;
mod document;
pub mod gateway;
pub mod locks;
pub mod rules;
pub mod store;
mod timeouts;
pub mod wire;
