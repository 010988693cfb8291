//! The test's side of `sys::pause`: stops a process at a named point.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a process may take to get to a point. Reaching it ends the wait at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// Points of one group of processes.
#[derive(Debug)]
pub struct Pauses {
    directory: tempfile::TempDir,
}

#[expect(clippy::new_without_default, reason = "it makes a directory")]
impl Pauses {
    /// No point is armed yet.
    ///
    /// # Panics
    /// If no temporary directory can be made.
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    /// Where the points are, for `OSTLER_PAUSE`.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Lets a command stop at the points armed here.
    pub fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("OSTLER_PAUSE", self.path())
    }

    /// The next process that gets to `name` stops there.
    ///
    /// # Panics
    /// If the file cannot be made.
    pub fn arm(&self, name: &str) {
        std::fs::write(self.path().join(name), "").expect("arming a pause point");
    }

    /// Waits until a process has stopped at `name`.
    ///
    /// # Panics
    /// If none does.
    pub fn wait(&self, name: &str) {
        let reached = self.path().join(format!("{name}.reached"));
        let begun = Instant::now();
        while !reached.exists() {
            assert!(begun.elapsed() < PATIENCE, "nothing got to the pause point {name}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets the process that stopped at `name` go on.
    ///
    /// # Panics
    /// If none stopped there.
    pub fn release(&self, name: &str) {
        let reached = self.path().join(format!("{name}.reached"));
        std::fs::remove_file(reached).expect("a process stopped at the point");
    }
}
