//! `ostler who`

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::control::who::{agents_within, describe_holders, held_below};
use flows::observe::ObserveScope;
use model::address::EXACT_SIGN;
use model::control::wire::{ConversationHolders, WhoResult};

use crate::cli::{CliContext, complete, ls};
use crate::error::{self, Error};
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Drive, 7),
    answers: &[answer::<model::control::wire::WhoResult>()],
    examples: &[
        example("who 666e4f9b", "Which processes hold it, and how to get it."),
        example("who /home/user/repo", "Everything that is held in a directory.")
    ],
    cases: &[
        empty("who /"),
        usual("who 666e4f9b"),
        refused("who no-such-session").on(Worked),
        incomplete("who 666e4f9b")
    ],
    ..entry!("who", WhoArgs, run_who)
}];

/// Show who holds a conversation: every process that has it open or may, and how to get it.
///
/// A directory names every conversation that is held there. Nothing is signalled or started.
#[derive(Debug, Args)]
pub(crate) struct WhoArgs {
    /// The session, or a directory with a `/` in it.
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(complete::complete_sessions))]
    target: String,
}

impl WhoArgs {
    pub(crate) fn run_who(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let here = context.current_dir();
        let conversations = if self.target.contains('/') && !self.target.starts_with(EXACT_SIGN) {
            let directory = ls::absolute_directory(Some(self.target.as_ref()))?.unwrap_or_default();
            let held: Vec<_> = held_below(&observation, &directory).map(describe_holders).collect();
            // A mistyped path must not read as a free one.
            if held.is_empty() && !directory.is_dir() {
                return Err(Error::usage_error(
                    format!("`{}` is no directory, and nothing is held there", self.target),
                    "name a directory that is there, or a session",
                ));
            }
            held
        } else {
            let one = address::resolve_session(&observation, &self.target, &here)?;
            match agents_within(&observation, one) {
                agents if agents.is_empty() => vec![describe_holders(one)],
                agents => agents.into_iter().map(describe_holders).collect(),
            }
        };
        let result = WhoResult { conversations, incomplete: observation.incomplete };
        if context.json {
            context.print_json(&result)?;
        } else {
            let mut page: String = result.conversations.iter().map(render_holders).collect();
            if page.is_empty() {
                page.push_str("No conversation is held there.\n");
            }
            output::print_text(&page)?;
            ls::report_incomplete(&result.incomplete);
        }
        Ok(error::exit_code_for(&result.incomplete))
    }
}

fn render_holders(one: &ConversationHolders) -> String {
    let mut page = format!("{} {}\n", one.agent, text::one_line(&one.conversation));
    for holder in &one.holders {
        let pid = holder.process.pid.map_or_else(String::new, |pid| format!("pid {pid}, "));
        let terminal = holder.terminal.as_ref().map(|id| format!(", terminal {id}"));
        page.push_str(&format!(
            "  {} {pid}{}{}: {}\n",
            holder.liveness,
            holder.activity.as_str(),
            text::one_line(&terminal.unwrap_or_default()),
            text::one_line(&holder.evidence)
        ));
    }
    page.push_str(&format!("  {}", one.hand_over.reason));
    if let Some(command) = &one.hand_over.command {
        page.push_str(&format!(": `{}`", text::one_line(command)));
    }
    page + "\n"
}
