//! HTTP client of the daemon's Unix socket: one request per connection.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use model::helper::{DaemonPlace, TerminalVisit};
use model::hosted::wire::AttachResult;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::timeouts::DAEMON_ANSWER_TIMEOUT;

/// The largest answer.
const MOST_ANSWER_BYTES: usize = 256 << 20;

/// Why the daemon did not answer.
#[derive(Debug, thiserror::Error)]
pub enum DaemonClientError {
    /// Its socket cannot be used, or the connection broke.
    #[error("the daemon cannot be asked: {0}")]
    Connection(String),
    /// Another process listens.
    #[error("another user listens on the daemon's socket")]
    ForeignServer,
    /// It took too long.
    #[error("the daemon did not answer in time")]
    TimedOut,
    #[error("the daemon refused ({status}): {reason}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// What it said.
        reason: String,
    },
}

/// A terminal's host, through the daemon.
pub type TerminalConnection = TokioIo<Upgraded>;

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

    /// Joins a terminal on behalf of an operator: the host's frames go both ways from then on.
    pub async fn join_terminal(
        &self,
        visit: &TerminalVisit,
    ) -> Result<(AttachResult, TerminalConnection), DaemonClientError> {
        let joining = async {
            let stream = self.connect_daemon().await?;
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream))
                    .await
                    .map_err(failed)?;
            tokio::spawn(connection.with_upgrades());
            let visit = STANDARD.encode(serde_json::to_vec(visit).map_err(failed)?);
            let request = Request::builder()
                .uri("/v1/net/terminal")
                .header("host", "ostler")
                .header("x-ostler-home", &self.place.home_id)
                .header("connection", "upgrade")
                .header("upgrade", "ostler-terminal")
                .header("x-ostler-terminal", visit)
                .body(Full::new(Bytes::new()))
                .map_err(failed)?;
            let response = sender.send_request(request).await.map_err(failed)?;
            let status = response.status();
            if status != hyper::StatusCode::SWITCHING_PROTOCOLS {
                let body = Limited::new(response.into_body(), 64 << 10).collect().await;
                let bytes = body.map_err(|error| failed(&*error))?.to_bytes();
                let reason = String::from_utf8_lossy(&bytes).trim().to_owned();
                return Err(DaemonClientError::Refused { status: status.as_u16(), reason });
            }
            let welcome = response.headers().get("x-ostler-terminal").map(|value| value.as_bytes());
            let welcome = STANDARD.decode(welcome.unwrap_or_default()).map_err(failed)?;
            let welcome = serde_json::from_slice(&welcome).map_err(failed)?;
            let upgraded = hyper::upgrade::on(response).await.map_err(failed)?;
            Ok((welcome, TokioIo::new(upgraded)))
        };
        let joined = tokio::time::timeout(DAEMON_ANSWER_TIMEOUT, joining).await;
        joined.map_err(|_| DaemonClientError::TimedOut)?
    }

    async fn connect_daemon(&self) -> Result<UnixStream, DaemonClientError> {
        let stream = UnixStream::connect(&self.place.socket).await.map_err(failed)?;
        match sys::socket::peer_of(&stream).is_ok_and(|peer| peer.is_us()) {
            true => Ok(stream),
            false => Err(DaemonClientError::ForeignServer),
        }
    }

    async fn exchange_bytes(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes, DaemonClientError> {
        let stream = self.connect_daemon().await?;
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
