//! What a plan of the reaper costs, and what one row costs in a large store.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::hook::{append, fill, line, state};
use super::{Bound, clean, side_by_side};

/// How many things there are to collect.
const THINGS: usize = 10_000;

/// How often one row is added.
const ROWS: usize = 41;

pub(super) fn measure(ostler: &Path, directory: &Path, runs: usize) -> Result<Vec<Bound>, String> {
    let directory = directory.join("gc");
    let _ = std::fs::remove_dir_all(&directory);
    let home = |name: &str| -> Result<PathBuf, String> {
        let home = std::path::absolute(directory.join(name)).map_err(|e| e.to_string())?;
        std::fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        Ok(home)
    };
    Ok(vec![plan(ostler, &home("plan")?, runs)?, row(ostler, &home("few")?, &home("many")?)?])
}

/// A plan over many leftovers of an agent, against a stat walk over the same.
fn plan(ostler: &Path, home: &Path, runs: usize) -> Result<Bound, String> {
    let store = home.join(".openclaw/agents/main/sessions");
    let failed = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(&store).map_err(failed)?;
    std::fs::write(store.join("sessions.json"), "{}").map_err(failed)?;
    let old = std::time::SystemTime::now() - Duration::from_secs(864_000);
    for index in 0..THINGS {
        let path = store.join(format!("sessions.json.{index}.00000000-0000-4000-8000-0000.tmp"));
        std::fs::write(&path, "left over").map_err(failed)?;
        let file = std::fs::File::options().append(true).open(&path).map_err(failed)?;
        file.set_modified(old).map_err(failed)?;
    }
    let mut find = clean(Path::new("find"), home);
    find.arg(home.join(".openclaw")).args(["-printf", "%p %s %T@\\n"]);
    let mut plan = clean(ostler, home);
    plan.args(["gc", "--include", "temps", "--agent", "openclaw", "--json"]);
    let [floor, plan] = side_by_side(runs, [find, plan])?;
    eprintln!("plan of {THINGS} things: find {floor:?}, gc {plan:?}");
    Ok(Bound {
        what: format!("gc plan of {THINGS} things, against find"),
        measured: plan.as_secs_f64() / floor.as_secs_f64(),
        limit: Some(2.0),
        unit: "x",
    })
}

/// One row more in a store of 100 and of 100,000.
fn row(ostler: &Path, few: &Path, many: &Path) -> Result<Bound, String> {
    fill(ostler, few, 100)?;
    fill(ostler, many, 100_000)?;
    let mut times: [Vec<Duration>; 2] = Default::default();
    for index in 0..ROWS {
        for (home, times) in [few, many].into_iter().zip(&mut times) {
            append(&state(home).join("spool/events.jsonl"), &line("one-more", index))?;
            let mut command = clean(ostler, home);
            command.env("XDG_RUNTIME_DIR", home.join("run")).args(["finalize", "--json"]);
            let begun = Instant::now();
            super::time(&mut command)?;
            times.push(begun.elapsed());
        }
    }
    let [few, many] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    eprintln!("one row: 100 rows {few:?}, 100000 rows {many:?}");
    Ok(Bound {
        what: "one row in a store of 100000, against 100".to_owned(),
        measured: many.as_secs_f64() / few.as_secs_f64(),
        limit: Some(1.5),
        unit: "x",
    })
}
