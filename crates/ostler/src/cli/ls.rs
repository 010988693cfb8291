//! `ostler ls`

mod option_values;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use flows::fuses::planned_resumptions;
use flows::groups::is_of_members;
use flows::live::LiveSessions;
use flows::observe::{Observation, ObserveScope, Observed};
use model::address::ShortIds;
use model::control::groups::GroupMember;
use model::filter::FilterWords;
use model::json_text::write_session_element;
use model::rules::attention::{AttentionFacts, AttentionGroup};
use model::rules::judge::Verdict;
use model::session::SessionName;
use model::status::{Activity, Status};
use model::time::Time;
use model::wire::{GroupCount, IncompleteSource, LsResult, SessionView};

pub(crate) use self::option_values::{absolute_directory, parse_agent, parse_filter, parse_since};
use self::option_values::{parse_activity, parse_group, parse_interval, parse_status};
use crate::cli::groups::find_group;
use crate::cli::ls_fleet;
use crate::cli::{CliContext, complete, setup};
use crate::error::{self, Error};
use crate::render::colour::Painter;
use crate::render::session_table::{self, SessionTable};
use crate::render::{output, sessions, text};
use crate::timeouts::AGE_INTERVAL;

declare_commands![CommandEntry {
    place: HelpPlace(Everyday, 1),
    answers: &[answer::<wire::LsResult<'static>>(), stream::<wire::LsResult<'static>>(" --watch")],
    examples: &[
        example("ls", "What is live now."),
        example("ls -a --agent codex --limit 5", "The newest five of one agent, ended ones too."),
        example("ls --json", "The same for programs.")
    ],
    cases: &[
        empty("ls"),
        usual("ls -a --agent claude-code --limit 2"),
        refused("ls --status zombie"),
        refused("ls --no-such-option"),
        incomplete("ls -a --agent codex --limit 1"),
        also("ls"),
        also("ls -a"),
        also("ls -a --no-index"),
        also("ls -a -q"),
        also("ls --attention ended --limit 1"),
        refused("ls --attention asleep"),
        also("ls -a --subagents"),
        also("ls -a --subagents --sort size"),
        also("ls -a").after(&["pin 666e4f9b --note keep"]),
        also("ls").on(Access)
    ],
    ..entry!("ls", LsArgs, run_ls)
}];

/// List agent sessions: the live ones, or all of them.
///
/// Those that wait for you come first, then those that work, the newest activity first. An agent in
/// one of ostler's terminals is one row, with the terminal's name. What could not be read is named on stderr
/// and in `incomplete`, and the exit code is then 12.
#[derive(Debug, Default, Args)]
pub(crate) struct LsArgs {
    /// List ended sessions too.
    #[arg(short, long)]
    all: bool,
    /// Only these agents.
    #[arg(long, value_name = "AGENT", value_delimiter = ',', value_parser = parse_agent,
          add = ArgValueCandidates::new(complete::complete_agents))]
    agent: Vec<String>,
    /// Only sessions of these states, or alive, dead or unknown (ended ones are then looked at too).
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = parse_status,
          add = complete::statuses())]
    status: Vec<StatusWord>,
    /// Only live sessions that are doing this: working, waiting, idle or unknown.
    #[arg(long, value_name = "ACTIVITY", value_delimiter = ',', value_parser = parse_activity,
          add = complete::activities())]
    activity: Vec<Activity>,
    /// Only sessions of this directory and those below it.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Only sessions that were active since then: a span such as 2h or 3d, or an RFC 3339 time.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only sessions on this git branch.
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// Only sessions of agents that were launched as this group.
    #[arg(long, value_name = "GROUP", conflicts_with = "fleet", add = complete::groups())]
    group: Option<String>,
    /// Only sessions that these words fit: words of title, project, agent or branch, `is:waiting`,
    /// `agent:`, `project:`, `branch:`, `model:`, `since:2d`, `tokens:>1M`, `cost:>1`, `-word`.
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Only sessions of these groups, as the dashboard has them: needs-you, working, idle, unknown, ended.
    /// With `--json` the groups are counted, too.
    #[arg(long, value_name = "GROUP", value_delimiter = ',', value_parser = parse_group)]
    attention: Vec<AttentionGroup>,
    /// Sort by something else than activity.
    #[arg(long, value_enum, value_name = "KEY")]
    sort: Option<SortKey>,
    /// Show at most this many.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Only what the same list has after this session: `agent:id`, as `after` in the JSON says.
    #[arg(long, value_name = "SESSION")]
    after: Option<String>,
    /// List sub-agents too, with their parents.
    #[arg(long)]
    subagents: bool,
    /// List the sessions of all members of the fleet too (docs/fleet.md).
    #[arg(long, conflicts_with_all = ["status", "activity", "cwd", "since", "branch", "filter", "sort", "subagents", "watch"])]
    fleet: bool,
    /// Only those of these members of the fleet.
    #[arg(long, value_name = "MEMBER", value_delimiter = ',', conflicts_with_all = ["status", "activity", "cwd", "since", "branch", "filter", "sort", "subagents", "watch"])]
    host: Vec<String>,
    /// With `--fleet`: members that are not reachable do not make the answer incomplete.
    #[arg(long)]
    reachable: bool,
    /// With `--fleet`: how many seconds the hub is waited for.
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    timeout: u64,
    /// Print ids only.
    #[arg(short, long)]
    quiet: bool,
    /// Go on, and list again when something has changed; with a number also every so many seconds.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, value_parser = parse_interval)]
    watch: Option<Option<Duration>>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SortKey {
    /// Newest activity first (as without the option).
    Activity,
    /// Newest start first.
    Started,
    Agent,
    Cwd,
    Title,
    /// Most tokens first.
    Tokens,
    /// Most expensive first.
    Cost,
    /// Biggest transcript first.
    Size,
}

/// What a status filter may ask for: a state, or what is known of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusWord {
    Is(Status),
    Alive,
    Dead,
}

impl StatusWord {
    /// Whether sessions that are over have to be looked at.
    const fn wants_ended(self) -> bool {
        match self {
            Self::Is(status) => status.is_terminal(),
            Self::Alive => false,
            Self::Dead => true,
        }
    }

    fn matches(self, verdict: &Verdict) -> bool {
        match self {
            Self::Is(status) => verdict.status == status,
            Self::Alive => verdict.liveness.is_alive(),
            Self::Dead => verdict.liveness.is_dead(),
        }
    }
}

/// Leaves what comes after a session of the list.
fn drop_through(shown: &mut Vec<&Observed>, after: &str) -> Result<(), Error> {
    let found = shown.iter().position(|one| one.session.session_name().to_string() == after);
    let at = found.ok_or_else(|| {
        Error::usage_error(
            format!("`--after {after}`: the list has no such session any more"),
            "begin again without `--after`",
        )
    })?;
    shown.drain(..=at);
    Ok(())
}

/// A session as programs see it.
fn session_view<'a>(one: &'a Observed, resumed: &HashMap<SessionName, Time>) -> SessionView<'a> {
    let resumes_at = match resumed.is_empty() {
        true => None,
        false => resumed.get(&one.session.session_name()).copied(),
    };
    SessionView { resumes_at, ..one.session_view() }
}

/// The filters, made ready.
struct SessionFilter<'a> {
    ls: &'a LsArgs,
    cwd: Option<PathBuf>,
    since: Option<Time>,
    words: FilterWords,
    members: Option<Vec<GroupMember>>,
}

impl LsArgs {
    pub(crate) fn run_ls(&self, context: &CliContext) -> Result<ExitCode, Error> {
        if self.fleet || !self.host.is_empty() {
            return ls_fleet::list_fleet(
                context,
                &ls_fleet::FleetListing {
                    all: self.all,
                    hosts: &self.host,
                    reachable: self.reachable,
                    timeout: self.timeout,
                    quiet: self.quiet,
                    agents: &self.agent,
                    limit: self.limit,
                },
            );
        }
        match self.watch {
            None => {
                let observation = context.observe_now(self.observe_scope(), &self.agent)?;
                let code = self.list_observation(context, &observation, false);
                if !output::is_served() {
                    // The process ends now; taking ten thousand sessions apart only costs time.
                    std::mem::forget(observation);
                }
                code
            }
            Some(interval) => self.list_changes(context, interval),
        }
    }

    /// Lists again whenever something has changed. The ages on a terminal change without that.
    fn list_changes(
        &self,
        context: &CliContext,
        interval: Option<Duration>,
    ) -> Result<ExitCode, Error> {
        let ages = (!context.json && output::is_terminal()).then_some(AGE_INTERVAL);
        let mut live = LiveSessions::new(context.live_source(self.observe_scope(), &self.agent)?);
        let (mut newest, mut untold) = (None, None);
        loop {
            let update = match live.next_change(interval.or(ages), None)? {
                None if interval.is_some() => Some(live.look_now()),
                update => update,
            };
            if let Some(update) = update {
                if let Some(reason) = &update.asks_because {
                    output::print_notice(&text::one_line(&format!("asks every second: {reason}")));
                }
                if let Some(reason) = update.untold.filter(|reason| untold.as_ref() != Some(reason))
                {
                    output::print_notice(&text::one_line(&format!("looks every minute: {reason}")));
                    untold = Some(reason);
                }
                newest = Some(update.observation);
            }
            if let Some(observation) = &newest {
                self.list_observation(&context.next_turn(), observation, true)?;
            }
        }
    }

    fn observe_scope(&self) -> ObserveScope {
        let by_words = self.filter.as_deref().and_then(|words| {
            // An error is told by the filter's user.
            FilterWords::parse(words, Time::from_millis(0)).ok()
        });
        let wants_ended = self.all
            || self.status.iter().any(|word| word.wants_ended())
            || self.attention.contains(&AttentionGroup::Ended)
            || by_words.is_some_and(|words| words.wants_ended());
        if wants_ended { ObserveScope::All } else { ObserveScope::Active }
    }

    fn list_observation(
        &self,
        context: &CliContext,
        observation: &Observation,
        redraw: bool,
    ) -> Result<ExitCode, Error> {
        let now = context.now;
        let filter = SessionFilter {
            ls: self,
            cwd: absolute_directory(self.cwd.as_deref())?,
            since: parse_since(self.since.as_deref(), now)?,
            words: parse_filter(self.filter.as_deref(), now)?,
            members: self.group.as_deref().map(|group| find_group(context, group)).transpose()?,
        };
        let mut shown: Vec<&Observed> = self.select_shown(observation, &filter);
        let for_people = !context.json && !self.quiet;
        if for_people {
            shown = session_table::fold_terminals(&shown);
            if self.sort.is_none() {
                session_table::sort_by_urgency(&mut shown);
            }
        }
        let groups = self.keep_groups(&mut shown, now);
        let total = shown.len();
        if let Some(after) = &self.after {
            drop_through(&mut shown, after)?;
        }
        let rest = shown.len();
        if let Some(limit) = self.limit {
            shown.truncate(limit);
        }
        let last = shown.last().filter(|_| shown.len() < rest);
        let after = last.map(|one| one.session.session_name().to_string());
        if context.json {
            let resumed = planned_resumptions(context.machine()?);
            let result = |sessions| LsResult {
                sessions,
                total,
                shown: shown.len(),
                groups: groups.clone(),
                after: after.clone(),
                incomplete: &observation.incomplete,
                unattached: &observation.unattached,
            };
            if redraw {
                let views = shown.iter().map(|one| session_view(one, &resumed));
                output::print_json_line(result(views.collect()))?;
            } else {
                let frame = result(Vec::new());
                output::print_json_with(
                    context.name,
                    context.now,
                    frame,
                    "sessions",
                    &shown,
                    &|out, one, depth| {
                        write_session_element(out, &session_view(one, &resumed), depth)
                    },
                )?;
            }
        } else if self.quiet {
            let ids: String = shown.iter().map(|one| one.session.id.clone() + "\n").collect();
            output::print_text(&ids)?;
        } else {
            // An id must be unambiguous among all agents, also when only some are asked about.
            let others = match self.agent.is_empty() {
                true => None,
                false => Some(context.observe_now(ObserveScope::Active, &[])?),
            };
            let seen = [Some(observation), others.as_ref()];
            let ids = ShortIds::among(seen.into_iter().flatten().flat_map(|one| one.known_ids()));
            let table = SessionTable {
                ids: &ids,
                observation: others.as_ref().unwrap_or(observation),
                now,
                paint: Painter::for_stdout(),
                watched: redraw,
                by_urgency: self.sort.is_none(),
            };
            self.print_table(observation, &shown, total, &table)?;
            if !redraw {
                setup::mention_setup_once(context.machine()?);
            }
        }
        Ok(error::exit_code_for(&observation.incomplete))
    }

    /// Leaves only the groups that were asked for; how many each of all groups has.
    fn keep_groups(&self, shown: &mut Vec<&Observed>, now: Time) -> Vec<GroupCount> {
        if self.attention.is_empty() {
            return Vec::new();
        }
        let group_of = |one: &Observed| {
            AttentionFacts::of_session(&one.session, &one.verdict).attention_group(None, now)
        };
        let counts = AttentionGroup::ALL.map(|group| GroupCount {
            group,
            count: shown.iter().filter(|one| group_of(one) == group).count(),
        });
        shown.retain(|one| self.attention.contains(&group_of(one)));
        counts.to_vec()
    }

    fn select_shown<'a>(
        &self,
        observation: &'a Observation,
        filter: &SessionFilter<'_>,
    ) -> Vec<&'a Observed> {
        let children: &[Observed] = if self.subagents { &observation.subagents } else { &[] };
        let mut shown: Vec<&Observed> = observation
            .sessions
            .iter()
            .chain(children)
            .filter(|observed| filter.matches_session(observed))
            .collect();
        let Some(key) = self.sort else { return shown };
        let text = |one: &Observed, key: SortKey| {
            let digest = &one.session.digest;
            match key {
                SortKey::Agent => Some(one.session.agent.to_owned()),
                SortKey::Cwd => digest.cwd.clone(),
                _ => one.session.display_title().map(str::to_lowercase),
            }
        };
        let number = |one: &Observed, key: SortKey| {
            let digest = &one.session.digest;
            match key {
                SortKey::Started => digest.started_at.map(Time::as_millis),
                SortKey::Tokens => digest
                    .tokens
                    .map(|t| (t.input + t.output + t.cache_read + t.cache_write) as i64),
                SortKey::Cost => digest.cost_micro_usd.map(|cost| cost as i64),
                SortKey::Size => one.session.transcript.as_ref().map(|t| t.bytes as i64),
                _ => one.session.last_activity_at().map(Time::as_millis),
            }
        };
        match key {
            SortKey::Agent | SortKey::Cwd | SortKey::Title => {
                shown.sort_by_cached_key(|one| (text(one, key).is_none(), text(one, key)));
            }
            _ => shown.sort_by_key(|one| std::cmp::Reverse(number(one, key))),
        }
        shown
    }

    fn print_table(
        &self,
        observation: &Observation,
        shown: &[&Observed],
        total: usize,
        table: &SessionTable<'_>,
    ) -> Result<(), Error> {
        let mut page = String::new();
        if table.watched && output::is_terminal() {
            page.push_str("\x1b[H\x1b[2J");
        }
        if total == 0 {
            page.push_str(self.nothing_found());
        } else if !shown.is_empty() {
            page.push_str(&table.render(shown));
        }
        output::print_text(&page)?;
        if shown.len() < total {
            output::print_notice(&format!("{} of {total} sessions shown", shown.len()));
        }
        if shown.iter().any(|one| sessions::is_derived(one)) {
            output::print_notice(
                "~ concluded from circumstances, not proven; `ostler why ID` tells",
            );
        }
        for warning in shown.iter().filter_map(|one| sessions::open_twice(one)) {
            output::print_notice(&text::one_line(&format!("warning: {warning}")));
        }
        for left in shown.iter().filter_map(|one| sessions::left_with_server(one)) {
            output::print_notice(&text::one_line(&left));
        }
        for one in &observation.unattached {
            let place = one.cwd.as_deref().unwrap_or("an unknown directory");
            let or: String = one.perhaps.iter().map(|pid| format!(", or {pid}")).collect();
            output::print_notice(&text::one_line(&format!(
                "{} (pid {}{or}) runs in {place} and has not written a session yet",
                one.agent, one.pid
            )));
        }
        report_incomplete(&observation.incomplete);
        Ok(())
    }
}

impl LsArgs {
    /// That nothing is listed, and whether that is because of what was asked for.
    fn nothing_found(&self) -> &'static str {
        let filtered = !self.agent.is_empty()
            || !self.status.is_empty()
            || !self.activity.is_empty()
            || self.cwd.is_some()
            || self.since.is_some()
            || self.branch.is_some()
            || self.filter.is_some();
        match (filtered, self.observe_scope()) {
            (false, ObserveScope::Active) => {
                "No live agent sessions. `ostler ls -a` lists ended ones.\n"
            }
            (false, ObserveScope::All) => {
                "No agent sessions. `ostler adapters` shows the agents that are known and where they are looked for.\n"
            }
            (true, ObserveScope::Active) => {
                "No live agent session is like that. `-a` looks at ended ones too.\n"
            }
            (true, ObserveScope::All) => "No agent session is like that.\n",
        }
    }
}

impl SessionFilter<'_> {
    fn matches_session(&self, observed: &Observed) -> bool {
        let (session, verdict) = (&observed.session, &observed.verdict);
        let ls = self.ls;
        let by_status = if ls.status.is_empty() {
            ls.all || verdict.status.is_active() || self.words.wants_ended()
        } else {
            ls.status.iter().any(|word| word.matches(verdict))
        };
        by_status
            && (ls.activity.is_empty()
                || verdict.activity.is_some_and(|activity| ls.activity.contains(&activity)))
            && self.cwd.as_ref().is_none_or(|cwd| {
                session.digest.cwd.as_deref().is_some_and(|own| Path::new(own).starts_with(cwd))
            })
            && self.since.is_none_or(|since| session.last_activity_at() >= Some(since))
            && ls
                .branch
                .as_ref()
                .is_none_or(|branch| session.digest.branch.as_ref() == Some(branch))
            && self.members.as_ref().is_none_or(|members| is_of_members(observed, members))
            && (self.words.is_empty() || self.words.matches(&observed.session_view()))
    }
}

/// Says on stderr what could not be read, without flooding the terminal.
pub(crate) fn report_incomplete(incomplete: &[IncompleteSource]) {
    const MAX_SHOWN_PROBLEMS: usize = 5;
    if incomplete.is_empty() {
        return;
    }
    let things = text::format_plural(incomplete.len() as u64, "thing");
    output::print_notice(&format!("{things} could not be read:"));
    for one in incomplete.iter().take(MAX_SHOWN_PROBLEMS) {
        let path = one.path.as_deref().unwrap_or("");
        output::print_notice(&text::one_line(&format!(
            "  {}: {path}{}{}",
            one.source,
            if path.is_empty() { "" } else { ": " },
            one.reason
        )));
    }
    if incomplete.len() > MAX_SHOWN_PROBLEMS {
        output::print_notice(&format!(
            "  and {} more; `--json` lists them all",
            incomplete.len() - MAX_SHOWN_PROBLEMS
        ));
    }
}
