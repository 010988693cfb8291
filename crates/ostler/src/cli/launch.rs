//! `ostler launch`

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use flows::caller::find_calling_party;
use flows::control::deliveries::ControlLedger;
use flows::control::launch::{LaunchRequest, LaunchScene, launch_agent, preview_launch};
use flows::observe::{Observation, ObserveScope};
use flows::terminal::source;
use model::control::wire::{LaunchResult, LaunchState};

use crate::cli::launch_group::{self, GroupArgs};
use crate::cli::prompt::{AwaitedOutcome, parse_span};
use crate::cli::terminal::create::PermissionWord;
use crate::cli::{CliContext, complete, ls};
use crate::env;
use crate::error::{self, Error};
use crate::render::{duration, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Drive, 1),
    effect: WritesFiles,
    answers: &[
        answer::<::model::control::wire::LaunchResult>(),
        crate::cli::registry::AnswerSchema {
            suffix: " --group",
            ..answer::<::model::control::groups::GroupLaunchResult>()
        }
    ],
    examples: &[
        example(
            "launch claude 'mend the tests' --name mend",
            "Returns when the agent has the prompt."
        )
        .on(Installed),
        example("launch claude --dry-run", "What would be run, and where.").on(Installed)
    ],
    cases: &[
        empty("launch claude hello"),
        usual("launch claude 'run the tests' --name build").on(Installed),
        refused("launch aider hello"),
        also("launch claude --dry-run --json").on(Installed),
        also("launch no-such-agent")
    ],
    uncased: &[ONE_FILE],
    ..entry!("launch", LaunchArgs, run_launch)
}];

/// Start an agent in a terminal of its own, and give it its first prompt.
///
/// Returns when the agent's own record holds the prompt, with the conversation's id: that was chosen or
/// proven, never guessed. Without a prompt it returns when the agent takes one. A dialog at the start (trust,
/// login, update) is told, exit code 16, and never answered. ostler adds no option that widens what the agent
/// may do; marks of other agents' sessions are removed from its environment.
///
/// `--worktree` gives it a git worktree and a branch of its own. `--group` starts several agents at once, each in a
/// worktree if `--worktree` is given; everything is checked before the first one is made. Worktrees go by
/// `ostler gc --include worktrees`, and only if nothing in them could be lost.
#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    /// The agent, e.g. `claude`; with `--group` it may be `claude:MODEL`.
    #[arg(add = complete::agents(), required_unless_present = "matrix")]
    agent: Option<String>,
    /// The first prompt; `-` reads standard input. With `--group`, more agents may stand before it.
    #[arg(value_name = "TEXT")]
    words: Vec<String>,
    /// Further arguments of the agent.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<String>,
    /// Take the prompt from a file.
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) start: StartArgs,
    #[command(flatten)]
    pub(crate) grouping: GroupArgs,
    /// The model.
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Where to start it [default: here].
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// Show what would be run.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What one agent of a group has for itself; everything else is the same for all.
#[derive(Clone, Debug)]
pub(crate) struct SlotStart {
    /// The adapter's id.
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
    /// Further arguments of the agent.
    pub(crate) arguments: Vec<String>,
    /// Where it is started.
    pub(crate) cwd: Option<String>,
    /// What its terminal is called.
    pub(crate) name: Option<String>,
    /// Variables of its own, `KEY=VALUE`.
    pub(crate) env: Vec<String>,
}

/// How an agent is started, new or resumed.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// A name to call its terminal by.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Without a terminal: the prompt on standard input, its output in logs.
    #[arg(long)]
    pub(crate) headless: bool,
    /// A variable for the agent; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    env: Vec<String>,
    /// Variables from a file that only you may read, one KEY=VALUE per line; they are written down nowhere.
    #[arg(long, value_name = "PATH")]
    env_from: Option<PathBuf>,
    /// Return when the agent's record holds the prompt, or when its turn is over.
    #[arg(long, value_name = "WHAT", default_value = "accepted")]
    wait: AwaitedOutcome,
    /// How long the agent may take until it takes a prompt.
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = parse_span)]
    ready_timeout: Duration,
    /// How long the agent may take to record the prompt.
    #[arg(long, value_name = "SPAN", default_value = "15s", value_parser = parse_span)]
    accept_timeout: Duration,
    /// How long the turn may take, with `--wait idle`.
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = parse_span)]
    timeout: Duration,
    /// Stop it after so long, with all it started: a fuse, which the daemon fires.
    #[arg(long, value_name = "TIME", value_parser = duration::from_argument)]
    ttl: Option<Duration>,
    /// Only if nobody else works in the same worktree or directory.
    #[arg(long)]
    pub(crate) exclusive: bool,
    /// Also in a directory that somebody has locked.
    #[arg(long)]
    force: bool,
    /// Who is asked for the agent's permissions: the person at its screen, or whoever runs `ostler permit`.
    #[arg(long, value_enum, value_name = "WHO", default_value = "person")]
    permissions: PermissionWord,
}

impl StartArgs {
    /// Whose sessions are looked at while it is started: for a place of its own everybody's.
    pub(crate) fn watched_agents(&self, agent: &str) -> Vec<String> {
        if self.exclusive { Vec::new() } else { vec![agent.to_owned()] }
    }

    /// The request, as far as it is the same for a new conversation and one that goes on.
    pub(crate) fn to_request(
        &self,
        context: &CliContext,
        agent: &str,
        prompt: Option<String>,
    ) -> Result<LaunchRequest, Error> {
        let given = self.env.iter().rev().find_map(|pair| pair.strip_prefix("PATH="));
        Ok(LaunchRequest {
            agent: agent.to_owned(),
            text: prompt,
            cwd: None,
            name: self.name.clone(),
            model: None,
            headless: self.headless,
            env: self.env.clone(),
            secrets: self.env_from.as_deref().map(read_variables).transpose()?.unwrap_or_default(),
            arguments: Vec::new(),
            wait_idle: self.wait == AwaitedOutcome::Idle,
            ready_timeout: self.ready_timeout,
            accept_timeout: self.accept_timeout,
            turn_timeout: self.timeout,
            note_ttl: context.load_config()?.config.retention.launches,
            shell: env::user_shell().unwrap_or_else(|| "/bin/sh".to_owned()),
            path: given
                .map(Into::into)
                .or_else(|| env::lookup_variable("PATH"))
                .unwrap_or_default(),
            runtime: env::runtime_dir(),
            scrollback_lines: context.terminal_settings()?.scrollback_lines,
            exclusive: self.exclusive,
            over_lock: self.force,
            ttl: self.ttl,
            started_by: find_calling_party(context.machine()?, &env::user_name()).name,
            permits: self.permissions.arrange(context, agent)?,
        })
    }
}

impl LaunchArgs {
    pub(crate) fn run_launch(&self, context: &CliContext) -> Result<ExitCode, Error> {
        if self.grouping.is_asked() {
            return launch_group::launch_slots(self, context);
        }
        let agent = find_agent(self.agent.as_deref().unwrap_or_default())?;
        let text = match self.words.as_slice() {
            [] => None,
            [text] => Some(text.as_str()),
            _ => {
                return Err(Error::usage_error(
                    "a prompt is one argument, and there are several",
                    "put it between quotes; several agents need `--group`",
                ));
            }
        };
        let prompt = self.read_prompt(context, text)?;
        let slot = SlotStart {
            agent: agent.to_owned(),
            model: self.model.clone(),
            arguments: self.arguments.clone(),
            cwd: self.cwd.clone(),
            name: self.start.name.clone(),
            env: Vec::new(),
        };
        let before = context.observe_now(ObserveScope::All, &[])?;
        if self.dry_run {
            let request = self.slot_request(context, &slot, prompt)?;
            return print_launch(context, &preview_launch(&request, context.machine()?, &before)?);
        }
        print_launch(context, &self.start_slot(context, &slot, prompt, &before)?)
    }

    /// The first words: an agent, then more of them or a prompt.
    pub(crate) fn given_words(&self) -> impl Iterator<Item = &str> {
        self.agent.iter().chain(&self.words).map(String::as_str)
    }

    /// The first prompt, from wherever it is to be taken.
    pub(crate) fn read_prompt(
        &self,
        context: &CliContext,
        text: Option<&str>,
    ) -> Result<Option<String>, Error> {
        let prompt = match (text, self.file.as_deref()) {
            (None, None) => None,
            (text, file) => Some(source::read_text("text", text, file, context.personality)?),
        };
        if self.start.headless && prompt.is_none() {
            return Err(Error::usage_error(
                "an agent without a terminal needs its prompt at the start",
                "give a text, `-` for standard input, or `--file`",
            ));
        }
        Ok(prompt)
    }

    /// What is asked for one agent.
    pub(crate) fn slot_request(
        &self,
        context: &CliContext,
        slot: &SlotStart,
        prompt: Option<String>,
    ) -> Result<LaunchRequest, Error> {
        let mut request = LaunchRequest {
            cwd: slot.cwd.clone(),
            model: slot.model.clone(),
            arguments: slot.arguments.clone(),
            name: slot.name.clone(),
            ..self.start.to_request(context, &slot.agent, prompt)?
        };
        request.env.extend(slot.env.iter().cloned());
        Ok(request)
    }

    /// Starts one agent: the only one, or one of a group. Those of a group are started on threads of their own.
    pub(crate) fn start_slot(
        &self,
        context: &CliContext,
        slot: &SlotStart,
        prompt: Option<String>,
        before: &Observation,
    ) -> Result<LaunchResult, Error> {
        let request = self.slot_request(context, slot, prompt)?;
        let mut ledger = ControlLedger::new(context.machine()?).for_caller(before);
        let agents = self.start.watched_agents(&slot.agent);
        let mut observe = || context.observe_later(&agents);
        let terminals = context.terminals_home()?;
        let mut scene = LaunchScene {
            terminals: &terminals,
            before,
            ledger: &mut ledger,
            observe: &mut observe,
        };
        Ok(launch_agent(&request, &mut scene)?)
    }
}

/// The agent that a word means.
pub(crate) fn find_agent(word: &str) -> Result<&'static str, Error> {
    flows::agent_named(word).ok_or_else(|| {
        let known: Vec<&str> = flows::adapter_ids().collect();
        Error::usage_error(
            format!("`{word}` is no agent; there are: {}", known.join(", ")),
            "`ostler adapters` lists them with what is known of each",
        )
    })
}

/// The variables of a file that only this user may read.
fn read_variables(path: &Path) -> Result<Vec<(String, String)>, Error> {
    let shown = path.display().to_string();
    let cannot = |reason: String| Error::Read { path: shown.clone(), reason };
    let mut text = String::new();
    sys::private::open_private(path)
        .map_err(|error| cannot(error.to_string()))?
        .take(1 << 20)
        .read_to_string(&mut text)
        .map_err(|error| cannot(error.to_string()))?;
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| match line.split_once('=') {
            Some((key, value)) if !key.is_empty() && !line.contains('\0') => {
                Ok((key.to_owned(), value.to_owned()))
            }
            // The line itself may hold a secret.
            _ => Err(Error::usage_error(
                format!("line {} of {shown} is not KEY=VALUE", number + 1),
                "write one variable per line; `#` begins a comment",
            )),
        })
        .collect()
}

/// Shows a started agent.
pub(crate) fn print_launch(context: &CliContext, result: &LaunchResult) -> Result<ExitCode, Error> {
    if context.json {
        context.print_json(result)?;
    } else {
        output::print_text(&render_launch(result))?;
        ls::report_incomplete(&result.incomplete);
    }
    Ok(error::exit_code_for(&result.incomplete))
}

pub(crate) fn render_launch(result: &LaunchResult) -> String {
    let state = match result.state {
        _ if result.dry_run => "would be started",
        LaunchState::Ready => "is ready",
        LaunchState::Accepted => "has the prompt",
        LaunchState::Blocked => "waits for a person",
        LaunchState::Failed => "ended",
        LaunchState::WrongConversation => "has another conversation",
        LaunchState::Waiting => "is not ready yet",
    };
    let mut page = format!("{} {state}", result.agent);
    if let Some(session) = &result.session {
        page.push_str(&format!(": {}", text::one_line(&session.id)));
    }
    page.push('\n');
    let mut row = |name: &str, value: &str| {
        page.push_str(&format!("  {name:<9} {}\n", text::one_line(value)));
    };
    if let Some(terminal) = &result.terminal {
        row("terminal", terminal);
    }
    row("directory", &result.cwd);
    if let Some(worktree) = &result.worktree {
        row("worktree", worktree);
    }
    if result.dry_run {
        row("command", &result.argv.join(" "));
    }
    if let Some(fuse) = &result.fuse {
        row("fuse", fuse);
    }
    if let Some(code) = result.exit_code {
        row("exit code", &code.to_string());
    }
    if let Some(reason) = &result.reason {
        row("note", reason);
    }
    if !result.also_here.is_empty() {
        row("also here", &result.also_here.join(", "));
    }
    page
}
