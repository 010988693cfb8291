//! Webhooks: what is remembered of one, and the retry policy (Standard Webhooks 1.0).
//!
//! The event log is the spool and a webhook is a cursor into it, which moves only when a receiver
//! said yes or when an event is set aside. Pure: the sender asks what an answer means, and the
//! writer folds the sender's reports into the record.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// What of an event may leave the machine beside its bare facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookInclude {
    /// Prompts, messages and details.
    Text,
    Title,
    /// Directories and other paths.
    Cwd,
}

impl WebhookInclude {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Text, Self::Title, Self::Cwd];

    /// The word on the command line and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Title => "title",
            Self::Cwd => "cwd",
        }
    }

    /// Which details of an event it lets through.
    const fn detail_names(self) -> &'static [&'static str] {
        match self {
            Self::Text => &["prompt", "message", "detail"],
            Self::Title => &["title"],
            Self::Cwd => &["cwd", "root", "transcript", "path"],
        }
    }
}

/// Details that say nothing of what was written or where.
const BARE_DETAILS: &[&str] = &[
    "at",
    "code",
    "durationMs",
    "endedAt",
    "event",
    "exitCode",
    "happening",
    "how",
    "model",
    "reason",
    "state",
    "status",
    "subagent",
];

/// An event's details as a receiver may see them: what is not known to be harmless is left out.
pub fn strip_details(detail: &mut serde_json::Value, include: &[WebhookInclude]) {
    let may_pass = |name: &str| {
        BARE_DETAILS.contains(&name) || include.iter().any(|one| one.detail_names().contains(&name))
    };
    match detail {
        serde_json::Value::Object(detail) => detail.retain(|name, _| may_pass(name)),
        _ => *detail = serde_json::Value::Object(serde_json::Map::new()),
    }
}

/// An event that does not hold up the others any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetAsideEvent {
    pub cursor: i64,
    pub at: Time,
    /// How often it was tried.
    pub tries: u32,
    /// What the receiver answered last.
    pub reason: String,
    /// Whether it is to be sent once more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
}

/// One webhook: where events go, and how far it got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookRecord {
    pub id: String,
    /// Where events are sent.
    pub url: String,
    /// Only these kinds; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// What is sent beside the bare facts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<WebhookInclude>,
    /// The files that hold its secrets.
    pub secret_files: Vec<String>,
    pub added_at: Time,
    /// Everything up to here was delivered, set aside or not wanted.
    pub cursor: i64,
    /// How many events were delivered.
    #[serde(default)]
    pub delivered: u64,
    /// When the last one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Time>,
    /// How often anything was tried in vain.
    #[serde(default, skip_serializing_if = "is_zero64")]
    pub failed_tries: u64,
    /// How often the next event was tried in vain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// When it was first tried in vain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Time>,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Time>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Why nothing is sent any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<String>,
    /// Events that were set aside, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<SetAsideEvent>,
    /// How many set-aside events are no longer listed.
    #[serde(default, skip_serializing_if = "is_zero64")]
    pub forgotten: u64,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_zero64(number: &u64) -> bool {
    *number == 0
}

/// How many set-aside events are listed.
const MOST_SET_ASIDE: usize = 1000;

/// Something that came of sending, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "outcome")]
pub enum WebhookOutcome {
    /// Everything up to the cursor was delivered or not wanted.
    #[serde(rename_all = "camelCase")]
    Delivered {
        /// Up to here.
        cursor: i64,
        /// How many of them were sent.
        count: u64,
    },
    /// The event is tried again.
    #[serde(rename_all = "camelCase")]
    TryAgain { cursor: i64, reason: String, next_try_at: Time },
    /// The event no longer holds up the others.
    #[serde(rename_all = "camelCase")]
    SetAside { cursor: i64, reason: String },
    /// An event that was set aside was sent once more.
    #[serde(rename_all = "camelCase")]
    Retried {
        cursor: i64,
        /// Why that failed, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<String>,
    },
    /// The receiver wants nothing any more.
    #[serde(rename_all = "camelCase")]
    Disabled { reason: String },
}

/// What a person or the sender changes about webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "change")]
pub enum WebhookChange {
    /// One is added; its cursor is that of the newest event then.
    Add(Box<WebhookRecord>),
    /// One is removed.
    Remove { id: String },
    /// What failed is tried at once, and what was set aside once more.
    Retry { id: String },
    /// What came of sending.
    Report { id: String, outcomes: Vec<WebhookOutcome> },
}

impl WebhookRecord {
    /// Whether an event of that kind is wanted.
    pub fn wants_kind(&self, kind: &str) -> bool {
        self.events.is_empty() || self.events.iter().any(|one| one == kind)
    }

    /// Folds what came of sending into the record. A report about what is already behind the cursor
    /// changes nothing: a sender that was killed may be repeated.
    pub fn apply_outcome(&mut self, outcome: &WebhookOutcome, now: Time) {
        match outcome {
            WebhookOutcome::Delivered { cursor, count } => {
                if self.advance_to(*cursor) && *count > 0 {
                    self.delivered += count;
                    self.delivered_at = Some(now);
                }
            }
            WebhookOutcome::TryAgain { cursor, reason, next_try_at } => {
                if *cursor > self.cursor {
                    self.tries += 1;
                    self.failed_tries += 1;
                    self.failing_since.get_or_insert(now);
                    self.next_try_at = Some(*next_try_at);
                    self.last_error = Some(reason.clone());
                }
            }
            WebhookOutcome::SetAside { cursor, reason } => {
                let tries = self.tries + 1;
                if self.advance_to(*cursor) {
                    self.failed_tries += 1;
                    let (cursor, reason) = (*cursor, reason.clone());
                    let aside = SetAsideEvent { cursor, at: now, tries, reason, retry: false };
                    self.set_aside.push(aside);
                    if self.set_aside.len() > MOST_SET_ASIDE {
                        self.set_aside.remove(0);
                        self.forgotten += 1;
                    }
                }
            }
            WebhookOutcome::Retried { cursor, failed } => match failed {
                None => {
                    self.set_aside.retain(|one| one.cursor != *cursor);
                    self.delivered += 1;
                    self.delivered_at = Some(now);
                }
                Some(reason) => {
                    self.failed_tries += 1;
                    for one in self.set_aside.iter_mut().filter(|one| one.cursor == *cursor) {
                        one.retry = false;
                        one.tries += 1;
                        one.reason.clone_from(reason);
                    }
                }
            },
            WebhookOutcome::Disabled { reason } => self.disabled = Some(reason.clone()),
        }
    }

    fn advance_to(&mut self, cursor: i64) -> bool {
        if cursor <= self.cursor {
            return false;
        }
        self.cursor = cursor;
        (self.tries, self.failing_since, self.next_try_at) = (0, None, None);
        self.last_error = None;
        true
    }

    /// Tries at once what failed, and once more what was set aside; also one that was disabled.
    pub fn retry_now(&mut self) {
        (self.next_try_at, self.disabled) = (None, None);
        self.set_aside.iter_mut().for_each(|one| one.retry = true);
    }
}

/// What a receiver answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAnswer {
    /// A status, and how long it asks to be left alone.
    Answered(u16, Option<Duration>),
    /// None: the connection failed, broke or took too long.
    Failed(String),
}

impl WebhookAnswer {
    /// In words; `None` for yes.
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::Answered(200..=299, _) => None,
            Self::Answered(status @ 300..=399, _) => {
                Some(format!("it answered {status}; redirects are not followed"))
            }
            Self::Answered(status, _) => Some(format!("it answered {status}")),
            Self::Failed(reason) => Some(reason.clone()),
        }
    }
}

/// What an answer means for the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookVerdict {
    /// It is delivered.
    Delivered,
    /// It is tried again after that.
    TryAgain(Duration),
    /// It no longer holds up the others.
    SetAside,
    /// Nothing is sent any more.
    Disable,
}

/// How often an event is tried that the receiver says it does not take.
const MOST_REFUSED_TRIES: u32 = 5;

/// How long an event is tried at all.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3 * 86_400);

/// The longest that a receiver is obeyed.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// The pauses between tries; the last one is repeated.
const RETRY_PAUSES: [u64; 6] = [5, 30, 120, 600, 1800, 3600];

/// What an answer means. `tries` counts this one; `failing_for` is the time since the first failure;
/// `chance` is between 0 and 1 and spreads retries by a fifth to either side.
pub fn judge_answer(
    answer: &WebhookAnswer,
    tries: u32,
    failing_for: Duration,
    chance: f64,
) -> WebhookVerdict {
    let asked = match answer {
        WebhookAnswer::Answered(200..=299, _) => return WebhookVerdict::Delivered,
        WebhookAnswer::Answered(410, _) => return WebhookVerdict::Disable,
        WebhookAnswer::Answered(status @ 400..=499, _) if ![408, 425, 429].contains(status) => {
            if tries >= MOST_REFUSED_TRIES {
                return WebhookVerdict::SetAside;
            }
            None
        }
        WebhookAnswer::Answered(_, asked) => *asked,
        WebhookAnswer::Failed(_) => None,
    };
    if failing_for >= GIVE_UP_AFTER {
        return WebhookVerdict::SetAside;
    }
    let step = (tries.saturating_sub(1) as usize).min(RETRY_PAUSES.len() - 1);
    let spread = 0.8 + 0.4 * chance.clamp(0.0, 1.0);
    let pause = Duration::from_secs(RETRY_PAUSES[step]).mul_f64(spread);
    // What a receiver asks for is the least, never less than our own pace.
    WebhookVerdict::TryAgain(asked.map_or(pause, |asked| asked.min(LONGEST_RETRY_AFTER).max(pause)))
}

/// Why events cannot be sent to that address, if they cannot: encrypted, unless they stay on the machine.
pub fn check_webhook_url(url: &str) -> Result<(), String> {
    let refused = |reason: &str| Err(format!("`{url}` {reason}"));
    if url.chars().any(|letter| letter.is_control() || letter.is_whitespace()) || url.len() > 2048 {
        return Err("the address holds spaces or control characters, or is too long".to_owned());
    }
    let (is_encrypted, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return refused("is no http or https address"),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
    if authority.contains('@') {
        return refused("holds a user name; the signature is what proves the sender");
    }
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    if host.is_empty() {
        return refused("names no host");
    }
    let is_loopback = host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if !is_encrypted && !is_loopback {
        return refused("is not encrypted; http is for this machine's own addresses only");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record() -> WebhookRecord {
        serde_json::from_value(serde_json::json!({
            "id": "wh1", "url": "http://127.0.0.1:1/", "secretFiles": [],
            "addedAt": "2026-11-18T00:00:00.000Z", "cursor": 10
        }))
        .unwrap()
    }

    fn judge(answer: WebhookAnswer, tries: u32) -> WebhookVerdict {
        judge_answer(&answer, tries, Duration::ZERO, 0.5)
    }

    #[test]
    fn row_82_what_each_answer_means() {
        let again = |seconds| WebhookVerdict::TryAgain(Duration::from_secs(seconds));
        assert_eq!(judge(WebhookAnswer::Answered(204, None), 1), WebhookVerdict::Delivered);
        assert_eq!(judge(WebhookAnswer::Answered(410, None), 1), WebhookVerdict::Disable);
        assert_eq!(judge(WebhookAnswer::Answered(404, None), 4), again(600));
        assert_eq!(judge(WebhookAnswer::Answered(404, None), 5), WebhookVerdict::SetAside);
        for status in [408, 425, 429, 500, 503, 301] {
            assert_eq!(judge(WebhookAnswer::Answered(status, None), 50), again(3600), "{status}");
        }
        let asked = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(judge(WebhookAnswer::Answered(429, asked(70)), 1), again(70));
        assert_eq!(judge(WebhookAnswer::Answered(429, asked(86_400)), 1), again(3600));
        assert_eq!(judge(WebhookAnswer::Answered(503, asked(0)), 1), again(5));
        let late = judge_answer(&WebhookAnswer::Failed("x".into()), 90, GIVE_UP_AFTER, 0.5);
        assert_eq!(late, WebhookVerdict::SetAside);
    }

    #[test]
    fn only_this_machine_is_spoken_to_in_the_clear() {
        for good in
            ["https://example.org/x", "http://127.0.0.1:80/", "http://[::1]:9/", "http://localhost"]
        {
            assert_eq!(check_webhook_url(good), Ok(()), "{good}");
        }
        for bad in [
            "http://example.org/",
            "ftp://example.org",
            "https://",
            "http://10.0.0.1/",
            "http://127.0.0.1@example.org/",
            "http://localhost.example.org/",
            "https://a b/",
        ] {
            assert!(check_webhook_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn row_89_texts_and_paths_leave_only_on_request() {
        let detail = serde_json::json!({
            "prompt": "canary", "message": "canary", "cwd": "/canary", "model": "m",
            "title": "canary", "newerField": "canary"
        });
        let (mut bare, mut all) = (detail.clone(), detail);
        strip_details(&mut bare, &[]);
        assert_eq!(bare, serde_json::json!({"model": "m"}));
        strip_details(&mut all, &WebhookInclude::ALL);
        assert!(all.get("newerField").is_none(), "what is not known stays here");
        assert_eq!(all["cwd"], "/canary");
    }

    proptest! {
        /// For any reports, in any number: the cursor never goes back and skips nothing.
        #[test]
        fn row_83_reports_may_be_repeated(cursors in proptest::collection::vec(0_i64..40, 0..40)) {
            let mut record = record();
            let mut before = record.cursor;
            for cursor in cursors {
                let outcome = WebhookOutcome::Delivered { cursor, count: 1 };
                record.apply_outcome(&outcome, Time::from_millis(1));
                prop_assert!(record.cursor >= before);
                let once = record.clone();
                record.apply_outcome(&outcome, Time::from_millis(2));
                prop_assert_eq!(&record, &once);
                before = record.cursor;
            }
        }

        #[test]
        fn retries_stay_within_a_fifth(tries in 1_u32..200, chance in 0.0_f64..=1.0) {
            let answer = WebhookAnswer::Answered(500, None);
            let verdict = judge_answer(&answer, tries, Duration::ZERO, chance);
            let WebhookVerdict::TryAgain(pause) = verdict else { panic!("{verdict:?}") };
            let set = RETRY_PAUSES[(tries as usize - 1).min(5)] as f64;
            prop_assert!((0.79 * set..=1.21 * set).contains(&pause.as_secs_f64()));
        }
    }
}
