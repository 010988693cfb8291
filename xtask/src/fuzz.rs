//! `cargo xtask fuzz`: every fuzz target for a bounded time, with the toolchain that is there.
//!
//! The coverage that libFuzzer is guided by needs nothing but flags of the compiler, so neither cargo-fuzz
//! nor another toolchain is needed. Memory is not sanitized: outside `sys` there is no unsafe code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The targets; all of them when none is named.
    targets: Vec<String>,
    /// How long each is run.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The longest input that is tried.
    #[arg(long, default_value_t = 4096)]
    longest: usize,
}

/// What cargo-fuzz gives the compiler, too.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
];

pub(crate) fn run(options: &Options) -> ExitCode {
    match fuzz(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn fuzz(options: &Options) -> Result<(), String> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let known = targets(&fuzz)?;
    if let Some(unknown) = options.targets.iter().find(|name| !known.contains(name)) {
        return Err(format!("`{unknown}` is no fuzz target; there are: {}", known.join(", ")));
    }
    let programs = build(&fuzz)?;
    // What targets write goes where it can be removed, and into memory: they make thousands of files.
    let memory = Some(PathBuf::from("/dev/shm")).filter(|path| path.is_dir());
    let scratch = memory.unwrap_or_else(std::env::temp_dir);
    let scratch = scratch.join(format!("ostler-fuzz-{}", std::process::id()));
    fs::create_dir(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let failed: Vec<String> = known
        .into_iter()
        .filter(|name| options.targets.is_empty() || options.targets.contains(name))
        .filter(|name| !holds(name, &fuzz, &programs, &scratch, options))
        .collect();
    let _ = fs::remove_dir_all(&scratch);
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("found something: {}; the inputs are in fuzz/artifacts", failed.join(", ")))
}

fn targets(fuzz: &Path) -> Result<Vec<String>, String> {
    let directory = fuzz.join("fuzz_targets");
    let entries = fs::read_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Builds all targets and returns where they are.
fn build(fuzz: &Path) -> Result<PathBuf, String> {
    let target = crate::install::host()?;
    let built = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let built = std::path::absolute(built).map_err(|error| error.to_string())?.join("fuzz");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--target", &target])
        .current_dir(fuzz)
        .env("CARGO_TARGET_DIR", &built)
        .env("RUSTFLAGS", FLAGS.join(" "))
        .status()
        .map_err(|error| error.to_string())?;
    if !status.success() {
        return Err("the build failed".to_owned());
    }
    Ok(built.join(target).join("release"))
}

/// Runs one target; says whether everything held.
fn holds(name: &str, fuzz: &Path, programs: &Path, scratch: &Path, options: &Options) -> bool {
    let corpus = fuzz.join("corpus").join(name);
    let artifacts = fuzz.join("artifacts").join(name);
    let made = [&corpus, &artifacts].iter().all(|directory| fs::create_dir_all(directory).is_ok());
    println!("== {name}: {} s", options.seconds);
    let status = Command::new(programs.join(name))
        .arg(corpus)
        .arg(fuzz.join("seeds").join(name))
        .arg(format!("-max_total_time={}", options.seconds))
        .arg(format!("-max_len={}", options.longest))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-verbosity=0", "-timeout=20", "-rss_limit_mb=4096"])
        .env("TMPDIR", scratch)
        .status();
    made && status.is_ok_and(|status| status.success())
}
