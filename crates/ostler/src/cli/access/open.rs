//! `ostler access open`

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use access::rules::agent_env::AgentEnv;
use access::rules::meta::AccessMeta;
use access::stop::{StopReason, stop_access};
use access::wire::{AccessEnvResult, LentEnvironment};
use access::{list, open};
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::observe::ObserveScope;
use sys::machine::Machine;

use super::lend;
use crate::cli::{CliContext, complete};
use crate::error::Error;
use crate::render::{duration, output};

declare_commands![CommandEntry {
    place: HelpPlace(Credentials, 1),
    effect: WritesState,
    answers: &[answer::<access_wire::AccessEnvResult>()],
    examples: &[
        example(
            "access open --ttl 5m --generate --label deploy",
            "Lend a new key for five minutes; evaluate what is printed."
        )
        .on(Fresh),
        example(
            "access open --generate -- /bin/true",
            "Lend one to a command, and take it back at its end."
        )
        .on(Fresh)
    ],
    cases: &[
        usual("access open --ttl 5m --generate --label work").on(Fresh),
        refused("access open --ttl 1s")
    ],
    uncased: &[
        (Empty, "a home without access sessions is where it usually opens one"),
        ONE_PROGRAM
    ],
    ..entry!("access open", AccessOpenArgs, run_access_open)
}];

/// Open an access session and print the environment that lends it.
///
/// Evaluate what is printed (`eval "$(ostler access open --key ~/.ssh/id_ed25519)"`), or give a
/// command to run with it: the session is closed when the command ends, however it ends. Without a
/// key the session is empty and the borrower may add some; with one it is read-only, unless
/// `--allow-add` is given. Every use of a key is in `ostler access log`.
#[derive(Debug, Args)]
pub(crate) struct AccessOpenArgs {
    /// How long the keys live: between a minute and a day.
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = parse_ttl)]
    ttl: Duration,
    /// What to call it; shown to everybody who lists sessions.
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// A private key to lend, read by ssh-add; may be given several times.
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// Lend a new key that exists nowhere but in the agent.
    #[arg(long)]
    generate: bool,
    /// Ask before each use of a key (ssh-askpass).
    #[arg(long)]
    confirm: bool,
    /// Lend the keys for this host only, as `ssh-add -h` takes it; may be given several times.
    #[arg(long, value_name = "HOST")]
    destination: Vec<String>,
    /// Look the keys of these hosts up in this file instead of your own known hosts.
    #[arg(long, value_name = "FILE", requires = "destination")]
    known_hosts: Option<PathBuf>,
    /// Let the borrower add keys of its own.
    #[arg(long)]
    allow_add: bool,
    /// What happens to a signature that cannot be logged: refused, or given all the same.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = LogDuty::Strict)]
    log: LogDuty,
    /// Bind it to a session: when that session's process is gone, the access is stopped.
    #[arg(long, value_name = "ID", conflicts_with = "command",
          add = ArgValueCandidates::new(complete::complete_sessions))]
    session: Option<String>,
    /// The command to run with it.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How much the log of an access session matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogDuty {
    /// No line, no signature.
    Strict,
    /// The work goes on with a full disk.
    BestEffort,
}

fn parse_ttl(text: &str) -> Result<Duration, String> {
    duration::parse_duration(text).ok_or_else(|| "write it like 30m, 1h or 8h".to_owned())
}

impl AccessOpenArgs {
    pub(crate) fn run_access_open(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine_of_state()?;
        let request = open::OpenAccessRequest {
            ttl: self.ttl,
            label: self.label.clone(),
            keys: self.key.clone(),
            generate: self.generate,
            confirm: self.confirm,
            destinations: self.destination.clone(),
            known_hosts: self.known_hosts.clone(),
            allow_add: self.allow_add,
            signs_unlogged: self.log == LogDuty::BestEffort,
            binding: self.resolve_binding(context, &machine)?,
        };
        let (meta, lent) = open::open_access(&request, &machine)?;
        if let Some((program, args)) = self.command.split_first() {
            let error = lend::become_command(program, args, &lent);
            // The command did not start: no other process will close the session.
            stop_access(&machine.next_turn(), &meta.id, StopReason::CommandEnded, false)?;
            return Err(error);
        }
        print_environment(context, &meta, lent)?;
        Ok(ExitCode::SUCCESS)
    }

    fn resolve_binding(
        &self,
        context: &CliContext,
        machine: &Machine,
    ) -> Result<Option<access::rules::meta::SessionBinding>, Error> {
        if let Some(text) = &self.session {
            let observation = context.observe_now(ObserveScope::All, &[])?;
            let here = context.current_dir();
            let found = address::resolve_session(&observation, text, &here)?;
            return Ok(Some(open::bind_to_session(&found.session, &found.verdict, machine)?));
        }
        let Some(program) = self.command.first() else { return Ok(None) };
        Ok(Some(open::bind_to_this_process(&program.to_string_lossy(), machine)?))
    }
}

/// Prints what a borrower needs.
pub(super) fn print_environment(
    context: &CliContext,
    meta: &AccessMeta,
    lent: AgentEnv,
) -> Result<(), Error> {
    if !context.json {
        return output::print_text(&lent.to_shell());
    }
    context.print_json(AccessEnvResult {
        id: meta.id.clone(),
        expires_at: meta.expires_at,
        environment: LentEnvironment { ssh_auth_sock: lent.socket, ssh_agent_pid: lent.pid },
        keys: meta.keys.iter().map(list::key_view).collect(),
    })
}
