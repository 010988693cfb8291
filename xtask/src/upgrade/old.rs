//! The other release: built from its commit, in a directory of its own, with another number.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the older release is called: both may have the same number while none was published.
const OLD_VERSION: &str = "0.0.9";

/// Where the commit of the last release is kept; a release puts its own there.
const PREVIOUS_RELEASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../.ci/previous-release");

/// The commit of the last release.
pub(super) fn read_previous_release() -> Result<String, String> {
    let read = fs::read_to_string(PREVIOUS_RELEASE);
    let text = read.map_err(|error| format!(".ci/previous-release: {error}"))?;
    Ok(text.trim().to_owned())
}

/// The directory with the programs of a release.
pub(super) fn find_or_build(which: &str) -> Result<PathBuf, String> {
    let path = Path::new(which);
    if path.join("ostler").is_file() {
        return std::path::absolute(path).map_err(|error| error.to_string());
    }
    let commit = read_git(&["rev-parse", "--verify", &format!("{which}^{{commit}}")])?;
    let short = commit.get(..12).ok_or("a commit has a longer name")?;
    let directory = Path::new("target/upgrade").join(short);
    let directory = std::path::absolute(directory).map_err(|error| error.to_string())?;
    if directory.join("bin/ostler-net").is_file() {
        return Ok(directory.join("bin"));
    }
    let source = directory.join("source");
    unpack_commit(&commit, &source)?;
    set_version(&source.join("Cargo.toml"))?;
    let target = directory.with_file_name("target");
    build(&source, &target)?;
    collect_programs(&target, &directory.join("bin"))
}

/// This release, built as the other one is.
pub(super) fn build_this_release() -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let target = std::path::absolute(target).map_err(|error| error.to_string())?;
    build(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &target)?;
    Ok(target.join("debug"))
}

fn read_git(words: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(words).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("git {words:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn unpack_commit(commit: &str, to: &Path) -> Result<(), String> {
    if to.exists() {
        fs::remove_dir_all(to).map_err(|error| error.to_string())?;
    }
    fs::create_dir_all(to).map_err(|error| error.to_string())?;
    let archive = to.with_extension("tar");
    read_git(&["archive", "--format=tar", "--output", &archive.to_string_lossy(), commit])?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).arg("-C").arg(to);
    let status = tar.status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err("the commit cannot be unpacked".to_owned()) }
}

/// Gives the workspace another number, so that the two can be told apart.
fn set_version(manifest: &Path) -> Result<(), String> {
    let text = fs::read_to_string(manifest).map_err(|error| error.to_string())?;
    let own = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    let text = text.replacen(&own, &format!("version = \"{OLD_VERSION}\""), 1);
    fs::write(manifest, text).map_err(|error| error.to_string())
}

fn build(source: &Path, target: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--bins", "--package", "ostler", "--package", "ostler-net"]);
    command.current_dir(source).env("CARGO_TARGET_DIR", target);
    let status = command.status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("{} cannot be built", source.display())) }
}

fn collect_programs(target: &Path, to: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(to).map_err(|error| error.to_string())?;
    for name in ["ostler", "ostler-net"] {
        let built = target.join("debug").join(name);
        fs::copy(&built, to.join(name)).map_err(|error| format!("{}: {error}", built.display()))?;
    }
    Ok(to.to_owned())
}
