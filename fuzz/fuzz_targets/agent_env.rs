//! The grammar of `agent.env` never panics and accepts only what a shell cannot misread.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/flows/tests/oracles/mod.rs"]
mod oracles;

fuzz_target!(|bytes: &[u8]| oracles::agent_env(bytes));
