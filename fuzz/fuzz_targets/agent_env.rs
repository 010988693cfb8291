#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracles::agent_env(bytes));
