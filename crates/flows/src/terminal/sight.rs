//! Hosted sessions among all others: what `ls`, `show`, `why` and `du` see of them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use model::identity::Identity;
use model::session::{
    ClaimBasis, FormatCertainty, ProcessClaim, Session, SessionKind, SessionOrigin, TranscriptFile,
};
use model::sighting::{FileStamp, TranscriptDigest};
use model::wire::IncompleteSource;
use sys::machine::Machine;

use super::{HostedSession, TerminalHome};

/// The word for a session that no agent runs in.
pub const TERMINAL_AGENT: &str = "terminal";

/// A hosted session among all others, and the program on its terminal.
#[derive(Debug)]
pub(crate) struct FoundTerminal {
    pub(crate) session: Session,
    pub(crate) program: Option<Identity>,
}

/// Looks at every hosted session below `home`, and says which cannot be read.
pub(crate) fn find_terminals(machine: &Machine) -> (Vec<FoundTerminal>, Vec<IncompleteSource>) {
    let root = machine.home();
    let home = TerminalHome::at_root(root, machine);
    let problem = |path: std::path::PathBuf, fault: model::hosted::HostFault| IncompleteSource {
        source: TERMINAL_AGENT.to_owned(),
        path: Some(path.to_string_lossy().into_owned()),
        reason: fault.message,
    };
    let opened = home.open_sessions().and_then(|sessions| Ok((sessions, home.session_ids()?)));
    let (sessions, ids) = match opened {
        Ok((Some(sessions), ids)) => (sessions, ids),
        Ok((None, _)) => return (Vec::new(), Vec::new()),
        Err(fault) => return (Vec::new(), vec![problem(home.sessions_directory(), fault)]),
    };
    let root = root.to_string_lossy();
    let look = |id: &String| match home.open_in(&sessions, id) {
        Ok(session) => Ok(FoundTerminal {
            session: terminal_session(&session, &root),
            program: session.holder.and_then(|holder| holder.child),
        }),
        Err(fault) => Err(problem(home.sessions_directory().join(id), fault)),
    };
    let (mut all, mut incomplete) = (Vec::new(), Vec::new());
    for looked in sys::spread::parallel_map(&ids, 32, look) {
        match looked {
            Ok(terminal) => all.push(terminal),
            Err(problem) => incomplete.push(problem),
        }
    }
    (all, incomplete)
}

fn terminal_session(hosted: &HostedSession, root: &str) -> Session {
    let manifest = &hosted.manifest;
    let log = hosted.directory.join(host::log::LOG_FILE);
    let transcript = log_transcript(&log);
    let identity = hosted.host_identity();
    let liveness = hosted.machine.probe_process(&identity);
    let claim = ProcessClaim {
        how: ClaimBasis::Hosts,
        liveness,
        started_at: Some(manifest.created_at),
        activity: None,
        waiting_for: None,
        source: hosted.directory.join(host::files::MANIFEST_FILE).to_string_lossy().into_owned(),
        observed_at: manifest.updated_at,
        identity,
        directory: None,
        shared: None,
    };
    let ended = manifest.status.is_terminal().then_some(manifest.updated_at);
    Session {
        id: hosted.id.clone(),
        kind: SessionKind::Hosted,
        agent: TERMINAL_AGENT,
        digest: Box::new(TranscriptDigest {
            cwd: Some(manifest.cwd.clone()),
            title: Some(model::sighting::shorten_title(&manifest.command.join(" "))),
            name: manifest.name.clone(),
            started_at: Some(manifest.created_at),
            last_activity_at: transcript
                .as_ref()
                .filter(|log| log.bytes > 0)
                .map(|log| log.stamp.modified_at())
                .or(Some(manifest.created_at)),
            ended_at: ended,
            ..TranscriptDigest::default()
        }),
        transcript,
        origin: SessionOrigin {
            adapter: TERMINAL_AGENT,
            root: root.into(),
            format: "agent-tty-1",
            certainty: FormatCertainty::Lab,
        },
        written_status: Some(manifest.status),
        claims: vec![claim],
        linked: Vec::new(),
    }
}

fn log_transcript(log: &Path) -> Option<TranscriptFile> {
    let file = std::fs::symlink_metadata(log).ok()?;
    Some(TranscriptFile {
        path: log.to_owned(),
        stamp: FileStamp {
            dev: file.dev(),
            ino: file.ino(),
            bytes: file.len(),
            mtime_ns: file.mtime().saturating_mul(1_000_000_000).saturating_add(file.mtime_nsec()),
        },
        bytes: file.len(),
        shared: false,
    })
}
