//! Facts, rules and wire types.
//!
//! Nothing here does I/O, reads a clock or looks at the environment: `now` and the observer are
//! arguments. That is what makes every decision of ostler a pure function that can be tested by
//! enumeration. All policy is in [`status`], [`liveness`] and [`rules`].

pub mod address;
pub mod config;
pub mod control;
pub mod conversation;
pub mod edit;
pub mod event;
pub mod failure;
pub mod filter;
pub mod helper;
pub mod hex;
pub mod hosted;
pub mod identity;
pub mod json_text;
pub mod launch;
pub mod liveness;
pub mod metrics;
pub mod page;
pub mod plan;
pub mod program;
pub mod refusal;
pub mod rules;
pub mod session;
pub mod sighting;
pub mod status;
pub mod summary;
pub mod time;
pub mod usage;
pub mod webhook;
pub mod wire;

pub use wire::fleet_order;
