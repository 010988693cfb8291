//! What would be done to delete an agent. The same plan is shown and carried out.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::rules::document::IndexDocument;
use model::plan::{Refusal, RemovableKind};
use model::time::Time;
use model::wire::{AgentChange, AgentDeleteResult, AgentItem, AgentOutcome};
use sha2::{Digest, Sha256};
use sys::machine::Machine;

use super::{AgentsError, DeleteTarget, places};
use crate::{config, locks};
use reaper::PlannedRemoval;

/// Under which name the reaper's journal has it.
pub(super) fn journal_command(id: &str) -> String {
    format!("agents delete {id}")
}

/// What is done with one thing.
#[derive(Debug)]
pub(super) enum DeleteAction {
    /// It goes to the trash.
    Trash,
    /// Its content becomes another.
    Rewrite { before: Vec<u8>, after: Vec<u8> },
}

/// One thing to be done.
#[derive(Debug)]
pub(super) struct DeleteStep {
    pub(super) planned: PlannedRemoval,
    pub(super) doing: DeleteAction,
}

/// What would be done to delete an agent.
#[derive(Debug)]
pub struct DeletePlan {
    pub(super) steps: Vec<DeleteStep>,
    /// What stays although it is the agent's, and why.
    kept: Vec<AgentItem>,
    bindings: u64,
    allowed: u64,
    rows: u64,
}

/// Looks at everything that is the agent's. ostler's own home never goes.
pub fn plan_delete(target: &DeleteTarget, machine: &Machine) -> Result<DeletePlan, AgentsError> {
    let ostler = machine.home();
    refuse_pinned(target, ostler)?;
    refuse_database(target)?;
    refuse_at_work(target, machine)?;
    let mut plan =
        DeletePlan { steps: Vec::new(), kept: Vec::new(), bindings: 0, allowed: 0, rows: 0 };
    plan.plan_configuration(target)?;
    let mut going: Vec<PathBuf> = Vec::new();
    let mut directories = Vec::new();
    for (kind, path, why) in own_places(target) {
        directories.extend(plan.plan_directory(target, ostler, kind, &path, why, &mut going));
    }
    plan.plan_store(target, &going, machine)?;
    plan.steps.extend(directories);
    Ok(plan)
}

/// What is the agent's, in the order in which it goes.
fn own_places(target: &DeleteTarget) -> Vec<(RemovableKind, PathBuf, &'static str)> {
    let agent = &target.agent;
    let mut places = Vec::new();
    if target.shared_with.is_empty() {
        places.push((RemovableKind::Workspace, agent.workspace.clone(), "its workspace"));
        let hash = Sha256::digest(agent.workspace.as_os_str().as_encoded_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let mark = target.config.state.join("workspace-attestations").join(hash + ".attested");
        places.push((RemovableKind::Workspace, mark, "what says that its workspace was set up"));
    }
    places.push((RemovableKind::AgentDirectory, agent.agent_dir.clone(), "its own directory"));
    places.push((RemovableKind::AgentDirectory, agent.sessions_dir.clone(), "its sessions"));
    places
}

/// A session that is never to be collected keeps its agent, against any deletion.
pub fn refuse_pinned(target: &DeleteTarget, ostler: &Path) -> Result<(), AgentsError> {
    let refused = |why: String| AgentsError::Pinned { id: target.agent.id.clone(), why };
    let pins = store::state::read_pins(ostler);
    let pinned = pins.of_agent("openclaw").map_err(|why| refused(why.to_owned()))?;
    if pinned.is_empty() {
        return Ok(());
    }
    let mut own: HashSet<String> = HashSet::new();
    let listed = std::fs::read_dir(&target.agent.sessions_dir).into_iter().flatten().flatten();
    for name in listed.filter_map(|entry| entry.file_name().into_string().ok()) {
        let stem = name.split_once('.').map_or(&*name, |(stem, _)| stem);
        own.insert(stem.split_once("-topic-").map_or(stem, |(id, _)| id).to_owned());
    }
    let index = config::read_bytes(&target.agent.store).unwrap_or_default();
    if let Ok(document) = IndexDocument::parse(&index) {
        let owners = target.row_owners();
        let entries = document.entries.iter();
        let rows =
            entries.filter(|one| owners.owner_of(&one.key).as_ref() == Some(&target.agent.id));
        own.extend(rows.filter_map(|one| one.view.session_id.as_deref().map(str::to_owned)));
    }
    for database in agent_databases(target) {
        let nodes = adapters::openclaw::list_nodes(&database);
        let nodes = nodes.map_err(|error| refused(error.to_string()))?;
        own.extend(nodes.into_iter().map(|node| node.session));
    }
    let mut kept: Vec<&str> = pinned.into_iter().filter(|id| own.contains(*id)).collect();
    kept.sort_unstable();
    if kept.is_empty() { Ok(()) } else { Err(refused(kept.join(", "))) }
}

/// Its sessions are in a database since 2026.8, and OpenClaw's own rows depend on each other.
fn refuse_database(target: &DeleteTarget) -> Result<(), AgentsError> {
    match agent_databases(target).next() {
        Some(path) => Err(AgentsError::Database { id: target.agent.id.clone(), path }),
        None => Ok(()),
    }
}

fn agent_databases(target: &DeleteTarget) -> impl Iterator<Item = PathBuf> {
    let own = target.config.state.join("agents").join(&target.agent.id).join("agent");
    let directories = [target.agent.agent_dir.clone(), own];
    let databases = directories.into_iter().map(|dir| dir.join("openclaw-agent.sqlite"));
    databases.filter(|path| path.exists())
}

/// A transcript that is being written, or may be, keeps its agent.
fn refuse_at_work(target: &DeleteTarget, machine: &Machine) -> Result<(), AgentsError> {
    let at_work = |why: String| AgentsError::AtWork { id: target.agent.id.clone(), why };
    let held = locks::held_in(&target.agent.sessions_dir, machine);
    let held = held.map_err(|error| {
        at_work(format!("{} cannot be read: {error}", target.agent.sessions_dir.display()))
    })?;
    match held.iter().find_map(locks::TranscriptLock::refusal) {
        Some(why) => Err(at_work(why)),
        None => Ok(()),
    }
}

impl DeletePlan {
    /// The configuration comes first: what is about to go must find no new user.
    fn plan_configuration(&mut self, target: &DeleteTarget) -> Result<(), AgentsError> {
        let config = &target.config;
        let (None, Some(before)) = (&target.earlier, &config.bytes) else { return Ok(()) };
        let pruned = config.without_agent(&target.agent.id)?;
        (self.bindings, self.allowed) = (pruned.bindings as u64, pruned.allowed as u64);
        let why = format!("the agent `{}` is taken out of it", target.agent.id);
        let planned =
            PlannedRemoval::new(RemovableKind::Configuration, &config.path, "openclaw", why)
                .map_err(|error| unreadable_error(&config.path, &error))?;
        let doing = DeleteAction::Rewrite { before: before.clone(), after: pruned.bytes };
        self.steps.push(DeleteStep { planned, doing });
        Ok(())
    }

    /// Its rows leave a store that stays: one that others share, or that lies elsewhere.
    fn plan_store(
        &mut self,
        target: &DeleteTarget,
        going: &[PathBuf],
        machine: &Machine,
    ) -> Result<(), AgentsError> {
        let path = &target.agent.store;
        if going.iter().any(|place| places::real_path(path).starts_with(place)) {
            return Ok(());
        }
        let wrong = |why: String| AgentsError::Store { path: path.clone(), why };
        let bytes = match config::read_bytes(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let document = IndexDocument::parse(&bytes).map_err(|error| wrong(error.to_string()))?;
        let owners = target.row_owners();
        let own: HashSet<usize> = document
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| owners.owner_of(&entry.key).as_ref() == Some(&target.agent.id))
            .map(|(index, _)| index)
            .collect();
        if own.is_empty() {
            return Ok(());
        }
        self.refuse_rows_at_work(target, &document, &own, machine)?;
        self.rows = own.len() as u64;
        let why = format!("{} rows of `{}` are taken out of it", own.len(), target.agent.id);
        let planned = PlannedRemoval::new(RemovableKind::StoreIndex, path, "openclaw", why)
            .map_err(|error| wrong(error.to_string()))?;
        let after = document.without_entries(|index| own.contains(&index)).into_bytes();
        self.steps.push(DeleteStep {
            planned,
            doing: DeleteAction::Rewrite { before: bytes.clone(), after },
        });
        Ok(())
    }

    /// Transcripts of a shared store lie beside it.
    fn refuse_rows_at_work(
        &self,
        target: &DeleteTarget,
        document: &IndexDocument<'_>,
        own: &HashSet<usize>,
        machine: &Machine,
    ) -> Result<(), AgentsError> {
        let directory = target.agent.store.parent().unwrap_or(Path::new("/"));
        for (_, entry) in document.entries.iter().enumerate().filter(|(at, _)| own.contains(at)) {
            let named = entry.view.session_file.as_deref().map(|file| directory.join(file));
            let usual = entry.view.session_id.as_deref();
            let usual = usual.map(|id| directory.join(format!("{id}.jsonl")));
            let mut held = named.into_iter().chain(usual);
            let held =
                held.find_map(|transcript| locks::find_lock(&transcript, machine)?.refusal());
            if let Some(why) = held {
                return Err(AgentsError::AtWork { id: target.agent.id.clone(), why });
            }
        }
        Ok(())
    }

    /// A directory of its own, unless it is not only its own.
    fn plan_directory(
        &mut self,
        target: &DeleteTarget,
        ostler: &Path,
        kind: RemovableKind,
        path: &Path,
        why: &str,
        going: &mut Vec<PathBuf>,
    ) -> Option<DeleteStep> {
        let place = match places::within_bounds(&target.config, ostler, path) {
            Ok(place) => place,
            // What is not there needs no bounds.
            Err(_) if std::fs::symlink_metadata(path).is_err() => return None,
            Err(refusal) => {
                self.keep_item(kind, path, "it may not be moved away", Some(&refusal));
                return None;
            }
        };
        if going.iter().any(|other| place.starts_with(other)) {
            return None;
        }
        let planned = match PlannedRemoval::new(kind, &place, "openclaw", why) {
            Ok(planned) => planned.with_total_size(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                let refusal = Refusal::Unreadable { why: error.to_string() };
                self.keep_item(kind, path, why, Some(&refusal));
                return None;
            }
        };
        if let Some(earlier) = &target.earlier
            && (earlier.done.contains(&place) || !was_there(&place, earlier.at))
        {
            self.keep_item(kind, path, "it came after the agent was deleted", None);
            return None;
        }
        let sharers = places::keepers_in(&place, &target.others);
        if !sharers.is_empty() {
            let reason = format!("something of {} is in it", sharers.join(", "));
            self.keep_item(kind, path, &reason, None);
            return None;
        }
        going.push(places::real_path(&place));
        Some(DeleteStep { planned, doing: DeleteAction::Trash })
    }

    fn keep_item(
        &mut self,
        kind: RemovableKind,
        path: &Path,
        reason: &str,
        refusal: Option<&Refusal>,
    ) {
        self.kept.push(AgentItem {
            action: AgentChange::Keep,
            kind,
            path: path.to_string_lossy().into_owned(),
            bytes: 0,
            reason: reason.to_owned(),
            outcome: AgentOutcome::Planned,
            refused: refusal.map(Into::into),
        });
    }

    /// Whether there is anything to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The plan for people and programs; nothing is done yet.
    pub fn preview(&self, target: &DeleteTarget) -> AgentDeleteResult {
        let mut result = describe_target(target);
        result.removed_bindings = self.bindings;
        result.removed_allow = self.allowed;
        result.removed_sessions = Some(self.rows);
        result.items = self.steps.iter().map(step_item).collect();
        result.items.extend(shared_workspace(target));
        result.items.extend(self.kept.iter().cloned());
        result
    }
}

/// A workspace that others work in.
fn shared_workspace(target: &DeleteTarget) -> Option<AgentItem> {
    (!target.shared_with.is_empty()).then(|| AgentItem {
        action: AgentChange::Keep,
        kind: RemovableKind::Workspace,
        path: target.agent.workspace.to_string_lossy().into_owned(),
        bytes: 0,
        reason: format!("it is shared with {}", target.shared_with.join(", ")),
        outcome: AgentOutcome::Planned,
        refused: None,
    })
}

fn step_item(step: &DeleteStep) -> AgentItem {
    let planned = &step.planned.item;
    AgentItem {
        action: match step.doing {
            DeleteAction::Trash => AgentChange::Trash,
            DeleteAction::Rewrite { .. } => AgentChange::Rewrite,
        },
        kind: planned.kind,
        path: planned.path.clone(),
        bytes: planned.bytes,
        reason: planned.why.clone(),
        outcome: AgentOutcome::Planned,
        refused: None,
    }
}

/// What an answer says about the agent, by gateway and by ostler alike.
pub(super) fn describe_target(target: &DeleteTarget) -> AgentDeleteResult {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let agent = &target.agent;
    let shared = !target.shared_with.is_empty();
    AgentDeleteResult {
        applied: false,
        agent_id: agent.id.clone(),
        normalized_from: (agent.id != target.typed).then(|| target.typed.clone()),
        resumes: target.earlier.as_ref().map(|earlier| earlier.receipt.clone()),
        workspace: text(&agent.workspace),
        workspace_retained: shared.then_some(true),
        workspace_retained_reason: shared.then(|| "shared".to_owned()),
        workspace_shared_with: shared.then(|| target.shared_with.clone()),
        agent_dir: text(&agent.agent_dir),
        sessions_dir: text(&agent.sessions_dir),
        removed_bindings: 0,
        removed_allow: 0,
        removed_sessions: None,
        items: Vec::new(),
        failed: 0,
        receipt: None,
        transport: None,
    }
}

/// Whether something was there at a time. Where the system does not say, it was not.
fn was_there(path: &Path, at: Time) -> bool {
    let born = std::fs::symlink_metadata(path).and_then(|metadata| metadata.created()).ok();
    let since = born.and_then(|born| born.duration_since(std::time::UNIX_EPOCH).ok());
    let millis = since.and_then(|since| i64::try_from(since.as_millis()).ok());
    millis.is_some_and(|millis| Time::from_millis(millis) <= at)
}

fn unreadable_error(path: &Path, error: &io::Error) -> AgentsError {
    let source = io::Error::new(error.kind(), error.to_string());
    AgentsError::Config(crate::config::ConfigError::Read { path: path.to_owned(), source })
}
