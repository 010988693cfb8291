//! `ostler create`

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use flows::launches;
use flows::locks::{LockedError, refuse_locked};
use flows::permit_channel::{PermitArrangement, arrange_permissions};
use flows::terminal::agent_command::{AgentCommand, agent_command};
use flows::terminal::create::{self, CreateTerminalRequest};
use flows::terminal::screen::Personality;
use model::hosted::{FaultCode, HostFault};

use crate::cli::CliContext;
use crate::env;
use crate::error::Error;
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 1),
    effect: WritesState,
    agent_tty: 1,
    answers: &[answer::<hosted_wire::CreateResult>()],
    examples: &[
        example("create --name tests -- /bin/sh", "A shell that stays when you go.").on(Fresh)
    ],
    cases: &[
        usual("create --name build -- /bin/sh").on(Fresh),
        refused("create -- /no/such/program")
    ],
    uncased: &[(Empty, "a home without terminals is where it usually starts one"), ONE_PROGRAM],
    ..entry!("create", CreateArgs, run_create)
}];

/// Start a program on a terminal of its own, which stays when you go.
///
/// Returns at once with the new session's id. The terminal is held by a small process of its own; it
/// survives this command, its terminal and an upgrade of ostler.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The program and its arguments; the shell when left out.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// The shell [default: $SHELL, else /bin/sh].
    #[arg(long, value_name = "PATH")]
    shell: Option<String>,
    /// The same as --shell.
    #[arg(long = "command", value_name = "PATH", hide = true)]
    legacy_shell: Option<String>,
    /// Start a known agent, e.g. `claude-code`; what follows are its arguments. A new conversation is given an
    /// id where the agent takes one, and Codex is started without its shared server.
    #[arg(long, value_name = "AGENT", add = crate::cli::complete::agents())]
    agent: Option<String>,
    /// Who is asked for the agent's permissions: the person at its screen, or whoever runs `ostler permit`.
    #[arg(long, value_enum, value_name = "WHO", default_value = "person", requires = "agent")]
    permissions: PermissionWord,
    /// Where to start it [default: here].
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Columns.
    #[arg(long, value_name = "N", default_value = "80", allow_hyphen_values = true)]
    cols: String,
    /// Rows.
    #[arg(long, value_name = "N", default_value = "24", allow_hyphen_values = true)]
    rows: String,
    /// A variable for the program; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    env: Vec<String>,
    /// What the program is told about its terminal [default: xterm-256color].
    #[arg(long, value_name = "TERM")]
    term: Option<String>,
    /// A name to call it by.
    #[arg(long)]
    name: Option<String>,
    /// Hang up after so many milliseconds without input or output; 0 for never.
    #[arg(long, value_name = "MS")]
    idle_timeout_ms: Option<String>,
    /// How many lines that scrolled away are kept [default: as configured, else 10000].
    #[arg(long, value_name = "LINES")]
    scrollback: Option<usize>,
}

/// Keeps agents out of directories that are locked.
fn check_lock(context: &CliContext, cwd: Option<&str>) -> Result<(), Error> {
    let directory = cwd.map_or_else(|| context.current_dir(), std::path::PathBuf::from);
    match refuse_locked(context.machine()?, &directory) {
        Ok(()) => Ok(()),
        Err(LockedError::Locked(refusal)) => Err(Error::Drive(refusal)),
        Err(LockedError::State(error)) => {
            output::print_notice(&format!("whether the directory is locked is not known: {error}"));
            Ok(())
        }
    }
}

/// Who is asked for permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PermissionWord {
    /// The person at the agent's own screen.
    Person,
    /// Whoever runs `ostler permit`; the agent's own question remains if nobody does.
    Ostler,
}

impl PermissionWord {
    /// What is added to the start of that agent.
    pub(crate) fn arrange(
        self,
        context: &CliContext,
        agent: &str,
    ) -> Result<PermitArrangement, Error> {
        if self == Self::Person {
            return Ok(PermitArrangement::default());
        }
        let waits = context.load_config()?.permits;
        let program = sys::spawn::this_program()?;
        let home = context.ostler_home()?;
        arrange_permissions(agent, &program, &home, waits).map_err(Error::Drive)
    }
}

impl CreateArgs {
    /// Where the program will be looked for.
    fn program_path(&self) -> OsString {
        let given = self.env.iter().rev().find_map(|pair| pair.strip_prefix("PATH="));
        given.map(OsString::from).or_else(|| env::lookup_variable("PATH")).unwrap_or_default()
    }

    /// The variables for the program: --term says more clearly what is meant than --env TERM=….
    fn variables(&self) -> Vec<String> {
        let kept = |pair: &&String| self.term.is_none() || !pair.starts_with("TERM=");
        self.env.iter().filter(kept).cloned().collect()
    }

    pub(crate) fn run_create(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let home = context.terminals_home()?;
        let idle = match &self.idle_timeout_ms {
            Some(text) => text.parse().map_err(|_| {
                let message = format!("--idle-timeout-ms `{text}` must be a non-negative integer.");
                let code = match context.personality {
                    Personality::Ostler => FaultCode::InvalidDuration,
                    Personality::AgentTty => FaultCode::InvalidInput,
                };
                HostFault::new(code, message)
            })?,
            None => context.idle_timeout_ms(),
        };
        let alias = |agent: &String| match home.personality {
            Personality::Ostler => flows::agent_named(agent).unwrap_or(agent).to_owned(),
            Personality::AgentTty => agent.clone(),
        };
        let agent = self.agent.as_ref().map(alias);
        if agent.is_some() && home.personality == Personality::Ostler {
            check_lock(context, self.cwd.as_deref())?;
        }
        let arranged = match &agent {
            Some(agent) => self.permissions.arrange(context, agent)?,
            None => PermitArrangement::default(),
        };
        let started = match &agent {
            Some(agent) => {
                let words = [arranged.arguments.as_slice(), &self.command].concat();
                agent_command(agent, &words, &self.program_path())?
            }
            None => AgentCommand { words: self.command.clone(), session: None },
        };
        let launched = match &agent {
            Some(agent) if home.personality == Personality::Ostler => {
                Some((agent, context.load_config()?.config.retention.launches))
            }
            _ => None,
        };
        arranged.make_files()?;
        let shell = self.shell.clone().or_else(|| self.legacy_shell.clone());
        let mut result = create::create_terminal(
            &home,
            CreateTerminalRequest {
                command: started.words,
                shell: shell.or_else(env::user_shell).unwrap_or_else(|| "/bin/sh".to_owned()),
                cwd: self.cwd.clone(),
                cols: super::parse_cells("--cols", &self.cols)?,
                rows: super::parse_cells("--rows", &self.rows)?,
                env: [self.variables(), arranged.variables].concat(),
                term: self.term.clone().unwrap_or_else(|| "xterm-256color".to_owned()),
                name: self.name.clone(),
                idle_timeout_ms: idle,
                scrollback_lines: match self.scrollback {
                    Some(lines) => lines,
                    None => context.terminal_settings()?.scrollback_lines,
                },
                secrets: arranged.secrets,
                headless: None,
                runtime: env::runtime_dir().filter(|_| home.personality == Personality::Ostler),
            },
        )?;
        if let Some((agent, keep)) = launched {
            let noted = launches::note_launch(&home, &result.session_id, agent, keep);
            if let Err(error) = noted {
                // It runs all the same, and nothing rests on the note.
                output::print_notice(&format!("that it was started could not be noted: {error}"));
            }
        }
        (result.agent, result.agent_session) = (agent, started.session);
        if context.json {
            context.print_json(result)?;
        } else {
            let mut out = format!("Session created: {}\n", result.session_id);
            if let Some(agent) = &result.agent {
                let id = result.agent_session.as_ref().map(|id| format!(" {id}"));
                out.push_str(&format!("Agent: {agent}{}\n", id.unwrap_or_default()));
            }
            output::print_text(&out)?;
            if output::is_terminal() && home.personality == Personality::Ostler {
                let name = self.name.as_ref().unwrap_or(&result.session_id);
                let name = text::one_line(name);
                output::print_notice(&format!("`ostler attach {name}` joins it; Ctrl-] leaves"));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
