//! The command line: one file per command, two lines here for each.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use flows::observe::{Observation, ObserveRequest, ObserveScope, observe_sessions};
use flows::terminal::TerminalHome;
use flows::terminal::screen::Personality;
use model::time::Time;

use crate::config::{self, LoadedConfig};
use crate::env;
use crate::error::{self, Error};
use crate::logging;
use crate::render::output;

mod access;
mod adapters;
pub(crate) mod agent_tty;
mod agents;
mod complete;
mod completions;
mod config_show;
mod daemon;
mod doctor;
mod du;
mod events;
mod finalize;
mod gc;
mod help;
pub(crate) mod hook;
mod hooks;
mod logs;
mod ls;
mod man;
mod pin;
mod schema;
mod search;
mod show;
mod skills;
mod status;
mod store;
mod terminal;
mod trash;
mod usage;
mod vault;
pub(crate) mod version;
mod why;

pub(crate) use access::run_keeper as keep_access;

/// Tells the truth about every AI coding agent session on this machine.
///
/// Without a command, `ostler` lists the sessions that are live. It reads agents' own files and
/// the process table; it needs no daemon, no server and no configuration, and it changes nothing.
#[derive(Debug, Parser)]
#[command(
    name = "ostler",
    disable_help_subcommand = true,
    disable_version_flag = true,
    propagate_version = false,
    after_help = "Ids may be shortened to an unambiguous prefix; a name, `.` (this directory) and \
                  `-` (the newest) work too.\nExit codes: `ostler help exit-codes`."
)]
struct Cli {
    /// Answer as JSON, in one envelope; streams are one object per line.
    #[arg(long, global = true)]
    json: bool,
    /// Read every file anew, without the index.
    #[arg(long, global = true)]
    no_index: bool,
    /// Say on stderr what happens inside, as `OSTLER_LOG=debug` does.
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Print the version.
    #[arg(short = 'V', long)]
    version: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ls(ls::LsArgs),
    Show(show::ShowArgs),
    Why(why::WhyArgs),
    Logs(logs::LogsArgs),
    Search(search::SearchArgs),
    Usage(usage::UsageArgs),
    #[command(flatten)]
    Terminal(terminal::TerminalCommand),
    Skills(skills::SkillsArgs),
    Adapters(adapters::AdaptersArgs),
    Du(du::DuArgs),
    Access(access::AccessArgs),
    Config(config_show::ConfigArgs),
    Status(status::StatusArgs),
    Doctor(doctor::DoctorArgs),
    Summary(vault::SummaryArgs),
    Finalize(finalize::FinalizeArgs),
    Gc(gc::GcArgs),
    Pin(pin::PinArgs),
    Store(store::StoreArgs),
    Undo(trash::UndoArgs),
    Trash(trash::TrashArgs),
    Agents(agents::AgentsArgs),
    Vault(vault::VaultArgs),
    Events(events::EventsArgs),
    Daemon(daemon::DaemonArgs),
    Hook(hook::HookArgs),
    Hooks(hooks::HooksArgs),
    Schema(schema::SchemaArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    Version(version::VersionArgs),
    Help(help::HelpArgs),
}

impl Command {
    /// The name in the envelope.
    fn envelope_name(&self) -> &'static str {
        match self {
            Self::Ls(_) => "ls",
            Self::Show(_) => "show",
            Self::Why(_) => "why",
            Self::Logs(_) => "logs",
            Self::Search(_) => "search",
            Self::Usage(_) => "usage",
            Self::Terminal(command) => command.envelope_name(),
            Self::Skills(command) => command.envelope_name(),
            Self::Adapters(_) => "adapters",
            Self::Du(_) => "du",
            Self::Access(command) => command.envelope_name(),
            Self::Config(command) => command.envelope_name(),
            Self::Status(_) => "status",
            Self::Doctor(_) => "doctor",
            Self::Summary(_) => "summary",
            Self::Finalize(_) => "finalize",
            Self::Gc(_) => "gc",
            Self::Pin(_) => "pin",
            Self::Store(command) => command.envelope_name(),
            Self::Undo(_) => "undo",
            Self::Trash(command) => command.envelope_name(),
            Self::Agents(command) => command.envelope_name(),
            Self::Vault(command) => command.envelope_name(),
            Self::Events(_) => "events",
            Self::Daemon(command) => command.envelope_name(),
            Self::Hook(_) => "hook",
            Self::Hooks(command) => command.envelope_name(),
            Self::Schema(_) => "schema",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
            Self::Version(_) => "version",
            Self::Help(_) => "help",
        }
    }

    /// The role of a command that runs for long, and logs to a file.
    fn runs_for_long(&self) -> Option<&'static str> {
        matches!(self, Self::Daemon(command) if command.envelope_name() == "daemon run")
            .then_some("daemon")
    }

    fn run_command(&self, context: &CliContext) -> Result<ExitCode, Error> {
        match self {
            Self::Ls(command) => command.run_ls(context),
            Self::Show(command) => command.run_show(context),
            Self::Why(command) => command.run_why(context),
            Self::Logs(command) => command.run_logs(context),
            Self::Search(command) => command.run_search(context),
            Self::Usage(command) => command.run_usage(context),
            Self::Terminal(command) => command.run_terminal_command(context),
            Self::Skills(command) => command.run_skills(context),
            Self::Adapters(command) => command.run_adapters(context),
            Self::Du(command) => command.run_du(context),
            Self::Access(command) => command.run_access(context),
            Self::Config(command) => command.run_config(context),
            Self::Status(command) => command.run_status(context),
            Self::Doctor(command) => command.run_doctor(context),
            Self::Summary(command) => command.run_summary(context),
            Self::Finalize(command) => command.run_finalize(context),
            Self::Gc(command) => command.run_gc(context),
            Self::Pin(command) => command.run_pin(context),
            Self::Store(command) => command.run_store(context),
            Self::Undo(command) => command.run_undo(context),
            Self::Trash(command) => command.run_trash(context),
            Self::Agents(command) => command.run_agents(context),
            Self::Vault(command) => command.run_vault(context),
            Self::Events(command) => command.run_events(context),
            Self::Daemon(command) => command.run_daemon_command(context),
            Self::Hook(command) => Ok(command.run_hook()),
            Self::Hooks(command) => command.run_hooks(context),
            Self::Schema(command) => command.run_schema(context),
            Self::Completions(command) => command.run_completions(context),
            Self::Man(command) => command.run_man(context),
            Self::Version(command) => command.run_version(context),
            Self::Help(command) => command.run_help(context),
        }
    }
}

/// What every command is given.
pub(crate) struct CliContext {
    /// Whether to answer as JSON.
    pub(crate) json: bool,
    /// The name in the envelope.
    pub(crate) name: &'static str,
    /// When the command began.
    pub(crate) now: Time,
    /// Under which name terminals are used.
    pub(crate) personality: Personality,
    use_index: bool,
    agent_tty: Option<agent_tty::AgentTtyGlobals>,
}

impl CliContext {
    /// ostler's own directories.
    pub(crate) fn ostler_dirs(&self) -> Result<sys::dirs::Dirs, Error> {
        Ok(sys::dirs::of_this_process()?)
    }

    /// The settings.
    pub(crate) fn load_config(&self) -> Result<LoadedConfig, Error> {
        config::load_config()
    }

    /// ostler's own state.
    pub(crate) fn ostler_home(&self) -> Result<std::path::PathBuf, Error> {
        sys::dirs::home_of_this_process().map_err(|error| {
            Error::usage_error(error.to_string(), "set HOME, or OSTLER_HOME to an absolute path")
        })
    }

    /// Where hosted terminals are.
    pub(crate) fn terminals_home(&self) -> Result<TerminalHome, Error> {
        if let Some(globals) = &self.agent_tty {
            return Ok(globals.terminals_home());
        }
        let dirs = sys::dirs::of_this_process().map_err(|error| {
            Error::usage_error(error.to_string(), "set `HOME` or `OSTLER_HOME`")
        })?;
        Ok(TerminalHome {
            root: dirs.home,
            sockets: dirs.runtime,
            personality: Personality::Ostler,
            inherit: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// After how long without input or output a new terminal is hung up, if nobody says.
    pub(crate) fn idle_timeout_ms(&self) -> u64 {
        self.agent_tty.as_ref().map_or(0, |globals| globals.idle_timeout_ms)
    }

    /// Looks at the machine.
    pub(crate) fn observe_now(
        &self,
        scope: ObserveScope,
        agents: &[String],
    ) -> Result<Observation, Error> {
        self.observe_at(self.now, scope, agents)
    }

    /// Looks at the machine at another time than the command began.
    pub(crate) fn observe_at(
        &self,
        now: Time,
        scope: ObserveScope,
        agents: &[String],
    ) -> Result<Observation, Error> {
        let config = self.load_config()?.config;
        // Without a home there is nowhere to look, and that is not the same as finding nothing.
        if env::home_dir().is_none_or(|home| !home.is_absolute()) {
            return Err(Error::usage_error(
                "`HOME` does not name a directory, so that agents' files cannot be found",
                "set `HOME` to an absolute path",
            ));
        }
        let dirs = self.ostler_dirs()?;
        Ok(observe_sessions(&ObserveRequest {
            env: flows::EnvLookup::new(&env::lookup_variable),
            config: &config,
            home: Some(&dirs.home),
            cache: Some(dirs.cache.as_path()).filter(|_| self.use_index),
            now,
            scope,
            agents,
        }))
    }

    /// Writes the answer as JSON.
    pub(crate) fn print_json<T: serde::Serialize>(&self, result: T) -> Result<(), Error> {
        output::print_json(self.name, self.now, result)
    }
}

/// Reads the command line, runs the command, reports its error.
pub(crate) fn run_ostler() -> ExitCode {
    sys::memory::expect_many_small_allocations();
    clap_complete::CompleteEnv::with_factory(Cli::command).complete();
    let now = sys::clock::now();
    let args: Vec<_> = std::env::args_os().collect();
    let as_json = args.iter().any(|arg| arg == "--json");
    let cli = match Cli::command()
        .try_get_matches_from(&args)
        .and_then(|matches| Cli::from_arg_matches(&matches))
    {
        Ok(cli) => cli,
        Err(error) => return report_usage_error(&error, command_named_in(&args), now, as_json),
    };
    if cli.version {
        return version::print_version();
    }
    if let Ok(dirs) = sys::dirs::of_this_process() {
        sys::wall_clock::keep_readings_in(&dirs.cache);
    }
    let command = cli.command.unwrap_or_else(|| Command::Ls(ls::LsArgs::default()));
    match command.runs_for_long() {
        Some(role) if !cli.verbose => logging::log_role(role),
        _ => logging::log_command(cli.verbose),
    }
    tracing::debug!(command = command.envelope_name(), version = version::OSTLER_VERSION, "begins");
    let context = CliContext {
        json: cli.json,
        name: command.envelope_name(),
        now,
        personality: Personality::Ostler,
        use_index: !cli.no_index,
        agent_tty: None,
    };
    match command.run_command(&context) {
        Ok(code) => code,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            tracing::debug!(exit = ?error.exit_code(), "ends with an error");
            output::report_error(context.name, now, &error, context.json);
            error.exit_code()
        }
    }
}

/// Reports what clap has to say: help is an answer, the rest is an error in the command line.
fn report_usage_error(error: &clap::Error, command: &str, now: Time, as_json: bool) -> ExitCode {
    use clap::error::ErrorKind;

    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if as_json {
        let message = first_paragraph(&error.render().to_string());
        let error =
            Error::usage_error(message, "`ostler help` lists the commands and their options");
        output::report_error(command, now, &error, true);
    } else {
        let _ = error.print();
    }
    error::exit_code_of("INVALID_INPUT")
}

/// What is wrong, in one line, without clap's usage below it.
fn first_paragraph(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let paragraph = lines.collect::<Vec<_>>().join(" ");
    paragraph.strip_prefix("error: ").unwrap_or(&paragraph).to_owned()
}

/// The command that a command line with an error in it was meant for.
fn command_named_in(args: &[std::ffi::OsString]) -> &str {
    let word = args.iter().skip(1).find_map(|arg| arg.to_str().filter(|arg| !arg.starts_with('-')));
    word.filter(|word| command_tree().find_subcommand(word).is_some()).unwrap_or("ostler")
}

/// The whole command tree, for help, man pages and completions.
fn command_tree() -> clap::Command {
    Cli::command()
}
