//! Opening, lending, using, binding and ending: with the real OpenSSH.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::access::{Sessions, chmod, make_key, record_of, ssh_add, wait_until};

use super::super::run::ran;
use super::{ostler, run};

/// Opens a session and returns what `--json` says.
#[track_caller]
fn open(sessions: &Sessions, line: &str) -> Value {
    run(sessions, &format!("open --json --ttl 5m {line}")).exits(0).result()
}

fn id_of(opened: &Value) -> String {
    opened["id"].as_str().unwrap().to_owned()
}

fn socket_of(opened: &Value) -> PathBuf {
    opened["environment"]["sshAuthSock"].as_str().unwrap().into()
}

fn is_there(pid: &Value) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Ends every session of a test, so that none outlives it.
fn end_all(sessions: &Sessions) {
    for entry in fs::read_dir(sessions.directory()).unwrap() {
        let id = entry.unwrap().file_name().into_string().unwrap();
        run(sessions, &format!("stop {id}"));
    }
}

#[test]
fn what_is_opened_keeps_every_rule() {
    let sessions = Sessions::new();
    let key = make_key(sessions.home.path(), "anna@example.org");
    let opened = open(&sessions, &format!("--label deploy --key {}", key.display()));
    let id = id_of(&opened);
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&sessions.of(&id)), 0o700);
    for name in ["meta.json", "agent.env", "agent.sock", "keys.sock"] {
        assert_eq!(mode(&sessions.file(&id, name)), 0o600, "{name}");
    }
    let meta = sessions.meta(&id);
    let seen = record_of(u32::try_from(meta["agent"]["pid"].as_u64().unwrap()).unwrap());
    for field in ["pid", "start", "boot", "pid_ns", "time_ns", "uid", "comm"] {
        assert_eq!(meta["agent"][field], seen[field], "{field}");
    }
    let one = run(&sessions, &format!("show {id} --probe --json")).exits(0).result();
    assert_eq!(one["session"]["state"], "active");
    assert_eq!(one["session"]["agent"]["presence"], "present");
    assert_eq!(one["session"]["keys"][0]["comment"], "anna@example.org");
    assert_eq!(one["session"]["readOnly"], true);
    assert!(run(&sessions, "prune").exits(0).stdout.starts_with("SKIP_ACTIVE"));
    end_all(&sessions);
    assert!(run(&sessions, "prune").exits(0).stdout.starts_with(&format!("PRUNED {id} stopped")));
}

#[test]
fn the_environment_can_be_evaluated() {
    let sessions = Sessions::new();
    let printed = run(&sessions, "open --ttl 5m --generate").exits(0).stdout;
    let script = format!("{printed}ssh-add -l; echo $SSH_AGENT_PID");
    let shell = Command::new("sh").args(["-ec", &script]).output().unwrap();
    let out = String::from_utf8(shell.stdout).unwrap();
    assert!(shell.status.success() && out.contains("(ED25519)"), "{out}");
    let id = sessions.directory().read_dir().unwrap().next().unwrap().unwrap().file_name();
    let again = run(&sessions, &format!("env {}", id.to_str().unwrap())).exits(0).stdout;
    assert_eq!(again, printed, "a shell that comes back finds the same socket");
    end_all(&sessions);
    run(&sessions, &format!("env {}", id.to_str().unwrap())).exits(4);
    run(&sessions, &format!("exec {} -- true", id.to_str().unwrap())).exits(4);
}

#[test]
fn a_read_only_session_takes_no_keys_and_an_empty_one_does() {
    let sessions = Sessions::new();
    let key = make_key(sessions.home.path(), "mine");
    let key = key.to_str().unwrap();
    let closed = open(&sessions, "--generate");
    assert_eq!(ssh_add(&socket_of(&closed), &["-q", key]), Some(1));
    assert_ne!(ssh_add(&socket_of(&closed), &["-x"]), Some(0), "nor can it be locked");
    assert_eq!(ssh_add(&socket_of(&closed), &["-l"]), Some(0), "it works all the same");
    let log = run(&sessions, &format!("log {}", id_of(&closed))).exits(0).stdout;
    assert!(log.contains("refused to add a key by ssh-add (pid "), "{log}");
    for line in ["", "--generate --allow-add"] {
        let opened = open(&sessions, line);
        assert_eq!(ssh_add(&socket_of(&opened), &["-q", key]), Some(0), "{line}");
    }
    // What others borrow too is not the borrower's to take away.
    assert_eq!(ssh_add(&socket_of(&closed), &["-q", "-D"]), Some(1));
    assert_eq!(ssh_add(&socket_of(&closed), &["-l"]), Some(0));
    end_all(&sessions);
}

#[test]
fn a_signature_is_logged_with_who_asked_and_what_came_of_it() {
    let sessions = Sessions::new();
    let key = make_key(sessions.home.path(), "signer");
    let yes = sessions.home.write("yes", "");
    let ask = sessions.home.write("ask", format!("#!/bin/sh\ntest -e {}\n", yes.display()));
    chmod(&ask, 0o700);
    let mut command = ostler(&sessions);
    command.args(["access", "open", "--json", "--ttl", "5m", "--confirm", "--key"]).arg(&key);
    command.env("SSH_ASKPASS", &ask).env("SSH_ASKPASS_REQUIRE", "force").env("DISPLAY", ":7");
    let opened = ran(&mut command).exits(0).result();
    let id = id_of(&opened);
    fs::remove_file(&key).unwrap();
    let public = key.with_extension("pub");
    let sign = || {
        let mut child = Command::new("ssh-keygen")
            .args(["-Y", "sign", "-n", "test", "-f"])
            .arg(&public)
            .env("SSH_AUTH_SOCK", socket_of(&opened))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"text").unwrap();
        (child.id(), child.wait().unwrap().success())
    };
    let granted = sign();
    fs::remove_file(&yes).unwrap();
    let refused = sign();
    assert_eq!((granted.1, refused.1), (true, false), "the person was asked");
    let log = run(&sessions, &format!("log {id} --json")).exits(0).result();
    let entries = log["entries"].as_array().unwrap();
    let signs: Vec<&Value> = entries.iter().filter(|entry| entry["event"] == "sign").collect();
    assert_eq!(signs.len(), 2, "{log}");
    for (entry, (pid, granted)) in signs.iter().zip([granted, refused]) {
        assert_eq!(entry["granted"], granted);
        assert_eq!(entry["peer"]["pid"], pid);
        assert_eq!(entry["peer"]["comm"], "ssh-keygen");
        assert!(entry["peer"]["start"].as_u64().is_some(), "{entry}");
        assert_eq!(entry["fingerprint"], opened["keys"][0]["fingerprint"]);
    }
    end_all(&sessions);
}

#[test]
fn a_session_for_a_command_ends_with_it() {
    let sessions = Sessions::new();
    let mut command = ostler(&sessions);
    command.args(["access", "open", "--generate", "--", "sh", "-c", "ssh-add -l; exit 7"]);
    let ran = ran(&mut command).exits(7);
    assert!(ran.stdout.contains("(ED25519)"), "{ran:?}");
    let name = sessions.directory().read_dir().unwrap().next().unwrap().unwrap().file_name();
    let id = name.to_str().unwrap();
    wait_until("the session is stopped", || sessions.file(id, "stop.json").exists());
    assert!(!is_there(&sessions.meta(id)["agent"]["pid"]));
    wait_until("the log says so", || {
        run(&sessions, &format!("log {id}")).stdout.contains("stopped (command-ended)")
    });
}

#[test]
fn a_session_for_a_command_that_is_killed_ends_too() {
    let sessions = Sessions::new();
    let mut command = ostler(&sessions);
    command.args(["access", "open", "--generate", "--", "sleep", "600"]);
    let mut child = command.spawn().unwrap();
    let open = || {
        let name = sessions.directory().read_dir().unwrap().next()?.unwrap().file_name();
        let id = name.into_string().ok()?;
        let comm = fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
        (sessions.file(&id, "meta.json").exists() && comm.trim() == "sleep").then_some(id)
    };
    wait_until("it has become the command", || open().is_some());
    let id = open().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the session is stopped", || sessions.file(&id, "stop.json").exists());
    assert!(!is_there(&sessions.meta(&id)["agent"]["pid"]));
}

#[test]
fn a_command_that_cannot_start_leaves_nothing_open() {
    let sessions = Sessions::new();
    let ran = run(&sessions, "open --generate -- /no/such/program").exits(2);
    assert!(ran.stderr.contains("/no/such/program"), "{ran:?}");
    let pruned = run(&sessions, "prune").exits(0);
    assert!(pruned.stdout.ends_with("1 pruned, 0 skipped\n"), "{pruned:?}");
}

/// A process that Claude Code would have registered for a session.
fn agent_session(sessions: &Sessions, id: &str) -> Child {
    let child = Command::new("sleep").arg("600").spawn().unwrap();
    let record = record_of(child.id());
    let registration = serde_json::json!({
        "pid": child.id(), "sessionId": id, "cwd": sessions.home.path(),
        "startedAt": testkit::access::now_s() * 1000, "procStart": record["start"].to_string(),
        "version": "2.1.325", "kind": "interactive", "entrypoint": "cli",
    });
    sessions.home.write(format!(".claude/sessions/{}.json", child.id()), registration.to_string());
    child
}

#[test]
fn an_access_ends_with_the_session_it_is_lent_to() {
    let sessions = Sessions::new();
    let session = "abcd1234-0000-4000-8000-000000000000";
    let mut agent = agent_session(&sessions, session);
    let opened = open(&sessions, "--generate --session abcd1234");
    let id = id_of(&opened);
    let binding = sessions.meta(&id)["session"].clone();
    assert_eq!((&binding["id"], &binding["owner"]["pid"]), (&session.into(), &agent.id().into()));
    run(&sessions, "stop --orphaned").exits(0);
    assert!(!sessions.file(&id, "stop.json").exists(), "while it lives nothing is orphaned");
    let shown = run(&sessions, &format!("show {id} --json")).result();
    assert_eq!(shown["session"]["session"]["owner"], "alive");
    agent.kill().unwrap();
    agent.wait().unwrap();
    wait_until("the access is stopped", || sessions.file(&id, "stop.json").exists());
    wait_until("the log says why", || {
        run(&sessions, &format!("log {id}")).stdout.contains("stopped (orphaned)")
    });
    let refused = run(&sessions, "open --generate --session abcd1234").exits(13);
    assert!(refused.stderr.contains("not proven to be alive"), "{refused:?}");
}

#[test]
fn an_access_lent_to_a_hosted_terminal_lives_and_ends_with_it() {
    let sessions = Sessions::new();
    let runtime = sessions.home.join("run");
    fs::create_dir(&runtime).unwrap();
    chmod(&runtime, 0o700);
    let terminal = |line: &str| {
        let mut command = ostler(&sessions);
        ran(command.env("XDG_RUNTIME_DIR", &runtime).args(line.split_whitespace())).exits(0)
    };
    // It would end by itself, should this test not get that far.
    let hosted = terminal("create --json -- /bin/sleep 120").result();
    let hosted = hosted["sessionId"].as_str().unwrap();
    let host = terminal(&format!("inspect {hosted} --json")).result()["session"]["hostPid"].clone();
    let opened = open(&sessions, &format!("--generate --session {hosted}"));
    let id = id_of(&opened);
    let binding = sessions.meta(&id)["session"].clone();
    assert_eq!((&binding["agent"], &binding["id"]), (&"terminal".into(), &hosted.into()));
    assert_eq!(binding["owner"]["pid"], host, "the host lives exactly as long as the terminal");
    run(&sessions, "stop --orphaned").exits(0);
    assert!(!sessions.file(&id, "stop.json").exists(), "while it lives nothing is orphaned");
    assert_eq!(ssh_add(&socket_of(&opened), &["-l"]), Some(0));
    terminal(&format!("destroy {hosted}"));
    wait_until("the access is stopped", || sessions.file(&id, "stop.json").exists());
    wait_until("the log says why", || {
        run(&sessions, &format!("log {id}")).stdout.contains("stopped (orphaned)")
    });
    assert_eq!(ssh_add(&socket_of(&opened), &["-l"]), Some(2), "nobody is there any more");
    let refused = run(&sessions, &format!("open --generate --session {hosted}")).exits(13);
    assert!(refused.stderr.contains("not proven to be alive"), "{refused:?}");
}

#[test]
fn a_keeper_that_is_killed_leaves_an_agent_that_can_be_stopped() {
    let sessions = Sessions::new();
    let opened = open(&sessions, "--generate");
    let id = id_of(&opened);
    let meta = sessions.meta(&id);
    let keeper = meta["keeper"]["pid"].to_string();
    assert!(Command::new("kill").args(["-KILL", &keeper]).status().unwrap().success());
    let socket = socket_of(&opened);
    wait_until("the keeper is gone", || {
        !is_there(&meta["keeper"]["pid"]) && UnixStream::connect(&socket).is_err()
    });
    assert!(is_there(&meta["agent"]["pid"]), "the agent is still recorded and still there");
    let ran = run(&sessions, &format!("env {id}")).exits(4);
    assert!(ran.stderr.contains("nobody serves its socket"), "{ran:?}");
    let shown = run(&sessions, &format!("show {id} --json")).exits(0).result();
    assert_eq!(shown["session"]["keeper"], "dead");
    run(&sessions, &format!("stop {id}")).exits(0);
    assert!(!is_there(&meta["agent"]["pid"]));
    for name in ["agent.sock", "keys.sock"] {
        assert!(!sessions.file(&id, name).exists(), "{name}");
    }
    assert!(run(&sessions, "prune").exits(0).stdout.starts_with("PRUNED"));
}

#[test]
fn a_keeper_ends_its_agent_when_the_time_is_over() {
    let sessions = Sessions::new();
    let id = "s-alpha01";
    fs::create_dir(sessions.of(id)).unwrap();
    chmod(&sessions.of(id), 0o700);
    let mut keeper = ostler(&sessions)
        .args(["__access-keeper"])
        .arg(sessions.root())
        .args([id, "1", "open", "strict"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let agent: Value = ready.split(' ').nth(1).unwrap().parse::<u32>().unwrap().into();
    assert!(is_there(&agent));
    let mut control = keeper.stdin.take().unwrap();
    control.write_all(b"commit\n").unwrap();
    wait_until("the agent ends", || !is_there(&agent));
    assert!(keeper.wait().unwrap().success());
    assert!(!sessions.file(id, "agent.sock").exists());
    let log = run(&sessions, &format!("log {id}")).exits(0).stdout;
    assert!(log.contains("expired\n") && log.contains("agent ended\n"), "{log}");
}

#[test]
fn a_keeper_does_nothing_while_nobody_asks() {
    let sessions = Sessions::new();
    let opened = open(&sessions, "--generate");
    let pid = sessions.meta(&id_of(&opened))["keeper"]["pid"].clone();
    assert_eq!(ssh_add(&socket_of(&opened), &["-l"]), Some(0));
    let switches = || -> u64 {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let count = |thread: std::io::Result<fs::DirEntry>| -> u64 {
            let status =
                fs::read_to_string(thread.unwrap().path().join("status")).unwrap_or_default();
            let numbers = status.lines().filter(|line| line.contains("ctxt_switches"));
            numbers.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
        };
        threads.map(count).sum()
    };
    wait_until("it has come to rest", || {
        let before = switches();
        std::thread::sleep(std::time::Duration::from_millis(100));
        switches() == before
    });
    let before = switches();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(switches(), before, "it slept all the while");
    end_all(&sessions);
}

#[test]
fn a_keeper_refuses_nonsense_and_lives_on() {
    let sessions = Sessions::new();
    let opened = open(&sessions, "--generate");
    for bytes in [
        b"\xff\xff\xff\xff".as_slice(),
        b"\0\0\0\0",
        b"\0\0\0\x01",
        b"\0\0\0\x05\x0d\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = UnixStream::connect(socket_of(&opened)).unwrap();
        stream.write_all(bytes).unwrap();
    }
    assert_eq!(ssh_add(&socket_of(&opened), &["-l"]), Some(0));
    end_all(&sessions);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let sessions = Sessions::new();
    let why = |line: &str, code: i32| run(&sessions, line).exits(code).stderr;
    assert!(why("open --ttl 5s --generate", 13).contains("between a minute and a day"));
    assert!(why("open --ttl soon", 2).contains("30m"));
    assert!(why("open --confirm", 13).contains("no key"));
    assert!(why("open --session nothing", 3).contains("no session `nothing`"));
    let label = "x".repeat(65);
    assert!(why(&format!("open --label {label}"), 13).contains("64"));
    let ran = ran(ostler(&sessions).env("PATH", "/nowhere").args(["access", "open", "--generate"]));
    assert_eq!(ran.code, 6);
    assert!(ran.stderr.contains("install OpenSSH"), "{ran:?}");
    assert_eq!(fs::read_dir(sessions.directory()).unwrap().count(), 0);
    let far = sessions.home.join("d".repeat(90));
    let ran =
        super::super::run::ran(ostler(&sessions).env("OSTLER_HOME", &far).args(["access", "open"]));
    assert!(ran.code == 13 && ran.stderr.contains("OSTLER_HOME"), "{ran:?}");
}

#[test]
fn access_sessions_are_listed_among_the_others() {
    let sessions = Sessions::new();
    let opened = open(&sessions, "--generate --label deploy");
    let id = id_of(&opened);
    let ask = |line: &str| ran(ostler(&sessions).args(line.split(' ')));
    let listed = ask("ls --json").exits(0).session(&id);
    assert_eq!((&listed["kind"], &listed["agent"]), (&"access".into(), &"ssh-agent".into()));
    assert_eq!(
        (&listed["status"], &listed["liveness"]["certainty"]),
        (&"running".into(), &"proven".into())
    );
    assert!(ask("ls").stdout.contains("deploy [active]"));
    assert!(ask("ls --agent ssh-agent -q").exits(0).stdout.contains(&id));
    for command in ["show", "log", "env"] {
        let by_label = run(&sessions, &format!("{command} deploy")).exits(0).stdout;
        assert_eq!(by_label, run(&sessions, &format!("{command} {id}")).exits(0).stdout);
    }
    let other = id_of(&open(&sessions, "--generate --label deploy"));
    assert!(run(&sessions, "stop deploy").exits(2).stderr.contains(&other[..4]));
    run(&sessions, &format!("stop {other}")).exits(0);
    let why = ask(&format!("why {id} --json")).exits(0).result();
    assert_eq!(why["verdict"]["status"], "running");
    assert_eq!(why["collect"]["allowed"], false);
    assert!(ask(&format!("show {id}")).exits(0).stdout.contains("ssh-agent"));
    run(&sessions, &format!("stop {id}")).exits(0);
    assert_eq!(ask("ls -q").stdout, "", "what is over is not listed");
    assert_eq!(ask("ls -a --json").exits(0).session(&id)["status"], "exited");
    chmod(&sessions.directory(), 0o755);
    let ran = ask("ls").exits(12);
    assert!(ran.stderr.contains("FAIL_ROOT_OPEN"), "{ran:?}");
}
