//! Age, cap, protection: rows 1 to 27 and 57 to 61.

use ostler_openclaw::rules::maintain::{
    EntryVerdict, HoldReason, KeepReason, MaintenanceTrigger, RemovalReason, RetiredPeers,
    TranscriptState,
};
use serde_json::json;

use super::stage::{DAY, NOW, Stage, days};

#[test]
fn row_01_an_old_direct_chat_goes() {
    let stage = Stage::new().aged("agent:main:direct:u1", 31 * DAY);
    let plan = stage.plan();
    assert_eq!(plan.entries, [EntryVerdict::Remove(RemovalReason::Stale)]);
    assert_eq!(plan.count_removals(|why| why == RemovalReason::Stale), 1);
}

#[test]
fn row_02_older_means_strictly_older() {
    let stage =
        Stage::new().aged("young", 30 * DAY - 1).aged("exact", 30 * DAY).aged("old", 30 * DAY + 1);
    assert_eq!(stage.kept(), ["young", "exact"]);
}

#[test]
fn row_03_without_a_date_nothing_is_old() {
    let stage = Stage::new().entry("a", json!({ "sessionId": "a" }));
    assert_eq!(stage.plan().entries, [EntryVerdict::Keep(KeepReason::Undated)]);
}

#[test]
fn row_04_without_a_date_an_entry_is_the_first_over_the_cap() {
    let stage = Stage::new()
        .policy(json!({ "maxEntries": 1 }))
        .entry("undated", json!({ "sessionId": "a" }))
        .aged("old", 20 * DAY);
    assert_eq!(stage.kept(), ["old"]);
}

#[test]
fn row_05_places_that_people_come_back_to_stay() {
    let group =
        json!({ "sessionId": "g", "updatedAt": NOW.as_millis() - 90 * DAY, "chatType": "group" });
    let stage = Stage::new()
        .aged("agent:main:slack:channel:C1", 90 * DAY)
        .aged("agent:main:slack:direct:u1:thread:17.1", 90 * DAY)
        .aged("agent:main:telegram:group:-1:topic:7", 90 * DAY)
        .entry("bare", group);
    assert_eq!(stage.kept().len(), 4);
}

#[test]
fn row_06_what_programs_made_goes_whatever_it_spoke_in() {
    let old = json!({ "sessionId": "s", "updatedAt": NOW.as_millis() - 90 * DAY, "chatType": "group",
        "origin": { "chatType": "channel" } });
    let mut stage = Stage::new();
    for key in ["cron:j", "subagent:x", "acp:x", "hook:h", "main:heartbeat"] {
        stage = stage.entry(&format!("agent:main:{key}"), old.clone());
    }
    assert_eq!(stage.aged("agent:main:cron:j:run:1", 90 * DAY).kept().len(), 0);
}

#[test]
fn row_09_main_sessions_stay() {
    let stage = Stage::new()
        .aged("agent:main:main", 40 * DAY)
        .aged("agent:w:main", 40 * DAY)
        .aged("global", 40 * DAY);
    assert_eq!(stage.kept().len(), 3);
}

#[test]
fn row_10_the_newest_stay_under_the_cap() {
    let mut stage = Stage::new().policy(json!({ "maxEntries": 3 }));
    for (key, age) in [("c", 3), ("a", 1), ("e", 5), ("b", 2), ("d", 4)] {
        stage = stage.aged(key, age * DAY);
    }
    assert_eq!(stage.kept(), ["c", "a", "b"]);
    assert_eq!(stage.plan().count_removals(|why| why == RemovalReason::OverCap), 2);
}

#[test]
fn row_11_protected_entries_use_up_the_cap_first() {
    let mut stage = Stage::new()
        .policy(json!({ "maxEntries": 3 }))
        .aged("agent:main:slack:channel:c1", 29 * DAY);
    for (key, age) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        stage = stage.aged(key, age * DAY);
    }
    assert_eq!(stage.kept(), ["agent:main:slack:channel:c1", "a", "b"]);
}

#[test]
fn row_12_of_two_equals_the_earlier_stays() {
    let stage =
        Stage::new().policy(json!({ "maxEntries": 1 })).aged("first", DAY).aged("second", DAY);
    assert_eq!(stage.kept(), ["first"]);
}

fn over_protected(cap: usize) -> Stage {
    let mut stage = Stage::new()
        .policy(json!({ "maxEntries": cap }))
        .aged("agent:main:slack:channel:c1", DAY)
        .aged("agent:main:slack:channel:c2", DAY);
    for (key, age) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)] {
        stage = stage.aged(key, age * DAY);
    }
    stage
}

#[test]
fn row_13_a_cap_that_cannot_be_kept_is_reported_and_takes_no_more_than_it_must() {
    for (cap, kept) in [(2, vec!["a", "b"]), (1, vec!["a"])] {
        let stage = over_protected(cap);
        assert_eq!(stage.kept()[2..], kept, "{cap}");
        assert!(stage.plan().cap.is_unsatisfiable());
    }
    assert!(!over_protected(3).plan().cap.is_unsatisfiable());
    assert!(!over_protected(500).plan().cap.is_unsatisfiable());
}

#[test]
fn row_14_a_new_entry_is_not_removed_at_every_pass() {
    let mut stage = over_protected(1);
    for pass in 0..5 {
        let job = "agent:main:cron:job:run:1";
        stage.entries.retain(|(key, _)| key != job);
        stage = stage.aged(job, 0).applied();
        assert!(stage.entries.iter().any(|(key, _)| key == job), "{pass}");
    }
}

fn many(count: usize, cap: usize, trigger: MaintenanceTrigger) -> usize {
    let mut stage = Stage::new().policy(json!({ "maxEntries": cap }));
    for index in 0..count {
        stage = stage.aged(&format!("k{index}"), index as i64);
    }
    stage.trigger = trigger;
    stage.kept().len()
}

#[test]
fn row_15_an_ordinary_write_waits_for_the_high_water_mark() {
    assert_eq!(many(549, 500, MaintenanceTrigger::Write), 549);
    assert_eq!(many(550, 500, MaintenanceTrigger::Write), 500);
}

#[test]
fn row_16_a_cleanup_does_not_wait() {
    assert_eq!(many(501, 500, MaintenanceTrigger::Cleanup), 500);
}

#[test]
fn row_17_small_caps_hold_at_every_write() {
    assert_eq!(many(50, 49, MaintenanceTrigger::Write), 49);
}

#[test]
fn row_19_and_20_warning_removes_nothing() {
    let mut stage = Stage::new()
        .policy(json!({ "mode": "warn", "maxEntries": 1, "maxDiskBytes": 10 }))
        .aged("old", 90 * DAY)
        .aged("a", 0)
        .aged("b", 0)
        .file("b.jsonl.deleted.2020-01-01T00-00-00Z", 500, 90 * DAY);
    stage.acts = false;
    let plan = stage.plan();
    assert!(!plan.changes_anything());
    assert!(plan.budget.unwrap().is_over());
    stage.acts = true;
    assert_eq!(stage.kept().len(), 0, "the budget takes the last one too");
}

#[test]
fn row_22_the_active_key_stays_and_its_sibling_goes() {
    let mut stage = Stage::new().aged("agent:main:a", 31 * DAY).aged("agent:main:b", 31 * DAY);
    stage.active = Some("agent:main:a".into());
    assert_eq!(stage.kept(), ["agent:main:a"]);
}

#[test]
fn row_23_the_active_key_may_be_written_in_any_case() {
    let mut stage = Stage::new()
        .policy(json!({ "maxDiskBytes": 1 }))
        .aged("agent:main:A", 0)
        .aged("agent:main:b", 0);
    stage.active = Some("AGENT:main:a".into());
    assert_eq!(stage.kept(), ["agent:main:A"]);
}

#[test]
fn row_26_what_is_live_or_may_be_stays() {
    for hold in [HoldReason::Live, HoldReason::Unknown, HoldReason::Pinned] {
        let mut stage = Stage::new()
            .policy(json!({ "maxEntries": 1, "maxDiskBytes": 1 }))
            .aged("a", 90 * DAY)
            .aged("b", 90 * DAY);
        stage.fix_missing = true;
        stage.transcripts.insert("a".into(), TranscriptState::Missing);
        stage.holds.insert("a".into(), hold);
        assert_eq!(stage.kept(), ["a"]);
        assert_eq!(stage.plan().entries[0], EntryVerdict::Keep(KeepReason::Held(hold)));
    }
}

#[test]
fn row_27_a_live_session_stays_under_every_key() {
    let value = json!({ "sessionId": "s", "updatedAt": NOW.as_millis() - 90 * DAY });
    let mut stage = Stage::new()
        .policy(json!({ "maxEntries": 1 }))
        .entry("one", value.clone())
        .entry("two", value)
        .aged("other", 0);
    stage.holds.insert("two".into(), HoldReason::Live);
    assert_eq!(stage.kept(), ["one", "two", "other"]);
}

#[test]
fn row_53_what_is_no_session_stays_unless_asked() {
    let mut stage = Stage::new()
        .entry("null", json!(null))
        .entry("text", json!("x"))
        .entry("path", json!({ "sessionId": "../x", "updatedAt": 1 }));
    assert_eq!(stage.kept().len(), 3);
    assert!(matches!(stage.plan().entries[2], EntryVerdict::Keep(KeepReason::Unusable(_))));
    stage.drop_unusable = true;
    assert_eq!(stage.kept().len(), 0);
}

fn missing() -> Stage {
    let mut stage = Stage::new()
        .aged("agent:main:slack:channel:c1", 0)
        .aged("agent:main:direct:u", 0)
        .aged("agent:main:direct:header", 0)
        .aged("agent:main:direct:sound", 0)
        .file("agent-main-direct-header.jsonl", 90, 0);
    for (key, state) in [
        ("agent:main:slack:channel:c1", TranscriptState::Missing),
        ("agent:main:direct:u", TranscriptState::Missing),
        ("agent:main:direct:header", TranscriptState::HeaderOnly),
    ] {
        stage.transcripts.insert(key.into(), state);
    }
    stage
}

#[test]
fn row_57_a_missing_transcript_alone_removes_nothing() {
    assert_eq!(missing().kept().len(), 4);
}

#[test]
fn row_58_and_59_entries_without_a_transcript_go_when_asked() {
    let mut stage = missing();
    stage.fix_missing = true;
    assert_eq!(stage.kept(), ["agent:main:direct:sound"]);
    assert_eq!(stage.plan().count_removals(|why| why.as_str() == "prune-missing"), 3);
    assert!(stage.changed().is_empty(), "the file itself stays");
    stage.acts = false;
    assert_eq!(stage.kept().len(), 1, "asked for is asked for, whatever the mode");
}

#[test]
fn row_61_without_a_session_only_bare_keys_go() {
    let mut stage = Stage::new()
        .entry("agent:main:direct:u", json!({ "updatedAt": NOW.as_millis() }))
        .entry("bare", json!({ "updatedAt": NOW.as_millis() }));
    stage.fix_missing = true;
    assert_eq!(stage.kept(), ["agent:main:direct:u"]);
}

/// A session whose entry names the transcript of another.
fn astray(age_ms: i64) -> Stage {
    let value = json!({ "sessionId": "s", "updatedAt": NOW.as_millis() - age_ms,
        "sessionFile": "/s/gone.jsonl", "route": { "to": "x" } });
    let mut stage = Stage::new()
        .entry("agent:main:cron:j", value)
        .file("s.jsonl", 900, 0)
        .file("t.jsonl", 9, 0);
    stage.fix_missing = true;
    stage
}

#[test]
fn an_entry_that_leads_astray_from_its_transcript_is_put_right() {
    let mut stage = astray(DAY);
    assert_eq!(stage.plan().entries, [EntryVerdict::Repair]);
    let word = EntryVerdict::Repair.as_str();
    assert_eq!((word, stage.plan().repaired_count()), ("repair-session-file", 1));
    assert!(stage.written().contains(r#""sessionFile":"/s/s.jsonl""#), "{}", stage.written());
    assert_eq!(stage.written().replace("/s/s.jsonl", "/s/gone.jsonl"), stage.text());
    stage.acts = false;
    assert!(stage.plan().changes_anything(), "asked for is asked for, whatever the mode");
    stage.fix_missing = false;
    assert!(!stage.plan().changes_anything());
}

#[test]
fn removal_comes_before_repair() {
    let mut stage = astray(31 * DAY);
    assert_eq!(stage.plan().entries, [EntryVerdict::Remove(RemovalReason::Stale)]);
    assert_eq!(stage.plan().repaired_count(), 0);
    assert_eq!(stage.changed(), [">s.jsonl"], "its own transcript goes with it");
    for hold in [HoldReason::Live, HoldReason::Unknown] {
        stage.holds.insert("agent:main:cron:j".into(), hold);
        assert!(!stage.plan().changes_anything(), "{hold:?}");
    }
}

fn peers() -> Stage {
    let group = json!({ "sessionId": "g", "updatedAt": NOW.as_millis(), "chatType": "group" });
    let mut stage = Stage::new()
        .aged("agent:main:main", 0)
        .aged("agent:main:direct:u1", 0)
        .aged("agent:main:telegram:direct:u1", 0)
        .aged("agent:main:telegram:work:direct:u1", 0)
        .aged("agent:ops:direct:u1", 0)
        .aged("agent:main:telegram:dm:u1", 0)
        .aged("agent:main:telegram:direct:1:topic:7", 0)
        .entry("agent:main:telegram:direct:group", group)
        .file("agent-main-direct-u1.jsonl", 9, 0);
    stage.acts = false;
    stage
}

#[test]
fn rows_of_single_peers_are_retired_when_direct_chats_share_the_main_session() {
    let mut stage = peers();
    assert_eq!(stage.kept().len(), 8);
    stage.retire = RetiredPeers::Agent("main");
    assert_eq!(stage.plan().count_removals(|why| why.as_str() == "retire-dm-scope"), 3);
    let others = ["agent:main:telegram:dm:u1", "agent:main:telegram:direct:1:topic:7"];
    let kept = stage.kept();
    assert_eq!(kept[..2], ["agent:main:main", "agent:ops:direct:u1"]);
    assert_eq!(kept[2..4], others);
    assert_eq!(kept[4], "agent:main:telegram:direct:group", "a group is for keeps");
    assert_eq!(stage.changed(), [">agent-main-direct-u1.jsonl"]);
    stage.retire = RetiredPeers::Everybody;
    assert_eq!(stage.kept().len(), 4);
}

#[test]
fn a_held_row_of_a_peer_is_not_retired_and_retiring_comes_before_missing() {
    let mut stage = peers();
    stage.retire = RetiredPeers::Everybody;
    stage.fix_missing = true;
    stage.transcripts.insert("agent:main:direct:u1".into(), TranscriptState::Missing);
    assert_eq!(stage.plan().entries[1], EntryVerdict::Remove(RemovalReason::DmScope));
    stage.holds.insert("agent:main:direct:u1".into(), HoldReason::Unknown);
    stage.active = Some("agent:main:telegram:direct:U1".into());
    assert_eq!(stage.plan().entries[1], EntryVerdict::Keep(KeepReason::Held(HoldReason::Unknown)));
    assert_eq!(stage.plan().entries[2], EntryVerdict::Keep(KeepReason::Held(HoldReason::Active)));
}

#[test]
fn probes_of_models_go_after_a_day_when_there_are_too_many_entries() {
    let probe = "agent:main:explicit:model-run-01234567-89ab-cdef-0123-456789abcdef";
    let mut stage = Stage::new().policy(json!({ "maxEntries": 2 })).aged(probe, 2 * DAY);
    stage = stage.aged("a", 5 * DAY);
    assert_eq!(stage.kept().len(), 2);
    stage = stage.aged("b", 6 * DAY);
    assert_eq!(stage.kept(), ["a", "b"]);
    assert_eq!(stage.policy.prune_after.value, days(30));
}
