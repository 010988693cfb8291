//! Launch records: kept while their process may be there and a day after, and needed for nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use testkit::home::{Snapshot, TempHome};
use testkit::pause::Pauses;

use super::agent::{paused, state};
use super::collect::{items, kill_at};
use super::run::{Ran, ostler, ran, run};

/// An agent that was started in a terminal. The terminal is destroyed with the value.
struct Launched<'a> {
    home: &'a TempHome,
    session: String,
    record: PathBuf,
}

fn directory(home: &TempHome) -> PathBuf {
    state(home).join("launches")
}

fn records(home: &TempHome) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(directory(home)).into_iter().flatten();
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Starts an agent that does nothing, for long.
fn start<'a>(home: &'a TempHome) -> Launched<'a> {
    let program = home.write("bin/codex", "#!/bin/sh\nexec sleep 600\n");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", home.join("bin").display(), std::env::var("PATH").unwrap());
    let before = records(home);
    let created =
        ran(ostler(home).env("PATH", path).args(["create", "--agent", "codex", "--json"]));
    let session = created.exits(0).result()["sessionId"].as_str().unwrap().to_owned();
    let record = records(home).into_iter().find(|path| !before.contains(path)).unwrap();
    Launched { home, session, record }
}

impl Launched<'_> {
    /// Ends the agent, and waits until the host of its terminal has left.
    fn end(&self) {
        run(self.home, &format!("destroy {} --force", self.session)).exits(0);
        let begun = std::time::Instant::now();
        let host = || run(self.home, "ls -a --json").session(&self.session)["liveness"].clone();
        while host()["state"] != "dead" {
            assert!(begun.elapsed() < Duration::from_secs(30), "its host does not leave");
        }
    }

    fn read(&self) -> Value {
        serde_json::from_slice(&std::fs::read(&self.record).unwrap()).unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut record = self.read();
        change(&mut record);
        std::fs::write(&self.record, record.to_string()).unwrap();
    }

    /// Makes everything look as if it had happened two days ago.
    fn age(&self) {
        let then = SystemTime::now() - Duration::from_secs(2 * 86_400);
        let terminal = state(self.home).join("sessions").join(&self.session);
        for name in ["session.json", "events.jsonl"] {
            set_time(&terminal.join(name), then);
        }
        self.change(|record| record["at"] = json!("2026-01-01T00:00:00.000Z"));
    }

    fn gc(&self, line: &str) -> Value {
        run(self.home, &format!("gc --agent ostler --json {line}")).exits(0).result()
    }
}

impl Drop for Launched<'_> {
    fn drop(&mut self) {
        let _: Ran = run(self.home, &format!("destroy {} --force", self.session));
    }
}

fn set_time(path: &Path, then: SystemTime) {
    std::fs::File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
}

/// The refusal of the one thing that stays.
fn refusal(result: &Value) -> String {
    result["items"][0]["refused"]["refusal"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn a_launch_is_noted_for_its_owner_only() {
    let home = TempHome::new();
    let launched = start(&home);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&launched.record), mode(&directory(&home))), (0o600, 0o700));
    let record = launched.read();
    assert_eq!((&record["agent"], &record["session"]), (&"codex".into(), &json!(launched.session)));
    assert_eq!(record["cwd"], home.path().to_str().unwrap());
    assert_eq!(record["ttlMs"], 86_400_000);
    for field in ["pid", "start", "boot"] {
        assert!(!record["process"][field].is_null(), "{field}: {record}");
    }
    let shown = run(&home, &format!("show {} --json", launched.session)).exits(0).result();
    assert_eq!(shown["launch"]["agent"], "codex");
    assert_eq!(shown["launch"]["pid"], record["process"]["pid"]);
    let text = run(&home, &format!("show {}", launched.session)).exits(0).stdout;
    assert!(text.contains("made for  codex (pid "), "{text}");
    run(&home, "create --json -- /bin/true").exits(0);
    assert_eq!(records(&home).len(), 1, "only agents are noted");
}

#[test]
fn what_it_tells_of_is_alive_and_it_stays() {
    let home = TempHome::new();
    let launched = start(&home);
    launched.age();
    assert_eq!(launched.gc("--yes --older-than 0s")["items"], json!([]));
    run(&home, "finalize").exits(0);
    assert!(launched.record.exists() && !state(&home).join("trash").exists());
}

#[test]
fn dead_and_young_it_stays_and_dead_for_a_day_it_goes_and_comes_back() {
    let home = TempHome::new();
    let launched = start(&home);
    launched.end();
    assert_eq!(launched.gc("--yes")["count"], 0);
    // It was started long ago and has only just ended.
    launched.change(|record| record["at"] = json!("2026-01-01T00:00:00.000Z"));
    assert_eq!(launched.gc("--yes")["count"], 0);
    launched.age();
    let before = Snapshot::of(&launched.record);
    let preview = launched.gc("");
    let item = &preview["items"][0];
    assert_eq!((&item["action"], &item["kind"]), (&"wouldGo".into(), &"launchRecord".into()));
    assert_eq!(item["session"], launched.session.as_str());
    assert!(item["ageMs"].as_u64().unwrap() > 86_400_000, "{item}");
    let result = launched.gc("--yes");
    assert_eq!(items(&result, "trashed"), [launched.record.to_str().unwrap()], "{result}");
    assert!(!launched.record.exists());
    run(&home, "trash verify").exits(0);
    run(&home, "undo").exits(0);
    assert_eq!(before.changes(&Snapshot::of(&launched.record)), Vec::<String>::new());
}

#[test]
fn what_cannot_be_seen_from_here_stays() {
    let changes: [fn(&mut Value); 4] = [
        |record| {
            record["process"]["machine"] = json!({"hashed": "another"});
            record["process"]["boot"] = json!({"id": "another"});
        },
        |record| record["process"]["pidNs"] = json!(1),
        |record| record["process"]["boot"] = Value::Null,
        |record| record["process"] = json!({}),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let home = TempHome::new();
        let launched = start(&home);
        launched.end();
        launched.age();
        launched.change(change);
        for line in ["", "--yes"] {
            let result = launched.gc(line);
            assert_eq!(refusal(&result), "unproven", "{number} {line}: {result}");
        }
        run(&home, "finalize").exits(0);
        assert!(launched.record.exists());
    }
}

#[test]
fn another_process_with_its_number_is_not_it() {
    let home = TempHome::new();
    let launched = start(&home);
    launched.end();
    launched.age();
    // A number that somebody has: this test.
    launched.change(|record| record["process"]["pid"] = json!(std::process::id()));
    let result = launched.gc("--yes");
    assert_eq!(items(&result, "trashed").len(), 1, "{result}");
    assert!(result["items"][0]["evidence"][0].as_str().unwrap().contains("reused"), "{result}");
}

#[test]
fn a_damaged_record_is_named_and_kept() {
    let home = TempHome::new();
    let launched = start(&home);
    launched.end();
    launched.age();
    let whole = std::fs::read(&launched.record).unwrap();
    for broken in [&b""[..], &whole[..whole.len() / 2], b"null", b"{\"version\":1}", b"\xff\xfe"] {
        std::fs::write(&launched.record, broken).unwrap();
        let result = launched.gc("--yes");
        assert_eq!(refusal(&result), "unreadable", "{result}");
        assert_eq!(result["items"][0]["path"], launched.record.to_str().unwrap());
        run(&home, "finalize").exits(0);
        assert_eq!(std::fs::read(&launched.record).unwrap(), broken);
    }
    let text = run(&home, "gc").exits(0).stdout;
    assert!(text.contains("the record is damaged"), "{text}");
}

#[test]
fn killed_at_any_point_no_record_is_lost() {
    for point in ["gc.planned", "reap.recheck", "reap.begun", "reap.moved", "reap.done"] {
        let home = TempHome::new();
        let launched = [start(&home), start(&home)];
        for one in &launched {
            one.end();
            one.age();
        }
        let objects = launched.each_ref().map(|one| one.record.clone());
        let before = objects.each_ref().map(|path| Snapshot::of(path));
        kill_at(point, &home, "gc --agent ostler --yes --json", &objects, &before);
    }
}

#[test]
fn a_sweep_takes_what_is_due_and_nothing_is_lost_when_it_is_killed() {
    for point in ["launches.planned", "reap.recheck", "reap.begun", "reap.moved", "reap.done"] {
        let home = TempHome::new();
        let (due, kept) = (start(&home), start(&home));
        due.end();
        due.age();
        let before = Snapshot::of(&due.record);
        assert_eq!(run(&home, "finalize --dry-run --json").exits(0).result()["launches"], 1);
        let pauses = Pauses::new();
        pauses.arm(point);
        let mut child = paused(&home, &pauses, "finalize --json");
        pauses.wait(point);
        child.kill().unwrap();
        child.wait().unwrap();
        run(&home, "trash verify").exits(0);
        run(&home, "finalize").exits(0);
        assert!(!due.record.exists() && kept.record.exists(), "{point}");
        let again = run(&home, "finalize --json").exits(0).result();
        assert_eq!(again.get("launches"), None, "{point}: {again}");
        while run(&home, "undo --json").code == 0 {}
        assert_eq!(before.changes(&Snapshot::of(&due.record)), Vec::<String>::new(), "{point}");
    }
}

#[test]
fn the_last_look_asks_for_the_process_again() {
    let home = TempHome::new();
    let (due, alive) = (start(&home), start(&home));
    due.end();
    due.age();
    let pauses = Pauses::new();
    pauses.arm("gc.planned");
    let child = paused(&home, &pauses, "gc --agent ostler --yes --json");
    pauses.wait("gc.planned");
    std::fs::copy(&alive.record, &due.record).unwrap();
    pauses.release("gc.planned");
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(refusal(&answer["result"]), "alive", "{answer}");
    assert!(due.record.exists());
}

#[test]
fn a_sweep_without_anything_due_leaves_no_receipt() {
    let home = TempHome::new();
    let launched = start(&home);
    launched.end();
    run(&home, "finalize").exits(0);
    assert!(launched.record.exists() && !state(&home).join("trash").exists());
}

/// Everything that is said about sessions, without what differs with the time of asking.
fn verdicts(home: &TempHome) -> Vec<Value> {
    let mut sessions = run(home, "ls -a --json").exits(0).sessions();
    for session in &mut sessions {
        session.as_object_mut().unwrap().retain(|key, _| key != "lastActivityAt");
    }
    sessions.sort_by_key(|session| session["id"].to_string());
    sessions
}

#[test]
fn without_the_records_every_verdict_is_the_same() {
    let home = TempHome::new();
    let (alive, dead) = (start(&home), start(&home));
    dead.end();
    let plan = || run(&home, "gc --older-than 0s --json").exits(0).result()["items"].clone();
    let terminals = |plan: Value| -> Vec<Value> {
        let items = plan.as_array().unwrap().iter();
        items
            .filter(|item| item["kind"] == "hostedSession")
            .map(|item| item["path"].clone())
            .collect()
    };
    let (before, planned) = (verdicts(&home), terminals(plan()));
    assert_eq!(before.len(), 2);
    std::fs::remove_file(&dead.record).unwrap();
    assert_eq!(verdicts(&home), before);
    std::fs::remove_dir_all(directory(&home)).unwrap();
    assert_eq!(verdicts(&home), before);
    assert_eq!(terminals(plan()), planned);
    run(&home, "finalize").exits(0);
    run(&home, &format!("show {}", alive.session)).exits(0);
}

#[test]
fn how_long_records_are_kept_is_a_strict_setting() {
    let home = TempHome::new();
    let shown = run(&home, "config show").exits(0).stdout;
    assert!(shown.contains("retention.launches = \"1d\""), "{shown}");
    home.write(".config/ostler/config.toml", "[retention]\nlaunches = \"soon\"\n");
    assert!(run(&home, "config check").exits(2).stderr.contains("retention.launches"));
    home.write(".config/ostler/config.toml", "[retention]\nlaunches = \"1h\"\n");
    run(&home, "config check").exits(0);
    assert_eq!(start(&home).read()["ttlMs"], 3_600_000);
}

#[test]
fn the_record_of_a_pinned_terminal_stays_and_what_a_killed_writer_left_goes() {
    let home = TempHome::new();
    let launched = start(&home);
    launched.end();
    launched.age();
    run(&home, &format!("pin {}", launched.session)).exits(0);
    let half = directory(&home).join(".1-2.json.3.4.5.tmp");
    std::fs::write(&half, "{").unwrap();
    set_time(&half, SystemTime::now() - Duration::from_secs(86_400));
    let result = launched.gc("--yes");
    assert_eq!(items(&result, "trashed"), [half.to_str().unwrap()], "{result}");
    let stays = result["items"].as_array().unwrap().iter().find(|item| item["action"] == "stays");
    assert_eq!(stays.unwrap()["refused"]["refusal"], "pinned", "{result}");
    run(&home, "finalize").exits(0);
    assert!(launched.record.exists());
}
