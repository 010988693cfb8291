//! `cargo xtask bench surfaces`: search beside ripgrep, on a home that is searched to its end; the dashboard.

mod dashboard;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use super::{Bound, clean, generate, peak_megabytes, side_by_side, time};

/// The home that the bounds are for.
const SESSIONS: usize = 1000;

/// A word that nothing holds: everything must be looked through.
const ABSENT: &str = "zzqqxxjj";

pub(super) fn measure(ostler: &Path, dir: &Path, runs: usize) -> Result<Vec<Bound>, String> {
    let home = dir.join(format!("home-{SESSIONS}"));
    let home = std::path::absolute(home).map_err(|error| error.to_string())?;
    generate::ensure(&home, SESSIONS, None)?;
    let search = |args: &[&str]| {
        let mut command = clean(ostler, &home);
        command.arg("search").args(args);
        command
    };
    time(&mut search(&[ABSENT]))?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    // The shell makes an exit code of 0 of what ripgrep says when it finds nothing.
    let mut ripgrep = clean(Path::new("sh"), &home);
    ripgrep.args(["-c", "rg -F -j \"$0\" -- \"$1\" \"$2\" || [ $? = 1 ]", &cores, ABSENT]);
    ripgrep.arg(home.join(".claude"));
    let [floor, all] = side_by_side(runs, [ripgrep, search(&[ABSENT])])?;
    eprintln!("{SESSIONS} sessions: rg {floor:?}, search {all:?}");
    let mut first = Vec::new();
    for _ in 0..runs.max(1) {
        first.push(first_line_seconds(&mut search(&["--json", "--stream", "--limit", "0", "e"]))?);
    }
    first.sort_by(f64::total_cmp);
    let mut bounds = vec![
        Bound {
            what: format!("search for an absent word, {SESSIONS} sessions, against rg -F"),
            measured: all.as_secs_f64() / floor.as_secs_f64(),
            limit: Some(2.5),
            unit: "x",
        },
        Bound {
            what: format!("first hit of a search, {SESSIONS} sessions"),
            measured: first[first.len() / 2] * 1000.0,
            limit: Some(100.0),
            unit: " ms",
        },
        Bound {
            what: format!("peak memory of a search, {SESSIONS} sessions"),
            measured: peak_megabytes(&search(&[ABSENT]))?,
            limit: Some(64.0),
            unit: " MB",
        },
    ];
    bounds.extend(dashboard::measure(ostler, dir, runs)?);
    Ok(bounds)
}

/// How long it takes until the first line is there; the rest is not waited for.
fn first_line_seconds(command: &mut std::process::Command) -> Result<f64, String> {
    let begun = Instant::now();
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("search: {error}"))?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).map_err(|error| error.to_string())?;
    }
    let took = begun.elapsed().as_secs_f64();
    child.wait().map_err(|error| error.to_string())?;
    match line.contains("\"session\"") {
        true => Ok(took),
        false => Err("the search found nothing".to_owned()),
    }
}
