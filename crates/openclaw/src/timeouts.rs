//! Time-outs of what is asked of OpenClaw's gateway and its processes, in one place.

use std::time::Duration;

// gateway::owner
/// How long a port may take to answer.
pub(crate) const PORT_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

// gateway::processes
/// How long a process may take to begin or to end.
pub(crate) const PROCESS_SETTLE_TIMEOUT: Duration = Duration::from_secs(3);
/// How soon it is looked at again.
pub(crate) const PROCESS_POLL_INTERVAL: Duration = Duration::from_millis(10);

// store::through
/// How long the gateway may take for one answer.
pub(crate) const GATEWAY_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
