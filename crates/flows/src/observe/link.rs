//! Which sessions belong together: an agent's own one and the terminal that it runs in.
//!
//! Nothing is remembered. The agent's process is the terminal's program or descends from it, and that
//! can be seen for as long as both are there.

use model::rules::judge;
use model::session::{LinkedSession, SessionKind};
use sys::proc::{ProcessRow, ProcessTable};

use super::Observed;
use crate::terminal::sight::ObservedTerminal;

/// Links both ways, and gives the terminals back as sessions.
pub(super) fn link_terminals(
    sessions: &mut [Observed],
    mut terminals: Vec<ObservedTerminal>,
    table: &ProcessTable,
) -> Vec<Observed> {
    for native in sessions.iter_mut().filter(|one| one.session.kind == SessionKind::Native) {
        let mut places: Vec<usize> = Vec::new();
        for pid in holders(native) {
            // Of terminals within terminals the innermost.
            let holder_of = |row| terminals.iter().position(|one| is_program(one, row));
            places.extend(
                table.self_and_ancestors(pid).find_map(holder_of).filter(|at| !places.contains(at)),
            );
        }
        let native = &mut native.session;
        for at in places {
            let terminal = &mut terminals[at].observed.session;
            native.linked.push(LinkedSession { agent: terminal.agent, id: terminal.id.clone() });
            terminal.linked.push(LinkedSession { agent: native.agent, id: native.id.clone() });
        }
    }
    terminals.into_iter().map(|terminal| terminal.observed).collect()
}

/// The processes that have a session open: all that are proven to, or the only one that may.
fn holders(native: &Observed) -> Vec<u32> {
    if !native.verdict.liveness.is_alive() {
        return Vec::new();
    }
    let proven: Vec<u32> =
        judge::proven_owners(&native.session).filter_map(|claim| claim.identity.pid).collect();
    let alive = native.session.claims.iter().filter(|claim| claim.liveness.is_alive());
    let derived: Vec<u32> = alive.filter_map(|claim| claim.identity.pid).collect();
    match (proven.is_empty(), derived.len()) {
        (false, _) => proven,
        (true, 1) => derived,
        (true, _) => Vec::new(),
    }
}

/// Whether the process is the program on the terminal, which is proven to be held.
fn is_program(terminal: &ObservedTerminal, row: &ProcessRow) -> bool {
    let held = terminal.observed.verdict.liveness.is_alive();
    terminal.program.as_ref().is_some_and(|program| {
        held && program.pid == Some(row.pid) && program.start == Some(row.start)
    })
}
