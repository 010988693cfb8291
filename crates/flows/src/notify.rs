//! Notifications: a person is told when an agent needs them. The daemon reads the events it has just taken in, from
//! a cursor of its own that is moved before anything is sent: a request is told once, or (after a kill) not at
//! all, and never twice.
//!
//! Sending is another thread's work: a command of the user's that hangs must not hold up the end of a session.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use model::event::HookReport;
use model::rules::notice::{NoticeChange, NoticeKind, NoticeTrack};
use model::session::SessionName;
use model::time::Time;
use model::wire::{EventView, NoticeView, NotifyOutcome};
use store::state::{StateError, StateStore};
use sys::bounded_run::{RunLimits, run_bounded};
use sys::dropped::NoteDropped;

use crate::timeouts::NOTIFY_TIMEOUT;

/// The name of the cursor in the store.
const NOTIFY_CURSOR: &str = "notify";

/// How many events are read at once.
const EVENTS_PER_READ: usize = 500;

/// How many notifications may wait for a slow command.
const MAX_QUEUED_NOTICES: usize = 64;

/// How long a program that notifies may take.
const NOTIFY_LIMITS: RunLimits = RunLimits { time: NOTIFY_TIMEOUT, output_bytes: 4 << 10 };

/// The longest text that is shown.
const MAX_TEXT_CHARS: usize = 240;

/// What a person set in `[notify]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotifySettings {
    /// Whether the desktop shows it.
    pub desktop: bool,
    /// Whether the terminal that the daemon runs in rings.
    pub bell: bool,
    /// A program of the user's and its arguments.
    pub command: Vec<String>,
    /// What is told.
    pub on: Vec<NoticeKind>,
}

impl NotifySettings {
    /// Whether anything is sent at all.
    pub fn is_on(&self) -> bool {
        self.desktop || self.bell || !self.command.is_empty()
    }
}

/// The daemon's part: finds out who is needed, and hands it to the thread that tells.
#[derive(Debug)]
pub struct Notifier {
    settings: NotifySettings,
    tracks: HashMap<SessionName, NoticeTrack>,
    queue: SyncSender<NoticeView>,
    has_looked: bool,
}

impl Notifier {
    /// Starts the thread that sends. `problem` is called with every failure.
    pub fn start(
        settings: NotifySettings,
        problem: impl Fn(&str) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (queue, notices) = sync_channel(MAX_QUEUED_NOTICES);
        let sending = settings.clone();
        let thread = std::thread::Builder::new().name("notify".to_owned());
        thread.spawn(move || send_all(&sending, &notices, &problem))?;
        Ok(Self { settings, tracks: HashMap::new(), queue, has_looked: false })
    }

    /// Looks at what has happened since the last look, and notifies the person who is needed.
    pub(crate) fn notify_of_events(&mut self, state: &mut StateStore) -> Result<(), StateError> {
        let Some(mut cursor) = state.read_cursor(NOTIFY_CURSOR)? else {
            // What happened before anybody asked to be told is not told.
            let newest = state.newest_event()?;
            self.has_looked = true;
            return state.move_cursor(NOTIFY_CURSOR, newest);
        };
        let begun_at = cursor;
        let mut needed: HashMap<SessionName, NoticeView> = HashMap::new();
        loop {
            let events = state.events_after(cursor, EVENTS_PER_READ)?;
            let Some(last) = events.last() else { break };
            cursor = last.cursor;
            for event in &events {
                self.take_event(state, event, &mut needed)?;
            }
        }
        if cursor == begun_at {
            self.has_looked = true;
            return Ok(());
        }
        state.move_cursor(NOTIFY_CURSOR, cursor)?;
        sys::pause::pause_at("notify.moved");
        let mut notices: Vec<NoticeView> = needed.into_values().collect();
        notices.sort_by_key(|notice| notice.at);
        for notice in notices {
            // After a reboot every session of before is found dead: only questions still wait for an answer.
            let is_news = self.has_looked || notice.kind == NoticeKind::Waiting;
            if is_news && self.settings.on.contains(&notice.kind) {
                self.queue_notice(notice);
            }
        }
        self.has_looked = true;
        Ok(())
    }

    fn queue_notice(&self, notice: NoticeView) {
        // A command that hangs holds up the others for so long, and then they are too many.
        self.queue.try_send(notice).note_dropped("a notification that nobody could be told of");
    }

    fn take_event(
        &mut self,
        state: &StateStore,
        event: &EventView,
        needed: &mut HashMap<SessionName, NoticeView>,
    ) -> Result<(), StateError> {
        let session = SessionName::new(event.agent.clone(), event.session.clone());
        if !self.tracks.contains_key(&session) {
            let before = state.happening_before(&session, event.cursor)?;
            self.tracks.insert(session.clone(), NoticeTrack::after_event(before));
        }
        let Some(track) = self.tracks.get_mut(&session) else { return Ok(()) };
        let report = serde_json::from_value::<HookReport>(event.detail.clone()).ok();
        let change = match &report {
            _ if event.kind == "exited" => track.apply_exit(),
            Some(report) => {
                let failed = adapters::hooks::is_failed_turn(&report.agent, &report.event);
                track.apply_report(report, failed)
            }
            None => NoticeChange::None,
        };
        match change {
            NoticeChange::Needed(kind) => {
                needed.insert(session, describe_notice(kind, event, report.as_ref()));
            }
            NoticeChange::Settled => drop(needed.remove(&session)),
            NoticeChange::None => {}
        }
        // What it did before is in the store, should it come back.
        if matches!(event.kind.as_str(), "exited" | "session-end") {
            self.tracks.remove(&SessionName::new(event.agent.clone(), event.session.clone()));
        }
        Ok(())
    }
}

/// The notification of an event, in words.
fn describe_notice(kind: NoticeKind, event: &EventView, report: Option<&HookReport>) -> NoticeView {
    let adapter = adapters::by_id(&event.agent);
    let agent = adapter.map_or(event.agent.as_str(), |adapter| adapter.agent_profile().name);
    let cwd = report.and_then(|report| report.hook.cwd.clone());
    let project = cwd.as_deref().and_then(|cwd| Path::new(cwd).file_name()?.to_str());
    let place = project.map(|project| format!(" in {project}")).unwrap_or_default();
    let title = match kind {
        NoticeKind::Waiting => format!("{agent}{place} needs you"),
        NoticeKind::Failed => format!("{agent}{place}: the turn failed"),
        NoticeKind::Died => format!("{agent}{place} ended in the middle of a turn"),
    };
    let hook = report.map(|report| &report.hook);
    let said = hook.and_then(|hook| hook.message.as_deref());
    let tool = hook.and_then(|hook| hook.detail.as_deref()).filter(|_| kind == NoticeKind::Waiting);
    let text = match (tool, said) {
        (Some(tool), Some(said)) => format!("{tool}: {said}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => format!("ostler show {}", event.session),
    };
    NoticeView {
        kind,
        at: event.at,
        agent: event.agent.clone(),
        session: event.session.clone(),
        cwd,
        title: plain_line(&title),
        text: plain_line(&text),
        test: false,
    }
}

/// A notification that says of itself that it is a test.
pub fn test_notice(now: Time) -> NoticeView {
    NoticeView {
        kind: NoticeKind::Waiting,
        at: now,
        agent: "ostler".to_owned(),
        session: "test".to_owned(),
        cwd: None,
        title: "ostler: a test".to_owned(),
        text: "this is how an agent that needs you is told".to_owned(),
        test: true,
    }
}

/// One line that no terminal and no desktop takes for anything but text.
fn plain_line(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let line: String = plain.take(MAX_TEXT_CHARS).collect();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn send_all(settings: &NotifySettings, notices: &Receiver<NoticeView>, problem: &dyn Fn(&str)) {
    while let Ok(notice) = notices.recv() {
        for outcome in send_notice(settings, &notice) {
            if let Some(reason) = outcome.reason {
                problem(&format!("a notification was not sent ({}): {reason}", outcome.channel));
            }
        }
    }
}

/// Sends a notification through every configured channel, and returns the outcome of each.
pub fn send_notice(settings: &NotifySettings, notice: &NoticeView) -> Vec<NotifyOutcome> {
    let mut outcomes = Vec::new();
    let mut note = |channel: &'static str, result: Result<(), String>| {
        let sent = result.is_ok();
        outcomes.push(NotifyOutcome { channel, sent, reason: result.err() });
    };
    if settings.desktop {
        note("desktop", show_on_desktop(notice));
    }
    if settings.bell {
        note("bell", ring_terminal(notice));
    }
    if let [program, arguments @ ..] = settings.command.as_slice() {
        note("command", run_command(program, arguments, notice));
    }
    outcomes
}

/// The desktop's own program, by argument vector: no shell sees the text, and the text is no option.
fn show_on_desktop(notice: &NoticeView) -> Result<(), String> {
    let mut command;
    if cfg!(target_os = "macos") {
        command = Command::new("osascript");
        let script = "display notification (item 2 of argv) with title (item 1 of argv)";
        command.args(["-e", "on run argv", "-e", script, "-e", "end run"]);
        command.args([&notice.title, &notice.text]);
    } else {
        command = Command::new("notify-send");
        command.args(["--app-name=ostler", "--", &notice.title]);
        // Its body is markup, and what an agent asks for is not.
        let text = notice.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        command.arg(text);
    }
    run_to_success(&mut command, b"")
}

/// Rings the terminal of this process, and has it show the title (OSC 9) where it can.
fn ring_terminal(notice: &NoticeView) -> Result<(), String> {
    let mut terminal = std::io::stderr();
    if !terminal.is_terminal() {
        return Err("this process has no terminal; `ostler daemon run` in one has".to_owned());
    }
    let line = format!("\x1b]9;{} ({})\x07\x07", notice.title, notice.text);
    terminal.write_all(line.as_bytes()).map_err(|error| error.to_string())
}

/// A program of the user's: the facts are in its environment and, as JSON, on its standard input.
fn run_command(program: &str, arguments: &[String], notice: &NoticeView) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments);
    let facts = [
        ("OSTLER_NOTICE_KIND", notice.kind.as_str()),
        ("OSTLER_NOTICE_AGENT", &notice.agent),
        ("OSTLER_NOTICE_SESSION", &notice.session),
        ("OSTLER_NOTICE_CWD", notice.cwd.as_deref().unwrap_or_default()),
        ("OSTLER_NOTICE_TITLE", &notice.title),
        ("OSTLER_NOTICE_TEXT", &notice.text),
    ];
    // A directory that holds a NUL cannot be told in an environment, and is no directory.
    command.envs(facts.map(|(name, value)| (name, value.replace('\0', ""))));
    let mut input = serde_json::to_vec(notice).map_err(|error| error.to_string())?;
    input.push(b'\n');
    run_to_success(&mut command, &input)
}

fn run_to_success(command: &mut Command, input: &[u8]) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let run = run_bounded(command, input, NOTIFY_LIMITS)
        .map_err(|error| format!("`{program}` cannot be run: {error}"))?;
    match run.status {
        Some(status) if status.success() => Ok(()),
        Some(status) => {
            let said = plain_line(&String::from_utf8_lossy(&run.output));
            Err(format!("`{program}` failed ({status}): {said}"))
        }
        None => Err(format!("`{program}` did not end within {} s", NOTIFY_LIMITS.time.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_no_escape_and_no_break() {
        assert_eq!(plain_line("a\x1b]0;x\x07b\nc\u{9b}d"), "a ]0;x b c d");
        assert_eq!(plain_line(&"x".repeat(1000)).len(), MAX_TEXT_CHARS);
    }
}
