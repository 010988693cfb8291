//! `cargo xtask bench`: ratios against a floor, measured side by side in one run.
//!
//! Absolute times say more about the machine than about ostler, so every number is a ratio: a stat
//! walk (`find -printf`) for listing, `/bin/true` for starting. The two sides take turns, so that
//! other load on the machine hits both.

mod badge;
mod control;
mod control_asks;
mod fleet;
mod gc;
mod generate;
mod hook;
mod store;
mod surfaces;
mod terminal;
mod web;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// What to measure.
    #[arg(value_enum, default_value_t = What::Ls)]
    what: What,
    /// The binary to measure; built as `cargo xtask install` builds it when left out.
    #[arg(long)]
    ostler: Option<PathBuf>,
    /// Where the homes are made and kept.
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// A script that is called with `--home DIR --sessions N --max-lines 120 --max-kb 180` to make
    /// a home, instead of the built-in generator.
    #[arg(long)]
    generator: Option<PathBuf>,
    /// How many sessions the homes have.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000, 10_000])]
    sessions: Vec<usize>,
    /// How often each side is run.
    #[arg(long, default_value_t = 15)]
    runs: usize,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// Listing sessions, and starting.
    Ls,
    /// Hooks, and how soon an end is known.
    Hook,
    /// Hosted terminals, beside tmux and script.
    Terminal,
    /// OpenClaw's stores, beside a plain parse.
    Store,
    /// What the reaper plans, and one row in a large store.
    Gc,
    /// Search, beside ripgrep.
    Surfaces,
    /// The badge of status bars, with the daemon and without.
    Badge,
    /// The page of `ostler web`, in a real browser.
    Web,
    /// Launching, prompting and stopping agents.
    Control,
    /// A hub with a thousand members.
    Fleet,
}

/// What a benchmark must not exceed.
struct Bound {
    what: String,
    measured: f64,
    limit: Option<f64>,
    unit: &'static str,
}

pub(crate) fn run(options: &Options) -> ExitCode {
    match measure(options) {
        Ok(bounds) => report(&bounds),
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<Vec<Bound>, String> {
    let ostler = match &options.ostler {
        Some(path) => std::path::absolute(path).map_err(|error| error.to_string())?,
        None => {
            if matches!(options.what, What::Fleet) {
                crate::install::build_helper(false)?;
            }
            crate::install::build(false)?
        }
    };
    match options.what {
        What::Ls => listing(options, &ostler),
        What::Fleet => fleet::measure(&ostler, &options.dir),
        What::Badge => badge::measure(&ostler, &options.dir),
        What::Control => control::measure(&ostler, &options.dir, options.runs),
        What::Hook => hook::measure(&ostler, &options.dir),
        What::Gc => gc::measure(&ostler, &options.dir, options.runs),
        What::Terminal => terminal::measure(&ostler, &options.dir, options.runs),
        What::Surfaces => surfaces::measure(&ostler, &options.dir, options.runs),
        What::Web => web::measure(&ostler, &options.dir, options.generator.as_deref()),
        What::Store => store::measure(&ostler, &options.dir, options.runs),
    }
}

fn listing(options: &Options, ostler: &Path) -> Result<Vec<Bound>, String> {
    let mut bounds = Vec::new();
    let mut cold_per_session = Vec::new();
    for &sessions in &options.sessions {
        let home = options.dir.join(format!("home-{sessions}"));
        let home = std::path::absolute(home).map_err(|error| error.to_string())?;
        generate::ensure(&home, sessions, options.generator.as_deref())?;
        let list = |extra: &[&str]| {
            let mut command = clean(ostler, &home);
            command.args(["ls", "-a", "--json"]).args(extra);
            command
        };
        time(&mut list(&[]))?;
        time(&mut list(&[]))?;
        let mut find = clean(Path::new("find"), &home);
        find.arg(home.join(".claude")).args(["-printf", "%p %s %T@\\n"]);
        let [floor, warm, cold] =
            side_by_side(options.runs, [find, list(&[]), list(&["--no-index"])])?;
        let largest = sessions >= 10_000;
        let ratio = |time: Duration| time.as_secs_f64() / floor.as_secs_f64();
        eprintln!("{sessions} sessions: find {floor:?}, warm {warm:?}, cold {cold:?}");
        bounds.push(Bound {
            what: format!("ls -a --json, {sessions} sessions, warm index, against find"),
            measured: ratio(warm),
            limit: largest.then_some(2.0),
            unit: "x",
        });
        bounds.push(Bound {
            what: format!("ls -a --json, {sessions} sessions, no index, against find"),
            measured: ratio(cold),
            limit: largest.then_some(12.0),
            unit: "x",
        });
        cold_per_session.push(cold.as_secs_f64() / sessions as f64);
        bounds.push(Bound {
            what: format!("peak memory of ls -a --json, {sessions} sessions"),
            measured: peak_megabytes(&list(&[]))?.max(peak_megabytes(&list(&["--no-index"]))?),
            limit: largest.then_some(40.0),
            unit: " MB",
        });
    }
    if let (Some(small), Some(large)) = (cold_per_session.first(), cold_per_session.last()) {
        bounds.push(Bound {
            what: "time per session without index, largest home against smallest".to_owned(),
            measured: large / small,
            limit: Some(1.5),
            unit: "x",
        });
    }
    bounds.push(start_cost(ostler)?);
    bounds.push(busy_machine(ostler, options)?);
    Ok(bounds)
}

/// `ostler version` against `/bin/true`.
fn start_cost(ostler: &Path) -> Result<Bound, String> {
    let mut version = clean(ostler, Path::new("/"));
    version.arg("version");
    let [floor, version] =
        side_by_side(200, [clean(Path::new("/bin/true"), Path::new("/")), version])?;
    eprintln!("start: /bin/true {floor:?}, ostler version {version:?}");
    Ok(Bound {
        what: "ostler version, against /bin/true".to_owned(),
        measured: version.as_secs_f64() / floor.as_secs_f64(),
        limit: Some(2.0),
        unit: "x",
    })
}

/// `ostler ls` of live sessions with 500 other processes running.
fn busy_machine(ostler: &Path, options: &Options) -> Result<Bound, String> {
    let home =
        std::path::absolute(options.dir.join("home-100")).map_err(|error| error.to_string())?;
    generate::ensure(&home, 100, options.generator.as_deref())?;
    let mut others = Vec::new();
    for _ in 0..500 {
        let child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn();
        others.push(child.map_err(|error| error.to_string())?);
    }
    let mut list = clean(ostler, &home);
    list.arg("ls");
    let times = side_by_side(options.runs, [clean(Path::new("/bin/true"), &home), list]);
    for mut child in others {
        let _ = child.kill();
        let _ = child.wait();
    }
    let [floor, list] = times?;
    eprintln!("500 processes: /bin/true {floor:?}, ostler ls {list:?}");
    Ok(Bound {
        what: "ostler ls with 500 other processes, above /bin/true".to_owned(),
        measured: (list.as_secs_f64() - floor.as_secs_f64()) * 1e3,
        limit: Some(10.0),
        unit: " ms",
    })
}

/// A command with nothing in its environment but the home.
fn clean(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("HOME", home)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Medians of commands that take turns.
fn side_by_side<const N: usize>(
    runs: usize,
    mut commands: [Command; N],
) -> Result<[Duration; N], String> {
    let mut times: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..runs {
        for (command, times) in commands.iter_mut().zip(&mut times) {
            times.push(time(command)?);
        }
    }
    Ok(times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    }))
}

fn time(command: &mut Command) -> Result<Duration, String> {
    let start = Instant::now();
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    let time = start.elapsed();
    if matches!(status.code(), Some(0 | 12)) {
        Ok(time)
    } else {
        Err(format!("{command:?} ended with {status}"))
    }
}

/// The largest resident size of a run, by `time` from the package of that name.
fn peak_megabytes(command: &Command) -> Result<f64, String> {
    let mut timed = Command::new("time");
    timed.args(["-f", "%M"]).arg(command.get_program()).args(command.get_args()).env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            timed.env(name, value);
        }
    }
    let output = timed
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("`time` is needed to measure memory: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let kilobytes: f64 = text
        .lines()
        .last()
        .and_then(|line| line.trim().parse().ok())
        .ok_or_else(|| format!("`time` said {text:?}"))?;
    Ok(kilobytes / 1000.0)
}

fn report(bounds: &[Bound]) -> ExitCode {
    let mut kept = true;
    for bound in bounds {
        let verdict = match bound.limit {
            None => String::new(),
            Some(limit) if bound.measured <= limit => {
                format!("  ok, at most {limit}{}", bound.unit)
            }
            Some(limit) => {
                kept = false;
                format!("  TOO MUCH, at most {limit}{}", bound.unit)
            }
        };
        println!("{:>8.2}{:<3} {}{verdict}", bound.measured, bound.unit, bound.what);
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
