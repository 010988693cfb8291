//! Git worktrees for agents: everything is checked before the first one is made.
//!
//! Each has a branch of its own, begins with one commit that is resolved once for all, and is locked while its agent
//! may live. Nothing is removed here: that is `gc`'s, with its proofs.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use model::control::groups::{GroupMember, SkippedInclude, SlotWorktree};
use sys::dropped::NoteDropped;
use sys::machine::Machine;

use crate::git::run_git;

/// The file that names ignored files which every worktree gets a copy of.
pub const INCLUDE_FILE: &str = ".worktreeinclude";

/// No include file is larger.
const MAX_INCLUDE_BYTES: u64 = 64 << 10;

/// How much is copied into one worktree at most.
const INCLUDE_BUDGET_BYTES: u64 = 1 << 30;

/// How many files are copied into one worktree at most.
const MAX_INCLUDED_FILES: usize = 10_000;

/// What must be left free beside the worktrees.
const SPARE_BYTES: u64 = 64 << 20;

/// Why no worktree is made. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// There is no repository here.
    #[error("`{}` is in no git repository: {reason}", .directory.display())]
    NoRepository {
        /// Where it was looked for.
        directory: PathBuf,
        /// What git said.
        reason: String,
    },
    /// The base is no commit.
    #[error("`{base}` names no commit")]
    NoBase {
        /// What was asked for.
        base: String,
    },
    /// Something has the name of a branch or a directory.
    #[error("{what} is there already")]
    Taken { what: String },
    /// The disk has no room.
    #[error("{needed} bytes are needed for the worktrees, and {free} are free")]
    NoSpace {
        /// How much is needed.
        needed: u64,
        /// How much there is.
        free: u64,
    },
    /// The include file asks for something outside of the repository.
    #[error("line {line} of {INCLUDE_FILE} leads out of the repository")]
    Outside { line: usize },
    /// Something could not be read.
    #[error("{0}")]
    Unreadable(String),
}

/// The repository that worktrees are made of.
#[derive(Clone, Debug)]
pub struct WorktreePlan {
    /// What all worktrees of it share.
    common: PathBuf,
    /// The worktree that was asked from; none of a bare repository.
    top: Option<PathBuf>,
    /// The directory below that.
    below: PathBuf,
    /// The commit that all begin with.
    pub base: String,
    /// Whether there are changes that are not committed.
    pub uncommitted: bool,
    /// Files to copy, and those that cannot be.
    included: Vec<PathBuf>,
    skipped: Vec<SkippedInclude>,
}

/// Where the worktrees of a home are.
pub fn worktrees_directory(home: &Path) -> PathBuf {
    home.join("worktrees")
}

/// Looks at a repository; `base` is any name of a commit.
pub fn plan_worktrees(directory: &Path, base: Option<&str>) -> Result<WorktreePlan, WorktreeError> {
    let ask = |words: &[&str]| run_git(directory, words).map(|said| said.trim_end().to_owned());
    let common = ask(&["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    let common = common.map_err(|reason| WorktreeError::NoRepository {
        directory: directory.to_owned(),
        reason,
    })?;
    let wanted = base.unwrap_or("HEAD");
    let commit = format!("{wanted}^{{commit}}");
    let base = ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])
        .map_err(|_| WorktreeError::NoBase { base: wanted.to_owned() })?;
    let top = ask(&["rev-parse", "--show-toplevel"]).ok().filter(|top| !top.is_empty());
    let top = top.map(PathBuf::from);
    let here = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let below = top.as_ref().and_then(|top| here.strip_prefix(top).ok()).map(Path::to_owned);
    let uncommitted = top.is_some()
        && ask(&["status", "--porcelain", "-unormal"]).is_ok_and(|changes| !changes.is_empty());
    let mut plan = WorktreePlan {
        common: PathBuf::from(common),
        top,
        below: below.unwrap_or_default(),
        base,
        uncommitted,
        included: Vec::new(),
        skipped: Vec::new(),
    };
    plan.find_included()?;
    Ok(plan)
}

impl WorktreePlan {
    /// The worktree of a slot: its place and its branch.
    pub fn place_slot(&self, machine: &Machine, group: Option<&str>, slot: &str) -> SlotWorktree {
        let hash = &sys::hash::sha256(self.common.as_os_str().as_encoded_bytes())[..8];
        let name = match self.common.file_name() {
            Some(name) if name != ".git" => name.to_string_lossy().into_owned(),
            _ => self
                .common
                .parent()
                .and_then(Path::file_name)
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        };
        let name = name.strip_suffix(".git").unwrap_or(&name);
        let mut path = worktrees_directory(machine.home()).join(format!("{name}-{hash}"));
        path.extend(group);
        path.push(slot);
        SlotWorktree {
            path: path.to_string_lossy().into_owned(),
            branch: ["ostler"].into_iter().chain(group).chain([slot]).collect::<Vec<_>>().join("/"),
            repository: self.common.to_string_lossy().into_owned(),
            base: self.base.clone(),
        }
    }

    /// Checks that nothing is in the way of these, and that there is room.
    pub fn check_places(&self, places: &[SlotWorktree]) -> Result<(), WorktreeError> {
        let failed = WorktreeError::Unreadable;
        let heads = ["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/ostler"];
        let heads = run_git(&self.common, &heads).map_err(failed)?;
        let stands_in_way = |head: &str, branch: &str| {
            head == branch
                || branch.strip_prefix(head).is_some_and(|rest| rest.starts_with('/'))
                || head.strip_prefix(branch).is_some_and(|rest| rest.starts_with('/'))
        };
        for place in places {
            if let Some(head) = heads.lines().find(|head| stands_in_way(head, &place.branch)) {
                return Err(WorktreeError::Taken { what: format!("the branch `{head}`") });
            }
            if std::fs::symlink_metadata(&place.path).is_ok() {
                return Err(WorktreeError::Taken { what: format!("`{}`", place.path) });
            }
        }
        let tree = run_git(&self.common, &["ls-tree", "-r", "-l", "-z", &self.base]);
        let sizes = tree.map_err(failed)?;
        let size_of = |line: &str| -> Option<u64> {
            line.split('\t').next()?.rsplit(' ').next()?.parse().ok()
        };
        let files: u64 = sizes.split('\0').filter_map(size_of).sum();
        let each = files + self.included_bytes();
        let needed = each.saturating_mul(places.len() as u64).saturating_add(SPARE_BYTES);
        let Some(place) = places.first() else { return Ok(()) };
        // The first directory that is there is on the same file system.
        let there = Path::new(&place.path).ancestors().find(|one| one.is_dir());
        let free = sys::disk::free_bytes(there.unwrap_or(Path::new("/")))
            .map_err(|error| WorktreeError::Unreadable(error.to_string()))?;
        check_space(needed, free)
    }

    fn included_bytes(&self) -> u64 {
        let size = |path: &PathBuf| {
            let top = self.top.as_ref()?;
            std::fs::symlink_metadata(top.join(path)).ok().map(|about| about.len())
        };
        self.included.iter().filter_map(size).sum::<u64>().min(INCLUDE_BUDGET_BYTES)
    }

    /// Makes the worktree of a member, locked from the beginning, with copies of what is included. Says what was not
    /// copied.
    pub fn make_worktree(&self, member: &GroupMember) -> Result<Vec<SkippedInclude>, String> {
        let Some(place) = &member.worktree else { return Ok(Vec::new()) };
        let path = Path::new(&place.path);
        let parent = path.parent().unwrap_or(path);
        sys::private::create_private_dir(parent).map_err(|error| error.to_string())?;
        let reason = member.lock_reason();
        let words =
            ["worktree", "add", "--quiet", "--lock", "--reason", &reason, "-b", &place.branch];
        let words: Vec<&str> = words.into_iter().chain(["--", &place.path, &place.base]).collect();
        if let Err(error) = run_git(&self.common, &words) {
            self.forget_branch(place);
            return Err(error);
        }
        sys::pause::pause_at("group.added");
        Ok(self.copy_included(path))
    }

    /// Takes back the branch of a worktree that could not be made: git itself refuses if anything is on it alone.
    fn forget_branch(&self, place: &SlotWorktree) {
        if !Path::new(&place.path).exists() {
            let words = ["branch", "--quiet", "-d", "--", &place.branch];
            run_git(&self.common, &words).note_dropped("a branch whose worktree could not be made");
        }
    }

    /// Where an agent works in a worktree: where it was asked for in the repository, if the base has that.
    pub fn directory_in(&self, place: &SlotWorktree) -> String {
        let root = PathBuf::from(&place.path);
        let same = root.join(&self.below);
        let same = if same.is_dir() { same } else { root };
        same.to_string_lossy().into_owned()
    }

    /// Finds what is to be copied: files that the include file names and git ignores.
    fn find_included(&mut self) -> Result<(), WorktreeError> {
        let Some(top) = &self.top else { return Ok(()) };
        let file = top.join(INCLUDE_FILE);
        let mut text = String::new();
        match sys::private::open_regular(&file) {
            Ok(open) => {
                let read = open.take(MAX_INCLUDE_BYTES).read_to_string(&mut text);
                read.map_err(|error| {
                    WorktreeError::Unreadable(format!("{INCLUDE_FILE}: {error}"))
                })?;
            }
            Err(_) if !file.exists() => return Ok(()),
            Err(error) => return Err(WorktreeError::Unreadable(error.to_string())),
        }
        for (index, line) in text.lines().enumerate() {
            let pattern = line.trim_start_matches('!').trim_start_matches('/');
            if Path::new(pattern).components().any(|part| part == Component::ParentDir) {
                return Err(WorktreeError::Outside { line: index + 1 });
            }
        }
        let from = format!("--exclude-from={}", file.display());
        let list = |words: &[&str]| run_git(top, words).map_err(WorktreeError::Unreadable);
        let named = list(&["ls-files", "-z", "--others", "--ignored", &from])?;
        // What git does not ignore is either committed or still to be committed.
        let loose = list(&["ls-files", "-z", "--others", "--exclude-standard"])?;
        let loose: std::collections::HashSet<&str> = loose.split('\0').collect();
        for path in named.split('\0').filter(|path| !path.is_empty() && !loose.contains(path)) {
            let skip =
                |reason: &str| SkippedInclude { path: path.to_owned(), reason: reason.to_owned() };
            let about = std::fs::symlink_metadata(top.join(path));
            match about {
                Ok(about) if about.is_symlink() => {
                    self.skipped.push(skip("a link is not followed"))
                }
                Ok(about) if about.is_file() && self.included.len() < MAX_INCLUDED_FILES => {
                    self.included.push(PathBuf::from(path));
                }
                Ok(about) if about.is_file() => self.skipped.push(skip("there are too many files")),
                _ => self.skipped.push(skip("it is no file")),
            }
        }
        // Git does not list what is neither a file nor a link, so that it is looked for by its name.
        for line in text.lines().map(|line| line.trim_matches('/')) {
            let about = std::fs::symlink_metadata(top.join(line));
            let is_special =
                about.is_ok_and(|about| !about.is_file() && !about.is_dir() && !about.is_symlink());
            if is_special && !line.is_empty() {
                let reason = "it is no file".to_owned();
                self.skipped.push(SkippedInclude { path: line.to_owned(), reason });
            }
        }
        Ok(())
    }

    fn copy_included(&self, root: &Path) -> Vec<SkippedInclude> {
        let mut skipped = self.skipped.clone();
        let Some(top) = &self.top else { return skipped };
        let mut left = INCLUDE_BUDGET_BYTES;
        for path in &self.included {
            match copy_file(top, root, path, left) {
                Ok(bytes) => left -= bytes,
                Err(error) => skipped.push(SkippedInclude {
                    path: path.to_string_lossy().into_owned(),
                    reason: error.to_string(),
                }),
            }
        }
        skipped
    }
}

/// Whether there is room.
fn check_space(needed: u64, free: u64) -> Result<(), WorktreeError> {
    if needed > free { Err(WorktreeError::NoSpace { needed, free }) } else { Ok(()) }
}

/// Copies one file; links on the way to it, on either side, lead nowhere else.
fn copy_file(top: &Path, root: &Path, path: &Path, most: u64) -> io::Result<u64> {
    let within = |base: &Path, directory: &Path| -> io::Result<()> {
        let real = std::fs::canonicalize(directory)?;
        match real.starts_with(std::fs::canonicalize(base)?) {
            true => Ok(()),
            false => Err(io::Error::other("it leads out of the repository")),
        }
    };
    let (from, to) = (top.join(path), root.join(path));
    within(top, from.parent().unwrap_or(top))?;
    let mut source = sys::private::open_regular(&from).map_err(io::Error::other)?;
    let about = source.metadata()?;
    if about.len() > most {
        return Err(io::Error::other("it is larger than what may be copied"));
    }
    let parent = to.parent().unwrap_or(root);
    // Of a path with a link in it the part above that is checked before anything is made below.
    let there = parent.ancestors().find(|one| one.exists()).unwrap_or(root);
    within(root, there)?;
    std::fs::create_dir_all(parent)?;
    let mut copy = File::options().write(true).create_new(true).open(&to)?;
    let bytes = io::copy(&mut (&mut source).take(most), &mut copy)?;
    copy.set_permissions(about.permissions())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_69_a_disk_without_room_is_noticed_before_anything_is_made() {
        assert!(check_space(10, 10).is_ok());
        let refused = check_space(11, 10).unwrap_err().to_string();
        assert!(refused.contains("11") && refused.contains("10"), "{refused}");
    }
}
