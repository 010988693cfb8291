//! A store that cannot be read is an error, never an empty one.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use testkit::home::{TempHome, lay_out_samples};

use super::stage::{DAY, SESSIONS, Stage, age, aged};

#[test]
fn row_50_51_and_52_what_is_no_index_is_an_error_and_stays() {
    let broken = [
        "{\"a\":{\"sessionId\":\"s\"},\"b\":{\"x",
        "",
        " \n",
        "[]",
        "[{}]",
        "null",
        "{}{}",
        "{\"a\"",
    ];
    for text in broken {
        let stage = Stage::new();
        stage.write("sessions.json", text);
        stage.transcript("s");
        let before = stage.home.snapshot();
        for line in
            ["ls", "ls --json", "cleanup --yes", "cleanup --enforce --json", "cleanup --dry-run"]
        {
            let ran = stage.run(line).exits(8);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(said.contains("is not an index of sessions"), "{text}: {line}: {said}");
            assert!(said.contains("ostler store rebuild --store "), "{text}: {line}: {said}");
        }
        let verified = stage.run("verify --json").exits(12).result();
        assert_eq!(verified["stores"][0]["findings"][0]["code"], "broken-index", "{verified:#}");
        assert!(before.changes(&stage.home.snapshot()).is_empty(), "{text}");
    }
}

#[test]
fn row_53_what_is_no_session_is_reported_and_stays_unless_asked() {
    let stage = Stage::new();
    stage.index(&[
        ("null", json!(null)),
        ("text", json!("x")),
        ("path", json!({ "sessionId": "../x", "updatedAt": 1 })),
        ("old", aged("old", 31 * DAY)),
    ]);
    let verified = stage.run("verify --json").exits(12).result();
    let findings = verified["stores"][0]["findings"].as_array().unwrap();
    let unusable = findings.iter().filter(|finding| finding["code"] == "unusable-entry");
    assert_eq!(unusable.count(), 3);
    stage.cleanup("--yes");
    assert_eq!(stage.keys(), ["null", "path", "text"]);
    let store = stage.cleanup("--yes --drop-unusable");
    assert_eq!((store["unusable"].as_u64(), stage.text().as_str()), (Some(3), "{}"));
}

#[test]
fn row_54_a_store_that_cannot_be_read_is_an_error() {
    let stage = Stage::new();
    stage.home.fifo(format!("{SESSIONS}/sessions.json"));
    let path = stage.path("sessions.json");
    for line in ["ls", "cleanup --yes", "cleanup --dry-run"] {
        let line = format!("{line} --store {}", path.display());
        assert!(stage.run(&line).exits(8).stderr.contains("cannot be read"), "{line}");
    }
    // Not even a place that cannot be entered is an empty one.
    stage.index(&[("a", aged("a", 0))]);
    stage.home.forbid(format!("{SESSIONS}/sessions.json"));
    let is_root = std::fs::read(&path).is_ok();
    if !is_root {
        stage.run("ls").exits(8);
        stage.run("cleanup --yes").exits(8);
    }
}

#[test]
fn row_55_a_store_that_is_not_there_is_empty() {
    let stage = Stage::new();
    let listed = stage.run("ls --json").exits(0).result();
    assert_eq!(
        (listed["totalCount"].as_u64(), listed["hasMore"].as_bool()),
        (Some(0), Some(false))
    );
    assert_eq!(stage.cleanup("--dry-run")["beforeCount"], 0);
}

#[test]
fn row_56_nothing_is_made_where_nothing_is() {
    let stage = Stage::new();
    let nowhere = stage.home.join("no/such/sessions.json");
    let line = format!("cleanup --enforce --store {}", nowhere.display());
    stage.run(&line).exits(0);
    assert!(!stage.home.join("no").exists());
}

#[test]
fn row_46_without_a_sound_index_every_temporary_file_is_kept() {
    let temporary = "sessions.json.01234567-89ab-cdef-0123-456789abcdef.tmp";
    for index in [None, Some("{\"a\"")] {
        let stage = Stage::new();
        if let Some(text) = index {
            stage.write("sessions.json", text);
        }
        let path = stage.write(temporary, "{}");
        stage.transcript("orphan");
        age(&path, Duration::from_secs(3600));
        stage.maintenance(json!({ "maxDiskBytes": 1 }));
        let before = stage.home.snapshot();
        stage.run("cleanup --enforce");
        let changes = before.changes(&stage.home.snapshot());
        let theirs = changes.iter().filter(|one| format!("{one:?}").contains(".openclaw/agents"));
        assert_eq!(theirs.count(), 0, "{index:?}");
    }
}

#[test]
fn a_database_is_listed_and_never_changed() {
    let stage = Stage { home: TempHome::new() };
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../adapters/fixtures");
    lay_out_samples(&stage.home, &fixtures);
    stage.config(json!({}));
    let listed = stage.run("ls --json --limit all").exits(0).result();
    let stores = listed["stores"].as_array().unwrap();
    assert!(stores.iter().any(|store| store["form"] == "database"), "{listed:#}");
    assert!(listed["totalCount"].as_u64().unwrap() > 0);
    let verified = stage.run("verify --json").result();
    assert!(verified["stores"].as_array().unwrap().iter().any(|one| one["form"] == "database"));
    let database = stores.iter().find(|store| store["form"] == "database").unwrap();
    let line = format!("cleanup --enforce --store {}", database["path"].as_str().unwrap());
    assert!(stage.run(&line).exits(13).stderr.contains("only OpenClaw may change"));
}
