//! The coding agents among the processes of this machine.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use adapters::{Adapter, EnvLookup};
use model::config::OstlerConfig;
use model::liveness::Observer;
use model::program::ProcessAppearance;
use model::time::Time;
use sys::proc::{FileId, MountView, ProcessRow, ProcessTable};

/// One run of an agent: a process, or a wrapper together with what it re-executes, and the server that it has started
/// for itself. An agent that another one starts is a run of its own.
#[derive(Debug)]
pub(super) struct AgentRun {
    pub(super) adapter: &'static dyn Adapter,
    /// Every process of the run, wrappers first.
    pub(super) pids: Vec<u32>,
    /// The kernel's start time of each of them.
    starts: Vec<u64>,
    /// When the first of them started.
    pub(super) started_at: Option<Time>,
    /// The earliest that it may have written anything, by the clock as it was set then.
    pub(super) writes_since: Option<Time>,
    /// The directory of the innermost process.
    pub(super) cwd: Option<PathBuf>,
    /// The session id it was started with.
    pub(super) argument: Option<String>,
    /// Whether it was told to go on with the newest session.
    pub(super) continues: bool,
    /// The session id in its environment.
    pub(super) variable: Option<String>,
    /// Where, by its own environment, it keeps its sessions. Empty when that cannot be read.
    pub(super) roots: Vec<PathBuf>,
    /// What that directory and those above it are: another mount namespace may call them by other names.
    pub(super) cwd_lineage: Vec<FileId>,
    /// The same of `roots`, where paths mean something else to it.
    pub(super) root_ids: Vec<FileId>,
    /// Whether paths mean the same to it as to us.
    pub(super) mounts: MountView,
    pub(super) uid: u32,
    /// Whether it runs as our own user.
    pub(super) ours: bool,
    /// Whether it is a server, whose directory says nothing about its sessions.
    pub(super) server: bool,
}

impl AgentRun {
    /// The process that does the work.
    pub(super) fn innermost_pid(&self) -> u32 {
        self.pids.last().copied().unwrap_or(0)
    }

    /// Its processes, each with the kernel's start time: a pid is given again.
    fn processes(&self) -> impl Iterator<Item = (u32, u64)> {
        std::iter::zip(self.pids.iter().copied(), self.starts.iter().copied())
    }

    /// Whether it works in a directory, by name or by what it is; or, `from_below`, in one below it. Of a session whose
    /// directory is not known it may be the one.
    pub(super) fn works_in(&self, cwd: Option<&str>, from_below: bool) -> bool {
        let Some(cwd) = cwd.map(Path::new) else { return true };
        let deepest = if from_below { self.cwd_lineage.len() } else { 1 };
        let by_name = |own: &Path| own == cwd || (from_below && own.starts_with(cwd));
        self.cwd.as_deref().is_some_and(by_name)
            || FileId::from_path(cwd)
                .is_some_and(|id| self.cwd_lineage.iter().take(deepest).any(|own| *own == id))
    }

    /// What it may have to do with the sessions below a root.
    pub(super) fn reach(&self, root: &Root) -> Reach {
        if !self.ours {
            return if root.may_be_written_by(self.uid) { Reach::Unseen } else { Reach::None };
        }
        match self.mounts {
            MountView::Ours if self.roots.is_empty() || self.roots.contains(&root.path) => {
                if self.cwd.is_some() || self.server { Reach::Seen } else { Reach::Unseen }
            }
            MountView::Ours => Reach::None,
            _ if self.root_ids.is_empty() => Reach::Unseen,
            _ if root.id.is_some_and(|id| self.root_ids.contains(&id)) => Reach::Unseen,
            _ => Reach::None,
        }
    }
}

/// The runs that one look saw.
#[derive(Debug, Default)]
pub(crate) struct SeenRuns(Vec<AgentRun>);

/// Where a session is, for the question who could open it.
#[derive(Clone, Debug)]
pub(crate) struct SessionPlace {
    pub(crate) agent: &'static str,
    /// The directory that its agent keeps its sessions in.
    pub(crate) root: PathBuf,
    /// Where it works; not known means that a run of any directory may be its own.
    pub(crate) directories: Vec<String>,
}

impl SeenRuns {
    /// A run that was not there at an earlier look and could have opened the session since, in words. By the rule for
    /// runs that nothing settles: one that has just begun is not settled yet.
    pub(crate) fn newcomer(&self, earlier: &Self, place: &SessionPlace) -> Option<String> {
        let of_agent = |run: &&AgentRun| run.adapter.agent_profile().id == place.agent;
        let known: HashSet<(u32, u64)> =
            earlier.0.iter().filter(of_agent).flat_map(AgentRun::processes).collect();
        // Of a run that was there, too: what it has started since may be another one.
        let is_new = |run: &&AgentRun| run.processes().any(|process| !known.contains(&process));
        let mut root = None;
        let could_open = |run: &&AgentRun| {
            let opening = run.adapter.agent_profile().opening;
            match run.reach(root.get_or_insert_with(|| Root::look(&place.root))) {
                Reach::None => false,
                Reach::Unseen => true,
                Reach::Seen => {
                    let works = |cwd: &String| run.works_in(Some(cwd), opening.from_below);
                    run.server
                        || opening.beyond_directory
                        || place.directories.is_empty()
                        || place.directories.iter().any(works)
                }
            }
        };
        let run = self.0.iter().filter(of_agent).filter(is_new).find(could_open)?;
        Some(format!("{} pid {}, which began since,", place.agent, run.innermost_pid()))
    }
}

impl From<AgentProcesses> for SeenRuns {
    fn from(processes: AgentProcesses) -> Self {
        Self(processes.runs)
    }
}

/// What a run may have to do with the sessions of one root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nothing: it keeps its sessions elsewhere, or could not write these.
    None,
    /// It keeps its sessions there, and it can be seen where it works.
    Seen,
    /// It may keep its sessions there; what it works on cannot be seen from here.
    Unseen,
}

/// A directory in which an agent keeps its sessions.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    id: Option<FileId>,
    owner: Option<u32>,
    mode: u32,
}

impl Root {
    /// Looks at a root, links resolved.
    pub(super) fn look(path: &Path) -> Self {
        use std::os::unix::fs::MetadataExt;

        let about = std::fs::metadata(path).ok();
        Self {
            path: path.to_owned(),
            id: FileId::from_path(path),
            owner: about.as_ref().map(|about| about.uid()),
            mode: about.map_or(0, |about| about.mode()),
        }
    }

    /// Whether a user may write there. Which groups it is in is not known.
    fn may_be_written_by(&self, uid: u32) -> bool {
        uid == 0 || self.owner == Some(uid) || self.mode & 0o022 != 0
    }
}

/// The process table, and the agents in it.
#[derive(Debug)]
pub(super) struct AgentProcesses {
    pub(super) table: ProcessTable,
    pub(super) runs: Vec<AgentRun>,
}

impl AgentProcesses {
    /// Whether the table could be read at all.
    pub(super) fn is_listed(&self) -> bool {
        self.table.was_listed()
    }

    /// The runs of one agent.
    pub(super) fn runs_of(&self, agent: &str) -> impl Iterator<Item = &AgentRun> {
        self.runs.iter().filter(move |run| run.adapter.agent_profile().id == agent)
    }
}

/// A process that was recognised as an agent.
type RecognisedAgent<'a> = (&'a ProcessRow, &'static dyn Adapter, ProcessAppearance);

/// Executables that have been asked about, and whether they rule every agent out.
type KnownExes = HashMap<String, bool>;

/// Looks at every process, on all cores: there are hundreds. Of most only the name of the executable is read.
fn recognise_agents(table: &ProcessTable) -> Vec<RecognisedAgent<'_>> {
    const FEWEST_PER_WORKER: usize = 32;
    let pids = table.listed_pids();
    let workers = sys::spread::count_cores().min(pids.len().div_ceil(FEWEST_PER_WORKER));
    let recognise = |known: &mut KnownExes, pid: &u32| recognise_agent(table, known, *pid);
    let found = sys::spread::parallel_map_with(&pids, workers, KnownExes::new, recognise);
    found.into_iter().flatten().collect()
}

/// Whether no process of this executable can be an agent. Many processes share one.
fn rules_out_agents(known: &mut KnownExes, exe: &str) -> bool {
    if let Some(&ruled_out) = known.get(exe) {
        return ruled_out;
    }
    let rules_out = |one: &&dyn Adapter| one.agent_profile().program.rules_out_exe(exe);
    let ruled_out = adapters::ALL_ADAPTERS.iter().all(rules_out);
    known.insert(exe.to_owned(), ruled_out);
    ruled_out
}

fn recognise_agent<'a>(
    table: &'a ProcessTable,
    known: &mut KnownExes,
    pid: u32,
) -> Option<RecognisedAgent<'a>> {
    let adapter_of = |appearance: &ProcessAppearance| {
        let fits = |adapter: &&&dyn Adapter| adapter.agent_profile().program.matches(appearance);
        adapters::ALL_ADAPTERS.iter().find(fits).copied()
    };
    adapter_of(&table.appearance_unless(pid, |exe| rules_out_agents(known, exe))?)?;
    let appearance = table.appearance(pid)?;
    Some((table.get(pid)?, adapter_of(&appearance)?, appearance))
}

/// How an agent was started: what a wrapper passes on to the program that it re-executes.
struct AgentStart {
    /// What its directory is; not known of one that cannot be looked into.
    directory: Option<FileId>,
    /// What it was started with; not known where a title took the place of that.
    args: Option<Vec<String>>,
}

impl AgentStart {
    /// Whether a child of this process is the same start of the same agent, re-executed: it works in the same directory
    /// and was given the same. An agent that an agent starts is another run, and must not hide the first one.
    fn is_same_start(&self, child: &Self) -> bool {
        // A wrapper gives itself no title; what it wraps may.
        let same_args = self.args.is_some() && (child.args.is_none() || self.args == child.args);
        same_args && self.directory.is_some() && self.directory == child.directory
    }
}

/// Finds the agents. Each may have its sessions where its own environment says, and where people say
/// that its format is.
pub(super) fn find_agents(observer: &Observer, config: &OstlerConfig) -> AgentProcesses {
    let table = sys::proc::read_process_table();
    let mut found = recognise_agents(&table);
    let mut runs: Vec<AgentRun> = Vec::new();
    let mut starts: HashMap<u32, AgentStart> = HashMap::new();
    // Parents have been found before their children are grouped, independent of pid order.
    found.sort_by_key(|(row, ..)| (row.start, row.pid));
    for (row, adapter, appearance) in found {
        let mounts = table.mount_view(row.pid);
        if mounts == MountView::Unreadable && table.has_ended(row.pid) {
            continue;
        }
        let id = adapter.agent_profile().id;
        let lineage = table.cwd_lineage(row.pid);
        let start = AgentStart {
            directory: lineage.as_ref().and_then(|lineage| lineage.first().copied()),
            args: adapter.agent_profile().program.own_arguments(&appearance).map(<[_]>::to_vec),
        };
        let of_wrapper = starts.get(&row.ppid).is_some_and(|wrapper| wrapper.is_same_start(&start));
        starts.insert(row.pid, start);
        let is_server = adapter.agent_profile().program.is_server(&appearance);
        let of_parent = runs
            .iter_mut()
            .find(|run| run.adapter.agent_profile().id == id && run.pids.contains(&row.ppid));
        let run = match of_parent.filter(|run| of_wrapper || (is_server && !run.server)) {
            Some(run) => {
                run.pids.push(row.pid);
                run.starts.push(row.start);
                if is_server && !of_wrapper {
                    // It has no session of its own: it holds what its window shows. Where that works and what
                    // it was given is still the window's.
                    continue;
                }
                run
            }
            None => {
                runs.push(AgentRun {
                    adapter,
                    pids: vec![row.pid],
                    starts: vec![row.start],
                    started_at: row.started_at,
                    writes_since: row.started_at.map(|at| observer.clock.earliest_start(at)),
                    cwd: None,
                    argument: None,
                    continues: false,
                    variable: None,
                    roots: Vec::new(),
                    cwd_lineage: Vec::new(),
                    root_ids: Vec::new(),
                    mounts,
                    uid: row.uid,
                    ours: row.uid == observer.uid,
                    server: is_server,
                });
                let last = runs.len() - 1;
                &mut runs[last]
            }
        };
        let about = adapter.agent_profile();
        run.cwd = table.cwd(row.pid).or(run.cwd.take());
        if let Some(lineage) = lineage {
            run.cwd_lineage = lineage;
        }
        run.argument =
            named_session(&appearance.args, about.resume_options).or(run.argument.take());
        run.continues |= appearance
            .args
            .iter()
            .skip(1)
            .any(|arg| about.continue_options.contains(&arg.as_str()));
        let variables = about.session_variables.iter();
        run.variable = variables
            .filter_map(|name| table.environ_value(row.pid, name)?.into_string().ok())
            .next()
            .or(run.variable.take());
        let lookup = |name: &str| table.environ_value(row.pid, name);
        let mut roots = adapter.session_roots(&EnvLookup::new(&lookup));
        roots.extend_from_slice(config.roots_of(about.id));
        if run.mounts == MountView::Other {
            let within = |root: &PathBuf| table.lineage_within(row.pid, root)?.first().copied();
            run.root_ids.extend(roots.iter().filter_map(within));
        }
        run.roots
            .extend(roots.into_iter().map(|root| std::fs::canonicalize(&root).unwrap_or(root)));
    }
    AgentProcesses { table, runs }
}

/// The value of the first of `options` on a command line: `--resume ID`, `--resume=ID`.
fn named_session(args: &[String], options: &[&str]) -> Option<String> {
    args.iter().enumerate().skip(1).find_map(|(index, arg)| {
        let value = options.iter().find_map(|option| {
            if arg == option {
                return args.get(index + 1).map(String::as_str);
            }
            arg.strip_prefix(option)?.strip_prefix('=')
        })?;
        (!value.is_empty() && !value.starts_with('-')).then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_is_read_from_the_command_line() {
        let named = |line: &str| {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            named_session(&args, &["--resume", "-r", "resume"])
        };
        assert_eq!(named("claude --resume abc"), Some("abc".into()));
        assert_eq!(named("claude --resume=abc -p x"), Some("abc".into()));
        assert_eq!(named("codex resume abc"), Some("abc".into()));
        assert_eq!(named("claude --resume --model x"), None);
        assert_eq!(named("claude --resume"), None);
        assert_eq!(named("claude --resumed abc"), None);
    }

    /// Of two directories, arguments and titles, every combination: one run only of what is the same in both.
    #[test]
    fn d2_one_run_is_only_what_is_the_same_start_again() {
        let directories = [None, Some(1), Some(2)];
        let lines = [None, Some(""), Some("-p hi"), Some("--resume abc")];
        let start = |ino: Option<u64>, line: Option<&str>| AgentStart {
            directory: ino.map(|ino| FileId { dev: 1, ino }),
            args: line.map(|line| line.split_whitespace().map(str::to_owned).collect()),
        };
        for (of_parent, of_child) in
            directories.iter().flat_map(|one| directories.map(|two| (*one, two)))
        {
            for (parent, child) in lines.iter().flat_map(|one| lines.map(|two| (*one, two))) {
                let is_one = start(of_parent, parent).is_same_start(&start(of_child, child));
                let same_place = of_parent.is_some() && of_parent == of_child;
                let same_line = parent.is_some() && (parent == child || child.is_none());
                assert_eq!(
                    is_one,
                    same_place && same_line,
                    "{of_parent:?} {parent:?}, {of_child:?} {child:?}"
                );
            }
        }
    }
}
