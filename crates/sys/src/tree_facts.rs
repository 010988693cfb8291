//! What a whole directory tree says of itself, from one bounded walk: how large it is, when it was last
//! written to, and who could write in it.
//!
//! A tree of which a part cannot be looked at, or that takes too long, gives no facts at all: half of an answer would
//! be taken for all of it. Links are looked at and not followed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use model::time::Time;

/// How long a walk may take.
const TREE_WALK_TIMEOUT: Duration = Duration::from_secs(20);

/// What was seen of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFacts {
    /// The bytes of all files.
    pub bytes: u64,
    /// When anything in it was last written, files that git ignores and the directories themselves included.
    pub written_at: Time,
    /// Whose anything in it is.
    owners: BTreeSet<u32>,
    /// Whether a mode of anything in it lets others than its owner write.
    is_shared: bool,
}

impl TreeFacts {
    /// Looks at everything in a tree.
    pub fn walk(root: &Path) -> io::Result<Self> {
        Self::walk_until(root, Instant::now() + TREE_WALK_TIMEOUT)
    }

    fn walk_until(root: &Path, deadline: Instant) -> io::Result<Self> {
        let about = fs::symlink_metadata(root)?;
        let mut facts = Self {
            bytes: 0,
            written_at: written_at(&about),
            owners: BTreeSet::new(),
            is_shared: false,
        };
        let mut waiting = Vec::new();
        facts.add(&about);
        if about.is_dir() {
            waiting.push(root.to_owned());
        }
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(&directory)? {
                if Instant::now() >= deadline {
                    let reason = "it is too large to be looked at in time";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
                }
                let entry = entry?;
                match entry.metadata() {
                    Ok(about) => {
                        facts.add(&about);
                        if about.is_dir() {
                            waiting.push(entry.path());
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(facts)
    }

    fn add(&mut self, about: &fs::Metadata) {
        self.written_at = self.written_at.max(written_at(about));
        self.owners.insert(about.uid());
        // The mode of a link says nothing.
        self.is_shared |= !about.is_symlink() && about.mode() & 0o022 != 0;
        if about.is_file() {
            self.bytes += about.len();
        }
    }

    /// Whether a user may write anywhere in it. Which groups it is in is not known.
    pub fn may_be_written_by(&self, uid: u32) -> bool {
        uid == 0 || self.is_shared || self.owners.contains(&uid)
    }
}

fn written_at(about: &fs::Metadata) -> Time {
    Time::from_secs_nanos(about.mtime(), about.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::time::SystemTime;

    use super::*;

    /// A tree that was last written a day ago.
    fn tree() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("deep/er")).unwrap();
        fs::write(home.path().join("deep/er/file"), "four").unwrap();
        std::os::unix::fs::symlink("/nowhere", home.path().join("link")).unwrap();
        for directory in ["", "deep", "deep/er"] {
            let mode = Permissions::from_mode(0o755);
            fs::set_permissions(home.path().join(directory), mode).unwrap();
        }
        home
    }

    #[test]
    fn the_newest_of_everything_counts() {
        let home = tree();
        let before = TreeFacts::walk(home.path()).unwrap();
        assert_eq!(before.bytes, 4);
        let later = SystemTime::now() + Duration::from_secs(3600);
        File::open(home.path().join("deep/er/file")).unwrap().set_modified(later).unwrap();
        let after = TreeFacts::walk(home.path()).unwrap();
        assert!(after.written_at > before.written_at, "{after:?}");
    }

    #[test]
    fn whose_anything_below_is_may_write_there() {
        let home = tree();
        let us = crate::private::our_uid();
        let facts = TreeFacts::walk(home.path()).unwrap();
        assert!(facts.may_be_written_by(us) && facts.may_be_written_by(0));
        assert!(!facts.may_be_written_by(us + 1), "{facts:?}");
        let open = Permissions::from_mode(0o666);
        fs::set_permissions(home.path().join("deep/er/file"), open).unwrap();
        assert!(TreeFacts::walk(home.path()).unwrap().may_be_written_by(us + 1));
    }

    #[test]
    fn a_walk_that_is_cut_off_says_nothing() {
        let home = tree();
        let cut = TreeFacts::walk_until(home.path(), Instant::now()).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);
    }
}
