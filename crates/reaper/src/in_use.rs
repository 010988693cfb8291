//! Which files and directories processes are using now.

use std::io;
use std::path::{Path, PathBuf};

use model::plan::Refusal;
use model::program::ProcessAppearance;
use sys::proc::{FileId, MountView, ProcessRow, ProcessTable};
use sys::tree_facts::TreeFacts;

use crate::PlannedRemoval;

/// Where processes work, and what they have open.
#[derive(Debug)]
pub struct InUse {
    /// Paths, by the names that we have for them.
    named: Vec<(PathBuf, u32)>,
    /// Directories and all those above them, by what they are: a process in another mount namespace
    /// has other names for them.
    lineages: Vec<(Vec<FileId>, u32)>,
    /// Processes that do not let themselves be looked into, and their users.
    closed: Vec<(u32, u32)>,
    listed: bool,
}

impl InUse {
    /// Looks at all processes. Of those of our own user that do not let themselves be looked into, only what may be an
    /// agent counts: the others keep secrets (an `ssh-agent`).
    pub fn scan_processes(may_be_agent: fn(&ProcessAppearance) -> bool) -> Self {
        let table = sys::proc::read_process_table();
        let mut in_use = Self {
            named: Vec::new(),
            lineages: Vec::new(),
            closed: Vec::new(),
            listed: table.was_listed(),
        };
        for row in table.rows() {
            in_use.look_at(&table, row, may_be_agent);
        }
        in_use
    }

    fn look_at(
        &mut self,
        table: &ProcessTable,
        row: &ProcessRow,
        may_be_agent: fn(&ProcessAppearance) -> bool,
    ) {
        let pid = row.pid;
        // The first process began before there was any directory, and no process works in it.
        let is_system = pid == 1 || table.is_kernel_thread(pid);
        if is_system {
            return;
        }
        let Some(lineage) = table.cwd_lineage(pid) else {
            let keeps_secrets =
                || table.is_ours(pid) && !table.appearance(pid).is_none_or(|it| may_be_agent(&it));
            let passed_over = table.is_system_service(pid) || keeps_secrets();
            if !passed_over && !table.has_ended(pid) {
                self.closed.push((pid, row.uid));
            }
            return;
        };
        self.lineages.push((lineage, pid));
        let files = table.open_files(pid);
        if table.mount_view(pid) == MountView::Other {
            let within = |file: &PathBuf| table.lineage_within(pid, file.parent()?);
            let lineages = files.iter().filter_map(within).map(|lineage| (lineage, pid));
            self.lineages.extend(lineages);
        } else {
            self.named.extend(files.into_iter().map(|place| (place, pid)));
        }
    }

    /// A process that is seen to work in the directory or to have something below it open.
    pub(crate) fn find_user(&self, directory: &Path) -> Option<u32> {
        let id = FileId::from_path(directory);
        let by_name = self.named.iter().find(|(place, _)| place.starts_with(directory));
        let by_id = || {
            let is_below = |lineage: &[FileId]| id.is_some_and(|id| lineage.contains(&id));
            self.lineages.iter().find(|(lineage, _)| is_below(lineage)).map(|(_, pid)| *pid)
        };
        by_name.map(|(_, pid)| *pid).or_else(by_id)
    }

    /// Whether no process works in the directory or has something below it open.
    pub fn check_below(&self, directory: &Path) -> Result<(), Refusal> {
        if !self.listed {
            return Err(Refusal::Unproven { why: "processes cannot be listed".to_owned() });
        }
        if let Some(pid) = self.find_user(directory) {
            return Err(Refusal::WorkedIn { who: format!("pid {pid}") });
        }
        if self.closed.is_empty() {
            return Ok(());
        }
        // Whose the directory is says nothing of what is in it: a container writes to what it was given there.
        let facts = TreeFacts::walk(directory).map_err(|error| Refusal::Unreadable {
            why: format!("not all that is in it can be looked at: {error}"),
        })?;
        match self.closed.iter().find(|(_, uid)| facts.may_be_written_by(*uid)) {
            Some((pid, uid)) => Err(Refusal::Unproven {
                why: format!("pid {pid} of user {uid} cannot be looked into and may work there"),
            }),
            None => Ok(()),
        }
    }
}

/// A file in a directory that another process has open, whoever that is: the kernel itself is asked.
pub(crate) fn find_opened_file(directory: &Path) -> io::Result<Option<PathBuf>> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let found = if kind.is_dir() {
            find_opened_file(&path)?
        } else if kind.is_file() {
            // One that cannot be opened is another user's, and no word of anybody who uses it.
            let opened = sys::private::open_regular(&path).ok();
            opened.filter(sys::append::has_other_opener).map(|_| path)
        } else {
            None
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Whether no process has the file open. The kernel itself is asked, so no process is missed.
pub fn check_unopened(planned: &PlannedRemoval) -> Result<(), Refusal> {
    let file = match sys::private::open_regular(&planned.path) {
        Ok(file) => file,
        Err(error) => return Err(Refusal::Unreadable { why: error.to_string() }),
    };
    if sys::append::is_sole_opener(&file) {
        return Ok(());
    }
    Err(Refusal::Busy { who: "a process that has it open".to_owned() })
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Of no user of this machine.
    const SOMEBODY: u32 = 47_110;

    #[test]
    fn h3_what_is_anothers_below_a_directory_of_ours_is_a_doubt() {
        let home = tempfile::tempdir().unwrap();
        let in_use = InUse {
            named: Vec::new(),
            lineages: Vec::new(),
            closed: vec![(4711, SOMEBODY)],
            listed: true,
        };
        let data = home.path().join("data");
        create_dir(&data).unwrap();
        let mode = |bits| set_permissions(&data, Permissions::from_mode(bits)).unwrap();
        mode(0o755);
        in_use.check_below(home.path()).unwrap();
        mode(0o757);
        let refused = in_use.check_below(home.path()).unwrap_err();
        assert!(matches!(refused, Refusal::Unproven { .. }), "{refused}");
        mode(0o755);
        if testkit::access::is_root() {
            testkit::access::chown(&data, SOMEBODY);
            let refused = in_use.check_below(home.path()).unwrap_err();
            assert!(matches!(refused, Refusal::Unproven { .. }), "{refused}");
        }
    }
}
