//! A terminal to run an agent in: a pseudo terminal with a thread that keeps what is printed
//! and answers the questions a program asks its terminal.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::process::Reaped;

/// Questions of a program to its terminal, and what a plain xterm would say.
const ANSWERS: &[(&str, &str)] = &[
    ("\x1b[c", "\x1b[?62;22c"),
    ("\x1b[0c", "\x1b[?62;22c"),
    ("\x1b[>c", "\x1b[>0;276;0c"),
    ("\x1b[>0c", "\x1b[>0;276;0c"),
    ("\x1b[5n", "\x1b[0n"),
    ("\x1b[6n", "\x1b[1;1R"),
    ("\x1b[?6n", "\x1b[?1;1R"),
    ("\x1b[>q", "\x1bP>|lab(1)\x1b\\"),
    ("\x1b[>0q", "\x1bP>|lab(1)\x1b\\"),
    ("\x1b[?2026$p", "\x1b[?2026;2$y"),
    ("\x1b]10;?", "\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
    ("\x1b]11;?", "\x1b]11;rgb:0000/0000/0000\x1b\\"),
];

#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    /// When something was last printed.
    changed: Option<Instant>,
}

/// A program in a terminal.
pub(crate) struct Terminal {
    child: Reaped,
    keys: File,
    output: Arc<Mutex<Output>>,
}

impl Terminal {
    /// Starts `command` as the leader of a session whose terminal this is.
    pub(crate) fn start(command: &Command) -> io::Result<Terminal> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        fcntl_setfd(&master, FdFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = OsString::from_vec(ptsname(&master, Vec::new())?.into_bytes());
        tcsetwinsize(&master, Winsize { ws_row: 45, ws_col: 150, ws_xpixel: 0, ws_ypixel: 0 })?;
        let slave = OpenOptions::new().read(true).write(true).open(name)?;

        // Taking a controlling terminal needs code between fork and exec; setsid(1) has it.
        let mut wrapped = Command::new("/usr/bin/setsid");
        wrapped.arg("--ctty").arg(command.get_program()).args(command.get_args()).env_clear();
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                wrapped.env(key, value);
            }
        }
        if let Some(dir) = command.get_current_dir() {
            wrapped.current_dir(dir);
        }
        wrapped.stdin(Stdio::from(slave.try_clone()?));
        wrapped.stdout(Stdio::from(slave.try_clone()?));
        wrapped.stderr(Stdio::from(slave));
        let child = Reaped(wrapped.spawn()?);
        // The command still holds the slave side; without it the reader sees the end.
        drop(wrapped);

        let keys = File::from(master);
        let output = Arc::<Mutex<Output>>::default();
        let (mut reader, mut writer) = (keys.try_clone()?, keys.try_clone()?);
        let sink = Arc::clone(&output);
        thread::spawn(move || {
            let mut chunk = [0; 16 * 1024];
            let mut tail = Vec::new();
            while let Ok(count) = reader.read(&mut chunk) {
                if count == 0 {
                    break;
                }
                let mut output = sink.lock().unwrap_or_else(PoisonError::into_inner);
                output.bytes.extend_from_slice(&chunk[..count]);
                output.changed = Some(Instant::now());
                drop(output);
                tail.extend_from_slice(&chunk[..count]);
                for answer in questions(&mut tail) {
                    let _ = writer.write_all(answer.as_bytes());
                }
            }
        });
        Ok(Terminal { child, keys, output })
    }

    /// Types text as a person would: the text, a pause so that it is not taken for a paste,
    /// then Enter.
    pub(crate) fn submit(&mut self, text: &str) -> io::Result<()> {
        self.press(text)?;
        thread::sleep(Duration::from_millis(700));
        self.press("\r")
    }

    pub(crate) fn press(&mut self, keys: &str) -> io::Result<()> {
        self.keys.write_all(keys.as_bytes())
    }

    /// What was printed so far, without escape sequences and white space.
    pub(crate) fn text(&self) -> String {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        plain(&output.bytes)
    }

    /// Nothing was printed for `quiet`, after something was.
    pub(crate) fn is_quiet(&self, quiet: Duration) -> bool {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.bytes.len() > 200 && output.changed.is_some_and(|at| at.elapsed() >= quiet)
    }

    pub(crate) fn has_exited(&mut self) -> bool {
        self.child.ended().is_some()
    }

    /// The raw output, for the developer.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).bytes.clone()
    }
}

/// The answers to all complete questions in `tail`; keeps what may be the start of another.
fn questions(tail: &mut Vec<u8>) -> Vec<&'static str> {
    let mut found: Vec<(usize, usize, &str)> = Vec::new();
    for (question, answer) in ANSWERS {
        let question = question.as_bytes();
        for (at, window) in tail.windows(question.len()).enumerate() {
            if window == question {
                found.push((at, at + question.len(), answer));
            }
        }
    }
    found.sort_unstable();
    let answered = found.iter().map(|(_, end, _)| *end).max().unwrap_or(0);
    let keep = answered.max(tail.len().saturating_sub(16));
    tail.drain(..keep);
    found.into_iter().map(|(_, _, answer)| answer).collect()
}

fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\x1b' {
            if !character.is_whitespace() && !character.is_control() {
                shown.push(character);
            }
            continue;
        }
        match characters.next() {
            Some('[') => {
                // Parameters and intermediates end with a byte from '@' on.
                while characters.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            Some(']' | 'P' | '_' | '^') => {
                while let Some(c) = characters.next() {
                    if c == '\x07' || (c == '\x1b' && characters.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_answered_once_even_when_split() {
        let mut tail = b"abc\x1b[6n\x1b[".to_vec();
        assert_eq!(questions(&mut tail), ["\x1b[1;1R"]);
        tail.extend_from_slice(b"c");
        assert_eq!(questions(&mut tail), ["\x1b[?62;22c"]);
        assert!(questions(&mut tail).is_empty());
    }

    #[test]
    fn escapes_and_blanks_are_not_text() {
        let bytes = b"\x1b[1;31mhel\x1b[3Clo\x1b]0;title\x07 \x1b]8;;x\x1b\\wor\r\nld";
        assert_eq!(plain(bytes), "helloworld");
    }

    #[test]
    fn a_program_runs_in_the_terminal() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "tty >/dev/null && read x && echo got:$x"]);
        let mut terminal = Terminal::start(&command).unwrap();
        terminal.submit("word").unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while !terminal.has_exited() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(50));
        assert!(terminal.text().contains("got:word"), "{:?}", terminal.text());
    }
}
