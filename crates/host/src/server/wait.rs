//! Pending `wait` requests: for the end, for silence, for a command, for something on the screen.
//!
//! Nothing is polled. What is on the screen is looked at whenever it changes; time is looked at when
//! the earliest deadline has come, and only while there are waiters.

use std::time::{Duration, Instant};

use model::hosted::wire::{RenderParams, RunResult, WaitParams, WaitResult};
use model::hosted::{FaultCode, HostFault};
use model::time::whole_millis;
use regex_lite::Regex;
use serde_json::Value;

use super::host::Host;
use super::methods::internal_fault;
use super::ready::ReadyWait;
use crate::timeouts::DEFAULT_WAIT_TIMEOUT;

/// How much of the screen a pattern is held against.
const MAX_PATTERN_TEXT_BYTES: usize = 50_000;

/// A waiting client.
#[derive(Debug)]
pub(super) enum Waiter {
    /// For the program's end.
    Exit { deadline: Option<Instant> },
    Idle {
        span: Duration,
        /// Since when it is silent; none while it has not begun to speak.
        since: Option<Instant>,
        deadline: Option<Instant>,
    },
    /// For something on the screen.
    Render(Box<RenderWait>),
    /// For the end of a command.
    Run { token: String, started: Instant, deadline: Instant, result: Box<RunResult> },
    /// For the program to take a text.
    Ready(ReadyWait),
    /// For the end of a submission.
    Submit { delivery: String },
    /// For the session's end.
    Destroyed,
}

/// What is waited for on the screen.
#[derive(Debug)]
pub(super) struct RenderWait {
    params: RenderParams,
    regex: Option<Regex>,
    deadline: Option<Instant>,
    /// The text that is hoped to stay, and since when it is there.
    stable: Option<(String, Instant)>,
}

/// What is on the screen now.
pub(super) struct ShownScreen {
    text: String,
    hash: Option<String>,
    row: u16,
    col: u16,
    seq: i64,
}

impl ShownScreen {
    pub(super) fn new(host: &Host) -> Self {
        let cursor = host.screen.cursor();
        Self {
            text: host.screen.rows().join("\n"),
            hash: None,
            row: cursor.row,
            col: cursor.col,
            seq: host.last_seq(),
        }
    }

    fn screen_hash(&mut self, rows: impl FnOnce() -> String) -> &str {
        self.hash.get_or_insert_with(rows)
    }
}

/// A pattern, if it can be one.
pub(super) fn compile_pattern(text: &str) -> Result<Regex, HostFault> {
    Regex::new(text).map_err(|error| {
        HostFault::new(
            FaultCode::InvalidInput,
            format!("--regex `{text}` is not a pattern: {error}"),
        )
    })
}

fn wait_deadline(timeout_ms: Option<u64>, now: Instant) -> Option<Instant> {
    match timeout_ms {
        Some(0) => None,
        Some(millis) => now.checked_add(Duration::from_millis(millis)),
        None => Some(now + DEFAULT_WAIT_TIMEOUT),
    }
}

impl Waiter {
    /// `silent_since` is where silence begins: now, or with the first output that is still to come.
    pub(super) fn new(
        params: &WaitParams,
        now: Instant,
        silent_since: Option<Instant>,
    ) -> Result<Self, HostFault> {
        let deadline = wait_deadline(params.timeout_ms, now);
        match (params.exit, params.idle_ms) {
            (true, None) => Ok(Self::Exit { deadline }),
            (false, Some(millis)) => {
                let span = Duration::from_millis(millis);
                Ok(Self::Idle { span, since: silent_since, deadline })
            }
            _ => Err(HostFault::new(
                FaultCode::InvalidDuration,
                "Exactly one of --exit and --idle-ms must be given.",
            )),
        }
    }

    /// When it must be looked at although nothing happened.
    pub(super) fn next_check_at(&self) -> Option<Instant> {
        match self {
            Self::Exit { deadline } => *deadline,
            Self::Idle { span, since, deadline } => {
                let silent = since.and_then(|since| since.checked_add(*span));
                [silent, *deadline].into_iter().flatten().min()
            }
            Self::Run { deadline, .. } => Some(*deadline),
            Self::Render(render) => {
                let stable = render.stable.as_ref().and_then(|(_, since)| {
                    since.checked_add(Duration::from_millis(render.params.screen_stable_ms?))
                });
                [render.deadline, stable].into_iter().flatten().min()
            }
            Self::Ready(wait) => Some(wait.next_check_at()),
            Self::Submit { .. } | Self::Destroyed => None,
        }
    }
}

impl RenderWait {
    pub(super) fn new(
        mut params: RenderParams,
        current_hash: impl FnOnce() -> String,
        now: Instant,
    ) -> Result<Self, HostFault> {
        let regex = params.regex.as_deref().map(compile_pattern).transpose()?;
        if params.changed_since.as_deref() == Some("") {
            params.changed_since = Some(current_hash());
        }
        let deadline = wait_deadline(params.timeout_ms, now);
        Ok(Self { params, regex, deadline, stable: None })
    }

    /// Whether everything is true now.
    fn check_conditions(
        &mut self,
        shown: &mut ShownScreen,
        now: Instant,
        over: bool,
    ) -> Option<WaitResult> {
        let params = &self.params;
        if params.after_seq.is_some_and(|after| shown.seq <= after) {
            return None;
        }
        if let Some(millis) = params.screen_stable_ms {
            match &mut self.stable {
                Some((text, _)) if *text == shown.text => {}
                stable => *stable = Some((shown.text.clone(), now)),
            }
            let since = self.stable.as_ref().map_or(now, |(_, since)| *since);
            if !over && now < since + Duration::from_millis(millis) {
                return None;
            }
        }
        let text = &shown.text;
        let mut matched_text = params.text.clone();
        let fits = params.text.as_ref().is_none_or(|wanted| text.contains(wanted.as_str()))
            && params.gone.as_ref().is_none_or(|unwanted| !text.contains(unwanted.as_str()))
            && params.cursor_row.is_none_or(|row| row == shown.row)
            && params.cursor_col.is_none_or(|col| col == shown.col);
        if !fits {
            return None;
        }
        if let Some(regex) = &self.regex {
            let end =
                text.char_indices().nth(MAX_PATTERN_TEXT_BYTES).map_or(text.len(), |(at, _)| at);
            matched_text = Some(regex.find(&text[..end])?.as_str().to_owned());
        }
        let text = shown.text.clone();
        let hash = shown.screen_hash(|| hash_of(&text)).to_owned();
        if params.changed_since.as_ref().is_some_and(|before| *before == hash) {
            return None;
        }
        Some(WaitResult {
            matched: Some(true),
            timed_out: false,
            matched_text,
            cursor_row: Some(shown.row),
            cursor_col: Some(shown.col),
            captured_at_seq: Some(shown.seq),
            screen_hash: Some(hash),
            ..WaitResult::default()
        })
    }

    fn describe_condition(&self) -> String {
        let params = &self.params;
        let text =
            |name: &str, value: &Option<String>| value.as_ref().map(|v| format!("{name} `{v}`"));
        let number = |name: &str, value: Option<u64>| value.map(|v| format!("{name} {v}"));
        [
            text("text", &params.text),
            text("regex", &params.regex),
            text("gone", &params.gone),
            params.changed_since.as_ref().map(|_| "any change".to_owned()),
            number("stable for ms", params.screen_stable_ms),
            number("cursor row", params.cursor_row.map(u64::from)),
            number("cursor column", params.cursor_col.map(u64::from)),
            params.after_seq.map(|seq| format!("after event {seq}")),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
    }

    fn timed_out(&self, shown: &ShownScreen) -> WaitResult {
        WaitResult {
            matched: Some(false),
            timed_out: true,
            captured_at_seq: Some(shown.seq),
            condition: Some(self.describe_condition()),
            screen: Some(shown.text.clone()),
            ..WaitResult::default()
        }
    }
}

fn hash_of(text: &str) -> String {
    screen::hash_rows(&[text.to_owned()])
}

fn to_answer(result: impl serde::Serialize) -> Result<Value, HostFault> {
    serde_json::to_value(result).map_err(internal_fault)
}

impl Host {
    /// Looks at the screen for those who wait for something on it.
    pub(super) fn check_screen(&mut self, now: Instant) {
        let current = (self.screen.generation(), self.log.last_seq());
        if self.seen == Some(current) || !self.connections.watches_screen() {
            return;
        }
        self.seen = Some(current);
        self.check_waiters(now, false);
    }

    fn check_waiters(&mut self, now: Instant, over: bool) {
        let mut shown = ShownScreen::new(self);
        self.connections.answer_ready(|waiter, dialect| match waiter {
            Waiter::Render(render) => match render.check_conditions(&mut shown, now, over) {
                Some(result) => Some(to_answer(result.in_dialect(dialect))),
                None if over => Some(Err(HostFault::new(
                    FaultCode::ReplayError,
                    format!(
                        "the session ended, and its last screen does not show: {}",
                        render.describe_condition()
                    ),
                ))),
                None => None,
            },
            _ => None,
        });
    }

    /// A wait that may already be over.
    pub(super) fn check_once(
        &mut self,
        render: &mut RenderWait,
        now: Instant,
    ) -> Option<WaitResult> {
        render.check_conditions(&mut ShownScreen::new(self), now, false)
    }

    /// Answers those whose time has come.
    pub(super) fn check_deadlines(&mut self, now: Instant) {
        if !self
            .connections
            .waiters()
            .any(|waiter| waiter.next_check_at().is_some_and(|at| at <= now))
        {
            return;
        }
        if self.connections.watches_screen() {
            self.check_waiters(now, false);
        }
        let shown = ShownScreen::new(self);
        self.connections.answer_ready(|waiter, dialect| match waiter {
            Waiter::Exit { deadline } if deadline.is_some_and(|at| at <= now) => {
                Some(to_answer(WaitResult { timed_out: true, ..WaitResult::default() }))
            }
            Waiter::Idle { span, since, .. }
                if since.and_then(|at| at.checked_add(*span)).is_some_and(|at| at <= now) =>
            {
                Some(to_answer(WaitResult::default()))
            }
            Waiter::Idle { since, deadline, .. } if deadline.is_some_and(|at| at <= now) => {
                // One without output was silent all the time.
                let timed_out = since.is_some();
                Some(to_answer(WaitResult { timed_out, ..WaitResult::default() }))
            }
            Waiter::Render(render) if render.deadline.is_some_and(|at| at <= now) => {
                Some(to_answer(render.timed_out(&shown).in_dialect(dialect)))
            }
            Waiter::Run { started, deadline, result, .. } if *deadline <= now => {
                result.completed = Some(false);
                result.timed_out = Some(true);
                result.duration_ms = Some(whole_millis(now.duration_since(*started)));
                Some(to_answer(&**result))
            }
            _ => None,
        });
    }

    /// Answers everybody: the session is over.
    pub(super) fn answer_all(&mut self, now: Instant) {
        self.check_waiters(now, true);
        self.end_submissions();
        self.check_readiness(now, true);
        let exit_code = self.manifest.exit_code;
        let exit_signal = self.manifest.exit_signal.clone();
        let id = self.manifest.session_id.clone();
        self.connections.answer_ready(|waiter, dialect| match waiter {
            Waiter::Exit { .. } => {
                let exit_signal = exit_signal.clone();
                let result = WaitResult { exit_code, exit_signal, ..WaitResult::default() };
                Some(to_answer(result.in_dialect(dialect)))
            }
            Waiter::Idle { .. } => Some(to_answer(WaitResult::default())),
            Waiter::Run { started, result, .. } => {
                result.completed = Some(false);
                result.timed_out = Some(false);
                result.duration_ms = Some(whole_millis(now.duration_since(*started)));
                Some(to_answer(&**result))
            }
            Waiter::Destroyed => Some(to_answer(model::hosted::wire::DestroyResult {
                session_id: id.clone(),
                destroyed: true,
            })),
            Waiter::Render(_) | Waiter::Ready(_) | Waiter::Submit { .. } => None,
        });
    }
}

/// Refuses what agent-tty refuses, whose engine it could hang: a quantifier of a group that ends in one,
/// or of another quantifier.
pub fn check_nested_quantifiers(pattern: &str) -> Result<(), HostFault> {
    let quantifies = |c: char| matches!(c, '*' | '+' | '{');
    let mut open: Vec<bool> = Vec::new();
    // Whether the piece before is a group with a quantifier in it, or has a counted one already.
    let (mut risky, mut escaped, mut in_class) = (false, false, false);
    let mut counted = false;
    for c in pattern.chars() {
        if escaped || in_class {
            in_class &= escaped || c != ']';
            escaped = !escaped && c == '\\';
            (risky, counted) = (false, false);
            continue;
        }
        if quantifies(c) && (risky || (counted && c == '{')) {
            let message = "Invalid regex pattern: nested quantifiers are not allowed.";
            return Err(HostFault::invalid_input(message).with("regex", pattern));
        }
        counted = c == '}';
        match c {
            '\\' => escaped = true,
            '[' => in_class = true,
            '(' => open.push(false),
            ')' => {
                risky = open.pop().unwrap_or(false);
                // What holds a risky group is risky, too.
                if let Some(outer) = open.last_mut() {
                    *outer |= risky;
                }
                continue;
            }
            _ if quantifies(c) => {
                if let Some(group) = open.last_mut() {
                    *group = true;
                }
            }
            _ => {}
        }
        risky = false;
    }
    Ok(())
}

/// Whether a pattern can be used.
pub fn check_pattern(text: &str) -> Result<(), HostFault> {
    compile_pattern(text).map(drop)
}

/// Holds conditions against the last screen of a session that is over. That it stays as it is cannot
/// be proven by waiting any more, so a condition on that is not called matched.
pub fn check_offline(
    screen: &screen::Screen,
    seq: i64,
    params: &RenderParams,
) -> Result<WaitResult, HostFault> {
    let now = Instant::now();
    let mut render = RenderWait::new(params.clone(), || screen.hash(), now)?;
    let cursor = screen.cursor();
    let mut shown = ShownScreen {
        text: screen.rows().join("\n"),
        hash: None,
        row: cursor.row,
        col: cursor.col,
        seq,
    };
    match render.check_conditions(&mut shown, now, true) {
        Some(result) => {
            let matched = Some(params.screen_stable_ms.is_none());
            Ok(WaitResult { matched, ..result })
        }
        None => {
            let message = format!(
                "the session is over, and its last screen does not show: {}\n{}",
                render.describe_condition(),
                shown.text.trim_end()
            );
            let lines: Vec<&str> = shown.text.lines().collect();
            let mut fault = HostFault::new(FaultCode::ReplayError, message)
                .with("capturedAtSeq", seq.max(0))
                .with("cursorRow", shown.row)
                .with("cursorCol", shown.col)
                .with("visibleLines", lines);
            for (name, given) in [("text", &params.text), ("regex", &params.regex)] {
                if let Some(given) = given {
                    fault = fault.with(name, given.as_str());
                }
            }
            Err(fault)
        }
    }
}
