//! What is live, or may be, stays: locks of real processes.

use std::time::Duration;

use serde_json::{Value, json};

use super::faults::{killed_at, meanwhile};
use super::stage::{DAY, Living, SESSIONS, Stage, age, aged, run};

fn locked(lock: &str) -> Stage {
    let stage = Stage::new();
    let mut entry = aged("s", 90 * DAY);
    entry["status"] = "running".into();
    stage
        .index(&[("agent:main:direct:s", entry), ("agent:main:direct:other", aged("o", 90 * DAY))]);
    stage.transcript("s");
    stage.transcript("o");
    stage.write("s.jsonl.lock", lock);
    stage.maintenance(json!({ "maxEntries": 1, "maxDiskBytes": 1 }));
    stage
}

#[test]
fn row_26_and_72_a_session_that_a_live_process_writes_stays() {
    let living = Living::new();
    let stage = locked(&living.lock());
    let store = stage.cleanup("--yes --fix-missing -a");
    assert_eq!(stage.keys(), ["agent:main:direct:s"]);
    assert!(stage.path("s.jsonl").exists() && stage.path("s.jsonl.lock").exists());
    let items = store["items"].as_array().unwrap();
    let kept = items.iter().find(|item| item["id"] == "agent:main:direct:s").unwrap();
    assert_eq!(kept["reason"], "a live process works on it");
}

#[test]
fn row_27_a_live_session_stays_under_both_its_keys() {
    let living = Living::new();
    let stage = locked(&living.lock());
    stage.index(&[("one", aged("s", 90 * DAY)), ("two", aged("s", 91 * DAY))]);
    stage.cleanup("--yes");
    assert_eq!(stage.keys(), ["one", "two"]);
}

#[test]
fn row_28_a_live_session_of_one_store_protects_nothing_in_another() {
    let living = Living::new();
    let stage = locked(&living.lock());
    let other = ".openclaw/agents/ops/sessions";
    let entry = json!({ "agent:ops:direct:s": aged("s", 90 * DAY) });
    stage.home.write(format!("{other}/sessions.json"), entry.to_string());
    stage.run("cleanup --yes --agent ops --json").exits(0);
    assert_eq!(stage.home.read(format!("{other}/sessions.json")), b"{}");
    assert_eq!(stage.keys().len(), 2, "the other store is not touched");
}

#[test]
fn row_70_a_lock_that_nobody_holds_protects_nothing() {
    let mut living = Living::new();
    let recycled = living.lock().replace("\"starttime\":", "\"starttime\":1");
    let dead = {
        let gone = Living::new();
        gone.lock()
    };
    for lock in [recycled, dead] {
        let stage = locked(&lock);
        let verified = stage.run("verify --json").result();
        assert!(verified.to_string().contains("stale-lock"), "{verified:#}");
        stage.cleanup("--yes");
        assert_eq!(stage.keys().len(), 0, "{lock}");
        assert!(!stage.path("s.jsonl.lock").exists(), "it was taken over, and let go of");
    }
    assert!(living.0.try_wait().unwrap().is_none());
}

#[test]
fn row_71_a_lock_that_names_nobody_protects_while_it_is_fresh() {
    let stage = locked("{}");
    // A clock of this machine in a test that waits for nothing: the lock is made anew right before.
    stage.write("s.jsonl.lock", "{}");
    stage.cleanup("--yes");
    assert_eq!(stage.keys(), ["agent:main:direct:s"]);
    age(&stage.path("s.jsonl.lock"), Duration::from_secs(120));
    stage.cleanup("--yes");
    assert_eq!(stage.keys().len(), 0);
}

/// Two transcripts that no entry leads to, and that the budget takes.
fn orphans() -> Stage {
    let stage = Stage::new();
    stage.index(&[("agent:main:main", aged("m", 0))]);
    for name in ["one", "two"] {
        age(&stage.transcript(name), Duration::from_secs(9000));
    }
    stage.maintenance(json!({ "maxDiskBytes": 1 }));
    stage
}

fn locks(stage: &Stage) -> Vec<String> {
    stage.names().into_iter().filter(|name| name.ends_with(".lock")).collect()
}

#[test]
fn a_transcript_is_locked_while_it_is_moved() {
    let stage = orphans();
    let ran = meanwhile(&stage, "cleanup --yes --json", "store.locked", || {
        let [lock] = &locks(&stage)[..] else { panic!("{:?}", stage.names()) };
        // What OpenClaw does to write: it makes the file, or finds a live process in it.
        let made = std::fs::File::options().write(true).create_new(true).open(stage.path(lock));
        assert!(made.is_err());
        let held: Value =
            serde_json::from_slice(&std::fs::read(stage.path(lock)).unwrap()).unwrap();
        let pid = u32::try_from(held["pid"].as_u64().unwrap()).unwrap();
        let start = sys::proc::identify_process(pid).unwrap().start;
        assert!(start.is_some() && held["starttime"].as_u64() == start, "{held}");
    });
    assert_eq!(ran.exits(0).result()["stores"][0]["diskBudget"]["removedFiles"], 2);
    assert_eq!(locks(&stage), Vec::<String>::new());
}

#[test]
fn a_transcript_that_somebody_begins_to_write_is_not_moved() {
    let living = Living::new();
    let stage = orphans();
    let ran = meanwhile(&stage, "cleanup --yes --json", "store.planned", || {
        stage.write("one.jsonl.lock", living.lock());
    });
    let result = ran.exits(0).result();
    let items = result["stores"][0]["items"].as_array().unwrap();
    let one = items.iter().find(|item| item["id"] == "one.jsonl").unwrap();
    assert_eq!((&one["action"], &one["refused"]["refusal"]), (&json!("skip"), &json!("busy")));
    assert!(stage.path("one.jsonl").exists() && !stage.path("two.jsonl").exists());
    assert_eq!(locks(&stage), ["one.jsonl.lock"]);
}

#[test]
fn a_lock_that_a_kill_leaves_behind_is_let_go_of_by_the_next_run() {
    for point in ["store.locked", "reap.recheck", "reap.begun", "reap.moved", "reap.done"] {
        let stage = orphans();
        killed_at(&stage, "cleanup --yes", point);
        assert_eq!(locks(&stage).len(), 1, "{point}");
        stage.run("cleanup --yes").exits(0);
        assert_eq!(stage.names(), ["sessions.json"], "{point}");
        let undone = |_: usize| run(&stage.home, "undo").code == 0;
        assert!((0..4).take_while(|at| undone(*at)).count() > 0, "{point}");
        assert_eq!(stage.names(), ["one.jsonl", "sessions.json", "two.jsonl"], "{point}");
        run(&stage.home, "trash verify").exits(0);
    }
    // One of OpenClaw's own is its business when nothing is to be moved.
    let stage = Stage::new();
    stage.index(&[("agent:main:main", aged("m", 0))]);
    stage.transcript("m");
    stage.write("m.jsonl.lock", Living::new().lock());
    stage.cleanup("--yes");
    assert_eq!(locks(&stage), ["m.jsonl.lock"]);
}

#[test]
fn row_73_a_lock_is_found_on_every_way_to_the_store() {
    let living = Living::new();
    let stage = locked(&living.lock());
    let link = stage.home.link("elsewhere", stage.home.join(SESSIONS));
    let line = format!("cleanup --enforce --store {}/sessions.json", link.display());
    stage.run(&line).exits(0);
    assert_eq!(stage.keys(), ["agent:main:direct:s"]);
}
