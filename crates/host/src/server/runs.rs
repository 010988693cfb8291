//! How a `run` knows that its command ended, and how it ended.
//!
//! After the command a second line is typed: a `printf` of an invisible string that carries `$?`. The
//! shell runs it when it is back at its prompt. Neither the echo of that line, nor the string, nor the
//! second prompt is anybody's business: they are taken out of the output here, before the log and the
//! screen see it. Output that only looks like the beginning of one of them is held back for a moment,
//! never longer. Without a run nothing is held and nothing is copied.

use std::collections::HashMap;
use std::time::Instant;

use super::plain::{self, PlainStep};
use crate::timeouts::{PROMPT_TIMEOUT, SENTINEL_HOLD_TIMEOUT};

mod sentinel;

use sentinel::{Found, match_echo, match_sentinel, skip_noise};

/// How a sentinel begins.
const SENTINEL_OPENING: &[u8] = b"\x1b_os:";

/// How much of the output is remembered to recognise a prompt.
const MAX_TAIL_BYTES: usize = 1024;

/// How much output of a run is captured.
const MAX_CAPTURED_BYTES: usize = 1 << 20;

/// A run whose end has not been seen.
#[derive(Debug)]
struct Armed {
    token: String,
    echo: Vec<u8>,
    command: String,
    prompt: Vec<u8>,
    captured: Option<Captured>,
}

#[derive(Debug, Default)]
struct Captured {
    bytes: Vec<u8>,
    truncated: bool,
}

/// What came through.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OutputPiece {
    Bytes(Vec<u8>),
    /// The end of a run.
    Done(RunEnd),
}

/// The end of a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunEnd {
    pub(super) token: String,
    pub(super) exit: Option<i32>,
    /// What it printed, and whether the beginning is missing.
    pub(super) output: Option<(String, bool)>,
}

/// The runs of a session, and the filter they put into its output.
#[derive(Debug, Default)]
pub(super) struct Runs {
    armed: Vec<Armed>,
    held: Vec<u8>,
    held_since: Option<Instant>,
    tail: Vec<u8>,
    after_echo: bool,
    /// After a sentinel: the text before it, which the next prompt is compared with.
    prompt: Option<Vec<u8>>,
    /// The prompt that was left out last.
    repeated: Vec<u8>,
    /// What runs whose end has not been seen are called in the log, by their tokens: also of those that
    /// has no waiter any more.
    names: HashMap<String, RunName>,
}

/// What a run is called in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunName {
    pub(super) marker: String,
    /// The event that began it.
    pub(super) seq: u64,
}

impl Runs {
    /// Whether output has to pass through here.
    pub(super) fn is_active(&self) -> bool {
        !self.armed.is_empty() || !self.held.is_empty() || self.prompt.is_some()
    }

    /// Remembers output that did not have to.
    pub(super) fn note_passed(&mut self, bytes: &[u8]) {
        remember_tail(&mut self.tail, bytes);
    }

    /// Remembers what a run is called.
    pub(super) fn name_run(&mut self, token: &str, name: RunName) {
        self.names.insert(token.to_owned(), name);
    }

    /// What the run with this token is called, once.
    pub(super) fn take_name(&mut self, token: &str) -> Option<RunName> {
        self.names.remove(token)
    }

    /// Arms a run and gives what to type.
    pub(super) fn arm_run(
        &mut self,
        token: &str,
        command: &str,
        capture: bool,
        shell: ShellKind,
    ) -> Vec<u8> {
        let status = shell.exit_status();
        let line = format!("printf '\\033_os:{token}:%d\\033\\134' {status}");
        // The space keeps it out of the history of most shells.
        let typed = format!("{command}\n {line}\n");
        self.armed.push(Armed {
            token: token.to_owned(),
            echo: line.into_bytes(),
            command: command.to_owned(),
            prompt: self.current_prompt(),
            captured: capture.then(Captured::default),
        });
        typed.into_bytes()
    }

    /// The prompt that the shell is at: the one it was seen to repeat, else the last line.
    fn current_prompt(&self) -> Vec<u8> {
        let shown = plain::strip_sequences(&self.tail);
        if !self.repeated.is_empty() && shown.ends_with(&self.repeated) {
            return self.repeated.clone();
        }
        last_line(&shown).to_vec()
    }

    /// When held output must be let go.
    pub(super) fn release_deadline(&self) -> Option<Instant> {
        let hold = if self.prompt.is_some() { PROMPT_TIMEOUT } else { SENTINEL_HOLD_TIMEOUT };
        Some(self.held_since? + hold)
    }

    /// Takes output in; what may pass is given to `pass`, in order.
    pub(super) fn filter_output(
        &mut self,
        bytes: &[u8],
        now: Instant,
        pass: &mut dyn FnMut(OutputPiece),
    ) {
        self.held.extend_from_slice(bytes);
        self.scan(false, pass);
        self.held_since = match (self.held.is_empty() && self.prompt.is_none(), self.held_since) {
            (true, _) => None,
            (false, Some(since)) if bytes.is_empty() => Some(since),
            (false, _) => Some(now),
        };
    }

    /// Lets go what has been held for too long; all of it with `everything`.
    pub(super) fn release_held(
        &mut self,
        now: Instant,
        everything: bool,
        pass: &mut dyn FnMut(OutputPiece),
    ) {
        if !everything && self.release_deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        let waited_for_prompt = self.prompt.is_some();
        self.scan(true, pass);
        if waited_for_prompt && !everything && !self.held.is_empty() {
            // What follows the prompt has a time of its own.
            self.held_since = Some(now);
            return;
        }
        self.held_since = None;
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.record_output(&held);
            pass(OutputPiece::Bytes(held));
        }
    }

    /// Looks at all that is held: prompts that are repeated after a sentinel, echoes, the next sentinel.
    /// Several runs may be under way, and all of theirs in one read. With `whole`, what may be the
    /// beginning of a prompt is taken as it stands.
    fn scan(&mut self, whole: bool, pass: &mut dyn FnMut(OutputPiece)) {
        while self.settle_prompt(whole, pass) && self.scan_to_sentinel(pass) {}
    }

    /// Goes on to the next sentinel; says whether there was one.
    fn scan_to_sentinel(&mut self, pass: &mut dyn FnMut(OutputPiece)) -> bool {
        let mut out = Vec::new();
        let (mut at, mut ended) = (0, None);
        while at < self.held.len() {
            match self.match_held(at) {
                HeldMatch::Pass(length) => {
                    let end = at + length;
                    self.emit_held(at, end, &mut out);
                    at = end;
                }
                HeldMatch::Replace(length, by) => {
                    self.record_output(&by);
                    out.extend_from_slice(&by);
                    at += length;
                }
                HeldMatch::Echo(length, kept) => {
                    // The space before it was shown already.
                    out.push(0x08);
                    self.forget_space();
                    self.record_output(&kept);
                    out.extend_from_slice(&kept);
                    at += length;
                }
                HeldMatch::Sentinel { length, run, exit } => {
                    at += length;
                    ended = Some((self.armed.remove(run), exit));
                    break;
                }
                HeldMatch::Wait => break,
            }
        }
        self.held.drain(..at);
        if !out.is_empty() {
            pass(OutputPiece::Bytes(out));
        }
        let Some((armed, exit)) = ended else { return false };
        self.prompt = Some(plain::strip_sequences(&self.tail));
        self.after_echo = false;
        pass(OutputPiece::Done(RunEnd {
            output: armed.captured.as_ref().map(|captured| captured_text(&armed, captured)),
            token: armed.token,
            exit,
        }));
        true
    }

    /// Whether anything can be said about what is held from `at` on.
    fn match_held(&mut self, at: usize) -> HeldMatch {
        let rest = &self.held[at..];
        if self.armed.is_empty() {
            return HeldMatch::Pass(rest.len());
        }
        if self.after_echo {
            match skip_noise(rest) {
                None => return HeldMatch::Wait,
                Some(0) => self.after_echo = false,
                Some(length) => {
                    let next = &rest[length..];
                    if next.len() < SENTINEL_OPENING.len() && SENTINEL_OPENING.starts_with(next) {
                        return HeldMatch::Wait;
                    }
                    self.after_echo = false;
                    if next.starts_with(SENTINEL_OPENING) {
                        return HeldMatch::Replace(length, plain::mode_sequences(&rest[..length]));
                    }
                    return HeldMatch::Pass(length);
                }
            }
        }
        // Both that are looked for begin with one of two bytes.
        let skip = memchr::memchr2(0x1b, b'p', rest).unwrap_or(rest.len());
        if skip > 0 {
            return HeldMatch::Pass(skip);
        }
        for (run, armed) in self.armed.iter().enumerate() {
            match match_sentinel(rest, &armed.token) {
                Found::Yes(length, exit) => return HeldMatch::Sentinel { length, run, exit },
                Found::Perhaps => return HeldMatch::Wait,
                Found::No => {}
            }
            // More than once: the terminal echoes what is typed ahead, the line editor does so again, and
            // a program that is no shell may print what it read.
            match match_echo(rest, &armed.echo) {
                Found::Yes(length, kept) => {
                    self.after_echo = true;
                    return HeldMatch::Echo(length, kept);
                }
                Found::Perhaps => return HeldMatch::Wait,
                Found::No => {}
            }
        }
        HeldMatch::Pass(1)
    }

    fn emit_held(&mut self, from: usize, to: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.held[from..to]);
        let bytes = &self.held[from..to];
        remember_tail(&mut self.tail, bytes);
        for armed in &mut self.armed {
            capture_bytes(&mut armed.captured, bytes);
        }
    }

    fn forget_space(&mut self) {
        let captured = self.armed.iter_mut().filter_map(|armed| armed.captured.as_mut());
        for seen in captured.map(|captured| &mut captured.bytes).chain([&mut self.tail]) {
            if seen.last() == Some(&b' ') {
                seen.pop();
            }
        }
    }

    fn record_output(&mut self, bytes: &[u8]) {
        remember_tail(&mut self.tail, bytes);
        for armed in &mut self.armed {
            capture_bytes(&mut armed.captured, bytes);
        }
    }

    /// The shell shows its prompt again although it is there already: it is left out. Another one
    /// goes to a line of its own. Says whether that is decided.
    fn settle_prompt(&mut self, whole: bool, pass: &mut dyn FnMut(OutputPiece)) -> bool {
        let Some(before) = self.prompt.take() else { return true };
        let shown = plain::strip_sequences(&self.held);
        let possible = shown.is_empty() || memchr::memmem::find(&before, &shown).is_some();
        if possible && !whole {
            self.prompt = Some(before);
            return false;
        }
        let repeated = if possible && before.ends_with(&shown) {
            self.repeated = shown;
            Some(self.held.len())
        } else {
            // The prompt may be followed by the next command at once.
            let shown = [&*self.repeated, last_line(&before)]
                .into_iter()
                .filter(|text| !text.is_empty() && before.ends_with(text))
                .find_map(|text| Some((length_showing(&self.held, text)?, text.to_vec())));
            shown.map(|(length, text)| {
                // Remembered: what it is shown after need not be a line of its own.
                self.repeated = text;
                length
            })
        };
        let kept = match repeated {
            Some(length) => {
                let kept = plain::mode_sequences(&self.held[..length]);
                self.held.drain(..length);
                kept
            }
            None if last_line(&before).is_empty() => Vec::new(),
            None => b"\r\n".to_vec(),
        };
        if !kept.is_empty() {
            self.record_output(&kept);
            pass(OutputPiece::Bytes(kept));
        }
        true
    }
}

/// How many bytes at the beginning show exactly this text.
fn length_showing(bytes: &[u8], text: &[u8]) -> Option<usize> {
    let (mut at, mut matched) = (0, 0);
    while matched < text.len() && at < bytes.len() {
        match plain::next_step(&bytes[at..]) {
            PlainStep::Text if bytes[at] == text[matched] => {
                at += 1;
                matched += 1;
            }
            PlainStep::Move => at += 1,
            PlainStep::Escape { length, .. } => at += length,
            PlainStep::Text | PlainStep::Incomplete => return None,
        }
    }
    (matched == text.len()).then_some(at)
}

/// Which language a command is given in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShellKind {
    /// bash, zsh, sh and all that have `$?`.
    Posix,
    /// fish, which refuses a line with `$?` in it.
    Fish,
}

impl ShellKind {
    /// What the program on a terminal is.
    pub(super) fn of_program(program: &str) -> Self {
        let name = program.rsplit('/').next().unwrap_or(program);
        if name == "fish" { Self::Fish } else { Self::Posix }
    }

    const fn exit_status(self) -> &'static str {
        match self {
            Self::Posix => "$?",
            Self::Fish => "$status",
        }
    }
}

enum HeldMatch {
    Pass(usize),
    Replace(usize, Vec<u8>),
    Echo(usize, Vec<u8>),
    Sentinel { length: usize, run: usize, exit: Option<i32> },
    Wait,
}

fn last_line(text: &[u8]) -> &[u8] {
    &text[memchr::memrchr(b'\n', text).map_or(0, |at| at + 1)..]
}

fn remember_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() >= MAX_TAIL_BYTES {
        tail.clear();
        tail.extend_from_slice(&bytes[bytes.len() - MAX_TAIL_BYTES..]);
        return;
    }
    let over = (tail.len() + bytes.len()).saturating_sub(MAX_TAIL_BYTES);
    tail.drain(..over);
    tail.extend_from_slice(bytes);
}

fn capture_bytes(captured: &mut Option<Captured>, bytes: &[u8]) {
    let Some(captured) = captured else { return };
    captured.bytes.extend_from_slice(bytes);
    if captured.bytes.len() > 2 * MAX_CAPTURED_BYTES {
        captured.bytes.drain(..captured.bytes.len() - MAX_CAPTURED_BYTES);
        captured.truncated = true;
    }
}

/// What the command printed: without its echo at the beginning and the prompt at the end.
fn captured_text(armed: &Armed, captured: &Captured) -> (String, bool) {
    let text = String::from_utf8_lossy(&plain::strip_sequences(&captured.bytes)).into_owned();
    let prompt = String::from_utf8_lossy(&armed.prompt).into_owned();
    let mut text = text.as_str();
    if !captured.truncated {
        // A line editor's echo, one line for each of the command's.
        for _ in 0..armed.command.lines().count() {
            let Some((first, rest)) = text.split_once('\n') else { break };
            let echoed = armed.command.lines().any(|line| first.ends_with(line.trim_end()));
            if !echoed {
                break;
            }
            text = rest;
        }
    }
    if !prompt.trim().is_empty() {
        text = text.strip_suffix(&*prompt).unwrap_or(text);
    }
    (text.to_owned(), captured.truncated)
}

#[cfg(test)]
mod tests;
