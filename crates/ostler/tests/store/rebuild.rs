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
