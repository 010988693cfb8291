//! The daemon's door: HTTP over a private Unix socket. The work is `flows::daemon`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use flows::daemon::{Answer, Desk, Order, PROTOCOL};
use tokio::net::{UnixListener, UnixStream};

/// The door while it is open.
#[derive(Debug)]
pub(crate) struct Door {
    close: tokio::sync::oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Door {
    /// Answers whoever asks through the socket.
    pub(crate) fn open(
        listener: std::os::unix::net::UnixListener,
        desk: Desk,
    ) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        listener.set_nonblocking(true)?;
        let (close, closed) = tokio::sync::oneshot::channel();
        let work = async {
            let router = Router::new().route("/v1/orders", post(order)).with_state(Arc::new(desk));
            if let Ok(listener) = UnixListener::from_std(listener) {
                let served = axum::serve(OwnUser(listener), router);
                let _ = served.with_graceful_shutdown(async { drop(closed.await) }).await;
            }
        };
        let thread = std::thread::Builder::new().name("door".to_owned());
        let thread = thread.spawn(move || runtime.block_on(work))?;
        Ok(Self { close, thread })
    }

    /// Lets nobody in any more; whoever was in has had the answer when this returns.
    pub(crate) fn close(self) {
        let _ = self.close.send(());
        let _ = self.thread.join();
    }
}

/// Lets nobody in who runs as another user.
struct OwnUser(UnixListener);

impl axum::serve::Listener for OwnUser {
    type Io = UnixStream;
    type Addr = tokio::net::unix::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.0.accept().await {
                Ok((stream, address)) if is_us(&stream) => return (stream, address),
                Ok(_) => {}
                // No descriptor left, most likely: those in use are closed by and by.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

fn is_us(stream: &UnixStream) -> bool {
    sys::socket::peer_of(stream).is_ok_and(|peer| peer.is_us())
}

/// What is done about a daemon of another version.
const RESTART: &str = "restart it: ostler daemon stop, then ostler daemon start";

async fn order(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: String) -> Response {
    let order = serde_json::from_str::<Order>(&body);
    // These two never change: without them a daemon of another version could not be replaced.
    let is_for_all = matches!(order, Ok(Order::Status | Order::Stop));
    let spoken = headers.get("x-ostler-protocol").and_then(|version| version.to_str().ok());
    if !is_for_all && spoken != Some(PROTOCOL.to_string().as_str()) {
        let reason = format!("it speaks version {PROTOCOL} of their language; {RESTART}");
        return (StatusCode::UPGRADE_REQUIRED, reason).into_response();
    }
    let Ok(order) = order else {
        let reason = format!("it does not understand the order; {RESTART}");
        return (StatusCode::BAD_REQUEST, reason).into_response();
    };
    let (reply, answer) = tokio::sync::oneshot::channel::<Answer>();
    desk.put(order, move |answer| drop(reply.send(answer)));
    match answer.await {
        Ok(answer) => axum::Json(answer).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
