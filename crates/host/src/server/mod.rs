//! The host process: a `poll` event loop, idle while nothing happens, and a second thread that only
//! reads the terminal.
//!
//! Bytes of the program go to the log, then to the screen, then to viewers; a slow viewer or a full
//! disk never holds up the program. A client can end its own connection and nothing else.

use std::io::{Read, Write};
use std::process::ExitCode;
use sys::dropped::NoteDropped;

use model::hosted::{FaultCode, HostFault};

mod composer;
mod connection;
mod ending;
mod headless;
mod host;
mod in_process;
mod intake;
mod leftover;
mod methods;
pub(crate) mod plain;
mod ready;
mod runs;
mod start;
mod submit;
mod turn;
mod typing;
mod viewer;
mod wait;

pub use ending::is_apart;
pub use headless::{HeadlessInput, HeadlessSpec};
pub use in_process::InProcessHost;
pub use start::{HostReady, StartRequest};
pub use wait::{check_nested_quantifiers, check_offline, check_pattern};

/// The whole life of a host: reads what to do from standard input, says on standard output when it is
/// ready, and stays until the session is over. Must be called before anything is opened.
pub fn run_host() -> ExitCode {
    sys::spawn::close_inherited();
    sys::log::log_role("host");
    // Before the thread that reads the terminal. Where there is no such thing, trees are walked.
    let orphans = sys::orphans::adopt_orphans().ok_or_note("adopting orphans");
    let mut request = Vec::new();
    let started = std::io::stdin()
        .read_to_end(&mut request)
        .map_err(|error| error.to_string())
        .and_then(|_| {
            serde_json::from_slice::<StartRequest>(&request).map_err(|error| error.to_string())
        })
        .map_err(|reason| {
            HostFault::new(FaultCode::ProtocolError, format!("not a request: {reason}"))
        })
        .and_then(|request| start::start_host(request, sys::clock::now()));
    drop(request);
    let (ready, host) = match started {
        Ok(host) => (HostReady::Listening(Box::new(host.manifest.clone())), Some(host)),
        Err(fault) => (HostReady::Failed(fault), None),
    };
    // A creator that has gone away does not matter: the session is there.
    let line = serde_json::to_string(&ready).unwrap_or_default() + "\n";
    let _ = std::io::stdout().write_all(line.as_bytes()).and_then(|()| std::io::stdout().flush());
    let Some(mut host) = host else {
        tracing::warn!("no session was made");
        return ExitCode::FAILURE;
    };
    let (session, child) = (&host.manifest.session_id, host.manifest.child_pid);
    tracing::info!(
        session,
        child,
        cols = host.manifest.cols,
        rows = host.manifest.rows,
        "listening"
    );
    host.orphans = orphans;
    // Neither a pipe of the creator nor the directory it was started in is held.
    sys::spawn::silence_stdio().note_dropped("letting go of the terminal");
    std::env::set_current_dir("/").note_dropped("leaving the directory");
    host.run_until_over();
    tracing::info!("ends");
    ExitCode::SUCCESS
}
