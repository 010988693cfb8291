//! What ostler itself left: terminals that are over, launch records, payloads, copies over the budget,
//! dead sockets, files that were being written when their writer died.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::launch::LaunchFate;
use model::plan::{Refusal, RemovableKind};
use model::rules::guard;
use model::rules::retain::{RetentionCandidate, RetentionLimits};
use model::session::{self, SessionName};
use model::time::{Time, whole_millis};
use sys::dropped::NoteDropped;
use sys::lockfile::LockFile;
use sys::machine::Machine;

use super::{GcCheck, GcPlan};
use crate::observe::Observation;
use crate::terminal::{TerminalHome, remove, sight};
use crate::timeouts::TEMPORARY_MIN_AGE;
use crate::tracks::intake;
use crate::writer::GcRequest;
use crate::{hook, launches};
use reaper::PlannedRemoval;

/// Whose these things are.
pub(super) const OSTLER_OWNER: &str = "ostler";

/// Hosted terminals that are over.
pub(super) fn plan_terminals(
    ask: &GcRequest,
    machine: &Machine,
    observation: &Observation,
    planning: &mut GcPlan,
) {
    if !ask.is_about(sight::TERMINAL_AGENT) && !ask.is_about(OSTLER_OWNER) {
        return;
    }
    let (home, now) = (machine.home(), machine.now());
    let (mut found, mut candidates) = (Vec::new(), Vec::new());
    for one in &observation.sessions {
        let session = &one.session;
        if session.kind != session::SessionKind::Hosted {
            continue;
        }
        let directory = home.join("sessions").join(&session.id);
        let why = format!("the terminal is over ({})", one.verdict.status.as_str());
        let Ok(mut planned) =
            PlannedRemoval::new(RemovableKind::HostedSession, &directory, OSTLER_OWNER, why)
        else {
            continue;
        };
        planned = planned.with_total_size();
        planned.item.session = Some(session.id.clone());
        let title = session.digest.name.as_deref().or(session.display_title());
        planned.item.title = title.map(str::to_owned);
        let ended = session.digest.ended_at.max(session.last_activity_at());
        let age = ended.map(|at| now.since(at));
        planned.item.age_ms = age.map(whole_millis);
        planned.item.evidence = vec![format!("its host: {}", one.verdict.liveness.reason_code())];
        let refused = guard::may_collect(&one.session, &one.verdict, now).err();
        let candidate =
            RetentionCandidate { age, bytes: planned.item.bytes, may_go: refused.is_none() };
        found.push((planned, refused));
        candidates.push((candidate, vec![session.session_name()]));
    }
    let older_than = Some(ask.older_than(ask.retention.terminals));
    let goes = planning
        .choose_candidates(&candidates, RetentionLimits { older_than, max_bytes: ask.max_bytes });
    let of = candidates.into_iter().map(|(_, of)| of);
    for ((planned, refused), (of, goes)) in found.into_iter().zip(of.zip(goes)) {
        match refused {
            Some(refusal @ Refusal::Unproven { .. }) => planning.add_kept(planned, refusal),
            _ if goes => {
                let check = GcCheck::Terminal { root: home.to_owned(), id: session_of(&planned) };
                planning.add_item(ask, planned, check, of);
            }
            _ => {}
        }
    }
}

fn session_of(planned: &PlannedRemoval) -> String {
    planned.item.session.clone().unwrap_or_default()
}

/// Whether a terminal may go now.
pub(super) fn check_terminal(
    root: &Path,
    id: &str,
    machine: &Machine,
) -> Result<Option<LockFile>, Refusal> {
    let home = TerminalHome::at_root(root, machine);
    let session =
        home.open_session(id).map_err(|fault| Refusal::Unreadable { why: fault.message })?;
    remove::check_removable(&session.as_settled()).map(|()| None)
}

/// Records of agents that were started and are gone.
pub(super) fn plan_launches(ask: &GcRequest, machine: &Machine, planning: &mut GcPlan) {
    for record in launches::launch_records(machine.home()) {
        let launch = match record.launch {
            Ok(launch) => launch,
            Err(why) => {
                let what = "a note of an agent that was started";
                let found = PlannedRemoval::new(
                    RemovableKind::LaunchRecord,
                    &record.path,
                    OSTLER_OWNER,
                    what,
                );
                found
                    .into_iter()
                    .for_each(|one| planning.add_kept(one, launches::damaged_record(&why)));
                continue;
            }
        };
        let ttl = ask.older_than(launch.retention_ttl());
        let (fate, liveness) = launches::judge_launch(&launch, ttl, machine);
        let Ok(mut planned) = launches::plan_record(&record.path, &launch, liveness) else {
            continue;
        };
        match fate {
            LaunchFate::Due(gone) => {
                planned.item.age_ms = Some(whole_millis(gone));
                planning.add_item(
                    ask,
                    planned,
                    GcCheck::Launch,
                    vec![remove::terminal_name(&launch.session)],
                );
            }
            LaunchFate::Stays(Refusal::Alive { .. }) | LaunchFate::Young(_) => {}
            LaunchFate::Stays(refusal) => planning.add_kept(planned, refusal),
        }
    }
}

/// Payloads beside the spool whose reports were taken in long ago.
pub(super) fn plan_spills(ask: &GcRequest, machine: &Machine, planning: &mut GcPlan) {
    let home = machine.home();
    let state = store::state::StateStore::open_read_only(home)
        .ok_or_note("the state, for payloads beside the spool")
        .flatten();
    // A spool that cannot be read may name any of them.
    let Ok(waiting) = intake::read_waiting(home, state.as_ref()) else { return };
    let named: HashSet<String> = waiting.into_iter().filter_map(|report| report.spill).collect();
    let limit = ask.older_than(ask.retention.spills);
    let why = "the payload of a report that was taken in";
    for (path, name) in files_in(&hook::spill_directory(home)) {
        if !named.contains(&name) {
            add_old(ask, machine.now(), &path, (RemovableKind::Spill, why), limit, planning);
        }
    }
}

/// Puts a file on the list if it has been left alone for long enough.
fn add_old(
    ask: &GcRequest,
    now: Time,
    path: &Path,
    (kind, why): (RemovableKind, &str),
    limit: Duration,
    planning: &mut GcPlan,
) {
    let Ok(mut planned) = PlannedRemoval::new(kind, path, OSTLER_OWNER, why) else { return };
    if planned.note_age(now) > limit {
        planning.add_item(ask, planned, GcCheck::Unopened, Vec::new());
    }
}

fn files_in(directory: &Path) -> impl Iterator<Item = (PathBuf, String)> + use<> {
    let listed = std::fs::read_dir(directory).into_iter().flatten().flatten();
    listed.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)))
}

/// Copies in the vault, the oldest first, until the rest fits the budget.
pub(super) fn plan_vault_copies(ask: &GcRequest, machine: &Machine, planning: &mut GcPlan) {
    let home = machine.home();
    let Some(max_bytes) = ask.retention.vault_bytes else { return };
    let Ok(kept) = crate::finalize::list_kept(home) else { return };
    // The newest session that needs a copy says how old it is; any of them may be pinned.
    let mut known: HashMap<&str, usize> = HashMap::new();
    let (mut copies, mut candidates) = (Vec::new(), Vec::new());
    for one in &kept {
        for file in &one.files {
            let name = SessionName::new(&one.agent, &one.session);
            let at = *known.entry(&file.sha256).or_insert(copies.len());
            if at == copies.len() {
                let age = machine.now().since(one.kept_at);
                copies.push((file.sha256.as_str(), age, name.to_string()));
                let bytes = file.kept_bytes;
                candidates
                    .push((RetentionCandidate { age: Some(age), bytes, may_go: true }, Vec::new()));
            }
            candidates[at].1.push(name);
        }
    }
    let goes = planning.choose_candidates(
        &candidates,
        RetentionLimits { older_than: None, max_bytes: Some(max_bytes) },
    );
    let of = candidates.into_iter().map(|(_, of)| of);
    for ((hash, age, session), (of, goes)) in copies.into_iter().zip(of.zip(goes)) {
        let place = crate::vault::copy_path(home, hash);
        let why = "the vault is over its budget, and this is among the oldest";
        if let (true, Ok(mut planned)) =
            (goes, PlannedRemoval::new(RemovableKind::VaultCopy, &place, OSTLER_OWNER, why))
        {
            planned.item.session = Some(session);
            planned.item.age_ms = Some(whole_millis(age));
            planning.add_item(ask, planned, GcCheck::Unopened, of);
        }
    }
}

/// Sockets without a listener. Other homes of the user have theirs in the same directory: of one that was made a moment
/// ago its process may be about to listen.
pub(super) fn plan_sockets(home: &Path, now: Time, ask: &GcRequest, planning: &mut GcPlan) {
    let fallback = crate::writer::fallback_directory(home);
    let below = files_in(&ask.runtime).filter(|(path, _)| path.is_dir());
    let places = [ask.runtime.clone(), fallback].into_iter().chain(below.map(|(path, _)| path));
    for place in places {
        for (path, _) in files_in(&place) {
            let is_socket =
                std::fs::symlink_metadata(&path).is_ok_and(|about| about.file_type().is_socket());
            if is_socket && check_socket(&path).is_ok() {
                let why = "nobody listens on it";
                if let Ok(mut planned) =
                    PlannedRemoval::new(RemovableKind::Socket, &path, OSTLER_OWNER, why)
                {
                    planned.item.evidence = vec!["connecting was refused".to_owned()];
                    if planned.age(now) >= guard::QUIET_BEFORE_COLLECTION {
                        planning.add_item(ask, planned, GcCheck::Socket, Vec::new());
                    }
                }
            }
        }
    }
}

/// Whether there is no listener: only the kernel's refusal is proof.
pub(super) fn check_socket(path: &Path) -> Result<(), Refusal> {
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(Refusal::Unproven { why: error.to_string() }),
        Ok(_) => Err(Refusal::Busy { who: "whoever listens on it".to_owned() }),
    }
}

/// Files that were being written when their writer died.
pub(super) fn plan_temporaries(ask: &GcRequest, machine: &Machine, planning: &mut GcPlan) {
    let home = machine.home();
    let why = "its writer died while writing it";
    let launches = launches::launches_directory(home);
    for directory in [home.to_owned(), home.join("vault"), home.join("spool"), launches] {
        for (path, name) in files_in(&directory) {
            if name.starts_with('.') && name.ends_with(".tmp") && !path.is_dir() {
                add_old(
                    ask,
                    machine.now(),
                    &path,
                    (RemovableKind::Temporary, why),
                    TEMPORARY_MIN_AGE,
                    planning,
                );
            }
        }
    }
}
