//! The tasks that need more than a compiler.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{bench, dist, endure, fuzz, install, lab, upgrade, web_test};

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
    /// Build ostler as it is meant to be run, and install it: `--root DIR`, `--debug`
    #[command(disable_help_flag = true)]
    Install {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<std::ffi::OsString>,
    },
    /// Make everything that a release needs: tarball, .deb, npm packages, wheel, formula, SBOM, notices, checksums
    Dist(dist::Options),
    /// Make a release twice, then install, use and take away each package where nothing else is
    DistTest(dist::check::Options),
    /// Let two releases work in one home, each way: daemon, hosts, page, network helper, and what they wrote
    UpgradeTest(upgrade::Options),
    /// Measure ostler against a floor: ratios, in one run
    Bench(bench::Options),
    /// Throw bytes at everything that reads foreign ones, for a bounded time
    Fuzz(fuzz::Options),
    /// Create and destroy terminals a thousand times, and leave hundreds of them alone
    Endure(endure::Options),
    /// Check the page: its types, and its tests in a real browser
    WebTest(web_test::Options),
}

pub(crate) fn run() -> ExitCode {
    match Cli::parse().task {
        Task::Lab(options) => lab::run(&options),
        Task::Install { options } => install::run(&options),
        Task::Dist(options) => dist::run(&options),
        Task::DistTest(options) => dist::check::run(&options),
        Task::UpgradeTest(options) => upgrade::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Endure(options) => endure::run(&options),
        Task::WebTest(options) => web_test::run(&options),
    }
}
