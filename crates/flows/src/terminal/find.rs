//! From what a person types to one hosted session, without looking at anything else.

use host::screen::Personality;
use model::hosted::{Code, Fault};

use super::{Home, Session, TerminalError};
use crate::address::AddressError;

impl Home {
    /// Finds the session that `text` means: an id; under ostler's name also an unambiguous prefix, a
    /// name, `.` for this directory and `-` for the newest.
    pub fn find(&self, text: &str) -> Result<Session, TerminalError> {
        if text.is_empty() || text.contains('/') || text.contains('\\') || text == ".." {
            let message = format!("`{text}` is not a session id");
            return Err(Fault::new(Code::InvalidSessionId, message).into());
        }
        let text = text.strip_prefix("terminal:").unwrap_or(text);
        let exact = match text {
            "." | "-" => None,
            id => Some(self.open(id)),
        };
        match exact {
            Some(Ok(session)) => return Ok(session),
            Some(Err(fault)) if fault.code != Code::SessionNotFound => return Err(fault.into()),
            Some(Err(fault)) if self.personality == Personality::AgentTty => {
                return Err(fault.into());
            }
            None if self.personality == Personality::AgentTty => {
                let message = format!("no session `{text}`");
                return Err(Fault::new(Code::SessionNotFound, message).into());
            }
            _ => {}
        }
        self.find_loosely(text)
    }

    fn find_loosely(&self, text: &str) -> Result<Session, TerminalError> {
        let not_found = || AddressError::NotFound(text.to_owned());
        let mut ids = self.ids();
        // Ids begin with their time, so the newest come last.
        ids.sort_unstable();
        match text {
            "-" => {
                let newest = ids.iter().rev().find_map(|id| self.open(id).ok());
                return Ok(newest.ok_or_else(not_found)?);
            }
            "." => {
                let here = std::env::current_dir().unwrap_or_default();
                let sessions = ids.iter().rev().filter_map(|id| self.open(id).ok());
                let mut here =
                    sessions.filter(|one| std::path::Path::new(&one.manifest.cwd) == here);
                return Ok(here.next().ok_or_else(not_found)?);
            }
            _ => {}
        }
        let sessions: Vec<Session> = ids.iter().filter_map(|id| self.open(id).ok()).collect();
        let prefix = text.to_ascii_uppercase();
        let attempts: [&dyn Fn(&Session) -> bool; 3] = [
            // A name may be used again once its session is over.
            &|one| one.manifest.name.as_deref() == Some(text) && one.manifest.status.is_active(),
            &|one| one.manifest.name.as_deref() == Some(text),
            &|one| one.id.starts_with(text) || one.id.starts_with(&prefix),
        ];
        for fits in attempts {
            let mut found: Vec<Session> =
                sessions.iter().filter(|one| fits(one)).cloned().collect();
            match found.len() {
                0 => {}
                1 => return Ok(found.remove(0)),
                _ => {
                    let candidates =
                        found.iter().map(|one| format!("terminal:{}", one.id)).collect();
                    return Err(
                        AddressError::Ambiguous { text: text.to_owned(), candidates }.into()
                    );
                }
            }
        }
        Err(not_found().into())
    }

    /// The names of the session directories.
    pub fn ids(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.sessions()) else { return Vec::new() };
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
    }

    /// Every session whose manifest can be read, in the directory's order.
    pub fn all(&self) -> Vec<Session> {
        self.ids().iter().filter_map(|id| self.open(id).ok()).collect()
    }
}
