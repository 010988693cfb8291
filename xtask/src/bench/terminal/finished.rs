//! Sessions that are over: how many of them are listed, and how a screen is come by again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Bound, Stage, bound, done, in_turns, timed};

/// How many finished sessions are listed.
const MANY: usize = 500;

/// How much a session wrote whose last screen is asked for.
const GIGABYTE: usize = 1 << 30;

/// A list, against a look at every file that it has to look at.
pub(super) fn listing(stage: &Stage, runs: usize, bounds: &mut Vec<Bound>) -> Result<(), String> {
    let there = fs::read_dir(stage.sessions()).map_err(|error| error.to_string())?.count();
    for _ in there..MANY {
        stage.run(&["create", "--", "/bin/true"])?;
    }
    stage.run(&["agent-tty", "list"])?;
    let walk = || {
        let mut command = Command::new("find");
        command.arg(stage.sessions()).args(["-name", "session.json", "-printf", "%p %s %T@\\n"]);
        command
    };
    for args in [&["agent-tty", "list", "--all", "--json"][..], &["ls", "-a", "--json"]] {
        let (ours, floor) =
            in_turns(runs, |_| done(&mut stage.command(args)), |_| done(&mut walk()))?;
        let what = format!("{} of {MANY} finished sessions, above a stat of each", args.join(" "));
        bounds.push(bound(&what, (ours - floor) * 1e3, 20.0, "ms"));
    }
    Ok(())
}

/// A replay of the whole log, against the emulator alone.
pub(super) fn replaying(stage: &Stage, feed: &Path, bounds: &mut Vec<Bound>) -> Result<(), String> {
    for (session, stream) in [("stream0", "stream"), ("redraw0", "redraws")] {
        let shown = as_shown(stage, stream)?;
        let keyframe = stage.directory(session)?.join("keyframe");
        fs::remove_file(&keyframe).map_err(|e| format!("{}: {e}", keyframe.display()))?;
        let (ours, floor) = in_turns(
            5,
            |_| done(&mut stage.command(&["snapshot", session])),
            |_| {
                let file = fs::File::open(&shown).map_err(|error| error.to_string())?;
                done(Command::new(feed).stdin(Stdio::from(file)))
            },
        )?;
        eprintln!("replay of {stream}: {ours:.2} s, the emulator alone {floor:.2} s");
        let what = format!("replay of {stream} without keyframe, against the emulator alone");
        bounds.push(bound(&what, ours / floor, 1.3, "x"));
    }
    Ok(())
}

/// What the terminal made of a stream: on all but a raw one, a new line begins at the left.
fn as_shown(stage: &Stage, stream: &str) -> Result<PathBuf, String> {
    let path = stage.home.join(stream);
    if stream == "redraws" {
        return Ok(path);
    }
    let mut shown = Vec::new();
    for line in fs::read(&path).map_err(|error| error.to_string())?.split(|byte| *byte == b'\n') {
        shown.extend_from_slice(line);
        shown.extend_from_slice(b"\r\n");
    }
    let path = stage.home.join(format!("{stream}-shown"));
    fs::write(&path, shown).map_err(|error| error.to_string())?;
    Ok(path)
}

/// The last screen of a session with a very long log.
pub(super) fn looking_back(
    stage: &Stage,
    runs: usize,
    bounds: &mut Vec<Bound>,
) -> Result<(), String> {
    let script = format!("base64 -w 76 /dev/zero | head -c {GIGABYTE}; echo; echo '[DONE]'");
    stage.script("gigabyte", &script)?;
    stage.run(&["wait", "gigabyte", "--exit", "--timeout", "600000"])?;
    let log = stage.directory("gigabyte")?.join("events.jsonl");
    let bytes = fs::metadata(&log).map_err(|error| error.to_string())?.len();
    if bytes < GIGABYTE as u64 {
        return Err(format!("the log has only {bytes} bytes; is the disk full?"));
    }
    // The host writes its last keyframe after it has told that it is over.
    while !stage.run(&["inspect", "gigabyte"])?.contains("exited") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut times = Vec::new();
    for _ in 0..runs {
        times.push(timed(|| done(&mut stage.command(&["snapshot", "gigabyte"])))?);
    }
    let took = super::median(times) * 1e3;
    bounds.push(bound("snapshot of a finished session with a log of 1 GB", took, 30.0, "ms"));
    fs::remove_file(&log).map_err(|error| error.to_string())
}
