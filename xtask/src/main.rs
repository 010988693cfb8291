//! `cargo xtask <task>`: development tasks that need more than cargo.
// A task talks to the developer who started it; stdout and stderr are its interface.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod endure;
mod fuzz;
mod install;
mod lab;
mod terminals;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Drive real coding agents against a fake model and check what ostler says about them
    Lab(lab::Options),
    /// Build ostler as it is meant to be run, and install it
    Install(install::Options),
    /// Measure ostler against a floor: ratios, in one run
    Bench(bench::Options),
    /// Throw bytes at everything that reads foreign ones, for a bounded time
    Fuzz(fuzz::Options),
    /// Create and destroy terminals a thousand times, and leave hundreds of them alone
    Endure(endure::Options),
}

fn main() -> ExitCode {
    match Cli::parse().task {
        Task::Lab(options) => lab::run(&options),
        Task::Install(options) => install::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Endure(options) => endure::run(&options),
    }
}
