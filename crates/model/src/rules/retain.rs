//! The retention policy: the one rule by which something is chosen to go.

use std::time::Duration;

/// Something that could go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionCandidate {
    /// How long it has been left alone; not known means that it stays.
    pub age: Option<Duration>,
    /// How many bytes it takes.
    pub bytes: u64,
    /// Whether it is proven that it is no longer needed.
    pub may_go: bool,
}

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionLimits {
    /// What is older goes.
    pub older_than: Option<Duration>,
    /// The oldest go until all that is left takes no more than this.
    pub max_bytes: Option<u64>,
}

/// What was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionSelection {
    /// For each candidate, whether it goes.
    pub goes: Vec<bool>,
    /// How many bytes are left above the limit, because the rest may not go.
    pub over: u64,
}

/// Chooses what goes. No limit means that nothing does.
pub fn select_removals(
    candidates: &[RetentionCandidate],
    limits: RetentionLimits,
) -> RetentionSelection {
    let is_old = |one: &RetentionCandidate| {
        one.may_go && one.age.zip(limits.older_than).is_some_and(|(age, limit)| age > limit)
    };
    let mut goes: Vec<bool> = candidates.iter().map(is_old).collect();
    let left = |goes: &[bool]| -> u64 {
        candidates.iter().zip(goes).filter(|(_, goes)| !**goes).map(|(one, _)| one.bytes).sum()
    };
    let Some(most) = limits.max_bytes else { return RetentionSelection { goes, over: 0 } };
    let mut order: Vec<usize> = (0..candidates.len())
        .filter(|&index| candidates[index].may_go && candidates[index].age.is_some())
        .collect();
    order.sort_by_key(|&index| std::cmp::Reverse(candidates[index].age));
    let mut bytes = left(&goes);
    for index in order {
        if bytes <= most {
            break;
        }
        if !goes[index] && candidates[index].bytes > 0 {
            goes[index] = true;
            bytes -= candidates[index].bytes;
        }
    }
    RetentionSelection { goes, over: bytes.saturating_sub(most) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn candidate() -> impl Strategy<Value = RetentionCandidate> {
        let age = proptest::option::of((0u64..100).prop_map(Duration::from_secs));
        (age, 0u64..1000, any::<bool>()).prop_map(|(age, bytes, may_go)| RetentionCandidate {
            age,
            bytes,
            may_go,
        })
    }

    fn limits() -> impl Strategy<Value = RetentionLimits> {
        let age = proptest::option::of((0u64..100).prop_map(Duration::from_secs));
        (age, proptest::option::of(0u64..5000))
            .prop_map(|(older_than, max_bytes)| RetentionLimits { older_than, max_bytes })
    }

    proptest! {
        #[test]
        fn nothing_goes_that_may_not(all in proptest::collection::vec(candidate(), 0..30), limits in limits()) {
            let selection = select_removals(&all, limits);
            for (one, goes) in all.iter().zip(&selection.goes) {
                prop_assert!(!goes || (one.may_go && one.age.is_some()), "{one:?}");
            }
        }

        #[test]
        fn the_limit_is_kept_or_said_to_be_out_of_reach(all in proptest::collection::vec(candidate(), 0..30), limits in limits()) {
            let selection = select_removals(&all, limits);
            let left: u64 = all.iter().zip(&selection.goes).filter(|(_, goes)| !**goes).map(|(one, _)| one.bytes).sum();
            if let Some(most) = limits.max_bytes {
                prop_assert_eq!(selection.over, left.saturating_sub(most));
                let more = all.iter().zip(&selection.goes).any(|(one, goes)| !goes && one.may_go && one.age.is_some() && one.bytes > 0);
                prop_assert!(selection.over == 0 || !more, "something could still have gone");
            }
        }

        #[test]
        fn a_second_time_chooses_nothing_more(all in proptest::collection::vec(candidate(), 0..30), limits in limits()) {
            let first = select_removals(&all, limits);
            let rest: Vec<RetentionCandidate> = all.iter().zip(&first.goes).filter(|(_, goes)| !**goes).map(|(one, _)| *one).collect();
            prop_assert!(select_removals(&rest, limits).goes.iter().all(|goes| !goes));
        }

        #[test]
        fn without_a_limit_everything_stays(all in proptest::collection::vec(candidate(), 0..30)) {
            prop_assert!(select_removals(&all, RetentionLimits::default()).goes.iter().all(|goes| !goes));
        }
    }

    #[test]
    fn the_oldest_go_first() {
        let one = |age, bytes| RetentionCandidate {
            age: Some(Duration::from_secs(age)),
            bytes,
            may_go: true,
        };
        let limits = RetentionLimits { older_than: None, max_bytes: Some(25) };
        let selection = select_removals(&[one(5, 10), one(50, 10), one(20, 10)], limits);
        assert_eq!(selection.goes, [false, true, false]);
    }
}
