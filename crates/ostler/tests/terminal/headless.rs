//! Programs without a terminal: input from a file or a text, bounded logs, the exit code in the manifest.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use flows::terminal::headless::{HeadlessInput, HeadlessSpec, StartRequest};
use flows::terminal::screen::Personality;
use serde_json::Value;
use testkit::pause::Pauses;

use super::stage::{Name, Stage, is_alive, until};

/// Starts a host as `create` does, with a program that has no terminal; waits until the session is there.
fn start(stage: &Stage, id: &str, script: &str, input: HeadlessInput, limit: u64) {
    let mut host = spawn_host(stage.command(), stage, id, script, input, limit);
    let ready = read_ready(&mut host);
    assert!(ready.get("listening").is_some(), "{ready}");
    // The host of these tests is a child of the test, and must be reaped.
    std::thread::spawn(move || host.wait());
}

fn read_ready(host: &mut Child) -> Value {
    let mut line = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

fn spawn_host(
    mut command: Command,
    stage: &Stage,
    id: &str,
    script: &str,
    input: HeadlessInput,
    limit: u64,
) -> Child {
    let request = StartRequest {
        session_id: id.to_owned(),
        directory: stage.directory(id),
        socket: stage.home.join("run").join(id),
        personality: Personality::Ostler,
        command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: stage.home.path().to_str().unwrap().to_owned(),
        name: None,
        env: BTreeMap::new(),
        inherit: Vec::new(),
        unset: Vec::new(),
        shell: None,
        term: "dumb".to_owned(),
        cols: 80,
        rows: 24,
        idle_timeout_ms: 0,
        scrollback_lines: 100,
        version: "0".to_owned(),
        headless: Some(HeadlessSpec { input, log_limit_bytes: limit }),
    };
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
        .create(stage.root.join("sessions"))
        .unwrap();
    let mut host =
        command.args(["host", id]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    host.stdin.take().unwrap().write_all(&serde_json::to_vec(&request).unwrap()).unwrap();
    host
}

const ID: &str = "01JHEADLESS000000000000001";

fn ended(stage: &Stage) -> Value {
    until("the end", || stage.manifest(ID)["status"] == "exited");
    stage.manifest(ID)
}

fn log(stage: &Stage, name: &str) -> String {
    std::fs::read_to_string(stage.directory(ID).join(name)).unwrap_or_default()
}

#[test]
fn row_31_a_text_of_200_kb_arrives_whole_and_the_exit_code_is_in_the_manifest() {
    let stage = Stage::new(Name::Ostler);
    let text = "a line of a long prompt\n".repeat(9_000);
    let script = "cat; echo to err >&2; [ -t 0 ] || [ -t 1 ] || echo no terminal >&2; exit 7";
    start(&stage, ID, script, HeadlessInput::Text(text.clone()), 1 << 20);
    assert_eq!(ended(&stage)["exitCode"], 7);
    assert_eq!(log(&stage, "stdout.log"), text);
    assert_eq!(log(&stage, "stderr.log"), "to err\nno terminal\n");
    assert!(!stage.directory(ID).join("stdin").exists(), "the prompt is nowhere else");
}

#[test]
fn the_input_may_be_a_file_and_the_logs_are_bounded() {
    let stage = Stage::new(Name::Ostler);
    std::fs::write(stage.home.join("input"), "from a file").unwrap();
    let script = "cat; echo; i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done";
    start(&stage, ID, script, HeadlessInput::File(stage.home.join("input")), 4096);
    assert_eq!(ended(&stage)["exitCode"], 0);
    let (head, tail) = (log(&stage, "stdout.log"), log(&stage, "stdout.tail.log"));
    assert!(head.starts_with("from a file\nline 0\n") && head.len() == 4096);
    assert!(tail.ends_with("line 1999\n") && tail.len() <= 4096);
}

#[test]
fn a_headless_program_cannot_be_typed_to_and_is_destroyed_with_its_tree() {
    let stage = Stage::new(Name::Ostler);
    let script = "(setsid sh -c 'echo $$ >left; exec sleep 1000' &) ; sleep 1000";
    start(&stage, ID, script, HeadlessInput::Text(String::new()), 4096);
    until("what it leaves", || stage.home.join("left").exists());
    let left = || std::fs::read_to_string(stage.home.join("left")).unwrap().trim().parse::<u32>();
    until("its pid", || left().is_ok());
    assert_eq!(stage.fails(&["type", ID, "x"]), (2, "INVALID_INPUT".to_owned()));
    let child = stage.pid(ID, "childPid");
    stage.ok(&["destroy", ID]);
    assert!(!is_alive(child) && !is_alive(left().unwrap()));
}

#[test]
fn a_headless_program_whose_session_cannot_be_written_down_is_ended() {
    let stage = Stage::new(Name::Ostler);
    let pauses = Pauses::new();
    pauses.arm("host-before-manifest");
    let mut command = stage.command();
    pauses.apply(&mut command);
    let input = HeadlessInput::Text(String::new());
    let mut host = spawn_host(command, &stage, ID, "trap '' HUP TERM; sleep 1000", input, 1000);
    pauses.wait("host-before-manifest");
    let holder = super::stage::read_json(&stage.directory(ID).join("host.json"));
    let child = u32::try_from(holder["child"]["pid"].as_u64().unwrap()).unwrap();
    // Nothing can be renamed over a directory.
    std::fs::create_dir(stage.directory(ID).join("session.json")).unwrap();
    pauses.release("host-before-manifest");
    let ready = read_ready(&mut host);
    assert!(ready["failed"]["message"].as_str().unwrap().contains("was ended"), "{ready}");
    assert!(!is_alive(child), "the program is gone before its creator is told");
    assert!(!host.wait().unwrap().success());
    assert!(!stage.directory(ID).exists());
}
