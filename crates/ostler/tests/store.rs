//! OpenClaw's stores as their users see them: real files, real locks, a gateway that misbehaves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "shared with the other tests, which use all of it")]
#[path = "cli/run.rs"]
mod run;

mod store {
    mod broken;
    mod faults;
    mod gateway;
    mod listing;
    mod live;
    mod policy;
    mod rebuild;
    mod stage;
}
