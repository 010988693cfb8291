//! `ostler config`

use std::fmt::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use model::wire::ConfigResult;

use crate::cli::{CliContext, ls};
use crate::error::{self, Error};
use crate::render::output;

declare_commands![
    CommandEntry {
        place: HelpPlace(SetUp, 3),
        usual_member: "show",
        ..entry!("config", ConfigArgs, run_config)
    },
    CommandEntry {
        place: HelpPlace(SetUp, 1),
        answers: &[answer::<wire::ConfigResult>()],
        examples: &[example("config show --origin", "Every setting, and where it comes from.")],
        cases: &[
            empty("config show"),
            usual("config show --origin"),
            refused("config show --no-such-option")
        ],
        uncased: &[ONE_PROGRAM],
        ..entry!("config show")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 2),
        answers: &[answer::<wire::ConfigResult>()],
        examples: &[example("config path", "Where the file is.")],
        cases: &[
            empty("config path"),
            usual("config path"),
            refused("config path --no-such-option")
        ],
        uncased: &[ONE_PROGRAM],
        ..entry!("config path")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 3),
        answers: &[answer::<wire::ConfigResult>()],
        examples: &[example("config check", "Whether it can be used.")],
        cases: &[
            empty("config check"),
            usual("config check"),
            refused("config check --no-such-option")
        ],
        uncased: &[ONE_PROGRAM],
        ..entry!("config check")
    }
];

/// Show the settings and where they come from.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    what: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every setting.
    Show {
        /// Say where each value comes from.
        #[arg(long)]
        origin: bool,
    },
    /// Print the path of the configuration file.
    Path,
    /// Check the configuration file, and say what is wrong and where.
    Check,
}

impl ConfigArgs {
    pub(crate) fn run_config(&self, context: &CliContext) -> Result<ExitCode, Error> {
        // `check` fails on it; `show` prints what holds all the same.
        let loaded = match self.what {
            ConfigCommand::Check => context.load_config()?,
            ConfigCommand::Show { .. } | ConfigCommand::Path => context.settings_to_look()?,
        };
        let problems = match self.what {
            ConfigCommand::Path => Vec::new(),
            _ => loaded.problems,
        };
        let code = error::exit_code_for(&problems);
        let file = loaded.file.unwrap_or_default();
        if context.json {
            let file = file.display().to_string();
            let settings = loaded.settings;
            context.print_json(ConfigResult { file, settings, incomplete: problems })?;
            return Ok(code);
        }
        let mut out = String::new();
        match self.what {
            ConfigCommand::Path => {
                let _ = writeln!(out, "{}", file.display());
            }
            ConfigCommand::Check => {
                let what = if file.is_file() { "is valid" } else { "is not there; defaults hold" };
                let _ = writeln!(out, "{} {what}", file.display());
            }
            ConfigCommand::Show { origin } => {
                for setting in &loaded.settings {
                    let _ = write!(out, "{} = {}", setting.key, setting.value);
                    if origin {
                        let _ = write!(out, "  # {}", setting.origin);
                    }
                    out.push('\n');
                }
            }
        }
        output::print_text(&out)?;
        ls::report_incomplete(&problems);
        Ok(code)
    }
}
