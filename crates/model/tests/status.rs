//! The status policy as its callers rely on it.

use ostler_model::status::{Status, StatusPolicy, assert_sound};

/// A row with the given marks, in the order of the table in the design.
fn row(marks: [bool; 7]) -> StatusPolicy {
    let [active, terminal, commandable, live_host, offline_replay, collectable, destroyed] = marks;
    StatusPolicy {
        active,
        terminal,
        commandable,
        live_host,
        offline_replay,
        collectable,
        destroyed,
    }
}

#[test]
fn every_predicate_answers_from_the_table() {
    for status in Status::ALL {
        let answers = [
            status.is_active(),
            status.is_terminal(),
            status.accepts_commands(),
            status.has_live_host(),
            status.replays_offline(),
            status.is_collectable(),
            status.is_destroyed(),
        ];
        assert_eq!(row(answers), status.policy(), "{status:?}");
    }
}

#[test]
fn nothing_that_may_be_alive_is_collectable() {
    for status in Status::ALL {
        assert!(!(status.is_active() && status.is_collectable()), "{status:?}");
        assert!(!(status.accepts_commands() && status.is_terminal()), "{status:?}");
    }
    assert!(Status::Unknown.is_active(), "lost sight protects");
}

/// All 128 rows that could be written, against the invariants in words.
#[test]
fn the_sound_rows_are_exactly_those_that_keep_every_invariant() {
    let mut sound = 0;
    for bits in 0..128_u32 {
        let policy = row(std::array::from_fn(|mark| bits & (1 << mark) != 0));
        let broken = [
            policy.active == policy.terminal,
            policy.collectable && !policy.terminal,
            policy.commandable && !policy.active,
            policy.live_host == policy.offline_replay,
            policy.destroyed && !policy.terminal,
        ];
        assert_eq!(policy.is_sound(), !broken.contains(&true), "{policy:?}");
        sound += u32::from(policy.is_sound());
    }
    // Active: commandable or not. Terminal: collectable or not, destroyed or not. Each with a
    // live host or with replay.
    assert_eq!(sound, (2 + 4) * 2);
}

#[test]
fn the_table_itself_is_sound() {
    assert_sound(&Status::ALL.map(Status::policy));
}

#[test]
fn every_status_has_its_own_word() {
    let mut words = Status::ALL.map(Status::as_str).to_vec();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), Status::ALL.len());
}

/// A table that breaks an invariant does not compile.
#[test]
fn a_wrong_table_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
}
