//! Who calls: the agent that this process runs below, or a person.

use model::identity::Identity;
use model::session::SessionKind;
use sys::machine::Machine;
use sys::proc::read_process_table;

use crate::observe::{Observation, Observed};

/// Who asked for a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallingParty {
    /// What they are called: the user, or the agent and its pid.
    pub name: String,
    /// The agent's process, if an agent calls.
    pub process: Option<Identity>,
}

/// Finds the agent that this process runs below; a person of that name if there is none.
pub fn find_calling_party(machine: &Machine, user: &str) -> CallingParty {
    let table = read_process_table();
    for row in table.self_and_ancestors(std::process::id()).skip(1) {
        let Some(look) = table.appearance(row.pid) else { continue };
        let agent = adapters::ALL_ADAPTERS
            .iter()
            .map(|adapter| adapter.agent_profile())
            .find(|profile| profile.program.matches(&look));
        if let Some(profile) = agent {
            let process = machine.identify_process(row.pid).ok();
            return CallingParty { name: format!("{}:{}", profile.id, row.pid), process };
        }
    }
    CallingParty { name: user.to_owned(), process: None }
}

/// The session of the agent that this process runs below; the agent and its pid if it has none. None if a person calls.
pub fn name_calling_session(machine: &Machine, observation: &Observation) -> Option<String> {
    let caller = find_calling_party(machine, "");
    let process = caller.process?;
    let is_its = |one: &&Observed| {
        one.session.kind == SessionKind::Native
            && one.holders().iter().any(|holder| {
                holder.pid == process.pid && holder.start.is_some() && holder.start == process.start
            })
    };
    let session = observation.sessions.iter().find(is_its);
    Some(session.map_or(caller.name, |one| one.session.session_name().to_string()))
}
