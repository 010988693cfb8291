//! Real processes for the tests: started, awaited by their own word, ended with the test.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The helper of `examples/probe.rs`.
pub(crate) fn helper() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests
        .parent()
        .and_then(Path::parent)
        .unwrap()
        .join("examples/probe");
    assert!(
        path.exists(),
        "run `cargo build -p ostler-sys --examples` first: no {path:?}"
    );
    path
}

/// A copy of the helper that every user can run, under a name of its own.
pub(crate) fn helper_named(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::copy(helper(), &path).unwrap();
    path
}

/// A process that lives until the test lets go of it.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// The first line it wrote: it is ready.
    pub(crate) ready: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stdin = child.stdin.take();
        let mut running = Self {
            stdout: BufReader::new(child.stdout.take().unwrap()),
            stdin,
            child,
            ready: String::new(),
        };
        running.ready = running.line();
        running
    }

    /// The helper, waiting.
    pub(crate) fn helper(command: &str) -> Self {
        Self::start(Command::new(helper()).arg(command))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line it writes.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Writes a line to it.
    pub(crate) fn tell(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Ends it without reaping: a zombie from then on.
    pub(crate) fn end_unreaped(&mut self) {
        self.child.kill().unwrap();
        let pid = rustix::process::Pid::from_child(&self.child);
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .unwrap();
    }

    /// Ends and reaps it.
    pub(crate) fn end(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end by itself and says by which signal.
    pub(crate) fn ended_by_signal(mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        self.child.wait().unwrap().signal()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails for one that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command writes, and that it succeeds.
#[track_caller]
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{command:?}\n{out}{err}");
    out.trim_end().to_owned()
}

/// Whether the machine lets us do what the command line does; says so visibly if not.
pub(crate) fn permits(words: &[&str]) -> bool {
    let tried = Command::new(words[0])
        .args(&words[1..])
        .arg("true")
        .output();
    let reason = match tried {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!(
        "SKIPPED: `{}` is not permitted here: {reason}",
        words.join(" ")
    );
    false
}

/// Runs shell text in a mount namespace of its own, with `$@` as given.
pub(crate) fn in_own_mounts(script: &str, args: &[String]) -> Command {
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            script,
            "sh",
        ])
        .args(args);
    command
}
