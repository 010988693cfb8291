//! From what a person types to one session: an id, an unambiguous prefix, a name, `.` or `-`.

use std::path::Path;

use model::address::AddressError;

use crate::observe::{Observation, Observed};

/// Finds the one session that `text` means. `agent:` in front narrows it to one agent.
///
/// An exact id beats a name, a name beats a prefix, and nothing is ever guessed.
pub fn resolve_session<'a>(
    observation: &'a Observation,
    text: &str,
    here: &Path,
) -> Result<&'a Observed, AddressError> {
    let not_found = || AddressError::NotFound(text.to_owned());
    match text {
        // Sessions are sorted: live first, newest first.
        "-" => return observation.sessions.first().ok_or_else(not_found),
        "." => {
            let here = |observed: &&Observed| {
                observed.session.digest.cwd.as_deref().is_some_and(|cwd| Path::new(cwd) == here)
            };
            return observation.sessions.iter().find(here).ok_or_else(not_found);
        }
        "" => return Err(not_found()),
        _ => {}
    }
    let (agent, id) = match text.split_once(':') {
        Some((agent, id)) if crate::is_agent(agent) => (Some(agent), id),
        _ => (None, text),
    };
    let all: Vec<&Observed> = observation
        .sessions
        .iter()
        .chain(&observation.subagents)
        .filter(|observed| agent.is_none_or(|agent| observed.session.agent == agent))
        .collect();
    let attempts: [&dyn Fn(&Observed) -> bool; 4] = [
        &|observed| observed.session.id == id,
        &|observed| observed.session.digest.name.as_deref() == Some(id),
        &|observed| observed.session.digest.title.as_deref() == Some(id),
        &|observed| observed.session.id.starts_with(id),
    ];
    for fits in attempts {
        let found: Vec<&Observed> = all.iter().copied().filter(|one| fits(one)).collect();
        match found[..] {
            [] => {}
            [one] => return Ok(one),
            _ => {
                return Err(AddressError::Ambiguous {
                    text: text.to_owned(),
                    candidates: found
                        .iter()
                        .map(|one| format!("{}:{}", one.session.agent, one.session.id))
                        .collect(),
                });
            }
        }
    }
    Err(not_found())
}
