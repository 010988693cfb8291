//! Hosted terminals beside tmux and `script`: what a person or an agent waits for, and what a session
//! costs while nothing happens.

mod beside;
mod finished;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Bound;
use crate::terminals::{Stage, kilobytes, ticks_of};

/// How much text is sent through a terminal.
const STREAM: usize = 143 << 20;

/// How much of what full-screen programs write is sent through one.
const REDRAWS: usize = 64 << 20;

/// Recordings of programs that draw the whole screen again and again.
const FULL_SCREEN: &[&str] = &[
    "btop.100x30",
    "cmatrix.40x12",
    "htop.80x24",
    "mc.80x24",
    "nethack.80x24",
    "sl.80x24",
    "top.80x24",
    "vifm.80x24",
    "vim-edit.80x24",
];

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

/// Where a program is, if it is installed.
fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file())
}

pub(super) fn measure(ostler: &Path, dir: &Path, runs: usize) -> Result<Vec<Bound>, String> {
    let feed = crate::install::build_example("ostler-screen", "feed")?;
    let stage = Stage::new(ostler, &dir.join("terminal"))?;
    let mut bounds = Vec::new();
    starting(&stage, runs, &mut bounds)?;
    asking(&stage, runs, &mut bounds)?;
    reacting(&stage, &mut bounds)?;
    streaming(&stage, &mut bounds)?;
    redrawing(&stage, &mut bounds)?;
    finished::listing(&stage, runs, &mut bounds)?;
    finished::replaying(&stage, &feed, &mut bounds)?;
    finished::looking_back(&stage, runs, &mut bounds)?;
    match installed("agent-tty") {
        Some(other) => beside::agent_tty(&stage, &other, &mut bounds)?,
        None => eprintln!("agent-tty is not installed: its rows are left out"),
    }
    resting(&stage, &mut bounds)?;
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
            let peak = kilobytes(stage.host(&name)?, "status", "VmHWM")?;
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

/// What full-screen programs write, against the speed of agent-tty.
fn redrawing(stage: &Stage, bounds: &mut Vec<Bound>) -> Result<(), String> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/screen/fixtures");
    let mut round = Vec::new();
    for name in FULL_SCREEN {
        let bytes = fs::read(fixtures.join(name)).map_err(|error| format!("{name}: {error}"))?;
        round.extend_from_slice(&bytes);
    }
    let path = stage.home.join("redraws");
    fs::write(&path, round.repeat(REDRAWS / round.len())).map_err(|error| error.to_string())?;
    let bytes = fs::metadata(&path).map_err(|error| error.to_string())?.len() as f64;
    let mut times = Vec::new();
    for run in 0..3 {
        let name = format!("redraw{run}");
        // Raw, because the answers to the programs' terminal queries have no reader.
        let cat = format!("cat {}", path.display());
        stage.script(
            &name,
            &format!("read; stty raw -echo; {cat}; printf '\\033c[DONE]'; sleep 1000"),
        )?;
        let begun = Instant::now();
        stage.run(&["type", &name, "\n"])?;
        stage.run(&["wait", &name, "--text", "[DONE]", "--timeout", "120000"])?;
        times.push(begun.elapsed());
        stage.run(&["destroy", &name])?;
    }
    // The best of them: on a machine that does other things too, the others tell of those.
    times.sort_unstable();
    let speed = bytes / 1e6 / times[0].as_secs_f64();
    eprintln!("redraws: {speed:.0} MB/s");
    bounds.push(bound("agent-tty's 3.9 MB/s of redraws, against ostler's", 3.9 / speed, 0.2, "x"));
    Ok(())
}

fn resting(stage: &Stage, bounds: &mut Vec<Bound>) -> Result<(), String> {
    let mut hosts = Vec::new();
    for count in 0..200 {
        let name = format!("rest{count}");
        stage.run(&["create", "--name", &name, "--", "/bin/cat"])?;
        hosts.push(stage.host(&name)?);
    }
    let shared = |field| kilobytes(hosts[100], "smaps_rollup", field);
    bounds.push(bound("an idle host, resident", shared("Rss:")? / 1024.0, 8.0, "MB"));
    bounds.push(bound("an idle host, its share", shared("Pss:")? / 1024.0, 3.0, "MB"));
    let ticks = || -> Result<f64, String> { hosts.iter().map(|pid| ticks_of(*pid)).sum() };
    std::thread::sleep(Duration::from_secs(1));
    let before = ticks()?;
    std::thread::sleep(Duration::from_secs(60));
    bounds.push(bound("processor ticks of 200 idle hosts in 60 s", ticks()? - before, 0.0, ""));
    Ok(())
}
