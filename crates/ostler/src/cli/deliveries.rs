//! `ostler deliveries`

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::control::deliveries::ControlLedger;
use flows::events::EventsError;
use flows::observe::ObserveScope;
use model::control::delivery::{DeliveryRecord, DeliveryState};
use model::control::wire::DeliveriesResult;

use crate::cli::prompt::parse_span;
use crate::cli::{CliContext, complete, ls};
use crate::error::{self, Error};
use crate::render::{duration, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Drive, 8),
    answers: &[answer::<::model::control::wire::DeliveriesResult>()],
    examples: &[
        example("deliveries build", "What became of the prompts to one agent.").on(Driven),
        example("deliveries --state unproven --since 1d", "What may not have arrived.")
    ],
    cases: &[
        empty("deliveries"),
        usual("deliveries build").on(Driven).after(&["prompt build 'run the tests'"]),
        refused("deliveries no-such-session").on(Worked),
        incomplete("deliveries")
    ],
    ..entry!("deliveries", DeliveriesArgs, run_deliveries)
}];

/// Show what became of the prompts that were sent.
///
/// Each is judged anew from the agent's transcript: a record that came late makes an unproven prompt an
/// accepted one, and tells how its turn ended. The texts themselves are not kept.
#[derive(Debug, Args)]
pub(crate) struct DeliveriesArgs {
    /// Only those to this session, or to the agent in this terminal.
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(complete::complete_sessions))]
    id: Option<String>,
    /// Only those in this state.
    #[arg(long, value_name = "STATE", value_parser = parse_state)]
    state: Option<DeliveryState>,
    /// Only those of the last so long.
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    since: Option<std::time::Duration>,
}

fn parse_state(word: &str) -> Result<DeliveryState, String> {
    let known = |state: &&DeliveryState| state.as_str() == word;
    DeliveryState::ALL.iter().find(known).copied().ok_or_else(|| {
        let words: Vec<&str> = DeliveryState::ALL.iter().map(|state| state.as_str()).collect();
        format!("there are: {}", words.join(", "))
    })
}

impl DeliveriesArgs {
    pub(crate) fn run_deliveries(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let here = context.current_dir();
        let machine = context.machine()?;
        let mut ledger = ControlLedger::new(machine);
        let since = self.since.map(|span| context.now.minus(span));
        let named = match &self.id {
            Some(id) => {
                let one = address::resolve_session(&observation, id, &here)?;
                let agents = flows::control::who::agents_within(&observation, one);
                let one = agents.first().copied().unwrap_or(one);
                Some(one.session.session_name())
            }
            None => None,
        };
        let kept = ledger.list_deliveries(named.as_ref(), since).map_err(EventsError::from)?;
        let mut deliveries: Vec<DeliveryRecord> =
            kept.into_iter().map(|kept| ledger.judge_delivery(kept, &observation)).collect();
        deliveries.retain(|one| self.state.is_none_or(|state| one.state == state));
        let mut incomplete = observation.incomplete;
        incomplete.append(&mut ledger.incomplete);
        let result = DeliveriesResult { deliveries, incomplete };
        if context.json {
            context.print_json(&result)?;
        } else {
            let mut page: String =
                result.deliveries.iter().map(|one| render_delivery(context, one)).collect();
            if page.is_empty() {
                page.push_str("No prompt was sent.\n");
            }
            output::print_text(&page)?;
            ls::report_incomplete(&result.incomplete);
        }
        Ok(error::exit_code_for(&result.incomplete))
    }
}

fn render_delivery(context: &CliContext, one: &DeliveryRecord) -> String {
    let age = duration::age_phrase(context.now.since(one.begun_at));
    let mut line =
        format!("{}  {}  {} {}  {age}", one.id, one.state.as_str(), one.agent, one.session);
    if let Some(turn) = &one.turn {
        let end = serde_json::to_value(turn.end).ok();
        let end = end.as_ref().and_then(serde_json::Value::as_str).unwrap_or("").to_owned();
        line.push_str(&format!("  turn {end}"));
    }
    if let Some(reason) = &one.reason {
        line.push_str(&format!("  {reason}"));
    }
    text::one_line(&line) + "\n"
}
