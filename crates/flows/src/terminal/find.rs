//! From what a person types to one hosted session, without looking at anything else.

use host::screen::Personality;
use model::hosted::{FaultCode, HostFault};

use super::sight::TERMINAL_AGENT;
use super::{HostedSession, TerminalError, TerminalHome};
use crate::repository;
use model::address::{AddressError, EXACT_SIGN, SessionHandle, pick_session};
use sys::dropped::NoteDropped;

impl TerminalHome {
    /// Finds the session that `text` means: an id; under ostler's name also an unambiguous prefix, a
    /// name, `.` for this directory and `-` for the newest, and with `=` in front an id and nothing else.
    pub fn find_session(&self, text: &str) -> Result<HostedSession, TerminalError> {
        if text.is_empty() || text.contains('/') || text.contains('\\') || text == ".." {
            let message = format!("`{text}` is not a session id");
            let fault = HostFault::new(FaultCode::InvalidSessionId, message);
            return Err(fault.with("sessionId", text).into());
        }
        if self.personality == Personality::Ostler
            && let Some(exact) = text.strip_prefix(EXACT_SIGN)
        {
            let id = exact.strip_prefix("terminal:").unwrap_or(exact);
            return self.open_session(id).map_err(|fault| match fault.code {
                FaultCode::SessionNotFound => AddressError::NotFound(exact.to_owned()).into(),
                _ => fault.into(),
            });
        }
        let text = text.strip_prefix("terminal:").unwrap_or(text);
        let exact = match text {
            "." | "-" => None,
            id => Some(self.open_session(id)),
        };
        match exact {
            Some(Ok(session)) => return Ok(session),
            Some(Err(fault)) if fault.code != FaultCode::SessionNotFound => {
                return Err(fault.into());
            }
            Some(Err(fault)) if self.personality == Personality::AgentTty => {
                return Err(fault.into());
            }
            None if self.personality == Personality::AgentTty => {
                let (code, message) = match text {
                    "." => (FaultCode::InvalidSessionId, "`.` is not a session id".to_owned()),
                    _ => (FaultCode::SessionNotFound, format!("Session \"{text}\" was not found.")),
                };
                return Err(HostFault::new(code, message).with("sessionId", text).into());
            }
            _ => {}
        }
        self.find_loosely(text)
    }

    fn find_loosely(&self, text: &str) -> Result<HostedSession, TerminalError> {
        let not_found = || AddressError::NotFound(text.to_owned());
        // Ids begin with their time, so the newest come last.
        let sessions = self.readable_sessions()?;
        match text {
            "-" => return Ok(sessions.into_iter().next_back().ok_or_else(not_found)?),
            "." => {
                let here = self.machine.current_dir().unwrap_or_default();
                let is_live = |one: &HostedSession| one.clone().as_settled().status().is_active();
                let (live, over): (Vec<_>, Vec<_>) = sessions.into_iter().rev().partition(is_live);
                let cwd_of = |one: &HostedSession| Some(one.manifest.cwd.clone());
                let found = repository::pick_here(live.into_iter().chain(over), cwd_of, &here);
                return Ok(found.ok_or_else(not_found)?);
            }
            _ => {}
        }
        let newest_first: Vec<&HostedSession> = sessions.iter().rev().collect();
        let found = pick_session(&newest_first, text, |one: &HostedSession| {
            let name = one.manifest.name.as_deref();
            // Whether it is live costs a look at its host, and is asked only about its name.
            let live = name == Some(text) && one.clone().as_settled().status().is_active();
            SessionHandle { agent: TERMINAL_AGENT, id: &one.id, name, title: None, live }
        });
        Ok(found?.clone())
    }

    /// The names of the session directories, sorted.
    pub fn session_ids(&self) -> Result<Vec<String>, HostFault> {
        let Some(sessions) = self.open_sessions()? else { return Ok(Vec::new()) };
        let names = sessions.list_names();
        let names =
            names.map_err(|error| super::cannot_read(&self.sessions_directory(), &error))?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    /// Every session whose manifest can be read, oldest first.
    pub fn readable_sessions(&self) -> Result<Vec<HostedSession>, HostFault> {
        let Some(sessions) = self.open_sessions()? else { return Ok(Vec::new()) };
        let ids = self.session_ids()?;
        Ok(ids
            .iter()
            .filter_map(|id| {
                self.open_in(&sessions, id).ok_or_note("a terminal whose files cannot be read")
            })
            .collect())
    }
}
