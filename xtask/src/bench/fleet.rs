//! A fleet of a thousand simulated members: `crates/net/examples/fleet_load` measures, this compares.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Bound;

/// How large the fleet is.
const MEMBERS: &str = "1000";
const SESSIONS: &str = "200";

pub(super) fn measure(ostler: &Path, directory: &Path) -> Result<Vec<Bound>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let load = crate::install::build_example("ostler-net", "fleet_load")?;
    // `ostler` finds its helper beside itself.
    let helper = ostler.with_file_name("ostler-net");
    if !helper.exists() {
        return Err(format!("{} is missing: cargo xtask install --net", helper.display()));
    }
    let place = std::path::absolute(directory).map_err(failed)?;
    let place = place.join(format!("fleet-{}", std::process::id()));
    std::fs::create_dir_all(&place).map_err(failed)?;
    let output = Command::new(load)
        .args([ostler, &place])
        .args([MEMBERS, SESSIONS])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(failed)?;
    std::fs::remove_dir_all(&place).map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let bounds: Option<Vec<Bound>> = text.lines().map(read_bound).collect();
    let bounds = bounds.ok_or_else(|| format!("it said {text:?}"))?;
    match output.status.success() {
        true => Ok(bounds),
        false => {
            for bound in &bounds {
                eprintln!("{:>8.2} {} {}", bound.measured, bound.unit, bound.what);
            }
            Err(format!("it ended with {}", output.status))
        }
    }
}

fn read_bound(line: &str) -> Option<Bound> {
    let [what, measured, unit, limit] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
    Some(Bound {
        what: what.to_owned(),
        measured: measured.parse().ok()?,
        limit: limit.parse().ok(),
        unit: match unit {
            "s" => " s",
            "ms" => " ms",
            "MB" => " MB",
            "B/s" => " B/s",
            "x" => "x",
            "%" => " %",
            _ => "",
        },
    })
}
