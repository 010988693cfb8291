//! Where ostler's files are. Paths only: nothing is created or looked at here.
//!
//! The environment is an argument, so that a test (or a daemon acting for a request) can name
//! another one.

use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    /// State that no other source knows: `OSTLER_HOME`, else `$XDG_STATE_HOME/ostler`.
    pub home: PathBuf,
    /// Configuration: `$XDG_CONFIG_HOME/ostler`.
    pub config: PathBuf,
    /// What may be deleted at any time: `$XDG_CACHE_HOME/ostler`.
    pub cache: PathBuf,
    /// Sockets: `$XDG_RUNTIME_DIR/ostler`, else a directory of this user under `/tmp` whose owner
    /// and mode must be verified before use.
    pub runtime: PathBuf,
}

/// Why the directories cannot be named.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum DirsError {
    /// Neither the XDG variable nor `HOME` says where.
    #[error("neither `{variable}` nor `HOME` names a directory")]
    NoHome {
        /// The variable that would have decided.
        variable: &'static str,
    },
    /// A relative `OSTLER_HOME` would mean another home in every directory.
    #[error("`OSTLER_HOME` must be an absolute path, not `{}`", .0.display())]
    NotAbsolute(PathBuf),
}

/// Names the directories for the given environment and user.
pub fn resolve_dirs(
    variable: impl Fn(&str) -> Option<OsString>,
    uid: u32,
) -> Result<Dirs, DirsError> {
    Ok(Dirs {
        home: resolve_home(&variable)?,
        config: below_home(&variable, "XDG_CONFIG_HOME", ".config")?,
        cache: below_home(&variable, "XDG_CACHE_HOME", ".cache")?,
        runtime: runtime_dir(&variable, uid),
    })
}

/// Names ostler's state directory alone: `OSTLER_HOME` is enough for it.
pub fn resolve_home(variable: &impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, DirsError> {
    match env_path(variable, "OSTLER_HOME") {
        Some(home) if home.is_absolute() => Ok(home),
        Some(home) => Err(DirsError::NotAbsolute(home)),
        None => below_home(variable, "XDG_STATE_HOME", ".local/state"),
    }
}

fn env_path(variable: &impl Fn(&str) -> Option<OsString>, name: &str) -> Option<PathBuf> {
    variable(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The XDG specification tells readers to ignore relative values.
fn absolute_env_path(variable: &impl Fn(&str) -> Option<OsString>, name: &str) -> Option<PathBuf> {
    env_path(variable, name).filter(|path| path.is_absolute())
}

fn below_home(
    variable: &impl Fn(&str) -> Option<OsString>,
    name: &'static str,
    default: &str,
) -> Result<PathBuf, DirsError> {
    absolute_env_path(variable, name)
        .or_else(|| absolute_env_path(variable, "HOME").map(|home| home.join(default)))
        .map(|base| base.join("ostler"))
        .ok_or(DirsError::NoHome { variable: name })
}

/// The directory for sockets, which there always is a name for.
pub fn runtime_dir(variable: impl Fn(&str) -> Option<OsString>, uid: u32) -> PathBuf {
    match variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
        Some(base) => base.join("ostler"),
        None => PathBuf::from(format!("/tmp/ostler-{uid}")),
    }
}

/// The directory for sockets of this process.
pub fn runtime_of_this_process() -> PathBuf {
    runtime_dir(|name| std::env::var_os(name), rustix::process::geteuid().as_raw())
}

/// Names the directories for this process.
pub fn of_this_process() -> Result<Dirs, DirsError> {
    resolve_dirs(|name| std::env::var_os(name), rustix::process::geteuid().as_raw())
}

/// Names ostler's state directory for this process.
pub fn home_of_this_process() -> Result<PathBuf, DirsError> {
    resolve_home(&|name: &str| std::env::var_os(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(pairs: &[(&str, &str)]) -> Result<Dirs, DirsError> {
        resolve_dirs(
            |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()),
            1000,
        )
    }

    #[test]
    fn without_xdg_variables_everything_is_below_home() {
        assert_eq!(
            named(&[("HOME", "/home/u")]).unwrap(),
            Dirs {
                home: "/home/u/.local/state/ostler".into(),
                config: "/home/u/.config/ostler".into(),
                cache: "/home/u/.cache/ostler".into(),
                runtime: "/tmp/ostler-1000".into(),
            }
        );
    }

    #[test]
    fn xdg_variables_and_ostler_home_win() {
        let dirs = named(&[
            ("HOME", "/home/u"),
            ("OSTLER_HOME", "/o"),
            ("XDG_CONFIG_HOME", "/c"),
            ("XDG_CACHE_HOME", "/k"),
            ("XDG_RUNTIME_DIR", "/run/user/1000"),
        ])
        .unwrap();
        assert_eq!(dirs.home, PathBuf::from("/o"));
        assert_eq!(dirs.config, PathBuf::from("/c/ostler"));
        assert_eq!(dirs.cache, PathBuf::from("/k/ostler"));
        assert_eq!(dirs.runtime, PathBuf::from("/run/user/1000/ostler"));
    }

    #[test]
    fn the_state_directory_needs_no_home_when_it_is_named() {
        let only = |name: &str| (name == "OSTLER_HOME").then(|| OsString::from("/o"));
        assert_eq!(resolve_home(&only), Ok(PathBuf::from("/o")));
        assert!(resolve_dirs(only, 1000).is_err());
    }

    #[test]
    fn empty_and_relative_xdg_values_count_as_unset() {
        let dirs =
            named(&[("HOME", "/h"), ("XDG_STATE_HOME", ""), ("XDG_CACHE_HOME", "k")]).unwrap();
        assert_eq!(dirs.home, PathBuf::from("/h/.local/state/ostler"));
        assert_eq!(dirs.cache, PathBuf::from("/h/.cache/ostler"));
    }

    #[test]
    fn a_relative_ostler_home_is_refused_and_no_home_is_an_error() {
        assert_eq!(
            named(&[("HOME", "/h"), ("OSTLER_HOME", "here")]),
            Err(DirsError::NotAbsolute("here".into()))
        );
        assert_eq!(named(&[]), Err(DirsError::NoHome { variable: "XDG_STATE_HOME" }));
    }
}
