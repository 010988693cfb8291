//! OpenClaw's session stores: an index file (`sessions.json`) and transcripts beside it.
//!
//! Everything here is a pure function over bytes and facts that somebody else gathered: what a key
//! means ([`key`]), what the names of files mean ([`file`]), how the index is read without losing a
//! byte ([`document`]), which policy holds ([`policy`]), and what would go and why ([`maintain`]).

pub mod amount;
pub mod document;
pub mod file;
pub mod key;
pub mod maintain;
pub mod policy;
pub mod wire;
