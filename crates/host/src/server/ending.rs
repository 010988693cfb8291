//! Shutdown of a session: its program ends by itself or on request, and then always (hang-up, terminate, kill).

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};
use sys::dropped::NoteDropped;

use model::hosted::{EXIT_CODE_OF_A_SIGNAL, LogFact};
use model::status::Status;
use model::time::Time;
use sys::proc::{ProcessRow, ProcessTable, Signal};
use sys::pty::{PtyMaster, PtyProgram};
use sys::tree::ProcessTree;

use super::host::Host;
use crate::files::Durability;
use crate::timeouts::{END_STEP_TIMEOUT, TREE_END_TIMEOUT, TREE_LOOK_INTERVAL};

/// How much is still read of a program that has ended; others may have its terminal open and write
/// on and on.
const LAST_WORDS: usize = 64;

/// What this program is told to be when it lives on for others than the terminal it was started in: the
/// host of another terminal, the daemon, the keeper of lent credentials.
const ROLES_APART: [&str; 4] = ["host", "_host", "daemon", "__access-keeper"];

/// An end that was asked for.
#[derive(Debug)]
pub(super) struct Ending {
    step: EndingStep,
    next: Instant,
    becomes: Status,
    /// All that was seen to descend from the program, in any session and process group.
    tree: ProcessTree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndingStep {
    HangUp,
    Terminate,
    Kill,
    /// Nothing more can be done: a program that even this does not end is stuck in the kernel.
    Leave,
}

impl Ending {
    /// When the next step is due.
    pub(super) const fn next_step_at(&self) -> Instant {
        self.next
    }
}

impl Host {
    /// Ends the session on request.
    pub(super) fn destroy_session(&mut self, force: bool) {
        self.begin_ending(
            if force { EndingStep::Kill } else { EndingStep::HangUp },
            Status::Destroyed,
        );
    }

    fn begin_ending(&mut self, step: EndingStep, becomes: Status) {
        if let Some(ending) = &mut self.ending {
            // Asked again: what was asked for first goes on, but not more slowly.
            ending.becomes = becomes;
            if step != EndingStep::Kill
                || matches!(ending.step, EndingStep::Kill | EndingStep::Leave)
            {
                return;
            }
        }
        let next = Instant::now() + END_STEP_TIMEOUT;
        let tree = self.ending.take().map(|ending| ending.tree).unwrap_or_default();
        self.ending = Some(Ending { step, next, becomes, tree });
        if becomes.is_destroyed() && !self.manifest.status.is_terminal() {
            self.manifest.status = Status::Destroying;
            self.write_manifest(Durability::System);
        }
        self.send_end(step);
    }

    fn send_end(&mut self, step: EndingStep) {
        tracing::info!(?step, "ending the program");
        let signal = match step {
            EndingStep::HangUp => Signal::Hangup,
            EndingStep::Terminate => Signal::Terminate,
            EndingStep::Kill | EndingStep::Leave => Signal::Kill,
        };
        // Before the groups: a parent that has ended is not seen any more.
        let found = self.gather_tree();
        let (program, master) = match (&self.terminal, &self.headless) {
            (Some(terminal), _) => (&terminal.program, Some(&*terminal.master)),
            (None, Some(headless)) => (&headless.program, None),
            (None, None) => return,
        };
        // What is stopped can neither hang up nor terminate before it goes on.
        for signal in [signal, Signal::Continue] {
            // A program that has ended is noticed by itself.
            let signalled = match master {
                Some(master) => program.signal_group(master, signal),
                None => program.signal_own_group(signal),
            };
            signalled.note_dropped("signalling the program");
        }
        let own = program.pid();
        let elsewhere = |pid: u32| pid != own && !program.is_in_reach(master, pid);
        let observer = sys::proc::current_observer();
        for signal in [signal, Signal::Continue] {
            // Who is still there at the end is told then.
            drop(found.signal(signal, &observer, elsewhere));
        }
        if let Some(ending) = &mut self.ending {
            ending.tree.merge(found);
        }
    }

    /// All that descends from the program. Only an end on request takes what has a session of its own: one
    /// that was idle too long is hung up, and what went into the background on purpose stays.
    fn gather_tree(&self) -> ProcessTree {
        let destroys = self.ending.as_ref().is_some_and(|ending| ending.becomes.is_destroyed());
        // Orphans are children of this process, where it adopts them.
        let root = match (&self.orphans, self.manifest.child_pid) {
            (Some(_), _) => Some(std::process::id()),
            (None, pid) => pid,
        };
        let Some(root) = root.filter(|_| destroys) else { return ProcessTree::default() };
        let observer = sys::proc::current_observer();
        let table = sys::proc::read_process_table();
        match sys::proc::identify_as(root, &observer) {
            Ok(root) => ProcessTree::gather(&table, &root, &observer, |row| is_apart(&table, row)),
            Err(_) => ProcessTree::default(),
        }
    }

    /// Kills what the program left behind, again and again as long as there is more of it, and waits for
    /// its end.
    fn end_tree(&mut self) {
        let until = Instant::now() + TREE_END_TIMEOUT;
        let observer = sys::proc::current_observer();
        loop {
            let mut tree = self.ending.as_ref().map(|one| one.tree.clone()).unwrap_or_default();
            tree.merge(self.gather_tree());
            let missed = tree.signal(Signal::Kill, &observer, |_| true);
            self.reap_orphans();
            if !tree.has_survivors(&observer) {
                return;
            }
            if Instant::now() >= until {
                let missed: Vec<String> = missed.iter().map(ToString::to_string).collect();
                if !missed.is_empty() {
                    let reason = format!("it left what could not be ended: {}", missed.join("; "));
                    self.manifest.failure_reason = Some(reason);
                }
                return;
            }
            std::thread::sleep(TREE_LOOK_INTERVAL);
        }
    }

    /// Reaps what was adopted and has ended.
    pub(super) fn reap_orphans(&self) {
        let program = self.terminal.as_ref().map(|terminal| terminal.program.pid());
        let program = program.or(self.headless.as_ref().map(|headless| headless.program.pid()));
        if let Some(orphans) = &self.orphans {
            orphans.reap_ended(program);
        }
    }

    /// Goes on with an end that takes too long; hangs up a session that was idle too long.
    pub(super) fn check_ending(&mut self, now: Instant) {
        if let Some(until) = self.idle_until().filter(|until| *until <= now) {
            let _ = until;
            self.begin_ending(EndingStep::HangUp, Status::Exited);
        }
        let Some(ending) = self.ending.as_mut().filter(|ending| ending.next <= now) else { return };
        ending.next = now + END_STEP_TIMEOUT;
        ending.step = match ending.step {
            EndingStep::HangUp => EndingStep::Terminate,
            EndingStep::Terminate => EndingStep::Kill,
            EndingStep::Kill | EndingStep::Leave => EndingStep::Leave,
        };
        let step = ending.step;
        self.send_end(step);
        if step == EndingStep::Leave {
            self.record_end(None, None, sys::clock::now());
        }
    }

    /// When the session has been idle for too long.
    pub(super) fn idle_until(&self) -> Option<Instant> {
        let millis = self.manifest.idle_timeout_ms.filter(|_| self.ending.is_none())?;
        self.last_activity.checked_add(Duration::from_millis(millis))
    }

    /// The program has ended: its last words, then how it ended.
    pub(super) fn program_ended(&mut self) {
        for _ in 0..LAST_WORDS {
            if !(self.read_terminal(true) | self.read_streams()) {
                break;
            }
        }
        self.release_held(true);
        let now = sys::clock::now();
        let (program, master) = match (self.terminal.take(), self.headless.take()) {
            (Some(terminal), _) => (terminal.program, Some(terminal.master)),
            (None, Some(headless)) => (headless.program, None),
            (None, None) => return,
        };
        if self.ending.is_some() {
            // Those of its group that did not listen. Its number still means it: it is not reaped.
            let killed = match &master {
                Some(master) => program.signal_group(master, Signal::Kill),
                None => program.signal_own_group(Signal::Kill),
            };
            killed.note_dropped("killing the program");
        }
        let (code, signal) = match program.reap() {
            Ok(status) => match status.signal() {
                Some(signal) => (Some(EXIT_CODE_OF_A_SIGNAL), Some(signal.to_string())),
                None => (status.code(), None),
            },
            Err(_) => (None, None),
        };
        tracing::info!(code, signal, "the program ended");
        self.reap_orphans();
        if self.ending.as_ref().is_some_and(|ending| ending.becomes.is_destroyed()) {
            self.end_tree();
        }
        self.record_end(code, signal, now);
    }

    /// Writes down how it ended. No client is told before it stands in the log and the manifest.
    pub(super) fn record_end(&mut self, code: Option<i32>, signal: Option<String>, now: Time) {
        (self.terminal, self.headless) = (None, None);
        self.log.push(now, &LogFact::Exit { exit_code: code, exit_signal: signal.clone() });
        self.log.flush(now);
        self.manifest.exit_code = code;
        self.manifest.exit_signal = signal;
        self.manifest.status = self.ending.as_ref().map_or(Status::Exited, |ending| ending.becomes);
        tracing::info!(status = self.manifest.status.as_str(), "the session is over");
        sys::pause::pause_at("host-before-end-is-written");
        self.write_manifest(Durability::System);
        self.over = true;
        self.answer_all(Instant::now());
        self.connections.say_goodbye(self.manifest.termination_category().as_str());
    }

    /// Leaves nothing behind but files that will be there tomorrow.
    pub(super) fn leave_cleanly(&mut self) {
        // From now on the manifest answers, not the host.
        #[expect(clippy::disallowed_methods, reason = "the socket of this process")]
        sys::socket::abandon_socket(&self.socket);
        self.write_keyframe();
        self.log.close(sys::clock::now());
        // Not written again: once it says that the session is over it belongs to others too.
        sys::pause::pause_at("host-before-leaving");
        self.files.settle_on_disk().note_dropped("getting the session to the disk");
    }
}

/// Kills a program that no host looks after, with all that descends from it, and reaps it. Says whether nothing of
/// it is left.
pub(super) fn end_unhosted(program: PtyProgram, master: Option<&PtyMaster>) -> bool {
    let observer = sys::proc::current_observer();
    let table = sys::proc::read_process_table();
    // Before it is killed: a parent that has ended is not seen any more.
    let tree = match sys::proc::identify_as(program.pid(), &observer) {
        Ok(root) => ProcessTree::gather(&table, &root, &observer, |row| is_apart(&table, row)),
        Err(_) => ProcessTree::default(),
    };
    let killed = match master {
        Some(master) => program.signal_group(master, Signal::Kill),
        None => program.signal_own_group(Signal::Kill),
    };
    killed.note_dropped("killing a program without a host");
    drop(tree.signal(Signal::Kill, &observer, |_| true));
    let until = Instant::now() + TREE_END_TIMEOUT;
    while !program.has_ended() || tree.has_survivors(&observer) {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(TREE_LOOK_INTERVAL);
    }
    program.reap().note_dropped("reaping a program without a host");
    true
}

/// Whether a process lives on for others than the terminal it was started in: this very program in one of
/// its standing roles.
pub fn is_apart(table: &ProcessTable, row: &ProcessRow) -> bool {
    let own = table.get(std::process::id());
    own.is_some_and(|own| own.comm == row.comm)
        && table
            .appearance(row.pid)
            .is_some_and(|look| look.args.get(1).is_some_and(|role| ROLES_APART.contains(&&**role)))
}
