//! The index: what transcripts said when they were last read.
//!
//! A cache and nothing more. A row is used only if device, inode, size and time of every file it
//! was read from, the adapter's version and a checksum all agree; otherwise the transcript is read
//! again. A missing, locked or damaged index makes the answer slower, never wrong: every error
//! here ends in "no index".

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use model::sighting::{Digest, Stamp};
use rusqlite::{Connection, OpenFlags, params};

/// Raised when the table or the encoding of [`Digest`] changes.
const FORMAT: i32 = 1;

/// Rows of files that are gone are swept when they outnumber the others this many times.
const SWEEP_FACTOR: usize = 2;

/// What a row was read from.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The adapter's version.
    pub version: u32,
    /// The transcript.
    pub stamp: Stamp,
    /// Everything else the digest depends on.
    pub beside: &'a [Stamp],
}

impl Key<'_> {
    /// The key as it is stored: the version, then four words for each file.
    fn write_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.version.to_le_bytes());
        for stamp in std::iter::once(&self.stamp).chain(self.beside) {
            for word in [stamp.dev, stamp.ino, stamp.bytes, stamp.mtime_ns as u64] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
    }
}

/// The index of one cache directory.
#[derive(Debug)]
pub struct Index {
    connection: Connection,
}

/// What the index holds for one adapter. The bytes of all rows stand one after the other: ten
/// thousand small allocations would cost more than reading them.
#[derive(Debug, Default)]
pub struct Shelf {
    bytes: Vec<u8>,
    rows: HashMap<(u64, u64), Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    start: usize,
    key_end: usize,
    end: usize,
    checksum: i64,
}

impl Shelf {
    /// The digest that was read from exactly these files, if the index has it.
    pub fn get(&self, key: &Key<'_>) -> Option<Box<Digest>> {
        thread_local! {
            static WANTED: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
        }
        let row = self.rows.get(&(key.stamp.dev, key.stamp.ino))?;
        let (stored, digest) =
            (&self.bytes[row.start..row.key_end], &self.bytes[row.key_end..row.end]);
        let same = WANTED.with_borrow_mut(|wanted| {
            wanted.clear();
            key.write_to(wanted);
            stored == wanted.as_slice()
        });
        if !same || row.checksum != checksum(stored, digest) {
            return None;
        }
        postcard::from_bytes(digest).ok()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Index {
    /// Opens the index in `directory`, which is made if need be. `None` means "no index".
    pub fn open(directory: &Path) -> Option<Self> {
        sys::private::create_private_dir(directory).ok()?;
        // SQLite refuses links anywhere in the path; a home may well be one.
        let path = std::fs::canonicalize(directory).ok()?.join("index.db");
        match Self::open_file(&path) {
            Ok(index) => Some(index),
            // Not a database, or damaged: it is only a cache, so it is started anew.
            Err(rusqlite::Error::SqliteFailure(error, _))
                if matches!(
                    error.code,
                    rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt
                ) =>
            {
                discard(&path);
                Self::open_file(&path).ok()
            }
            Err(_) => None,
        }
    }

    fn open_file(path: &Path) -> rusqlite::Result<Self> {
        // SQLite would create it readable for everyone. If this fails, so will what follows.
        let _ = std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NOFOLLOW
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(std::time::Duration::ZERO)?;
        // A lost commit costs one more reading; a torn one is caught by the checksums.
        connection.pragma_update(None, "synchronous", "off")?;
        let format: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if format != FORMAT {
            // Rows are always read all together: large pages save most of the calls.
            connection.pragma_update(None, "page_size", 32_768)?;
            connection.execute_batch(&format!(
                "begin immediate;
                 drop table if exists digest;
                 create table digest (
                     adapter text not null, dev integer not null, ino integer not null,
                     key blob not null, digest blob not null, checksum integer not null,
                     primary key (adapter, dev, ino)
                 ) without rowid;
                 pragma user_version = {FORMAT};
                 commit;"
            ))?;
        }
        Ok(Self { connection })
    }

    /// Everything known for one adapter. An unreadable index is an empty shelf.
    pub fn shelf(&self, adapter: &str) -> Shelf {
        self.read_shelf(adapter).unwrap_or_default()
    }

    fn read_shelf(&self, adapter: &str) -> rusqlite::Result<Shelf> {
        let mut statement = self
            .connection
            .prepare("select dev, ino, key, digest, checksum from digest where adapter = ?1")?;
        let mut rows = statement.query([adapter])?;
        let mut shelf = Shelf::default();
        while let Some(row) = rows.next()? {
            let place = (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64);
            let start = shelf.bytes.len();
            shelf.bytes.extend_from_slice(row.get_ref(2)?.as_blob()?);
            let key_end = shelf.bytes.len();
            shelf.bytes.extend_from_slice(row.get_ref(3)?.as_blob()?);
            let end = shelf.bytes.len();
            shelf.rows.insert(place, Row { start, key_end, end, checksum: row.get(4)? });
        }
        Ok(shelf)
    }

    /// Remembers digests that were just read. `seen` is how many files the adapter has now: when
    /// far more rows are known, those of files that are gone are dropped by starting anew.
    /// Returns whether it was written; a locked or full index is simply not.
    pub fn remember(&mut self, adapter: &str, new: &[(Key<'_>, &Digest)], seen: usize) -> bool {
        self.write(adapter, new, seen).is_ok()
    }

    fn write(
        &mut self,
        adapter: &str,
        new: &[(Key<'_>, &Digest)],
        seen: usize,
    ) -> rusqlite::Result<()> {
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        {
            let known: usize = transaction.query_row(
                "select count(*) from digest where adapter = ?1",
                [adapter],
                |row| row.get::<_, i64>(0),
            )? as usize;
            if known + new.len() > SWEEP_FACTOR * (seen + 1000) {
                transaction.execute("delete from digest where adapter = ?1", [adapter])?;
            }
            let mut insert = transaction
                .prepare("insert or replace into digest values (?1, ?2, ?3, ?4, ?5, ?6)")?;
            for (key, digest) in new {
                let Ok(digest) = postcard::to_stdvec(digest) else {
                    continue;
                };
                let mut encoded = Vec::new();
                key.write_to(&mut encoded);
                let sum = checksum(&encoded, &digest);
                let place = (key.stamp.dev as i64, key.stamp.ino as i64);
                insert.execute(params![adapter, place.0, place.1, encoded, digest, sum])?;
            }
        }
        transaction.commit()
    }
}

fn checksum(key: &[u8], digest: &[u8]) -> i64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.write(digest);
    hasher.finish() as i64
}

/// Removes a damaged index. It is our own cache file; nothing but time is lost.
#[expect(clippy::disallowed_methods, reason = "a damaged cache of our own")]
fn discard(path: &Path) {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::remove_file(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(ino: u64, bytes: u64) -> Stamp {
        Stamp { dev: 1, ino, bytes, mtime_ns: 5 }
    }

    fn key(stamp: Stamp) -> Key<'static> {
        Key { version: 1, stamp, beside: &[] }
    }

    fn digest(title: &str) -> Digest {
        Digest { title: Some(title.into()), turns: 3, ..Digest::default() }
    }

    #[test]
    fn a_row_is_used_only_for_exactly_the_same_files() {
        let directory = tempfile::tempdir().unwrap();
        let mut index = Index::open(&directory.path().join("cache")).unwrap();
        assert!(index.remember("a", &[(key(stamp(7, 100)), &digest("x"))], 1));
        let shelf = Index::open(&directory.path().join("cache")).unwrap().shelf("a");
        assert_eq!(shelf.get(&key(stamp(7, 100))), Some(Box::new(digest("x"))));
        assert_eq!(shelf.get(&key(stamp(7, 101))), None, "grown");
        assert_eq!(shelf.get(&key(stamp(8, 100))), None, "another file");
        assert_eq!(shelf.get(&Key { version: 2, ..key(stamp(7, 100)) }), None, "newer adapter");
        let beside = [stamp(9, 1)];
        assert_eq!(shelf.get(&Key { beside: &beside, ..key(stamp(7, 100)) }), None, "side file");
        assert_eq!(index.shelf("b").len(), 0, "another adapter");
    }

    #[test]
    fn a_damaged_row_is_never_believed() {
        let directory = tempfile::tempdir().unwrap();
        let mut index = Index::open(&directory.path().join("cache")).unwrap();
        index.remember("a", &[(key(stamp(7, 100)), &digest("truth"))], 1);
        let blob = postcard::to_stdvec(&digest("a lie")).unwrap();
        index.connection.execute("update digest set digest = ?1", [blob]).unwrap();
        assert_eq!(index.shelf("a").get(&key(stamp(7, 100))), None);
    }

    #[test]
    fn garbage_in_place_of_the_index_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        sys::private::create_private_dir(&directory.path().join("cache")).unwrap();
        std::fs::write(directory.path().join("cache/index.db"), vec![0xa5; 9000]).unwrap();
        let mut index = Index::open(&directory.path().join("cache")).unwrap();
        assert!(index.shelf("a").is_empty());
        assert!(index.remember("a", &[(key(stamp(7, 100)), &digest("x"))], 1));
    }

    #[test]
    fn a_locked_index_is_no_index_and_no_wait() {
        let directory = tempfile::tempdir().unwrap();
        let mut index = Index::open(&directory.path().join("cache")).unwrap();
        index.remember("a", &[(key(stamp(7, 100)), &digest("x"))], 1);
        let other = Connection::open(directory.path().join("cache/index.db")).unwrap();
        other.execute_batch("begin exclusive").unwrap();
        assert!(!index.remember("a", &[(key(stamp(8, 100)), &digest("y"))], 1));
        assert!(
            Index::open(&directory.path().join("cache"))
                .is_none_or(|index| index.shelf("a").is_empty())
        );
    }

    #[test]
    fn rows_of_files_that_are_gone_do_not_pile_up() {
        let directory = tempfile::tempdir().unwrap();
        let mut index = Index::open(&directory.path().join("cache")).unwrap();
        let digest = digest("x");
        for round in 0..4u64 {
            let new: Vec<_> =
                (0..1000).map(|ino| (key(stamp(round * 1000 + ino, 1)), &digest)).collect();
            index.remember("a", &new, 10);
        }
        assert!(index.shelf("a").len() <= 2 * 1010, "{}", index.shelf("a").len());
    }
}
