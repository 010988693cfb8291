//! What is wrong with access sessions, for `doctor`.

use std::path::Path;

use crate::rules::ACCESS_AGENT_NAME;
use sys::machine::Machine;

use super::{AccessRoot, list};

/// What kind of thing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFindingCode {
    /// The directories are not ours alone.
    Root,
    /// An entry breaks a rule.
    Unknown,
    /// The session is over and its agent is not.
    AgentOutlives,
    /// The session is not over and its agent is gone.
    AgentGone,
    /// No process serves the lent socket.
    KeeperGone,
    /// What it was lent to is gone.
    Orphaned,
    /// It may be pruned.
    Finished,
    /// An agent of ours that no record names.
    StrayAgent,
}

impl AccessFindingCode {
    /// Whether something is wrong, and not only worth knowing.
    pub const fn is_problem(self) -> bool {
        match self {
            Self::Root | Self::AgentOutlives | Self::KeeperGone | Self::StrayAgent => true,
            Self::Unknown | Self::AgentGone | Self::Orphaned | Self::Finished => false,
        }
    }
}

/// One thing that needs a person's attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessFinding {
    pub code: AccessFindingCode,
    /// The session, if it is about one.
    pub id: Option<String>,
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

/// Open directories, agents that outlived their session, sessions whose agent is gone, entries that
/// break a rule. Reads only; asks no socket.
pub fn find_problems(machine: &Machine) -> Vec<AccessFinding> {
    let sessions = match list::list_access(machine, false) {
        Ok(sessions) => sessions,
        Err(fault) => {
            return vec![AccessFinding {
                code: AccessFindingCode::Root,
                id: None,
                message: fault.to_string(),
                remedy: "make it a directory of yours with mode 0700; look at what is in it first"
                    .to_owned(),
            }];
        }
    };
    let mut found = Vec::new();
    let mut agents = Vec::new();
    for session in &sessions {
        let id = &session.id;
        let mut add = |code, message: String, remedy: String| {
            found.push(AccessFinding { code, id: Some(id.clone()), message, remedy });
        };
        let Some(agent) = &session.agent else {
            let why = session.note.as_deref().unwrap_or("it cannot be read");
            let code = session.reason.unwrap_or("SKIP_UNKNOWN");
            add(
                AccessFindingCode::Unknown,
                format!("{code}: {why}"),
                "look at its directory yourself; ostler will not touch it".to_owned(),
            );
            continue;
        };
        agents.push(agent.pid);
        let words =
            format!("its agent (pid {}) is {} ({})", agent.pid, agent.presence, agent.reason);
        match (session.state, agent.presence) {
            ("expired" | "stopped", "present") => {
                let message = format!("it is {}, and {words}", session.state);
                add(
                    AccessFindingCode::AgentOutlives,
                    message,
                    format!("`ostler access stop {id}`"),
                );
            }
            ("active", "absent") => {
                let message = format!("it is active, but {words}");
                add(AccessFindingCode::AgentGone, message, format!("`ostler access stop {id}`"));
            }
            ("expired" | "stopped", "absent") => {
                let message = format!("it is {} and its agent is gone", session.state);
                add(AccessFindingCode::Finished, message, "`ostler access prune`".to_owned());
            }
            _ => {}
        }
        if session.keeper == Some("dead") && agent.presence == "present" {
            add(
                AccessFindingCode::KeeperGone,
                "its agent is there, but nobody serves its socket".to_owned(),
                format!("`ostler access stop {id}`"),
            );
        }
        if session.session.as_ref().is_some_and(|bound| bound.owner == "dead")
            && session.state != "stopped"
        {
            add(
                AccessFindingCode::Orphaned,
                "the session it was lent to is gone".to_owned(),
                "`ostler access stop --orphaned`".to_owned(),
            );
        }
    }
    found.extend(find_stray_agents(machine, &agents));
    found
}

/// Agents that listen in our directory and that no record names: their session's directory is gone,
/// or was never finished.
fn find_stray_agents(machine: &Machine, known: &[u32]) -> Vec<AccessFinding> {
    let Ok(Some(root)) = AccessRoot::find(machine.home()) else { return Vec::new() };
    let sessions = root.sessions_path();
    let table = sys::proc::read_process_table();
    let ours = table.rows().into_iter().filter(|row| {
        row.uid == machine.observer().uid
            && row.comm == ACCESS_AGENT_NAME
            && !known.contains(&row.pid)
    });
    ours.filter_map(|row| {
        let looks = table.appearance(row.pid)?;
        let socket = looks.args.iter().skip_while(|arg| *arg != "-a").nth(1)?;
        Path::new(socket).starts_with(&sessions).then(|| AccessFinding {
            code: AccessFindingCode::StrayAgent,
            id: None,
            message: format!(
                "an ssh-agent (pid {}) runs for a session that has no record",
                row.pid
            ),
            remedy: format!("look at it (`ps {}`) and end it yourself", row.pid),
        })
    })
    .collect()
}
