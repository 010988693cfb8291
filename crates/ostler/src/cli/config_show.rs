//! `ostler config`

use std::fmt::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use model::wire::ConfigResult;

use crate::cli::Context;
use crate::error::Error;
use crate::render::output;

/// Show the settings and where they come from.
#[derive(Debug, Args)]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
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

impl ConfigCommand {
    pub(crate) fn name(&self) -> &'static str {
        match self.what {
            What::Show { .. } => "config show",
            What::Path => "config path",
            What::Check => "config check",
        }
    }

    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let loaded = context.config()?;
        let file = loaded.file.unwrap_or_default();
        if context.json {
            let file = file.display().to_string();
            context.answer(ConfigResult { file, settings: loaded.settings })?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = String::new();
        match self.what {
            What::Path => {
                let _ = writeln!(out, "{}", file.display());
            }
            What::Check => {
                let what = if file.is_file() { "is valid" } else { "is not there; defaults hold" };
                let _ = writeln!(out, "{} {what}", file.display());
            }
            What::Show { origin } => {
                for setting in &loaded.settings {
                    let _ = write!(out, "{} = {}", setting.key, setting.value);
                    if origin {
                        let _ = write!(out, "  # {}", setting.origin);
                    }
                    out.push('\n');
                }
            }
        }
        output::text(&out)?;
        Ok(ExitCode::SUCCESS)
    }
}
