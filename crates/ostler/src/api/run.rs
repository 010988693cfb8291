//! Running a route's command off the runtime's thread, with its answer going to the client.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::StatusCode;
use hyper::body::Bytes;
use schemars::Schema;
use tokio::sync::{Semaphore, mpsc};

use super::arguments::build_arguments;
use super::reply::{ApiFailure, ApiReply, ReplyBody, reply_failure, typed_reply};
use super::route::RouteWork;
use super::routes::RouteMatch;
use super::status::status_of_code;

/// How many commands run at once; further requests wait.
const MOST_COMMANDS: usize = 8;

/// What may wait of a stream for a client that reads slowly.
const MOST_PARTS: usize = 16;

/// How a command ended: with which exit code, or with which error.
pub(crate) type ServedOutcome = Result<u8, ServedError>;

/// The error that a command ended with.
#[derive(Debug)]
pub(crate) struct ServedError {
    /// The stable code.
    pub(crate) code: &'static str,
    /// Whether another process writes just now, and nothing was done.
    pub(crate) writer_busy: bool,
    /// The error in its envelope, as JSON on one line.
    pub(crate) envelope: Vec<u8>,
}

/// A command line to be run, without the program's name.
#[derive(Debug)]
pub(crate) struct ServedRequest {
    pub(crate) arguments: Vec<OsString>,
    /// Who asks, for events and logs.
    pub(crate) caller: Option<String>,
}

/// The command line, as the API uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandRunner {
    /// Runs a command line whose answer goes to the sink.
    pub(crate) run: fn(ServedRequest, Box<dyn Write>) -> ServedOutcome,
    /// The schema of what a command prints, by its name and suffix.
    pub(crate) schema: fn(&str) -> Option<Schema>,
}

/// What a server needs to answer routes by commands.
#[derive(Clone, Debug)]
pub(crate) struct ApiService {
    pub(crate) runner: CommandRunner,
    places: Arc<Semaphore>,
}

impl ApiService {
    pub(crate) fn new(runner: CommandRunner) -> Self {
        Self { runner, places: Arc::new(Semaphore::new(MOST_COMMANDS)) }
    }

    /// Answers a route of a command; the server's own are not handled here.
    pub(crate) async fn answer(
        &self,
        found: &RouteMatch,
        query: Option<&str>,
        body: &[u8],
        caller: Option<String>,
    ) -> ApiReply {
        let (words, kind) = match found.route.work {
            RouteWork::Command(words) => (words, "application/json"),
            RouteWork::Lines(words, _) => (words, "application/x-ndjson"),
            RouteWork::File(words, kind) => (words, kind),
            RouteWork::Door(_) => return reply_failure(&ApiFailure::not_found()),
        };
        let mut arguments = match build_arguments(words, found, query, body) {
            Ok(arguments) => arguments,
            Err(failure) => return reply_failure(&failure),
        };
        match found.route.work {
            RouteWork::Lines(..) => {
                self.answer_by_parts(ServedRequest { arguments, caller }, kind).await
            }
            work => {
                if matches!(work, RouteWork::File(..)) {
                    arguments.retain(|word| word != "--json");
                }
                self.answer_whole(ServedRequest { arguments, caller }, kind).await
            }
        }
    }

    async fn answer_whole(&self, request: ServedRequest, kind: &'static str) -> ApiReply {
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
            return reply_failure(&stopping());
        };
        let run = self.runner.run;
        let client = ClientPresence::default();
        let (answer, cancelled) = (SharedAnswer::default(), client.watch());
        let sink = WholeSink { answer: answer.clone(), cancelled };
        let done = tokio::task::spawn_blocking(move || {
            let outcome = run(request, Box::new(sink));
            drop(place);
            outcome
        });
        let outcome = match done.await {
            Ok(outcome) => outcome,
            Err(_) => return reply_failure(&broken()),
        };
        match outcome {
            Ok(_) => typed_reply(StatusCode::OK, kind, answer.take().into()),
            Err(error) => error_reply(error),
        }
    }

    /// Runs a command line; how it ended, and what it printed.
    pub(crate) async fn run_line(
        &self,
        arguments: Vec<OsString>,
    ) -> Option<(ServedOutcome, Vec<u8>)> {
        let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
        let run = self.runner.run;
        let client = ClientPresence::default();
        let (answer, cancelled) = (SharedAnswer::default(), client.watch());
        let sink = WholeSink { answer: answer.clone(), cancelled };
        let done = tokio::task::spawn_blocking(move || {
            let outcome = run(ServedRequest { arguments, caller: None }, Box::new(sink));
            drop(place);
            outcome
        });
        Some((done.await.ok()?, answer.take()))
    }

    /// Lines are sent as they are printed. What fails before the first of them has its status.
    async fn answer_by_parts(&self, request: ServedRequest, kind: &'static str) -> ApiReply {
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
            return reply_failure(&stopping());
        };
        let run = self.runner.run;
        let (parts, mut receiver) = mpsc::channel::<Bytes>(MOST_PARTS);
        let done = tokio::task::spawn_blocking(move || {
            let outcome = run(request, Box::new(PartsSink { parts }));
            drop(place);
            outcome
        });
        let Some(first) = receiver.recv().await else {
            return match done.await {
                Ok(Ok(_)) => typed_reply(StatusCode::OK, kind, Vec::new().into()),
                Ok(Err(error)) => error_reply(error),
                Err(_) => reply_failure(&broken()),
            };
        };
        let (forward, body) = mpsc::channel::<Bytes>(MOST_PARTS);
        tokio::spawn(async move {
            let mut next = Some(first);
            while let Some(part) = next {
                if forward.send(part).await.is_err() {
                    return;
                }
                next = receiver.recv().await;
            }
            if let Ok(Err(error)) = done.await {
                // The last line says why the stream ends; a client that left does not need it.
                let _ = forward.send(error.envelope.into()).await;
            }
        });
        typed_reply(StatusCode::OK, kind, ReplyBody::Parts(body))
    }
}

fn error_reply(error: ServedError) -> ApiReply {
    let status = match error.writer_busy {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => status_of_code(error.code),
    };
    typed_reply(status, "application/json", error.envelope.into())
}

fn stopping() -> ApiFailure {
    ApiFailure::new("BUSY", "the server is stopping; nothing was done", "ask again in a moment")
}

/// A command that panicked: a defect, and nothing is known of what it did.
fn broken() -> ApiFailure {
    ApiFailure::new(
        "MAY_HAVE_APPLIED",
        "the command broke off",
        "look before trying again; `ostler doctor --bundle` makes a bug report",
    )
}

/// Whether the client still waits: dropped with the request's future.
#[derive(Default)]
struct ClientPresence(Arc<AtomicBool>);

impl ClientPresence {
    fn watch(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for ClientPresence {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The answer of a command while it is printed.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedAnswer(Arc<std::sync::Mutex<Vec<u8>>>);

impl SharedAnswer {
    pub(crate) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut kept = self.0.lock().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        kept.extend_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn take(&self) -> Vec<u8> {
        self.0.lock().map(|mut bytes| std::mem::take(&mut *bytes)).unwrap_or_default()
    }
}

struct WholeSink {
    answer: SharedAnswer,
    cancelled: Arc<AtomicBool>,
}

impl Write for WholeSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.answer.append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.cancelled.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }
}

struct PartsSink {
    parts: mpsc::Sender<Bytes>,
}

impl Write for PartsSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = Bytes::copy_from_slice(bytes);
        self.parts.blocking_send(part).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.parts.is_closed() {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }
}
