//! `ostler access log`

use std::fmt::Write;
use std::process::ExitCode;

use access::log;
use access::rules::escape;
use access::rules::log::{Destination, Entry, Event, Peer};
use access::wire::AccessLogResult;
use clap::Args;
use clap_complete::ArgValueCandidates;

use crate::cli::{Context, complete};
use crate::error::Error;
use crate::render::output;

/// Print what happened to a session: opened, each use of a key, stopped, pruned.
///
/// The log outlives the session.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// The access session: an id or an unambiguous prefix.
    #[arg(add = ArgValueCandidates::new(complete::access_sessions))]
    id: String,
}

impl Log {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let log::Log { id, entries, damaged } = log::read(&context.home()?, &self.id)?;
        if context.json {
            context.answer(AccessLogResult { id, entries, damaged })?;
            return Ok(ExitCode::SUCCESS);
        }
        let lines: String = entries.iter().map(words).collect();
        output::text(&lines)?;
        if damaged > 0 {
            output::talk(&format!("{damaged} lines could not be understood"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn words(entry: &Entry) -> String {
    let what = match &entry.event {
        Event::Opened { keys, expires_at } if keys.is_empty() => {
            format!("opened without keys until {expires_at}")
        }
        Event::Opened { keys, expires_at } => {
            format!("opened until {expires_at} with {}", keys.join(" "))
        }
        Event::Sign { fingerprint, peer, destination, granted } => {
            let outcome = if *granted { "granted" } else { "refused" };
            let place = destination.as_ref().map(to).unwrap_or_default();
            format!("sign {outcome} {fingerprint}{place}{}", by(peer.as_ref()))
        }
        Event::Refused { request, peer, times } => {
            let times = times.filter(|times| *times > 1);
            let times = times.map(|times| format!(" ({times} times so far)")).unwrap_or_default();
            format!("refused to {request}{}{times}", by(peer.as_ref()))
        }
        Event::Expired => "expired".to_owned(),
        Event::AgentEnded => "agent ended".to_owned(),
        Event::Stopped { reason, agent } => format!("stopped ({reason}): {agent}"),
        Event::Pruned { state, agent } => format!("pruned ({state}, agent {agent})"),
        Event::Full => "the log is full; what came later is not in it".to_owned(),
    };
    format!("{} {}\n", entry.at, escape(&what))
}

fn to(destination: &Destination) -> String {
    let mut out = String::new();
    if let Some(user) = &destination.user {
        // Writing to a String cannot fail.
        let _ = write!(out, " for {user}");
    }
    if let Some(host) = &destination.host_key {
        let _ = write!(out, " at host {host}");
    }
    if destination.forwarded {
        out.push_str(" (forwarded)");
    }
    out
}

fn by(peer: Option<&Peer>) -> String {
    let Some(peer) = peer else { return String::new() };
    let start = peer.start.map(|start| format!(", start {start}")).unwrap_or_default();
    let comm = peer.comm.as_deref().unwrap_or("a process");
    format!(" by {comm} (pid {}{start}, user {})", peer.pid, peer.uid)
}
