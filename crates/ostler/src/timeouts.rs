//! Time-outs, delays and refresh intervals of the command line, the dashboard, the daemon and the page, in one place.

use std::time::Duration;

// api::run
/// How long a request may wait for a place among those that are answered.
pub(crate) const API_PLACE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a part of a stream may wait for a client that does not read.
pub(crate) const API_SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a wait lasts before it is looked whether its client is still there.
pub(crate) const WAIT_TURN: Duration = Duration::from_secs(2);

// cli::daemon
/// How often it is looked whether a new daemon listens.
pub(crate) const DAEMON_CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// How long a new daemon is waited for.
pub(crate) const DAEMON_START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a daemon that was told to stop is waited for.
pub(crate) const DAEMON_STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for a process that holds a lock only to look at it.
pub(crate) const LOCK_LOOK_TIMEOUT: Duration = Duration::from_millis(500);

// cli::finalize
/// How long condensing may take before the rest is left to the next sweep.
pub(crate) const CONDENSE_TIME_BUDGET: Duration = Duration::from_secs(20);

// cli::fuse
/// How long a program that a fuse runs may take.
pub(crate) const FUSE_PROGRAM_TIMEOUT: Duration = Duration::from_secs(120);
/// How long an agent has to end by itself.
pub(crate) const AGENT_STOP_GRACE: Duration = Duration::from_secs(10);

// cli::fuse_resume
/// How long the command that resumes may take: beyond all of its own time-outs.
pub(crate) const RESUME_COMMAND_TIMEOUT: Duration = Duration::from_secs(15 * 60);

// cli::logs
/// A store may show what was written only a moment after it has written it.
pub(crate) const STORE_SETTLE_DELAY: Duration = Duration::from_millis(250);

// cli::ls
/// Between two frames or tables that only ages ask for: labels that change at different seconds share one.
pub(crate) const AGE_INTERVAL: Duration = Duration::from_secs(60);

// cli::mcp::server
/// How long one session may take to be searched before what was found is given.
pub(crate) const MCP_SEARCH_TIMEOUT: Duration = Duration::from_secs(60);

// cli::mcp::tools::prompt
/// How long the agent's own record may take to hold the text.
pub(crate) const PROMPT_RECORD_TIMEOUT: Duration = Duration::from_secs(15);

// cli::mcp::tools::terminals
/// How long a start waits for another to be over.
pub(crate) const START_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

// cli::search
/// How often a search that finds nothing looks whether its reader is still there.
pub(crate) const READER_CHECK_INTERVAL: Duration = Duration::from_millis(20);

// cli::status
/// How long ended sessions are mentioned.
pub(crate) const RECENTLY_ENDED_SPAN: Duration = Duration::from_secs(24 * 3600);

// cli::terminal::attach
/// How long something is said over the screen.
pub(crate) const NOTICE_TIME: Duration = Duration::from_secs(3);

// daemon
/// How long a connection that cannot be served may take to be turned away.
pub(crate) const TURN_AWAY_TIMEOUT: Duration = Duration::from_millis(10);
/// How long a client of the daemon or of the metrics may take for the head of its request.
pub(crate) const LOCAL_HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a client may take for an order that the daemon waits for.
pub(crate) const ORDER_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may take to read its answer.
pub(crate) const ANSWER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may stay when the daemon stops.
pub(crate) const CLIENT_STAY_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait before accepting again when the system refused (no descriptor is left), at first.
pub(crate) const SHORTEST_ACCEPT_BACKOFF: Duration = Duration::from_millis(10);
/// The same, after many refusals.
pub(crate) const LONGEST_ACCEPT_BACKOFF: Duration = Duration::from_secs(1);

// daemon::helper_routes
/// The longest that a question about what comes next is held back.
pub(crate) const LONGEST_HELPER_WAIT: Duration = Duration::from_secs(30);
/// How long several changes in a row are taken together.
pub(crate) const HELPER_SETTLE_TIME: Duration = Duration::from_millis(20);

// helper
/// How often it is looked whether a helper has ended.
pub(crate) const HELPER_END_INTERVAL: Duration = Duration::from_millis(5);
/// How long a helper that is told to end is waited for.
pub(crate) const HELPER_END_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait before a helper that ended is started again, at first; it doubles.
pub(crate) const SHORTEST_RESTART_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses.
pub(crate) const LONGEST_RESTART_PAUSE: Duration = Duration::from_secs(60);
/// How long a helper may take to join a terminal of another machine.
pub(crate) const HELPER_JOIN_TIMEOUT: Duration = Duration::from_secs(30);

// metrics_server
/// How long one request may take in all.
pub(crate) const METRICS_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

// render::progress
/// How long work may take before anything is said about it, and between two words.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

// top::consent
/// How long a plan is on the screen before a `y` counts.
pub(crate) const CONSENT_REST: Duration = Duration::from_millis(400);

// top::run
/// How long the selection has to rest before its terminal is joined.
pub(crate) const PREVIEW_REST: Duration = Duration::from_millis(120);
/// How long an Escape waits for what may follow it.
pub(crate) const ESCAPE_REST: Duration = Duration::from_millis(30);
/// Between two frames that no key asked for.
pub(crate) const FRAME_INTERVAL: Duration = Duration::from_millis(33);

// top::run::panes
/// How long a terminal may take for what was typed before the dashboard ended.
pub(crate) const TYPING_TIMEOUT: Duration = Duration::from_secs(2);

// top::search
/// How long nothing must be typed before a search begins.
pub(crate) const TYPING_REST: Duration = Duration::from_millis(100);
/// How often a search looks whether it is still wanted, at the latest.
pub(crate) const WANTED_CHECK_INTERVAL: Duration = Duration::from_millis(20);

// top::state
/// How long after a key the order of the rows stays.
pub(crate) const ORDER_REST: Duration = Duration::from_millis(400);

// top::tty
/// How often a terminal that does not read is tried.
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_millis(5);
/// How long a terminal that does not read is waited for when it is given back.
pub(crate) const RESTORE_TIMEOUT: Duration = Duration::from_millis(500);

// top::work
/// How long an agent that works is waited for before a reply is given up.
pub(crate) const REPLY_IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// How long the agent may take to record a reply.
pub(crate) const REPLY_ACCEPT_TIMEOUT: Duration = Duration::from_secs(15);

// web::control
/// How long either side waits for the other.
pub(crate) const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

// web::notes
/// How long another writer is waited for.
pub(crate) const NOTE_WRITER_TIMEOUT: Duration = Duration::from_secs(30);

// web::server
/// How long a client may take for the head of a request, and be silent between two.
pub(crate) const PAGE_HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take for a body.
pub(crate) const PAGE_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may take nothing of what it is sent.
pub(crate) const PAGE_WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a stream looks whether the sign-in of its tab is over, by the clock of the wall.
pub(crate) const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// How long to wait before accepting again when the system refused.
pub(crate) const PAGE_ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

// web::sign_in
/// How long a key of a link is good.
pub(crate) const LINK_KEY_LIFETIME: Duration = Duration::from_secs(600);
/// How long a ticket is good.
pub(crate) const TICKET_LIFETIME: Duration = Duration::from_secs(10);
/// How long a code can be confirmed.
pub(crate) const CODE_LIFETIME: Duration = Duration::from_secs(600);
/// How long wrong secrets are counted.
pub(crate) const WRONG_SECRET_WINDOW: Duration = Duration::from_secs(60);

// web::socket
/// How often a page is asked whether it is still there.
pub(crate) const PAGE_PING_INTERVAL: Duration = Duration::from_secs(20);
/// A page that says nothing for so long is gone.
pub(crate) const PAGE_SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a page may take to read one message.
pub(crate) const PAGE_SEND_TIMEOUT: Duration = Duration::from_secs(20);

// web::terminals
/// How long a host may take to read what is typed.
pub(crate) const HOST_TYPE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a host may take to send its screen, before what has come is shown.
pub(crate) const FIRST_SCREEN_TIMEOUT: Duration = Duration::from_secs(2);
