//! What can be asked of a host.

use std::time::{Duration, Instant};

use model::hosted::wire::{
    AttachParams, DestroyParams, DestroyResult, Dimensions, HostReport, KeysParams, KeysResult,
    MarkParams, RenderParams, RunParams, RunResult, ScreenshotParams, SeqResult, SignalParams,
    SignalResult, SnapshotParams, TextParams, WaitParams,
};
use model::hosted::{Code, Fact, Fault};
use model::time::millis;
use screen::png::{Profile, ShowCursor};
use screen::{Personality, Size};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sys::proc::Signal;

use super::connection::{Connection, Request, Role};
use super::host::{Host, MOST_INPUT};
use super::runs::Done;
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

fn told(result: impl Serialize) -> Outcome {
    Outcome::Now(serde_json::to_value(result).map_err(internal))
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Fault> {
    let params = if params.is_null() { Value::Object(serde_json::Map::new()) } else { params };
    serde_json::from_value(params)
        .map_err(|error| Fault::input(format!("the parameters are not understood: {error}")))
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
    pub(super) fn serve(&mut self, connection: &mut Connection, request: Result<Request, Fault>) {
        let request = match request {
            Ok(request) => request,
            Err(fault) => return connection.answer(&Value::Null, Err(fault)),
        };
        let Request { id, method, params } = request;
        if method == "attach" {
            return match read::<AttachParams>(params).and_then(|p| self.running().map(|()| p)) {
                Ok(params) => self.attach(connection, &id, params),
                Err(fault) => connection.answer(&id, Err(fault)),
            };
        }
        match self.outcome(&method, params).unwrap_or_else(|fault| Outcome::Now(Err(fault))) {
            Outcome::Now(answer) => connection.answer(&id, answer),
            Outcome::Later(waiter) => connection.role = Role::Waiting(id, Box::new(waiter)),
        }
    }

    fn outcome(&mut self, method: &str, params: Value) -> Result<Outcome, Fault> {
        match method {
            "inspect" => Ok(told(self.report())),
            "snapshot" => {
                let params: SnapshotParams = read(params)?;
                let id = &self.manifest.session_id;
                Ok(told(crate::snapshot::snapshot(&self.screen, id, self.seq(), params)))
            }
            "screenshot" => self.screenshot(read(params)?),
            "keyframe" => {
                use base64::Engine;
                let frame =
                    base64::engine::general_purpose::STANDARD.encode(self.screen.keyframe());
                Ok(told(serde_json::json!({ "seq": self.seq(), "keyframe": frame })))
            }
            "type" => self.type_text(read(params)?),
            "paste" => self.paste(read(params)?),
            "run" => self.run_command(read(params)?),
            "mark" => {
                let MarkParams { label } = read(params)?;
                self.running()?;
                self.last_activity = Instant::now();
                let seq = self.record(&Fact::Marker { label });
                Ok(told(SeqResult { seq }))
            }
            "sendKeys" => self.send_keys(read(params)?),
            "resize" => {
                let Dimensions { cols, rows } = read(params)?;
                self.running()?;
                if cols == 0 || rows == 0 {
                    let message = "Columns and rows must be positive integers.";
                    return Err(Fault::new(Code::InvalidDimensions, message));
                }
                self.last_activity = Instant::now();
                let size = self.resize(Size { cols, rows }).map_err(|error| {
                    Fault::new(Code::InternalError, format!("cannot resize the terminal: {error}"))
                })?;
                Ok(told(Dimensions { cols: size.cols, rows: size.rows }))
            }
            "signal" => self.signal(read(params)?),
            "wait" => {
                let waiter = Waiter::new(&read::<WaitParams>(params)?, Instant::now())?;
                Ok(Outcome::Later(waiter))
            }
            "waitForRender" => {
                let params: RenderParams = read(params)?;
                let now = Instant::now();
                let mut render = Render::new(params, || self.screen.hash(), now)?;
                // Somebody new has not seen this screen.
                self.seen = None;
                Ok(match self.look_once(&mut render, now) {
                    Some(result) => told(result),
                    None => Outcome::Later(Waiter::Render(Box::new(render))),
                })
            }
            "destroy" => {
                let params: DestroyParams = read(params)?;
                self.destroy(params.force);
                if params.wait {
                    return Ok(Outcome::Later(Waiter::Destroyed));
                }
                let session_id = self.manifest.session_id.clone();
                Ok(told(DestroyResult { session_id, destroyed: true }))
            }
            _ => {
                let message = format!("`{method}` is nothing that can be asked of a host");
                Err(Fault::new(Code::ProtocolError, message))
            }
        }
    }

    /// For other programs: ostler's own command draws by itself.
    fn screenshot(&self, params: ScreenshotParams) -> Result<Outcome, Fault> {
        let name = params.profile.unwrap_or_else(|| Profile::reference_dark().name);
        let profile = picture::profile(&name, &[])?;
        let cursor = if params.show_cursor { ShowCursor::Yes } else { ShowCursor::No };
        let shelf = Shelf {
            session: self.files.path(),
            id: &self.manifest.session_id,
            personality: self.personality,
            // Whoever else asks this host has to wait as long.
            patience: Duration::from_millis(200),
        };
        Ok(told(picture::screenshot(shelf, (&self.screen, self.seq()), &profile, cursor)?))
    }

    fn report(&self) -> HostReport {
        let now = sys::clock::now();
        HostReport {
            session: self.manifest.clone(),
            event_count: self.log.last().map_or(0, |last| last + 1),
            last_event_seq: self.log.last(),
            event_log_bytes: self.log.bytes(),
            uptime: millis(now.since(self.manifest.created_at)),
            viewers: self
                .connections
                .all
                .iter()
                .filter(|c| matches!(c.role, Role::Viewing(_)))
                .count(),
            log_paused: self.log.paused(),
            version: self.version.clone(),
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

    fn type_text(&mut self, params: TextParams) -> Result<Outcome, Fault> {
        self.room_for(params.text.len())?;
        self.type_in(params.text.as_bytes());
        let seq = self.record(&Fact::InputText { data: params.text });
        Ok(told(SeqResult { seq }))
    }

    fn paste(&mut self, params: TextParams) -> Result<Outcome, Fault> {
        self.room_for(params.text.len())?;
        let bracketed = params.bracketed || self.screen.modes().bracketed_paste;
        let data = screen::keys::paste(&params.text, bracketed);
        let data = String::from_utf8_lossy(&data).into_owned();
        self.type_in(data.as_bytes());
        let seq = self.record(&Fact::InputPaste { data });
        Ok(told(SeqResult { seq }))
    }

    fn send_keys(&mut self, params: KeysParams) -> Result<Outcome, Fault> {
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
        Ok(told(KeysResult { accepted: params.keys, bytes_written: bytes.len(), seq }))
    }

    fn run_command(&mut self, params: RunParams) -> Result<Outcome, Fault> {
        let RunParams { command, no_wait, timeout_ms, capture } = params;
        self.room_for(command.len() + 64)?;
        if no_wait {
            self.type_in(format!("{command}\n").as_bytes());
            let seq = self.record(&Fact::InputRun { command, no_wait, marker: None });
            return Ok(told(RunResult { accepted: true, seq, ..RunResult::default() }));
        }
        // Whatever was held for an earlier run is decided now.
        self.release_held(true);
        let hex = model::hex::hex(&sys::random::bytes::<19>().map_err(internal)?);
        let (marker, token) = (format!("__AT_MARKER_{}__", &hex[..32]), hex[32..].to_owned());
        let fact = Fact::InputRun { command, no_wait, marker: Some(marker.clone()) };
        let seq = self.record(&fact);
        let Fact::InputRun { command, .. } = fact else { return Err(internal("not a run")) };
        let typed = self.runs.arm(&token, &command, capture);
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
        self.connections.settle(|waiter| match waiter {
            Waiter::Run { token, started, result, .. } if *token == done.token => {
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

    fn signal(&mut self, params: SignalParams) -> Result<Outcome, Fault> {
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
        Ok(told(SignalResult { signal: (*name).to_owned(), delivered: true }))
    }
}
