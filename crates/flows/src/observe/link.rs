//! Which sessions belong together: an agent's own one and the terminal that it runs in.
//!
//! Nothing is remembered. The agent's process is the terminal's program or descends from it, and that
//! can be seen for as long as both are there.

use model::session::{Kind, Linked};
use sys::proc::{ProcessRow, Table};

use super::Observed;
use crate::terminal::sight::Terminal;

/// Links both ways, and gives the terminals back as sessions.
pub(super) fn link(
    sessions: &mut [Observed],
    mut terminals: Vec<Terminal>,
    table: &Table,
) -> Vec<Observed> {
    for native in sessions.iter_mut().filter(|one| one.session.kind == Kind::Native) {
        let owner = native.verdict.decided_by.map(|claim| &native.session.claims[claim].identity);
        let pid = owner.and_then(|owner| owner.pid).filter(|_| native.verdict.liveness.is_alive());
        // Of terminals within terminals the innermost.
        let at = pid.and_then(|pid| {
            let holder_of = |row| terminals.iter().position(|one| is_program(one, row));
            table.lineage(pid).find_map(holder_of)
        });
        let Some(terminal) = at.map(|at| &mut terminals[at].observed.session) else { continue };
        let native = &mut native.session;
        native.linked.push(Linked { agent: terminal.agent, id: terminal.id.clone() });
        terminal.linked.push(Linked { agent: native.agent, id: native.id.clone() });
    }
    terminals.into_iter().map(|terminal| terminal.observed).collect()
}

/// Whether the process is the program on the terminal, which is proven to be held.
fn is_program(terminal: &Terminal, row: &ProcessRow) -> bool {
    let held = terminal.observed.verdict.liveness.is_alive();
    terminal.program.as_ref().is_some_and(|program| {
        held && program.pid == Some(row.pid) && program.start == Some(row.start)
    })
}
