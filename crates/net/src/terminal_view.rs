//! A terminal of another machine, the viewer's side: frames go both ways between `ostler attach` and the member.
//!
//! The first line says whether it was joined. From then on standard output carries the host's frames as the member
//! seals them, and standard input what this viewer does. What is missing in between is drawn anew; what is typed is
//! repeated until it is acknowledged, under the same number.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use model::fleet_order::{OrderArguments, OrderAsk, OrderReply, OrderRule};
use model::helper::{HelperFailure, HelperFailureKind, OrderRequest, OrderWay, ViewRequest};
use model::hosted::stream::{FrameKind, take_frame};
use model::hosted::wire::AttachResult;
use model::wire::FleetLevel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, Stdin};
use tokio::sync::mpsc;

use crate::failure::internal_failure;
use crate::fleet::FleetReader;
use crate::fleet_files::{OPERATOR_SEAL_SEED, read_member};
use crate::helper_input::HelperInput;
use crate::nats::HubError;
use crate::order::{OrderPost, choose_targets, look_at_members, lost_before};
use crate::record::{MemberCertificate, read_chunk};
use crate::terminal_stream::MOST_INPUT_BYTES;
use crate::timeouts::{BUSY_RETRY_PAUSE, FAREWELL_TIMEOUT, KEEP_PAUSE, VIEW_TIMEOUT};

const MOST_TRIES: usize = 3;

/// What this viewer does.
enum ViewerWord {
    Option(&'static str, String),
    Redraw,
}

/// Joins a terminal and stays until either side ends.
pub async fn join_terminal(
    home: &Path,
    view: ViewRequest,
    input: HelperInput,
) -> Result<(), HelperFailure> {
    let Some(rule) = OrderRule::of_command("attach") else {
        return Err(internal_failure(&"there is no rule for terminals"));
    };
    let request = order_request(&view);
    rule.check_arguments(&request.args).map_err(|reason| {
        HelperFailure::new(HelperFailureKind::Input, reason, "name the terminal as `ls` does")
    })?;
    let reader = FleetReader::find(home)?;
    let seal = read_member(home).and_then(|(dir, _)| dir.need_key(OPERATOR_SEAL_SEED))?;
    let timeout = Duration::from_millis(view.timeout_ms);
    let (hub, targets) = look_at_members(&reader, timeout).await?;
    let target = choose_targets(targets, &request)?.into_iter().next();
    let target = target.ok_or_else(|| internal_failure(&"there is no such member"))?;
    let certificate = target.reached_certificate()?;
    let post = OrderPost::new(hub, &seal, &reader.inbox, &request, rule);
    let id = sys::random::new_ulid().map_err(|error| internal_failure(&error))?;
    let ask = post.new_ask(&target.view.id, &id);
    let subject = format!("ostler.v1.out.{}.term.{}.{id}", ask.to, ask.from);
    // Before it is asked for: nothing of it is missed.
    let chunks = post.client.subscribe(subject).await;
    let chunks = chunks.map_err(|error| internal_failure(&error))?;
    let welcome = open_attachment(&post, certificate, &ask).await?;
    let viewing = TerminalViewing { post, certificate, ask };
    let mut out = tokio::io::stdout();
    let answer: Result<&AttachResult, ()> = Ok(&welcome);
    let mut line = serde_json::to_vec(&answer).map_err(|error| internal_failure(&error))?;
    line.push(b'\n');
    let begun = out.write_all(&line).await;
    begun.map_err(|error| internal_failure(&error))?;
    let (tell, told) = mpsc::channel(64);
    let redraw = tell.clone();
    tokio::select! {
        () = viewing.show_chunks(chunks, out, redraw) => {}
        () = viewing.pass_on(told) => {}
        () = read_viewer(input.into_bytes(), tell, view.params.read_only) => {}
    }
    viewing.end().await;
    Ok(())
}

fn order_request(view: &ViewRequest) -> OrderRequest {
    let mut args = OrderArguments { words: vec![view.terminal.clone()], ..Default::default() };
    let mut set = |name: &str, values: Vec<String>| drop(args.options.insert(name.into(), values));
    if view.params.read_only {
        set("read-only", Vec::new());
    }
    if view.params.take && !view.params.read_only {
        set("take", Vec::new());
    }
    let size = view.params.size.and_then(|size| serde_json::to_string(&size).ok());
    if let Some(size) = size.filter(|_| !view.params.read_only) {
        set("size", vec![size]);
    }
    OrderRequest {
        hosts: vec![view.host.clone()],
        command: "attach".to_owned(),
        args,
        json: false,
        timeout_ms: view.timeout_ms,
        via: Some(OrderWay::Hub),
        ssh: Default::default(),
    }
}

async fn open_attachment(
    post: &OrderPost<'_>,
    certificate: &MemberCertificate,
    ask: &OrderAsk,
) -> Result<AttachResult, HelperFailure> {
    let name = &certificate.name;
    let mut ask = ask.clone();
    if ask.level > FleetLevel::Read {
        match post.prepare_order(certificate, &ask, name).await? {
            OrderReply::Prepared { grant, .. } => ask.grant = Some(grant),
            reply => {
                return post.take_answer(certificate, &ask, reply).await.and_then(read_welcome);
            }
        }
    }
    // An attachment that was begun and not heard of ends by itself.
    let reply = post.send_ask(certificate, &ask, VIEW_TIMEOUT).await;
    let reply = reply.map_err(|error| lost_before(ask.level, name, &error))?;
    post.take_answer(certificate, &ask, reply).await.and_then(read_welcome)
}

fn read_welcome(run: model::fleet_order::OrderedRunResult) -> Result<AttachResult, HelperFailure> {
    let bytes = STANDARD.decode(run.body).map_err(|error| internal_failure(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| internal_failure(&error))
}

/// A terminal that was joined.
struct TerminalViewing<'a> {
    post: OrderPost<'a>,
    certificate: &'a MemberCertificate,
    ask: OrderAsk,
}

impl TerminalViewing<'_> {
    /// Passes on what the member shows, until it says that nothing follows.
    async fn show_chunks(
        &self,
        mut chunks: async_nats::Subscriber,
        mut out: tokio::io::Stdout,
        tell: mpsc::Sender<ViewerWord>,
    ) {
        let mut position = 0;
        while let Some(message) = chunks.next().await {
            let Ok(chunk) = read_chunk(self.certificate, &self.ask.id, &message.payload) else {
                continue;
            };
            // One that comes again, or late.
            if chunk.position < position {
                continue;
            }
            let Ok(frames) = STANDARD.decode(&chunk.frames) else { continue };
            let is_gap = chunk.position > position;
            position = chunk.position + frames.len() as u64;
            let written = async {
                out.write_all(&frames).await?;
                out.flush().await
            };
            if written.await.is_err() || chunk.last {
                return;
            }
            // Something is missing: the whole screen is asked for. One such question is enough.
            if is_gap {
                tell.try_send(ViewerWord::Redraw).unwrap_or_default();
            }
        }
    }

    /// Tells the member what this viewer does, in order, and that it still looks.
    async fn pass_on(&self, mut told: mpsc::Receiver<ViewerWord>) {
        let mut number = 0_u64;
        loop {
            let word = tokio::time::timeout(KEEP_PAUSE, told.recv()).await;
            let mut options = vec![("stream", None)];
            match word {
                Err(_) => {}
                Ok(None) => return,
                Ok(Some(ViewerWord::Redraw)) => options.push(("redraw", None)),
                Ok(Some(ViewerWord::Option(name, value))) => {
                    number += 1;
                    options.push((name, Some(value)));
                    options.push(("number", Some(number.to_string())));
                }
            }
            if !self.say(&options).await {
                return;
            }
        }
    }

    /// Says something until it is acknowledged; whether the attachment goes on.
    async fn say(&self, options: &[(&str, Option<String>)]) -> bool {
        let mut ask = self.ask.clone();
        ask.args.options.retain(|name, _| name == "read-only");
        for (name, value) in options {
            ask.args.options.insert((*name).to_owned(), value.iter().cloned().collect());
        }
        for _ in 0..MOST_TRIES {
            match self.post.send_ask(self.certificate, &ask, VIEW_TIMEOUT).await {
                Ok(OrderReply::Done { .. }) => return true,
                // Nothing was done; the same number may come again.
                Ok(OrderReply::Busy) => tokio::time::sleep(BUSY_RETRY_PAUSE).await,
                Err(HubError::TimedOut | HubError::NoResponders) => {}
                Ok(_) | Err(_) => return false,
            }
        }
        false
    }

    async fn end(&self) {
        let saying = self.say(&[("stream", None), ("end", None)]);
        // Whoever does not hear it ends the attachment in half a minute.
        tokio::time::timeout(FAREWELL_TIMEOUT, saying).await.unwrap_or_default();
    }
}

/// Reads what the viewer does, until it leaves. Whoever only looks can ask for the screen and nothing else.
async fn read_viewer(mut input: BufReader<Stdin>, tell: mpsc::Sender<ViewerWord>, read_only: bool) {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; MOST_INPUT_BYTES]);
    loop {
        loop {
            let words = match take_frame(&mut bytes) {
                Ok(None) => break,
                Err(_) => return,
                Ok(Some((FrameKind::Redraw, _))) => vec![ViewerWord::Redraw],
                Ok(Some(_)) if read_only => Vec::new(),
                Ok(Some((FrameKind::Bytes, typed))) => typed
                    .chunks(MOST_INPUT_BYTES)
                    .map(|part| ViewerWord::Option("input", STANDARD.encode(part)))
                    .collect(),
                Ok(Some((FrameKind::Size, size))) => {
                    vec![ViewerWord::Option("size", String::from_utf8_lossy(&size).into_owned())]
                }
                Ok(Some((FrameKind::Take, _))) => vec![ViewerWord::Option("take", String::new())],
                Ok(Some(_)) => Vec::new(),
            };
            for word in words {
                if tell.send(word).await.is_err() {
                    return;
                }
            }
        }
        match input.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}
