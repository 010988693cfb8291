//! The policy end to end: what a preview says is what goes. Its rules are tested row by row in `model`.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{DAY, SESSIONS, Stage, age, aged, run};

fn old_and_new() -> Stage {
    let stage = Stage::new();
    stage.index(&[
        ("agent:main:direct:old", aged("old", 31 * DAY)),
        ("agent:main:direct:new", aged("new", 0)),
    ]);
    stage.transcript("old");
    stage.transcript("new");
    stage
}

#[test]
fn row_01_an_old_session_goes_and_is_counted() {
    let stage = old_and_new();
    let store = stage.cleanup("--yes");
    assert_eq!((store["pruned"].as_u64(), store["afterCount"].as_u64()), (Some(1), Some(1)));
    assert_eq!(stage.keys(), ["agent:main:direct:new"]);
}

#[test]
fn row_18_a_cap_of_zero_is_an_error_and_the_store_is_untouched() {
    let stage = old_and_new();
    stage.maintenance(json!({ "maxEntries": 0 }));
    let before = stage.home.snapshot();
    for line in ["cleanup --yes --json", "cleanup --dry-run --json", "cleanup --enforce --json"] {
        let error = stage.run(line).exits(2).envelope();
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains("session.maintenance.maxEntries"), "{message}");
    }
    assert!(before.changes(&stage.home.snapshot()).is_empty());
}

#[test]
fn row_19_20_and_21_a_policy_that_warns_removes_only_with_enforce() {
    let stage = old_and_new();
    stage.maintenance(json!({ "mode": "warn" }));
    let preview = stage.cleanup("--dry-run");
    assert_eq!(
        (preview["wouldMutate"].as_bool(), preview["pruned"].as_u64()),
        (Some(false), Some(0))
    );
    let items = preview["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    assert!(items.iter().all(|item| item["onlyWithEnforce"] == true), "{items:#?}");
    let text = stage.run("cleanup --dry-run").exits(0).stdout;
    assert!(text.contains("only with --enforce"), "{text}");

    let before = stage.text();
    let applied = stage.run("cleanup --json").exits(0).result();
    assert_eq!((applied["applied"].as_bool(), applied["count"].as_u64()), (Some(true), Some(0)));
    assert_eq!(stage.text(), before);

    assert_eq!(stage.cleanup("--enforce")["pruned"], 1);
    assert_eq!(stage.keys(), ["agent:main:direct:new"]);
}

#[test]
fn row_22_the_active_key_is_kept_by_preview_and_run() {
    let stage = Stage::new();
    stage.index(&[("agent:main:a", aged("a", 31 * DAY)), ("agent:main:b", aged("b", 31 * DAY))]);
    for line in ["--dry-run --active-key AGENT:main:a", "--yes --active-key agent:main:A"] {
        let store = stage.cleanup(line);
        assert_eq!(store["items"][0]["id"], "agent:main:b");
        assert_eq!(store["items"].as_array().unwrap().len(), 1);
    }
    assert_eq!(stage.keys(), ["agent:main:a"]);
}

#[test]
fn row_24_a_preview_changes_nothing() {
    let stage = old_and_new();
    stage.write("sessions.json.01234567-89ab-cdef-0123-456789abcdef.tmp", "{}");
    let before = stage.home.snapshot();
    for line in ["cleanup --dry-run", "cleanup --dry-run --json --fix-missing --drop-unusable -a"] {
        stage.run(line).exits(0);
    }
    for line in ["ls", "verify", "show agent:main:direct:old", "rebuild --dry-run"] {
        stage.run(line).exits(0);
    }
    // Without anybody to ask, nothing is done either.
    assert!(stage.run("cleanup").exits(13).stderr.contains("--yes"));
    assert!(before.changes(&stage.home.snapshot()).is_empty());
}

#[test]
fn row_25_a_preview_is_what_goes() {
    let stage = Stage::new();
    let mut entries: Vec<(String, Value)> = Vec::new();
    for at in 0..60_i64 {
        entries.push((format!("agent:main:direct:{at}"), aged(&format!("s{at}"), at * DAY)));
        stage.transcript(&format!("s{at}"));
    }
    let entries: Vec<(&str, Value)> =
        entries.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    stage.index(&entries);
    stage.maintenance(json!({ "maxEntries": 20, "maxDiskBytes": 3000 }));
    let going = |store: &Value| -> Vec<(String, String)> {
        let items = store["items"].as_array().unwrap().iter();
        items.map(|item| (item["rule"].to_string(), item["id"].to_string())).collect()
    };
    let (preview, applied) = (stage.cleanup("--dry-run"), stage.cleanup("--yes"));
    assert_eq!(going(&preview), going(&applied));
    for count in ["pruned", "capped", "evicted", "afterCount", "diskBudget"] {
        assert_eq!(preview[count], applied[count], "{count}");
    }
    assert_eq!(applied["afterCount"].as_u64().unwrap() as usize, stage.keys().len());
    assert!(applied["diskBudget"]["totalBytesAfter"].as_u64().unwrap() <= 2400);
    let bytes: u64 =
        stage.names().iter().map(|name| std::fs::metadata(stage.path(name)).unwrap().len()).sum();
    assert_eq!(applied["diskBudget"]["totalBytesAfter"], bytes);
    assert_eq!(stage.cleanup("--yes")["wouldMutate"], false, "a second run finds nothing");
}

#[test]
fn row_29_a_transcript_is_put_away_and_comes_back() {
    let stage = old_and_new();
    let before = stage.home.snapshot();
    let result = stage.run("cleanup --yes --json").exits(0).result();
    let names = stage.names();
    assert!(names[1].starts_with("old.jsonl.deleted.20") && names[1].ends_with('Z'), "{names:?}");
    let receipt = result["receipt"].as_str().unwrap();
    run(&stage.home, &format!("undo {receipt}")).exits(0);
    // All but the time of the directory is as it was.
    let changes = before.changes(&stage.home.snapshot());
    let of_files = |change: &&String| change.starts_with(&format!("{SESSIONS}/"));
    assert_eq!(changes.iter().filter(of_files).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn row_31_a_transcript_elsewhere_is_left_alone() {
    let stage = Stage::new();
    let victim = stage.home.write("elsewhere/v.jsonl", "words");
    let linked = stage.home.write("elsewhere/l.jsonl", "words");
    stage.home.link(format!("{SESSIONS}/l.jsonl"), &linked);
    let mut named = aged("v", 31 * DAY);
    named["sessionFile"] = victim.to_str().unwrap().into();
    stage.index(&[("a", named), ("b", aged("l", 31 * DAY))]);
    stage.maintenance(json!({ "maxDiskBytes": 1 }));
    let store = stage.cleanup("--yes --fix-missing");
    assert_eq!(stage.keys().len(), 0, "{store:#}");
    assert_eq!(std::fs::read(&victim).unwrap(), b"words");
    assert_eq!(std::fs::read(&linked).unwrap(), b"words");
    assert!(stage.path("l.jsonl").is_symlink());
}

#[test]
fn row_45_old_temporary_files_go() {
    let stage = old_and_new();
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    let old = stage.write(&format!("sessions.json.{uuid}.tmp"), "{");
    let fresh = stage.write(&format!("sessions.json.7.{uuid}.tmp"), "{");
    age(&old, Duration::from_secs(30 * 60));
    stage.cleanup("--yes");
    assert!(!old.exists() && fresh.exists());
}

#[test]
fn row_48_a_budget_of_zero_removes_nothing() {
    let stage = old_and_new();
    for max in [json!(0), json!("0"), json!(false), json!("lots")] {
        stage.maintenance(json!({ "maxDiskBytes": max, "pruneAfter": "90d" }));
        assert_eq!(stage.cleanup("--yes")["wouldMutate"], false, "{max}");
    }
    assert_eq!(stage.keys().len(), 2);
}

#[test]
fn row_57_58_and_59_missing_transcripts_count_only_when_asked() {
    let stage = Stage::new();
    stage.index(&[
        ("agent:main:slack:channel:c", aged("gone", 0)),
        ("agent:main:direct:header", aged("header", 0)),
        ("agent:main:direct:words", aged("words", 0)),
    ]);
    stage.write("header.jsonl", super::stage::header("header"));
    stage.transcript("words");
    assert_eq!(stage.cleanup("--yes")["wouldMutate"], false);
    let store = stage.cleanup("--yes --fix-missing");
    assert_eq!(store["missing"], 2);
    assert_eq!(store["items"][0]["rule"], "prune-missing");
    assert_eq!(stage.keys(), ["agent:main:direct:words"]);
    assert!(stage.path("header.jsonl").exists(), "the file itself stays");
}

#[test]
fn row_60_words_before_a_torn_line_are_words() {
    let stage = Stage::new();
    stage.index(&[("agent:main:direct:a", aged("a", 0)), ("agent:main:direct:b", aged("b", 0))]);
    let message = super::stage::MESSAGE;
    stage.write("a.jsonl", format!("{}{message}\n{{torn", super::stage::header("a")));
    stage.write("b.jsonl", format!("{}{{torn", super::stage::header("b")));
    assert_eq!(stage.cleanup("--dry-run --fix-missing")["missing"], 0);
}

#[test]
fn row_63_and_69_what_stays_keeps_every_byte_and_the_mode() {
    let stage = Stage::new();
    let kept = r#"{"zeta":1e2,"updatedAt":99999999999999,"skillsSnapshot":{"promptRef":{"hash":"ab"}}, "a" : [ ] }"#;
    let text = format!(
        "{{\n  \"agent:main:x\":{kept},\n\t\"old\": {{\"updatedAt\": 1}}  ,\n  \"y\": {kept}\n}}\n"
    );
    stage.write("sessions.json", &text);
    stage.cleanup("--yes");
    let after = text.replace(",\n\t\"old\": {\"updatedAt\": 1}", "");
    assert_eq!(stage.text(), after);
    let mode = std::fs::metadata(stage.path("sessions.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
