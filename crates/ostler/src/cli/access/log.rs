//! `ostler access log`

use std::fmt::Write;
use std::process::ExitCode;

use access::log;
use access::rules::escape_untrusted;
use access::rules::log::{AccessEvent, AccessLogEntry, LoginDestination, SocketPeer};
use access::wire::AccessLogResult;
use clap::Args;
use clap_complete::ArgValueCandidates;

use crate::cli::{CliContext, complete};
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Credentials, 6),
    answers: &[answer::<access_wire::AccessLogResult>()],
    examples: &[example("access log ID", "Who used its keys, and when.").on(Access)],
    cases: &[
        empty("access log nothing"),
        usual("access log ID").on(Access),
        refused("access log nothing").on(Access),
        also("access log ID").on(Access).after(&["access stop ID"])
    ],
    uncased: &[ONE_FILE],
    ..entry!("access log", AccessLogArgs, run_access_log)
}];

/// Print what happened to a session: opened, each use of a key, stopped, pruned.
///
/// The log outlives the session.
#[derive(Debug, Args)]
pub(crate) struct AccessLogArgs {
    /// The access session: an id, an unambiguous prefix or a label.
    #[arg(add = ArgValueCandidates::new(complete::complete_access_sessions))]
    id: String,
}

impl AccessLogArgs {
    pub(crate) fn run_access_log(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let log::AccessLog { id, entries, damaged } =
            log::read_log(&context.ostler_home()?, &self.id)?;
        if context.json {
            context.print_json(AccessLogResult { id, entries, damaged })?;
            return Ok(ExitCode::SUCCESS);
        }
        let lines: String = entries.iter().map(render_entry_text).collect();
        output::print_text(&lines)?;
        if damaged > 0 {
            output::print_notice(&format!("{damaged} lines could not be understood"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn render_entry_text(entry: &AccessLogEntry) -> String {
    let what = match &entry.event {
        AccessEvent::Opened { keys, expires_at } if keys.is_empty() => {
            format!("opened without keys until {expires_at}")
        }
        AccessEvent::Opened { keys, expires_at } => {
            format!("opened until {expires_at} with {}", keys.join(" "))
        }
        AccessEvent::Sign { fingerprint, peer, destination, granted } => {
            let outcome = if *granted { "granted" } else { "refused" };
            let place = destination.as_ref().map(render_destination).unwrap_or_default();
            format!("sign {outcome} {fingerprint}{place}{}", render_peer(peer.as_ref()))
        }
        AccessEvent::Refused { request, peer, times } => {
            let times = times.filter(|times| *times > 1);
            let times = times.map(|times| format!(" ({times} times so far)")).unwrap_or_default();
            format!("refused to {request}{}{times}", render_peer(peer.as_ref()))
        }
        AccessEvent::Expired => "expired".to_owned(),
        AccessEvent::AgentEnded => "agent ended".to_owned(),
        AccessEvent::Stopped { reason, agent } => format!("stopped ({reason}): {agent}"),
        AccessEvent::Pruned { state, agent } => format!("pruned ({state}, agent {agent})"),
        AccessEvent::Full => "the log is full; what came later is not in it".to_owned(),
    };
    format!("{} {}\n", entry.at, escape_untrusted(&what))
}

fn render_destination(destination: &LoginDestination) -> String {
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

fn render_peer(peer: Option<&SocketPeer>) -> String {
    let Some(peer) = peer else { return String::new() };
    let start = peer.start.map(|start| format!(", start {start}")).unwrap_or_default();
    let comm = peer.comm.as_deref().unwrap_or("a process");
    format!(" by {comm} (pid {}{start}, user {})", peer.pid, peer.uid)
}
