//! `ostler mcp`

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use model::wire::McpConfigResult;

use crate::cli::CliContext;
use crate::config::{McpRight, McpServerSettings};
use crate::error::Error;
use crate::render::output;

mod clients;
mod quote;
mod scope;
mod server;
mod tools;

declare_commands![CommandEntry {
    place: HelpPlace(SetUp, 6),
    effect: WritesState,
    answers: &[answer::<wire::McpConfigResult>()],
    examples: &[
        example("mcp --print-config claude-code", "The lines for an agent's own settings."),
        example(
            "mcp --allow prompt --print-config codex",
            "The same, allowed to prompt other sessions."
        )
    ],
    cases: &[
        usual("mcp --print-config codex").harmless(),
        refused("mcp --print-config aider"),
        also("mcp --print-config opencode --allow terminals,prompt --scope all").harmless()
    ],
    uncased: &[ONE_HOME, ONE_PROGRAM],
    ..entry!("mcp", McpArgs, run_mcp)
}];

/// Serve what ostler knows to an agent, as an MCP server on standard input and output.
///
/// Agents can list sessions, read their conversations and screens, search and wait. Unless `--allow` says
/// more it changes nothing, and unless `--scope` says more it sees only the sessions of this directory's
/// repository. It never cleans up, stops, or types into what it did not make.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// What the agent may do beyond looking.
    #[arg(long, value_name = "RIGHT", value_delimiter = ',')]
    allow: Vec<McpRight>,
    /// Whose sessions it sees [default: project].
    #[arg(long, value_name = "SCOPE")]
    scope: Option<McpScopeArg>,
    /// Print the lines for this agent's settings, and serve nothing.
    #[arg(long, value_name = "AGENT", add = crate::cli::complete::agents())]
    print_config: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum McpScopeArg {
    /// This directory's repository and its worktrees.
    Project,
    /// Every session of this user.
    All,
}

impl McpArgs {
    pub(crate) fn run_mcp(&self, context: &CliContext) -> Result<ExitCode, Error> {
        if let Some(agent) = &self.print_config {
            return self.print_settings(context, agent);
        }
        if output::is_terminal() {
            return Err(Error::usage_error(
                "an MCP server speaks to a program, and this is a terminal",
                "`ostler mcp --print-config AGENT` prints the lines for an agent's settings",
            ));
        }
        let configured = context.load_config()?.mcp;
        let mut rights = configured.rights;
        rights.extend(
            self.allow.iter().filter(|right| !rights.contains(right)).copied().collect::<Vec<_>>(),
        );
        let sees_everything = match self.scope {
            Some(scope) => scope == McpScopeArg::All,
            None => configured.sees_everything,
        };
        server::serve_mcp(
            context.next_turn(),
            McpServerSettings { rights, sees_everything, ..configured },
        )
    }

    fn print_settings(&self, context: &CliContext, agent: &str) -> Result<ExitCode, Error> {
        let name = flows::agent_named(agent).unwrap_or(agent);
        let (file, lines) = clients::client_settings(name, &self.arguments()).ok_or_else(|| {
            let known: Vec<&str> = clients::client_agents().collect();
            Error::usage_error(
                format!("how `{agent}` is told of an MCP server is not known"),
                format!("known are: {}", known.join(", ")),
            )
        })?;
        if context.json {
            context.print_json(McpConfigResult { agent: name.to_owned(), file, lines })?;
        } else {
            output::print_notice(&format!("for {file}"));
            output::print_text(&lines)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// These options, for the settings.
    fn arguments(&self) -> Vec<String> {
        let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
            value().map(|value| value.get_name().to_owned())
        };
        let rights: Vec<String> =
            self.allow.iter().filter_map(|right| name(&|| right.to_possible_value())).collect();
        let mut words = Vec::new();
        if !rights.is_empty() {
            words.extend(["--allow".to_owned(), rights.join(",")]);
        }
        if let Some(scope) = self.scope.and_then(|scope| name(&|| scope.to_possible_value())) {
            words.extend(["--scope".to_owned(), scope]);
        }
        words
    }
}
