//! The daemon's door: what clients that are slow, silent, gone or many can do to it, and what others are
//! told meanwhile.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::agent::{Agent, paused, state};
use super::daemon::{Daemon, home_id, socket};
use super::run::{claude_session, ostler, ran, run};
use super::writer::debris;

const ID: &str = "11111111-1111-4111-8111-111111111111";

/// How long a command may take that does not wait for a daemon, on a busy machine.
const SOON: Duration = Duration::from_secs(6);

/// Processor time that a process has used, in ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn pins(home: &TempHome) -> Value {
    run(home, "pin --json").exits(0).result()["pins"].clone()
}

#[test]
fn m7_silent_connections_neither_spin_the_daemon_nor_keep_others_out() {
    let home = TempHome::new();
    let mut command = Command::new("sh");
    let like_us = ostler(&home);
    command.env_clear();
    for (name, value) in like_us.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let program = env!("CARGO_BIN_EXE_ostler");
    command.args(["-c", "ulimit -n 64; exec \"$0\" daemon run", program]);
    let daemon = Daemon::spawn(command);
    let idle: Vec<UnixStream> =
        (0..120).map(|_| UnixStream::connect(socket(&home)).unwrap()).collect();
    let begun = Instant::now();
    assert_eq!(run(&home, "daemon status --json").exits(0).result()["pid"], daemon.pid());
    run(&home, "finalize").exits(0);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let before = ticks(daemon.pid());
    std::thread::sleep(Duration::from_secs(2));
    let spent = ticks(daemon.pid()) - before;
    assert!(spent < 40, "{spent} ticks of 200 while nothing was asked");
    drop(idle);
}

#[test]
fn m7_a_daemon_without_descriptors_rests_and_recovers() {
    let home = TempHome::new();
    let daemon = Daemon::start(&home);
    run(&home, "finalize").exits(0);
    let limit = |limit: u64| {
        let pid = daemon.pid().to_string();
        let set =
            Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={limit}:")]).status();
        set.is_ok_and(|status| status.success())
    };
    let open = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count() as u64;
    if !limit(open) {
        return;
    }
    let waiting: Vec<UnixStream> =
        (0..20).map(|_| UnixStream::connect(socket(&home)).unwrap()).collect();
    let before = ticks(daemon.pid());
    std::thread::sleep(Duration::from_secs(2));
    let spent = ticks(daemon.pid()) - before;
    assert!(spent < 40, "{spent} ticks of 200 without a descriptor");
    assert!(limit(1024));
    drop(waiting);
    let begun = Instant::now();
    while run(&home, "daemon status").code != 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it never recovers");
    }
}

#[test]
fn m7_half_sent_requests_do_not_keep_a_daemon_that_is_told_to_stop() {
    let home = TempHome::new();
    let daemon = Daemon::start(&home);
    let mut half_a_head = UnixStream::connect(socket(&home)).unwrap();
    half_a_head.write_all(b"POST /v1/orders HTTP/1.1\r\nhost: x\r\n").unwrap();
    let mut no_body = UnixStream::connect(socket(&home)).unwrap();
    let id = home_id(&home);
    let head = "POST /v1/orders HTTP/1.1\r\nhost: x\r\nexpect: 100-continue";
    write!(no_body, "{head}\r\nx-ostler-home: {id}\r\ncontent-length: 9\r\n\r\n").unwrap();
    let stopped = run(&home, "daemon stop --json").exits(0).result();
    assert_eq!(stopped["running"], false);
    assert!(daemon.wait());
    run(&home, "finalize").exits(0);
    run(&home, "daemon start").exits(0);
    run(&home, "daemon stop").exits(0);
    drop((half_a_head, no_body));
}

#[test]
fn m7_stop_and_status_believe_the_lock_and_not_the_socket() {
    let home = TempHome::new();
    let daemon = Daemon::start(&home);
    std::fs::remove_file(socket(&home)).unwrap();
    for line in ["daemon stop --json", "daemon status --json", "daemon start --json"] {
        let told = run(&home, line).exits(13);
        assert!(told.message().contains(&format!("pid {}", daemon.pid())), "{told:?}");
    }
    assert_eq!(run(&home, "doctor").code, 1);
}

#[test]
fn m7_a_daemon_that_has_not_stopped_is_not_said_to_have() {
    let home = TempHome::new();
    let daemon = Daemon::start(&home);
    run(&home, "finalize").exits(0);
    daemon.signal("-STOP");
    let told = run(&home, "daemon stop --json").exits(13);
    assert!(told.message().contains(&format!("pid {}", daemon.pid())), "{told:?}");
    daemon.signal("-CONT");
    assert_eq!(run(&home, "daemon status --json").exits(0).result()["pid"], daemon.pid());
    run(&home, "daemon stop").exits(0);
    assert!(daemon.wait());
}

#[test]
fn m8_a_large_plan_is_carried_out_by_the_daemon() {
    let home = TempHome::new();
    // More than 2 MB of paths, as 25,000 of the usual length are, and fewer files to move.
    let deep = home.join("d".repeat(250)).join("d".repeat(150));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::set_permissions(&deep, PermissionsExt::from_mode(0o700)).unwrap();
    let spill = deep.join("spool/spill");
    for directory in [deep.join("spool"), spill.clone()] {
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).unwrap();
    }
    let then = std::time::SystemTime::now() - Duration::from_secs(86_400_000);
    for number in 0..5000 {
        let file = std::fs::File::create(spill.join(format!("{number}.json"))).unwrap();
        file.set_modified(then).unwrap();
    }
    let mut command = ostler(&home);
    command.env("OSTLER_HOME", &deep);
    let daemon = Daemon::with(command);
    let mut command = ostler(&home);
    command.env("OSTLER_HOME", &deep).args(["gc", "--agent", "ostler", "--yes", "--json"]);
    let result = ran(&mut command).exits(0).result();
    assert_eq!((&result["transport"], &result["count"]), (&json!("daemon"), &json!(5000)));
    assert!(std::fs::read_dir(&spill).unwrap().next().is_none());
    drop(daemon);
}

#[test]
fn m14_a_stopped_daemon_does_not_hold_up_status_and_doctor() {
    let home = TempHome::new();
    let daemon = Daemon::start(&home);
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    run(&home, "finalize").exits(0);
    daemon.signal("-STOP");
    for (line, code) in [("status", 0), ("doctor", 1), ("daemon status", 13)] {
        let begun = Instant::now();
        let told = run(&home, line).exits(code);
        assert!(begun.elapsed() < SOON, "{line}: {:?}", begun.elapsed());
        let text = format!("{}{}", told.stdout, told.stderr);
        assert!(text.contains(&format!("pid {}", daemon.pid())), "{line}: {text}");
    }
    let begun = Instant::now();
    let refused = run(&home, &format!("pin {ID} --json")).exits(13);
    assert!(refused.message().contains("nothing was done"), "{refused:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    daemon.signal("-CONT");
    run(&home, "finalize").exits(0);
    assert_eq!(pins(&home), json!([]), "what was given up was not done later");
}

#[test]
fn m14_the_order_of_a_client_that_was_killed_is_not_carried_out() {
    let home = TempHome::new();
    claude_session(&home, ID, "/project", "do it");
    let daemon = Daemon::start(&home);
    run(&home, "finalize").exits(0);
    daemon.signal("-STOP");
    let pauses = Pauses::new();
    pauses.arm("order.asked");
    let mut client = paused(&home, &pauses, &format!("pin {ID}"));
    pauses.wait("order.asked");
    client.kill().unwrap();
    client.wait().unwrap();
    daemon.signal("-CONT");
    // It comes after the other in the queue.
    run(&home, "finalize").exits(0);
    assert_eq!(pins(&home), json!([]));
    run(&home, &format!("pin {ID}")).exits(0);
    assert_eq!(pins(&home)[0]["session"], ID);
}

#[test]
fn m14_an_order_that_is_not_waited_for_is_refused() {
    let home = TempHome::new();
    let _daemon = Daemon::start(&home);
    let mut stream = UnixStream::connect(socket(&home)).unwrap();
    let order = r#"{"order":"work","work":"pin","sessions":[],"note":null,"remove":false}"#;
    let (id, length) = (home_id(&home), order.len());
    let head = "POST /v1/orders HTTP/1.1\r\nhost: x\r\nx-ostler-protocol: 4";
    let more = format!("x-ostler-home: {id}\r\ncontent-length: {length}");
    write!(stream, "{head}\r\n{more}\r\n\r\n{order}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 428"), "{answer}");
}

fn is_root() -> bool {
    sys::private::our_uid() == 0
}

#[test]
fn m9_a_directory_that_somebody_else_made_first_stops_nothing() {
    if !is_root() {
        return;
    }
    let home = TempHome::new();
    claude_session(&home, ID, "/project", "do it");
    let debris = debris(&home);
    let foreign = home.join("run/ostler");
    std::fs::create_dir_all(&foreign).unwrap();
    std::os::unix::fs::chown(&foreign, Some(4711), None).unwrap();
    run(&home, &format!("pin {ID}")).exits(0);
    let gc = "gc --agent ostler --yes --json";
    assert_eq!(run(&home, gc).exits(0).result()["transport"], "local");
    run(&home, "undo").exits(0);
    assert!(debris.exists());

    let started = run(&home, "daemon start --json").exits(0).result();
    let in_home = state(&home).join("run");
    assert!(started["socket"].as_str().unwrap().starts_with(in_home.to_str().unwrap()));
    assert_eq!(run(&home, gc).exits(0).result()["transport"], "daemon");
    let told = run(&home, "doctor --no-sweep").exits(0).stdout;
    assert!(told.contains("belongs to user 4711"), "{told}");

    let made = run(&home, "create --json -- /bin/cat").exits(0).result();
    let id = made["sessionId"].as_str().unwrap();
    run(&home, &format!("type {id} x")).exits(0);
    run(&home, &format!("destroy {id}")).exits(0);
    run(&home, "daemon stop").exits(0);
    assert!(std::fs::read_dir(&foreign).unwrap().next().is_none(), "nothing was put there");
}

#[test]
fn l11_a_used_up_limit_of_inotify_is_named_with_its_remedy() {
    let home = TempHome::new();
    let like_us = ostler(&home);
    let mut command = Command::new("unshare");
    command.env_clear();
    for (name, value) in like_us.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let script =
        "echo 0 > /proc/sys/user/max_inotify_instances || exit 77; exec \"$0\" daemon start";
    command.args(["-Ur", "sh", "-c", script, env!("CARGO_BIN_EXE_ostler")]);
    let begun = Instant::now();
    let told = ran(&mut command);
    if told.code == 77 || told.stderr.contains("unshare:") {
        return;
    }
    let told = told.exits(13);
    assert!(told.stderr.contains("fs.inotify.max_user_instances"), "{told:?}");
    assert!(told.stderr.contains("sysctl"), "{told:?}");
    assert!(begun.elapsed() < SOON, "it is told when it is known");
}
