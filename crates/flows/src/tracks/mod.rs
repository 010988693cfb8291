//! What hooks told of sessions: the spool, the store, and the open sessions that the two come to.
//!
//! Reading changes nothing: what waits in the spool is folded in as it will be when the writer takes it.

use std::path::Path;

use store::state::{StateStore, TrackedSession};

pub mod intake;

use intake::IntakeError;

/// The name of a session in messages and on the command line.
pub fn session_name(agent: &str, id: &str) -> String {
    format!("{agent}:{id}")
}

/// Open sessions as they are now: what the store holds and what waits in the spool.
pub fn open_now(
    home: &Path,
    state: Option<&StateStore>,
) -> Result<Vec<TrackedSession>, IntakeError> {
    let mut tracked = told_now(home, state)?;
    tracked.retain(|one| one.track.is_open());
    Ok(tracked)
}

/// Open sessions, and those that the spool tells the end of.
pub(crate) fn told_now(
    home: &Path,
    state: Option<&StateStore>,
) -> Result<Vec<TrackedSession>, IntakeError> {
    let mut tracked = state.map(StateStore::open_sessions).transpose()?.unwrap_or_default();
    for report in intake::read_waiting(home, state)? {
        let told = (report.agent.as_str(), report.hook.session.as_str());
        let known = tracked.iter_mut().find(|one| (one.agent.as_str(), one.id.as_str()) == told);
        match known {
            Some(known) => {
                known.track.apply_report(&report);
            }
            None => {
                let stored =
                    state.map(|state| state.find_track(told.0, told.1)).transpose()?.flatten();
                let mut track = stored.unwrap_or_default();
                track.apply_report(&report);
                tracked.push(TrackedSession { agent: told.0.into(), id: told.1.into(), track });
            }
        }
    }
    Ok(tracked)
}

/// The names of the open sessions of a home.
pub fn open_in(home: &Path) -> Result<Vec<String>, IntakeError> {
    let state = StateStore::open_read_only(home)?;
    let open = open_now(home, state.as_ref())?;
    Ok(open.iter().map(|one| session_name(&one.agent, &one.id)).collect())
}
