//! Terminals that operators watch and drive from afar, the member's side.
//!
//! An attachment is a viewer of the terminal's host, reached through the daemon. What the host shows goes out in
//! sealed chunks, at a bounded pace: what the host has to say beyond that it replaces by the whole screen, as for every
//! slow viewer, so that nobody far away slows a terminal down. An attachment that nobody keeps ends by itself.
//! What is typed has a number: one that comes again is not typed again.

use std::collections::HashMap;
use std::time::Instant;

use async_nats::Client;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::fleet_order::{OrderAsk, OrderReply, TerminalChunk};
use model::helper::TerminalVisit;
use model::hosted::stream::{FrameKind, put_frame, take_frame};
use model::hosted::wire::{AttachParams, AttachResult, Dimensions};
use model::wire::FleetLevel;
use nkeys::KeyPair;
use sys::dropped::NoteDropped;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use crate::daemon_client::{DaemonClient, DaemonClientError, TerminalConnection};
use crate::nats::HubError;
use crate::record::RECORD_VERSION;
use crate::seal::{SealKind, seal_json};
use crate::timeouts::CHUNK_PAUSE;

pub use crate::timeouts::STREAM_LIFETIME;

/// How many attachments a member has at once.
const MOST_STREAMS: usize = 16;

/// The most that one chunk carries, and how many there are in a second: about a megabyte.
const CHUNK_BYTES: usize = 32 << 10;

/// The most that is typed at once.
pub const MOST_INPUT_BYTES: usize = 16 << 10;

/// What an attachment is told.
#[derive(Debug)]
pub(crate) enum StreamWord {
    Keep,
    Frame(FrameKind, Vec<u8>),
    End,
}

/// One attachment, as the desk knows it.
#[derive(Debug)]
struct TerminalAttachment {
    operator: String,
    writes: bool,
    typed: u64,
    words: mpsc::Sender<StreamWord>,
}

/// Every attachment of this run.
#[derive(Debug, Default)]
pub(crate) struct TerminalStreams {
    open: HashMap<String, TerminalAttachment>,
}

fn refused(reason: impl Into<String>, hint: &str) -> OrderReply {
    OrderReply::Refused { reason: reason.into(), hint: hint.to_owned() }
}

fn done() -> OrderReply {
    OrderReply::Done { exit: 0, body: String::new(), cursor: None }
}

/// What an ask about a terminal says of how it is joined.
fn read_params(ask: &OrderAsk) -> AttachParams {
    let has = |name: &str| ask.args.options.contains_key(name);
    AttachParams {
        size: option_of(ask, "size").and_then(|text| serde_json::from_str(text).ok()),
        read_only: has("read-only"),
        take: has("take"),
        by: Some(format!("fleet:{}", ask.from)),
    }
}

fn option_of<'a>(ask: &'a OrderAsk, name: &str) -> Option<&'a str> {
    ask.args.options.get(name)?.first().map(String::as_str)
}

/// Whether an ask is about an attachment that there is already.
pub(crate) fn is_follow_up(ask: &OrderAsk) -> bool {
    ask.args.options.contains_key("stream")
}

impl TerminalStreams {
    /// Whether there is room for one more.
    pub(crate) fn has_room(&mut self) -> bool {
        self.open.retain(|_, one| !one.words.is_closed());
        self.open.len() < MOST_STREAMS
    }

    /// Does what is said about an attachment. What an attachment was opened with counts no longer than its operator
    /// may still do that: whatever drives takes the level again.
    pub(crate) fn follow_up(&mut self, ask: &OrderAsk, level: FleetLevel) -> OrderReply {
        let over = || refused("the attachment is over", "join the terminal again");
        let own =
            |one: &&mut TerminalAttachment| one.operator == ask.from && !one.words.is_closed();
        let Some(attachment) = self.open.get_mut(&ask.id).filter(own) else { return over() };
        let has = |name: &str| ask.args.options.contains_key(name);
        let mut words = Vec::new();
        if has("redraw") {
            words.push(StreamWord::Frame(FrameKind::Redraw, Vec::new()));
        }
        if has("input") || has("take") || has("size") {
            if level < FleetLevel::Drive {
                return refused("that takes the level `drive`", "this order was given with less");
            }
            if !attachment.writes {
                return refused("this attachment only looks", "join without `--read-only`");
            }
            let number = option_of(ask, "number").and_then(|text| text.parse::<u64>().ok());
            match number {
                // It came before, and was done.
                Some(number) if number <= attachment.typed => return done(),
                Some(number) if number == attachment.typed + 1 => {}
                _ => return refused("what was typed before did not come", "join it again"),
            }
            match read_input(ask) {
                Some(frame) => words.push(frame),
                None => return refused("it cannot be understood", "join the terminal again"),
            }
            attachment.typed += 1;
        }
        words.push(if has("end") { StreamWord::End } else { StreamWord::Keep });
        for word in words {
            // Full: the host reads nothing. What was typed and is not passed on is told.
            if attachment.words.try_send(word).is_err() {
                self.open.remove(&ask.id);
                return over();
            }
        }
        done()
    }

    /// Notes a new attachment; what it is told comes out of the channel.
    pub(crate) fn begin(&mut self, ask: &OrderAsk) -> mpsc::Receiver<StreamWord> {
        let (words, heard) = mpsc::channel(256);
        let writes = !read_params(ask).read_only;
        let attachment = TerminalAttachment { operator: ask.from.clone(), writes, typed: 0, words };
        self.open.insert(ask.id.clone(), attachment);
        heard
    }
}

fn read_input(ask: &OrderAsk) -> Option<StreamWord> {
    if let Some(text) = option_of(ask, "input") {
        let bytes = STANDARD.decode(text).ok().filter(|bytes| bytes.len() <= MOST_INPUT_BYTES)?;
        return Some(StreamWord::Frame(FrameKind::Bytes, bytes));
    }
    if let Some(text) = option_of(ask, "size") {
        let size: Dimensions = serde_json::from_str(text).ok()?;
        return Some(StreamWord::Frame(FrameKind::Size, serde_json::to_vec(&size).ok()?));
    }
    Some(StreamWord::Frame(FrameKind::Take, Vec::new()))
}

/// What a new attachment needs.
pub(crate) struct StreamOpening<'a> {
    pub(crate) me: &'a str,
    pub(crate) client: &'a Client,
    pub(crate) daemon: &'a DaemonClient,
    pub(crate) seal: KeyPair,
}

impl StreamOpening<'_> {
    /// Joins the terminal that an ask names.
    pub(crate) async fn join_terminal(
        &self,
        ask: &OrderAsk,
    ) -> Result<(AttachResult, TerminalConnection), OrderReply> {
        let Some(terminal) = ask.args.words.first().cloned() else {
            return Err(refused("it names no terminal", "name one"));
        };
        let visit = TerminalVisit { terminal, params: read_params(ask) };
        self.daemon.join_terminal(&visit).await.map_err(|error| match error {
            DaemonClientError::Refused { reason, .. } => {
                refused(reason, "`ostler ls` there lists its terminals")
            }
            error => refused(error.to_string(), "`ostler daemon status` there tells more"),
        })
    }

    /// Sends what the terminal shows from now on.
    pub(crate) fn start_stream(
        self,
        ask: &OrderAsk,
        connection: TerminalConnection,
        words: mpsc::Receiver<StreamWord>,
    ) {
        let (read, write) = tokio::io::split(connection);
        let stream = TerminalStream {
            subject: format!("ostler.v1.out.{}.term.{}.{}", self.me, ask.from, ask.id),
            id: ask.id.clone(),
            client: self.client.clone(),
            seal: self.seal,
            position: 0,
            input: Vec::new(),
        };
        tokio::spawn(stream.run_stream(read, write, words));
    }
}

/// One attachment while it lasts.
struct TerminalStream {
    subject: String,
    id: String,
    client: Client,
    seal: KeyPair,
    position: u64,
    /// What came from the host and was not sent yet.
    input: Vec<u8>,
}

impl TerminalStream {
    async fn run_stream(
        mut self,
        mut read: ReadHalf<TerminalConnection>,
        mut write: WriteHalf<TerminalConnection>,
        mut words: mpsc::Receiver<StreamWord>,
    ) {
        let mut kept = Instant::now();
        let mut next = tokio::time::Instant::now();
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let expiry = tokio::time::Instant::from_std(kept + STREAM_LIFETIME);
            // Nothing is read before its time: a host that has more to say draws the screen anew.
            let reading = async {
                tokio::time::sleep_until(next).await;
                read.read(&mut buffer).await
            };
            tokio::select! {
                word = words.recv() => match word {
                    Some(StreamWord::Keep) => kept = Instant::now(),
                    Some(StreamWord::Frame(kind, payload)) => {
                        let mut frame = Vec::new();
                        put_frame(&mut frame, kind, &payload);
                        if write.write_all(&frame).await.is_err() {
                            break;
                        }
                    }
                    Some(StreamWord::End) | None => return,
                },
                count = reading => match count {
                    Ok(0) | Err(_) => break,
                    Ok(count) => {
                        self.input.extend_from_slice(&buffer[..count]);
                        if self.send_frames().await.is_err() {
                            break;
                        }
                        next = tokio::time::Instant::now() + CHUNK_PAUSE;
                    }
                },
                () = tokio::time::sleep_until(expiry) => break,
            }
        }
        self.send_chunk(&[], true).await.note_dropped("the end of an attachment");
    }

    /// Sends what came from the host as whole frames, none longer than a chunk.
    async fn send_frames(&mut self) -> Result<(), HubError> {
        let mut ready = Vec::new();
        loop {
            // A long frame of output is passed on as its parts come.
            if let Some(part) = self.take_part() {
                put_frame(&mut ready, FrameKind::Bytes, &part);
            } else {
                let frame = take_frame(&mut self.input);
                match frame.map_err(|error| HubError::Protocol(error.to_string()))? {
                    Some((kind, payload)) => put_frame(&mut ready, kind, &payload),
                    None => break,
                }
            }
            if ready.len() >= CHUNK_BYTES / 2 {
                self.send_chunk(&std::mem::take(&mut ready), false).await?;
            }
        }
        match ready.is_empty() {
            true => Ok(()),
            false => self.send_chunk(&ready, false).await,
        }
    }

    /// The beginning of a frame of output that is longer than a chunk; what is left of it becomes a frame of its own.
    fn take_part(&mut self) -> Option<Vec<u8>> {
        const PART: usize = CHUNK_BYTES / 2;
        let (&kind, rest) = self.input.split_first()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        if kind != FrameKind::Bytes as u8 || length <= PART || rest.len() < PART {
            return None;
        }
        let part = rest[..PART].to_vec();
        let left = u32::try_from(length - PART).ok()?;
        let mut input = vec![kind];
        input.extend_from_slice(&left.to_be_bytes());
        input.extend_from_slice(&rest[PART..]);
        self.input = input;
        Some(part)
    }

    async fn send_chunk(&mut self, frames: &[u8], last: bool) -> Result<(), HubError> {
        let protocol = |error: &dyn std::fmt::Display| HubError::Protocol(error.to_string());
        let chunk = TerminalChunk {
            v: RECORD_VERSION,
            stream: self.id.clone(),
            position: self.position,
            frames: STANDARD.encode(frames),
            last,
        };
        self.position += frames.len() as u64;
        let sealed = seal_json(&self.seal, SealKind::Chunk, &chunk);
        let sealed = sealed.map_err(|error| protocol(&error))?;
        let sent = self.client.publish(self.subject.clone(), sealed.into()).await;
        sent.map_err(|error| protocol(&error))
    }
}

#[cfg(test)]
mod tests {
    use model::fleet_order::OrderArguments;

    use super::*;

    const DRIVE: FleetLevel = FleetLevel::Drive;

    fn ask(options: &[(&str, &str)]) -> OrderAsk {
        let mut args = OrderArguments::default();
        for (name, value) in options {
            args.options.insert((*name).to_owned(), vec![(*value).to_owned()]);
        }
        OrderAsk {
            v: 1,
            id: "01K".to_owned(),
            to: "m".to_owned(),
            from: "ada".to_owned(),
            level: FleetLevel::Drive,
            verb: "attach".to_owned(),
            args,
            json: false,
            grant: None,
            cursor: None,
        }
    }

    #[test]
    fn row_76_what_is_repeated_by_its_number_is_typed_once() {
        let mut streams = TerminalStreams::default();
        let mut heard = streams.begin(&ask(&[]));
        let input = STANDARD.encode("x");
        let typed = |number: &str| ask(&[("stream", ""), ("input", &input), ("number", number)]);
        for number in ["1", "1", "2", "1", "2"] {
            assert_eq!(streams.follow_up(&typed(number), DRIVE), done(), "{number}");
        }
        let gap = streams.follow_up(&typed("4"), DRIVE);
        assert!(matches!(gap, OrderReply::Refused { .. }), "something was lost before it");
        let mut frames = 0;
        while let Ok(word) = heard.try_recv() {
            frames += usize::from(matches!(word, StreamWord::Frame(FrameKind::Bytes, _)));
        }
        assert_eq!(frames, 2);
        // Another operator's ask, and one of another attachment.
        let foreign = OrderAsk { from: "eve".to_owned(), ..typed("3") };
        assert!(matches!(streams.follow_up(&foreign, DRIVE), OrderReply::Refused { .. }));
        let other = OrderAsk { id: "01L".to_owned(), ..typed("3") };
        assert!(matches!(streams.follow_up(&other, DRIVE), OrderReply::Refused { .. }));
        // Whoever only looks types nothing.
        let mut streams = TerminalStreams::default();
        let _heard = streams.begin(&ask(&[("read-only", "")]));
        assert!(matches!(streams.follow_up(&typed("1"), DRIVE), OrderReply::Refused { .. }));
        assert_eq!(streams.follow_up(&ask(&[("stream", "")]), DRIVE), done());
    }
    #[test]
    fn row_76_an_open_attachment_is_driven_only_by_what_takes_that_level() {
        let mut streams = TerminalStreams::default();
        let mut heard = streams.begin(&ask(&[]));
        let input = STANDARD.encode("x");
        let size = "{\"cols\":80,\"rows\":24}";
        for more in [("input", &*input), ("take", ""), ("size", size)] {
            let options = [("stream", ""), ("read-only", ""), more, ("number", "1")];
            let told = streams.follow_up(&ask(&options), FleetLevel::Read);
            assert!(matches!(told, OrderReply::Refused { .. }), "{more:?}: {told:?}");
        }
        assert!(heard.try_recv().is_err(), "nothing reached the terminal");
        // Whoever may only look still looks, and what was refused took no number.
        assert_eq!(streams.follow_up(&ask(&[("stream", "")]), FleetLevel::Read), done());
        let typed = ask(&[("stream", ""), ("input", &input), ("number", "1")]);
        assert_eq!(streams.follow_up(&typed, DRIVE), done());
    }
}
