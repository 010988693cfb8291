//! `cargo xtask bench web`: the bounds of the page, in a real browser, on a home of 10,000 sessions.
//!
//! The browser is driven by `crates/ostler/web/tests/measure.js`, which prints what it measured; keys are measured
//! beside a page that only echoes, a watched flood beside an unwatched one.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Bound, generate};
use crate::web_test;

/// The home that the bounds are for.
const SESSIONS: usize = 10_000;

pub(super) fn measure(
    ostler: &Path,
    dir: &Path,
    generator: Option<&Path>,
) -> Result<Vec<Bound>, String> {
    let home = dir.join(format!("home-web-{SESSIONS}"));
    let home = std::path::absolute(home).map_err(|error| error.to_string())?;
    generate::ensure(&home, SESSIONS, generator)?;
    let page = web_test::prepare_page()?;
    let output = Command::new("node")
        .arg("tests/measure.js")
        .current_dir(page)
        .env("OSTLER_BIN", ostler)
        .env("OSTLER_BROWSER", web_test::find_browser().ok_or("no browser was found")?)
        .env("OSTLER_BENCH_HOME", home)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("`node` cannot be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let bounds: Vec<Value> = serde_json::from_str(last)
        .map_err(|error| format!("the page was not measured ({}): {error}", output.status))?;
    Ok(bounds.iter().map(read_bound).collect())
}

/// A bound as the script prints it; one without a number is not kept.
fn read_bound(told: &Value) -> Bound {
    let text = |name: &str| told[name].as_str().unwrap_or_default();
    let unit =
        [" ms", " KB", " MB", " %", " s", "x"].into_iter().find(|unit| *unit == text("unit"));
    Bound {
        what: text("what").to_owned(),
        measured: told["measured"].as_f64().unwrap_or(f64::INFINITY),
        limit: told["limit"].as_f64(),
        unit: unit.unwrap_or_default(),
    }
}
