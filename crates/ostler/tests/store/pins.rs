//! What is pinned stays in a store, whatever its policy says.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::gateway::{FakeGateway, Manner, TOKEN};
use testkit::pause::Pauses;

use super::stage::{DAY, Stage, age, aged, run};

/// A pinned session of OpenClaw's, one as old that is not, and a new one.
fn three() -> Stage {
    let stage = Stage::new();
    stage.index(&[
        ("agent:main:direct:kept", aged("kept", 40 * DAY)),
        ("agent:main:direct:new", aged("new", 0)),
        ("agent:main:direct:old", aged("old", 31 * DAY)),
    ]);
    stage.transcript("kept");
    stage.transcript("old");
    run(&stage.home, "pin openclaw:kept").exits(0);
    stage
}

#[test]
fn neither_age_nor_cap_nor_budget_takes_a_pinned_entry() {
    let (kept, new) = ("agent:main:direct:kept", "agent:main:direct:new");
    for (maintenance, left) in [
        (json!({ "mode": "enforce" }), vec![kept, new]),
        (json!({ "mode": "enforce", "pruneAfter": "90d", "maxEntries": 2 }), vec![kept, new]),
        (json!({ "mode": "enforce", "pruneAfter": "90d", "maxDiskBytes": 1 }), vec![kept]),
    ] {
        let stage = three();
        stage.maintenance(maintenance.clone());
        let shown = stage.cleanup("--dry-run -a");
        let items = shown["items"].as_array().unwrap();
        let kept = items.iter().find(|item| item["session"] == "kept").unwrap();
        assert_eq!((&kept["action"], &kept["reason"]), (&"keep".into(), &"pinned".into()));
        stage.run("cleanup --yes").exits(0);
        assert_eq!(stage.keys(), left, "{maintenance}");
        assert!(stage.path("kept.jsonl").exists(), "{maintenance}");
    }
}

#[test]
fn what_a_pinned_session_left_without_an_entry_stays() {
    let stage = three();
    stage.index(&[]);
    let archive = "kept.jsonl.deleted.2026-01-01T00-00-00.000Z";
    for name in ["kept.jsonl", "old.jsonl", archive, "old.jsonl.deleted.2026-01-01T00-00-00.000Z"] {
        age(&stage.write(name, "{}\n"), Duration::from_secs(90 * 86_400));
    }
    stage.maintenance(json!({ "mode": "enforce", "maxDiskBytes": 1 }));
    stage.run("cleanup --yes").exits(0);
    assert_eq!(stage.names(), ["kept.jsonl", archive, "sessions.json"]);
}

#[test]
fn a_pin_made_between_plan_and_cleanup_keeps() {
    let stage = three();
    run(&stage.home, "pin --remove kept").exits(0);
    let pauses = Pauses::new();
    pauses.arm("work.asked");
    let mut command = stage.command("cleanup --yes --json");
    command.stdout(std::process::Stdio::piped());
    let child = pauses.apply(&mut command).spawn().unwrap();
    pauses.wait("work.asked");
    run(&stage.home, "pin openclaw:kept").exits(0);
    pauses.release("work.asked");
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["ok"], true, "{answer:#}");
    assert!(stage.keys().contains(&"agent:main:direct:kept".to_owned()), "{answer:#}");
    assert!(stage.path("kept.jsonl").exists());
}

#[test]
fn p3_a_gateway_that_knows_of_no_pins_takes_nothing_that_is_pinned() {
    let stage = three();
    let index = stage.path("sessions.json");
    let gateway = FakeGateway::start(Manner::Owns { index: index.clone(), enforces: true });
    let config = |port: u16, mode: &str| {
        stage.config(json!({ "gateway": { "port": port, "auth": { "token": TOKEN } },
            "session": { "maintenance": { "mode": mode } } }));
    };
    config(gateway.port, "enforce");
    let refused = stage.run("cleanup --enforce --json").exits(13);
    assert!(refused.message().contains("agent:main:direct:kept"), "{refused:?}");
    assert_eq!((stage.keys().len(), gateway.methods().len()), (3, 0));
    // One whose writes apply no policy deletes what it is asked to, and no more.
    let gateway = FakeGateway::start(Manner::Owns { index, enforces: false });
    config(gateway.port, "warn");
    stage.run("cleanup --enforce").exits(0);
    assert_eq!(stage.keys(), ["agent:main:direct:kept", "agent:main:direct:new"]);
}

#[test]
fn where_pins_cannot_be_read_nothing_is_cleaned_up() {
    let stage = three();
    let database = stage.home.join(".local/state/ostler/ostler.db");
    std::fs::write(&database, "this is no database, and never was").unwrap();
    let before = stage.text();
    for line in ["cleanup --dry-run --json", "cleanup --enforce --json"] {
        let failed = stage.run(line).exits(8);
        assert!(failed.message().contains("pinned"), "{line}: {failed:?}");
    }
    assert_eq!(stage.text(), before);
}
