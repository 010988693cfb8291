//! Commands that answer requests over HTTP: run in this process, their answer goes to the client.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flows::terminal::screen::Personality;
use model::fleet_order::OrderedRunResult;
use model::wire::ErrorEnvelope;
use sys::machine::Machine;

use crate::api::{CommandRunner, ServedError, ServedOutcome, ServedRequest, SharedAnswer};
use crate::cli::usage_error::first_paragraph;
use crate::cli::{CliContext, read_command_line, schema};
use crate::error::{self, Error};
use crate::render::output;

/// The command line, as the API uses it.
pub(crate) const COMMAND_RUNNER: CommandRunner =
    CommandRunner { run: run_served, schema: schema_named };

fn schema_named(name: &str) -> Option<schemars::Schema> {
    schema::list_schemas().into_iter().find(|(one, _)| one == name).map(|(_, schema)| schema)
}

/// Runs a command line, without the program's name.
fn run_served(request: ServedRequest, sink: Box<dyn Write>) -> ServedOutcome {
    let arguments = request.arguments;
    let machine = Machine::here();
    let now = machine.as_ref().map_or_else(|_| sys::clock::now(), Machine::now);
    let json = arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let mut words: Vec<OsString> = vec!["ostler".into()];
    words.extend(arguments);
    let failed = |name: &str, error: &Error| {
        let envelope =
            ErrorEnvelope { ok: false, command: name, timestamp: now, error: error.to_body() };
        let mut envelope = serde_json::to_vec(&envelope).unwrap_or_default();
        envelope.push(b'\n');
        Err(ServedError {
            code: error.stable_code(),
            writer_busy: error.is_writer_busy(),
            envelope,
        })
    };
    let (globals, command) = match read_command_line(&words) {
        Ok(read) => read,
        Err(error) => {
            let message = first_paragraph(&error.render().to_string());
            let hint = "`ostler schema --openapi` describes every route";
            return failed("web", &Error::usage_error(message, hint));
        }
    };
    let context = CliContext {
        json,
        name: command.name,
        now,
        personality: Personality::Ostler,
        machine,
        use_index: !globals.no_index,
        agent_tty: None,
        caller: request.caller,
    };
    match output::run_with_sink(sink, || (command.run)(&context)) {
        Err(error) if !error.is_broken_pipe() => failed(context.name, &error),
        Err(_) => Ok(0),
        Ok(code) => Ok(exit_number(code)),
    }
}

/// The number of an exit code, which only compares.
fn exit_number(code: ExitCode) -> u8 {
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
}

/// Runs a command line in this process and keeps what it printed.
pub(crate) fn run_captured(arguments: Vec<OsString>) -> OrderedRunResult {
    let kept = SharedAnswer::default();
    let request = ServedRequest { arguments, caller: None };
    let outcome = run_served(request, Box::new(KeepingSink(kept.clone())));
    ordered_result(outcome, kept.take())
}

/// How a command that was ordered from afar ended: its answer, or its error in an envelope.
pub(crate) fn ordered_result(outcome: ServedOutcome, printed: Vec<u8>) -> OrderedRunResult {
    match outcome {
        Ok(exit) => OrderedRunResult { exit, body: STANDARD.encode(printed) },
        Err(failed) => {
            let exit = error::exit_number_of(failed.code);
            OrderedRunResult { exit, body: STANDARD.encode(failed.envelope) }
        }
    }
}

struct KeepingSink(SharedAnswer);

impl Write for KeepingSink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
