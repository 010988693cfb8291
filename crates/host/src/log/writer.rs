//! The one writer of a log: its host.
//!
//! Events gather in a buffer and go out in one write per turn of the host's loop, before the screen
//! or anybody else sees them. When nothing can be written (a full disk) the session goes on: what is
//! missing is counted, and the first thing written afterwards is the gap. The system decides when
//! bytes reach the disk; they are forced there when the session ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;
use sys::dropped::NoteDropped;

use base64::Engine;
use model::hosted::LogFact;
use model::hosted::wire::LogPaused;
use model::time::Time;
use screen::Personality;

use super::chain::HashChain;
use super::escape::escape_json;
use crate::timeouts::LOG_RETRY_DELAY;

/// The log, as its host writes it.
#[derive(Debug)]
pub struct LogWriter {
    file: File,
    personality: Personality,
    buffer: Vec<u8>,
    /// The number and count of the events in the buffer, and their output.
    buffered: LostEvents,
    next: u64,
    written: u64,
    chain: HashChain,
    paused: Option<LogPause>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LostEvents {
    events: u64,
    bytes: u64,
}

#[derive(Debug)]
struct LogPause {
    reason: String,
    lost: LostEvents,
    tried: Instant,
}

impl LogWriter {
    /// Begins a log. There must not be one yet.
    pub fn create(directory: &Path, personality: Personality) -> io::Result<Self> {
        let path = directory.join(super::LOG_FILE);
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self {
            file,
            personality,
            buffer: Vec::new(),
            buffered: LostEvents::default(),
            next: 0,
            written: 0,
            chain: HashChain::create(&directory.join(super::CHAIN_FILE)),
            paused: None,
        })
    }

    /// The last event's number.
    pub const fn last_seq(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// How many bytes the log has, with those that are still in the buffer.
    pub fn byte_len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Why nothing is written, and what is missing so far.
    pub fn pause_report(&self) -> Option<LogPaused> {
        self.paused.as_ref().map(|pause| LogPaused {
            reason: pause.reason.clone(),
            lost_bytes: pause.lost.bytes,
            lost_events: pause.lost.events,
        })
    }

    /// Adds what the program wrote.
    pub fn push_output(&mut self, at: Time, bytes: &[u8]) -> u64 {
        let lost = LostEvents { events: 1, bytes: bytes.len() as u64 };
        let personality = self.personality;
        self.append_event(at, "output", lost, |out| {
            out.extend_from_slice(b"{\"data\":\"");
            match std::str::from_utf8(bytes) {
                Ok(text) => {
                    escape_json(text, out);
                    out.push(b'"');
                }
                Err(_) => {
                    escape_json(&String::from_utf8_lossy(bytes), out);
                    out.push(b'"');
                    if personality == Personality::Ostler {
                        out.extend_from_slice(b",\"raw\":\"");
                        let raw = base64::engine::general_purpose::STANDARD.encode(bytes);
                        out.extend_from_slice(raw.as_bytes());
                        out.push(b'"');
                    }
                }
            }
            out.push(b'}');
        })
    }

    /// Adds anything else.
    pub fn push(&mut self, at: Time, fact: &LogFact) -> u64 {
        let value = match fact {
            // agent-tty knows no gap; a mark says the same to people.
            LogFact::Gap { bytes, reason, .. } if self.personality == Personality::AgentTty => {
                let label = format!("log paused: {bytes} bytes of output missing ({reason})");
                serde_json::to_value(LogFact::Marker { label })
            }
            LogFact::RunComplete { marker, input_run_seq, .. }
                if self.personality == Personality::AgentTty =>
            {
                serde_json::to_value(LogFact::RunComplete {
                    marker: marker.clone(),
                    input_run_seq: *input_run_seq,
                    exit_code: None,
                })
            }
            other => serde_json::to_value(other),
        };
        // The types in question can always be encoded.
        let value = value.unwrap_or_default();
        let kind = value["type"].as_str().unwrap_or_default().to_owned();
        let body = value["payload"].to_string();
        self.append_event(at, &kind, LostEvents { events: 1, bytes: 0 }, |out| {
            out.extend_from_slice(body.as_bytes());
        })
    }

    fn append_event(
        &mut self,
        at: Time,
        kind: &str,
        lost: LostEvents,
        payload: impl FnOnce(&mut Vec<u8>),
    ) -> u64 {
        if let Some(pause) = &mut self.paused {
            pause.lost.events += lost.events;
            pause.lost.bytes += lost.bytes;
            return self.next;
        }
        let seq = self.next;
        let _ =
            write!(self.buffer, "{{\"seq\":{seq},\"ts\":\"{at}\",\"type\":\"{kind}\",\"payload\":");
        payload(&mut self.buffer);
        self.buffer.extend_from_slice(b"}\n");
        self.buffered.events += lost.events;
        self.buffered.bytes += lost.bytes;
        self.next += 1;
        seq
    }

    /// Writes out what has gathered. After a failure it is tried again, but not at once.
    pub fn flush(&mut self, at: Time) {
        if let Some(pause) = &self.paused {
            if pause.tried.elapsed() < LOG_RETRY_DELAY {
                return;
            }
            self.write_gap(at);
        }
        self.write_out();
    }

    /// When a paused log should be tried again.
    pub fn retry_at(&self) -> Option<Instant> {
        self.paused.as_ref().map(|pause| pause.tried + LOG_RETRY_DELAY)
    }

    /// Writes the gap. What cannot be written stays paused, with everything that is missing.
    fn write_gap(&mut self, at: Time) {
        let Some(pause) = self.paused.take() else { return };
        let LostEvents { events, bytes } = pause.lost;
        self.push(at, &LogFact::Gap { bytes, events, reason: pause.reason });
        self.write_out();
        if let Some(again) = &mut self.paused {
            again.lost = pause.lost;
        }
    }

    fn write_out(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        match self.file.write_all(&self.buffer) {
            Ok(()) => {
                self.written += self.buffer.len() as u64;
                self.chain.cover_bytes(&self.buffer, self.next);
            }
            Err(error) => {
                // A part of a line may have been written; without it every line is whole again.
                self.file
                    .set_len(self.written)
                    .note_dropped("cutting a torn end off the event log");
                self.next -= self.buffered.events;
                self.paused = Some(LogPause {
                    reason: error.to_string(),
                    lost: self.buffered,
                    tried: Instant::now(),
                });
            }
        }
        self.buffered = LostEvents::default();
        self.buffer.clear();
        // One large burst must not be kept for ever.
        self.buffer.shrink_to(256 << 10);
    }

    /// Writes everything, a last gap too, and makes it durable.
    pub fn close(&mut self, at: Time) {
        self.write_out();
        if self.paused.is_some() {
            self.write_gap(at);
        }
        self.chain.write_link(self.next);
        self.file.sync_all().note_dropped("getting the event log to the disk");
    }
}
