//! Launch records: one small file for each agent that was started in a terminal.
//!
//! They are written without a lock and without the store, and nothing rests on them (see
//! `model::launch`). A sweep takes those away that are due, so that they do not pile up; `gc` says of the
//! others why they stay.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::launch::{Fate, Launch, VERSION};
use model::liveness::{Liveness, Observer};
use model::plan::{Kind, Refusal};
use model::time::{Time, millis};

use crate::terminal::{Home, remove};
use reaper::{CollectError, Planned, Reaper, recheck};
use store::writer::Writer;

/// No record is larger.
const MOST: u64 = 64 << 10;

/// Where the records of a home are.
pub fn directory(home: &Path) -> PathBuf {
    home.join("launches")
}

/// Notes that an agent was started in a terminal. One whose process was gone before it could be told
/// from others leaves nothing to note.
pub fn note(
    terminals: &Home,
    session: &str,
    agent: &str,
    keep: Duration,
    now: Time,
) -> io::Result<()> {
    let started = terminals.open(session).map_err(|fault| io::Error::other(fault.message))?;
    let Some(process) = started.holder.and_then(|holder| holder.child) else { return Ok(()) };
    let launch = Launch {
        version: VERSION,
        agent: agent.to_owned(),
        process,
        session: session.to_owned(),
        cwd: started.manifest.cwd,
        at: now,
        ttl_ms: millis(keep),
    };
    let directory = directory(&terminals.root);
    sys::private::create_private_dir(&directory).map_err(io::Error::other)?;
    // Names begin with the time: the oldest come first.
    let path = directory.join(format!("{}.json", sys::clock::unique(now)));
    sys::atomic::write(&path, &serde_json::to_vec(&launch)?)
}

/// One record as it was found.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) path: PathBuf,
    /// What it says, or why that cannot be told.
    pub(crate) launch: Result<Launch, String>,
}

/// The records of a home, the oldest first, each read when it is come to.
pub(crate) fn records(home: &Path) -> impl Iterator<Item = Record> {
    let listed = std::fs::read_dir(directory(home)).into_iter().flatten().flatten();
    let is_record = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".json") && !name.starts_with('.')
    };
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.path()).filter(is_record).collect();
    paths.sort_unstable();
    paths.into_iter().map(|path| Record { launch: read(&path), path })
}

fn read(path: &Path) -> Result<Launch, String> {
    let file = sys::private::open_private(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Launch::parse(&bytes)
}

/// What was noted of the agent that a terminal was made for, if that is still there.
pub fn of(home: &Path, session: &str) -> Option<Launch> {
    records(home).filter_map(|record| record.launch.ok()).find(|launch| launch.session == session)
}

/// What becomes of a record, and what was seen of its process.
pub(crate) fn fate(
    home: &Path,
    launch: &Launch,
    ttl: Duration,
    observer: &Observer,
    now: Time,
) -> (Fate, Liveness) {
    let liveness = sys::proc::probe(&launch.process, observer);
    let terminal = Home::at(home).sessions().join(&launch.session);
    let signs = [host::files::MANIFEST, host::log::FILE];
    let print = |name| sys::fingerprint::of_path(&terminal.join(name)).ok();
    let last_sign = signs.into_iter().filter_map(print).map(|print| print.modified_at()).max();
    (launch.fate(liveness, last_sign, ttl, now), liveness)
}

/// The last look at a record before it goes.
pub(crate) fn check(path: &Path, observer: &Observer) -> Result<(), Refusal> {
    let launch = read(path).map_err(|why| damaged(&why))?;
    match sys::proc::probe(&launch.process, observer) {
        Liveness::Dead(_) => Ok(()),
        Liveness::Alive(_) => {
            Err(Refusal::Alive { who: format!("the {} it tells of", launch.agent) })
        }
        liveness => Err(Refusal::Unproven { why: liveness.reason().to_owned() }),
    }
}

/// A record that cannot be understood is nobody's to throw away.
pub(crate) fn damaged(why: &str) -> Refusal {
    Refusal::Unreadable { why: format!("the record is damaged: {why}") }
}

/// A record as something that would go.
pub(crate) fn planned(path: &Path, launch: &Launch, liveness: Liveness) -> io::Result<Planned> {
    let why = format!("the {} that was started is gone", launch.agent);
    let mut planned = Planned::new(Kind::LaunchRecord, path, "ostler", why)?;
    planned.item.session = Some(launch.session.clone());
    let pid = launch.process.pid.map_or_else(String::new, |pid| format!(" {pid}"));
    planned.item.evidence = vec![format!("process{pid}: {}", liveness.reason())];
    Ok(planned)
}

/// No more records go in one sweep: each waits for the disk, and somebody waits for the sweep. The next
/// one goes on.
const MOST_IN_ONE_SWEEP: usize = 256;

/// The records that are due. Names are in the order of time, so that the young ones are not read.
fn due(home: &Path, now: Time) -> Vec<Planned> {
    let mut due = Vec::new();
    let mut records = records(home).peekable();
    if records.peek().is_none() {
        return due;
    }
    let observer = sys::proc::observer();
    for record in records {
        // What is damaged is told of by `gc`.
        let Ok(launch) = &record.launch else { continue };
        if now.since(launch.at) <= launch.ttl() {
            break;
        }
        let (fate, liveness) = fate(home, launch, launch.ttl(), &observer, now);
        if let Fate::Due(_) = fate
            && let Ok(planned) = planned(&record.path, launch, liveness)
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
pub(crate) fn count_due(home: &Path, now: Time) -> u64 {
    due(home, now).len() as u64
}

/// Moves the records that are due to the trash; how many. One that stays is for `gc` to tell of.
pub(crate) fn sweep(writer: &Writer, now: Time) -> Result<u64, CollectError> {
    let due = due(&writer.home, now);
    if due.is_empty() {
        return Ok(0);
    }
    sys::pause::at("launches.planned");
    let mut reaper = Reaper::begin(writer, "launch records", now)?;
    let mut gone = 0;
    let observer = sys::proc::observer();
    for planned in &due {
        let may_go = |planned: &Planned| {
            let terminal = planned.item.session.as_deref().map(remove::name);
            writer.recheck_pins(terminal.as_slice())?;
            check(&planned.path, &observer).map(|()| None)
        };
        if let Ok(checked) = recheck(planned, may_go) {
            gone += u64::from(reaper.trash(&checked)?.is_ok());
        }
    }
    reaper.finish()?;
    Ok(gone)
}
