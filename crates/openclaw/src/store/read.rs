//! A consistent read of a store: its index, the files beside it, and who holds which of them.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::rules::document::IndexDocument;
use crate::rules::file::{PROMPT_BLOBS_DIR, StoreDirFile, StoreFileKind};
use model::plan::Fingerprint;
use model::time::Time;
use sys::machine::Machine;
use sys::private::PrivateError;

use super::StoreError;
use super::find::StorePlace;
use crate::locks::{self, TranscriptLock};

/// The largest index that is read. The largest that was seen had 120 MB.
const MAX_INDEX_BYTES: u64 = 1 << 30;

/// A store as it was found.
#[derive(Debug)]
pub struct LoadedStore {
    pub place: StorePlace,
    /// Its directory, all links resolved.
    pub directory: PathBuf,
    /// The files of its directory.
    pub files: Vec<StoreDirFile>,
    /// What each of them was.
    pub prints: Vec<Fingerprint>,
    /// The index; `None` if there is none.
    pub bytes: Option<Vec<u8>>,
    /// What that was.
    pub print: Option<Fingerprint>,
    /// Names of links: what they lead to is left alone.
    pub links: HashSet<String>,
    /// What is to be made of the lock of each transcript that has one.
    pub locks: HashMap<String, TranscriptLock>,
    /// Sessions that are never to be collected.
    pub pinned: HashSet<String>,
}

impl LoadedStore {
    /// Looks at a store. One that is not there is empty.
    pub fn read_store(place: &StorePlace, machine: &Machine) -> Result<Self, StoreError> {
        let mut loaded = Self::open_place(place)?;
        loaded.list_files(Path::new("")).map_err(read_failed(place))?;
        loaded.list_blobs().map_err(read_failed(place))?;
        // The index is read after its directory: a transcript that is made meanwhile has no entry in
        // the list of files, and not the other way round.
        loaded.read_index().map_err(read_failed(place))?;
        loaded.judge_locks(machine);
        Ok(loaded)
    }

    /// Looks at the index alone.
    pub fn read_index_alone(place: &StorePlace) -> Result<Self, StoreError> {
        let mut loaded = Self::open_place(place)?;
        loaded.read_index().map_err(read_failed(place))?;
        Ok(loaded)
    }

    fn open_place(place: &StorePlace) -> Result<Self, StoreError> {
        let given = place.path.parent().unwrap_or(Path::new("/"));
        let directory = match std::fs::canonicalize(given) {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => given.to_owned(),
            Err(error) => return Err(read_failed(place)(error)),
        };
        Ok(Self {
            place: place.clone(),
            directory,
            files: Vec::new(),
            prints: Vec::new(),
            bytes: None,
            print: None,
            links: HashSet::new(),
            locks: HashMap::new(),
            pinned: HashSet::new(),
        })
    }

    /// With everything held that is of these sessions, in any state.
    #[must_use]
    pub fn with_held_sessions(mut self, sessions: &HashSet<&str>) -> Self {
        let is_of = |name: &str, id: &str| {
            let rest = name.strip_prefix(id);
            rest.is_some_and(|rest| rest.starts_with('.') || rest.starts_with("-topic-"))
        };
        for file in &mut self.files {
            file.held |= sessions.iter().any(|id| is_of(&file.name, id));
        }
        self.pinned = sessions.iter().map(|id| (*id).to_owned()).collect();
        self
    }

    /// The index, taken apart; an index that is not there has no entries.
    pub fn parse_document(&self) -> Result<IndexDocument<'_>, StoreError> {
        let bytes = self.bytes.as_deref().unwrap_or(b"{}");
        IndexDocument::parse(bytes)
            .map_err(|source| StoreError::Broken { path: self.place.path.clone(), source })
    }

    /// The name of the index.
    pub fn index_name(&self) -> &str {
        self.place.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Where a file of the directory is.
    pub fn path_of(&self, file: usize) -> PathBuf {
        self.directory.join(&self.files[file].name)
    }

    fn read_index(&mut self) -> io::Result<()> {
        let file = match sys::private::open_regular(&self.place.path) {
            Ok(file) => file,
            Err(PrivateError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(());
            }
            Err(PrivateError::Io { source, .. }) => return Err(source),
            Err(error) => return Err(io::Error::other(error.to_string())),
        };
        let about = file.metadata()?;
        if about.len() > MAX_INDEX_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
        }
        let mut bytes = Vec::with_capacity(about.len() as usize + 1);
        file.take(MAX_INDEX_BYTES).read_to_end(&mut bytes)?;
        self.print = Some(sys::fingerprint::of_metadata(&about));
        self.bytes = Some(bytes);
        Ok(())
    }

    /// Lists the files of the directory, or of one below it.
    fn list_files(&mut self, below: &Path) -> io::Result<()> {
        let entries = match std::fs::read_dir(self.directory.join(below)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            // A name that is no text is nothing of OpenClaw's.
            let Ok(name) = below.join(entry.file_name()).into_os_string().into_string() else {
                continue;
            };
            match entry.metadata() {
                Ok(about) if about.is_file() => self.add_file(name, &about),
                Ok(about) if about.is_symlink() => {
                    self.links.insert(name);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn add_file(&mut self, name: String, about: &Metadata) {
        use std::os::unix::fs::MetadataExt;

        let kind = StoreFileKind::from_name(&name, self.index_name());
        let modified = Time::from_secs_nanos(about.mtime(), about.mtime_nsec());
        self.files.push(StoreDirFile { name, bytes: about.len(), modified, kind, held: false });
        self.prints.push(sys::fingerprint::of_metadata(about));
    }

    /// Lists the prompts that entries refer to. A link on the way is not followed.
    fn list_blobs(&mut self) -> io::Result<()> {
        let is_directory =
            |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|about| about.is_dir());
        let blobs = Path::new(PROMPT_BLOBS_DIR);
        let mut way = self.directory.clone();
        for part in blobs {
            way.push(part);
            if !is_directory(&way) {
                return Ok(());
            }
        }
        for shelf in std::fs::read_dir(&way)? {
            let shelf = shelf?;
            if shelf.file_type()?.is_dir() {
                self.list_files(&blobs.join(shelf.file_name()))?;
            }
        }
        Ok(())
    }

    /// Asks of every lock whether it is held. While it is, its transcript is left alone.
    fn judge_locks(&mut self, machine: &Machine) {
        let is_lock = |file: &&StoreDirFile| file.kind == StoreFileKind::Lock;
        let names = self.files.iter().filter(is_lock).map(|file| file.name.as_str());
        let names: Vec<String> =
            names.filter_map(|name| name.strip_suffix(".lock")).map(str::to_owned).collect();
        if names.is_empty() {
            return;
        }
        for transcript in names {
            let Some(lock) = locks::find_lock(&self.directory.join(&transcript), machine) else {
                continue;
            };
            if !lock.verdict.is_free()
                && let Some(file) = self.files.iter_mut().find(|file| file.name == transcript)
            {
                file.held = true;
            }
            self.locks.insert(transcript, lock);
        }
    }
}

fn read_failed(place: &StorePlace) -> impl Fn(io::Error) -> StoreError {
    let path = place.path.clone();
    move |error| StoreError::Read { path: path.clone(), reason: plain_error(&error) }
}

/// The error's own words, without the number that the standard library appends.
fn plain_error(error: &io::Error) -> String {
    let text = error.to_string();
    text.find(" (os error").map_or(text.clone(), |end| text[..end].to_lowercase())
}
