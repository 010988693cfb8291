//! The HTTP API: one route table that is router, OpenAPI document and list of tests at once.
//!
//! A route is a command line (`docs/decisions/0080-a-route-is-a-command-line.md`): its answer is what
//! that command prints with `--json`, its refusals and their codes are that command's. So the API, the page and
//! the shell cannot disagree. The table is served on the daemon's Unix socket, where the peer's user is
//! the credential, and by `ostler web` on a TCP port, where a token is.

mod arguments;
mod document;
mod parts;
mod reply;
mod route;
mod routes;
mod run;
mod status;

pub(crate) use document::{document_reply, openapi_document};
pub(crate) use reply::{ApiFailure, ApiReply, ReplyBody, json_reply, reply_failure};
pub(crate) use route::{ApiRight, DoorRoute, MAX_BODY_BYTES, RouteWork};
pub(crate) use routes::{RouteMatch, match_route};
pub(crate) use run::{
    ActOutcome, ApiCaller, ApiService, CommandRunner, ServedError, ServedOutcome, ServedRequest,
    SharedAnswer,
};
