//! Resuming conversations: the right one or none, in its own directory, never while it may be held.
//!
//! Verify, then speak: the started process must be proven to have exactly this conversation before it is
//! told anything. Two resumes of one conversation are kept apart by a lock, not by luck.

use std::path::{Path, PathBuf};
use std::time::Instant;

use model::control::delivery::DeliveryState;
use model::control::holders::{
    ConversationHolder, HandOverCaller, HandOverWay, check_resumable, decide_hand_over,
    holders_of_session,
};
use model::control::note::ControlEvent;
use model::control::refusal::DriveRefusal;
use model::control::wire::{LaunchResult, LaunchState, launch_failure};
use model::rules::judge::proven_owners;
use model::session::{SessionKind, SessionName};
use model::status::Activity;
use sys::dropped::NoteDropped;
use sys::lock::{AdvisoryLock, LockAttempt};
use sys::machine::Machine;

use super::launch::{LaunchError, LaunchRequest, LaunchScene, StartedAgent};
use super::launch_plan::{ResumedConversation, plan_start};
use super::launch_terms::{check_alone, hold_place};
use super::prompt::{PromptError, PromptRequest, TurnPause, deliver_prompt};
use super::ready_agent::find_named;
use super::transcript_watch::TranscriptWatch;
use super::who::look_at_holders;
use crate::observe::{Observation, Observed};
use crate::stop::{SessionGlance, StopError, StopOptions, plan_stop};
use crate::timeouts::{HAND_OVER_GRACE, LONGEST_WATCH_SPAN};

/// Which conversation goes on, and what may be done for that.
#[derive(Clone, Debug)]
pub struct ResumeRequest {
    pub target: SessionName,
    /// How its agent is started; its directory only if another one is wanted.
    pub start: LaunchRequest,
    /// Into a new conversation that begins with this one.
    pub fork: bool,
    /// Take it from the process that has it.
    pub take_over: bool,
    /// Wait until that process is idle.
    pub when_idle: bool,
    /// Take it from all of several.
    pub all_holders: bool,
}

/// Goes on with a conversation in a new process.
pub fn resume_session(
    request: &ResumeRequest,
    scene: &mut LaunchScene<'_>,
) -> Result<LaunchResult, LaunchError> {
    let _turn = hold_conversation(&scene.terminals.machine, &request.target)?;
    sys::pause::pause_at("resume.locked");
    // Only now: the previous lock holder may have started it.
    let observation = (scene.observe)().map_err(LaunchError::Observe)?;
    let one = find_conversation(&observation, &request.target)?;
    let cwd = choose_directory(request, one)?;
    let own = (!request.fork).then_some(&request.target);
    let _alone = hold_place(&request.start, &cwd, own, scene)?;
    if request.take_over && !request.fork {
        if let Some(attached) = take_over(request, &observation, scene)? {
            return Ok(attached);
        }
    } else if !request.fork {
        check_free(&observation, &look_at_holders(one))?;
    }
    let plan = plan_resume(request, one, scene)?;
    let mut started = StartedAgent::begin(&request.start, plan, scene)?;
    started.come_up(&request.start, scene)?;
    started.finish(scene, ControlEvent::Resumed)
}

/// Says what would be started.
pub fn preview_resume(
    request: &ResumeRequest,
    scene: &mut LaunchScene<'_>,
) -> Result<LaunchResult, LaunchError> {
    let one = find_conversation(scene.before, &request.target)?;
    let holders = holders_of_session(&one.session);
    if !request.take_over && !request.fork {
        check_free(scene.before, &holders)?;
    }
    let plan = plan_resume(request, one, scene)?;
    let own = (!request.fork).then_some(&request.target);
    check_alone(&request.start, &plan.cwd, scene.before, own)?;
    Ok(LaunchResult { dry_run: true, ..plan.blank_result(&request.start) })
}

/// The turn to start a process for a conversation; held until that process has it.
fn hold_conversation(machine: &Machine, name: &SessionName) -> Result<AdvisoryLock, LaunchError> {
    let failed = |reason: String| LaunchError::Observe(reason);
    let directory = machine.home().join("locks");
    sys::private::create_private_dir(&directory).map_err(|error| failed(error.to_string()))?;
    let hash = sys::hash::sha256(name.to_string().as_bytes());
    let path: PathBuf = directory.join(format!("resume-{}.lock", &hash[..24]));
    match sys::lock::try_take(&path).map_err(|error| failed(error.to_string()))? {
        LockAttempt::Taken(mut lock) => {
            if let Ok(ours) = machine.identify_process(std::process::id()) {
                lock.write_holder(&ours).map_err(|error| failed(error.to_string()))?;
            }
            Ok(lock)
        }
        LockAttempt::Held(holder) => {
            let pids = holder.and_then(|holder| holder.pid).into_iter().collect();
            Err(DriveRefusal::Held { pids, terminal: None }.into())
        }
    }
}

fn find_conversation<'a>(
    observation: &'a Observation,
    name: &SessionName,
) -> Result<&'a Observed, LaunchError> {
    let one = find_named(observation, name)
        .ok_or_else(|| DriveRefusal::NotAlive { why: "it is not listed any more".to_owned() })?;
    if one.session.kind != SessionKind::Native || one.session.digest.parent.is_some() {
        let agent = one.session.agent.to_owned();
        let mode = "resumed: it is no conversation of its own".to_owned();
        return Err(DriveRefusal::NoSuchMode { agent, mode }.into());
    }
    Ok(one)
}

/// Refuses a conversation that is held, or may be.
fn check_free(
    observation: &Observation,
    holders: &[ConversationHolder],
) -> Result<(), DriveRefusal> {
    let blind = observation.incomplete.iter().find(|source| source.source == "process table");
    check_resumable(holders, blind.map(|source| source.reason.as_str()))
}

/// Where the conversation goes on.
fn choose_directory(request: &ResumeRequest, one: &Observed) -> Result<String, DriveRefusal> {
    let not_driven = || DriveRefusal::NotDriven { agent: one.session.agent.to_owned() };
    let control = adapters::by_id(one.session.agent).and_then(|adapter| adapter.control_table());
    let control = control.ok_or_else(not_driven)?;
    if request.fork && control.fork.is_none() {
        let agent = one.session.agent.to_owned();
        let mode = "forked by an option of its own".to_owned();
        return Err(DriveRefusal::NoSuchMode { agent, mode });
    }
    match &request.start.cwd {
        Some(cwd) if control.resumes_elsewhere => Ok(cwd.clone()),
        Some(_) => {
            let agent = one.session.agent.to_owned();
            let mode = "resumed in another directory than its own".to_owned();
            Err(DriveRefusal::NoSuchMode { agent, mode })
        }
        None => own_directory(one),
    }
}

fn plan_resume(
    request: &ResumeRequest,
    one: &Observed,
    scene: &LaunchScene<'_>,
) -> Result<super::launch_plan::LaunchPlan, LaunchError> {
    let cwd = choose_directory(request, one)?;
    let start = LaunchRequest { cwd: Some(cwd), ..request.start.clone() };
    let path = one.source.as_ref().map(|source| source.path.to_string_lossy().into_owned());
    let resumed =
        ResumedConversation { id: &one.session.id, path: path.as_deref(), fork: request.fork };
    plan_start(&start, &scene.terminals.machine, scene.before, Some(&resumed))
}

/// Where the conversation worked, if that is still the same place.
fn own_directory(one: &Observed) -> Result<String, DriveRefusal> {
    let Some(cwd) = &one.session.digest.cwd else {
        return Err(DriveRefusal::DirectoryMissing {
            path: String::new(),
            why: "its record does not say where it worked".to_owned(),
        });
    };
    let missing = |why: String| DriveRefusal::DirectoryMissing { path: cwd.clone(), why };
    let real = std::fs::canonicalize(cwd).map_err(|error| missing(error.to_string()))?;
    if !real.is_dir() {
        return Err(missing("it is no directory any more".to_owned()));
    }
    if real != Path::new(cwd) {
        return Err(missing(format!("it is a link to {} by now", real.display())));
    }
    Ok(cwd.clone())
}

/// Frees the conversation; the answer at once where it runs in a terminal of ostler's already.
fn take_over(
    request: &ResumeRequest,
    observation: &Observation,
    scene: &mut LaunchScene<'_>,
) -> Result<Option<LaunchResult>, LaunchError> {
    let later;
    let mut look = HolderLook::of(observation, request)?;
    if look.way == HandOverWay::Wait && request.when_idle {
        later = await_idle(request, look.one, scene)?;
        look = HolderLook::of(&later, request)?;
    }
    match look.way {
        HandOverWay::Resume => {
            check_free(look.observation, &look.holders)?;
            Ok(None)
        }
        HandOverWay::Attach => {
            let terminal = look.holders.iter().find_map(|holder| holder.terminal.clone());
            let plan = plan_resume(request, look.one, scene)?;
            let attached = LaunchResult {
                terminal,
                state: LaunchState::Ready,
                process: look.holders.first().map(|holder| (&holder.process).into()),
                reason: Some("it runs in a terminal of ostler's: nothing was restarted".to_owned()),
                ..plan.blank_result(&request.start)
            };
            match plan.text {
                Some(text) => prompt_attached(request, text, attached, scene).map(Some),
                None => Ok(Some(attached)),
            }
        }
        HandOverWay::StopAndResume => {
            look.check_count(request)?;
            sys::pause::pause_at("hand-over.decided");
            release_holders(request, scene)?;
            Ok(None)
        }
        HandOverWay::SupervisorCommand => {
            let view = super::who::describe_holders(look.one).hand_over;
            let id = &look.one.session.id;
            let command = view.command.unwrap_or_else(|| format!("ostler who {id}"));
            Err(DriveRefusal::Supervised { command }.into())
        }
        HandOverWay::Wait | HandOverWay::None => {
            Err(DriveRefusal::NotTaken { why: look.reason.to_owned() }.into())
        }
    }
}

/// Who holds the conversation by one look, and what can be done about it. Nothing is decided by two looks at once: a
/// holder may end or join between them.
struct HolderLook<'a> {
    observation: &'a Observation,
    one: &'a Observed,
    holders: Vec<ConversationHolder>,
    way: HandOverWay,
    reason: &'static str,
}

impl<'a> HolderLook<'a> {
    fn of(observation: &'a Observation, request: &ResumeRequest) -> Result<Self, LaunchError> {
        let one = find_conversation(observation, &request.target)?;
        let holders = look_at_holders(one);
        let caller = HandOverCaller { uid: sys::private::our_uid() };
        let (way, reason) = decide_hand_over(&holders, caller);
        Ok(Self { observation, one, holders, way, reason })
    }

    /// Several are stopped only by whoever means all of them.
    fn check_count(&self, request: &ResumeRequest) -> Result<(), DriveRefusal> {
        let pids: Vec<u32> = self.holders.iter().filter_map(|holder| holder.process.pid).collect();
        match pids.len() > 1 && !request.all_holders {
            true => Err(DriveRefusal::SeveralHolders { pids }),
            false => Ok(()),
        }
    }
}

/// Gives the prompt to an agent that runs in a terminal of ostler's already.
fn prompt_attached(
    request: &ResumeRequest,
    text: String,
    mut result: LaunchResult,
    scene: &mut LaunchScene<'_>,
) -> Result<LaunchResult, LaunchError> {
    let prompt = PromptRequest {
        target: request.target.clone(),
        text,
        into_working: false,
        is_command: false,
        over_person: false,
        key: None,
        wait_idle: request.start.wait_idle,
        idle_timeout: request.start.turn_timeout,
        accept_timeout: request.start.accept_timeout,
        path: request.start.path.clone(),
    };
    let (state, record) =
        match deliver_prompt(scene.terminals, &prompt, scene.ledger, scene.observe) {
            Ok(record) if record.state == DeliveryState::Accepted => {
                (LaunchState::Accepted, Some(record))
            }
            Ok(record) => {
                result.reason.clone_from(&record.reason);
                (LaunchState::Ready, Some(record))
            }
            Err(PromptError::Unfinished(record, TurnPause::Asks)) => {
                (LaunchState::Blocked, Some(*record))
            }
            Err(PromptError::Unfinished(record, TurnPause::TimedOut)) => {
                (LaunchState::Waiting, Some(*record))
            }
            Err(PromptError::Refused(refusal)) => return Err(refusal.into()),
            Err(PromptError::Terminal(fault)) => return Err(fault.into()),
            Err(error @ (PromptError::StillWorking(_) | PromptError::NotReady { .. })) => {
                result.reason = Some(error.to_string());
                (LaunchState::Waiting, None)
            }
            Err(error) => return Err(LaunchError::Observe(error.to_string())),
        };
    (result.state, result.delivery) = (state, record);
    result.incomplete.append(&mut scene.ledger.incomplete);
    match launch_failure(&result) {
        Some(_) => Err(LaunchError::Unfinished(Box::new(result))),
        None => Ok(result),
    }
}

/// Waits until the holder has ended its turn, and returns what was seen then.
fn await_idle(
    request: &ResumeRequest,
    one: &Observed,
    scene: &mut LaunchScene<'_>,
) -> Result<Observation, LaunchError> {
    let until = Instant::now() + request.start.turn_timeout;
    let mut watch = TranscriptWatch::default();
    watch.follow(one.source.as_deref());
    sys::pause::pause_at("hand-over.waits");
    loop {
        let seen = (scene.observe)().map_err(LaunchError::Observe)?;
        let works = HolderLook::of(&seen, request)?.way == HandOverWay::Wait;
        let left = until.saturating_duration_since(Instant::now());
        if !works || left.is_zero() {
            return Ok(seen);
        }
        watch.wait(left.min(LONGEST_WATCH_SPAN));
    }
}

/// Decides again at the last moment: a holder may have begun to work since, have ended, or have been joined by another.
fn may_be_stopped(
    request: &ResumeRequest,
    scene: &mut LaunchScene<'_>,
) -> Result<bool, LaunchError> {
    let later;
    let seen = (scene.observe)().map_err(LaunchError::Observe)?;
    let mut look = HolderLook::of(&seen, request)?;
    if look.way == HandOverWay::Wait && request.when_idle {
        later = await_idle(request, look.one, scene)?;
        look = HolderLook::of(&later, request)?;
    }
    match look.way {
        HandOverWay::StopAndResume => {
            look.check_count(request)?;
            Ok(true)
        }
        HandOverWay::Resume => Ok(false),
        _ => Err(DriveRefusal::NotTaken { why: look.reason.to_owned() }.into()),
    }
}

/// Stops the holders of the conversation, and proves that it is free. Killed in the middle it leaves the
/// holder or a conversation that can be resumed; the events say which.
fn release_holders(
    request: &ResumeRequest,
    scene: &mut LaunchScene<'_>,
) -> Result<(), LaunchError> {
    let seen = (scene.observe)().map_err(LaunchError::Observe)?;
    let one = find_conversation(&seen, &request.target)?;
    let plan = match plan_stop(&seen, one, scene.terminals, &[]) {
        Ok(plan) => Some(plan),
        // It has ended by itself meanwhile.
        Err(StopError::Refused(DriveRefusal::NotAlive { .. })) => None,
        Err(StopError::Refused(refusal)) => return Err(refusal.into()),
        Err(StopError::Host(fault)) => return Err(fault.into()),
    };
    sys::pause::pause_at("hand-over.planned");
    if let Some(plan) = plan
        && may_be_stopped(request, scene)?
    {
        let options = StopOptions { grace: HAND_OVER_GRACE, now: false, turn_only: false };
        let cell = std::cell::RefCell::new(&mut *scene.observe);
        let look_again = || {
            let seen = (*cell.borrow_mut())().ok_or_note("looking again before a hand-over")?;
            let one = find_named(&seen, &request.target)?;
            Some(SessionGlance {
                held: proven_owners(&one.session).next().is_some(),
                activity: one.verdict.activity.unwrap_or(Activity::Unknown),
            })
        };
        let stopped = plan.carry_out(&options, scene.terminals, &look_again);
        let stopped = stopped.map_err(|error| match error {
            StopError::Refused(refusal) => LaunchError::from(refusal),
            StopError::Host(fault) => fault.into(),
        })?;
        let detail = serde_json::json!({
            "handOver": true,
            "processes": stopped.processes.len(),
            "left": stopped.left.len(),
        });
        scene.ledger.keep_event(ControlEvent::Stopped, &request.target, detail);
        if !stopped.left.is_empty() {
            let pids = stopped.left.iter().filter_map(|process| process.pid).collect();
            return Err(DriveRefusal::Held { pids, terminal: None }.into());
        }
    }
    sys::pause::pause_at("hand-over.stopped");
    let seen = (scene.observe)().map_err(LaunchError::Observe)?;
    let one = find_conversation(&seen, &request.target)?;
    check_free(&seen, &holders_of_session(&one.session))?;
    Ok(())
}
