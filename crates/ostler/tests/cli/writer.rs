//! Who may write: the daemon if it answers, else whoever holds the lock, and never two.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::Value;
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::agent::{paused, state};
use super::run::{Ran, ostler, ran, run};

/// Something to collect: a dead file of ours, old enough.
pub(crate) fn debris(home: &TempHome) -> PathBuf {
    let directory = state(home);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).unwrap();
    let path = directory.join(".state.1.2.3.tmp");
    std::fs::write(&path, "half written").unwrap();
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(864_000);
    std::fs::File::options().append(true).open(&path).unwrap().set_modified(then).unwrap();
    path
}

const GC: &str = "gc --agent ostler --yes --json";

/// A daemon that does one wrong thing with everybody who connects.
struct FakeDaemon {
    socket: PathBuf,
}

impl FakeDaemon {
    fn start(home: &TempHome, serve: impl Fn(UnixStream) + Send + 'static) -> Self {
        let socket = place(home);
        let listener = UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o600)).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serve(stream);
            }
        });
        Self { socket }
    }
}

impl Drop for FakeDaemon {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Where the daemon listens, its directories made.
fn place(home: &TempHome) -> PathBuf {
    let directory = home.join("run/ostler");
    std::fs::create_dir_all(&directory).unwrap();
    for place in [home.join("run"), directory] {
        std::fs::set_permissions(place, PermissionsExt::from_mode(0o700)).unwrap();
    }
    super::daemon::socket(home)
}

/// Takes an order: reads a request to its end, asking for its body as HTTP does.
fn hear(stream: &mut UnixStream) {
    hear_all(stream);
}

/// As [`hear`], and tells what was heard.
pub(crate) fn hear_all(stream: &mut UnixStream) -> String {
    let mut heard = Vec::new();
    let mut chunk = [0; 4096];
    let mut is_asked_for = false;
    loop {
        let text = String::from_utf8_lossy(&heard).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.unwrap().trim().parse().unwrap();
            if heard.len() >= end + 4 + length {
                return text;
            }
            if !is_asked_for && text.contains("expect: 100-continue") {
                let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
                is_asked_for = true;
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return text,
            Ok(count) => heard.extend(&chunk[..count]),
        }
    }
}

/// A daemon that hears everybody out and says this.
fn saying(home: &TempHome, answer: &'static str) -> FakeDaemon {
    FakeDaemon::start(home, move |mut stream| {
        hear(&mut stream);
        let _ = stream.write_all(answer.as_bytes());
    })
}

fn http(status: &str, body: &str) -> &'static str {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}").leak()
}

#[track_caller]
fn not_done(home: &TempHome, debris: &Path, exit: i32, code: &str) -> Ran {
    let ran = run(home, GC).exits(exit);
    assert_eq!(ran.envelope()["error"]["code"], code, "{ran:?}");
    assert!(debris.exists(), "nothing was done here");
    assert!(!state(home).join("trash").exists());
    ran
}

#[test]
fn no_socket_means_the_lock_and_local_work() {
    let home = TempHome::new();
    let debris = debris(&home);
    assert_eq!(run(&home, GC).exits(0).result()["transport"], "local");
    assert!(!debris.exists());
}

#[test]
fn a_refused_connection_means_the_lock_and_local_work() {
    let home = TempHome::new();
    let debris = debris(&home);
    drop(UnixListener::bind(place(&home)).unwrap());
    assert_eq!(run(&home, GC).exits(0).result()["transport"], "local");
    assert!(!debris.exists());
}

#[test]
fn a_connection_that_is_dropped_before_the_order_is_taken_means_the_lock_and_local_work() {
    let home = TempHome::new();
    let debris = debris(&home);
    let _daemon = FakeDaemon::start(&home, drop);
    assert_eq!(run(&home, GC).exits(0).result()["transport"], "local");
    assert!(!debris.exists());
}

#[test]
fn nonsense_before_the_order_is_taken_is_a_refusal() {
    let home = TempHome::new();
    let debris = debris(&home);
    let _daemon = FakeDaemon::start(&home, |mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"SSH-2.0-OpenSSH\r\n\r\n");
    });
    not_done(&home, &debris, 13, "REFUSED");
}

#[test]
fn a_reset_after_the_request_may_have_applied() {
    let home = TempHome::new();
    let debris = debris(&home);
    let _daemon = FakeDaemon::start(&home, |mut stream| hear(&mut stream));
    not_done(&home, &debris, 14, "MAY_HAVE_APPLIED");
}

#[test]
fn an_answer_that_breaks_off_may_have_applied() {
    let home = TempHome::new();
    let debris = debris(&home);
    let _daemon = saying(&home, "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"answer\":");
    not_done(&home, &debris, 14, "MAY_HAVE_APPLIED");
}

#[test]
fn an_error_of_the_daemon_may_have_applied() {
    let home = TempHome::new();
    let debris = debris(&home);
    let _daemon = saying(&home, http("500 Internal Server Error", ""));
    not_done(&home, &debris, 14, "MAY_HAVE_APPLIED");
}

#[test]
fn nonsense_may_have_applied() {
    let home = TempHome::new();
    let debris = debris(&home);
    for answer in [
        "SSH-2.0-OpenSSH\r\n\r\n",
        http("200 OK", "{}"),
        http("200 OK", "{\"answer\":\"stopping\"}"),
    ] {
        let daemon = saying(&home, answer);
        not_done(&home, &debris, 14, "MAY_HAVE_APPLIED");
        drop(daemon);
    }
}

#[test]
fn a_refusal_is_that_refusal() {
    let home = TempHome::new();
    let debris = debris(&home);
    for status in ["400 Bad Request", "403 Forbidden", "426 Upgrade Required"] {
        let daemon = saying(&home, http(status, "restart it"));
        let ran = not_done(&home, &debris, 13, "REFUSED");
        assert!(ran.stdout.contains("restart it"), "{ran:?}");
        drop(daemon);
    }
}

#[test]
fn what_the_daemon_could_not_do_ends_as_it_would_here() {
    let home = TempHome::new();
    let debris = debris(&home);
    let failure = "{\"answer\":\"notDone\",\"kind\":\"write\",\"message\":\"no room\",\"hint\":\"make some\"}";
    let _daemon = saying(&home, http("200 OK", failure));
    let ran = not_done(&home, &debris, 8, "STORAGE_WRITE_ERROR");
    assert_eq!(ran.envelope()["error"]["hint"], "make some");
}

#[test]
fn a_socket_that_is_not_ours_alone_is_not_spoken_to_and_the_lock_decides() {
    let home = TempHome::new();
    let debris = debris(&home);
    let daemon = saying(&home, http("200 OK", "{}"));
    std::fs::set_permissions(home.join("run/ostler"), PermissionsExt::from_mode(0o777)).unwrap();
    assert_eq!(run(&home, GC).exits(0).result()["transport"], "local");
    assert!(!debris.exists());
    drop(daemon);
}

#[test]
fn the_lock_of_one_that_died_is_taken_over() {
    let home = TempHome::new();
    let debris = debris(&home);
    let pauses = Pauses::new();
    pauses.arm("gc.planned");
    let mut first = paused(&home, &pauses, GC);
    pauses.wait("gc.planned");
    first.kill().unwrap();
    first.wait().unwrap();
    run(&home, GC).exits(0);
    assert!(!debris.exists());
}

#[test]
fn of_ten_at_once_one_writes_and_the_others_name_it() {
    let home = TempHome::new();
    let debris = debris(&home);
    let pauses = Pauses::new();
    pauses.arm("gc.planned");
    let first = paused(&home, &pauses, GC);
    pauses.wait("gc.planned");
    let others: Vec<Child> = (0..9)
        .map(|_| {
            let mut command = ostler(&home);
            command.args(GC.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let (pid, named) = (first.id().to_string(), |other: Child| {
        let output = other.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), answer["error"]["message"].as_str().unwrap_or("").to_owned())
    });
    for other in others {
        let (code, message) = named(other);
        assert_eq!(code, Some(13), "{message}");
        assert!(message.contains(&pid), "{message}");
    }
    pauses.release("gc.planned");
    assert!(first.wait_with_output().unwrap().status.success());
    assert!(!debris.exists());
    let receipts = std::fs::read_dir(state(&home).join("trash")).unwrap().count();
    assert_eq!(receipts, 1, "one of them did it, once");
}

#[test]
fn ten_that_may_wait_all_write_one_after_the_other() {
    let home = TempHome::new();
    let children: Vec<Child> = (0..10)
        .map(|number| {
            let path = debris(&home);
            std::fs::rename(&path, path.with_file_name(format!(".state.{number}.tmp"))).unwrap();
            let mut command = ostler(&home);
            command.args(GC.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    ran(ostler(&home).args(GC.split(' '))).exits(0);
    let left = std::fs::read_dir(state(&home)).unwrap().flatten();
    assert_eq!(
        left.filter(|entry| entry.file_name().to_string_lossy().ends_with(".tmp")).count(),
        0
    );
    let verified = run(&home, "trash verify --json").exits(0).result();
    assert_eq!(
        (&verified["items"], &verified["interrupted"]),
        (&10.into(), &0.into()),
        "each went once"
    );
}

#[test]
fn with_a_daemon_it_is_the_daemon_that_does_it() {
    let home = TempHome::new();
    let debris = debris(&home);
    run(&home, "daemon start").exits(0);
    let result = run(&home, GC).exits(0).result();
    assert_eq!(result["transport"], "daemon", "{result}");
    assert!(!debris.exists());
    run(&home, "undo").exits(0);
    assert!(debris.exists());
    run(&home, "daemon stop").exits(0);
}
