//! What the daemon's socket serves to `ostler-net`: batches of events for webhooks, reports about
//! them, and the machine's sessions. Reads happen on threads of their own; every change is work for the
//! writer, as if a command had asked for it.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flows::daemon::OrderQueue;
use flows::live::LiveSource;
use flows::writer::{DaemonAnswer, DaemonOrder, Work};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use model::event::HookHappening;
use model::fleet_order::{OrderRule, OrderedRun, OrderedRunResult};
use model::helper::{FleetRights, MachineChange, TerminalVisit};
use model::hosted::wire::AttachResult;
use model::webhook::WebhookChange;
use model::wire::{EventView, FleetLevel, LsResult};
use serde::Serialize;
use sys::dropped::NoteDropped;
use sys::watch::DirectoryWatch;
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;

use super::{json_reply, text_reply};
use crate::api::{ApiReply, ApiService, ServedOutcome};
use crate::timeouts::{HELPER_SETTLE_TIME, LONGEST_HELPER_WAIT};

/// The largest report.
const MOST_REPORT_BYTES: usize = 1 << 20;

/// What the helper's questions are answered with.
#[derive(Debug)]
pub(crate) struct HelperDesk {
    pub(crate) home: PathBuf,
    /// Tells the thread that minds the helpers that something changed.
    pub(crate) wake: Sender<super::HelperSignal>,
    /// What to look at for the machine's sessions.
    pub(crate) source: Option<LiveSource>,
    /// What operators may do here, by the settings as they are now.
    pub(crate) allowed: fn() -> FleetLevel,
    /// What is told of a command that ended.
    pub(crate) result: fn(ServedOutcome, Vec<u8>) -> OrderedRunResult,
    /// Joins a terminal.
    pub(crate) join: JoinTerminal,
}

/// Joins a terminal: how it is, what its host has sent already, and the connection; or why not.
pub(crate) type JoinTerminal =
    fn(&TerminalVisit) -> Result<(AttachResult, Vec<u8>, UnixStream), String>;

/// Answers a question below `/v1/net/`.
pub(super) async fn answer_helper(
    desk: &HelperDesk,
    api: &ApiService,
    queue: &OrderQueue,
    route: &str,
    request: Request<Incoming>,
) -> ApiReply {
    let query = request.uri().query().unwrap_or("").to_owned();
    let wait = query_value(&query, "wait").and_then(|text| text.parse().ok()).unwrap_or(0);
    let wait = Duration::from_millis(wait).min(LONGEST_HELPER_WAIT);
    let home = desk.home.clone();
    match route {
        "wake" => {
            let heard = desk.wake.send(super::HelperSignal::Look).is_ok();
            json_reply(&serde_json::json!({ "heard": heard }))
        }
        "webhooks" => {
            read_reply(move || {
                flows::webhooks::list_webhooks(&home).map_err(|error| error.to_string())
            })
            .await
        }
        "webhooks/batch" => {
            let id = query_value(&query, "id").unwrap_or_default().to_owned();
            read_reply(move || next_batch_within(&home, &id, wait)).await
        }
        "webhooks/report" => take_report(queue, request).await,
        "rights" => {
            let allowed = desk.allowed;
            read_reply(move || Ok(FleetRights { allow: allowed() })).await
        }
        "order" => run_order(desk, api, request).await,
        "terminal" => join_terminal(desk, request).await,
        "changes" => {
            let after = query_value(&query, "after").and_then(|text| text.parse().ok());
            read_reply(move || newest_within(&home, after.unwrap_or(0), wait)).await
        }
        "sessions" => {
            let Some(source) = desk.source.clone() else {
                return text_reply(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "it cannot look at the machine",
                );
            };
            match tokio::task::spawn_blocking(move || list_sessions(&source)).await {
                Ok(Ok(bytes)) => super::bytes_reply(bytes),
                Ok(Err(reason)) => text_reply(StatusCode::INTERNAL_SERVER_ERROR, reason),
                Err(error) => text_reply(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            }
        }
        _ => text_reply(StatusCode::NOT_FOUND, "there is no such thing to ask for"),
    }
}

/// What of a session people and programs wrote: it leaves the machine without secrets.
const FREE_TEXTS: [&str; 3] = ["title", "name", "waitingFor"];

/// What `ls -a --json` would list, with secrets taken out of free text.
fn list_sessions(source: &LiveSource) -> Result<Vec<u8>, String> {
    let observation = source.observe_on(&source.machine.next_turn());
    let sessions = observation.sessions.iter().map(|one| one.session_view()).collect::<Vec<_>>();
    let (total, shown) = (sessions.len(), sessions.len());
    let result = LsResult {
        sessions,
        total,
        shown,
        groups: Vec::new(),
        after: None,
        incomplete: &observation.incomplete,
        unattached: &observation.unattached,
    };
    let mut listed = model::json_text::to_json_value(&result).map_err(|error| error.to_string())?;
    redact_sessions(&mut listed);
    serde_json::to_vec(&listed).map_err(|error| error.to_string())
}

fn redact_sessions(listed: &mut serde_json::Value) {
    let sessions = listed.get_mut("sessions").and_then(serde_json::Value::as_array_mut);
    for session in sessions.into_iter().flatten() {
        for name in FREE_TEXTS {
            if let Some(serde_json::Value::String(text)) = session.get_mut(name) {
                *text = flows::redact::redact(text).0;
            }
        }
    }
}

async fn read_reply<T: Serialize + Send + 'static>(
    read: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> ApiReply {
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(value)) => json_reply(&value),
        Ok(Err(reason)) => text_reply(StatusCode::INTERNAL_SERVER_ERROR, reason),
        Err(error) => text_reply(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// The next batch, when there is something in it, or what there is when the time is up.
fn next_batch_within(
    home: &Path,
    id: &str,
    wait: Duration,
) -> Result<model::wire::WebhookBatch, String> {
    wait_for_change(home, wait, || {
        let batch = flows::webhooks::next_batch(home, id).map_err(|error| error.to_string())?;
        let webhook = batch.webhook.as_ref();
        let is_idle = webhook.is_some_and(|webhook| batch.through == webhook.cursor);
        Ok((!is_idle || !batch.again.is_empty(), batch))
    })
}

/// The newest event's cursor, when it is another than `after`, or when the time is up.
fn newest_within(home: &Path, after: i64, wait: Duration) -> Result<MachineChange, String> {
    let newest = wait_for_change(home, wait, || {
        let newest = flows::events::newest_cursor(home).map_err(|error| error.to_string())?;
        Ok((newest != after, newest))
    })?;
    let mut urgent = false;
    if after >= 0 && newest != after {
        let mut each = |event: EventView| {
            urgent = is_urgent(&event.kind);
            !urgent
        };
        let read = flows::events::read_events(home, after, None, &mut each);
        read.map_err(|error| error.to_string())?;
    }
    Ok(MachineChange { newest, urgent })
}

/// Whether somebody may want to know of an event at once: everything but what agents report of their work.
fn is_urgent(kind: &str) -> bool {
    let is_calm = |happening: &HookHappening| match happening {
        HookHappening::Waiting | HookHappening::SessionEnd => false,
        happening => happening.as_str() == kind,
    };
    !HookHappening::ALL.iter().any(is_calm)
}

/// Reads again whenever the home changes, until `read` says that it has something.
fn wait_for_change<T>(
    home: &Path,
    wait: Duration,
    mut read: impl FnMut() -> Result<(bool, T), String>,
) -> Result<T, String> {
    let begun = Instant::now();
    // Watched before it is first read: what comes between is told.
    let watch = DirectoryWatch::watch_directory(home).map_err(|error| error.to_string())?;
    loop {
        let (is_ready, found) = read()?;
        let left = wait.saturating_sub(begun.elapsed());
        if is_ready || left.is_zero() {
            return Ok(found);
        }
        watch.wait_for(Some(left)).map_err(|error| error.to_string())?;
        std::thread::sleep(HELPER_SETTLE_TIME);
    }
}

async fn take_report(queue: &OrderQueue, request: Request<Incoming>) -> ApiReply {
    let body = Limited::new(request.into_body(), MOST_REPORT_BYTES).collect();
    let Ok(Ok(body)) = tokio::time::timeout(super::ORDER_BODY_TIMEOUT, body).await else {
        return text_reply(StatusCode::BAD_REQUEST, "the report broke off, or is too large");
    };
    let change = match serde_json::from_slice::<WebhookChange>(&body.to_bytes()) {
        Ok(change @ WebhookChange::Report { .. }) => change,
        Ok(_) => return text_reply(StatusCode::FORBIDDEN, "only reports are taken here"),
        Err(error) => return text_reply(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let (reply, answer) = oneshot::channel::<DaemonAnswer>();
    let work = DaemonOrder::Work(Box::new(Work::Webhook { what: change }));
    queue.put(work, move |answer| drop(reply.send(answer)));
    match answer.await {
        Ok(answer) => json_reply(&answer),
        Err(_) => text_reply(StatusCode::SERVICE_UNAVAILABLE, "the daemon is stopping"),
    }
}

/// Runs a command that an operator ordered from afar, if this home's settings let operators do that now.
async fn run_order(desk: &HelperDesk, api: &ApiService, request: Request<Incoming>) -> ApiReply {
    let body = Limited::new(request.into_body(), MOST_REPORT_BYTES).collect();
    let Ok(Ok(body)) = tokio::time::timeout(super::ORDER_BODY_TIMEOUT, body).await else {
        return text_reply(StatusCode::BAD_REQUEST, "the order broke off, or is too large");
    };
    let order = match serde_json::from_slice::<OrderedRun>(&body.to_bytes()) {
        Ok(order) => order,
        Err(error) => return text_reply(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let Some(rule) = OrderRule::of_verb(&order.verb) else {
        return text_reply(StatusCode::FORBIDDEN, "that cannot be ordered from afar");
    };
    if rule.streams {
        return text_reply(StatusCode::FORBIDDEN, "it has no end that could be waited for");
    }
    if let Err(reason) = rule.check_arguments(&order.args) {
        return text_reply(StatusCode::FORBIDDEN, reason);
    }
    let allowed = (desk.allowed)();
    if rule.level_of(&order.args) > allowed {
        let reason = format!("this home lets operators do `{}` only", allowed.as_str());
        return text_reply(StatusCode::FORBIDDEN, reason);
    }
    let line = rule.command_line(&order.args, order.json);
    let line = line.into_iter().map(std::ffi::OsString::from).collect();
    match api.run_line(line).await {
        Some((outcome, printed)) => json_reply(&(desk.result)(outcome, printed)),
        None => text_reply(StatusCode::INTERNAL_SERVER_ERROR, "the command broke off"),
    }
}

/// Joins a terminal for an operator, if this home's settings let operators do that now. The connection carries the
/// host's frames from then on.
async fn join_terminal(desk: &HelperDesk, mut request: Request<Incoming>) -> ApiReply {
    let visit = request.headers().get(TERMINAL_HEADER).map(|value| value.as_bytes().to_vec());
    let visit = visit
        .and_then(|text| STANDARD.decode(text).ok())
        .and_then(|text| serde_json::from_slice::<TerminalVisit>(&text).ok());
    let Some(visit) = visit else {
        return text_reply(StatusCode::BAD_REQUEST, "it is not said which terminal");
    };
    let needed = if visit.params.read_only { FleetLevel::Read } else { FleetLevel::Drive };
    let allowed = (desk.allowed)();
    if needed > allowed {
        let reason = format!("this home lets operators do `{}` only", allowed.as_str());
        return text_reply(StatusCode::FORBIDDEN, reason);
    }
    let join = desk.join;
    let (welcome, early, host) = match tokio::task::spawn_blocking(move || join(&visit)).await {
        Ok(Ok(joined)) => joined,
        Ok(Err(reason)) => return text_reply(StatusCode::NOT_FOUND, reason),
        Err(error) => return text_reply(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    let host = host.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(host));
    let welcome = serde_json::to_vec(&welcome).ok();
    let welcome = welcome.and_then(|text| HeaderValue::try_from(STANDARD.encode(text)).ok());
    let (Ok(host), Some(welcome)) = (host, welcome) else {
        return text_reply(StatusCode::INTERNAL_SERVER_ERROR, "its host cannot be used");
    };
    tokio::spawn(async move {
        match hyper::upgrade::on(&mut request).await {
            Ok(visitor) => relay_frames(TokioIo::new(visitor), host, &early)
                .await
                .note_dropped("the frames of a terminal"),
            Err(error) => tracing::debug!(%error, "nobody came for a terminal"),
        }
    });
    let mut response = text_reply(StatusCode::SWITCHING_PROTOCOLS, "");
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("ostler-terminal"));
    headers.insert(TERMINAL_HEADER, welcome);
    response
}

/// How a terminal is described, both ways: base64 of JSON.
const TERMINAL_HEADER: &str = "x-ostler-terminal";

async fn relay_frames(
    mut visitor: TokioIo<Upgraded>,
    mut host: tokio::net::UnixStream,
    early: &[u8],
) -> std::io::Result<()> {
    visitor.write_all(early).await?;
    tokio::io::copy_bidirectional(&mut visitor, &mut host).await.map(|_| ())
}

/// The value of a name in a query; ours need no escapes.
fn query_value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name))
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_79_an_end_and_a_question_are_urgent_and_work_is_not() {
        for kind in ["exited", "session-end", "waiting", "destroyed"] {
            assert!(is_urgent(kind), "{kind}");
        }
        for kind in ["progress", "turn-start", "turn-end", "session-start", "sign"] {
            assert!(!is_urgent(kind), "{kind}");
        }
    }

    #[test]
    fn row_57_free_text_leaves_the_machine_without_secrets() {
        let secret = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
        let id = "0199f2aa-1111-7222-8333-444455556666";
        let mut listed = serde_json::json!({ "sessions": [
            { "id": id, "title": format!("use {secret}"), "waitingFor": format!("Bash: {secret}") }
        ] });
        redact_sessions(&mut listed);
        assert!(!listed.to_string().contains(secret), "{listed}");
        assert_eq!(listed["sessions"][0]["id"], id);
    }
}
