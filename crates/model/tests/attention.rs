//! Who needs a person comes first, whatever else there is.

use ostler_model::rules::attention::{AttentionFacts, AttentionGroup, AttentionPlace};
use ostler_model::session::{SessionKind, SessionName};
use ostler_model::status::{Activity, Status};
use ostler_model::time::Time;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

const NOW: Time = Time::from_millis(10_000_000);

prop_compose! {
    fn facts()(
        kind in select(vec![SessionKind::Native, SessionKind::Hosted, SessionKind::Access]),
        status in select(Status::ALL.to_vec()),
        activity in select(Activity::ALL.to_vec()),
        last_sign in of((0_i64..10_000_000).prop_map(Time::from_millis)),
    ) -> AttentionFacts {
        // Only what may be live does something.
        let activity = status.is_active().then_some(activity);
        AttentionFacts { kind, status, activity, last_sign }
    }
}

fn place(index: usize, facts: &AttentionFacts, looked_at: Option<Time>) -> AttentionPlace {
    AttentionPlace::of_facts(facts, SessionName::new("a", index.to_string()), looked_at, NOW)
}

fn time() -> impl Strategy<Value = Option<Time>> {
    of((0_i64..10_000_000).prop_map(Time::from_millis))
}

proptest! {
    #[test]
    fn row_01_needs_you_comes_first_for_every_mix_of_states(
        all in prop::collection::vec((facts(), time()), 0..40)
    ) {
        let mut places: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(index, (facts, looked_at))| (place(index, facts, *looked_at), facts))
            .collect();
        places.sort_by(|one, other| one.0.cmp(&other.0));
        let groups: Vec<AttentionGroup> = places.iter().map(|(place, _)| place.group).collect();
        prop_assert!(groups.is_sorted(), "{groups:?}");
        let waiting = all.iter().filter(|(facts, _)| facts.activity == Some(Activity::Waiting));
        let waiting = waiting.filter(|(facts, _)| facts.status != Status::Unknown).count();
        let first: Vec<_> = groups.iter().filter(|group| **group == AttentionGroup::NeedsYou).collect();
        prop_assert!(first.len() >= waiting);
        for (one, other) in places.iter().zip(places.iter().skip(1)) {
            prop_assert_ne!(&one.0, &other.0, "every place is its own");
            let (Some(earlier), Some(later)) = (one.1.last_sign, other.1.last_sign) else { continue };
            if one.0.group == other.0.group {
                match one.0.group {
                    AttentionGroup::NeedsYou => prop_assert!(earlier <= later, "longest wait first"),
                    _ => prop_assert!(earlier >= later, "newest sign first"),
                }
            }
        }
    }

    #[test]
    fn row_06_what_is_unknown_is_never_among_the_idle_ones(facts in facts(), looked_at in time()) {
        let group = facts.attention_group(looked_at, NOW);
        if facts.status == Status::Unknown {
            prop_assert_eq!(group, AttentionGroup::Unknown);
        }
        if facts.kind == SessionKind::Native && facts.activity == Some(Activity::Unknown) {
            prop_assert_eq!(group, AttentionGroup::Unknown);
        }
        // What nobody looked at is not called done: it may have been done for weeks.
        if looked_at.is_none() {
            prop_assert_ne!(group, AttentionGroup::Done);
        }
    }
}

#[test]
fn a_failure_needs_somebody_for_an_hour() {
    let failed = |ago_s: i64| AttentionFacts {
        kind: SessionKind::Hosted,
        status: Status::Failed,
        activity: None,
        last_sign: Some(Time::from_millis(NOW.as_millis() - ago_s * 1000)),
    };
    assert_eq!(failed(60).attention_group(None, NOW), AttentionGroup::NeedsYou);
    assert_eq!(failed(3600).attention_group(None, NOW), AttentionGroup::Ended);
}

#[test]
fn a_turn_that_ended_is_done_until_it_was_looked_at() {
    let at = Time::from_millis;
    let idle = AttentionFacts {
        kind: SessionKind::Native,
        status: Status::Running,
        activity: Some(Activity::Idle),
        last_sign: Some(at(5000)),
    };
    assert_eq!(idle.attention_group(Some(at(4000)), NOW), AttentionGroup::Done);
    assert_eq!(idle.attention_group(Some(at(5000)), NOW), AttentionGroup::Idle);
}
