//! Exchanging a file for another while others write to it (closes the TOCTOU window of a plain rename).
//!
//! The new content has a private name beside the file, the two names are exchanged, and what came out is
//! looked at. What another process wrote after the last look goes back to its place. Only content that is known
//! and that no other process has open for writing is removed; anything else keeps the private name.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::append;

/// How often a file that others go on writing is exchanged before they are left alone.
const MAX_EXCHANGES: usize = 64;

/// What came of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeOutcome {
    /// The new content is in its place, the expected old one is gone.
    Replaced,
    /// What another process wrote is in its place, the new content is gone.
    GivenBack,
    /// Others wrote more than once: the newest is in its place, an earlier one has the private name.
    Parted,
}

/// Keeps what another process wrote in the moment of an exchange.
pub type KeepWritten<'k> = &'k mut dyn FnMut(&[u8]) -> io::Result<()>;

/// What has the private name, opened so that no process can begin to write to it unseen.
struct TakenOut {
    /// Holds the lease until it is closed.
    file: File,
    bytes: Vec<u8>,
    inode: (u64, u64),
    /// Whether no other process had it open for writing before it was read.
    unwritten: bool,
}

impl TakenOut {
    fn open(private: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::open(private, flags, Mode::empty())?);
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
        }
        // Asked before reading: a write after this would need another open of the private name.
        let unwritten = append::hold_unwritten(&file);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Self { file, bytes, inode: (about.dev(), about.ino()), unwritten })
    }

    fn is_settled(&self, is_known: &dyn Fn(&[u8]) -> bool) -> bool {
        self.unwritten && is_known(&self.bytes) && append::hold_unwritten(&self.file)
    }

    fn identity(&self) -> (u64, u64, String) {
        (self.inode.0, self.inode.1, crate::hash::sha256(&self.bytes))
    }
}

/// Puts the file at `private` in the place of the one at `path`, if that is the expected one. `keep` is given
/// what another process wrote, before it goes back: a process that read the new content in between may write
/// over it. Without that copy nothing is exchanged any more: what they wrote keeps the private name.
pub fn exchange_expected(
    path: &Path,
    private: &Path,
    is_expected: &dyn Fn(&[u8]) -> bool,
    keep: KeepWritten<'_>,
) -> io::Result<ExchangeOutcome> {
    let ours = fs::read(private)?;
    exchange_names(path, private)?;
    crate::pause::pause_at("exchange.out");
    if remove_known(private, is_expected).unwrap_or(false) {
        return Ok(ExchangeOutcome::Replaced);
    }
    give_back(path, private, &|bytes| bytes == ours, keep)
}

/// Gives what has the private name its place again, where content of ours is now. If what comes out is not
/// ours, another process wrote once more; that is the newest, and goes back in its turn.
pub fn give_back(
    path: &Path,
    private: &Path,
    is_ours: &dyn Fn(&[u8]) -> bool,
    keep: KeepWritten<'_>,
) -> io::Result<ExchangeOutcome> {
    let mut put_last = None;
    for _ in 0..MAX_EXCHANGES {
        let going = TakenOut::open(private).ok();
        if let Some(going) = &going {
            // As an error of its own: none of the system's may pass for a file system that cannot exchange.
            keep(&going.bytes).map_err(|error| {
                io::Error::other(format!("what others wrote could not be kept: {error}"))
            })?;
        }
        let going = going.map(|going| going.identity());
        match exchange_names(path, private) {
            // They removed the file meanwhile: that is theirs to decide.
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            exchanged => exchanged?,
        }
        crate::pause::pause_at("exchange.back");
        if remove_known(private, is_ours)? {
            return Ok(ExchangeOutcome::GivenBack);
        }
        let out = TakenOut::open(private).ok().map(|out| out.identity());
        if out.is_some() && out == put_last {
            break;
        }
        put_last = going;
    }
    Ok(ExchangeOutcome::Parted)
}

/// Removes what has the private name, if its content is known and no other process has it open for writing; whether
/// it is gone.
pub fn remove_known(private: &Path, is_known: &dyn Fn(&[u8]) -> bool) -> io::Result<bool> {
    let found = match TakenOut::open(private) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    if !found.is_settled(is_known) {
        return Ok(false);
    }
    fs::remove_file(private)?;
    Ok(true)
}

/// The name under which the new content is written: what has the private name itself is always whole.
pub fn unfinished_name(private: &Path) -> PathBuf {
    let mut name = private.file_name().map(OsString::from).unwrap_or_default();
    name.push(".part");
    private.with_file_name(name)
}

/// Whether a file system cannot exchange or keep names. Then nothing was exchanged.
pub fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP];
    Errno::from_io_error(error).is_some_and(|errno| unsupported.contains(&errno))
}

fn exchange_names(one: &Path, other: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use std::io::Write;

    use super::*;

    struct Bench {
        _home: tempfile::TempDir,
        path: PathBuf,
        private: PathBuf,
    }

    impl Bench {
        fn new(there: &str) -> Self {
            let home = tempfile::tempdir().unwrap();
            let (path, private) = (home.path().join("file"), home.path().join(".private"));
            fs::write(&path, there).unwrap();
            fs::write(&private, "ours").unwrap();
            Self { _home: home, path, private }
        }

        /// As OpenClaw and most editors write: a new file in the place of the old one.
        fn save(&self, text: &str) {
            let beside = self.path.with_extension("new");
            fs::write(&beside, text).unwrap();
            fs::rename(&beside, &self.path).unwrap();
        }

        fn replace(&self, keep: KeepWritten<'_>) -> ExchangeOutcome {
            let expected = |bytes: &[u8]| bytes == b"old";
            exchange_expected(&self.path, &self.private, &expected, keep).unwrap()
        }

        fn texts(&self) -> (Option<String>, Option<String>) {
            (fs::read_to_string(&self.path).ok(), fs::read_to_string(&self.private).ok())
        }
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn what_is_expected_is_replaced_and_nothing_is_left() {
        let bench = Bench::new("old");
        assert_eq!(bench.replace(&mut |_| Ok(())), ExchangeOutcome::Replaced);
        assert_eq!(bench.texts(), (some("ours"), None));
    }

    #[test]
    fn l1_one_write_after_the_last_look_is_given_back() {
        let bench = Bench::new("theirs");
        let mut kept = Vec::new();
        let outcome = bench.replace(&mut |bytes| {
            kept.push(bytes.to_vec());
            Ok(())
        });
        assert_eq!(outcome, ExchangeOutcome::GivenBack);
        assert_eq!(bench.texts(), (some("theirs"), None));
        assert_eq!(kept, [b"theirs"]);
    }

    /// The disk is full: what they wrote would be the only copy of it, and a reader of the new content may write over
    /// it. It keeps the private name.
    #[test]
    fn d4_what_cannot_be_kept_is_not_exchanged() {
        let bench = Bench::new("theirs");
        let full = || Err(io::Error::from_raw_os_error(28));
        let expected = |bytes: &[u8]| bytes == b"old";
        let exchanged = exchange_expected(&bench.path, &bench.private, &expected, &mut |_| full());
        let error = exchanged.unwrap_err();
        assert!(!is_unsupported(&error) && error.to_string().contains("could not be kept"));
        assert_eq!(bench.texts(), (some("ours"), some("theirs")));
    }

    /// The second write lands while the first is on its way back: neither is removed, and it ends.
    #[test]
    fn l1_of_two_writes_the_newest_is_in_its_place_and_the_other_is_kept() {
        let bench = Bench::new("first");
        let mut count = 0;
        let outcome = bench.replace(&mut |_| {
            count += 1;
            if count == 1 {
                bench.save("second");
            }
            Ok(())
        });
        assert_eq!(outcome, ExchangeOutcome::Parted);
        assert_eq!(bench.texts(), (some("second"), some("first")));
    }

    /// They write over what was put back, which is their own to replace.
    #[test]
    fn l1_of_three_writes_the_newest_is_in_its_place() {
        let bench = Bench::new("first");
        let mut count = 0;
        let outcome = bench.replace(&mut |_| {
            count += 1;
            match count {
                1 => bench.save("second"),
                2 => bench.save("third"),
                _ => {}
            }
            Ok(())
        });
        assert_eq!(outcome, ExchangeOutcome::Parted);
        assert_eq!(bench.texts(), (some("third"), some("second")));
    }

    /// A writer who never stops is left alone after a while, and nothing of the last writes is removed.
    #[test]
    fn l1_somebody_who_goes_on_writing_is_left_alone() {
        let bench = Bench::new("0");
        let mut count = 0;
        let outcome = bench.replace(&mut |_| {
            count += 1;
            bench.save(&count.to_string());
            Ok(())
        });
        assert_eq!((outcome, count), (ExchangeOutcome::Parted, MAX_EXCHANGES));
        assert!(bench.texts().0.is_some() && bench.texts().1.is_some());
    }

    #[test]
    fn a_file_that_they_remove_meanwhile_stays_removed_and_their_write_is_kept() {
        let bench = Bench::new("theirs");
        let outcome = bench.replace(&mut |_| fs::remove_file(&bench.path));
        assert_eq!(outcome, ExchangeOutcome::Parted);
        assert_eq!(bench.texts(), (None, some("theirs")));
    }

    /// As many agents write: the file is opened, and written to in place later.
    #[cfg(target_os = "linux")]
    #[test]
    fn l1_a_file_that_somebody_has_open_for_writing_is_not_replaced() {
        let bench = Bench::new("old");
        let mut held = File::options().write(true).open(&bench.path).unwrap();
        assert_eq!(bench.replace(&mut |_| Ok(())), ExchangeOutcome::GivenBack);
        held.write_all(b"new").unwrap();
        assert_eq!(bench.texts(), (some("new"), None));
        drop(held);
        // A reader is no reason.
        let bench = Bench::new("old");
        let _reader = File::open(&bench.path).unwrap();
        assert_eq!(bench.replace(&mut |_| Ok(())), ExchangeOutcome::Replaced);
    }

    /// Another process opens the new content and has not written yet: what comes after is theirs.
    #[cfg(target_os = "linux")]
    #[test]
    fn l1_new_content_that_somebody_has_opened_stays_in_its_place() {
        let bench = Bench::new("theirs");
        let mut held = None;
        let outcome = bench.replace(&mut |_| {
            held.get_or_insert_with(|| File::options().append(true).open(&bench.path).unwrap());
            Ok(())
        });
        assert_eq!(outcome, ExchangeOutcome::Parted);
        held.unwrap().write_all(b", and more").unwrap();
        assert_eq!(bench.texts(), (some("ours, and more"), some("theirs")));
    }

    /// They put something else in its place that cannot be read as a file: it stays, too.
    #[test]
    fn a_directory_that_came_out_is_left_alone() {
        let bench = Bench::new("theirs");
        let exchanged =
            exchange_expected(&bench.path, &bench.private, &|bytes| bytes == b"old", &mut |_| {
                fs::remove_file(&bench.path).unwrap();
                fs::create_dir(&bench.path)
            });
        assert!(!is_unsupported(&exchanged.unwrap_err()));
        assert_eq!(fs::read(&bench.path).unwrap(), b"theirs");
        assert!(bench.private.is_dir());
    }

    #[test]
    fn only_what_is_known_is_removed() {
        let bench = Bench::new("old");
        assert!(!remove_known(&bench.private, &|bytes| bytes == b"other").unwrap());
        assert!(bench.private.exists());
        assert!(remove_known(&bench.private, &|bytes| bytes == b"ours").unwrap());
        assert!(remove_known(&bench.private, &|_| false).unwrap(), "it is gone already");
        fs::create_dir(&bench.private).unwrap();
        remove_known(&bench.private, &|_| true).unwrap_err();
    }
}
