//! `ostler search`

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use flows::observe::ObserveScope;
use flows::search::{
    EntryScope, QueryOptions, RunningSearch, SearchQuery, SessionScan, SessionScope, hit_view,
    list_targets, start_search,
};
use model::conversation::ConversationRole;
use model::filter::project_name;
use model::status::{Activity, Status};
use model::wire::{
    IncompleteSource, SearchEnd, SearchHit, SearchLine, SearchMatch, SearchResult, SearchSession,
    SearchedAmount,
};
use sys::spread::OrderedStep;

use crate::cli::{CliContext, complete, ls};
use crate::error::{self, Error};
use crate::render::colour::{Colour, Painter};
use crate::render::{duration, output, text};
use crate::timeouts::READER_CHECK_INTERVAL;

declare_commands![CommandEntry {
    place: HelpPlace(See, 2),
    answers: &[answer::<wire::SearchResult>(), stream::<wire::SearchLine>(" --stream")],
    examples: &[
        example("search --role user --since 9999d make", "Prompts with this word."),
        example("search --regex 'fn \\w+' --limit 5", "A regular expression."),
        example("search --filter 'agent:codex' hello", "Only in sessions that these words fit.")
    ],
    cases: &[
        empty("search hello"),
        usual("search --limit 3 --agent codex hello"),
        refused("search --regex ("),
        incomplete("search --agent codex no-such-word-anywhere"),
        also("search no-such-word-anywhere")
    ],
    ..entry!("search", SearchArgs, run_search)
}];

/// Find words in every conversation, whichever agent held it.
///
/// All words must occur in one entry of a conversation: a prompt, an answer, a tool's input or output,
/// a notice; or in the title, the name or the directory of a session without such an entry. `"exact words"` keeps words together, `-word` excludes. Case counts only if the query has
/// a capital. White space stands for any white space. The newest sessions come first, and hits are
/// printed as they are found. Nothing is written: there is no index of what was said.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// What to look for; behind `--` if it begins with a dash.
    #[arg(required = true)]
    query: Vec<String>,
    /// The query is one regular expression (without look-around and back references).
    #[arg(long)]
    regex: bool,
    /// Case counts.
    #[arg(long)]
    case: bool,
    /// Only these agents; `terminal` searches hosted terminals, which are left out otherwise.
    #[arg(long, value_name = "AGENT", value_delimiter = ',', value_parser = ls::parse_agent,
          add = ArgValueCandidates::new(complete::complete_agents))]
    agent: Vec<String>,
    /// Only sessions of this directory and those below it.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Only what was said since then: a span such as 2h or 3d, or an RFC 3339 time.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only sessions that these words fit, as in `ls --filter`.
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Only what these said.
    #[arg(long, value_enum, value_name = "ROLE", value_delimiter = ',')]
    role: Vec<SpeakerArg>,
    /// Only calls of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Search sub-agents too.
    #[arg(long)]
    subagents: bool,
    /// Show at most so many hits; 0 shows all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Show so many lines before and after a match.
    #[arg(long, value_name = "LINES", default_value_t = 1)]
    context: usize,
    /// Sort sessions by something else than activity. Nothing is shown before all is searched.
    #[arg(long, value_enum, value_name = "KEY")]
    sort: Option<SearchOrder>,
    /// With `--json`: one object on a line, as it is found.
    #[arg(long)]
    stream: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SearchOrder {
    /// Newest activity first (as without the option).
    Activity,
    /// Most hits first.
    Hits,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SpeakerArg {
    User,
    Assistant,
    Tool,
    Result,
    System,
}

impl From<SpeakerArg> for ConversationRole {
    fn from(role: SpeakerArg) -> Self {
        match role {
            SpeakerArg::User => Self::User,
            SpeakerArg::Assistant => Self::Assistant,
            SpeakerArg::Tool => Self::Tool,
            SpeakerArg::Result => Self::Result,
            SpeakerArg::System => Self::System,
        }
    }
}

impl SearchArgs {
    pub(crate) fn run_search(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let options = QueryOptions { regex: self.regex, case: self.case };
        let query = SearchQuery::parse(&self.query.join(" "), options).map_err(|error| {
            Error::usage_error(
                format!("the query cannot be used: {error}"),
                "write words, \"exact words\" or -word; `ostler help search` has examples",
            )
        })?;
        let since = ls::parse_since(self.since.as_deref(), context.now)?;
        let scope = SessionScope {
            words: ls::parse_filter(self.filter.as_deref(), context.now)?,
            cwd: ls::absolute_directory(self.cwd.as_deref())?,
            since,
            agents: self.agent.clone(),
            subagents: self.subagents,
        };
        let entries = EntryScope {
            roles: self.role.iter().map(|role| (*role).into()).collect(),
            tool: self.tool.clone(),
            since,
            context: self.context,
            most: self.most_hits(),
        };
        let observation = context.observe_now(ObserveScope::All, &self.agent)?;
        let home = context.machine()?.home();
        let (targets, unread) = list_targets(&observation, Some(home), &scope);
        let mut found =
            SearchResult { incomplete: observation.incomplete, ..SearchResult::default() };
        found.incomplete.extend(unread);
        let search = start_search(targets, query, entries).map_err(Error::Output)?;
        self.gather_hits(context, search, &mut found)?;
        if self.sort == Some(SearchOrder::Hits) {
            self.sort_by_hits(&mut found);
        }
        let counted: u64 = found.sessions.iter().map(|session| session.hits).sum();
        found.complete &= counted == found.hits.len() as u64;
        self.print_rest(context, &found)?;
        Ok(error::exit_code_for(&found.incomplete))
    }

    /// How many hits are shown.
    fn most_hits(&self) -> usize {
        if self.limit == 0 { usize::MAX } else { self.limit }
    }

    /// Whether hits are printed as they are found.
    fn prints_at_once(&self, context: &CliContext) -> bool {
        self.sort != Some(SearchOrder::Hits) && (!context.json || self.stream)
    }

    fn gather_hits(
        &self,
        context: &CliContext,
        search: RunningSearch,
        found: &mut SearchResult,
    ) -> Result<(), Error> {
        let RunningSearch { targets, mut work } = search;
        let at_once = self.prints_at_once(context);
        for target in targets.iter() {
            let scan = loop {
                match work.next_within(READER_CHECK_INTERVAL) {
                    OrderedStep::Done(scan) => break scan,
                    OrderedStep::Finished => return Ok(()),
                    OrderedStep::Pending if output::is_reader_gone() => {
                        return Err(Error::Output(std::io::ErrorKind::BrokenPipe.into()));
                    }
                    OrderedStep::Pending => {}
                }
            };
            let (sessions, hits) = (found.sessions.len(), found.hits.len());
            self.take_scan(&target.session, scan, found);
            if at_once && found.sessions.len() > sessions {
                self.print_session(context, &found.sessions[sessions], &found.hits[hits..])?;
            }
            if self.sort != Some(SearchOrder::Hits) && count_shown(found) >= self.most_hits() {
                found.complete = found.scanned.sessions == targets.len() as u64;
                return Ok(());
            }
        }
        found.complete = true;
        Ok(())
    }

    fn take_scan(&self, session: &SearchSession, scan: SessionScan, found: &mut SearchResult) {
        found.scanned.sessions += 1;
        found.scanned.bytes += scan.bytes;
        found.incomplete.extend(scan.problems.into_iter().map(|(path, reason)| IncompleteSource {
            source: session.agent.clone(),
            path: Some(path),
            reason,
        }));
        if scan.total > 0 || !scan.matched.is_empty() {
            let room = match self.sort {
                Some(SearchOrder::Hits) => usize::MAX,
                _ => self.most_hits().saturating_sub(count_shown(found)),
            };
            let (hits, matched) = (scan.total, scan.matched);
            found.sessions.push(SearchSession { hits, matched, ..session.clone() });
            found.hits.extend(scan.hits.into_iter().take(room).map(|hit| hit_view(session, hit)));
        }
    }

    fn sort_by_hits(&self, found: &mut SearchResult) {
        found.sessions.sort_by_key(|session| std::cmp::Reverse(session.hits));
        let place = |hit: &SearchHit| {
            let is_its = |one: &SearchSession| one.id == hit.session && one.agent == hit.agent;
            found.sessions.iter().position(is_its)
        };
        found.hits.sort_by_cached_key(place);
        let shown = found.hits.len().min(self.most_hits());
        found.complete &= shown == found.hits.len();
        found.hits.truncate(shown);
        let has_hits = |one: &SearchSession| found.hits.iter().any(|hit| hit.session == one.id);
        found.sessions.retain(|one| has_hits(one) || !one.matched.is_empty());
    }

    /// What was not printed on the way, and the end.
    fn print_rest(&self, context: &CliContext, found: &SearchResult) -> Result<(), Error> {
        if !self.prints_at_once(context) && (!context.json || self.stream) {
            for session in &found.sessions {
                let its =
                    |hit: &&SearchHit| hit.session == session.id && hit.agent == session.agent;
                let hits: Vec<SearchHit> = found.hits.iter().filter(its).cloned().collect();
                self.print_session(context, session, &hits)?;
            }
        }
        if context.json && !self.stream {
            return context.print_json(found);
        }
        if context.json {
            return output::print_json_line(SearchLine::End(SearchEnd {
                scanned: found.scanned,
                complete: found.complete,
                incomplete: found.incomplete.clone(),
            }));
        }
        if found.sessions.is_empty() {
            let SearchedAmount { sessions, bytes } = found.scanned;
            let sessions = text::format_plural(sessions, "session");
            output::print_text(&format!(
                "Nothing found in {sessions} ({}).\n",
                text::format_bytes(bytes)
            ))?;
        }
        if !found.complete {
            output::print_notice(&format!(
                "{} shown, there may be more: `--limit 0` shows all",
                text::format_plural(count_shown(found) as u64, "hit")
            ));
        }
        ls::report_incomplete(&found.incomplete);
        Ok(())
    }

    fn print_session(
        &self,
        context: &CliContext,
        session: &SearchSession,
        hits: &[SearchHit],
    ) -> Result<(), Error> {
        if context.json {
            output::print_json_line(SearchLine::Session(session.clone()))?;
            return hits
                .iter()
                .try_for_each(|hit| output::print_json_line(SearchLine::Hit(hit.clone())));
        }
        let paint = Painter::for_stdout();
        let mut page = render_session_head(session, context, paint);
        for matched in &session.matched {
            render_match(session, matched, paint, &mut page);
        }
        for hit in hits {
            render_hit(session, hit, paint, &mut page);
        }
        page.push('\n');
        output::print_text(&page)
    }
}

/// How many hits are shown: entries, and what fits beside a conversation.
fn count_shown(found: &SearchResult) -> usize {
    found.hits.len() + found.sessions.iter().map(|session| session.matched.len()).sum::<usize>()
}

fn render_session_head(session: &SearchSession, context: &CliContext, paint: Painter) -> String {
    let (glyph, colour) = match (session.status, session.activity) {
        (Some(Status::Running), Some(Activity::Waiting)) => ("▲", Colour::Yellow),
        (Some(Status::Running), Some(Activity::Idle)) => ("○", Colour::Dim),
        (Some(Status::Running), _) => ("●", Colour::Green),
        (Some(Status::Unknown), _) => ("?", Colour::Red),
        (Some(Status::Failed), _) => ("✗", Colour::Red),
        _ => ("·", Colour::Dim),
    };
    let title = session.title.as_deref().unwrap_or(&session.id);
    let mut parts = vec![session.agent.clone()];
    parts.extend(session.cwd.as_deref().map(|cwd| project_name(cwd).to_owned()));
    parts.extend(session.last_activity_at.map(|at| duration::short_age(context.now.since(at))));
    if session.matched.is_empty() {
        parts.push(text::format_plural(session.hits, "hit"));
    }
    if session.parent.is_some() {
        parts.push("sub-agent".to_owned());
    }
    if session.only_in_vault {
        parts.push("only in the vault".to_owned());
    }
    let title = text::cut_right(&text::one_line(title), 60);
    let rest = text::one_line(&parts.join(" · "));
    format!(
        "{} {}  {}\n",
        paint.paint(colour, glyph),
        paint.paint(Colour::Bold, &title),
        paint.paint(Colour::Dim, &rest)
    )
}

/// What fits of a session beside its conversation.
fn render_match(session: &SearchSession, matched: &SearchMatch, paint: Painter, page: &mut String) {
    let field = paint.paint(Colour::Cyan, matched.field.as_str());
    let open = match session.only_in_vault {
        true => format!("ostler vault cat {}", session.id),
        false => format!("ostler show {}", session.id),
    };
    let open = paint.paint(Colour::Dim, &text::one_line(&open));
    let _ = writeln!(page, "  {field}  {open}");
    for line in mark_matches(&matched.text, &matched.ranges, paint).lines() {
        let _ = writeln!(page, "    {line}");
    }
}

fn render_hit(session: &SearchSession, hit: &SearchHit, paint: Painter, page: &mut String) {
    let role = match hit.role {
        ConversationRole::User => "user",
        ConversationRole::Assistant => "assistant",
        ConversationRole::Tool => "tool",
        ConversationRole::Result => "result",
        ConversationRole::System => "system",
    };
    let mut head = paint.paint(Colour::Cyan, role);
    if let Some(tool) = &hit.tool {
        let _ = write!(head, " {}", text::one_line(tool));
    }
    if let Some(at) = hit.at {
        let _ = write!(head, " {}", paint.paint(Colour::Dim, &at.to_string()));
    }
    let open = match (session.only_in_vault, hit.entry) {
        (true, _) => format!("ostler vault cat {}", session.id),
        (false, Some(entry)) => format!("ostler logs {} --from {entry}", session.id),
        (false, None) => format!("ostler show {}", session.id),
    };
    let open = paint.paint(Colour::Dim, &text::one_line(&open));
    let _ = writeln!(page, "  {head}  {open}");
    for line in mark_matches(&hit.text, &hit.ranges, paint).lines() {
        let _ = writeln!(page, "    {line}");
    }
}

/// The text with its matches marked: by colour, or by brackets where there is none.
fn mark_matches(said: &str, ranges: &[[u64; 2]], paint: Painter) -> String {
    let mut marked = String::new();
    let mut chars = said.chars();
    let mut at = 0;
    let mut take = |until: u64| {
        let part: String = chars.by_ref().take((until.saturating_sub(at)) as usize).collect();
        at = at.max(until);
        part
    };
    for [start, end] in ranges {
        marked.push_str(&text::many_lines(&take(*start)));
        let found = text::many_lines(&take(*end));
        match paint.has_colour() {
            true => marked.push_str(&paint.paint(Colour::Yellow, &found)),
            false => {
                let _ = write!(marked, "[{found}]");
            }
        }
    }
    marked.push_str(&text::many_lines(&take(u64::MAX)));
    marked
}
