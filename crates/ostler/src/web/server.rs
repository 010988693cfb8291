//! HTTP/1.1 on loopback: connections, and the order of checks of every request.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use model::wire::{WebRightAsked, WebTab, WebTicket, WebToken};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::control::{ControlServer, serve_control};
use super::guard::{bearer_token, put_headers};
use super::read_soon::ReadSoon;
use super::sign_in::SignedTab;
use super::{WebState, socket};
use crate::api::{
    ActOutcome, ApiCaller, ApiFailure, ApiReply, ApiRight, DoorRoute, MAX_BODY_BYTES, RouteMatch,
    RouteWork, document_reply, json_reply, match_route, reply_failure,
};
use crate::timeouts::{
    PAGE_ACCEPT_BACKOFF, PAGE_BODY_TIMEOUT, PAGE_HEADER_TIMEOUT, PAGE_WRITE_TIMEOUT,
};

/// How many connections are served at once; beyond that, one that showed no token goes.
const MOST_CONNECTIONS: usize = 256;
/// The longest head of a request.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// Serves all listeners until the process ends.
pub(super) fn serve_all(
    state: Arc<WebState>,
    listeners: Vec<TcpListener>,
    control: ControlServer,
    stop: oneshot::Receiver<()>,
) -> std::io::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_io().enable_time().build()?;
    let served = runtime.block_on(async move {
        let places = Arc::new(Semaphore::new(sys::socket::connection_limit(MOST_CONNECTIONS)));
        let mut servers = Vec::new();
        for listener in listeners {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let (state, places) = (Arc::clone(&state), Arc::clone(&places));
            servers.push(tokio::spawn(accept_connections(listener, state, places)));
        }
        servers.push(tokio::spawn(serve_control(control, state)?));
        // One that is not wanted any more may have been dropped: then it serves for good.
        tokio::spawn(async move {
            if stop.await.is_ok() {
                servers.iter().for_each(JoinHandle::abort);
            } else {
                std::future::pending::<()>().await;
            }
        })
        .await
        .map_err(std::io::Error::other)
    });
    // Commands that are still at work: they are cancelled like those of a closed pipe.
    runtime.shutdown_background();
    served
}

/// A connected client.
struct Guest {
    task: JoinHandle<()>,
    manners: Arc<GuestManners>,
}

/// What a client has shown of itself.
#[derive(Debug, Default)]
struct GuestManners {
    has_asked: AtomicBool,
    /// Whether it showed a token or a ticket that is good.
    is_signed_in: AtomicBool,
}

impl Guest {
    /// Who goes first when there is no place left: who never asked, then the oldest that showed no token.
    fn find_dispensable(guests: &VecDeque<Self>) -> Option<usize> {
        let lacks = |flag: fn(&GuestManners) -> &AtomicBool| {
            guests.iter().position(|one| !flag(&one.manners).load(Ordering::Relaxed))
        };
        lacks(|manners| &manners.has_asked).or_else(|| lacks(|manners| &manners.is_signed_in))
    }
}

async fn accept_connections(
    listener: tokio::net::TcpListener,
    state: Arc<WebState>,
    places: Arc<Semaphore>,
) {
    let mut guests: VecDeque<Guest> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                sleep(PAGE_ACCEPT_BACKOFF).await;
                continue;
            }
        };
        guests.retain(|guest| !guest.task.is_finished());
        if places.available_permits() == 0
            && let Some(at) = Guest::find_dispensable(&guests)
            && let Some(dispensable) = guests.remove(at)
        {
            dispensable.task.abort();
        }
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let manners = Arc::<GuestManners>::default();
        let (state, noted) = (Arc::clone(&state), Arc::clone(&manners));
        let task = tokio::spawn(async move {
            serve_connection(stream, state, noted).await;
            drop(place);
        });
        guests.push_back(Guest { task, manners });
    }
}

async fn serve_connection(stream: TcpStream, state: Arc<WebState>, manners: Arc<GuestManners>) {
    // Keys are felt at once.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a socket keeps its delay");
    }
    let service = service_fn(move |request| {
        manners.has_asked.store(true, Ordering::Relaxed);
        let (state, manners) = (Arc::clone(&state), Arc::clone(&manners));
        async move {
            let mut reply = answer_request(&state, request, &manners).await;
            put_headers(&mut reply);
            Ok::<_, Infallible>(reply)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(PAGE_HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES);
    let stream = TokioIo::new(ReadSoon::new(stream, PAGE_WRITE_TIMEOUT));
    let connection = http.serve_connection(stream, service).with_upgrades();
    if let Err(error) = connection.await {
        // A connection that breaks is its client's loss.
        tracing::debug!(%error, "a connection broke");
    }
}

async fn answer_request(
    state: &Arc<WebState>,
    request: Request<Incoming>,
    manners: &GuestManners,
) -> ApiReply {
    match route_request(state, request, manners).await {
        Ok(reply) => reply,
        Err(failure) => reply_failure(&failure),
    }
}

/// `Host`, then the route, then `Origin`, then the token, then the right, then the body.
async fn route_request(
    state: &Arc<WebState>,
    request: Request<Incoming>,
    manners: &GuestManners,
) -> Result<ApiReply, ApiFailure> {
    let authority = request.uri().authority().map(hyper::http::uri::Authority::as_str);
    let host = state.hosts.check_host(request.headers(), authority)?.to_owned();
    let path = request.uri().path().to_owned();
    if !path.starts_with("/v1/") {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        return state.assets.answer(&path).filter(|_| is_read).ok_or_else(ApiFailure::not_found);
    }
    state.hosts.check_origin(request.headers(), &host)?;
    let found = match_route(request.method().as_str(), &path);
    let signs_in = matches!(&found, Ok(one) if one.route.right == ApiRight::Anybody);
    if signs_in && let Ok(found) = found {
        let reply = answer_anybody(state, &found, request).await?;
        manners.is_signed_in.store(true, Ordering::Relaxed);
        return Ok(reply);
    }
    // A client without a token is not told which routes there are.
    let tab = state.sign_ins().check_token(bearer_token(request.headers()), Instant::now())?;
    manners.is_signed_in.store(true, Ordering::Relaxed);
    let found = found.map_err(|_| ApiFailure::not_found())?;
    check_right(&tab, found.route.right)?;
    let (head, body) = request.into_parts();
    let body = read_body(body).await?;
    match found.route.work {
        RouteWork::Door(DoorRoute::Keep) => keep_tab(state, tab.name).await,
        RouteWork::Door(DoorRoute::SignOut) => sign_out(state, tab).await,
        RouteWork::Door(route) => answer_tab(state, route, &tab, &body),
        work => {
            let caller = describe_caller(state, &tab, &found, command_name(work));
            Ok(state.api.answer(&found, head.uri.query(), &body, Some(caller)).await)
        }
    }
}

/// A tab as the API knows it: until when it may ask, and where it is noted what it did.
fn describe_caller(
    state: &Arc<WebState>,
    tab: &SignedTab,
    found: &RouteMatch,
    command: String,
) -> ApiCaller {
    let name = tab.audit_name();
    let session = found.path.first().map(|(_, value)| value.clone());
    let session = session.filter(|_| found.route.path.starts_with("/v1/sessions/"));
    let (noting, by) = (Arc::clone(state), name.clone());
    let note = move |outcome: ActOutcome| {
        let outcome = match outcome {
            ActOutcome::Done => None,
            ActOutcome::Unread => Some("UNREAD"),
            ActOutcome::Failed(code) => Some(code),
        };
        noting.notes.note_command(&by, command, session.as_deref(), outcome);
    };
    let (state, tab) = (Arc::clone(state), tab.name.clone());
    let signed_out = Box::pin(async move { state.await_sign_out(&tab).await });
    ApiCaller { name, signed_out, note: Box::new(note) }
}

/// A route's command, as people type it: what it does at all, without its figures.
fn command_name(work: RouteWork) -> String {
    match work {
        RouteWork::Command(words) | RouteWork::Lines(words, _) | RouteWork::File(words, _) => {
            let words = words.iter().filter(|word| !word.contains('='));
            words.copied().collect::<Vec<_>>().join(" ")
        }
        RouteWork::Door(_) => String::new(),
    }
}

/// Keeps a browser signed in.
async fn keep_tab(state: &Arc<WebState>, name: String) -> Result<ApiReply, ApiFailure> {
    let signed_out = || ApiFailure::new("UNAUTHORIZED", "signed out", "sign in again");
    let kept = state.sign_ins().describe_kept(&name, sys::clock::now()).ok_or_else(signed_out)?;
    let (writer, row) = (Arc::clone(state), kept.clone());
    let written = tokio::task::spawn_blocking(move || writer.notes.keep_tab(row)).await;
    written.map_err(|_| ApiFailure::new("INTERNAL_ERROR", "it broke off", "try again"))??;
    let tab = state.sign_ins().note_kept(&kept);
    match tab {
        Some(tab) => Ok(json_reply(tab_view(&tab, state))),
        None => {
            // Signed out meanwhile, which counts.
            let writer = Arc::clone(state);
            let forget = move || writer.notes.forget_tab(&name);
            let _ = tokio::task::spawn_blocking(forget).await;
            Err(signed_out())
        }
    }
}

/// Signs a tab out, for good: what was kept of it is gone when this is answered.
async fn sign_out(state: &Arc<WebState>, tab: SignedTab) -> Result<ApiReply, ApiFailure> {
    state.sign_ins().revoke_tab(&tab.name);
    state.note_revision();
    if tab.kept_until.is_some() {
        let (writer, name) = (Arc::clone(state), tab.name.clone());
        let forgotten = tokio::task::spawn_blocking(move || writer.notes.forget_tab(&name)).await;
        forgotten.map_err(|_| ApiFailure::new("INTERNAL_ERROR", "it broke off", "try again"))??;
    }
    Ok(json_reply(tab_view(&tab, state)))
}

/// Whether a tab may do that, and what opens the lock.
pub(super) fn check_right(tab: &SignedTab, right: ApiRight) -> Result<(), ApiFailure> {
    if tab.right >= right {
        return Ok(());
    }
    Err(ApiFailure::new(
        "FORBIDDEN",
        format!("this needs the right to {}", right.as_str()),
        "ask for it in the page, and confirm its code with `ostler web allow CODE`",
    ))
}

async fn read_body(body: Incoming) -> Result<Bytes, ApiFailure> {
    match timeout(PAGE_BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => Err(ApiFailure::too_large()),
        Err(_) => {
            Err(ApiFailure::new("INVALID_INPUT", "the body did not come in time", "try again"))
        }
    }
}

fn parse_body<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiFailure> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("the body is not what is expected: {error}");
        ApiFailure::new("INVALID_INPUT", message, "`ostler schema --openapi` describes every route")
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInRequest {
    key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RightRequest {
    right: String,
}

/// The two routes without a token: they take a secret of their own instead.
async fn answer_anybody(
    state: &Arc<WebState>,
    found: &RouteMatch,
    request: Request<Incoming>,
) -> Result<ApiReply, ApiFailure> {
    if matches!(found.route.work, RouteWork::Door(DoorRoute::Stream)) {
        return socket::accept_socket(state, request);
    }
    let body = read_body(request.into_body()).await?;
    let SignInRequest { key } = parse_body(&body)?;
    let is_full = state.sign_ins().is_full();
    let (token, tab) = state.sign_ins().redeem_key(&key, state.allowed, Instant::now())?;
    if is_full {
        // The tab that was used longest ago has lost its place.
        state.note_revision();
    }
    tracing::info!(tab = tab.name, "signed in");
    let mut reply = json_reply(WebToken { token, tab: tab_view(&tab, state) });
    *reply.status_mut() = StatusCode::CREATED;
    Ok(reply)
}

/// What a tab asks about itself.
fn answer_tab(
    state: &WebState,
    route: DoorRoute,
    tab: &SignedTab,
    body: &[u8],
) -> Result<ApiReply, ApiFailure> {
    let internal =
        |error: std::io::Error| ApiFailure::new("INTERNAL_ERROR", error.to_string(), "try again");
    match route {
        DoorRoute::Tab => Ok(json_reply(tab_view(tab, state))),
        DoorRoute::AskRight => {
            let RightRequest { right } = parse_body(body)?;
            let right = ApiRight::parse(&right).ok_or_else(|| {
                let message = format!("`{right}` is not a right");
                ApiFailure::new("INVALID_INPUT", message, "`type` or `manage`")
            })?;
            let code = state.sign_ins().ask_right(tab, right, Instant::now()).map_err(internal)?;
            let command = format!("ostler web allow {code}");
            Ok(json_reply(WebRightAsked { right: right.as_str().to_owned(), code, command }))
        }
        DoorRoute::Ticket => {
            let ticket = state.sign_ins().new_ticket(tab, Instant::now()).map_err(internal)?;
            Ok(json_reply(WebTicket { ticket }))
        }
        DoorRoute::Document => Ok(document_reply(&state.api.runner)),
        DoorRoute::SignIn | DoorRoute::Stream | DoorRoute::Keep | DoorRoute::SignOut => {
            Err(ApiFailure::not_found())
        }
    }
}

/// A tab as programs see it.
pub(super) fn tab_view(tab: &SignedTab, state: &WebState) -> WebTab {
    WebTab {
        name: tab.name.clone(),
        right: tab.right.as_str().to_owned(),
        signed_in_at: tab.since,
        last_used_at: tab.last_used,
        kept_until: tab.kept_until,
        version: state.assets.version.clone(),
    }
}
