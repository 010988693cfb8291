//! OpenClaw's own rules, as pure functions over bytes and facts gathered elsewhere.
//!
//! What its ids, keys and locks mean ([`agent`], [`key`], [`lock`]), what the names of its files mean
//! (`file`), how the index of a store is read without losing a byte ([`document`]), which policy holds
//! ([`policy`]), and what would go from a store and why ([`maintain`]).

pub mod agent;
pub mod amount;
pub mod document;
pub mod file;
pub mod key;
pub mod lock;
pub mod maintain;
pub mod policy;
