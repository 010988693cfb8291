//! `ostler usage`

use std::fmt::Write;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::observe::ObserveScope;
use flows::usage::{UsageQuestion, read_usage_series, sum_usage};
use model::time::Time;
use model::wire::{UsageGrouping, UsageResult, UsageSum};

use crate::cli::registry::AnswerSchema;
use crate::cli::{CliContext, complete, ls};
use crate::error::{self, Error};
use crate::render::colour::{Colour, Painter};
use crate::render::table::{ColumnGive, TableCell, TableColumn, render_table};
use crate::render::{duration, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(See, 3),
    answers: &[
        answer::<wire::UsageResult>(),
        AnswerSchema { suffix: " --series", ..answer::<wire::UsageSeries>() }
    ],
    examples: &[
        example("usage --since 7d", "The last seven days."),
        example("usage --by model --agent codex", "One agent, by model."),
        example(
            "usage --by project --since 2026-11-01 --until 2026-12-01 --csv",
            "For a spreadsheet."
        )
    ],
    cases: &[
        empty("usage"),
        usual("usage --by agent"),
        refused("usage --since soon"),
        incomplete("usage --by model --agent codex"),
        also("usage --by model --since 9999d"),
        also("usage --csv")
    ],
    ..entry!("usage", UsageArgs, run_usage)
}];

/// Show tokens and cost over time, from every agent's transcripts.
///
/// Each API message counts once, sub-agents included. Cost is what the agent states; for the rest,
/// what `[prices."model"]` in the settings says; prices are never guessed. Agents that write only
/// totals count on the day of their session's last activity.
#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// What to sum up by.
    #[arg(long, value_enum, value_name = "KEY", default_value = "day")]
    by: GroupingArg,
    /// Only what was used since then: a local day, a span such as 7d, or an RFC 3339 time.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only what was used before then.
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Only these agents.
    #[arg(long, value_name = "AGENT", value_delimiter = ',', value_parser = ls::parse_agent,
          add = ArgValueCandidates::new(complete::complete_agents))]
    agent: Vec<String>,
    /// Print comma-separated values, with a line of headings; `--json` goes before it.
    #[arg(long)]
    csv: bool,
    /// What each answer of a model used in one session, in order.
    #[arg(long, requires = "session", conflicts_with_all = ["since", "until", "agent", "csv"])]
    series: bool,
    /// With `--series`: the session.
    #[arg(value_name = "SESSION", requires = "series",
          add = ArgValueCandidates::new(complete::complete_sessions))]
    session: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GroupingArg {
    Day,
    Agent,
    Project,
    Model,
}

const TOKEN_COLUMNS: [TableColumn; 8] = [
    TableColumn { head: "", give: ColumnGive::CutMiddle(16), right: false },
    TableColumn { head: "INPUT", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "OUTPUT", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "CACHE READ", give: ColumnGive::Drop(1), right: true },
    TableColumn { head: "CACHE WRITE", give: ColumnGive::Drop(2), right: true },
    TableColumn { head: "TOTAL", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "COST", give: ColumnGive::Cut(30), right: false },
    TableColumn { head: "", give: ColumnGive::Drop(3), right: false },
];

/// How wide the longest bar is.
const BAR_COLUMNS: u64 = 20;

impl UsageArgs {
    pub(crate) fn run_usage(&self, context: &CliContext) -> Result<ExitCode, Error> {
        if let Some(session) = &self.session {
            return print_series(context, session);
        }
        let config = context.settings_to_look()?.config;
        let question = UsageQuestion {
            by: match self.by {
                GroupingArg::Day => UsageGrouping::Day,
                GroupingArg::Agent => UsageGrouping::Agent,
                GroupingArg::Project => UsageGrouping::Project,
                GroupingArg::Model => UsageGrouping::Model,
            },
            since: parse_moment("--since", self.since.as_deref(), context.now)?,
            until: parse_moment("--until", self.until.as_deref(), context.now)?,
            prices: &config.prices,
            day_of: &sys::clock::local_day,
        };
        let observation = context.observe_now(ObserveScope::All, &self.agent)?;
        let result = sum_usage(&observation, &question);
        if context.json {
            context.print_json(&result)?;
        } else if self.csv {
            output::print_text(&render_csv(&result))?;
            ls::report_incomplete(&result.incomplete);
        } else {
            output::print_text(&render_usage_table(&result))?;
            if result.sessions_counted_whole > 0 {
                let sessions = text::format_plural(result.sessions_counted_whole, "session");
                output::print_notice(&format!(
                    "{sessions} of agents that write only totals: counted on the last day"
                ));
            }
            ls::report_incomplete(&result.incomplete);
        }
        Ok(error::exit_code_for(&result.incomplete))
    }
}

fn print_series(context: &CliContext, session: &str) -> Result<ExitCode, Error> {
    let observation = context.observe_now(ObserveScope::All, &[])?;
    let one = address::resolve_session(&observation, session, &context.current_dir())?;
    let (series, problem) = read_usage_series(one);
    if context.json {
        context.print_json(&series)?;
    } else {
        let mut page = String::new();
        for step in &series.steps {
            let at = step.at.map(duration::local_time).unwrap_or_default();
            let model = text::one_line(step.model.as_deref().unwrap_or("unknown"));
            let tokens = step.tokens;
            let _ = writeln!(
                page,
                "{at}  {model}  input {}  output {}  cache read {}  cache write {}  context {}",
                tokens.input, tokens.output, tokens.cache_read, tokens.cache_write, step.context
            );
        }
        output::print_text(&page)?;
        ls::report_incomplete(problem.as_slice());
    }
    Ok(error::exit_code_for(problem.as_slice()))
}

/// A local day, a span before `now`, or a time.
fn parse_moment(option: &str, text: Option<&str>, now: Time) -> Result<Option<Time>, Error> {
    match text {
        Some(day) if sys::clock::start_of_local_day(day).is_some() => {
            Ok(sys::clock::start_of_local_day(day))
        }
        text => ls::parse_since(text, now).map_err(|_| {
            Error::usage_error(
                format!("`{option} {}` is neither a day nor a span nor a time", text.unwrap_or("")),
                "write it like 2026-11-15, 7d or 2026-11-15T12:00:00Z",
            )
        }),
    }
}

fn render_usage_table(result: &UsageResult) -> String {
    if result.groups.is_empty() {
        return "No usage.\n".to_owned();
    }
    let most = result.groups.iter().map(|group| group.tokens.total()).max().unwrap_or(0);
    let with_bars = output::is_terminal();
    let mut rows: Vec<Vec<TableCell>> = Vec::new();
    for group in &result.groups {
        let bar = if with_bars { draw_bar(group.tokens.total(), most) } else { String::new() };
        rows.push(usage_row(group, bar, None));
    }
    if result.groups.len() > 1 {
        rows.push(usage_row(&result.total, String::new(), Some(Colour::Bold)));
    }
    render_table(&TOKEN_COLUMNS, &rows, output::output_columns(), Painter::for_stdout())
}

fn usage_row(sum: &UsageSum, bar: String, colour: Option<Colour>) -> Vec<TableCell> {
    let count = |number| (text::format_count(number), None);
    vec![
        (text::one_line(&sum.key), colour),
        count(sum.tokens.input),
        count(sum.tokens.output),
        count(sum.tokens.cache_read),
        count(sum.tokens.cache_write),
        (text::format_count(sum.tokens.total()), colour),
        (describe_cost(sum), None),
        (bar, Some(Colour::Green)),
    ]
}

/// A bar, to an eighth of a column.
fn draw_bar(tokens: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = u128::from(tokens) * u128::from(BAR_COLUMNS * 8) / u128::from(most.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(0).min(BAR_COLUMNS as usize * 8);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Where the dollars come from, and what has none.
fn describe_cost(sum: &UsageSum) -> String {
    let dollars = |micro: u64| format!("${:.2}", micro as f64 / 1e6);
    let stated = sum.stated_micro_usd.map(|cost| format!("{} stated", dollars(cost)));
    let priced = sum.priced_micro_usd.map(|cost| format!("{} by your prices", dollars(cost)));
    let mut parts: Vec<String> = stated.into_iter().chain(priced).collect();
    if sum.unpriced_tokens > 0 {
        parts.push(format!("{} unpriced", text::format_count(sum.unpriced_tokens)));
    }
    parts.join(" · ")
}

fn render_csv(result: &UsageResult) -> String {
    let head = match result.by {
        UsageGrouping::Day => "day",
        UsageGrouping::Agent => "agent",
        UsageGrouping::Project => "project",
        UsageGrouping::Model => "model",
    };
    let mut out = format!(
        "{head},input,output,cache_read,cache_write,total,messages,stated_usd,priced_usd,\
         unpriced_tokens\n"
    );
    let dollars = |micro: Option<u64>| {
        micro.map(|micro| format!("{:.6}", micro as f64 / 1e6)).unwrap_or_default()
    };
    for group in &result.groups {
        let tokens = group.tokens;
        // Writing to a text cannot fail.
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{}",
            quote_csv(&group.key),
            tokens.input,
            tokens.output,
            tokens.cache_read,
            tokens.cache_write,
            tokens.total(),
            group.messages,
            dollars(group.stated_micro_usd),
            dollars(group.priced_micro_usd),
            group.unpriced_tokens
        );
    }
    out
}

/// A field as RFC 4180 has it. What a spreadsheet would take for a formula is told to be text.
fn quote_csv(field: &str) -> String {
    let field = text::one_line(field);
    let is_formula = field.starts_with(['=', '+', '-', '@']);
    let field = if is_formula { format!("'{field}") } else { field };
    match field.contains([',', '"', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_mixed_sources_say_so() {
        let sum = UsageSum {
            stated_micro_usd: Some(4_120_000),
            unpriced_tokens: 2_100_000,
            ..UsageSum::default()
        };
        assert_eq!(describe_cost(&sum), "$4.12 stated · 2.1M unpriced");
    }

    #[test]
    fn a_field_stays_one_field_and_no_formula() {
        assert_eq!(quote_csv("/a/b"), "/a/b");
        assert_eq!(quote_csv("/a,\"b\""), "\"/a,\"\"b\"\"\"");
        assert_eq!(quote_csv("=1+1"), "'=1+1");
    }

    #[test]
    fn bars_are_proportional() {
        assert_eq!(draw_bar(100, 100), "█".repeat(20));
        assert_eq!((draw_bar(0, 100).as_str(), draw_bar(1, 160).as_str()), ("", "▏"));
    }
}
