//! The processes of one agent run: started, found again, ended. Nothing is ever matched by
//! name; a process belongs to a run if its `HOME` is the run's scratch home or an ancestor does.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use sys::proc::Signal;

/// A child that is killed and waited for at the latest when it is dropped.
#[derive(Debug)]
pub(crate) struct Reaped(pub(crate) Child);

impl Reaped {
    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        // Does nothing to a child that was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One row of the process table.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    pub(crate) state: char,
    pub(crate) start: u64,
    pub(crate) comm: String,
}

impl Process {
    fn read(pid: i32) -> Option<Process> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let (head, tail) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        Some(Process {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            state: fields.first()?.chars().next()?,
            start: fields.get(19)?.parse().ok()?,
            comm: head.split_once('(')?.1.to_owned(),
        })
    }

    pub(crate) fn link(&self, name: &str) -> PathBuf {
        fs::read_link(format!("/proc/{}/{name}", self.pid)).unwrap_or_default()
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        text.trim_end_matches('\0').split('\0').map(str::to_owned).collect()
    }

    fn has_home(&self, home: &Path) -> bool {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|entry| entry.strip_prefix(b"HOME=") == Some(home.as_os_str().as_bytes()))
    }
}

fn table() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::read).collect()
}

/// The processes of the run with this home, zombies left out, oldest first.
pub(crate) fn of_home(home: &Path) -> Vec<Process> {
    let table = table();
    let ours = |p: &&Process| p.has_home(home);
    let mut members: BTreeSet<i32> = table.iter().filter(ours).map(|p| p.pid).collect();
    loop {
        let before = members.len();
        let children = table.iter().filter(|p| members.contains(&p.parent)).map(|p| p.pid);
        members.extend(children.collect::<Vec<_>>());
        if members.len() == before {
            break;
        }
    }
    let mut run = table;
    run.retain(|process| members.contains(&process.pid) && process.state != 'Z');
    run.sort_by_key(|process| (process.start, process.pid));
    run
}

/// Sends a signal to exactly this process, not to a later one with the same number.
fn send(process: &Process, signal: Signal) {
    let Some(identity) =
        u32::try_from(process.pid).ok().and_then(|pid| sys::proc::identify_process(pid).ok())
    else {
        return;
    };
    if identity.start == Some(process.start) {
        // One that has ended meanwhile needs no signal.
        let _ = sys::proc::signal_process(&identity, signal, &sys::proc::current_observer());
    }
}

/// Kills every process of the run but those of one program. It does not wait.
pub(crate) fn kill_agents(home: &Path, spared: &Path) {
    let spared = std::fs::canonicalize(spared).unwrap_or_default();
    for process in of_home(home).iter().filter(|process| process.link("exe") != spared) {
        send(process, Signal::Kill);
    }
}

/// Kills these processes of the run.
pub(crate) fn kill_these(home: &Path, pids: &[i32]) {
    for process in of_home(home).iter().filter(|process| pids.contains(&process.pid)) {
        send(process, Signal::Kill);
    }
}

/// Kills every process of the run and waits until they are gone. Returns those that stayed.
pub(crate) fn kill_run(home: &Path) -> Vec<Process> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let run = of_home(home);
        if run.is_empty() || Instant::now() > deadline {
            return run;
        }
        for process in &run {
            send(process, Signal::Kill);
        }
        thread::sleep(Duration::from_millis(50));
    }
}
