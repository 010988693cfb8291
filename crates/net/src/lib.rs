//! What speaks to other machines: webhooks and the fleet.
//!
//! A program of its own, `ostler-net`, started by `ostler` and its daemon as git starts its helpers. It
//! never opens the database: what it knows of this machine it asks the daemon for, over its Unix socket,
//! and what changes something here goes through the daemon's writer.

pub mod daemon_client;
pub mod helper;
pub mod http;
pub mod webhook;
