//! `ostler completions`

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::env::EnvCompleter;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(SetUp, 7),
    examples: &[example("completions fish", "The script; source it in your shell.")],
    cases: &[usual("completions fish"), refused("completions tcsh"), also("completions bash")],
    uncased: &[ONE_HOME, ONE_PROGRAM],
    ..entry!("completions", CompletionsArgs, run_completions)
}];

/// Print the completion script of a shell; session ids are completed live.
///
/// For bash: `source <(ostler completions bash)`. For zsh, put the output into a file named
/// `_ostler` on your `fpath`. For fish: `ostler completions fish | source`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: CompletionShell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

impl CompletionsArgs {
    pub(crate) fn run_completions(&self, _: &CliContext) -> Result<ExitCode, Error> {
        output::print_text(&self.shell.render_script()?)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl CompletionShell {
    /// The script that registers the completions.
    pub(crate) fn render_script(self) -> Result<String, Error> {
        use clap_complete::env::{Bash, Elvish, Fish, Powershell, Zsh};

        let shell: &dyn EnvCompleter = match self {
            Self::Bash => &Bash,
            Self::Zsh => &Zsh,
            Self::Fish => &Fish,
            Self::Elvish => &Elvish,
            Self::Powershell => &Powershell,
        };
        let mut out = Vec::new();
        shell.write_registration("COMPLETE", "ostler", "ostler", "ostler", &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }
}
