//! Rows 14 to 26: `agent.env` before its values are trusted.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::access::{ID, Sessions, chmod, chown, is_root};

use super::{kept, run};

const NOT_PRIVATE: &str = "SKIP_AGENT_ENV_NOT_PRIVATE";
const BAD: &str = "SKIP_AGENT_ENV_BAD";

fn without_env() -> (Sessions, std::path::PathBuf) {
    let sessions = Sessions::expired();
    let path = sessions.file(ID, "agent.env");
    fs::remove_file(&path).unwrap();
    (sessions, path)
}

#[test]
fn row_14_missing() {
    kept(&without_env().0, "SKIP_NO_AGENT_ENV");
}

#[test]
fn row_15_readable_to_all() {
    let sessions = Sessions::expired();
    chmod(&sessions.file(ID, "agent.env"), 0o644);
    kept(&sessions, NOT_PRIVATE);
}

#[test]
fn row_16_any_mode_but_0600() {
    for mode in [0o640, 0o601, 0o400, 0o700] {
        let sessions = Sessions::expired();
        chmod(&sessions.file(ID, "agent.env"), mode);
        kept(&sessions, NOT_PRIVATE);
    }
}

#[test]
fn row_17_a_link_to_a_private_file() {
    let (sessions, path) = without_env();
    let target = sessions.home.write("target", "theirs");
    chmod(&target, 0o600);
    symlink(&target, &path).unwrap();
    kept(&sessions, NOT_PRIVATE);
    assert_eq!(fs::read(&target).unwrap(), b"theirs");
}

#[test]
fn row_18_a_fifo_does_not_block() {
    let (sessions, path) = without_env();
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&path).status().unwrap().success());
    let begun = Instant::now();
    assert!(run(&sessions, "prune").exits(0).stdout.starts_with(NOT_PRIVATE));
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[test]
fn row_19_a_directory_a_socket_a_device() {
    let (sessions, path) = without_env();
    fs::create_dir(&path).unwrap();
    kept(&sessions, NOT_PRIVATE);
    let (sessions, path) = without_env();
    let _listener = UnixListener::bind(&path).unwrap();
    chmod(&path, 0o600);
    kept(&sessions, NOT_PRIVATE);
    let (sessions, path) = without_env();
    let made = Command::new("mknod").arg(&path).args(["c", "1", "3"]).output().unwrap();
    if made.status.success() {
        chmod(&path, 0o600);
        kept(&sessions, NOT_PRIVATE);
    } else {
        testkit::access::skipped("no devices can be made here");
    }
}

#[test]
fn row_20_a_second_name() {
    let sessions = Sessions::expired();
    fs::hard_link(sessions.file(ID, "agent.env"), sessions.home.join("twin")).unwrap();
    kept(&sessions, "SKIP_UNSAFE");
}

#[test]
fn row_21_another_owner() {
    if !is_root() {
        return;
    }
    let sessions = Sessions::expired();
    chown(&sessions.file(ID, "agent.env"), 65534);
    kept(&sessions, NOT_PRIVATE);
}

#[test]
fn row_22_what_is_no_pid() {
    for pid in ["-1", "0", "1", "+5", "007", "12a", "", "12345678901234567890"] {
        let sessions = Sessions::expired();
        sessions.put_env(ID, pid);
        kept(&sessions, BAD);
        run(&sessions, &format!("stop {ID}")).exits(4);
    }
}

#[test]
fn row_23_another_pid_than_the_record() {
    let sessions = Sessions::expired();
    sessions.put_env(ID, &std::process::id().to_string());
    kept(&sessions, BAD);
}

#[test]
fn row_24_what_is_no_plain_path() {
    let sessions = Sessions::expired();
    let pid = sessions.meta(ID)["agent"]["pid"].to_string();
    let long = format!("/{}", "x".repeat(199));
    let up = format!("{}/../{ID}/agent.sock", sessions.of(ID).display());
    for socket in ["agent.sock", &up, "/a\nb", "/$(touch x)", &long] {
        let text = format!("SSH_AUTH_SOCK={socket}\nSSH_AGENT_PID={pid}\n");
        sessions.put(ID, "agent.env", text);
        kept(&sessions, BAD);
    }
    assert!(!sessions.home.join("x").exists() && !sessions.file(ID, "x").exists());
}

#[test]
fn row_25_a_socket_outside_is_not_connected_to() {
    let sessions = Sessions::expired();
    let pid = sessions.meta(ID)["agent"]["pid"].to_string();
    let outside = sessions.home.join("outside.sock");
    let listener = UnixListener::bind(&outside).unwrap();
    listener.set_nonblocking(true).unwrap();
    let text = format!("SSH_AUTH_SOCK={}\nSSH_AGENT_PID={pid}\n", outside.display());
    sessions.put(ID, "agent.env", text);
    kept(&sessions, BAD);
    run(&sessions, "list --probe").exits(0);
    run(&sessions, &format!("stop {ID}")).exits(4);
    assert!(listener.accept().is_err(), "nobody came");
}

#[test]
fn row_26_a_line_too_many() {
    let sessions = Sessions::expired();
    let before = fs::read_to_string(sessions.file(ID, "agent.env")).unwrap();
    sessions.put(ID, "agent.env", before + "PATH=/tmp/evil\n");
    kept(&sessions, BAD);
}
