//! `ostler resume`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::control::deliveries::ControlLedger;
use flows::control::launch::{LaunchRequest, LaunchScene};
use flows::control::resume::{ResumeRequest, preview_resume, resume_session};
use flows::observe::{Observation, ObserveScope};
use flows::terminal::source;
use model::address::AddressError;
use model::control::refusal::DriveRefusal;
use model::session::SessionName;

use crate::cli::launch::{StartArgs, print_launch};
use crate::cli::{CliContext, complete};
use crate::error::Error;

declare_commands![CommandEntry {
    place: HelpPlace(Drive, 5),
    effect: WritesFiles,
    answers: &[answer::<::model::control::wire::LaunchResult>()],
    examples: &[
        example(
            "resume ID 'go on' --name again",
            "In its own directory, once it is proven to be it."
        )
        .on(Paused),
        example("resume ID --dry-run", "What would be run, and where.").on(Paused)
    ],
    cases: &[
        empty("resume 666e4f9b"),
        usual("resume ID 'go on' --name again").on(Paused),
        refused("resume 666e4f9b").on(Worked),
        also("resume ID --dry-run --json").on(Paused)
    ],
    uncased: &[ONE_FILE],
    ..entry!("resume", ResumeArgs, run_resume)
}];

/// Go on with a conversation in a new process: exactly this one, in its own directory, or nothing.
///
/// It is refused while a process holds the conversation or may hold it; `--take-over` stops an idle one
/// first. The started agent must be proven to have this conversation before it is told anything; otherwise it
/// is stopped, exit code 15.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(complete::complete_sessions))]
    id: String,
    /// A prompt to go on with; `-` reads standard input.
    text: Option<String>,
    /// Further arguments of the agent.
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
    /// Take the prompt from a file.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    #[command(flatten)]
    start: StartArgs,
    /// Work in another directory, where the agent honours that.
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Go on in a new conversation that begins with this one; the old one stays as it is.
    #[arg(long, conflicts_with = "take_over")]
    fork: bool,
    /// Take it from the process that holds it, if that is idle.
    #[arg(long)]
    take_over: bool,
    /// Wait until the holder has ended its turn.
    #[arg(long, requires = "take_over")]
    when_idle: bool,
    /// Take it from every process that holds it.
    #[arg(long, requires = "take_over")]
    all_holders: bool,
    /// Show what would be run.
    #[arg(long)]
    dry_run: bool,
}

impl ResumeArgs {
    pub(crate) fn run_resume(&self, context: &CliContext) -> Result<ExitCode, Error> {
        if self.id == "-" {
            return Err(Error::usage_error(
                "`-` is whichever session is newest, and the right conversation must be meant",
                "name the session by its id, a prefix or its name",
            ));
        }
        let given = (self.text.as_deref(), self.file.as_deref());
        let prompt = match given {
            (None, None) if self.start.headless => {
                return Err(Error::usage_error(
                    "an agent without a terminal needs its prompt at the start",
                    "give a text, `-` for standard input, or `--file`",
                ));
            }
            (None, None) => None,
            given => Some(source::read_text("text", given.0, given.1, context.personality)?),
        };
        let before = context.observe_now(ObserveScope::All, &[])?;
        let target = self.find_target(context, &before)?;
        let start = LaunchRequest {
            cwd: self.cwd.clone(),
            arguments: self.arguments.clone(),
            ..self.start.to_request(context, &target.agent, prompt)?
        };
        let agents = self.start.watched_agents(&target.agent);
        let request = ResumeRequest {
            target,
            start,
            fork: self.fork,
            take_over: self.take_over,
            when_idle: self.when_idle,
            all_holders: self.all_holders,
        };
        let mut ledger = ControlLedger::new(context.machine()?).for_caller(&before);
        let mut observe = || context.observe_later(&agents);
        let terminals = context.terminals_home()?;
        let mut scene = LaunchScene {
            terminals: &terminals,
            before: &before,
            ledger: &mut ledger,
            observe: &mut observe,
        };
        let result = match self.dry_run {
            true => preview_resume(&request, &mut scene)?,
            false => resume_session(&request, &mut scene)?,
        };
        print_launch(context, &result)
    }

    /// The conversation that is meant; of a terminal, the one that runs in it.
    fn find_target(
        &self,
        context: &CliContext,
        before: &Observation,
    ) -> Result<SessionName, Error> {
        let here = context.current_dir();
        match address::resolve_session(before, &self.id, &here) {
            Ok(one) => {
                let within = flows::control::who::agents_within(before, one);
                Ok(within.first().copied().unwrap_or(one).session.session_name())
            }
            Err(AddressError::NotFound(text)) => {
                // A transcript that was collected is still in the vault.
                let home = context.ostler_home()?;
                let kept = flows::finalize::list_kept(&home).unwrap_or_default();
                match kept.iter().find(|kept| kept.session.starts_with(&text) && text.len() > 3) {
                    Some(kept) => {
                        Err(Error::Drive(DriveRefusal::OnlyInVault { id: kept.session.clone() }))
                    }
                    None => Err(AddressError::NotFound(text).into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }
}
