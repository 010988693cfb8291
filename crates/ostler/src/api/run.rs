//! Running a route's command off the runtime's thread, with its answer going to the client.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::body::Bytes;
use schemars::Schema;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use super::arguments::build_arguments;
use super::parts::{PartsSink, TOO_SLOW};
use super::reply::{ApiFailure, ApiReply, ReplyBody, failure_line, reply_failure, typed_reply};
use super::route::{ApiRight, RouteWork};
use super::routes::RouteMatch;
use super::status::{may_have_acted, status_of_code};
use crate::timeouts::{API_PLACE_TIMEOUT, API_SEND_TIMEOUT, WAIT_TURN};

/// How many commands of one kind run at once; further requests wait for a while.
const MOST_COMMANDS: usize = 8;
/// How many requests of one kind may take as long as they like: nobody waits behind them.
const MOST_LASTING: usize = 32;

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

/// Who asks, where a server knows one caller from another.
pub(crate) struct ApiCaller {
    /// The caller's name in events and logs.
    pub(crate) name: String,
    /// Resolves when the caller may ask for nothing any more.
    pub(crate) signed_out: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Is told how a command ended that changes something, whether or not its client still waits.
    pub(crate) note: Box<dyn FnOnce(ActOutcome) + Send>,
}

impl fmt::Debug for ApiCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiCaller").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How a command ended that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActOutcome {
    Done,
    /// It ran, and its client had left before it answered.
    Unread,
    /// With this error code.
    Failed(&'static str),
}

/// The code of a command that panicked: nothing is known of what it did.
const BROKEN_CODE: &str = "MAY_HAVE_APPLIED";

/// Tells the outcome of a command once if it may have changed something, and that it broke off if it panics.
struct OutcomeNote(Option<Box<dyn FnOnce(ActOutcome) + Send>>);

impl OutcomeNote {
    fn tell(mut self, outcome: &ServedOutcome, has_left: bool) {
        let Some(note) = self.0.take() else { return };
        match outcome {
            Ok(_) if has_left => note(ActOutcome::Unread),
            Ok(_) => note(ActOutcome::Done),
            Err(error) if error.writer_busy || !may_have_acted(error.code) => {}
            Err(error) => note(ActOutcome::Failed(error.code)),
        }
    }
}

impl Drop for OutcomeNote {
    fn drop(&mut self) {
        if let Some(note) = self.0.take() {
            note(ActOutcome::Failed(BROKEN_CODE));
        }
    }
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
    places: Arc<ApiPlaces>,
}

/// Places of commands, by what they do: who only looks can keep nobody from stopping or prompting an agent, and who
/// waits keeps nobody from anything.
#[derive(Debug)]
struct ApiPlaces {
    looking: Arc<Semaphore>,
    acting: Arc<Semaphore>,
    /// `wait`, and events that are followed.
    waiting: Arc<Semaphore>,
    /// What types, and then waits for what comes of it.
    driving: Arc<Semaphore>,
}

impl ApiPlaces {
    /// A place for a request; a failure when there is none.
    async fn take(
        &self,
        words: &[&str],
        right: ApiRight,
        arguments: &[OsString],
    ) -> Result<OwnedSemaphorePermit, ApiFailure> {
        let options = arguments.iter().take_while(|word| *word != "--");
        let follows = options.into_iter().any(|word| word == "--follow");
        let lasting = match words.first() {
            Some(&("run" | "prompt" | "batch")) => Some(&self.driving),
            Some(&"wait") => Some(&self.waiting),
            _ if follows => Some(&self.waiting),
            _ => None,
        };
        if let Some(places) = lasting {
            return Arc::clone(places).try_acquire_owned().map_err(|_| {
                let hint = "end one of them, or ask again in a moment";
                ApiFailure::new("BUSY", "too many requests wait already; nothing was done", hint)
            });
        }
        let places = if right > ApiRight::Watch { &self.acting } else { &self.looking };
        take_soon(places).await
    }
}

/// A place as soon as there is one.
async fn take_soon(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiFailure> {
    match timeout(API_PLACE_TIMEOUT, Arc::clone(places).acquire_owned()).await {
        Ok(Ok(place)) => Ok(place),
        Ok(Err(_)) => Err(stopping()),
        Err(_) => {
            let message = "too many commands run; nothing was done";
            Err(ApiFailure::new("BUSY", message, "ask again in a moment"))
        }
    }
}

impl ApiService {
    pub(crate) fn new(runner: CommandRunner) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        let places = ApiPlaces {
            looking: places(MOST_COMMANDS),
            acting: places(MOST_COMMANDS),
            waiting: places(MOST_LASTING),
            driving: places(MOST_LASTING),
        };
        Self { runner, places: Arc::new(places) }
    }

    /// Answers a route of a command; the server's own are not handled here.
    pub(crate) async fn answer(
        &self,
        found: &RouteMatch,
        query: Option<&str>,
        body: &[u8],
        caller: Option<ApiCaller>,
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
        let place = match self.places.take(words, found.route.right, &arguments).await {
            Ok(place) => place,
            Err(failure) => return reply_failure(&failure),
        };
        let caller = caller.map(|one| (one.name, one.signed_out, one.note));
        let (name, signed_out, note) = match caller {
            Some((name, signed_out, note)) => (Some(name), Some(signed_out), Some(note)),
            None => (None, None, None),
        };
        let signed_out = signed_out.unwrap_or_else(|| Box::pin(std::future::pending()));
        match found.route.work {
            RouteWork::Lines(..) => {
                let request = ServedRequest { arguments, caller: name };
                self.answer_by_parts(request, kind, place, signed_out).await
            }
            RouteWork::Command(["wait", ..]) => tokio::select! {
                reply = self.answer_wait(arguments, name, place) => reply,
                () = signed_out => reply_failure(&ended_sign_in()),
            },
            work => {
                if matches!(work, RouteWork::File(..)) {
                    arguments.retain(|word| word != "--json");
                }
                let changes = found.route.right > ApiRight::Watch && !only_previews(&arguments);
                let note = OutcomeNote(note.filter(|_| changes));
                self.answer_whole(ServedRequest { arguments, caller: name }, kind, place, note)
                    .await
            }
        }
    }

    async fn answer_whole(
        &self,
        request: ServedRequest,
        kind: &'static str,
        place: OwnedSemaphorePermit,
        note: OutcomeNote,
    ) -> ApiReply {
        match self.run_whole(request, Arc::new(place), note).await {
            Some((Ok(_), printed)) => typed_reply(StatusCode::OK, kind, printed.into()),
            Some((Err(error), _)) => error_reply(error),
            None => reply_failure(&broken()),
        }
    }

    /// Waits in short turns, so that a client that leaves is not waited for: what is waited for here is true or not, whenever
    /// it is asked.
    async fn answer_wait(
        &self,
        arguments: Vec<OsString>,
        caller: Option<String>,
        place: OwnedSemaphorePermit,
    ) -> ApiReply {
        let place = Arc::new(place);
        let wait = WaitTurns::of_arguments(&arguments);
        loop {
            let arguments = wait.next_turn(&arguments);
            let request = ServedRequest { arguments, caller: caller.clone() };
            match self.run_whole(request, Arc::clone(&place), OutcomeNote(None)).await {
                Some((Ok(code), _)) if code == WAIT_TIMEOUT_EXIT && !wait.is_over() => {}
                Some((Ok(_), printed)) => {
                    return typed_reply(StatusCode::OK, "application/json", printed.into());
                }
                Some((Err(error), _)) => return error_reply(error),
                None => return reply_failure(&broken()),
            }
        }
    }

    /// Runs a command line; how it ended, and what it printed.
    pub(crate) async fn run_line(
        &self,
        arguments: Vec<OsString>,
    ) -> Option<(ServedOutcome, Vec<u8>)> {
        let place = Arc::clone(&self.places.acting).acquire_owned().await.ok()?;
        let request = ServedRequest { arguments, caller: None };
        self.run_whole(request, Arc::new(place), OutcomeNote(None)).await
    }

    /// The place is given back and the outcome noted when the command is over, also when its client has left before.
    async fn run_whole(
        &self,
        request: ServedRequest,
        place: Arc<OwnedSemaphorePermit>,
        note: OutcomeNote,
    ) -> Option<(ServedOutcome, Vec<u8>)> {
        let run = self.runner.run;
        let client = ClientPresence::default();
        let (answer, cancelled) = (SharedAnswer::default(), client.watch());
        let sink = WholeSink { answer: answer.clone(), cancelled: Arc::clone(&cancelled) };
        let done = tokio::task::spawn_blocking(move || {
            sys::pause::pause_at("api.running");
            let outcome = run(request, Box::new(sink));
            note.tell(&outcome, cancelled.load(Ordering::Relaxed));
            drop(place);
            outcome
        });
        Some((done.await.ok()?, answer.take()))
    }

    /// Lines are sent as they are printed. What fails before the first of them has its status. The stream ends when
    /// the caller is signed out, and when nobody reads it for long.
    async fn answer_by_parts(
        &self,
        request: ServedRequest,
        kind: &'static str,
        place: OwnedSemaphorePermit,
        mut signed_out: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> ApiReply {
        let run = self.runner.run;
        let (parts, mut receiver) = mpsc::channel::<Bytes>(MOST_PARTS);
        let sink = PartsSink::new(parts, API_SEND_TIMEOUT);
        let is_unread = sink.unread_flag();
        let done = tokio::task::spawn_blocking(move || {
            let outcome = run(request, Box::new(sink));
            drop(place);
            outcome
        });
        let first = tokio::select! {
            first = receiver.recv() => first,
            () = &mut signed_out => return reply_failure(&ended_sign_in()),
        };
        let Some(first) = first else {
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
                // A client may leave while there is nothing to send: the command sees that nobody reads.
                tokio::select! {
                    sent = forward.send(part) => if sent.is_err() { return },
                    () = &mut signed_out => return end_stream(&forward, &ended_sign_in()),
                }
                next = tokio::select! {
                    part = receiver.recv() => part,
                    () = forward.closed() => return,
                    () = &mut signed_out => return end_stream(&forward, &ended_sign_in()),
                };
            }
            if is_unread.load(Ordering::Relaxed) {
                return end_stream(&forward, &ApiFailure::new("TIMEOUT", TOO_SLOW, "ask again"));
            }
            if let Ok(Err(error)) = done.await {
                // The last line says why the stream ends; a client that left does not need it.
                let _ = forward.send(error.envelope.into()).await;
            }
        });
        typed_reply(StatusCode::OK, kind, ReplyBody::Parts(body))
    }
}

/// Says in a stream's last line why it ends, if there is room for it: nobody is waited for.
fn end_stream(forward: &mpsc::Sender<Bytes>, failure: &ApiFailure) {
    if forward.try_send(failure_line(failure).into()).is_err() {
        tracing::debug!(code = failure.code, "a stream ends without a word");
    }
}

/// Whether a command line only shows what it would do.
fn only_previews(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|word| *word != "--").any(|word| word == "--dry-run")
}

fn ended_sign_in() -> ApiFailure {
    ApiFailure::new("UNAUTHORIZED", "signed out", "sign in again")
}

/// The exit code of a wait whose time was up.
const WAIT_TIMEOUT_EXIT: u8 = 11;
/// How long a wait lasts that says nothing of it, in milliseconds.
const USUAL_WAIT_MS: u64 = 600_000;

/// A wait, turn by turn.
struct WaitTurns {
    /// Until when; none for ever.
    until: Option<Instant>,
    /// Whether a time was given that is none: the command says so.
    is_wrong: bool,
}

impl WaitTurns {
    const OPTION: &str = "--timeout=";

    fn of_arguments(arguments: &[OsString]) -> Self {
        let options = arguments.iter().take_while(|word| *word != "--");
        let given = options.filter_map(|word| word.to_str()?.strip_prefix(Self::OPTION)).last();
        let millis = given.map_or(Ok(USUAL_WAIT_MS), str::parse);
        let until = match millis {
            Ok(0) | Err(_) => None,
            Ok(millis) => Instant::now().checked_add(Duration::from_millis(millis)),
        };
        Self { until, is_wrong: millis.is_err() }
    }

    fn is_over(&self) -> bool {
        self.is_wrong || self.until.is_some_and(|until| until <= Instant::now())
    }

    /// The command line of the next turn.
    fn next_turn(&self, arguments: &[OsString]) -> Vec<OsString> {
        if self.is_wrong {
            return arguments.to_vec();
        }
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let turn = left.map_or(WAIT_TURN, |left| left.min(WAIT_TURN)).as_millis().max(1);
        let mut is_option = true;
        let kept = arguments.iter().filter(|word| {
            is_option &= *word != "--";
            !(is_option && word.to_str().is_some_and(|word| word.starts_with(Self::OPTION)))
        });
        let mut line: Vec<OsString> = kept.cloned().collect();
        line.insert(1, format!("{}{turn}", Self::OPTION).into());
        line
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
        BROKEN_CODE,
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
