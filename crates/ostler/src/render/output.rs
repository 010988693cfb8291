//! Where answers go: data to stdout, talk to stderr.

use std::io::{BufWriter, IsTerminal, Write};

use model::time::Time;
use model::wire::{ErrorBody, Failure, Success};
use serde::Serialize;

use crate::env;
use crate::error::Error;
use crate::render::json;

/// How much is written at once.
const AT_ONCE: usize = 64 << 10;

/// Writes one successful answer as JSON.
pub(crate) fn json<T: Serialize>(command: &str, now: Time, result: T) -> Result<(), Error> {
    let mut out = BufWriter::with_capacity(AT_ONCE, std::io::stdout().lock());
    json::write(&mut out, &Success { ok: true, command, timestamp: now, result })?;
    out.flush()?;
    Ok(())
}

/// Writes one successful answer as JSON whose empty array `name` is filled with `elements`.
pub(crate) fn json_with<T: Serialize, E: Copy + Sync, S: Serialize>(
    command: &str,
    now: Time,
    result: T,
    name: &str,
    elements: &[E],
    view: impl Fn(E) -> S + Sync,
) -> Result<(), Error> {
    let mut out = BufWriter::with_capacity(AT_ONCE, std::io::stdout().lock());
    let envelope = Success { ok: true, command, timestamp: now, result };
    json::write_with(&mut out, &envelope, name, elements, view)?;
    out.flush()?;
    Ok(())
}

/// Writes one line of a JSON stream.
pub(crate) fn json_line<T: Serialize>(result: T) -> Result<(), Error> {
    let mut out = BufWriter::with_capacity(AT_ONCE, std::io::stdout().lock());
    serde_json::to_writer(&mut out, &result)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// Writes text for people.
pub(crate) fn text(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Says something beside the answer. Nobody listening is no error.
pub(crate) fn talk(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Reports an error, as JSON where that was asked for.
pub(crate) fn error(command: &str, now: Time, error: &Error, as_json: bool) {
    if as_json {
        return failure(command, now, error.body());
    }
    talk(&format!("error: {error}"));
    if let Some(hint) = error.hint() {
        talk(&format!("hint: {hint}"));
    }
}

/// Writes one error as JSON.
pub(crate) fn failure(command: &str, now: Time, error: ErrorBody) {
    let envelope = Failure { ok: false, command, timestamp: now, error };
    let _ = json::write(&mut std::io::stdout().lock(), &envelope);
}

/// Whether a person sees what is written.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// The columns to draw for, or `None` where nothing has to fit.
pub(crate) fn columns() -> Option<usize> {
    if let Some(columns) = env::columns() {
        return Some(columns);
    }
    if !is_terminal() {
        return None;
    }
    sys::terminal::columns()
}
