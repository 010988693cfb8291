//! Which processes are an agent's: those that hold its conversation for certain, and the program of its terminal.

use adapters::{Adapter, AgentControl};
use model::control::refusal::DriveRefusal;
use model::identity::Identity;
use model::program::AgentProgram;
use model::rules::judge::proven_owners;
use model::session::{Certainty, ClaimBasis, Session};
use sys::proc::ProcessTable;

/// The agent that is the program of a terminal.
pub(super) fn find_agent_program(
    program: &Identity,
    table: &ProcessTable,
) -> Option<&'static dyn Adapter> {
    let look = table.appearance(program.pid?)?;
    let is_it = |adapter: &&&dyn Adapter| adapter.agent_profile().program.matches(&look);
    let driven = adapters::ALL_ADAPTERS.iter().filter(|one| one.control_table().is_some());
    driven.into_iter().find(is_it).copied()
}

/// Whether a process of an agent runs below one of the agent's that would start it again: a helper of the same program,
/// such as the daemon behind `claude --bg`.
pub(crate) fn is_supervised(program: &AgentProgram, pid: u32, table: &ProcessTable) -> bool {
    let is_supervisor = |pid: u32| {
        let look = table.appearance(pid);
        look.is_some_and(|look| program.is_program(&look) && !program.matches(&look))
    };
    table.self_and_ancestors(pid).skip(1).any(|row| is_supervisor(row.pid))
}

/// The agent's own command that lets go of a conversation.
pub(crate) fn own_command(control: Option<&AgentControl>, id: &str) -> String {
    let own = control.and_then(|control| control.supervisor_command);
    own.map_or_else(
        || format!("ostler why {id}"),
        |command| command.replace("{short}", id.split('-').next().unwrap_or(id)),
    )
}

/// The processes that hold the conversation for certain. One that is only concluded to is taken where it
/// is the only one, in a terminal of ostler's.
pub(super) fn choose_holders(
    session: &Session,
    control: Option<&AgentControl>,
) -> Result<Vec<Identity>, DriveRefusal> {
    let is_record =
        |how: ClaimBasis| how.certainty() == Certainty::Proven && how != ClaimBasis::RecordedEnd;
    let is_doubt =
        |liveness: model::liveness::Liveness| !liveness.is_alive() && !liveness.is_dead();
    let mut records = session.claims.iter().filter(|claim| is_record(claim.how));
    if let Some(claim) = records.find(|claim| is_doubt(claim.liveness)) {
        let why = format!("{}: {}", claim.how.describe_fact(), claim.liveness.reason_code());
        return Err(DriveRefusal::NotAlive { why });
    }
    let proven: Vec<Identity> =
        proven_owners(session).map(|claim| claim.identity.clone()).collect();
    if !proven.is_empty() {
        return Ok(proven);
    }
    let alive: Vec<_> = session.claims.iter().filter(|claim| claim.liveness.is_alive()).collect();
    let is_hosted = session.linked.iter().any(|linked| linked.agent == "terminal");
    match alive.as_slice() {
        [] => Err(DriveRefusal::NotAlive { why: "no process holds it".to_owned() }),
        _ if alive.iter().any(|claim| claim.how == ClaimBasis::Served) => {
            Err(DriveRefusal::Shared { command: own_command(control, &session.id) })
        }
        [only] if is_hosted && only.how != ClaimBasis::CouldOpen => Ok(vec![only.identity.clone()]),
        [first, ..] => {
            let why = format!("only concluded: {}", first.how.describe_fact());
            Err(DriveRefusal::NotAlive { why })
        }
    }
}
