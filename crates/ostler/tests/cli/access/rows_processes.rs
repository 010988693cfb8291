//! Rows 1 to 13, 40 to 42, 59: states, and whether the agent is there.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Command;

use testkit::access::{self, Agent, ID, Sessions, chmod, chown, is_root, reaped};

use super::super::run::ran;
use super::{kept, listed, ostler, pruned, run};

/// The base session with an agent that really runs on its socket.
fn with_agent() -> (Sessions, Agent) {
    let sessions = Sessions::new();
    sessions.add(ID, &reaped());
    let agent = Agent::start(&sessions.file(ID, "agent.sock"));
    name_agent(&sessions, &agent.record);
    (sessions, agent)
}

/// Makes `record` the agent of the base session.
fn name_agent(sessions: &Sessions, record: &serde_json::Value) {
    sessions.edit(ID, |meta| meta["agent"] = record.clone());
    sessions.put_env(ID, &record["pid"].to_string());
}

#[test]
fn row_01_expired_and_reaped_is_pruned() {
    let ran = pruned(&Sessions::expired(), "PRUNED s-alpha01 expired");
    assert_eq!(ran.stdout, "PRUNED s-alpha01 expired\n1 pruned, 0 skipped\n");
}

#[test]
fn row_02_stopped_is_pruned_before_it_expires() {
    let sessions = Sessions::expired();
    sessions.ends_in(ID, 300);
    sessions.mark_stopped(ID);
    pruned(&sessions, "PRUNED s-alpha01 stopped");
}

#[test]
fn row_03_a_second_before_its_end_it_is_active() {
    let sessions = Sessions::expired();
    sessions.ends_in(ID, 30);
    kept(&sessions, "SKIP_ACTIVE");
}

#[test]
fn row_05_a_running_agent_keeps_it() {
    let (sessions, agent) = with_agent();
    kept(&sessions, "SKIP_AGENT_ALIVE");
    assert_eq!(agent.answers(), Some(1), "it still answers");
}

#[test]
fn row_06_a_stopped_agent_keeps_it() {
    let (sessions, agent) = with_agent();
    agent.stop();
    let ran = kept(&sessions, "SKIP_AGENT_ALIVE");
    assert!(ran.stdout.contains("(stopped)"), "{ran:?}");
    agent.signal("CONT");
    assert_eq!(agent.answers(), Some(1));
}

#[test]
fn row_07_a_zombie_is_gone() {
    let (sessions, mut agent) = with_agent();
    agent.become_zombie();
    pruned(&sessions, "PRUNED s-alpha01 expired (zombie)");
}

#[test]
fn row_08_a_reused_pid_is_another_process() {
    let sessions = Sessions::expired();
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let mut record = access::record_of(other.id());
    record["start"] = (record["start"].as_u64().unwrap() - 7).into();
    name_agent(&sessions, &record);
    pruned(&sessions, "PRUNED s-alpha01 expired (reused)");
    assert!(other.try_wait().unwrap().is_none(), "the other process is untouched");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn row_09_without_a_start_any_live_pid_blocks() {
    let sessions = Sessions::expired();
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let mut record = access::record_of(other.id());
    record.as_object_mut().unwrap().remove("start");
    name_agent(&sessions, &record);
    kept(&sessions, "SKIP_AGENT_ALIVE");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn row_10_the_same_pid_and_start_but_another_pidfd_is_reused() {
    let sessions = Sessions::expired();
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let mut record = access::record_of(other.id());
    record["pidfd_ino"] = 1.into();
    name_agent(&sessions, &record);
    let ran = run(&sessions, "prune").exits(0);
    other.kill().unwrap();
    other.wait().unwrap();
    if ran.stdout.starts_with("SKIP_AGENT_ALIVE") {
        testkit::access::skipped("this kernel has no unique pidfd inodes");
        return;
    }
    assert!(ran.stdout.starts_with("PRUNED s-alpha01 expired (reused)\n"), "{ran:?}");
}

#[test]
fn row_11_somebody_on_the_socket_keeps_it() {
    let sessions = Sessions::expired();
    let _agent = Agent::start(&sessions.file(ID, "agent.sock"));
    let ran = kept(&sessions, "SKIP_AGENT_ALIVE");
    assert!(ran.stdout.contains("(socket)"), "{ran:?}");
    assert_eq!(listed(&sessions, "")["agent"]["presence"], "absent", "list asks no socket");
    assert_eq!(listed(&sessions, "--probe")["agent"]["reason"], "socket");
}

#[test]
fn row_12_a_stale_socket_goes_with_it() {
    let sessions = Sessions::expired();
    let socket = sessions.file(ID, "agent.sock");
    drop(UnixListener::bind(&socket).unwrap());
    chmod(&socket, 0o600);
    pruned(&sessions, "PRUNED s-alpha01 expired");
    let sessions = Sessions::expired();
    let mut agent = Agent::start(&sessions.file(ID, "agent.sock"));
    agent.signal("KILL");
    access::wait_until("it has ended", || agent_ended(&sessions));
    let _ = agent.ended();
    pruned(&sessions, "PRUNED s-alpha01 expired");
}

fn agent_ended(sessions: &Sessions) -> bool {
    std::os::unix::net::UnixStream::connect(sessions.file(ID, "agent.sock")).is_err()
}

const NOBODY: u32 = 65534;

/// Gives everything to an unprivileged user.
fn give_away(sessions: &Sessions) {
    fn walk(path: &std::path::Path) {
        chown(path, NOBODY);
        if path.symlink_metadata().unwrap().is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                walk(&entry.unwrap().path());
            }
        }
    }
    walk(sessions.home.path());
}

/// The binary as that user, from a place that it may read.
fn as_nobody(sessions: &Sessions, line: &str) -> super::super::run::Ran {
    let binary = sessions.home.join("ostler");
    if !binary.exists() {
        fs::copy(env!("CARGO_BIN_EXE_ostler"), &binary).unwrap();
        chmod(&binary, 0o755);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
        .arg(binary)
        .arg("access")
        .args(line.split_whitespace())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", sessions.home.path())
        .env("OSTLER_HOME", sessions.root())
        .current_dir(sessions.home.path());
    ran(&mut command)
}

#[test]
fn row_13_a_socket_that_may_not_be_asked_is_a_doubt() {
    if !is_root() {
        return;
    }
    let sessions = Sessions::expired();
    sessions.edit(ID, |meta| meta["agent"]["uid"] = NOBODY.into());
    let socket = sessions.file(ID, "agent.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    chmod(&socket, 0o000);
    give_away(&sessions);
    let ran = as_nobody(&sessions, "prune").exits(0);
    assert!(ran.stdout.starts_with("SKIP_PRESENCE_UNKNOWN s-alpha01"), "{ran:?}");
    assert!(ran.stdout.contains("socket-refused"), "{ran:?}");
    assert!(sessions.file(ID, "meta.json").exists());
}

#[test]
fn an_unprivileged_user_prunes_its_own_and_nothing_else() {
    if !is_root() {
        return;
    }
    let sessions = Sessions::expired();
    let refused = as_nobody(&sessions, "prune");
    assert_eq!(refused.code, 3, "a root that belongs to root: {refused:?}");
    give_away(&sessions);
    sessions.edit(ID, |meta| meta["agent"]["uid"] = NOBODY.into());
    give_away(&sessions);
    let ran = as_nobody(&sessions, "prune").exits(0);
    assert!(ran.stdout.starts_with("PRUNED s-alpha01 expired\n"), "{ran:?}");
}

#[test]
fn an_unprivileged_user_opens_uses_stops_and_prunes() {
    if !is_root() {
        return;
    }
    let sessions = Sessions::new();
    give_away(&sessions);
    let opened = as_nobody(&sessions, "open --generate --ttl 5m --json").exits(0).result();
    let id = opened["id"].as_str().unwrap().to_owned();
    let shown = as_nobody(&sessions, &format!("show {id} --probe --json")).exits(0).result();
    assert_eq!(shown["session"]["agent"]["presence"], "present", "{shown}");
    let keys = as_nobody(&sessions, &format!("exec {id} -- ssh-add -l")).exits(0);
    assert!(keys.stdout.contains(opened["keys"][0]["fingerprint"].as_str().unwrap()), "{keys:?}");
    as_nobody(&sessions, &format!("stop {id}")).exits(0);
    let ran = as_nobody(&sessions, "prune").exits(0);
    assert!(ran.stdout.starts_with(&format!("PRUNED {id} stopped\n")), "{ran:?}");
}

#[test]
fn row_41_another_boot_of_another_machine_is_foreign() {
    let sessions = Sessions::expired();
    sessions.edit(ID, |meta| {
        meta["created_boot"] = "11111111-2222-3333-4444-555555555555".into();
        meta["agent"]["boot"] = meta["created_boot"].clone();
        meta["agent"]["machine_id"] = "0".repeat(32).into();
    });
    kept(&sessions, "SKIP_FOREIGN_HOST");
}

#[test]
fn row_42_another_pid_namespace_is_foreign() {
    let sessions = Sessions::expired();
    let mut inside = Command::new("unshare");
    inside.args(["--pid", "--fork", "--mount-proc"]);
    if !{ Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output() }
        .unwrap()
        .status
        .success()
    {
        testkit::access::skipped("no pid namespaces here");
        return;
    }
    let plain = ostler(&sessions);
    inside.arg(plain.get_program()).args(["access", "prune"]);
    inside.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = ran(&mut inside).exits(0);
    assert!(ran.stdout.starts_with("SKIP_FOREIGN_NAMESPACE s-alpha01"), "{ran:?}");
    pruned(&sessions, "PRUNED s-alpha01 expired");
}

#[test]
fn row_59_keys_expire_and_the_agent_lives_on() {
    let (sessions, agent) = with_agent();
    let key = access::make_key(sessions.home.path(), "test");
    let socket = sessions.file(ID, "agent.sock");
    assert_eq!(access::ssh_add(&socket, &["-q", "-t", "1", key.to_str().unwrap()]), Some(0));
    access::wait_until("the key expires", || agent.answers() == Some(1));
    let one = listed(&sessions, "");
    assert_eq!(
        (one["state"].as_str(), one["agent"]["presence"].as_str()),
        (Some("expired"), Some("present"))
    );
    kept(&sessions, "SKIP_AGENT_ALIVE");
}
