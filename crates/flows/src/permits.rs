//! Permission requests: listed from the files of the hooks that wait, and answered by one more file.
//!
//! The first to create the answer's file has answered (O_EXCL); no second answer is possible. The hook removes the answer when it has
//! given it to the agent, then its request. A request whose process is proven to be gone is stale.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use model::address::{NoSingleId, pick_by_id};
use model::control::permits::{PermitAnswer, PermitRequest, PermitRoute, PermitVerdict};
use model::failure::{Failure, FailureKind};
use model::time::Time;
use store::state::AnsweredPermit;
use store::writer::StoreWriter;
use sys::machine::Machine;
use sys::private::PrivateDir;
use sys::watch::DirectoryWatch;

use crate::permit_files::{
    FilePair, LineAnswer, answer_line_request, find_dead_files, list_line_requests,
};
use crate::permit_server::{answer_server_request, list_server_requests};
use crate::timeouts::{ANSWER_TAKEN_TIMEOUT, HOOK_END_INTERVAL, PERMIT_LEFT_ALONE_SPAN};
use crate::writer::PermitNote;

/// The largest request that is read: the payload of a hook, with what is known of its process.
const MAX_REQUEST_BYTES: u64 = 8 << 20;

/// The largest answer.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// Where requests are.
pub fn permits_directory(home: &Path) -> PathBuf {
    home.join("permits")
}

/// The file of a request.
pub(crate) fn request_name(id: &str) -> String {
    format!("{id}.json")
}

/// The file of its answer.
pub(crate) fn answer_name(id: &str) -> String {
    format!("{id}.answer")
}

/// Why there is no answer, or why requests cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PermitError {
    /// It was answered, its time is up, or its process is gone.
    #[error("the request `{id}` waits for no answer any more: {why}")]
    Gone {
        id: String,
        /// What is known.
        why: String,
    },
    #[error("`{session}` asks for nothing that ostler could answer")]
    NothingAsked { session: String },
    /// More than one request could be meant.
    #[error("`{text}` could mean {} requests", .candidates.len())]
    Several {
        /// What was typed.
        text: String,
        candidates: Vec<String>,
    },
    /// The agent would answer itself.
    #[error(
        "this command runs below the agent that asks, and nobody permits anything to themselves"
    )]
    IsCalling,
    /// The hook was given the answer, and ended before it said so.
    #[error("the answer was given, and whether the agent has it is not known")]
    MayHaveApplied,
    /// The agent's own server did not take it.
    #[error("the request `{id}` could not be answered: {why}")]
    NotAnswered {
        id: String,
        /// What the server did.
        why: String,
    },
    /// A file could not be read or written.
    #[error("the requests in {} cannot be used: {reason}", .directory.display())]
    Files { directory: PathBuf, reason: String },
}

/// Every request that waits for an answer, the oldest first: those that hooks wait with, and those that agents hold
/// themselves.
pub fn list_requests(machine: &Machine) -> Result<Vec<PermitRequest>, PermitError> {
    let mut requests = list_hook_requests(machine)?;
    requests.extend(list_server_requests(machine));
    requests.extend(list_line_requests(machine, &permits_directory(machine.home())));
    Ok(requests)
}

/// The requests that hooks wait with.
pub fn list_hook_requests(machine: &Machine) -> Result<Vec<PermitRequest>, PermitError> {
    let directory = permits_directory(machine.home());
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let failed = |reason: String| PermitError::Files { directory: directory.clone(), reason };
    let dir = sys::private::open_own_dir(&directory).map_err(|error| failed(error.to_string()))?;
    let mut requests = Vec::new();
    for name in dir.list_names().map_err(|error| failed(error.to_string()))? {
        let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
        let request = id.and_then(|id| read_request(&dir, id));
        // One that is answered waits only for its hook to say so.
        requests.extend(request.filter(|request| {
            is_waiting(request, machine)
                && dir.facts_of(answer_name(&request.id).as_ref()).ok().flatten().is_none()
        }));
    }
    requests.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(requests)
}

/// Whether its process is there, as far as can be told: a doubt keeps.
fn is_waiting(request: &PermitRequest, machine: &Machine) -> bool {
    !machine.probe_process(&request.asker).is_dead()
}

fn read_request(dir: &PrivateDir, id: &str) -> Option<PermitRequest> {
    let bytes = dir.read_unwritable(&request_name(id), MAX_REQUEST_BYTES).ok()?;
    serde_json::from_slice::<PermitRequest>(&bytes).ok().filter(|request| request.id == id)
}

/// The answer to a request, once it is whole.
pub(crate) fn read_answer(directory: &Path, id: &str) -> Option<PermitAnswer> {
    let dir = sys::private::open_own_dir(directory).ok()?;
    let bytes = dir.read_unwritable(&answer_name(id), MAX_ANSWER_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The request that is meant: one of that session, by its id or the beginning of that.
pub fn choose_request(
    requests: &[PermitRequest],
    session: &str,
    wanted: Option<&str>,
) -> Result<PermitRequest, PermitError> {
    let of_session = |request: &&PermitRequest| {
        let name = format!("{}:{}", request.agent, request.session);
        request.session.starts_with(session) || name == session
    };
    let asked = requests.iter().filter(of_session);
    let several = |text: &str, several: Vec<&PermitRequest>| PermitError::Several {
        text: text.to_owned(),
        candidates: several.iter().map(|one| one.id.clone()).collect(),
    };
    let Some(wanted) = wanted else {
        let asked: Vec<&PermitRequest> = asked.collect();
        return match asked[..] {
            [one] => Ok(one.clone()),
            [] => Err(PermitError::NothingAsked { session: session.to_owned() }),
            _ => Err(several(session, asked)),
        };
    };
    // Ids that ostler gave are ULIDs, which may be typed in any case; an agent's own are as they are.
    let pick = |wanted: &str| pick_by_id(asked.clone(), wanted, |request| [&request.id]);
    let picked = match pick(wanted) {
        Err(NoSingleId::Nothing) => pick(&wanted.to_ascii_uppercase()),
        picked => picked,
    };
    match picked {
        Ok(one) => Ok(one.clone()),
        Err(NoSingleId::Several(all)) => Err(several(wanted, all)),
        Err(NoSingleId::Nothing) => {
            let why = "it was answered, its time is up, or it never was".to_owned();
            Err(PermitError::Gone { id: wanted.to_owned(), why })
        }
    }
}

/// Answers a request, and waits until its hook has taken the answer.
pub fn answer_request(
    machine: &Machine,
    request: &PermitRequest,
    answer: &PermitAnswer,
) -> Result<(), PermitError> {
    let directory = permits_directory(machine.home());
    let failed = |reason: String| PermitError::Files { directory: directory.clone(), reason };
    refuse_own_answer(request)?;
    if let Some(route) = &request.route {
        return answer_held_request(machine, request, route, answer);
    }
    let watch =
        DirectoryWatch::watch_directory(&directory).map_err(|error| failed(error.to_string()))?;
    let gone = |why: &str| PermitError::Gone { id: request.id.clone(), why: why.to_owned() };
    let request_file = directory.join(request_name(&request.id));
    if !request_file.exists() || !is_waiting(request, machine) {
        return Err(gone("whoever asked is gone"));
    }
    let answer_file = directory.join(answer_name(&request.id));
    let mut bytes = serde_json::to_vec(answer).map_err(|error| failed(error.to_string()))?;
    bytes.push(b'\n');
    let made = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&answer_file);
    // Held open while it waits: no other file can have its inode, and another answer is not taken for ours.
    let ours = match made.and_then(|mut file| file.write_all(&bytes).map(|()| file)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(gone("somebody else has answered"));
        }
        Err(error) => return Err(failed(error.to_string())),
    };
    sys::pause::pause_at("permit.answered");
    let until = Instant::now() + ANSWER_TAKEN_TIMEOUT;
    loop {
        let is_asked = request_file.exists();
        let is_taken = !is_same_file(&answer_file, &ours);
        if is_taken {
            return Ok(());
        }
        if !is_asked {
            forget_file(&answer_file);
            return Err(gone("it was decided otherwise, or its time was up"));
        }
        let left = until.saturating_duration_since(Instant::now());
        if !is_waiting(request, machine) || left.is_zero() {
            return Err(PermitError::MayHaveApplied);
        }
        // A hook that is killed reports nothing.
        let nap = left.min(HOOK_END_INTERVAL);
        watch.wait_for(Some(nap)).map_err(|error| failed(error.to_string()))?;
    }
}

/// Answers a request that its agent holds. The first to make the answer's file is the one who answers.
fn answer_held_request(
    machine: &Machine,
    request: &PermitRequest,
    route: &PermitRoute,
    answer: &PermitAnswer,
) -> Result<(), PermitError> {
    let directory = permits_directory(machine.home());
    let failed = |reason: String| PermitError::Files { directory: directory.clone(), reason };
    let gone = |why: &str| PermitError::Gone { id: request.id.clone(), why: why.to_owned() };
    sys::private::create_private_dir(&directory).map_err(|error| failed(error.to_string()))?;
    let claim = directory.join(answer_name(&request.id));
    let made = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&claim);
    match made {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(gone("somebody else has answered"));
        }
        Err(error) => return Err(failed(error.to_string())),
    }
    sys::pause::pause_at("permit.claimed");
    let answered = match route {
        PermitRoute::Server { port } => {
            let taken = answer_server_request(request, *port, answer);
            taken.map(|taken| if taken { LineAnswer::Taken } else { LineAnswer::Gone })
        }
        PermitRoute::Lines { input, events } => {
            let pair = FilePair { input: input.into(), events: events.into() };
            answer_line_request(request, &pair, answer)
        }
    };
    forget_file(&claim);
    match answered {
        Ok(LineAnswer::Taken) => Ok(()),
        Ok(LineAnswer::Gone) => Err(gone("it was decided otherwise, or its agent is gone")),
        Ok(LineAnswer::Unknown) => Err(PermitError::MayHaveApplied),
        Err(why) => Err(PermitError::NotAnswered { id: request.id.clone(), why }),
    }
}

/// Whether the file of that name is the one that is open.
fn is_same_file(path: &Path, open: &std::fs::File) -> bool {
    let place = |found: std::fs::Metadata| (found.dev(), found.ino());
    let there = std::fs::symlink_metadata(path).map(place);
    matches!((there, open.metadata().map(place)), (Ok(there), Ok(ours)) if there == ours)
}

/// A session cannot permit its own requests.
fn refuse_own_answer(request: &PermitRequest) -> Result<(), PermitError> {
    let Some(owner) = &request.owner else { return Ok(()) };
    let table = sys::proc::read_process_table();
    let is_owner = |pid: u32, start: u64| owner.pid == Some(pid) && owner.start == Some(start);
    let mut above = table.self_and_ancestors(std::process::id());
    match above.any(|row| is_owner(row.pid, row.start)) {
        true => Err(PermitError::IsCalling),
        false => Ok(()),
    }
}

/// Notes that a request was answered. The caller holds the writer lock.
pub(crate) fn note_answer(
    writer: &mut StoreWriter,
    note: &PermitNote,
    now: Time,
) -> Result<(), Failure> {
    let answered = AnsweredPermit {
        agent: &note.agent,
        session: &note.session,
        request: &note.request,
        result: match note.verdict {
            PermitVerdict::Allow => "allow",
            PermitVerdict::Deny => "deny",
        },
        by: &note.by,
        wait_ms: note.wait_ms,
    };
    let noted = writer.state_mut().and_then(|state| state.note_answered(&answered, now));
    noted.map_err(|error| Failure {
        kind: FailureKind::Write,
        message: format!("the answer was not noted: {error}"),
        hint: "`ostler doctor` tells what is wrong".to_owned(),
    })
}

/// Removes what hooks left behind that were killed while they waited. The caller holds the writer lock.
pub(crate) fn forget_dead_requests(machine: &Machine) {
    let directory = permits_directory(machine.home());
    let Ok(dir) = sys::private::open_own_dir(&directory) else { return };
    if machine.observer().sees_every_process() {
        find_dead_files(&directory, PERMIT_LEFT_ALONE_SPAN)
            .iter()
            .for_each(|path| forget_file(path));
    }
    for name in dir.list_names().unwrap_or_default() {
        let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")) else { continue };
        let Some(request) = read_request(&dir, id) else { continue };
        if !is_waiting(&request, machine)
            && machine.now().since(request.asked_at) > PERMIT_LEFT_ALONE_SPAN
        {
            forget_file(&directory.join(answer_name(id)));
            forget_file(&directory.join(request_name(id)));
        }
    }
}

/// Removes a file of a request that is over.
pub(crate) fn forget_file(path: &Path) {
    #[expect(clippy::disallowed_methods, reason = "a request's own files, once it is over")]
    sys::atomic::remove_own(path);
}
