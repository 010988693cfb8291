//! Time-outs, delays and poll intervals of the use cases, in one place.

use std::time::Duration;

// badge
/// How long without a request until the thread ends.
pub(crate) const BADGE_UNASKED_TIMEOUT: Duration = Duration::from_secs(15 * 60);

// control::deliveries
/// How long a note of a delivery may wait for the daemon, or for the writer's lock.
pub(crate) const NOTE_TAKEN_TIMEOUT: Duration = Duration::from_millis(800);
/// How long the daemon may take for it.
pub(crate) const NOTE_DONE_TIMEOUT: Duration = Duration::from_secs(3);

// control::fresh
/// How long a fresh agent may take until it takes a text.
pub(crate) const FRESH_READY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long ago an Enter must have been pressed whose text would stand in the record by now. The slowest record that was
/// measured came after 2.5 s, on a machine with a load of ten.
pub(crate) const SLOWEST_RECORD_SPAN: Duration = Duration::from_secs(20);

// control::headless
/// How often a proof is looked for where no directory is watched.
pub(crate) const PROOF_INTERVAL: Duration = Duration::from_millis(100);
/// How often it is looked whether a program without a terminal has ended.
pub(crate) const PROGRAM_END_INTERVAL: Duration = Duration::from_millis(50);

// control::launch
/// How long an end that was answered may take to be written down.
pub(crate) const END_WRITTEN_TIMEOUT: Duration = Duration::from_secs(2);
/// How often it is looked whether it is.
pub(crate) const END_WRITTEN_INTERVAL: Duration = Duration::from_millis(10);
/// How long a ready agent may take to write down which conversation it has.
pub(crate) const BINDING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a ready agent may take to show its composer.
pub(crate) const COMPOSER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the screen of such an agent must stay as it is.
pub(crate) const COMPOSER_REST: Duration = Duration::from_millis(600);
/// How often a start-up dialog is looked for while a composer is waited for.
pub(crate) const DIALOG_INTERVAL: Duration = Duration::from_millis(400);
/// How long a resumed agent may take until it is proven to have its conversation.
pub(crate) const RESUME_VERIFY_TIMEOUT: Duration = Duration::from_secs(15);

// control::idle
/// How long ago an Enter must have been pressed that began no turn, as one with a command of the agent's does. The
/// slowest record that was measured came after 2.5 s.
pub(crate) const ENTER_RECORD_SPAN: Duration = Duration::from_secs(5);

// control::queue
/// How long the agent's command may take.
pub(crate) const QUEUE_COMMAND_TIMEOUT: Duration = Duration::from_secs(20);

// control::resume
/// How long a holder has to end by itself when it is taken over.
pub(crate) const HAND_OVER_GRACE: Duration = Duration::from_secs(10);

// control::running
/// How often the record is looked at while a text is being submitted.
pub(crate) const SUBMISSION_INTERVAL: Duration = Duration::from_millis(50);
/// After how long an agent is looked at though its watched transcript has not changed.
pub(crate) const LONGEST_WATCH_SPAN: Duration = Duration::from_secs(1);
/// How long the host may take for everything up to the last Enter, beside waiting for readiness.
pub(crate) const SUBMISSION_TIMEOUT: Duration = Duration::from_secs(60);
/// How often an agent is looked at anew when no directory can be watched, or its transcript is not there.
pub(crate) const LOOK_AGAIN_INTERVAL: Duration = Duration::from_millis(250);

// daemon
/// How often owners are looked at whose end the kernel does not tell.
pub(crate) const OWNER_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// How long condensing may take before orders are looked at again.
pub(crate) const CONDENSE_TIME_BUDGET: Duration = Duration::from_secs(5);

// finalize
/// How long a session's lock is waited for.
pub(crate) const SESSION_LOCK_TIMEOUT: Duration = Duration::from_millis(500);

// fuses
/// How long a carrier has to say that it began.
pub(crate) const CARRIER_START_TIMEOUT: Duration = Duration::from_secs(30);

// gc::second_look
/// How long a look at an agent holds while a plan is carried out.
pub(crate) const SECOND_LOOK_SPAN: Duration = Duration::from_millis(200);

// gc::own
/// How old a file must be that was being written when its writer died.
pub(crate) const TEMPORARY_MIN_AGE: Duration = Duration::from_secs(3600);

// hook
/// How long an agent may take to hand its payload over.
pub(crate) const PAYLOAD_READ_TIMEOUT: Duration = Duration::from_secs(2);

// live
/// How long after a session turns stale it is looked at.
pub(crate) const STALE_SLACK: Duration = Duration::from_millis(1);
/// How long changes are gathered before they are looked at.
pub(crate) const LIVE_COALESCE_WINDOW: Duration = Duration::from_millis(30);
/// How long that may put off a look.
pub(crate) const LONGEST_LIVE_REST: Duration = Duration::from_secs(2);
/// How late a sign of life may be shown that changes nothing but an age: the output of a terminal.
pub(crate) const SIGN_OF_LIFE_DELAY: Duration = Duration::from_secs(10);
/// How often is looked at what the kernel does not tell of: owners without an identity, directories
/// beyond the number that are watched.
pub(crate) const UNTOLD_INTERVAL: Duration = Duration::from_secs(60);

// notify
/// How long a program that tells a person may take.
pub(crate) const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);

// observe::discover
/// How long a listing reads transcripts that the index does not have, all agents together. What is
/// left over is told in `incomplete`; what was read is in the index, so the next listing goes on.
pub(crate) const SURVEY_READ_TIMEOUT: Duration = Duration::from_secs(60);
/// A file that changed this recently may change again without its stamp changing.
pub(crate) const RACY_WINDOW: Duration = Duration::from_secs(2);

// observe::identify::close
/// How much earlier a command may seem to have begun than the consent that it needed.
pub(crate) const COMMAND_START_SLACK: Duration = Duration::from_secs(2);
/// How long a tool gets that may start no process.
pub(crate) const UNNAMED_TOOL_SPAN: Duration = Duration::from_secs(5);

// permit_channel
/// How long a request waits before the agent's own dialog is shown.
pub(crate) const WAIT_BEFORE_DIALOG: Duration = Duration::from_secs(60);
/// How long one waits beside that dialog.
pub(crate) const WAIT_BESIDE_DIALOG: Duration = Duration::from_secs(3600);
/// How much longer the agent lets the hook run than it waits.
pub(crate) const WAITING_HOOK_SLACK: Duration = Duration::from_secs(5);

// permit_files
/// How long an agent may take to say what became of an answer; it looks every half second.
pub(crate) const FILE_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often its file is looked at where a directory cannot be watched.
pub(crate) const FILE_ANSWER_INTERVAL: Duration = Duration::from_millis(100);

// permit_server
/// How long a server on this machine may take for one answer.
pub(crate) const PERMIT_SERVER_TIMEOUT: Duration = Duration::from_secs(3);

// permits
/// How often it is looked whether a waiting hook was killed: then it reports nothing.
pub(crate) const HOOK_END_INTERVAL: Duration = Duration::from_millis(200);
/// How long the waiting hook has to take an answer.
pub(crate) const ANSWER_TAKEN_TIMEOUT: Duration = Duration::from_secs(5);
/// How old a request must be whose hook was killed.
pub(crate) const PERMIT_LEFT_ALONE_SPAN: Duration = Duration::from_secs(60);

// service
/// How long a daemon is waited for that was told to stop, or was just started.
pub(crate) const DAEMON_CHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked whether a daemon stopped or started.
pub(crate) const DAEMON_CHECK_INTERVAL: Duration = Duration::from_millis(10);

// setup
/// How long another setup is waited for.
pub(crate) const SETUP_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

// stop
/// How long a turn has to end after the agent's interrupt keys.
pub(crate) const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the tree has to end after SIGTERM, and again after SIGKILL.
pub(crate) const TREE_SIGNAL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an agent has to end by its own keys before it is asked by a signal: something may stand in its
/// composer, which the keys only clear.
pub(crate) const QUIT_KEYS_TIMEOUT: Duration = Duration::from_secs(3);
/// After how long a supervisor's new process would have taken the conversation up again.
pub(crate) const RESPAWN_DELAY: Duration = Duration::from_secs(1);
/// How often it is looked whether a tree has ended.
pub(crate) const TREE_POLL_INTERVAL: Duration = Duration::from_millis(10);

// stop::keys
/// How long a terminal may take to be ready before its composer is emptied.
pub(crate) const COMPOSER_CHECK_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it is looked whether a turn has ended.
pub(crate) const TURN_POLL_INTERVAL: Duration = Duration::from_millis(100);

// terminal::ask
/// How long a command in a shell may take when nothing is said.
pub(crate) const DEFAULT_RUN_TIMEOUT: Duration = Duration::from_secs(30);

// terminal::create
/// How long a new host may take.
pub(crate) const HOST_START_TIMEOUT: Duration = Duration::from_secs(10);

// terminal::destroy
/// How often the manifest of a terminal is read whose host is agent-tty's.
pub(crate) const FOREIGN_END_INTERVAL: Duration = Duration::from_millis(20);
/// How long killed processes of a terminal may take to be gone.
pub(crate) const TREE_KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a host may take: longer than all its steps together.
pub(crate) const HOST_DESTROY_TIMEOUT: Duration = Duration::from_secs(10);

// terminal::export::video
/// How long the last chapter of a video lasts.
pub(crate) const LAST_CHAPTER_SPAN: Duration = Duration::from_secs(1);

// terminal
/// How long the lock on a terminal's list of pictures and recordings is waited for.
pub(crate) const ARTIFACTS_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

// terminal::picture
/// How long a browser may take to draw.
pub(crate) const FOREIGN_DRAWING_TIMEOUT: Duration = Duration::from_secs(30);

// terminal::remove
/// How often it is looked whether a host or its processes have ended.
pub(crate) const HOST_END_INTERVAL: Duration = Duration::from_millis(5);
/// How long a host may take to leave.
pub(crate) const HOST_LEAVE_TIMEOUT: Duration = Duration::from_secs(3);

// work
/// How long another writer is waited for.
pub(crate) const WRITER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the lock is waited for before it is asked again whether a daemon runs.
pub(crate) const ASK_AGAIN_INTERVAL: Duration = Duration::from_millis(200);

// writer::client
/// How long a place in the queue of connections is waited for.
pub(crate) const DAEMON_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a badge is waited for: looking oneself takes no longer.
pub(crate) const BADGE_TIMEOUT: Duration = Duration::from_millis(200);
