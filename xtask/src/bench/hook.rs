//! What a hook costs an agent, and how soon the end of an agent is known.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Bound, clean, side_by_side};

/// How many hooks are spawned of each kind.
const SPAWNS: usize = 200;

/// How many agents are killed.
const KILLS: usize = 100;

pub(super) fn measure(ostler: &Path, directory: &Path) -> Result<Vec<Bound>, String> {
    let directory = directory.join("hook");
    let _ = std::fs::remove_dir_all(&directory);
    let home = |name: &str| -> Result<PathBuf, String> {
        let home = std::path::absolute(directory.join(name)).map_err(|e| e.to_string())?;
        std::fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        Ok(home)
    };
    let floor = floor(&home("floor")?)?;
    let mut bounds = cost("", ostler, &floor, &home("empty")?)?;
    let full = home("full")?;
    fill(ostler, &full, 10_000)?;
    let spool = state(&full).join("spool/events.jsonl");
    append(&spool, &lines(100_000, "spooled"))?;
    bounds.extend(cost(", 100000 lines spooled and 10000 sessions ended", ostler, &floor, &full)?);
    bounds.push(latency(ostler, &home("daemon")?)?);
    let (few, many) = (home("few")?, home("many")?);
    fill(ostler, &few, 50)?;
    fill(ostler, &many, 5_000)?;
    for (which, arguments, place) in [
        ("status --all", &["status", "--all"][..], ""),
        ("status where they ended", &["status"], WORKED_IN),
        ("status elsewhere", &["status"], ""),
    ] {
        let status = |home: &Path| {
            let mut command = clean(ostler, home);
            command.env("XDG_RUNTIME_DIR", home.join("run")).args(arguments);
            command.current_dir(home.join(place));
            command
        };
        let [few, many] = side_by_side(51, [status(&few), status(&many)])?;
        eprintln!("{which}: 50 ended {few:?}, 5000 ended {many:?}");
        bounds.push(Bound {
            what: format!("{which}, 5000 ended sessions against 50"),
            measured: many.as_secs_f64() / few.as_secs_f64(),
            limit: Some(1.3),
            unit: "x",
        });
    }
    Ok(bounds)
}

pub(super) fn state(home: &Path) -> PathBuf {
    home.join(".local/state/ostler")
}

/// Builds the program that only reads and appends, linked statically.
fn floor(directory: &Path) -> Result<PathBuf, String> {
    let program = directory.join("append");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("floor/append.rs");
    let status = Command::new("rustc")
        .args(["-O", "-C", "target-feature=+crt-static", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    match status {
        Ok(status) if status.success() => Ok(program),
        other => Err(format!("the floor could not be built: {other:?}")),
    }
}

fn payload(prompt: &str) -> String {
    format!(
        r#"{{"session_id":"01a1e05b-2a2f-7a73-94fb-06f3b2a6e9b4","transcript_path":"/home/user/x.jsonl","cwd":"/home/user/repo","hook_event_name":"UserPromptSubmit","prompt":"{prompt}"}}"#
    )
}

/// A hook against `/bin/true` and against the floor.
fn cost(when: &str, ostler: &Path, floor: &Path, home: &Path) -> Result<Vec<Bound>, String> {
    let hook = || {
        let mut command = clean(ostler, home);
        // The agent is right above its hook, and says so.
        command.env("CLAUDE_PID", std::process::id().to_string());
        command.args(["hook", "claude-code", "UserPromptSubmit"]);
        command
    };
    let append = || {
        let mut command = clean(floor, home);
        command.arg(home.join("floor"));
        command
    };
    let mut times: [Vec<Duration>; 3] = Default::default();
    let payload = payload("hello there");
    for _ in 0..SPAWNS {
        times[0].push(given(&mut clean(Path::new("/bin/true"), home), &payload)?);
        times[1].push(given(&mut append(), &payload)?);
        times[2].push(given(&mut hook(), &payload)?);
    }
    let [nothing, floor, hook] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    eprintln!("hook{when}: /bin/true {nothing:?}, floor {floor:?}, hook {hook:?}");
    let ratio = |of: Duration| hook.as_secs_f64() / of.as_secs_f64();
    let bound = |against: &str, measured: f64, limit: f64| Bound {
        what: format!("hook{when}, against {against}"),
        measured,
        limit: Some(limit),
        unit: "x",
    };
    Ok(vec![
        bound("/bin/true", ratio(nothing), 2.5),
        bound("a program that only appends", ratio(floor), 1.3),
    ])
}

/// How long a command takes that is given a payload through a pipe.
fn given(command: &mut Command, payload: &str) -> Result<Duration, String> {
    let failed = |error: std::io::Error| error.to_string();
    let (reader, mut writer) = std::io::pipe().map_err(failed)?;
    writer.write_all(payload.as_bytes()).map_err(failed)?;
    drop(writer);
    command.stdin(reader);
    super::time(command)
}

/// Reports as hooks would have written them.
fn lines(count: usize, name: &str) -> String {
    (0..count).map(|index| line(name, index)).collect()
}

/// One such report.
pub(super) fn line(name: &str, index: usize) -> String {
    format!(
        "\n{{\"id\":\"{name}-{index}\",\"at\":\"2026-11-15T10:00:00.000Z\",\
         \"agent\":\"claude-code\",\"event\":\"Stop\",\"session\":\"{name}-{}\",\
         \"happening\":\"turn-end\"}}\n",
        index % 100
    )
}

/// Where the sessions of a filled home worked. It is a repository of its own.
const WORKED_IN: &str = "work";

/// A home in which that many sessions have just ended and were condensed.
pub(super) fn fill(ostler: &Path, home: &Path, count: usize) -> Result<(), String> {
    let work = home.join(WORKED_IN);
    std::fs::create_dir_all(work.join(".git")).map_err(|error| error.to_string())?;
    let minute = Command::new("date").args(["-u", "-d", "1 hour ago", "+%FT%H:%M"]).output();
    let minute = minute.map_err(|error| error.to_string())?.stdout;
    let minute = String::from_utf8_lossy(&minute);
    let mut text = String::new();
    for index in 0..count {
        for (happening, second) in [("turn-start", 0), ("session-end", 1)] {
            let _ = write!(
                text,
                "\n{{\"id\":\"{happening}-{index}\",\"at\":\"{}:0{second}.000Z\",\
                 \"agent\":\"claude-code\",\"event\":\"x\",\"session\":\"ended-{index}\",\
                 \"happening\":\"{happening}\",\"cwd\":\"{}\"}}\n",
                minute.trim(),
                work.display()
            );
        }
    }
    append(&state(home).join("spool/events.jsonl"), &text)?;
    loop {
        let mut finalize = clean(ostler, home);
        finalize.env("XDG_RUNTIME_DIR", home.join("run")).args(["finalize", "--json"]);
        let output = finalize.stdout(Stdio::piped()).output().map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(format!("finalize: {text}"));
        }
        if text.contains("\"pending\": 0") {
            return Ok(());
        }
    }
}

pub(super) fn append(path: &Path, text: &str) -> Result<(), String> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

    let failed = |error: std::io::Error| error.to_string();
    let directory = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let mut options = std::fs::OpenOptions::new();
    let file = options.append(true).create(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)
}

/// From the death of an agent to the event that says so, with the daemon.
fn latency(ostler: &Path, home: &Path) -> Result<Bound, String> {
    let run = |arguments: &[&str]| {
        let mut command = clean(ostler, home);
        command.env("XDG_RUNTIME_DIR", home.join("run")).args(arguments);
        command
    };
    let mut daemon = Killed(run(&["daemon", "run"]).stderr(Stdio::piped()).spawn().map_err(text)?);
    let stderr = daemon.0.stderr.take().ok_or("no stderr")?;
    BufReader::new(stderr).read_line(&mut String::new()).map_err(text)?;
    let mut follow = run(&["events", "-f", "--json"]);
    let mut follower = Killed(follow.stdout(Stdio::piped()).spawn().map_err(text)?);
    let mut events = BufReader::new(follower.0.stdout.take().ok_or("no stdout")?).lines();
    let mut wait_for = |kind: &str, session: &str| loop {
        let line = events.next().ok_or("the stream ended")?.map_err(text)?;
        if line.contains(&format!("\"kind\":\"{kind}\"")) && line.contains(session) {
            return Ok::<_, String>(());
        }
    };
    let mut times = Vec::new();
    for index in 0..KILLS {
        let session = format!("killed-{index}-x");
        let payload = format!(r#"{{"session_id":"{session}","cwd":"/tmp","prompt":"x"}}"#);
        // A tree: the agent, and a tool that it runs.
        let script = "export CLAUDE_PID=$$; printf '%s' \"$1\" | \"$0\" hook claude-code \
                      UserPromptSubmit; sleep 1000 & wait";
        let mut shell = clean(Path::new("bash"), home);
        shell.args(["-c", script]).arg(ostler).arg(&payload);
        let mut agent = Killed(shell.spawn().map_err(text)?);
        wait_for("turn-start", &session)?;
        let begun = Instant::now();
        agent.0.kill().map_err(text)?;
        wait_for("exited", &session)?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let median = times[times.len() / 2];
    eprintln!("finalized: median {median:?}, slowest {:?}", times[times.len() - 1]);
    Ok(Bound {
        what: format!("from the death of an agent to the event, median of {KILLS}"),
        measured: median.as_secs_f64() * 1e3,
        limit: Some(50.0),
        unit: " ms",
    })
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}

/// A process that does not outlive the measurement.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
