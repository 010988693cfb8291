//! One hosted terminal: a pseudo-terminal, its event log, its screen and one private socket.
//!
//! A host is a process of its own, one per session, and the session's whole blast radius. It never
//! opens the database, starts no runtime, and sleeps in one `poll` whenever nothing happens.
#![forbid(unsafe_code)]

pub mod artifacts;
pub mod client;
pub mod files;
pub mod log;
pub mod picture;
pub mod replay;
pub mod server;
pub mod snapshot;
mod timeouts;

pub use model::hosted::stream;
pub use screen;

/// What a person would read of a terminal's output, without replaying it.
pub fn plain_text(output: &[u8]) -> String {
    String::from_utf8_lossy(&server::plain::strip_sequences(output)).into_owned()
}
