//! The event log of a session: `events.jsonl`, appended to by its host, read by everybody.
//!
//! One JSON object per line, numbered from 0 without gaps. The bytes that a program wrote are kept
//! exactly: as text where they are text, and beside that in base64 where they are not. Nothing of it
//! is ever held in memory but the line at hand.

mod chain;
mod escape;
mod reader;
mod writer;

pub use chain::{ChainReport, verify_chain};
pub use reader::{LogProblem, LogReader, last_event, repair_log};
pub use writer::LogWriter;

/// The name of the log in a session's directory.
pub const LOG_FILE: &str = "events.jsonl";

/// The name of the chain of hashes in a session's directory.
pub const CHAIN_FILE: &str = "chain.jsonl";
