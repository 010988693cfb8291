//! Real processes for the tests: started, awaited by their own word, ended with the test.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use model::identity::{BootId, Identity, IdentityRecorder, MachineId};
use model::liveness::Liveness;
use ostler_sys::proc::{current_observer, probe_liveness};

/// The helper of `examples/probe.rs`.
pub(crate) fn helper() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().and_then(Path::parent).unwrap().join("examples/probe");
    assert!(path.exists(), "run `cargo build -p ostler-sys --examples` first: no {path:?}");
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
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
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
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
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
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}{err}");
    out.trim_end().to_owned()
}

/// Whether the machine lets us do what the command line does; says so visibly if not.
pub(crate) fn permits(words: &[&str]) -> bool {
    let tried = Command::new(words[0]).args(&words[1..]).arg("true").output();
    let reason = match tried {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("SKIPPED: `{}` is not permitted here: {reason}", words.join(" "));
    false
}

/// Runs shell text in a mount namespace of its own, with `$@` as given.
pub(crate) fn in_own_mounts(script: &str, args: &[String]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", script, "sh"]).args(args);
    command
}

pub(crate) const UNSHARE_PID: [&str; 4] = ["unshare", "--pid", "--fork", "--mount-proc"];
pub(crate) const UNSHARE_MOUNT: [&str; 2] = ["unshare", "--mount"];
pub(crate) const NOBODY: [&str; 5] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];

/// The words by which the helper is told an identity.
pub(crate) fn words(identity: &Identity) -> Vec<String> {
    let mut words = Vec::new();
    let mut add = |key: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("{key}={value}")));
    };
    add("pid", identity.pid.map(|value| value.to_string()));
    add("uid", identity.uid.map(|value| value.to_string()));
    add("start", identity.start.map(|value| value.to_string()));
    add("pid_ns", identity.pid_ns.map(|value| value.to_string()));
    add("time_ns", identity.time_ns.map(|value| value.to_string()));
    add("pidfd_ino", identity.pidfd_ino.map(|value| value.to_string()));
    add("recorded_at", identity.recorded_at.map(|time| time.as_millis().to_string()));
    match &identity.boot {
        Some(BootId::Id(id)) => add("boot_id", Some(id.clone())),
        Some(BootId::Time(time)) => add("boot_time", Some(time.to_string())),
        None => {}
    }
    match &identity.machine {
        Some(MachineId::Hashed(id)) => add("machine_hashed", Some(id.clone())),
        Some(MachineId::Plain(id)) => add("machine_plain", Some(id.clone())),
        None => {}
    }
    add("recorder", (identity.recorder == IdentityRecorder::Agent).then(|| "agent".into()));
    words
}

/// What the helper, started below `prefix`, says about an identity.
pub(crate) fn probed_below(prefix: &[&str], helper: &Path, identity: &Identity) -> String {
    let mut command = Command::new(prefix[0]);
    command.args(&prefix[1..]).arg(helper).arg("probe").args(words(identity));
    output(&mut command)
}

pub(crate) fn probed(identity: &Identity) -> Liveness {
    probe_liveness(identity, &current_observer())
}

/// The same process as an agent records it that knows its pid and nothing else.
pub(crate) fn pid_only(identity: &Identity) -> Identity {
    Identity { recorded_at: identity.recorded_at, ..Identity::recorded_by_agent(identity.pid) }
}

/// The same process as Claude Code records it.
pub(crate) fn with_ticks(identity: &Identity) -> Identity {
    Identity { start: identity.start, ..pid_only(identity) }
}
