//! Rows 53 to 58 and 60: what `stop` does, and to whom.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::access::{self, Agent, ID, Sessions, make_key, reaped, ssh_add, wait_until};

use super::super::run::ran;
use super::{listed, ostler, run};

/// The base session, not over, with a real agent on its socket.
fn with_agent() -> (Sessions, Agent) {
    let sessions = Sessions::new();
    sessions.add(ID, &reaped());
    sessions.ends_in(ID, 300);
    let agent = Agent::start(&sessions.file(ID, "agent.sock"));
    sessions.edit(ID, |meta| meta["agent"] = agent.record.clone());
    sessions.put_env(ID, &agent.pid().to_string());
    (sessions, agent)
}

#[test]
fn row_53_a_running_agent_is_ended() {
    let (sessions, mut agent) = with_agent();
    let key = make_key(sessions.home.path(), "test");
    let socket = sessions.file(ID, "agent.sock");
    assert_eq!(ssh_add(&socket, &["-q", key.to_str().unwrap()]), Some(0));
    let ran = run(&sessions, &format!("stop {ID}")).exits(0);
    assert!(ran.stdout.contains("its keys were removed"), "{ran:?}");
    let status = agent.ended().expect("it has ended");
    assert_eq!(status.signal(), None, "it ended by itself when it was asked: {status:?}");
    assert!(!socket.exists());
    let stop = sessions.file(ID, "stop.json");
    assert_eq!(fs::metadata(&stop).unwrap().permissions().mode() & 0o777, 0o600);
    let stop: serde_json::Value = serde_json::from_slice(&fs::read(stop).unwrap()).unwrap();
    assert_eq!((&stop["pid"], &stop["start"]), (&agent.record["pid"], &agent.record["start"]));
    assert_eq!(listed(&sessions, "")["state"], "stopped");
    run(&sessions, "prune").exits(0);
    assert!(!sessions.of(ID).exists());
}

#[test]
fn row_54_a_reused_pid_is_not_signalled() {
    let (sessions, mut agent) = with_agent();
    // The agent moves out of the way; its number belongs to somebody else, by another start.
    fs::remove_file(sessions.file(ID, "agent.sock")).unwrap();
    sessions.edit(ID, |meta| {
        meta["agent"]["start"] = (agent.record["start"].as_u64().unwrap() - 3).into();
    });
    let ran = run(&sessions, &format!("stop {ID}")).exits(0);
    assert!(ran.stdout.contains("already gone (reused)"), "{ran:?}");
    assert!(agent.ended().is_none(), "nothing was signalled");
    assert_eq!(listed(&sessions, "")["state"], "stopped");
}

#[test]
fn row_55_without_a_start_nothing_is_proved() {
    let (sessions, mut agent) = with_agent();
    sessions.edit(ID, |meta| {
        meta["agent"].as_object_mut().unwrap().remove("start");
    });
    let ran = run(&sessions, &format!("stop {ID}")).exits(4);
    assert!(ran.stderr.contains("nothing was sent"), "{ran:?}");
    assert!(agent.ended().is_none() && agent.answers() == Some(1));
    assert!(!sessions.file(ID, "stop.json").exists());
}

#[test]
fn row_56_an_agent_that_does_not_end_is_not_killed() {
    let (sessions, mut agent) = with_agent();
    agent.stop();
    let begun = Instant::now();
    let ran = run(&sessions, &format!("stop {ID}")).exits(5);
    assert!(begun.elapsed() >= Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(ran.stderr.contains("--kill"), "{ran:?}");
    assert!(agent.ended().is_none());
    assert_eq!(listed(&sessions, "")["state"], "active");
    // Told to, it does, and only after asking again.
    run(&sessions, &format!("stop {ID} --kill")).exits(0);
    wait_until("it is reaped", || {
        fs::read_to_string(format!("/proc/{}/stat", agent.pid())).is_ok_and(|s| s.contains(") Z "))
    });
    assert_eq!(agent.ended().and_then(|status| status.signal()), Some(9));
}

#[test]
fn row_57_an_agent_that_is_gone_is_stopped_twice() {
    let sessions = Sessions::expired();
    run(&sessions, &format!("stop {ID}")).exits(0);
    let first = fs::read(sessions.file(ID, "stop.json")).unwrap();
    let ran = run(&sessions, &format!("stop {ID}")).exits(0);
    assert!(ran.stdout.contains("already gone"), "{ran:?}");
    assert_eq!(fs::read(sessions.file(ID, "stop.json")).unwrap(), first, "one stop.json");
}

#[test]
fn row_58_unknown_is_refused() {
    let sessions = Sessions::expired();
    fs::remove_file(sessions.file(ID, "meta.json")).unwrap();
    let before = sessions.home.snapshot();
    let ran = run(&sessions, &format!("stop {ID}")).exits(4);
    assert!(ran.stderr.contains("SKIP_UNKNOWN"), "{ran:?}");
    let changes = before.changes(&sessions.home.snapshot());
    assert!(
        changes.iter().all(|change| !change.contains(ID) || change.contains(".lock")),
        "{changes:?}"
    );
}

#[test]
fn row_60_only_a_request_to_end_is_ever_sent() {
    if Command::new("strace").arg("-V").output().is_err() {
        testkit::access::skipped("strace is not installed");
        return;
    }
    let (sessions, mut agent) = with_agent();
    let plain = ostler(&sessions);
    let trace = sessions.home.join("trace");
    let mut command = Command::new("strace");
    command
        .args(["-f", "-e", "trace=kill,tkill,tgkill,pidfd_send_signal,rt_sigqueueinfo", "-o"])
        .arg(&trace)
        .arg(plain.get_program())
        .args(["access", "stop", ID])
        .env_clear()
        .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    ran(&mut command).exits(0);
    assert!(agent.ended().is_some());
    let trace = fs::read_to_string(trace).unwrap();
    let sent: Vec<&str> = trace.lines().filter(|line| line.contains("SIG")).collect();
    assert!(trace.contains("pidfd_send_signal") && trace.contains("SIGTERM"), "{trace}");
    let others = ["SIGUSR1", "SIGKILL", " kill(", "tgkill"];
    assert!(sent.iter().all(|line| others.iter().all(|other| !line.contains(other))), "{sent:?}");
}

#[test]
fn all_expired_needs_a_yes() {
    let sessions = Sessions::expired();
    let agent = Agent::start(&sessions.file(ID, "agent.sock"));
    sessions.edit(ID, |meta| meta["agent"] = agent.record.clone());
    sessions.put_env(ID, &agent.pid().to_string());
    sessions.add("s-active1", &reaped());
    sessions.ends_in("s-active1", 300);
    let ran = run(&sessions, "stop --all-expired").exits(0);
    assert!(ran.stdout.starts_with("would-stop s-alpha01"), "{ran:?}");
    assert_eq!(agent.answers(), Some(1));
    let result = run(&sessions, "stop --all-expired --yes --json").exits(0).result();
    assert_eq!(result["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(result["sessions"][0]["outcome"], "stopped");
    assert!(!sessions.file("s-active1", "stop.json").exists());
}

#[test]
fn only_what_was_lent_to_the_dead_is_orphaned() {
    let sessions = Sessions::new();
    let living = access::record_of(std::process::id());
    for (id, owner) in [("s-dead001", reaped()), ("s-living1", living)] {
        sessions.add(id, &reaped());
        sessions.ends_in(id, 300);
        let binding = json!({ "agent": "claude-code", "id": "abc", "owner": owner });
        sessions.edit(id, |meta| meta["session"] = binding);
    }
    let result = run(&sessions, "stop --orphaned --json").exits(0).result();
    let stopped: Vec<&str> = result["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert_eq!(stopped, ["s-dead001"]);
    assert!(!sessions.file("s-living1", "stop.json").exists());
}
