//! Hosted terminals: what is written on disk and said over the socket.
//!
//! The layout is agent-tty's, so that its programs and files work unchanged; what ostler adds is in
//! optional fields and in files of its own.

mod event;
mod fault;
mod manifest;
pub mod protocol;
mod settle;
pub mod stream;
pub mod wire;

pub use event::{EXIT_CODE_OF_A_SIGNAL, LogEvent, LogFact, LogPayload};
pub use fault::{FaultCode, HostFault};
pub use manifest::{FailureOrigin, ProgramExit, SessionManifest, TerminationCategory};
pub use settle::{SettledStatus, settle_status};
