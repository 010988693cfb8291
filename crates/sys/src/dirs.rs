//! Where ostler's files are. Paths only: nothing is created or looked at here.
//!
//! The environment is an argument, so that a test (or a daemon acting for a request) can name
//! another one.

use std::ffi::OsString;
use std::path::PathBuf;

/// ostler's directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    /// State that nobody else knows: `OSTLER_HOME`, else `$XDG_STATE_HOME/ostler`.
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
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
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
pub fn resolve(variable: impl Fn(&str) -> Option<OsString>, uid: u32) -> Result<Dirs, DirsError> {
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The XDG specification tells readers to ignore relative values.
    let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
    let below_home = |name: &'static str, default: &str| {
        absolute(name)
            .or_else(|| absolute("HOME").map(|home| home.join(default)))
            .map(|base| base.join("ostler"))
            .ok_or(DirsError::NoHome { variable: name })
    };
    let home = match path("OSTLER_HOME") {
        Some(home) if home.is_absolute() => home,
        Some(home) => return Err(DirsError::NotAbsolute(home)),
        None => below_home("XDG_STATE_HOME", ".local/state")?,
    };
    Ok(Dirs {
        home,
        config: below_home("XDG_CONFIG_HOME", ".config")?,
        cache: below_home("XDG_CACHE_HOME", ".cache")?,
        runtime: runtime(variable, uid),
    })
}

/// The directory for sockets, which there always is a name for.
pub fn runtime(variable: impl Fn(&str) -> Option<OsString>, uid: u32) -> PathBuf {
    match variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
        Some(base) => base.join("ostler"),
        None => PathBuf::from(format!("/tmp/ostler-{uid}")),
    }
}

/// The directory for sockets of this process.
pub fn runtime_of_this_process() -> PathBuf {
    runtime(|name| std::env::var_os(name), rustix::process::geteuid().as_raw())
}

/// Names the directories for this process.
pub fn of_this_process() -> Result<Dirs, DirsError> {
    resolve(|name| std::env::var_os(name), rustix::process::geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(pairs: &[(&str, &str)]) -> Result<Dirs, DirsError> {
        resolve(
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
