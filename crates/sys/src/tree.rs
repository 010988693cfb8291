//! Process trees: everything that descends from a process, each of them named by its identity.
//!
//! A tree is gathered from one look at the process table, which takes a moment: a pid may be handed on
//! meanwhile. A parent is believed only if it began before its child, which one that was given a used pid
//! did not, and every member is identified anew, held on to and checked before it is signalled.

use std::collections::HashMap;

use model::identity::Identity;
use model::liveness::{Observer, RunState};

use crate::proc::{
    ProcessRow, ProcessTable, Signal, SignalError, identify_as, probe_liveness, signal_process,
};

/// The descendants of a process, without the process itself.
#[derive(Clone, Debug, Default)]
pub struct ProcessTree {
    members: Vec<Identity>,
}

/// A member that was to get a signal, may be there, and did not get it.
#[derive(Debug)]
pub struct UnsignalledProcess {
    identity: Identity,
    error: SignalError,
}

impl std::fmt::Display for UnsignalledProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let comm = self.identity.comm.as_deref().unwrap_or("unknown");
        write!(f, "process {} ({comm}): {}", self.identity.pid.unwrap_or(0), self.error)
    }
}

impl ProcessTree {
    /// Finds all that descends from `root` and runs. What `is_apart` says of stays out, with all below it.
    pub fn gather(
        table: &ProcessTable,
        root: &Identity,
        observer: &Observer,
        is_apart: impl Fn(&ProcessRow) -> bool,
    ) -> Self {
        let (Some(pid), Some(start)) = (root.pid, root.start) else { return Self::default() };
        let Some(root) = table.get(pid).filter(|row| row.start == start) else {
            return Self::default();
        };
        let mut children: HashMap<u32, Vec<&ProcessRow>> = HashMap::new();
        for row in table.rows().iter().filter(|row| row.pid != root.pid) {
            children.entry(row.ppid).or_default().push(row);
        }
        let mut found = Vec::new();
        let mut parents = vec![root];
        while let Some(parent) = parents.pop() {
            // Taken out: even if the table shows a loop, no process is visited twice.
            for child in children.remove(&parent.pid).unwrap_or_default() {
                if child.start >= parent.start && !is_apart(child) {
                    found.push(child);
                    parents.push(child);
                }
            }
        }
        let running = found.into_iter().filter(|row| row.state != RunState::Exited);
        let identify = |row: &ProcessRow| {
            let identity = identify_as(row.pid, observer).ok()?;
            (identity.start == Some(row.start)).then_some(identity)
        };
        Self { members: running.filter_map(identify).collect() }
    }

    pub fn members(&self) -> &[Identity] {
        &self.members
    }

    /// Adds what another look found.
    pub fn merge(&mut self, other: Self) {
        for one in other.members {
            let known = |old: &Identity| old.pid == one.pid && old.start == one.start;
            if !self.members.iter().any(known) {
                self.members.push(one);
            }
        }
    }

    /// Sends a signal to every member that `wanted` says of, and to no other process. One that has ended, or
    /// cannot be proven to be the one that was found, gets none. Returns those that may be there and were
    /// not signalled.
    pub fn signal(
        &self,
        signal: Signal,
        observer: &Observer,
        wanted: impl Fn(u32) -> bool,
    ) -> Vec<UnsignalledProcess> {
        let wanted = self.members.iter().filter(|member| member.pid.is_some_and(&wanted));
        let missed = wanted.filter_map(|member| {
            let error = signal_process(member, signal, observer).err()?;
            // One that has ended meanwhile needs none.
            let has_ended = matches!(&error, SignalError::NotAlive(seen) if seen.is_dead());
            (!has_ended).then(|| UnsignalledProcess { identity: member.clone(), error })
        });
        missed.inspect(|missed| tracing::debug!(%missed, "not signalled")).collect()
    }

    /// Whether one of them still runs.
    pub fn has_survivors(&self, observer: &Observer) -> bool {
        self.members.iter().any(|member| probe_liveness(member, observer).is_alive())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::proc::{current_observer, identify_process, read_process_table};

    #[test]
    fn k3_a_tree_has_the_members_with_sessions_of_their_own_and_no_one_else() {
        let mut parent = Command::new("/bin/sh")
            .args(["-c", "setsid sleep 1000 & sleep 1000 & echo ready; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
        let mut line = String::new();
        BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let observer = current_observer();
        let root = identify_process(parent.id()).unwrap();
        let gather = |root: &Identity| {
            ProcessTree::gather(&read_process_table(), root, &observer, |_| false)
        };
        let tree = gather(&root);
        let pids: Vec<u32> = tree.members().iter().filter_map(|one| one.pid).collect();
        assert_eq!(pids.len(), 2, "{tree:?}");
        assert!(!pids.contains(&other.id()) && !pids.contains(&parent.id()));
        // Another process with the same number is not its parent.
        let replaced = Identity { start: root.start.map(|start| start + 1), ..root.clone() };
        assert!(gather(&replaced).members().is_empty());
        assert!(tree.signal(Signal::Kill, &observer, |_| true).is_empty());
        parent.wait().unwrap();
        assert!(!tree.has_survivors(&observer));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_member_that_cannot_be_signalled_is_told_with_its_reason() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let observer = current_observer();
        let member = identify_process(child.id()).unwrap();
        let elsewhere = Identity { pid_ns: member.pid_ns.map(|ns| ns + 1), ..member.clone() };
        let tree = ProcessTree { members: vec![elsewhere] };
        let missed = tree.signal(Signal::Kill, &observer, |_| true);
        let told = missed.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(told.contains(&format!("process {} (sleep)", child.id())), "{told}");
        assert!(told.contains("foreign-namespace"), "{told}");
        assert!(tree.signal(Signal::Kill, &observer, |_| false).is_empty(), "nobody was meant");
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        let tree = ProcessTree { members: vec![member] };
        assert!(tree.signal(Signal::Kill, &observer, |_| true).is_empty(), "it has ended");
    }
}
