//! Either a host answers for a session or its log does.

use ostler_model::status::{StatusPolicy, assert_sound};

const _: () = assert_sound(&[StatusPolicy {
    active: true,
    terminal: false,
    commandable: true,
    live_host: true,
    offline_replay: true,
    collectable: false,
    destroyed: false,
}]);

fn main() {}
