//! Which files and directories processes are using now.

use std::path::{Path, PathBuf};

use model::plan::Refusal;

use crate::collect::Planned;

/// Where processes work, and what they have open.
#[derive(Debug)]
pub(super) struct InUse {
    places: Vec<(PathBuf, u32)>,
    listed: bool,
}

impl InUse {
    /// Looks at all processes. One that does not let itself be looked into (an `ssh-agent`, a password
    /// store) is passed over: agents and shells do.
    pub(super) fn look() -> Self {
        let table = sys::proc::table();
        let places = table.rows().iter().flat_map(|row| {
            let files = table.open_files(row.pid).into_iter();
            files.chain(table.cwd(row.pid)).map(|place| (place, row.pid))
        });
        Self { places: places.collect(), listed: table.listed() }
    }

    /// Whether nobody works in the directory or has something below it open.
    pub(super) fn check_below(&self, directory: &Path) -> Result<(), Refusal> {
        if !self.listed {
            return Err(Refusal::Unproven { why: "processes cannot be listed".to_owned() });
        }
        match self.places.iter().find(|(place, _)| place.starts_with(directory)) {
            Some((_, pid)) => Err(Refusal::WorkedIn { who: format!("pid {pid}") }),
            None => Ok(()),
        }
    }
}

/// Whether nobody has the file open. The kernel itself is asked, so nobody can hide.
pub(super) fn check_unopened(planned: &Planned) -> Result<(), Refusal> {
    let file = match sys::private::open_regular(&planned.path) {
        Ok(file) => file,
        Err(error) => return Err(Refusal::Unreadable { why: error.to_string() }),
    };
    if sys::append::is_sole_opener(&file) {
        return Ok(());
    }
    Err(Refusal::Busy { who: "a process that has it open".to_owned() })
}
