//! Files and the disk budget: rows 29 to 49.

use ostler_openclaw::rules::maintain::{
    EntryVerdict, RemovalReason, StoreFileAction, StoreFileReason,
};
use serde_json::json;

use super::stage::{DAY, NOW, Stage};

const STAMP_9D: &str = "2026-09-12T14-13-20.000Z";
const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

fn stamp(age_days: i64) -> String {
    let at = model::time::Time::from_millis(NOW.as_millis() - age_days * DAY);
    at.to_string().replace(':', "-")
}

#[test]
fn row_29_the_transcript_of_a_removed_entry_is_put_away() {
    let stage = Stage::new().aged("a", 31 * DAY).file("a.jsonl", 10, DAY);
    let plan = stage.plan();
    assert_eq!(
        (plan.files[0].act, plan.files[0].why),
        (StoreFileAction::Archive, StoreFileReason::Entry)
    );
    let stage = stage.file("a.trajectory.jsonl", 1, 0).file("a.trajectory-path.json", 1, 0);
    assert_eq!(stage.changed(), ["-a.trajectory-path.json", "-a.trajectory.jsonl", ">a.jsonl"]);
}

#[test]
fn row_30_a_transcript_that_another_entry_uses_stays() {
    let entry = |age| json!({ "sessionId": "s", "updatedAt": NOW.as_millis() - age });
    let stage =
        Stage::new().entry("old", entry(31 * DAY)).entry("new", entry(0)).file("s.jsonl", 10, 0);
    assert_eq!(stage.kept(), ["new"]);
    assert!(stage.changed().is_empty());
}

#[test]
fn row_31_a_transcript_elsewhere_is_nobodys_business() {
    let value = json!({ "sessionId": "s", "sessionFile": "/elsewhere/s.jsonl",
        "updatedAt": NOW.as_millis() - 31 * DAY });
    let stage = Stage::new().entry("a", value);
    assert_eq!((stage.kept().len(), stage.changed().len()), (0, 0));
}

#[test]
fn row_32_and_33_archives_are_kept_for_their_time() {
    assert_eq!(stamp(9), STAMP_9D);
    let stage = Stage::new()
        .policy(json!({ "pruneAfter": "7d" }))
        .file(&format!("a.jsonl.deleted.{}", stamp(9)), 1, 0)
        .file(&format!("b.jsonl.deleted.{}", stamp(2)), 1, 0)
        .file(&format!("c.jsonl.bak.{}", stamp(20)), 1, 0);
    assert_eq!(stage.changed(), [format!("-a.jsonl.deleted.{STAMP_9D}")]);
    let stage = Stage::new()
        .policy(json!({ "resetArchiveRetention": "3d" }))
        .file(&format!("a.jsonl.reset.{}", stamp(10)), 1, 0)
        .file(&format!("b.jsonl.reset.{}", stamp(1)), 1, 0);
    assert_eq!(stage.changed().len(), 1);
}

#[test]
fn row_34_reset_archives_may_be_kept_for_ever() {
    let stage = Stage::new()
        .policy(json!({ "resetArchiveRetention": false }))
        .file(&format!("a.jsonl.reset.{}", stamp(900)), 1, 0)
        .file(&format!("a.jsonl.deleted.{}", stamp(900)), 1, 0);
    assert_eq!(stage.changed(), [format!("-a.jsonl.deleted.{}", stamp(900))]);
}

#[test]
fn row_35_a_name_that_looks_like_an_archive_is_a_transcript() {
    let value = json!({ "sessionId": "keep.deleted.keep", "updatedAt": NOW.as_millis(), "chatType": "group" });
    let stage = Stage::new().policy(json!({ "maxDiskBytes": 1 })).entry("a", value).file(
        "keep.deleted.keep.jsonl",
        500,
        90 * DAY,
    );
    assert!(stage.changed().is_empty());
}

#[test]
fn row_37_within_the_budget_nothing_goes() {
    let stage = Stage::new()
        .policy(json!({ "maxDiskBytes": 10_000 }))
        .aged("a", 0)
        .file("a.jsonl", 100, 0)
        .file("orphan.jsonl", 100, 0);
    let plan = stage.plan();
    assert!(!plan.changes_anything() && !plan.budget.unwrap().is_over());
}

#[test]
fn row_38_first_what_nothing_refers_to_then_the_oldest_entries() {
    let mut stage = Stage::new()
        .policy(json!({ "maxDiskBytes": 8000, "highWaterBytes": 4000 }))
        .file(&format!("z.jsonl.deleted.{}", stamp(1)), 1000, 5 * DAY)
        .file("orphan.jsonl", 1000, 9 * DAY);
    for (index, key) in ["e", "d", "c", "b", "a"].iter().enumerate() {
        let age = (5 - index as i64) * DAY;
        stage = stage.aged(key, age).file(&format!("{key}.jsonl"), 1500, age);
    }
    let plan = stage.plan();
    assert_eq!(stage.kept(), ["b", "a"]);
    assert_eq!(stage.changed().len(), 5, "{:?}", stage.changed());
    let budget = plan.budget.unwrap();
    assert!(budget.after <= 4000 && !budget.is_unsatisfiable(), "{budget:?}");
    assert_eq!((budget.files, budget.entries), (5, 3));
    // One loose file is enough: the oldest goes, the entries stay.
    stage.policy.max_disk.value = Some(9000);
    stage.policy.high_water.value = 9000;
    assert_eq!(stage.changed(), ["-orphan.jsonl"]);
    assert_eq!(stage.kept().len(), 5);
}

#[test]
fn row_39_unknown_files_count_and_stay() {
    let stage = Stage::new()
        .policy(json!({ "maxDiskBytes": 1000 }))
        .file("random.txt", 5000, 900 * DAY)
        .file("x.jsonl.lock", 1, 900 * DAY);
    let budget = stage.plan().budget.unwrap();
    assert!(stage.changed().is_empty() && budget.is_unsatisfiable());
    assert_eq!(budget.before, 5003);
}

#[test]
fn row_40_the_index_counts_as_it_will_be() {
    let stage = Stage::new()
        .policy(json!({ "maxDiskBytes": 10_000 }))
        .aged("a", 0)
        .file("sessions.json", 1 << 30, 0)
        .file("a.jsonl", 100, 0);
    assert!(!stage.plan().changes_anything());
}

#[test]
fn row_41_only_the_worker_goes() {
    let mut stage = Stage::new()
        .policy(json!({ "maxDiskBytes": 10 }))
        .aged("agent:main:slack:channel:c:thread:1", 5 * DAY)
        .aged("agent:main:subagent:w", DAY)
        .aged("agent:main:hub", 9 * DAY);
    stage.active = Some("agent:main:hub".into());
    assert_eq!(stage.kept(), ["agent:main:slack:channel:c:thread:1", "agent:main:hub"]);
    assert_eq!(stage.plan().entries[1], EntryVerdict::Remove(RemovalReason::OverBudget));
}

#[test]
fn row_42_a_transcript_stays_until_its_last_entry_goes() {
    let entry = |age| json!({ "sessionId": "s", "updatedAt": NOW.as_millis() - age });
    let mut stage =
        Stage::new().entry("old", entry(2 * DAY)).entry("new", entry(DAY)).file("s.jsonl", 5000, 0);
    stage.policy.max_disk.value = Some(5100);
    stage.policy.high_water.value = 5070;
    assert_eq!(stage.kept(), ["new"]);
    assert!(stage.changed().is_empty());
    stage.policy.high_water.value = 100;
    assert_eq!((stage.kept().len(), stage.changed()), (0, vec!["-s.jsonl".to_owned()]));
}

#[test]
fn row_43_a_checkpoint_stays_as_long_as_something_refers_to_it() {
    let checkpoint = |session: &str| format!("{session}.checkpoint.{UUID}.jsonl");
    let file = format!("/d/{}", checkpoint("named"));
    let stage = Stage::new()
        .policy(json!({ "maxDiskBytes": 10 }))
        .aged("global", 0)
        .entry(
            "agent:main:main",
            json!({ "sessionId": "m", "updatedAt": NOW.as_millis(),
            "compactionCheckpoints": [{ "preCompaction": { "sessionFile": file } }] }),
        )
        .file(&checkpoint("global"), 100, 0)
        .file(&checkpoint("named"), 100, 0)
        .file(&checkpoint("gone"), 100, 0);
    assert_eq!(stage.changed(), [format!("-{}", checkpoint("gone"))]);
}

#[test]
fn row_44_sidecars_stay_with_their_session() {
    let stage = Stage::new()
        .policy(json!({ "maxDiskBytes": 10 }))
        .aged("global", 0)
        .file("global.trajectory.jsonl", 100, 0)
        .file("gone.trajectory.jsonl", 100, 0)
        .file("gone.trajectory-path.json", 100, 0);
    assert_eq!(stage.changed(), ["-gone.trajectory-path.json", "-gone.trajectory.jsonl"]);
}

#[test]
fn row_45_temporary_files_are_left_for_five_minutes() {
    let stage = Stage::new().file(&format!("sessions.json.{UUID}.tmp"), 10, 30 * 60_000).file(
        &format!("sessions.json.7.{UUID}.tmp"),
        10,
        60_000,
    );
    assert_eq!(stage.changed(), [format!("-sessions.json.{UUID}.tmp")]);
}

#[test]
fn row_48_a_budget_of_zero_takes_nothing() {
    for max in [json!(0), json!("0"), json!(false), json!("lots")] {
        let stage = Stage::new()
            .policy(json!({ "maxDiskBytes": max }))
            .aged("a", 0)
            .file("a.jsonl", 100, 0)
            .file("orphan.jsonl", 100, 90 * DAY);
        assert!(!stage.plan().changes_anything() && stage.plan().budget.is_none());
    }
}

#[test]
fn what_nothing_refers_to_goes_when_it_is_old_but_never_a_conversation() {
    let hash = "ab".repeat(32);
    let other = "cd".repeat(32);
    let blob = |hash: &str| format!("skills-prompts/sha256/{}/{hash}.txt", &hash[..2]);
    let value = json!({ "sessionId": "s", "updatedAt": NOW.as_millis(),
        "skillsSnapshot": { "promptRef": { "hash": hash } } });
    let stage = Stage::new()
        .entry("a", value)
        .file(&blob(&hash), 1, 90 * DAY)
        .file(&blob(&other), 1, 90 * DAY)
        .file("orphan.jsonl", 1, 90 * DAY)
        .file("orphan.trajectory.jsonl", 1, 90 * DAY)
        .file("gone.trajectory.jsonl", 1, 90 * DAY)
        .file("fresh.trajectory.jsonl", 1, 0);
    assert_eq!(
        stage.changed(),
        ["-gone.trajectory.jsonl".to_owned(), format!("-{}", blob(&other))]
    );
}

#[test]
fn what_somebody_holds_is_left_alone() {
    let mut stage =
        Stage::new().policy(json!({ "maxDiskBytes": 10 })).file("orphan.jsonl", 1000, 90 * DAY);
    stage.files[0].held = true;
    assert!(stage.changed().is_empty() && stage.plan().budget.unwrap().is_unsatisfiable());
}
