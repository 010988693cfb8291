//! Where answers go: data to stdout, talk to stderr; of a command that answers a request over HTTP, data
//! to its sink and talk to the log.

use std::cell::RefCell;
use std::io::{BufWriter, IsTerminal, Write};

use model::json_text;
use model::time::Time;
use model::wire::{ErrorBody, ErrorEnvelope, SuccessEnvelope};
use serde::Serialize;

use crate::env;
use crate::error::Error;
use crate::render::colour::{Colour, Painter};
use crate::render::json::ElementWriter;
use crate::render::{self, json};

/// How much is written at once.
const WRITE_CHUNK_BYTES: usize = 64 << 10;

thread_local! {
    /// Where the answers of the command on this thread go instead of standard output.
    static ANSWER_SINK: RefCell<Option<Box<dyn Write>>> = const { RefCell::new(None) };
}

/// Runs a command whose answers go to `sink`. A sink that is closed cancels it, like a closed pipe.
pub(crate) fn run_with_sink<T>(sink: Box<dyn Write>, command: impl FnOnce() -> T) -> T {
    /// Takes the sink away again, also when the command panics.
    struct SinkGuard;
    impl Drop for SinkGuard {
        fn drop(&mut self) {
            ANSWER_SINK.take();
        }
    }
    ANSWER_SINK.set(Some(sink));
    let _guard = SinkGuard;
    command()
}

/// Whether the command on this thread answers a request of a server, whose process goes on.
pub(crate) fn is_served() -> bool {
    ANSWER_SINK.with_borrow(Option::is_some)
}

/// Writes to the sink of this thread.
struct SinkWriter;

impl SinkWriter {
    fn with_sink<T>(work: impl FnOnce(&mut dyn Write) -> std::io::Result<T>) -> std::io::Result<T> {
        ANSWER_SINK.with_borrow_mut(|sink| match sink {
            Some(sink) => work(sink.as_mut()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        })
    }
}

impl Write for SinkWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Self::with_sink(|sink| sink.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Self::with_sink(|sink| sink.flush())
    }
}

/// Where answers go.
fn answer_writer() -> Box<dyn Write> {
    if is_served() { Box::new(SinkWriter) } else { Box::new(std::io::stdout().lock()) }
}

/// Whether the answer has lost its reader.
pub(crate) fn is_reader_gone() -> bool {
    match is_served() {
        true => SinkWriter.flush().is_err(),
        false => sys::terminal::is_stdout_closed(),
    }
}

/// Standard output for JSON: on a terminal, what acts on it is escaped.
struct JsonStdout {
    out: BufWriter<Box<dyn Write>>,
    /// What is held back for a terminal until it is whole.
    held: Option<Vec<u8>>,
}

impl JsonStdout {
    fn open() -> Self {
        let out = BufWriter::with_capacity(WRITE_CHUNK_BYTES, answer_writer());
        Self { out, held: is_terminal().then(Vec::new) }
    }
}

impl Write for JsonStdout {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.held {
            Some(held) => held.write(bytes),
            None => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if let Some(held) = &mut self.held {
            let json = std::mem::take(held);
            let json = render::text::json_for_terminal(&String::from_utf8_lossy(&json));
            self.out.write_all(json.as_bytes())?;
        }
        self.out.flush()
    }
}

/// Writes one successful answer as JSON.
pub(crate) fn print_json<T: Serialize>(command: &str, now: Time, result: T) -> Result<(), Error> {
    let mut text = Vec::new();
    let envelope = SuccessEnvelope { ok: true, command, timestamp: now, result };
    json_text::write_pretty(&mut text, &envelope)?;
    text.push(b'\n');
    print_json_text(&text)
}

/// Writes what is JSON already.
fn print_json_text(text: &[u8]) -> Result<(), Error> {
    let mut out = JsonStdout::open();
    out.write_all(text)?;
    out.flush()?;
    Ok(())
}

/// Writes one successful answer as JSON whose empty array `name` is filled with `elements`.
pub(crate) fn print_json_with<T: Serialize, E: Copy + Sync>(
    command: &str,
    now: Time,
    result: T,
    name: &str,
    elements: &[E],
    write_element: ElementWriter<'_, E>,
) -> Result<(), Error> {
    let mut frame = Vec::new();
    let envelope = SuccessEnvelope { ok: true, command, timestamp: now, result };
    json_text::write_pretty(&mut frame, &envelope)?;
    frame.push(b'\n');
    let mut out = JsonStdout::open();
    json::write_with(&mut out, &frame, name, elements, write_element)?;
    out.flush()?;
    Ok(())
}

/// Where lines of a JSON stream are written by their producer.
pub(crate) fn open_json_stream() -> impl Write {
    JsonStdout::open()
}

/// Writes one line of a JSON stream.
pub(crate) fn print_json_line<T: Serialize>(result: T) -> Result<(), Error> {
    let mut line = serde_json::to_vec(&result)?;
    line.push(b'\n');
    print_json_text(&line)?;
    Ok(())
}

/// Writes text for people.
pub(crate) fn print_text(text: &str) -> Result<(), Error> {
    let mut out = answer_writer();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes bytes of another program: as they are, except to a terminal, which would obey them.
pub(crate) fn print_foreign(bytes: &[u8]) -> Result<(), Error> {
    let mut out = answer_writer();
    if is_terminal() {
        out.write_all(render::text::many_lines(&String::from_utf8_lossy(bytes)).as_bytes())?;
    } else {
        out.write_all(bytes)?;
    }
    out.flush()?;
    Ok(())
}

/// Says something beside the answer. Errors, hints and notes quote ids, names and fields that others
/// chose: here is the one place that escapes them all. A closed pipe is no error.
pub(crate) fn print_notice(text: &str) {
    if is_served() {
        tracing::debug!(text, "said beside an answer");
        return;
    }
    let text = render::text::for_locale(render::text::many_lines(text));
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Says something beside the answer that begins with a word in colour. Only the word is ours.
fn print_labelled(label: &str, colour: Colour, text: &str) {
    let label = Painter::for_stderr().paint(colour, &format!("{label}:"));
    let text = render::text::for_locale(render::text::many_lines(text));
    let _ = writeln!(std::io::stderr().lock(), "{label} {text}");
}

/// Reports an error, as JSON where that was asked for.
pub(crate) fn report_error(command: &str, now: Time, error: &Error, as_json: bool) {
    let mut body = error.to_body();
    if body.hint.is_none() {
        body.hint = error.usage_hint(command);
    }
    if as_json {
        return print_failure(command, now, body);
    }
    print_labelled("error", Colour::Red, &error.to_sentence());
    if let Some(hint) = body.hint {
        print_labelled("hint", Colour::Cyan, &hint);
    }
}

/// Reports an error that another machine answered.
pub(crate) fn report_foreign_error(member: &str, message: &str, hint: &str) {
    print_labelled("error", Colour::Red, &format!("{member}: {message}"));
    if !hint.is_empty() {
        print_labelled("hint", Colour::Cyan, hint);
    }
}

/// Writes one error as JSON.
pub(crate) fn print_failure(command: &str, now: Time, error: ErrorBody) {
    let envelope = ErrorEnvelope { ok: false, command, timestamp: now, error };
    let mut text = Vec::new();
    let written = json_text::write_pretty(&mut text, &envelope);
    text.push(b'\n');
    let written = written.map(|()| print_json_text(&text));
    // A closed pipe is no error, and there is nowhere left to tell of another.
    drop(written);
}

/// Whether a person sees what is written.
pub(crate) fn is_terminal() -> bool {
    !is_served() && std::io::stdout().is_terminal()
}

/// The columns to draw for, or `None` where nothing has to fit.
pub(crate) fn output_columns() -> Option<usize> {
    if let Some(columns) = env::columns_override() {
        return Some(columns);
    }
    if !is_terminal() {
        return None;
    }
    sys::terminal::stdout_columns()
}
