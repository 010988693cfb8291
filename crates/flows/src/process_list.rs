//! Process list: every process of every agent, as trees, and the orphans that dead agents left behind.
//!
//! An orphan is a process that carries a session's id in its environment, or the program of a terminal
//! whose host is gone, while the session's own agent is proven dead. Only looked at here.

use std::collections::{HashMap, HashSet};

use model::control::process_list::{AgentProcessRow, ProcessListResult, ProcessOwner, ProcessRole};
use model::identity::Identity;
use model::liveness::{Death, Liveness, Observer, RunState};
use model::session::{Certainty, ClaimBasis, Session, SessionName};
use sys::proc::{ProcessRow, ProcessTable, identify_as};

use crate::observe::{Observation, Observed};
use crate::terminal::TerminalHome;

/// A process whose agent is proven dead.
#[derive(Clone, Debug)]
pub struct OrphanProcess {
    pub identity: Identity,
    /// The session that it was started for.
    pub session: SessionName,
}

/// The wrappers that run an agent's process, outermost first. One that has a session of its own is another
/// agent, which started this one.
pub(crate) fn find_wrappers(
    observation: &Observation,
    session: &Session,
    agent: &Identity,
    table: &ProcessTable,
    observer: &Observer,
) -> Vec<Identity> {
    let (Some(adapter), Some(pid)) = (adapters::by_id(session.agent), agent.pid) else {
        return Vec::new();
    };
    let program = &adapter.agent_profile().program;
    let holds_another = |pid: u32| {
        observation.sessions.iter().any(|other| {
            other.session.session_name() != session.session_name()
                && other.session.claims.iter().any(|claim| {
                    claim.identity.pid == Some(pid)
                        && claim.liveness.is_alive()
                        && claim.how.certainty() == Certainty::Proven
                })
        })
    };
    let mut wrappers = Vec::new();
    let mut inner_start = agent.start;
    for row in table.self_and_ancestors(pid).skip(1) {
        let look = table.appearance(row.pid);
        let fits = look.is_some_and(|look| program.matches(&look) && !program.is_server(&look));
        if !fits
            || row.uid != observer.uid
            || Some(row.start) > inner_start
            || holds_another(row.pid)
        {
            break;
        }
        let Ok(identity) = identify_as(row.pid, observer) else { break };
        if identity.start != Some(row.start) {
            break;
        }
        inner_start = Some(row.start);
        wrappers.push(identity);
    }
    wrappers.reverse();
    wrappers
}

/// Whether it is proven that nothing works on a session.
fn is_proven_dead(one: &Observed) -> bool {
    let firm = !matches!(one.verdict.liveness, Liveness::Dead(Death::NotAttached));
    one.verdict.liveness.is_dead() && firm && one.verdict.certainty == Certainty::Proven
}

/// The processes whose agents are proven dead. What a live agent runs below, or runs below one, is in use,
/// independent of its environment.
pub fn find_orphans(observation: &Observation, terminals: &TerminalHome) -> Vec<OrphanProcess> {
    find_orphans_in(observation, terminals, &sys::proc::read_process_table())
}

fn find_orphans_in(
    observation: &Observation,
    terminals: &TerminalHome,
    table: &ProcessTable,
) -> Vec<OrphanProcess> {
    let machine = &terminals.machine;
    let dead: HashMap<SessionName, &Observed> = observation
        .sessions
        .iter()
        .filter(|one| is_proven_dead(one))
        .map(|one| (one.session.session_name(), one))
        .collect();
    let in_use = Occupied::new(observation, table);
    let mut orphans = Vec::new();
    for row in table.rows() {
        if row.uid != machine.observer().uid
            || row.state == RunState::Exited
            || in_use.has(table, row)
        {
            continue;
        }
        let named = adapters::variables::TOOL_SESSION_VARIABLES.iter().find_map(|(agent, name)| {
            let id = table.environ_value(row.pid, name)?.into_string().ok()?;
            Some(SessionName::new(*agent, id)).filter(|name| dead.contains_key(name))
        });
        if let Some(session) = named
            && let Ok(identity) = machine.identify_process(row.pid)
            && identity.start == Some(row.start)
        {
            orphans.push(OrphanProcess { identity, session });
        }
    }
    for hosted in terminals.readable_sessions().unwrap_or_default() {
        let Some(holder) = &hosted.holder else { continue };
        let Some(program) = &holder.child else { continue };
        let is_left = machine.probe_process(&holder.host).is_dead()
            && machine.probe_process(program).is_alive();
        let row = program.pid.and_then(|pid| table.get(pid));
        if is_left && row.is_some_and(|row| !in_use.has(table, row)) {
            let session = SessionName::new("terminal", &hosted.id);
            orphans.push(OrphanProcess { identity: program.clone(), session });
        }
    }
    orphans
}

/// Live agents, all their descendants, and this very command.
struct Occupied {
    agents: HashSet<u32>,
    above: HashSet<u32>,
}

impl Occupied {
    fn new(observation: &Observation, table: &ProcessTable) -> Self {
        let claimed = observation.sessions.iter().chain(&observation.subagents);
        let claimed = claimed.flat_map(|one| &one.session.claims);
        // A doubt keeps.
        let claimed = claimed
            .filter(|claim| !claim.liveness.is_dead())
            .filter_map(|claim| claim.identity.pid);
        let agents: HashSet<u32> =
            claimed.chain(observation.unattached.iter().map(|one| one.pid)).collect();
        let with_us = agents.iter().copied().chain([std::process::id()]);
        let above = with_us
            .flat_map(|pid| table.self_and_ancestors(pid).map(|row| row.pid).collect::<Vec<_>>())
            .collect();
        Self { agents, above }
    }

    fn has(&self, table: &ProcessTable, row: &ProcessRow) -> bool {
        self.above.contains(&row.pid)
            || table.self_and_ancestors(row.pid).any(|above| self.agents.contains(&above.pid))
            || host::server::is_apart(table, row)
    }
}

/// Lists every process of every agent; `orphans_only` those whose agents are proven dead.
pub fn list_processes(
    observation: &Observation,
    terminals: &TerminalHome,
    orphans_only: bool,
) -> ProcessListResult {
    let observer = terminals.machine.observer();
    let table = sys::proc::read_process_table();
    let mut list = ProcessLister::new(&table);
    if !orphans_only {
        for (pid, agent, owner) in agent_roots(observation) {
            let mut wrappers = Vec::new();
            if let (Some(one), Ok(inner)) = (owner, identify_as(pid, observer)) {
                wrappers = find_wrappers(observation, &one.session, &inner, &table, observer);
            }
            let session =
                owner.map(|one| (one.session.session_name(), one.verdict.status.as_str()));
            let owner = Some(TreeOwner { agent: agent.to_owned(), session });
            for wrapper in wrappers.iter().filter_map(|wrapper| wrapper.pid) {
                list.known.entry(wrapper).or_insert((ProcessRole::Wrapper, owner.clone()));
            }
            list.known.insert(pid, (ProcessRole::Agent, owner));
        }
        list.add_trees();
    }
    for orphan in find_orphans_in(observation, terminals, &table) {
        list.add_orphan(&orphan);
    }
    ProcessListResult { processes: list.rows, incomplete: observation.incomplete.clone() }
}

/// The agents' own processes, each with the session that it holds.
fn agent_roots(observation: &Observation) -> Vec<(u32, &'static str, Option<&Observed>)> {
    let mut owners: HashMap<u32, (ClaimBasis, &'static str, Option<&Observed>)> = HashMap::new();
    for one in &observation.sessions {
        for claim in one.session.claims.iter().filter(|claim| claim.liveness.is_alive()) {
            let (Some(pid), false) = (claim.identity.pid, claim.how == ClaimBasis::CouldOpen)
            else {
                continue;
            };
            let known = owners.get(&pid).is_some_and(|(how, ..)| *how <= claim.how);
            if !known && claim.how != ClaimBasis::Hosts {
                // A server has them all, so that none of them says whose it is.
                let owner = (claim.how != ClaimBasis::Served).then_some(one);
                owners.insert(pid, (claim.how, one.session.agent, owner));
            }
        }
    }
    for one in &observation.unattached {
        owners.entry(one.pid).or_insert((ClaimBasis::CouldOpen, one.agent, None));
    }
    owners.into_iter().map(|(pid, (_, agent, owner))| (pid, agent, owner)).collect()
}

/// The agent that a process belongs to, and its session with that one's state.
#[derive(Clone)]
struct TreeOwner {
    agent: String,
    session: Option<(SessionName, &'static str)>,
}

struct ProcessLister<'a> {
    table: &'a ProcessTable,
    children: HashMap<u32, Vec<&'a ProcessRow>>,
    /// Agents and their wrappers, and what each works on.
    known: HashMap<u32, (ProcessRole, Option<TreeOwner>)>,
    listed: HashSet<u32>,
    rows: Vec<AgentProcessRow>,
}

impl<'a> ProcessLister<'a> {
    fn new(table: &'a ProcessTable) -> Self {
        let mut children: HashMap<u32, Vec<&ProcessRow>> = HashMap::new();
        for row in table.rows() {
            children.entry(row.ppid).or_default().push(row);
        }
        let (known, listed) = (HashMap::new(), HashSet::new());
        Self { table, children, known, listed, rows: Vec::new() }
    }

    /// Lists what is known and all below it. An agent that another one started is in that one's tree.
    fn add_trees(&mut self) {
        let is_inner = |pid: u32| {
            self.table.self_and_ancestors(pid).skip(1).any(|row| self.known.contains_key(&row.pid))
        };
        let mut roots: Vec<u32> =
            self.known.keys().copied().filter(|pid| !is_inner(*pid)).collect();
        roots.sort_unstable_by(|a, b| b.cmp(a));
        let mut waiting: Vec<(u32, u32, Option<TreeOwner>)> =
            roots.into_iter().map(|pid| (pid, 0, None)).collect();
        while let Some((pid, depth, above)) = waiting.pop() {
            let Some(row) = self.table.get(pid) else { continue };
            if !self.listed.insert(pid) {
                continue;
            }
            let (role, owner) = self.known.get(&pid).cloned().unwrap_or((ProcessRole::Tool, above));
            self.rows.push(self.describe_row(row, depth, role, owner.as_ref(), false));
            let children = self.children.get(&pid).into_iter().flatten().rev();
            waiting.extend(
                children
                    .filter(|child| child.start >= row.start && child.state != RunState::Exited)
                    .map(|child| (child.pid, depth + 1, owner.clone())),
            );
        }
    }

    fn add_orphan(&mut self, orphan: &OrphanProcess) {
        let row = orphan.identity.pid.and_then(|pid| self.table.get(pid));
        let Some(row) = row.filter(|row| self.listed.insert(row.pid)) else { return };
        let session = Some((orphan.session.clone(), "exited"));
        let owner = TreeOwner { agent: orphan.session.agent.clone(), session };
        self.rows.push(self.describe_row(row, 0, ProcessRole::Tool, Some(&owner), true));
    }

    fn describe_row(
        &self,
        row: &ProcessRow,
        depth: u32,
        role: ProcessRole,
        owner: Option<&TreeOwner>,
        orphan: bool,
    ) -> AgentProcessRow {
        AgentProcessRow {
            pid: row.pid,
            ppid: row.ppid,
            depth,
            role,
            comm: row.comm.clone(),
            memory_bytes: self.table.resident_bytes(row.pid),
            started_at: row.started_at,
            agent: owner.map(|owner| owner.agent.clone()),
            session: owner.and_then(|owner| owner.session.as_ref()).map(|(name, state)| {
                ProcessOwner {
                    agent: name.agent.clone(),
                    id: name.id.clone(),
                    status: (*state).to_owned(),
                }
            }),
            orphan,
        }
    }
}
