//! `cargo xtask endure`: what the test suite asks of a few terminals, and of the reaper under a few kills,
//! asked of many and for longer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use testkit::siege::{self, Siege};

use crate::terminals::{Stage, ticks_of};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The binary; built as `cargo xtask install` builds it when left out.
    #[arg(long)]
    ostler: Option<PathBuf>,
    /// How often a terminal is created and destroyed.
    #[arg(long, default_value_t = 1000)]
    cycles: usize,
    /// How many terminals there are at once.
    #[arg(long, default_value_t = 200)]
    sessions: usize,
    /// For how long those are left alone.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Instead, kill the reaper so often while others write to what it moves: half of it on one device,
    /// half between two.
    #[arg(long, value_name = "KILLS")]
    reaper: Option<usize>,
    /// What the moments of those kills follow from.
    #[arg(long, default_value_t = 1, requires = "reaper")]
    seed: u64,
}

pub(crate) fn run(options: &Options) -> ExitCode {
    match endure(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn endure(options: &Options) -> Result<(), String> {
    let ostler = match &options.ostler {
        Some(path) => std::path::absolute(path).map_err(|error| error.to_string())?,
        None => crate::install::build(false)?,
    };
    if let Some(kills) = options.reaper {
        return besiege(&ostler, kills, options.seed);
    }
    let stage = Stage::new(&ostler, &std::env::temp_dir().join("ostler-endure"))?;
    cycles(&stage, options.cycles)?;
    at_once(&stage, options.sessions, Duration::from_secs(options.seconds))
}

/// Nothing that others write is lost, whenever the reaper is killed.
fn besiege(ostler: &Path, kills: usize, seed: u64) -> Result<(), String> {
    let elsewhere = siege::other_device().ok_or("there is no second file system to write to")?;
    for (place, elsewhere) in [("one device", None), ("two devices", Some(elsewhere))] {
        let begun = Instant::now();
        let asked = Siege { ostler: ostler.to_owned(), kills: kills / 2, seed, elsewhere };
        let seen = siege::lay(&asked);
        println!("{place}, {:.0} s: {seen:#?}", begun.elapsed().as_secs_f64());
        if !seen.lost.is_empty() || !seen.problems.is_empty() {
            return Err(format!("{} writes lost on {place}", seen.lost.len()));
        }
    }
    Ok(())
}

/// Nothing is left of terminals that were destroyed and collected.
fn cycles(stage: &Stage, cycles: usize) -> Result<(), String> {
    // What is made once, the first time.
    cycle(stage)?;
    let (before, open) = (collect(stage)?, descriptors());
    let begun = Instant::now();
    for _ in 0..cycles {
        cycle(stage)?;
    }
    let each = begun.elapsed().as_secs_f64() * 1e3 / cycles as f64;
    let after = collect(stage)?;
    let left: Vec<_> = after.symmetric_difference(&before).collect();
    if !left.is_empty() {
        return Err(format!("{} paths are left, such as {:?}", left.len(), left[0]));
    }
    if descriptors() != open {
        return Err(format!("{} descriptors are open, there were {open}", descriptors()));
    }
    println!("{cycles} cycles of create and destroy, {each:.1} ms each: nothing is left");
    Ok(())
}

fn cycle(stage: &Stage) -> Result<(), String> {
    let created: serde_json::Value =
        serde_json::from_str(&stage.run(&["create", "--json", "--", "/bin/cat"])?)
            .map_err(|error| error.to_string())?;
    let id = created["result"]["sessionId"].as_str().ok_or("no session")?;
    stage.run(&["destroy", id]).map(drop)
}

/// Waits for the last process, removes the sessions for good and lists what is in the home.
fn collect(stage: &Stage) -> Result<BTreeSet<PathBuf>, String> {
    no_process_left(stage)?;
    stage.run(&["gc", "--older-than", "0s", "--yes"])?;
    stage.run(&["trash", "empty", "--older-than", "0s", "--yes"])?;
    let mut all = BTreeSet::new();
    tree(&stage.home, &mut all).map_err(|error| error.to_string())?;
    // One journal is kept of each removal, however many sessions it removed.
    let trash = stage.home.join("state/trash");
    all.retain(|path| !path.ends_with("journal.jsonl") && path.parent() != Some(trash.as_path()));
    Ok(all)
}

fn no_process_left(stage: &Stage) -> Result<(), String> {
    let begun = Instant::now();
    while !stage.processes().is_empty() {
        if begun.elapsed() > Duration::from_secs(10) {
            return Err(format!("processes are left: {:?}", stage.processes()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn tree(directory: &Path, all: &mut BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            tree(&entry.path(), all)?;
        }
        all.insert(entry.path());
    }
    Ok(())
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Terminals in which nothing happens do nothing, however many there are.
fn at_once(stage: &Stage, sessions: usize, span: Duration) -> Result<(), String> {
    let mut hosts = Vec::new();
    for count in 0..sessions {
        let name = format!("one-of-many-{count}");
        stage.run(&["create", "--name", &name, "--", "/bin/cat"])?;
        hosts.push(stage.host(&name)?);
    }
    let ticks = || -> Result<f64, String> { hosts.iter().map(|pid| ticks_of(*pid)).sum() };
    std::thread::sleep(Duration::from_secs(1));
    let before = ticks()?;
    std::thread::sleep(span);
    let used = ticks()? - before;
    for count in 0..sessions {
        stage.run(&["destroy", &format!("one-of-many-{count}")])?;
    }
    no_process_left(stage)?;
    if used > 0.0 {
        return Err(format!("{sessions} idle hosts used {used} ticks in {span:?}"));
    }
    println!("{sessions} idle hosts: 0 ticks in {span:?}");
    Ok(())
}
