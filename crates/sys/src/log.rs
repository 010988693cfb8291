//! Logging: a small `tracing` subscriber, the same for every program of ours. Off unless `OSTLER_LOG` names a
//! level or a command is given `-v`; then a command tells what happens inside on stderr, and what runs for long
//! (daemon, host, keeper, page, network helper) in a file of its own below `logs/` in ostler's home: private,
//! bounded, rotated.
//!
//! Without it a call site costs one atomic load, and a hook never comes here at all. Foreign text is
//! escaped; secrets, prompts and values of the environment are never given to a log.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::private::PrivateDir;

/// A log file that is longer is set aside as `.old`; the one before it goes.
const MAX_LOG_FILE_BYTES: u64 = 1 << 20;
/// A line is cut here: a long error fills no log.
const MAX_LOG_LINE_CHARS: usize = 4 << 10;
/// Where the logs are, below ostler's home.
pub const LOG_DIRECTORY: &str = "logs";

/// Logs to stderr for as long as a command runs, if that was asked for.
pub fn log_command(verbose: bool) {
    if let Some(level) = wanted_level(verbose) {
        install_subscriber(level, LogSink::Stderr);
    }
}

/// Logs to a file of this role for as long as the process runs, if that was asked for. To be called after
/// [`crate::spawn::close_inherited`], which would close the log.
pub fn log_role(role: &str) {
    if wanted_level(false).is_some()
        && let Ok(home) = crate::dirs::home_of_this_process()
    {
        log_role_in(&home, role);
    }
}

/// As [`log_role`], for a process that was told its home.
pub fn log_role_in(home: &Path, role: &str) {
    let Some(level) = wanted_level(false) else { return };
    // A process that cannot log does its work all the same.
    if let Ok(file) = LogFile::open(home, role) {
        install_subscriber(level, LogSink::File(file));
        tracing::info!(role, version = env!("CARGO_PKG_VERSION"), "begins");
    }
}

/// Which level is wanted: that of `OSTLER_LOG`, else `debug` for `-v`. A word that is no level means
/// `debug`, too: output was asked for.
fn wanted_level(verbose: bool) -> Option<LevelFilter> {
    match std::env::var_os("OSTLER_LOG").filter(|word| !word.is_empty()) {
        Some(word) => {
            Some(word.to_str().and_then(|word| word.parse().ok()).unwrap_or(LevelFilter::DEBUG))
        }
        None => verbose.then_some(LevelFilter::DEBUG),
    }
}

fn install_subscriber(level: LevelFilter, sink: LogSink) {
    // There may be one already, when a command becomes the daemon: then that one stays.
    let _ =
        tracing::subscriber::set_global_default(LogSubscriber { level, sink: Mutex::new(sink) });
}

/// Where lines go.
enum LogSink {
    Stderr,
    File(LogFile),
}

impl LogSink {
    fn write_line(&mut self, line: &str) -> io::Result<()> {
        match self {
            Self::Stderr => io::stderr().write_all(line.as_bytes()),
            Self::File(file) => file.append_line(line),
        }
    }
}

/// Writes down the events of ostler's own crates; spans are not told apart.
struct LogSubscriber {
    level: LevelFilter,
    sink: Mutex<LogSink>,
}

impl Subscriber for LogSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && is_own_target(metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let line = render_event(event);
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        // A line that cannot be written has no other reader.
        let _ = sink.write_line(&line);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Whether an event comes from a crate of ours: what dependencies tell is not vouched for.
fn is_own_target(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or_default();
    name.starts_with("ostler") || name == "net"
}

fn render_event(event: &Event<'_>) -> String {
    let metadata = event.metadata();
    let mut fields = EventText { message: String::new(), rest: String::new() };
    event.record(&mut fields);
    let level = match *metadata.level() {
        Level::ERROR => "ERROR",
        Level::WARN => "WARN ",
        Level::INFO => "INFO ",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "TRACE",
    };
    let EventText { message, rest } = fields;
    let text = escape_log_text(&format!("{}: {message}{rest}", metadata.target()));
    format!("{} {level} [{}] {text}\n", crate::clock::now(), std::process::id())
}

/// Text on one line, cut to a line's length. What acts on a terminal, turns the direction of writing or shows
/// nothing is escaped: a log is read with `cat`, too.
fn escape_log_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().take(MAX_LOG_LINE_CHARS) {
        match c {
            '"' | '\'' | '\\' => out.push(c),
            c => out.extend(c.escape_debug()),
        }
    }
    out
}

/// The message of an event, and its other fields.
struct EventText {
    message: String,
    rest: String,
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.rest, " {name}={value:?}"),
        };
    }
}

/// A log of one role. Several processes may have it open; each line is one append.
struct LogFile {
    directory: PrivateDir,
    path: PathBuf,
    name: String,
    file: File,
}

impl LogFile {
    fn open(home: &Path, role: &str) -> io::Result<Self> {
        let logs = home.join(LOG_DIRECTORY);
        crate::private::create_private_dir(&logs).map_err(io::Error::other)?;
        let directory = PrivateDir::open(&logs)?;
        let name = format!("{role}.log");
        let file = directory.append_to(&name)?;
        Ok(Self { directory, path: logs.join(&name), name, file })
    }

    fn append_line(&mut self, line: &str) -> io::Result<()> {
        let ours = self.file.metadata()?;
        // Another process may have set it aside.
        let is_current =
            std::fs::symlink_metadata(&self.path).is_ok_and(|now| now.ino() == ours.ino());
        if is_current && ours.len() + line.len() as u64 > MAX_LOG_FILE_BYTES {
            self.set_aside()?;
        }
        if !is_current || ours.len() + line.len() as u64 > MAX_LOG_FILE_BYTES {
            self.file = self.directory.append_to(&self.name)?;
        }
        self.file.write_all(line.as_bytes())
    }

    /// Only one process does it: the lock is on the file itself, and the name is looked at again.
    fn set_aside(&self) -> io::Result<()> {
        if self.file.try_lock().is_err() {
            return Ok(());
        }
        let ours = self.file.metadata()?.ino();
        if std::fs::symlink_metadata(&self.path)?.ino() == ours {
            crate::atomic::rename_over(&self.path, &self.path.with_extension("log.old"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_on_its_line_and_acts_on_nothing() {
        let escaped = escape_log_text("a\nb\x1b[31m\u{202e}c\u{200b} \"é\" \\ 日本");
        assert_eq!(escaped, "a\\nb\\u{1b}[31m\\u{202e}c\\u{200b} \"é\" \\ 日本");
        assert!(escape_log_text(&"x".repeat(1 << 20)).len() <= MAX_LOG_LINE_CHARS);
    }

    #[test]
    fn only_crates_of_ours_are_heard() {
        for (target, own) in [
            ("ostler_flows::daemon", true),
            ("net::link", true),
            ("network", false),
            ("hyper", false),
        ] {
            assert_eq!(is_own_target(target), own, "{target}");
        }
    }

    #[test]
    fn a_log_is_private_bounded_and_rotated() {
        let home = tempfile::tempdir().unwrap();
        let mut log = LogFile::open(home.path(), "test").unwrap();
        let line = format!("{}\n", "x".repeat(64 << 10));
        for _ in 0..50 {
            log.append_line(&line).unwrap();
        }
        let mut names: Vec<_> = std::fs::read_dir(home.path().join(LOG_DIRECTORY))
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.metadata().unwrap()))
            .collect();
        names.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(names.len(), 2, "{names:?}");
        for (name, about) in names {
            assert!(about.len() <= MAX_LOG_FILE_BYTES, "{name:?}");
            assert_eq!(about.mode() & 0o777, 0o600, "{name:?}");
        }
    }

    #[test]
    fn two_processes_at_one_log_lose_no_line_but_the_oldest() {
        let home = tempfile::tempdir().unwrap();
        let mut one = LogFile::open(home.path(), "test").unwrap();
        let mut other = LogFile::open(home.path(), "test").unwrap();
        one.append_line(&"a".repeat(1 << 20)).unwrap();
        one.append_line("from one\n").unwrap();
        other.append_line("from the other\n").unwrap();
        let now = std::fs::read_to_string(&one.path).unwrap();
        assert_eq!(now, "from one\nfrom the other\n");
    }
}
