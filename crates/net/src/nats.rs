//! Connections to the hub: nkey, pinned CA, and what the engine says in its own protocol.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, HeaderMap, ServerError};
use bytes::Bytes;
use futures_util::StreamExt;
use model::helper::{HelperFailure, HelperFailureKind};
use model::time::Time;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::timeouts::{LONGEST_RECONNECT_PAUSE, PING_PAUSE, SHORTEST_RECONNECT_PAUSE};

/// How a connection is made.
#[derive(Debug)]
pub struct HubLogin<'a> {
    /// Where the hub listens.
    pub url: &'a str,
    /// Its CA; none where connections are in the clear.
    pub ca: Option<&'a str>,
    /// The key that proves who connects.
    pub key: &'a KeyPair,
    /// Who that is: the name of its inbox.
    pub inbox: &'a str,
    /// How long the connection and each question may take.
    pub timeout: Duration,
    /// Whether it is made again when it breaks.
    pub stays: bool,
}

/// A connection, and what happens to it.
#[derive(Debug)]
pub struct HubConnection {
    pub client: Client,
    /// What the engine says of the connection: ends, and what it refused.
    pub events: mpsc::UnboundedReceiver<Event>,
}

/// Why the hub did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// It cannot be reached.
    #[error("the hub {url} cannot be reached: {reason}")]
    Unreachable { url: String, reason: String },
    /// It did not answer in time.
    #[error("the hub did not answer in time")]
    TimedOut,
    /// The subject has no subscriber.
    #[error("nobody answers there")]
    NoResponders,
    /// The engine refused.
    #[error("the hub refused: {0}")]
    Refused(String),
    /// What it answered is no answer.
    #[error("the hub broke the protocol: {0}")]
    Protocol(String),
}

impl From<HubError> for HelperFailure {
    fn from(error: HubError) -> Self {
        let (kind, hint) = match &error {
            HubError::Unreachable { .. } => (
                HelperFailureKind::Unreachable,
                "`ostler fleet hub` runs it; check its address and this machine's way there",
            ),
            HubError::TimedOut => (HelperFailureKind::Timeout, "try again, or raise `--timeout`"),
            HubError::NoResponders => {
                (HelperFailureKind::Unreachable, "`ostler fleet status` tells more")
            }
            HubError::Refused(_) => {
                (HelperFailureKind::Refused, "`ostler fleet doctor` tells more")
            }
            HubError::Protocol(_) => {
                (HelperFailureKind::Protocol, "`ostler fleet doctor` tells more")
            }
        };
        Self::new(kind, error.to_string(), hint)
    }
}

fn tls_config(ca: &str) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(ca.as_bytes());
    let certificate = certificate.map_err(|error| format!("the hub's CA: {error}"))?;
    roots.add(certificate).map_err(|error| format!("the hub's CA: {error}"))?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&tokio_rustls::rustls::version::TLS13])
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The pauses between attempts to connect again: full jitter, up to half a minute.
fn reconnect_pause(attempts: usize) -> Duration {
    let most = (SHORTEST_RECONNECT_PAUSE * (1 << attempts.min(6))).min(LONGEST_RECONNECT_PAUSE);
    let chance = sys::random::random_bytes::<2>()
        .map_or(0.5, |bytes| f64::from(u16::from_be_bytes(bytes)) / f64::from(u16::MAX));
    most.mul_f64(chance)
}

pub async fn connect_hub(login: &HubLogin<'_>) -> Result<HubConnection, HubError> {
    let unreachable = |reason: String| HubError::Unreachable { url: login.url.to_owned(), reason };
    let seed = login.key.seed().map_err(|error| unreachable(error.to_string()))?;
    let (tell, events) = mpsc::unbounded_channel();
    let mut options = ConnectOptions::with_nkey(seed)
        .name(login.inbox)
        .custom_inbox_prefix(format!("_INBOX.{}", login.inbox))
        .connection_timeout(login.timeout)
        .request_timeout(Some(login.timeout))
        .ignore_discovered_servers()
        .event_callback(move |event| {
            // There may be no subscriber any more.
            let _ = tell.send(event);
            std::future::ready(())
        });
    options = match login.stays {
        true => options
            .reconnect_delay_callback(reconnect_pause)
            .retry_on_initial_connect()
            .ping_interval(PING_PAUSE),
        false => options.max_reconnects(1),
    };
    if let Some(ca) = login.ca {
        let config = tls_config(ca).map_err(&unreachable)?;
        options = options.require_tls(true).tls_client_config(config);
    }
    let connecting = tokio::time::timeout(login.timeout, options.connect(login.url)).await;
    match connecting {
        Ok(Ok(client)) => Ok(HubConnection { client, events }),
        Ok(Err(error)) => Err(unreachable(error_chain(&error))),
        Err(_) => Err(unreachable("it did not answer in time".to_owned())),
    }
}

fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let words = inner.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = inner.source();
    }
    text
}

/// What the engine refused, if an event says that: a violation is otherwise silence, then a time-out.
pub fn violation_in(event: &Event) -> Option<String> {
    match event {
        Event::ServerError(ServerError::Other(text))
            if text.to_lowercase().contains("violation") =>
        {
            Some(text.clone())
        }
        _ => None,
    }
}

impl HubConnection {
    /// How often the connection was made: another number than before means that it broke in between, also if nobody
    /// read the event that says so.
    pub fn count_connects(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Asks something. What the engine refuses is told at once.
    pub async fn ask(
        &mut self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<async_nats::Message, HubError> {
        let client = self.client.clone();
        let asking = client.request_with_headers(subject.to_owned(), headers, payload);
        tokio::pin!(asking);
        loop {
            tokio::select! {
                answer = &mut asking => return answer.map_err(|error| match error.kind() {
                    async_nats::RequestErrorKind::TimedOut => HubError::TimedOut,
                    async_nats::RequestErrorKind::NoResponders => HubError::NoResponders,
                    _ => HubError::Protocol(error.to_string()),
                }),
                Some(event) = self.events.recv() => {
                    if let Some(text) = violation_in(&event) {
                        return Err(HubError::Refused(text));
                    }
                }
            }
        }
    }

    /// Asks the engine's own interface.
    pub async fn ask_engine(&mut self, subject: &str, body: &Value) -> Result<Value, HubError> {
        let answer = self.ask(subject, HeaderMap::new(), body.to_string().into()).await?;
        let answer: Value = serde_json::from_slice(&answer.payload)
            .map_err(|error| HubError::Protocol(error.to_string()))?;
        match answer.get("error") {
            Some(error) => {
                let text = error.get("description").and_then(Value::as_str);
                Err(HubError::Refused(text.unwrap_or("without a reason").to_owned()))
            }
            None => Ok(answer),
        }
    }

    /// Puts a record. With `expected` only if the key's last sequence is that.
    pub async fn put_record(
        &mut self,
        subject: &str,
        expected: Option<u64>,
        record: Vec<u8>,
    ) -> Result<u64, PutError> {
        let mut headers = HeaderMap::new();
        if let Some(expected) = expected {
            headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        }
        let answer = self.ask(subject, headers, record.into()).await?;
        read_put_answer(&answer.payload)
    }

    /// Reads every record of a bucket that fits a filter, in the order of their sequence.
    pub async fn read_records(
        &mut self,
        subject: &str,
        filter: &str,
        timeout: Duration,
    ) -> Result<Vec<StoredRecord>, HubError> {
        let reading = read_all_records(&self.client, subject, filter);
        tokio::pin!(reading);
        let deadline = tokio::time::sleep(timeout);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                records = &mut reading => return records,
                () = &mut deadline => return Err(HubError::TimedOut),
                Some(event) = self.events.recv() => {
                    if let Some(text) = violation_in(&event) {
                        return Err(HubError::Refused(text));
                    }
                }
            }
        }
    }
}

/// The sequence of a record that was put, by what the engine answered.
pub fn read_put_answer(answer: &[u8]) -> Result<u64, PutError> {
    let answer: Value =
        serde_json::from_slice(answer).map_err(|error| HubError::Protocol(error.to_string()))?;
    if let Some(error) = answer.get("error") {
        let text = error.get("description").and_then(Value::as_str).unwrap_or("");
        // The engine's code for a wrong last sequence of a subject.
        if error.get("err_code") == Some(&json!(10_071)) {
            let found = text.rsplit(' ').next().and_then(|number| number.parse().ok());
            return Err(PutError::Conflict { found: found.unwrap_or(0) });
        }
        return Err(PutError::Hub(HubError::Refused(text.to_owned())));
    }
    // Somebody sent the same message id before: it was acknowledged and not stored.
    if answer.get("duplicate") == Some(&json!(true)) {
        return Err(PutError::Hub(HubError::Refused("it was taken for a duplicate".to_owned())));
    }
    let sequence = answer.get("seq").and_then(Value::as_u64);
    sequence.ok_or_else(|| PutError::Hub(HubError::Protocol("no sequence".to_owned())))
}

/// Why a record was not put.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// The key's last sequence is another one.
    #[error("somebody else wrote it: its last sequence is {found}")]
    Conflict { found: u64 },
    /// The hub said no, or nothing.
    #[error(transparent)]
    Hub(#[from] HubError),
}

/// A record as the hub stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    pub subject: String,
    pub sequence: u64,
    /// When the hub stored it, by the hub's clock.
    pub stored_at: Time,
    pub bytes: Bytes,
}

impl StoredRecord {
    /// Reads an answer to a direct get.
    pub fn from_message(message: &async_nats::Message) -> Option<Self> {
        let headers = message.headers.as_ref()?;
        let text = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
        Some(Self {
            subject: text("Nats-Subject")?,
            sequence: text("Nats-Sequence")?.parse().ok()?,
            stored_at: Time::parse(&text("Nats-Time-Stamp")?)?,
            bytes: message.payload.clone(),
        })
    }
}

/// How many records are asked for at once.
const RECORDS_PER_BATCH: usize = 1000;

async fn read_all_records(
    client: &Client,
    subject: &str,
    filter: &str,
) -> Result<Vec<StoredRecord>, HubError> {
    let protocol = |error: &dyn std::fmt::Display| HubError::Protocol(error.to_string());
    let mut records = Vec::new();
    let mut from = 1;
    loop {
        let inbox = client.new_inbox();
        let mut answers =
            client.subscribe(inbox.clone()).await.map_err(|error| protocol(&error))?;
        let question = json!({ "seq": from, "next_by_subj": filter, "batch": RECORDS_PER_BATCH });
        client
            .publish_with_reply(subject.to_owned(), inbox, question.to_string().into())
            .await
            .map_err(|error| protocol(&error))?;
        let mut pending = 0;
        while let Some(message) = answers.next().await {
            match message.status.map(|status| status.as_u16()) {
                None => {}
                // End of the batch, or nothing there.
                Some(204 | 404) => break,
                Some(503) => return Err(HubError::NoResponders),
                Some(status) => {
                    let text = message.description.unwrap_or_default();
                    return Err(HubError::Refused(format!("{status} {text}")));
                }
            }
            let left = message.headers.as_ref().and_then(|headers| headers.get("Nats-Num-Pending"));
            pending = left.and_then(|value| value.as_str().parse().ok()).unwrap_or(0);
            let record = StoredRecord::from_message(&message);
            let record = record.ok_or_else(|| protocol(&"a record without its headers"))?;
            from = record.sequence + 1;
            records.push(record);
        }
        if pending == 0 {
            return Ok(records);
        }
    }
}
