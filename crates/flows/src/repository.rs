//! Git repositories on disk: the worktree a directory is in, and the worktrees linked to it. Only
//! files are read; git is not run.

use std::path::{Path, PathBuf};

/// The root of the worktree that a directory is in: the repository's own, or a linked one.
pub fn worktree_root(directory: &Path) -> Option<PathBuf> {
    let is_root = |place: &&Path| std::fs::symlink_metadata(place.join(".git")).is_ok();
    directory.ancestors().find(is_root).map(Path::to_owned)
}

/// Where git keeps what it knows of a linked worktree, if `root` is one. A repository itself never is.
pub(crate) fn linked_administration(root: &Path) -> Option<PathBuf> {
    let text = read_pointer(&root.join(".git"))?;
    let administration = text.strip_prefix("gitdir: ")?.trim_end();
    administration.contains("/worktrees/").then(|| root.join(administration))
}

/// The branch that is checked out where `directory` is; none outside of repositories and on no branch.
pub fn checked_out_branch(directory: &Path) -> Option<String> {
    let root = worktree_root(directory)?;
    let administration = linked_administration(&root).unwrap_or_else(|| root.join(".git"));
    let head = read_pointer(&administration.join("HEAD"))?;
    head.strip_prefix("ref: refs/heads/").map(|branch| branch.trim_end().to_owned())
}

/// The longest file that names a place; longer ones are none of git's.
const MAX_POINTER_BYTES: u64 = 16 << 10;

/// A small plain file: a pipe in its place would never end.
pub(crate) fn read_pointer(path: &Path) -> Option<String> {
    let is_pointer =
        |found: &std::fs::Metadata| found.is_file() && found.len() <= MAX_POINTER_BYTES;
    std::fs::symlink_metadata(path).ok().filter(is_pointer)?;
    std::fs::read_to_string(path).ok()
}

/// The roots of every worktree of the repository that `root` belongs to, `root` first. What is
/// no longer there is left out.
pub fn worktrees_of(root: &Path) -> Vec<PathBuf> {
    let mut roots = vec![root.to_owned()];
    let linked = linked_administration(root);
    let common = match &linked {
        Some(administration) => administration.parent().and_then(Path::parent).map(Path::to_owned),
        None => Some(root.join(".git")),
    };
    let Some(common) = common else { return roots };
    let own = common.parent().filter(|_| common.file_name().is_some_and(|name| name == ".git"));
    let listed = std::fs::read_dir(common.join("worktrees")).into_iter().flatten();
    let mut others: Vec<PathBuf> = listed
        .filter_map(|entry| read_pointer(&entry.ok()?.path().join("gitdir")))
        .filter_map(|file| Path::new(file.trim_end()).parent().map(Path::to_owned))
        .collect();
    others.extend(own.map(Path::to_owned));
    others.sort();
    for other in others {
        let other = std::fs::canonicalize(&other).unwrap_or(other);
        if other.is_absolute() && other.is_dir() && !roots.contains(&other) {
            roots.push(other);
        }
    }
    roots
}

/// What `.` means: the first of this very directory; else, in a git repository or one of its
/// worktrees, of the nearest directory above this one; else of anywhere in that worktree.
pub fn pick_here<T>(
    all: impl Iterator<Item = T>,
    cwd_of: impl Fn(&T) -> Option<String>,
    here: &Path,
) -> Option<T> {
    let root = worktree_root(here);
    let mut best: Option<(usize, T)> = None;
    for one in all {
        let Some(cwd) = cwd_of(&one) else { continue };
        let cwd = Path::new(&cwd);
        let within = root.as_deref().is_some_and(|root| cwd.starts_with(root));
        let distance = match here.strip_prefix(cwd) {
            Ok(below) if below.as_os_str().is_empty() => 0,
            Ok(below) if within => below.components().count(),
            Err(_) if within => usize::MAX,
            _ => continue,
        };
        if best.as_ref().is_none_or(|(nearest, _)| distance < *nearest) {
            best = Some((distance, one));
        }
    }
    best.map(|(_, one)| one)
}
