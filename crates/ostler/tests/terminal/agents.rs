//! Agents in terminals (terminal.md A.4): started by name, linked with their own sessions, waited for.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testkit::pause::Pauses;

use super::stage::{Name, Stage, kill};

const ID: &str = "5b1e0c52-8a5e-4b8e-9a55-d0a3a0c3c001";

/// An agent that runs every line it is given as a hook: the event, then the payload.
const FAKE: &str = r#"#!/bin/bash
export CLAUDE_PID=$$
echo ready $$
while read -r event payload; do
    test "$event" = quit && exit 7
    printf '%s' "$payload" | "$OSTLER" hook claude-code "$event"
    echo "told $event"
done
"#;

fn stage() -> Stage {
    let stage = Stage::new(Name::Ostler);
    let program = stage.home.write("fake/claude", FAKE);
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    stage
}

/// `create`, with the fake agent where programs are looked for.
#[track_caller]
fn create(stage: &Stage, args: &[&str]) -> String {
    let path = std::env::var("PATH").unwrap();
    let fake = stage.home.join("fake");
    let mut command = stage.command();
    command.env("PATH", format!("{}:{path}", fake.display())).args(["create", "--json"]);
    command.args(["--env", &format!("OSTLER={}", env!("CARGO_BIN_EXE_ostler"))]).args(args);
    let created = super::stage::ran(&mut command).exits(0).result();
    created["sessionId"].as_str().unwrap().to_owned()
}

#[track_caller]
fn tell(stage: &Stage, terminal: &str, event: &str) {
    let payload = json!({"session_id": ID, "cwd": stage.home.path(), "prompt": "do it"});
    stage.ok(&["type", terminal, &format!("{event} {payload}\n")]);
    stage.ok(&["wait", terminal, "--text", &format!("told {event}"), "--timeout", "20000"]);
}

fn wait(stage: &Stage, terminal: &str, state: &str) -> Command {
    let mut command = stage.command();
    command.args(["wait", terminal, "--for-agent", state, "--json", "--timeout", "30000"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A waiting `wait`.
fn waiting(stage: &Stage, terminal: &str, state: &str) -> Child {
    wait(stage, terminal, state).spawn().unwrap()
}

#[track_caller]
fn came(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
    envelope["result"].take()
}

#[track_caller]
fn listed(stage: &Stage, id: &str) -> Value {
    let sessions = stage.ok(&["ls"])["sessions"].as_array().unwrap().clone();
    let found = sessions.into_iter().find(|session| session["id"] == id);
    found.unwrap_or_else(|| panic!("no session {id}"))
}

#[test]
fn a4_create_agent_links_the_native_session_both_ways() {
    let stage = stage();
    let terminal = create(&stage, &["--agent", "claude-code"]);
    stage.ok(&["wait", &terminal, "--text", "ready"]);
    assert!(listed(&stage, &terminal)["linked"].is_null());
    tell(&stage, &terminal, "SessionStart");

    assert_eq!(listed(&stage, &terminal)["linked"], json!([{"agent": "claude-code", "id": ID}]));
    let native = listed(&stage, ID);
    assert_eq!(native["linked"], json!([{"agent": "terminal", "id": terminal}]));
    assert_eq!(native["owner"]["pid"], stage.pid(&terminal, "childPid"));
    // The other side is named to people too, and also when only one kind is asked for.
    let shown = stage.run(&["show", ID]).exits(0).stdout;
    assert!(shown.contains(&format!("runs in  terminal {terminal}")), "{shown}");
    let shown = stage.run(&["show", &terminal]).exits(0).stdout;
    assert!(shown.contains(&format!("runs  claude-code {ID}")), "{shown}");
    let only = stage.ok(&["ls", "--agent", "claude-code"]);
    assert_eq!(only["sessions"][0]["linked"][0]["id"], terminal);
    assert_eq!(only["sessions"].as_array().unwrap().len(), 1);

    // Nothing is remembered: when the agent is gone, so is the link.
    stage.ok(&["type", &terminal, "quit\n"]);
    stage.ok(&["wait", &terminal, "--exit"]);
    let over = stage.ok(&["show", &terminal]);
    assert!(over["session"]["linked"].is_null(), "{over}");
}

#[test]
fn a4_create_agent_passes_arguments_on_and_refuses_one_that_is_not_there() {
    let stage = stage();
    let program = stage.home.write("fake/codex", "#!/bin/sh\necho got \"$*\"\n");
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    let terminal = create(&stage, &["--agent", "codex", "--", "resume", "--last"]);
    stage.ok(&["wait", &terminal, "--exit"]);
    assert_eq!(stage.screen(&terminal), "got resume --no-daemon --last");
    let nowhere = ["create", "--agent", "codex", "--env", "PATH=/nowhere", "--json"];
    let refused = stage.run(&nowhere).exits(2).message();
    assert!(refused.starts_with("no program of `codex` (codex) is on the PATH"), "{refused}");
    let unknown = stage.run(&["create", "--agent", "clod", "--json"]).exits(2).message();
    assert!(unknown.starts_with("`clod` is no agent; there are: "), "{unknown}");
}

#[test]
fn a4_an_agent_started_in_a_shell_is_linked_by_descent_and_a_stranger_is_not() {
    let stage = stage();
    let inside = create(&stage, &["--", "/bin/bash", "-c", "claude; sleep 60"]);
    let beside = create(&stage, &["--", "/bin/cat"]);
    stage.ok(&["wait", &inside, "--text", "ready"]);
    tell(&stage, &inside, "SessionStart");
    assert_eq!(listed(&stage, ID)["linked"], json!([{"agent": "terminal", "id": inside}]));
    assert!(listed(&stage, &beside)["linked"].is_null());
}

#[test]
fn a4_wait_for_agent_follows_what_hooks_tell() {
    let stage = stage();
    let terminal = create(&stage, &["--agent", "claude-code"]);
    let idle = waiting(&stage, &terminal, "idle");
    let working = waiting(&stage, &terminal, "working");
    stage.ok(&["wait", &terminal, "--text", "ready"]);
    tell(&stage, &terminal, "UserPromptSubmit");
    let result = came(working);
    assert_eq!(result["matched"], true);
    assert_eq!(result["agent"], json!({"agent": "claude-code", "id": ID, "activity": "working"}));
    tell(&stage, &terminal, "Stop");
    assert_eq!(came(idle)["agent"]["activity"], "idle");
    // What is so already is not waited for.
    stage.ok(&["wait", &terminal, "--for-agent", "idle", "--timeout", "1"]);
    let waits = waiting(&stage, &terminal, "waiting");
    tell(&stage, &terminal, "PermissionRequest");
    assert_eq!(came(waits)["agent"]["activity"], "waiting");

    let gone = waiting(&stage, &terminal, "ended");
    let in_vain = waiting(&stage, &terminal, "idle");
    stage.ok(&["type", &terminal, "quit\n"]);
    assert_eq!(came(gone)["exitCode"], 7);
    assert_eq!(in_vain.wait_with_output().unwrap().status.code(), Some(4));
}

#[test]
fn a4_wait_for_agent_sees_an_agent_that_is_killed_without_a_word() {
    let stage = stage();
    let terminal = create(&stage, &["--", "/bin/bash", "-c", "claude; sleep 60"]);
    stage.ok(&["wait", &terminal, "--text", "ready"]);
    tell(&stage, &terminal, "UserPromptSubmit");
    let agent = stage.screen(&terminal);
    let agent = agent.lines().find_map(|line| line.strip_prefix("ready ")).unwrap().trim();
    let pauses = Pauses::new();
    pauses.arm("agent.awaited");
    let mut ended = wait(&stage, &terminal, "ended");
    let ended = pauses.apply(&mut ended).spawn().unwrap();
    pauses.wait("agent.awaited");
    kill(agent.parse().unwrap(), "-KILL");
    pauses.release("agent.awaited");
    let result = came(ended);
    assert_eq!(result["agent"]["id"], ID);
    assert!(result["exitCode"].is_null(), "the terminal's program goes on: {result}");
}

#[test]
fn a4_wait_for_agent_says_that_there_is_none() {
    let stage = stage();
    let terminal = create(&stage, &["--", "/bin/cat"]);
    let wait = ["wait", &terminal, "--for-agent", "idle", "--timeout", "50"];
    let result = stage.run(&[&["--json"], &wait[..]].concat()).exits(11).result();
    assert_eq!((&result["matched"], &result["timedOut"]), (&json!(false), &json!(true)));
    let condition = result["condition"].as_str().unwrap();
    assert!(condition.contains("no agent with a session of its own runs there"), "{condition}");
    let mixed = ["wait", &terminal, "--for-agent", "idle", "--text", "x"];
    assert_eq!(stage.fails(&mixed), (2, "INVALID_INPUT".to_owned()));
}

#[test]
fn a_hosted_agent_is_one_row_and_its_id_means_its_terminal() {
    let stage = stage();
    let terminal = create(&stage, &["--name", "work", "--agent", "claude"]);
    stage.ok(&["wait", &terminal, "--text", "ready", "--timeout", "20000"]);
    tell(&stage, &terminal, "SessionStart");
    let table = stage.run(&["ls"]).exits(0).stdout;
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(rows.len(), 1, "{table}");
    assert!(rows[0].contains("claude-code  5b1e0c52  work  "), "{table}");
    let both = stage.ok(&["ls"])["sessions"].as_array().unwrap().len();
    assert_eq!(both, 2, "programs are given both");
    assert_eq!(stage.ok(&["snapshot", "5b1e0c52"])["sessionId"], terminal.as_str());
    let shown = stage.run(&["show", "work"]).exits(0).stdout;
    assert!(shown.contains("claude-code") && shown.contains("resume"), "{shown}");
    stage.ok(&["destroy", ID]);
}

#[test]
fn b18_text_is_only_text_and_an_exit_code_is_told() {
    let stage = stage();
    let terminal = stage.shell();
    let captured = stage.run(&["run", &terminal, "echo said; (exit 3)", "--capture"]).exits(0);
    assert!(captured.stdout.contains("said"), "{captured:?}");
    assert_eq!(captured.stderr, "exit code 3\n");
    let text = stage.run(&["snapshot", &terminal, "--format", "text"]).exits(0).stdout;
    assert!(text.contains("said") && !text.contains("Screen hash"), "{text}");
    let file = stage.home.join("picture.png");
    stage.run(&["screenshot", &terminal, "-o", file.to_str().unwrap()]).exits(0);
    assert!(std::fs::read(file).unwrap().starts_with(b"\x89PNG"));
    stage.run(&["signal", &terminal, "hup"]).exits(0);
}

/// What Claude Code writes about a process of its own.
fn register(stage: &Stage, pid: u32, id: &str, status: &str) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = stat[stat.rfind(')').unwrap() + 2..].split(' ').nth(19).unwrap().to_owned();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = u64::try_from(now.as_millis()).unwrap();
    let record = json!({"pid": pid, "sessionId": id, "cwd": stage.home.path(), "startedAt": now,
        "procStart": start, "status": status, "statusUpdatedAt": now});
    // As the agent does: whole, and then in its place.
    let file = stage.home.write(format!(".claude/sessions/{pid}.tmp"), record.to_string());
    std::fs::rename(file, stage.home.join(format!(".claude/sessions/{pid}.json"))).unwrap();
}

#[test]
fn k2_wait_for_agent_rests_on_what_ls_says_without_any_hook() {
    let stage = stage();
    let terminal = create(&stage, &["--agent", "claude-code"]);
    stage.ok(&["wait", &terminal, "--text", "ready", "--timeout", "20000"]);
    let pid = stage.pid(&terminal, "childPid");
    register(&stage, pid, ID, "busy");
    stage.ok(&["wait", &terminal, "--for-agent", "working", "--timeout", "20000"]);
    let idle = waiting(&stage, &terminal, "idle");
    let by_session = waiting(&stage, ID, "idle");
    register(&stage, pid, ID, "idle");
    assert_eq!(came(idle)["agent"], json!({"agent": "claude-code", "id": ID, "activity": "idle"}));
    assert_eq!(came(by_session)["agent"]["activity"], "idle");
    assert_eq!(listed(&stage, ID)["activity"], "idle");

    // A question that was left with Esc is told by no hook: the agent's own word counts, as in `ls`.
    tell(&stage, &terminal, "PermissionRequest");
    register(&stage, pid, ID, "waiting");
    stage.ok(&["wait", &terminal, "--for-agent", "waiting", "--timeout", "20000"]);
    let idle = waiting(&stage, &terminal, "idle");
    register(&stage, pid, ID, "idle");
    assert_eq!(came(idle)["agent"]["activity"], "idle");
    assert_eq!(listed(&stage, ID)["activity"], "idle");
}

#[test]
fn k2_a_session_outside_of_terminals_is_waited_for_until_its_end() {
    let stage = stage();
    let mut agent = Command::new("/bin/bash");
    agent.arg("-c").arg("exec -a claude sleep 1000");
    let mut agent = agent.spawn().unwrap();
    let pid = agent.id();
    register(&stage, pid, ID, "busy");
    let pauses = Pauses::new();
    pauses.arm("agent.awaited");
    let mut ended = wait(&stage, ID, "ended");
    let ended = pauses.apply(&mut ended).spawn().unwrap();
    pauses.wait("agent.awaited");
    agent.kill().unwrap();
    agent.wait().unwrap();
    pauses.release("agent.awaited");
    assert_eq!(came(ended)["agent"]["id"], ID);
    // What is over cannot become idle.
    let over = wait(&stage, ID, "idle").output().unwrap();
    assert_eq!(over.status.code(), Some(4), "{over:?}");
}

#[test]
fn k5_every_terminal_with_the_conversation_is_linked_and_all_are_named() {
    let stage = stage();
    let terminals = ["one", "two"].map(|name| create(&stage, &["--name", name, "--", "claude"]));
    for terminal in &terminals {
        stage.ok(&["wait", terminal, "--text", "ready", "--timeout", "20000"]);
        register(&stage, stage.pid(terminal, "childPid"), ID, "idle");
    }
    let native = listed(&stage, ID);
    let mut linked: Vec<&str> = native["linked"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    let mut made: Vec<&str> = terminals.iter().map(String::as_str).collect();
    linked.sort_unstable();
    made.sort_unstable();
    assert_eq!(linked, made);
    assert_eq!(native["owners"].as_array().unwrap().len(), 2);
    for terminal in &terminals {
        assert_eq!(listed(&stage, terminal)["linked"][0]["id"], ID);
    }
    let shown = stage.run(&["ls"]).exits(0);
    assert!(shown.stderr.contains("is open in 2 processes"), "{}", shown.stderr);
}

#[test]
fn k7_create_answers_the_agent_and_its_own_id() {
    let stage = stage();
    let path = format!("{}:{}", stage.home.join("fake").display(), std::env::var("PATH").unwrap());
    let mut command = stage.command();
    command.env("PATH", path).args(["create", "--json", "--agent", "claude"]);
    let created = super::stage::ran(&mut command).exits(0).result();
    assert_eq!(created["agent"], "claude-code");
    let id = created["agentSession"].as_str().unwrap();
    let manifest = stage.ok(&["inspect", created["sessionId"].as_str().unwrap()]);
    let words = manifest["session"]["command"].to_string();
    assert!(words.contains(&format!("\"--session-id\",\"{id}\"")), "{manifest:#}");
}

/// An agent that asks as Claude Code does: it runs the hook of its settings in a shell and reads the answer.
const ASKING: &str = r#"#!/bin/bash
export CLAUDE_PID=$$
while [ $# -gt 0 ]; do
    case "$1" in --settings) settings=$2; shift;; --session-id) id=$2; shift;; esac
    shift
done
hook=$(python3 -c 'import json, sys
print(json.loads(sys.argv[1])["hooks"]["PermissionRequest"][0]["hooks"][0]["command"])' "$settings")
asked='{"session_id":"%s","cwd":"%s","tool_name":"Bash","tool_input":{"command":"ls"}}'
printf "$asked" "$id" "$PWD" | sh -c "$hook" > answer
echo "answered $(grep -o '"behavior":"[a-z]*"' answer) marker=$OSTLER_PERMITS"
sleep 60
"#;

#[test]
fn row_62_an_agent_that_asks_ostler_gets_its_answer_and_one_that_cannot_is_refused() {
    let stage = Stage::new(Name::Ostler);
    for name in ["claude", "gemini"] {
        let program = stage.home.write(format!("fake/{name}"), ASKING);
        std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let terminal = create(&stage, &["--agent", "claude", "--permissions", "ostler"]);
    let mut request = Value::Null;
    super::stage::until("it asks", || {
        request = stage.ok(&["permits"])["requests"].get(0).cloned().unwrap_or_default();
        !request.is_null()
    });
    assert_eq!(request["tool"], "Bash");
    let session = request["session"].as_str().unwrap();
    let answered = stage.ok(&["permit", session, "--allow"]);
    assert_eq!(answered["answered"], "allow");
    stage.ok(&["wait", &terminal, "--text", "answered", "--timeout", "20000"]);
    let screen = stage.screen(&terminal);
    // The marker is the hook's alone: nothing that the agent runs has it.
    assert!(screen.contains(r#"answered "behavior":"allow" marker="#), "{screen}");
    assert!(!screen.contains("marker=only"), "{screen}");
    let mut gemini = stage.command();
    let words = ["create", "--agent", "gemini", "--permissions", "ostler", "--json"];
    let refused = super::stage::ran(gemini.args(words)).exits(13);
    assert_eq!(refused.envelope()["error"]["details"]["reason"], "cannot-ask");
    stage.run(&["create", "--permissions", "ostler"]).exits(2);
}

#[test]
fn row_62_what_an_agents_own_server_holds_is_answered_once_and_its_password_is_nowhere() {
    let stage = Stage::new(Name::Ostler);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/fake_opencode.py");
    stage.home.write("fake/opencode.py", std::fs::read(script).unwrap());
    let words = "#!/bin/sh\nexec python3 \"$(dirname \"$0\")\"/opencode.py \"$@\"\n";
    let program = stage.home.write("fake/opencode", words);
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    let terminal = create(&stage, &["--agent", "opencode", "--permissions", "ostler"]);
    stage.ok(&["wait", &terminal, "--text", "serving", "--timeout", "20000"]);
    let asked = stage.ok(&["permits"])["requests"].as_array().unwrap().clone();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!((&asked[0]["request"], &asked[0]["session"]), (&json!("per_1"), &json!("ses_lab1")));
    assert_eq!(
        (&asked[0]["tool"], &asked[0]["input"]["patterns"]),
        (&json!("bash"), &json!(["ls 1"]))
    );
    // In the environment of that process, and nowhere else.
    let pid = stage.pid(&terminal, "childPid");
    let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let environ = String::from_utf8_lossy(&environ).into_owned();
    let password =
        environ.split('\0').find_map(|one| one.strip_prefix("OPENCODE_SERVER_PASSWORD="));
    let password = password.unwrap().to_owned();
    assert_eq!(password.len(), 32, "128 bits");
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(!String::from_utf8_lossy(&command_line).contains(&password));
    let mut found = Vec::new();
    super::launch::files_with(&stage.root, &[&password], &mut found);
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(stage.ok(&["permit", "ses_lab1", "per_1", "--allow"])["answered"], "allow");
    let deny = || {
        let words = ["permit", "ses_lab1", "per_2", "--deny", "--message", "not on a Friday"];
        stage.run(&words).code
    };
    let mut codes = std::thread::scope(|threads| {
        let both = [threads.spawn(deny), threads.spawn(deny)];
        both.map(|one| one.join().unwrap())
    });
    codes.sort_unstable();
    // These have no files of sessions: once nothing is asked, nobody of that name is known.
    assert!(codes[0] == 0 && [3, 4].contains(&codes[1]), "exactly one is taken: {codes:?}");
    assert_eq!(stage.ok(&["permits"])["requests"], json!([]));
    assert!([3, 4].contains(&stage.run(&["permit", "ses_lab1", "per_1", "--allow"]).code));
    let answers = std::fs::read_to_string(stage.home.join("answers")).unwrap();
    let answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let denied = json!({"id": "per_2", "reply": "reject", "message": "not on a Friday"});
    assert_eq!(answers, [json!({"id": "per_1", "reply": "once"}), denied]);
}

#[test]
fn row_62_what_an_agent_asks_in_a_file_is_answered_once_in_the_other() {
    let stage = Stage::new(Name::Ostler);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/fake_qwen.py");
    stage.home.write("fake/qwen.py", std::fs::read(script).unwrap());
    let words = "#!/bin/sh\nexec python3 \"$(dirname \"$0\")\"/qwen.py \"$@\"\n";
    let program = stage.home.write("fake/qwen", words);
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    let terminal = create(&stage, &["--agent", "qwen", "--permissions", "ostler"]);
    stage.ok(&["wait", &terminal, "--text", "asking", "--timeout", "20000"]);
    let asked = stage.ok(&["permits"])["requests"].as_array().unwrap().clone();
    assert_eq!(asked.len(), 2, "a person has decided the third: {asked:?}");
    assert_eq!((&asked[0]["request"], &asked[0]["agent"]), (&json!("req-1"), &json!("qwen")));
    assert_eq!(asked[0]["input"], json!({"command": "ls 1"}));
    assert_eq!(stage.ok(&["permit", "77777777", "req-1", "--allow"])["answered"], "allow");
    let deny = || stage.run(&["permit", "77777777", "req-2", "--deny"]).code;
    let mut codes = std::thread::scope(|threads| {
        let both = [threads.spawn(deny), threads.spawn(deny)];
        both.map(|one| one.join().unwrap())
    });
    codes.sort_unstable();
    // These have no files of sessions: once nothing is asked, nobody of that name is known.
    assert!(codes[0] == 0 && [3, 4].contains(&codes[1]), "exactly one is taken: {codes:?}");
    assert!([3, 4].contains(&stage.run(&["permit", "77777777", "req-3", "--allow"]).code));
    let answers = std::fs::read_to_string(stage.home.join("answers")).unwrap();
    let answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answer = |request: &str, allowed: bool| json!({"type": "confirmation_response", "request_id": request, "allowed": allowed});
    assert_eq!(answers, [answer("req-1", true), answer("req-2", false)]);
}

#[test]
fn row_75_no_agent_is_started_in_a_locked_directory_or_below_it() {
    let stage = stage();
    let below = stage.home.join("work/below");
    std::fs::create_dir_all(&below).unwrap();
    let work = stage.home.join("work");
    let work = work.to_str().unwrap();
    stage.ok(&["lock", work, "--by", "ada", "--reason", "release"]);
    let agent = ["create", "--agent", "claude", "--json", "--cwd"];
    let words = [agent.as_slice(), &[below.to_str().unwrap()]].concat();
    let refused = stage.run(&words).exits(13);
    assert_eq!(refused.envelope()["error"]["details"]["reason"], "locked");
    assert!(refused.message().contains("ada (release)"), "{refused:?}");
    // Renamed, it is still locked; a shell is no agent, and other directories are free.
    let moved = stage.home.join("moved");
    std::fs::rename(work, &moved).unwrap();
    stage.run(&[agent.as_slice(), &[moved.to_str().unwrap()]].concat()).exits(13);
    stage.run(&["create", "--cwd", moved.to_str().unwrap(), "--", "/bin/true"]).exits(0);
    create(&stage, &["--agent", "claude-code"]);
    stage.ok(&["unlock", moved.to_str().unwrap(), "--by", "ada"]);
    create(&stage, &["--agent", "claude-code", "--cwd", moved.to_str().unwrap()]);
}

/// When the agent ended its last turn, by its own clock, in seconds.
fn ended_at(claude: &super::launch::InstalledClaude) -> Option<f64> {
    let text = std::fs::read_to_string(claude.stage.home.join("record")).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.rfind(|line| line.get("ended").is_some())?["at"].as_f64()
}

#[test]
fn row_30_without_any_hook_a_wait_ends_with_the_record_and_says_what_ls_says() {
    let claude = super::launch::InstalledClaude::new(&["turn=1.5"]);
    let (code, answer) = claude.run(&["launch", "claude", "begin"]);
    assert_eq!(code, 0, "{answer}");
    let id = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
    // A machine that is busy with other tests gets more than one chance.
    let late = |_| {
        let (code, waited) =
            claude.run(&["wait", &id, "--for-agent", "idle", "--timeout", "20000"]);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!((code, &waited["result"]["agent"]["activity"]), (0, &"idle".into()), "{waited}");
        let (_, shown) = claude.run(&["ls"]);
        assert!(shown.to_string().contains("\"activity\":\"idle\""), "{shown}");
        let late = now.as_secs_f64() - ended_at(&claude).unwrap();
        let (code, answer) = claude.run(&["prompt", &id, "and again"]);
        assert_eq!(code, 0, "{answer}");
        late
    };
    let spans: Vec<f64> = (0..6).map(late).collect();
    assert!(spans.iter().any(|late| *late < 0.2), "{spans:?}");
}

#[test]
fn row_92_an_agent_that_is_newer_than_its_table_is_driven_and_named_by_doctor() {
    let claude = super::launch::InstalledClaude::new(&["version=3.0.1"]);
    let (code, answer) = claude.run(&["launch", "claude", "begin"]);
    assert_eq!(code, 0, "what its record proves holds for any version: {answer}");
    let (code, answer) = claude.run(&["doctor", "--no-sweep"]);
    assert_eq!(code, 0, "{answer}");
    let findings = answer["result"]["findings"].as_array().unwrap();
    let named = findings.iter().find(|one| one["check"] == "driving claude-code");
    let named = named.unwrap_or_else(|| panic!("{answer}"));
    assert!(named["found"].as_str().unwrap().contains("3.0.1 runs here"), "{named}");
    let known = super::launch::InstalledClaude::new(&[]);
    assert_eq!(known.run(&["launch", "claude"]).0, 0);
    let (_, answer) = known.run(&["doctor", "--no-sweep"]);
    assert!(!answer.to_string().contains("driving claude-code"), "{answer}");
}

#[test]
fn row_95_a_program_that_speaks_the_kitty_protocol_gets_ctrl_c_in_it() {
    let stage = Stage::new(Name::Ostler);
    let script =
        "stty raw -echo; printf '\\033[>1u'; echo asked; head -c 7 | od -An -tx1; sleep 60";
    let terminal = stage.script(script);
    stage.ok(&["wait", &terminal, "--text", "asked", "--timeout", "20000"]);
    stage.ok(&["send-keys", &terminal, "Ctrl+C"]);
    let told = "1b 5b 39 39 3b 35 75";
    stage.ok(&["wait", &terminal, "--text", told, "--timeout", "20000"]);
}
