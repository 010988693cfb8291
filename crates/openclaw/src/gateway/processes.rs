//! What the process table says about who owns OpenClaw's files.
//!
//! A process says which files it uses by its environment. While one begins or ends it shows none: a
//! large one that was killed gives its memory back for half a second in which nothing is left of it but
//! its name. Nobody can say then that it has nothing to do with these files, so it is waited for.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use adapters::Env;
use model::identity::Identity;
use model::liveness::Observer;
use model::program::Program;
use sys::proc::{IdentifyError, ProcessRow, Table};

use super::owner::{Owner, same};
use crate::config::Config;

/// How long a process may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(3);

/// How soon it is looked at again.
const SOON: Duration = Duration::from_millis(10);

/// What the processes of OpenClaw's that are there have to do with these files.
pub(super) fn processes(config: &Config, observer: &Observer) -> Vec<Owner> {
    let Some(adapter) = adapters::by_id("openclaw") else { return Vec::new() };
    let table = sys::proc::table();
    let mut findings = Vec::new();
    if !observer.sees_every_process() || !table.listed() || table.unreadable() > 0 {
        findings.push(Owner::Doubt("not every process can be seen from here".to_owned()));
    }
    let look = Look { config, observer, table: &table, program: adapter.about().program };
    let until = Instant::now() + PATIENCE;
    for row in table.rows() {
        // A first look at everybody; whoever is of interest is looked at again.
        if table.glance(row.pid).is_some_and(|seen| look.program.is_program(&seen)) {
            findings.extend(settled(|| look.at(row), until));
        }
    }
    findings
}

/// What one process has to do with these files.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sight {
    /// Nothing, or it is gone.
    Nothing,
    /// This.
    Something(Owner),
    /// It cannot be told: it shows no environment.
    Untold(Owner),
}

/// Looks at a process until it can be told what it has to do with these files, or until that is as good
/// as it gets.
fn settled(mut look: impl FnMut() -> Sight, until: Instant) -> Option<Owner> {
    loop {
        match look() {
            Sight::Nothing => return None,
            Sight::Something(finding) => return Some(finding),
            Sight::Untold(finding) if Instant::now() >= until => return Some(finding),
            Sight::Untold(_) => {
                sys::pause::at("gateway.untold");
                std::thread::sleep(SOON);
            }
        }
    }
}

/// What a process is looked at with.
struct Look<'a> {
    config: &'a Config,
    observer: &'a Observer,
    table: &'a Table,
    program: Program,
}

impl Look<'_> {
    /// Looks at one process as it is now.
    fn at(&self, row: &ProcessRow) -> Sight {
        let pid = row.pid;
        let seen = self.table.appearance(pid).filter(|seen| self.program.is_program(seen));
        let Some(seen) = seen else { return Sight::Nothing };
        let who = match sys::proc::identify_as(pid, self.observer) {
            Ok(who) => who,
            Err(IdentifyError::NotRunning(_)) => return Sight::Nothing,
            Err(error) => return Sight::Something(Owner::Doubt(error.to_string())),
        };
        let sight = self.of(row, &who, &seen.args);
        // One that ended while it was looked at could not be read any more, and is gone.
        if sys::proc::probe(&who, self.observer).is_dead() { Sight::Nothing } else { sight }
    }

    fn of(&self, row: &ProcessRow, who: &Identity, args: &[String]) -> Sight {
        let pid = row.pid;
        if row.uid != self.observer.uid {
            // Whoever may not enter the directory does not write there.
            if row.uid != 0 && is_shut(&self.config.state, self.observer.uid) {
                return Sight::Nothing;
            }
            let user = row.uid;
            let why = format!("process {pid} of user {user} is OpenClaw, and may use them");
            return Sight::Something(Owner::Doubt(why));
        }
        let profile = profile(args);
        let lookup = |name: &str| match &profile {
            Some(profile) if name == "OPENCLAW_PROFILE" => Some(profile.into()),
            _ => self.table.environ_value(pid, name),
        };
        let env = Env::new(&lookup);
        let roots = adapters::by_id("openclaw").map(|one| one.roots(&env)).unwrap_or_default();
        if roots.is_empty() {
            let why =
                format!("process {pid} is OpenClaw, and it cannot be told which files it uses");
            return Sight::Untold(Owner::Doubt(why));
        }
        let uses_state = roots.iter().any(|root| same(root, &self.config.state));
        let uses_config =
            env.path("OPENCLAW_CONFIG_PATH").is_some_and(|path| same(&path, &self.config.path));
        if uses_state || uses_config {
            let why = format!("process {pid} is OpenClaw and uses them");
            return Sight::Something(Owner::Live { who: Box::new(who.clone()), why });
        }
        Sight::Nothing
    }
}

/// The profile that a command line names.
fn profile(args: &[String]) -> Option<String> {
    args.iter().enumerate().skip(1).find_map(|(index, arg)| match arg.as_str() {
        "--dev" => Some("dev".to_owned()),
        "--profile" => args.get(index + 1).cloned(),
        other => other.strip_prefix("--profile=").map(str::to_owned),
    })
}

/// Whether nobody but this user and root can enter a directory.
fn is_shut(directory: &Path, uid: u32) -> bool {
    std::fs::metadata(directory)
        .is_ok_and(|metadata| metadata.uid() == uid && metadata.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubt() -> Owner {
        Owner::Doubt("it cannot be told".to_owned())
    }

    /// What comes of these sights, one after the other, and how many of them were needed.
    fn after(sights: &[Sight], patience: Duration) -> (Option<Owner>, usize) {
        let mut needed = 0;
        let look = || {
            needed += 1;
            sights.get(needed - 1).unwrap_or(&sights[sights.len() - 1]).clone()
        };
        let found = settled(look, Instant::now() + patience);
        (found, needed)
    }

    #[test]
    fn a_process_that_begins_or_ends_is_looked_at_again() {
        let live = Owner::Doubt("another user's".to_owned());
        let untold = Sight::Untold(doubt());
        let long = Duration::from_mins(10);
        assert_eq!(after(&[untold.clone(), Sight::Nothing], long), (None, 2));
        let told = Sight::Something(live.clone());
        assert_eq!(after(&[untold.clone(), untold, told.clone()], long), (Some(live.clone()), 3));
        assert_eq!(after(&[told], Duration::ZERO), (Some(live), 1));
    }

    #[test]
    fn one_that_never_tells_stays_a_doubt() {
        assert_eq!(after(&[Sight::Untold(doubt())], Duration::ZERO), (Some(doubt()), 1));
        let (found, needed) = after(&[Sight::Untold(doubt())], SOON * 3);
        assert!(found == Some(doubt()) && needed > 1, "{needed}");
    }
}
