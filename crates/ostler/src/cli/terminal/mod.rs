//! Commands for hosted terminals, under ostler's name and under agent-tty's.

use flows::terminal::screen::png::Profile;
use flows::terminal::{HostedSession, picture};
use model::hosted::{FaultCode, HostFault};

use crate::cli::CliContext;
use crate::config::TerminalSettings;
use crate::error::Error;

pub(super) mod attach;
pub(super) mod batch;
pub(super) mod create;
pub(super) mod destroy;
pub(super) mod inspect;
pub(super) mod mark;
pub(super) mod paste;
pub(super) mod record;
pub(super) mod resize;
pub(super) mod run;
pub(super) mod screenshot;
pub(super) mod send_keys;
pub(super) mod signal;
pub(super) mod snapshot;
pub(super) mod type_text;
pub(super) mod verify;
pub(super) mod wait;

impl CliContext {
    /// How terminals are kept and drawn. agent-tty has settings of its own.
    pub(crate) fn terminal_settings(&self) -> Result<TerminalSettings, Error> {
        let Some(globals) = &self.agent_tty else { return Ok(self.load_config()?.terminals) };
        let usual = TerminalSettings::default();
        let profile = globals.profile.clone().unwrap_or_else(|| usual.profile.clone());
        Ok(TerminalSettings { profile, ..usual })
    }

    /// The profile to draw with.
    pub(crate) fn render_profile(&self, given: Option<&str>) -> Result<Profile, Error> {
        let settings = self.terminal_settings()?;
        let name = given.unwrap_or(&settings.profile);
        Ok(picture::find_profile(name, &settings.profiles)?)
    }

    /// The session that `text` means.
    pub(crate) fn find_terminal(&self, text: &str) -> Result<HostedSession, Error> {
        Ok(self.terminals_home()?.find_session(text)?)
    }
}

/// A number that is not negative, or the fault that names the option.
fn parse_whole(option: &str, text: Option<&str>) -> Result<Option<u64>, HostFault> {
    let wrong = |_| HostFault::invalid_input(format!("{option} must be a non-negative integer."));
    text.map(|text| text.parse().map_err(wrong)).transpose()
}

/// As [`parse_whole`], for positions on a screen.
fn parse_position(option: &str, text: Option<&str>) -> Result<Option<u16>, HostFault> {
    let wrong = |_| HostFault::invalid_input(format!("{option} must be a non-negative integer."));
    parse_whole(option, text)?.map(|number| u16::try_from(number).map_err(wrong)).transpose()
}

/// Columns or rows.
fn parse_cells(text: &str) -> Result<u16, HostFault> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
        let message =
            format!("`{text}` is not a size: columns and rows must be positive integers.");
        HostFault::new(FaultCode::InvalidDimensions, message)
    })
}
