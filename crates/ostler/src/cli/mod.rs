//! The command line: one file per command, and one `mod` line for it here.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{FromArgMatches, Parser};
use flows::live::LiveSource;
use flows::observe::{Observation, ObserveScope};
use flows::terminal::TerminalHome;
use flows::terminal::screen::Personality;
use model::helper::OrderWay;
use model::time::Time;
use sys::dirs::DirsError;
use sys::machine::Machine;

use crate::config::{self, LoadedConfig};
use crate::env;
use crate::error::Error;
use crate::render::output;

#[macro_use]
mod registry;

mod access;
mod adapters;
mod afar;
pub(crate) mod agent_tty;
mod agents;
pub(crate) mod badge;
mod commands;
mod complete;
mod completions;
mod config_show;
mod daemon;
mod deliveries;
mod doctor;
mod du;
mod events;
mod finalize;
mod fleet;
mod fuse;
mod fuse_resume;
mod gc;
mod gc_fleet;
mod groups;
mod help;
pub(crate) mod hook;
mod hooks;
mod launch;
mod launch_group;
mod launch_matrix;
mod locks;
mod logs;
mod ls;
mod ls_fleet;
mod man;
mod mcp;
mod metrics;
mod notify;
mod outcome;
mod peek;
mod permits;
mod pin;
mod prompt;
mod ps;
mod resume;
mod schema;
mod search;
mod served;
mod service;
mod setup;
mod show;
mod skills;
mod status;
mod stop;
mod store;
mod terminal;
mod top;
mod trash;
mod tree;
mod usage;
mod usage_error;
mod vault;
pub(crate) mod version;
mod web;
mod webhook;
mod who;
mod why;

pub(crate) use access::run_keeper as keep_access;
use tree::{RegisteredCommand, branch_of, command_tree};

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
                  `-` (the newest) work too.\n`--host NAME`, or an id like NAME/ID, is about a member of the fleet (docs/fleet.md).\nTasks and topics: `ostler help topics`; `ostler help who is waiting` is one. Exit codes: `ostler help exit-codes`."
)]
struct OstlerGlobals {
    /// Answer as JSON, in one envelope; streams are one object per line.
    #[arg(long, global = true)]
    json: bool,
    /// Read every file anew, without the index.
    #[arg(long, global = true)]
    no_index: bool,
    /// Say on stderr what happens inside, as `OSTLER_LOG=debug` does.
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Run the command on this member of the fleet.
    #[arg(long, global = true, value_name = "MEMBER", value_delimiter = ',', hide = true)]
    host: Vec<String>,
    /// The way to that member: through the hub, or through ssh.
    #[arg(long, global = true, value_name = "WAY", value_parser = parse_way, hide = true)]
    via: Option<OrderWay>,
    /// Print the version.
    #[arg(short = 'V', long)]
    version: bool,
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
    machine: Result<Machine, DirsError>,
    use_index: bool,
    agent_tty: Option<agent_tty::AgentTtyGlobals>,
    /// Who asks over HTTP: the name of a page's tab.
    pub(crate) caller: Option<String>,
}

impl CliContext {
    /// The context of something that is done now in a role that outlives one command.
    pub(crate) fn of_role(name: &'static str) -> Self {
        let machine = Machine::here();
        Self {
            json: false,
            name,
            now: began(&machine),
            personality: Personality::Ostler,
            machine,
            use_index: true,
            agent_tty: None,
            caller: None,
        }
    }

    /// Directories, environment, clock and observer of this command.
    pub(crate) fn machine(&self) -> Result<&Machine, Error> {
        Ok(self.machine.as_ref().map_err(Clone::clone)?)
    }

    /// As [`Self::machine`], for what needs ostler's state and no other directory of the user's.
    pub(crate) fn machine_of_state(&self) -> Result<Machine, Error> {
        let state_alone = |_| Ok(Machine::with_home(self.ostler_home()?));
        self.machine.clone().or_else(state_alone)
    }

    /// The same command, later: for what looks again and again.
    #[must_use]
    pub(crate) fn next_turn(&self) -> Self {
        let machine = self.machine.as_ref().map(Machine::next_turn).map_err(Clone::clone);
        Self {
            now: began(&machine),
            machine,
            agent_tty: self.agent_tty.clone(),
            caller: self.caller.clone(),
            ..*self
        }
    }

    /// The working directory; one that is gone is nowhere.
    pub(crate) fn current_dir(&self) -> std::path::PathBuf {
        let here = self.machine.as_ref().ok().map(Machine::current_dir);
        here.unwrap_or_else(std::env::current_dir).unwrap_or_default()
    }

    pub(crate) fn load_config(&self) -> Result<LoadedConfig, Error> {
        config::load_config()
    }

    /// The settings for a look at the machine: one bad line does not stop reading, but it stops a command
    /// from changing anything.
    pub(crate) fn settings_to_look(&self) -> Result<LoadedConfig, Error> {
        let entry = registry::find_entry(self.name);
        let only_looks = entry.is_some_and(|entry| entry.effect == registry::CommandEffect::Reads);
        // These two list what they find, and tidy up besides.
        match only_looks || matches!(self.name, "status" | "doctor") {
            true => config::load_what_holds(),
            false => config::load_config(),
        }
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
            return Ok(globals.terminals_home(&self.machine));
        }
        let machine = self.machine.clone().map_err(|error| {
            Error::usage_error(error.to_string(), "set `HOME` or `OSTLER_HOME`")
        })?;
        Ok(TerminalHome {
            root: machine.home().to_owned(),
            sockets: machine.runtime().to_owned(),
            machine,
            personality: Personality::Ostler,
            inherit: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// After how long without input or output a new terminal is hung up, by default.
    pub(crate) fn idle_timeout_ms(&self) -> u64 {
        self.agent_tty.as_ref().map_or(0, |globals| globals.idle_timeout_ms)
    }

    /// Looks at the machine.
    pub(crate) fn observe_now(
        &self,
        scope: ObserveScope,
        agents: &[String],
    ) -> Result<Observation, Error> {
        let source = self.live_source(scope, agents)?;
        Ok(source.observe_on(&source.machine))
    }

    /// Looks at the machine as it is later: for what is waited for.
    pub(crate) fn observe_later(&self, agents: &[String]) -> Result<Observation, String> {
        let later = self.next_turn();
        later.observe_now(ObserveScope::All, agents).map_err(|error| error.to_string())
    }

    /// What to look at, for repeated looks.
    pub(crate) fn live_source(
        &self,
        scope: ObserveScope,
        agents: &[String],
    ) -> Result<LiveSource, Error> {
        let LoadedConfig { config, problems, .. } = self.settings_to_look()?;
        // Without a home there is nowhere to look, and that is not the same as finding nothing.
        if env::home_dir().is_none_or(|home| !home.is_absolute()) {
            return Err(Error::usage_error(
                "`HOME` does not name a directory, so that agents' files cannot be found",
                "set `HOME` to an absolute path",
            ));
        }
        Ok(LiveSource {
            machine: self.machine()?.clone(),
            config,
            use_index: self.use_index,
            scope,
            agents: agents.to_owned(),
            problems,
        })
    }

    /// Writes the answer as JSON.
    pub(crate) fn print_json<T: serde::Serialize>(&self, result: T) -> Result<(), Error> {
        output::print_json(self.name, self.now, result)
    }
}

/// When a command began, also where its machine cannot be named.
pub(crate) fn began(machine: &Result<Machine, DirsError>) -> Time {
    machine.as_ref().map_or_else(|_| sys::clock::now(), Machine::now)
}

/// Reads the command line, runs the command, reports its error.
pub(crate) fn run_ostler() -> ExitCode {
    sys::memory::expect_many_small_allocations();
    clap_complete::CompleteEnv::with_factory(command_tree).complete();
    let machine = Machine::here();
    let now = began(&machine);
    let args: Vec<_> = std::env::args_os().collect();
    let as_json = args.iter().any(|arg| arg == "--json");
    let (globals, command) = match read_command_line(&args) {
        Ok(read) => read,
        Err(error) => return usage_error::report_usage_error(&error, &args, now, as_json),
    };
    if globals.version {
        return version::print_version();
    }
    if let Some(cache) = machine.as_ref().ok().and_then(Machine::cache) {
        sys::wall_clock::keep_readings_in(cache);
    }
    match command.name {
        "daemon run" if !globals.verbose => sys::log::log_role("daemon"),
        "web" if !globals.verbose => sys::log::log_role("web"),
        _ => sys::log::log_command(globals.verbose),
    }
    tracing::debug!(command = command.name, version = version::OSTLER_VERSION, "begins");
    let context = CliContext {
        json: globals.json,
        name: command.name,
        now,
        personality: Personality::Ostler,
        machine,
        use_index: !globals.no_index,
        agent_tty: None,
        caller: None,
    };
    let choice = afar::AfarChoice {
        hosts: &globals.host,
        via: globals.via,
        in_fleet: context.machine.as_ref().is_ok_and(|one| one.home().join("fleet").exists()),
    };
    let ended = match afar::read_order(&args, command.name, choice) {
        Ok(Some(order)) => afar::give_order(&context, order),
        Ok(None) => (command.run)(&context),
        Err(error) => Err(error),
    };
    match ended {
        Ok(code) => code,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            let error = complete::with_nearest_session(error);
            tracing::debug!(exit = ?error.exit_code(), "ends with an error");
            output::report_error(context.name, now, &error, context.json);
            error.exit_code()
        }
    }
}

/// What is run when no command is named.
const DEFAULT_COMMAND: &str = "ls";

/// Reads the command line with the branch of its command alone; what that cannot read is an error for
/// the whole tree to tell.
fn read_command_line(args: &[OsString]) -> Result<(OstlerGlobals, RegisteredCommand), clap::Error> {
    let word = word_of_command(args);
    let mut words = args.to_owned();
    match word {
        None => words.push(DEFAULT_COMMAND.into()),
        Some(word) => name_usual_member(&mut words, word),
    }
    let read = |tree: clap::Command, words: &[OsString]| {
        let matches = tree.try_get_matches_from(words)?;
        Ok((
            OstlerGlobals::from_arg_matches(&matches)?,
            RegisteredCommand::from_arg_matches(&matches)?,
        ))
    };
    let branch = branch_of(word.unwrap_or(DEFAULT_COMMAND));
    match branch.map(|branch| read(branch, &words)) {
        Some(Ok(read)) => Ok(read),
        _ => read(command_tree(), args),
    }
}

/// Names the command of a family that is meant where none is: `ostler hooks` is `ostler hooks status`.
fn name_usual_member(words: &mut Vec<OsString>, word: &str) {
    /// Options that say nothing about which command is meant.
    const NEUTRAL: [&str; 4] = ["--json", "--no-index", "-v", "--verbose"];
    let Some(entry) = registry::find_entry(word).filter(|entry| !entry.usual_member.is_empty())
    else {
        return;
    };
    let Some(at) = words.iter().position(|one| one == word) else { return };
    if words[at + 1..].iter().all(|one| NEUTRAL.iter().any(|neutral| one == neutral)) {
        words.insert(at + 1, entry.usual_member.into());
    }
}

/// The command that a command line with an error in it was meant for.
fn command_named_in(args: &[OsString]) -> &str {
    word_of_command(args).filter(|word| registry::find_entry(word).is_some()).unwrap_or("ostler")
}

/// The first word that is no option, and not the value of one that may precede a command.
fn word_of_command(args: &[OsString]) -> Option<&str> {
    const WITH_VALUE: [&str; 2] = ["--host", "--via"];
    let mut words = args.iter().skip(1);
    while let Some(arg) = words.next() {
        match arg.to_str() {
            Some(option) if WITH_VALUE.contains(&option) => drop(words.next()),
            Some(word) if !word.starts_with('-') => return Some(word),
            _ => {}
        }
    }
    None
}

fn parse_way(text: &str) -> Result<OrderWay, String> {
    match text {
        "hub" => Ok(OrderWay::Hub),
        "ssh" => Ok(OrderWay::Ssh),
        _ => Err("hub or ssh".to_owned()),
    }
}
