//! What both names promise: the rows of the contract's tables, under each.

use serde_json::{Value, json};

use super::stage::{Name, Stage, until};

const BOTH: [Name; 2] = [Name::Ostler, Name::AgentTty];

#[test]
fn create_answers_when_the_program_runs() {
    for name in BOTH {
        let stage = Stage::new(name);
        let args = [
            "create",
            "--cols",
            "100",
            "--rows",
            "30",
            "--env",
            "A=b",
            "--idle-timeout-ms",
            "60000",
            "--name",
            "n",
            "--json",
            "--",
            "/bin/cat",
        ];
        let result = stage.run(&args).exits(0).result();
        let id = result["sessionId"].as_str().unwrap();
        assert_eq!(id.len(), 26);
        assert_eq!(result["cols"], 100);
        assert_eq!(result["rows"], 30);
        assert_eq!(result["env"], json!({"A": "b"}));
        assert_eq!(result["idleTimeoutMs"], 60000);
        let keys: Vec<&String> = result.as_object().unwrap().keys().collect();
        assert!(
            ["sessionId", "createdAt", "shell"]
                .iter()
                .all(|key| keys.contains(&&(*key).to_owned()))
        );
        let manifest = stage.manifest(id);
        assert_eq!(manifest["status"], "running");
        assert_eq!(manifest["command"], json!(["/bin/cat"]));
        assert!(manifest["hostPid"].is_u64() && manifest["childPid"].is_u64());
        assert_eq!(manifest["exitCode"], json!(null));
    }
}

#[test]
fn create_refuses_what_cannot_be() {
    for name in BOTH {
        let stage = Stage::new(name);
        let refused = |args: &[&str]| stage.fails(&[&["create"], args].concat());
        assert_eq!(refused(&["--env", "NOPE"]), (2, "INVALID_INPUT".into()));
        assert_eq!(refused(&["--cols", "0"]), (2, "INVALID_DIMENSIONS".into()));
        assert_eq!(refused(&["--rows", "-3"]), (2, "INVALID_DIMENSIONS".into()));
        assert_eq!(refused(&["--cols", "many"]), (2, "INVALID_DIMENSIONS".into()));
        assert_eq!(refused(&["--shell", "/no/such/shell"]), (2, "INVALID_INPUT".into()));
        assert_eq!(refused(&["--cwd", "/no/such/place"]), (8, "STORAGE_READ_ERROR".into()));
        assert!(!stage.root.join("sessions").exists(), "nothing was made");
    }
}

#[test]
fn b14_a_command_that_cannot_be_run_is_an_error_or_agent_ttys_exit_with_1() {
    let stage = Stage::new(Name::AgentTty);
    let id = stage.create(&["/no/such/program"]);
    until("the end", || stage.manifest(&id)["status"] == "exited");
    assert_eq!(stage.manifest(&id)["exitCode"], 1);
    assert!(stage.screen(&id).contains("/no/such/program"));
    let stage = Stage::new(Name::Ostler);
    let ran = stage.run(&["--json", "create", "--", "/no/such/program"]).exits(2);
    assert_eq!(ran.error(), "INVALID_INPUT");
    assert!(ran.message().contains("/no/such/program"), "{ran:?}");
    assert_eq!(
        std::fs::read_dir(stage.root.join("sessions")).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[test]
fn b14_show_says_how_a_program_ended() {
    let stage = Stage::new(Name::Ostler);
    for (script, code, signal, words) in [
        ("exit 3", json!(3), Value::Null, "code 3"),
        ("kill -9 $$", Value::Null, json!("9"), "signal 9"),
    ] {
        let id = stage.create(&["/bin/sh", "-c", script]);
        until("the end", || stage.manifest(&id)["status"] == "exited");
        let exit = stage.run(&["show", &id, "--json"]).exits(0).result()["exit"].take();
        assert_eq!((&exit["exitCode"], &exit["exitSignal"]), (&code, &signal), "{script}");
        let shown = stage.run(&["show", &id]).exits(0).stdout;
        let line = shown.lines().find(|line| line.trim_start().starts_with("exit "));
        assert!(line.is_some_and(|line| line.ends_with(words)), "{shown}");
    }
    let alive = stage.create(&["/bin/cat"]);
    assert_eq!(stage.run(&["show", &alive, "--json"]).exits(0).result()["exit"], Value::Null);
}

#[test]
fn b6_a_name_that_could_address_nothing_is_refused_and_the_live_one_has_it() {
    let stage = Stage::new(Name::Ostler);
    let create = |name: &str| stage.run(&["--json", "create", "--name", name, "--", "/bin/cat"]);
    let id =
        |ran: super::stage::Ran| ran.exits(0).result()["sessionId"].as_str().unwrap().to_owned();
    let first = id(create("work"));
    for name in
        ["", "-", ".", "..", "a/b", "x:y", "work", &first, &first[..5], &first[..5].to_lowercase()]
    {
        let ran = create(name).exits(2);
        assert_eq!(ran.error(), "INVALID_INPUT", "{name}");
    }
    let message = create("work").message();
    assert!(message.contains(&first) && message.contains("ostler destroy work"), "{message}");
    stage.ok(&["destroy", "work"]);
    let second = id(create("work"));
    assert_eq!(stage.ok(&["inspect", "work"])["session"]["sessionId"], *second);
    // Also when the host of the other was killed and nobody corrected that.
    super::stage::kill(stage.pid(&second, "hostPid"), "-KILL");
    // Proven dead, which is later than the end of its first thread.
    until("its end", || stage.ok(&["inspect", &second])["session"]["status"] != "running");
    let third = id(create("work"));
    stage.ok(&["type", "work", "x"]);
    stage.ok(&["destroy", "work"]);
    assert_eq!(stage.ok(&["inspect", "work"])["session"]["sessionId"], *third, "the newest");
    let agent_tty = Stage::new(Name::AgentTty);
    assert_eq!(agent_tty.fails(&["create", "--name", "", "--", "/bin/cat"]).1, "INVALID_INPUT");
}

#[test]
fn files_are_private_and_laid_out_as_documented() {
    use std::os::unix::fs::PermissionsExt;
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.shell();
        stage.ok(&["snapshot", &id]);
        let mode = |path: &str| {
            let path = stage.directory(&id).join(path);
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode(""), mode("session.json"), mode("events.jsonl")), (0o700, 0o600, 0o600));
        assert_eq!((mode("artifacts"), mode("artifacts/manifest.json")), (0o700, 0o600));
        let text = std::fs::read_to_string(stage.directory(&id).join("session.json")).unwrap();
        assert!(text.starts_with("{\n  \"version\": 1,\n  \"sessionId\"") && text.ends_with("}\n"));
    }
}

#[test]
fn events_are_numbered_from_zero_without_gaps() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.shell();
        stage.ok(&["type", &id, "echo typed\n"]);
        stage.ok(&["paste", &id, "echo pasted"]);
        stage.ok(&["send-keys", &id, "Enter"]);
        stage.ok(&["run", &id, "true"]);
        stage.ok(&["mark", &id, "here"]);
        stage.ok(&["resize", &id, "--cols", "90", "--rows", "20"]);
        stage.ok(&["signal", &id, "SIGUSR1"]);
        stage.ok(&["destroy", &id, "--force"]);
        let events = stage.events(&id);
        for (index, event) in events.iter().enumerate() {
            assert_eq!(event["seq"], index, "{events:#?}");
            assert_eq!(event["ts"].as_str().unwrap().len(), 24);
        }
        let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        for kind in [
            "output",
            "input_text",
            "input_paste",
            "input_keys",
            "input_run",
            "run_complete",
            "marker",
            "resize",
            "signal",
        ] {
            assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
        }
        assert_eq!(kinds.last(), Some(&"exit"));
    }
}

#[test]
fn typed_text_is_written_as_it_is() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.script("stty raw -echo; echo READY; head -c 6 | od -An -tx1; sleep 100");
        stage.ok(&["wait", &id, "--text", "READY"]);
        let typed = stage.ok(&["type", &id, "aé\n", "--append-newline"]);
        assert!(typed["seq"].is_u64());
        stage.ok(&["type", &id, "x"]);
        stage.ok(&["wait", &id, "--text", "61 c3 a9 0a 0a 78"]);
    }
}

#[test]
fn input_sources_are_checked_before_the_target() {
    for name in BOTH {
        let stage = Stage::new(name);
        stage.home.write("empty", "");
        stage.home.write("text", "x");
        stage.home.link("link", stage.home.join("text").to_str().unwrap());
        stage.home.fifo("pipe");
        for command in ["type", "paste", "run", "batch"] {
            for args in [
                &[command, "NOPE"][..],
                &[command, "NOPE", ""],
                &[command, "NOPE", "x", "--file", "text"],
                &[command, "NOPE", "--file", "missing"],
                &[command, "NOPE", "--file", "empty"],
                &[command, "NOPE", "--file", "link"],
                &[command, "NOPE", "--file", "pipe"],
            ] {
                assert_eq!(stage.fails(args), (2, "INVALID_INPUT".into()), "{args:?}");
            }
        }
        let message = |args: &[&str]| stage.run(&[&["--json"], args].concat()).message();
        assert!(message(&["type", "NOPE", "x", "--file", "text"]).contains("mutually exclusive"));
        assert_eq!(
            message(&["type", "NOPE"]),
            "Provide either a positional <text> argument or --file <path>."
        );
        assert_eq!(message(&["type", "NOPE", ""]), "Text must not be empty.");
        assert!(message(&["type", "NOPE", "--file", "empty"]).contains("must not be empty"));
        assert!(message(&["type", "NOPE", "--file", "missing"]).contains("was not found"));
        assert_eq!(
            stage.fails(&["type", "NOPE", "--file", "text"]),
            (3, "SESSION_NOT_FOUND".into())
        );
    }
}

#[test]
fn a_session_that_is_over_is_refused_with_how() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.script("exit 3");
        until("the end", || stage.manifest(&id)["status"] == "exited");
        let commands: [&[&str]; 6] = [
            &["type", &id, "x"],
            &["run", &id, "x"],
            &["send-keys", &id, "Enter"],
            &["mark", &id, "x"],
            &["resize", &id, "--cols", "0", "--rows", "0"],
            &["signal", &id, "NOSUCH"],
        ];
        for args in commands {
            assert_eq!(stage.fails(args), (4, "SESSION_NOT_RUNNING".into()), "{args:?}");
        }
        assert_eq!(stage.ok(&["wait", &id, "--exit"])["exitCode"], 3);
        stage.ok(&["destroy", &id]);
        assert_eq!(stage.fails(&["type", &id, "x"]), (4, "SESSION_ALREADY_DESTROYED".into()));
        assert_eq!(stage.fails(&["destroy", &id]), (4, "SESSION_ALREADY_DESTROYED".into()));
        assert_eq!(stage.manifest(&id)["status"], "destroyed");
    }
}

#[test]
fn sizes_and_signals_are_checked_after_the_target() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.script("trap 'echo USR1' USR1; echo READY; while :; do sleep 0.01; done");
        stage.ok(&["wait", &id, "--text", "READY"]);
        assert_eq!(
            stage.fails(&["resize", &id, "--cols", "0", "--rows", "5"]).1,
            "INVALID_DIMENSIONS"
        );
        assert_eq!(stage.fails(&["signal", &id, "SIGNAL"]), (2, "INVALID_SIGNAL".into()));
        assert_eq!(
            stage.ok(&["signal", &id, "SIGUSR1"]),
            json!({"signal": "SIGUSR1", "delivered": true})
        );
        stage.ok(&["wait", &id, "--text", "USR1"]);
        assert_eq!(
            stage.ok(&["resize", &id, "--cols", "91", "--rows", "33"]),
            json!({"cols": 91, "rows": 33})
        );
        assert_eq!(stage.manifest(&id)["cols"], 91);
        assert_eq!(stage.manifest(&id)["creationCols"], 80);
    }
}

#[test]
fn keys_are_all_checked_before_any_is_pressed() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.script("stty raw -echo; echo READY; head -c 7 | od -An -tx1; sleep 100");
        stage.ok(&["wait", &id, "--text", "READY"]);
        assert_eq!(stage.fails(&["send-keys", &id, "a", "NoSuchKey"]), (2, "INVALID_KEYS".into()));
        let sent = stage.ok(&["send-keys", &id, "Up", "Ctrl+C", "Enter", "Shift+Tab"]);
        assert_eq!(sent["accepted"], json!(["Up", "Ctrl+C", "Enter", "Shift+Tab"]));
        assert_eq!(sent["bytesWritten"], 8);
        stage.ok(&["wait", &id, "--text", "1b 5b 41 03 0d 1b 5b"]);
    }
}

#[test]
fn a_waited_run_ends_with_its_command_and_leaves_no_trace() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.shell();
        let run = stage.ok(&["run", &id, "echo one; sleep 0.05; echo two"]);
        assert_eq!(
            (&run["accepted"], &run["completed"], &run["timedOut"]),
            (&json!(true), &json!(true), &json!(false))
        );
        assert!(run["marker"].as_str().unwrap().starts_with("__AT_MARKER_"));
        assert!(run["durationMs"].as_u64().unwrap() >= 40);
        let shown = stage.screen(&id);
        assert_eq!(shown, "$ echo one; sleep 0.05; echo two\none\ntwo\n$");
        assert!(
            !std::fs::read_to_string(stage.directory(&id).join("events.jsonl"))
                .unwrap()
                .contains("printf")
        );
        let only = stage.ok(&["run", &id, "echo three", "--no-wait"]);
        assert_eq!(only.as_object().unwrap().len(), 2, "{only}");
        stage.ok(&["wait", &id, "--text", "three"]);
        assert_eq!(stage.fails(&["run", &id, "x", "--timeout", "0"]), (2, "INVALID_INPUT".into()));
        let over = stage.run(&["run", &id, "exit 5", "--json"]).result();
        assert_eq!((&over["completed"], &over["timedOut"]), (&json!(false), &json!(false)));
    }
}

#[test]
fn wait_families_may_not_be_mixed_and_every_flag_is_checked() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.shell();
        let wait = |args: &[&str]| stage.fails(&[&["wait", &id], args].concat());
        assert_eq!(wait(&["--exit", "--text", "x"]), (2, "INVALID_INPUT".into()));
        assert_eq!(wait(&[]), (2, "INVALID_DURATION".into()));
        assert_eq!(wait(&["--exit", "--idle-ms", "5"]), (2, "INVALID_DURATION".into()));
        assert_eq!(wait(&["--text", "x", "--regex", "y"]), (2, "INVALID_INPUT".into()));
        assert_eq!(wait(&["--regex", "("]), (2, "INVALID_INPUT".into()));
        assert_eq!(wait(&["--text", ""]), (2, "INVALID_INPUT".into()));
        assert_eq!(wait(&["--after-seq", "3"]), (2, "INVALID_INPUT".into()));
        let ran = stage.run(&["wait", &id, "--cursor-row", "-1", "--json"]).exits(2);
        assert_eq!(ran.message(), "--cursor-row must be a non-negative integer.");
    }
}

#[test]
fn conditions_on_the_screen_are_all_true_at_once() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.script("printf 'value=42\\nend'; sleep 100");
        let args = [
            "wait",
            &id,
            "--regex",
            "value=[0-9]+",
            "--cursor-row",
            "1",
            "--cursor-col",
            "3",
            "--screen-stable-ms",
            "50",
        ];
        let matched = stage.ok(&args);
        assert_eq!(matched["matchedText"], "value=42");
        assert_eq!((&matched["cursorRow"], &matched["cursorCol"]), (&json!(1), &json!(3)));
        assert_eq!(matched["screenHash"].as_str().unwrap().len(), 64);
        let seq = matched["capturedAtSeq"].to_string();
        let timed = stage.run(&[
            "wait",
            &id,
            "--text",
            "value",
            "--after-seq",
            &seq,
            "--timeout",
            "50",
            "--json",
        ]);
        assert_eq!(timed.code, 11, "nothing came after it");
        assert_eq!(timed.result()["timedOut"], true);
        assert_eq!(timed.result()["matched"], false);
    }
}

#[test]
fn silence_and_the_end_can_be_waited_for() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.script("for i in 1 2 3 4 5; do echo $i; sleep 0.03; done; read; exit 9");
        let begun = std::time::Instant::now();
        assert_eq!(stage.ok(&["wait", &id, "--idle-ms", "100"])["timedOut"], false);
        assert!(begun.elapsed().as_millis() >= 100);
        assert!(stage.screen(&id).contains('5'));
        assert_eq!(stage.run(&["wait", &id, "--exit", "--timeout", "50", "--json"]).code, 11);
        let waiting = stage
            .command()
            .args(["wait", &id, "--exit", "--json"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        stage.ok(&["type", &id, "\n"]);
        let output = waiting.wait_with_output().unwrap();
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["result"]["exitCode"], 9);
    }
}

#[test]
fn a_session_that_is_over_is_waited_for_on_its_last_screen() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.script("echo LAST");
        until("the end", || stage.manifest(&id)["status"] == "exited");
        assert_eq!(stage.ok(&["wait", &id, "--text", "LAST"])["matched"], true);
        assert_eq!(
            stage.ok(&["wait", &id, "--text", "LAST", "--screen-stable-ms", "5"])["matched"],
            false
        );
        assert_eq!(stage.fails(&["wait", &id, "--text", "OTHER"]), (10, "REPLAY_ERROR".into()));
    }
}

#[test]
fn snapshots_are_the_same_live_and_from_the_log() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.script("printf 'a\\n\\033[31mred\\033[m 日本\\n'; seq 40; printf end; read");
        stage.ok(&["wait", &id, "--text", "end"]);
        let args = ["snapshot", &id, "--include-scrollback", "--include-cells"];
        let live = stage.ok(&args);
        assert_eq!(live["isAltScreen"], false);
        assert_eq!(live["visibleLines"].as_array().unwrap().len(), 24);
        assert_eq!(live["scrollbackLines"][0], json!({"row": 0, "text": "a"}));
        let seq = &live["capturedAtSeq"];
        let kept = super::stage::read_json(
            &stage.directory(&id).join(format!("artifacts/snapshot-{seq}-structured.json")),
        );
        assert_eq!(kept, live, "exactly the result");
        stage.ok(&["type", &id, "\n"]);
        until("the end", || stage.manifest(&id)["status"] == "exited");
        let mut offline = stage.ok(&args);
        for frame in ["keyframe", "no-keyframe"] {
            if frame == "no-keyframe" {
                std::fs::remove_file(stage.directory(&id).join("keyframe")).unwrap();
                offline = stage.ok(&args);
            }
            assert_eq!(offline["scrollbackLines"][1], live["scrollbackLines"][1], "{frame}");
            assert_eq!(
                offline["cells"][0]["cells"], live["cells"][1]["cells"],
                "one line further, {frame}"
            );
        }
        assert_eq!(
            stage.fails(&["snapshot", &id, "--format", "yaml"]),
            (2, "INVALID_INPUT".into())
        );
        assert_eq!(stage.fails(&["snapshot", "a/b"]), (2, "INVALID_SESSION_ID".into()));
    }
}

#[test]
fn screenshots_are_the_same_to_the_byte() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.script("printf 'hello'; sleep 100");
        stage.ok(&["wait", &id, "--text", "hello"]);
        let one = stage.ok(&["screenshot", &id]);
        assert_eq!((&one["pixelWidth"], &one["pixelHeight"]), (&json!(640), &json!(384)));
        assert_eq!(one["cursorVisible"], false);
        assert_eq!(one["profileName"], "reference-dark");
        let two = stage.ok(&["screenshot", &id]);
        assert_eq!(one["sha256"], two["sha256"]);
        let light = stage.ok(&["screenshot", &id, "--profile", "reference-light", "--show-cursor"]);
        assert_ne!(one["sha256"], light["sha256"]);
        assert_ne!(one["renderProfileHash"], light["renderProfileHash"]);
        let png = std::fs::read(one["artifactPath"].as_str().unwrap()).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        let refused = |args: &[&str]| stage.fails(&[&["screenshot"], args].concat());
        assert_eq!(
            refused(&["NOPE", "--show-cursor", "--hide-cursor"]),
            (2, "INVALID_INPUT".into())
        );
        assert_eq!(refused(&[&id, "--profile", "nope"]), (2, "INVALID_INPUT".into()));
        assert_eq!(refused(&["NOPE"]), (3, "SESSION_NOT_FOUND".into()));
    }
}

#[test]
fn recordings_begin_with_the_size_at_the_start_and_are_the_same_again() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.script("printf one; read; printf two; read");
        stage.ok(&["wait", &id, "--text", "one"]);
        stage.ok(&["resize", &id, "--cols", "60", "--rows", "10"]);
        stage.ok(&["mark", &id, "chapter"]);
        stage.ok(&["type", &id, "\n"]);
        stage.ok(&["wait", &id, "--text", "two"]);
        stage.ok(&["destroy", &id]);
        let one = stage.ok(&["record", "export", &id, "--format", "asciicast"]);
        let first = std::fs::read_to_string(one["artifactPath"].as_str().unwrap()).unwrap();
        let header: serde_json::Value =
            serde_json::from_str(first.lines().next().unwrap()).unwrap();
        assert_eq!(
            (&header["version"], &header["width"], &header["height"]),
            (&json!(2), &json!(80), &json!(24))
        );
        assert_eq!(header["title"], id);
        assert!(first.contains("\"r\",\"60x10\"") || first.contains("\"r\", \"60x10\""), "{first}");
        assert!(first.contains("chapter"));
        assert_eq!(one["metadata"]["resizeEventCount"], 1);
        assert_eq!(one["metadata"]["markerCount"], 1);
        let out = stage.home.join("out.cast");
        let two = stage.ok(&[
            "record",
            "export",
            &id,
            "--format",
            "asciicast",
            "--out",
            out.to_str().unwrap(),
        ]);
        assert_eq!(one["sha256"], two["sha256"]);
        assert_eq!(std::fs::read_to_string(&out).unwrap(), first);
        assert_eq!(
            stage
                .fails(&["record", "export", &id, "--format", "asciicast", "--out", "/no/such/x"])
                .0,
            7
        );
    }
}

#[test]
fn a_batch_is_checked_as_a_whole_and_stops_at_the_first_failure() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.shell();
        let plan = r#"[{"type":"echo a"},{"sendKeys":["Enter"]},{"run":"true"},{"wait":{"text":"a"}},{"wait":{"text":"never","timeout":30}},{"run":"echo not reached"}]"#;
        let ran = stage.run(&["batch", &id, plan, "--json"]).exits(11);
        let result = ran.result();
        assert_eq!(result["completedCount"], 4);
        assert_eq!(result["failedIndices"], json!([4]));
        assert_eq!(result["steps"][2]["runOutcome"], "completed");
        assert_eq!(result["steps"][4]["error"]["code"], "WAIT_TIMEOUT");
        assert_eq!(result["steps"][5]["status"], "not-run");
        assert_eq!(result["steps"][3]["waitBaseline"], result["steps"][2]["seq"]);
        let on = stage.run(&["batch", &id, plan, "--keep-going", "--json"]).exits(1).result();
        assert_eq!(on["steps"][5]["status"], "completed");
        let inputs = || {
            let is_input =
                |event: &serde_json::Value| event["type"].as_str().unwrap().starts_with("input_");
            stage.events(&id).into_iter().filter(is_input).count()
        };
        let before = inputs();
        let bad = r#"[{"type":"x"},{"sendKeys":["NoSuchKey"]}]"#;
        let code = if name == Name::Ostler { "INVALID_INPUT" } else { "INVALID_KEYS" };
        assert_eq!(stage.fails(&["batch", &id, bad]), (2, code.into()));
        assert_eq!(inputs(), before, "nothing was sent");
    }
}

#[test]
fn inspect_tells_everything_live_and_afterwards() {
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.shell();
        stage.ok(&["snapshot", &id]);
        let live = stage.ok(&["inspect", &id]);
        assert_eq!(live["session"], stage.manifest(&id));
        assert_eq!(live["terminationCategory"], "running");
        assert_eq!(live["usedOfflineReplay"], false);
        assert_eq!(live["rendererRuntime"]["mode"], "live-host");
        assert_eq!(live["artifacts"]["health"], "healthy");
        assert_eq!(live["artifacts"]["byKind"], json!({"snapshot": 1}));
        assert!(live["host"]["rpcSocketPath"].is_string());
        stage.ok(&["destroy", &id]);
        let over = stage.ok(&["inspect", &id]);
        assert_eq!(over["terminationCategory"], "destroyed");
        // agent-tty says so only of a host that was asked and was not there.
        assert_eq!(over["usedOfflineReplay"], name == Name::Ostler);
        assert_eq!(over["rendererRuntime"]["reason"], "session-not-running");
        let events = stage.events(&id).len();
        assert_eq!(
            (&over["eventCount"], &over["lastEventSeq"]),
            (&json!(events), &json!(events - 1))
        );
    }
}

#[test]
fn the_host_speaks_one_line_each_way() {
    use std::io::{Read, Write};
    for name in BOTH {
        let stage = Stage::new(name);
        let id = stage.shell();
        let inspected = stage.ok(&["inspect", &id]);
        let socket = inspected["host"]["rpcSocketPath"].as_str().unwrap().to_owned();
        let ask = |request: &str| {
            let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            serde_json::from_str::<serde_json::Value>(&answer).unwrap()
        };
        let answer = ask("{\"id\":\"a\",\"method\":\"type\",\"params\":{\"text\":\"x\"}}\n");
        assert_eq!((&answer["id"], &answer["ok"]), (&json!("a"), &json!(true)));
        let answer = ask("{\"id\":\"b\",\"method\":\"nope\"}\n");
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("b"), &json!("RPC_ERROR")));
        let answer = ask("not json\n");
        assert_eq!((&answer["id"], &answer["ok"]), (&json!("unknown"), &json!(false)));
        let answer = ask(
            "{\"id\":\"c\",\"method\":\"waitForRender\",\"params\":{\"text\":\"x\",\"timeoutMs\":5000,\"rendererName\":\"ghostty-web\"}}\n",
        );
        assert_eq!(answer["result"]["matched"], true);
        // Their client refuses what it does not know.
        let keys = |answer: &serde_json::Value| -> Vec<String> {
            answer["result"].as_object().unwrap().keys().cloned().collect()
        };
        let late = ask(
            "{\"id\":\"d\",\"method\":\"waitForRender\",\"params\":{\"text\":\"never\",\"timeoutMs\":20}}\n",
        );
        assert_eq!(keys(&late), ["capturedAtSeq", "matched", "timedOut"]);
        let signalled =
            ask("{\"id\":\"e\",\"method\":\"signal\",\"params\":{\"signal\":\"SIGINT\"}}\n");
        assert_eq!(signalled["result"], json!({}));
        let inspected = ask("{\"id\":\"f\",\"method\":\"inspect\"}\n");
        assert_eq!(
            keys(&inspected),
            [
                "cliVersion",
                "rendererBackend",
                "rendererBootInFlight",
                "rendererBooted",
                "rpcSocketPath",
                "session"
            ]
        );
        let shown =
            ask("{\"id\":\"g\",\"method\":\"snapshot\",\"params\":{\"format\":\"text\"}}\n");
        let seq = shown["result"]["capturedAtSeq"].as_i64().unwrap();
        let kept = stage.directory(&id).join(format!("artifacts/snapshot-{seq}-text.json"));
        assert_eq!(super::stage::read_json(&kept), shown["result"], "the host keeps it");
        // A last line without an end, and one whose asker says no more, are answered too.
        let half_closed = |request: &str| {
            let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            serde_json::from_str::<serde_json::Value>(&answer).unwrap()
        };
        assert_eq!(half_closed("{\"id\":\"h\"")["error"]["code"], "RPC_ERROR");
        assert_eq!(half_closed("{\"id\":\"i\",\"method\":\"inspect\"}\n")["id"], "i");
    }
}

#[test]
fn an_idle_session_is_hung_up() {
    for name in BOTH {
        let stage = Stage::new(name);
        let args = ["--json", "create", "--idle-timeout-ms", "150", "--", "/bin/cat"];
        let id = stage.run(&args).exits(0).result()["sessionId"].as_str().unwrap().to_owned();
        until("the end", || stage.manifest(&id)["status"] == "exited");
        assert_eq!(stage.manifest(&id)["exitSignal"], "1");
        assert_eq!(stage.manifest(&id)["exitCode"], 0);
    }
}
