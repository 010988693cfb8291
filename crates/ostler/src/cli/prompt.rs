//! `ostler prompt`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::control::deliveries::ControlLedger;
use flows::control::prompt::{PromptRequest, deliver_prompt};
use flows::observe::ObserveScope;
use flows::terminal::source;
use model::control::delivery::{DeliveryRecord, delivery_failure};
use model::control::wire::PromptResult;
use model::time::parse_duration;

use crate::cli::{CliContext, complete, ls};
use crate::env;
use crate::error::{self, Error};
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Drive, 2),
    // The agent writes down what it is told.
    effect: WritesFiles,
    answers: &[answer::<::model::control::wire::PromptResult>()],
    examples: &[
        example("prompt build 'run the tests'", "Returns when the agent's own record holds it.")
            .on(Driven),
        example("send build 'and now mend them' --timeout 30m", "Waits for the end of a turn.")
            .on(Driven)
    ],
    cases: &[
        empty("prompt build hello"),
        usual("prompt build 'run the tests'").on(Driven),
        refused("prompt 666e4f9b hello").on(Worked),
        also("prompt build hello").on(Terminal),
        also("prompt build !ls").on(Driven)
    ],
    uncased: &[ONE_FILE],
    ..entry!("prompt", PromptArgs, run_prompt)
}];

/// Send a prompt to an agent, and say so only when the agent's own record holds it.
///
/// The agent runs in one of ostler's terminals, or has a queue of its own as Codex does: `codex queue` gets
/// the text as an argument, which other processes of this machine can read. In a terminal the text is
/// pasted; Enter is pressed only while it stands in the composer, and never while a question is open,
/// because Enter would answer that. An agent that works is waited for. Nothing is sent twice: exit code 14
/// means that Enter was pressed and no record holds the text yet, 15 that it did not arrive as given.
#[derive(Debug, Args)]
#[command(visible_alias = "send")]
pub(crate) struct PromptArgs {
    /// The session, or the terminal that its agent runs in.
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(complete::complete_sessions))]
    id: String,
    /// The text; `-` reads standard input.
    text: Option<String>,
    /// Take the text from a file.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Send it although the agent works, or it is not known what it does.
    #[arg(long)]
    now: bool,
    /// The text is a command of the agent: it may begin with `/` or `!`.
    #[arg(long)]
    command: bool,
    /// Send it although a person types there.
    #[arg(long)]
    over_person: bool,
    /// A name for this prompt: under the same name the same text is sent once, whoever asks again.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Return when the agent's record holds it, or when its turn is over.
    #[arg(long, value_name = "WHAT", default_value = "accepted")]
    wait: AwaitedOutcome,
    /// How long an agent that works is waited for.
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = parse_span)]
    timeout: Duration,
    /// How long the agent may take to record the prompt.
    #[arg(long, value_name = "SPAN", default_value = "15s", value_parser = parse_span)]
    accept_timeout: Duration,
}

/// What a prompt is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AwaitedOutcome {
    /// The agent's record holds it.
    Accepted,
    /// Its turn is over.
    Idle,
}

pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write it like 15s, 10m or 2h".to_owned())
}

impl PromptArgs {
    pub(crate) fn run_prompt(&self, context: &CliContext) -> Result<ExitCode, Error> {
        if self.id == "-" {
            return Err(Error::usage_error(
                "`-` is whichever session is newest, and a prompt must go to one that was meant",
                "name the session by its id, a prefix or its name",
            ));
        }
        let given = (self.text.as_deref(), self.file.as_deref());
        let text = source::read_text("text", given.0, given.1, context.personality)?;
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let here = context.current_dir();
        let target =
            address::resolve_session(&observation, &self.id, &here)?.session.session_name();
        let request = PromptRequest {
            target,
            text,
            into_working: self.now,
            is_command: self.command,
            over_person: self.over_person,
            key: self.key.clone(),
            wait_idle: self.wait == AwaitedOutcome::Idle,
            path: env::lookup_variable("PATH").unwrap_or_default(),
            idle_timeout: self.timeout,
            accept_timeout: self.accept_timeout,
        };
        let mut observe = || context.observe_later(&[]);
        let mut ledger = ControlLedger::new(context.machine()?).for_caller(&observation);
        let home = context.terminals_home()?;
        let delivery = deliver_prompt(&home, &request, &mut ledger, &mut observe)?;
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
            output::print_text(&render_receipt(&delivery))?;
        }
        Ok(code)
    }
}

pub(crate) fn render_receipt(delivery: &DeliveryRecord) -> String {
    let place = delivery.proof.as_ref().map_or("", |proof| proof.path.as_str());
    let after = delivery.accepted_ms.unwrap_or_default();
    format!(
        "{} by {} {} after {after}ms: {}\n",
        delivery.state.as_str(),
        delivery.agent,
        text::one_line(&delivery.session),
        text::one_line(place)
    )
}
