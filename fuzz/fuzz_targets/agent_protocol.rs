//! The ssh-agent protocol: no message panics the keeper or passes for a harmless one.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/flows/tests/oracles/mod.rs"]
mod oracles;

fuzz_target!(|bytes: &[u8]| oracles::agent_protocol(bytes));
