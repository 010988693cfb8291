//! The engine, `nats-server`: finding it, and whether its version will do.

use std::path::{Path, PathBuf};
use std::process::Command;

use model::helper::{HelperFailure, HelperFailureKind};

/// The oldest versions that do: one of each series that has the fixes of 2026.
const MIN_2_11: [u64; 3] = [2, 11, 15];
const MIN_2_12: [u64; 3] = [2, 12, 6];

/// The same, for people.
pub const ENGINE_VERSIONS: &str = "nats-server 2.11.15, 2.12.6 or newer";

/// The engine's name.
const ENGINE_NAME: &str = "nats-server";

/// The engine that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubEngine {
    pub path: PathBuf,
    pub version: String,
}

/// Whether a version will do.
pub fn is_engine_new_enough(version: &str) -> bool {
    let Some(parts) = parse_version(version) else { return false };
    match parts {
        [2, 11, _] => parts >= MIN_2_11,
        _ => parts >= MIN_2_12,
    }
}

fn parse_version(text: &str) -> Option<[u64; 3]> {
    let text = text.trim().trim_start_matches('v');
    let text = text.split(['-', '+']).next().unwrap_or(text);
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

const ENGINE_HINT: &str = "install nats-server 2.11.15, 2.12.6 or newer: Homebrew, upstream's packages, \
    the container image, or Debian testing's `nats-server`";

/// Finds the engine in PATH.
pub fn find_engine() -> Result<HubEngine, HelperFailure> {
    let missing =
        |message: String| HelperFailure::new(HelperFailureKind::Refused, message, ENGINE_HINT);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(ENGINE_NAME))
        .find(|path| path.is_file());
    let path = found
        .ok_or_else(|| missing("`nats-server`, the hub's engine, is not in PATH".to_owned()))?;
    let version = read_version(&path)
        .ok_or_else(|| missing(format!("{} does not tell its version", path.display())))?;
    if !is_engine_new_enough(&version) {
        return Err(missing(format!("{} is version {version}, which is too old", path.display())));
    }
    Ok(HubEngine { path, version })
}

fn read_version(path: &Path) -> Option<String> {
    let output = Command::new(path).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().rsplit(' ').next()?.trim_start_matches('v').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_1_versions_that_do_and_do_not() {
        for good in ["2.11.15", "2.11.20", "2.12.6", "2.15.1", "v2.15.1", "3.0.0", "2.15.1-beta.1"]
        {
            assert!(is_engine_new_enough(good), "{good}");
        }
        for bad in ["2.9.10", "2.10.27", "2.11.14", "2.12.5", "2.12.0", "1.4.1", "", "nonsense"] {
            assert!(!is_engine_new_enough(bad), "{bad}");
        }
    }
}
