//! Request handlers of the host protocol.

use std::time::{Duration, Instant};

use model::hosted::protocol::{HostDialect, HostQuery, HostRequest, IncomingRequest};
use model::hosted::wire::{
    AttachParams, DestroyParams, DestroyResult, Dimensions, HostCounts, HostReport, InspectParams,
    KeyframeParams, KeyframeResult, KeysParams, KeysResult, MarkParams, PasteParams, ReadyParams,
    RenderParams, RunParams, RunResult, ScreenshotParams, ScreenshotResult, SeqResult,
    SignalAnswer, SignalParams, SnapshotParams, SnapshotResult, SubmissionProofParams,
    SubmitParams, TypeParams, WaitParams,
};
use model::hosted::{FaultCode, HostFault, LogFact};
use model::time::whole_millis;
use screen::png::{Profile, ShowCursor};
use screen::{Personality, ScreenSize};
use serde_json::Value;
use sys::proc::Signal;

use super::connection::{Connection, ConnectionRole};
use super::host::{Host, MAX_INPUT_BYTES};
use super::ready::ReadyWait;
use super::runs::{RunEnd, RunName, ShellKind};
use super::wait::{RenderWait, Waiter, check_nested_quantifiers};
use crate::artifacts::ArtifactDir;
use crate::picture;
use crate::timeouts::{ARTIFACTS_LOCK_TIMEOUT, DEFAULT_RUN_TIMEOUT};

/// What comes of a request.
enum MethodOutcome {
    Now(Result<Value, HostFault>),
    Later(Waiter),
}

pub(super) fn internal_fault(error: impl std::fmt::Display) -> HostFault {
    HostFault::new(FaultCode::InternalError, error.to_string())
}

/// An answer that is there at once.
fn answered<Q: HostQuery>(answer: Result<Q::Answer, HostFault>) -> MethodOutcome {
    MethodOutcome::Now(
        answer.and_then(|answer| serde_json::to_value(answer).map_err(internal_fault)),
    )
}

/// How many of [`Signal::NAMED`] agent-tty knows: the first so many.
const AGENT_TTY_SIGNALS: usize = 6;

impl Host {
    /// Does what was asked.
    pub(super) fn serve_request(&mut self, connection: &mut Connection, incoming: IncomingRequest) {
        let IncomingRequest { id, dialect, request } = incoming;
        connection.asked_as(id, dialect);
        let outcome = match request {
            Ok(HostRequest::Attach(params)) => return self.serve_viewer(connection, params),
            Ok(request) => self.run_method(request, dialect),
            Err(fault) => MethodOutcome::Now(Err(fault)),
        };
        match outcome {
            MethodOutcome::Now(answer) => connection.answer_and_close(&answer),
            MethodOutcome::Later(_) if self.connections.is_full_of_held() => {
                let message = "too many others wait for this session; end one of them";
                connection.answer_and_close(&Err(HostFault::new(FaultCode::RpcError, message)));
            }
            MethodOutcome::Later(waiter) => {
                connection.role = ConnectionRole::Waiting(Box::new(waiter))
            }
        }
    }

    fn serve_viewer(&mut self, connection: &mut Connection, params: AttachParams) {
        let refused = match self.check_running() {
            Err(fault) => Some(fault),
            Ok(()) if self.connections.is_full_of_held() => Some(HostFault::new(
                FaultCode::RpcError,
                "too many others watch or wait for this session",
            )),
            Ok(()) => None,
        };
        match refused {
            Some(fault) => connection.answer_and_close(&Err(fault)),
            None => self.attach_viewer(connection, params),
        }
    }

    fn run_method(&mut self, request: HostRequest, dialect: HostDialect) -> MethodOutcome {
        match request {
            HostRequest::Inspect(_) => answered::<InspectParams>(Ok(self.host_report(dialect))),
            HostRequest::Snapshot(query) => {
                answered::<SnapshotParams>(self.snapshot(&query, dialect))
            }
            HostRequest::Screenshot(query) => {
                answered::<ScreenshotParams>(self.take_screenshot(query))
            }
            HostRequest::Keyframe(_) => answered::<KeyframeParams>(Ok(self.keyframe())),
            HostRequest::Type(query) => answered::<TypeParams>(self.type_text(query)),
            HostRequest::Paste(query) => answered::<PasteParams>(self.paste_text(query)),
            HostRequest::Submit(query) => match self.submit_text(query) {
                Ok(waiter) => MethodOutcome::Later(waiter),
                Err(fault) => answered::<SubmitParams>(Err(fault)),
            },
            HostRequest::AwaitReady(query) => match self.check_running() {
                Ok(()) => {
                    MethodOutcome::Later(Waiter::Ready(ReadyWait::new(query, Instant::now())))
                }
                Err(fault) => answered::<ReadyParams>(Err(fault)),
            },
            HostRequest::SubmissionProof(query) => {
                answered::<SubmissionProofParams>(Ok(self.settle_submission(&query)))
            }
            HostRequest::Run(query) => {
                self.run_command(query).unwrap_or_else(|fault| MethodOutcome::Now(Err(fault)))
            }
            HostRequest::Mark(query) => answered::<MarkParams>(self.mark(query)),
            HostRequest::SendKeys(query) => answered::<KeysParams>(self.send_keys(query)),
            HostRequest::Resize(query) => answered::<Dimensions>(self.resize_terminal(query)),
            HostRequest::Signal(query) => answered::<SignalParams>(self.signal_program(&query)),
            HostRequest::Wait(query) => self.wait_for_session(&query),
            HostRequest::WaitForRender(query) => self.wait_for_render(query, dialect),
            HostRequest::Destroy(query) => self.serve_destroy(query),
            // A viewer is served before.
            HostRequest::Attach(_) => MethodOutcome::Now(Err(internal_fault("not a viewer"))),
        }
    }

    fn snapshot(
        &self,
        query: &SnapshotParams,
        dialect: HostDialect,
    ) -> Result<SnapshotResult, HostFault> {
        let id = &self.manifest.session_id;
        let mut snapshot = crate::snapshot::take_snapshot(&self.screen, id, self.last_seq(), query);
        if dialect == HostDialect::AgentTty {
            // ostler's own command keeps what it was told by itself.
            snapshot.captured_at_seq = snapshot.captured_at_seq.max(0);
            crate::snapshot::keep(self.shelf(), &snapshot)?;
        }
        Ok(snapshot)
    }

    fn keyframe(&self) -> KeyframeResult {
        use base64::Engine;
        let keyframe = base64::engine::general_purpose::STANDARD.encode(self.screen.to_keyframe());
        KeyframeResult { seq: self.last_seq(), keyframe }
    }

    fn mark(&mut self, MarkParams { label }: MarkParams) -> Result<SeqResult, HostFault> {
        self.check_running()?;
        self.last_activity = Instant::now();
        Ok(SeqResult { seq: self.record_fact(&LogFact::Marker { label }) })
    }

    fn resize_terminal(&mut self, size: Dimensions) -> Result<Dimensions, HostFault> {
        self.check_running()?;
        self.last_activity = Instant::now();
        let size =
            self.resize(ScreenSize { cols: size.cols, rows: size.rows }).map_err(|error| {
                HostFault::new(
                    FaultCode::InternalError,
                    format!("cannot resize the terminal: {error}"),
                )
            })?;
        Ok(Dimensions { cols: size.cols, rows: size.rows })
    }

    fn wait_for_session(&self, query: &WaitParams) -> MethodOutcome {
        let now = Instant::now();
        // Scripts that were written for agent-tty wait for silence right after `create`, and mean the
        // silence after a program's first words: there a program speaks before the wait begins.
        let waits = self.personality == Personality::AgentTty && !self.has_spoken;
        match Waiter::new(query, now, (!waits).then_some(now)) {
            Ok(waiter) => MethodOutcome::Later(waiter),
            Err(fault) => answered::<WaitParams>(Err(fault)),
        }
    }

    fn wait_for_render(&mut self, query: RenderParams, dialect: HostDialect) -> MethodOutcome {
        let now = Instant::now();
        // Under that name a pattern is refused wherever it comes from.
        if dialect == HostDialect::AgentTty
            && let Some(Err(fault)) = query.regex.as_deref().map(check_nested_quantifiers)
        {
            return answered::<RenderParams>(Err(fault));
        }
        let mut render = match RenderWait::new(query, || self.screen.hash(), now) {
            Ok(render) => render,
            Err(fault) => return answered::<RenderParams>(Err(fault)),
        };
        // A new viewer has not seen this screen.
        self.seen = None;
        match self.check_once(&mut render, now) {
            Some(result) => answered::<RenderParams>(Ok(result.in_dialect(dialect))),
            None => MethodOutcome::Later(Waiter::Render(Box::new(render))),
        }
    }

    fn serve_destroy(&mut self, query: DestroyParams) -> MethodOutcome {
        self.destroy_session(query.force);
        if query.wait {
            return MethodOutcome::Later(Waiter::Destroyed);
        }
        let session_id = self.manifest.session_id.clone();
        answered::<DestroyParams>(Ok(DestroyResult { session_id, destroyed: true }))
    }

    fn shelf(&self) -> ArtifactDir<'_> {
        ArtifactDir {
            session: self.files.path(),
            id: &self.manifest.session_id,
            personality: self.personality,
            // Other clients of this host have to wait as long.
            patience: ARTIFACTS_LOCK_TIMEOUT,
        }
    }

    /// For other programs: ostler's own command draws by itself.
    fn take_screenshot(&self, query: ScreenshotParams) -> Result<ScreenshotResult, HostFault> {
        let name = query.profile.unwrap_or_else(|| Profile::reference_dark().name);
        let profile = picture::find_profile(&name, &[])?;
        let cursor = if query.show_cursor { ShowCursor::Yes } else { ShowCursor::No };
        picture::draw_screenshot(self.shelf(), (&self.screen, self.last_seq()), &profile, cursor)
    }

    fn host_report(&self, dialect: HostDialect) -> HostReport {
        let now = sys::clock::now();
        HostReport {
            session: self.manifest.clone(),
            cli_version: Some(self.version.clone()),
            rpc_socket_path: self.socket.to_str().map(str::to_owned),
            renderer_backend: Some("libghostty-vt".to_owned()),
            renderer_booted: Some(true),
            renderer_boot_in_flight: Some(false),
            counts: (dialect == HostDialect::Ostler).then(|| HostCounts {
                event_count: self.log.last_seq().map_or(0, |last| last + 1),
                last_event_seq: self.log.last_seq(),
                event_log_bytes: self.log.byte_len(),
                uptime: whole_millis(now.since(self.manifest.created_at)),
                viewers: self.connections.viewers().count(),
                log_paused: self.log.pause_report(),
                version: self.version.clone(),
            }),
        }
    }

    /// Whether input can still reach the program.
    pub(super) fn check_running(&self) -> Result<(), HostFault> {
        if self.terminal.is_some() && self.manifest.status.accepts_commands() {
            return Ok(());
        }
        if self.headless.is_some() {
            let message = format!(
                "session `{}` has no terminal: its program was started headless",
                self.manifest.session_id
            );
            return Err(HostFault::invalid_input(message));
        }
        let message = format!("session `{}` is not running", self.manifest.session_id);
        Err(HostFault::new(FaultCode::SessionNotRunning, message))
    }

    fn room_for(&self, bytes: usize) -> Result<(), HostFault> {
        self.check_running()?;
        if self.input.len() + bytes > MAX_INPUT_BYTES {
            let message = "the program does not read its input, and no more can be kept for it";
            return Err(HostFault::new(FaultCode::RpcError, message));
        }
        Ok(())
    }

    fn type_text(&mut self, params: TypeParams) -> Result<SeqResult, HostFault> {
        self.room_for(params.text.len())?;
        self.type_in(params.text.as_bytes());
        let seq = self.record_fact(&LogFact::InputText { data: params.text, by: params.by });
        Ok(SeqResult { seq })
    }

    fn paste_text(&mut self, params: PasteParams) -> Result<SeqResult, HostFault> {
        self.room_for(params.text.len())?;
        let bracketed = params.bracketed || self.screen.modes().bracketed_paste;
        let data = screen::keys::encode_paste(&params.text, bracketed);
        let data = String::from_utf8_lossy(&data).into_owned();
        self.type_in(data.as_bytes());
        let seq = self.record_fact(&LogFact::InputPaste { data, by: params.by });
        Ok(SeqResult { seq })
    }

    fn send_keys(&mut self, params: KeysParams) -> Result<KeysResult, HostFault> {
        self.check_running()?;
        let personality = if params.plain { Personality::AgentTty } else { Personality::Ostler };
        let modes = self.screen.modes();
        let mut bytes = Vec::new();
        for key in &params.keys {
            let encoded = screen::keys::encode_key(key, &modes, personality)
                .map_err(|error| HostFault::new(FaultCode::InvalidKeys, error.to_string()))?;
            bytes.extend_from_slice(&encoded);
        }
        self.room_for(bytes.len())?;
        self.type_in(&bytes);
        let seq =
            self.record_fact(&LogFact::InputKeys { keys: params.keys.clone(), by: params.by });
        Ok(KeysResult { accepted: params.keys, bytes_written: bytes.len(), seq })
    }

    fn run_command(&mut self, params: RunParams) -> Result<MethodOutcome, HostFault> {
        let RunParams { command, no_wait, timeout_ms, capture, by } = params;
        self.room_for(command.len() + 64)?;
        if no_wait {
            self.type_in(format!("{command}\n").as_bytes());
            self.submissions.note_command_sent();
            let seq = self.record_fact(&LogFact::InputRun { command, no_wait, marker: None, by });
            let result = RunResult { accepted: true, seq, ..RunResult::default() };
            return Ok(answered::<RunParams>(Ok(result)));
        }
        let hex = model::hex::to_hex(&sys::random::random_bytes::<19>().map_err(internal_fault)?);
        let (marker, token) = (format!("__AT_MARKER_{}__", &hex[..32]), hex[32..].to_owned());
        let shell = ShellKind::of_program(&self.manifest.command[0]);
        let fact = LogFact::InputRun { command, no_wait, marker: Some(marker.clone()), by };
        let seq = self.record_fact(&fact);
        let LogFact::InputRun { command, .. } = fact else {
            return Err(internal_fault("not a run"));
        };
        self.runs.name_run(&token, RunName { marker: marker.clone(), seq });
        let typed = self.runs.arm_run(&token, &command, capture, shell);
        self.type_in(&typed);
        self.submissions.note_command_sent();
        let started = Instant::now();
        let timeout = timeout_ms.map_or(DEFAULT_RUN_TIMEOUT, Duration::from_millis);
        let result =
            RunResult { accepted: true, seq, marker: Some(marker), ..RunResult::default() };
        Ok(MethodOutcome::Later(Waiter::Run {
            token,
            started,
            deadline: started + timeout,
            result: Box::new(result),
        }))
    }

    /// The end of a command was seen.
    pub(super) fn run_ended(&mut self, done: RunEnd, now: model::time::Time) {
        let (marker, seq) = match self.runs.take_name(&done.token) {
            Some(name) => (name.marker, Some(name.seq)),
            None => (done.token.clone(), None),
        };
        let fact = LogFact::RunComplete { marker, input_run_seq: seq, exit_code: done.exit };
        self.log.push(now, &fact);
        self.log.flush(now);
        let instant = Instant::now();
        let with_exit = self.personality == Personality::Ostler;
        self.connections.answer_ready(|waiter, dialect| match waiter {
            Waiter::Run { token, started, result, .. } if *token == done.token => {
                let with_exit = with_exit && dialect == HostDialect::Ostler;
                result.completed = Some(true);
                result.timed_out = Some(false);
                result.duration_ms = Some(whole_millis(instant.duration_since(*started)));
                result.exit_code = done.exit.filter(|_| with_exit);
                if let Some((output, truncated)) = &done.output {
                    result.output = Some(output.clone());
                    result.output_truncated = truncated.then_some(true);
                }
                Some(serde_json::to_value(&**result).map_err(internal_fault))
            }
            _ => None,
        });
        self.check_screen(instant);
    }

    fn signal_program(&mut self, params: &SignalParams) -> Result<SignalAnswer, HostFault> {
        self.check_running()?;
        let signals = match self.personality {
            Personality::Ostler => &Signal::NAMED[..],
            Personality::AgentTty => &Signal::NAMED[..AGENT_TTY_SIGNALS],
        };
        let known = signals.iter().find(|(name, _)| *name == params.signal);
        let Some((name, signal)) = known else {
            let names: Vec<&str> = signals.iter().map(|(name, _)| *name).collect();
            let message = format!(
                "`{}` is no signal that can be sent; there are: {}",
                params.signal,
                names.join(", ")
            );
            let fault = HostFault::new(FaultCode::InvalidSignal, message);
            return Err(fault.with("signal", &*params.signal));
        };
        let Some(terminal) = &self.terminal else { return Err(internal_fault("no program")) };
        let sent = if params.group {
            terminal.program.signal_group(&terminal.master, *signal)
        } else {
            terminal.program.send_signal(*signal)
        };
        sent.map_err(|error| internal_fault(format!("the signal was refused: {error}")))?;
        self.record_fact(&LogFact::Signal { signal: (*name).to_owned() });
        Ok(SignalAnswer {})
    }
}
