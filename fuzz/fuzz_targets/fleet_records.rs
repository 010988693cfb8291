#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracles::fleet_records(bytes));
