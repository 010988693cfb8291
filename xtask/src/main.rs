//! `cargo xtask <task>`: development tasks that need more than cargo.
//!
//! `cargo xtask install` is the first command of a newcomer, so that the alias builds this program
//! without its dependencies (one of them is SQLite). For any other task it builds itself again with them
//! (feature `tools`, which is on by default) and hands over.
// A task talks to the developer who started it; stdout and stderr are its interface.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[cfg(feature = "tools")]
mod bench;
#[cfg(feature = "tools")]
mod dist;
#[cfg(feature = "tools")]
mod endure;
#[cfg(feature = "tools")]
mod fuzz;
mod install;
#[cfg(feature = "tools")]
mod lab;
#[cfg(feature = "tools")]
mod terminals;
#[cfg(feature = "tools")]
mod tools;
#[cfg(feature = "tools")]
mod upgrade;
#[cfg(feature = "tools")]
mod web_test;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.split_first() {
        Some((task, options)) if task == "install" => install::run(options),
        _ => run_tool(&arguments),
    }
}

#[cfg(feature = "tools")]
fn run_tool(_: &[OsString]) -> ExitCode {
    tools::run()
}

#[cfg(not(feature = "tools"))]
fn run_tool(arguments: &[OsString]) -> ExitCode {
    use std::os::unix::process::CommandExt;

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let error = std::process::Command::new(cargo)
        .args(["run", "--quiet", "--release", "--package", "xtask", "--"])
        .args(arguments)
        .exec();
    eprintln!("error: cargo cannot be started: {error}");
    ExitCode::FAILURE
}
