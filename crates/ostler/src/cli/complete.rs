//! What the shell may complete: live session ids, agents.

use clap_complete::CompletionCandidate;
use flows::observe::{Request, Scope, observe};
use model::config::Config;

use crate::env;
use crate::render::text;

/// Ids of every session, with what they are about.
pub(crate) fn sessions() -> Vec<CompletionCandidate> {
    let config = Config::default();
    let cache = sys::dirs::of_this_process().ok().map(|dirs| dirs.cache);
    let observation = observe(&Request {
        home: None,
        env: flows::Env::new(&env::lookup),
        config: &config,
        cache: cache.as_deref(),
        now: sys::clock::now(),
        scope: Scope::All,
        agents: &[],
    });
    observation
        .sessions
        .iter()
        .map(|observed| {
            let session = &observed.session;
            let title = text::cut(&text::one_line(session.title().unwrap_or("")), 60);
            let help = format!("{} {} {title}", session.agent, observed.verdict.status.word());
            CompletionCandidate::new(&session.id).help(Some(help.trim_end().to_owned().into()))
        })
        .collect()
}

/// Ids of every adapter.
pub(crate) fn agents() -> Vec<CompletionCandidate> {
    flows::adapter_ids().map(CompletionCandidate::new).collect()
}
