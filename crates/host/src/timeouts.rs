//! Time-outs and poll intervals of a terminal's host and of its clients, in one place.

use std::time::Duration;

// client
/// How long a host may take for what it can do at once.
pub const HOST_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

// log::writer
/// After a failure, how long to wait before trying again.
pub(crate) const LOG_RETRY_DELAY: Duration = Duration::from_secs(1);

// server::connection
/// How long a connection may take to ask, and to take its answer.
pub(crate) const ASKING_TIMEOUT: Duration = Duration::from_secs(10);
/// The same, when all places are taken and others wait.
pub(crate) const ASKING_TIMEOUT_WHEN_FULL: Duration = Duration::from_millis(250);
/// How long to wait before accepting again when the system refused (no descriptor is left).
pub(crate) const ACCEPT_BACKOFF: Duration = Duration::from_millis(200);

// server::ending
/// How long each request to end is given before the next, stronger one.
pub(crate) const END_STEP_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long what the program left behind is waited for after it was killed.
pub(crate) const TREE_END_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait before looking for more of it.
pub(crate) const TREE_LOOK_INTERVAL: Duration = Duration::from_millis(20);

// server::host
/// How long a program may hold a frame back before it is shown unfinished.
pub(crate) const HELD_FRAME_TIMEOUT: Duration = Duration::from_millis(150);

// server::intake
/// How long the host may be kept waiting for more of a flood.
pub(crate) const FLOOD_GATHER_TIMEOUT: Duration = Duration::from_millis(2);

// server::methods
/// How long the lock on the list of pictures and recordings is waited for: other clients of the host have to wait as long.
pub(crate) const ARTIFACTS_LOCK_TIMEOUT: Duration = Duration::from_millis(200);
/// How long a waited command may take by default.
pub(crate) const DEFAULT_RUN_TIMEOUT: Duration = Duration::from_millis(30_000);

// server::ready
/// How long the screen must stay as it is.
pub(crate) const STILL_SPAN: Duration = Duration::from_millis(120);
/// How long a program whose modes are right may go on drawing.
pub(crate) const DRAWING_SPAN: Duration = Duration::from_millis(1500);
/// When to look again at the terminal's modes: the kernel sends no event when they change. Only while
/// a program is waited for that can still change them.
pub(crate) const MODES_CHECK_INTERVAL: Duration = Duration::from_millis(50);

// server::runs
/// How long something that may be the beginning of a sentinel is held back.
pub(crate) const SENTINEL_HOLD_TIMEOUT: Duration = Duration::from_millis(250);
/// How long to wait for the rest of a prompt.
pub(crate) const PROMPT_TIMEOUT: Duration = Duration::from_millis(15);

// server::submit
/// How long a program may take to be ready by default.
pub(crate) const PROGRAM_READY_TIMEOUT: Duration = Duration::from_secs(5);
/// A person who typed within this time is typing.
pub(crate) const PERSON_TYPES_SPAN: Duration = Duration::from_secs(2);
/// How long a pasted text may take to be seen. Viewers' keys are held back for as long, and no longer.
pub(crate) const COMPOSE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long the screen must stay as it is before it counts.
pub(crate) const SETTLED_SPAN: Duration = Duration::from_millis(120);
/// The same, for the composer alone, on a screen where something else moves all the time.
pub(crate) const SETTLED_SPOT_SPAN: Duration = Duration::from_millis(600);
/// How long Enter is given before it is pressed again.
pub(crate) const ENTER_INTERVAL: Duration = Duration::from_millis(1200);

// server::turn
/// How long after the last activity a host still looks before it sleeps.
pub(crate) const RESTLESS_SPAN: Duration = Duration::from_millis(100);
/// How long to wait before looking whether a process opened a closed terminal again.
pub(crate) const REOPEN_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the last answers may take to be read.
pub(crate) const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

// server::wait
/// How long a wait lasts by default.
pub(crate) const DEFAULT_WAIT_TIMEOUT: Duration = Duration::from_millis(600_000);
