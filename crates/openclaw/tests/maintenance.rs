//! The maintenance of OpenClaw's stores, row by row, and its properties.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "openclaw/budget.rs"]
mod budget;
#[path = "openclaw/entries.rs"]
mod entries;
#[path = "openclaw/properties.rs"]
mod properties;
#[path = "openclaw/stage.rs"]
mod stage;
