//! The sandbox of an MCP server: which sessions it may see, and where it stands in a tree of agents.
//!
//! The author of the configuration chooses the scope and the rights; a call can widen neither. Where the
//! server stands is read from processes and terminals: an agent's environment may be filtered by its client.

use std::path::{Component, Path, PathBuf};

use flows::observe::{Observation, Observed};
use flows::repository::{worktree_root, worktrees_of};
use flows::terminal::{HostedSession, TerminalHome};
use model::conversation::{ConversationEntry, ConversationRole};
use model::session::{SessionKind, SessionName};
use sys::proc::ProcessTable;

/// What of a terminal's recorded variables says that an MCP server made it.
pub(super) mod marks {
    /// The outermost client: all terminals that descend from it have the same.
    pub(in crate::cli::mcp) const TREE: &str = "OSTLER_MCP_TREE";
    /// The client whose server made the terminal.
    pub(in crate::cli::mcp) const MAKER: &str = "OSTLER_MCP_MAKER";
    /// How many servers are above the terminal.
    pub(in crate::cli::mcp) const DEPTH: &str = "OSTLER_MCP_DEPTH";
    /// The sessions that they belong to, outermost first.
    pub(in crate::cli::mcp) const LINEAGE: &str = "OSTLER_MCP_LINEAGE";
}

/// Which sessions are seen.
#[derive(Clone, Debug)]
pub(super) enum VisibleScope {
    /// Those that work in one of these directories, or below.
    Project(Vec<PathBuf>),
    /// All of this user.
    Everything,
}

impl VisibleScope {
    /// The repository of a directory with its worktrees; outside of one, the directory.
    pub(super) fn of_project(directory: &Path) -> Self {
        let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        match worktree_root(&directory) {
            Some(root) => Self::Project(worktrees_of(&root)),
            None => Self::Project(vec![directory]),
        }
    }

    /// Whether what works in that directory is seen. One that a link leads to counts by where it is.
    pub(super) fn contains(&self, directory: Option<&str>) -> bool {
        let Self::Project(roots) = self else { return true };
        let Some(directory) = directory.map(Path::new) else { return false };
        if directory.components().any(|part| part == Component::ParentDir) {
            return false;
        }
        // A directory that is gone has no links any more.
        let place = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        roots.iter().any(|root| place.starts_with(root))
    }

    /// Whether a session is seen.
    pub(super) fn shows(&self, one: &Observed) -> bool {
        self.contains(one.session.digest.cwd.as_deref())
    }
}

/// Where a server stands.
#[derive(Clone, Debug)]
pub(super) struct ServerPlace {
    /// The client that started it, as terminals name it.
    pub(super) maker: String,
    /// The outermost client above it.
    pub(super) tree: String,
    /// How many servers are above it.
    pub(super) depth: u32,
    /// The sessions of those, outermost first.
    pub(super) lineage: Vec<String>,
}

impl ServerPlace {
    /// Reads it from the processes above this one and the terminals among them.
    pub(super) fn of_this_process(home: &TerminalHome) -> Self {
        let table = sys::proc::read_process_table();
        let me = std::process::id();
        let maker = client_name(&table, me);
        let around = home
            .readable_sessions()
            .unwrap_or_default()
            .into_iter()
            .find(|terminal| encloses(terminal, &table, me));
        let mark = |name: &str| Some(around.as_ref()?.manifest.env.as_ref()?.get(name)?.clone());
        let lineage = mark(marks::LINEAGE).unwrap_or_default();
        Self {
            tree: mark(marks::TREE).unwrap_or_else(|| maker.clone()),
            depth: mark(marks::DEPTH).and_then(|depth| depth.parse().ok()).unwrap_or(0),
            lineage: lineage
                .split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            maker,
        }
    }

    /// The variables of a terminal that is made here.
    pub(super) fn terminal_variables(&self, calling: Option<&SessionName>) -> Vec<String> {
        let mut lineage = self.lineage.clone();
        lineage.extend(calling.map(ToString::to_string));
        let pairs = [
            (marks::TREE, self.tree.clone()),
            (marks::MAKER, self.maker.clone()),
            (marks::DEPTH, (self.depth + 1).to_string()),
            (marks::LINEAGE, lineage.join(",")),
        ];
        pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// Whether a server of this client made the terminal, this one or one before it.
    pub(super) fn made(&self, terminal: &HostedSession) -> bool {
        has_mark(terminal, marks::MAKER, &self.maker)
    }

    /// Whether the terminal descends from the same outermost client.
    pub(super) fn is_of_tree(&self, terminal: &HostedSession) -> bool {
        has_mark(terminal, marks::TREE, &self.tree)
    }

    /// Whether a session is one of those above this server.
    pub(super) fn is_above(&self, name: &SessionName) -> bool {
        let name = name.to_string();
        self.lineage.contains(&name)
    }
}

fn has_mark(terminal: &HostedSession, name: &str, value: &str) -> bool {
    let recorded = terminal.manifest.env.as_ref().and_then(|env| env.get(name));
    recorded.is_some_and(|recorded| recorded == value)
}

/// Whether this process runs below the program of a terminal.
fn encloses(terminal: &HostedSession, table: &ProcessTable, me: u32) -> bool {
    let program = terminal.holder.as_ref().and_then(|holder| holder.child.as_ref());
    program.is_some_and(|program| table.descends_from(me, program))
}

/// A name for the client that started this server: the same for every server it starts, and never that of
/// another process. One that cannot be told apart gets a name that no other has.
fn client_name(table: &ProcessTable, me: u32) -> String {
    let parent = table.self_and_ancestors(me).nth(1).map(|row| row.pid);
    let identity = parent.and_then(|pid| sys::proc::identify_process(pid).ok());
    let lasting = identity.filter(|identity| identity.start.is_some() && identity.boot.is_some());
    let text = lasting.map(|one| format!("{:?}", (one.pid, one.start, one.boot, one.pid_ns)));
    let text = text.or_else(|| sys::random::new_ulid().ok()).unwrap_or_else(|| me.to_string());
    sys::hash::sha256(text.as_bytes())[..16].to_owned()
}

/// The session that called: the agent that this server runs below, the nearest one.
pub(super) fn calling_session(observation: &Observation) -> Option<&Observed> {
    let table = sys::proc::read_process_table();
    let above: Vec<u32> =
        table.self_and_ancestors(std::process::id()).skip(1).map(|row| row.pid).collect();
    let depth_of = |one: &Observed| {
        let claim = one.verdict.decided_by.map(|index| &one.session.claims[index])?;
        let pid = claim.identity.pid.filter(|_| one.verdict.liveness.is_alive())?;
        above.iter().position(|ancestor| *ancestor == pid)
    };
    let native = observation.sessions.iter().filter(|one| one.session.kind == SessionKind::Native);
    native
        .filter_map(|one| Some((depth_of(one)?, one)))
        .min_by_key(|(depth, _)| *depth)
        .map(|found| found.1)
}

/// How many sessions a prompt may have come through before it counts as a loop.
const MOST_RELAYS: usize = 8;

const MARK_BEGIN: &str = "[from ";
const MARK_END: &str = ", by ostler mcp] ";

/// What a prompt of a program's begins with: who reads it can tell it from a person's.
pub(super) fn sender_mark(sender: &str) -> String {
    format!("{MARK_BEGIN}{sender}{MARK_END}")
}

/// Who sent a prompt, if a program did.
fn marked_sender(prompt: &str) -> Option<&str> {
    let (sender, _) = prompt.strip_prefix(MARK_BEGIN)?.split_once(MARK_END)?;
    Some(sender)
}

/// The program that a session's last prompt came from; a person's says nothing.
fn last_sender(one: &Observed) -> Option<String> {
    let mut last = None;
    let mut note = |entry: ConversationEntry| {
        if entry.role == ConversationRole::User {
            last = marked_sender(&entry.text).map(str::to_owned);
        }
    };
    let source = one.source.as_ref()?;
    flows::converse::read_conversation(one.session.agent, source, 0, &mut note).ok()?;
    last
}

/// Whether the caller is at work because the target prompted it, itself or through others: then a prompt
/// to the target would go round for ever.
pub(super) fn is_answering(
    observation: &Observation,
    caller: &Observed,
    target: &SessionName,
) -> bool {
    let mut at = caller;
    for _ in 0..MOST_RELAYS {
        let Some(sender) = last_sender(at) else { return false };
        if sender == target.to_string() {
            return true;
        }
        let is_it = |one: &&Observed| one.session.session_name().to_string() == sender;
        match observation.sessions.iter().find(is_it) {
            Some(next) => at = next,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_87_the_mark_names_its_sender_and_nothing_else_does() {
        assert_eq!(marked_sender(&(sender_mark("codex:a") + "go on")), Some("codex:a"));
        assert_eq!(marked_sender("please read [from codex:a, by ostler mcp] x"), None);
        assert_eq!(marked_sender("[from the start"), None);
    }

    #[test]
    fn row_84_a_project_is_its_directory_its_worktrees_and_nothing_beside() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let project = base.join("project");
        let beside = base.join("project-two");
        std::fs::create_dir_all(project.join(".git")).unwrap();
        std::fs::create_dir_all(project.join("src")).unwrap();
        std::fs::create_dir_all(&beside).unwrap();
        std::os::unix::fs::symlink(&beside, project.join("out")).unwrap();
        std::os::unix::fs::symlink(&project, base.join("link")).unwrap();
        let scope = VisibleScope::of_project(&project.join("src"));
        let sees = |path: PathBuf| scope.contains(path.to_str());
        assert!(sees(project.clone()));
        assert!(sees(project.join("src")));
        assert!(sees(project.join("gone")));
        assert!(sees(base.join("link/src")), "the same place by another name");
        assert!(!sees(beside.clone()));
        assert!(!sees(project.join("out")), "a link out of the project");
        assert!(!sees(project.join("gone/../../project-two")));
        assert!(!scope.contains(None));
        assert!(VisibleScope::Everything.contains(None));
    }
}
