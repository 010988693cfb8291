//! An HTTP listener for metrics, on a loopback address: a process of its own, behind a bearer token. It reads
//! and changes nothing.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use sys::dropped::NoteDropped;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::timeouts::{LOCAL_HEADER_TIMEOUT, LONGEST_ACCEPT_BACKOFF, METRICS_REQUEST_TIMEOUT};

/// How many are served at once.
const MAX_CONNECTIONS: usize = 8;

/// What the text is, for Prometheus.
pub(crate) const METRICS_CONTENT_TYPE: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Makes the text.
pub(crate) type MeasureMetrics = fn() -> Result<String, String>;

pub(crate) struct MetricsServer {
    runtime: tokio::runtime::Runtime,
    listener: TcpListener,
    gate: Arc<MetricsGate>,
}

/// What every request needs.
struct MetricsGate {
    token: String,
    measure: MeasureMetrics,
    /// One look at the machine at a time: scrapes that pile up wait, and do not add up.
    turn: Semaphore,
}

impl MetricsServer {
    pub(crate) fn bind(
        address: SocketAddr,
        token: String,
        measure: MeasureMetrics,
    ) -> std::io::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let gate = Arc::new(MetricsGate { token, measure, turn: Semaphore::new(1) });
        Ok(Self { runtime, listener, gate })
    }

    /// Where it listens.
    pub(crate) fn local_address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process ends.
    pub(crate) fn serve(self) -> std::io::Result<()> {
        let Self { runtime, listener, gate } = self;
        runtime.block_on(async move {
            let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
            loop {
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
                let stream = match listener.accept().await {
                    Ok((stream, _)) => stream,
                    // No descriptor or no memory is left: whoever asks waits in the queue, and so do we.
                    Err(error) => {
                        tracing::warn!(%error, "no connection can be accepted for now");
                        tokio::time::sleep(LONGEST_ACCEPT_BACKOFF).await;
                        continue;
                    }
                };
                let gate = Arc::clone(&gate);
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let gate = Arc::clone(&gate);
                        async move { Ok::<_, Infallible>(answer_scrape(&gate, &request).await) }
                    });
                    let mut http = http1::Builder::new();
                    http.timer(TokioTimer::new()).header_read_timeout(LOCAL_HEADER_TIMEOUT);
                    http.keep_alive(false);
                    let served = http.serve_connection(TokioIo::new(stream), service);
                    timeout(METRICS_REQUEST_TIMEOUT, served).await.note_dropped("a slow scrape");
                    drop(place);
                });
            }
        })
    }
}

async fn answer_scrape(gate: &MetricsGate, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, text) = match check_request(gate, request) {
        Err(refusal) => refusal,
        Ok(()) => {
            let _turn = gate.turn.acquire().await;
            measure_apart(gate.measure).await
        }
    };
    metrics_response(status, text)
}

/// Measures in a thread of its own, so that others are heard meanwhile.
pub(crate) async fn measure_apart(measure: MeasureMetrics) -> (StatusCode, String) {
    match tokio::task::spawn_blocking(measure).await {
        Ok(Ok(text)) => (StatusCode::OK, text),
        Ok(Err(reason)) => (StatusCode::INTERNAL_SERVER_ERROR, reason),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// The answer with its type.
pub(crate) fn metrics_response(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, METRICS_CONTENT_TYPE);
    response
}

fn check_request(
    gate: &MetricsGate,
    request: &Request<Incoming>,
) -> Result<(), (StatusCode, String)> {
    let refuse = |status: StatusCode, text: &str| Err((status, format!("{text}\n")));
    // A page in a browser could be made to ask by a name that leads here.
    if !is_local_host(request.headers()) {
        return refuse(StatusCode::FORBIDDEN, "ask by a loopback address");
    }
    if !has_token(request.headers(), &gate.token) {
        return refuse(StatusCode::UNAUTHORIZED, "a bearer token is needed");
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => Ok(()),
        (_, "/metrics") => refuse(StatusCode::METHOD_NOT_ALLOWED, "only GET"),
        _ => refuse(StatusCode::NOT_FOUND, "there is only /metrics"),
    }
}

fn is_local_host(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

/// Compares in a time that does not tell how much of it was right.
fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(given) = given.and_then(|value| value.strip_prefix("Bearer ")) else { return false };
    let differences = given.bytes().zip(token.bytes()).fold(0, |all, (one, own)| all | (one ^ own));
    given.len() == token.len() && differences == 0
}
