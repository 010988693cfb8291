//! The floor for reading a store: a plain parse of a JSON file into values, and nothing else.
#![allow(clippy::disallowed_methods, reason = "a program of its own, to be measured against")]

use std::process::ExitCode;

fn main() -> ExitCode {
    let path = std::env::args_os().nth(1).unwrap_or_default();
    let parsed = std::fs::read(path)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
    match parsed {
        // What was parsed must be used, or the work could be left out.
        Some(value) if value.is_object() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
