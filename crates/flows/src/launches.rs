//! Launch records: one small file for each agent that was started in a terminal.
//!
//! They are written without a lock and without the store, and nothing rests on them (see
//! `model::launch`). A sweep takes those away that are due, so that they do not pile up; `gc` says of the
//! others why they stay.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::launch::{AgentLaunch, LAUNCH_FORMAT_VERSION, LaunchFate};
use model::liveness::Liveness;
use model::plan::{Refusal, RemovableKind};
use model::time::whole_millis;
use sys::dropped::NoteDropped;
use sys::machine::Machine;

use crate::terminal::{TerminalHome, remove, sessions_directory};
use reaper::{CollectError, PlannedRemoval, Reaper, recheck_planned};
use store::writer::StoreWriter;

/// No record is larger.
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// Where the records of a home are.
pub fn launches_directory(home: &Path) -> PathBuf {
    home.join("launches")
}

/// Notes that an agent was started in a terminal. One whose process was gone before it could be told
/// from others leaves nothing to note.
pub fn note_launch(
    terminals: &TerminalHome,
    session: &str,
    agent: &str,
    keep: Duration,
) -> io::Result<()> {
    let now = terminals.machine.now();
    let started =
        terminals.open_session(session).map_err(|fault| io::Error::other(fault.message))?;
    let Some(process) = started.holder.and_then(|holder| holder.child) else { return Ok(()) };
    let launch = AgentLaunch {
        version: LAUNCH_FORMAT_VERSION,
        agent: agent.to_owned(),
        process,
        session: session.to_owned(),
        cwd: started.manifest.cwd,
        at: now,
        ttl_ms: whole_millis(keep),
    };
    let directory = launches_directory(&terminals.root);
    sys::private::create_private_dir(&directory).map_err(io::Error::other)?;
    // Names begin with the time: the oldest come first.
    let path = directory.join(format!("{}.json", sys::clock::unique_suffix(now)));
    sys::atomic::write_synced(&path, &serde_json::to_vec(&launch)?)
}

/// One record as it was found.
#[derive(Debug)]
pub(crate) struct FoundLaunch {
    pub(crate) path: PathBuf,
    /// What it says, or why that cannot be told.
    pub(crate) launch: Result<AgentLaunch, String>,
}

/// The records of a home, the oldest first, each read when it is come to.
pub(crate) fn launch_records(home: &Path) -> impl Iterator<Item = FoundLaunch> {
    let listed = std::fs::read_dir(launches_directory(home)).into_iter().flatten().flatten();
    let is_record = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".json") && !name.starts_with('.')
    };
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.path()).filter(is_record).collect();
    paths.sort_unstable();
    paths.into_iter().map(|path| FoundLaunch { launch: read_record(&path), path })
}

fn read_record(path: &Path) -> Result<AgentLaunch, String> {
    let file = sys::private::open_private(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(MAX_RECORD_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    AgentLaunch::parse(&bytes)
}

/// What was noted of the agent that a terminal was made for, if that is still there.
pub fn find_launch(home: &Path, session: &str) -> Option<AgentLaunch> {
    launch_records(home)
        .filter_map(|record| record.launch.ok_or_note("the note of a launch"))
        .find(|launch| launch.session == session)
}

/// What becomes of a record, and what was seen of its process.
pub(crate) fn judge_launch(
    launch: &AgentLaunch,
    ttl: Duration,
    machine: &Machine,
) -> (LaunchFate, Liveness) {
    let liveness = machine.probe_process(&launch.process);
    let terminal = sessions_directory(machine.home()).join(&launch.session);
    let signs = [host::files::MANIFEST_FILE, host::log::LOG_FILE];
    let print = |name| sys::fingerprint::of_path(&terminal.join(name)).ok();
    let last_sign = signs.into_iter().filter_map(print).map(|print| print.modified_at()).max();
    (launch.decide_fate(liveness, last_sign, ttl, machine.now()), liveness)
}

/// The last look at a record before it goes.
pub(crate) fn check_record(path: &Path, machine: &Machine) -> Result<(), Refusal> {
    let launch = read_record(path).map_err(|why| damaged_record(&why))?;
    match machine.probe_process(&launch.process) {
        Liveness::Dead(_) => Ok(()),
        Liveness::Alive(_) => {
            Err(Refusal::Alive { who: format!("the {} it tells of", launch.agent) })
        }
        liveness => Err(Refusal::Unproven { why: liveness.reason_code().to_owned() }),
    }
}

/// A record that cannot be understood is kept.
pub(crate) fn damaged_record(why: &str) -> Refusal {
    Refusal::Unreadable { why: format!("the record is damaged: {why}") }
}

/// A record as something that would go.
pub(crate) fn plan_record(
    path: &Path,
    launch: &AgentLaunch,
    liveness: Liveness,
) -> io::Result<PlannedRemoval> {
    let why = format!("the {} that was started is gone", launch.agent);
    let mut planned = PlannedRemoval::new(RemovableKind::LaunchRecord, path, "ostler", why)?;
    planned.item.session = Some(launch.session.clone());
    let pid = launch.process.pid.map_or_else(String::new, |pid| format!(" {pid}"));
    planned.item.evidence = vec![format!("process{pid}: {}", liveness.reason_code())];
    Ok(planned)
}

/// No more records go in one sweep: each waits for the disk, and a command waits for the sweep. The next
/// one goes on.
const MOST_IN_ONE_SWEEP: usize = 256;

/// The records that are due. Names are in the order of time, so that the young ones are not read.
fn due_records(machine: &Machine) -> Vec<PlannedRemoval> {
    let mut due = Vec::new();
    for record in launch_records(machine.home()) {
        // What is damaged is told of by `gc`.
        let Ok(launch) = &record.launch else { continue };
        if machine.now().since(launch.at) <= launch.retention_ttl() {
            break;
        }
        let (fate, liveness) = judge_launch(launch, launch.retention_ttl(), machine);
        if let LaunchFate::Due(_) = fate
            && let Ok(planned) = plan_record(&record.path, launch, liveness)
        {
            due.push(planned);
            if due.len() == MOST_IN_ONE_SWEEP {
                break;
            }
        }
    }
    due
}

/// How many records a sweep would take.
pub(crate) fn count_due(machine: &Machine) -> u64 {
    due_records(machine).len() as u64
}

/// Moves the records that are due to the trash; how many. One that stays is for `gc` to tell of.
pub(crate) fn sweep_due(writer: &StoreWriter, machine: &Machine) -> Result<u64, CollectError> {
    let due = due_records(machine);
    if due.is_empty() {
        return Ok(0);
    }
    sys::pause::pause_at("launches.planned");
    let mut reaper = Reaper::begin(writer, "launch records", machine)?;
    let mut gone = 0;
    for planned in &due {
        let may_go = |planned: &PlannedRemoval| {
            let terminal = planned.item.session.as_deref().map(remove::terminal_name);
            writer.recheck_pins(terminal.as_slice())?;
            check_record(&planned.path, machine).map(|()| None)
        };
        if let Ok(checked) = recheck_planned(planned, may_go) {
            gone += u64::from(reaper.trash_item(&checked)?.is_ok());
        }
    }
    reaper.finish()?;
    Ok(gone)
}
