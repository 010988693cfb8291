//! The agent that a prompt is for: how it is reached, and what is in the way.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Instant;

use adapters::control::PermissionChannel;
use adapters::{AgentControl, TranscriptSource};
use model::control::holders::{HandOverWay, holders_of_session};
use model::control::refusal::DriveRefusal;
use model::liveness::{Death, Liveness};
use model::session::{SessionKind, SessionName};
use model::sighting::TurnState;
use model::status::Activity;
use model::time::Time;
use sys::dropped::NoteDropped;

use super::conversation::ConversationClue;
use super::fresh::{ToldConversation, begins_another, find_unattached, is_fresh, moved_on_to};
use super::idle::{EnterSight, look_at_enters};
use super::prompt::{PromptError, PromptRequest};
use super::running::LookAtMachine;
use super::transcript_watch::TranscriptWatch;
use super::who::{agents_within, describe_holders};
use crate::observe::{Observation, Observed};
use crate::permit_files::find_input_file;
use crate::permits::permits_directory;
use crate::resume::resume_line;
use crate::terminal::TerminalHome;
use crate::timeouts::{LONGEST_WATCH_SPAN, LOOK_AGAIN_INTERVAL};

/// An agent that can take the prompt now.
pub(super) struct ReadyAgent {
    pub(super) name: SessionName,
    pub(super) way: PromptWay,
    pub(super) source: Option<Box<TranscriptSource>>,
    pub(super) control: &'static AgentControl,
    /// Whether its record holds a prompt.
    pub(super) prompted: bool,
    /// The path that it was told to write to, of one without a conversation.
    pub(super) path: Option<PathBuf>,
    /// Of one without a conversation, where that will be and which are there already.
    pub(super) new_in: Option<(String, HashSet<String>)>,
    /// When its last turn ended, if that is over.
    pub(super) turn_ended: Option<Time>,
    /// How often Enter was pressed in its terminal when it was seen idle.
    pub(super) enters: Option<u64>,
}

/// How the prompt gets to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PromptWay {
    /// Through the terminal of that id.
    Terminal(String),
    /// By the agent's own queue.
    Queue(&'static [&'static str]),
    /// By a line in a file that the agent reads; it runs in the terminal of that id, if in any.
    Lines(PathBuf, Option<String>),
}

/// Waits for an agent that works, and refuses everything else that is in the way.
pub(super) fn wait_until_ready(
    home: &TerminalHome,
    request: &PromptRequest,
    until: Instant,
    observe: &mut LookAtMachine<'_>,
) -> Result<ReadyAgent, PromptError> {
    let mut watch = TranscriptWatch::default();
    loop {
        let looked_at = Instant::now();
        let observation = observe().map_err(PromptError::Observe)?;
        let (mut agent, activity) = check_agent(&observation, home, request)?;
        let mut patience = LONGEST_WATCH_SPAN;
        match activity {
            // Its own queue takes it in any activity.
            _ if matches!(agent.way, PromptWay::Queue(_)) => return Ok(agent),
            Activity::Working if request.into_working && !agent.takes_prompts_at_work() => {
                let mode = "prompted while it works: wait for the end of its turn".to_owned();
                return Err(DriveRefusal::NoSuchMode { agent: agent.name.agent, mode }.into());
            }
            Activity::Working if !request.into_working => {}
            Activity::Unknown if !request.into_working && !agent.is_fresh(home) => {
                return Err(DriveRefusal::ActivityUnknown.into());
            }
            _ if request.into_working => return Ok(agent),
            _ => match agent.look_at_enters(home, looked_at) {
                EnterSight::Stands(enters) => {
                    agent.enters = enters;
                    sys::pause::pause_at("prompt.seen-idle");
                    return Ok(agent);
                }
                EnterSight::TooSoon => patience = LOOK_AGAIN_INTERVAL,
            },
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(PromptError::StillWorking(request.idle_timeout.as_secs()));
        }
        if !watch.follow(agent.source.as_deref()) {
            watch.wait(left.min(patience));
        }
    }
}

/// The agent behind the target, if nothing but its work stands in the way.
fn check_agent(
    observation: &Observation,
    home: &TerminalHome,
    request: &PromptRequest,
) -> Result<(ReadyAgent, Activity), DriveRefusal> {
    let gone = || DriveRefusal::NotAlive { why: "it is not listed any more".to_owned() };
    let target = find_named(observation, &request.target).ok_or_else(gone)?;
    let named_terminal = (target.session.kind == SessionKind::Hosted).then_some(target);
    let one = match named_terminal {
        Some(terminal) if terminal.session.linked.is_empty() => {
            let agent = new_agent(observation, home, terminal)?;
            return Ok((agent, Activity::Unknown));
        }
        Some(terminal) => {
            let one = linked_agent(observation, terminal)?;
            if let Some(told) = begins_another(home, terminal, one) {
                let cwd = one.session.digest.cwd.as_deref();
                let agent = beginning_agent(observation, terminal, one.session.agent, cwd, told)?;
                return Ok((agent, Activity::Unknown));
            }
            one
        }
        None => target,
    };
    let not_driven = || DriveRefusal::NotDriven { agent: one.session.agent.to_owned() };
    let adapter = adapters::by_id(one.session.agent).ok_or_else(not_driven)?;
    let control = adapter.control_table().ok_or_else(not_driven)?;
    if control.interactive.is_none() {
        return Err(not_driven());
    }
    if !one.verdict.liveness.is_alive() {
        return Err(refuse_dead(observation, home, one));
    }
    let holders = holders_of_session(&one.session);
    let live: Vec<u32> = holders
        .iter()
        .filter(|holder| holder.liveness.is_alive())
        .filter_map(|holder| holder.process.pid)
        .collect();
    if live.len() > 1 && named_terminal.is_none() {
        return Err(DriveRefusal::SeveralHolders { pids: live });
    }
    let linked = one.session.linked.iter().find(|linked| linked.agent == "terminal");
    let terminal = named_terminal.map(|terminal| &terminal.session.id);
    let terminal = terminal.or(linked.map(|linked| &linked.id));
    let activity = one.verdict.activity.unwrap_or(Activity::Unknown);
    let reads_lines = control.permission_channel == PermissionChannel::FilePair;
    let permits = permits_directory(home.machine.home());
    let input = reads_lines.then(|| find_input_file(&permits, &live)).flatten();
    let works = request.into_working && activity == Activity::Working;
    let way = choose_way(input, terminal, control.queue.filter(|_| terminal.is_none() || works));
    let way = way.ok_or_else(|| refuse_unreachable(one))?;
    if activity == Activity::Waiting {
        let asking = one.session.claims.iter().find_map(|claim| claim.waiting_for.clone());
        return Err(DriveRefusal::AgentWaits { question: asking });
    }
    let ready = ReadyAgent {
        name: one.session.session_name(),
        way,
        source: one.source.clone(),
        control,
        prompted: one.session.digest.turns > 0 || one.session.digest.first_prompt.is_some(),
        path: None,
        new_in: None,
        turn_ended: one
            .session
            .last_activity_at()
            .filter(|_| one.session.digest.turn == TurnState::Closed),
        enters: None,
    };
    Ok((ready, activity))
}

/// How a prompt gets to a live conversation, if in any way. Its own queue keeps the order of turns as the agent has it.
fn choose_way(
    input: Option<PathBuf>,
    terminal: Option<&String>,
    queue: Option<&'static [&'static str]>,
) -> Option<PromptWay> {
    if let Some(input) = input {
        return Some(PromptWay::Lines(input, terminal.cloned()));
    }
    queue.map(PromptWay::Queue).or_else(|| terminal.cloned().map(PromptWay::Terminal))
}

impl ReadyAgent {
    /// By what its conversation is known.
    pub(super) fn clue(&self) -> ConversationClue {
        ConversationClue {
            agent: self.name.agent.clone(),
            id: Some(self.name.id.clone()).filter(|id| !id.is_empty()),
            path: self.path.clone(),
            new_in: self.new_in.clone(),
            terminal: match &self.way {
                PromptWay::Terminal(id) => Some(id.clone()),
                PromptWay::Lines(_, terminal) => terminal.clone(),
                PromptWay::Queue(_) => None,
            },
        }
    }

    /// Whether a prompt may meet its questions: Enter would answer one that opens.
    fn takes_prompts_at_work(&self) -> bool {
        !matches!(self.way, PromptWay::Terminal(_)) || self.control.takes_prompts_at_work
    }

    /// Whether it is still what a look at it that began then told.
    fn look_at_enters(&self, home: &TerminalHome, looked_at: Instant) -> EnterSight {
        let PromptWay::Terminal(terminal) = &self.way else { return EnterSight::Stands(None) };
        let now = home.machine.read_clock();
        let session = home.open_session(terminal).ok_or_note("the terminal of an idle agent");
        session.map_or(EnterSight::Stands(None), |session| {
            look_at_enters(&session, looked_at, self.turn_ended, now)
        })
    }

    /// Whether it is proven to have been told nothing yet.
    fn is_fresh(&self, home: &TerminalHome) -> bool {
        let (PromptWay::Terminal(terminal) | PromptWay::Lines(_, Some(terminal))) = &self.way
        else {
            return false;
        };
        let session = home.open_session(terminal);
        !self.prompted && session.is_ok_and(|session| is_fresh(&session, self.control))
    }
}

/// An agent that begins its conversation with the first prompt.
fn new_agent(
    observation: &Observation,
    home: &TerminalHome,
    terminal: &Observed,
) -> Result<ReadyAgent, DriveRefusal> {
    let nobody = || DriveRefusal::NotAlive {
        why: "no agent with a session of its own runs in that terminal".to_owned(),
    };
    let (agent, cwd) = find_unattached(observation, home, terminal).ok_or_else(nobody)?;
    beginning_agent(observation, terminal, agent, cwd, ToldConversation::default())
}

fn beginning_agent(
    observation: &Observation,
    terminal: &Observed,
    agent: &'static str,
    cwd: Option<&str>,
    told: ToldConversation,
) -> Result<ReadyAgent, DriveRefusal> {
    let not_driven = || DriveRefusal::NotDriven { agent: agent.to_owned() };
    let control = adapters::by_id(agent).and_then(|adapter| adapter.control_table());
    let control = control.filter(|control| control.interactive.is_some());
    let before = observation.known_ids().map(str::to_owned).collect();
    Ok(ReadyAgent {
        name: SessionName::new(agent, told.id.unwrap_or_default()),
        path: told.path,
        way: PromptWay::Terminal(terminal.session.id.clone()),
        source: None,
        control: control.ok_or_else(not_driven)?,
        prompted: false,
        new_in: cwd.map(|cwd| (cwd.to_owned(), before)),
        turn_ended: None,
        enters: None,
    })
}

/// A conversation without a process: its agent may have gone on to another one.
fn refuse_dead(observation: &Observation, home: &TerminalHome, one: &Observed) -> DriveRefusal {
    let was_here = |claim: &&model::session::ProcessClaim| {
        claim.liveness == Liveness::Dead(Death::NotAttached)
    };
    let pids: Vec<u32> =
        one.session.claims.iter().filter(was_here).filter_map(|claim| claim.identity.pid).collect();
    let has_it = |other: &&Observed| {
        other.session.agent == one.session.agent
            && holders_of_session(&other.session).iter().any(|holder| {
                holder.liveness.is_alive()
                    && holder.process.pid.is_some_and(|pid| pids.contains(&pid))
            })
    };
    let mut others = observation.sessions.iter();
    let now = others.find(has_it).map(|other| other.session.id.clone());
    match now.or_else(|| moved_on_to(observation, home, one)) {
        Some(id) => DriveRefusal::MovedOn { now: Some(id) },
        None => DriveRefusal::NotAlive { why: one.verdict.liveness.reason_code().to_owned() },
    }
}

fn refuse_unreachable(one: &Observed) -> DriveRefusal {
    let view = describe_holders(one).hand_over;
    if let (HandOverWay::SupervisorCommand, Some(command)) = (view.how, view.command) {
        let how = format!("`{command}` has it let go; then `ostler resume {}`", one.session.id);
        return DriveRefusal::NotReachable { how };
    }
    let resume = resume_line(&one.session);
    let how = resume.map_or_else(
        || "start it in a terminal of ostler's: `ostler launch`".to_owned(),
        |_| {
            format!(
                "`ostler resume {} --take-over` takes it into a terminal of ostler's",
                one.session.id
            )
        },
    );
    DriveRefusal::NotReachable { how }
}

pub(super) fn find_named<'a>(
    observation: &'a Observation,
    name: &SessionName,
) -> Option<&'a Observed> {
    observation
        .sessions
        .iter()
        .find(|one| one.session.id == name.id && one.session.agent == name.agent)
}

/// The one agent's session that runs in a terminal.
fn linked_agent<'a>(
    observation: &'a Observation,
    terminal: &Observed,
) -> Result<&'a Observed, DriveRefusal> {
    let mut linked = agents_within(observation, terminal).into_iter();
    match (linked.next(), linked.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(DriveRefusal::SeveralHolders { pids: Vec::new() }),
        (None, _) => Err(DriveRefusal::NotAlive {
            why: "no agent with a session of its own runs in that terminal".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_24_an_agent_that_was_not_raced_takes_no_prompt_at_work_through_its_terminal() {
        let agent = |id: &str, way: PromptWay| ReadyAgent {
            name: SessionName::new(id, "x"),
            way,
            source: None,
            control: adapters::by_id(id).unwrap().control_table().unwrap(),
            prompted: true,
            path: None,
            new_in: None,
            turn_ended: None,
            enters: None,
        };
        let terminal = || PromptWay::Terminal("t".to_owned());
        for (id, takes) in [("claude-code", true), ("copilot", false), ("kimi", false)] {
            assert_eq!(agent(id, terminal()).takes_prompts_at_work(), takes, "{id}");
        }
        // What goes by a queue presses no Enter.
        assert!(agent("kimi", PromptWay::Queue(&[])).takes_prompts_at_work());
    }
}
