//! `ostler completions`

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::env::EnvCompleter;

use crate::cli::Context;
use crate::error::Error;
use crate::render::output;

/// Print the completion script of a shell; session ids are completed live.
///
/// For bash: `source <(ostler completions bash)`. For zsh, put the output into a file named
/// `_ostler` on your `fpath`. For fish: `ostler completions fish | source`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

impl Completions {
    pub(crate) fn run(&self, _: &Context) -> Result<ExitCode, Error> {
        use clap_complete::env::{Bash, Elvish, Fish, Powershell, Zsh};

        let shell: &dyn EnvCompleter = match self.shell {
            Shell::Bash => &Bash,
            Shell::Zsh => &Zsh,
            Shell::Fish => &Fish,
            Shell::Elvish => &Elvish,
            Shell::Powershell => &Powershell,
        };
        let mut out = Vec::new();
        shell.write_registration("COMPLETE", "ostler", "ostler", "ostler", &mut out)?;
        output::text(&String::from_utf8_lossy(&out))?;
        Ok(ExitCode::SUCCESS)
    }
}
