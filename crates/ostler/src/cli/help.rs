//! `ostler help [TOPIC]`

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;

use crate::cli::{Context, tree};
use crate::error::{EXITS, Error};
use crate::render::output;

/// Explain a command, or a topic such as `exit-codes`.
#[derive(Debug, Args)]
pub(crate) struct Help {
    /// A command, or `exit-codes`.
    topic: Option<String>,
}

impl Help {
    pub(crate) fn run(&self, _: &Context) -> Result<ExitCode, Error> {
        let mut tree = tree();
        let text = match self.topic.as_deref() {
            None => tree.render_long_help().to_string(),
            Some("exit-codes") => exit_codes(),
            Some(topic) => {
                let found = tree.find_subcommand_mut(topic).ok_or_else(|| {
                    Error::usage(
                        format!("there is no command or topic `{topic}`"),
                        "`ostler help` lists the commands; `exit-codes` is a topic",
                    )
                })?;
                found.clone().bin_name(format!("ostler {topic}")).render_long_help().to_string()
            }
        };
        output::text(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn exit_codes() -> String {
    let mut out = String::from("Exit codes of ostler\n\n");
    for exit in EXITS {
        let _ = writeln!(out, "{:>3}  {}", exit.code, exit.meaning);
        if !exit.codes.is_empty() {
            let _ = writeln!(out, "     {}", exit.codes);
        }
    }
    out
}
