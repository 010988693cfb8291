//! HTTP client for webhooks: one kept-alive connection, TLS by the system's roots, no redirects.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// How much of an answer is read, and dropped.
const MOST_ANSWER_BYTES: usize = 64 << 10;

/// One receiver, with the connection to it while that lasts.
#[derive(Debug)]
pub struct HttpReceiver {
    uri: Uri,
    open: Option<OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What a receiver answered.
#[derive(Clone, Copy, Debug)]
pub struct HttpAnswer {
    pub status: u16,
    /// How long it asks to be left alone.
    pub retry_after: Option<Duration>,
}

impl HttpReceiver {
    /// The receiver at an address.
    pub fn new(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("the address is wrong: {error}"))?;
        Ok(Self { uri, open: None })
    }

    /// Posts a body, all of it within the time.
    pub async fn post(
        &mut self,
        headers: &[(&'static str, String)],
        body: Bytes,
        within: Duration,
    ) -> Result<HttpAnswer, String> {
        let answer = tokio::time::timeout(within, self.post_once(headers, body)).await;
        let answer = answer
            .unwrap_or_else(|_| Err(format!("it did not answer within {} s", within.as_secs())));
        if answer.is_err() {
            self.open = None;
        }
        answer
    }

    async fn post_once(
        &mut self,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<HttpAnswer, String> {
        let request = self.build_request(headers, body)?;
        // A kept connection may have been closed meanwhile; then nothing was sent on it.
        let mut kept = self.open.take();
        if let Some(open) = &mut kept
            && open.sender.ready().await.is_err()
        {
            kept = None;
        }
        let mut open = match kept {
            Some(open) => open,
            None => self.connect().await?,
        };
        let response = open.sender.send_request(request).await;
        let response = response.map_err(|error| format!("the connection broke: {error}"))?;
        let answer = HttpAnswer {
            status: response.status().as_u16(),
            retry_after: read_retry_after(&response),
        };
        // What is longer than anybody should say is not read; the connection goes with it.
        if drop_body(response).await {
            self.open = Some(open);
        }
        Ok(answer)
    }

    fn build_request(
        &self,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, String> {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let mut request = Request::post(path)
            .header("host", authority)
            .header("content-type", "application/json")
            .header("user-agent", concat!("ostler/", env!("CARGO_PKG_VERSION")));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.body(Full::new(body)).map_err(|error| error.to_string())
    }

    async fn connect(&self) -> Result<OpenConnection, String> {
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_encrypted = self.uri.scheme_str() == Some("https");
        let port = self.uri.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let stream = stream.map_err(|error| format!("it cannot be reached: {error}"))?;
        // What was a loopback address when the webhook was added stays one: a name may lead elsewhere.
        let is_here = stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback());
        if !is_encrypted && !is_here {
            return Err(
                "the name leads to another machine, and nothing is sent in the clear".into()
            );
        }
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "small packets may be held back");
        }
        if !is_encrypted {
            return start_http(stream).await;
        }
        let name = ServerName::try_from(host).map_err(|error| format!("TLS: {error}"))?;
        let secured = TlsConnector::from(tls_config()?).connect(name, stream).await;
        start_http(secured.map_err(|error| format!("TLS: {error}"))?).await
    }
}

async fn start_http<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
) -> Result<OpenConnection, String> {
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| format!("the connection broke: {error}"))?;
    let driver = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a webhook's connection ended");
        }
    });
    Ok(OpenConnection { sender, driver })
}

/// Reads and drops an answer's body; says whether it came to its end.
async fn drop_body(response: Response<hyper::body::Incoming>) -> bool {
    let mut body = response.into_body();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        seen += frame.data_ref().map_or(0, Bytes::len);
        if seen > MOST_ANSWER_BYTES {
            return false;
        }
    }
    true
}

/// Seconds only: a date would need the receiver's clock.
fn read_retry_after(response: &Response<hyper::body::Incoming>) -> Option<Duration> {
    let text = response.headers().get("retry-after")?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

fn tls_config() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CONFIG
        .get_or_init(|| {
            let mut roots = RootCertStore::empty();
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err("TLS: this machine has no root certificates".to_owned());
            }
            let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
            let builder = ClientConfig::builder_with_provider(provider);
            let builder = builder.with_safe_default_protocol_versions();
            let builder = builder.map_err(|error| format!("TLS: {error}"))?;
            Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
        })
        .clone()
}
