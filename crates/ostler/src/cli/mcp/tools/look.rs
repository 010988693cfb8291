//! Tools that look: sessions, conversations and search.

use flows::converse::{TalkPart, TalkWindow};
use flows::observe::{ObserveScope, Observed};
use flows::search::{
    EntryScope, QueryOptions, SearchQuery, SessionScope, hit_view, list_targets, start_search,
};
use model::conversation::ConversationRole;
use model::rules::explain::explain_verdict;
use model::session::SessionKind;
use model::status::{Activity, Status};
use model::time::Time;
use model::wire::IncompleteSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sys::spread::OrderedStep;

use super::super::quote::QuotedText;
use super::super::scope::{self, VisibleScope};
use super::super::server::McpCall;
use super::McpTool;
use crate::cli::{logs, ls};
use crate::error::Error;

/// The most sessions, groups or things in one answer.
pub(super) const MOST_ROWS: usize = 50;

/// The most characters of conversations in one answer.
const MOST_TALK_CHARS: usize = 8_000;

/// The most characters of one entry, so that a long one does not hide the others.
const MOST_ENTRY_CHARS: usize = 2_000;

/// A tool without arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArguments {}

/// How much could not be read.
pub(super) fn unread_count(incomplete: &[IncompleteSource]) -> u64 {
    incomplete.len() as u64
}

/// A session in a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct McpSessionRow {
    /// Its id, for the other tools.
    id: String,
    agent: String,
    kind: SessionKind,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    activity: Option<Activity>,
    /// Whether it was concluded from circumstances and not proven.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    derived: bool,
    /// Whether this is the session that asks.
    #[serde(rename = "self", skip_serializing_if = "std::ops::Not::not")]
    is_self: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_activity_at: Option<Time>,
    /// The terminals that it runs in; of a terminal, the sessions in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    linked: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quoted_title: Option<QuotedText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quoted_name: Option<QuotedText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quoted_directory: Option<QuotedText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quoted_branch: Option<QuotedText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quoted_model: Option<QuotedText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quoted_waiting_for: Option<QuotedText>,
}

impl McpSessionRow {
    fn new(one: &Observed, calling: Option<&Observed>) -> Self {
        let view = one.session_view();
        let is_self = calling.is_some_and(|calling| std::ptr::eq(calling, one));
        Self {
            id: view.id.to_owned(),
            agent: view.agent.to_owned(),
            kind: view.kind,
            status: view.status,
            activity: view.activity,
            derived: view.activity_derived,
            is_self,
            last_activity_at: view.last_activity_at,
            linked: view.linked.iter().map(|link| format!("{}:{}", link.agent, link.id)).collect(),
            quoted_title: QuotedText::maybe_label(view.title),
            quoted_name: QuotedText::maybe_label(view.name),
            quoted_directory: QuotedText::maybe_label(view.cwd),
            quoted_branch: QuotedText::maybe_label(view.branch),
            quoted_model: QuotedText::maybe_label(view.model),
            quoted_waiting_for: QuotedText::maybe_label(view.waiting_for),
        }
    }
}

pub(super) struct ListSessions;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListInput {
    /// Filter words: `is:waiting`, `agent:codex`, `since:2d`, or words of the title. Without any, what is live.
    #[serde(default)]
    filter: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListOutput {
    sessions: Vec<McpSessionRow>,
    /// How many more there are; use a filter.
    more: u64,
    /// How many sources could not be read: there may be more.
    unread: u64,
}

impl McpTool for ListSessions {
    const NAME: &'static str = "list_sessions";
    const DESCRIPTION: &'static str = "Lists the AI coding agent sessions and hosted terminals of this \
        project: what each is doing, who waits for a person, and how sure that is.";
    type Input = ListInput;
    type Output = ListOutput;

    fn run(state: &McpCall<'_>, input: ListInput) -> Result<ListOutput, Error> {
        let context = state.call_context();
        let words = ls::parse_filter(input.filter.as_deref(), context.now)?;
        let scope = match words.wants_ended() {
            true => ObserveScope::All,
            false => ObserveScope::Active,
        };
        let observation = context.observe_now(scope, &[])?;
        let calling = scope::calling_session(&observation);
        let is_wanted = |one: &&Observed| {
            let shown = scope == ObserveScope::All || one.verdict.status.is_active();
            shown && state.scope.shows(one) && words.matches(&one.session_view())
        };
        let wanted: Vec<&Observed> = observation.sessions.iter().filter(is_wanted).collect();
        let rows = wanted.iter().take(MOST_ROWS).map(|one| McpSessionRow::new(one, calling));
        Ok(ListOutput {
            sessions: rows.collect(),
            more: wanted.len().saturating_sub(MOST_ROWS) as u64,
            unread: unread_count(&observation.incomplete),
        })
    }
}

pub(super) struct GetSession;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionInput {
    /// The session's id, or an unambiguous beginning of it.
    id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionOutput {
    session: McpSessionRow,
    /// `alive`, `dead` or `unknown`.
    liveness: String,
    /// What says so, as a code.
    liveness_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    /// Millionths of a dollar, only where the agent states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_micro_usd: Option<u64>,
    evidence: Vec<EvidenceRow>,
}

/// One fact behind a verdict.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EvidenceRow {
    fact: String,
    quoted_value: QuotedText,
    quoted_effect: QuotedText,
    observed_at: Time,
}

impl McpTool for GetSession {
    const NAME: &'static str = "get_session";
    const DESCRIPTION: &'static str =
        "Shows one session: what it is doing, and every fact that led to that judgement.";
    type Input = SessionInput;
    type Output = SessionOutput;

    fn run(state: &McpCall<'_>, input: SessionInput) -> Result<SessionOutput, Error> {
        let observation = state.call_context().observe_now(ObserveScope::All, &[])?;
        let one = state.find_visible(&observation, &input.id)?;
        let calling = scope::calling_session(&observation);
        let view = one.session_view();
        let evidence = explain_verdict(&one.session, &one.verdict, &observation.circumstances);
        let rows = evidence.into_iter().take(MOST_ROWS).map(|fact| EvidenceRow {
            fact: fact.fact,
            quoted_value: QuotedText::label(&fact.value),
            quoted_effect: QuotedText::label(&fact.effect),
            observed_at: fact.observed_at,
        });
        Ok(SessionOutput {
            session: McpSessionRow::new(one, calling),
            liveness: view.liveness.state.to_owned(),
            liveness_reason: view.liveness.reason.to_owned(),
            started_at: view.started_at,
            ended_at: view.ended_at,
            turns: view.turns,
            tokens: view.tokens.map(|tokens| tokens.total()),
            cost_micro_usd: view.cost_micro_usd,
            evidence: rows.collect(),
        })
    }
}

pub(super) struct ReadTalk;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TalkInput {
    /// The session's id, or an unambiguous beginning of it.
    id: String,
    /// The number of the first entry, counted from 1. Without it, the newest entries.
    #[serde(default)]
    from: Option<u64>,
    /// At most so many entries.
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TalkOutput {
    entries: Vec<TalkEntry>,
    /// How many entries the conversation has.
    total: u64,
    /// Where to go on with `from`; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// One entry of a conversation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TalkEntry {
    number: u64,
    role: ConversationRole,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quoted_tool: Option<QuotedText>,
    quoted_text: QuotedText,
}

impl McpTool for ReadTalk {
    const NAME: &'static str = "read_talk";
    const DESCRIPTION: &'static str = "Reads the conversation of a session, at most 8,000 characters a call; \
        `next` says where to go on.";
    type Input = TalkInput;
    type Output = TalkOutput;

    fn run(state: &McpCall<'_>, input: TalkInput) -> Result<TalkOutput, Error> {
        let observation = state.call_context().observe_now(ObserveScope::All, &[])?;
        let one = state.find_visible(&observation, &input.id)?;
        let limit = input.limit.unwrap_or(MOST_ROWS).clamp(1, MOST_ROWS);
        let from = |number: u64| usize::try_from(number.max(1) - 1).unwrap_or(usize::MAX);
        let mut window = match input.from {
            Some(number) => TalkWindow::new(from(number), None, Some(limit)),
            None => TalkWindow::new(0, Some(limit), None),
        };
        logs::read_entries(one, 0, &mut |entry| window.add_entry(entry))?;
        let TalkPart { entries: all, omitted: first, total, .. } = window.into_part();
        let mut entries = Vec::new();
        let mut room = MOST_TALK_CHARS;
        for (index, entry) in (first..).zip(&all) {
            let quoted = QuotedText::passage(&entry.text, MOST_ENTRY_CHARS.min(room));
            room = room.saturating_sub(quoted.char_count());
            entries.push(TalkEntry {
                number: index as u64 + 1,
                role: entry.role,
                at: entry.at,
                quoted_tool: QuotedText::maybe_label(entry.tool.as_deref()),
                quoted_text: quoted,
            });
            if room == 0 {
                break;
            }
        }
        let after = first + entries.len();
        Ok(TalkOutput {
            entries,
            total: total as u64,
            next: (after < total).then_some(after as u64 + 1),
        })
    }
}

pub(super) struct SearchTalks;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchInput {
    /// Words that must all occur in one entry, "exact words", or -word.
    query: String,
    /// Take the query as a regular expression.
    #[serde(default)]
    regex: bool,
    /// Filter words for sessions, as in `list_sessions`.
    #[serde(default)]
    filter: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SearchOutput {
    hits: Vec<TalkHit>,
    /// Whether that is everything.
    complete: bool,
    /// How many sources could not be read.
    unread: u64,
}

/// One entry that a query was found in.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TalkHit {
    agent: String,
    session: String,
    /// For `read_talk`'s `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<u64>,
    role: ConversationRole,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Time>,
    quoted_text: QuotedText,
}

impl McpTool for SearchTalks {
    const NAME: &'static str = "search";
    const DESCRIPTION: &'static str =
        "Searches the conversations of this project's sessions, newest activity first.";
    type Input = SearchInput;
    type Output = SearchOutput;

    fn run(state: &McpCall<'_>, input: SearchInput) -> Result<SearchOutput, Error> {
        let context = state.call_context();
        let options = QueryOptions { regex: input.regex, case: false };
        let query = SearchQuery::parse(&input.query, options).map_err(|error| {
            Error::usage_error(
                format!("the query cannot be used: {error}"),
                "write words, \"exact words\" or -word",
            )
        })?;
        let wanted = SessionScope {
            words: ls::parse_filter(input.filter.as_deref(), context.now)?,
            ..SessionScope::default()
        };
        let mut observation = context.observe_now(ObserveScope::All, &[])?;
        observation.sessions.retain(|one| state.scope.shows(one));
        observation.subagents.clear();
        // Of a copy in the vault it is not known here whose project it is.
        let home = context.machine()?.home();
        let vault = matches!(state.scope, VisibleScope::Everything).then_some(home);
        let (targets, unread) = list_targets(&observation, vault, &wanted);
        let entries = EntryScope { context: 1, most: MOST_ROWS, ..EntryScope::default() };
        let mut search = start_search(targets, query, entries).map_err(Error::Output)?;
        let mut room = MOST_TALK_CHARS;
        let mut hits = Vec::new();
        let mut problems = usize::from(unread.is_some()) + observation.incomplete.len();
        let mut complete = true;
        for target in search.targets.iter() {
            let OrderedStep::Done(scan) = search.work.next_within(state.search_timeout()) else {
                complete = false;
                break;
            };
            problems += scan.problems.len();
            for hit in scan.hits {
                if hits.len() == MOST_ROWS || room == 0 {
                    complete = false;
                    break;
                }
                let hit = hit_view(&target.session, hit);
                let quoted = QuotedText::passage(&hit.text, MOST_ENTRY_CHARS.min(room));
                room = room.saturating_sub(quoted.char_count());
                hits.push(TalkHit {
                    agent: hit.agent,
                    session: hit.session,
                    entry: hit.entry,
                    role: hit.role,
                    at: hit.at,
                    quoted_text: quoted,
                });
            }
            if !complete {
                break;
            }
        }
        Ok(SearchOutput { hits, complete, unread: problems as u64 })
    }
}
