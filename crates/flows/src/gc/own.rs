//! What ostler itself left: terminals that are over, launch records, payloads, copies over the budget,
//! dead sockets, files that were being written when their writer died.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::launch::Fate;
use model::plan::{Kind, Refusal};
use model::rules::guard;
use model::rules::retain::{Candidate, Limits};
use model::session::{self, Name};
use model::time::{Time, millis};
use sys::lockfile::LockFile;

use super::{Ask, Check, Planning};
use crate::observe::Observation;
use crate::terminal::{Home, remove, sight};
use crate::{hook, intake, launches};
use reaper::Planned;

/// Whose these things are.
pub(super) const OWNER: &str = "ostler";

/// How old a file must be that was being written when its writer died.
const TEMPORARY_AGE: Duration = Duration::from_secs(3600);

/// Hosted terminals that are over.
pub(super) fn terminals(
    home: &Path,
    ask: &Ask,
    now: Time,
    observation: &Observation,
    planning: &mut Planning,
) {
    if !ask.is_about(sight::AGENT) && !ask.is_about(OWNER) {
        return;
    }
    let (mut found, mut candidates) = (Vec::new(), Vec::new());
    for one in &observation.sessions {
        let session = &one.session;
        if session.kind != session::Kind::Hosted {
            continue;
        }
        let directory = home.join("sessions").join(&session.id);
        let why = format!("the terminal is over ({})", one.verdict.status.word());
        let Ok(mut planned) = Planned::new(Kind::HostedSession, &directory, OWNER, why) else {
            continue;
        };
        planned = planned.weighed();
        planned.item.session = Some(session.id.clone());
        let ended = session.digest.ended_at.max(session.last_activity_at());
        let age = ended.map(|at| now.since(at));
        planned.item.age_ms = age.map(millis);
        planned.item.evidence = vec![format!("its host: {}", one.verdict.liveness.reason())];
        let refused = guard::may_collect(&one.session, &one.verdict, now).err();
        let candidate = Candidate { age, bytes: planned.item.bytes, may_go: refused.is_none() };
        found.push((planned, refused));
        candidates.push((candidate, vec![session.name()]));
    }
    let older_than = Some(ask.older_than(ask.retention.terminals));
    let goes = planning.choose(&candidates, Limits { older_than, max_bytes: ask.max_bytes });
    let of = candidates.into_iter().map(|(_, of)| of);
    for ((planned, refused), (of, goes)) in found.into_iter().zip(of.zip(goes)) {
        match refused {
            Some(guard::Refusal::Unproven(liveness)) => {
                planning.stay(planned, guard::Refusal::Unproven(liveness).into());
            }
            _ if goes => {
                let check = Check::Terminal { root: home.to_owned(), id: session_of(&planned) };
                planning.add(ask, planned, check, of);
            }
            _ => {}
        }
    }
}

fn session_of(planned: &Planned) -> String {
    planned.item.session.clone().unwrap_or_default()
}

/// Whether a terminal may go now.
pub(super) fn check_terminal(root: &Path, id: &str) -> Result<Option<LockFile>, Refusal> {
    let home = Home::at(root);
    let session = home.open(id).map_err(|fault| Refusal::Unreadable { why: fault.message })?;
    remove::may_go(&session.as_settled()).map(|()| None)
}

/// Records of agents that were started and are gone.
pub(super) fn launches(home: &Path, ask: &Ask, now: Time, planning: &mut Planning) {
    let observer = sys::proc::observer();
    for record in launches::records(home) {
        let launch = match record.launch {
            Ok(launch) => launch,
            Err(why) => {
                let what = "a note of an agent that was started";
                let found = Planned::new(Kind::LaunchRecord, &record.path, OWNER, what);
                found.into_iter().for_each(|one| planning.stay(one, launches::damaged(&why)));
                continue;
            }
        };
        let ttl = ask.older_than(launch.ttl());
        let (fate, liveness) = launches::fate(home, &launch, ttl, &observer, now);
        let Ok(mut planned) = launches::planned(&record.path, &launch, liveness) else { continue };
        match fate {
            Fate::Due(gone) => {
                planned.item.age_ms = Some(millis(gone));
                planning.add(ask, planned, Check::Launch, vec![remove::name(&launch.session)]);
            }
            Fate::Stays(Refusal::Alive { .. }) | Fate::Young(_) => {}
            Fate::Stays(refusal) => planning.stay(planned, refusal),
        }
    }
}

/// Payloads beside the spool whose reports were taken in long ago.
pub(super) fn spills(home: &Path, ask: &Ask, now: Time, planning: &mut Planning) {
    let state = store::state::State::read(home).ok().flatten();
    // A spool that cannot be read may name any of them.
    let Ok(waiting) = intake::waiting(home, state.as_ref()) else { return };
    let named: HashSet<String> = waiting.into_iter().filter_map(|report| report.spill).collect();
    let limit = ask.older_than(ask.retention.spills);
    let why = "the payload of a report that was taken in";
    for (path, name) in files(&hook::spill_directory(home)) {
        if !named.contains(&name) {
            add_old(ask, now, &path, (Kind::Spill, why), limit, planning);
        }
    }
}

/// Puts a file on the list if it has been left alone for long enough.
fn add_old(
    ask: &Ask,
    now: Time,
    path: &Path,
    (kind, why): (Kind, &str),
    limit: Duration,
    planning: &mut Planning,
) {
    let Ok(mut planned) = Planned::new(kind, path, OWNER, why) else { return };
    if planned.note_age(now) > limit {
        planning.add(ask, planned, Check::Unopened, Vec::new());
    }
}

fn files(directory: &Path) -> impl Iterator<Item = (PathBuf, String)> + use<> {
    let listed = std::fs::read_dir(directory).into_iter().flatten().flatten();
    listed.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)))
}

/// Copies in the vault, the oldest first, until the rest fits the budget.
pub(super) fn vault(home: &Path, ask: &Ask, now: Time, planning: &mut Planning) {
    let Some(max_bytes) = ask.retention.vault_bytes else { return };
    let Ok(kept) = crate::finalize::kept(home) else { return };
    // The newest session that needs a copy says how old it is; any of them may be pinned.
    let mut known: HashMap<&str, usize> = HashMap::new();
    let (mut copies, mut candidates) = (Vec::new(), Vec::new());
    for one in &kept {
        for file in &one.files {
            let name = Name::new(&one.agent, &one.session);
            let at = *known.entry(&file.sha256).or_insert(copies.len());
            if at == copies.len() {
                let age = now.since(one.kept_at);
                copies.push((file.sha256.as_str(), age, name.to_string()));
                let bytes = file.kept_bytes;
                candidates.push((Candidate { age: Some(age), bytes, may_go: true }, Vec::new()));
            }
            candidates[at].1.push(name);
        }
    }
    let goes =
        planning.choose(&candidates, Limits { older_than: None, max_bytes: Some(max_bytes) });
    let of = candidates.into_iter().map(|(_, of)| of);
    for ((hash, age, session), (of, goes)) in copies.into_iter().zip(of.zip(goes)) {
        let place = crate::vault::place(home, hash);
        let why = "the vault is over its budget, and this is among the oldest";
        if let (true, Ok(mut planned)) = (goes, Planned::new(Kind::VaultCopy, &place, OWNER, why)) {
            planned.item.session = Some(session);
            planned.item.age_ms = Some(millis(age));
            planning.add(ask, planned, Check::Unopened, of);
        }
    }
}

/// Sockets on which nobody listens.
pub(super) fn sockets(home: &Path, ask: &Ask, planning: &mut Planning) {
    let fallback = crate::daemon::fallback_directory(home);
    let below = files(&ask.runtime).filter(|(path, _)| path.is_dir());
    let places = [ask.runtime.clone(), fallback].into_iter().chain(below.map(|(path, _)| path));
    for place in places {
        for (path, _) in files(&place) {
            let is_socket =
                std::fs::symlink_metadata(&path).is_ok_and(|about| about.file_type().is_socket());
            if is_socket && check_socket(&path).is_ok() {
                let why = "nobody listens on it";
                if let Ok(mut planned) = Planned::new(Kind::Socket, &path, OWNER, why) {
                    planned.item.evidence = vec!["connecting was refused".to_owned()];
                    planning.add(ask, planned, Check::Socket, Vec::new());
                }
            }
        }
    }
}

/// Whether nobody listens: only the kernel's refusal is proof.
pub(super) fn check_socket(path: &Path) -> Result<(), Refusal> {
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(Refusal::Unproven { why: error.to_string() }),
        Ok(_) => Err(Refusal::Busy { who: "whoever listens on it".to_owned() }),
    }
}

/// Files that were being written when their writer died.
pub(super) fn temporaries(home: &Path, ask: &Ask, now: Time, planning: &mut Planning) {
    let why = "its writer died while writing it";
    let launches = launches::directory(home);
    for directory in [home.to_owned(), home.join("vault"), home.join("spool"), launches] {
        for (path, name) in files(&directory) {
            if name.starts_with('.') && name.ends_with(".tmp") && !path.is_dir() {
                add_old(ask, now, &path, (Kind::Temporary, why), TEMPORARY_AGE, planning);
            }
        }
    }
}
