//! What holds for every store and every policy. The domains are small, so that equal and different
//! ages, shared sessions and shared files all come up often.

use ostler_openclaw::rules::key::{SessionKey, SessionKeyKind};
use ostler_openclaw::rules::maintain::{
    EntryVerdict, HoldReason, MaintenanceTrigger, RemovalReason, RetiredPeers, StoreFileAction,
    TranscriptState,
};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::stage::{DAY, NOW, Stage, named_transcript};

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

fn key() -> impl Strategy<Value = String> {
    let rests = vec![
        "main",
        "direct:u",
        "slack:direct:u",
        "slack:work:direct:u",
        "slack:channel:c",
        "x:thread:1",
        "telegram:direct:1:topic:2",
        "cron:j",
        "subagent:s",
        "hook:h",
        "opaque",
        "main:heartbeat",
    ];
    let model_run = format!("explicit:model-run-{UUID}");
    let rests: Vec<String> = rests.into_iter().map(str::to_owned).chain([model_run]).collect();
    (select(rests), 0..3_u8, any::<bool>()).prop_map(|(rest, agent, bare)| {
        if bare { format!("{rest}{agent}") } else { format!("agent:a{agent}:{rest}") }
    })
}

fn session() -> impl Strategy<Value = String> {
    (0..5_u8).prop_map(|number| format!("s{number}"))
}

fn age() -> impl Strategy<Value = i64> {
    prop_oneof![0..4 * DAY, Just(0), (20..50_i64).prop_map(|days| days * DAY)]
}

fn entry() -> impl Strategy<Value = Value> {
    let chat = of(select(vec!["group", "direct", "thread"]));
    let odd = prop_oneof![
        Just(Value::Null),
        Just(json!("x")),
        Just(json!({ "sessionId": "../x", "updatedAt": 1 }))
    ];
    let named = prop::option::weighted(0.3, session());
    let usual = (of(session()), of(age()), chat, named).prop_map(|(session, age, chat, named)| {
        let mut value = json!({});
        if let Some(named) = named {
            value["sessionFile"] = format!("{named}.jsonl").into();
        }
        if let Some(session) = session {
            value["sessionId"] = session.into();
        }
        if let Some(age) = age {
            value["updatedAt"] = (NOW.as_millis() - age).into();
        }
        if let Some(chat) = chat {
            value["chatType"] = chat.into();
        }
        value
    });
    prop_oneof![12 => usual, 1 => odd]
}

fn file() -> impl Strategy<Value = (String, u64, i64, bool)> {
    let name = (session(), 0..9_u8).prop_map(|(session, kind)| match kind {
        0..4 => format!("{session}.jsonl"),
        4 => format!("{session}.trajectory.jsonl"),
        5 => format!("{session}.checkpoint.{UUID}.jsonl"),
        6 => format!("{session}.jsonl.deleted.2026-09-01T00-00-00Z"),
        7 => format!("sessions.json.{session}.{UUID}.tmp"),
        _ => format!("{session}.txt"),
    });
    (name, 0..3000_u64, age(), prop::bool::weighted(0.1))
}

prop_compose! {
    fn stage()(
        entries in prop::collection::btree_map(key(), entry(), 0..12),
        files in prop::collection::btree_map(file().prop_map(|one| one.0), file(), 0..12),
        holds in prop::collection::vec(of(select(vec![HoldReason::Live, HoldReason::Unknown, HoldReason::Pinned])), 12),
        states in prop::collection::vec(
            select(vec![TranscriptState::Sound, TranscriptState::Missing, TranscriptState::HeaderOnly]), 12),
        cap in 1..8_usize,
        budget in of(1..8000_u64),
        high in 1..8000_u64,
        days in 1..40_u32,
        flags in any::<[bool; 4]>(),
        retire in select(vec![RetiredPeers::Nobody, RetiredPeers::Agent("a1"), RetiredPeers::Everybody]),
        active in of(key()),
    ) -> Stage {
        let mut maintenance = json!({ "maxEntries": cap, "pruneAfter": days, "highWaterBytes": high });
        if let Some(budget) = budget {
            maintenance["maxDiskBytes"] = budget.into();
        }
        let mut stage = Stage::new().policy(maintenance);
        for (index, (key, value)) in entries.into_iter().enumerate() {
            if let Some(hold) = holds[index].filter(|_| index % 3 == 0) {
                stage.holds.insert(key.clone(), hold);
            }
            stage.transcripts.insert(key.clone(), states[index]);
            stage = stage.entry(&key, value);
        }
        for (name, (_, bytes, age, held)) in files {
            stage = stage.file(&name, bytes, age);
            stage.files.last_mut().unwrap().held = held;
        }
        [stage.acts, stage.fix_missing, stage.drop_unusable, _] = flags;
        stage.trigger = if flags[3] { MaintenanceTrigger::Write } else { MaintenanceTrigger::Cleanup };
        stage.active = active;
        stage.retire = retire;
        stage
    }
}

/// Sessions that must stay whatever is asked.
fn held_sessions(stage: &Stage) -> Vec<(&str, Option<&str>)> {
    let active = stage.active.as_deref().map(SessionKey::new);
    stage
        .entries
        .iter()
        .filter(|(key, _)| {
            let named = active
                .as_ref()
                .is_some_and(|active| active.as_str() == SessionKey::new(key).as_str());
            named || stage.holds.contains_key(key)
        })
        .map(|(key, value)| (key.as_str(), value["sessionId"].as_str()))
        .collect()
}

/// What a write of a 2026.7 gateway takes, told in its own order: first by age, then, from the high-water
/// mark on, the oldest over the cap. Groups, channels and threads stay, and nothing else does.
fn gateways_write(stage: &Stage) -> Vec<&str> {
    let is_kept = |key: &str, value: &Value| {
        let kind = SessionKey::new(key).key_kind("main");
        let chat = value["chatType"].as_str().is_some_and(|chat| chat != "direct");
        let by_key = matches!(
            kind,
            SessionKeyKind::Group
                | SessionKeyKind::Channel
                | SessionKeyKind::Thread
                | SessionKeyKind::Topic
        );
        by_key || (chat && !kind.is_disposable())
    };
    let oldest = NOW.minus(stage.policy.prune_after.value).as_millis();
    let updated = |value: &Value| value["updatedAt"].as_i64();
    let (mut taken, mut left) = (Vec::new(), Vec::new());
    for (key, value) in stage.entries.iter().filter(|(_, value)| value.is_object()) {
        match updated(value) {
            Some(at) if at < oldest && !is_kept(key, value) => taken.push(key.as_str()),
            at => left.push((at, key.as_str(), is_kept(key, value))),
        }
    }
    if left.len() >= stage.policy.high_water_entries() {
        let kept = left.iter().filter(|one| one.2).count();
        let room = stage.policy.max_entries.value.saturating_sub(kept);
        left.retain(|one| !one.2);
        left.sort();
        taken.extend(left.iter().rev().skip(room).map(|one| one.1));
    }
    taken
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn p3_nothing_that_a_gateways_write_takes_is_missing_from_plan_and_warning(stage in stage()) {
        let (kept, besides) = (stage.kept(), stage.taken_besides());
        for key in gateways_write(&stage) {
            let key = key.to_owned();
            prop_assert!(!kept.contains(&key) || besides.contains(&key), "{key}");
        }
        for key in &besides {
            prop_assert!(kept.contains(key), "{key} is in the plan");
        }
    }

    #[test]
    fn what_is_held_or_for_keeps_is_never_removed(stage in stage()) {
        let plan = stage.plan();
        let held = held_sessions(&stage);
        for ((key, value), verdict) in std::iter::zip(&stage.entries, &plan.entries) {
            let id = value["sessionId"].as_str();
            let is_held = held.iter().any(|(k, s)| k == key || (s.is_some() && *s == id));
            let kind = SessionKey::new(key).key_kind("main");
            let place = value["chatType"].as_str().is_some_and(|chat| chat != "direct");
            match verdict {
                EntryVerdict::Keep(_) => {}
                EntryVerdict::Repair => {
                    prop_assert!(!is_held, "{key} is held and is changed");
                    prop_assert!(stage.fix_missing && value.is_object(), "{key}");
                }
                EntryVerdict::Remove(why) => {
                    prop_assert!(!is_held, "{key} is held and goes: {why:?}");
                    if why.takes_files() {
                        prop_assert!(!kind.is_durable(), "{key}: {why:?}");
                        prop_assert!(!place || kind.is_disposable(), "{key}: {why:?}");
                        prop_assert!(value.is_object(), "{key}: {why:?}");
                    }
                    let asked = match why {
                        RemovalReason::Unusable(_) => stage.drop_unusable,
                        RemovalReason::Missing | RemovalReason::HeaderOnly | RemovalReason::NoSession => {
                            stage.fix_missing
                        }
                        RemovalReason::DmScope => match stage.retire {
                            RetiredPeers::Nobody => false,
                            RetiredPeers::Agent(agent) => SessionKey::new(key).agent_id() == Some(agent),
                            RetiredPeers::Everybody => true,
                        },
                        _ => stage.acts,
                    };
                    prop_assert!(asked, "{key}: nobody asked for {why:?}");
                }
            }
        }
        for change in &plan.files {
            prop_assert!(!stage.files[change.file].held);
            prop_assert!(!stage.files[change.file].name.ends_with(".txt"));
        }
    }

    #[test]
    fn no_file_goes_that_an_entry_still_refers_to(stage in stage()) {
        let kept = stage.kept();
        let sessions: Vec<&str> = stage
            .entries
            .iter()
            .filter(|(key, _)| kept.contains(key))
            .filter_map(|(_, value)| value["sessionId"].as_str())
            .collect();
        let left = stage.applied();
        let usable = left.entries.iter().filter(|(_, value)| value["sessionId"] != "../x");
        let named: Vec<String> = usable.filter_map(|(_, value)| named_transcript(value)).collect();
        for change in stage.plan().files {
            let name = &stage.files[change.file].name;
            prop_assert!(!named.contains(name), "{name} is still named");
            if name.ends_with(".jsonl") {
                let session = name.split('.').next().unwrap();
                prop_assert!(!sessions.contains(&session), "{name} is still in use");
            }
            if change.act == StoreFileAction::Archive {
                prop_assert!(name.ends_with(".jsonl"));
            }
        }
    }

    #[test]
    fn limits_are_kept_or_reported(stage in stage()) {
        let plan = stage.plan();
        if !stage.acts {
            prop_assert!(plan.files.is_empty() || stage.retire != RetiredPeers::Nobody);
            return Ok(());
        }
        let left = stage.kept().len();
        prop_assert_eq!(plan.cap.after, left);
        let bound = match stage.trigger {
            MaintenanceTrigger::Cleanup => stage.policy.max_entries.value,
            MaintenanceTrigger::Write => stage.policy.high_water_entries() - 1,
        };
        prop_assert!(left <= bound || plan.cap.is_unsatisfiable(), "{left} of {bound}");
        if let Some(budget) = plan.budget.filter(|budget| budget.is_over()) {
            prop_assert!(budget.after <= budget.high_water || budget.is_unsatisfiable());
            prop_assert!(budget.after <= budget.before);
        }
        // What the budget says is there afterwards is what is there.
        let after = stage.applied();
        let files: u64 = after.files.iter().map(|file| file.bytes).sum();
        if let Some(budget) = plan.budget {
            prop_assert_eq!(budget.after, files + plan.index_bytes as u64);
        }
    }

    #[test]
    fn what_is_written_is_what_was_planned(stage in stage()) {
        let written = stage.written();
        prop_assert_eq!(written.len(), stage.plan().index_bytes);
        let written: Value = serde_json::from_str(&written).unwrap();
        let expected = stage.applied().entries.into_iter().collect::<serde_json::Map<_, _>>();
        prop_assert_eq!(written, Value::Object(expected));
    }

    #[test]
    fn a_second_run_changes_nothing_more(stage in stage()) {
        prop_assert_eq!(stage.plan(), stage.plan());
        let mut after = stage.applied();
        // Entries that went for want of a transcript, or as an odd one, are gone.
        after.trigger = MaintenanceTrigger::Cleanup;
        let again = after.applied();
        let third = again.plan();
        prop_assert!(!third.changes_anything(), "{third:?}");
        if stage.trigger == MaintenanceTrigger::Cleanup {
            let second = stage.applied().plan();
            prop_assert!(!second.changes_anything(), "{second:?}");
        }
    }
}
