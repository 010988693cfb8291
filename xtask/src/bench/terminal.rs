//! Hosted terminals beside tmux and `script`: what a person or an agent waits for, and what a session
//! costs while nothing happens.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Bound;

/// How much text is sent through a terminal.
const STREAM: usize = 143 << 20;

struct Stage {
    ostler: PathBuf,
    home: PathBuf,
}

impl Stage {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.ostler);
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("OSTLER_HOME", self.home.join("state"))
            .env("XDG_RUNTIME_DIR", self.home.join("run"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("PS1", "$ ")
            .args(args)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Result<String, String> {
        let output = self.command(args).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("ostler {args:?}: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn host(&self, session: &str) -> Result<u32, String> {
        let inspected = self.run(&["inspect", session])?;
        let pid = inspected.lines().find_map(|line| line.strip_prefix("Host pid: "));
        pid.and_then(|pid| pid.parse().ok()).ok_or_else(|| "no host".to_owned())
    }
}

fn tmux(server: &str, args: &[&str]) -> Command {
    let mut command = Command::new("tmux");
    command.args(["-L", server, "-f", "/dev/null"]).args(args);
    command.env_remove("TMUX").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn timed(mut work: impl FnMut() -> Result<(), String>) -> Result<Duration, String> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

fn done(command: &mut Command) -> Result<(), String> {
    let status = command.stdout(Stdio::null()).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

/// Runs both sides in turns and gives the medians.
fn in_turns(
    runs: usize,
    mut one: impl FnMut(usize) -> Result<(), String>,
    mut other: impl FnMut(usize) -> Result<(), String>,
) -> Result<(f64, f64), String> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for run in 0..runs {
        ones.push(timed(|| one(run))?);
        others.push(timed(|| other(run))?);
    }
    Ok((median(ones), median(others)))
}

pub(super) fn measure(ostler: &Path, dir: &Path, runs: usize) -> Result<Vec<Bound>, String> {
    let home = std::path::absolute(dir.join("terminal")).map_err(|error| error.to_string())?;
    let _ = fs::remove_dir_all(&home);
    // Sockets have short names.
    let home =
        if home.as_os_str().len() > 50 { std::env::temp_dir().join("ostler-bench") } else { home };
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(home.join("run")).map_err(|error| error.to_string())?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(home.join("run"), mode).map_err(|error| error.to_string())?;
    let stage = Stage { ostler: ostler.to_owned(), home };
    let mut bounds = Vec::new();
    starting(&stage, runs, &mut bounds)?;
    asking(&stage, runs, &mut bounds)?;
    reacting(&stage, &mut bounds)?;
    streaming(&stage, &mut bounds)?;
    resting(&stage, &mut bounds)?;
    for id in fs::read_dir(stage.home.join("state/sessions")).into_iter().flatten().flatten() {
        let _ = stage.run(&["destroy", "--force", &id.file_name().to_string_lossy()]);
    }
    let _ = fs::remove_dir_all(&stage.home);
    Ok(bounds)
}

fn bound(what: &str, measured: f64, limit: f64, unit: &'static str) -> Bound {
    Bound { what: what.to_owned(), measured, limit: Some(limit), unit }
}

fn starting(stage: &Stage, runs: usize, bounds: &mut Vec<Bound>) -> Result<(), String> {
    let server = |run: usize| format!("ostler-bench-{run}");
    let (ours, theirs) = in_turns(
        runs,
        |run| {
            let name = format!("start{run}");
            done(&mut stage.command(&["create", "--name", &name, "--", "/bin/bash", "--norc"]))
        },
        |run| done(&mut tmux(&server(run), &["new-session", "-d", "/bin/bash --norc"])),
    )?;
    for run in 0..runs {
        done(&mut tmux(&server(run), &["kill-server"]))?;
        stage.run(&["destroy", &format!("start{run}")])?;
    }
    eprintln!("create {:.1} ms, tmux new-session {:.1} ms", ours * 1e3, theirs * 1e3);
    bounds.push(bound("create, against tmux with a new server", ours / theirs, 1.5, "x"));
    bounds.push(bound("create, against agent-tty's 1.56 s", ours / 1.56, 1.0 / 60.0, "x"));
    Ok(())
}

fn asking(stage: &Stage, runs: usize, bounds: &mut Vec<Bound>) -> Result<(), String> {
    stage.run(&[
        "create",
        "--name",
        "ask",
        "--cols",
        "120",
        "--rows",
        "40",
        "--",
        "/bin/bash",
        "--norc",
    ])?;
    stage.run(&["wait", "ask", "--text", "$"])?;
    let server = "ostler-bench-ask";
    done(&mut tmux(server, &["new-session", "-d", "/bin/bash --norc"]))?;
    let signal = format!("true; tmux -L {server} wait-for -S done");
    let (ours, theirs) = in_turns(
        runs,
        |_| done(&mut stage.command(&["run", "ask", "true"])),
        |_| {
            done(&mut tmux(server, &["send-keys", &signal, "Enter"]))?;
            done(&mut tmux(server, &["wait-for", "done"]))
        },
    )?;
    done(&mut tmux(server, &["kill-server"]))?;
    bounds.push(bound("run true, against tmux send-keys and wait-for", ours / theirs, 3.0, "x"));
    for args in [&["type", "ask", "x"][..], &["inspect", "ask"], &["snapshot", "ask"]] {
        let (ours, floor) = in_turns(
            runs * 2,
            |_| done(&mut stage.command(args)),
            |_| done(&mut Command::new("/bin/true")),
        )?;
        let what = format!("{}, against /bin/true", args[0]);
        bounds.push(bound(&what, ours / floor, 4.0, "x"));
    }
    let picture = timed(|| done(&mut stage.command(&["screenshot", "ask"])))?;
    bounds.push(bound("screenshot of 120x40, cold", picture.as_secs_f64() * 1e3, 80.0, "ms"));
    Ok(())
}

/// From output to the end of a `wait` for it: the program writes down when it prints.
fn reacting(stage: &Stage, bounds: &mut Vec<Bound>) -> Result<(), String> {
    let script = "while read -r n; do date +%s%N >\"$HOME/printed\"; echo \"mark-$n-\"; done";
    stage.run(&["create", "--name", "react", "--", "/bin/bash", "-c", script])?;
    let mut late = Vec::new();
    for round in 0..200 {
        let text = format!("mark-{round}-");
        let mut waiting = stage
            .command(&["wait", "react", "--text", &text, "--timeout", "10000"])
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        std::thread::sleep(Duration::from_millis(8));
        stage.run(&["type", "react", &format!("{round}\n")])?;
        waiting.wait().map_err(|error| error.to_string())?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_err(|error| error.to_string())?.as_nanos();
        let printed = fs::read_to_string(stage.home.join("printed")).map_err(|e| e.to_string())?;
        let printed: u128 = printed.trim().parse().map_err(|_| "no time".to_owned())?;
        late.push(Duration::from_nanos(u64::try_from(now.saturating_sub(printed)).unwrap_or(0)));
    }
    late.sort_unstable();
    // `date` itself takes a moment between the time it tells and the echo after it.
    bounds.push(bound("output to wait, median of 200", late[100].as_secs_f64() * 1e3, 10.0, "ms"));
    bounds.push(bound("output to wait, 99th of 100", late[197].as_secs_f64() * 1e3, 20.0, "ms"));
    Ok(())
}

fn streaming(stage: &Stage, bounds: &mut Vec<Bound>) -> Result<(), String> {
    let path = stage.home.join("stream");
    let mut file = std::io::BufWriter::new(fs::File::create(&path).map_err(|e| e.to_string())?);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut written = 0;
    while written < STREAM {
        let mut line = [b'\n'; 77];
        for byte in &mut line[..76] {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
                [(state % 64) as usize];
        }
        file.write_all(&line).map_err(|error| error.to_string())?;
        written += line.len();
    }
    file.flush().map_err(|error| error.to_string())?;
    let cat = format!("cat {}", path.display());
    let (mut ours, mut script, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..3 {
        let name = format!("stream{run}");
        let shell = format!("read; {cat}; echo; echo '[DONE]'; read");
        stage.run(&["create", "--name", &name, "--", "/bin/bash", "-c", &shell])?;
        let begun = Instant::now();
        stage.run(&["type", &name, "\n"])?;
        stage.run(&["wait", &name, "--text", "[DONE]", "--timeout", "120000"])?;
        ours.push(begun.elapsed());
        if run == 2 {
            let peak = status_field(stage.host(&name)?, "VmHWM")?;
            bounds.push(bound("the host's peak after 143 MB", peak / 1024.0, 24.0, "MB"));
        }
        stage.run(&["destroy", &name])?;
        let typescript = stage.home.join("typescript");
        let mut command = Command::new("script");
        command.args(["-qc", &cat]).arg(&typescript).stdin(Stdio::null());
        script.push(timed(|| done(&mut command))?);
        let server = format!("ostler-bench-stream{run}");
        let line = format!("{cat}; tmux -L {server} wait-for -S done");
        theirs.push(timed(|| {
            done(&mut tmux(&server, &["new-session", "-d", "-x", "80", "-y", "24", &line]))?;
            done(&mut tmux(&server, &["wait-for", "done"]))
        })?);
    }
    let (ours, script, theirs) = (median(ours), median(script), median(theirs));
    eprintln!("143 MB: ostler {ours:.2} s, script {script:.2} s, tmux {theirs:.2} s");
    bounds.push(bound("143 MB of base64, against script to a file", ours / script, 1.0, "x"));
    bounds.push(bound("143 MB of base64, against tmux", ours / theirs, 1.0, "x"));
    let begun = Instant::now();
    stage.run(&["snapshot", "stream0"])?;
    bounds.push(bound(
        "snapshot of it when it is over",
        begun.elapsed().as_secs_f64() * 1e3,
        30.0,
        "ms",
    ));
    Ok(())
}

fn resting(stage: &Stage, bounds: &mut Vec<Bound>) -> Result<(), String> {
    let mut hosts = Vec::new();
    for count in 0..200 {
        let name = format!("rest{count}");
        stage.run(&["create", "--name", &name, "--", "/bin/cat"])?;
        hosts.push(stage.host(&name)?);
    }
    let shared = |pid: u32, field: &str| -> Result<f64, String> {
        let text =
            fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).map_err(|e| e.to_string())?;
        let line = text.lines().find(|line| line.starts_with(field)).ok_or("no such field")?;
        line.split_whitespace()
            .nth(1)
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| "no number".to_owned())
    };
    bounds.push(bound("an idle host, resident", shared(hosts[100], "Rss:")? / 1024.0, 8.0, "MB"));
    bounds.push(bound("an idle host, its share", shared(hosts[100], "Pss:")? / 1024.0, 3.0, "MB"));
    let ticks = || -> Result<f64, String> { hosts.iter().map(|pid| ticks_of(*pid)).sum() };
    std::thread::sleep(Duration::from_secs(1));
    let before = ticks()?;
    std::thread::sleep(Duration::from_secs(60));
    bounds.push(bound("processor ticks of 200 idle hosts in 60 s", ticks()? - before, 0.0, ""));
    Ok(())
}

fn ticks_of(pid: u32) -> Result<f64, String> {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| error.to_string())?;
    let fields = stat[stat.rfind(')').unwrap_or(0) + 2..].split(' ').skip(11).take(2);
    Ok(fields.filter_map(|field| field.parse::<f64>().ok()).sum())
}

fn status_field(pid: u32, field: &str) -> Result<f64, String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|e| e.to_string())?;
    let line = status.lines().find(|line| line.starts_with(field)).ok_or("no such field")?;
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .ok_or_else(|| "no number".to_owned())
}
