//! File fingerprints (device, inode, size, times): enough to tell later whether what is at a path is still the
//! same.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use model::plan::{FileForm, Fingerprint};
use rustix::fs::{FileType, Stat};

/// What is at a path now. A link is looked at, not followed.
pub fn of_path(path: &Path) -> io::Result<Fingerprint> {
    std::fs::symlink_metadata(path).map(|about| of_metadata(&about))
}

/// Whether the very same thing is at a path. What was taken out of a directory does not make it another
/// one.
pub fn is_at(print: &Fingerprint, path: &Path) -> bool {
    of_path(path)
        .is_ok_and(|now| (now.dev, now.ino, now.form) == (print.dev, print.ino, print.form))
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
            assert_eq!(print, of_stat(&rustix::fs::lstat(path).unwrap()), "{form:?}");
            assert_eq!(print.form, form);
        }
        assert_eq!((of_path(&file).unwrap().size, of_path(home.path()).unwrap().size), (7, 0));
    }
}
