//! Everything about one session.

use host::client::{HOST_ANSWER_TIMEOUT, ask_host};
use host::picture::RENDERER_NAME;
use host::screen::Personality;
use model::hosted::wire::{HostReport, HostView, InspectParams, InspectResult, RendererRuntime};
use model::hosted::{FaultCode, HostFault};
use model::time::whole_millis;

use super::{HostedSession, TerminalHome, artifacts};

/// Asks the host, or else the files.
pub fn inspect_session(
    home: &TerminalHome,
    session: HostedSession,
) -> Result<InspectResult, HostFault> {
    let mut reason = "session-not-running";
    if session.asks_host() {
        match ask_host(session.host(), &InspectParams {}, Some(HOST_ANSWER_TIMEOUT)) {
            Ok(report) => return inspect_live(home, &session, report),
            Err(fault) if fault.code == FaultCode::HostUnreachable => reason = "host-unreachable",
            Err(fault) => return Err(fault),
        }
    }
    // A look changes nothing.
    let session = session.reread_manifest().unwrap_or(session).as_settled();
    inspect_offline(home, &session, reason)
}

fn backend_name(home: &TerminalHome) -> &'static str {
    match home.personality {
        Personality::Ostler => RENDERER_NAME,
        Personality::AgentTty => "ghostty-web",
    }
}

fn inspect_live(
    home: &TerminalHome,
    session: &HostedSession,
    report: HostReport,
) -> Result<InspectResult, HostFault> {
    let ours = home.personality == Personality::Ostler;
    let backend = if ours { RENDERER_NAME } else { "libghostty-vt" };
    let host = Some(HostView {
        cli_version: report
            .counts
            .as_ref()
            .map(|counts| counts.version.clone())
            .or(report.cli_version),
        rpc_socket_path: session.socket.display().to_string(),
    });
    let renderer_runtime = RendererRuntime {
        backend,
        mode: "live-host",
        status: "healthy",
        reason: None,
        booted: (!ours).then_some(true),
        boot_in_flight: (!ours).then_some(false),
    };
    // A host of agent-tty's leaves the counting to the client.
    let counted = HostedSession { manifest: report.session, ..session.clone() };
    let mut result = inspect_offline(home, &counted, "host-unreachable")?;
    result.used_offline_replay = false;
    result.renderer_runtime = renderer_runtime;
    result.host = host;
    if let Some(counts) = report.counts {
        result.event_count = counts.event_count;
        result.uptime = counts.uptime;
        result.last_event_seq = counts.last_event_seq;
        result.event_log_bytes = Some(counts.event_log_bytes);
        result.viewers = Some(counts.viewers).filter(|_| ours);
        result.log_paused = counts.log_paused.filter(|_| ours);
    }
    Ok(result)
}

fn inspect_offline(
    home: &TerminalHome,
    session: &HostedSession,
    reason: &'static str,
) -> Result<InspectResult, HostFault> {
    let log = session.directory.join(host::log::LOG_FILE);
    let last = host::log::last_event(&session.directory)
        .map_err(|error| super::cannot_read(&log, &error))?;
    let manifest = &session.manifest;
    let end =
        if manifest.status.is_terminal() { manifest.updated_at } else { home.machine.read_clock() };
    Ok(InspectResult {
        event_count: last.map_or(0, |(seq, _)| seq + 1),
        uptime: whole_millis(end.since(manifest.created_at)),
        last_event_seq: last.map(|(seq, _)| seq),
        termination_category: manifest.termination_category(),
        artifacts: artifacts::artifacts_health(session.artifact_dir(home.personality)),
        // agent-tty means that the host was asked and not there.
        used_offline_replay: home.personality == Personality::Ostler
            || reason == "host-unreachable",
        renderer_runtime: RendererRuntime {
            backend: backend_name(home),
            mode: "offline-replay",
            status: "fallback",
            reason: Some(reason),
            booted: None,
            boot_in_flight: None,
        },
        host: None,
        event_log_bytes: std::fs::metadata(&log).ok().map(|log| log.len()),
        viewers: None,
        log_paused: None,
        log_problems: Vec::new(),
        session: manifest.clone(),
    })
}
