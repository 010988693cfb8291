//! `ostler config`

use std::fmt::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use model::wire::ConfigResult;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

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
    pub(crate) fn envelope_name(&self) -> &'static str {
        match self.what {
            ConfigCommand::Show { .. } => "config show",
            ConfigCommand::Path => "config path",
            ConfigCommand::Check => "config check",
        }
    }

    pub(crate) fn run_config(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let loaded = context.load_config()?;
        let file = loaded.file.unwrap_or_default();
        if context.json {
            let file = file.display().to_string();
            context.print_json(ConfigResult { file, settings: loaded.settings })?;
            return Ok(ExitCode::SUCCESS);
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
        Ok(ExitCode::SUCCESS)
    }
}
