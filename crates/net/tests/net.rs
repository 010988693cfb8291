//! `ostler` and `ostler-net` together, as users run them.
#![allow(clippy::disallowed_methods, reason = "tests remove what they made")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on has failed")]

mod net {
    mod admission;
    mod docs;
    mod doctor;
    mod examples;
    mod faults;
    mod fleet;
    mod fleet_kit;
    mod grants;
    mod isolation;
    mod kit;
    mod logs;
    mod orders;
    mod records;
    mod rows;
    mod ssh;
    mod terminals;
    mod verbs;
    mod watch;
    mod webhooks;
}
