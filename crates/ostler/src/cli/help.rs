//! `ostler help [TOPIC]`

use std::fmt::Write;
use std::process::ExitCode;

use access::rules::skip::SkipCode;
use clap::Args;

use crate::cli::{Context, tree};
use crate::error::{EXITS, Error};
use crate::render::output;

/// Explain a command, or a topic such as `exit-codes` or `access-codes`.
#[derive(Debug, Args)]
pub(crate) struct Help {
    /// A command, `exit-codes` or `access-codes`.
    topic: Option<String>,
}

impl Help {
    pub(crate) fn run(&self, _: &Context) -> Result<ExitCode, Error> {
        let mut tree = tree();
        let text = match self.topic.as_deref() {
            None => tree.render_long_help().to_string(),
            Some("exit-codes") => exit_codes(),
            Some("access-codes") => access_codes(),
            Some(topic) => {
                let found = tree.find_subcommand_mut(topic).ok_or_else(|| {
                    Error::usage(
                        format!("there is no command or topic `{topic}`"),
                        "`ostler help` lists the commands; `exit-codes` and `access-codes` are topics",
                    )
                })?;
                found.clone().bin_name(format!("ostler {topic}")).render_long_help().to_string()
            }
        };
        output::text(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The legend of `access prune`.
fn access_codes() -> String {
    let mut out = String::from("Codes of `ostler access prune`\n\n");
    let mut line = |code: &str, meaning: &str, remedy: &str| {
        let _ = writeln!(out, "{code}\n     {meaning}");
        if !remedy.is_empty() {
            let _ = writeln!(out, "     {remedy}");
        }
    };
    line("PRUNED, PRUNED_LOG", "removed; before that, WOULD_PRUNE and WOULD_PRUNE_LOG", "");
    for code in SkipCode::ALL {
        line(code.word(), code.meaning(), code.remedy());
    }
    line("FAIL_REMOVE", "the system refused the removal; the reason says why", "");
    out
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
