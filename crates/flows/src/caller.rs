//! Who calls: the agent that this process runs below, or a person.

use model::identity::Identity;
use sys::machine::Machine;
use sys::proc::read_process_table;

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
