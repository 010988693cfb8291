//! Starts with a receipt (control.md rows 1, 2, 10, 13, 14, 31 to 37, 94): an agent that keeps Claude Code's files.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::stage::{Name, Stage, is_alive, until};

const TEXT: &str = "please mend the parser, then run all of its tests";

/// A home in which `claude` is installed, and does what its options say.
pub(crate) struct InstalledClaude {
    pub(crate) stage: Stage,
}

impl InstalledClaude {
    pub(crate) fn new(options: &[&str]) -> Self {
        Self::on(Stage::new(Name::Ostler), options)
    }

    pub(crate) fn on(stage: Stage, options: &[&str]) -> Self {
        let one = Self { stage };
        one.install(options);
        one
    }

    /// Puts another one in its place.
    pub(crate) fn install(&self, options: &[&str]) {
        let home = &self.stage.home;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/fake_agent.py");
        let (record, files) = (home.join("record"), home.join(".claude"));
        let words = format!(
            "#!/bin/sh\nexec python3 {script} {} claude={} {} -- \"$@\"\n",
            record.display(),
            files.display(),
            options.join(" ")
        );
        home.write("bin/claude", words);
        let mode = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(home.join("bin/claude"), mode).unwrap();
    }

    pub(crate) fn command(&self) -> std::process::Command {
        let mut command = self.stage.command();
        let path = format!("{}:/usr/bin:/bin", self.stage.home.join("bin").display());
        command.env("PATH", path).current_dir(self.stage.home.path());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> (i32, Value) {
        let ran = super::stage::ran(self.command().args(args).arg("--json"));
        (ran.code, serde_json::from_str(&ran.stdout).unwrap_or_default())
    }

    pub(crate) fn noted(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.stage.home.join("record")).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| line.get(name).cloned()).collect()
    }
}

#[test]
fn row_01_a_launch_returns_with_a_chosen_id_and_the_proof_of_its_prompt() {
    let claude = InstalledClaude::new(&[]);
    let (code, answer) = claude.run(&["launch", "claude", TEXT, "--name", "mend"]);
    let launch = &answer["result"];
    assert_eq!((code, &launch["state"]), (0, &"accepted".into()), "{answer}");
    assert_eq!(launch["delivery"]["match"], "exact", "{answer}");
    assert_eq!(launch["session"]["bound"], "chosen");
    let id = launch["session"]["id"].as_str().unwrap();
    assert_eq!(claude.noted("started"), [id], "the agent was told this id");
    assert!(launch["session"]["transcript"].as_str().unwrap().ends_with(&format!("{id}.jsonl")));
    assert_eq!(claude.noted("prompt"), [TEXT]);
    // Its terminal is linked to the conversation, and takes the next prompt.
    let (code, again) = claude.run(&["prompt", "mend", "and now run them again"]);
    assert_eq!((code, &again["result"]["session"]), (0, &id.into()), "{again}");
    let (_, kept) = claude.run(&["deliveries", id]);
    let kept = kept["result"]["deliveries"].as_array().unwrap().clone();
    assert_eq!(kept.len(), 2);
    assert!(kept.iter().all(|one| one["state"] == "accepted" && one["turn"]["end"] == "answered"));
}

#[test]
fn row_02_many_lines_and_odd_characters_arrive() {
    let claude = InstalledClaude::new(&["place=1"]);
    let long =
        "a line of a long prompt with 日本 and 👩‍👩‍👧, \"quotes\", $HOME and `x`\n\n".repeat(200);
    for text in ["first\n\n\tsecond 日本 👩‍👩‍👧 $HOME  ", long.as_str()] {
        let (code, answer) = claude.run(&["launch", "claude", text]);
        assert_eq!((code, &answer["result"]["state"]), (0, &"accepted".into()), "{answer}");
    }
}

#[test]
fn without_a_prompt_a_launch_returns_when_the_agent_takes_one() {
    let claude = InstalledClaude::new(&["start=0.5"]);
    let (code, answer) = claude.run(&["launch", "claude"]);
    assert_eq!((code, &answer["result"]["state"]), (0, &"ready".into()), "{answer}");
    let id = answer["result"]["session"]["id"].as_str().unwrap();
    let (code, answer) = claude.run(&["prompt", id, TEXT]);
    assert_eq!(code, 0, "{answer}");
    let kinds: Vec<Value> =
        events(&claude).into_iter().map(|event| event["kind"].clone()).collect();
    assert_eq!(kinds, ["session.launched", "delivery.accepted"]);
}

#[test]
fn row_13_an_agent_with_an_empty_screen_is_not_ready() {
    let claude = InstalledClaude::new(&["blank=2"]);
    let (code, answer) = claude.run(&["launch", "claude"]);
    assert_eq!((code, &answer["result"]["state"]), (0, &"ready".into()), "{answer}");
    assert_eq!(claude.noted("drawn").len(), 1, "it has drawn its composer");
}

/// Whether keys that quit were pressed in a terminal.
fn was_asked_to_quit(claude: &InstalledClaude, terminal: &str) -> bool {
    claude.stage.events(terminal).iter().any(|event| event.to_string().contains("Ctrl+d"))
}

#[test]
fn row_53_keys_that_quit_are_pressed_only_where_they_quit() {
    let ready = |claude: &InstalledClaude| {
        let (code, answer) = claude.run(&["launch", "claude"]);
        assert_eq!(code, 0, "{answer}");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&answer["result"]["terminal"]), text(&answer["result"]["session"]["id"]))
    };
    let claude = InstalledClaude::new(&[]);
    let (terminal, id) = ready(&claude);
    assert_eq!(claude.run(&["stop", &id]).0, 0);
    assert!(was_asked_to_quit(&claude, &terminal), "idle, and nothing in its composer");
    // What stands in the composer would be taken for the keys' object.
    let (terminal, id) = ready(&claude);
    claude.stage.ok(&["type", &terminal, "half a li"]);
    claude.stage.ok(&["wait", &terminal, "--text", "half a li"]);
    assert_eq!(claude.run(&["stop", &id]).0, 0);
    assert!(!was_asked_to_quit(&claude, &terminal), "something stands there");
    // A question that opens between the plan and the keys.
    let (terminal, id) = ready(&claude);
    let (_, who) = claude.run(&["who", &id]);
    let pid = &who["result"]["conversations"][0]["holders"][0]["process"]["pid"];
    let registered = claude.stage.home.join(format!(".claude/sessions/{pid}.json"));
    let pauses = testkit::pause::Pauses::new();
    pauses.arm("stop-planned");
    let mut stop = claude.command();
    pauses.apply(stop.args(["stop", &id]).stdout(std::process::Stdio::null()));
    let mut stop = stop.spawn().unwrap();
    pauses.wait("stop-planned");
    let asks = std::fs::read_to_string(&registered).unwrap().replace("\"idle\"", "\"waiting\"");
    std::fs::write(&registered, asks).unwrap();
    pauses.release("stop-planned");
    assert!(stop.wait().unwrap().success());
    assert!(!was_asked_to_quit(&claude, &terminal), "it asks by now");
}

fn events(claude: &InstalledClaude) -> Vec<Value> {
    let ran = super::stage::ran(claude.command().args(["events", "--since", "0", "--json"]));
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn row_10_a_trust_dialog_is_told_and_not_answered() {
    for text in [None, Some(TEXT)] {
        let claude = InstalledClaude::new(&["trust=1"]);
        let words: Vec<&str> = ["launch", "claude"].into_iter().chain(text).collect();
        let (code, answer) = claude.run(&words);
        let launch = &answer["error"]["details"]["launch"];
        assert_eq!((code, &answer["error"]["code"]), (16, &"BLOCKED".into()), "{answer}");
        assert_eq!(
            (&launch["state"], &launch["blockedBy"]["kind"]),
            (&"blocked".into(), &"trust".into())
        );
        assert!(launch["blockedBy"]["screen"].as_str().unwrap().contains("Do you trust"));
        assert_eq!(claude.noted("approved").len() + claude.noted("prompt").len(), 0);
        assert!(launch["terminal"].is_string(), "a person can answer it there");
    }
}

#[test]
fn row_14_a_program_that_never_asks_for_brackets_is_not_typed_to() {
    let claude = InstalledClaude::new(&["paste=0"]);
    let (code, answer) = claude.run(&["launch", "claude", TEXT, "--ready-timeout", "1s"]);
    assert_eq!((code, &answer["error"]["code"]), (11, &"WAIT_TIMEOUT".into()), "{answer}");
    assert_eq!(claude.noted("pasted").len() + claude.noted("enter").len(), 0);
}

#[test]
fn row_31_a_headless_prompt_of_200_kb_arrives_whole() {
    let claude = InstalledClaude::new(&[]);
    let long = "a line of a long prompt\n".repeat(9_000);
    claude.stage.home.write("prompt", &long);
    let file = claude.stage.home.join("prompt");
    let (code, answer) = claude.run(&[
        "launch",
        "claude",
        "--headless",
        "--file",
        file.to_str().unwrap(),
        "--wait",
        "idle",
    ]);
    let launch = &answer["result"];
    assert_eq!((code, &launch["state"]), (0, &"accepted".into()), "{answer}");
    assert_eq!((&launch["exitCode"], &launch["mode"]), (&0.into(), &"headless".into()));
    assert_eq!(launch["delivery"]["turn"]["end"], "answered");
    assert_eq!(launch["delivery"]["bytes"], long.len());
    assert_eq!(claude.noted("prompt"), [long.as_str()]);
    assert!(!serde_json::to_string(&launch["argv"]).unwrap().contains("long prompt"));
}

#[test]
fn row_11_without_a_terminal_a_command_character_is_mere_text() {
    let claude = InstalledClaude::new(&[]);
    let ran = claude.stage.home.join("ran");
    for front in ["!", " !", "\n!", "/"] {
        let text = format!("{front}touch {}", ran.display());
        let (code, answer) =
            claude.run(&["launch", "claude", &text, "--headless", "--wait", "idle"]);
        assert_eq!((code, &answer["result"]["state"]), (0, &"accepted".into()), "{answer}");
        assert_eq!(claude.noted("prompt").last().unwrap(), &text);
    }
    assert!(!ran.exists());
}

#[test]
fn row_33_a_headless_agent_that_hangs_after_its_turn_is_stopped_and_that_is_said() {
    let claude = InstalledClaude::new(&["hangs=1"]);
    let (code, answer) =
        claude.run(&["launch", "claude", TEXT, "--headless", "--wait", "idle", "--timeout", "2s"]);
    let launch = &answer["result"];
    assert_eq!(code, 0, "{answer}");
    assert_eq!(launch["delivery"]["turn"]["end"], "answered");
    assert!(launch["reason"].as_str().unwrap().contains("stopped"), "{answer}");
    let pid = u32::try_from(launch["process"]["pid"].as_u64().unwrap()).unwrap();
    until("the end of the agent", || !is_alive(pid));
}

#[test]
fn row_32_a_tool_that_was_denied_is_no_failure_and_peek_tells_it() {
    let claude = InstalledClaude::new(&["denies=1"]);
    let (code, answer) =
        claude.run(&["launch", "claude", TEXT, "--headless", "--wait", "idle", "--timeout", "20s"]);
    let launch = &answer["result"];
    assert_eq!((code, &launch["exitCode"]), (0, &0.into()), "{answer}");
    assert_eq!(launch["delivery"]["turn"]["end"], "answered");
    let id = launch["session"]["id"].as_str().unwrap();
    let (code, peeked) = claude.run(&["peek", id]);
    assert_eq!(code, 0, "{peeked}");
    let messages = peeked["result"]["messages"].as_array().unwrap();
    let denied = messages.iter().find(|one| one["failed"] == true).expect("the denial");
    assert!(denied["text"].as_str().unwrap().contains("denied"), "{peeked}");
    assert_eq!(messages.last().unwrap()["text"], "done", "and what it said afterwards");
}

/// What the processes of this home were called with, by now.
fn command_lines(claude: &InstalledClaude) -> String {
    let home = claude.stage.home.path().as_os_str().as_encoded_bytes();
    let mut all = String::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.windows(home.len()).any(|part| part == home) {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            all += &String::from_utf8_lossy(&line);
        }
    }
    all
}

/// Every file below a directory that holds one of the words, but a terminal's own recording.
pub(crate) fn files_with(directory: &std::path::Path, words: &[&str], found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            files_with(&path, words, found);
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        found.extend(
            words
                .iter()
                .filter(|word| text.contains(**word))
                .map(|word| format!("{word} in {}", path.display())),
        );
    }
}

#[test]
fn row_89_a_prompt_and_a_secret_are_in_no_command_line_manifest_event_or_store() {
    let claude = InstalledClaude::new(&["turn=2"]);
    let secret = claude.stage.home.write("secret", "LAB_KEY=canary-secret-7\n");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let words = ["launch", "claude", "canary-prompt-7, please", "--env-from"];
    for more in [&["--name", "seen"][..], &["--headless"]] {
        let (code, answer) = claude.run(&[&words[..], &[secret.to_str().unwrap()], more].concat());
        assert_eq!(code, 0, "{answer}");
        assert!(!answer.to_string().contains("canary"), "{answer}");
        let lines = command_lines(&claude);
        assert!(lines.contains("fake_agent.py") && !lines.contains("canary"), "{lines}");
    }
    ran_finalize(&claude);
    let told = super::stage::ran(claude.command().args(["events", "--since", "0", "--json"]));
    assert!(told.stdout.contains("session.launched") && !told.stdout.contains("canary"));
    let mut found = Vec::new();
    files_with(&claude.stage.root, &["canary-secret-7"], &mut found);
    assert_eq!(found, Vec::<String>::new(), "the secret is written down nowhere");
    files_with(&claude.stage.root, &["canary-prompt-7"], &mut found);
    // What is typed into a terminal is in its recording, and what a headless program reads is in its own directory.
    found.retain(|one| !one.contains("/sessions/"));
    assert_eq!(found, Vec::<String>::new());
    for entry in std::fs::read_dir(claude.stage.root.join("sessions")).unwrap().flatten() {
        let manifest = std::fs::read_to_string(entry.path().join("session.json")).unwrap();
        assert!(!manifest.contains("canary"), "{manifest}");
    }
}

fn ran_finalize(claude: &InstalledClaude) {
    super::stage::ran(claude.command().arg("finalize")).exits(0);
}

#[test]
fn row_34_what_cannot_be_started_is_told_apart_and_no_id_is_invented() {
    let claude = InstalledClaude::new(&["exits=3"]);
    let (code, answer) = claude.run(&["launch", "claude", TEXT]);
    let launch = &answer["error"]["details"]["launch"];
    assert_eq!((code, &answer["error"]["code"]), (17, &"TURN_FAILED".into()), "{answer}");
    assert!(launch["reason"].as_str().unwrap().contains("configuration is broken"), "{answer}");
    assert_eq!((&launch["exitCode"], &launch["session"]), (&3.into(), &Value::Null));
    let (code, answer) = claude.run(&["launch", "claude", TEXT, "--headless"]);
    assert_eq!(code, 17, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("API key is wrong"), "{answer}");
    for (option, kind) in [("login=1", "login"), ("update=1", "update")] {
        claude.install(&[option]);
        let (code, answer) = claude.run(&["launch", "claude"]);
        assert_eq!(code, 16, "{answer}");
        assert_eq!(answer["error"]["details"]["launch"]["blockedBy"]["kind"], kind);
    }
    let path = claude.stage.home.join("bin/claude");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let (code, answer) = claude.run(&["launch", "claude", TEXT]);
    assert_eq!((code, &answer["error"]["code"]), (6, &"HOST_UNREACHABLE".into()), "{answer}");
    let (code, answer) = claude.run(&["launch", "codex", TEXT]);
    assert_eq!((code, &answer["error"]["code"]), (3, &"NOT_FOUND".into()), "{answer}");
}

#[test]
fn row_36_launches_in_one_directory_at_once_have_each_a_conversation_of_their_own() {
    let claude = InstalledClaude::new(&[]);
    let launched: Vec<(String, u64)> = std::thread::scope(|threads| {
        let start = |n: usize| {
            let claude = &claude;
            threads.spawn(move || {
                let text = format!("prompt number {n} of several");
                let (code, answer) = claude.run(&["launch", "claude", &text]);
                assert_eq!(code, 0, "{answer}");
                let launch = &answer["result"];
                let id = launch["session"]["id"].as_str().unwrap().to_owned();
                (id, launch["process"]["pid"].as_u64().unwrap())
            })
        };
        let all: Vec<_> = (0..20).map(start).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (id, pid) in &launched {
        let (_, who) = claude.run(&["who", id]);
        let holders = &who["result"]["conversations"][0]["holders"];
        assert_eq!(holders.as_array().unwrap().len(), 1, "{who}");
        assert_eq!(holders[0]["process"]["pid"], *pid);
    }
    let mut ids: Vec<&String> = launched.iter().map(|(id, _)| id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), launched.len());
}

#[test]
fn row_37_a_launch_that_is_killed_leaves_nothing_that_is_not_listed() {
    let claude = InstalledClaude::new(&[]);
    for point in ["launch.planned", "launch.started", "launch.noted", "launch.ready"] {
        let pauses = testkit::pause::Pauses::new();
        pauses.arm(point);
        let mut child = claude
            .command()
            .args(["launch", "claude", TEXT])
            .env("OSTLER_PAUSE", pauses.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        pauses.wait(point);
        child.kill().unwrap();
        child.wait().unwrap();
        pauses.release(point);
        let (_, listed) = claude.run(&["ls", "--agent", "terminal"]);
        let live = listed["result"]["sessions"].as_array().unwrap().clone();
        let expected = usize::from(point != "launch.planned");
        assert_eq!(live.len(), expected, "{point}: {listed}");
        for one in live {
            let (code, stopped) = claude.run(&["stop", one["id"].as_str().unwrap(), "--now"]);
            assert_eq!(code, 0, "{point}: {stopped}");
        }
        let (_, listed) = claude.run(&["ls"]);
        assert_eq!(listed["result"]["sessions"].as_array().unwrap().len(), 0, "{point}: {listed}");
    }
    assert_eq!(claude.noted("prompt").len(), 0);
}

#[test]
fn row_94_an_agent_without_a_control_table_is_not_driven() {
    let claude = InstalledClaude::new(&[]);
    let (code, answer) = claude.run(&["launch", "aider", TEXT]);
    assert_eq!(
        (code, &answer["error"]["details"]["reason"]),
        (13, &"not-driven".into()),
        "{answer}"
    );
    // In a terminal it is there for people all the same.
    let program = claude.stage.home.write("bin/aider", "#!/bin/sh\necho aider is here\ncat\n");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let (code, created) = claude.run(&["create", "--agent", "aider"]);
    assert_eq!((code, &created["result"]["agent"]), (0, &"aider".into()), "{created}");
    let id = created["result"]["sessionId"].as_str().unwrap();
    let seat = claude.stage.create(&[env!("CARGO_BIN_EXE_ostler"), "attach", id]);
    claude.stage.ok(&["wait", &seat, "--text", "aider is here"]);
    claude.stage.ok(&["type", &seat, "hello there\r"]);
    claude.stage.ok(&["wait", id, "--text", "hello there"]);
    let (code, answer) = claude.run(&["prompt", id, TEXT]);
    assert_eq!((code, &answer["error"]["code"]), (13, &"REFUSED".into()), "{answer}");
}

#[test]
fn a_dry_run_starts_nothing_and_secrets_are_written_down_nowhere() {
    let claude = InstalledClaude::new(&[]);
    let (code, answer) = claude.run(&["launch", "claude", TEXT, "--dry-run"]);
    assert_eq!((code, &answer["result"]["dryRun"]), (0, &true.into()), "{answer}");
    assert_eq!(claude.noted("started").len(), 0);
    let secret = claude.stage.home.join("secret");
    std::fs::write(&secret, "# for the agent\nMY_CLAUDE_KEY=canary-7\n").unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o644)).unwrap();
    let words = ["launch", "claude", "--env-from", secret.to_str().unwrap()];
    assert_eq!(claude.run(&words).0, 8, "others may read it");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let mut command = claude.command();
    let ran = super::stage::ran(
        command.args(words).arg("--json").env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", "x"),
    );
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert_eq!(claude.noted("marks"), [serde_json::json!(["MY_CLAUDE_KEY"])], "no other marks");
    assert!(!ran.stdout.contains("canary-7"));
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let terminal = answer["result"]["terminal"].as_str().unwrap();
    for entry in std::fs::read_dir(claude.stage.directory(terminal)).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains("canary-7"));
    }
}
