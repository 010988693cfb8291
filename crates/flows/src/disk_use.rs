//! What agents' sessions cost in bytes: per agent, project and session.

use std::collections::HashMap;

use adapters::ExtraFileKind;
use model::session::SessionKind;
use model::wire::{AgentUse, DuResult, ProjectUse, SessionUse};

use crate::observe::Observation;
use crate::terminal::sight;

/// How many of the biggest sessions are named per agent.
const MAX_BIGGEST_SESSIONS: usize = 10;

/// Adds up an observation of everything.
pub fn disk_use(observation: &Observation) -> DuResult {
    let mut result = DuResult { incomplete: observation.incomplete.clone(), ..DuResult::default() };
    for report in &observation.agents {
        let one = agent_use(observation, report);
        if one.bytes > 0 || one.sessions > 0 {
            result.total_bytes += one.bytes;
            result.agents.push(one);
        }
    }
    let terminals = terminal_use(observation);
    if terminals.sessions > 0 {
        result.total_bytes += terminals.bytes;
        result.agents.push(terminals);
    }
    result.agents.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.agent.cmp(b.agent)));
    result
}

/// Hosted sessions: their logs, and what was made of them.
fn terminal_use(observation: &Observation) -> AgentUse {
    let mut total = AgentUse { agent: sight::TERMINAL_AGENT, ..AgentUse::default() };
    let mut projects: HashMap<Option<&str>, ProjectUse> = HashMap::new();
    let hosted = observation.sessions.iter().filter(|one| one.session.kind == SessionKind::Hosted);
    for session in hosted.map(|one| &one.session) {
        let log = session.transcript.as_ref();
        let directory = log.and_then(|log| log.path.parent());
        let bytes = directory.map_or(0, crate::terminal::remove::size_of);
        let log_bytes = log.map_or(0, |log| log.bytes);
        total.sessions += 1;
        total.bytes += bytes;
        total.transcript_bytes += log_bytes;
        total.attachment_bytes += bytes.saturating_sub(log_bytes);
        let project = projects.entry(session.digest.cwd.as_deref()).or_default();
        project.sessions += 1;
        project.bytes += bytes;
        let title = session.display_title().map(str::to_owned);
        total.biggest.push(SessionUse { id: session.id.clone(), title, bytes });
    }
    let named = projects.into_iter();
    total.projects =
        named.map(|(cwd, used)| ProjectUse { cwd: cwd.map(str::to_owned), ..used }).collect();
    total.projects.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.cwd.cmp(&b.cwd)));
    total.biggest.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.id.cmp(&b.id)));
    total.biggest.truncate(MAX_BIGGEST_SESSIONS);
    total
}

fn agent_use(observation: &Observation, report: &crate::observe::AgentReport) -> AgentUse {
    let agent = report.adapter.agent_profile().id;
    let mut total = AgentUse { agent, ..AgentUse::default() };
    let mut projects: HashMap<Option<&str>, ProjectUse> = HashMap::new();
    let mut sessions: HashMap<&str, SessionUse> = HashMap::new();
    // Where bytes that belong to a session are counted.
    let mut project_of: HashMap<&str, Option<&str>> = HashMap::new();
    let of_agent = |observed: &&crate::observe::Observed| observed.session.agent == agent;
    for observed in observation.sessions.iter().filter(of_agent) {
        let session = &observed.session;
        let cwd = session.digest.cwd.as_deref();
        total.sessions += 1;
        projects.entry(cwd).or_default().sessions += 1;
        project_of.insert(&session.id, cwd);
        let title = session.display_title().map(str::to_owned);
        sessions.insert(&session.id, SessionUse { id: session.id.clone(), title, bytes: 0 });
    }
    let mut count = |session: Option<&str>, bytes: u64| {
        let cwd = session.and_then(|id| project_of.get(id).copied().flatten());
        projects.entry(cwd).or_default().bytes += bytes;
        if let Some(one) = session.and_then(|id| sessions.get_mut(id)) {
            one.bytes += bytes;
        }
    };
    for observed in observation.sessions.iter().chain(&observation.subagents).filter(of_agent) {
        let session = &observed.session;
        let bytes = session.transcript.as_ref().map_or(0, |transcript| transcript.bytes);
        total.transcript_bytes += bytes;
        let id = session.digest.parent.as_deref().filter(|id| project_of.contains_key(id));
        count(Some(id.unwrap_or(&session.id)), bytes);
    }
    for extra in &report.extras {
        match extra.kind {
            ExtraFileKind::Attachment => total.attachment_bytes += extra.bytes,
            ExtraFileKind::Archive => total.archive_bytes += extra.bytes,
            ExtraFileKind::Temporary => total.temporary_bytes += extra.bytes,
        }
        count(extra.session.as_deref(), extra.bytes);
    }
    total.bytes = total.transcript_bytes
        + total.attachment_bytes
        + total.archive_bytes
        + total.temporary_bytes;
    total.projects = projects
        .into_iter()
        .map(|(cwd, used)| ProjectUse { cwd: cwd.map(str::to_owned), ..used })
        .collect();
    total.projects.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.cwd.cmp(&b.cwd)));
    total.biggest = sessions.into_values().collect();
    total.biggest.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.id.cmp(&b.id)));
    total.biggest.truncate(MAX_BIGGEST_SESSIONS);
    total
}
