//! Moving a tree between devices while others write to it, without losing a write (TOCTOU).
//!
//! A move between devices is a copy and a removal, and another process may write in between. So the tree gets a
//! private name first, where its old path no longer finds it; it is copied from there; and every file goes by
//! itself, only while it is the very file that was copied and no process has it open. What is not, stays.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::plan::FileForm;
use rustix::fs::{CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::append::{self, Opener};
use crate::fingerprint;
use crate::trash::{self, ExistingName};

/// How many names are tried for a file that cannot have its own.
const MOST_SHOWN: u32 = 100;

/// Why a tree cannot be moved between devices so that it could be given back as it was.
#[derive(Debug)]
pub enum Immovable {
    /// A socket, a pipe or a device is in it.
    Special(PathBuf),
    /// A file in it has another name, and would be two files afterwards.
    Linked(PathBuf),
    /// Something in it belongs to another user.
    Foreign(PathBuf, u32),
    /// Something else is mounted in it.
    Mounted(PathBuf),
    /// Something in it has extended attributes or an access list, which a copy would not have.
    Attributed(PathBuf),
    /// It cannot be looked at.
    Io(io::Error),
}

/// What a file was at the moment before it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copied {
    form: FileForm,
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Copied {
    fn from_metadata(about: &Metadata) -> Self {
        Self {
            form: fingerprint::of_metadata(about).form,
            dev: about.dev(),
            ino: about.ino(),
            size: about.size(),
            mtime: (about.mtime(), about.mtime_nsec()),
            ctime: (about.ctime(), about.ctime_nsec()),
        }
    }

    /// Whether it has not been written to. A directory is the same while it is the same one: what is in
    /// it is compared by itself.
    fn is_unchanged(&self, now: &Self) -> bool {
        match self.form {
            FileForm::Directory => (self.form, self.dev, self.ino) == (now.form, now.dev, now.ino),
            _ => self == now,
        }
    }

    /// The same, after its name was changed, which many file systems note as a change of the file.
    fn is_unchanged_but_for_its_name(&self, now: &Self) -> bool {
        self.is_unchanged(&Self { ctime: self.ctime, ..*now })
    }
}

/// Everything that was copied, by its path below the root, and what it was then.
#[derive(Debug)]
pub struct CopiedTree {
    files: BTreeMap<PathBuf, Copied>,
}

/// Whether a tree can be moved between devices and given back as it is.
pub fn check_movable(root: &Path) -> Result<(), Immovable> {
    let about = fs::symlink_metadata(root).map_err(Immovable::Io)?;
    check_below(root, &about, about.dev())
}

fn check_below(path: &Path, about: &Metadata, device: u64) -> Result<(), Immovable> {
    let print = fingerprint::of_metadata(about);
    let us = crate::private::our_uid();
    if us != 0 && print.uid != us {
        return Err(Immovable::Foreign(path.to_owned(), print.uid));
    }
    if print.dev != device {
        return Err(Immovable::Mounted(path.to_owned()));
    }
    if has_attributes(path).map_err(Immovable::Io)? {
        return Err(Immovable::Attributed(path.to_owned()));
    }
    match print.form {
        FileForm::Special => Err(Immovable::Special(path.to_owned())),
        FileForm::File if about.nlink() > 1 => Err(Immovable::Linked(path.to_owned())),
        FileForm::File | FileForm::Link => Ok(()),
        FileForm::Directory => {
            for entry in fs::read_dir(path).map_err(Immovable::Io)? {
                let path = entry.map_err(Immovable::Io)?.path();
                match fs::symlink_metadata(&path) {
                    Ok(about) => check_below(&path, &about, device)?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(Immovable::Io(error)),
                }
            }
            Ok(())
        }
    }
}

/// Whether something has extended attributes (an access list is one) of its own. Those that the system gives to every
/// file, to a copy as well, do not count.
fn has_attributes(path: &Path) -> io::Result<bool> {
    /// The most that the kernel lists.
    const LONGEST_LIST: usize = 64 << 10;
    let mut names = vec![0; 1024];
    let length = loop {
        match rustix::fs::llistxattr(path, names.as_mut_slice()) {
            Ok(length) => break length,
            Err(Errno::RANGE) if names.len() < LONGEST_LIST => names.resize(LONGEST_LIST, 0),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    };
    let of_system = |name: &[u8]| {
        let begins = |start: &&str| name.starts_with(start.as_bytes());
        [
            "trusted.",
            "com.apple.",
            "security.selinux",
            "security.SMACK",
            "security.ima",
            "security.evm",
        ]
        .iter()
        .any(begins)
    };
    Ok(names[..length].split(|byte| *byte == 0).any(|name| !name.is_empty() && !of_system(name)))
}

/// Copies a tree as `trash::copy` does, and remembers what each file was before it was read.
pub fn copy_tree(from: &Path, to: &Path) -> io::Result<CopiedTree> {
    let mut files = BTreeMap::new();
    trash::copy_noting(from, to, ExistingName::Refuse, &mut |path, about| {
        let below = path.strip_prefix(from).unwrap_or(path);
        files.insert(below.to_owned(), Copied::from_metadata(about));
    })?;
    Ok(CopiedTree { files })
}

impl CopiedTree {
    /// Looks at everything again: whether it is all there, unchanged, and nothing was added.
    pub fn is_still_at(&self, root: &Path) -> io::Result<bool> {
        let mut seen = 0;
        let same = self.is_same_below(root, Path::new(""), &mut seen)?;
        Ok(same && seen == self.files.len())
    }

    fn is_same_below(&self, root: &Path, below: &Path, seen: &mut usize) -> io::Result<bool> {
        let path = join_below(root, below);
        let now = match fs::symlink_metadata(&path) {
            Ok(about) => Copied::from_metadata(&about),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if !self.files.get(below).is_some_and(|copied| copied.is_unchanged(&now)) {
            return Ok(false);
        }
        *seen += 1;
        if now.form == FileForm::Directory {
            for entry in fs::read_dir(&path)? {
                if !self.is_same_below(root, &below.join(entry?.file_name()), seen)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Removes from the tree what was copied from it and is still just that, one by one; whether that
    /// was everything. `private` is a name of this step alone.
    pub fn unlink_from(&self, root: &Path, private: &OsStr) -> io::Result<bool> {
        let mut all = true;
        let mut first = None;
        // Backwards, a directory comes after everything in it.
        for (below, copied) in self.files.iter().rev() {
            let path = join_below(root, below);
            let gone = match copied.form {
                FileForm::Directory => remove_if_empty(&path),
                _ => copied.unlink_copied(&path, &path.with_file_name(private)),
            };
            crate::pause::pause_at("reap.unlinked");
            match gone {
                Ok(gone) => all &= gone,
                Err(error) => first = first.or(Some(error)),
            }
        }
        trash::sync_directory_of(root)?;
        first.map_or(Ok(all), Err)
    }
}

impl Copied {
    /// Removes one file, if it is what was copied; whether it is gone. It is looked at under a name that
    /// no other process can open, so that none can write to it between the look and the removal.
    fn unlink_copied(&self, path: &Path, private: &Path) -> io::Result<bool> {
        let opened = match self.form {
            FileForm::File => match open_to_look(path) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                Err(_) => return Ok(false),
            },
            _ => None,
        };
        let about = match &opened {
            Some(file) => file.metadata(),
            None => fs::symlink_metadata(path),
        };
        let now = match about {
            Ok(about) => Self::from_metadata(&about),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        if !self.is_unchanged(&now) {
            return Ok(false);
        }
        let opener = opened.as_ref().map(append::hold_alone);
        if matches!(opener, Some(Opener::Others)) {
            return Ok(false);
        }
        let is_private = path == private;
        if !is_private {
            rename_new(path, private)?;
        }
        let now = Self::from_metadata(&fs::symlink_metadata(private)?);
        let same = self.is_unchanged_but_for_its_name(&now);
        let alone = opener.is_none_or(|opener| opener.is_still_alone());
        if same && alone {
            fs::remove_file(private)?;
            return Ok(true);
        }
        if !is_private {
            rename_new(private, path)?;
        }
        Ok(false)
    }
}

/// The name of a copy inside a tree that is not whole yet.
fn part_of(private: &OsStr) -> OsString {
    let mut name = private.to_owned();
    name.push(".part");
    name
}

/// Gives a tree back what was removed from it, from the copy. What is there stays as it is.
pub fn complete_tree(copy: &Path, root: &Path, private: &OsStr) -> io::Result<()> {
    let about = fs::symlink_metadata(copy)?;
    let here = match fs::symlink_metadata(root) {
        Ok(here) => Some(here),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if !about.is_dir() {
        let None = here else { return Ok(()) };
        // Whole or not at all: a kill here leaves a name that only we use.
        let part = root.with_file_name(part_of(private));
        abandon_copy(&part)?;
        trash::copy_tree(copy, &part, ExistingName::Refuse)?;
        return rename_new(&part, root);
    }
    match here {
        None => fs::create_dir(root)?,
        Some(here) if here.is_dir() => {}
        Some(_) => return Err(io::ErrorKind::AlreadyExists.into()),
    }
    abandon_copy(&root.join(part_of(private)))?;
    take_back_name(copy, root, private)?;
    for entry in fs::read_dir(copy)? {
        let entry = entry?;
        complete_tree(&entry.path(), &root.join(entry.file_name()), private)?;
    }
    trash::carry_over(root, &about, FileForm::Directory)?;
    File::open(root)?.sync_all()
}

/// A kill may have left one file under the private name: it gets its own again, if it can be told which.
fn take_back_name(copy: &Path, root: &Path, private: &OsStr) -> io::Result<()> {
    let Ok(left) = fs::symlink_metadata(root.join(private)) else { return Ok(()) };
    let left = Copied::from_metadata(&left);
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(copy)? {
        let entry = entry?;
        let copied = Copied::from_metadata(&fs::symlink_metadata(entry.path())?);
        let fits = (copied.form, copied.size, copied.mtime) == (left.form, left.size, left.mtime);
        if fits && fs::symlink_metadata(root.join(entry.file_name())).is_err() {
            names.insert(entry.file_name());
        }
    }
    // Of several, each is as good: they are missing, and as long and old as this one.
    for name in names {
        if same_content(&copy.join(&name), &root.join(private))? {
            return rename_new(&root.join(private), &root.join(&name));
        }
    }
    show_unnamed(root, private)
}

/// Gives a file that was written to under the private name, or whose own name is taken, one that is seen.
fn show_unnamed(root: &Path, private: &OsStr) -> io::Result<()> {
    let shown = private.to_string_lossy().trim_start_matches('.').to_owned();
    let mut last = Ok(());
    for count in 1..MOST_SHOWN {
        last = rename_new(&root.join(private), &root.join(format!("kept-{shown}-{count}")));
        let Err(error) = &last else { break };
        if error.kind() != io::ErrorKind::AlreadyExists {
            break;
        }
    }
    last
}

fn same_content(one: &Path, other: &Path) -> io::Result<bool> {
    if fs::symlink_metadata(one)?.is_symlink() {
        return Ok(fs::read_link(one)? == fs::read_link(other)?);
    }
    let (mut one, mut other) = (open_to_look(one)?, open_to_look(other)?);
    let (mut ours, mut theirs) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let (a, b) = (read_full(&mut one, &mut ours)?, read_full(&mut other, &mut theirs)?);
        if ours[..a] != theirs[..b] {
            return Ok(false);
        }
        if a == 0 {
            return Ok(true);
        }
    }
}

fn read_full(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match io::Read::read(file, &mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Whether two trees hold the same: names, forms, links and content.
pub fn is_same_tree(one: &Path, other: &Path) -> io::Result<bool> {
    let (about, there) = (fs::symlink_metadata(one)?, fs::symlink_metadata(other)?);
    let (about, there) = (Copied::from_metadata(&about), Copied::from_metadata(&there));
    if about.form != there.form {
        return Ok(false);
    }
    if about.form != FileForm::Directory {
        return Ok(about.size == there.size && same_content(one, other)?);
    }
    let (ours, theirs) = (names_in(one)?, names_in(other)?);
    if ours != theirs {
        return Ok(false);
    }
    for name in ours {
        if !is_same_tree(&one.join(&name), &other.join(&name))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn names_in(directory: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
}

/// As [`trash::rename`], but leaves it to the system when that reaches the disk.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Removes a copy that this process or one before it was writing.
fn abandon_copy(part: &Path) -> io::Result<()> {
    match trash::remove_tree(part) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn remove_if_empty(directory: &Path) -> io::Result<bool> {
    match fs::remove_dir(directory) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Ok(true),
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory => Ok(false),
            _ => Err(error),
        },
    }
}

fn open_to_look(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Below the root; the root itself is no directory of its own name.
fn join_below(root: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { root.to_owned() } else { root.join(below) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    const PRIVATE: &str = ".ostler-r-0";

    /// A tree with a file, a directory and a link, and an empty place for its copy.
    fn tree() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let (root, copy) = (home.path().join(PRIVATE), home.path().join("copy"));
        fs::create_dir_all(root.join("deep/er")).unwrap();
        for name in ["a", "deep/b", "deep/er/c"] {
            fs::write(root.join(name), name).unwrap();
        }
        symlink("/nowhere", root.join("deep/link")).unwrap();
        (home, root, copy)
    }

    #[test]
    fn what_nobody_touched_goes_whole() {
        let (_home, root, copy) = tree();
        let copied = copy_tree(&root, &copy).unwrap();
        assert!(copied.is_still_at(&root).unwrap());
        assert!(copied.unlink_from(&root, PRIVATE.as_ref()).unwrap());
        assert!(!root.exists());
        assert_eq!(fs::read(copy.join("deep/er/c")).unwrap(), b"deep/er/c");
    }

    #[test]
    fn h2_what_was_written_after_the_copy_stays_and_the_rest_comes_back() {
        let (_home, root, copy) = tree();
        let copied = copy_tree(&root, &copy).unwrap();
        let mut held = File::options().append(true).open(root.join("deep/er/c")).unwrap();
        fs::write(root.join("deep/b"), "changed").unwrap();
        fs::write(root.join("deep/new"), "new").unwrap();
        assert!(!copied.is_still_at(&root).unwrap());
        assert!(!copied.unlink_from(&root, PRIVATE.as_ref()).unwrap());
        assert!(!root.join("a").exists(), "what was copied and nobody uses goes");
        held.write_all(b", and more").unwrap();
        complete_tree(&copy, &root, PRIVATE.as_ref()).unwrap();
        let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
        assert_eq!((read("a"), read("deep/b")), ("a".to_owned(), "changed".to_owned()));
        assert_eq!(read("deep/new"), "new");
        #[cfg(target_os = "linux")]
        assert_eq!(read("deep/er/c"), "deep/er/c, and more", "somebody has it open");
        assert_eq!(fs::read_link(root.join("deep/link")).unwrap(), Path::new("/nowhere"));
    }

    #[test]
    fn h2_a_file_saved_in_the_place_of_another_is_not_the_one_that_was_copied() {
        let (_home, root, copy) = tree();
        let copied = copy_tree(&root, &copy).unwrap();
        fs::write(root.join("saving"), "a").unwrap();
        fs::rename(root.join("saving"), root.join("a")).unwrap();
        assert!(!copied.unlink_from(&root, PRIVATE.as_ref()).unwrap());
        assert_eq!(fs::read(root.join("a")).unwrap(), b"a");
    }

    #[test]
    fn a_file_left_under_the_private_name_gets_its_own_again() {
        let (_home, root, copy) = tree();
        copy_tree(&root, &copy).unwrap();
        let ino = fs::metadata(root.join("deep/b")).unwrap().ino();
        fs::rename(root.join("deep/b"), root.join("deep").join(PRIVATE)).unwrap();
        fs::write(root.join("deep").join(format!("{PRIVATE}.part")), "half a co").unwrap();
        complete_tree(&copy, &root, PRIVATE.as_ref()).unwrap();
        assert_eq!(fs::metadata(root.join("deep/b")).unwrap().ino(), ino);
        assert!(is_same_tree(&copy, &root).unwrap());
    }

    /// Another process wrote to it under that name, or has made another file of its own name meanwhile.
    #[test]
    fn h2_a_file_that_cannot_have_its_name_again_gets_one_that_is_seen() {
        let (_home, root, copy) = tree();
        copy_tree(&root, &copy).unwrap();
        fs::rename(root.join("deep/b"), root.join("deep").join(PRIVATE)).unwrap();
        fs::write(root.join("deep").join(PRIVATE), "written to").unwrap();
        complete_tree(&copy, &root, PRIVATE.as_ref()).unwrap();
        assert_eq!(fs::read(root.join("deep/b")).unwrap(), b"deep/b");
        let shown = format!("kept-{}-1", PRIVATE.trim_start_matches('.'));
        assert_eq!(fs::read(root.join("deep").join(shown)).unwrap(), b"written to");
        assert!(!root.join("deep").join(PRIVATE).exists());
    }

    #[test]
    fn what_could_not_be_given_back_is_not_moved() {
        let (home, root, _) = tree();
        check_movable(&root).unwrap();
        fs::hard_link(root.join("a"), home.path().join("outside")).unwrap();
        assert!(
            matches!(check_movable(&root), Err(Immovable::Linked(path)) if path.ends_with("a"))
        );
        fs::remove_file(home.path().join("outside")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(root.join("deep/socket")).unwrap();
        assert!(matches!(check_movable(&root), Err(Immovable::Special(_))));
    }

    /// A copy has neither: an access list gone is a file that others can read, or cannot any more.
    #[test]
    fn what_has_attributes_or_an_access_list_is_not_moved() {
        use rustix::fs::{XattrFlags, removexattr, setxattr};

        let (_home, root, _) = tree();
        let file = root.join("deep/er/c");
        match setxattr(&file, "user.note", b"mine", XattrFlags::CREATE) {
            Err(Errno::OPNOTSUPP) => return println!("SKIPPED: no attributes on this file system"),
            set => set.unwrap(),
        }
        let refused = check_movable(&root);
        assert!(
            matches!(&refused, Err(Immovable::Attributed(path)) if *path == file),
            "{refused:?}"
        );
        removexattr(&file, "user.note").unwrap();
        check_movable(&root).unwrap();
        // One entry beside the three of the mode, for the user 1, as the kernel keeps it.
        let entry = |tag: u16, bits: u16, id: u32| {
            [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let none = u32::MAX;
        let list = [
            2u32.to_le_bytes().to_vec(),
            entry(1, 6, none),
            entry(2, 4, 1),
            entry(4, 4, none),
            entry(16, 4, none),
            entry(32, 0, none),
        ];
        match setxattr(&file, "system.posix_acl_access", &list.concat(), XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => println!("SKIPPED: no access lists on this file system"),
            set => {
                set.unwrap();
                assert!(matches!(check_movable(&root), Err(Immovable::Attributed(_))));
            }
        }
    }
}
