//! What speaks to other machines: webhooks and the fleet.
//!
//! A program of its own, `ostler-net`, started by `ostler` and its daemon as git starts its helpers. It
//! never opens the database: what it knows of this machine it asks the daemon for, over its Unix socket,
//! and what changes something here goes through the daemon's writer.

mod answer_parts;
pub mod daemon_client;
pub mod departure;
pub mod engine;
pub mod failure;
pub mod fleet;
pub mod fleet_doctor;
pub mod fleet_files;
pub mod fleet_follow;
pub mod fleet_watch;
pub mod helper;
pub mod helper_input;
pub mod http;
pub mod hub;
pub mod hub_certificate;
mod hub_lock;
pub mod hub_setup;
pub mod inventory;
pub mod lease;
pub mod link;
mod machine_look;
pub mod membership;
pub mod merge;
pub mod nats;
mod operators_seen;
pub mod order;
pub mod order_desk;
mod published_pages;
pub mod record;
pub mod seal;
pub mod ssh;
mod ssh_target;
pub mod terminal_stream;
pub mod terminal_view;
mod timeouts;
pub mod webhook;
