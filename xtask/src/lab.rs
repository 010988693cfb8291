//! The real-agents lab: installs coding agents from npm, drives each one in a scratch home
//! against a fake model on loopback, and checks what `ostler` says about the sessions it makes.
//!
//! Without `--ostler` the agents are only driven; with `--snapshots` what they have on disk and
//! in the process table is written down at each moment of a session.

mod agents;
mod checks;
mod control;
mod control_rows;
mod control_table;
mod hooks;
mod install;
mod mcp;
mod model_server;
mod observe;
mod ostler;
mod process;
mod report;
mod scenario;
mod stage;
mod terminal;
mod truth;
mod truth_cases;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use agents::{AGENTS, Agent};
use install::Prefixes;
use report::{Outcome, Report, Row, Verdict};
use scenario::Run;
use stage::Stage;

/// What `cargo xtask lab` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Agents to run, by the name of ostler's adapter
    #[arg(long, value_delimiter = ',')]
    agent: Vec<String>,
    /// Run the agents that are otherwise only run by name, too
    #[arg(long)]
    all: bool,
    /// The ostler binary to check; without it the agents are only driven
    #[arg(long, value_parser = resolved)]
    ostler: Option<PathBuf>,
    /// Check the hooks that this ostler installs, instead of what it says about sessions
    #[arg(long, requires = "ostler")]
    hooks: bool,
    /// Launch, prompt, resume and stop the agents with this ostler, instead of what it says about sessions
    #[arg(long, requires = "ostler", conflicts_with = "hooks")]
    control: bool,
    /// Let the agents call this ostler's MCP server, told of it by the lines of `mcp --print-config`
    #[arg(long, requires = "ostler", conflicts_with_all = ["hooks", "control", "truth"])]
    mcp: bool,
    /// Bring the agents into every moment of the truth table: before the first prompt, interrupted, resumed
    /// inside, two windows and so on
    #[arg(long, requires = "ostler", conflicts_with_all = ["hooks", "control"])]
    truth: bool,
    #[command(flatten)]
    control_options: control::ControlOptions,
    /// Scratch directory [default: $XDG_CACHE_HOME/ostler-lab]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Fetch the newest version of each agent
    #[arg(long)]
    update: bool,
    /// Keep the homes, the output of the agents and the log of the model
    #[arg(long)]
    keep: bool,
    /// Write what is on disk and in the process table at each moment into this directory
    #[arg(long)]
    snapshots: Option<PathBuf>,
    /// Write the report as JSON into this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the lab; fails if any check does.
pub(crate) fn run(options: &Options) -> ExitCode {
    match matrix(options) {
        Ok(report) => {
            println!("{}", report.text());
            if report.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::from(2)
        }
    }
}

fn matrix(options: &Options) -> Result<Report, String> {
    let chosen = chosen(options)?;
    let scratch = scratch(options)?;
    let make = |dir: &Path| fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()));
    make(&scratch)?;
    options.snapshots.as_deref().map_or(Ok(()), make)?;
    // Agents report the resolved path, and so must we.
    let scratch = scratch.canonicalize().map_err(|e| format!("{}: {e}", scratch.display()))?;
    let prefixes = Prefixes::new(&scratch);
    let mut report = Report::new(match options.control {
        true => control::CHECKS,
        false if options.hooks => hooks::CHECKS,
        false if options.truth => truth::CHECKS,
        false if options.mcp => mcp::CHECKS,
        false => report::CHECKS,
    });
    for agent in chosen {
        eprintln!("lab: {}", agent.id);
        let failed =
            |reason: String| vec![Outcome { check: "drive", verdict: Verdict::Fail, reason }];
        let outcomes = match prefixes.ensure(agent, options.update) {
            Err(reason) => failed(reason),
            Ok(()) => match Stage::prepare(agent, &scratch, &prefixes) {
                Err(error) => failed(format!("prepare: {error}")),
                Ok(stage) => drive(stage, options),
            },
        };
        report.rows.push(Row { agent: agent.id, version: prefixes.version(agent), outcomes });
        // After each agent: a run that is cut short has said what it knows.
        if let Some(path) = &options.json {
            write_json(path, &report).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(report)
}

fn drive(stage: Stage, options: &Options) -> Vec<Outcome> {
    if let (Some(ostler), true) = (&options.ostler, options.control) {
        let outcomes = control::run(&stage, ostler, options.control_options);
        finish_stage(&stage, options);
        return outcomes;
    }
    if let (Some(ostler), true) = (&options.ostler, options.mcp) {
        let outcomes = mcp::run(&stage, ostler);
        finish_stage(&stage, options);
        return outcomes;
    }
    if let (Some(ostler), true) = (&options.ostler, options.truth) {
        let outcomes = truth::run(&stage, ostler);
        finish_stage(&stage, options);
        return outcomes;
    }
    let (Some(hooked), Some(ostler), true) = (&stage.agent.hooked, &options.ostler, options.hooks)
    else {
        return Run::new(stage, options).all();
    };
    let outcomes = hooks::run(&stage, hooked, ostler);
    finish_stage(&stage, options);
    outcomes
}

/// Ends what a run left, and removes it unless it is to be kept.
fn finish_stage(stage: &Stage, options: &Options) {
    if !options.keep {
        process::kill_run(&stage.home);
        let _ = fs::remove_dir_all(&stage.dir);
    }
}

/// A path that is there, from wherever the lab goes.
fn resolved(path: &str) -> Result<PathBuf, String> {
    Path::new(path).canonicalize().map_err(|error| error.to_string())
}

fn write_json(path: &Path, report: &Report) -> io::Result<()> {
    fs::write(path, format!("{:#}\n", report.json()))
}

fn chosen(options: &Options) -> Result<Vec<&'static Agent>, String> {
    for name in &options.agent {
        if !AGENTS.iter().any(|agent| agent.id == name) {
            let names: Vec<&str> = AGENTS.iter().map(|agent| agent.id).collect();
            return Err(format!("no agent {name:?}; there are {}", names.join(", ")));
        }
    }
    let is_driven = |agent: &Agent| options.control && control_table::case_of(agent.id).is_some();
    let named = |agent: &&Agent| options.agent.iter().any(|name| name == agent.id);
    let usual = |agent: &&Agent| {
        options.agent.is_empty() && (options.all || !agent.opt_in || is_driven(agent))
    };
    let fits = |agent: &&Agent| !options.hooks || agent.hooked.is_some();
    Ok(AGENTS.iter().filter(|agent| named(agent) || usual(agent)).filter(fits).collect())
}

fn scratch(options: &Options) -> Result<PathBuf, String> {
    if let Some(dir) = &options.dir {
        return Ok(dir.clone());
    }
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    cache.map(|cache| cache.join("ostler-lab")).ok_or_else(|| "no HOME; use --dir".to_owned())
}
