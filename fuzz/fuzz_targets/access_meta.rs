#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracles::access_meta(bytes));
