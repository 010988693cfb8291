//! Which sessions belong together: an agent's own one and the terminal that it runs in.
//!
//! Nothing is remembered. The agent's process is the terminal's program or descends from it, and that
//! can be seen for as long as both are there.

use model::identity::Identity;
use model::session::{LinkedSession, SessionKind};
use sys::proc::ProcessTable;

use super::Observed;

/// Links sessions with terminals both ways. `programs` are those on terminals, each with the place of
/// its terminal among the sessions.
pub(super) fn link_terminals(
    sessions: &mut [Observed],
    mut programs: Vec<(usize, Identity)>,
    table: &ProcessTable,
) {
    // Only a terminal that is proven to be held holds anything.
    programs.retain(|(terminal, _)| sessions[*terminal].verdict.liveness.is_alive());
    if programs.is_empty() {
        return;
    }
    for native in 0..sessions.len() {
        if sessions[native].session.kind != SessionKind::Native {
            continue;
        }
        let mut places: Vec<usize> = Vec::new();
        for pid in sessions[native].holders().iter().filter_map(|holder| holder.pid) {
            // Of terminals within terminals the innermost.
            let mut above = table.self_and_ancestors(pid);
            let holder = above.find_map(|row| {
                programs.iter().find(|(_, program)| {
                    program.pid == Some(row.pid) && program.start == Some(row.start)
                })
            });
            places.extend(holder.map(|(terminal, _)| *terminal).filter(|at| !places.contains(at)));
        }
        for at in places {
            let terminal = link_to(&sessions[at]);
            let agent = link_to(&sessions[native]);
            sessions[native].session.linked.push(terminal);
            sessions[at].session.linked.push(agent);
        }
    }
}

fn link_to(one: &Observed) -> LinkedSession {
    LinkedSession { agent: one.session.agent, id: one.session.id.clone() }
}
