//! Tools that look: sessions, conversations, search, usage, disk use and the clean-up plan.

use flows::observe::{ObserveScope, Observed};
use flows::search::{
    EntryScope, QueryOptions, SearchQuery, SessionScope, hit_view, list_targets, start_search,
};
use flows::usage::UsageQuestion;
use flows::writer::{GcInclude, GcRequest};
use model::conversation::ConversationRole;
use model::rules::explain::explain_verdict;
use model::session::SessionKind;
use model::status::{Activity, Status};
use model::time::Time;

use model::wire::{IncompleteSource, ItemFate, UsageGrouping};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sys::spread::OrderedStep;

use super::super::quote::QuotedText;
use super::super::scope::{self, VisibleScope};
use super::super::server::McpServerState;
use super::McpTool;
use crate::cli::{logs, ls};
use crate::error::Error;

/// The most sessions, groups or things in one answer.
const MOST_ROWS: usize = 50;

/// The most characters of conversations in one answer.
const MOST_TALK_CHARS: usize = 8_000;

/// The most characters of one entry, so that a long one does not hide the others.
const MOST_ENTRY_CHARS: usize = 2_000;

/// A tool without arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArguments {}

/// How much could not be read.
fn unread_count(incomplete: &[IncompleteSource]) -> u64 {
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

    fn run(state: &McpServerState, input: ListInput) -> Result<ListOutput, Error> {
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
    /// Why.
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

    fn run(state: &McpServerState, input: SessionInput) -> Result<SessionOutput, Error> {
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

    fn run(state: &McpServerState, input: TalkInput) -> Result<TalkOutput, Error> {
        let observation = state.call_context().observe_now(ObserveScope::All, &[])?;
        let one = state.find_visible(&observation, &input.id)?;
        let mut all = Vec::new();
        logs::read_entries(one, 0, &mut all)?;
        let total = all.len();
        let limit = input.limit.unwrap_or(MOST_ROWS).clamp(1, MOST_ROWS);
        let first = match input.from {
            Some(from) => usize::try_from(from.max(1) - 1).unwrap_or(usize::MAX).min(total),
            None => total.saturating_sub(limit),
        };
        let mut entries = Vec::new();
        let mut room = MOST_TALK_CHARS;
        for (index, entry) in all.iter().enumerate().skip(first).take(limit) {
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

    fn run(state: &McpServerState, input: SearchInput) -> Result<SearchOutput, Error> {
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

pub(super) struct SumUsage;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageInput {
    /// What to sum up by.
    #[serde(default)]
    by: SummedBy,
}

/// What usage is summed up by.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SummedBy {
    #[default]
    Day,
    Agent,
    Project,
    Model,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageOutput {
    groups: Vec<UsageRow>,
    total_tokens: u64,
    unread: u64,
}

/// The usage of one day, agent, project or model.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageRow {
    quoted_key: QuotedText,
    tokens: u64,
    /// Millionths of a dollar that agents stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    stated_micro_usd: Option<u64>,
}

impl McpTool for SumUsage {
    const NAME: &'static str = "usage";
    const DESCRIPTION: &'static str = "Sums up the tokens that sessions used, and the cost where their agent \
        states it.";
    type Input = UsageInput;
    type Output = UsageOutput;

    fn run(state: &McpServerState, input: UsageInput) -> Result<UsageOutput, Error> {
        let context = state.call_context();
        let config = context.load_config()?.config;
        let question = UsageQuestion {
            by: match input.by {
                SummedBy::Day => UsageGrouping::Day,
                SummedBy::Agent => UsageGrouping::Agent,
                SummedBy::Project => UsageGrouping::Project,
                SummedBy::Model => UsageGrouping::Model,
            },
            since: None,
            until: None,
            prices: &config.prices,
            day_of: &sys::clock::local_day,
        };
        let observation = state.observe_visible()?;
        let result = flows::usage::sum_usage(&observation, &question);
        // Days are in their order, and the newest are what is asked for.
        let skipped = match input.by {
            SummedBy::Day => result.groups.len().saturating_sub(MOST_ROWS),
            _ => 0,
        };
        let groups = result.groups.iter().skip(skipped).take(MOST_ROWS).map(|group| UsageRow {
            quoted_key: QuotedText::label(&group.key),
            tokens: group.tokens.total(),
            stated_micro_usd: group.stated_micro_usd,
        });
        Ok(UsageOutput {
            groups: groups.collect(),
            total_tokens: result.total.tokens.total(),
            unread: unread_count(&result.incomplete),
        })
    }
}

pub(super) struct DiskUse;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiskUseOutput {
    agents: Vec<DiskUseRow>,
    total_bytes: u64,
    unread: u64,
}

/// What the sessions of one agent take.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DiskUseRow {
    agent: String,
    bytes: u64,
    sessions: u64,
}

impl McpTool for DiskUse {
    const NAME: &'static str = "disk_use";
    const DESCRIPTION: &'static str = "Says how many bytes the sessions of each agent take.";
    type Input = NoArguments;
    type Output = DiskUseOutput;

    fn run(state: &McpServerState, _input: NoArguments) -> Result<DiskUseOutput, Error> {
        let observation = state.observe_visible()?;
        let mut rows: Vec<DiskUseRow> = Vec::new();
        for one in &observation.sessions {
            let bytes = one.session.transcript.as_ref().map_or(0, |transcript| transcript.bytes);
            match rows.iter_mut().find(|row| row.agent == one.session.agent) {
                Some(row) => {
                    row.bytes += bytes;
                    row.sessions += 1;
                }
                None => {
                    rows.push(DiskUseRow {
                        agent: one.session.agent.to_owned(),
                        bytes,
                        sessions: 1,
                    });
                }
            }
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        Ok(DiskUseOutput {
            total_bytes: rows.iter().map(|row| row.bytes).sum(),
            agents: rows,
            unread: unread_count(&observation.incomplete),
        })
    }
}

pub(super) struct CleanUpPlan;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GcInput {
    /// With what agents left beside their sessions: temporary files and archives.
    #[serde(default)]
    temps: bool,
    /// With worktrees that are merged, clean and nobody's directory.
    #[serde(default)]
    worktrees: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct GcOutput {
    /// What would go, the biggest first. No tool carries it out: a person runs `ostler gc`.
    items: Vec<GcRow>,
    more: u64,
    /// Bytes of what would go.
    bytes: u64,
    unread: u64,
}

/// A thing that may go.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct GcRow {
    kind: String,
    bytes: u64,
    quoted_path: QuotedText,
    quoted_why: QuotedText,
}

impl McpTool for CleanUpPlan {
    const NAME: &'static str = "gc_plan";
    const DESCRIPTION: &'static str = "Shows what a clean-up would take and why. It only plans: a person \
        carries it out.";
    type Input = GcInput;
    type Output = GcOutput;

    fn run(state: &McpServerState, input: GcInput) -> Result<GcOutput, Error> {
        let context = state.call_context();
        let machine = context.machine()?;
        let asked = [(input.temps, GcInclude::Temps), (input.worktrees, GcInclude::Worktrees)];
        let mut ask = GcRequest {
            include: asked
                .into_iter()
                .filter(|(wanted, _)| *wanted)
                .map(|(_, kind)| kind)
                .collect(),
            older_than_ms: None,
            max_bytes: None,
            keep: Vec::new(),
            agents: Vec::new(),
            retention: context.load_config()?.config.retention,
            runtime: machine.runtime().to_owned(),
            variables: std::collections::BTreeMap::new(),
        };
        let plan = flows::gc::plan_gc_here(&mut ask, machine).into_preview();
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let is_visible = |path: &str, session: Option<&str>| {
            let of_session =
                session.and_then(|id| observation.sessions.iter().find(|one| one.session.id == id));
            of_session
                .map_or_else(|| state.scope.contains(Some(path)), |one| state.scope.shows(one))
        };
        let mut rows: Vec<_> = plan
            .items
            .iter()
            .filter(|one| one.action == ItemFate::WouldGo)
            .filter(|one| is_visible(&one.item.path, one.item.session.as_deref()))
            .collect();
        rows.sort_by_key(|one| std::cmp::Reverse(one.item.bytes));
        Ok(GcOutput {
            bytes: rows.iter().map(|one| one.item.bytes).sum(),
            more: rows.len().saturating_sub(MOST_ROWS) as u64,
            items: rows
                .iter()
                .take(MOST_ROWS)
                .map(|one| GcRow {
                    kind: one.item.kind.as_str().to_owned(),
                    bytes: one.item.bytes,
                    quoted_path: QuotedText::label(&one.item.path),
                    quoted_why: QuotedText::label(&one.item.why),
                })
                .collect(),
            unread: unread_count(&plan.incomplete),
        })
    }
}
