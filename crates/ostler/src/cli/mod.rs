//! The command line: one file per command, two lines here for each.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use flows::observe::{Observation, Request, Scope, observe};
use flows::terminal::Home;
use flows::terminal::screen::Personality;
use model::time::Time;

use crate::config::{self, Loaded};
use crate::env;
use crate::error::{self, Error};
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
mod show;
mod skills;
mod status;
mod store;
mod terminal;
mod trash;
mod vault;
pub(crate) mod version;
mod why;

pub(crate) use access::keep as keep_access;

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
    /// Print the version.
    #[arg(short = 'V', long)]
    version: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ls(ls::Ls),
    Show(show::Show),
    Why(why::Why),
    Logs(logs::Logs),
    #[command(flatten)]
    Terminal(terminal::Terminal),
    Skills(skills::Skills),
    Adapters(adapters::Adapters),
    Du(du::Du),
    Access(access::Access),
    Config(config_show::ConfigCommand),
    Status(status::Status),
    Doctor(doctor::Doctor),
    Summary(vault::Summary),
    Finalize(finalize::Finalize),
    Gc(gc::Gc),
    Pin(pin::Pin),
    Store(store::Store),
    Undo(trash::Undo),
    Trash(trash::Trash),
    Agents(agents::Agents),
    Vault(vault::Vault),
    Events(events::Events),
    Daemon(daemon::Daemon),
    Hook(hook::Hook),
    Hooks(hooks::Hooks),
    Schema(schema::Schema),
    Completions(completions::Completions),
    Man(man::Man),
    Version(version::Version),
    Help(help::Help),
}

impl Command {
    /// The name in the envelope.
    fn name(&self) -> &'static str {
        match self {
            Self::Ls(_) => "ls",
            Self::Show(_) => "show",
            Self::Why(_) => "why",
            Self::Logs(_) => "logs",
            Self::Terminal(command) => command.name(),
            Self::Skills(command) => command.name(),
            Self::Adapters(_) => "adapters",
            Self::Du(_) => "du",
            Self::Access(command) => command.name(),
            Self::Config(command) => command.name(),
            Self::Status(_) => "status",
            Self::Doctor(_) => "doctor",
            Self::Summary(_) => "summary",
            Self::Finalize(_) => "finalize",
            Self::Gc(_) => "gc",
            Self::Pin(_) => "pin",
            Self::Store(command) => command.name(),
            Self::Undo(_) => "undo",
            Self::Trash(command) => command.name(),
            Self::Agents(command) => command.name(),
            Self::Vault(command) => command.name(),
            Self::Events(_) => "events",
            Self::Daemon(command) => command.name(),
            Self::Hook(_) => "hook",
            Self::Hooks(command) => command.name(),
            Self::Schema(_) => "schema",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
            Self::Version(_) => "version",
            Self::Help(_) => "help",
        }
    }

    fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        match self {
            Self::Ls(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Why(command) => command.run(context),
            Self::Logs(command) => command.run(context),
            Self::Terminal(command) => command.run(context),
            Self::Skills(command) => command.run(context),
            Self::Adapters(command) => command.run(context),
            Self::Du(command) => command.run(context),
            Self::Access(command) => command.run(context),
            Self::Config(command) => command.run(context),
            Self::Status(command) => command.run(context),
            Self::Doctor(command) => command.run(context),
            Self::Summary(command) => command.run(context),
            Self::Finalize(command) => command.run(context),
            Self::Gc(command) => command.run(context),
            Self::Pin(command) => command.run(context),
            Self::Store(command) => command.run(context),
            Self::Undo(command) => command.run(context),
            Self::Trash(command) => command.run(context),
            Self::Agents(command) => command.run(context),
            Self::Vault(command) => command.run(context),
            Self::Events(command) => command.run(context),
            Self::Daemon(command) => command.run(context),
            Self::Hook(command) => Ok(command.run()),
            Self::Hooks(command) => command.run(context),
            Self::Schema(command) => command.run(context),
            Self::Completions(command) => command.run(context),
            Self::Man(command) => command.run(context),
            Self::Version(command) => command.run(context),
            Self::Help(command) => command.run(context),
        }
    }
}

/// What every command is given.
pub(crate) struct Context {
    /// Whether to answer as JSON.
    pub(crate) json: bool,
    /// The name in the envelope.
    pub(crate) name: &'static str,
    /// When the command began.
    pub(crate) now: Time,
    /// Under which name terminals are used.
    pub(crate) personality: Personality,
    use_index: bool,
    agent_tty: Option<agent_tty::Globals>,
}

impl Context {
    /// ostler's own directories.
    pub(crate) fn dirs(&self) -> Result<sys::dirs::Dirs, Error> {
        Ok(sys::dirs::of_this_process()?)
    }

    /// The settings.
    pub(crate) fn config(&self) -> Result<Loaded, Error> {
        config::load()
    }

    /// ostler's own state.
    pub(crate) fn home(&self) -> Result<std::path::PathBuf, Error> {
        sys::dirs::home_of_this_process().map_err(|error| {
            Error::usage(error.to_string(), "set HOME, or OSTLER_HOME to an absolute path")
        })
    }

    /// Where hosted terminals are.
    pub(crate) fn terminals(&self) -> Result<Home, Error> {
        if let Some(globals) = &self.agent_tty {
            return Ok(globals.terminals());
        }
        let dirs = sys::dirs::of_this_process()
            .map_err(|error| Error::usage(error.to_string(), "set `HOME` or `OSTLER_HOME`"))?;
        Ok(Home {
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
    pub(crate) fn observe(&self, scope: Scope, agents: &[String]) -> Result<Observation, Error> {
        self.observe_at(self.now, scope, agents)
    }

    /// Looks at the machine at another time than the command began.
    pub(crate) fn observe_at(
        &self,
        now: Time,
        scope: Scope,
        agents: &[String],
    ) -> Result<Observation, Error> {
        let config = self.config()?.config;
        // Without a home there is nowhere to look, and that is not the same as finding nothing.
        if env::home().is_none_or(|home| !home.is_absolute()) {
            return Err(Error::usage(
                "`HOME` does not name a directory, so that agents' files cannot be found",
                "set `HOME` to an absolute path",
            ));
        }
        let dirs = self.dirs()?;
        Ok(observe(&Request {
            env: flows::Env::new(&env::lookup),
            config: &config,
            home: Some(&dirs.home),
            cache: Some(dirs.cache.as_path()).filter(|_| self.use_index),
            now,
            scope,
            agents,
        }))
    }

    /// Writes the answer as JSON.
    pub(crate) fn answer<T: serde::Serialize>(&self, result: T) -> Result<(), Error> {
        output::json(self.name, self.now, result)
    }
}

/// Reads the command line, runs the command, reports its error.
pub(crate) fn main() -> ExitCode {
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
        Err(error) => return refuse(&error, command_named_in(&args), now, as_json),
    };
    if cli.version {
        return version::plain();
    }
    if let Ok(dirs) = sys::dirs::of_this_process() {
        sys::wall_clock::keep_readings_in(&dirs.cache);
    }
    let command = cli.command.unwrap_or_else(|| Command::Ls(ls::Ls::default()));
    let context = Context {
        json: cli.json,
        name: command.name(),
        now,
        personality: Personality::Ostler,
        use_index: !cli.no_index,
        agent_tty: None,
    };
    match command.run(&context) {
        Ok(code) => code,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            output::error(context.name, now, &error, context.json);
            error.exit_code()
        }
    }
}

/// Reports what clap has to say: help is an answer, the rest is an error in the command line.
fn refuse(error: &clap::Error, command: &str, now: Time, as_json: bool) -> ExitCode {
    use clap::error::ErrorKind;

    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if as_json {
        let message = first_paragraph(&error.render().to_string());
        let error = Error::usage(message, "`ostler help` lists the commands and their options");
        output::error(command, now, &error, true);
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
    word.filter(|word| tree().find_subcommand(word).is_some()).unwrap_or("ostler")
}

/// The whole command tree, for help, man pages and completions.
fn tree() -> clap::Command {
    Cli::command()
}
