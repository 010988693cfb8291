//! From what a person types to one session: an id, an unambiguous prefix, a name, `.` or `-`.

use std::path::Path;

use model::address::{AddressError, SessionHandle, pick_session};

use crate::observe::{Observation, Observed};
use crate::repository;

/// Finds the one session that `text` means, by the rule of [`pick_session`]; `-` is the newest and
/// `.` the newest of this place (see [`repository::pick_here`]).
pub fn resolve_session<'a>(
    observation: &'a Observation,
    text: &str,
    here: &Path,
) -> Result<&'a Observed, AddressError> {
    let not_found = || AddressError::NotFound(text.to_owned());
    // Sessions are sorted: live first, newest first.
    match text {
        "-" => return observation.sessions.first().ok_or_else(not_found),
        "." => {
            let cwd_of = |one: &&Observed| one.session.digest.cwd.clone();
            let found = repository::pick_here(observation.sessions.iter(), cwd_of, here);
            return found.ok_or_else(not_found);
        }
        _ => {}
    }
    let all: Vec<&Observed> = observation.sessions.iter().chain(&observation.subagents).collect();
    pick_session(&all, text, handle_of)
}

fn handle_of(one: &Observed) -> SessionHandle<'_> {
    let digest = &one.session.digest;
    SessionHandle {
        agent: one.session.agent,
        id: &one.session.id,
        name: digest.name.as_deref(),
        title: digest.title.as_deref(),
        live: one.verdict.status.is_active(),
    }
}
