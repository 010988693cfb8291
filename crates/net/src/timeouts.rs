//! Time-outs and delays of what speaks to other machines, in one place.

use std::time::Duration;

// answer_parts
/// How long a long answer is kept until it is fetched.
pub(crate) const ANSWER_HOLD_TIME: Duration = Duration::from_secs(60);

// daemon_client
/// How long the daemon may take, beside what it is asked to wait.
pub(crate) const DAEMON_ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

// departure
/// How long the hub may take for one answer.
pub(crate) const HUB_ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

// fleet_follow
/// How often it is looked whether somebody fell silent.
pub(crate) const LAPSE_CHECK_PAUSE: Duration = Duration::from_secs(1);
/// How long the hub may take to be read.
pub(crate) const HUB_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long many notices in a row that ask for it lead to one reading.
pub(crate) const NOTICE_SETTLE_TIME: Duration = Duration::from_millis(100);

// hub
/// How long the engine of this machine may take.
pub const ADMIN_TIMEOUT: Duration = Duration::from_secs(5);

// hub_lock
/// How long a command waits for another one that changes the hub; each reloads a large fleet's engine for some seconds.
pub(crate) const HUB_LOCK_TIMEOUT: Duration = Duration::from_secs(60);

// hub_setup
/// How often a new engine is asked whether it listens.
pub(crate) const ENGINE_START_INTERVAL: Duration = Duration::from_millis(20);
/// How long a new engine may take until it listens.
pub(crate) const ENGINE_START_TIMEOUT: Duration = Duration::from_secs(20);

// machine_look
/// The longest that the daemon is asked to wait for a change.
pub(crate) const LONGEST_CHANGE_WAIT: Duration = Duration::from_secs(30);
/// How long several changes in a row are taken together.
pub(crate) const CHANGE_COALESCE_TIME: Duration = Duration::from_millis(250);

// membership
/// How often it is looked whether a member's lease is there.
pub(crate) const LEASE_CHECK_INTERVAL: Duration = Duration::from_millis(100);

// nats
/// The pause before the hub is connected to again, at first; it doubles.
pub(crate) const SHORTEST_RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// The longest of these pauses.
pub(crate) const LONGEST_RECONNECT_PAUSE: Duration = Duration::from_secs(30);
/// After how much silence the hub is asked whether it is there; the third unanswered question ends the connection.
/// A network that swallows everything ends none by itself.
pub(crate) const PING_PAUSE: Duration = Duration::from_secs(5);

// order
/// How long a member may take to prepare an order, or to answer a question.
pub(crate) const ORDER_PREPARE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a member may take to answer a question about its sessions or its conversations.
pub(crate) const ORDER_READ_TIMEOUT: Duration = Duration::from_secs(20);
/// How long it may take to carry one out. The hub lets a member answer for a minute.
pub(crate) const ORDER_COMMIT_TIMEOUT: Duration = Duration::from_secs(58);
/// How long a command that came by ssh may take.
pub(crate) const SSH_RUN_TIMEOUT: Duration = Duration::from_secs(60);

// order_desk
/// For how long a prepared order may be carried out.
pub(crate) const GRANT_LIFETIME: Duration = Duration::from_secs(30);
/// How long an order stays void that was asked about before it came: longer than whoever gave it waits.
pub(crate) const VOID_TIME: Duration = Duration::from_secs(180);
/// How long the hub may take to say who is an operator.
pub(crate) const OPERATORS_TIMEOUT: Duration = Duration::from_secs(4);

// ssh
/// How long the other machine may take in all.
pub(crate) const SSH_TIMEOUT: Duration = Duration::from_secs(60);

// terminal_stream
/// The pause between two parts of what a terminal shows: some thirty parts in a second.
pub(crate) const CHUNK_PAUSE: Duration = Duration::from_millis(33);
/// How long an attachment lasts that nobody keeps.
pub const STREAM_LIFETIME: Duration = Duration::from_secs(30);

// terminal_view
/// How long to wait before a busy member is asked again.
pub(crate) const BUSY_RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How long a goodbye may take.
pub(crate) const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the member is told that somebody still looks.
pub(crate) const KEEP_PAUSE: Duration = Duration::from_secs(10);
/// How long the member may take for one answer, and how often something typed is sent.
pub(crate) const VIEW_TIMEOUT: Duration = Duration::from_secs(10);

// webhook
/// How long a receiver may take for one event.
pub(crate) const RECEIVER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the daemon holds a question for more events back.
pub(crate) const BATCH_WAIT: Duration = Duration::from_secs(25);
/// How long deliveries are gathered before the cursor is moved.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// How long a daemon that does not answer is left alone.
pub(crate) const DAEMON_RETRY_PAUSE: Duration = Duration::from_secs(1);
