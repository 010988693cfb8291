//! The plan of a start: which program with which words, where, and by what its conversation is known.
//!
//! Everything that can be refused is refused here, before a process exists.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use adapters::Adapter;
use adapters::control::{
    AgentControl, HeadlessControl, IdRule, PromptInput, TemplateValues, fill_template,
};
use model::control::delivery::DeliveryChannel;
use model::control::prompt::{PromptRoute, check_prompt_text};
use model::control::refusal::DriveRefusal;
use model::control::wire::{ConversationBinding, LaunchResult, LaunchState, LaunchedConversation};
use model::hosted::{FaultCode, HostFault};
use model::session::SessionName;
use model::wire::IncompleteSource;

use super::conversation::ConversationClue;
use super::launch::LaunchError;
use super::launch_terms::check_locks;
use crate::locks::name_occupants;
use crate::observe::Observation;
use crate::permit_channel::PermitArrangement;
use sys::machine::Machine;

/// What stands for the prompt in a command line that is shown.
const TEXT_PLACE: &str = "{text}";

/// A program that reads its prompt from a file reads it from its standard input: it has no name anywhere.
const STANDARD_INPUT_FILE: &str = "/dev/stdin";

/// What is to be started, and how.
#[derive(Clone, Debug)]
pub struct LaunchRequest {
    /// The adapter's id.
    pub agent: String,
    /// The first prompt.
    pub text: Option<String>,
    /// Where to start it; here, by default.
    pub cwd: Option<String>,
    /// A name for its terminal.
    pub name: Option<String>,
    pub model: Option<String>,
    /// Without a terminal.
    pub headless: bool,
    /// `KEY=VALUE`, each.
    pub env: Vec<String>,
    /// Variables that are written down nowhere.
    pub secrets: Vec<(String, String)>,
    /// Further arguments of the agent.
    pub arguments: Vec<String>,
    /// Whether the end of the first turn is waited for.
    pub wait_idle: bool,
    /// How long it may take until it takes prompts.
    pub ready_timeout: Duration,
    /// How long its record may take to hold the prompt.
    pub accept_timeout: Duration,
    /// How long the first turn may take.
    pub turn_timeout: Duration,
    /// How long the note of the start is kept.
    pub note_ttl: Duration,
    /// The shell of its terminal.
    pub shell: String,
    /// Where programs are looked for.
    pub path: OsString,
    /// The user's runtime directory.
    pub runtime: Option<PathBuf>,
    /// How many lines that scrolled away are kept.
    pub scrollback_lines: usize,
    /// Only where no other agent works.
    pub exclusive: bool,
    /// Also in a directory that is locked.
    pub over_lock: bool,
    /// After how long it is stopped.
    pub ttl: Option<Duration>,
    /// In whose name it is started.
    pub started_by: String,
    /// How it asks for permissions.
    pub permits: PermitArrangement,
}

/// What would be started.
pub(super) struct LaunchPlan {
    pub(super) agent: &'static str,
    pub(super) control: &'static AgentControl,
    pub(super) headless: Option<HeadlessControl>,
    pub(super) command: Vec<String>,
    shown_command: Vec<String>,
    pub(super) cwd: String,
    pub(super) text: Option<String>,
    pub(super) clue: ConversationClue,
    pub(super) channel: DeliveryChannel,
    pub(super) also_here: Vec<String>,
    pub(super) resumed: bool,
    /// What could not be asked.
    incomplete: Vec<IncompleteSource>,
}

/// Which of an agent's templates is used.
pub(super) struct ResumedConversation<'a> {
    pub(super) id: &'a str,
    pub(super) path: Option<&'a str>,
    pub(super) fork: bool,
}

/// Plans the start of a new conversation.
pub(super) fn plan_launch(
    request: &LaunchRequest,
    machine: &Machine,
    observation: &Observation,
) -> Result<LaunchPlan, LaunchError> {
    plan_start(request, machine, observation, None)
}

/// Plans a start, of a new conversation or of one that goes on.
pub(super) fn plan_start(
    request: &LaunchRequest,
    machine: &Machine,
    observation: &Observation,
    resumed: Option<&ResumedConversation<'_>>,
) -> Result<LaunchPlan, LaunchError> {
    let not_driven = || DriveRefusal::NotDriven { agent: request.agent.clone() };
    let adapter = adapters::by_id(&request.agent).ok_or_else(not_driven)?;
    let control = adapter.control_table().ok_or_else(not_driven)?;
    let headless = request.headless.then_some(control.headless).flatten();
    let template = match (request.headless, resumed) {
        (false, None) => control.interactive,
        (false, Some(_)) => control.resume,
        (true, None) => headless.map(|headless| headless.start),
        (true, Some(_)) => headless.and_then(|headless| headless.resume),
    };
    let template = template.ok_or_else(|| {
        let mode = if request.headless { "without a terminal" } else { "in a terminal" };
        let what = if resumed.is_some() { "resumed" } else { "started" };
        DriveRefusal::NoSuchMode { agent: request.agent.clone(), mode: format!("{what} {mode}") }
    })?;
    let (route, channel) = match headless.map(|headless| headless.input) {
        None => (PromptRoute::Terminal, DeliveryChannel::Terminal),
        Some(PromptInput::Stdin) => (PromptRoute::StandardInput, DeliveryChannel::Stdin),
        Some(PromptInput::File) => (PromptRoute::StandardInput, DeliveryChannel::File),
        Some(PromptInput::Argument) => (PromptRoute::Argument, DeliveryChannel::Argument),
    };
    let check = |text: &String| check_prompt_text(text, route, control.command_characters, false);
    let text = request.text.as_ref().map(check).transpose().map_err(DriveRefusal::Text)?;
    let program = find_program(adapter, &request.path)?;
    let cwd = choose_directory(machine, request.cwd.as_deref())?;
    let incomplete = check_locks(request, machine, &cwd)?.into_iter().collect();
    let (clue, path) = choose_conversation(adapter, control, machine, observation, resumed, &cwd)?;
    let fill = |text: Option<&str>| {
        let values = TemplateValues {
            id: resumed.map(|one| one.id).or(clue.id.as_deref()),
            path: path.as_deref(),
            text,
            file: Some(STANDARD_INPUT_FILE),
        };
        let mut words = fill_template(template, &values)?;
        let fork = resumed.filter(|one| one.fork).and(control.fork).unwrap_or_default();
        words.extend(fork.iter().map(|word| (*word).to_owned()));
        if let (Some(option), Some(model)) = (control.model_option, &request.model) {
            words.extend([option.to_owned(), model.clone()]);
        }
        words.extend(request.permits.arguments.iter().chain(&request.arguments).cloned());
        words.insert(0, program.clone());
        Some(words)
    };
    let unfilled = || DriveRefusal::NoSuchMode {
        agent: request.agent.clone(),
        mode: "started with what is known of it".to_owned(),
    };
    let own = resumed.map(|one| SessionName::new(adapter.agent_profile().id, one.id));
    let command = fill(Some(text.as_deref().unwrap_or_default())).ok_or_else(unfilled)?;
    let shown_command = fill(Some(TEXT_PLACE)).ok_or_else(unfilled)?;
    Ok(LaunchPlan {
        agent: adapter.agent_profile().id,
        control,
        headless,
        command,
        shown_command,
        also_here: name_occupants(observation, Path::new(&cwd), own.as_ref()),
        cwd,
        text,
        clue,
        channel,
        resumed: resumed.is_some(),
        incomplete,
    })
}

impl LaunchPlan {
    /// Whether a conversation was there before the start.
    pub(super) fn is_known(&self, id: &str) -> bool {
        self.clue.new_in.as_ref().is_some_and(|(_, before)| before.contains(id))
    }

    /// The answer so far: nothing is started.
    pub(super) fn blank_result(&self, request: &LaunchRequest) -> LaunchResult {
        let chosen = self.clue.id.as_ref().map(|id| LaunchedConversation {
            id: id.clone(),
            transcript: self.clue.path.as_ref().map(|path| path.to_string_lossy().into_owned()),
            bound: ConversationBinding::Chosen,
        });
        LaunchResult {
            agent: self.agent.to_owned(),
            mode: if request.headless { "headless" } else { "terminal" },
            cwd: self.cwd.clone(),
            name: request.name.clone(),
            group: None,
            slot: None,
            worktree: None,
            also_here: self.also_here.clone(),
            process: None,
            terminal: None,
            session: chosen,
            state: LaunchState::Ready,
            resumed: self.resumed,
            blocked_by: None,
            delivery: None,
            fuse: None,
            exit_code: None,
            reason: None,
            argv: self.shown_command.clone(),
            dry_run: false,
            incomplete: self.incomplete.clone(),
        }
    }
}

/// The first program of the agent that can be run.
pub(super) fn find_program(adapter: &dyn Adapter, path: &OsStr) -> Result<String, LaunchError> {
    let profile = adapter.agent_profile();
    let names = profile.program.names;
    let places = |name: &str| -> Vec<PathBuf> {
        std::env::split_paths(path).map(|one| one.join(name)).filter(|one| one.is_file()).collect()
    };
    let runs = |name: &&&str| places(name).iter().any(|place| sys::spawn::is_executable(place));
    if let Some(name) = names.iter().find(runs) {
        return Ok((*name).to_owned());
    }
    match names.iter().find_map(|name| places(name).into_iter().next()) {
        Some(place) => Err(LaunchError::NotExecutable { program: place }),
        None => {
            Err(LaunchError::NoProgram { agent: profile.id.to_owned(), names: names.join(", ") })
        }
    }
}

fn choose_directory(machine: &Machine, cwd: Option<&str>) -> Result<String, HostFault> {
    let directory = match cwd {
        Some(cwd) => std::path::absolute(cwd),
        None => machine.current_dir(),
    };
    let missing = |what: String| HostFault::new(FaultCode::StorageReadError, what);
    let directory = directory.map_err(|error| missing(format!("no directory: {error}")))?;
    // The agent sees its directory without links, and writes that down.
    let directory = std::fs::canonicalize(&directory).map_err(|error| {
        missing(format!("the directory `{}` cannot be used: {error}", directory.display()))
    })?;
    if !directory.is_dir() {
        return Err(missing(format!("`{}` is not a directory", directory.display())));
    }
    Ok(directory.to_string_lossy().into_owned())
}

/// By what the conversation will be found, and the path that the agent is told to write to.
fn choose_conversation(
    adapter: &dyn Adapter,
    control: &AgentControl,
    machine: &Machine,
    observation: &Observation,
    resumed: Option<&ResumedConversation<'_>>,
    cwd: &str,
) -> Result<(ConversationClue, Option<String>), LaunchError> {
    let agent = adapter.agent_profile().id.to_owned();
    let known: HashSet<&str> = observation.known_ids().collect();
    let new_in = || {
        let before = known.iter().map(|id| (*id).to_owned()).collect();
        Some((cwd.to_owned(), before))
    };
    if let Some(one) = resumed {
        let id = (!one.fork).then(|| one.id.to_owned());
        let new_in = if one.fork { new_in() } else { None };
        let clue = ConversationClue { agent, id, new_in, ..ConversationClue::default() };
        return Ok((clue, one.path.map(str::to_owned)));
    }
    let clue = match control.id_rule {
        IdRule::ChosenUuid => {
            let id = draw_unused_id(sys::random::new_uuid, |id| known.contains(id))?;
            ConversationClue { agent, id: Some(id), ..ConversationClue::default() }
        }
        IdRule::ChosenPath => {
            let id = draw_unused_id(sys::random::new_uuid, |id| known.contains(id))?;
            let path = adapter.new_transcript_path(&machine.env(), cwd, &id);
            ConversationClue { agent, path, ..ConversationClue::default() }
        }
        IdRule::Registered | IdRule::AtFirstPrompt => {
            ConversationClue { agent, new_in: new_in(), ..ConversationClue::default() }
        }
    };
    let path = clue.path.as_ref().map(|path: &PathBuf| path.to_string_lossy().into_owned());
    Ok((clue, path))
}

/// An id that no conversation has: an agent that is given one which exists goes on with that.
fn draw_unused_id(
    mut draw: impl FnMut() -> std::io::Result<String>,
    is_known: impl Fn(&str) -> bool,
) -> Result<String, LaunchError> {
    for _ in 0..16 {
        let id = draw().map_err(|error| LaunchError::Observe(error.to_string()))?;
        if !is_known(&id) {
            return Ok(id);
        }
    }
    Err(LaunchError::Observe("no id could be drawn that is not in use".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_35_an_id_that_exists_is_never_taken() {
        let mut drawn = ["a", "a", "b"].into_iter();
        let draw = || Ok(drawn.next().unwrap_or_default().to_owned());
        assert_eq!(draw_unused_id(draw, |id| id == "a").unwrap(), "b");
        assert!(draw_unused_id(|| Ok("a".to_owned()), |_| true).is_err());
    }
}
