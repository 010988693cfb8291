//! The webhooks' sender: Standard Webhooks 1.0, at least once and in order.
//!
//! Each webhook has a task and a connection of its own, so that a slow receiver delays no other. The
//! daemon holds the cursor; it is moved after a 2xx, in small steps, and never ahead of what was sent.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::helper::{DaemonPlace, HelperFailure};
use model::time::Time;
use model::webhook::{
    WebhookAnswer, WebhookChange, WebhookOutcome, WebhookRecord, WebhookVerdict, judge_answer,
};
use model::wire::{EventView, WebhookBatch, WebhookTestResult, WebhooksResult};
use sys::dropped::NoteDropped;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::daemon_client::DaemonClient;
use crate::helper_input::HelperInput;
use crate::http::HttpReceiver;
use crate::timeouts::{BATCH_WAIT, DAEMON_RETRY_PAUSE, RECEIVER_TIMEOUT, REPORT_INTERVAL};

/// The least and the most bytes of a secret.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Reads the secrets of a webhook; files that others can read are refused.
pub fn read_secrets(files: &[String]) -> Result<Vec<Vec<u8>>, String> {
    use std::io::Read;

    let mut secrets = Vec::new();
    for path in files {
        let opened = sys::private::open_private(Path::new(path));
        let file = opened.map_err(|error| format!("the secret file cannot be used: {error}"))?;
        let mut text = String::new();
        file.take(4096)
            .read_to_string(&mut text)
            .map_err(|error| format!("the secret file {path} cannot be read: {error}"))?;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let key = line.strip_prefix("whsec_").and_then(|rest| STANDARD.decode(rest).ok());
            let key = key.filter(|key| SECRET_BYTES.contains(&key.len()));
            secrets.push(key.ok_or_else(|| {
                format!("{path} holds no secret: `whsec_` and 24 to 64 bytes as base64")
            })?);
        }
    }
    if secrets.is_empty() {
        return Err("the webhook has no secret to sign with".to_owned());
    }
    Ok(secrets)
}

/// The signatures of a message, one for each secret.
pub fn sign_message(secrets: &[Vec<u8>], id: &str, timestamp: i64, body: &[u8]) -> String {
    let mut signed = format!("{id}.{timestamp}.").into_bytes();
    signed.extend_from_slice(body);
    let sign = |secret: &Vec<u8>| {
        format!("v1,{}", STANDARD.encode(hmac_sha256::HMAC::mac(&signed, secret)))
    };
    secrets.iter().map(sign).collect::<Vec<_>>().join(" ")
}

/// The body of a message.
fn message_body(event: &EventView) -> Bytes {
    let body = serde_json::json!({ "type": event.kind, "timestamp": event.at, "data": event });
    Bytes::from(body.to_string())
}

/// Posts one message.
async fn post_message(
    receiver: &mut HttpReceiver,
    secrets: &[Vec<u8>],
    id: &str,
    body: Bytes,
) -> WebhookAnswer {
    let timestamp = sys::clock::now().as_millis() / 1000;
    let headers = [
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", timestamp.to_string()),
        ("webhook-signature", sign_message(secrets, id, timestamp, &body)),
    ];
    match receiver.post(&headers, body, RECEIVER_TIMEOUT).await {
        Ok(answer) => WebhookAnswer::Answered(answer.status, answer.retry_after),
        Err(reason) => WebhookAnswer::Failed(reason),
    }
}

/// Sends a test event and tells what the receiver answers.
pub async fn test_webhook(record: WebhookRecord) -> Result<WebhookTestResult, HelperFailure> {
    let begun = Instant::now();
    let answer = match (read_secrets(&record.secret_files), HttpReceiver::new(&record.url)) {
        (Ok(secrets), Ok(mut receiver)) => {
            let now = sys::clock::now();
            let event = EventView {
                cursor: 0,
                at: now,
                kind: "test".to_owned(),
                agent: "ostler".to_owned(),
                session: record.id.clone(),
                detail: serde_json::json!({}),
            };
            let id = format!("evt_test_{}", now.as_millis());
            post_message(&mut receiver, &secrets, &id, message_body(&event)).await
        }
        (Err(reason), _) | (_, Err(reason)) => WebhookAnswer::Failed(reason),
    };
    Ok(WebhookTestResult {
        id: record.id,
        url: record.url,
        delivered: answer.fault().is_none(),
        status: match answer {
            WebhookAnswer::Answered(status, _) => Some(status),
            WebhookAnswer::Failed(_) => None,
        },
        reason: answer.fault(),
        took_ms: model::time::whole_millis(begun.elapsed()),
    })
}

/// Sends events to all webhooks until the input ends.
pub async fn run_sender(place: DaemonPlace, mut input: HelperInput) {
    let daemon = DaemonClient::new(place);
    let mut tasks: HashMap<String, (JoinHandle<()>, Arc<Notify>)> = HashMap::new();
    loop {
        let listed = daemon.get::<WebhooksResult>("/v1/net/webhooks", Duration::ZERO).await;
        let pause = match listed {
            Ok(result) => {
                let wanted = |id: &str| result.webhooks.iter().any(|one| one.id == id);
                tasks.retain(|id, (task, changed)| {
                    let stays = wanted(id) && !task.is_finished();
                    if stays {
                        changed.notify_one();
                    } else {
                        task.abort();
                    }
                    stays
                });
                for webhook in result.webhooks {
                    tasks.entry(webhook.id.clone()).or_insert_with(|| {
                        let changed = Arc::new(Notify::new());
                        let sender = WebhookSender {
                            daemon: daemon.clone(),
                            id: webhook.id,
                            changed: Arc::clone(&changed),
                            connection: None,
                        };
                        (tokio::spawn(sender.run()), changed)
                    });
                }
                None
            }
            Err(error) => {
                tracing::debug!(%error, "the list of webhooks");
                Some(DAEMON_RETRY_PAUSE)
            }
        };
        let signal = input.next_signal();
        let heard = match pause {
            None => signal.await,
            Some(pause) => match tokio::time::timeout(pause, signal).await {
                Ok(heard) => heard,
                Err(_) => Some(String::new()),
            },
        };
        if heard.is_none() {
            return;
        }
    }
}

/// The sender of one webhook.
struct WebhookSender {
    daemon: DaemonClient,
    id: String,
    changed: Arc<Notify>,
    connection: Option<(String, HttpReceiver)>,
}

/// What became of a batch.
enum BatchEnd {
    /// All of it was sent.
    Sent,
    /// Nothing is sent before that has passed, unless a retry is requested.
    Pause(Duration),
}

impl WebhookSender {
    async fn run(mut self) {
        loop {
            let wait = BATCH_WAIT.as_millis();
            let path = format!("/v1/net/webhooks/batch?id={}&wait={wait}", self.id);
            let asking = self.daemon.get::<WebhookBatch>(&path, BATCH_WAIT);
            let batch = tokio::select! {
                batch = asking => batch,
                // A retry was requested, which is a new batch.
                () = self.changed.notified() => continue,
            };
            let end = match batch {
                Ok(batch) => match &batch.webhook {
                    None => return,
                    Some(webhook) => self.send_batch(&batch, webhook).await,
                },
                Err(error) => {
                    tracing::debug!(%error, webhook = %self.id, "the next batch");
                    BatchEnd::Pause(DAEMON_RETRY_PAUSE)
                }
            };
            if let BatchEnd::Pause(pause) = end {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = self.changed.notified() => {}
                }
            }
        }
    }

    async fn send_batch(&mut self, batch: &WebhookBatch, webhook: &WebhookRecord) -> BatchEnd {
        if webhook.disabled.is_some() {
            return BatchEnd::Pause(BATCH_WAIT);
        }
        let now = sys::clock::now();
        if let Some(left) =
            webhook.next_try_at.map(|at| at.since(now)).filter(|left| !left.is_zero())
        {
            return BatchEnd::Pause(left);
        }
        let secrets = match read_secrets(&webhook.secret_files) {
            Ok(secrets) => secrets,
            // Nothing unsigned leaves the machine.
            Err(reason) => {
                return self.fail_first(batch, webhook, WebhookAnswer::Failed(reason)).await;
            }
        };
        if self.connection.as_ref().is_none_or(|(url, _)| *url != webhook.url) {
            match HttpReceiver::new(&webhook.url) {
                Ok(receiver) => self.connection = Some((webhook.url.clone(), receiver)),
                Err(reason) => {
                    return self.fail_first(batch, webhook, WebhookAnswer::Failed(reason)).await;
                }
            }
        }
        self.resend_set_aside(batch, &secrets).await;
        self.send_events(batch, webhook, &secrets).await
    }

    async fn resend_set_aside(&mut self, batch: &WebhookBatch, secrets: &[Vec<u8>]) {
        for event in &batch.again {
            let answer = self.post_event(batch, event, secrets).await;
            let outcome = WebhookOutcome::Retried { cursor: event.cursor, failed: answer.fault() };
            self.report(vec![outcome]).await;
        }
    }

    async fn send_events(
        &mut self,
        batch: &WebhookBatch,
        webhook: &WebhookRecord,
        secrets: &[Vec<u8>],
    ) -> BatchEnd {
        let (mut unreported, mut reported_at) = (0, Instant::now());
        let mut tries = webhook.tries;
        let mut failing_since = webhook.failing_since;
        for event in &batch.events {
            let answer = self.post_event(batch, event, secrets).await;
            let now = sys::clock::now();
            let failing_for = failing_since.map_or(Duration::ZERO, |since| now.since(since));
            let verdict = judge_answer(&answer, tries + 1, failing_for, random_chance());
            if verdict == WebhookVerdict::Delivered {
                unreported += 1;
                (tries, failing_since) = (0, None);
                if reported_at.elapsed() >= REPORT_INTERVAL {
                    self.report_delivered(event.cursor, unreported).await;
                    (unreported, reported_at) = (0, Instant::now());
                }
                continue;
            }
            // The cursor stands at the event before, past the unwanted ones between.
            if unreported > 0 {
                self.report_delivered(event.cursor - 1, unreported).await;
                unreported = 0;
            }
            if let Some(pause) = self.report_failure(event.cursor, &answer, verdict, now).await {
                return BatchEnd::Pause(pause);
            }
            (tries, failing_since) = (0, None);
        }
        if batch.through > webhook.cursor {
            self.report_delivered(batch.through, unreported).await;
        }
        BatchEnd::Sent
    }

    async fn post_event(
        &mut self,
        batch: &WebhookBatch,
        event: &EventView,
        secrets: &[Vec<u8>],
    ) -> WebhookAnswer {
        let Some((_, receiver)) = &mut self.connection else {
            return WebhookAnswer::Failed("it cannot be reached".to_owned());
        };
        let id = format!("evt_{}_{}", batch.store, event.cursor);
        post_message(receiver, secrets, &id, message_body(event)).await
    }

    /// Something that concerns every event: the first of them counts a try.
    async fn fail_first(
        &self,
        batch: &WebhookBatch,
        webhook: &WebhookRecord,
        answer: WebhookAnswer,
    ) -> BatchEnd {
        let Some(first) = batch.events.first() else {
            self.report_delivered(batch.through, 0).await;
            return BatchEnd::Sent;
        };
        let now = sys::clock::now();
        let failing_for = webhook.failing_since.map_or(Duration::ZERO, |since| now.since(since));
        let verdict = judge_answer(&answer, webhook.tries + 1, failing_for, random_chance());
        match self.report_failure(first.cursor, &answer, verdict, now).await {
            Some(pause) => BatchEnd::Pause(pause),
            None => BatchEnd::Sent,
        }
    }

    /// Reports what was not delivered; the pause before anything else is sent, if there is one.
    async fn report_failure(
        &self,
        cursor: i64,
        answer: &WebhookAnswer,
        verdict: WebhookVerdict,
        now: Time,
    ) -> Option<Duration> {
        let reason = answer.fault().unwrap_or_default();
        let (outcome, pause) = match verdict {
            WebhookVerdict::TryAgain(pause) => {
                let next_try_at = now.plus(pause);
                (WebhookOutcome::TryAgain { cursor, reason, next_try_at }, Some(pause))
            }
            WebhookVerdict::Disable => (WebhookOutcome::Disabled { reason }, Some(BATCH_WAIT)),
            WebhookVerdict::SetAside | WebhookVerdict::Delivered => {
                (WebhookOutcome::SetAside { cursor, reason }, None)
            }
        };
        self.report(vec![outcome]).await;
        pause
    }

    async fn report_delivered(&self, cursor: i64, count: u64) {
        self.report(vec![WebhookOutcome::Delivered { cursor, count }]).await;
    }

    /// Tells the daemon. One that does not hear it asks for the same events to be sent again, with the
    /// same ids: that is what receivers know them by.
    async fn report(&self, outcomes: Vec<WebhookOutcome>) {
        let change = WebhookChange::Report { id: self.id.clone(), outcomes };
        let path = "/v1/net/webhooks/report";
        let heard = self.daemon.post::<serde_json::Value>(path, &change).await;
        heard.note_dropped("what became of a webhook's events");
    }
}

fn random_chance() -> f64 {
    let bytes = sys::random::random_bytes::<2>().unwrap_or([128, 0]);
    f64::from(u16::from_be_bytes(bytes)) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn row_84_the_signature_is_that_of_the_specification() {
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = sign_message(
            &[secret],
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
