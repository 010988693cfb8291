//! A new index from what is left.

use serde_json::{Value, json};

use super::stage::{DAY, Stage, aged, run};

#[test]
fn row_51_a_broken_index_is_rebuilt_from_what_is_left_and_can_be_brought_back() {
    let stage = Stage::new();
    let raw = "{\"sessionId\":\"kept\", \"odd\" : 1e3}";
    stage.write(
        "sessions.json",
        format!("{{\n  \"agent:main:direct:kept\": {raw},\n  \"b\": {{\"x"),
    );
    let lost = json!({ "agent:main:slack:channel:c": aged("lost", DAY) });
    stage.write("sessions.json.01234567-89ab-cdef-0123-456789abcdef.tmp", lost.to_string());
    for id in ["kept", "lost", "orphan"] {
        stage.transcript(id);
    }
    stage.write("orphan-topic-7.jsonl", super::stage::header("orphan"));
    let broken = stage.text();
    let preview = stage.run("rebuild --dry-run --json").exits(0).result();
    assert_eq!((preview["kept"].as_u64(), stage.text()), (Some(1), broken.clone()));
    assert!(stage.run("rebuild").exits(13).stderr.contains("--yes"));
    let result = stage.run("rebuild --yes --json").exits(0).result();
    assert_eq!(result["added"], preview["added"]);
    let how: Vec<&str> = result["added"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["how"].as_str().unwrap())
        .collect();
    assert_eq!(how, ["recovered", "made", "made"]);
    assert!(stage.text().contains(raw), "what could be read is as it was");
    let index: Value = serde_json::from_str(&stage.text()).unwrap();
    let made = &index["agent:main:recovered:orphan"];
    assert_eq!(made["sessionId"], "orphan");
    assert_eq!(made["sessionStartedAt"], 1_782_900_000_000_i64);
    assert_eq!(stage.run("verify --json").exits(0).result()["stores"][0]["sound"], true);
    assert_eq!(
        stage.run("rebuild --yes --json").exits(0).result()["applied"],
        false,
        "once is enough"
    );
    let receipt = result["receipt"].as_str().unwrap();
    run(&stage.home, &format!("undo {receipt}")).exits(0);
    assert_eq!(stage.text(), broken);
}

/// What 2026.7 writes beside a transcript.
fn trajectory(stage: &Stage, stem: &str, session: &str, key: &str) {
    let line = json!({ "traceId": "t", "sessionId": session, "sessionKey": key, "type": "run" });
    stage.write(&format!("{stem}.trajectory.jsonl"), format!("{line}\n{line}\n"));
}

#[test]
fn p9_keys_that_are_on_the_disk_come_back_with_their_protection() {
    let stage = Stage::new();
    for (id, key) in [
        ("m", "agent:main:main"),
        ("g", "agent:main:telegram:group:-1"),
        ("foreign", "agent:other:main"),
    ] {
        stage.transcript(id);
        trajectory(&stage, id, id, key);
    }
    // An earlier session of the same key, a topic, and one whose trajectory is another's.
    let earlier = stage.transcript("earlier");
    trajectory(&stage, "earlier", "earlier", "agent:main:main");
    super::stage::age(&earlier, std::time::Duration::from_secs(86_400));
    stage.write("t-topic-17.1.jsonl", super::stage::header("t"));
    trajectory(&stage, "t-topic-17.1", "t", "agent:main:slack:channel:c:thread:17.1");
    stage.transcript("odd");
    trajectory(&stage, "odd", "somebody", "agent:main:direct:x");
    stage.run("rebuild --yes").exits(0);
    let mut keys = stage.keys();
    keys.sort();
    assert_eq!(
        keys,
        [
            "agent:main:main",
            "agent:main:recovered:earlier",
            "agent:main:recovered:foreign",
            "agent:main:recovered:odd",
            "agent:main:slack:channel:c:thread:17.1",
            "agent:main:telegram:group:-1",
        ]
    );
    let index: Value = serde_json::from_str(&stage.text()).unwrap();
    assert_eq!(index["agent:main:main"]["sessionId"], "m", "the last written");
}

#[test]
fn p7_a_trajectory_of_a_topic_is_not_its_transcript() {
    let stage = Stage::new();
    let entry = json!({ "sessionId": "t", "sessionFile": "t-topic-17.1.jsonl", "updatedAt": 1 });
    stage.index(&[("agent:main:slack:channel:c:thread:17.1", entry)]);
    trajectory(&stage, "t-topic-17.1", "t", "agent:main:slack:channel:c:thread:17.1");
    let verified = stage.run("verify --json").exits(12).result();
    assert!(verified.to_string().contains("missing-transcript"), "{verified:#}");
    assert_eq!(stage.cleanup("--dry-run --fix-missing")["missing"], 1);
    stage.write("t-topic-17.1.jsonl", super::stage::header("t"));
    let verified = stage.run("verify --json").exits(0).result();
    assert!(!verified.to_string().contains("missing-transcript"), "{verified:#}");
}

#[test]
fn a_lost_index_is_made_anew_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let stage = Stage::new();
    stage.transcript("a");
    stage.run("rebuild --yes").exits(0);
    assert_eq!(stage.keys(), ["agent:main:recovered:a"]);
    let mode = std::fs::metadata(stage.path("sessions.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn where_nothing_is_no_index_is_made() {
    let stage = Stage::new();
    for line in ["rebuild --yes --json --store", "rebuild --dry-run --json --store"] {
        let mistyped = stage.home.join("typo.json");
        let error = stage.run(&format!("{line} {}", mistyped.display())).exits(3).envelope();
        assert_eq!(error["error"]["code"], "NOT_FOUND", "{line}");
        assert!(!mistyped.exists(), "{line}");
    }
    std::fs::remove_dir_all(stage.home.join(".openclaw")).unwrap();
    for line in ["rebuild --yes --json", "rebuild --dry-run --json", "rebuild --json"] {
        let error = stage.run(line).exits(3).envelope()["error"].take();
        assert_eq!(error["code"], "NOT_FOUND", "{line}");
        let missing = stage.home.join(super::stage::SESSIONS);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(missing.to_str().unwrap()), "{message}");
        assert!(error["hint"].as_str().unwrap().contains("store ls"), "{error}");
    }
    assert!(!stage.home.join(".openclaw").exists());
}
