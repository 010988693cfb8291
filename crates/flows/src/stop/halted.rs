//! The guard of a halted tree: a process that lets the tree go on if whoever halted it ends before it has killed it.
//!
//! Between SIGSTOP and SIGKILL a stop that is killed itself would leave an agent halted for ever. So every process is
//! named to a guard before it is halted; when the guard's pipe closes without a word, it continues what is still there,
//! by identity.

use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};

use model::identity::Identity;
use sys::dropped::NoteDropped;
use sys::proc::{Signal, current_observer, signal_process};

/// The first argument that makes the binary a guard.
pub const HALTED_TREE_ROLE: &str = "__halted-tree";

/// The line that ends a guard that is not needed any more.
const DISMISSED: &str = "dismissed";

/// The guard, as seen by whoever halts.
#[derive(Debug)]
pub(super) struct HaltedTreeGuard(Child);

impl HaltedTreeGuard {
    /// In a process group of its own: what ends this process from its terminal does not end the guard.
    pub(super) fn start() -> std::io::Result<Self> {
        let mut command = Command::new(sys::spawn::this_program()?);
        command.arg(HALTED_TREE_ROLE).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self)
    }

    /// Names a process that is about to be halted.
    pub(super) fn watch_over(&mut self, identity: &Identity) {
        let line = serde_json::to_string(identity).unwrap_or_default();
        self.tell(&line);
    }

    /// What was halted is dead, or goes on.
    pub(super) fn dismiss(mut self) {
        self.tell(DISMISSED);
        self.0.stdin = None;
        self.0.wait().note_dropped("reaping the guard of a halted tree");
    }

    fn tell(&mut self, line: &str) {
        let Some(pipe) = &mut self.0.stdin else { return };
        pipe.write_all(format!("{line}\n").as_bytes()).note_dropped("naming a process to a guard");
    }
}

/// The guard's whole work.
pub fn guard_halted_tree() -> ExitCode {
    let mut halted: Vec<Identity> = Vec::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if line == DISMISSED {
            return ExitCode::SUCCESS;
        }
        halted.extend(serde_json::from_str::<Identity>(&line));
    }
    let observer = current_observer();
    for identity in &halted {
        signal_process(identity, Signal::Continue, &observer)
            .note_dropped("continuing a process that was halted");
    }
    ExitCode::SUCCESS
}
