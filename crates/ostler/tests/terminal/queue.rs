//! The agent's own queue (control.md rows 25 to 27): a Codex that works, one that is not hosted here, and one that ends.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::stage::{Name, Stage, ran, until};

const THREAD: &str = "01a1e3c6-0000-7000-8000-0000000000aa";
const TEXT: &str = "and then run all of its tests";

/// A home in which `codex` is installed, and does what its options say.
struct InstalledCodex {
    stage: Stage,
}

impl InstalledCodex {
    fn new(options: &str) -> Self {
        let stage = Stage::new(Name::Ostler);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/fake_codex.py");
        stage.home.write("options", options);
        stage.home.write("bin/codex.py", std::fs::read(script).unwrap());
        let words = "#!/bin/sh\nexec python3 \"$HOME\"/bin/codex.py \"$@\"\n";
        let program = stage.home.write("bin/codex", words);
        std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
        Self { stage }
    }

    fn command(&self) -> Command {
        let mut command = self.stage.command();
        let path = format!("{}:/usr/bin:/bin", self.stage.home.join("bin").display());
        command.env("PATH", path).current_dir(self.stage.home.path());
        command
    }

    fn run(&self, words: &[&str]) -> (i32, Value) {
        let ran = ran(self.command().args(words).arg("--json"));
        (ran.code, serde_json::from_str(&ran.stdout).unwrap_or_default())
    }

    /// Runs it outside of ostler's terminals.
    fn start_elsewhere(&self, words: &[&str]) -> ForeignCodex {
        let mut command = Command::new("python3");
        command.arg(self.stage.home.join("bin/codex.py")).args(words);
        command.env("HOME", self.stage.home.path()).current_dir(self.stage.home.path());
        let child = command.stdout(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
        self.await_holder();
        ForeignCodex(child)
    }

    fn await_holder(&self) {
        until("it holds its thread", || {
            let (_, who) = self.run(&["who", THREAD]);
            who["result"]["conversations"][0]["holders"][0]["process"]["pid"].is_u64()
        });
    }
}

/// Ended with the value.
struct ForeignCodex(Child);

impl Drop for ForeignCodex {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn delivery(answer: &Value) -> &Value {
    let failed = &answer["error"]["details"]["delivery"];
    if failed.is_object() { failed } else { &answer["result"] }
}

#[test]
fn row_25_into_a_working_agent_its_own_queue_takes_it_and_its_turn_is_the_one_after() {
    let codex = InstalledCodex::new("busy=3 turn=0.3");
    let mut create = codex.command();
    create.args(["create", "--json", "--name", "work", "--", "codex"]);
    ran(&mut create).exits(0);
    codex.await_holder();
    until("it works", || {
        let (_, shown) = codex.run(&["show", THREAD]);
        shown.to_string().contains("\"working\"")
    });
    let (code, answer) = codex.run(&["prompt", THREAD, TEXT, "--now", "--wait", "idle"]);
    let told = delivery(&answer);
    assert_eq!((code, &told["state"]), (0, &"accepted".into()), "{answer}");
    assert_eq!((&told["channel"], &told["turn"]["end"]), (&"queue".into(), &"answered".into()));
    let (proven, ended) = (told["proof"]["at"].as_str(), told["turn"]["endedAt"].as_str());
    assert!(ended > proven, "the turn before ended earlier: {answer}");
}

#[test]
fn row_26_a_run_that_ends_leaves_what_was_queued_and_that_is_no_answer() {
    for (options, state) in [("dies=1", "queued"), ("abort=1 turn=0.2", "accepted")] {
        let codex = InstalledCodex::new(options);
        let _run = codex.start_elsewhere(&["exec"]);
        let (code, answer) = codex.run(&["prompt", THREAD, TEXT, "--wait", "idle"]);
        let told = delivery(&answer);
        assert_eq!((code, &answer["error"]["code"]), (17, &"TURN_FAILED".into()), "{answer}");
        assert_eq!((&told["state"], &told["turn"]["end"]), (&state.into(), &"interrupted".into()));
    }
}

#[test]
fn row_25_a_queue_command_that_does_not_end_may_have_queued_it() {
    for (options, code, state) in [("stalls=1 deaf=1", 14, "unproven"), ("stalls=1", 0, "accepted")]
    {
        let codex = InstalledCodex::new(options);
        let _run = codex.start_elsewhere(&[]);
        let told = codex.run(&["prompt", THREAD, TEXT, "--accept-timeout", "2s"]);
        assert_eq!((told.0, &delivery(&told.1)["state"]), (code, &state.into()), "{}", told.1);
        let queued = std::fs::read_to_string(codex.stage.home.join("queue")).unwrap();
        assert_eq!(queued.lines().count(), 1, "it was handed over once: {queued}");
    }
}

#[test]
fn row_25_a_queue_command_holds_nobody_up_and_leaves_nothing() {
    // What it left behind has its output open, and goes on.
    let codex = InstalledCodex::new("fails=1");
    let _run = codex.start_elsewhere(&[]);
    let begun = std::time::Instant::now();
    let (code, answer) = codex.run(&["prompt", THREAD, TEXT]);
    assert!(answer["error"]["message"].as_str().unwrap().contains("no such thread"), "{answer}");
    assert!(code != 0 && begun.elapsed().as_secs() < 60, "{answer}");
    // More than a pipe holds.
    let codex = InstalledCodex::new("floods=1");
    let _run = codex.start_elsewhere(&[]);
    let (code, answer) = codex.run(&["prompt", THREAD, TEXT]);
    assert_eq!((code, &delivery(&answer)["state"]), (0, &"accepted".into()), "{answer}");
    // Its time is up: what it runs through ends with it.
    let codex = InstalledCodex::new("stalls=1 child=1 deaf=1");
    let _run = codex.start_elsewhere(&[]);
    let (code, answer) = codex.run(&["prompt", THREAD, TEXT, "--accept-timeout", "2s"]);
    assert_eq!((code, &delivery(&answer)["state"]), (14, &"unproven".into()), "{answer}");
    let child = std::fs::read_to_string(codex.stage.home.join("child")).unwrap();
    let child = child.parse().unwrap();
    until("the end of its child", || !super::stage::is_alive(child));
}

#[test]
fn row_90_a_text_that_looks_like_an_option_is_queued_as_a_text() {
    let codex = InstalledCodex::new("");
    let _codex = codex.start_elsewhere(&[]);
    for text in ["--help", "-p x", "--message=y"] {
        let file = codex.stage.home.write("text", text);
        let (code, answer) = codex.run(&["prompt", THREAD, "--file", file.to_str().unwrap()]);
        let told = delivery(&answer);
        assert_eq!((code, &told["match"]), (0, &"exact".into()), "{text}: {answer}");
    }
}

#[test]
fn row_27_a_live_codex_that_is_not_hosted_here_is_reached_by_its_queue() {
    let codex = InstalledCodex::new("");
    let _codex = codex.start_elsewhere(&[]);
    let (code, answer) = codex.run(&["prompt", THREAD, TEXT]);
    let told = delivery(&answer);
    assert_eq!((code, &told["state"]), (0, &"accepted".into()), "{answer}");
    assert_eq!((&told["channel"], &told["match"]), (&"queue".into(), &"exact".into()), "{answer}");
    assert!(codex.stage.run(&["ls"]).code == 0);
    let queued = std::fs::read_to_string(codex.stage.home.join("queue")).unwrap();
    assert_eq!(queued.lines().count(), 1, "it was handed over once: {queued}");
}
