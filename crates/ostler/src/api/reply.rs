//! Answers over HTTP: the envelope of the command line, whole or as it is printed.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use model::json_text::write_pretty;
use model::wire::{ErrorBody, ErrorDetails, ErrorEnvelope, SuccessEnvelope};
use serde::Serialize;
use sys::dropped::NoteDropped;
use tokio::sync::mpsc;

use super::status::status_of_code;

pub(crate) type ApiReply = Response<ReplyBody>;

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    /// Known as a whole.
    Whole(Option<Bytes>),
    /// Sent as it comes.
    Parts(mpsc::Receiver<Bytes>),
}

impl From<Vec<u8>> for ReplyBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Whole(Some(bytes.into()))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Parts(parts) => {
                parts.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Parts(_) => SizeHint::default(),
        }
    }
}

/// Why a request is not answered, before any command is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiFailure {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl ApiFailure {
    pub(crate) fn new(
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { code, message: message.into(), hint: Some(hint.into()) }
    }

    /// The request is wrong.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new("INVALID_INPUT", message, "`ostler schema --openapi` describes every route")
    }

    pub(crate) fn too_large() -> Self {
        Self::new("TOO_LARGE", "the body broke off, or is too large", "at most 1 MiB are read")
    }

    /// The same code with the same words for everybody without a right to know more.
    pub(crate) fn not_found() -> Self {
        Self::new(
            "NOT_FOUND",
            "there is nothing here",
            "`ostler schema --openapi` lists every route",
        )
    }
}

/// The name in envelopes of answers that no command gave.
const SERVER_NAME: &str = "web";

/// An answer in the envelope.
pub(crate) fn json_reply(result: impl Serialize) -> ApiReply {
    let envelope =
        SuccessEnvelope { ok: true, command: SERVER_NAME, timestamp: sys::clock::now(), result };
    let mut text = Vec::new();
    match write_pretty(&mut text, &envelope) {
        Ok(()) => typed_reply(StatusCode::OK, "application/json", text.into()),
        Err(error) => reply_failure(&ApiFailure::new("INTERNAL_ERROR", error.to_string(), "")),
    }
}

/// A refusal in the envelope.
pub(crate) fn reply_failure(failure: &ApiFailure) -> ApiReply {
    let mut text = Vec::new();
    // Texts and flags always have a form.
    write_pretty(&mut text, &envelope_of(failure)).note_dropped("writing a refusal");
    typed_reply(status_of_code(failure.code), "application/json", text.into())
}

/// A refusal in the envelope, as the last line of a stream.
pub(super) fn failure_line(failure: &ApiFailure) -> Vec<u8> {
    let mut line = serde_json::to_vec(&envelope_of(failure)).unwrap_or_default();
    line.push(b'\n');
    line
}

fn envelope_of(failure: &ApiFailure) -> ErrorEnvelope<'static> {
    let error = ErrorBody {
        code: failure.code,
        message: failure.message.clone(),
        retryable: matches!(failure.code, "TOO_MANY" | "BUSY"),
        hint: failure.hint.clone(),
        details: ErrorDetails::default(),
    };
    ErrorEnvelope { ok: false, command: SERVER_NAME, timestamp: sys::clock::now(), error }
}

/// An answer of that type.
pub(super) fn typed_reply(status: StatusCode, kind: &'static str, body: ReplyBody) -> ApiReply {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
