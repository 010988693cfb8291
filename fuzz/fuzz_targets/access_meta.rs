//! `meta.json` and `stop.json`: what is accepted keeps every rule, what is not is not quoted.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/flows/tests/oracles/mod.rs"]
mod oracles;

fuzz_target!(|bytes: &[u8]| oracles::access_meta(bytes));
