//! When things die or fill up: nothing hangs, nothing is lost that was said, nothing is left behind.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::stage::{Name, Stage, is_alive, kill, until};

#[test]
fn a_killed_host_is_a_failed_session_whose_log_can_be_replayed() {
    for name in [Name::Ostler, Name::AgentTty] {
        let stage = Stage::new(name);
        let id = stage.shell();
        stage.ok(&["run", &id, "echo before"]);
        let (host, child) = (stage.pid(&id, "hostPid"), stage.pid(&id, "childPid"));
        kill(host, "-KILL");
        until("the host's end", || !is_alive(host));
        // As if it had been cut off in the middle of an event.
        let log = stage.directory(&id).join("events.jsonl");
        let whole = std::fs::read(&log).unwrap();
        std::fs::write(&log, [&whole[..], b"{\"seq\":99,\"ts\":\"20"].concat()).unwrap();
        let inspected = stage.ok(&["inspect", &id]);
        assert_eq!(inspected["terminationCategory"], "host-death");
        assert_eq!(inspected["session"]["status"], "failed");
        assert_eq!(inspected["session"]["hostPid"], json!(null));
        assert_eq!(inspected["session"]["childPid"], json!(null));
        assert!(stage.screen(&id).contains("before"));
        let refused = match name {
            Name::Ostler => (4, "SESSION_NOT_RUNNING".to_owned()),
            Name::AgentTty => (6, "HOST_UNREACHABLE".to_owned()),
        };
        assert_eq!(stage.fails(&["type", &id, "x"]), refused);
        stage.ok(&["record", "export", &id, "--format", "asciicast"]);
        assert_eq!(stage.manifest(&id)["status"], "running", "looking corrects nothing");
        stage.ok(&["destroy", &id]);
        let manifest = stage.manifest(&id);
        assert_eq!(
            (&manifest["status"], &manifest["failureOrigin"]),
            (&json!("destroyed"), &json!("host-death"))
        );
        let reason = manifest["failureReason"].as_str().unwrap();
        assert!(
            reason.starts_with(&format!("host process died unexpectedly (pid: {host})")),
            "{reason}"
        );
        assert!(reason.contains("18 bytes"), "the repair is said: {reason}");
        assert_eq!(std::fs::read(&log).unwrap(), whole, "and every line is whole");
        until("the child's end", || !is_alive(child));
    }
}

#[test]
fn looking_changes_nothing() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.shell();
    kill(stage.pid(&id, "hostPid"), "-KILL");
    let host = stage.pid(&id, "hostPid");
    until("the host's end", || !is_alive(host));
    let before = stage.manifest(&id);
    assert_eq!(stage.ok(&["ls", "-a"])["sessions"][0]["status"], "failed");
    stage.ok(&["inspect", &id]);
    stage.ok(&["why", &id]);
    assert_eq!(stage.manifest(&id), before);
}

#[test]
fn a_killed_program_is_told_with_its_signal() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.create(&["/bin/cat"]);
    kill(stage.pid(&id, "childPid"), "-KILL");
    until("the end", || stage.manifest(&id)["status"] == "exited");
    let manifest = stage.manifest(&id);
    assert_eq!((&manifest["exitCode"], &manifest["exitSignal"]), (&json!(0), &json!("9")));
    assert_eq!(stage.ok(&["inspect", &id])["terminationCategory"], "signal-exit");
    assert!(manifest["hostPid"].is_u64(), "pids stay after a normal end");
}

#[test]
fn a_creator_that_is_killed_leaves_a_whole_session() {
    let stage = Stage::new(Name::Ostler);
    let pauses = Pauses::new();
    pauses.arm("host-before-manifest");
    let mut creator = pauses
        .apply(&mut stage.command())
        .args(["create", "--", "/bin/cat"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    pauses.wait("host-before-manifest");
    creator.kill().unwrap();
    creator.wait().unwrap();
    pauses.release("host-before-manifest");
    until("the session", || {
        stage.run(&["ls", "--json"]).result()["sessions"]
            .as_array()
            .is_some_and(|all| all.len() == 1)
    });
    stage.ok(&["type", "-", "still here\n"]);
    stage.ok(&["wait", "-", "--text", "still here"]);
}

#[test]
fn a_host_that_dies_before_it_began_leaves_no_session() {
    let stage = Stage::new(Name::Ostler);
    let pauses = Pauses::new();
    pauses.arm("host-before-manifest");
    let creator = pauses
        .apply(&mut stage.command())
        .args(["create", "--json", "--", "/bin/cat"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    pauses.wait("host-before-manifest");
    let id = std::fs::read_dir(stage.root.join("sessions"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .file_name();
    let holder = super::stage::read_json(&stage.root.join("sessions").join(&id).join("host.json"));
    kill(u32::try_from(holder["host"]["pid"].as_u64().unwrap()).unwrap(), "-KILL");
    let output = creator.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(6), "the creator is told");
    let listed = stage.run(&["ls", "-a", "--json"]).exits(12).result();
    assert_eq!(listed["sessions"], json!([]));
    assert_eq!(listed["incomplete"].as_array().unwrap().len(), 1, "and what is left is named");
    let child = holder["child"]["pid"].as_u64().unwrap();
    until("the child's end", || !is_alive(u32::try_from(child).unwrap()));
    std::fs::remove_dir_all(stage.root.join("sessions").join(id)).unwrap();
}

#[test]
fn a_program_whose_session_cannot_be_written_down_is_ended() {
    let stage = Stage::new(Name::Ostler);
    let pauses = Pauses::new();
    pauses.arm("host-before-manifest");
    let script = "trap '' HUP TERM; setsid sleep 1000 & echo $! >apart; sleep 1000";
    let creator = pauses
        .apply(&mut stage.command())
        .args(["create", "--json", "--", "/bin/sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    pauses.wait("host-before-manifest");
    let sessions = stage.root.join("sessions");
    let directory = std::fs::read_dir(&sessions).unwrap().next().unwrap().unwrap().path();
    let holder = super::stage::read_json(&directory.join("host.json"));
    let child = u32::try_from(holder["child"]["pid"].as_u64().unwrap()).unwrap();
    let apart = || std::fs::read_to_string(stage.home.join("apart")).unwrap_or_default();
    until("the program's own daemon", || apart().ends_with('\n'));
    // Nothing can be renamed over a directory.
    std::fs::create_dir(directory.join("session.json")).unwrap();
    pauses.release("host-before-manifest");
    let output = creator.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("STORAGE_WRITE_ERROR") && said.contains("was ended"), "{said}");
    for pid in [child, apart().trim().parse().unwrap()] {
        assert!(!is_alive(pid), "the program is gone before its creator is told");
    }
    assert!(!directory.exists(), "and nothing is left of the session");
}

#[test]
fn a_program_that_forks_daemons_ends_all_the_same() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.script("(setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $! >daemon); sleep 1000 & (trap '' HUP TERM; sleep 1000) & echo READY; wait");
    stage.ok(&["wait", &id, "--text", "READY"]);
    let host = stage.pid(&id, "hostPid");
    let begun = Instant::now();
    stage.ok(&["destroy", &id]);
    assert!(begun.elapsed() < Duration::from_secs(8));
    until("the host's end", || !is_alive(host));
    assert_eq!(stage.manifest(&id)["status"], "destroyed");
    let daemon: u32 =
        std::fs::read_to_string(stage.home.join("daemon")).unwrap().trim().parse().unwrap();
    assert!(!is_alive(daemon), "a terminal ends with its tree (K3)");
}

#[test]
fn a_session_that_ends_with_others_on_its_terminal_ends() {
    let stage = Stage::new(Name::Ostler);
    // It goes on for as long as there is a terminal to write to, and no longer.
    let id = stage.script("(trap '' HUP; while echo noise; do sleep 0.001; done) & exit 4");
    until("the end", || stage.manifest(&id)["status"] == "exited");
    assert_eq!(stage.manifest(&id)["exitCode"], 4);
}

#[test]
fn a_killed_waiter_or_viewer_does_not_matter() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.shell();
    for _ in 0..20 {
        let mut waiting = stage.command().args(["wait", &id, "--text", "never"]).spawn().unwrap();
        waiting.kill().unwrap();
        waiting.wait().unwrap();
    }
    let socket = stage.ok(&["inspect", &id])["host"]["rpcSocketPath"].as_str().unwrap().to_owned();
    let held: Vec<_> =
        (0..300).filter_map(|_| std::os::unix::net::UnixStream::connect(&socket).ok()).collect();
    drop(held);
    assert_eq!(stage.ok(&["run", &id, "true"])["exitCode"], 0);
    let host = stage.pid(&id, "hostPid");
    until("no descriptor left behind", || {
        std::fs::read_dir(format!("/proc/{host}/fd")).unwrap().count() < 16
    });
}

#[test]
fn on_a_full_disk_the_program_goes_on_and_the_gap_is_told() {
    let mount = TempHome::new();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=512k,mode=700", "ostler-test"])
        .arg(mount.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: a small file system cannot be mounted here");
        return;
    }
    let unmount = Unmount(mount.path().to_owned());
    let stage = Stage::at(Name::Ostler, TempHome::new(), mount.join("state"));
    let ballast = mount.join("ballast");
    std::fs::write(&ballast, vec![0; 300 << 10]).unwrap();
    let id = stage.script("read; for i in $(seq 6000); do printf '%0100d\\n' $i; done; echo FULL; read; echo AFTER; read");
    stage.ok(&["type", &id, "\n"]);
    let waited = stage.ok(&["wait", &id, "--text", "FULL", "--timeout", "20000"]);
    assert_eq!(waited["matched"], true, "the program was not held up");
    let paused = stage.ok(&["inspect", &id])["logPaused"].clone();
    assert!(paused["lostBytes"].as_u64().unwrap() > 0, "{paused}");
    std::fs::remove_file(&ballast).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    stage.ok(&["type", &id, "\n"]);
    stage.ok(&["wait", &id, "--text", "AFTER"]);
    assert!(stage.ok(&["inspect", &id]).get("logPaused").is_none());
    let events = stage.events(&id);
    assert!(events.iter().enumerate().all(|(index, event)| event["seq"] == index));
    let gap = events.iter().find(|event| event["type"] == "gap").unwrap();
    assert!(gap["payload"]["bytes"].as_u64().unwrap() > 0);
    stage.ok(&["destroy", &id, "--force"]);
    drop(stage);
    drop(unmount);
}

struct Unmount(std::path::PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        // The host may still be leaving.
        until("the file system's end", || {
            Command::new("umount")
                .arg(&self.0)
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|s| s.success())
        });
    }
}

#[test]
fn much_output_stays_on_disk() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.script("base64 -w 76 /dev/zero | head -c 40000000; echo END; read");
    stage.ok(&["wait", &id, "--text", "END", "--timeout", "60000"]);
    let host = stage.pid(&id, "hostPid");
    let status = std::fs::read_to_string(format!("/proc/{host}/status")).unwrap();
    let peak: u64 = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    assert!(peak < 64 << 10, "{peak} KiB");
    stage.ok(&["destroy", &id]);
    until("the host's end", || !is_alive(host));
    let begun = Instant::now();
    assert!(stage.screen(&id).contains("END"));
    assert!(begun.elapsed() < Duration::from_secs(2), "from the keyframe: {:?}", begun.elapsed());
}

#[test]
fn a_host_that_is_leaving_does_not_undo_what_others_wrote() {
    let stage = Stage::new(Name::Ostler);
    let pauses = Pauses::new();
    pauses.arm("host-before-leaving");
    let mut command = stage.command();
    let made =
        super::stage::ran(pauses.apply(&mut command).args(["--json", "create", "--", "/bin/true"]));
    let id = made.exits(0).result()["sessionId"].as_str().unwrap().to_owned();
    pauses.wait("host-before-leaving");
    stage.ok(&["destroy", &id]);
    pauses.release("host-before-leaving");
    let host = stage.pid(&id, "hostPid");
    until("the host's end", || !is_alive(host));
    assert_eq!(stage.manifest(&id)["status"], "destroyed");
}

#[test]
fn garbage_on_the_socket_ends_a_connection_and_nothing_else() {
    use std::io::Write;
    let stage = Stage::new(Name::Ostler);
    let id = stage.shell();
    let socket = stage.ok(&["inspect", &id])["host"]["rpcSocketPath"].as_str().unwrap().to_owned();
    let mut state = 1u64;
    let mut random = |length: usize| -> Vec<u8> {
        (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as u8
            })
            .collect()
    };
    let attach = b"{\"id\":\"1\",\"method\":\"attach\",\"dialect\":\"ostler\"}\n".to_vec();
    let wait =
        b"{\"id\":\"2\",\"method\":\"waitForRender\",\"params\":{\"text\":\"never\"}}\n".to_vec();
    for round in 0..300 {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        let opening: &[u8] = match round % 3 {
            0 => b"",
            1 => &attach,
            _ => &wait,
        };
        let _ = stream.write_all(opening);
        let _ = stream.write_all(&random(round));
        let _ = stream.write_all(b"\n");
    }
    for params in ["null", "[]", "7", "{}", "{\"text\":7}", "{\"cols\":-1,\"rows\":70000}"] {
        for method in
            ["type", "paste", "run", "mark", "sendKeys", "resize", "signal", "wait", "snapshot"]
        {
            let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
            let request = format!("{{\"id\":\"3\",\"method\":\"{method}\",\"params\":{params}}}\n");
            stream.write_all(request.as_bytes()).unwrap();
        }
    }
    assert_eq!(stage.ok(&["run", &id, "true"])["exitCode"], 0);
    until("the connections' end", || stage.ok(&["inspect", &id])["viewers"] == 0);
}

#[test]
fn l5_idle_and_half_said_connections_lock_nobody_out() {
    use std::io::Write;
    use std::time::Instant;
    let stage = Stage::new(Name::Ostler);
    let id = stage.shell();
    let socket = stage.ok(&["inspect", &id])["host"]["rpcSocketPath"].as_str().unwrap().to_owned();
    let host = stage.pid(&id, "hostPid");
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{host}/stat")).unwrap();
        let fields: Vec<u64> = stat[stat.rfind(')').unwrap() + 4..]
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        fields[10] + fields[11]
    };
    // As many as there are places, and more; each says nothing.
    let idle: Vec<_> =
        (0..300).filter_map(|_| std::os::unix::net::UnixStream::connect(&socket).ok()).collect();
    let begun = Instant::now();
    stage.ok(&["type", &id, "x"]);
    stage.screen(&id);
    assert!(begun.elapsed().as_secs() < 4, "{:?}", begun.elapsed());
    drop(idle);
    // A request without its end is searched once, however it comes.
    let mut slow = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    slow.write_all(b"{\"id\":\"a\",\"method\":\"type\",\"params\":{\"text\":\"").unwrap();
    slow.write_all(&vec![b'x'; 30 << 20]).unwrap();
    let before = ticks();
    for _ in 0..300 {
        slow.write_all(b"y").unwrap();
        std::thread::yield_now();
    }
    stage.ok(&["inspect", &id]);
    let spent = ticks() - before;
    assert!(spent < 50, "{spent} ticks for 300 bytes");
    drop(slow);
    stage.ok(&["destroy", &id]);
}

#[test]
fn l5_a_picture_that_is_too_large_is_refused() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.run(&["--json", "create", "--cols", "65535", "--rows", "15", "--", "/bin/cat"]);
    let id = id.exits(0).result()["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(stage.fails(&["screenshot", &id]), (2, "INVALID_DIMENSIONS".into()));
}

#[test]
fn f6_2_1_runs_that_overlap_keep_their_ends() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.shell();
    let first = stage.run(&["--json", "run", &id, "sleep 1", "--timeout", "200"]).exits(11);
    assert_eq!(first.result()["timedOut"], true);
    let second = stage.ok(&["run", &id, "echo second", "--timeout", "8000"]);
    assert_eq!((&second["completed"], &second["exitCode"]), (&json!(true), &json!(0)));
    std::thread::scope(|threads| {
        for number in 0..4 {
            let (stage, id) = (&stage, &id);
            threads.spawn(move || {
                let command = format!("sleep 0.2; echo at-once-{number}");
                let ran = stage.ok(&["run", id, &command, "--timeout", "15000"]);
                assert_eq!(ran["completed"], true, "{number}");
            });
        }
    });
    let log = std::fs::read_to_string(stage.directory(&id).join("events.jsonl")).unwrap();
    let outputs = log.lines().filter(|line| line.contains("\"type\":\"output\""));
    let all: String = outputs.collect();
    assert!(!all.contains("_os:"), "the sentinel shows: {}", stage.screen(&id));
}
