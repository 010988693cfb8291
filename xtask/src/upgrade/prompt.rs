//! A terminal of one release, with an agent or a shell in it: the other release prompts and attaches.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};

use serde_json::Value;

use super::room::{Room, Side};

/// The agent that keeps Claude Code's files; also in the tests of `ostler prompt`.
const FAKE_AGENT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/ostler/tests/terminal/fake_agent.py");

/// The session that it says it has.
const SESSION: &str = "5b1e0c52-8a5e-4b8e-9a55-d0a3a0c3c001";

/// Ctrl-]
const LEAVE: &[u8] = b"\x1d";

/// Both releases prompt an agent in a terminal of the one that runs. What a host does not know is not asked of
/// it, and each text arrives once.
pub(super) fn prompt_through_a_running_host(room: &Room) -> Result<String, String> {
    if !Path::new(FAKE_AGENT).is_file() {
        return Err(format!("{FAKE_AGENT} is missing"));
    }
    let record = room.home.join("record");
    let files = format!("claude={}", room.home.join(".claude").display());
    let record_name = record.to_string_lossy().into_owned();
    let agent = ["python3", FAKE_AGENT, &record_name, &files];
    let create = [&["create", "--json", "--"][..], &agent].concat();
    let created = room.done(Side::Running, &create)?.result()?;
    let terminal = created["sessionId"].as_str().ok_or_else(|| created.to_string())?.to_owned();
    for side in [Side::Running, Side::Asking] {
        room.wait_until("the agent is linked to its terminal", || {
            Ok(room.ostler(side, &["show", SESSION, "--json"])?.stdout.contains(&terminal))
        })?;
    }
    let mut sent = Vec::new();
    for (side, text) in [
        (Side::Asking, "please mend the parser, then run all of its tests"),
        (Side::Running, "and now say in one line what was wrong with it"),
        (Side::Asking, "thanks: once more, with an example"),
    ] {
        let prompted = room.ostler(side, &["prompt", SESSION, text, "--json"])?;
        let state = prompted.result().ok().map(|delivery| delivery["state"].clone());
        if state == Some("accepted".into()) {
            sent.push(text);
        } else if prompted.expect_done_or_named()? {
            return Err(format!("{text:?} came to {state:?}"));
        }
    }
    let noted = std::fs::read_to_string(&record).map_err(|error| error.to_string())?;
    let lines = noted.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let taken: Vec<String> =
        lines.filter_map(|line| Some(line.get("prompt")?.as_str()?.to_owned())).collect();
    if taken != sent {
        return Err(format!("the agent took {taken:?} and not {sent:?}"));
    }
    room.done(Side::Running, &["destroy", &terminal])?;
    Ok(format!("{} of 3 prompts proven, each taken once", sent.len()))
}

/// `ostler attach` on a terminal of its own. It ends with the value.
struct Attached {
    child: Child,
    stdin: ChildStdin,
}

impl Attached {
    fn start(room: &Room, side: Side, name: &str) -> Result<Self, String> {
        let mut command = room.command("script".into());
        let line = format!("{} attach {name}", room.release(side).ostler().display());
        command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let stdin = child.stdin.take().ok_or("no input")?;
        Ok(Self { child, stdin })
    }

    fn type_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stdin.write_all(bytes).map_err(|error| error.to_string())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        drop(self.child.kill().and_then(|()| self.child.wait()));
    }
}

/// A person of one release joins a terminal of the other, types, and leaves; the terminal goes on.
pub(super) fn attach_to_a_running_host(room: &Room) -> Result<String, String> {
    room.done(Side::Running, &["create", "--name", "work", "--", "/bin/bash", "--norc"])?;
    room.done(Side::Running, &["run", "work", "echo before-$((40+2))"])?;
    let shows = |text: &str| -> Result<bool, String> {
        let shown = room.done(Side::Running, &["snapshot", "work", "--format", "text"])?;
        Ok(shown.stdout.contains(text))
    };
    let mut attached = Attached::start(room, Side::Asking, "work")?;
    attached.type_bytes(b"echo attached-$((3+4))\r")?;
    room.wait_until("what was typed is run", || shows("attached-7"))?;
    // Both at once.
    let mut other = Attached::start(room, Side::Running, "work")?;
    other.type_bytes(b"echo together-$((5+6))\r")?;
    room.wait_until("what the second one typed is run", || shows("together-11"))?;
    for one in [&mut attached, &mut other] {
        one.type_bytes(LEAVE)?;
        room.wait_until("it has left", || {
            one.child.try_wait().map(|ended| ended.is_some()).map_err(|error| error.to_string())
        })?;
    }
    room.done(Side::Asking, &["run", "work", "echo after-$((1+1))"])?;
    if !shows("after-2")? {
        return Err("the terminal did not go on".to_owned());
    }
    room.done(Side::Asking, &["destroy", "work"])?;
    Ok("joined, typed, two at once, left; the terminal goes on".to_owned())
}
