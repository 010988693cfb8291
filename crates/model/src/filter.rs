//! Filter words: the one small query language of every list of sessions.
//!
//! `is:waiting agent:codex parser -draft` reads as: all of these must hold. Bare words look at title,
//! name, project, agent and branch. A key that is not known is an error that marks its place.

use std::fmt;

use crate::session::SessionKind;
use crate::status::{Activity, Status};
use crate::time::{Time, parse_duration};
use crate::wire::SessionView;

/// What `is:` may be followed by.
const STATE_WORDS: [(&str, FilterState); 8] = [
    ("waiting", FilterState::Doing(Activity::Waiting)),
    ("working", FilterState::Doing(Activity::Working)),
    ("idle", FilterState::Doing(Activity::Idle)),
    ("unknown", FilterState::Unknown),
    ("ended", FilterState::Ended),
    ("pinned", FilterState::Pinned),
    ("stale", FilterState::Stale),
    ("hosted", FilterState::Hosted),
];

/// The keys that may stand before a colon.
const FILTER_KEYS: &str = "is, agent, project, branch, model, since, tokens, cost";

/// A list of conditions, all of which a session must meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilterWords {
    conditions: Vec<FilterCondition>,
}

/// One word and whether it excludes.
#[derive(Clone, Debug, PartialEq)]
struct FilterCondition {
    excludes: bool,
    test: FilterTest,
}

#[derive(Clone, Debug, PartialEq)]
enum FilterTest {
    /// Anywhere in title, name, project, agent or branch.
    Word(String),
    State(FilterState),
    Agent(String),
    Project(String),
    Branch(String),
    Model(String),
    Since(Time),
    Tokens(NumberTest),
    Cost(NumberTest),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilterState {
    Doing(Activity),
    Unknown,
    Ended,
    Pinned,
    Stale,
    Hosted,
}

/// A number compared with what a session has.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NumberTest {
    less: bool,
    or_equal: bool,
    number: f64,
}

/// A filter that cannot be understood, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    text: String,
    /// The bytes of the text that are meant.
    at: std::ops::Range<usize>,
    reason: String,
}

impl FilterError {
    /// What is wrong, without the place.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The bytes of the filter that are meant.
    pub fn place(&self) -> std::ops::Range<usize> {
        self.at.clone()
    }
}

/// The reason, then the filter with its place marked below.
impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text[..self.at.start].chars().count();
        let marked = self.text[self.at.clone()].chars().count().max(1);
        write!(
            f,
            "{}\n  {}\n  {}{}",
            self.reason,
            self.text.replace(char::is_control, " "),
            " ".repeat(before),
            "^".repeat(marked)
        )
    }
}

impl std::error::Error for FilterError {}

impl FilterWords {
    /// Reads a filter; `now` is what `since:` counts back from.
    pub fn parse(text: &str, now: Time) -> Result<Self, FilterError> {
        let mut conditions = Vec::new();
        for (at, word) in split_words(text)? {
            let wrong = |from: usize, reason: String| FilterError {
                text: text.to_owned(),
                at: at.start + from..at.end,
                reason,
            };
            let (excludes, body) = match word.strip_prefix('-') {
                Some("") => return Err(wrong(0, "a word must follow `-`".to_owned())),
                Some(body) => (true, body),
                None => (false, word.as_str()),
            };
            let skipped = usize::from(excludes);
            let test = parse_test(body, now).map_err(|(from, reason)| {
                wrong(skipped + from.min(at.len().saturating_sub(skipped)), reason)
            })?;
            conditions.push(FilterCondition { excludes, test });
        }
        Ok(Self { conditions })
    }

    /// Whether every session fits.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether it asks for sessions that are over, which lists leave out unless they are asked.
    pub fn wants_ended(&self) -> bool {
        self.conditions.iter().any(|condition| {
            !condition.excludes && condition.test == FilterTest::State(FilterState::Ended)
        })
    }

    /// Whether a session meets every condition.
    pub fn matches(&self, session: &SessionView<'_>) -> bool {
        self.conditions.iter().all(|condition| condition.test.holds(session) != condition.excludes)
    }
}

impl FilterTest {
    fn holds(&self, session: &SessionView<'_>) -> bool {
        let has = |text: Option<&str>, word: &str| text.is_some_and(|text| contains(text, word));
        match self {
            Self::Word(word) => {
                let project = session.cwd.map(project_name);
                [session.title, session.name, project, Some(session.agent), session.branch]
                    .into_iter()
                    .any(|text| has(text, word))
            }
            Self::State(state) => state.holds(session),
            Self::Agent(word) => contains(session.agent, word),
            Self::Project(word) => has(session.cwd, word),
            Self::Branch(word) => has(session.branch, word),
            Self::Model(word) => {
                has(session.model, word) || session.models.iter().any(|model| contains(model, word))
            }
            Self::Since(since) => session.last_activity_at >= Some(*since),
            Self::Tokens(test) => session.tokens.is_some_and(|t| test.holds(t.total() as f64)),
            Self::Cost(test) => {
                session.cost_micro_usd.is_some_and(|cost| test.holds(cost as f64 / 1e6))
            }
        }
    }
}

impl FilterState {
    fn holds(self, session: &SessionView<'_>) -> bool {
        match self {
            Self::Doing(activity) => {
                session.status.is_active() && session.activity == Some(activity)
            }
            Self::Unknown => session.status == Status::Unknown,
            Self::Ended => session.status.is_terminal(),
            Self::Pinned => session.pinned,
            Self::Stale => session.stale,
            Self::Hosted => {
                session.kind == SessionKind::Hosted
                    || session.linked.iter().any(|other| other.agent == "terminal")
            }
        }
    }
}

impl NumberTest {
    fn holds(self, number: f64) -> bool {
        (self.or_equal && number == self.number)
            || if self.less { number < self.number } else { number > self.number }
    }
}

/// The last part of a directory, which is what people call the project.
pub fn project_name(cwd: &str) -> &str {
    let trimmed = cwd.trim_end_matches('/');
    trimmed.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(cwd)
}

fn contains(text: &str, lower_word: &str) -> bool {
    text.to_lowercase().contains(lower_word)
}

/// One word, or where in it the error is and why.
fn parse_test(body: &str, now: Time) -> Result<FilterTest, (usize, String)> {
    let Some((key, value)) = body.split_once(':') else {
        return Ok(FilterTest::Word(body.to_lowercase()));
    };
    let value_at = key.len() + 1;
    if value.is_empty() {
        return Err((0, format!("`{key}:` needs a value")));
    }
    let lower = || value.to_lowercase();
    let number = || {
        parse_number(value).ok_or_else(|| {
            (value_at, format!("`{value}` is not a number; write it like >1M, <500k or >=0.5"))
        })
    };
    Ok(match key {
        "is" => {
            let found = STATE_WORDS.iter().find(|(word, _)| *word == value);
            let words = || STATE_WORDS.map(|(word, _)| word).join(", ");
            let known = found.ok_or_else(|| {
                (value_at, format!("`is:{value}` is not known; there are: {}", words()))
            })?;
            FilterTest::State(known.1)
        }
        "agent" => FilterTest::Agent(lower()),
        "project" => FilterTest::Project(lower()),
        "branch" => FilterTest::Branch(lower()),
        "model" => FilterTest::Model(lower()),
        "since" => {
            let span = parse_duration(value).map(|span| now.minus(span));
            FilterTest::Since(span.or_else(|| Time::parse(value)).ok_or_else(|| {
                (value_at, format!("`{value}` is neither a span like 2d nor an RFC 3339 time"))
            })?)
        }
        "tokens" => FilterTest::Tokens(number()?),
        "cost" => FilterTest::Cost(number()?),
        _ => return Err((0, format!("`{key}:` is not known; there are: {FILTER_KEYS}"))),
    })
}

/// `>1M`, `<=500k`, `0.5`; without a sign it means *at least*.
fn parse_number(text: &str) -> Option<NumberTest> {
    let text = text.trim_start_matches('$');
    let (less, rest) = match text.strip_prefix('<') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('>').unwrap_or(text)),
    };
    let signed = rest.len() < text.len();
    let (or_equal, rest) = match rest.strip_prefix('=') {
        Some(rest) if signed => (true, rest),
        _ => (!signed, rest),
    };
    let rest = rest.trim_start_matches('$');
    let (digits, unit) = match rest.chars().last()? {
        'k' | 'K' => (&rest[..rest.len() - 1], 1e3),
        'm' | 'M' => (&rest[..rest.len() - 1], 1e6),
        'g' | 'G' | 'b' | 'B' => (&rest[..rest.len() - 1], 1e9),
        _ => (rest, 1.0),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = digits.parse::<f64>().ok().filter(|_| plain)?;
    Some(NumberTest { less, or_equal, number: number * unit })
}

/// The words of a filter with their places; quotes keep spaces together.
fn split_words(text: &str) -> Result<Vec<(std::ops::Range<usize>, String)>, FilterError> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut start, mut quote) = (None, None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('"', None) => {
                quote = Some(at);
                start = start.or(Some(at));
            }
            ('"', Some(_)) => quote = None,
            (c, None) if c.is_whitespace() => {
                if let Some(start) = start.take() {
                    words.push((start..at, std::mem::take(&mut word)));
                }
            }
            (c, _) => {
                start = start.or(Some(at));
                word.push(c);
            }
        }
    }
    if let Some(open) = quote {
        return Err(FilterError {
            text: text.to_owned(),
            at: open..text.len(),
            reason: "this quote is not closed".to_owned(),
        });
    }
    if let Some(start) = start {
        words.push((start..text.len(), word));
    }
    words.retain(|(_, word)| !word.is_empty());
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::judge::{JudgeCircumstances, judge_session};
    use crate::session::{FormatCertainty, Session, SessionOrigin};
    use crate::sighting::{TokenUsage, TranscriptDigest};

    fn now() -> Time {
        Time::parse("2026-11-15T12:00:00Z").unwrap()
    }

    fn session() -> Session {
        Session {
            id: "s1".to_owned(),
            kind: SessionKind::Native,
            agent: "claude-code",
            digest: Box::new(TranscriptDigest {
                cwd: Some("/home/u/Gateway API".to_owned()),
                title: Some("Fix the Parser".to_owned()),
                branch: Some("feat/auth".to_owned()),
                model: Some("claude-opus-5-5".to_owned()),
                last_activity_at: Time::parse("2026-11-15T11:00:00Z"),
                tokens: Some(TokenUsage { input: 1_200_000, ..TokenUsage::default() }),
                cost_micro_usd: Some(1_500_000),
                ..TranscriptDigest::default()
            }),
            transcript: None,
            origin: SessionOrigin {
                adapter: "claude-code",
                root: "/".into(),
                format: "claude-jsonl",
                certainty: FormatCertainty::Lab,
            },
            claims: Vec::new(),
            linked: Vec::new(),
            written_status: None,
        }
    }

    fn matches(filter: &str) -> bool {
        let session = session();
        let circumstances = JudgeCircumstances {
            now: now(),
            sees_every_process: true,
            stale_after: std::time::Duration::from_secs(3600),
        };
        let verdict = judge_session(&session, &circumstances);
        let mut view = SessionView::new(&session, &verdict);
        view.status = Status::Running;
        view.activity = Some(Activity::Waiting);
        view.stale = true;
        FilterWords::parse(filter, now()).unwrap().matches(&view)
    }

    #[test]
    fn row_17_words_and_keys_must_all_hold() {
        for yes in [
            "",
            "parser",
            "PARSER gateway",
            "claude",
            "auth",
            "is:waiting",
            "is:stale -is:ended -is:hosted",
            "agent:claude project:\"gateway api\" branch:feat model:opus",
            "since:2h",
            "tokens:>1M cost:>1 cost:<=1.5 tokens:1200k",
            "-nothing -since:30m",
        ] {
            assert!(matches(yes), "{yes}");
        }
        for no in [
            "parser nothing",
            "-parser",
            "is:working",
            "is:ended",
            "is:pinned",
            "agent:codex",
            "home",
            "since:30m",
            "tokens:>2M",
            "cost:<1.5",
            "-is:waiting",
        ] {
            assert!(!matches(no), "{no}");
        }
    }

    #[test]
    fn row_17_errors_mark_their_place() {
        for (filter, place, reason) in [
            ("parser ist:waiting", "ist:waiting", "`ist:` is not known"),
            ("é is:asleep", "asleep", "`is:asleep` is not known"),
            ("-since:soon", "soon", "neither a span"),
            ("tokens:many x", "many", "not a number"),
            ("agent:", "agent:", "needs a value"),
            ("a - b", "-", "must follow"),
            ("a \"b c", "\"b c", "not closed"),
            ("tokens:>-1", ">-1", "not a number"),
        ] {
            let error = FilterWords::parse(filter, now()).unwrap_err();
            assert_eq!(&filter[error.place()], place, "{filter}");
            assert!(error.reason().contains(reason), "{error}");
        }
        let error = FilterWords::parse("é is:asleep", now()).unwrap_err().to_string();
        assert!(error.ends_with("\n  é is:asleep\n       ^^^^^^"), "{error}");
    }

    #[test]
    fn only_a_filter_that_says_so_wants_ended_sessions() {
        let wants = |text| FilterWords::parse(text, now()).unwrap().wants_ended();
        assert!(wants("x is:ended"));
        assert!(!wants("x -is:ended") && !wants("ended"));
    }
}
