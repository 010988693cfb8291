//! Whether a hosted session may be removed: the one place that says so, and the one way it goes.

use std::path::Path;
use std::time::{Duration, Instant};

use model::plan::{Kind, Refusal};
use model::session::Name;
use model::time::Time;

use super::{Home, Session, sight};
use reaper::{CollectError, Planned, Reaper, recheck};
use store::writer::Writer;

pub use sys::trash::size_of;

/// A session, and what became of it: the bytes it took, or why it stays.
pub type Removed = (String, Result<u64, Refusal>);

/// How long a host may take to leave.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether a session is over and its host proven gone. Writes nothing.
pub fn may_go(session: &Session) -> Result<(), Refusal> {
    if !session.status().is_collectable() {
        return Err(Refusal::Active { status: session.status().word().to_owned() });
    }
    // A host that has written the end down is on its way out; a moment later it is gone.
    let until = Instant::now() + PATIENCE;
    while session.holder.is_some() && !session.host_liveness().is_dead() {
        let liveness = session.host_liveness();
        if !liveness.is_alive() {
            return Err(Refusal::Unproven { why: liveness.reason().to_owned() });
        }
        if Instant::now() > until {
            return Err(Refusal::Alive { who: "its host".to_owned() });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Moves sessions to the trash.
pub fn remove(
    writer: &Writer,
    home: &Home,
    ids: &[String],
    command: &str,
    now: Time,
) -> Result<Vec<Removed>, CollectError> {
    let mut reaper = Reaper::begin(writer, command, now)?;
    let mut outcomes = Vec::new();
    for id in ids {
        outcomes.push((id.clone(), remove_one(&mut reaper, writer, home, id)?));
    }
    reaper.finish()?;
    Ok(outcomes)
}

fn remove_one(
    reaper: &mut Reaper<'_>,
    writer: &Writer,
    home: &Home,
    id: &str,
) -> Result<Result<u64, Refusal>, CollectError> {
    let directory = home.sessions().join(id);
    let planned = match planned(&directory, id) {
        Ok(planned) => planned,
        Err(_) => return Ok(Err(Refusal::Gone)),
    };
    let checked = recheck(&planned, |_| {
        writer.recheck_pins(&[name(id)])?;
        let unreadable = |fault: model::hosted::Fault| Refusal::Unreadable { why: fault.message };
        let session = home.open(id).map_err(unreadable)?;
        may_go(&session).map(|()| None)
    });
    Ok(match checked {
        Ok(checked) => reaper.trash(&checked)?.map(|()| planned.item.bytes),
        Err(refusal) => Err(refusal),
    })
}

/// The name under which a terminal is pinned.
pub fn name(id: &str) -> Name {
    Name::new(sight::AGENT, id)
}

fn planned(directory: &Path, id: &str) -> std::io::Result<Planned> {
    let mut planned = Planned::new(Kind::HostedSession, directory, "ostler", "it is over")?;
    planned.item.session = Some(id.to_owned());
    Ok(planned.weighed())
}
