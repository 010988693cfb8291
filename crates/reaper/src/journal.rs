//! The journal, a write-ahead log of removals: one file for each receipt, one line for each step and
//! for what became of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use model::address::{NoSingleId, pick_by_id};
use model::plan::{Fingerprint, RemovableKind};
use model::time::Time;
use model::wire::IncompleteSource;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::CollectError;

/// The largest journal that is read: a line is a few hundred bytes.
const MAX_JOURNAL_BYTES: u64 = 256 << 20;

/// How many names are tried for something that comes back.
const MOST_BACK_NAMES: u32 = 100;

/// A path that is written whole, bytes that are not UTF-8 included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPath(pub PathBuf);

impl Serialize for JournalPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => self.0.as_os_str().as_bytes().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for JournalPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(Self(match Either::deserialize(deserializer)? {
            Either::Text(text) => text.into(),
            Either::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }))
    }
}

/// What is done to one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "action")]
pub enum JournalAction {
    /// It is moved to the trash.
    Trash,
    /// It is given another name.
    Rename {
        /// The new name.
        to: JournalPath,
    },
    /// Its content is replaced; the old content goes to the trash.
    Replace {
        /// The hash of the old content; none if there was no file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<String>,
        /// The hash of the new content.
        after: String,
    },
    /// It is removed for good: there is nothing in it that could be given back.
    Discard,
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BegunStep {
    /// Its number in the run.
    pub step: u32,
    /// What is done.
    #[serde(flatten)]
    pub action: JournalAction,
    pub path: JournalPath,
    /// What kind of thing it is.
    pub kind: RemovableKind,
    pub why: String,
    /// How many bytes it takes.
    pub bytes: u64,
    /// What it was; none if there was nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub print: Option<Fingerprint>,
    /// The lock that is held for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockNote>,
}

/// A lock of another program's that is held while a step is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockNote {
    /// Where it is.
    pub path: JournalPath,
    /// What it is.
    pub print: Fingerprint,
}

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "line")]
pub(super) enum JournalLine {
    /// The first: what this run is.
    Run { receipt: String, command: String, at: Time, version: String },
    /// A step is about to be taken.
    Begin(BegunStep),
    /// It is about to get a private name in its own directory, from where it is copied.
    Aside { step: u32, name: JournalPath },
    /// It lies in the trash as a whole copy; the original is about to be removed.
    Copied { step: u32 },
    /// It was looked at for the last time, and is about to be removed for good, part by part.
    Discarding { step: u32 },
    /// What is left of the step is for a person to decide.
    Undecided { step: u32, matter: Undecided },
    /// It is about to be put back by way of this name; with what it is there, once it is whole.
    Returning {
        step: u32,
        by: JournalPath,
        to: JournalPath,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        print: Option<Fingerprint>,
    },
    /// The step was taken.
    Done { step: u32 },
    /// The step was not taken; everything is where it was.
    Failed { step: u32, reason: String },
    /// It was not put back after all, and lies where it lay.
    Returned { step: u32 },
    /// The step was undone.
    Undone { step: u32, at: Time },
    /// The run came to its end.
    End { at: Time },
    /// What was in the trash is being removed for good.
    Emptied { at: Time },
}

/// What a person must decide about a step, because there is work in more than one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Undecided {
    pub reason: String,
    /// Everything that was kept, where it is.
    pub places: Vec<JournalPath>,
}

/// A step that is being put back, by way of a name in the directory it comes back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Returning {
    pub(super) by: PathBuf,
    pub(super) to: PathBuf,
    pub(super) print: Option<Fingerprint>,
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepState {
    /// It was begun, and its outcome was not journalled.
    Begun,
    /// It may have a private name beside its own, and its outcome was not journalled.
    Aside,
    /// It was copied whole, and it was not journalled whether the original is gone.
    Copied,
    /// It was being removed for good, and it was not journalled whether all of it is gone.
    Discarding,
    /// It was taken.
    Done,
    /// It was not taken.
    Failed(String),
    /// It was undone.
    Undone,
    /// What was kept of it is gone for good.
    Emptied,
}

/// A step and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalStep {
    /// What was to be done.
    pub begun: BegunStep,
    /// What became of it.
    pub state: StepState,
    /// The private name that it was given, in its own directory.
    pub aside: Option<PathBuf>,
    /// What a person must decide about it.
    pub undecided: Option<Undecided>,
    /// How far it is on its way back.
    pub(super) returning: Option<Returning>,
}

impl JournalStep {
    const fn new(begun: BegunStep) -> Self {
        Self { begun, state: StepState::Begun, aside: None, undecided: None, returning: None }
    }

    /// Whether it was begun, and it is neither known what became of it nor left to a person.
    pub fn is_open(&self) -> bool {
        let open = matches!(
            self.state,
            StepState::Begun | StepState::Aside | StepState::Copied | StepState::Discarding
        );
        (open && self.undecided.is_none()) || self.returning.is_some()
    }

    /// Adds something to decide; what was to be decided before still is.
    fn leave_undecided(&mut self, matter: Undecided) {
        let mut places = self.undecided.take().map(|known| known.places).unwrap_or_default();
        places.retain(|place| !matter.places.contains(place));
        places.extend(matter.places);
        self.undecided = Some(Undecided { reason: matter.reason, places });
    }

    /// Everything that was kept for a person to decide about and is still there. Names that only this step
    /// uses are looked for as well, also if the journal does not mention them: a kill, or an earlier version,
    /// may have left one.
    pub(super) fn kept_places(&self, receipt: &str) -> Vec<PathBuf> {
        let told = self.undecided.iter().flat_map(|matter| &matter.places);
        let mut places: Vec<PathBuf> = told.map(|place| place.0.clone()).collect();
        if !self.is_open() && self.begun.action != JournalAction::Discard {
            let (path, step) = (self.begun.path.0.as_path(), self.begun.step);
            let private = match self.begun.action {
                JournalAction::Replace { .. } => private_beside_target(path, receipt, step),
                _ => private_beside(path, receipt, step),
            };
            for name in [back_name(&private, receipt, step), private] {
                if !places.contains(&name) {
                    places.push(name);
                }
            }
        }
        places.retain(|place| is_there(place));
        places
    }

    /// What lay in its slot is decided about. What others wrote and that has a private name elsewhere is not.
    fn forget_slot(&mut self, receipt: &str) {
        let slot = Path::new(receipt).join(self.begun.step.to_string());
        let is_elsewhere = |place: &JournalPath| {
            place.0.parent().is_none_or(|directory| !directory.ends_with(&slot))
        };
        self.undecided = self.undecided.take().and_then(|mut matter| {
            matter.places.retain(is_elsewhere);
            (!matter.places.is_empty()).then_some(matter)
        });
    }

    /// Whether undoing it would give something back.
    pub(super) fn can_be_undone(&self) -> bool {
        match self.state {
            StepState::Done => self.begun.action != JournalAction::Discard,
            StepState::Aside | StepState::Copied => self.undecided.is_some(),
            _ => false,
        }
    }
}

/// A run as its journal tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub id: String,
    /// What was run.
    pub command: String,
    pub at: Time,
    /// Whether it came to its end.
    pub ended: bool,
    /// Its steps, in the order they were taken.
    pub steps: Vec<JournalStep>,
    /// Lines that cannot be understood.
    pub unreadable: usize,
}

impl Receipt {
    /// Whether something of it can be undone.
    pub fn is_undoable(&self) -> bool {
        self.steps.iter().any(JournalStep::can_be_undone)
    }
}

/// Where the files of a receipt are.
pub(super) fn receipt_directory(home: &Path, receipt: &str) -> PathBuf {
    super::trash_directory(home).join(receipt)
}

/// The directory of one step, relative to that of its receipt.
pub(super) fn slot_directory(home: &Path, receipt: &str, step: u32) -> PathBuf {
    receipt_directory(home, receipt).join(step.to_string())
}

/// Where a thing lies in its slot.
pub fn slot_content(home: &Path, receipt: &str, begun: &BegunStep) -> PathBuf {
    let name = begun.path.0.file_name().unwrap_or("content".as_ref());
    slot_directory(home, receipt, begun.step).join(name)
}

/// The name that only this step uses, for a thing that is between its place and the trash.
pub(super) fn private_name(receipt: &str, step: u32) -> String {
    format!("{}{receipt}-{step}", model::plan::PRIVATE_PREFIX)
}

/// That name, beside a path.
pub(super) fn private_beside(path: &Path, receipt: &str, step: u32) -> PathBuf {
    path.with_file_name(private_name(receipt, step))
}

/// That name, beside the file that a path leads to: by it new content comes to its place.
pub(super) fn private_beside_target(path: &Path, receipt: &str, step: u32) -> PathBuf {
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    private_beside(&target, receipt, step)
}

/// The name by which something comes back to the directory of `to`. Only this step uses it.
fn back_name(to: &Path, receipt: &str, step: u32) -> PathBuf {
    to.with_file_name(format!("{}.back", private_name(receipt, step)))
}

/// The same, where an earlier try may have left another process's work under that name.
pub(super) fn free_back_name(to: &Path, receipt: &str, step: u32) -> PathBuf {
    let first = back_name(to, receipt, step);
    let numbered =
        |count: u32| to.with_file_name(format!("{}.back-{count}", private_name(receipt, step)));
    let mut names = std::iter::once(first.clone()).chain((2..=MOST_BACK_NAMES).map(numbered));
    names.find(|name| !is_there(name)).unwrap_or(first)
}

/// Whether anything has this name.
pub(super) fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// A journal that is open for writing.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens the journal of a receipt, making it if it is new.
    pub(super) fn open(home: &Path, receipt: &str) -> Result<Self, CollectError> {
        let directory = receipt_directory(home, receipt);
        let path = directory.join("journal.jsonl");
        let failed = |reason: String| CollectError::Journal { path: path.clone(), reason };
        // From the outside in: a link in the place of the trash would lead everything elsewhere.
        for directory in [&super::trash_directory(home), &directory] {
            sys::private::create_private_dir(directory)
                .map_err(|error| failed(error.to_string()))?;
        }
        let opened = File::options().read(true).append(true).create(true).mode(0o600).open(&path);
        let mut file = opened.map_err(|error| failed(error.to_string()))?;
        // A process killed in the middle of a line left it without its end.
        let torn = ends_torn(&mut file).map_err(|error| failed(error.to_string()))?;
        if torn {
            file.write_all(b"\n").map_err(|error| failed(error.to_string()))?;
        }
        Ok(Self { path, file })
    }

    /// Adds a line, and waits until it is on the disk.
    pub(super) fn append(&mut self, line: &JournalLine) -> Result<(), CollectError> {
        let failed = |reason: String| CollectError::Journal { path: self.path.clone(), reason };
        let mut text = serde_json::to_vec(line).map_err(|error| failed(error.to_string()))?;
        text.push(b'\n');
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        written.map_err(|error| failed(error.to_string()))
    }
}

fn ends_torn(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// Reads the journal of a receipt.
pub fn read_receipt(home: &Path, receipt: &str) -> Result<Receipt, CollectError> {
    let path = receipt_directory(home, receipt).join("journal.jsonl");
    let failed = |reason: String| CollectError::Journal { path: path.clone(), reason };
    let file = sys::private::open_private(&path).map_err(|error| failed(error.to_string()))?;
    let mut text = Vec::new();
    file.take(MAX_JOURNAL_BYTES)
        .read_to_end(&mut text)
        .map_err(|error| failed(error.to_string()))?;
    Ok(fold_lines(receipt, &text))
}

/// Whether its last line says that every step was settled. Only the end of the journal is read, however
/// long it is.
pub(super) fn is_settled(home: &Path, receipt: &str) -> bool {
    const TAIL_BYTES: u64 = 4 << 10;
    let read_tail = || -> io::Result<Vec<u8>> {
        let mut file =
            sys::private::open_private(&receipt_directory(home, receipt).join("journal.jsonl"))
                .map_err(io::Error::other)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut tail = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut tail)?;
        Ok(tail)
    };
    let Ok(tail) = read_tail() else { return false };
    let Some(whole) = tail.strip_suffix(b"\n") else { return false };
    let last = whole.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let last = serde_json::from_slice(last);
    matches!(
        last,
        Ok(JournalLine::End { .. }
            | JournalLine::Undone { .. }
            | JournalLine::Returned { .. }
            | JournalLine::Emptied { .. })
    )
}

/// What the lines of a journal come to.
fn fold_lines(id: &str, text: &[u8]) -> Receipt {
    let mut receipt = Receipt {
        id: id.to_owned(),
        command: String::new(),
        at: Time::from_millis(0),
        ended: false,
        steps: Vec::new(),
        unreadable: 0,
    };
    let mut steps: BTreeMap<u32, JournalStep> = BTreeMap::new();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut change = |step: u32, change: &dyn Fn(&mut JournalStep)| {
            if let Some(known) = steps.get_mut(&step) {
                change(known);
            }
        };
        match serde_json::from_slice::<JournalLine>(line) {
            Ok(JournalLine::Run { command, at, .. }) => {
                (receipt.command, receipt.at) = (command, at)
            }
            Ok(JournalLine::Begin(begun)) => {
                steps.insert(begun.step, JournalStep::new(begun));
            }
            Ok(JournalLine::Aside { step, name }) => change(step, &|known| {
                known.state = StepState::Aside;
                known.aside = Some(name.0.clone());
            }),
            Ok(JournalLine::Copied { step }) => {
                change(step, &|known| known.state = StepState::Copied)
            }
            Ok(JournalLine::Discarding { step }) => {
                change(step, &|known| known.state = StepState::Discarding)
            }
            Ok(JournalLine::Undecided { step, matter }) => {
                change(step, &|known| known.leave_undecided(matter.clone()));
            }
            Ok(JournalLine::Returning { step, by, to, print }) => change(step, &|known| {
                let (by, to) = (by.0.clone(), to.0.clone());
                known.returning = Some(Returning { by, to, print });
            }),
            Ok(JournalLine::Returned { step }) => change(step, &|known| known.returning = None),
            Ok(JournalLine::Done { step }) => change(step, &|known| known.state = StepState::Done),
            Ok(JournalLine::Failed { step, reason }) => {
                change(step, &|known| known.state = StepState::Failed(reason.clone()));
            }
            Ok(JournalLine::Undone { step, .. }) => change(step, &|known| {
                known.state = StepState::Undone;
                known.returning = None;
                known.forget_slot(id);
            }),
            Ok(JournalLine::End { .. }) => receipt.ended = true,
            Ok(JournalLine::Emptied { .. }) => {
                for step in steps.values_mut().filter(|step| step.state == StepState::Done) {
                    step.state = StepState::Emptied;
                    step.forget_slot(id);
                }
            }
            Err(_) => receipt.unreadable += 1,
        }
    }
    receipt.steps = steps.into_values().collect();
    receipt
}

/// The names of all receipts, the oldest first. A trash that cannot be looked into is not empty.
pub(super) fn receipt_names(home: &Path) -> Result<Vec<String>, CollectError> {
    let path = super::trash_directory(home);
    let listed = match std::fs::read_dir(&path) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(CollectError::Journal { path, reason: error.to_string() }),
    };
    let mut names: Vec<String> = listed
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

/// A time later than that of every receipt, so that the names of receipts are in the order of their runs
/// independent of the clock.
pub(super) fn later_than_all(home: &Path, at: Time) -> Result<Time, CollectError> {
    let millis = |name: &String| i64::from_str_radix(name.split('-').next()?, 16).ok();
    let last = receipt_names(home)?.iter().filter_map(millis).max();
    Ok(last.map_or(at, |last| at.max(Time::from_millis(last.saturating_add(1)))))
}

/// Whether a receipt has no journal: its maker was killed before anything was moved.
pub(super) fn is_missing(home: &Path, receipt: &str) -> bool {
    let about = std::fs::symlink_metadata(receipt_directory(home, receipt).join("journal.jsonl"));
    about.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// As a line of what could not be looked at, or dealt with.
pub(super) fn incomplete_receipt(receipt: &str, error: &CollectError) -> IncompleteSource {
    let path = match error {
        CollectError::Journal { path, .. } => Some(path.to_string_lossy().into_owned()),
        _ => None,
    };
    IncompleteSource { source: format!("receipt {receipt}"), path, reason: error.to_string() }
}

/// The receipt that a person means: its name or the beginning of it.
pub(super) fn find_receipt(home: &Path, text: &str) -> Result<String, CollectError> {
    pick_by_id(receipt_names(home)?, text, |name| [name]).map_err(|why| match why {
        NoSingleId::Nothing => CollectError::NoReceipt(text.to_owned()),
        NoSingleId::Several(candidates) => {
            CollectError::Ambiguous { text: text.to_owned(), candidates }
        }
    })
}

#[cfg(test)]
mod tests;
