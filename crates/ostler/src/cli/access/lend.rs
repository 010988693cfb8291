//! `ostler access env` and `ostler access exec`

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use access::list;
use access::rules::agent_env::AgentEnv;
use clap::Args;
use clap_complete::ArgValueCandidates;

use super::open;
use crate::cli::{CliContext, complete};
use crate::error::Error;

declare_commands![
    CommandEntry {
        place: HelpPlace(Credentials, 4),
        answers: &[answer::<access_wire::AccessEnvResult>()],
        examples: &[
            example("access env ID", "The environment again, for another shell.").on(Access)
        ],
        cases: &[
            empty("access env nothing"),
            usual("access env ID").on(Access),
            refused("access env nothing").on(Access)
        ],
        uncased: &[ONE_FILE],
        ..entry!("access env", AccessEnvArgs, run_access_env)
    },
    CommandEntry {
        place: HelpPlace(Credentials, 5),
        examples: &[example("access exec ID -- /bin/true", "Run a command with it.").on(Access)],
        cases: &[
            empty("access exec nothing -- /bin/true"),
            usual("access exec ID -- /bin/true").on(Access),
            refused("access exec nothing -- /bin/true").on(Access)
        ],
        uncased: &[ONE_FILE],
        ..entry!("access exec", AccessExecArgs, run_access_exec)
    }
];

/// Print the environment that lends a session, for a shell to evaluate.
///
/// The socket's path stays the same for as long as the session lives: a shell that is attached to
/// again keeps working.
#[derive(Debug, Args)]
pub(crate) struct AccessEnvArgs {
    /// The access session: an id, an unambiguous prefix or a label.
    #[arg(add = ArgValueCandidates::new(complete::complete_access_sessions))]
    id: String,
}

impl AccessEnvArgs {
    pub(crate) fn run_access_env(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let (meta, lent) = list::lend_access(&context.machine_of_state()?, &self.id)?;
        open::print_environment(context, &meta, lent)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Run a command with a session's agent.
#[derive(Debug, Args)]
pub(crate) struct AccessExecArgs {
    /// The access session: an id, an unambiguous prefix or a label.
    #[arg(add = ArgValueCandidates::new(complete::complete_access_sessions))]
    id: String,
    /// The command.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl AccessExecArgs {
    pub(crate) fn run_access_exec(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let (_, lent) = list::lend_access(&context.machine_of_state()?, &self.id)?;
        let Some((program, args)) = self.command.split_first() else {
            return Err(Error::usage_error("no command was given", "write it after `--`"));
        };
        Err(become_command(program, args, &lent))
    }
}

/// Becomes the command; comes back only with the reason why not.
pub(super) fn become_command(program: &OsStr, args: &[OsString], lent: &AgentEnv) -> Error {
    let error = Command::new(program)
        .args(args)
        .env("SSH_AUTH_SOCK", &lent.socket)
        .env("SSH_AGENT_PID", lent.pid.to_string())
        .exec();
    Error::usage_error(
        format!("`{}` cannot be started: {error}", program.to_string_lossy()),
        "name a program that is there and may be run",
    )
}
