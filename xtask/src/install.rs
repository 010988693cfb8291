//! `cargo xtask install`: builds ostler as it is meant to be run and puts it where cargo puts programs.
//!
//! On Linux it is linked statically: a hook is started at every turn of every agent, and the dynamic
//! loader would be most of its cost (docs/decisions/0007-static-linking.md).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
Build ostler as it is meant to be run, and install it

Usage: cargo xtask install [--net] [--root DIR] [--debug]

  --net       install `ostler-net` too, which webhooks and the fleet need
  --root DIR  the directory whose `bin` gets the program, instead of cargo's own
  --debug     build it quickly instead of well: to check that it can be installed";

#[derive(Debug, Default, PartialEq, Eq)]
struct InstallOptions {
    root: Option<PathBuf>,
    debug: bool,
    net: bool,
    help: bool,
}

/// Reads the options by hand: a parser of command lines takes longer to build than all else that
/// `install` needs before ostler itself.
fn parse_options(arguments: &[OsString]) -> Result<InstallOptions, String> {
    let mut options = InstallOptions::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        match (&*text, text.strip_prefix("--root=")) {
            ("--debug", _) => options.debug = true,
            ("--net", _) => options.net = true,
            ("--help" | "-h", _) => options.help = true,
            ("--root", _) => {
                let root = arguments.next().ok_or("--root needs a directory")?;
                options.root = Some(root.into());
            }
            (_, Some(root)) => options.root = Some(root.into()),
            _ => return Err(format!("unexpected argument {text:?}\n\n{USAGE}")),
        }
    }
    Ok(options)
}

pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let installed = parse_options(arguments).and_then(|options| match options {
        InstallOptions { help: true, .. } => Ok(USAGE.to_owned()),
        InstallOptions { root, debug, net, .. } => {
            let path = place(&build(debug)?, root.as_deref(), "ostler")?;
            let mut text = format!("installed {}", path.display());
            // Built on its own: what both need is never compiled for ostler with the helper's features.
            if net {
                let path = place(&build_helper(debug)?, root.as_deref(), "ostler-net")?;
                text.push_str(&format!("\ninstalled {}", path.display()));
            }
            Ok(text)
        }
    });
    match installed {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the program and returns where it is.
pub(crate) fn build(debug: bool) -> Result<PathBuf, String> {
    build_as_installed(debug, &["--package", "ostler"], "ostler")
}

/// Where a release is built from, and how.
#[cfg(feature = "tools")]
#[derive(Debug)]
pub(crate) struct ReleaseBuild {
    /// The workspace.
    pub(crate) source: PathBuf,
    /// Cargo's directory; its own choice when there is none.
    pub(crate) target_directory: Option<PathBuf>,
    /// Quickly instead of well.
    pub(crate) debug: bool,
}

#[cfg(feature = "tools")]
impl ReleaseBuild {
    /// Of this workspace, as it is published.
    pub(crate) fn here() -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        Self { source, target_directory: None, debug: false }
    }
}

/// Builds both programs as `build` does, without the paths of this machine in them: a build of the same commit
/// with the same compiler gives the same bytes.
#[cfg(feature = "tools")]
pub(crate) fn build_for_release(build: &ReleaseBuild) -> Result<(PathBuf, PathBuf), String> {
    let absolute = |path: PathBuf| std::path::absolute(path).map_err(|error| error.to_string());
    let root = build.source.canonicalize().map_err(|error| error.to_string())?;
    let cargo_home = match (std::env::var_os("CARGO_HOME"), std::env::home_dir()) {
        (Some(home), _) => home.into(),
        (None, Some(home)) => home.join(".cargo"),
        (None, None) => return Err("neither CARGO_HOME nor HOME is set".to_owned()),
    };
    let cargo_home = absolute(cargo_home)?;
    // The name of a registry's directory depends on where it was fetched from. The last that fits holds.
    let sources = std::fs::read_dir(cargo_home.join("registry/src"));
    let registries = sources.into_iter().flatten().filter_map(|one| Some(one.ok()?.path()));
    let mut paths = vec![(root.clone(), "/ostler"), (cargo_home.clone(), "/cargo")];
    if let Some(directory) = &build.target_directory {
        paths.push((absolute(directory.clone())?, "/ostler/target"));
    }
    paths.extend(registries.map(|path| (path, "/registry")));
    let place =
        BuildPlace { source: Some(root), target_directory: build.target_directory.clone(), paths };
    let ostler = build_mapped(build.debug, &["--package", "ostler"], "ostler", &place)?;
    // Built on its own: what both need is never compiled for ostler with the helper's features.
    let words = ["--package", "ostler-net"];
    Ok((ostler, build_mapped(build.debug, &words, "ostler-net", &place)?))
}

pub(crate) fn build_helper(debug: bool) -> Result<PathBuf, String> {
    build_as_installed(debug, &["--package", "ostler-net"], "ostler-net")
}

/// Builds an example of a package in the same way, to be measured beside the program.
#[cfg(feature = "tools")]
pub(crate) fn build_example(package: &str, example: &str) -> Result<PathBuf, String> {
    let file = format!("examples/{example}");
    build_as_installed(false, &["--package", package, "--example", example], &file)
}

fn build_as_installed(debug: bool, what: &[&str], file: &str) -> Result<PathBuf, String> {
    build_mapped(debug, what, file, &BuildPlace::default())
}

/// Where cargo builds, and which paths are replaced in what it makes.
#[derive(Debug, Default)]
struct BuildPlace {
    source: Option<PathBuf>,
    target_directory: Option<PathBuf>,
    paths: Vec<(PathBuf, &'static str)>,
}

/// Builds with paths in the program replaced, those of C sources too.
fn build_mapped(
    debug: bool,
    what: &[&str],
    file: &str,
    place: &BuildPlace,
) -> Result<PathBuf, String> {
    let BuildPlace { source, target_directory, paths: maps } = place;
    let target = host()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--target", &target]).args(what);
    if let Some(source) = source {
        command.current_dir(source);
    }
    let directory = match (target_directory, std::env::var_os("CARGO_TARGET_DIR")) {
        (Some(directory), _) => directory.clone(),
        (None, Some(directory)) => directory.into(),
        (None, None) => PathBuf::from("target"),
    };
    let directory = std::path::absolute(directory).map_err(|error| error.to_string())?;
    command.env("CARGO_TARGET_DIR", &directory);
    if !debug {
        command.arg("--release");
    }
    if target.ends_with("-linux-gnu") {
        // Given for the target alone: macros of the compiler cannot be linked statically.
        let name = target.to_uppercase().replace('-', "_");
        // At a fixed place: moving a program of this size costs as much as the rest of a hook.
        let mut flags = "-C target-feature=+crt-static -C relocation-model=static".to_owned();
        for (from, to) in maps {
            flags.push_str(&format!(" --remap-path-prefix={}={to}", from.display()));
        }
        command.env(format!("CARGO_TARGET_{name}_RUSTFLAGS"), flags);
    }
    if !maps.is_empty() {
        let map =
            |(from, to): &(PathBuf, &str)| format!("-ffile-prefix-map={}={to}", from.display());
        command.env("CFLAGS", maps.iter().map(map).collect::<Vec<_>>().join(" "));
    }
    let status = command.status().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err("the build failed".to_owned());
    }
    let profile = if debug { "debug" } else { "release" };
    Ok(directory.join(target).join(profile).join(file))
}

/// The target that rustc itself runs on.
pub(crate) fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say what it runs on".to_owned())
}

/// Replaces the installed program in one step: one that is running is not disturbed.
fn place(program: &Path, root: Option<&Path>, name: &str) -> Result<PathBuf, String> {
    let root = match (root, std::env::var_os("CARGO_HOME"), std::env::home_dir()) {
        (Some(root), ..) => root.to_owned(),
        (None, Some(cargo), _) => cargo.into(),
        (None, None, Some(home)) => home.join(".cargo"),
        (None, None, None) => return Err("neither CARGO_HOME nor HOME is set".to_owned()),
    };
    let directory = root.join("bin");
    let path = directory.join(name);
    let new = directory.join(format!(".{name}.new"));
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(&directory).map_err(failed)?;
    std::fs::copy(program, &new).map_err(failed)?;
    std::fs::rename(&new, &path).map_err(failed)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parse = |line: &str| {
            parse_options(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
        };
        let rooted = InstallOptions { root: Some("x".into()), ..InstallOptions::default() };
        assert_eq!(parse(""), Ok(InstallOptions::default()));
        assert_eq!(parse("--root x"), Ok(rooted));
        let both = InstallOptions { root: Some("x".into()), debug: true, net: true, help: false };
        assert_eq!(parse("--debug --net --root=x"), Ok(both));
        assert!(parse("--root").is_err());
        assert!(parse("--rot x").is_err());
    }
}
