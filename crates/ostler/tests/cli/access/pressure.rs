//! A borrower that floods, idles or fills: with the real ssh-agent, over the wire.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::access::{Sessions, chmod};

use super::run;

/// `SSH_AGENT_FAILURE`, `SSH_AGENT_SUCCESS`, `SSH_AGENT_SIGN_RESPONSE`.
const FAILURE: u8 = 5;
const SIGN_RESPONSE: u8 = 14;

struct Lent {
    sessions: Sessions,
    id: String,
    socket: PathBuf,
    /// The public key, as the agent lists it.
    key: Vec<u8>,
}

fn lend(options: &str) -> Lent {
    let sessions = Sessions::new();
    let opened = run(&sessions, &format!("open --json --ttl 5m --generate {options}"));
    let opened = opened.exits(0).result();
    let socket: PathBuf = opened["environment"]["sshAuthSock"].as_str().unwrap().into();
    let answer = ask(&mut UnixStream::connect(&socket).unwrap(), &[11]).unwrap();
    let length = u32::from_be_bytes(answer[5..9].try_into().unwrap()) as usize;
    let key = answer[9..9 + length].to_vec();
    Lent { sessions, id: opened["id"].as_str().unwrap().to_owned(), socket, key }
}

impl Lent {
    fn sign(&self) -> Vec<u8> {
        let mut message = vec![13];
        for field in [self.key.as_slice(), b"data to be signed"] {
            message.extend(u32::try_from(field.len()).unwrap().to_be_bytes());
            message.extend(field);
        }
        message.extend([0; 4]);
        message
    }

    fn log(&self) -> Vec<Value> {
        let log = run(&self.sessions, &format!("log {} --json", self.id)).exits(0).result();
        log["entries"].as_array().unwrap().clone()
    }

    fn count(&self, event: &str) -> usize {
        self.log().iter().filter(|entry| entry["event"] == event).count()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        run(&self.sessions, &format!("stop {}", self.id));
    }
}

fn ask(stream: &mut UnixStream, message: &[u8]) -> std::io::Result<Vec<u8>> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length, message].concat())?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

#[test]
fn m5_a_thousand_signatures_at_once_are_all_granted() {
    let lent = lend("");
    let granted = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..1000 {
            let one = || {
                let answer = ask(&mut connect(&lent.socket), &lent.sign());
                if answer.is_ok_and(|answer| answer[0] == SIGN_RESPONSE) {
                    granted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            };
            std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(threads, one).unwrap();
        }
    });
    assert_eq!(granted.into_inner(), 1000);
    assert_eq!(lent.count("sign"), 1000, "and each is in the log");
}

#[test]
fn m5_connections_that_ask_nothing_shut_nobody_out() {
    let lent = lend("");
    let mut idle: Vec<UnixStream> = (0..300).map(|_| connect(&lent.socket)).collect();
    // Half a request is no better.
    for stream in idle.iter_mut().step_by(2) {
        stream.write_all(&[0, 0, 0, 200, 13]).unwrap();
    }
    let begun = Instant::now();
    let answer = ask(&mut connect(&lent.socket), &lent.sign()).unwrap();
    assert_eq!(answer[0], SIGN_RESPONSE);
    assert!(begun.elapsed() < Duration::from_secs(45), "{:?}", begun.elapsed());
}

/// A connection is passed to another process: the log names the one that asks.
#[cfg(target_os = "linux")]
#[test]
fn l12_a_signature_is_logged_under_the_process_that_asked_for_it() {
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    let lent = lend("");
    let mut stream = connect(&lent.socket);
    assert_eq!(ask(&mut stream, &lent.sign()).unwrap()[0], SIGN_RESPONSE);
    let passed = OwnedFd::from(stream.try_clone().unwrap());
    let mut child =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::from(passed)).spawn().unwrap();
    let message = lent.sign();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&[&length, message.as_slice()].concat()).unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4], SIGN_RESPONSE);
    let log = lent.log();
    let signed: Vec<&Value> = log.iter().filter(|entry| entry["event"] == "sign").collect();
    assert_eq!(signed[0]["peer"]["pid"], std::process::id(), "{signed:#?}");
    assert_eq!(signed[1]["peer"]["pid"], child.id(), "{signed:#?}");
    assert_eq!(signed[1]["peer"]["comm"], "cat", "{signed:#?}");
    drop(stdin);
    child.wait().unwrap();
}

#[test]
fn m4_refusals_fill_no_log_and_signatures_stay_in_it() {
    let lent = lend("");
    let mut stream = connect(&lent.socket);
    for _ in 0..30_100 {
        assert_eq!(ask(&mut stream, &[17, 1, 2, 3]).unwrap(), [FAILURE]);
    }
    assert_eq!(ask(&mut stream, &lent.sign()).unwrap()[0], SIGN_RESPONSE);
    let log = lent.log();
    let refused: Vec<&Value> = log.iter().filter(|entry| entry["event"] == "refused").collect();
    assert_eq!(refused.len(), 15, "1, 2, 4 … 16384");
    assert_eq!(refused[14]["times"], 16384);
    assert_eq!(log.iter().filter(|entry| entry["event"] == "sign").count(), 1);
    assert_eq!(lent.count("full"), 0);
}

#[test]
fn m4_what_cannot_be_logged_is_not_signed_unless_it_was_said_so() {
    for (options, granted) in [("", false), ("--log best-effort", true)] {
        let lent = lend(options);
        let log = lent.sessions.root().join("access/log").join(format!("{}.jsonl", lent.id));
        // The log is a directory now: no line can be added, whoever asks.
        let aside = log.with_extension("aside");
        fs::rename(&log, &aside).unwrap();
        fs::create_dir(&log).unwrap();
        chmod(&log, 0o700);
        let answer = ask(&mut connect(&lent.socket), &lent.sign()).unwrap();
        assert_eq!(answer[0] == SIGN_RESPONSE, granted, "{options}");
        fs::remove_dir(&log).unwrap();
        fs::rename(&aside, &log).unwrap();
        let answer = ask(&mut connect(&lent.socket), &lent.sign()).unwrap();
        assert_eq!(answer[0], SIGN_RESPONSE, "it signs again as soon as it can be logged");
    }
}

#[test]
fn l9_a_borrower_of_a_read_only_session_removes_no_keys() {
    let lent = lend("");
    let mut stream = connect(&lent.socket);
    let mut remove = vec![18];
    remove.extend(u32::try_from(lent.key.len()).unwrap().to_be_bytes());
    remove.extend(&lent.key);
    for message in [vec![19], vec![9], remove] {
        assert_eq!(ask(&mut stream, &message).unwrap(), [FAILURE]);
    }
    assert_eq!(ask(&mut stream, &lent.sign()).unwrap()[0], SIGN_RESPONSE);
    assert_eq!(lent.count("refused"), 2, "the first and the second");
}
