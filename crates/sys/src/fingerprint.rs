//! File fingerprints (device, inode, size, times): enough to tell later whether what is at a path is still the
//! same.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use model::plan::{FileForm, Fingerprint};
use rustix::fs::{FileType, Stat};

/// What is at a path, held against what was somewhere before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundAt {
    /// The very same thing.
    Same,
    /// A thing of the same number, of which it is not known when it came into being; or nobody can look.
    PerhapsSame,
    Another,
    Nothing,
}

/// What is at a path now. A link is looked at, not followed.
pub fn of_path(path: &Path) -> io::Result<Fingerprint> {
    let about = std::fs::symlink_metadata(path)?;
    Ok(Fingerprint { born: birth_time(path, &about), ..of_metadata(&about) })
}

/// What is at a path, compared by number and time of birth: a file system gives the number of what is gone to what
/// is new, often at once.
pub fn find_at(print: &Fingerprint, path: &Path) -> FoundAt {
    let now = match of_path(path) {
        Ok(now) => now,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return FoundAt::Nothing,
        Err(_) => return FoundAt::PerhapsSame,
    };
    if (now.dev, now.ino, now.form) != (print.dev, print.ino, print.form) {
        return FoundAt::Another;
    }
    match (print.born, now.born) {
        (Some(then), Some(now)) if then == now => FoundAt::Same,
        (Some(_), Some(_)) => FoundAt::Another,
        _ => FoundAt::PerhapsSame,
    }
}

/// Whether a thing of the same number is at a path, for names that only we use and things that are held open: there
/// nobody else makes anything. What was taken out of a directory does not make it another one.
pub fn is_at(print: &Fingerprint, path: &Path) -> bool {
    of_path(path)
        .is_ok_and(|now| (now.dev, now.ino, now.form) == (print.dev, print.ino, print.form))
}

/// When it came into being.
#[cfg(target_os = "linux")]
fn birth_time(path: &Path, about: &Metadata) -> Option<(i64, u32)> {
    use rustix::fs::{AtFlags, CWD, StatxFlags};

    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let wanted = StatxFlags::BTIME | StatxFlags::INO;
    let told = rustix::fs::statx(CWD, path, flags, wanted).ok()?;
    let is_told = StatxFlags::from_bits_retain(told.stx_mask).contains(wanted);
    // Between the two looks it may have been replaced.
    (is_told && told.stx_ino == about.ino())
        .then_some((told.stx_btime.tv_sec, told.stx_btime.tv_nsec))
}

#[cfg(not(target_os = "linux"))]
fn birth_time(_: &Path, about: &Metadata) -> Option<(i64, u32)> {
    let born = about.created().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some((i64::try_from(born.as_secs()).ok()?, born.subsec_nanos()))
}

/// What the standard library says about something.
pub fn of_metadata(about: &Metadata) -> Fingerprint {
    let mtime = (about.mtime(), about.mtime_nsec());
    from_parts(about.dev(), about.ino(), about.mode(), about.uid(), about.size(), mtime)
}

/// What the system says about something.
#[allow(clippy::unnecessary_cast, reason = "the widths differ between platforms")]
pub fn of_stat(stat: &Stat) -> Fingerprint {
    let mtime = (stat.st_mtime as i64, stat.st_mtime_nsec as i64);
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    from_parts(
        stat.st_dev as u64,
        stat.st_ino as u64,
        stat.st_mode as u32,
        stat.st_uid,
        size,
        mtime,
    )
}

fn from_parts(
    dev: u64,
    ino: u64,
    mode: u32,
    uid: u32,
    size: u64,
    mtime: (i64, i64),
) -> Fingerprint {
    let form = match FileType::from_raw_mode(mode as rustix::fs::RawMode) {
        FileType::RegularFile => FileForm::File,
        FileType::Directory => FileForm::Directory,
        FileType::Symlink => FileForm::Link,
        _ => FileForm::Special,
    };
    Fingerprint {
        dev,
        ino,
        form,
        mode: mode & 0o7777,
        uid,
        size: if form == FileForm::Directory { 0 } else { size },
        mtime: (mtime.0, u32::try_from(mtime.1).unwrap_or(0)),
        born: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_whoever_is_asked() {
        let home = tempfile::tempdir().unwrap();
        let (file, link) = (home.path().join("file"), home.path().join("link"));
        std::fs::write(&file, "content").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let socket = home.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, form) in [
            (file.as_path(), FileForm::File),
            (link.as_path(), FileForm::Link),
            (home.path(), FileForm::Directory),
            (socket.as_path(), FileForm::Special),
        ] {
            let print = of_path(path).unwrap();
            let told = of_stat(&rustix::fs::lstat(path).unwrap());
            assert!(print.is_same(&told) && told.is_same(&print), "{form:?}");
            assert_eq!(print, Fingerprint { born: print.born, ..told }, "{form:?}");
            assert_eq!(print.form, form);
        }
        assert_eq!((of_path(&file).unwrap().size, of_path(home.path()).unwrap().size), (7, 0));
    }

    /// ext4 gives a number away again at once; others do so later.
    #[test]
    fn d1_what_has_the_number_of_something_that_is_gone_is_another() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        std::fs::write(&path, "content").unwrap();
        let print = of_path(&path).unwrap();
        if print.born.is_none() {
            assert_eq!(find_at(&print, &path), FoundAt::PerhapsSame);
            return;
        }
        assert_eq!(find_at(&print, &path), FoundAt::Same);
        std::fs::write(&path, "more of it").unwrap();
        assert_eq!(find_at(&print, &path), FoundAt::Same);
        let earlier = Fingerprint { born: print.born.map(|(at, nanos)| (at - 1, nanos)), ..print };
        assert_eq!(find_at(&earlier, &path), FoundAt::Another);
        assert!(is_at(&earlier, &path));
        // As earlier versions wrote it down.
        assert_eq!(find_at(&Fingerprint { born: None, ..print }, &path), FoundAt::PerhapsSame);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(find_at(&print, &path), FoundAt::Nothing);
    }
}
