//! What can be asked of a host.

use std::time::{Duration, Instant};

use model::hosted::protocol::{HostDialect, HostQuery, HostRequest, IncomingRequest};
use model::hosted::wire::{
    AttachParams, DestroyParams, DestroyResult, Dimensions, HostCounts, HostReport, InspectParams,
    KeyframeParams, KeyframeResult, KeysParams, KeysResult, MarkParams, PasteParams, RenderParams,
    RunParams, RunResult, ScreenshotParams, ScreenshotResult, SeqResult, SignalAnswer,
    SignalParams, SnapshotParams, SnapshotResult, TypeParams, WaitParams,
};
use model::hosted::{Code, Fact, Fault};
use model::time::millis;
use screen::png::{Profile, ShowCursor};
use screen::{Personality, Size};
use serde_json::Value;
use sys::proc::Signal;

use super::connection::{Connection, Role};
use super::host::{Host, MOST_INPUT};
use super::runs::{Done, ShellKind};
use super::wait::{Render, Waiter};
use crate::artifacts::Shelf;
use crate::picture;

/// How long a waited command may take if nobody says.
const USUAL_RUN: Duration = Duration::from_millis(30_000);

/// What comes of a request.
enum Outcome {
    Now(Result<Value, Fault>),
    Later(Waiter),
}

pub(super) fn internal(error: impl std::fmt::Display) -> Fault {
    Fault::new(Code::InternalError, error.to_string())
}

/// An answer that is there at once.
fn answered<Q: HostQuery>(answer: Result<Q::Answer, Fault>) -> Outcome {
    Outcome::Now(answer.and_then(|answer| serde_json::to_value(answer).map_err(internal)))
}

/// The signals that can be sent.
pub(super) const SIGNALS: [(&str, Signal); 6] = [
    ("SIGTERM", Signal::Terminate),
    ("SIGINT", Signal::Interrupt),
    ("SIGKILL", Signal::Kill),
    ("SIGHUP", Signal::Hangup),
    ("SIGUSR1", Signal::User1),
    ("SIGUSR2", Signal::User2),
];

impl Host {
    /// Does what was asked.
    pub(super) fn serve(&mut self, connection: &mut Connection, incoming: IncomingRequest) {
        let IncomingRequest { id, dialect, request } = incoming;
        connection.asked_as(id, dialect);
        let outcome = match request {
            Ok(HostRequest::Attach(params)) => return self.serve_viewer(connection, params),
            Ok(request) => self.outcome(request, dialect),
            Err(fault) => Outcome::Now(Err(fault)),
        };
        match outcome {
            Outcome::Now(answer) => connection.answer(&answer),
            Outcome::Later(_) if self.connections.is_full_of_held() => {
                let message = "too many others wait for this session; end one of them";
                connection.answer(&Err(Fault::new(Code::RpcError, message)));
            }
            Outcome::Later(waiter) => connection.role = Role::Waiting(Box::new(waiter)),
        }
    }

    fn serve_viewer(&mut self, connection: &mut Connection, params: AttachParams) {
        let refused = match self.running() {
            Err(fault) => Some(fault),
            Ok(()) if self.connections.is_full_of_held() => {
                Some(Fault::new(Code::RpcError, "too many others watch or wait for this session"))
            }
            Ok(()) => None,
        };
        match refused {
            Some(fault) => connection.answer(&Err(fault)),
            None => self.attach(connection, params),
        }
    }

    fn outcome(&mut self, request: HostRequest, dialect: HostDialect) -> Outcome {
        match request {
            HostRequest::Inspect(_) => answered::<InspectParams>(Ok(self.report(dialect))),
            HostRequest::Snapshot(query) => {
                answered::<SnapshotParams>(self.snapshot(&query, dialect))
            }
            HostRequest::Screenshot(query) => answered::<ScreenshotParams>(self.screenshot(query)),
            HostRequest::Keyframe(_) => answered::<KeyframeParams>(Ok(self.keyframe())),
            HostRequest::Type(query) => answered::<TypeParams>(self.type_text(query)),
            HostRequest::Paste(query) => answered::<PasteParams>(self.paste(query)),
            HostRequest::Run(query) => {
                self.run_command(query).unwrap_or_else(|fault| Outcome::Now(Err(fault)))
            }
            HostRequest::Mark(query) => answered::<MarkParams>(self.mark(query)),
            HostRequest::SendKeys(query) => answered::<KeysParams>(self.send_keys(query)),
            HostRequest::Resize(query) => answered::<Dimensions>(self.resize_terminal(query)),
            HostRequest::Signal(query) => answered::<SignalParams>(self.signal(&query)),
            HostRequest::Wait(query) => match Waiter::new(&query, Instant::now()) {
                Ok(waiter) => Outcome::Later(waiter),
                Err(fault) => answered::<WaitParams>(Err(fault)),
            },
            HostRequest::WaitForRender(query) => self.wait_for_render(query, dialect),
            HostRequest::Destroy(query) => self.serve_destroy(query),
            // A viewer is served before.
            HostRequest::Attach(_) => Outcome::Now(Err(internal("not a viewer"))),
        }
    }

    fn snapshot(
        &self,
        query: &SnapshotParams,
        dialect: HostDialect,
    ) -> Result<SnapshotResult, Fault> {
        let id = &self.manifest.session_id;
        let mut snapshot = crate::snapshot::snapshot(&self.screen, id, self.seq(), query);
        if dialect == HostDialect::AgentTty {
            // ostler's own command keeps what it was told by itself.
            snapshot.captured_at_seq = snapshot.captured_at_seq.max(0);
            crate::snapshot::keep(self.shelf(), &snapshot)?;
        }
        Ok(snapshot)
    }

    fn keyframe(&self) -> KeyframeResult {
        use base64::Engine;
        let keyframe = base64::engine::general_purpose::STANDARD.encode(self.screen.keyframe());
        KeyframeResult { seq: self.seq(), keyframe }
    }

    fn mark(&mut self, MarkParams { label }: MarkParams) -> Result<SeqResult, Fault> {
        self.running()?;
        self.last_activity = Instant::now();
        Ok(SeqResult { seq: self.record(&Fact::Marker { label }) })
    }

    fn resize_terminal(&mut self, size: Dimensions) -> Result<Dimensions, Fault> {
        self.running()?;
        self.last_activity = Instant::now();
        let size = self.resize(Size { cols: size.cols, rows: size.rows }).map_err(|error| {
            Fault::new(Code::InternalError, format!("cannot resize the terminal: {error}"))
        })?;
        Ok(Dimensions { cols: size.cols, rows: size.rows })
    }

    fn wait_for_render(&mut self, query: RenderParams, dialect: HostDialect) -> Outcome {
        let now = Instant::now();
        let mut render = match Render::new(query, || self.screen.hash(), now) {
            Ok(render) => render,
            Err(fault) => return answered::<RenderParams>(Err(fault)),
        };
        // Somebody new has not seen this screen.
        self.seen = None;
        match self.look_once(&mut render, now) {
            Some(result) => answered::<RenderParams>(Ok(result.in_dialect(dialect))),
            None => Outcome::Later(Waiter::Render(Box::new(render))),
        }
    }

    fn serve_destroy(&mut self, query: DestroyParams) -> Outcome {
        self.destroy(query.force);
        if query.wait {
            return Outcome::Later(Waiter::Destroyed);
        }
        let session_id = self.manifest.session_id.clone();
        answered::<DestroyParams>(Ok(DestroyResult { session_id, destroyed: true }))
    }

    fn shelf(&self) -> Shelf<'_> {
        Shelf {
            session: self.files.path(),
            id: &self.manifest.session_id,
            personality: self.personality,
            // Whoever else asks this host has to wait as long.
            patience: Duration::from_millis(200),
        }
    }

    /// For other programs: ostler's own command draws by itself.
    fn screenshot(&self, query: ScreenshotParams) -> Result<ScreenshotResult, Fault> {
        let name = query.profile.unwrap_or_else(|| Profile::reference_dark().name);
        let profile = picture::profile(&name, &[])?;
        let cursor = if query.show_cursor { ShowCursor::Yes } else { ShowCursor::No };
        picture::screenshot(self.shelf(), (&self.screen, self.seq()), &profile, cursor)
    }

    fn report(&self, dialect: HostDialect) -> HostReport {
        let now = sys::clock::now();
        HostReport {
            session: self.manifest.clone(),
            cli_version: Some(self.version.clone()),
            rpc_socket_path: self.socket.to_str().map(str::to_owned),
            renderer_backend: Some("libghostty-vt".to_owned()),
            renderer_booted: Some(true),
            renderer_boot_in_flight: Some(false),
            counts: (dialect == HostDialect::Ostler).then(|| HostCounts {
                event_count: self.log.last().map_or(0, |last| last + 1),
                last_event_seq: self.log.last(),
                event_log_bytes: self.log.bytes(),
                uptime: millis(now.since(self.manifest.created_at)),
                viewers: self.connections.viewers().count(),
                log_paused: self.log.paused(),
                version: self.version.clone(),
            }),
        }
    }

    /// Whether input can still reach the program.
    fn running(&self) -> Result<(), Fault> {
        if self.terminal.is_some() && self.manifest.status.accepts_commands() {
            return Ok(());
        }
        let message = format!("session `{}` is not running", self.manifest.session_id);
        Err(Fault::new(Code::SessionNotRunning, message))
    }

    /// Hands bytes to the terminal; what it does not take now it is given later.
    pub(super) fn type_in(&mut self, bytes: &[u8]) {
        self.last_activity = Instant::now();
        self.input.extend(bytes);
        self.write_terminal();
    }

    fn room_for(&self, bytes: usize) -> Result<(), Fault> {
        self.running()?;
        if self.input.len() + bytes > MOST_INPUT {
            let message = "the program does not read its input, and no more can be kept for it";
            return Err(Fault::new(Code::RpcError, message));
        }
        Ok(())
    }

    fn type_text(&mut self, params: TypeParams) -> Result<SeqResult, Fault> {
        self.room_for(params.text.len())?;
        self.type_in(params.text.as_bytes());
        let seq = self.record(&Fact::InputText { data: params.text });
        Ok(SeqResult { seq })
    }

    fn paste(&mut self, params: PasteParams) -> Result<SeqResult, Fault> {
        self.room_for(params.text.len())?;
        let bracketed = params.bracketed || self.screen.modes().bracketed_paste;
        let data = screen::keys::paste(&params.text, bracketed);
        let data = String::from_utf8_lossy(&data).into_owned();
        self.type_in(data.as_bytes());
        let seq = self.record(&Fact::InputPaste { data });
        Ok(SeqResult { seq })
    }

    fn send_keys(&mut self, params: KeysParams) -> Result<KeysResult, Fault> {
        self.running()?;
        let personality = if params.plain { Personality::AgentTty } else { Personality::Ostler };
        let modes = self.screen.modes();
        let mut bytes = Vec::new();
        for key in &params.keys {
            let encoded = screen::keys::encode(key, &modes, personality)
                .map_err(|error| Fault::new(Code::InvalidKeys, error.to_string()))?;
            bytes.extend_from_slice(&encoded);
        }
        self.room_for(bytes.len())?;
        self.type_in(&bytes);
        let seq = self.record(&Fact::InputKeys { keys: params.keys.clone() });
        Ok(KeysResult { accepted: params.keys, bytes_written: bytes.len(), seq })
    }

    fn run_command(&mut self, params: RunParams) -> Result<Outcome, Fault> {
        let RunParams { command, no_wait, timeout_ms, capture } = params;
        self.room_for(command.len() + 64)?;
        if no_wait {
            self.type_in(format!("{command}\n").as_bytes());
            let seq = self.record(&Fact::InputRun { command, no_wait, marker: None });
            let result = RunResult { accepted: true, seq, ..RunResult::default() };
            return Ok(answered::<RunParams>(Ok(result)));
        }
        let hex = model::hex::hex(&sys::random::bytes::<19>().map_err(internal)?);
        let (marker, token) = (format!("__AT_MARKER_{}__", &hex[..32]), hex[32..].to_owned());
        let shell = ShellKind::of_program(&self.manifest.command[0]);
        let fact = Fact::InputRun { command, no_wait, marker: Some(marker.clone()) };
        let seq = self.record(&fact);
        let Fact::InputRun { command, .. } = fact else { return Err(internal("not a run")) };
        let typed = self.runs.arm(&token, &command, capture, shell);
        self.type_in(&typed);
        let started = Instant::now();
        let timeout = timeout_ms.map_or(USUAL_RUN, Duration::from_millis);
        let result =
            RunResult { accepted: true, seq, marker: Some(marker), ..RunResult::default() };
        Ok(Outcome::Later(Waiter::Run {
            token,
            started,
            deadline: started + timeout,
            result: Box::new(result),
        }))
    }

    /// The end of a command was seen.
    pub(super) fn run_ended(&mut self, done: Done, now: model::time::Time) {
        let run = self.connections.waiters().find_map(|waiter| match waiter {
            Waiter::Run { token, result, .. } if *token == done.token => {
                Some((result.marker.clone().unwrap_or_default(), result.seq))
            }
            _ => None,
        });
        let (marker, seq) = match run {
            Some((marker, seq)) => (marker, Some(seq)),
            None => (done.token.clone(), None),
        };
        let fact = Fact::RunComplete { marker, input_run_seq: seq, exit_code: done.exit };
        self.log.push(now, &fact);
        self.log.flush(now);
        let instant = Instant::now();
        let with_exit = self.personality == Personality::Ostler;
        self.connections.settle(|waiter, dialect| match waiter {
            Waiter::Run { token, started, result, .. } if *token == done.token => {
                let with_exit = with_exit && dialect == HostDialect::Ostler;
                result.completed = Some(true);
                result.timed_out = Some(false);
                result.duration_ms = Some(millis(instant.duration_since(*started)));
                result.exit_code = done.exit.filter(|_| with_exit);
                if let Some((output, truncated)) = &done.output {
                    result.output = Some(output.clone());
                    result.output_truncated = truncated.then_some(true);
                }
                Some(serde_json::to_value(&**result).map_err(internal))
            }
            _ => None,
        });
        self.check_screen(instant);
    }

    fn signal(&mut self, params: &SignalParams) -> Result<SignalAnswer, Fault> {
        self.running()?;
        let known = SIGNALS.iter().find(|(name, _)| *name == params.signal);
        let Some((name, signal)) = known else {
            let names: Vec<&str> = SIGNALS.iter().map(|(name, _)| *name).collect();
            let message = format!(
                "`{}` is no signal that can be sent; there are: {}",
                params.signal,
                names.join(", ")
            );
            return Err(Fault::new(Code::InvalidSignal, message));
        };
        let Some(terminal) = &self.terminal else { return Err(internal("no program")) };
        let sent = if params.group {
            terminal.program.signal_group(&terminal.master, *signal)
        } else {
            terminal.program.signal(*signal)
        };
        sent.map_err(|error| internal(format!("the signal was refused: {error}")))?;
        self.record(&Fact::Signal { signal: (*name).to_owned() });
        Ok(SignalAnswer {})
    }
}
