//! `sessions/<pid>.json`: what a running Claude Code writes about itself.
//!
//! It names the process by pid, start ticks, machine and pid namespace, and the session, which
//! changes on `/clear`. A clean exit removes the file; a kill leaves it.

use std::path::{Path, PathBuf};

use model::identity::{Identity, MachineId};
use model::sighting::{
    FileStamp, ProcessRegistration, RegistrationProof, RegistrationScope, TranscriptDigest,
};
use model::status::Activity;
use model::time::Time;
use serde::Deserialize;

use crate::{Survey, files};

pub(super) fn survey_pid_files(survey: &mut Survey, directory: &Path) {
    let root = survey.root_path();
    for entry in survey.list_all(directory) {
        let Some(stem) = entry.strip_suffix(".json") else { continue };
        let path = directory.join(&entry.name);
        match files::read_json::<PidFile>(&root, &path) {
            Ok((record, stamp)) => survey.registrations.push(record.into_registration(path, stamp)),
            Err(error) if error.is_absent() => {}
            Err(error) => {
                survey.note_problem(&path, &error);
                survey.registrations.push(ProcessRegistration {
                    scope: RegistrationScope::Unreadable,
                    proof: RegistrationProof::Process {
                        identity: Identity::recorded_by_agent(stem.parse().ok()),
                        holds: None,
                    },
                    source: path,
                    activity: None,
                    waiting_for: None,
                    digest: TranscriptDigest::default(),
                });
            }
        }
    }
}

/// `sessions/<pid>.json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PidFile {
    /// A number; anything else names no process, but the session is still named.
    pid: Option<serde_json::Value>,
    session_id: String,
    cwd: Option<String>,
    started_at: Option<i64>,
    proc_start: Option<String>,
    pid_domain: Option<String>,
    version: Option<String>,
    name: Option<String>,
    status: Option<String>,
    waiting_for: Option<String>,
    status_updated_at: Option<i64>,
    updated_at: Option<i64>,
}

impl PidFile {
    fn into_registration(self, source: PathBuf, stamp: FileStamp) -> ProcessRegistration {
        let (machine, pid_ns) = self.pid_domain.as_deref().map_or((None, None), parse_pid_domain);
        // The newest time the agent itself wrote: after a boot, that is when it last spoke.
        let written =
            self.updated_at.max(self.status_updated_at).max(self.started_at).map(Time::from_millis);
        let identity = Identity {
            start: self.proc_start.as_deref().and_then(|ticks| ticks.parse().ok()),
            machine,
            pid_ns,
            recorded_at: written.or(Some(stamp.modified_at())),
            comm: Some("claude".to_owned()),
            ..Identity::recorded_by_agent(
                self.pid.and_then(|pid| u32::try_from(pid.as_i64()?).ok()),
            )
        };
        let activity = self.status.as_deref().map(|status| match status {
            "busy" => Activity::Working,
            "waiting" => Activity::Waiting,
            "idle" => Activity::Idle,
            _ => Activity::Unknown,
        });
        let mut digest = TranscriptDigest {
            cwd: self.cwd,
            name: self.name,
            version: self.version,
            started_at: self.started_at.map(Time::from_millis),
            ..TranscriptDigest::default()
        };
        if let Some(written) = written {
            digest.widen_span(written);
        }
        ProcessRegistration {
            scope: RegistrationScope::Session(self.session_id),
            proof: RegistrationProof::Process { identity, holds: None },
            source,
            activity,
            waiting_for: self.waiting_for,
            digest,
        }
    }
}

/// `linux:<machine-id>:pid:[<inode>]`; parts may be empty.
fn parse_pid_domain(domain: &str) -> (Option<MachineId>, Option<u64>) {
    let mut parts = domain.splitn(3, ':').skip(1);
    let machine = parts.next().filter(|id| !id.is_empty());
    let namespace =
        parts.next().and_then(|link| link.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok());
    (machine.map(|id| MachineId::Plain(id.to_owned())), namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_domain_may_lack_parts() {
        let plain = |id: &str| Some(MachineId::Plain(id.to_owned()));
        assert_eq!(
            parse_pid_domain("linux:ab:pid:[4026531836]"),
            (plain("ab"), Some(4_026_531_836))
        );
        assert_eq!(parse_pid_domain("linux::pid:[7]"), (None, Some(7)));
        assert_eq!(parse_pid_domain("linux:ab:"), (plain("ab"), None));
        assert_eq!(parse_pid_domain("darwin"), (None, None));
    }
}
