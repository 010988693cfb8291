//! `ostler outcome`

use std::process::ExitCode;

use clap::Args;
use model::fleet_order::OrderState;
use model::wire::OutcomeResult;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(SetUp, 7),
    answers: &[answer::<wire::OutcomeResult>()],
    examples: &[example(
        "outcome 01KABCDEFGHJKMNPQRSTVWXYZ0",
        "What became of an order that another machine gave."
    )],
    cases: &[empty("outcome 01KABCDEFGHJKMNPQRSTVWXYZ0"), refused("outcome")],
    uncased: &[(Usual, "an order needs a fleet: crates/net/tests/net/orders.rs"), ONE_FILE],
    ..entry!("outcome", OutcomeArgs, run_outcome)
}];

/// Tell what became of an order that an operator of the fleet gave to this home.
///
/// With `--host NAME` it is asked there. *Applied* and *not applied* are certain; *unknown* means that it was
/// begun and its end was not noted: look at what it would have changed, and do not repeat it blindly.
#[derive(Debug, Args)]
pub(crate) struct OutcomeArgs {
    /// The order's id.
    #[arg(value_name = "ID")]
    id: String,
}

impl OutcomeArgs {
    pub(crate) fn run_outcome(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let result = flows::fleet_orders::read_outcome(context.machine()?.home(), &self.id)?;
        match context.json {
            true => context.print_json(&result)?,
            false => output::print_text(&describe_outcome(&result))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn describe_outcome(result: &OutcomeResult) -> String {
    let word = match result.state {
        OrderState::Applied => "applied",
        OrderState::NotApplied | OrderState::Void => "not applied",
        OrderState::Begun | OrderState::Unknown => "unknown",
    };
    let mut line = word.to_owned();
    if let Some(order) = &result.order {
        line.push_str(&format!(": {} by {} at {}", order.command, order.operator, order.at));
        if let Some(exit) = order.exit {
            line.push_str(&format!(", exit {exit}"));
        }
        if let Some(receipt) = &order.receipt {
            line.push_str(&format!(", receipt {receipt}"));
        }
    }
    text::one_line(&line) + "\n"
}
