//! Commands for hosted terminals, under ostler's name and under agent-tty's.

use std::process::ExitCode;

use clap::Subcommand;
use flows::terminal::screen::png::Profile;
use flows::terminal::{Session, picture};
use model::hosted::{Code, Fault};

use crate::cli::Context;
use crate::config::Terminals;
use crate::error::Error;

mod attach;
mod batch;
mod create;
mod destroy;
mod inspect;
mod mark;
mod paste;
mod record;
mod resize;
mod run;
mod screenshot;
mod send_keys;
mod signal;
mod snapshot;
mod type_text;
mod verify;
mod wait;

/// What can be done with a hosted terminal.
#[derive(Debug, Subcommand)]
pub(crate) enum Terminal {
    Create(create::Create),
    Run(run::Run),
    Type(type_text::Type),
    Paste(paste::Paste),
    SendKeys(send_keys::SendKeys),
    Batch(batch::Batch),
    Wait(wait::Wait),
    Snapshot(snapshot::Snapshot),
    Screenshot(screenshot::Screenshot),
    Record(record::Record),
    Inspect(inspect::Inspect),
    Resize(resize::Resize),
    Signal(signal::Signal),
    Mark(mark::Mark),
    Attach(attach::Attach),
    Destroy(destroy::Destroy),
    Verify(verify::Verify),
}

impl Terminal {
    /// The name in the envelope.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Run(_) => "run",
            Self::Type(_) => "type",
            Self::Paste(_) => "paste",
            Self::SendKeys(_) => "send-keys",
            Self::Batch(_) => "batch",
            Self::Wait(_) => "wait",
            Self::Snapshot(_) => "snapshot",
            Self::Screenshot(_) => "screenshot",
            Self::Record(_) => "record export",
            Self::Inspect(_) => "inspect",
            Self::Resize(_) => "resize",
            Self::Signal(_) => "signal",
            Self::Mark(_) => "mark",
            Self::Attach(_) => "attach",
            Self::Destroy(_) => "destroy",
            Self::Verify(_) => "verify",
        }
    }

    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        match self {
            Self::Create(command) => command.run(context),
            Self::Run(command) => command.run(context),
            Self::Type(command) => command.run(context),
            Self::Paste(command) => command.run(context),
            Self::SendKeys(command) => command.run(context),
            Self::Batch(command) => command.run(context),
            Self::Wait(command) => command.run(context),
            Self::Snapshot(command) => command.run(context),
            Self::Screenshot(command) => command.run(context),
            Self::Record(command) => command.run(context),
            Self::Inspect(command) => command.run(context),
            Self::Resize(command) => command.run(context),
            Self::Signal(command) => command.run(context),
            Self::Mark(command) => command.run(context),
            Self::Attach(command) => command.run(context),
            Self::Destroy(command) => command.run(context),
            Self::Verify(command) => command.run(context),
        }
    }
}

impl Context {
    /// How terminals are kept and drawn. agent-tty has settings of its own.
    pub(crate) fn terminal_settings(&self) -> Result<Terminals, Error> {
        let Some(globals) = &self.agent_tty else { return Ok(self.config()?.terminals) };
        let usual = Terminals::default();
        let profile = globals.profile.clone().unwrap_or_else(|| usual.profile.clone());
        Ok(Terminals { profile, ..usual })
    }

    /// The profile to draw with.
    pub(crate) fn profile(&self, given: Option<&str>) -> Result<Profile, Error> {
        let settings = self.terminal_settings()?;
        let name = given.unwrap_or(&settings.profile);
        Ok(picture::profile(name, &settings.profiles)?)
    }

    /// The session that `text` means.
    pub(crate) fn session(&self, text: &str) -> Result<Session, Error> {
        Ok(self.terminals()?.find(text)?)
    }
}

/// A number that is not negative, or the fault that names the option.
fn whole(option: &str, text: Option<&str>) -> Result<Option<u64>, Fault> {
    let wrong = |_| Fault::input(format!("{option} must be a non-negative integer."));
    text.map(|text| text.parse().map_err(wrong)).transpose()
}

/// As [`whole`], for positions on a screen.
fn position(option: &str, text: Option<&str>) -> Result<Option<u16>, Fault> {
    let wrong = |_| Fault::input(format!("{option} must be a non-negative integer."));
    whole(option, text)?.map(|number| u16::try_from(number).map_err(wrong)).transpose()
}

/// Columns or rows.
fn cells(text: &str) -> Result<u16, Fault> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
        let message =
            format!("`{text}` is not a size: columns and rows must be positive integers.");
        Fault::new(Code::InvalidDimensions, message)
    })
}
