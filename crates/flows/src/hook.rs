//! The hook: what an agent runs, and waits for, at every turn.
//!
//! It reads the payload, finds the agent's process and adds one line to the spool. No lock, no
//! database, no thread, no other program. The agent must not notice any failure: problems
//! are a line in a small log that `ostler doctor` shows.
//!
//! A process that was marked at its launch asks ostler for permissions: its hook then waits for an answer.

use std::fmt::Display;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use adapters::hooks;
use model::control::permits::{PermitMarker, PermitRequest, PermitVerdict};
use model::event::{HookHappening, HookReport};
use model::time::Time;
use sys::machine::Machine;

mod waiting;

use waiting::{OpenRequest, WaitEnd};

use crate::timeouts::PAYLOAD_READ_TIMEOUT;

/// The most of a payload that is read.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;

/// How large the log of problems may grow.
const MAX_PROBLEM_LOG_BYTES: u64 = 64 << 10;

/// The spool below ostler's home.
pub fn spool_path(home: &Path) -> PathBuf {
    home.join("spool/events.jsonl")
}

/// Where payloads are kept whose texts did not fit into a line.
pub fn spill_directory(home: &Path) -> PathBuf {
    home.join("spool/spill")
}

/// Where the log of problems may be: in ostler's home, or in the runtime directory if that cannot
/// be written to.
pub fn problem_logs(home: Option<&Path>, runtime: &Path) -> Vec<PathBuf> {
    home.into_iter().chain([runtime]).map(|place| place.join("hook-problems.log")).collect()
}

/// One call of the hook command.
#[derive(Debug)]
pub struct HookCall<'a, I> {
    /// The adapter's id.
    pub agent: &'a str,
    /// What the agent calls the event.
    pub event: &'a str,
    /// The payload, for agents that give it as an argument.
    pub argument: Option<&'a str>,
    /// Where it comes from otherwise.
    pub stdin: I,
    /// The machine, or why its home is not known.
    pub machine: Result<&'a Machine, String>,
    /// ostler's directory for sockets, where problems go without a home.
    pub runtime: &'a Path,
    /// When the agent called.
    pub at: Time,
}

/// An answer to be given to the agent.
#[derive(Debug)]
pub struct HookReply {
    /// What the agent reads.
    pub text: String,
    request: OpenRequest,
}

impl HookReply {
    /// The agent has it.
    pub fn note_given(self) {
        self.request.close_answered();
    }
}

/// Takes one report in. There is nothing to return but the answer to a question that a person was asked.
pub fn receive_report<I: AsFd>(call: &HookCall<'_, I>) -> Option<HookReply> {
    match try_receive_report(call) {
        Ok(reply) => reply,
        Err(problem) => {
            log_problem(call, &problem);
            None
        }
    }
}

fn try_receive_report<I: AsFd>(call: &HookCall<'_, I>) -> Result<Option<HookReply>, String> {
    let machine = call.machine.clone()?;
    let home = machine.home();
    let adapter = adapters::by_id(call.agent).ok_or("there is no adapter of that name")?;
    let about = adapter.agent_profile();
    let known = about.hooks.ok_or("this agent has no hooks that are understood")?;
    if call.event.is_empty() {
        return Err("no event was named".to_owned());
    }
    let (payload, cut) = read_payload(call)?;
    let Some(event) = hooks::read_hook_event(known, call.event, &payload) else {
        let asked = known.events.iter().any(|(name, _)| *name == call.event);
        // An event that is not wanted is no problem; one that cannot be understood is.
        return if asked { Err(not_understood(&payload)) } else { Ok(None) };
    };
    let env = machine.env();
    let named = known.pid_variables.iter().filter_map(|name| env.get(name));
    let named = named.filter_map(|value| value.to_str()?.parse().ok());
    let claims: Vec<u32> = named.chain(hooks::claimed_pid(&payload)).collect();
    let owner = sys::owner::capture_owner(&[(about.id, about.program)], &claims);
    let at = machine.read_clock();
    let mut report = HookReport {
        id: sys::clock::unique_suffix(at),
        at,
        agent: about.id.to_owned(),
        event: call.event.to_owned(),
        hook: event,
        root: adapter.session_roots(&env).first().map(|root| root.to_string_lossy().into_owned()),
        owner: owner.map(|owner| owner.identity),
        spill: None,
        cut,
        permit: None,
    };
    let marker = permit_marker(call, machine);
    if let Some(marker) = marker {
        report.permit = sys::random::new_ulid().ok();
        if marker.only {
            report.hook.happening = HookHappening::Sign;
        }
    }
    if cut || report.is_shortened() {
        let name = format!("{}.json", report.id);
        let spilled = sys::append::append_bytes(&spill_directory(home).join(&name), &payload);
        match spilled {
            Ok(()) => report.spill = Some(name),
            // The line matters more.
            Err(error) => log_problem(call, &format!("the payload could not be kept: {error}")),
        }
    }
    let line = report.to_line().ok_or("the report does not fit into a line")?;
    sys::append::append_bytes(&spool_path(home), &line)
        .map_err(|error| format!("the spool could not be written: {error}"))?;
    match marker {
        Some(marker) => ask_for_permission(call, machine, &report, payload, marker),
        None => Ok(None),
    }
}

/// Whether this process was marked at its launch to ask ostler, and this is a question that it can answer.
fn permit_marker<I>(call: &HookCall<'_, I>, machine: &Machine) -> Option<PermitMarker> {
    let marker = PermitMarker::parse(machine.env().get(PermitMarker::VARIABLE)?.to_str()?)?;
    hooks::render_permission_answer(call.agent, call.event, true, None).map(|_| marker)
}

/// Writes the question down and waits for its answer.
fn ask_for_permission<I>(
    call: &HookCall<'_, I>,
    machine: &Machine,
    report: &HookReport,
    payload: Vec<u8>,
    marker: PermitMarker,
) -> Result<Option<HookReply>, String> {
    let Some(id) = report.permit.clone() else { return Ok(None) };
    let question = hooks::read_permission_question(&payload);
    // Nothing of it is held in memory for as long as a person takes.
    drop(payload);
    let request = PermitRequest {
        id,
        agent: report.agent.clone(),
        session: report.hook.session.clone(),
        subagent: report.hook.subagent.clone(),
        tool: report.hook.detail.clone(),
        input: question.input,
        cut: report.cut,
        cwd: report.hook.cwd.clone(),
        asked_at: report.at,
        until: report.at.plus(marker.wait),
        asker: machine.identify_process(std::process::id()).map_err(|error| error.to_string())?,
        owner: report.owner.clone(),
        route: None,
    };
    let home = machine.home();
    let spool = spool_path(home);
    let mut open = OpenRequest::write_down(home, spool, report, request, question.tool_use)?;
    match open.await_answer(marker.wait) {
        WaitEnd::Unanswered => {
            open.close_unanswered();
            Ok(None)
        }
        WaitEnd::Answered(answer) => {
            let is_allowed = answer.verdict == PermitVerdict::Allow;
            let message = answer.message.as_deref();
            let text = hooks::render_permission_answer(call.agent, call.event, is_allowed, message);
            Ok(text.map(|text| HookReply { text, request: open }))
        }
    }
}

fn read_payload<I: AsFd>(call: &HookCall<'_, I>) -> Result<(Vec<u8>, bool), String> {
    if let Some(argument) = call.argument {
        let end = argument.floor_char_boundary(MAX_PAYLOAD_BYTES);
        return Ok((argument.as_bytes()[..end].to_vec(), end < argument.len()));
    }
    let input = sys::input::read_bounded(&call.stdin, MAX_PAYLOAD_BYTES, PAYLOAD_READ_TIMEOUT)
        .map_err(|error| format!("the payload could not be read: {error}"))?;
    Ok((input.bytes, input.cut || !input.ended))
}

fn not_understood(payload: &[u8]) -> String {
    // Never the payload itself: it may hold secrets.
    match payload.len() {
        0 => "no payload was given".to_owned(),
        bytes => format!(
            "a payload of {bytes} bytes names no session by an id of letters, digits and _.:@+-"
        ),
    }
}

fn log_problem<I>(call: &HookCall<'_, I>, problem: &dyn Display) {
    let name =
        |text: &str| -> String { text.chars().take(64).flat_map(char::escape_default).collect() };
    let (agent, event) = (name(call.agent), name(call.event));
    let line = format!("{} {agent} {event}: {problem}\n", call.at);
    for log in problem_logs(call.machine.as_ref().ok().map(|machine| machine.home()), call.runtime)
    {
        if sys::append::append_up_to(MAX_PROBLEM_LOG_BYTES, &log, line.as_bytes()).is_ok() {
            return;
        }
    }
}
