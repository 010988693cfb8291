//! The dashboard on a terminal of its own: how soon it paints, answers a key, tells a change; what it costs at rest.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use sys::pty::{PtyMaster, PtyProgram, PtyRead, PtySize, spawn_on_pty};

use super::super::{Bound, clean, generate, side_by_side};

/// How long anything may take before it counts as never.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a dashboard rests before it counts as idle: output of terminals is shown 10 s late.
const SETTLE_TIME: Duration = Duration::from_secs(15);

const IDLE_TIME: Duration = Duration::from_secs(60);

const KEYS: usize = 300;
const CHANGES: usize = 100;

fn bound(what: String, measured: f64, limit: f64, unit: &'static str) -> Bound {
    Bound { what, measured, limit: Some(limit), unit }
}

/// A home with terminals and one agent's process in it; what was started ends with the value.
struct BusyHome<'a> {
    ostler: &'a Path,
    home: PathBuf,
    terminals: Vec<String>,
    agent: Option<Child>,
}

impl<'a> BusyHome<'a> {
    fn prepare(ostler: &'a Path, dir: &Path, sessions: usize) -> Result<Self, String> {
        let home = std::path::absolute(dir.join(format!("home-{sessions}")))
            .map_err(|error| error.to_string())?;
        generate::ensure(&home, sessions, None)?;
        Ok(Self { ostler, home, terminals: Vec::new(), agent: None })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = clean(self.ostler, &self.home);
        command.args(words).env("LANG", "C.UTF-8").env("TERM", "xterm-256color");
        command
    }

    fn run(&self, words: &[&str]) -> Result<(), String> {
        let status = self.command(words).status().map_err(|error| error.to_string())?;
        status.success().then_some(()).ok_or_else(|| format!("{words:?} ended with {status}"))
    }

    fn add_terminal(&mut self, name: &str) -> Result<(), String> {
        self.add_program(name, &["--", "/bin/cat"])
    }

    fn add_program(&mut self, name: &str, options: &[&str]) -> Result<(), String> {
        self.run(&[&["create", "--name", name], options].concat())?;
        self.terminals.push(name.to_owned());
        Ok(())
    }

    /// Says of a process that it is Claude Code's, and what it does.
    fn register(&mut self, status: &str, number: usize) -> Result<(), String> {
        if self.agent.is_none() {
            let sleep = Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn();
            self.agent = Some(sleep.map_err(|error| error.to_string())?);
        }
        let pid = self.agent.as_ref().map_or(0, Child::id);
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or_default();
        let start = after.split_whitespace().nth(19).unwrap_or_default();
        let record = json!({
            "pid": pid, "sessionId": "77777777-7777-4777-8777-777777777777", "cwd": self.home,
            "procStart": start, "startedAt": 1_800_000_000_000_u64, "version": "2.1.325",
            "kind": "interactive", "status": status, "waitingFor": format!("question {number}"),
            "updatedAt": 1_800_000_000_000_u64, "statusUpdatedAt": 1_800_000_000_000_u64,
        });
        let place = self.home.join(".claude/sessions");
        let (new, path) = (place.join("new"), place.join(format!("{pid}.json")));
        std::fs::create_dir_all(&place)
            .and_then(|()| std::fs::write(&new, record.to_string()))
            .and_then(|()| std::fs::rename(&new, &path))
            .map_err(|error| error.to_string())
    }
}

impl Drop for BusyHome<'_> {
    fn drop(&mut self) {
        for name in std::mem::take(&mut self.terminals) {
            if let Err(reason) = self.run(&["destroy", "--force", &name]) {
                eprintln!("{reason}");
            }
        }
        if let Some(mut agent) = self.agent.take() {
            let ended = agent.kill().and_then(|()| agent.wait());
            let record = self.home.join(format!(".claude/sessions/{}.json", agent.id()));
            if ended.is_err() || std::fs::remove_file(record).is_err() {
                eprintln!("the agent's process was not cleaned up");
            }
        }
    }
}

/// A dashboard on a terminal.
struct OpenDashboard {
    master: PtyMaster,
    program: PtyProgram,
    bytes: u64,
}

impl OpenDashboard {
    fn open(home: &BusyHome<'_>) -> Result<Self, String> {
        let size = PtySize { cols: 120, rows: 40 };
        let command = home.command(&["top"]);
        let (master, program) = spawn_on_pty(command, size).map_err(|error| error.to_string())?;
        sys::watch::set_nonblocking(master.as_fd()).map_err(|error| error.to_string())?;
        Ok(Self { master, program, bytes: 0 })
    }

    /// What is written until the deadline, at least once; `None` if nothing is.
    fn read_until(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, String> {
        let mut buffer = [0; 65536];
        loop {
            match self.master.read(&mut buffer).map_err(|error| error.to_string())? {
                PtyRead::Bytes(count) => {
                    self.bytes += count as u64;
                    return Ok(Some(buffer[..count].to_vec()));
                }
                PtyRead::Closed => return Err("the dashboard ended".to_owned()),
                PtyRead::Nothing if Instant::now() >= deadline => return Ok(None),
                PtyRead::Nothing => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    sys::watch::poll_readable(&[self.master.as_fd()], Some(left))
                        .map_err(|error| error.to_string())?;
                }
            }
        }
    }

    /// Reads until this text was written.
    fn wait_for(&mut self, text: &str) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while let Some(part) = self.read_until(deadline)? {
            seen.extend(part);
            if seen.windows(text.len()).any(|window| window == text.as_bytes()) {
                return Ok(());
            }
        }
        Err(format!("{text:?} was not painted"))
    }

    fn drain(&mut self, time: Duration) -> Result<(), String> {
        let deadline = Instant::now() + time;
        while self.read_until(deadline)?.is_some() {}
        Ok(())
    }

    /// The guard and the dashboard below it.
    fn processes(&self) -> Vec<u32> {
        let guard = self.program.pid();
        let path = format!("/proc/{guard}/task/{guard}/children");
        let below = std::fs::read_to_string(path).unwrap_or_default();
        let below = below.split_whitespace().filter_map(|pid| pid.parse().ok());
        std::iter::once(guard).chain(below).collect()
    }

    /// What the dashboard itself holds; its guard is another process.
    fn resident_megabytes(&self) -> Result<f64, String> {
        let child = self.processes().get(1).copied().unwrap_or(0);
        let status = read(&format!("/proc/{child}/status"))?;
        Ok(number_after(&status, "VmRSS:") / 1024.0)
    }

    fn close(self) -> Result<(), String> {
        let is_written = self.master.write(b"q").map_err(|error| error.to_string())? == 1;
        if is_written {
            self.program.reap().map(|_| ()).map_err(|error| error.to_string())
        } else {
            Ok(())
        }
    }
}

/// Ticks of the processor and sleeps by its own will, of all threads.
fn spent(processes: &[u32]) -> Result<(f64, f64), String> {
    let (mut ticks, mut sleeps) = (0.0, 0.0);
    for pid in processes {
        let stat = read(&format!("/proc/{pid}/stat"))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        for field in [11, 12] {
            ticks += fields.get(field).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        }
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|e| e.to_string())?;
        for task in tasks.flatten() {
            let status = read(&format!("{}/status", task.path().display()))?;
            sleeps += number_after(&status, "voluntary_ctxt_switches:");
        }
    }
    Ok((ticks, sleeps))
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

fn number_after(text: &str, field: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let place = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

pub(super) fn measure(ostler: &Path, dir: &Path, runs: usize) -> Result<Vec<Bound>, String> {
    let mut bounds = Vec::new();
    painting(ostler, dir, runs, &mut bounds)?;
    reacting(ostler, dir, &mut bounds)?;
    resting(ostler, dir, &mut bounds)?;
    Ok(bounds)
}

fn painting(ostler: &Path, dir: &Path, runs: usize, bounds: &mut Vec<Bound>) -> Result<(), String> {
    const SESSIONS: usize = 10_000;
    let mut home = BusyHome::prepare(ostler, dir, SESSIONS)?;
    home.add_terminal("painted-row")?;
    home.run(&["ls", "-a", "-q"])?;
    let [listed] = side_by_side(runs.max(5), [home.command(&["ls"])])?;
    let mut paints = Vec::new();
    let (mut resident, mut watched): (f64, f64) = (0.0, 0.0);
    for run in 0..runs.max(5) {
        let begun = Instant::now();
        let mut top = OpenDashboard::open(&home)?;
        top.wait_for("painted-row")?;
        paints.push(begun.elapsed());
        if run == 0 {
            top.drain(Duration::from_secs(3))?;
            resident = top.resident_megabytes()?;
            let wide = ["--cols", "200", "--rows", "50", "--", "sh", "-c", "seq 1000; cat"];
            home.add_program("wide-row", &wide)?;
            top.wait_for("wide-row")?;
            top.drain(Duration::from_secs(1))?;
            let before = top.resident_megabytes()?;
            // Of two rows it is the other one, wherever it came.
            top.master.write(b"j").map_err(|error| error.to_string())?;
            top.drain(Duration::from_secs(1))?;
            top.master.write(b"k").map_err(|error| error.to_string())?;
            top.drain(Duration::from_secs(1))?;
            watched = (top.resident_megabytes()? - before).max(0.0);
        }
        top.close()?;
    }
    let paint = percentile(&mut paints, 50);
    eprintln!("first paint {paint:.1} ms, ls {listed:?}, {SESSIONS} sessions");
    let against = paint / (listed.as_secs_f64() * 1000.0);
    let what = format!("top: first paint with live rows against ls, {SESSIONS} sessions");
    bounds.push(bound(what, against, 1.3, "x"));
    bounds.push(bound(format!("top: resident, {SESSIONS} sessions"), resident, 45.0, " MB"));
    let what = "top: memory for a watched terminal of 200 by 50".to_owned();
    bounds.push(bound(what, watched, 1.5, " MB"));
    Ok(())
}

fn reacting(ostler: &Path, dir: &Path, bounds: &mut Vec<Bound>) -> Result<(), String> {
    let mut home = BusyHome::prepare(ostler, dir, 1000)?;
    home.add_terminal("first-row")?;
    home.add_terminal("second-row")?;
    home.register("busy", 0)?;
    let mut top = OpenDashboard::open(&home)?;
    top.wait_for("second-row")?;
    top.drain(Duration::from_secs(1))?;
    let mut keys = Vec::new();
    for press in 0..KEYS {
        let begun = Instant::now();
        top.master.write(if press % 2 == 0 { b"j" } else { b"k" }).map_err(|e| e.to_string())?;
        top.read_until(begun + PATIENCE)?.ok_or("a key was not answered")?;
        keys.push(begun.elapsed());
        top.drain(Duration::from_millis(20))?;
    }
    top.drain(Duration::from_secs(1))?;
    let mut changes = Vec::new();
    for number in 0..CHANGES {
        let words = format!("question {number}");
        home.register("waiting", number)?;
        let begun = Instant::now();
        // Only the cells that differ are written: the last digit at least.
        top.read_until(begun + PATIENCE)?.ok_or_else(|| format!("{words} was not told"))?;
        changes.push(begun.elapsed());
        top.drain(Duration::from_millis(600))?;
    }
    let begun = Instant::now();
    if let Some(agent) = &mut home.agent {
        agent.kill().and_then(|()| agent.wait()).map_err(|error| error.to_string())?;
    }
    top.read_until(begun + PATIENCE)?.ok_or("the end of a process was not told")?;
    let end = begun.elapsed().as_secs_f64() * 1000.0;
    top.close()?;
    let p99 = |times: &mut [Duration]| percentile(times, 99);
    bounds.push(bound("top: key to bytes, p99".to_owned(), p99(&mut keys), 16.0, " ms"));
    let median = percentile(&mut changes, 50);
    bounds.push(bound("top: change on disk to bytes, p50".to_owned(), median, 60.0, " ms"));
    bounds.push(bound(
        "top: change on disk to bytes, p99".to_owned(),
        p99(&mut changes),
        150.0,
        " ms",
    ));
    bounds.push(bound("top: end of a process to bytes".to_owned(), end, 150.0, " ms"));
    Ok(())
}

fn resting(ostler: &Path, dir: &Path, bounds: &mut Vec<Bound>) -> Result<(), String> {
    let mut home = BusyHome::prepare(ostler, dir, 200)?;
    for number in 0..5 {
        home.add_terminal(&format!("quiet-{number}"))?;
    }
    let mut top = OpenDashboard::open(&home)?;
    top.wait_for("quiet-4")?;
    let mut others = Vec::new();
    for (name, words) in [
        ("mcp", &["mcp"][..]),
        ("ls --watch", &["ls", "-a", "--json", "--watch"]),
        ("events -f", &["events", "-f", "--json"]),
        ("web", &["web", "--port", "0", "--json"]),
        ("daemon", &["daemon", "run"]),
    ] {
        let child = home.command(words).stdin(Stdio::piped()).current_dir(&home.home).spawn();
        others.push((name, child.map_err(|error| format!("{name}: {error}"))?));
    }
    top.drain(SETTLE_TIME)?;
    let mut all = vec![("top", top.processes())];
    all.extend(others.iter().map(|(name, child)| (*name, vec![child.id()])));
    let before: Vec<(f64, f64)> =
        all.iter().map(|(_, processes)| spent(processes)).collect::<Result<_, _>>()?;
    let written = top.bytes;
    top.drain(IDLE_TIME)?;
    for ((name, processes), before) in all.iter().zip(before) {
        let (ticks, sleeps) = spent(processes)?;
        bounds.push(bound(format!("{name}: idle ticks in 60 s"), ticks - before.0, 0.0, ""));
        bounds.push(bound(format!("{name}: idle wake-ups in 60 s"), sleeps - before.1, 2.0, ""));
    }
    let told = (top.bytes - written) as f64;
    bounds.push(bound("top: bytes to its terminal in 60 s".to_owned(), told, 300.0, ""));
    top.close()?;
    for (name, mut child) in others {
        child.kill().and_then(|()| child.wait()).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}
