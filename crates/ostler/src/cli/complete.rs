//! What the shell may complete: live session ids, agents.

use clap_complete::CompletionCandidate;
use flows::observe::{ObserveRequest, ObserveScope, observe_sessions};
use model::config::OstlerConfig;
use model::session::is_safe_id;

use crate::env;
use crate::render::text;

/// Ids of every session, with what they are about.
pub(crate) fn complete_sessions() -> Vec<CompletionCandidate> {
    let config = OstlerConfig::default();
    let dirs = sys::dirs::of_this_process().ok();
    let observation = observe_sessions(&ObserveRequest {
        env: flows::EnvLookup::new(&env::lookup_variable),
        config: &config,
        home: dirs.as_ref().map(|dirs| dirs.home.as_path()),
        cache: dirs.as_ref().map(|dirs| dirs.cache.as_path()),
        now: sys::clock::now(),
        scope: ObserveScope::All,
        agents: &[],
    });
    // Shells insert a candidate as it is: `$(…)` in an id would be run. Such a session can still be
    // addressed, in quotes.
    observation
        .sessions
        .iter()
        .filter(|observed| is_insertable(&observed.session.id))
        .map(|observed| {
            let session = &observed.session;
            let title = text::cut_right(&text::one_line(session.display_title().unwrap_or("")), 60);
            let help = format!("{} {} {title}", session.agent, observed.verdict.status.as_str());
            CompletionCandidate::new(&session.id).help(Some(help.trim_end().to_owned().into()))
        })
        .collect()
}

/// Ids of every adapter.
pub(crate) fn complete_agents() -> Vec<CompletionCandidate> {
    flows::adapter_ids().map(CompletionCandidate::new).collect()
}

/// Ids of access sessions.
pub(crate) fn complete_access_sessions() -> Vec<CompletionCandidate> {
    let Ok(dirs) = sys::dirs::of_this_process() else { return Vec::new() };
    let world = access::AccessWorld::here();
    let sessions = access::list::list_access(&dirs.home, &world, false).unwrap_or_default();
    sessions
        .iter()
        .filter(|session| is_insertable(&session.id))
        .map(|session| {
            let label = text::one_line(session.label.as_deref().unwrap_or(""));
            let help = format!("{} {label}", session.state);
            CompletionCandidate::new(&session.id).help(Some(help.trim_end().to_owned().into()))
        })
        .collect()
}

/// Whether an id is one word to every shell, and no option to ostler.
fn is_insertable(id: &str) -> bool {
    is_safe_id(id) && !id.starts_with('-')
}
