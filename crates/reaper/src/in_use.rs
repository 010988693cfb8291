//! Which files and directories processes are using now.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::plan::Refusal;
use sys::proc::{FileId, MountView, ProcessRow, ProcessTable};

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
    /// Looks at all processes.
    pub fn scan_processes() -> Self {
        let table = sys::proc::read_process_table();
        let mut in_use = Self {
            named: Vec::new(),
            lineages: Vec::new(),
            closed: Vec::new(),
            listed: table.was_listed(),
        };
        for row in table.rows() {
            in_use.look_at(&table, row);
        }
        in_use
    }

    fn look_at(&mut self, table: &ProcessTable, row: &ProcessRow) {
        let pid = row.pid;
        // The first process began before there was any directory, and no process works in it.
        let is_system = pid == 1 || table.is_kernel_thread(pid);
        if is_system {
            return;
        }
        let Some(lineage) = table.cwd_lineage(pid) else {
            // Agents and shells of our own user let themselves be looked into; keepers of secrets (an
            // `ssh-agent`) do not.
            let passed_over = table.is_ours(pid) || table.is_system_service(pid);
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

    /// Whether no process works in the directory or has something below it open.
    pub fn check_below(&self, directory: &Path) -> Result<(), Refusal> {
        if !self.listed {
            return Err(Refusal::Unproven { why: "processes cannot be listed".to_owned() });
        }
        let id = FileId::from_path(directory);
        let by_name = self.named.iter().find(|(place, _)| place.starts_with(directory));
        let by_id = || {
            let is_below = |lineage: &[FileId]| id.is_some_and(|id| lineage.contains(&id));
            self.lineages.iter().find(|(lineage, _)| is_below(lineage)).map(|(_, pid)| pid)
        };
        if let Some(pid) = by_name.map(|(_, pid)| pid).or_else(by_id) {
            return Err(Refusal::WorkedIn { who: format!("pid {pid}") });
        }
        match self.closed.iter().find(|(_, uid)| may_write(directory, *uid)) {
            Some((pid, uid)) => Err(Refusal::Unproven {
                why: format!("pid {pid} of user {uid} cannot be looked into and may work there"),
            }),
            None => Ok(()),
        }
    }
}

/// Whether a user may write in a directory. Which groups it is in is not known; what cannot be looked
/// at may be written by anybody.
fn may_write(directory: &Path, uid: u32) -> bool {
    let about = std::fs::metadata(directory);
    about.map_or(true, |about| uid == 0 || uid == about.uid() || about.mode() & 0o022 != 0)
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
