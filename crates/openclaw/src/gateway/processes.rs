//! What the process table says about who owns OpenClaw's files.
//!
//! A process says which files it uses by its environment. While one begins or ends it shows none: a
//! large one that was killed gives its memory back for half a second in which nothing is left of it but
//! its name. It cannot be said then that it has nothing to do with these files, so it is waited for.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use adapters::EnvLookup;
use model::identity::Identity;
use model::liveness::Observer;
use model::program::AgentProgram;
use sys::proc::{IdentifyError, ProcessRow, ProcessTable};

use super::owner::{GatewayOwner, same_directory};
use crate::config::OpenClawConfig;
use crate::timeouts::{PROCESS_POLL_INTERVAL, PROCESS_SETTLE_TIMEOUT};

/// What the processes of OpenClaw's that are there have to do with these files.
pub(super) fn owners_by_processes(
    config: &OpenClawConfig,
    observer: &Observer,
) -> Vec<GatewayOwner> {
    let Some(adapter) = adapters::by_id("openclaw") else { return Vec::new() };
    let table = sys::proc::read_process_table();
    let mut findings = Vec::new();
    if !observer.sees_every_process() || !table.was_listed() || table.unreadable_count() > 0 {
        findings.push(GatewayOwner::Doubt("not every process can be seen from here".to_owned()));
    }
    let look =
        ProcessProbe { config, observer, table: &table, program: adapter.agent_profile().program };
    let until = Instant::now() + PROCESS_SETTLE_TIMEOUT;
    for row in table.rows() {
        // A first look at every process; a candidate is looked at again.
        if table.appearance_unchecked(row.pid).is_some_and(|seen| look.program.is_program(&seen)) {
            findings.extend(probe_until_settled(|| look.probe_process(row), until));
        }
    }
    findings
}

/// What one process has to do with these files.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProcessSight {
    /// Nothing, or it is gone.
    Nothing,
    Something(GatewayOwner),
    /// It cannot be told: it shows no environment.
    Untold(GatewayOwner),
}

/// Looks at a process until it can be told what it has to do with these files, or until that is as good
/// as it gets.
fn probe_until_settled(
    mut look: impl FnMut() -> ProcessSight,
    until: Instant,
) -> Option<GatewayOwner> {
    loop {
        match look() {
            ProcessSight::Nothing => return None,
            ProcessSight::Something(finding) => return Some(finding),
            ProcessSight::Untold(finding) if Instant::now() >= until => return Some(finding),
            ProcessSight::Untold(_) => {
                sys::pause::pause_at("gateway.untold");
                std::thread::sleep(PROCESS_POLL_INTERVAL);
            }
        }
    }
}

/// What a process is looked at with.
struct ProcessProbe<'a> {
    config: &'a OpenClawConfig,
    observer: &'a Observer,
    table: &'a ProcessTable,
    program: AgentProgram,
}

impl ProcessProbe<'_> {
    /// Looks at one process as it is now.
    fn probe_process(&self, row: &ProcessRow) -> ProcessSight {
        let pid = row.pid;
        let seen = self.table.appearance(pid).filter(|seen| self.program.is_program(seen));
        let Some(seen) = seen else { return ProcessSight::Nothing };
        let who = match sys::proc::identify_as(pid, self.observer) {
            Ok(who) => who,
            Err(IdentifyError::NotRunning(_)) => return ProcessSight::Nothing,
            Err(error) => return ProcessSight::Something(GatewayOwner::Doubt(error.to_string())),
        };
        let sight = self.probe_environment(row, &who, &seen.args);
        // One that ended while it was looked at could not be read any more, and is gone.
        if sys::proc::probe_liveness(&who, self.observer).is_dead() {
            ProcessSight::Nothing
        } else {
            sight
        }
    }

    fn probe_environment(&self, row: &ProcessRow, who: &Identity, args: &[String]) -> ProcessSight {
        let pid = row.pid;
        if row.uid != self.observer.uid {
            // A process that may not enter the directory does not write there.
            if row.uid != 0 && is_shut(&self.config.state, self.observer.uid) {
                return ProcessSight::Nothing;
            }
            let user = row.uid;
            let why = format!("process {pid} of user {user} is OpenClaw, and may use them");
            return ProcessSight::Something(GatewayOwner::Doubt(why));
        }
        let profile = profile_argument(args);
        let lookup = |name: &str| match &profile {
            Some(profile) if name == "OPENCLAW_PROFILE" => Some(profile.into()),
            _ => self.table.environ_value(pid, name),
        };
        let env = EnvLookup::new(&lookup);
        let roots =
            adapters::by_id("openclaw").map(|one| one.session_roots(&env)).unwrap_or_default();
        if roots.is_empty() {
            let why =
                format!("process {pid} is OpenClaw, and it cannot be told which files it uses");
            return ProcessSight::Untold(GatewayOwner::Doubt(why));
        }
        let uses_state = roots.iter().any(|root| same_directory(root, &self.config.state));
        let uses_config = env
            .path_of("OPENCLAW_CONFIG_PATH")
            .is_some_and(|path| same_directory(&path, &self.config.path));
        if uses_state || uses_config {
            let why = format!("process {pid} is OpenClaw and uses them");
            return ProcessSight::Something(GatewayOwner::Live { who: Box::new(who.clone()), why });
        }
        ProcessSight::Nothing
    }
}

/// The profile that a command line names.
fn profile_argument(args: &[String]) -> Option<String> {
    args.iter().enumerate().skip(1).find_map(|(index, arg)| match arg.as_str() {
        "--dev" => Some("dev".to_owned()),
        "--profile" => args.get(index + 1).cloned(),
        other => other.strip_prefix("--profile=").map(str::to_owned),
    })
}

/// Whether no user but this one and root can enter a directory.
fn is_shut(directory: &Path, uid: u32) -> bool {
    std::fs::metadata(directory)
        .is_ok_and(|metadata| metadata.uid() == uid && metadata.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn doubt() -> GatewayOwner {
        GatewayOwner::Doubt("it cannot be told".to_owned())
    }

    /// What comes of these sights, one after the other, and how many of them were needed.
    fn after(sights: &[ProcessSight], patience: Duration) -> (Option<GatewayOwner>, usize) {
        let mut needed = 0;
        let look = || {
            needed += 1;
            sights.get(needed - 1).unwrap_or(&sights[sights.len() - 1]).clone()
        };
        let found = probe_until_settled(look, Instant::now() + patience);
        (found, needed)
    }

    #[test]
    fn a_process_that_begins_or_ends_is_looked_at_again() {
        let live = GatewayOwner::Doubt("another user's".to_owned());
        let untold = ProcessSight::Untold(doubt());
        let long = Duration::from_mins(10);
        assert_eq!(after(&[untold.clone(), ProcessSight::Nothing], long), (None, 2));
        let told = ProcessSight::Something(live.clone());
        assert_eq!(after(&[untold.clone(), untold, told.clone()], long), (Some(live.clone()), 3));
        assert_eq!(after(&[told], Duration::ZERO), (Some(live), 1));
    }

    #[test]
    fn one_that_never_tells_stays_a_doubt() {
        assert_eq!(after(&[ProcessSight::Untold(doubt())], Duration::ZERO), (Some(doubt()), 1));
        let (found, needed) = after(&[ProcessSight::Untold(doubt())], PROCESS_POLL_INTERVAL * 3);
        assert!(found == Some(doubt()) && needed > 1, "{needed}");
    }
}
