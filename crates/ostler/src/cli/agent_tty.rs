//! The agent-tty personality: its names, options, environment and help over ostler's own commands.
//!
//! Started under the name `agent-tty`, or as `ostler agent-tty …`. This file translates; what a
//! command does is in `cli::terminal`, and what only agent-tty has is in the files below.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use flows::terminal::TerminalHome;
use flows::terminal::screen::Personality;
use model::hosted::{FaultCode, HostFault};
use model::time::Time;
use model::wire::ErrorBody;
use serde::Deserialize;
use sys::dirs::DirsError;
use sys::machine::Machine;

use crate::cli::{CliContext, RegisteredCommand, skills};
use crate::env;
use crate::error::Error;
use crate::render::{output, text};

mod dashboard;
mod doctor;
mod gc;
mod homes;
mod list;
mod version;

#[derive(Debug, Parser)]
#[command(
    name = "agent-tty",
    disable_help_subcommand = true,
    disable_version_flag = true,
    about = "Hosts terminals that agents drive."
)]
struct AgentTtyCli {
    /// Where sessions are kept; an absolute path.
    #[arg(long, global = true, value_name = "PATH")]
    home: Option<OsString>,
    /// debug, info, warn or error.
    #[arg(long, global = true, value_name = "LEVEL")]
    log_level: Option<String>,
    /// How screens are drawn.
    #[arg(long, global = true, value_name = "NAME")]
    profile: Option<String>,
    /// ghostty-web or libghostty-vt; both mean the one renderer there is.
    #[arg(long, global = true, value_name = "NAME")]
    renderer: Option<String>,
    /// No colours.
    #[arg(long, global = true)]
    no_color: bool,
    /// Checked, and used by no command.
    #[arg(long, global = true, value_name = "MS", allow_hyphen_values = true)]
    timeout_ms: Option<String>,
    /// Answer as JSON, in one envelope.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: AgentTtyCommand,
}

#[derive(Debug, Subcommand)]
enum AgentTtyCommand {
    #[command(flatten)]
    Terminal(RegisteredCommand),
    #[command(alias = "ls")]
    List(list::AgentTtyListArgs),
    Gc(gc::AgentTtyGcArgs),
    Home(homes::HomesArgs),
    Doctor(doctor::AgentTtyDoctorArgs),
    Version(version::AgentTtyVersionArgs),
    Skills(skills::SkillsArgs),
    #[command(alias = "d")]
    Dashboard(dashboard::DashboardArgs),
}

impl AgentTtyCommand {
    fn envelope_name(&self) -> &'static str {
        match self {
            Self::Terminal(command) => command.name,
            Self::List(_) => "list",
            Self::Gc(_) => "gc",
            Self::Home(command) => command.envelope_name(),
            Self::Doctor(_) => "doctor",
            Self::Version(_) => "version",
            Self::Skills(command) => command.envelope_name(),
            Self::Dashboard(_) => "dashboard",
        }
    }

    fn run_command(&self, context: &CliContext) -> Result<ExitCode, Error> {
        match self {
            Self::Terminal(command) => {
                let code = (command.run)(context)?;
                if command.name == "create" {
                    homes::register_home(context);
                }
                Ok(code)
            }
            Self::List(command) => command.run_agent_tty_list(context),
            Self::Gc(command) => command.run_agent_tty_gc(context),
            Self::Home(command) => command.run_homes(context),
            Self::Doctor(command) => command.run_agent_tty_doctor(context),
            Self::Version(command) => command.run_agent_tty_version(context),
            Self::Skills(command) => command.run_skills(context),
            Self::Dashboard(command) => command.run_dashboard(context),
        }
    }
}

/// `config.json` in the home.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigFile {
    log_level: Option<String>,
    default_profile: Option<String>,
    default_renderer: Option<String>,
    idle_timeout_ms: Option<u64>,
    #[serde(rename = "defaultShell")]
    _default_shell: Option<String>,
    #[serde(rename = "defaultTerm")]
    _default_term: Option<String>,
    #[serde(rename = "defaultCols")]
    _default_cols: Option<u64>,
    #[serde(rename = "defaultRows")]
    _default_rows: Option<u64>,
}

/// Its global options: flag over environment over file over default.
#[derive(Clone, Debug)]
pub(crate) struct AgentTtyGlobals {
    home: PathBuf,
    /// Whether the home was named, by flag or environment.
    explicit: bool,
    log_level: String,
    renderer: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) idle_timeout_ms: u64,
}

impl AgentTtyGlobals {
    fn resolve_globals(cli: &AgentTtyCli) -> Result<Self, HostFault> {
        let named = cli.home.clone().or_else(env::agent_tty_home);
        let explicit = named.is_some();
        let home = match named {
            Some(path) => absolute_home(Path::new(&path))?,
            None => env::home_dir().unwrap_or_else(|| PathBuf::from("/")).join(".agent-tty"),
        };
        let file = read_config_file(&home)?;
        let chosen = |flag: &Option<String>, variable: &str, file: Option<String>| {
            flag.clone().or_else(|| env::agent_tty_setting(variable)).or(file)
        };
        let level = chosen(&cli.log_level, "AGENT_TTY_LOG_LEVEL", file.log_level);
        let log_level = level.unwrap_or_else(|| "info".to_owned());
        if !["debug", "info", "warn", "error"].contains(&log_level.as_str()) {
            let message = "Log level must be one of debug, info, warn, or error.";
            return Err(HostFault::invalid_input(message).with("logLevel", log_level));
        }
        let renderer = chosen(&cli.renderer, "AGENT_TTY_RENDERER", file.default_renderer);
        if let Some(renderer) = renderer.as_deref()
            && !version::RENDERER_BACKENDS.contains(&renderer)
        {
            let message = "Renderer must be one of: ghostty-web, libghostty-vt.";
            return Err(HostFault::invalid_input(message).with("renderer", renderer));
        }
        if let Some(text) = &cli.timeout_ms
            && text.parse::<u64>().ok().is_none_or(|millis| millis == 0)
        {
            let message = format!("--timeout-ms `{text}` must be a positive integer.");
            return Err(HostFault::new(FaultCode::InvalidDuration, message));
        }
        Ok(Self {
            home: std::fs::canonicalize(&home).unwrap_or(home),
            explicit,
            log_level,
            renderer,
            profile: chosen(&cli.profile, "AGENT_TTY_PROFILE", file.default_profile),
            idle_timeout_ms: file.idle_timeout_ms.unwrap_or(0),
        })
    }

    pub(super) fn terminals_home(&self, machine: &Result<Machine, DirsError>) -> TerminalHome {
        self.terminals_in(&self.home, machine)
    }

    fn terminals_in(&self, home: &Path, machine: &Result<Machine, DirsError>) -> TerminalHome {
        // Terminals of a home that was named need no other directory.
        let machine = machine.clone().unwrap_or_else(|_| Machine::with_home(home.to_owned()));
        let mut inherit = vec![
            ("AGENT_TTY_HOME".to_owned(), home.to_string_lossy().into_owned()),
            ("AGENT_TTY_LOG_LEVEL".to_owned(), self.log_level.clone()),
        ];
        inherit.extend(self.renderer.clone().map(|name| ("AGENT_TTY_RENDERER".to_owned(), name)));
        TerminalHome {
            machine,
            root: home.to_owned(),
            sockets: PathBuf::from("/tmp/agent-tty"),
            personality: Personality::AgentTty,
            inherit,
            version: cli_version(),
        }
    }
}

/// The version that scripts compare: that of the contract, and nothing more.
fn cli_version() -> String {
    flows::terminal::AGENT_TTY_CONTRACT.to_owned()
}

fn absolute_home(path: &Path) -> Result<PathBuf, HostFault> {
    if !path.is_absolute() {
        let message = "--home must be an absolute path.";
        let home = path.to_string_lossy().into_owned();
        return Err(HostFault::invalid_input(message).with("home", home));
    }
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    Ok(normal)
}

fn read_config_file(home: &Path) -> Result<ConfigFile, HostFault> {
    let path = home.join("config.json");
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("{} is not valid: {error}", path.display());
            HostFault::new(FaultCode::InternalError, message)
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(ConfigFile::default()),
        Err(error) => {
            let message = format!("{} cannot be read: {error}", path.display());
            Err(HostFault::new(FaultCode::InternalError, message))
        }
    }
}

/// Whether the program was started under agent-tty's name.
pub(crate) fn is_name(called: &OsStr) -> bool {
    Path::new(called).file_name().is_some_and(|name| name == "agent-tty")
}

/// Reads the command line, runs the command, reports its error the way agent-tty does.
pub(crate) fn run_agent_tty(args: &[OsString]) -> ExitCode {
    let machine = Machine::here();
    let now = super::began(&machine);
    let as_json = args.iter().any(|arg| arg == "--json");
    let words = std::iter::once(OsString::from("agent-tty")).chain(args.iter().cloned());
    let cli = match command_tree()
        .try_get_matches_from(words)
        .and_then(|matches| AgentTtyCli::from_arg_matches(&matches))
    {
        Ok(cli) => cli,
        Err(error) => return report_usage_error(&error),
    };
    let globals = match AgentTtyGlobals::resolve_globals(&cli) {
        Ok(globals) => globals,
        Err(fault) => return report_error("agent-tty", now, &fault.into(), as_json),
    };
    let name = cli.command.envelope_name();
    let context = CliContext {
        json: cli.json,
        name,
        now,
        personality: Personality::AgentTty,
        machine,
        use_index: false,
        agent_tty: Some(globals),
        caller: None,
    };
    if let Some(globals) = context.agent_tty.as_ref().filter(|one| one.log_level == "debug") {
        let home = text::one_line(&globals.home.to_string_lossy());
        output::print_notice(&format!(
            "[agent-tty] debug: resolved command context {{command: {name}, home: {home}, json: {}}}",
            context.json
        ));
    }
    match cli.command.run_command(&context) {
        Ok(code) => code,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => report_error(name, now, &error, as_json),
    }
}

/// What the help of every command begins with: an agent that has not read the skill reads it first.
const FIRST_WORD: &str = "MANDATORY FOR CODING AGENTS: load the `agent-tty` skill (`agent-tty skills get agent-tty`).\n\
     If your agent already loaded that skill, follow it; otherwise run `agent-tty skills get agent-tty` \
     before any other agent-tty command.";

/// And what it ends with.
const LAST_WORD: &str =
    "Coding agents: after loading the core `agent-tty` skill, run `agent-tty skills list`.";

/// The parser, with the same two sentences around the help of every command.
fn command_tree() -> clap::Command {
    // Scripts look for whole sentences: terminals wrap by themselves.
    with_words(AgentTtyCli::command())
        .term_width(0)
        .mut_subcommand("skills", |skills| skills.about("Manage built-in skills"))
}

fn with_words(command: clap::Command) -> clap::Command {
    command.before_help(FIRST_WORD).after_help(LAST_WORD).mut_subcommands(with_words)
}

/// Errors of the parser are text with the help, on stderr, never in an envelope.
fn report_usage_error(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;

    match error.kind() {
        ErrorKind::DisplayHelp => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::InvalidSubcommand => {
            output::print_notice(&unknown_command(error));
            ExitCode::from(2)
        }
        _ => {
            output::print_notice(&error.render().to_string());
            ExitCode::from(2)
        }
    }
}

/// A command that does not exist, and the one that may have been meant.
fn unknown_command(error: &clap::Error) -> String {
    use clap::error::{ContextKind, ContextValue};

    let words = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(some)) => some.clone(),
        _ => Vec::new(),
    };
    let given = words(ContextKind::InvalidSubcommand).concat();
    let mut out = format!("error: unknown command '{}'", text::one_line(&given));
    let meant = words(ContextKind::SuggestedSubcommand);
    let begins = meant.iter().find(|name| name.starts_with(&given));
    if let Some(meant) = begins.or(meant.first()) {
        out.push_str(&format!("\n(Did you mean {meant}?)"));
    }
    out
}

/// The words of those messages that its users' scripts look for.
fn in_its_words(mut body: ErrorBody) -> ErrorBody {
    let session = body.details.values.get("sessionId").and_then(|id| id.as_str());
    if let ("SESSION_NOT_FOUND", Some(id)) = (body.code, session) {
        body.message = format!("Session \"{id}\" was not found.");
    } else if body.message.contains(" is not a pattern: ") {
        body.message = format!("Invalid regex pattern: {}", body.message);
    }
    body
}

fn report_error(command: &str, now: Time, error: &Error, as_json: bool) -> ExitCode {
    let body = in_its_words(ErrorBody { hint: None, ..error.to_body() });
    if as_json {
        output::print_failure(command, now, body);
    } else {
        output::print_notice(&format!("{}: {}", body.code, body.message));
    }
    error.exit_code()
}
