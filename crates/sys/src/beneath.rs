//! Opening files beneath a directory (`openat2` with `RESOLVE_BENEATH`): no link leads out of it.
//!
//! On Linux the kernel itself refuses to leave the directory, so there is no moment between a check
//! and the opening. Elsewhere, and where a link names its target absolutely, the path is resolved
//! and checked first.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Why a path was not opened.
#[derive(Debug, thiserror::Error)]
pub enum BeneathError {
    /// A link leads out of the directory.
    #[error("a link leads out of the directory")]
    Escapes,
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeneathTarget {
    /// Something to read; what it is must be asked of the open file. Never blocks.
    File,
    /// A directory to list.
    Directory,
}

/// Opens `path` for reading if, all links resolved, it lies beneath `root`, which must itself be
/// resolved. A `path` that does not begin with `root` at all is opened as it is, links refused: some
/// agents list stores outside of their own directory.
pub fn open_beneath(root: &Path, path: &Path, target: BeneathTarget) -> Result<File, BeneathError> {
    let flags = OFlags::RDONLY
        | OFlags::CLOEXEC
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | match target {
            BeneathTarget::File => OFlags::empty(),
            BeneathTarget::Directory => OFlags::DIRECTORY,
        };
    let Some(below) = path.strip_prefix(root).ok().filter(|below| !below.as_os_str().is_empty())
    else {
        return open_plain(path, flags);
    };
    match open_in_kernel(root, below, flags) {
        Some(opened) => opened,
        None => open_resolved(root, path, flags),
    }
}

/// `None` when the kernel cannot decide.
#[cfg(target_os = "linux")]
fn open_in_kernel(root: &Path, below: &Path, flags: OFlags) -> Option<Result<File, BeneathError>> {
    use rustix::fs::ResolveFlags;

    let open_below = |directory: &OwnedFd| {
        match rustix::fs::openat2(directory, below, flags, Mode::empty(), ResolveFlags::BENEATH) {
            Ok(opened) => Some(Ok(opened.into())),
            // An absolute link may still lead inside; old kernels do not have the call at all.
            Err(Errno::XDEV | Errno::NOSYS | Errno::PERM | Errno::AGAIN) => None,
            Err(errno) => Some(Err(BeneathError::Io(errno.into()))),
        }
    };
    let open_root = || rustix::fs::open(root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok();
    HELD.with_borrow_mut(|held| {
        let Some(held) = held else { return open_below(&open_root()?) };
        if let Some((_, directory)) = held.iter().find(|(path, _)| path == root) {
            return open_below(directory);
        }
        held.push((root.to_owned(), open_root()?));
        open_below(&held.last()?.1)
    })
}

std::thread_local! {
    /// The directories that this thread holds open, while it does.
    static HELD: RefCell<Option<Vec<(PathBuf, OwnedFd)>>> = const { RefCell::new(None) };
}

/// Directories stay open on this thread from one call of [`open_beneath`] to the next, until this is dropped:
/// for a caller that opens thousands of files beneath the same few.
#[derive(Debug)]
pub struct HeldRoots(PhantomData<*const ()>);

/// Begins to hold them.
pub fn hold_roots() -> HeldRoots {
    HELD.with_borrow_mut(|held| *held = Some(Vec::new()));
    HeldRoots(PhantomData)
}

impl Drop for HeldRoots {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| *held = None);
    }
}

#[cfg(not(target_os = "linux"))]
fn open_in_kernel(_: &Path, _: &Path, _: OFlags) -> Option<Result<File, BeneathError>> {
    None
}

fn open_resolved(root: &Path, path: &Path, flags: OFlags) -> Result<File, BeneathError> {
    let resolved = std::fs::canonicalize(path)?;
    if !resolved.starts_with(root) {
        return Err(BeneathError::Escapes);
    }
    open_plain(&resolved, flags)
}

fn open_plain(path: &Path, flags: OFlags) -> Result<File, BeneathError> {
    match rustix::fs::open(path, flags | OFlags::NOFOLLOW, Mode::empty()) {
        Ok(opened) => Ok(opened.into()),
        Err(Errno::LOOP) => Err(BeneathError::Escapes),
        Err(errno) => Err(BeneathError::Io(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    fn read(root: &Path, path: &Path) -> Result<String, BeneathError> {
        let mut text = String::new();
        open_beneath(root, path, BeneathTarget::File)?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn links_are_followed_only_inside() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("victim"), "secret").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join("a/file"), "text").unwrap();
        symlink("a", root.join("relative")).unwrap();
        symlink(root.join("a"), root.join("absolute")).unwrap();
        symlink(outside.path(), root.join("out")).unwrap();
        symlink(outside.path().join("victim"), root.join("a/victim")).unwrap();
        symlink("../../../../../../etc/hostname", root.join("a/up")).unwrap();
        for inside in ["a/file", "relative/file", "absolute/file"] {
            assert_eq!(read(&root, &root.join(inside)).unwrap(), "text", "{inside}");
        }
        for escape in ["out/victim", "a/victim", "a/up"] {
            let error = read(&root, &root.join(escape)).unwrap_err();
            assert!(matches!(error, BeneathError::Escapes), "{escape}: {error:?}");
        }
        let missing = read(&root, &root.join("a/missing")).unwrap_err();
        assert!(
            matches!(missing, BeneathError::Io(error) if error.kind() == io::ErrorKind::NotFound)
        );
        {
            let _held = hold_roots();
            for _ in 0..2 {
                assert_eq!(read(&root, &root.join("a/file")).unwrap(), "text");
                read(&root, &root.join("a/victim")).unwrap_err();
            }
        }
        open_beneath(&root, &root.join("a"), BeneathTarget::Directory).unwrap();
        assert!(open_beneath(&root, &root.join("a/file"), BeneathTarget::Directory).is_err());
    }
}
