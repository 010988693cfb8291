//! The `ostler-net` binary: reads one request from its standard input and does what that says.

use std::process::ExitCode;

fn main() -> ExitCode {
    net::helper::run_helper()
}
