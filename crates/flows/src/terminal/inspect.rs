//! Everything about one session.

use host::client::{self, PATIENCE};
use host::picture::RENDERER;
use host::screen::Personality;
use model::hosted::wire::{HostReport, HostView, InspectResult, RendererRuntime};
use model::hosted::{Code, Fault};
use model::time::millis;

use super::{Home, Session, artifacts};

/// Asks the host, or else the files.
pub fn inspect(home: &Home, session: Session) -> Result<InspectResult, Fault> {
    let mut reason = "session-not-running";
    if session.asks_host() {
        match client::call::<HostReport>(&session.socket, "inspect", (), Some(PATIENCE)) {
            Ok(report) => return Ok(live(home, &session, report)),
            Err(fault) if fault.code == Code::HostUnreachable => reason = "host-unreachable",
            Err(fault) => return Err(fault),
        }
    }
    // A look changes nothing.
    let session = session.again().unwrap_or(session).as_settled();
    offline(home, &session, reason)
}

fn backend(home: &Home) -> &'static str {
    match home.personality {
        Personality::Ostler => RENDERER,
        Personality::AgentTty => "ghostty-web",
    }
}

fn live(home: &Home, session: &Session, report: HostReport) -> InspectResult {
    let ours = home.personality == Personality::Ostler;
    InspectResult {
        termination_category: report.session.termination(),
        session: report.session,
        event_count: report.event_count,
        uptime: report.uptime,
        last_event_seq: report.last_event_seq,
        artifacts: artifacts::health(session.shelf(home.personality)),
        used_offline_replay: false,
        renderer_runtime: RendererRuntime {
            backend: if ours { RENDERER } else { "libghostty-vt" },
            mode: "live-host",
            status: "healthy",
            reason: None,
        },
        host: Some(HostView {
            cli_version: Some(report.version),
            rpc_socket_path: session.socket.display().to_string(),
        }),
        event_log_bytes: Some(report.event_log_bytes),
        viewers: Some(report.viewers).filter(|_| ours),
        log_paused: report.log_paused.filter(|_| ours),
        log_problems: Vec::new(),
    }
}

fn offline(home: &Home, session: &Session, reason: &'static str) -> Result<InspectResult, Fault> {
    let log = session.directory.join(host::log::FILE);
    let last = host::log::last_event(&session.directory)
        .map_err(|error| super::cannot_read(&log, &error))?;
    let manifest = &session.manifest;
    let end = if manifest.status.is_terminal() { manifest.updated_at } else { sys::clock::now() };
    Ok(InspectResult {
        event_count: last.map_or(0, |(seq, _)| seq + 1),
        uptime: millis(end.since(manifest.created_at)),
        last_event_seq: last.map(|(seq, _)| seq),
        termination_category: manifest.termination(),
        artifacts: artifacts::health(session.shelf(home.personality)),
        used_offline_replay: true,
        renderer_runtime: RendererRuntime {
            backend: backend(home),
            mode: "offline-replay",
            status: "fallback",
            reason: Some(reason),
        },
        host: None,
        event_log_bytes: std::fs::metadata(&log).ok().map(|log| log.len()),
        viewers: None,
        log_paused: None,
        log_problems: Vec::new(),
        session: manifest.clone(),
    })
}
