//! Where ostler does better than agent-tty: a row of the table, a test.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use super::stage::{Name, Stage, is_alive, until};

fn stage() -> Stage {
    Stage::new(Name::Ostler)
}

#[test]
fn what_is_shown_for_a_moment_is_not_missed() {
    let stage = stage();
    let id = stage.script("read; printf 'FLASH'; printf '\\033[2J\\033[Hgone'; sleep 100");
    let waiting = stage
        .command()
        .args(["wait", &id, "--text", "FLASH", "--timeout", "10000", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The wait must be there before the flash is.
    until("the waiter", || {
        !std::fs::read_to_string(format!("/proc/{}/wchan", waiting.id()))
            .unwrap_or_default()
            .is_empty()
    });
    std::thread::sleep(Duration::from_millis(50));
    stage.ok(&["type", &id, "\n"]);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn an_empty_screen_is_a_screen() {
    let stage = stage();
    let id = stage.script("sleep 0.3; echo READY; sleep 100");
    let empty = stage.ok(&["snapshot", &id]);
    assert_eq!(empty["capturedAtSeq"], -1);
    assert_eq!(stage.ok(&["wait", &id, "--text", "READY", "--timeout", "20000"])["matched"], true);
}

#[test]
fn a_run_gives_exit_code_and_output() {
    let stage = stage();
    let id = stage.shell();
    assert_eq!(stage.ok(&["run", &id, "(exit 42)"])["exitCode"], 42);
    let run = stage.ok(&["run", &id, "seq 3; printf 'no newline'", "--capture"]);
    assert_eq!((&run["exitCode"], &run["output"]), (&json!(0), &json!("1\n2\n3\nno newline")));
    assert_eq!(stage.run(&["run", &id, "echo plain", "--capture"]).exits(0).stdout, "plain\n");
    let shown = stage.screen(&id);
    assert!(shown.contains("no newline$"), "{shown}");
}

#[test]
fn runs_work_in_other_shells_too() {
    let stage = stage();
    for shell in ["/bin/sh", "/bin/dash"] {
        if !std::path::Path::new(shell).exists() {
            continue;
        }
        let id = stage.create(&[shell]);
        stage.ok(&["wait", &id, "--regex", "[$#]"]);
        let run = stage.ok(&["run", &id, "echo hi; (exit 3)", "--capture"]);
        assert_eq!((&run["exitCode"], &run["output"]), (&json!(3), &json!("hi\n")), "{shell}");
        assert!(!stage.screen(&id).contains("printf"), "{shell}: {}", stage.screen(&id));
    }
}

#[test]
fn a_timed_out_run_exits_with_11_and_its_end_is_still_hidden() {
    let stage = stage();
    let id = stage.shell();
    let run = stage.run(&["run", &id, "sleep 0.4", "--timeout", "50", "--json"]).exits(11).result();
    assert_eq!((&run["completed"], &run["timedOut"]), (&json!(false), &json!(true)));
    until("the prompt", || stage.screen(&id).lines().count() >= 2);
    assert_eq!(stage.screen(&id), "$ sleep 0.4\n$");
    assert_eq!(stage.run(&["run", &id, "exit", "--json"]).code, 4);
}

#[test]
fn bytes_that_are_no_text_are_kept() {
    let stage = stage();
    let id = stage.script("printf '\\377\\000\\200x'; printf '\\303'; sleep 0.05; printf '\\251'; sleep 0.1; echo END");
    until("the end", || stage.manifest(&id)["status"] == "exited");
    let mut all = Vec::new();
    for event in stage.events(&id) {
        if event["type"] == "output" {
            let payload = &event["payload"];
            match payload.get("raw") {
                Some(raw) => all.extend(decode(raw.as_str().unwrap())),
                None => all.extend(payload["data"].as_str().unwrap().as_bytes()),
            }
        }
    }
    assert_eq!(all, b"\xff\x00\x80x\xc3\xa9END\r\n");
    let text = std::fs::read_to_string(stage.directory(&id).join("events.jsonl")).unwrap();
    assert!(text.contains("é"), "a character that was cut in two is one: {text}");
}

fn decode(text: &str) -> Vec<u8> {
    let output = std::process::Command::new("sh")
        .args(["-c", "printf %s \"$1\" | base64 -d", "sh", text])
        .output()
        .unwrap();
    output.stdout
}

#[test]
fn a_program_that_ignores_every_request_is_ended() {
    let stage = stage();
    let id = stage.script("trap '' HUP TERM INT; echo READY; while :; do sleep 1; done");
    stage.ok(&["wait", &id, "--text", "READY"]);
    let child = stage.pid(&id, "childPid");
    let begun = Instant::now();
    stage.ok(&["destroy", &id]);
    assert!(begun.elapsed() < Duration::from_secs(8));
    assert!(!is_alive(child));
    assert_eq!(
        (&stage.manifest(&id)["status"], &stage.manifest(&id)["exitSignal"]),
        (&json!("destroyed"), &json!("9"))
    );
}

#[test]
fn force_is_immediate_and_ends_as_destroyed() {
    let stage = stage();
    let id = stage.script("trap '' HUP TERM; echo READY; while :; do sleep 1; done");
    stage.ok(&["wait", &id, "--text", "READY"]);
    let begun = Instant::now();
    stage.ok(&["destroy", &id, "--force"]);
    assert!(begun.elapsed() < Duration::from_millis(1000), "{:?}", begun.elapsed());
    assert_eq!(stage.manifest(&id)["status"], "destroyed");
}

#[test]
fn a_signal_can_reach_the_whole_group() {
    let stage = stage();
    let id = stage.script("(trap 'echo CHILD' USR1; while :; do sleep 0.01; done) & trap 'echo PARENT' USR1; echo READY; while :; do sleep 0.01; done");
    stage.ok(&["wait", &id, "--text", "READY"]);
    std::thread::sleep(Duration::from_millis(50));
    stage.ok(&["signal", &id, "SIGUSR1", "--group"]);
    stage.ok(&["wait", &id, "--regex", "(?s)(CHILD.*PARENT|PARENT.*CHILD)", "--timeout", "5000"]);
}

#[test]
fn keys_follow_what_the_program_asked_for() {
    let stage = stage();
    let id =
        stage.script("stty raw -echo; printf '\\033[?1hREADY'; head -c 6 | od -An -tx1; sleep 100");
    stage.ok(&["wait", &id, "--text", "READY"]);
    stage.ok(&["send-keys", &id, "Up", "C-c", "é"]);
    stage.ok(&["wait", &id, "--text", "1b 4f 41 03 c3 a9"]);
}

#[test]
fn a_terminals_questions_are_answered() {
    let stage = stage();
    for (question, answer) in [
        ("\\033[c", "1b 5b 3f"),
        ("\\033[6n", "1b 5b 31 3b 31 52"),
        ("\\033[>q", "1b 50 3e 7c"),
        ("\\033]11;?\\007", "1b 5d 31 31 3b 72 67 62"),
    ] {
        let script =
            format!("stty raw -echo; printf '{question}'; head -c 4 | od -An -tx1 -v; sleep 100");
        let id = stage.script(&script);
        let expected: String = answer.chars().take(11).collect();
        let matched =
            stage.run(&["wait", &id, "--text", expected.trim_end(), "--timeout", "5000", "--json"]);
        assert_eq!(matched.code, 0, "{question}: {matched:?}");
        stage.ok(&["destroy", &id, "--force"]);
    }
}

#[test]
fn scrollback_is_as_long_as_was_asked() {
    let stage = stage();
    let id = stage.script("seq 20000; echo END; read");
    stage.ok(&["wait", &id, "--text", "END"]);
    let shown = stage.ok(&["snapshot", &id, "--include-scrollback"]);
    assert_eq!(shown["scrollbackLines"].as_array().unwrap().len(), 10_000);
}

#[test]
fn a_wait_in_vain_shows_the_screen() {
    let stage = stage();
    let id = stage.script("echo something else; sleep 100");
    stage.ok(&["wait", &id, "--text", "else"]);
    let ran = stage
        .run(&["wait", &id, "--text", "never", "--timeout", "50", "--json"])
        .exits(11)
        .result();
    assert!(ran["condition"].as_str().unwrap().contains("never"));
    assert!(ran["screen"].as_str().unwrap().contains("something else"));
}

#[test]
fn a_paste_has_brackets_only_where_they_were_asked_for() {
    let stage = stage();
    for (ask, bytes) in [("", "78 79"), ("\\033[?2004h", "1b 5b 32 30 30 7e 78 79")] {
        let script = format!(
            "stty raw -echo; printf '{ask}READY'; head -c {} | od -An -tx1; sleep 100",
            bytes.split(' ').count()
        );
        let id = stage.script(&script);
        stage.ok(&["wait", &id, "--text", "READY"]);
        stage.ok(&["paste", &id, "xy"]);
        stage.ok(&["wait", &id, "--text", bytes]);
    }
}

#[test]
fn text_that_goes_and_any_change_can_be_waited_for() {
    let stage = stage();
    let id = stage.script("echo BUSY; read; printf '\\033[2J\\033[H'; read; echo more; sleep 100");
    stage.ok(&["wait", &id, "--text", "BUSY"]);
    let hash = stage.ok(&["snapshot", &id])["screenHash"].as_str().unwrap().to_owned();
    assert_eq!(stage.run(&["wait", &id, "--gone", "BUSY", "--timeout", "50"]).code, 11);
    stage.ok(&["type", &id, "\n"]);
    stage.ok(&["wait", &id, "--gone", "BUSY"]);
    assert_eq!(stage.ok(&["wait", &id, "--changed", "--since-hash", &hash])["matched"], true);
    assert_eq!(stage.run(&["wait", &id, "--changed", "--timeout", "50"]).code, 11);
}

#[test]
fn sockets_are_private_and_in_the_runtime_directory() {
    use std::os::unix::fs::PermissionsExt;
    let stage = stage();
    let id = stage.create(&["/bin/cat"]);
    let inspected = stage.ok(&["inspect", &id]);
    let socket = std::path::PathBuf::from(inspected["host"]["rpcSocketPath"].as_str().unwrap());
    assert!(socket.starts_with(stage.home.join("run/ostler")));
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    // A directory that others may use is not trusted, even with a host in it.
    std::fs::set_permissions(socket.parent().unwrap(), PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(stage.fails(&["type", &id, "x"]), (6, "HOST_UNREACHABLE".into()));
    std::fs::set_permissions(socket.parent().unwrap(), PermissionsExt::from_mode(0o700)).unwrap();
    stage.ok(&["destroy", &id]);
    until("the socket's end", || !socket.exists());
    until("the end of its directory (M9)", || !socket.parent().unwrap().exists());
}

#[test]
fn usage_errors_are_enveloped() {
    let stage = stage();
    assert_eq!(stage.fails(&["create", "--nope"]), (2, "INVALID_INPUT".into()));
    assert_eq!(stage.fails(&["wait"]), (2, "INVALID_INPUT".into()));
}

#[test]
fn ids_may_be_shortened_and_names_used() {
    let stage = stage();
    let made = stage.run(&["--json", "create", "--name", "work", "--", "/bin/cat"]).result();
    let id = made["sessionId"].as_str().unwrap().to_owned();
    for text in ["work", &id[..12], &id[..12].to_lowercase(), "-", "."] {
        assert_eq!(stage.ok(&["inspect", text])["session"]["sessionId"], id, "{text}");
    }
    stage.create(&["/bin/cat"]);
    let (code, error) = stage.fails(&["inspect", "01"]);
    assert_eq!((code, error.as_str()), (2, "AMBIGUOUS_ID"));
}

#[test]
fn standard_input_is_a_source() {
    let stage = stage();
    let id = stage.create(&["/bin/cat"]);
    let mut typing = stage
        .command()
        .args(["type", &id, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    typing.stdin.take().unwrap().write_all(b"from a pipe\n").unwrap();
    assert!(typing.wait().unwrap().success());
    stage.ok(&["wait", &id, "--text", "from a pipe"]);
}

#[test]
fn markers_of_other_sessions_stay_out_and_its_own_is_there() {
    let stage = stage();
    let mut command = stage.command();
    command
        .env("TMUX", "/tmp/x")
        .env("OSTLER_SESSION", "other")
        .env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_SESSION_ID", "x");
    command.args(["--json", "create", "--", "/bin/bash", "-c", "env | sort; echo END; sleep 100"]);
    let id =
        super::stage::ran(&mut command).exits(0).result()["sessionId"].as_str().unwrap().to_owned();
    stage.ok(&["wait", &id, "--text", "END"]);
    let shown = stage.screen(&id);
    assert!(shown.contains(&format!("OSTLER_SESSION={id}")));
    assert!(!shown.contains("TMUX") && !shown.contains("CLAUDE"), "{shown}");
}

#[test]
fn terminals_are_among_all_sessions() {
    let stage = stage();
    let id = stage
        .run(&["--json", "create", "--name", "work", "--", "/bin/bash", "--norc"])
        .result()["sessionId"]
        .as_str()
        .unwrap()
        .to_owned();
    let session = stage.ok(&["ls"])["sessions"][0].clone();
    assert_eq!(
        (&session["id"], &session["kind"], &session["agent"]),
        (&json!(id), &json!("hosted"), &json!("terminal"))
    );
    assert_eq!(
        (&session["status"], &session["liveness"]["source"]),
        (&json!("running"), &json!("host"))
    );
    assert_eq!(session["owner"]["pid"], stage.pid(&id, "hostPid"));
    assert_eq!(stage.ok(&["show", "work"])["session"]["id"], id);
    stage.ok(&["run", &id, "echo told"]);
    let told = stage.ok(&["logs", &id]);
    let texts: Vec<&str> =
        told["entries"].as_array().unwrap().iter().map(|e| e["text"].as_str().unwrap()).collect();
    assert!(
        texts.contains(&"echo told") && texts.iter().any(|text| text.contains("told\n")),
        "{texts:?}"
    );
    stage.ok(&["destroy", &id]);
    assert_eq!(stage.ok(&["ls"])["sessions"], json!([]));
    let all = stage.ok(&["ls", "-a"]);
    assert_eq!(all["sessions"][0]["status"], "destroyed");
    until("the host's end", || stage.ok(&["why", &id])["collect"]["allowed"] == true);
    let used = stage.ok(&["du"]);
    assert_eq!(
        (&used["agents"][0]["agent"], &used["agents"][0]["sessions"]),
        (&json!("terminal"), &json!(1))
    );
}

#[test]
fn verify_shows_a_log_that_was_changed() {
    let stage = stage();
    let id = stage.script("echo the truth");
    until("the host's end", || {
        stage.manifest(&id)["status"] == "exited" && !is_alive(stage.pid(&id, "hostPid"))
    });
    assert_eq!(stage.ok(&["verify", &id])["chainHolds"], true);
    let log = stage.directory(&id).join("events.jsonl");
    let text = std::fs::read_to_string(&log).unwrap().replace("truth", "other");
    std::fs::write(&log, text).unwrap();
    let result = stage.run(&["verify", &id, "--json"]).exits(10).result();
    assert_eq!((&result["sound"], &result["chainHolds"]), (&json!(false), &json!(false)));
}

#[test]
fn every_export_is_made() {
    let stage = stage();
    let id = stage.script("printf 'hello <b>\\n'; sleep 0.01; echo bye");
    until("the end", || stage.manifest(&id)["status"] == "exited");
    for (format, begins) in [
        ("asciicast", "{\"version\":2"),
        ("cast-v3", "{\"version\":3"),
        ("txt", "hello <b>\nbye"),
        ("html", "<!doctype html>"),
    ] {
        let made = stage.ok(&["record", "export", &id, "--format", format]);
        let text = std::fs::read_to_string(made["artifactPath"].as_str().unwrap()).unwrap();
        assert!(text.starts_with(begins), "{format}: {}", &text[..text.len().min(200)]);
    }
}

#[test]
fn f6_2_2_runs_in_fish_end_and_leave_the_session_usable() {
    let fish = "/usr/bin/fish";
    if !std::path::Path::new(fish).exists() {
        return;
    }
    let stage = stage();
    let id = stage.create(&[fish, "--no-config"]);
    stage.ok(&["wait", &id, "--regex", "[#>]", "--timeout", "20000"]);
    for (line, code) in [("sh -c 'exit 3'", 3), ("echo hi", 0)] {
        let run = stage.ok(&["run", &id, line, "--timeout", "20000"]);
        assert_eq!((&run["completed"], &run["exitCode"]), (&json!(true), &json!(code)), "{line}");
    }
    assert!(stage.screen(&id).lines().any(|row| row.trim() == "hi"), "{}", stage.screen(&id));
}

#[test]
fn a_recording_is_what_the_ending_of_its_file_says() {
    let stage = stage();
    let id = stage.create(&["/bin/echo", "hello"]);
    stage.ok(&["wait", &id, "--exit"]);
    let (page, other) = (stage.home.join("x.html"), stage.home.join("x.anything"));
    let export =
        |path: &std::path::Path| stage.ok(&["record", "export", &id, "-o", path.to_str().unwrap()]);
    assert_eq!(export(&page)["format"], "html");
    assert_eq!(export(&other)["format"], "asciicast");
    assert_eq!(stage.ok(&["record", "export", &id])["format"], "asciicast");
    assert!(std::fs::read_to_string(page).unwrap().contains("hello"));
}

#[test]
fn every_answer_fits_its_schema() {
    let stage = stage();
    let id = stage.shell();
    let schemas: serde_json::Value =
        serde_json::from_str(&stage.run(&["schema"]).exits(0).stdout).unwrap();
    let fits = |name: &str, args: &[&str]| {
        let answer = stage.run(&[args, &["--json"]].concat()).envelope();
        let validator = jsonschema::validator_for(&schemas[name]).unwrap();
        let errors: Vec<String> = validator.iter_errors(&answer).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{args:?}: {errors:#?} in {answer:#}");
    };
    fits("create", &["create", "--env", "A=b", "--name", "other"]);
    fits("run", &["run", &id, "seq 3", "--capture"]);
    fits("run", &["run", &id, "true", "--no-wait"]);
    fits("type", &["type", &id, "x"]);
    fits("paste", &["paste", &id, "x"]);
    fits("mark", &["mark", &id, "x"]);
    fits("send-keys", &["send-keys", &id, "C-c"]);
    fits("batch", &["batch", &id, "[{\"run\":\"true\"},{\"wait\":{\"text\":\"$\"}}]"]);
    fits("wait", &["wait", &id, "--text", "$"]);
    fits("wait", &["wait", &id, "--text", "never", "--timeout", "1"]);
    fits("snapshot", &["snapshot", &id, "--include-cells", "--include-scrollback"]);
    fits("snapshot", &["snapshot", &id, "--format", "text"]);
    fits("screenshot", &["screenshot", &id]);
    fits("record export", &["record", "export", &id, "--format", "txt"]);
    fits("inspect", &["inspect", &id]);
    fits("resize", &["resize", &id, "--cols", "70", "--rows", "20"]);
    fits("signal", &["signal", &id, "SIGINT"]);
    fits("verify", &["verify", &id]);
    fits("destroy", &["destroy", &id]);
    fits("inspect", &["inspect", &id]);
    fits("error", &["type", &id, "x"]);
    fits("skills list", &["skills", "list"]);
    fits("skills get", &["skills", "get", "ostler"]);
    fits("skills path", &["skills", "path", "ostler"]);
}

#[test]
fn a_size_that_no_screen_can_have_is_the_nearest_that_one_can() {
    let stage = stage();
    let created = stage.ok(&["create", "--cols", "65535", "--rows", "65535"]);
    let id = created["sessionId"].as_str().unwrap();
    assert_eq!((&created["cols"], &created["rows"]), (&65535.into(), &16.into()));
    stage.ok(&["type", id, "stty size\n"]);
    stage.ok(&["wait", id, "--text", "16 65535"]);
    let resized = stage.ok(&["resize", id, "--cols", "2048", "--rows", "65535"]);
    assert_eq!((&resized["cols"], &resized["rows"]), (&2048.into(), &512.into()));
    stage.ok(&["type", id, "stty size\n"]);
    stage.ok(&["wait", id, "--text", "512 2048"]);
    let manifest = super::stage::read_json(&stage.directory(id).join("session.json"));
    assert_eq!((&manifest["cols"], &manifest["rows"]), (&2048.into(), &512.into()));
}

#[test]
fn the_artifact_list_names_each_file_once() {
    let stage = stage();
    let id = stage.script("echo one; read; echo two; sleep 100");
    stage.ok(&["wait", &id, "--text", "one"]);
    let listed = || {
        super::stage::read_json(&stage.directory(&id).join("artifacts/manifest.json"))["artifacts"]
            .as_array()
            .unwrap()
            .len()
    };
    stage.ok(&["snapshot", &id]);
    stage.ok(&["snapshot", &id]);
    assert_eq!(listed(), 1);
    stage.ok(&["snapshot", &id, "--include-cells"]);
    assert_eq!(listed(), 1, "the same file, replaced");
    stage.ok(&["type", &id, "\n"]);
    stage.ok(&["wait", &id, "--text", "two"]);
    stage.ok(&["snapshot", &id]);
    assert_eq!(listed(), 2);
    assert_eq!(stage.ok(&["inspect", &id])["artifacts"]["health"], "healthy");
}

#[test]
fn p10_a_program_that_a_signal_ended_is_said_to_be() {
    for name in [Name::Ostler, Name::AgentTty] {
        let stage = Stage::new(name);
        let id = stage.script("kill -9 $$");
        let ended = stage.ok(&["wait", &id, "--exit"]);
        assert_eq!(ended["exitCode"], 0, "agent-tty's number of it");
        match name {
            Name::Ostler => {
                assert_eq!(ended["exitSignal"], "9");
                let said = stage.run(&["wait", &id, "--exit"]).exits(0).stdout;
                assert_eq!(said, "Session was ended by signal 9.\n");
            }
            Name::AgentTty => assert!(ended.get("exitSignal").is_none(), "{ended}"),
        }
    }
}

#[test]
fn p10_a_wait_on_a_session_that_is_over_blames_no_log() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.create(&["/bin/cat"]);
    stage.ok(&["destroy", &id]);
    let ran = stage.run(&["wait", &id, "--text", "x"]);
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("ostler snapshot") && !ran.stderr.contains("verify"), "{ran:?}");
}

#[test]
fn every_signal_is_taken_by_name_and_number() {
    let stage = stage();
    let id = stage.script("trap 'echo got quit' QUIT; trap 'echo got winch' WINCH; echo up; while :; do sleep 0.05; done");
    stage.ok(&["wait", &id, "--text", "up", "--timeout", "20000"]);
    assert_eq!(stage.ok(&["signal", &id, "3"])["signal"], "SIGQUIT");
    stage.ok(&["wait", &id, "--text", "got quit", "--timeout", "20000"]);
    assert_eq!(stage.ok(&["signal", &id, "winch"])["signal"], "SIGWINCH");
    stage.ok(&["wait", &id, "--text", "got winch", "--timeout", "20000"]);
    for signal in ["STOP", "SIGCONT"] {
        stage.ok(&["signal", &id, signal]);
    }
    assert_eq!(stage.fails(&["signal", &id, "64"]), (2, "INVALID_SIGNAL".to_owned()));
}
