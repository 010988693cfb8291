//! OpenClaw's agents as their owners delete them: real files, real processes, a gateway that does
//! everything wrong.

#![allow(clippy::disallowed_methods, reason = "tests remove what they made")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agents {
    mod delete;
    mod faults;
    mod gateway;
    mod list;
    mod stage;
}
