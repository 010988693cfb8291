//! A session that may be alive must never be collectable.

use ostler_model::status::{StatusPolicy, assert_sound};

const _: () = assert_sound(&[StatusPolicy {
    active: true,
    terminal: false,
    commandable: true,
    live_host: true,
    offline_replay: false,
    collectable: true,
    destroyed: false,
}]);

fn main() {}
