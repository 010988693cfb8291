//! Rows of the list: what is shown of each session, ready to be drawn.
//!
//! Everything that another program wrote is made harmless here, once: controls and turned writing are
//! escaped, and no text is longer than anybody can read.

use std::collections::HashMap;

use flows::observe::{Observation, Observed};
use model::filter::FilterWords;
use model::rules::attention::{AttentionGroup, AttentionPlace, describe_doubt};
use model::rules::judge;
use model::session::{SessionKind, SessionName};
use model::status::Status;
use model::time::Time;

use crate::render::{sessions, text};

/// The longest text of a row, in characters.
const MAX_TEXT_CHARS: usize = 300;

/// What is shown of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopRow {
    pub(crate) name: SessionName,
    pub(crate) place: AttentionPlace,
    pub(crate) kind: SessionKind,
    pub(crate) status: Status,
    /// The name people call it by: given, its terminal's, or its project.
    pub(crate) label: String,
    pub(crate) agent: String,
    /// What it waits for, or what it is about.
    pub(crate) doing: String,
    pub(crate) project: String,
    pub(crate) branch: String,
    pub(crate) last_sign: Option<Time>,
    pub(crate) tokens: Option<u64>,
    pub(crate) cost_micro_usd: Option<u64>,
    /// Whether its state is concluded, not proven.
    pub(crate) derived: bool,
    pub(crate) stale: bool,
    pub(crate) pinned: bool,
    /// The terminal whose screen can be shown.
    pub(crate) terminal: Option<String>,
    /// Why it is unknown, where it is.
    pub(crate) doubt: String,
    /// Whether the filter's words fit it.
    pub(crate) fits: bool,
}

impl TopRow {
    pub(crate) const fn group(&self) -> AttentionGroup {
        self.place.group
    }
}

/// When each session was last looked at: kept by the surface, for as long as it is open.
#[derive(Clone, Debug)]
pub(crate) struct LookedTimes {
    since: Option<Time>,
    times: HashMap<SessionName, Time>,
}

impl LookedTimes {
    /// Nothing counts as unseen that happened before `since`; without it nothing ever does.
    pub(crate) fn since(since: Option<Time>) -> Self {
        Self { since, times: HashMap::new() }
    }

    /// It is looked at now.
    pub(crate) fn note_look(&mut self, name: &SessionName, now: Time) {
        self.times.insert(name.clone(), now);
    }

    fn of_session(&self, name: &SessionName) -> Option<Time> {
        self.times.get(name).copied().or(self.since)
    }
}

/// The rows of everything that was seen, each with whether the words fit it. A terminal whose agent is
/// there is one row with it.
pub(crate) fn build_rows(
    observation: &Observation,
    looked: &LookedTimes,
    words: &FilterWords,
    now: Time,
) -> Vec<TopRow> {
    let all: HashMap<(&str, &str), &Observed> = observation
        .sessions
        .iter()
        .map(|one| ((one.session.agent, one.session.id.as_str()), one))
        .collect();
    let is_folded = |one: &Observed| {
        one.session.kind == SessionKind::Hosted
            && one.session.linked.iter().any(|other| all.contains_key(&(other.agent, &*other.id)))
    };
    let fits = |one: &Observed| words.is_empty() || words.matches(&one.session_view());
    let shown = observation.sessions.iter().filter(|one| !is_folded(one));
    shown.map(|one| TopRow { fits: fits(one), ..build_row(one, &all, looked, now) }).collect()
}

fn build_row(
    one: &Observed,
    all: &HashMap<(&str, &str), &Observed>,
    looked: &LookedTimes,
    now: Time,
) -> TopRow {
    let (session, digest) = (&one.session, &one.session.digest);
    let name = session.session_name();
    let place = AttentionPlace::of_session(session, &one.verdict, looked.of_session(&name), now);
    let terminal = match session.kind {
        SessionKind::Hosted => Some(session.id.clone()),
        _ => session.linked.first().map(|linked| linked.id.clone()),
    };
    let hosted = session.linked.first().and_then(|linked| all.get(&(linked.agent, &*linked.id)));
    let terminal_name = hosted.and_then(|hosted| hosted.session.digest.name.as_deref());
    let project = digest.cwd.as_deref().map_or("", model::filter::project_name);
    let given = digest.name.as_deref().or(terminal_name).filter(|name| !name.is_empty());
    let label = given.or(Some(project).filter(|name| !name.is_empty())).unwrap_or(&session.id);
    let doing = judge::waiting_for(session, &one.verdict).or(session.display_title());
    TopRow {
        kind: session.kind,
        status: one.verdict.status,
        label: harmless(label),
        agent: short_agent(session.agent).to_owned(),
        doing: harmless(match session.kind {
            SessionKind::Hosted => without_directory(doing.unwrap_or("")),
            _ => doing.unwrap_or(""),
        }),
        project: harmless(project),
        branch: harmless(digest.branch.as_deref().unwrap_or("")),
        last_sign: session.last_activity_at(),
        tokens: digest.tokens.map(|tokens| tokens.total()),
        cost_micro_usd: digest.cost_micro_usd,
        derived: sessions::is_derived(one),
        stale: one.verdict.stale,
        pinned: one.pinned,
        terminal,
        doubt: describe_doubt(&one.verdict).replace('-', " "),
        fits: true,
        name,
        place,
    }
}

/// Text of others as one line that can do nothing.
pub(crate) fn harmless(text: &str) -> String {
    let cut = text.char_indices().nth(MAX_TEXT_CHARS).map_or(text.len(), |(end, _)| end);
    text::one_line(text[..cut].trim())
}

/// A command whose program is called by its name: where it lies says less than what it is given.
fn without_directory(command: &str) -> &str {
    let program = command.split(' ').next().unwrap_or("");
    let is_path = program.starts_with('/') && !program.ends_with('/');
    program.rfind('/').filter(|_| is_path).map_or(command, |slash| &command[slash + 1..])
}

/// The agent in the list: its family is clear without the second word.
fn short_agent(agent: &'static str) -> &'static str {
    agent.strip_suffix("-code").unwrap_or(agent)
}
