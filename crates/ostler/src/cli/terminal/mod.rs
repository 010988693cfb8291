//! Commands for hosted terminals, under ostler's name and under agent-tty's.

use flows::observe::{ObserveScope, Observed};
use flows::terminal::screen::Personality;
use flows::terminal::screen::png::Profile;
use flows::terminal::{HostedSession, picture};
use model::address::AddressError;
use model::hosted::{FaultCode, HostFault};

use crate::cli::CliContext;
use crate::config::TerminalSettings;
use crate::error::Error;

pub(super) mod attach;
pub(super) mod batch;
pub(super) mod create;
pub(super) mod destroy;
pub(super) mod frames;
pub(super) mod inspect;
pub(super) mod mark;
pub(super) mod paste;
pub(super) mod record;
pub(super) mod resize;
pub(super) mod run;
pub(super) mod screenshot;
pub(super) mod scrollback;
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

    /// The terminal that `text` means: its own address, or that of the agent's session in it.
    pub(crate) fn find_terminal(&self, text: &str) -> Result<HostedSession, Error> {
        let home = self.terminals_home()?;
        let error = match home.find_session(text) {
            Ok(session) => return Ok(session.typed_by(self.caller.clone())),
            Err(error) => Error::from(error),
        };
        if self.personality == Personality::AgentTty || error.stable_code() != "SESSION_NOT_FOUND" {
            return Err(error);
        }
        // Only now is it worth the time to look at every agent's sessions.
        let observation = self.observe_now(ObserveScope::All, &[])?;
        let here = self.current_dir();
        let found = match flows::address::resolve_session(&observation, text, &here) {
            Ok(found) => found,
            Err(AddressError::NotFound(_)) => return Err(error),
            Err(ambiguous) => return Err(ambiguous.into()),
        };
        match &found.session.linked[..] {
            [terminal] => Ok(home.find_session(&terminal.id)?.typed_by(self.caller.clone())),
            [] => Err(not_hosted(found)),
            several => Err(AddressError::Ambiguous {
                text: text.to_owned(),
                candidates: several.iter().map(|one| format!("{}:{}", one.agent, one.id)).collect(),
            }
            .into()),
        }
    }
}

/// That a session which is listed is not in a terminal of ours, where it is, and how to get at it.
fn not_hosted(found: &Observed) -> Error {
    let session = &found.session;
    let claim = found.verdict.decided_by.map(|index| &session.claims[index]);
    let pid = claim.filter(|_| found.verdict.liveness.is_alive()).and_then(|one| one.identity.pid);
    Error::NotHosted {
        session: session.session_name().to_string(),
        place: pid.map(|pid| (pid, sys::terminal::terminal_of(pid))),
        resume: flows::resume::resume_line(session),
    }
}

/// A number that is not negative, or the fault that names the option.
fn parse_whole(option: &str, text: Option<&str>) -> Result<Option<u64>, HostFault> {
    text.map(|text| {
        text.parse().map_err(|_| {
            let message = format!("{option} must be a non-negative integer.");
            HostFault::invalid_input(message).with(&detail_name(option), text)
        })
    })
    .transpose()
}

/// The name of an option's value in `error.details`: `--idle-ms` is `idleMs`.
fn detail_name(option: &str) -> String {
    let mut words = option.trim_start_matches('-').split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, rest) = word.split_at(word.len().min(1));
        name + &head.to_ascii_uppercase() + rest
    })
}

/// As [`parse_whole`], for a span of time. agent-tty has a code of its own for it.
fn parse_span(
    option: &str,
    text: Option<&str>,
    least: u64,
    personality: Personality,
) -> Result<Option<u64>, HostFault> {
    let theirs = personality == Personality::AgentTty;
    let number = parse_whole(option, text).map_err(|fault| {
        let code = if theirs { FaultCode::InvalidDuration } else { fault.code };
        HostFault { code, ..fault }
    })?;
    match number {
        Some(number) if theirs && number < least => {
            let message = format!("{option} must be a positive integer.");
            let fault = HostFault::new(FaultCode::InvalidDuration, message);
            Err(fault.with(&detail_name(option), number))
        }
        number => Ok(number),
    }
}

/// As [`parse_whole`], for positions on a screen.
fn parse_position(option: &str, text: Option<&str>) -> Result<Option<u16>, HostFault> {
    let wrong = |_| HostFault::invalid_input(format!("{option} must be a non-negative integer."));
    parse_whole(option, text)?.map(|number| u16::try_from(number).map_err(wrong)).transpose()
}

/// Columns or rows.
fn parse_cells(option: &str, text: &str) -> Result<u16, HostFault> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
        let too_large = text.parse::<u64>().is_ok_and(|number| number > u64::from(u16::MAX));
        let message = match too_large {
            true => format!(
                "`{text}` is not a size: at most {} columns and rows are possible.",
                u16::MAX
            ),
            false => format!("`{text}` is not a size: columns and rows must be positive integers."),
        };
        HostFault::new(FaultCode::InvalidDimensions, message).with(&detail_name(option), text)
    })
}
