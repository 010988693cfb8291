//! HTTP client of the daemon's Unix socket: one request per connection.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper_util::rt::TokioIo;
use model::helper::DaemonPlace;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

/// The largest answer.
const MOST_ANSWER_BYTES: usize = 256 << 20;

/// How long the daemon may take, beside what it is asked to wait.
const DAEMON_ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Why the daemon did not answer.
#[derive(Debug, thiserror::Error)]
pub enum DaemonClientError {
    /// Its socket cannot be used, or the connection broke.
    #[error("the daemon cannot be asked: {0}")]
    Connection(String),
    /// Somebody else listens.
    #[error("another user listens on the daemon's socket")]
    ForeignServer,
    /// It took too long.
    #[error("the daemon did not answer in time")]
    TimedOut,
    /// It refused.
    #[error("the daemon refused ({status}): {reason}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// What it said.
        reason: String,
    },
}

/// A daemon that can be asked.
#[derive(Clone, Debug)]
pub struct DaemonClient {
    place: DaemonPlace,
}

impl DaemonClient {
    /// That of a place.
    pub fn new(place: DaemonPlace) -> Self {
        Self { place }
    }

    /// Asks for something.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        wait: Duration,
    ) -> Result<T, DaemonClientError> {
        self.exchange("GET", path, Bytes::new(), wait).await
    }

    /// Says something.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, DaemonClientError> {
        let body = serde_json::to_vec(body).map_err(failed)?;
        self.exchange("POST", path, body.into(), Duration::ZERO).await
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
        wait: Duration,
    ) -> Result<T, DaemonClientError> {
        let exchange = self.exchange_bytes(method, path, body);
        let answer = tokio::time::timeout(wait + DAEMON_ANSWER_TIMEOUT, exchange).await;
        let bytes = answer.map_err(|_| DaemonClientError::TimedOut)??;
        serde_json::from_slice(&bytes).map_err(failed)
    }

    async fn exchange_bytes(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes, DaemonClientError> {
        let stream = UnixStream::connect(&self.place.socket).await.map_err(failed)?;
        if !sys::socket::peer_of(&stream).is_ok_and(|peer| peer.is_us()) {
            return Err(DaemonClientError::ForeignServer);
        }
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let driver = tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "ostler")
            .header("x-ostler-home", &self.place.home_id)
            .header("content-length", body.len())
            .body(Full::new(body))
            .map_err(failed)?;
        let response = sender.send_request(request).await.map_err(failed)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_ANSWER_BYTES).collect().await;
        driver.abort();
        let bytes = body.map_err(|error| failed(&*error))?.to_bytes();
        if !status.is_success() {
            let reason = String::from_utf8_lossy(&bytes).trim().to_owned();
            return Err(DaemonClientError::Refused { status: status.as_u16(), reason });
        }
        Ok(bytes)
    }
}

fn failed(error: impl std::fmt::Display) -> DaemonClientError {
    DaemonClientError::Connection(error.to_string())
}
