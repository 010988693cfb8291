//! `ostler wait`

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use flows::control::agent_wait::{
    AgentWait, AwaitedActivity, AwaitedAgent, SeveralAgents, wait_for_agent, wait_for_several,
};
use flows::control::deliveries::ControlLedger;
use flows::control::turn_wait::await_delivery_turn;
use flows::events::EventsError;
use flows::observe::ObserveScope;
use flows::terminal::screen::Personality;
use flows::terminal::{HostedSession, wait};
use model::address::{AddressError, NoSingleId, pick_by_id};
use model::control::delivery::delivery_failure;
use model::control::wire::PromptResult;
use model::hosted::wire::{RenderParams, WaitParams, WaitResult};
use model::hosted::{FaultCode, HostFault};
use model::session::SessionName;
use model::status::Activity;

use crate::cli::groups::find_group;
use crate::cli::{CliContext, ls};
use crate::error::{self, Error};
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Drive, 4),
    agent_tty: 7,
    answers: &[
        answer::<hosted_wire::WaitResult>(),
        crate::cli::registry::AnswerSchema {
            suffix: " --turn",
            ..answer::<::model::control::wire::PromptResult>()
        }
    ],
    examples: &[
        example(
            "wait build --screen-stable-ms 50 --timeout 10000",
            "Until the screen has come to rest."
        )
        .on(Terminal),
        example("wait build --text $ --timeout 10000", "Until something is shown.").on(Terminal),
        example("wait build --for-agent idle --timeout 60000", "Until the agent's turn is over.")
            .on(Driven)
    ],
    cases: &[
        empty("wait build --text $"),
        usual("wait build --text $").on(Terminal),
        refused("wait build --text never --timeout 50").on(Terminal),
        refused("wait build --text a --timeout soon")
    ],
    uncased: &[ONE_FILE],
    ..entry!("wait", WaitArgs, run_wait)
}];

/// What cannot be waited for together with an agent.
const SCREEN_OR_PROGRAM: [&str; 10] = [
    "exit",
    "idle_ms",
    "text",
    "regex",
    "gone",
    "changed",
    "screen_stable_ms",
    "cursor_row",
    "cursor_col",
    "after_seq",
];

/// What an agent can be waited for to do.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum WaitedAgentState {
    /// Works on a turn.
    Working,
    /// Asks for permission or input.
    Waiting,
    /// Has ended its turn.
    Idle,
    /// Is gone.
    Ended,
}

impl WaitedAgentState {
    const fn wanted_state(self) -> AwaitedActivity {
        match self {
            Self::Working => AwaitedActivity::Does(Activity::Working),
            Self::Waiting => AwaitedActivity::Does(Activity::Waiting),
            Self::Idle => AwaitedActivity::Does(Activity::Idle),
            Self::Ended => AwaitedActivity::Ended,
        }
    }
}

/// Wait for something to be shown, for the screen to stay, for silence, for an agent or for the end.
///
/// All conditions on the screen must be true at once; they are looked at on every change of the
/// screen. Exit code 11 when the time was up.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The session; several with `--for-agent`.
    #[arg(value_name = "SESSION", required_unless_present_any = ["group", "turn"],
          add = crate::cli::complete::terminals())]
    ids: Vec<String>,
    /// Every agent that was launched as this group.
    #[arg(long, value_name = "GROUP", requires = "for_agent", add = crate::cli::complete::groups())]
    group: Option<String>,
    /// Of several agents, until one does it.
    #[arg(long, requires = "for_agent")]
    any: bool,
    /// Of several agents, until all do it at once: the default.
    #[arg(long, requires = "for_agent", conflicts_with = "any")]
    all: bool,
    /// The program's end.
    #[arg(long)]
    exit: bool,
    /// No output for so many milliseconds, from now on.
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    idle_ms: Option<String>,
    /// Text on the visible screen.
    #[arg(long, allow_hyphen_values = true)]
    text: Option<String>,
    /// A pattern that matches the visible screen.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    regex: Option<String>,
    /// Text that is no longer on the visible screen.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    gone: Option<String>,
    /// Any change of the visible text, from now on or since --since-hash.
    #[arg(long)]
    changed: bool,
    /// The screen to compare with, for --changed.
    #[arg(long, value_name = "HASH", requires = "changed")]
    since_hash: Option<String>,
    /// The visible text stays the same for so many milliseconds.
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    screen_stable_ms: Option<String>,
    /// The cursor is in this row, counted from 0.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    cursor_row: Option<String>,
    /// The cursor is in this column, counted from 0.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    cursor_col: Option<String>,
    /// Only screens after this event count.
    #[arg(long, value_name = "SEQ", allow_hyphen_values = true)]
    after_seq: Option<String>,
    /// The agent in the terminal, or of the session, does this: the same as `ls` says, with hooks or without.
    #[arg(long, value_name = "STATE", conflicts_with_all = SCREEN_OR_PROGRAM)]
    for_agent: Option<WaitedAgentState>,
    /// The end of the turn that this delivery began: 17 if that was an error, a limit or an interruption, 16 if the agent
    /// asks a person.
    #[arg(long, value_name = "DELIVERY", conflicts_with_all = SCREEN_OR_PROGRAM,
          conflicts_with_all = ["for_agent", "ids", "group"])]
    turn: Option<String>,
    /// How long to wait; 0 for ever.
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    timeout: Option<String>,
}

impl WaitArgs {
    pub(crate) fn run_wait(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let legacy = self.exit || self.idle_ms.is_some();
        let personality = context.personality;
        let render = self.render_params(personality)?;
        let timeout_ms = render.timeout_ms;
        if let Some(delivery) = &self.turn {
            return wait_for_turn(context, delivery, timeout_ms);
        }
        let on_screen = render != RenderParams { timeout_ms, ..RenderParams::default() };
        if legacy && on_screen {
            let message =
                "Cannot mix legacy wait flags (--exit, --idle-ms) with render wait flags.";
            return Err(HostFault::invalid_input(message).into());
        }
        let mut result = if let Some(state) = self.for_agent {
            match self.ids.as_slice() {
                [id] if self.group.is_none() => {
                    wait_for_state(context, id, state.wanted_state(), timeout_ms)?
                }
                _ => self.wait_for_all(context, state.wanted_state(), timeout_ms)?,
            }
        } else if on_screen {
            if let (Personality::AgentTty, Some(pattern)) = (personality, &render.regex) {
                wait::check_nested_quantifiers(pattern)?;
            }
            wait::check_conditions(&render)?;
            wait::wait_for_render(&context.find_terminal(self.only_id()?)?, &render)?
        } else {
            let idle_ms = super::parse_span("--idle-ms", self.idle_ms.as_deref(), 1, personality)?;
            if self.exit == idle_ms.is_some() {
                let message = match (context.personality, self.exit) {
                    (Personality::Ostler, false) => {
                        "nothing to wait for: give --text, --regex, --gone, --changed, \
                         --screen-stable-ms, --idle-ms, --for-agent or --exit"
                    }
                    _ => "Exactly one of --exit and --idle-ms must be given.",
                };
                return Err(HostFault::new(FaultCode::InvalidDuration, message).into());
            }
            let params = WaitParams { exit: self.exit, idle_ms, timeout_ms };
            wait::wait_for_session(&context.find_terminal(self.only_id()?)?, &params)?
        };
        if context.personality == Personality::AgentTty {
            (result.condition, result.screen, result.exit_signal) = (None, None, None);
        }
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_wait_text(&result))?;
        }
        if result.timed_out {
            return Ok(error::exit_code_of("WAIT_TIMEOUT"));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The one terminal whose screen or program is waited for.
    fn only_id(&self) -> Result<&str, Error> {
        match self.ids.as_slice() {
            [id] => Ok(id),
            _ => Err(Error::usage_error(
                "a screen or a program is waited for in one terminal, and several are named",
                "name one, or wait for agents: `--for-agent idle`",
            )),
        }
    }

    /// Waits for several agents, or for those of a group.
    fn wait_for_all(
        &self,
        context: &CliContext,
        wanted: AwaitedActivity,
        timeout_ms: Option<u64>,
    ) -> Result<WaitResult, Error> {
        let mut found = Vec::new();
        for id in &self.ids {
            found.push((id.clone(), find_awaited(context, id)?));
        }
        let members = self.group.as_deref().map(|group| find_group(context, group)).transpose()?;
        let terminals = context.terminals_home()?;
        for member in members.into_iter().flatten() {
            match member.terminal.as_deref().map(|id| terminals.open_session(id)) {
                Some(Ok(session)) => {
                    found.push((session.id.clone(), FoundAgent::Terminal(Box::new(session))));
                }
                // What was never started, or is not kept any more, is over.
                _ if wanted == AwaitedActivity::Ended => {}
                _ => {
                    let message = format!("`{}` does not run", member.full_name());
                    return Err(HostFault::new(FaultCode::SessionNotRunning, message).into());
                }
            }
        }
        let agents = found.iter().map(|(name, agent)| {
            let agent = match agent {
                FoundAgent::Terminal(session) => AwaitedAgent::InTerminal(session),
                FoundAgent::Session(name) => AwaitedAgent::OfSession(name.clone()),
            };
            (name.clone(), agent)
        });
        let wait = SeveralAgents { agents: agents.collect(), wanted, any: self.any, timeout_ms };
        Ok(wait_for_several(&wait, context.live_source(ObserveScope::All, &[])?)?)
    }

    fn render_params(&self, personality: Personality) -> Result<RenderParams, HostFault> {
        Ok(RenderParams {
            text: self.text.clone(),
            regex: self.regex.clone(),
            gone: self.gone.clone(),
            changed_since: self.changed.then(|| self.since_hash.clone().unwrap_or_default()),
            screen_stable_ms: super::parse_span(
                "--screen-stable-ms",
                self.screen_stable_ms.as_deref(),
                1,
                personality,
            )?,
            cursor_row: super::parse_position("--cursor-row", self.cursor_row.as_deref())?,
            cursor_col: super::parse_position("--cursor-col", self.cursor_col.as_deref())?,
            after_seq: super::parse_whole("--after-seq", self.after_seq.as_deref())?
                .map(|seq| i64::try_from(seq).unwrap_or(i64::MAX)),
            timeout_ms: super::parse_span("--timeout", self.timeout.as_deref(), 0, personality)?,
            renderer_name: None,
        })
    }
}

/// What an id names.
enum FoundAgent {
    Terminal(Box<HostedSession>),
    Session(SessionName),
}

/// The terminal that is meant, else the conversation, wherever it runs.
fn find_awaited(context: &CliContext, id: &str) -> Result<FoundAgent, Error> {
    match context.find_terminal(id) {
        Ok(session) => Ok(FoundAgent::Terminal(Box::new(session))),
        Err(Error::NotHosted { .. }) => {
            let observation = context.observe_now(ObserveScope::All, &[])?;
            let here = std::env::current_dir().unwrap_or_default();
            let found = flows::address::resolve_session(&observation, id, &here)?;
            Ok(FoundAgent::Session(found.session.session_name()))
        }
        Err(error) => Err(error),
    }
}

/// Waits for the agent in a terminal, or for the one that has a conversation elsewhere.
fn wait_for_state(
    context: &CliContext,
    id: &str,
    wanted: AwaitedActivity,
    timeout_ms: Option<u64>,
) -> Result<WaitResult, Error> {
    let wait = |agent, scope| {
        let wait = AgentWait { agent, wanted, timeout_ms, cancelled: None };
        Ok(wait_for_agent(&wait, context.live_source(scope, &[])?)?)
    };
    match find_awaited(context, id)? {
        FoundAgent::Terminal(session) => {
            wait(AwaitedAgent::InTerminal(&session), ObserveScope::Active)
        }
        // Also its end is to be seen.
        FoundAgent::Session(name) => wait(AwaitedAgent::OfSession(name), ObserveScope::All),
    }
}

/// Waits for the end of the turn that a prompt began; tells it as the prompt would have.
fn wait_for_turn(
    context: &CliContext,
    id: &str,
    timeout_ms: Option<u64>,
) -> Result<ExitCode, Error> {
    let machine = context.machine()?;
    let mut ledger = ControlLedger::new(machine);
    let kept = ledger.list_deliveries(None, None).map_err(EventsError::from)?;
    let ids = kept.into_iter().map(|kept| kept.record.id);
    let delivery = pick_by_id(ids, id, |one| [one]).map_err(|why| match why {
        NoSingleId::Nothing => AddressError::NotFound(id.to_owned()),
        NoSingleId::Several(candidates) => {
            AddressError::Ambiguous { text: id.to_owned(), candidates }
        }
    })?;
    let mut observe = || {
        let later = context.next_turn();
        later.observe_now(ObserveScope::All, &[]).map_err(|error| error.to_string())
    };
    let timeout = match timeout_ms.unwrap_or(wait::DEFAULT_WAIT_MS) {
        0 => None,
        millis => Some(Duration::from_millis(millis)),
    };
    let delivery = await_delivery_turn(&mut ledger, &delivery, timeout, &mut observe)?;
    ls::report_incomplete(&ledger.incomplete);
    let turn = delivery.turn.as_ref().map(|turn| turn.end);
    match delivery_failure(delivery.state, turn) {
        Some("TURN_FAILED") => {
            return Err(Error::TurnNotAnswered(Box::new(delivery), "TURN_FAILED"));
        }
        Some(_) => return Err(Error::NotDelivered(Box::new(delivery))),
        None => {}
    }
    let code = error::exit_code_for(&ledger.incomplete);
    if context.json {
        context.print_json(PromptResult { delivery, incomplete: ledger.incomplete })?;
    } else {
        output::print_text("its turn is over\n")?;
    }
    Ok(code)
}

fn render_wait_text(result: &WaitResult) -> String {
    if result.timed_out {
        let mut out = "Wait timed out.\n".to_owned();
        if let Some(condition) = &result.condition {
            out.push_str(&format!("Waited for: {}\n", text::one_line(condition)));
        }
        if let Some(screen) = &result.screen {
            out.push_str(&format!("The screen now:\n{}\n", text::many_lines(screen.trim_end())));
        }
        return out;
    }
    if let Some(signal) = &result.exit_signal {
        return format!("Session was ended by signal {}.\n", text::one_line(signal));
    }
    let mut out = match (result.matched, result.exit_code) {
        (Some(true), _) => "Wait condition matched.\n".to_owned(),
        (Some(false), _) => "Screen content fits; its stability cannot be proven.\n".to_owned(),
        (None, Some(code)) => format!("Session exited with code {code}.\n"),
        (None, None) => "Wait completed.\n".to_owned(),
    };
    if let Some(agent) = &result.agent {
        let (name, activity) = (&agent.agent, agent.activity.as_str());
        out.push_str(&format!("Agent: {name} {}, {activity}\n", text::one_line(&agent.id)));
    }
    for one in &result.sessions {
        let state = match &one.agent {
            _ if one.ended => "ended",
            Some(agent) => agent.activity.as_str(),
            None => "unknown",
        };
        out.push_str(&format!("{}: {state}\n", text::one_line(&one.session)));
    }
    if let Some(matched) = &result.matched_text {
        out.push_str(&format!("Matched: {}\n", text::one_line(matched)));
    }
    if let Some(seq) = result.captured_at_seq {
        out.push_str(&format!("Captured at seq: {seq}\n"));
    }
    out
}
