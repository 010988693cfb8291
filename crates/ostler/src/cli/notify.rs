//! `ostler notify`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use flows::notify::{send_notice, test_notice};
use model::wire::{NotifyOutcome, NotifyTestResult};

use crate::cli::CliContext;
use crate::cli::daemon::daemon_status;
use crate::config;
use crate::error::{self, Error};
use crate::render::{output, text};

declare_commands![
    CommandEntry { place: HelpPlace(SetUp, 6), ..entry!("notify", NotifyArgs, run_notify) },
    CommandEntry {
        place: HelpPlace(SetUp, 1),
        answers: &[answer::<wire::NotifyTestResult>()],
        examples: &[example("notify test", "Whether you would be told, and how.")],
        cases: &[
            empty("notify test"),
            usual("notify test").on(Notified),
            refused("notify test --no-such-option")
        ],
        uncased: &[ONE_PROGRAM],
        ..entry!("notify test")
    }
];

/// Be told when an agent needs you: `[notify]` in the configuration, sent by the daemon.
///
/// When an agent waits for an answer, its turn fails or its process ends in mid-turn, the daemon shows it on
/// the desktop (`desktop = true`), rings its terminal (`bell = true`) or runs a program of yours (`command =
/// ["program", "argument"]`), once per request and never for a sub-agent. It hears of it from the agents'
/// hooks: `ostler hooks install`.
#[derive(Debug, Args)]
pub(crate) struct NotifyArgs {
    #[command(subcommand)]
    action: NotifyCommand,
}

#[derive(Debug, Subcommand)]
enum NotifyCommand {
    /// Send a test on every way that is set, and say what became of it.
    Test,
}

impl NotifyArgs {
    pub(crate) fn run_notify(&self, context: &CliContext) -> Result<ExitCode, Error> {
        match self.action {
            NotifyCommand::Test => run_test(context),
        }
    }
}

fn run_test(context: &CliContext) -> Result<ExitCode, Error> {
    let settings = context.load_config()?.notify;
    let notice = test_notice(context.now);
    let channels = send_notice(&settings, &notice);
    let daemon = daemon_status(context.machine()?).is_ok_and(|status| status.running);
    let is_whole = settings.is_on() && channels.iter().all(|one| one.sent);
    let result = NotifyTestResult { channels, notice, daemon };
    if context.json {
        context.print_json(&result)?;
    } else {
        let mut page: String = result.channels.iter().map(outcome_line).collect();
        if !settings.is_on() {
            page.push_str(&how_to_set());
        }
        if !daemon {
            page.push_str("no daemon runs, and it sends the real ones: `ostler daemon start`\n");
        }
        output::print_text(&page)?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { error::exit_code_of("INCOMPLETE") })
}

fn how_to_set() -> String {
    let path = config::config_path().map(|path| path.display().to_string());
    let path = path.unwrap_or_else(|| "the configuration file".to_owned());
    let path = text::one_line(&path);
    format!(
        "no way is set: write `[notify]` with `desktop = true` or `command = [\"…\"]` into {path}\n"
    )
}

fn outcome_line(outcome: &NotifyOutcome) -> String {
    match &outcome.reason {
        None => format!("{}: sent\n", outcome.channel),
        Some(reason) => format!("{}: not sent: {}\n", outcome.channel, text::one_line(reason)),
    }
}
