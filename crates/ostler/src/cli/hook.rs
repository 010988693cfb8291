//! `ostler hook`

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use sys::machine::Machine;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Internal, 1),
    effect: WritesState,
    cases: &[usual("hook claude-code Stop")],
    uncased: &[(Refused, "it always succeeds"), ONE_HOME, ONE_PROGRAM],
    ..entry!("hook", HookArgs, run_hook)
}];

/// Take in one report of an agent's hook (agents run this; `ostler hooks install` arranges it).
///
/// Reads the payload from standard input, or from the argument where an agent gives it there,
/// and adds one line to the spool. Prints nothing and always succeeds: a problem of ostler's must
/// never be one of the agent's. `ostler doctor` shows what went wrong. Only the hook of an agent that was launched
/// with `--permissions ostler` waits: it prints the answer that `ostler permit` gave.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// The agent, as `ostler adapters` names it.
    agent: String,
    /// What the agent calls the event.
    event: String,
    /// The payload, for agents that pass it as an argument.
    payload: Option<String>,
}

impl HookArgs {
    pub(crate) fn run_hook(&self, _: &CliContext) -> Result<ExitCode, Error> {
        Ok(receive_report(&self.agent, &self.event, self.payload.as_deref()))
    }
}

/// The arguments of a hook, taken without building the command tree: an agent is waiting. Wrong ones
/// are a problem to be logged like any other, since an agent may take an exit code for an order.
/// `None` when a person asks for help.
pub(crate) fn run_without_parser(arguments: &[OsString]) -> Option<ExitCode> {
    if arguments.iter().take(2).any(|argument| argument == "--help" || argument == "-h") {
        return None;
    }
    let text = |index: usize| Some(arguments.get(index)?.to_string_lossy());
    let (agent, event) = (text(0).unwrap_or_default(), text(1).unwrap_or_default());
    Some(receive_report(&agent, &event, text(2).as_deref()))
}

fn receive_report(agent: &str, event: &str, argument: Option<&str>) -> ExitCode {
    // Not even a defect of ostler may disturb the agent.
    std::panic::set_hook(Box::new(|_| {}));
    let _ = std::panic::catch_unwind(|| {
        let machine = Machine::here();
        let call = flows::hook::HookCall {
            agent,
            event,
            argument,
            stdin: sys::input::unbuffered_stdin(),
            at: super::began(&machine),
            machine: machine.as_ref().map_err(ToString::to_string),
            runtime: &sys::dirs::runtime_of_this_process(),
        };
        if let Some(reply) = flows::hook::receive_report(&call) {
            // The answer goes to the agent before anybody is told that it has it.
            if output::print_text(&reply.text).is_ok() {
                reply.note_given();
            }
        }
    });
    ExitCode::SUCCESS
}
