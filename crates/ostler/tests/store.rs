//! OpenClaw's stores as their users see them: real files, real locks, a gateway that misbehaves.

#![allow(clippy::disallowed_methods, reason = "tests remove what they made")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod store {
    mod broken;
    mod consent;
    mod exchange;
    mod faults;
    mod gateway;
    mod listing;
    mod live;
    mod pins;
    mod policy;
    mod rebuild;
    mod repair;
    mod stage;
}
