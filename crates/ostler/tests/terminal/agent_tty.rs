//! What only the name agent-tty promises.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::stage::{Name, Stage, ran, read_json, until};

fn stage() -> Stage {
    Stage::new(Name::AgentTty)
}

#[test]
fn ostler_agent_tty_is_the_same() {
    let stage = stage();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ostler"));
    command.env_clear().env("HOME", stage.home.path()).args(["agent-tty", "version", "--json"]);
    let version = ran(&mut command).exits(0).result();
    assert_eq!(version["protocolVersion"], "0.1.0");
    assert_eq!(version["rendererBackends"], json!(["ghostty-web", "libghostty-vt"]));
    assert!(version["cliVersion"].as_str().unwrap().starts_with("0.5.0"));
    assert_eq!(version["capabilities"].as_array().unwrap().len(), 6);
    assert_eq!(version["runtime"].as_object().unwrap().len(), 3);
}

#[test]
fn f6_capabilities_are_those_of_this_machine() {
    let stage = stage();
    let can = |path: &str| -> Vec<String> {
        let version =
            ran(stage.command().env("PATH", path).args(["version", "--json"])).exits(0).result();
        let all = version["capabilities"].as_array().unwrap().clone();
        let available = all.iter().filter(|one| one["status"] == "available");
        available.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let nothing = can("/nowhere");
    assert!(nothing.iter().any(|name| name == "dashboard"), "{nothing:?}");
    assert!(!nothing.iter().any(|name| name == "record-export-webm"), "{nothing:?}");
    stage.home.write("bin/ffmpeg", "");
    let with_encoder = can(stage.home.join("bin").to_str().unwrap());
    assert!(with_encoder.iter().any(|name| name == "record-export-webm"), "{with_encoder:?}");
    assert_eq!(stage.fails(&["record", "export", "x"]), (2, "INVALID_INPUT".into()));
}

#[test]
fn help_begins_and_ends_with_a_word_to_agents() {
    let help = stage().run(&["--help"]).exits(0).stdout;
    assert!(help.starts_with("MANDATORY FOR CODING AGENTS:"), "{help}");
    assert!(help.lines().next().unwrap().contains("skills get agent-tty"));
    assert!(help.trim_end().lines().last().unwrap().contains("skills list"));
}

#[test]
fn errors_of_the_parser_are_not_enveloped() {
    let stage = stage();
    for args in [
        &["--json", "nope"][..],
        &["--json", "list", "--nope"],
        &["--json", "inspect"],
        &["--version"],
        &["help"],
        &[],
        &["skills"],
        &["--json", "resize", "x", "--cols", "5"],
    ] {
        let ran = stage.run(args).exits(2);
        assert_eq!(ran.stdout, "", "{args:?}");
        assert!(!ran.stderr.is_empty());
    }
}

#[test]
fn an_error_for_people_is_its_code_and_message() {
    let ran = stage().run(&["inspect", "NOPE"]).exits(3);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.starts_with("SESSION_NOT_FOUND: "), "{ran:?}");
}

#[test]
fn an_error_has_exactly_four_fields() {
    let ran = stage().run(&["inspect", "NOPE", "--json"]).exits(3);
    let envelope = ran.envelope();
    let keys: Vec<&String> = envelope.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["command", "error", "ok", "timestamp"]);
    let error = envelope["error"].as_object().unwrap();
    assert_eq!(error.keys().collect::<Vec<_>>(), ["code", "details", "message", "retryable"]);
    assert!(
        ran.stdout
            .starts_with("{\n  \"ok\": false,\n  \"command\": \"inspect\",\n  \"timestamp\": \"")
    );
    assert_eq!(ran.stderr, "");
}

#[test]
fn homes_must_be_absolute() {
    let stage = stage();
    for home in ["", "relative/path"] {
        let ran = stage.run(&["--home", home, "--json", "list"]).exits(2);
        assert_eq!(
            (ran.envelope()["command"].clone(), ran.error()),
            (json!("agent-tty"), "INVALID_INPUT".into())
        );
    }
    assert_eq!(stage.fails(&["--timeout-ms", "x", "list"]), (2, "INVALID_DURATION".into()));
    stage.home.write("agent-tty/config.json", "{\"unknown\": 1}");
    stage.run(&["list"]).exits(1);
    stage.home.write("agent-tty/config.json", "{\"idleTimeoutMs\": 77000, \"defaultCols\": 3}");
    let made = stage.run(&["--json", "create", "--", "/bin/cat"]).exits(0).result();
    assert_eq!((&made["idleTimeoutMs"], &made["cols"]), (&json!(77000), &json!(80)));
}

#[test]
fn ids_are_never_shortened() {
    let stage = stage();
    let made = stage.run(&["--json", "create", "--name", "work", "--", "/bin/cat"]).result();
    let id = made["sessionId"].as_str().unwrap();
    for text in [&id[..10], "work", "-"] {
        assert_eq!(stage.fails(&["inspect", text]), (3, "SESSION_NOT_FOUND".into()), "{text}");
    }
}

#[test]
fn list_shows_active_sessions_and_all_on_request() {
    let stage = stage();
    assert_eq!(stage.run(&["list"]).exits(0).stdout, "\n");
    let id = stage.create(&["/bin/cat"]);
    let over = stage.script("exit 0");
    until("the end", || stage.manifest(&over)["status"] == "exited");
    let listed = stage.ok(&["ls"]);
    let row = &listed["sessions"][0];
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&row["sessionId"], &row["status"], &row["command"]),
        (&json!(id), &json!("running"), &json!(["/bin/cat"]))
    );
    assert_eq!(row["pid"], stage.pid(&id, "childPid"));
    assert_eq!(stage.ok(&["list", "--all"])["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(stage.run(&["list"]).stdout, format!("{id}  running  /bin/cat\n"));
}

#[test]
fn words_for_people_are_the_documented_ones() {
    let stage = stage();
    let id = stage.shell();
    let says = |args: &[&str]| stage.run(args).exits(0).stdout;
    assert!(says(&["type", &id, "x"]).starts_with("Typed text into session at seq "));
    assert!(says(&["paste", &id, "x"]).starts_with("Pasted text into session at seq "));
    assert!(says(&["mark", &id, ""]).starts_with("Marker set at seq "));
    assert!(says(&["send-keys", &id, "Ctrl+C"]).starts_with("Sent 1 key(s) (1 byte(s), seq "));
    assert!(says(&["run", &id, "true"]).starts_with("Command completed (seq="));
    assert!(
        says(&["run", &id, "true", "--no-wait"]).starts_with("Command injected into session (seq=")
    );
    assert!(
        says(&["run", &id, "sleep 5", "--timeout", "50"]).starts_with("Command timed out after ")
    );
    assert_eq!(
        says(&["resize", &id, "--cols", "70", "--rows", "20"]),
        "Resized session to 70x20.\n"
    );
    assert_eq!(says(&["signal", &id, "SIGINT"]), "Signal SIGINT delivered to session.\n");
    assert_eq!(says(&["destroy", &id]), format!("Session destroyed: {id}\n"));
}

#[test]
fn a_timed_out_run_is_a_success_and_carries_no_exit_code() {
    let stage = stage();
    let id = stage.shell();
    let run = stage.ok(&["run", &id, "false"]);
    assert!(run.get("exitCode").is_none(), "{run}");
    let late = stage.ok(&["run", &id, "sleep 3", "--timeout", "50"]);
    assert_eq!((&late["completed"], &late["timedOut"]), (&json!(false), &json!(true)));
}

#[test]
fn a_paste_is_always_in_brackets() {
    let stage = stage();
    let id = stage.script("stty raw -echo; echo READY; head -c 13 | od -An -tx1; sleep 100");
    stage.ok(&["wait", &id, "--text", "READY"]);
    stage.ok(&["paste", &id, "x"]);
    stage.ok(&["wait", &id, "--text", "1b 5b 32 30 30 7e 78 1b 5b 32 30 31 7e"]);
    let events = stage.events(&id);
    let paste = events.iter().find(|event| event["type"] == "input_paste").unwrap();
    assert_eq!(paste["payload"]["data"], "\u{1b}[200~x\u{1b}[201~");
}

#[test]
fn keys_are_its_own_and_no_others() {
    let stage = stage();
    let id = stage.create(&["/bin/cat"]);
    for key in ["C-c", "é", "Ctrl+Enter", "Shift+1", "ab", "+", "Meta+x"] {
        assert_eq!(stage.fails(&["send-keys", &id, key]), (2, "INVALID_KEYS".into()), "{key}");
    }
}

#[test]
fn the_log_has_only_what_its_readers_know() {
    let stage = stage();
    let id = stage.shell();
    stage.ok(&["run", &id, "printf '\\377\\376'; true"]);
    stage.ok(&["destroy", &id]);
    let text = std::fs::read_to_string(stage.directory(&id).join("events.jsonl")).unwrap();
    assert!(!text.contains("\"raw\"") && !text.contains("exitCode\":0,\"inputRunSeq"), "{text}");
    assert!(text.contains('\u{fffd}'));
}

#[test]
fn the_session_knows_its_home_and_not_the_renderer() {
    let stage = stage();
    let args = ["--json", "create", "--", "/bin/bash", "-c", "env; echo END; sleep 100"];
    let id = stage.run(&args).result()["sessionId"].as_str().unwrap().to_owned();
    stage.ok(&["wait", &id, "--text", "END"]);
    let shown = stage.screen(&id);
    assert!(shown.contains(&format!("AGENT_TTY_HOME={}", stage.root.display())), "{shown}");
    assert!(shown.contains("AGENT_TTY_LOG_LEVEL=info"));
    assert!(!shown.contains("AGENT_TTY_RENDERER"));
    assert!(shown.contains("TERM=xterm-256color"));
}

/// Asks a host what a client of agent-tty would: one line, one answer.
fn ask(socket: &str, request: &Value) -> Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    writeln!(stream, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

/// §1.18
#[test]
fn the_host_draws_a_screenshot_for_its_clients() {
    let stage = stage();
    let id = stage.shell();
    let socket = stage.ok(&["inspect", &id])["host"]["rpcSocketPath"].as_str().unwrap().to_owned();
    let drawn = ask(&socket, &json!({"id": "1", "method": "screenshot"}));
    assert_eq!((&drawn["id"], &drawn["ok"]), (&json!("1"), &json!(true)), "{drawn}");
    // The same picture as the command's, kept and listed in the same place.
    assert_eq!(drawn["result"], stage.ok(&["screenshot", &id]));
    let params =
        json!({"profile": "reference-light", "showCursor": true, "rendererName": "ghostty-web"});
    let light = ask(&socket, &json!({"id": "2", "method": "screenshot", "params": params}));
    let light = &light["result"];
    assert_eq!(
        (&light["profileName"], &light["cursorVisible"]),
        (&json!("reference-light"), &json!(true))
    );
    let path = light["artifactPath"].as_str().unwrap();
    assert!(std::fs::read(path).unwrap().starts_with(b"\x89PNG"));
    assert_eq!(stage.ok(&["inspect", &id])["artifacts"]["byKind"]["screenshot"], 3);
    let params = json!({"profile": "sepia"});
    let refused = ask(&socket, &json!({"id": "3", "method": "screenshot", "params": params}));
    assert_eq!(refused["error"]["code"], "INVALID_INPUT");
    assert!(refused["error"]["message"].as_str().unwrap().contains("unknown render profile"));
}

#[test]
fn sockets_are_where_its_clients_look() {
    let stage = stage();
    let id = stage.create(&["/bin/cat"]);
    let socket = stage.ok(&["inspect", &id])["host"]["rpcSocketPath"].as_str().unwrap().to_owned();
    let parts: Vec<&str> = socket.strip_prefix("/tmp/agent-tty/").unwrap().split('/').collect();
    assert_eq!((parts.len(), parts[0].len(), parts[1].len()), (2, 8, 12));
}

#[test]
fn homes_are_remembered_and_forgotten() {
    let stage = stage();
    assert_eq!(stage.run(&["home", "list"]).exits(0).stdout, "No registered Homes.\n");
    let id = stage.create(&["/bin/cat"]);
    let homes = stage.ok(&["home", "list"])["homes"].clone();
    assert_eq!(homes[0]["path"], stage.root.to_str().unwrap());
    assert_eq!((&homes[0]["activeSessions"], &homes[0]["totalSessions"]), (&json!(1), &json!(1)));
    stage.ok(&["destroy", &id]);
    assert_eq!(stage.ok(&["home", "list"])["homes"], json!([]));
    assert_eq!(stage.ok(&["home", "list", "--all"])["homes"].as_array().unwrap().len(), 1);
    let path = stage.root.to_str().unwrap();
    assert_eq!(stage.ok(&["home", "forget", path]), json!({"path": path, "forgotten": true}));
    assert_eq!(stage.ok(&["home", "forget", path])["forgotten"], false);
    let registry = read_json(&stage.home.join(".local/state/agent-tty/homes.json"));
    assert_eq!(registry, json!({"version": 1, "homes": []}));
}

#[test]
fn gc_removes_what_is_over_and_says_why_not() {
    let stage = stage();
    let (live, over) = (stage.create(&["/bin/cat"]), stage.create(&["/bin/cat"]));
    stage.ok(&["destroy", &over]);
    std::fs::create_dir(stage.root.join("sessions/no-manifest")).unwrap();
    let dry = stage.ok(&["gc", "--dry-run"]);
    assert_eq!(dry["homes"][0]["removedSessions"], json!([over]));
    assert!(stage.directory(&over).exists());
    assert_eq!(stage.ok(&["gc", "--older-than", "1h"])["removedSessionCount"], 0);
    assert_eq!(stage.ok(&["gc", "--stale-only"])["removedSessionCount"], 0);
    assert_eq!(stage.fails(&["gc", "--older-than", "soon"]), (2, "INVALID_DURATION".into()));
    let collected = stage.ok(&["gc"]);
    assert_eq!(collected["homes"][0]["removedSessions"], json!([over]));
    assert!(collected["totalBytesFreed"].as_u64().unwrap() > 0);
    let skipped = collected["homes"][0]["skippedSessions"].as_array().unwrap();
    let reason =
        |id: &str| skipped.iter().find(|one| one["sessionId"] == id).unwrap()["reason"].clone();
    assert_eq!(reason(&live), "session host is still alive");
    assert_eq!(reason("no-manifest"), "session manifest is missing");
    assert!(!stage.directory(&over).exists() && stage.directory(&live).exists());
}

#[test]
fn doctor_names_every_check() {
    let stage = stage();
    let report = stage.ok(&["doctor"]);
    let names = |group: &str| -> Vec<String> {
        let checks = report["checks"][group].as_array().unwrap();
        checks.iter().map(|check| check["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(report["ok"], true);
    assert_eq!(names("environment").len(), 9);
    assert_eq!(names("renderer").len(), 6);
    assert_eq!(report["capabilities"].as_array().unwrap().len(), 6);
}

#[test]
fn skills_are_listed_printed_and_found() {
    let stage = stage();
    let names: Vec<_> = stage.ok(&["skills", "list"])["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["name"].clone())
        .collect();
    assert_eq!(names, ["agent-tty", "dogfood-tui"]);
    let got = stage.ok(&["skills", "get", "agent-tty"]);
    assert_eq!(stage.run(&["skills", "get", "agent-tty"]).stdout, got["content"].as_str().unwrap());
    let path = stage.run(&["skills", "path", "agent-tty"]).exits(0).stdout;
    assert!(std::path::Path::new(path.trim_end()).join("SKILL.md").exists());
    assert_eq!(stage.fails(&["skills", "get", "nope"]), (1, "SKILL_NOT_FOUND".into()));
}

#[test]
fn the_artifact_list_grows_with_every_snapshot() {
    let stage = stage();
    let id = stage.create(&["/bin/cat"]);
    stage.ok(&["snapshot", &id]);
    stage.ok(&["snapshot", &id]);
    let list = read_json(&stage.directory(&id).join("artifacts/manifest.json"));
    assert_eq!(list["artifacts"].as_array().unwrap().len(), 2);
    assert_eq!((&list["version"], &list["sessionId"]), (&json!(1), &json!(id)));
}

#[test]
fn f6_3_messages_that_scripts_look_for_have_its_words() {
    let stage = stage();
    let id = stage.create(&["/bin/cat"]);
    for (args, words) in [
        (&["skills", "get", "nope"][..], "SKILL_NOT_FOUND: Skill not found."),
        (&["resize", "NOPE", "--cols", "9", "--rows", "9"], "Session \"NOPE\" was not found."),
        (&["run", &id, ""], "Text must not be empty."),
        (&["--log-level", "x", "list"], "Log level must be one of debug, info, warn, or error."),
        (&["--home", "x", "list"], "--home must be an absolute path."),
        (&["--renderer", "x", "list"], "Renderer must be one of: ghostty-web, libghostty-vt."),
        (&["wait", &id, "--regex", "("], "Invalid regex pattern"),
        (&["skill"], "unknown command 'skill'"),
        (&["skill"], "(Did you mean skills?)"),
    ] {
        let ran = stage.run(args);
        assert_ne!(ran.code, 0);
        assert!(ran.stderr.contains(words), "{args:?}: {ran:?}");
    }
    assert!(stage.run(&["--help"]).stdout.contains("Manage built-in skills"));
    let watch = stage.run(&["d", "--help"]).exits(0).stdout;
    assert!(watch.contains("Watch what your agents are doing in their shells"));
    for args in [&["--help"][..], &["create", "--help"], &["record", "export", "--help"]] {
        let help = stage.run(args).exits(0).stdout;
        assert!(help.starts_with("MANDATORY FOR CODING AGENTS:"), "{help}");
        assert!(help.contains("If your agent already loaded that skill, follow it;"), "{help}");
        let last = help.trim_end().lines().last().unwrap();
        assert!(last.starts_with("Coding agents: after loading the core `agent-tty` skill"));
    }
}

#[test]
fn f6_2_7_spans_that_are_wrong_have_a_code_of_their_own() {
    let stage = stage();
    let id = stage.create(&["/bin/cat"]);
    for option in ["--idle-ms", "--screen-stable-ms", "--timeout"] {
        let fails = stage.fails(&["wait", &id, option, "x"]);
        assert_eq!(fails, (2, "INVALID_DURATION".into()), "{option}");
    }
    for option in ["--idle-ms", "--screen-stable-ms"] {
        assert_eq!(stage.fails(&["wait", &id, option, "0"]), (2, "INVALID_DURATION".into()));
    }
    let args = ["create", "--idle-timeout-ms", "x", "--", "/bin/cat"];
    assert_eq!(stage.fails(&args), (2, "INVALID_INPUT".into()));
    assert_eq!(stage.fails(&["gc", "--older-than", "0m"]), (2, "INVALID_DURATION".into()));
    let plan = "[{\"sendKeys\":[\"NoSuchKey\"]}]";
    assert_eq!(stage.fails(&["batch", &id, plan]), (2, "INVALID_KEYS".into()));
}

#[test]
fn f6_1_silence_begins_with_the_first_output() {
    let stage = stage();
    let id = stage.script("sleep 1; echo spoken; sleep 1000");
    let waited = stage.ok(&["wait", &id, "--idle-ms", "100", "--timeout", "15000"]);
    assert_eq!(waited["timedOut"], false);
    assert!(stage.screen(&id).contains("spoken"));
    // One that never speaks is silent, when the wait's own time is over.
    let id = stage.script("sleep 1000");
    let waited = stage.ok(&["wait", &id, "--idle-ms", "100", "--timeout", "400"]);
    assert_eq!(waited["timedOut"], false);
}

#[test]
fn f6_2_small_rows() {
    let stage = stage();
    let said = stage.run(&["--log-level", "debug", "list"]).exits(0).stderr;
    assert!(said.starts_with("[agent-tty] debug: resolved command context {"), "{said}");
    let script = "echo \"[$TERM]\"; sleep 1000";
    let args = ["create", "--term", "vt100", "--env", "TERM=xterm", "--", "/bin/sh", "-c", script];
    let id = stage.run(&[&["--json"][..], &args].concat()).exits(0).result();
    stage.ok(&["wait", id["sessionId"].as_str().unwrap(), "--text", "[vt100]"]);
    let path = stage.run(&["skills", "path", "agent-tty"]).exits(0).stdout;
    assert!(path.trim_end().ends_with("skill-data/agent-tty"), "{path}");
    assert_eq!(stage.fails(&["create", "--shell", "/"]), (2, "INVALID_INPUT".into()));
    assert_eq!(stage.fails(&["create", "--term", ""]), (2, "INVALID_INPUT".into()));
}

#[test]
fn f6_2_11_a_home_that_was_not_on_the_list_is_not_taken_off_it() {
    let stage = stage();
    let mut command = stage.command();
    command.env_remove("AGENT_TTY_HOME").args(["gc", "--json"]);
    let collected = ran(&mut command).exits(0).result();
    assert_eq!(collected["deregisteredHomes"], json!([]));
    assert_eq!(collected["homes"][0]["deregistered"], false);
}

/// The error of a call that fails.
fn error(stage: &Stage, args: &[&str]) -> (i32, Value) {
    let ran = stage.run(&[&["--json"][..], args].concat());
    let mut envelope: Value = serde_json::from_str(&ran.stdout).unwrap();
    (ran.code, envelope["error"].take())
}

#[test]
fn f6_2_5_details_name_the_offending_value() {
    let stage = stage();
    let id = stage.create(&["/bin/cat"]);
    for (args, code, details) in [
        (
            &["resize", &id, "--cols", "0", "--rows", "4"][..],
            "INVALID_DIMENSIONS",
            json!({"cols": "0"}),
        ),
        (&["wait", &id, "--timeout", "x"], "INVALID_DURATION", json!({"timeout": "x"})),
        (&["wait", &id, "--idle-ms", "x"], "INVALID_DURATION", json!({"idleMs": "x"})),
        (
            &["wait", &id, "--screen-stable-ms", "0"],
            "INVALID_DURATION",
            json!({"screenStableMs": 0}),
        ),
        (&["wait", &id, "--cursor-row", "x"], "INVALID_INPUT", json!({"cursorRow": "x"})),
        (&["screenshot", &id, "--profile", "nope"], "INVALID_INPUT", json!({"profile": "nope"})),
        (&["snapshot", "."], "INVALID_SESSION_ID", json!({"sessionId": "."})),
        (
            &["gc", "--older-than", "x"],
            "INVALID_DURATION",
            json!({"value": "x", "expectedFormat": "<number>m, <number>h or <number>d"}),
        ),
    ] {
        let (exit, error) = error(&stage, args);
        assert_eq!((exit, &error["code"]), (2, &json!(code)), "{args:?}: {error}");
        assert_eq!(error["details"], details, "{args:?}");
    }
    stage.ok(&["destroy", &id]);
    let (_, destroyed) = error(&stage, &["destroy", &id]);
    assert_eq!(destroyed["details"], json!({"sessionId": id, "status": "destroyed"}));
    let (exit, unmet) = error(&stage, &["wait", &id, "--text", "zzz"]);
    assert_eq!((exit, &unmet["code"]), (10, &json!("REPLAY_ERROR")));
    let details = &unmet["details"];
    assert_eq!((&details["text"], &details["cursorRow"]), (&json!("zzz"), &json!(0)));
    assert!(details["visibleLines"].is_array() && details["capturedAtSeq"].is_number());
}

#[test]
fn f6_2_7_nested_quantifiers_are_refused_as_agent_tty() {
    let stage = stage();
    let id = stage.create(&["/bin/cat"]);
    for pattern in ["(a+)+", "(a*)*$", "((ab)+c)*", "(a{2,}){3}", "x{2}{3}"] {
        let (exit, error) = error(&stage, &["wait", &id, "--regex", pattern]);
        assert_eq!((exit, &error["code"]), (2, &json!("INVALID_INPUT")), "{pattern}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("nested quantifiers"), "{message}");
    }
    for pattern in ["(ab)+", "a+b*", "(a|b)+", "[a+]+", "\\(a+\\)+", "(a?)?"] {
        let args = ["wait", &id, "--regex", pattern, "--timeout", "1"];
        let refused = stage.run(&args).stderr;
        assert!(!refused.contains("nested quantifiers"), "{pattern}: {refused}");
    }
}

#[test]
fn f6_3_a_run_that_timed_out_is_named_when_it_completes() {
    let stage = stage();
    let id = stage.shell();
    let late = stage.ok(&["run", &id, "sleep 1", "--timeout", "50"]);
    stage.ok(&["run", &id, "echo next", "--timeout", "20000"]);
    let log = std::fs::read_to_string(stage.directory(&id).join("events.jsonl")).unwrap();
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let done: Vec<Value> = events
        .filter(|event| event["type"] == "run_complete")
        .map(|mut event| event["payload"].take())
        .collect();
    assert_eq!(done[0], json!({"marker": late["marker"], "inputRunSeq": late["seq"]}));
    assert_eq!(done.len(), 2);
}

#[test]
fn f6_2_rows_9_and_12_and_calls_of_6_3() {
    let stage = stage();
    let id = stage.create(&["/bin/cat"]);
    let live = stage.ok(&["inspect", &id]);
    assert_eq!(live["host"]["cliVersion"], "0.5.0");
    assert_eq!(live["rendererRuntime"]["booted"], true);
    assert_eq!(live["rendererRuntime"]["bootInFlight"], false);
    let version = stage.ok(&["version"]);
    assert_eq!(version["cliVersion"], "0.5.0");
    assert!(version["implementation"].as_str().unwrap().starts_with("ostler "));
    let cast = stage.home.join("x.cast");
    let cast = cast.to_str().unwrap();
    let export = |more: &[&str]| {
        let args = [&["record", "export", &id, "--format", "asciicast"][..], more].concat();
        stage.run(&[&["--json"][..], &args].concat())
    };
    export(&["--out", cast, "--profile", "nope", "--timing", "max-speed"]).exits(0);
    let head = std::fs::read_to_string(cast).unwrap();
    assert!(head.lines().next().unwrap().contains("\"toolVersion\":\"0.5.0\""), "{head}");
    export(&["--timing", "warp"]).exits(2);
    let into = export(&["--out", stage.home.path().to_str().unwrap()]).exits(8);
    assert!(into.stdout.contains("STORAGE_WRITE_ERROR"), "{}", into.stdout);
    stage.ok(&["destroy", &id]);
    assert_eq!(stage.ok(&["inspect", &id])["usedOfflineReplay"], false);
    let forgotten = stage.ok(&["home", "forget", "rel"]);
    assert_eq!(forgotten["forgotten"], false);
    assert!(forgotten["path"].as_str().unwrap().starts_with('/'));
}
