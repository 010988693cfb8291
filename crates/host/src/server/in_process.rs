//! A host inside the calling process, one turn at a time: for tests that throw bytes at its socket and look
//! what becomes of it.

use std::time::Instant;

use model::hosted::HostFault;

use super::host::Host;
use super::start::{self, StartRequest};

/// A host that does nothing by itself.
#[derive(Debug)]
pub struct InProcessHost(Host);

impl InProcessHost {
    /// Starts the session.
    pub fn start(request: StartRequest) -> Result<Self, HostFault> {
        start::start_host(request, sys::clock::now()).map(Self)
    }

    /// Deals with all that has happened; says whether anything had.
    pub fn turn(&mut self) -> bool {
        self.0.turn(Some(Instant::now()))
    }

    /// Whether the session is over.
    pub const fn is_over(&self) -> bool {
        self.0.over
    }
}
