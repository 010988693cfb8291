//! Which directories are watched, and what a change in one of them is worth.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use model::session::SessionKind;
use sys::watch_set::{DirectoryChange, EntryChange};

use crate::observe::Observation;
use crate::{hook, terminal};

/// How many directories are watched at most; agents that keep one for every session may have thousands.
pub(super) const MAX_WATCHED_DIRECTORIES: usize = 4096;

/// What a change asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeUrgency {
    Now,
    /// A look some time: only the age of something is another.
    SignOfLife,
    Nothing,
}

/// What is of interest in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PlaceInterest {
    Everything,
    /// That one of these appears: places that are not there yet.
    Appearance(BTreeSet<OsString>),
    /// The manifest of a hosted terminal; the rest is output.
    Terminal,
    /// ostler's home: the state, and directories that appear.
    Home,
}

/// The directories to watch, the most important first.
#[derive(Debug, Default)]
pub(super) struct WatchPlaces {
    order: Vec<PathBuf>,
    interests: BTreeMap<PathBuf, PlaceInterest>,
    cut: bool,
}

impl WatchPlaces {
    /// Where sessions that were seen are written, and where others would appear.
    pub(super) fn of_observation(observation: &Observation, home: &Path) -> Self {
        let mut places = Self::default();
        places.await_home(home);
        places.add_terminals(observation, home);
        let agents = || observation.agents.iter().filter(|agent| !agent.disabled);
        for root in agents().flat_map(|agent| &agent.roots) {
            places.await_place(root);
        }
        // Where live sessions are written comes before where others would appear.
        let live = observation.sessions.iter().chain(&observation.subagents);
        let live = live.filter(|one| one.verdict.status.is_active());
        for one in live.filter(|one| one.session.kind == SessionKind::Native) {
            let transcript = one.session.transcript.as_ref();
            if let Some(parent) = transcript.and_then(|transcript| transcript.path.parent()) {
                places.add_place(parent, PlaceInterest::Everything);
            }
        }
        for directory in agents().flat_map(|agent| &agent.directories) {
            places.add_place(directory, PlaceInterest::Everything);
        }
        places
    }

    /// ostler's own places.
    pub(super) fn await_home(&mut self, home: &Path) {
        if !home.is_dir() {
            return self.await_place(home);
        }
        self.add_place(home, PlaceInterest::Home);
        if let Some(spool) = hook::spool_path(home).parent() {
            self.add_place(spool, PlaceInterest::Everything);
        }
        self.add_place(&home.join("access"), PlaceInterest::Everything);
    }

    fn add_terminals(&mut self, observation: &Observation, home: &Path) {
        let sessions = terminal::sessions_directory(home);
        for one in &observation.sessions {
            if one.session.kind == SessionKind::Hosted && one.verdict.status.is_active() {
                self.add_place(&sessions.join(&one.session.id), PlaceInterest::Terminal);
            }
        }
        self.add_place(&sessions, PlaceInterest::Everything);
    }

    /// A place, or where it would appear.
    fn await_place(&mut self, place: &Path) {
        if place.is_dir() {
            return self.add_place(place, PlaceInterest::Everything);
        }
        let above = place.ancestors().skip(1).find(|above| above.is_dir());
        let Some(above) = above else { return };
        let Some(next) = place.strip_prefix(above).ok().and_then(|rest| rest.iter().next()) else {
            return;
        };
        match self.interests.get_mut(above) {
            Some(PlaceInterest::Appearance(names)) => {
                names.insert(next.to_owned());
            }
            Some(_) => {}
            None => {
                let names = BTreeSet::from([next.to_owned()]);
                self.add_place(above, PlaceInterest::Appearance(names));
            }
        }
    }

    fn add_place(&mut self, place: &Path, interest: PlaceInterest) {
        if let Some(known) = self.interests.get_mut(place) {
            if interest == PlaceInterest::Everything
                && matches!(known, PlaceInterest::Appearance(_))
            {
                *known = interest;
            }
            return;
        }
        if self.order.len() >= MAX_WATCHED_DIRECTORIES {
            self.cut = true;
            return;
        }
        self.order.push(place.to_owned());
        self.interests.insert(place.to_owned(), interest);
    }

    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.order.iter().map(PathBuf::as_path)
    }

    /// Whether there are more than are watched.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// What a change is worth.
    pub(super) fn judge_change(&self, change: &DirectoryChange) -> ChangeUrgency {
        let Some(interest) = self.interests.get(&change.directory) else {
            return ChangeUrgency::Nothing;
        };
        let Some(name) = change.name.as_deref() else { return ChangeUrgency::Now };
        if is_reader_trace(name, change.change) {
            return ChangeUrgency::Nothing;
        }
        let is_wanted = match interest {
            PlaceInterest::Everything => true,
            PlaceInterest::Appearance(names) => {
                change.change == EntryChange::Appeared && names.contains(name)
            }
            PlaceInterest::Home => is_state(name, change.change),
            PlaceInterest::Terminal if name == host::files::MANIFEST_FILE => true,
            PlaceInterest::Terminal => return ChangeUrgency::SignOfLife,
        };
        if is_wanted { ChangeUrgency::Now } else { ChangeUrgency::Nothing }
    }
}

/// What reading a database leaves beside it: looking must not be a reason to look again.
fn is_reader_trace(name: &OsStr, change: EntryChange) -> bool {
    let ends_with = |end: &str| name.as_encoded_bytes().ends_with(end.as_bytes());
    ends_with("-shm") || (ends_with("-wal") && change != EntryChange::Written)
}

/// Whether it is the state, or a place of ostler's that was not there before.
fn is_state(name: &OsStr, change: EntryChange) -> bool {
    let places: HashSet<&str> = HashSet::from(["spool", "sessions", "access"]);
    let name = name.to_string_lossy();
    name.starts_with("ostler.db")
        || name == "events.bell"
        || (change != EntryChange::Written && places.contains(&*name))
}
