//! The watch of a transcript's directory, made before the transcript is read: what is written while it is read ends
//! the wait that follows, however long the reading took.

use std::path::{Path, PathBuf};
use std::time::Duration;

use adapters::TranscriptSource;
use sys::dropped::NoteDropped;
use sys::watch::DirectoryWatch;

use crate::timeouts::LOOK_AGAIN_INTERVAL;

/// Watches where a transcript is, wherever that is by now.
#[derive(Debug, Default)]
pub(super) struct TranscriptWatch {
    watched: Option<(PathBuf, DirectoryWatch)>,
}

impl TranscriptWatch {
    /// Watches the directory of a transcript. Returns whether it was not watched before: what was read of it by then
    /// has to be read again.
    pub(super) fn follow(&mut self, source: Option<&TranscriptSource>) -> bool {
        self.follow_file(source.map(|source| source.path.as_path()))
    }

    /// The same, of a file.
    pub(super) fn follow_file(&mut self, file: Option<&Path>) -> bool {
        let directory = file.map(|file| file.parent().unwrap_or(Path::new("/")));
        if directory == self.watched.as_ref().map(|(directory, _)| directory.as_path()) {
            return false;
        }
        self.watched = directory.and_then(|directory| {
            let watch = DirectoryWatch::watch_directory(directory);
            Some((directory.to_owned(), watch.ok_or_note("the watch of a transcript")?))
        });
        self.watched.is_some()
    }

    /// Returns when something changed there since the wait before, or when the time is up.
    pub(super) fn wait(&self, timeout: Duration) {
        let waited = self.watched.as_ref().map(|(_, watch)| watch.wait_for(Some(timeout)));
        if !matches!(waited, Some(Ok(_))) {
            std::thread::sleep(timeout.min(LOOK_AGAIN_INTERVAL));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_was_written_since_the_watch_was_made_ends_the_wait() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("t.jsonl");
        let mut watch = TranscriptWatch::default();
        assert!(watch.follow_file(Some(&file)), "what was read before may be old");
        assert!(!watch.follow_file(Some(&file)));
        std::fs::write(&file, "x").unwrap();
        let begun = Instant::now();
        watch.wait(Duration::from_secs(60));
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert!(!watch.follow_file(None) && watch.follow_file(Some(&file)));
    }
}
