//! OpenClaw's own rules, as pure functions: what its ids, keys and locks mean.

pub mod agent;
pub mod lock;
