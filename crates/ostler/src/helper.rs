//! The network helper, `ostler-net`: finding it, asking it, and supervising those that the daemon runs.
//!
//! It is a program of its own, found as git finds its helpers: beside this one, then in PATH. What reads
//! agents' files and runs in their hooks has no network stack.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use model::helper::{
    DaemonPlace, HELPER_PROTOCOL, HelperAnswer, HelperAsk, HelperFailure, HelperFailureKind,
    HelperRequest,
};
use serde::de::DeserializeOwned;
use sys::dropped::NoteDropped;
use sys::machine::Machine;

use crate::config::{self, WebStart};
use crate::env;
use crate::error::Error;
use crate::timeouts::{
    HELPER_END_INTERVAL, HELPER_END_TIMEOUT, HELPER_JOIN_TIMEOUT, LONGEST_RESTART_PAUSE,
    SHORTEST_RESTART_PAUSE,
};

/// The helper's name.
const HELPER_NAME: &str = "ostler-net";

/// Where the helper is.
pub(crate) fn find_helper() -> Result<PathBuf, Error> {
    let own = sys::spawn::this_program()?;
    let own = std::fs::canonicalize(&own).unwrap_or(own);
    let beside = own.parent().map(|directory| directory.join(HELPER_NAME));
    let in_path = env::lookup_variable("PATH").unwrap_or_default();
    let places = std::env::split_paths(&in_path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(HELPER_NAME));
    let is_program = |path: &PathBuf| path.is_file();
    beside.into_iter().chain(places).find(is_program).ok_or_else(|| {
        let directory = own.parent().unwrap_or(&own).display().to_string();
        Error::HelperMissing(format!("it is neither in {directory} nor in PATH"))
    })
}

fn helper_request(machine: &Machine, ask: HelperAsk) -> Result<Vec<u8>, Error> {
    let request = HelperRequest {
        protocol: HELPER_PROTOCOL,
        home: machine.home().to_owned(),
        cache: machine.cache().unwrap_or(machine.home()).to_owned(),
        ask,
    };
    let mut line = serde_json::to_vec(&request)?;
    line.push(b'\n');
    Ok(line)
}

fn helper_command(role: &str) -> Result<Command, Error> {
    let mut command = Command::new(find_helper()?);
    command.arg(role).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

/// Names the program that could not be started: "no such file" may be about its loader, and the file is there.
fn not_started(error: std::io::Error) -> Error {
    let failure = HelperFailure::new(
        HelperFailureKind::Protocol,
        format!("`{HELPER_NAME}` is there and cannot be started: {error}"),
        "it may be made for another system: install both programs from the same package",
    );
    failure.into()
}

/// Asks the helper one thing. What it says on stderr goes to the person.
pub(crate) fn ask_helper<T: DeserializeOwned>(
    machine: &Machine,
    ask: HelperAsk,
) -> Result<T, Error> {
    let request = helper_request(machine, ask)?;
    let mut child = helper_command("ask")?.spawn().map_err(not_started)?;
    if let Some(mut input) = child.stdin.take() {
        // One that ended already has said why.
        input.write_all(&request).note_dropped("the request of the network helper");
    }
    let output = child.wait_with_output()?;
    let answer: HelperAnswer<T> = serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = if output.stdout.is_empty() { "nothing" } else { "something else" };
        HelperFailure::new(
            HelperFailureKind::Protocol,
            format!("`{HELPER_NAME}` ended with {} and answered {said} ({error})", output.status),
            "install both programs from the same version: `cargo xtask install --net`",
        )
    })?;
    Ok(answer?)
}

/// Has the helper tell one thing after another, each on a line; ends when `each` says so or the helper ends.
pub(crate) fn follow_helper(
    machine: &Machine,
    ask: HelperAsk,
    each: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), Error> {
    let request = helper_request(machine, ask)?;
    let mut child = helper_command("follow")?.spawn().map_err(not_started)?;
    // Held until the end: the helper ends with its input.
    let mut input = child.stdin.take();
    if let Some(input) = &mut input {
        input.write_all(&request).note_dropped("the request of the network helper");
    }
    let Some(output) = child.stdout.take() else { return Ok(()) };
    let mut lines = BufReader::new(output);
    let (mut line, mut last) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        // Only whole lines are told; a failure has none.
        if lines.read_until(b'\n', &mut line)? == 0 || !line.ends_with(b"\n") {
            last.append(&mut line);
            break;
        }
        if !each(&line) {
            break;
        }
    }
    drop(input);
    child.wait().note_dropped("the end of the network helper");
    match serde_json::from_slice::<HelperAnswer<()>>(&last) {
        Ok(Err(failure)) => Err(failure.into()),
        _ => Ok(()),
    }
}

/// The longest first line of a helper that goes on.
const MOST_LINE_BYTES: usize = 1 << 20;

/// What the helper joined, what came of its stream with the first line, and the stream.
type JoinedStream<T> = (T, Vec<u8>, UnixStream);

/// Has the helper join something that goes on: its first line says whether it could, what follows is the stream's.
pub(crate) fn join_helper<T: DeserializeOwned>(
    machine: &Machine,
    ask: HelperAsk,
) -> Result<(Child, JoinedStream<T>), Error> {
    let request = helper_request(machine, ask)?;
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut command = helper_command("view")?;
    let input: std::os::fd::OwnedFd = theirs.try_clone()?.into();
    let output: std::os::fd::OwnedFd = theirs.into();
    let mut child = command.stdin(input).stdout(output).spawn().map_err(not_started)?;
    // The command holds the other end open as long as it lives.
    drop(command);
    ours.write_all(&request)?;
    ours.set_read_timeout(Some(HELPER_JOIN_TIMEOUT))?;
    let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(end) = said.iter().position(|byte| *byte == b'\n') {
            break end;
        }
        match ours.read(&mut buffer) {
            Ok(count) if count > 0 && said.len() < MOST_LINE_BYTES => {
                said.extend_from_slice(&buffer[..count]);
            }
            _ => break said.len(),
        }
    };
    ours.set_read_timeout(None)?;
    let early = said.split_off((end + 1).min(said.len()));
    let failure = match serde_json::from_slice::<HelperAnswer<T>>(&said[..end]) {
        Ok(Ok(joined)) => return Ok((child, (joined, early, ours))),
        Ok(Err(failure)) => failure,
        Err(_) => HelperFailure::new(
            HelperFailureKind::Timeout,
            format!("`{HELPER_NAME}` did not join it in time"),
            "`ostler fleet status` tells more",
        ),
    };
    // Our own child, not waited for yet.
    child.kill().note_dropped("ending the network helper");
    child.wait().note_dropped("the end of the network helper");
    Err(failure.into())
}

/// Becomes the helper, for what goes on in the foreground. Returns only if it cannot, or when it ends.
pub(crate) fn become_helper(
    machine: &Machine,
    ask: HelperAsk,
) -> Result<std::process::ExitCode, Error> {
    use std::os::unix::process::CommandExt;

    let (reader, mut writer) = std::io::pipe()?;
    // Shorter than a pipe holds: it needs no reader before this process is the helper.
    writer.write_all(&helper_request(machine, ask)?)?;
    drop(writer);
    Err(not_started(Command::new(find_helper()?).arg("hub").stdin(reader).exec()))
}

/// Tells the daemon of this home, if it runs, that its helpers have something new to look at.
pub(crate) fn wake_helpers(machine: &Machine) {
    flows::writer::call_daemon(machine, "/v1/net/wake").note_dropped("waking the daemon's helpers");
}

/// Messages to the thread that minds the helpers.
#[derive(Debug)]
pub(crate) enum HelperSignal {
    Look,
    /// A helper has ended.
    Ended(HelperRole),
    /// The daemon stops.
    Stop,
}

/// What the daemon runs helpers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelperRole {
    /// Sending events to webhooks.
    Webhooks,
    /// The link to the fleet's hub.
    Link,
    /// The page, by this program itself.
    Page,
}

impl HelperRole {
    const ALL: [Self; 3] = [Self::Webhooks, Self::Link, Self::Page];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Webhooks => "webhooks",
            Self::Link => "link",
            Self::Page => "web",
        }
    }

    fn is_wanted(self, machine: &Machine) -> bool {
        match self {
            Self::Webhooks => flows::webhooks::list_webhooks(machine.home())
                .is_ok_and(|result| !result.webhooks.is_empty()),
            // Written when the hub's answer is taken.
            Self::Link => machine.home().join("fleet/member.json").exists(),
            // A configuration that cannot be read starts nothing.
            Self::Page => {
                config::load_config().is_ok_and(|config| config.web.start == WebStart::WithDaemon)
            }
        }
    }

    /// What it is asked for on its standard input; the page needs nothing of the kind.
    fn request(self, place: &DaemonPlace) -> Result<Option<HelperAsk>, Error> {
        let place = place.clone();
        Ok(match self {
            Self::Webhooks => Some(HelperAsk::WebhookSender(place)),
            Self::Link => {
                Some(HelperAsk::FleetLink { place, settings: config::load_config()?.fleet })
            }
            Self::Page => None,
        })
    }

    fn command(self) -> Result<Command, Error> {
        if self != Self::Page {
            return helper_command(self.as_str());
        }
        let mut command = Command::new(sys::spawn::this_program()?);
        command.args(["web", "--json", "--until-input-ends"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(command)
    }
}

/// A helper that runs: it ends when its input does, so that it never outlives the daemon.
struct RunningHelper {
    child: Child,
    input: Option<std::process::ChildStdin>,
}

/// The place of one helper.
struct HelperSlot {
    role: HelperRole,
    running: Option<RunningHelper>,
    pause: Duration,
    not_before: Option<Instant>,
    complained: bool,
}

/// Minds the daemon's helpers: starts those that are wanted, tells them of changes, starts again those
/// that ended.
#[derive(Debug)]
pub(crate) struct HelperKeeper {
    signals: Sender<HelperSignal>,
    thread: std::thread::JoinHandle<()>,
}

impl HelperKeeper {
    /// Begins to mind them.
    pub(crate) fn start(machine: Machine, place: DaemonPlace) -> std::io::Result<Self> {
        let (signals, heard) = channel();
        let thread = std::thread::Builder::new().name("helpers".to_owned());
        let back = signals.clone();
        let thread = thread.spawn(move || mind_helpers(&machine, &place, &heard, &back))?;
        Ok(Self { signals, thread })
    }

    /// Tells it that something changed.
    pub(crate) fn waker(&self) -> Sender<HelperSignal> {
        self.signals.clone()
    }

    /// Ends all helpers.
    pub(crate) fn stop(self) {
        self.signals.send(HelperSignal::Stop).note_dropped("stopping the helpers");
        if self.thread.join().is_err() {
            tracing::debug!("whoever minds the helpers has panicked");
        }
    }
}

fn mind_helpers(
    machine: &Machine,
    place: &DaemonPlace,
    heard: &Receiver<HelperSignal>,
    back: &Sender<HelperSignal>,
) {
    let mut slots = HelperRole::ALL.map(|role| HelperSlot {
        role,
        running: None,
        pause: SHORTEST_RESTART_PAUSE,
        not_before: None,
        complained: false,
    });
    loop {
        for slot in &mut slots {
            settle_slot(slot, machine, place, back);
        }
        let due = slots.iter().filter_map(|slot| slot.not_before).min();
        let signal = match due {
            None => heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => heard.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match signal {
            Ok(HelperSignal::Look) => slots.iter_mut().for_each(tell_helper),
            Ok(HelperSignal::Ended(role)) => {
                slots.iter_mut().filter(|slot| slot.role == role).for_each(note_end);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(HelperSignal::Stop) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    slots.iter_mut().for_each(end_helper);
}

/// Starts a helper that is wanted, ends one that is not.
fn settle_slot(
    slot: &mut HelperSlot,
    machine: &Machine,
    place: &DaemonPlace,
    back: &Sender<HelperSignal>,
) {
    let wanted = slot.role.is_wanted(machine);
    if !wanted {
        slot.not_before = None;
        return end_helper(slot);
    }
    if slot.running.is_some() || slot.not_before.is_some_and(|due| due > Instant::now()) {
        return;
    }
    match start_helper(slot.role, machine, place, back) {
        Ok(running) => {
            slot.running = Some(running);
            (slot.not_before, slot.complained) = (None, false);
        }
        Err(error) => {
            if !std::mem::replace(&mut slot.complained, true) {
                crate::render::output::print_notice(&format!(
                    "ostler daemon: {} cannot be started: {error}",
                    slot.role.as_str()
                ));
            }
            slot.not_before = Some(Instant::now() + LONGEST_RESTART_PAUSE);
        }
    }
}

fn start_helper(
    role: HelperRole,
    machine: &Machine,
    place: &DaemonPlace,
    back: &Sender<HelperSignal>,
) -> Result<RunningHelper, Error> {
    let request = role.request(place)?.map(|ask| helper_request(machine, ask)).transpose()?;
    let mut child = role.command()?.spawn()?;
    let mut input = child.stdin.take();
    if let (Some(input), Some(request)) = (&mut input, request) {
        input.write_all(&request)?;
    }
    if let Some(mut output) = child.stdout.take() {
        let back = back.clone();
        let waiting = std::thread::Builder::new().name("helper end".to_owned());
        waiting.spawn(move || {
            let mut said = Vec::new();
            output.read_to_end(&mut said).note_dropped("what a helper says");
            back.send(HelperSignal::Ended(role)).note_dropped("the end of a helper");
        })?;
    }
    Ok(RunningHelper { child, input })
}

fn tell_helper(slot: &mut HelperSlot) {
    slot.not_before = None;
    if let Some(input) = slot.running.as_mut().and_then(|running| running.input.as_mut()) {
        input.write_all(b"look\n").note_dropped("telling a helper of a change");
    }
}

fn note_end(slot: &mut HelperSlot) {
    if let Some(mut running) = slot.running.take() {
        running.input = None;
        running.child.wait().note_dropped("the end of a helper");
        slot.not_before = Some(Instant::now() + slot.pause);
        slot.pause = (slot.pause * 2).min(LONGEST_RESTART_PAUSE);
    }
}

/// Ends a helper by ending its input; one that does not heed that is killed. It is our child and not
/// waited for yet, so that its pid is not reused.
fn end_helper(slot: &mut HelperSlot) {
    let Some(mut running) = slot.running.take() else { return };
    running.input = None;
    let begun = Instant::now();
    while begun.elapsed() < HELPER_END_TIMEOUT {
        match running.child.try_wait() {
            Ok(None) => std::thread::sleep(HELPER_END_INTERVAL),
            _ => return,
        }
    }
    running.child.kill().note_dropped("killing a helper that stays");
    running.child.wait().note_dropped("the end of a helper");
}
