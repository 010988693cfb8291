//! Whether a hosted session may be removed: the one place that says so, and the one way it goes.

use std::path::Path;
use std::time::Instant;

use model::plan::{Refusal, RemovableKind};
use model::session::SessionName;

use super::{HostedSession, TerminalHome, sight};
use crate::timeouts::{HOST_END_INTERVAL, HOST_LEAVE_TIMEOUT};
use crate::writer::RemovedTerminal;
use reaper::{CollectError, PlannedRemoval, Reaper, recheck_planned};
use store::writer::StoreWriter;

pub use sys::trash::size_of;

/// Whether a session is over and its host proven gone. Writes nothing.
pub fn check_removable(session: &HostedSession) -> Result<(), Refusal> {
    if !session.status().is_collectable() {
        return Err(Refusal::Active { status: session.status().as_str().to_owned() });
    }
    // A host that has written the end down is on its way out; a moment later it is gone.
    let until = Instant::now() + HOST_LEAVE_TIMEOUT;
    while session.holder.is_some() && !session.host_liveness().is_dead() {
        let liveness = session.host_liveness();
        if !liveness.is_alive() {
            return Err(Refusal::Unproven { why: liveness.reason_code().to_owned() });
        }
        if Instant::now() > until {
            return Err(Refusal::Alive { who: "its host".to_owned() });
        }
        std::thread::sleep(HOST_END_INTERVAL);
    }
    Ok(())
}

/// Moves sessions to the trash.
pub fn remove_terminals(
    writer: &StoreWriter,
    home: &TerminalHome,
    ids: &[String],
    command: &str,
) -> Result<Vec<RemovedTerminal>, CollectError> {
    let mut reaper = Reaper::begin(writer, command, &home.machine)?;
    let mut outcomes = Vec::new();
    for id in ids {
        outcomes.push((id.clone(), remove_terminal(&mut reaper, writer, home, id)?));
    }
    reaper.finish()?;
    Ok(outcomes)
}

fn remove_terminal(
    reaper: &mut Reaper<'_>,
    writer: &StoreWriter,
    home: &TerminalHome,
    id: &str,
) -> Result<Result<u64, Refusal>, CollectError> {
    let directory = home.sessions_directory().join(id);
    let planned = match plan_removal(&directory, id) {
        Ok(planned) => planned,
        Err(_) => return Ok(Err(Refusal::Gone)),
    };
    let checked = recheck_planned(&planned, |_| {
        writer.recheck_pins(&[terminal_name(id)])?;
        let unreadable =
            |fault: model::hosted::HostFault| Refusal::Unreadable { why: fault.message };
        let session = home.open_session(id).map_err(unreadable)?;
        check_removable(&session).map(|()| None)
    });
    Ok(match checked {
        Ok(checked) => reaper.trash_item(&checked)?.map(|()| planned.item.bytes),
        Err(refusal) => Err(refusal),
    })
}

/// The name under which a terminal is pinned.
pub fn terminal_name(id: &str) -> SessionName {
    SessionName::new(sight::TERMINAL_AGENT, id)
}

fn plan_removal(directory: &Path, id: &str) -> std::io::Result<PlannedRemoval> {
    let mut planned =
        PlannedRemoval::new(RemovableKind::HostedSession, directory, "ostler", "it is over")?;
    planned.item.session = Some(id.to_owned());
    Ok(planned.with_total_size())
}
