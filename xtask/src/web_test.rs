//! `cargo xtask web-test`: the page's types (TypeScript's checker) and its tests in a real browser (Playwright).
//!
//! Node, npm and Chromium are needed for this and for nothing else. A browser that is missing fails, so
//! that nobody takes tests that were not run for tests that passed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Options of the task.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only check types; the tests in a browser are not run
    #[arg(long)]
    no_browser: bool,
    /// Only tests whose name fits this pattern
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
}

/// Names under which browsers are installed.
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

pub(crate) fn run(options: &Options) -> ExitCode {
    match check_page(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Where the page's files are, with what its tests need.
pub(crate) fn prepare_page() -> Result<PathBuf, String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/ostler/web");
    if !page.join("node_modules").exists() {
        finish(Command::new("npm").arg("ci").current_dir(&page))?;
    }
    Ok(page)
}

fn check_page(options: &Options) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = prepare_page()?;
    finish(Command::new("npx").args(["tsc", "-p", "."]).current_dir(&page))?;
    if options.no_browser {
        println!("the tests in a browser were not run");
        return Ok(());
    }
    let browser = find_browser().ok_or(
        "no browser was found: install Chromium, name one in OSTLER_BROWSER, or say --no-browser",
    )?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    finish(
        Command::new(cargo).args(["build", "--quiet", "--package", "ostler"]).current_dir(&root),
    )?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let program = target.join("debug/ostler").canonicalize().map_err(|error| error.to_string())?;
    let mut tests = Command::new("node");
    tests.arg("--test");
    if let Some(only) = &options.only {
        tests.arg(format!("--test-name-pattern={only}"));
    }
    // One browser at a time: what is measured in seconds shares the machine with nobody.
    tests.arg("--test-concurrency=1");
    tests.args(["tests/page.test.js", "tests/views.test.js", "tests/hands.test.js"]);
    tests.current_dir(&page);
    finish(tests.env("OSTLER_BIN", program).env("OSTLER_BROWSER", browser))
}

fn finish(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{name}` failed: {status}")),
        Err(error) => Err(format!("`{name}` cannot be started: {error}")),
    }
}

pub(crate) fn find_browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("OSTLER_BROWSER") {
        return Some(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH")?;
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = BROWSERS.iter().flat_map(|name| directories.iter().map(move |one| one.join(name)));
    found.into_iter().find(|browser| browser.exists())
}
