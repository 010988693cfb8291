//! The daemon's HTTP server, on a private Unix socket. The work is `flows::daemon`.
//!
//! An order waits in its socket until the daemon turns to it; only then is its body read (which is when
//! HTTP says `100 Continue`). So there is one body in memory at a time, and a client that gave up before has
//! asked for nothing. Every wait for a client has a time-out, and there are only so many connections.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use crate::metrics_server::{MeasureMetrics, measure_apart, metrics_response};
use crate::timeouts::{
    ANSWER_READ_TIMEOUT, CLIENT_STAY_TIMEOUT, LOCAL_HEADER_TIMEOUT, LONGEST_ACCEPT_BACKOFF,
    ORDER_BODY_TIMEOUT, SHORTEST_ACCEPT_BACKOFF, TURN_AWAY_TIMEOUT,
};
use flows::badge::BadgeKeeper;
use flows::daemon::OrderQueue;
use flows::writer::{DAEMON_PROTOCOL, DaemonAnswer, DaemonOrder, HomeId};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderMap};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use model::wire::BadgeResult;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::api::{
    ApiFailure, ApiReply, ApiService, DoorRoute, MAX_BODY_BYTES, ReplyBody, RouteWork,
    document_reply, match_route, reply_failure,
};

mod helper_routes;

pub(crate) use crate::helper::HelperSignal;
pub(crate) use helper_routes::HelperDesk;

/// How many connections are served at once; the others wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 64;

/// The largest order: the consent to a plan names everything that would go.
const MOST_ORDER: usize = 64 << 20;

/// What is answered at the door beside orders.
#[derive(Debug)]
pub(crate) struct DoorServices {
    pub(crate) badge: Option<BadgeKeeper>,
    pub(crate) helper: HelperDesk,
    pub(crate) measure: MeasureMetrics,
    pub(crate) api: ApiService,
}

/// The door while it is open.
#[derive(Debug)]
pub(crate) struct DaemonSocketServer {
    close: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl DaemonSocketServer {
    /// Answers requests on the socket on behalf of that home.
    pub(crate) fn open(
        listener: std::os::unix::net::UnixListener,
        queue: OrderQueue,
        home: HomeId,
        services: DoorServices,
    ) -> std::io::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().build()?;
        listener.set_nonblocking(true)?;
        let listener = {
            let _inside = runtime.enter();
            UnixListener::from_std(listener)?
        };
        let (close, closed) = oneshot::channel();
        let desk = Arc::new(FrontDesk {
            queue,
            home: home.to_string(),
            services,
            measuring: Semaphore::new(1),
        });
        let thread = std::thread::Builder::new().name("door".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(serve_connections(listener, desk, closed));
            // A question that is still held back has no client left.
            runtime.shutdown_background();
        })?;
        Ok(Self { close, thread })
    }

    /// Accepts no more connections; every client has had its answer when this returns, or did not take
    /// it in time.
    pub(crate) fn close(self) {
        let _ = self.close.send(());
        let _ = self.thread.join();
    }
}

/// What every connection needs.
struct FrontDesk {
    queue: OrderQueue,
    home: String,
    services: DoorServices,
    /// One look at the machine at a time.
    measuring: Semaphore,
}

async fn serve_connections(
    listener: UnixListener,
    desk: Arc<FrontDesk>,
    closed: oneshot::Receiver<()>,
) {
    let limit = sys::socket::connection_limit(MOST_CONNECTIONS);
    let places = Arc::new(Semaphore::new(limit));
    let accepting = tokio::spawn(accept_connections(listener, desk, Arc::clone(&places)));
    let _ = closed.await;
    accepting.abort();
    // All places are free when no client is served any more.
    let all = u32::try_from(limit).unwrap_or(u32::MAX);
    let _ = timeout(CLIENT_STAY_TIMEOUT, places.acquire_many(all)).await;
}

async fn accept_connections(listener: UnixListener, desk: Arc<FrontDesk>, places: Arc<Semaphore>) {
    let mut backoff = SHORTEST_ACCEPT_BACKOFF;
    let mut spare = spare_descriptor();
    let mut guests = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                backoff = SHORTEST_ACCEPT_BACKOFF;
                spare = spare.or_else(spare_descriptor);
                if !is_us(&stream) {
                    tracing::warn!("a connection was refused: it is another user's");
                    continue;
                }
                if places.available_permits() == 0 {
                    evict_silent(&mut guests);
                }
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                let (desk, has_asked) = (Arc::clone(&desk), Arc::new(AtomicBool::new(false)));
                let asking = Arc::clone(&has_asked);
                let task = tokio::spawn(async move {
                    serve_connection(stream, desk, asking).await;
                    drop(place);
                });
                guests.retain(|guest: &Guest| !guest.task.is_finished());
                guests.push_back(Guest { task, has_asked });
            }
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted for now");
                if sys::socket::is_out_of_descriptors(&error) && spare.take().is_some() {
                    turn_away(&listener).await;
                    spare = spare_descriptor();
                }
                sleep(backoff).await;
                backoff = (backoff * 2).min(LONGEST_ACCEPT_BACKOFF);
            }
        }
    }
}

/// A connected client.
struct Guest {
    task: JoinHandle<()>,
    has_asked: Arc<AtomicBool>,
}

/// Makes room: of those that have not said what they want, the one that is silent for longest goes.
fn evict_silent(guests: &mut VecDeque<Guest>) {
    let is_silent =
        |guest: &Guest| !guest.task.is_finished() && !guest.has_asked.load(Ordering::Relaxed);
    if let Some(guest) = guests.iter().position(is_silent).and_then(|at| guests.remove(at)) {
        tracing::debug!("a silent client was sent away: all places were taken");
        guest.task.abort();
    }
}

/// A descriptor that can be given up, so that a client can be told that there is none left.
fn spare_descriptor() -> Option<std::fs::File> {
    std::fs::File::open("/dev/null").ok()
}

async fn turn_away(listener: &UnixListener) {
    const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    if let Ok(Ok((stream, _))) = timeout(TURN_AWAY_TIMEOUT, listener.accept()).await {
        let _ = stream.try_write(FULL);
    }
}

fn is_us(stream: &UnixStream) -> bool {
    sys::socket::peer_of(stream).is_ok_and(|peer| peer.is_us())
}

/// Serves one connection, which is for one request.
async fn serve_connection(stream: UnixStream, desk: Arc<FrontDesk>, has_asked: Arc<AtomicBool>) {
    let (answered, is_answered) = oneshot::channel::<()>();
    let answered = Mutex::new(Some(answered));
    let service = service_fn(move |request| {
        has_asked.store(true, Ordering::Relaxed);
        let desk = Arc::clone(&desk);
        // Dropped with the answer: from then on it is the client's turn.
        let answered = answered.lock().ok().and_then(|mut answered| answered.take());
        async move {
            let response = answer_request(&desk, request).await;
            drop(answered);
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(LOCAL_HEADER_TIMEOUT).keep_alive(false);
    let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = pin!(connection);
    let mut deadline = pin!(async {
        let _ = is_answered.await;
        sleep(ANSWER_READ_TIMEOUT).await;
    });
    poll_fn(|context| {
        // A connection that breaks is its client's loss.
        let is_over = connection.as_mut().poll(context).is_ready();
        if is_over || deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

fn text_reply(status: StatusCode, reason: impl Into<String>) -> ApiReply {
    let mut response = Response::new(ReplyBody::from(reason.into().into_bytes()));
    *response.status_mut() = status;
    response
}

fn answer_reply(answer: &DaemonAnswer) -> ApiReply {
    json_reply(answer)
}

fn bytes_reply(text: Vec<u8>) -> ApiReply {
    let mut response = Response::new(ReplyBody::from(text));
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn json_reply(answer: &impl serde::Serialize) -> ApiReply {
    match serde_json::to_vec(answer) {
        Ok(text) => bytes_reply(text),
        Err(error) => text_reply(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// The counts, or that the client must compute them itself.
fn badge_reply(counts: Option<BadgeResult>) -> ApiReply {
    let text = counts.and_then(|counts| serde_json::to_string(&counts).ok());
    match text {
        Some(text) => text_reply(StatusCode::OK, text),
        None => text_reply(StatusCode::SERVICE_UNAVAILABLE, "it is being looked"),
    }
}

async fn answer_request(desk: &FrontDesk, request: Request<Incoming>) -> ApiReply {
    let asked_for = header_text(request.headers(), "x-ostler-home");
    // A reader with nothing but this socket's path (`curl --unix-socket`) names no home.
    if request.uri().path() == "/v1/metrics" && asked_for.is_none() {
        let _turn = desk.measuring.acquire().await;
        let (status, text) = measure_apart(desk.services.measure).await;
        // The same answer as on the metrics' own port, with a body of this door's type.
        let (head, _) = metrics_response(status, String::new()).into_parts();
        return Response::from_parts(head, ReplyBody::from(text.into_bytes()));
    }
    if asked_for != Some(desk.home.as_str()) {
        let asked_for = asked_for.unwrap_or("none");
        let reason =
            format!("it serves another home ({}, not {asked_for}); nothing was done", desk.home);
        return text_reply(StatusCode::MISDIRECTED_REQUEST, reason);
    }
    match request.uri().path() {
        "/v1/status" => answer_reply(&DaemonAnswer::Status(desk.queue.status())),
        "/v1/badge" => {
            badge_reply(desk.services.badge.as_ref().and_then(BadgeKeeper::current_counts))
        }
        "/v1/orders" => take_order(desk, request).await,
        path if path.starts_with("/v1/net/") => {
            let route = path["/v1/net/".len()..].to_owned();
            let DoorServices { helper, api, .. } = &desk.services;
            helper_routes::answer_helper(helper, api, &desk.queue, &route, request).await
        }
        _ => answer_route(&desk.services.api, request).await,
    }
}

/// Answers a route of the API. A client that can connect is this user, and may do everything; only what a page
/// needs to sign in has no meaning here.
async fn answer_route(api: &ApiService, request: Request<Incoming>) -> ApiReply {
    let Ok(found) = match_route(request.method().as_str(), request.uri().path()) else {
        return reply_failure(&ApiFailure::not_found());
    };
    if let RouteWork::Door(route) = found.route.work {
        return match route {
            DoorRoute::Document => document_reply(&api.runner),
            _ => reply_failure(&ApiFailure::not_found()),
        };
    }
    let (head, body) = request.into_parts();
    let body = timeout(ORDER_BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await;
    match body {
        Ok(Ok(body)) => api.answer(&found, head.uri.query(), &body.to_bytes(), None).await,
        Ok(Err(_)) => reply_failure(&ApiFailure::too_large()),
        Err(_) => text_reply(StatusCode::REQUEST_TIMEOUT, LATE),
    }
}

/// Waits for the daemon to turn to the order, hands it over, and waits for the answer.
async fn take_order(desk: &FrontDesk, request: Request<Incoming>) -> ApiReply {
    let (turn, is_our_turn) = oneshot::channel::<()>();
    let (hand_over, handed_over) = std::sync::mpsc::sync_channel::<DaemonOrder>(1);
    let (reply, answer) = oneshot::channel::<DaemonAnswer>();
    let take = move || {
        turn.send(()).ok()?;
        // A refusal drops its end; a client that says nothing more is not waited for.
        handed_over.recv_timeout(ORDER_BODY_TIMEOUT).ok()
    };
    desk.queue.put_untaken(take, move |answer| drop(reply.send(answer)));
    if is_our_turn.await.is_err() {
        return text_reply(
            StatusCode::SERVICE_UNAVAILABLE,
            "the daemon is stopping; nothing was done",
        );
    }
    let (head, body) = request.into_parts();
    let body = timeout(ORDER_BODY_TIMEOUT, Limited::new(body, MOST_ORDER).collect()).await;
    let order = match body {
        Ok(Ok(body)) => read_order(&head.headers, &body.to_bytes()),
        Ok(Err(_)) => {
            Err((StatusCode::PAYLOAD_TOO_LARGE, "the order broke off, or is too large".to_owned()))
        }
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, LATE.to_owned())),
    };
    let order = match order {
        Ok(order) => order,
        Err((status, reason)) => return text_reply(status, reason),
    };
    if hand_over.send(order).is_err() {
        return text_reply(StatusCode::REQUEST_TIMEOUT, LATE);
    }
    match answer.await {
        Ok(answer) => answer_reply(&answer),
        Err(_) => text_reply(StatusCode::INTERNAL_SERVER_ERROR, ""),
    }
}

const LATE: &str = "the order did not come in time; nothing was done";

/// What is done about a daemon of another version.
const RESTART_HINT: &str = "restart it: ostler daemon stop, then ostler daemon start";

/// The order, or the status and the reason why it is none.
fn read_order(headers: &HeaderMap, body: &[u8]) -> Result<DaemonOrder, (StatusCode, String)> {
    let order = serde_json::from_slice::<DaemonOrder>(body);
    // These two never change: without them a daemon of another version could not be replaced.
    if let Ok(order @ (DaemonOrder::Status | DaemonOrder::Stop)) = order {
        return Ok(order);
    }
    if header_text(headers, "x-ostler-protocol") != Some(DAEMON_PROTOCOL.to_string().as_str()) {
        let reason =
            format!("it speaks version {DAEMON_PROTOCOL} of their language; {RESTART_HINT}");
        return Err((StatusCode::UPGRADE_REQUIRED, reason));
    }
    let order = DaemonOrder::read_whole(body).ok_or_else(|| {
        let reason = format!("it does not understand the order; {RESTART_HINT}");
        (StatusCode::BAD_REQUEST, reason)
    })?;
    // Without it an order would be carried out whose asker is long gone.
    if headers.get(EXPECT).is_none_or(|value| value.as_bytes() != b"100-continue") {
        let reason = "an order is sent when it is asked for: expect: 100-continue";
        return Err((StatusCode::PRECONDITION_REQUIRED, reason.to_owned()));
    }
    Ok(order)
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
