//! Process trees: everything that descends from a process, each of them named by its identity.
//!
//! A tree is gathered from one look at the process table, which takes a moment: a pid may be handed on
//! meanwhile. A parent is believed only if it began before its child, which one that was given a used pid
//! did not, and every member is identified anew, held on to and checked before it is signalled.

use std::collections::HashMap;

use model::identity::Identity;
use model::liveness::{Observer, RunState};

use crate::proc::{ProcessRow, ProcessTable, Signal, identify_as, probe_liveness, signal_process};

/// The descendants of a process, without the process itself.
#[derive(Clone, Debug, Default)]
pub struct ProcessTree {
    members: Vec<Identity>,
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
            // Taken out: whatever loops the table may show, nobody is visited twice.
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

    /// Its members.
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

    /// Sends a signal to every member that `wanted` says of, and to nobody else. One that has ended, or
    /// cannot be proven to be the one that was found, gets none.
    pub fn signal(&self, signal: Signal, observer: &Observer, wanted: impl Fn(u32) -> bool) {
        for member in &self.members {
            if member.pid.is_some_and(&wanted) {
                // Whoever has ended meanwhile needs none; whoever may not be signalled stays.
                let _ = signal_process(member, signal, observer);
            }
        }
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
        tree.signal(Signal::Kill, &observer, |_| true);
        parent.wait().unwrap();
        assert!(!tree.has_survivors(&observer));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
