//! What the shell may complete: sessions, terminals, agents, receipts, words to filter by.

use clap_complete::{ArgValueCandidates, CompletionCandidate};
use flows::observe::{ObserveRequest, ObserveScope, Observed, observe_sessions};
use flows::terminal::TerminalHome;
use model::address::AddressError;
use model::config::OstlerConfig;
use model::session::is_safe_id;
use model::status::{Activity, Status};
use sys::machine::Machine;

use crate::cli::usage_error::nearest_word;
use crate::error::Error;
use crate::render::text;

/// Every session, regardless of settings.
fn observe_everything() -> Vec<Observed> {
    let config = OstlerConfig::default();
    let Ok(machine) = Machine::here() else { return Vec::new() };
    let observation = observe_sessions(&ObserveRequest {
        machine: &machine,
        config: &config,
        use_index: true,
        scope: ObserveScope::All,
        agents: &[],
    });
    observation.sessions
}

/// Ids and names of every session, with what they are about.
pub(crate) fn complete_sessions() -> Vec<CompletionCandidate> {
    // Shells insert a candidate as it is: `$(…)` in an id would be run. Such a session can still be
    // addressed, in quotes.
    observe_everything()
        .iter()
        .flat_map(|observed| {
            let name = observed.session.digest.name.as_ref();
            let words = name.into_iter().chain([&observed.session.id]);
            words.filter(|word| is_insertable(word)).map(move |word| (word, observed))
        })
        .map(|(word, observed)| {
            let session = &observed.session;
            let title = text::cut_right(&text::one_line(session.display_title().unwrap_or("")), 60);
            let help = format!("{} {} {title}", session.agent, observed.verdict.status.as_str());
            CompletionCandidate::new(word).help(Some(help.trim_end().to_owned().into()))
        })
        .collect()
}

/// An error that names no session, with the one that was probably meant. Only an error pays for the look.
pub(crate) fn with_nearest_session(error: Error) -> Error {
    const MIN_GUESSED_LETTERS: usize = 4;
    let Error::Address(AddressError::NotFound(text)) = error else { return error };
    let letters = text.chars().count();
    let mut known: Vec<String> = Vec::new();
    let mut entitled: Vec<String> = Vec::new();
    if letters >= MIN_GUESSED_LETTERS {
        let meant = text.to_lowercase();
        for Observed { session, .. } in observe_everything() {
            // What is typed of an id is its beginning.
            let beginning: String = session.id.chars().take(letters).collect();
            known.push(beginning.trim_end_matches('-').to_owned());
            let titles = session.digest.name.as_deref().into_iter().chain(session.display_title());
            if titles.into_iter().any(|title| title.to_lowercase().contains(&meant)) {
                entitled.push(session.id.clone());
            }
            known.extend(session.digest.name);
        }
    }
    entitled.retain(|id| is_insertable(id));
    known.retain(|word| is_insertable(word));
    known.sort();
    known.dedup();
    let words: Vec<&str> = known.iter().map(String::as_str).collect();
    // Words of a title name no session, but if only one has them it is the one.
    let by_title = || entitled.first().filter(|_| entitled.len() == 1).cloned();
    match nearest_word(&text, &words).map(str::to_owned).or_else(by_title) {
        Some(near) => Error::NearSession { text, near },
        None => Error::Address(AddressError::NotFound(text)),
    }
}

/// The completer of sessions.
pub(crate) fn sessions() -> ArgValueCandidates {
    ArgValueCandidates::new(complete_sessions)
}

/// The completer of commands that work on a terminal.
pub(crate) fn terminals() -> ArgValueCandidates {
    ArgValueCandidates::new(complete_terminals)
}

/// Ids and names of hosted terminals, with what runs in them; the newest first.
fn complete_terminals() -> Vec<CompletionCandidate> {
    let Ok(machine) = Machine::here() else { return Vec::new() };
    let home = TerminalHome::at_root(machine.home(), &machine);
    let sessions = home.readable_sessions().unwrap_or_default();
    let mut candidates = Vec::new();
    for session in sessions.into_iter().rev() {
        let session = session.as_settled();
        let program = text::one_line(&session.manifest.command.join(" "));
        let help = format!("{} {}", session.status().as_str(), text::cut_right(&program, 60));
        let words = session.manifest.name.iter().chain([&session.id]);
        candidates.extend(
            words
                .filter(|word| is_insertable(word))
                .map(|word| CompletionCandidate::new(word).help(Some(help.clone().into()))),
        );
    }
    candidates
}

/// The completer of receipts that can be undone.
pub(crate) fn receipts() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Ok(machine) = Machine::here() else { return Vec::new() };
        let (receipts, _) = reaper::list_receipts(machine.home());
        let insertable = receipts.iter().filter(|one| is_insertable(&one.receipt));
        insertable.map(|one| CompletionCandidate::new(&one.receipt)).collect()
    })
}

/// The completer of sessions in the vault.
pub(crate) fn kept_sessions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Ok(machine) = Machine::here() else { return Vec::new() };
        let kept = flows::finalize::list_kept(machine.home()).unwrap_or_default();
        let insertable = kept.iter().filter(|one| is_insertable(&one.session));
        let candidate = |one: &model::summary::KeptSession| {
            let title = text::one_line(one.summary.title.as_deref().unwrap_or(""));
            let help = format!("{} {}", one.agent, text::cut_right(&title, 60));
            CompletionCandidate::new(&one.session).help(Some(help.trim_end().to_owned().into()))
        };
        insertable.map(candidate).collect()
    })
}

/// The completer of states to filter by.
pub(crate) fn statuses() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let words = Status::ALL.iter().map(|status| status.as_str());
        ["alive", "dead"].into_iter().chain(words).map(CompletionCandidate::new).collect()
    })
}

/// The completer of what live sessions may be doing.
pub(crate) fn activities() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        Activity::ALL.iter().map(|one| CompletionCandidate::new(one.as_str())).collect()
    })
}

/// The completer of agents that have hooks.
pub(crate) fn hooked_agents() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        flows::hooks::supported_agents().map(CompletionCandidate::new).collect()
    })
}

/// The completer of launch groups.
pub(crate) fn groups() -> ArgValueCandidates {
    ArgValueCandidates::new(complete_groups)
}

/// Names of launch groups, the newest first.
fn complete_groups() -> Vec<CompletionCandidate> {
    let Ok(machine) = Machine::here() else { return Vec::new() };
    let members = flows::groups::list_members(machine.home(), store::state::MemberScope::Every);
    let mut names: Vec<String> = Vec::new();
    for group in members.unwrap_or_default().into_iter().filter_map(|member| member.group) {
        if !names.contains(&group) {
            names.push(group);
        }
    }
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The completer of agents.
pub(crate) fn agents() -> ArgValueCandidates {
    ArgValueCandidates::new(complete_agents)
}

/// Ids of every adapter.
pub(crate) fn complete_agents() -> Vec<CompletionCandidate> {
    flows::adapter_ids().map(CompletionCandidate::new).collect()
}

/// Ids of access sessions.
pub(crate) fn complete_access_sessions() -> Vec<CompletionCandidate> {
    let Ok(machine) = Machine::here() else { return Vec::new() };
    let sessions = access::list::list_access(&machine, false).unwrap_or_default();
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
