//! Being told of sessions: real files, real processes, no waiting for a clock.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use model::config::OstlerConfig;
use model::session::SessionName;
use ostler_flows as flows;
use testkit::home::TempHome;
use testkit::machine::FakeMachine;

use flows::live::{LiveFeed, LiveSessions, LiveSource, LiveUpdate};
use flows::observe::ObserveScope;

const ID: &str = "11111111-1111-4111-8111-111111111111";
const SOON: Duration = Duration::from_secs(10);

fn source(home: &TempHome) -> LiveSource {
    std::fs::create_dir_all(home.join("ostler")).unwrap();
    let fake = FakeMachine::new().with_state(home.join("ostler"));
    fake.set_variable("HOME", home.path());
    LiveSource {
        machine: fake.machine(),
        config: OstlerConfig::default(),
        use_index: false,
        scope: ObserveScope::All,
        agents: Vec::new(),
        problems: Vec::new(),
    }
}

fn transcript(home: &TempHome, id: &str, text: &str) -> PathBuf {
    let line = serde_json::json!({
        "type": "user", "sessionId": id, "cwd": "/repo", "uuid": "a", "parentUuid": null,
        "timestamp": "2026-11-01T10:00:00.000Z",
        "message": { "role": "user", "content": text },
    });
    home.write(format!(".claude/projects/-repo/{id}.jsonl"), format!("{line}\n"))
}

/// The first look, and the second that follows it for what was not watched yet.
fn settled(live: &mut LiveSessions) -> LiveUpdate {
    let first = live.next_change(Some(SOON), None).unwrap().unwrap();
    assert!(first.is_first);
    while live.next_change(Some(Duration::from_millis(300)), None).unwrap().is_some() {}
    first
}

fn name(id: &str) -> SessionName {
    SessionName::new("claude-code", id)
}

struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_session_that_appears_changes_and_goes_is_told_each_time() {
    let home = TempHome::new();
    transcript(&home, ID, "hello");
    let mut live = LiveSessions::new(source(&home));
    let first = settled(&mut live);
    assert_eq!(first.observation.sessions.len(), 1);

    let other = "22222222-2222-4222-8222-222222222222";
    transcript(&home, other, "another");
    let update = live.next_change(Some(SOON), None).unwrap().unwrap();
    assert_eq!((update.changed, update.gone), (vec![name(other)], vec![]));

    home.append(format!(".claude/projects/-repo/{ID}.jsonl"), "{}\n");
    let update = live.next_change(Some(SOON), None).unwrap().unwrap();
    assert_eq!((update.changed, update.gone), (vec![name(ID)], vec![]));

    home.remove(format!(".claude/projects/-repo/{other}.jsonl"));
    let update = live.next_change(Some(SOON), None).unwrap().unwrap();
    assert_eq!((update.changed, update.gone), (vec![], vec![name(other)]));
}

#[test]
fn an_agent_whose_directory_was_never_there_is_noticed() {
    let home = TempHome::new();
    let mut live = LiveSessions::new(source(&home));
    assert!(settled(&mut live).observation.sessions.is_empty());
    // Made one after the other, as a program does: each must be under watch before the next is there,
    // or be looked at after it is.
    transcript(&home, ID, "hello");
    let update = live.next_change(Some(SOON), None).unwrap().unwrap();
    assert_eq!(update.changed, vec![name(ID)]);
}

#[test]
fn the_end_of_an_owner_is_told_without_any_file_changing() {
    let home = TempHome::new();
    let program = home.join("bin/claude");
    std::fs::create_dir_all(home.join("bin")).unwrap();
    std::fs::copy("/bin/sleep", &program).unwrap();
    let repository = home.directory("repo");
    let mut agent = Sleeper(
        Command::new(&program)
            .arg("1000")
            .env_clear()
            .env("HOME", home.path())
            .current_dir(&repository)
            .spawn()
            .unwrap(),
    );
    transcript(&home, ID, "hello");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", agent.0.id())).unwrap();
    let start = stat[stat.rfind(')').unwrap() + 2..].split(' ').nth(19).unwrap().to_owned();
    let registration = serde_json::json!({
        "pid": agent.0.id(), "sessionId": ID, "cwd": repository, "procStart": start,
        "startedAt": 1_800_000_000_000_u64, "version": "2.1.325", "kind": "interactive",
        "status": "busy", "statusUpdatedAt": 1_800_000_000_000_u64,
    });
    home.write(format!(".claude/sessions/{}.json", agent.0.id()), registration.to_string());
    let mut live = LiveSessions::new(source(&home));
    let first = settled(&mut live);
    let alive = |update: &LiveUpdate| {
        let mut all = update.observation.sessions.iter();
        all.find(|one| one.session.id == ID).unwrap().verdict.liveness.is_alive()
    };
    assert!(alive(&first), "{:?}", first.observation.sessions);
    let began = Instant::now();
    agent.0.kill().unwrap();
    let update = live.next_change(Some(SOON), None).unwrap().unwrap();
    assert!(began.elapsed() < SOON / 2);
    assert_eq!(update.changed, vec![name(ID)]);
    assert!(!alive(&update));
}

#[test]
fn looking_is_no_reason_to_look_again() {
    let home = TempHome::new();
    transcript(&home, ID, "hello");
    // A state in which reading leaves files beside the database.
    drop(store::state::StateStore::open(&{
        let ostler = home.join("ostler");
        std::fs::create_dir_all(&ostler).unwrap();
        ostler
    }));
    let mut live = LiveSessions::new(source(&home));
    settled(&mut live);
    live.look_now();
    assert_eq!(live.time_left(), None, "nothing is due");
    assert!(live.next_change(Some(Duration::from_millis(200)), None).unwrap().is_none());
    assert_eq!(live.time_left(), None, "and nothing came of having looked");
}

#[test]
fn row_28_many_changes_at_once_are_one_update() {
    let home = TempHome::new();
    transcript(&home, ID, "hello");
    let mut live = LiveSessions::new(source(&home));
    settled(&mut live);
    let ids: Vec<String> =
        (0..50).map(|n| format!("33333333-3333-4333-8333-3333333333{n:02}")).collect();
    for id in &ids {
        transcript(&home, id, "hello");
    }
    let update = live.next_change(Some(SOON), None).unwrap().unwrap();
    assert_eq!(update.changed.len(), 50, "as after a stop or a sleep: one refresh tells all");
}

/// Waits for the next update.
fn next_update(feed: &LiveFeed) -> LiveUpdate {
    loop {
        if let Some(update) = feed.take_update().unwrap() {
            return update;
        }
        sys::watch::poll_readable(&[feed.descriptor()], None).unwrap();
    }
}

#[test]
fn a_feed_keeps_one_update_for_whoever_is_slow() {
    let home = TempHome::new();
    transcript(&home, ID, "hello");
    let feed = LiveFeed::start(source(&home)).unwrap();
    assert!(next_update(&feed).is_first);
    let wanted = ["4", "5"].map(|n| ID.replace('1', n));
    for id in &wanted {
        transcript(&home, id, "hello");
        std::thread::sleep(Duration::from_millis(400));
    }
    let update = next_update(&feed);
    let mut changed: Vec<String> = update.changed.into_iter().map(|name| name.id).collect();
    changed.sort();
    assert_eq!(changed, wanted, "both looks are in it");
    assert!(feed.take_update().unwrap().is_none());
}

/// A watch for each of some thousand directories: the rest is looked at every minute, and that is said.
#[test]
fn what_the_system_does_not_tell_of_is_said() {
    let home = TempHome::new();
    let number = |n: usize| format!("{n:08}-1111-4111-8111-111111111111");
    for n in 0..4200 {
        let line = serde_json::json!({
            "type": "user", "sessionId": number(n), "cwd": "/repo", "uuid": "a",
            "timestamp": "2026-11-01T10:00:00.000Z",
            "message": { "role": "user", "content": "hello" },
        });
        let path = format!(".claude/projects/-repo-{n}/{}.jsonl", number(n));
        home.write(path, format!("{line}\n"));
    }
    let mut live = LiveSessions::new(source(&home));
    let first = live.next_change(Some(SOON), None).unwrap().unwrap();
    match (&first.untold, &first.asks_because) {
        (Some(untold), None) => {
            assert!(untold.contains("directories beyond the first 4096"), "{untold}");
        }
        // There are fewer watches than that.
        (_, Some(asks)) => assert!(asks.contains("inotify"), "{asks}"),
        (None, None) => panic!("nothing is said of what is not told"),
    }
}

#[test]
fn the_end_of_a_talk_is_the_same_however_much_of_it_is_read() {
    const MOST: usize = 60;
    let home = TempHome::new();
    let line = |n: usize, size: usize| {
        let line = serde_json::json!({
            "type": "user", "sessionId": ID, "cwd": "/repo", "uuid": n.to_string(),
            "timestamp": "2026-11-01T10:00:00.000Z",
            "message": { "role": "user", "content": format!("{n} {}", "x".repeat(size)) },
        });
        format!("{line}\n")
    };
    // Many short entries; fewer than wanted in the first part of the end; few in all.
    for (count, size) in [(20_000, 10), (400, 40_000), (5, 400_000), (3, 10)] {
        let text: String = (0..count).map(|n| line(n, size)).collect();
        home.write(format!(".claude/projects/-repo/{ID}.jsonl"), text);
        let update = LiveSessions::new(source(&home)).look_now();
        let transcript = update.observation.sessions[0].source.as_ref().unwrap();
        let mut all = Vec::new();
        let mut keep = |entry| all.push(entry);
        flows::converse::read_conversation("claude-code", transcript, 0, &mut keep).unwrap();
        let end = flows::converse::read_talk_end("claude-code", transcript, MOST).unwrap();
        assert_eq!(end.len(), count.min(MOST));
        assert!(end[..] == all[all.len() - end.len()..], "{count} entries of {size}");
    }
}
