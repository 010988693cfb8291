//! What lies in a step's slot of the trash, and what is said about it.

use std::io;
use std::path::{Path, PathBuf};
use sys::dropped::NoteDropped;

use super::journal::{JournalPath, Undecided};

/// What a person must decide, and where everything is.
pub(super) fn undecided<'p>(
    reason: String,
    places: impl IntoIterator<Item = &'p Path>,
) -> Undecided {
    let places = places.into_iter().map(|place| JournalPath(place.to_owned())).collect();
    Undecided { reason, places }
}

/// The name of a copy that is not whole yet.
pub(super) fn partial(content: &Path) -> PathBuf {
    content.with_file_name(".partial")
}

/// Drops a copy that the reaper itself was making, of something that is still where it was.
pub(super) fn drop_own(copy: &Path) {
    // One that cannot be removed is listed, and goes when the trash is emptied.
    sys::trash::remove_tree(copy).note_dropped("removing a copy of its own");
}

/// Keeps what others wrote in the moment in which a file was exchanged, beside its old content: a process that read
/// the file in that moment may yet write over what they get back.
pub(super) fn keep_written(content: &Path) -> impl FnMut(&[u8]) -> io::Result<()> {
    let content = content.to_owned();
    let mut count = 0;
    move |bytes| {
        count += 1;
        let place = content.with_file_name(format!("written-meanwhile-{count}"));
        sys::atomic::write_synced(&place, bytes)
    }
}

/// The hash of a file; none if there is none.
pub(super) fn hash_of(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(super::hash(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
