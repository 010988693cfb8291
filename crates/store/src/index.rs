//! The index, a read-through cache: what transcripts said when they were last read.
//!
//! A cache and nothing more. A row is used only if device, inode, size and time of every file it
//! was read from, the adapter's version and a checksum all agree; otherwise the transcript is read
//! again. A missing, locked or damaged index makes the answer slower, never wrong: every error
//! here ends in "no index".

use std::collections::HashMap;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use sys::dropped::NoteDropped;

use model::sighting::{FileStamp, TranscriptDigest};
use rusqlite::{Connection, OpenFlags, params};

/// Raised when the table or the encoding of [`TranscriptDigest`] changes. It is in every row's checksum, too: the index
/// may be started anew by another release while it is open here.
const INDEX_FORMAT: i32 = 3;

/// The size of a page of the index.
const PAGE_BYTES: i64 = 32 << 10;

/// No more room than this is made in advance, even if the file claims more.
const MAX_RESERVED_BYTES: usize = 64 << 20;

/// Rows of files that are gone are swept when they outnumber the others this many times.
const SWEEP_FACTOR: usize = 2;

/// What a row was read from.
#[derive(Clone, Copy, Debug)]
pub struct IndexKey<'a> {
    /// The adapter's version.
    pub version: u32,
    pub stamp: FileStamp,
    /// Everything else the digest depends on.
    pub beside: &'a [FileStamp],
}

impl IndexKey<'_> {
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
pub struct DigestIndex {
    connection: Connection,
}

/// What the index holds for one adapter. The bytes of all rows stand one after the other: ten
/// thousand small allocations would cost more than reading them.
#[derive(Debug, Default)]
pub struct AdapterDigests {
    bytes: Vec<u8>,
    rows: HashMap<(u64, u64), Row, foldhash::fast::RandomState>,
}

/// Where a row stands among the bytes: a checksum, the length of the key, the key, the digest.
#[derive(Clone, Copy, Debug)]
struct Row {
    start: usize,
    end: usize,
}

/// The checksum and the length of the key.
const ROW_HEAD_BYTES: usize = 8 + 4;

/// Version and stamp of the transcript: the shortest key.
const MIN_KEY_BYTES: usize = 4 + 32;

impl AdapterDigests {
    /// The digest that was read from exactly these files, if the index has it.
    pub fn get(&self, key: &IndexKey<'_>) -> Option<Box<TranscriptDigest>> {
        thread_local! {
            static WANTED: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
        }
        let row = self.rows.get(&(key.stamp.dev, key.stamp.ino))?;
        let (sum, rest) = self.bytes[row.start..row.end].split_first_chunk::<8>()?;
        let (length, body) = rest.split_first_chunk::<4>()?;
        let (stored, digest) = body.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let same = WANTED.with_borrow_mut(|wanted| {
            wanted.clear();
            key.write_to(wanted);
            stored == wanted.as_slice()
        });
        if !same || u64::from_le_bytes(*sum) != row_checksum(rest) {
            return None;
        }
        postcard::from_bytes(digest).ok()
    }

    /// Takes a row in, unless it is too short to be one.
    fn add_row(&mut self, row: &[u8]) {
        let word = |at: usize| Some(u64::from_le_bytes(*row.get(at..)?.first_chunk::<8>()?));
        let place = (word(ROW_HEAD_BYTES + 4), word(ROW_HEAD_BYTES + 12));
        if let (Some(dev), Some(ino)) = place
            && row.len() >= ROW_HEAD_BYTES + MIN_KEY_BYTES
        {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(row);
            self.rows.insert((dev, ino), Row { start, end: self.bytes.len() });
        }
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

impl DigestIndex {
    /// Opens the index in `directory`, which is made if need be. `None` means "no index".
    pub fn open(directory: &Path) -> Option<Self> {
        sys::private::create_private_dir(directory).ok_or_note("the directory of the index")?;
        // SQLite refuses links anywhere in the path; a home may well be one.
        let path = std::fs::canonicalize(directory)
            .ok_or_note("the directory of the index")?
            .join("index.db");
        match Self::open_file(&path) {
            Ok(index) => Some(index),
            // Not a database, or damaged: it is only a cache, so it is started anew.
            Err(rusqlite::Error::SqliteFailure(error, _))
                if matches!(
                    error.code,
                    rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt
                ) =>
            {
                discard_index(&path);
                Self::open_file(&path).ok_or_note("an index begun anew")
            }
            Err(error) => Err(error).ok_or_note("opening the index"),
        }
    }

    fn open_file(path: &Path) -> rusqlite::Result<Self> {
        // SQLite would create it readable for everyone. If this fails, so will what follows.
        std::fs::OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(path)
            .note_dropped("making the index private");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NOFOLLOW
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(std::time::Duration::ZERO)?;
        // A lost commit costs one more reading; a torn one is caught by the checksums.
        connection.pragma_update(None, "synchronous", "off")?;
        let format: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if format != INDEX_FORMAT {
            // Rows are always read all together: large pages save most of the calls.
            connection.pragma_update(None, "page_size", PAGE_BYTES)?;
            connection.execute_batch(&format!(
                "begin immediate;
                 drop table if exists digest;
                 create table digest (
                     adapter text not null, dev integer not null, ino integer not null,
                     row blob not null,
                     primary key (adapter, dev, ino)
                 ) without rowid;
                 pragma user_version = {INDEX_FORMAT};
                 commit;"
            ))?;
        }
        Ok(Self { connection })
    }

    /// Everything known for one adapter. An unreadable index is an empty shelf.
    pub fn load_digests(&self, adapter: &str) -> AdapterDigests {
        self.read_shelf(adapter).unwrap_or_default()
    }

    fn read_shelf(&self, adapter: &str) -> rusqlite::Result<AdapterDigests> {
        let mut statement = self.connection.prepare("select row from digest where adapter = ?1")?;
        let mut rows = statement.query([adapter])?;
        let mut shelf = AdapterDigests::default();
        while let Some(row) = rows.next()? {
            if shelf.is_empty() {
                // Room for all of it at once: growing would copy it several times over.
                let pages: i64 =
                    self.connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
                let bytes = usize::try_from(pages.saturating_mul(PAGE_BYTES))
                    .unwrap_or(0)
                    .min(MAX_RESERVED_BYTES);
                shelf.bytes.reserve(bytes);
                shelf.rows.reserve(bytes / 400);
            }
            shelf.add_row(row.get_ref(0)?.as_blob()?);
        }
        Ok(shelf)
    }

    /// Remembers digests that were just read. `seen` is how many files the adapter has now: when
    /// far more rows are known, those of files that are gone are dropped by starting anew.
    /// Returns whether it was written; a locked or full index is simply not.
    pub fn save_digests(
        &mut self,
        adapter: &str,
        new: &[(IndexKey<'_>, &TranscriptDigest)],
        seen: usize,
    ) -> bool {
        self.write_rows(adapter, new, seen).is_ok()
    }

    fn write_rows(
        &mut self,
        adapter: &str,
        new: &[(IndexKey<'_>, &TranscriptDigest)],
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
            let mut insert =
                transaction.prepare("insert or replace into digest values (?1, ?2, ?3, ?4)")?;
            for (key, digest) in new {
                let Ok(digest) = postcard::to_stdvec(digest) else {
                    continue;
                };
                let mut row = vec![0; ROW_HEAD_BYTES];
                key.write_to(&mut row);
                let length = u32::try_from(row.len() - ROW_HEAD_BYTES).unwrap_or(0);
                row.extend_from_slice(&digest);
                row[8..ROW_HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
                let sum = row_checksum(&row[8..]);
                row[..8].copy_from_slice(&sum.to_le_bytes());
                let place = (key.stamp.dev as i64, key.stamp.ino as i64);
                insert.execute(params![adapter, place.0, place.1, row])?;
            }
        }
        transaction.commit()
    }
}

/// Against damage, not against malice: a process that can write here can write the transcripts too.
fn row_checksum(bytes: &[u8]) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(MIX);
    let (words, rest) = bytes.as_chunks::<8>();
    let seed = mix(INDEX_FORMAT as u64, bytes.len() as u64);
    let sum = words.iter().fold(seed, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)))
}

/// Removes a damaged index. It is our own cache file; nothing but time is lost.
#[expect(clippy::disallowed_methods, reason = "a damaged cache of our own")]
fn discard_index(path: &Path) {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        std::fs::remove_file(name).note_dropped("removing a damaged index");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(ino: u64, bytes: u64) -> FileStamp {
        FileStamp { dev: 1, ino, bytes, mtime_ns: 5 }
    }

    fn key(stamp: FileStamp) -> IndexKey<'static> {
        IndexKey { version: 1, stamp, beside: &[] }
    }

    fn digest(title: &str) -> TranscriptDigest {
        TranscriptDigest { title: Some(title.into()), turns: 3, ..TranscriptDigest::default() }
    }

    #[test]
    fn a_row_is_used_only_for_exactly_the_same_files() {
        let directory = tempfile::tempdir().unwrap();
        let mut index = DigestIndex::open(&directory.path().join("cache")).unwrap();
        assert!(index.save_digests("a", &[(key(stamp(7, 100)), &digest("x"))], 1));
        let shelf = DigestIndex::open(&directory.path().join("cache")).unwrap().load_digests("a");
        assert_eq!(shelf.get(&key(stamp(7, 100))), Some(Box::new(digest("x"))));
        assert_eq!(shelf.get(&key(stamp(7, 101))), None, "grown");
        assert_eq!(shelf.get(&key(stamp(8, 100))), None, "another file");
        assert_eq!(
            shelf.get(&IndexKey { version: 2, ..key(stamp(7, 100)) }),
            None,
            "newer adapter"
        );
        let beside = [stamp(9, 1)];
        assert_eq!(
            shelf.get(&IndexKey { beside: &beside, ..key(stamp(7, 100)) }),
            None,
            "side file"
        );
        assert_eq!(index.load_digests("b").len(), 0, "another adapter");
    }

    #[test]
    fn row_17_the_encoding_of_a_digest_belongs_to_the_format() {
        use model::sighting::{TokenUsage, TranscriptDamage, TurnState};
        use model::time::Time;

        let text = |text: &str| Some(text.to_owned());
        let time = |millis| Some(Time::from_millis(millis));
        let asked = || text("asked");
        let turns = [
            TurnState::Unknown,
            TurnState::Open,
            TurnState::Waiting(asked()),
            TurnState::Asking(asked()),
            TurnState::Closed,
        ];
        let mut bytes = Vec::new();
        for turn in turns {
            let digest = TranscriptDigest {
                cwd: text("cwd"),
                title: text("title"),
                first_prompt: text("first prompt"),
                name: text("name"),
                model: text("model"),
                other_models: vec!["other".to_owned()],
                branch: text("branch"),
                version: text("version"),
                started_at: time(1),
                last_activity_at: time(2),
                ended_at: time(3),
                tokens: Some(TokenUsage { input: 4, output: 5, cache_read: 6, cache_write: 7 }),
                cost_micro_usd: Some(8),
                cost_covers_subagents: true,
                turns: 9,
                turn,
                parent: text("parent"),
                damage: TranscriptDamage { broken: 10, oversized: 11 },
            };
            bytes.extend(postcard::to_stdvec(&digest).unwrap());
        }
        let digest = sys::hash::sha256(&bytes);
        let of_format_3 = "20de83d988921eb3f983f748963cd25f9e59f8ec4332c6f9c59ba77292f3e4be";
        assert_eq!((INDEX_FORMAT, digest.as_str()), (3, of_format_3), "raise INDEX_FORMAT with it");
    }

    #[test]
    fn row_17_a_row_of_another_release_is_never_believed() {
        let directory = tempfile::tempdir().unwrap();
        let mut index = DigestIndex::open(&directory.path().join("cache")).unwrap();
        index.save_digests("a", &[(key(stamp(7, 100)), &digest("truth"))], 1);
        let mut row: Vec<u8> =
            index.connection.query_row("select row from digest", [], |row| row.get(0)).unwrap();
        // The sum of a release whose format was not yet part of it.
        let (words, rest) = row[8..].as_chunks::<8>();
        let mix =
            |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let sum = words
            .iter()
            .fold((row.len() - 8) as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
        let sum = rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)));
        row[..8].copy_from_slice(&sum.to_le_bytes());
        index.connection.execute("update digest set row = ?1", [row]).unwrap();
        assert_eq!(index.load_digests("a").get(&key(stamp(7, 100))), None);
    }

    #[test]
    fn a_damaged_row_is_never_believed() {
        let directory = tempfile::tempdir().unwrap();
        let mut index = DigestIndex::open(&directory.path().join("cache")).unwrap();
        index.save_digests("a", &[(key(stamp(7, 100)), &digest("truth"))], 1);
        let row: Vec<u8> =
            index.connection.query_row("select row from digest", [], |row| row.get(0)).unwrap();
        let truth = Some(Box::new(digest("truth")));
        assert_eq!(index.load_digests("a").get(&key(stamp(7, 100))), truth);
        for bit in 0..row.len() * 8 {
            let mut bad = row.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            index.connection.execute("update digest set row = ?1", [bad]).unwrap();
            assert_eq!(index.load_digests("a").get(&key(stamp(7, 100))), None, "bit {bit}");
        }
        for length in 0..row.len() {
            index.connection.execute("update digest set row = ?1", [&row[..length]]).unwrap();
            assert_eq!(index.load_digests("a").get(&key(stamp(7, 100))), None, "cut to {length}");
        }
    }

    #[test]
    fn garbage_in_place_of_the_index_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        sys::private::create_private_dir(&directory.path().join("cache")).unwrap();
        std::fs::write(directory.path().join("cache/index.db"), vec![0xa5; 9000]).unwrap();
        let mut index = DigestIndex::open(&directory.path().join("cache")).unwrap();
        assert!(index.load_digests("a").is_empty());
        assert!(index.save_digests("a", &[(key(stamp(7, 100)), &digest("x"))], 1));
    }

    #[test]
    fn a_locked_index_is_no_index_and_no_wait() {
        let directory = tempfile::tempdir().unwrap();
        let mut index = DigestIndex::open(&directory.path().join("cache")).unwrap();
        index.save_digests("a", &[(key(stamp(7, 100)), &digest("x"))], 1);
        let other = Connection::open(directory.path().join("cache/index.db")).unwrap();
        other.execute_batch("begin exclusive").unwrap();
        assert!(!index.save_digests("a", &[(key(stamp(8, 100)), &digest("y"))], 1));
        assert!(
            DigestIndex::open(&directory.path().join("cache"))
                .is_none_or(|index| index.load_digests("a").is_empty())
        );
    }

    #[test]
    fn rows_of_files_that_are_gone_do_not_pile_up() {
        let directory = tempfile::tempdir().unwrap();
        let mut index = DigestIndex::open(&directory.path().join("cache")).unwrap();
        let digest = digest("x");
        for round in 0..4u64 {
            let new: Vec<_> =
                (0..1000).map(|ino| (key(stamp(round * 1000 + ino, 1)), &digest)).collect();
            index.save_digests("a", &new, 10);
        }
        assert!(index.load_digests("a").len() <= 2 * 1010, "{}", index.load_digests("a").len());
    }
}
