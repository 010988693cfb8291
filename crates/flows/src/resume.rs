//! Resuming a session: the command that opens its conversation again.

use crate::hooks::quote_word;
use model::rules::judge;
use model::session::{Session, SessionKind, is_safe_id};
use model::wire::TmuxPane;

use crate::observe::Observed;

/// The command that opens a session's conversation again in its agent, if the agent has one. A
/// sub-agent is part of its parent and has none.
pub fn resume_command(session: &Session) -> Option<Vec<String>> {
    let resumable = session.kind == SessionKind::Native
        && session.digest.parent.is_none()
        && is_safe_id(&session.id)
        && !session.id.starts_with('-');
    let adapter = adapters::by_id(session.agent).filter(|_| resumable)?;
    let mut words: Vec<String> = adapter.resume_words().into_iter().map(str::to_owned).collect();
    if words.is_empty() {
        return None;
    }
    words.push(session.id.clone());
    Some(words)
}

/// The pane of tmux that the process of a live session was started in, if tmux started it.
pub fn tmux_pane(one: &Observed) -> Option<TmuxPane> {
    if !one.verdict.liveness.is_alive() || one.session.kind != SessionKind::Native {
        return None;
    }
    let pid = judge::proven_owners(&one.session).find_map(|claim| claim.identity.pid)?;
    let table = sys::proc::read_process_table();
    let value = |name: &str| table.environ_value(pid, name)?.into_string().ok();
    let pane = value("TMUX_PANE").filter(|pane| {
        let number = pane.strip_prefix('%').unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })?;
    // The socket, the server's pid and the session, by commas.
    let server = value("TMUX")?;
    let socket = server.rsplitn(3, ',').last().filter(|socket| socket.starts_with('/'))?;
    Some(TmuxPane { socket: socket.to_owned(), pane })
}

/// The command that shows a pane of tmux.
pub fn tmux_line(tmux: &TmuxPane) -> String {
    let (socket, pane) = (quote_word(&tmux.socket), &tmux.pane);
    format!("tmux -S {socket} switch-client -t {pane}")
}

/// That command as a line for a shell, in the session's directory.
pub fn resume_line(session: &Session) -> Option<String> {
    let words: Vec<String> = resume_command(session)?.iter().map(|word| quote_word(word)).collect();
    let command = words.join(" ");
    Some(match &session.digest.cwd {
        Some(cwd) => format!("cd {} && {command}", quote_word(cwd)),
        None => command,
    })
}
