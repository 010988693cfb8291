//! Every environment variable that ostler itself reads, in one place.
//!
//! Those that move an agent's own files are read by its adapter, through [`lookup_variable`].

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Any variable; unset and empty are the same.
pub(crate) fn lookup_variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn text_variable(name: &str) -> Option<String> {
    lookup_variable(name)?.into_string().ok()
}

/// `OSTLER_CONFIG`: another configuration file.
pub(crate) fn config_file() -> Option<PathBuf> {
    lookup_variable("OSTLER_CONFIG").map(PathBuf::from)
}

/// `OSTLER_STALE_AFTER`: how long *working* may go without a sign of life.
pub(crate) const STALE_AFTER_VARIABLE: &str = "OSTLER_STALE_AFTER";

/// The value of `OSTLER_STALE_AFTER`.
pub(crate) fn stale_after() -> Option<String> {
    text_variable(STALE_AFTER_VARIABLE)
}

/// `AGENT_TTY_HOME`: where agent-tty's sessions are; empty is not unset, as there.
pub(crate) fn agent_tty_home() -> Option<OsString> {
    std::env::var_os("AGENT_TTY_HOME")
}

/// `AGENT_TTY_LOG_LEVEL`, `AGENT_TTY_RENDERER`: what that tool takes from its environment.
pub(crate) fn agent_tty_setting(name: &str) -> Option<String> {
    text_variable(name)
}

/// The values of variables whose names say that they are secret, so that they can be taken out of a text.
pub(crate) fn secret_values() -> Vec<String> {
    std::env::vars_os()
        .filter(|(name, _)| is_secret_name(name))
        .filter_map(|(_, value)| value.into_string().ok())
        .collect()
}

/// The variables whose names do not say that they are secret.
pub(crate) fn without_secrets() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| !is_secret_name(name))
}

fn is_secret_name(name: &OsStr) -> bool {
    const SECRET_WORDS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH"];
    let name = name.to_string_lossy().to_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// `HOME`.
pub(crate) fn home_dir() -> Option<PathBuf> {
    lookup_variable("HOME").map(PathBuf::from)
}

/// `SHELL`: what people's terminals run.
pub(crate) fn user_shell() -> Option<String> {
    text_variable("SHELL")
}

/// `PATH`: whether a program is found there.
pub(crate) fn is_on_path(program: &str) -> bool {
    let path = lookup_variable("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// `XDG_RUNTIME_DIR`: where the user's service manager listens.
pub(crate) fn runtime_dir() -> Option<PathBuf> {
    lookup_variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute())
}

/// `USER`, `LOGNAME`: what the user is called.
pub(crate) fn user_name() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(text_variable);
    named.unwrap_or_else(|| "somebody".to_owned())
}

/// `XDG_DATA_HOME`: where shells look for completions of this user.
pub(crate) fn data_home() -> Option<PathBuf> {
    let named = lookup_variable("XDG_DATA_HOME").map(PathBuf::from);
    let named = named.filter(|path| path.is_absolute());
    named.or_else(|| home_dir().map(|home| home.join(".local/share")))
}

/// `XDG_DATA_DIRS`: where packages put completions.
pub(crate) fn data_dirs() -> Vec<PathBuf> {
    let named = lookup_variable("XDG_DATA_DIRS").unwrap_or("/usr/local/share:/usr/share".into());
    std::env::split_paths(&named).filter(|path| path.is_absolute()).collect()
}

/// `ZDOTDIR`: where zsh has its files.
pub(crate) fn zsh_directory() -> Option<PathBuf> {
    lookup_variable("ZDOTDIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(home_dir)
}

/// `NO_COLOR`, for programs of ours whose words are read again.
pub(crate) const NO_COLOR_VARIABLE: &str = "NO_COLOR";

/// `NO_COLOR`: set to anything, no colours (no-color.org).
pub(crate) fn no_color() -> bool {
    lookup_variable(NO_COLOR_VARIABLE).is_some()
}

/// `CLICOLOR_FORCE`: set to anything but 0, colours even where there is no terminal.
pub(crate) fn force_color() -> bool {
    text_variable("CLICOLOR_FORCE").is_some_and(|value| value != "0")
}

/// `TERM=dumb`: a terminal that cannot do anything.
pub(crate) fn dumb_terminal() -> bool {
    text_variable("TERM").is_some_and(|term| term == "dumb")
}

/// `LC_ALL`, `LC_CTYPE`, `LANG`: whether the first that is set names a character set without our signs.
/// Where none is set, nothing is known against them.
pub(crate) fn is_ascii_locale() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(text_variable);
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        let charset = locale.split('@').next().and_then(|name| name.split_once('.'));
        match charset {
            Some((_, charset)) => !matches!(charset, "utf-8" | "utf8"),
            None => matches!(locale.as_str(), "c" | "posix"),
        }
    })
}

/// `LC_ALL`, `LC_CTYPE`, `LANG`: whether the first that is set is of a language whose terminals may draw
/// our signs two columns wide.
pub(crate) fn is_wide_locale() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(text_variable);
    locale.is_some_and(|locale| {
        ["ja", "ko", "zh"].iter().any(|language| locale.starts_with(language))
    })
}

/// `COLORTERM`: whether the terminal has more than 256 colours.
pub(crate) fn has_truecolor() -> bool {
    text_variable("COLORTERM").is_some_and(|value| matches!(&*value, "truecolor" | "24bit"))
}

/// `ACCESSIBLE`: set to anything but 0, lines instead of a screen that is redrawn.
pub(crate) fn is_accessible() -> bool {
    text_variable("ACCESSIBLE").is_some_and(|value| value != "0")
}

/// `SOURCE_DATE_EPOCH`: the day of a build that gives the same bytes whenever it is made, as `2026-11-18`.
pub(crate) fn source_date() -> Option<String> {
    let seconds: i64 = text_variable("SOURCE_DATE_EPOCH")?.parse().ok()?;
    let time = model::time::Time::from_millis(seconds.checked_mul(1000)?).to_string();
    time.get(..10).map(str::to_owned)
}

/// `COLUMNS`: the width to draw for, before asking the terminal.
pub(crate) fn columns_override() -> Option<usize> {
    text_variable("COLUMNS")?.parse().ok().filter(|columns| *columns >= 20)
}
