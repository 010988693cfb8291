//! What is live, or may be, stays: locks of real processes.

use std::time::Duration;

use serde_json::json;

use super::stage::{DAY, Living, SESSIONS, Stage, age, aged};

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
        stage.cleanup("--yes");
        assert_eq!(stage.keys().len(), 0, "{lock}");
        let verified = stage.run("verify --json").result();
        assert!(verified.to_string().contains("stale-lock"), "{verified:#}");
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

#[test]
fn row_73_a_lock_is_found_on_every_way_to_the_store() {
    let living = Living::new();
    let stage = locked(&living.lock());
    let link = stage.home.link("elsewhere", stage.home.join(SESSIONS));
    let line = format!("cleanup --enforce --store {}/sessions.json", link.display());
    stage.run(&line).exits(0);
    assert_eq!(stage.keys(), ["agent:main:direct:s"]);
}
