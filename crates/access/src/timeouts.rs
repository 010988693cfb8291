//! Time-outs and poll intervals of access sessions, in one place.

use std::time::Duration;

// client
/// How long an agent may take to answer.
pub(crate) const AGENT_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

// connections
/// How long a connection may ask nothing while others wait for one.
pub(crate) const CONNECTION_IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often idle connections are looked for at the limit.
pub(crate) const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(500);

// keeper
/// How often it is looked whether an agent listens.
pub(crate) const AGENT_START_INTERVAL: Duration = Duration::from_millis(2);
/// How long to wait before accepting again when no descriptor is left.
pub(crate) const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// How long a keeper may take to say that it is ready: longer than its agent may take.
pub(crate) const KEEPER_READY_TIMEOUT: Duration = Duration::from_secs(12);
/// How long an agent may take to listen.
pub(crate) const AGENT_START_TIMEOUT: Duration = Duration::from_secs(10);

// lib
/// How long a socket may take to accept before nothing can be said.
pub(crate) const SOCKET_CONNECT_TIMEOUT: Duration = Duration::from_millis(200);

// open
/// How long a keeper that is not wanted may take to end.
pub(crate) const KEEPER_HANG_TIMEOUT: Duration = Duration::from_secs(5);

// stop
/// How long another command may take to let go of a session.
pub(crate) const SESSION_LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an agent may take to end.
pub(crate) const AGENT_END_TIMEOUT: Duration = Duration::from_secs(5);
/// How long before it is killed, when that was asked for.
pub(crate) const AGENT_KILL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a keeper may take to notice that its agent has ended.
pub(crate) const KEEPER_END_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it is looked whether a process has ended.
pub(crate) const END_POLL_INTERVAL: Duration = Duration::from_millis(10);
