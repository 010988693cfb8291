//! What Qwen Code writes down about its processes.

use std::path::{Path, PathBuf};

use model::hex::to_hex;
use model::identity::{BootId, Identity, MachineId};
use model::sighting::{
    FileStamp, ProcessRegistration, RegistrationProof, RegistrationScope, TranscriptDigest,
};
use model::time::Time;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::Survey;
use crate::files::{self, ReadError};

/// What was typed in a directory, session by session.
pub(super) const TYPED: &str = "logs.json";

/// `tmp/<hash of the directory>/logs.json` of a session that a process is registered for.
pub(super) fn typed_prompts(survey: &Survey, session: &str) -> Option<PathBuf> {
    let names = |scope: &RegistrationScope| matches!(scope, RegistrationScope::Session(id) if id.as_str() == session);
    let known = survey.registrations.iter().filter(|known| names(&known.scope));
    let cwd = known.filter_map(|known| known.digest.cwd.as_deref()).next()?;
    let hash = to_hex(&Sha256::digest(cwd.as_bytes()));
    Some(survey.root_path().join("tmp").join(hash).join(TYPED))
}

/// `sessions/`: one file for each running process.
pub(super) fn survey_pid_files(survey: &mut Survey, directory: &Path) {
    let root = survey.root_path();
    for entry in survey.list_all(directory) {
        let Some(stem) = entry.strip_suffix(".json") else {
            continue;
        };
        let path = directory.join(&entry.name);
        let read = files::read_json::<PidFile>(&root, &path)
            .and_then(|(record, stamp)| record.into_registration(path.clone(), stamp));
        match read {
            Ok(registration) => survey.registrations.push(registration),
            Err(error) if error.is_absent() => {}
            Err(error) => {
                survey.note_problem(&path, &error);
                // `<pid>.json`, or `<pid>-<suffix>.json` for a process with several sessions.
                let pid = stem.split('-').next().and_then(|pid| pid.parse().ok());
                let identity = Identity::recorded_by_agent(pid);
                let digest = TranscriptDigest::default();
                survey.registrations.push(new_registration(
                    RegistrationScope::Unreadable,
                    identity,
                    path,
                    digest,
                ));
            }
        }
    }
}

fn new_registration(
    scope: RegistrationScope,
    identity: Identity,
    source: PathBuf,
    digest: TranscriptDigest,
) -> ProcessRegistration {
    let proof = RegistrationProof::Process { identity, holds: None };
    ProcessRegistration { scope, proof, source, activity: None, waiting_for: None, digest }
}

/// A field of a registration. Its type has moved between versions; one that cannot be understood
/// must not lose the others.
type Field = Option<serde_json::Value>;

/// `sessions/<pid>.json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PidFile {
    pid: Field,
    session_id: Field,
    cwd: Field,
    started_at: Field,
    proc_start: Field,
    pid_ns: Field,
    pid_namespace: Field,
    machine_id: Field,
    qwen_version: Field,
    name: Field,
}

impl PidFile {
    fn into_registration(
        self,
        source: PathBuf,
        stamp: FileStamp,
    ) -> Result<ProcessRegistration, ReadError> {
        let session = field_text(&self.session_id)
            .ok_or_else(|| ReadError::unknown_format("names no session: an unknown version?"))?;
        let (boot, start) = field_text(&self.proc_start).map_or((None, None), |s| parse_start(&s));
        let namespace = field_text(&self.pid_namespace).and_then(|link| parse_namespace(&link));
        let started = field_number(&self.started_at).map(|ms| Time::from_millis(ms as i64));
        let identity = Identity {
            start,
            boot: boot.map(BootId::Id),
            machine: field_text(&self.machine_id).map(MachineId::Plain),
            pid_ns: field_number(&self.pid_ns).map(|inode| inode as u64).or(namespace),
            recorded_at: started.or(Some(stamp.modified_at())),
            comm: Some("qwen".to_owned()),
            ..Identity::recorded_by_agent(pid_of(&self.pid))
        };
        let mut digest = TranscriptDigest {
            cwd: field_text(&self.cwd),
            name: field_text(&self.name),
            version: field_text(&self.qwen_version),
            ..TranscriptDigest::default()
        };
        if let Some(started) = started {
            digest.widen_span(started);
        }
        Ok(new_registration(RegistrationScope::Session(session), identity, source, digest))
    }
}

/// `<session>.runtime.json`. It is never removed, so it proves life only as long as the process
/// has not turned to another session since, which its registration then says.
pub(super) fn survey_runtime(survey: &mut Survey, path: PathBuf) {
    let root = survey.root_path();
    let (record, _) = match files::read_json::<Runtime>(&root, &path) {
        Ok(read) => read,
        Err(error) => return survey.note_problem(&path, &error),
    };
    let (Some(session), Some(pid)) = (field_text(&record.session_id), pid_of(&record.pid)) else {
        let error =
            ReadError::unknown_format("names no session or no process: an unknown version?");
        return survey.note_problem(&path, &error);
    };
    let started =
        field_number(&record.started_at).map(|secs| Time::from_millis((secs * 1e3) as i64));
    let turned_away = survey.registrations.iter().any(|other| {
        let RegistrationProof::Process { identity, .. } = &other.proof else {
            return false;
        };
        let later = files::stamp_path(&other.source).map(|stamp| stamp.modified_at()) >= started;
        let names_another =
            matches!(&other.scope, RegistrationScope::Session(id) if *id != session);
        identity.pid == Some(pid) && identity.start.is_some() && names_another && later
    });
    if turned_away {
        return;
    }
    let identity = Identity {
        recorded_at: started,
        comm: Some("qwen".to_owned()),
        ..Identity::recorded_by_agent(Some(pid))
    };
    let digest = TranscriptDigest {
        cwd: field_text(&record.work_dir),
        version: field_text(&record.qwen_version),
        ..TranscriptDigest::default()
    };
    survey.registrations.push(new_registration(
        RegistrationScope::Session(session),
        identity,
        path,
        digest,
    ));
}

#[derive(Deserialize)]
struct Runtime {
    pid: Field,
    session_id: Field,
    work_dir: Field,
    started_at: Field,
    qwen_version: Field,
}

fn field_text(field: &Field) -> Option<String> {
    let text = field.as_ref()?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

fn field_number(field: &Field) -> Option<f64> {
    field.as_ref()?.as_f64().filter(|number| number.is_finite() && *number >= 0.0)
}

fn pid_of(field: &Field) -> Option<u32> {
    field.as_ref()?.as_u64().and_then(|pid| u32::try_from(pid).ok())
}

/// `<boot id>:<ticks>`, or the ticks alone.
fn parse_start(start: &str) -> (Option<String>, Option<u64>) {
    match start.rsplit_once(':') {
        Some((boot, ticks)) => {
            (Some(boot.to_owned()).filter(|b| !b.is_empty()), ticks.parse().ok())
        }
        None => (None, start.parse().ok()),
    }
}

/// `pid:[4026531836]`.
fn parse_namespace(link: &str) -> Option<u64> {
    link.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_of_another_version_keeps_what_it_says() {
        let read = |text: &str| {
            let record: PidFile = serde_json::from_str(text).unwrap();
            record.into_registration(PathBuf::new(), FileStamp::default())
        };
        let newer = read(
            r#"{"pid":7,"procStart":"55","pidNamespace":"pid:[9]","machineId":"m","sessionId":"s","startedAt":"soon","kind":["x"],"ipcToken":"hush"}"#,
        );
        let RegistrationProof::Process { identity, .. } = newer.unwrap().proof else { panic!() };
        assert_eq!((identity.pid, identity.start, identity.pid_ns), (Some(7), Some(55), Some(9)));
        assert_eq!((identity.boot, identity.machine), (None, Some(MachineId::Plain("m".into()))));
        assert!(read(r#"{"pid":7}"#).is_err());
    }
}
