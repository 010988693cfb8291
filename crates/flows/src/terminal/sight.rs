//! Hosted sessions among all others: what `ls`, `show`, `why` and `du` see of them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use model::hosted::settle;
use model::identity::Identity;
use model::liveness::Observer;
use model::rules::judge::{Circumstances, judge};
use model::session::{Claim, FormatCertainty, How, Kind, Origin, Transcript};
use model::sighting::{Digest, Stamp};
use model::wire::Incomplete;

use super::{Home, Session};
use crate::observe::Observed;

/// The word for a session that no agent runs in.
pub const AGENT: &str = "terminal";

/// A hosted session among all others, and the program on its terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    pub(crate) observed: Observed,
    pub(crate) program: Option<Identity>,
}

/// Looks at every hosted session below `home`, and says which cannot be read.
pub(crate) fn observe(
    root: &Path,
    observer: &Observer,
    circumstances: &Circumstances,
) -> (Vec<Terminal>, Vec<Incomplete>) {
    let home = Home::at(root);
    let problem = |path: std::path::PathBuf, fault: model::hosted::Fault| Incomplete {
        source: AGENT.to_owned(),
        path: Some(path.to_string_lossy().into_owned()),
        reason: fault.message,
    };
    let opened = home.open_sessions().and_then(|sessions| Ok((sessions, home.session_ids()?)));
    let (sessions, ids) = match opened {
        Ok((Some(sessions), ids)) => (sessions, ids),
        Ok((None, _)) => return (Vec::new(), Vec::new()),
        Err(fault) => return (Vec::new(), vec![problem(home.sessions(), fault)]),
    };
    let root = root.to_string_lossy();
    let look = |id: &String| match home.open_in(&sessions, id) {
        Ok(session) => Ok(Terminal {
            observed: observed(&session, &root, observer, circumstances),
            program: session.holder.and_then(|holder| holder.child),
        }),
        Err(fault) => Err(problem(home.sessions().join(id), fault)),
    };
    let (mut all, mut incomplete) = (Vec::new(), Vec::new());
    for looked in sys::spread::map(&ids, 32, look) {
        match looked {
            Ok(terminal) => all.push(terminal),
            Err(problem) => incomplete.push(problem),
        }
    }
    (all, incomplete)
}

fn observed(
    hosted: &Session,
    root: &str,
    observer: &Observer,
    circumstances: &Circumstances,
) -> Observed {
    let manifest = &hosted.manifest;
    let log = hosted.directory.join(host::log::FILE);
    let transcript = transcript(&log);
    let identity = hosted.host_identity();
    let liveness = sys::proc::probe(&identity, observer);
    let claim = Claim {
        how: How::Hosts,
        liveness,
        started_at: Some(manifest.created_at),
        activity: None,
        waiting_for: None,
        source: hosted.directory.join(host::files::MANIFEST).to_string_lossy().into_owned(),
        observed_at: manifest.updated_at,
        identity,
        directory: None,
    };
    let ended = manifest.status.is_terminal().then_some(manifest.updated_at);
    let session = model::session::Session {
        id: hosted.id.clone(),
        kind: Kind::Hosted,
        agent: AGENT,
        digest: Box::new(Digest {
            cwd: Some(manifest.cwd.clone()),
            title: Some(model::sighting::shorten(&manifest.command.join(" "))),
            name: manifest.name.clone(),
            started_at: Some(manifest.created_at),
            last_activity_at: transcript
                .as_ref()
                .filter(|log| log.bytes > 0)
                .map(|log| log.stamp.modified_at())
                .or(Some(manifest.created_at)),
            ended_at: ended,
            ..Digest::default()
        }),
        transcript,
        origin: Origin {
            adapter: AGENT,
            root: root.into(),
            format: "agent-tty-1",
            certainty: FormatCertainty::Lab,
        },
        claims: vec![claim],
        linked: Vec::new(),
    };
    let mut verdict = judge(&session, circumstances);
    verdict.status = settle(manifest.status, liveness).status(manifest.status);
    if verdict.status.is_terminal() {
        verdict.activity = None;
        verdict.stale = false;
    }
    Observed { session, verdict, source: None, pinned: false }
}

fn transcript(log: &Path) -> Option<Transcript> {
    let file = std::fs::symlink_metadata(log).ok()?;
    Some(Transcript {
        path: log.to_owned(),
        stamp: Stamp {
            dev: file.dev(),
            ino: file.ino(),
            bytes: file.len(),
            mtime_ns: file.mtime().saturating_mul(1_000_000_000).saturating_add(file.mtime_nsec()),
        },
        bytes: file.len(),
        shared: false,
    })
}
