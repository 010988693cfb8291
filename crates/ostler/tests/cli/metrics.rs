//! Metrics: valid text, no series that grows with sessions, counts that never go back.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use testkit::home::TempHome;

use super::agent::Agent;
use super::daemon::{Daemon, socket};
use super::run::{ostler, run, sample_home};

/// A webhook that nothing sends, in the daemonless home of a test.
#[test]
fn a_webhook_is_measured_by_what_is_still_before_it() {
    let home = TempHome::new();
    run(&home, "webhook add --url http://127.0.0.1:1/").exits(0);
    run(&home, "fuse set --dir . --after 1h --do event").exits(0);
    let samples = parse(&run(&home, "metrics").exits(0).stdout);
    let of = |name: &str| {
        let mut found = samples.iter().filter(|(series, _)| series.starts_with(name));
        let (series, value) = found.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(series.contains("webhook=\""), "{series}");
        *value
    };
    assert!(of("ostler_webhook_backlog").abs() < f64::EPSILON, "nothing has happened since");
    assert!(of("ostler_webhook_oldest_seconds").abs() < f64::EPSILON);
    assert!(of("ostler_webhook_tries_total").abs() < f64::EPSILON);
    // A lock that is taken over leaves an event.
    run(&home, "lock . --by ada").exits(0);
    run(&home, "lock . --by bob --steal").exits(0);
    let samples = parse(&run(&home, "metrics").exits(0).stdout);
    let behind = samples.iter().find(|(series, _)| series.starts_with("ostler_webhook_backlog"));
    assert!(*behind.unwrap().1 >= 1.0, "{samples:?}");
}

const ID: &str = "11111111-1111-4111-8111-111111111111";

/// Reads the exposition format as its specification has it, and fails on whatever is not in it.
#[track_caller]
fn parse(text: &str) -> BTreeMap<String, f64> {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    assert!(text.ends_with('\n'));
    let (mut samples, mut typed, mut helped) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty() && helped.insert(name.to_owned()), "{line}");
            current = name.to_owned();
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, current, "{line}");
            assert!(typed.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        assert!(is_name(name), "{line}");
        let kind = typed[&current].as_str();
        match kind {
            "histogram" => assert!(name.starts_with(current.as_str()), "{line}"),
            _ => assert_eq!(name, current, "{line}"),
        }
        assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        if let Some(labels) = series[name.len()..].strip_prefix('{') {
            let labels = labels.strip_suffix("\"}").unwrap();
            for label in labels.split("\",") {
                let (key, value) = label.split_once("=\"").unwrap();
                assert!(is_name(key) && !value.contains(['"', '/']), "{line}");
            }
        }
        let value: f64 = value.parse().unwrap();
        assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
    }
    samples
}

#[test]
fn row_87_the_text_is_valid_and_no_id_path_or_text_is_a_label() {
    let home = sample_home();
    let ran = run(&home, "metrics");
    assert!([0, 12].contains(&ran.code), "{ran:?}");
    let samples = parse(&ran.stdout);
    let sessions: f64 = samples
        .iter()
        .filter(|(series, _)| series.starts_with("ostler_sessions{"))
        .map(|(_, count)| count)
        .sum();
    let listed = run(&home, "ls -a --json").sessions();
    assert_eq!(sessions, listed.len() as f64);
    for session in &listed {
        let id = session["id"].as_str().unwrap();
        assert!(id.len() < 8 || !ran.stdout.contains(id), "{id} is in a label");
    }
    assert!(!ran.stdout.contains(home.path().to_str().unwrap()));
    assert!(samples.keys().any(|series| series.starts_with("ostler_build_info{version=\"")));
    assert!(samples.keys().any(|series| series.starts_with("ostler_tokens_total{")));
    let broken = home.write(".codex/sessions/2026/11/15/rollout-x.jsonl", "{");
    std::fs::set_permissions(&broken, PermissionsExt::from_mode(0o000)).unwrap();
    parse(&run(&home, "metrics").stdout);
}

#[test]
fn row_88_counts_go_on_from_the_store_after_a_restart_and_never_go_back() {
    let home = TempHome::new();
    let turns = |home: &TempHome, end: &str| {
        let samples = parse(&run(home, "metrics").exits(0).stdout);
        let series = format!("ostler_turns_total{{agent=\"claude-code\",end=\"{end}\"}}");
        samples.get(&series).copied().unwrap_or_default()
    };
    let daemon = Daemon::start(&home);
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    agent.hook("Stop", json!({}));
    agent.hook("Stop", json!({"agent_id": "sub"}));
    agent.hook("UserPromptSubmit", json!({"prompt": "again"}));
    agent.hook("StopFailure", json!({}));
    run(&home, "finalize").exits(0);
    assert_eq!((turns(&home, "answered"), turns(&home, "failed")), (1.0, 1.0));
    daemon.kill();
    assert_eq!(turns(&home, "answered"), 1.0, "without a daemon, too");
    agent.hook("Stop", json!({}));
    agent.kill();
    let _daemon = Daemon::start(&home);
    run(&home, "finalize").exits(0);
    assert_eq!((turns(&home, "answered"), turns(&home, "failed")), (2.0, 1.0));
    let samples = parse(&run(&home, "metrics").exits(0).stdout);
    let ended = "ostler_session_duration_seconds_count{agent=\"claude-code\"}";
    assert_eq!(samples[ended], 1.0);
    // It comes back and ends again: that is one more end, not one less.
    let mut again = Agent::start(&home, ID);
    again.begin();
    run(&home, "finalize").exits(0);
    assert_eq!(parse(&run(&home, "metrics").exits(0).stdout)[ended], 1.0);
    again.hook("SessionEnd", json!({"reason": "exit"}));
    run(&home, "finalize").exits(0);
    assert_eq!(parse(&run(&home, "metrics").exits(0).stdout)[ended], 2.0);
}

#[test]
fn the_daemon_serves_the_same_on_its_socket() {
    let home = TempHome::new();
    let _daemon = Daemon::start(&home);
    let mut stream = UnixStream::connect(socket(&home)).unwrap();
    stream.write_all(b"GET /v1/metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("version=0.0.4"), "{head}");
    assert_eq!(body, run(&home, "metrics").exits(0).stdout);
}

/// A listener that ends with the value.
struct Listener(Child, String);

impl Listener {
    fn start(home: &TempHome) -> Self {
        let mut command = ostler(home);
        command.args(["metrics", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        Self(child, address)
    }

    fn ask(&self, head: &str) -> String {
        let mut stream = TcpStream::connect(&self.1).unwrap();
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_listener_answers_only_loopback_names_with_the_token() {
    let home = TempHome::new();
    let listener = Listener::start(&home);
    let file = home.join(".local/state/ostler/metrics.token");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(&file).unwrap();
    let get = "GET /metrics HTTP/1.1\r\nhost: localhost";
    assert!(listener.ask(get).starts_with("HTTP/1.1 401"));
    let wrong = format!("{get}\r\nauthorization: Bearer {}", "0".repeat(token.len()));
    assert!(listener.ask(&wrong).starts_with("HTTP/1.1 401"));
    let rebound =
        format!("GET /metrics HTTP/1.1\r\nhost: evil.example\r\nauthorization: Bearer {token}");
    assert!(listener.ask(&rebound).starts_with("HTTP/1.1 403"));
    let right = listener.ask(&format!("{get}\r\nauthorization: Bearer {token}"));
    assert!(right.starts_with("HTTP/1.1 200"), "{right}");
    parse(right.split_once("\r\n\r\n").unwrap().1);
    drop(listener);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let refused = run(&home, "metrics --listen 127.0.0.1:0").exits(8);
    assert!(refused.stderr.contains("metrics.token"), "{refused:?}");
}

#[test]
fn a_listener_without_a_descriptor_left_waits_for_one() {
    let home = TempHome::new();
    let mut command = ostler(&home);
    command.env("OSTLER_LOG", "warn").args(["metrics", "--listen", "127.0.0.1:0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    let address = first.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let listener = Listener(child, address);
    let limit_to = |limit: &str| {
        let pid = listener.0.id().to_string();
        let set =
            Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={limit}:")]).status();
        set.is_ok_and(|status| status.success())
    };
    if !limit_to("3") {
        return;
    }
    // It waits in the queue of the listener, whether that accepts or not.
    let mut stream = TcpStream::connect(&listener.1).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let refused = said.next().expect("it ended").unwrap();
    assert!(refused.contains("no connection can be accepted"), "{refused}");
    assert!(limit_to("64"));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}
