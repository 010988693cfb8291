//! What Qwen Code writes down about its processes.

use std::path::{Path, PathBuf};

use model::identity::{Boot, Identity, Machine};
use model::sighting::{Digest, Proof, Registration, Scope, Stamp};
use model::time::Time;
use serde::Deserialize;

use crate::Survey;
use crate::files::{self, ReadError};

/// `sessions/`: one file for each running process.
pub(super) fn survey(survey: &mut Survey, directory: &Path) {
    let root = survey.root();
    for entry in survey.list_all(directory) {
        let Some(stem) = entry.stem(".json") else {
            continue;
        };
        let path = directory.join(&entry.name);
        let read = files::read_json::<PidFile>(&root, &path)
            .and_then(|(record, stamp)| record.register(path.clone(), stamp));
        match read {
            Ok(registration) => survey.registrations.push(registration),
            Err(error) if error.is_absent() => {}
            Err(error) => {
                survey.failed(&path, &error);
                // `<pid>.json`, or `<pid>-<suffix>.json` for a process with several sessions.
                let pid = stem.split('-').next().and_then(|pid| pid.parse().ok());
                let identity = Identity::recorded_by_agent(pid);
                let digest = Digest::default();
                survey.registrations.push(registration(Scope::Unreadable, identity, path, digest));
            }
        }
    }
}

fn registration(scope: Scope, identity: Identity, source: PathBuf, digest: Digest) -> Registration {
    let proof = Proof::Process { identity, holds: None };
    Registration { scope, proof, source, activity: None, waiting_for: None, digest }
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
    fn register(self, source: PathBuf, stamp: Stamp) -> Result<Registration, ReadError> {
        let session = text(&self.session_id)
            .ok_or_else(|| ReadError::format("names no session: an unknown version?"))?;
        let (boot, start) = text(&self.proc_start).map_or((None, None), |s| parse_start(&s));
        let namespace = text(&self.pid_namespace).and_then(|link| parse_namespace(&link));
        let started = number(&self.started_at).map(|ms| Time::from_millis(ms as i64));
        let identity = Identity {
            start,
            boot: boot.map(Boot::Id),
            machine: text(&self.machine_id).map(Machine::Plain),
            pid_ns: number(&self.pid_ns).map(|inode| inode as u64).or(namespace),
            recorded_at: started.or(Some(stamp.modified_at())),
            comm: Some("qwen".to_owned()),
            ..Identity::recorded_by_agent(pid_of(&self.pid))
        };
        let mut digest = Digest {
            cwd: text(&self.cwd),
            name: text(&self.name),
            version: text(&self.qwen_version),
            ..Digest::default()
        };
        if let Some(started) = started {
            digest.saw(started);
        }
        Ok(registration(Scope::Session(session), identity, source, digest))
    }
}

/// `<session>.runtime.json`. It is never removed, so it proves life only as long as the process
/// has not turned to another session since, which its registration then says.
pub(super) fn survey_runtime(survey: &mut Survey, path: PathBuf) {
    let root = survey.root();
    let (record, _) = match files::read_json::<Runtime>(&root, &path) {
        Ok(read) => read,
        Err(error) => return survey.failed(&path, &error),
    };
    let (Some(session), Some(pid)) = (text(&record.session_id), pid_of(&record.pid)) else {
        let error = ReadError::format("names no session or no process: an unknown version?");
        return survey.failed(&path, &error);
    };
    let started = number(&record.started_at).map(|secs| Time::from_millis((secs * 1e3) as i64));
    let turned_away = survey.registrations.iter().any(|other| {
        let Proof::Process { identity, .. } = &other.proof else {
            return false;
        };
        let later = files::stamp(&other.source).map(|stamp| stamp.modified_at()) >= started;
        let names_another = matches!(&other.scope, Scope::Session(id) if *id != session);
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
    let digest = Digest {
        cwd: text(&record.work_dir),
        version: text(&record.qwen_version),
        ..Digest::default()
    };
    survey.registrations.push(registration(Scope::Session(session), identity, path, digest));
}

#[derive(Deserialize)]
struct Runtime {
    pid: Field,
    session_id: Field,
    work_dir: Field,
    started_at: Field,
    qwen_version: Field,
}

fn text(field: &Field) -> Option<String> {
    let text = field.as_ref()?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

fn number(field: &Field) -> Option<f64> {
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
            record.register(PathBuf::new(), Stamp::default())
        };
        let newer = read(
            r#"{"pid":7,"procStart":"55","pidNamespace":"pid:[9]","machineId":"m","sessionId":"s","startedAt":"soon","kind":["x"],"ipcToken":"hush"}"#,
        );
        let Proof::Process { identity, .. } = newer.unwrap().proof else { panic!() };
        assert_eq!((identity.pid, identity.start, identity.pid_ns), (Some(7), Some(55), Some(9)));
        assert_eq!((identity.boot, identity.machine), (None, Some(Machine::Plain("m".into()))));
        assert!(read(r#"{"pid":7}"#).is_err());
    }
}
