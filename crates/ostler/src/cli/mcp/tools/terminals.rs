//! Tools that make and drive terminals: only those that servers of this client made, and not too many.
//!
//! The limits are read from the terminals themselves, so that they hold across a restart of the server and
//! between servers; a lock orders starts that come at the same time.

use flows::terminal::agent_command::agent_command;
use flows::terminal::create::{self, CreateTerminalRequest};
use flows::terminal::{HostedSession, ask, batch, destroy};
use model::hosted::wire::RunParams;
use model::hosted::{FaultCode, HostFault};
use model::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sys::lock::{self, AdvisoryLock};

use super::super::quote::QuotedText;
use super::super::scope;
use super::super::server::{McpCall, McpServerState};
use super::{McpTool, ToolEffect};
use crate::config::McpRight;
use crate::env;
use crate::error::Error;
use crate::timeouts::START_LOCK_TIMEOUT;

/// The most terminals that descend from one outermost client and are alive.
const MOST_OF_TREE: usize = 20;

/// The most that one client starts in a minute.
const MOST_STARTS_A_MINUTE: usize = 10;

/// The most characters of a command's output.
const MOST_OUTPUT_CHARS: usize = 20_000;

/// The longest a command is waited for.
const MOST_RUN_MS: u64 = 300_000;

fn limit_reached(what: String, hint: &str) -> Error {
    Error::Refused { what, hint: hint.to_owned() }
}

impl McpServerState {
    /// Refuses what would be one too many.
    fn check_terminal_limits(&self, now: Time) -> Result<(), Error> {
        if self.place.depth >= self.most_depth {
            return Err(limit_reached(
                format!(
                    "this agent was itself started {} levels deep, and may start no other",
                    self.place.depth
                ),
                "ask the session that started it, or a person",
            ));
        }
        let terminals = self.call_context().terminals_home()?.readable_sessions()?;
        let alive = |one: &&HostedSession| one.status().is_active();
        let made: Vec<&HostedSession> =
            terminals.iter().filter(|one| self.place.made(one)).collect();
        let (living, most) = (made.iter().copied().filter(alive).count(), self.most_terminals);
        if living >= most {
            return Err(limit_reached(
                format!("{living} terminals of this client are alive, and {most} are allowed"),
                "destroy one with `destroy_terminal`",
            ));
        }
        let tree = terminals.iter().filter(|one| self.place.is_of_tree(one)).filter(alive).count();
        if tree >= MOST_OF_TREE {
            return Err(limit_reached(
                format!(
                    "{tree} terminals descend from the same agent, and {MOST_OF_TREE} are allowed"
                ),
                "destroy some of them",
            ));
        }
        let is_recent = |one: &&&HostedSession| now.since(one.manifest.created_at).as_secs() < 60;
        let recent = made.iter().filter(is_recent).count();
        if recent >= MOST_STARTS_A_MINUTE {
            return Err(limit_reached(
                format!("{recent} terminals were started within the last minute"),
                "wait a minute, and use a terminal that is there",
            ));
        }
        Ok(())
    }

    /// A terminal that servers of this client made.
    fn find_made_terminal(&self, id: &str) -> Result<HostedSession, Error> {
        let terminal = self.find_visible_terminal(id)?;
        if self.place.made(&terminal) {
            return Ok(terminal);
        }
        Err(Error::Refused {
            what: format!(
                "terminal {} was not made by this client: it may be looked at, not driven",
                terminal.id
            ),
            hint: "make one with `create_terminal`".to_owned(),
        })
    }
}

pub(super) struct CreateTerminal;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateInput {
    /// The program and its arguments; without it, a shell.
    #[serde(default)]
    command: Vec<String>,
    /// A known agent to start instead of a program, such as `codex`.
    #[serde(default)]
    agent: Option<String>,
    /// Where to start it, inside of the project; without it, where this server runs.
    #[serde(default)]
    cwd: Option<String>,
    /// A name to call it by.
    #[serde(default)]
    name: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateOutput {
    id: String,
    cols: u16,
    rows: u16,
}

impl McpTool for CreateTerminal {
    const NAME: &'static str = "create_terminal";
    const DESCRIPTION: &'static str = "Starts a program, a shell or an agent on a terminal of its own. It goes on \
        when this server ends.";
    const RIGHT: Option<McpRight> = Some(McpRight::Terminals);
    const EFFECT: ToolEffect = ToolEffect::Adds;
    type Input = CreateInput;
    type Output = CreateOutput;

    fn run(state: &McpCall<'_>, input: CreateInput) -> Result<CreateOutput, Error> {
        let context = state.call_context();
        let home = context.terminals_home()?;
        let cwd = match input.cwd {
            Some(cwd) => state.directory.join(cwd),
            None => state.directory.clone(),
        };
        if !state.scope.contains(cwd.to_str()) {
            return Err(Error::Refused {
                what: format!(
                    "{} is outside of the project that this server is limited to",
                    cwd.display()
                ),
                hint: "name a directory of the project".to_owned(),
            });
        }
        let path = env::lookup_variable("PATH").unwrap_or_default();
        let command = match &input.agent {
            Some(agent) => {
                let agent = flows::agent_named(agent).unwrap_or(agent);
                agent_command(agent, &input.command, &path)?.words
            }
            None => input.command,
        };
        // One start at a time: the limits are read from what is there.
        let _turn = state.lock_starts()?;
        state.check_terminal_limits(context.now)?;
        let calling = context.observe_now(flows::observe::ObserveScope::Active, &[])?;
        let calling = scope::calling_session(&calling).map(|one| one.session.session_name());
        let result = create::create_terminal(
            &home,
            CreateTerminalRequest {
                command,
                shell: env::user_shell().unwrap_or_else(|| "/bin/sh".to_owned()),
                cwd: Some(cwd.to_string_lossy().into_owned()),
                cols: 120,
                rows: 40,
                env: state.place.terminal_variables(calling.as_ref()),
                term: "xterm-256color".to_owned(),
                name: input.name,
                idle_timeout_ms: 0,
                scrollback_lines: context.terminal_settings()?.scrollback_lines,
                secrets: Vec::new(),
                headless: None,
                runtime: env::runtime_dir(),
            },
        )?;
        Ok(CreateOutput { id: result.session_id, cols: result.cols, rows: result.rows })
    }
}

pub(super) struct RunCommand;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RunInput {
    /// The terminal's id or name; a shell must be at its prompt there.
    id: String,
    command: String,
    /// How long to wait for its end, at most 300,000.
    #[serde(default)]
    timeout_ms: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunOutput {
    /// Whether its end was seen in time.
    completed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    quoted_output: QuotedText,
    /// Whether the beginning was left out.
    truncated: bool,
}

impl McpTool for RunCommand {
    const NAME: &'static str = "run";
    const DESCRIPTION: &'static str =
        "Gives a command to the shell in a terminal of this server and waits for its end.";
    const RIGHT: Option<McpRight> = Some(McpRight::Terminals);
    const EFFECT: ToolEffect = ToolEffect::Ends;
    type Input = RunInput;
    type Output = RunOutput;

    fn run(state: &McpCall<'_>, input: RunInput) -> Result<RunOutput, Error> {
        let terminal = state.find_made_terminal(&input.id)?;
        let params = RunParams {
            command: input.command,
            no_wait: false,
            timeout_ms: Some(input.timeout_ms.unwrap_or(30_000).clamp(1, MOST_RUN_MS)),
            capture: true,
            by: None,
        };
        let result = ask::run_command(&terminal, params)?;
        let output = result.output.unwrap_or_default();
        Ok(RunOutput {
            completed: result.completed.unwrap_or(false),
            exit_code: result.exit_code,
            truncated: result.output_truncated.unwrap_or(false)
                || output.chars().count() > MOST_OUTPUT_CHARS,
            quoted_output: QuotedText::passage(&output, MOST_OUTPUT_CHARS),
        })
    }
}

/// That something was done in a terminal.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DrivenOutput {
    /// The event in the terminal's log.
    seq: u64,
}

pub(super) struct TypeText;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TypeInput {
    /// The terminal's id or name.
    id: String,
    text: String,
}

impl McpTool for TypeText {
    const NAME: &'static str = "type";
    const DESCRIPTION: &'static str = "Types text into a terminal of this server, without Enter.";
    const RIGHT: Option<McpRight> = Some(McpRight::Terminals);
    const EFFECT: ToolEffect = ToolEffect::Adds;
    type Input = TypeInput;
    type Output = DrivenOutput;

    fn run(state: &McpCall<'_>, input: TypeInput) -> Result<DrivenOutput, Error> {
        let terminal = state.find_made_terminal(&input.id)?;
        Ok(DrivenOutput { seq: ask::type_text(&terminal, input.text)?.seq })
    }
}

pub(super) struct SendKeys;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KeysInput {
    /// The terminal's id or name.
    id: String,
    /// `Enter`, `Ctrl+C`, `Up`, `F5`, `é`, in order.
    keys: Vec<String>,
}

impl McpTool for SendKeys {
    const NAME: &'static str = "send_keys";
    const DESCRIPTION: &'static str = "Presses keys in a terminal of this server.";
    const RIGHT: Option<McpRight> = Some(McpRight::Terminals);
    const EFFECT: ToolEffect = ToolEffect::Adds;
    type Input = KeysInput;
    type Output = DrivenOutput;

    fn run(state: &McpCall<'_>, input: KeysInput) -> Result<DrivenOutput, Error> {
        let terminal = state.find_made_terminal(&input.id)?;
        let home = state.call_context().terminals_home()?;
        Ok(DrivenOutput { seq: ask::send_keys(&home, &terminal, input.keys)?.seq })
    }
}

pub(super) struct RunBatch;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchInput {
    /// The terminal's id or name.
    id: String,
    /// Objects with one verb each: `type`, `paste`, `sendKeys`, `run` or `wait`.
    steps: Vec<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BatchOutput {
    /// How many steps were done.
    done: u64,
    /// How many there were.
    steps: u64,
}

impl McpTool for RunBatch {
    const NAME: &'static str = "batch";
    const DESCRIPTION: &'static str = "Does several steps in a terminal of this server in one call, and stops at the first that fails.";
    const RIGHT: Option<McpRight> = Some(McpRight::Terminals);
    const EFFECT: ToolEffect = ToolEffect::Ends;
    type Input = BatchInput;
    type Output = BatchOutput;

    fn run(state: &McpCall<'_>, input: BatchInput) -> Result<BatchOutput, Error> {
        let terminal = state.find_made_terminal(&input.id)?;
        let home = state.call_context().terminals_home()?;
        let steps = batch::parse_batch(&Value::from(input.steps).to_string(), home.personality)?;
        let (cancelled, stops) = (Some(state.cancelled), || state.is_cancelled());
        let result = batch::run_batch(&home, &terminal, &steps, false, &stops, cancelled);
        let (done, all) = (result.completed_count, steps.len());
        let failed = result.steps.iter().find_map(|step| Some((step, step.error.as_ref()?)));
        if let Some((step, error)) = failed {
            let code = FaultCode::ALL.iter().find(|code| code.as_str() == error.code);
            let (index, kind, why) = (step.index, step.kind, &error.message);
            let told = format!("step {index} ({kind}) failed, {done} of {all} were done: {why}");
            let code = code.copied().unwrap_or(FaultCode::InternalError);
            return Err(HostFault::new(code, told).into());
        }
        Ok(BatchOutput { done: done as u64, steps: all as u64 })
    }
}

pub(super) struct ResizeTerminal;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResizeInput {
    /// The terminal's id or name.
    id: String,
    cols: u16,
    rows: u16,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ResizeOutput {
    cols: u16,
    rows: u16,
}

impl McpTool for ResizeTerminal {
    const NAME: &'static str = "resize";
    const DESCRIPTION: &'static str = "Changes the size of a terminal of this server.";
    const RIGHT: Option<McpRight> = Some(McpRight::Terminals);
    const EFFECT: ToolEffect = ToolEffect::Adds;
    type Input = ResizeInput;
    type Output = ResizeOutput;

    fn run(state: &McpCall<'_>, input: ResizeInput) -> Result<ResizeOutput, Error> {
        let terminal = state.find_made_terminal(&input.id)?;
        let size = ask::resize_terminal(&terminal, i64::from(input.cols), i64::from(input.rows))?;
        Ok(ResizeOutput { cols: size.cols, rows: size.rows })
    }
}

pub(super) struct DestroyTerminal;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DestroyInput {
    /// The terminal's id or name.
    id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DestroyOutput {
    id: String,
    destroyed: bool,
}

impl McpTool for DestroyTerminal {
    const NAME: &'static str = "destroy_terminal";
    const DESCRIPTION: &'static str =
        "Ends a terminal of this server with everything that runs in it.";
    const RIGHT: Option<McpRight> = Some(McpRight::Terminals);
    const EFFECT: ToolEffect = ToolEffect::Ends;
    type Input = DestroyInput;
    type Output = DestroyOutput;

    fn run(state: &McpCall<'_>, input: DestroyInput) -> Result<DestroyOutput, Error> {
        let terminal = state.find_made_terminal(&input.id)?;
        let result = destroy::destroy_terminal(terminal, false)?;
        Ok(DestroyOutput { id: result.session_id, destroyed: result.destroyed })
    }
}

impl McpServerState {
    /// The lock under which terminals are started.
    fn lock_starts(&self) -> Result<AdvisoryLock, Error> {
        let home = self.call_context().terminals_home()?;
        create::make_home(&home)?;
        let path = home.root.join("mcp-starts.lock");
        let failed = |reason: String| Error::Write { path: path.display().to_string(), reason };
        let attempt = lock::take_within(&path, START_LOCK_TIMEOUT)
            .map_err(|error| failed(error.to_string()))?;
        attempt
            .into_lock()
            .ok_or_else(|| failed("another server starts a terminal and does not end".to_owned()))
    }
}
