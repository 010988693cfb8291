//! `ostler attach`

use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use flows::terminal::screen::RESTORE;
use flows::terminal::stream::{self, FrameKind, Keyboard};
use flows::terminal::{TerminalHome, ask};
use model::fleet_order::OrderArguments;
use model::helper::{HelperAsk, TerminalVisit, ViewRequest};
use model::hosted::HostFault;
use model::hosted::wire::{AttachParams, AttachResult, Dimensions};
use sys::dropped::NoteDropped;
use sys::machine::Machine;
use sys::proc::Signal;

use crate::cli::CliContext;
use crate::error::Error;
use crate::helper;
use crate::render::output;
use crate::timeouts::NOTICE_TIME;

declare_commands![CommandEntry {
    place: HelpPlace(Everyday, 5),
    effect: WritesState,
    agent_tty: 15,
    examples: &[
        example("attach build", "Join the terminal named build; Ctrl-] leaves it.").on(Person),
        example("attach build --read-only", "Only look.").on(Person),
        example("attach server/build", "Join a terminal of another machine of the fleet.")
            .on(Person)
    ],
    cases: &[empty("attach build"), refused("attach build").on(Terminal)],
    uncased: &[
        (Usual, "it needs a person at a terminal: tests/terminal/attach.rs has one"),
        ONE_FILE
    ],
    ..entry!("attach", AttachArgs, run_attach)
}];

/// Join a terminal: see it as it is, and type into it.
///
/// Several people may look at the same time; one of them types (--take takes the keyboard). When the
/// typist leaves, whoever types next has it. The terminal takes the size of whoever types. Ctrl-] leaves;
/// the terminal goes on.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// Only look.
    #[arg(long, conflicts_with = "take")]
    read_only: bool,
    /// Take the keyboard from whoever has it.
    #[arg(long)]
    take: bool,
    /// Leave the size of the terminal as it is.
    #[arg(long)]
    keep_size: bool,
    /// The key that leaves, with Ctrl: a letter or one of @ [ \ ] ^ _.
    #[arg(long, value_name = "KEY", default_value = "]")]
    detach_key: char,
}

/// Takes away what was shown: it was another terminal's.
const CLEAR_SCREEN: &str = "\x1b[2J\x1b[H";

/// How it ended.
enum AttachEnd {
    ByKey,
    Over(String),
    HostGone,
    BySignal(u8),
}

impl AttachArgs {
    /// As `attach ID` alone.
    pub(crate) fn of_terminal(id: &str) -> Self {
        Self { id: id.to_owned(), read_only: false, take: false, keep_size: false, detach_key: ']' }
    }

    /// As an order for another machine names it.
    pub(crate) fn of_order(given: &OrderArguments) -> Self {
        let has = |name: &str| given.options.contains_key(name);
        let key = given.options.get("detach-key").and_then(|values| values.first());
        Self {
            id: given.words.first().cloned().unwrap_or_default(),
            read_only: has("read-only"),
            take: has("take"),
            keep_size: has("keep-size"),
            detach_key: key.and_then(|text| text.chars().next()).unwrap_or(']'),
        }
    }

    fn check_place(&self, context: &CliContext) -> Result<u8, Error> {
        if context.json {
            return Err(Error::usage_error(
                "`attach` is for people",
                "`ostler snapshot --json` has the screen, `ostler logs --json` the conversation",
            ));
        }
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return Err(Error::usage_error(
                "`attach` needs a terminal on standard input and output",
                "`ostler snapshot` shows the screen without one",
            ));
        }
        Ok(control_byte(self.detach_key)?)
    }

    fn attach_params(&self) -> AttachParams {
        let size = sys::terminal::stdout_size()
            .filter(|_| !self.keep_size)
            .map(|size| Dimensions { cols: size.cols, rows: size.rows });
        AttachParams { size, read_only: self.read_only, take: self.take, by: None }
    }

    pub(crate) fn run_attach(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let key = self.check_place(context)?;
        let session = context.find_terminal(&self.id)?;
        let joined = ask::attach_terminal(&session, self.attach_params())?;
        let gone = format!("[the host of {} is gone]", session.id);
        let left = self.view_terminal(key, joined)?;
        Ok(report_end(&session.id, &gone, &left))
    }

    /// Joins a terminal of another machine through the network helper, which speaks as its host does.
    pub(crate) fn run_afar(&self, context: &CliContext, host: &str) -> Result<ExitCode, Error> {
        let key = self.check_place(context)?;
        let view = ViewRequest {
            host: host.to_owned(),
            terminal: self.id.clone(),
            params: self.attach_params(),
            timeout_ms: context.load_config()?.fleet.timeout_ms,
        };
        let ask = HelperAsk::FleetView(Box::new(view));
        let (mut helper, joined) = helper::join_helper(context.machine()?, ask)?;
        let name = format!("{host}/{}", self.id);
        let gone = format!("[the way to {name} is lost; it may go on there]");
        let left = self.view_terminal(key, joined);
        helper.wait().note_dropped("the end of the network helper");
        Ok(report_end(&name, &gone, &left?))
    }

    fn view_terminal(
        &self,
        key: u8,
        (welcome, early, stream): (AttachResult, Vec<u8>, UnixStream),
    ) -> Result<AttachEnd, Error> {
        let signals = sys::signals::watch_signals(&[
            Signal::WindowChange,
            Signal::Terminate,
            Signal::Hangup,
            Signal::Interrupt,
        ])?;
        let left = {
            let _raw = sys::terminal::RawMode::enter()?;
            let mut viewing = AttachedViewer {
                stream,
                key,
                sizes: !self.keep_size,
                input: early,
                read_only: self.read_only,
                keyboard: if welcome.writer { Keyboard::Yours } else { Keyboard::Anothers },
                notice: None,
            };
            if !welcome.writer {
                viewing.announce_writer();
            }
            let left = viewing.run_viewer(&signals);
            // In every case the terminal is given back as it was.
            let mut out = std::io::stdout().lock();
            let _ = write!(out, "{RESTORE}{CLEAR_SCREEN}").and_then(|()| out.flush());
            left?
        };
        Ok(left)
    }
}

/// Joins a terminal of this machine for an operator of the fleet.
pub(crate) fn join_for_operator(
    visit: &TerminalVisit,
) -> Result<(AttachResult, Vec<u8>, UnixStream), String> {
    let machine = Machine::here().map_err(|error| error.to_string())?;
    let home = TerminalHome::at_root(machine.home(), &machine);
    let session = home.find_session(&visit.terminal).map_err(|error| error.to_string())?;
    ask::attach_terminal(&session, visit.params.clone()).map_err(|fault| fault.message)
}

fn report_end(name: &str, gone: &str, left: &AttachEnd) -> ExitCode {
    match left {
        AttachEnd::ByKey => output::print_notice(&format!("[detached from {name}]")),
        AttachEnd::Over(how) => output::print_notice(&format!("[session {name} is over: {how}]")),
        AttachEnd::HostGone => output::print_notice(gone),
        AttachEnd::BySignal(signal) => return ExitCode::from(128 + signal),
    }
    ExitCode::SUCCESS
}

/// The byte of a key with Ctrl.
fn control_byte(key: char) -> Result<u8, HostFault> {
    match key.to_ascii_uppercase() {
        letter @ '@'..='_' => Ok(letter as u8 & 0x1f),
        other => Err(HostFault::invalid_input(format!("--detach-key `{other}` has no Ctrl"))),
    }
}

struct AttachedViewer {
    stream: UnixStream,
    key: u8,
    sizes: bool,
    input: Vec<u8>,
    read_only: bool,
    keyboard: Keyboard,
    notice: Option<Notice>,
}

/// A line over the last row of the viewer's own terminal.
struct Notice {
    text: String,
    drawn: bool,
    until: Instant,
}

impl AttachedViewer {
    fn run_viewer(mut self, signals: &sys::signals::SignalWatch) -> Result<AttachEnd, Error> {
        let stdin = std::io::stdin();
        let mut buffer = vec![0; 64 << 10];
        loop {
            if let Some(left) = self.show_received()? {
                return Ok(left);
            }
            let until = self.notice.as_ref().map(|notice| notice.until);
            let ready = sys::terminal::wait_readable(
                &[stdin.as_fd(), self.stream.as_fd(), signals.as_fd()],
                until,
            )?;
            if until.is_some_and(|until| until <= Instant::now()) {
                self.notice = None;
                self.send_frame(FrameKind::Redraw, b"")?;
            }
            if let Some(signal) = sys::signals::received_interruption() {
                return Ok(AttachEnd::BySignal(signal));
            }
            if ready[2] {
                signals.clear();
                self.tell_size()?;
            }
            if ready[0] {
                let count = stdin.lock().read(&mut buffer)?;
                if count == 0 {
                    return Ok(AttachEnd::ByKey);
                }
                let typed = &buffer[..count];
                let end = typed.iter().position(|byte| *byte == self.key);
                let typed = &typed[..end.unwrap_or(count)];
                if self.keyboard == Keyboard::Anothers && !typed.is_empty() {
                    self.announce_writer();
                } else if !typed.is_empty() {
                    self.send_frame(FrameKind::Bytes, typed)?;
                }
                if end.is_some() {
                    return Ok(AttachEnd::ByKey);
                }
            }
            if ready[1] {
                match self.stream.read(&mut buffer) {
                    Ok(0) => return Ok(AttachEnd::HostGone),
                    Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => return Ok(AttachEnd::HostGone),
                }
            }
        }
    }

    /// Shows what has come in.
    fn show_received(&mut self) -> Result<Option<AttachEnd>, Error> {
        let mut out = std::io::stdout().lock();
        loop {
            match stream::take_frame(&mut self.input) {
                Ok(Some((FrameKind::Bytes, bytes))) => {
                    out.write_all(&bytes)?;
                    // A repaint may have covered it, and it has its time.
                    if let Some(notice) = &mut self.notice {
                        notice.drawn = false;
                    }
                }
                Ok(Some((FrameKind::Over, how))) => {
                    return Ok(Some(AttachEnd::Over(String::from_utf8_lossy(&how).into_owned())));
                }
                Ok(Some((FrameKind::Writer, payload))) => {
                    self.keyboard = Keyboard::parse(&payload);
                    self.announce_writer();
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return Ok(Some(AttachEnd::HostGone)),
            }
        }
        if let Some(notice) = self.notice.as_mut().filter(|notice| !notice.drawn) {
            notice.drawn = true;
            let size = sys::terminal::stdout_size();
            let (rows, cols) = size.map_or((24, 80), |size| (size.rows, usize::from(size.cols)));
            let text: String = notice.text.chars().take(cols.saturating_sub(1)).collect();
            write!(out, "\x1b7\x1b[{rows};1H\x1b[0;7m{text}\x1b[0m\x1b8")?;
        }
        out.flush()?;
        Ok(None)
    }

    /// Says who has the keyboard, for a moment.
    fn announce_writer(&mut self) {
        let text = match self.keyboard {
            Keyboard::Anothers if self.read_only => return,
            Keyboard::Free if self.read_only => return,
            Keyboard::Anothers => "[somebody else types; attach with --take to take the keyboard]",
            Keyboard::Free => "[nobody types any more; type to take the keyboard]",
            Keyboard::Yours => "[the keyboard is yours]",
        };
        let until = Instant::now() + NOTICE_TIME;
        self.notice = Some(Notice { text: text.to_owned(), drawn: false, until });
    }

    fn tell_size(&mut self) -> Result<(), Error> {
        if let Some(size) = sys::terminal::stdout_size().filter(|_| self.sizes) {
            let size = Dimensions { cols: size.cols, rows: size.rows };
            self.send_frame(FrameKind::Size, &serde_json::to_vec(&size)?)?;
        }
        Ok(())
    }

    fn send_frame(&mut self, kind: FrameKind, payload: &[u8]) -> Result<(), Error> {
        let mut frame = Vec::new();
        stream::put_frame(&mut frame, kind, payload);
        // A host that is gone is noticed when it is read from.
        let _ = self.stream.write_all(&frame);
        Ok(())
    }
}
