//! Permission requests, and prompts, of agents that write into one file and read from another: a pair that ostler
//! names when it starts them, in a directory of its own.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use adapters::Adapter;
use adapters::control::PermissionChannel;
use model::control::permits::{PermitAnswer, PermitRequest, PermitRoute, PermitVerdict};
use model::session::is_safe_id;
use serde_json::{Value, json};
use sys::dropped::NoteDropped;
use sys::machine::Machine;
use sys::proc::{ProcessTable, read_process_table};
use sys::watch::DirectoryWatch;

use crate::timeouts::{FILE_ANSWER_INTERVAL, FILE_ANSWER_TIMEOUT};

/// The option that names the file that the agent reads.
const INPUT_OPTION: &str = "--input-file";

/// The option that names the file that it writes.
const EVENTS_OPTION: &str = "--json-file";

/// How much of what it wrote is read: the end.
const MAX_EVENTS_BYTES: u64 = 16 << 20;

/// The two files of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePair {
    /// What it reads.
    pub input: PathBuf,
    /// What it writes.
    pub events: PathBuf,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineAnswer {
    /// The agent said that it has it.
    Taken,
    /// It was decided otherwise.
    Gone,
    /// It said nothing.
    Unknown,
}

impl FilePair {
    /// A pair with a name of its own; nothing is made yet.
    pub(crate) fn new_in(directory: &Path) -> io::Result<Self> {
        let id = sys::random::new_ulid()?;
        let file = |end: &str| directory.join(format!("{id}.{end}"));
        Ok(Self { input: file("input"), events: file("events") })
    }

    /// Makes what the agent reads; the other file it makes itself.
    pub fn make(&self) -> io::Result<()> {
        if let Some(directory) = self.input.parent() {
            sys::private::create_private_dir(directory).map_err(io::Error::other)?;
        }
        File::options().write(true).create_new(true).mode(0o600).open(&self.input).map(drop)
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let word = |path: &Path| path.to_string_lossy().into_owned();
        let options = [(INPUT_OPTION, &self.input), (EVENTS_OPTION, &self.events)];
        options.into_iter().flat_map(|(option, path)| [option.to_owned(), word(path)]).collect()
    }

    /// The pair of a process, as its command line names it: only one in that directory is ours.
    fn of_process(pid: u32, table: &ProcessTable, directory: &Path) -> Option<Self> {
        let args = table.appearance(pid)?.args;
        let named = |option: &str| {
            let at = args.iter().position(|word| word == option)?;
            let path = PathBuf::from(args.get(at + 1)?);
            (path.parent() == Some(directory)).then_some(path)
        };
        Some(Self { input: named(INPUT_OPTION)?, events: named(EVENTS_OPTION)? })
    }
}

/// The file that one of these processes reads prompts from.
pub(crate) fn find_input_file(directory: &Path, pids: &[u32]) -> Option<PathBuf> {
    let table = read_process_table();
    let pair = pids.iter().find_map(|pid| FilePair::of_process(*pid, &table, directory));
    pair.map(|pair| pair.input)
}

/// Hands a prompt over: one line, whole.
pub(crate) fn put_prompt(input: &Path, text: &str) -> io::Result<()> {
    append_line(input, &json!({ "type": "submit", "text": text }))
}

fn append_line(input: &Path, line: &Value) -> io::Result<()> {
    let mut bytes = line.to_string().into_bytes();
    bytes.push(b'\n');
    File::options().append(true).open(input)?.write_all(&bytes)
}

/// The open requests of all agents with such a pair.
pub(crate) fn list_line_requests(machine: &Machine, directory: &Path) -> Vec<PermitRequest> {
    let mut requests = Vec::new();
    if !directory.exists() {
        return requests;
    }
    let table = read_process_table();
    for (pid, agent, pair) in find_pairs(directory, &table) {
        let Ok(owner) = machine.identify_process(pid) else { continue };
        let told = read_events(&pair.events).ok_or_note("the requests that an agent wrote");
        let Some(told) = told else { continue };
        for (id, asked) in told.open {
            requests.push(PermitRequest {
                id,
                agent: agent.to_owned(),
                session: told.session.clone(),
                subagent: None,
                tool: asked["tool_name"].as_str().map(str::to_owned),
                input: asked["input"].clone(),
                cut: false,
                cwd: None,
                asked_at: machine.read_clock(),
                until: PermitRequest::NO_END,
                asker: owner.clone(),
                owner: Some(owner.clone()),
                route: Some(PermitRoute::Lines {
                    input: pair.input.to_string_lossy().into_owned(),
                    events: pair.events.to_string_lossy().into_owned(),
                }),
            });
        }
    }
    requests
}

/// Answers one, and waits until the agent says what became of it. A word with a denial has no place in its format.
pub(crate) fn answer_line_request(
    request: &PermitRequest,
    pair: &FilePair,
    answer: &PermitAnswer,
) -> Result<LineAnswer, String> {
    let failed = |error: io::Error| format!("{}: {error}", pair.events.display());
    let is_open = |told: &ToldEvents| told.open.iter().any(|(id, _)| *id == request.id);
    if !is_open(&read_events(&pair.events).map_err(failed)?) {
        return Ok(LineAnswer::Gone);
    }
    let watch = pair.events.parent().and_then(|directory| {
        DirectoryWatch::watch_directory(directory).ok_or_note("the watch of an agent's file")
    });
    let allowed = answer.verdict == PermitVerdict::Allow;
    let line =
        json!({ "type": "confirmation_response", "request_id": request.id, "allowed": allowed });
    append_line(&pair.input, &line).map_err(failed)?;
    let until = Instant::now() + FILE_ANSWER_TIMEOUT;
    loop {
        let told = read_events(&pair.events).map_err(failed)?;
        if let Some((_, decided)) = told.decided.iter().find(|(id, _)| *id == request.id) {
            let ours = *decided == Some(allowed);
            return Ok(if ours { LineAnswer::Taken } else { LineAnswer::Gone });
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(LineAnswer::Unknown);
        }
        let nap = left.min(FILE_ANSWER_INTERVAL);
        match &watch {
            Some(watch) => {
                watch.wait_for(Some(nap)).ok_or_note("the watch of an agent's file");
            }
            None => std::thread::sleep(nap),
        }
    }
}

fn find_pairs(directory: &Path, table: &ProcessTable) -> Vec<(u32, &'static str, FilePair)> {
    let writes = |adapter: &&&'static dyn Adapter| {
        let control = adapter.control_table();
        control.is_some_and(|control| control.permission_channel == PermissionChannel::FilePair)
    };
    let mut found: Vec<(u32, &'static str, FilePair)> = Vec::new();
    for adapter in adapters::ALL_ADAPTERS.iter().filter(writes) {
        let about = adapter.agent_profile();
        for row in table.rows() {
            if !table.appearance(row.pid).is_some_and(|look| about.program.matches(&look)) {
                continue;
            }
            let Some(pair) = FilePair::of_process(row.pid, table, directory) else { continue };
            // A wrapper and its agent have the same words.
            if !found.iter().any(|(_, _, known)| *known == pair) {
                found.push((row.pid, about.id, pair));
            }
        }
    }
    found
}

/// Files of pairs that no process names, and that nobody wrote to for so long.
pub(crate) fn find_dead_files(directory: &Path, left_alone: Duration) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_ours = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "input" || end == "events")
            && std::fs::symlink_metadata(path)
                .and_then(|about| about.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age > left_alone))
    };
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.path()).filter(is_ours).collect();
    if !files.is_empty() {
        let used = find_pairs(directory, &read_process_table());
        files.retain(|file| {
            !used.iter().any(|(_, _, pair)| pair.input == *file || pair.events == *file)
        });
    }
    files
}

/// What an agent wrote, as far as it concerns permissions.
#[derive(Debug, Default)]
struct ToldEvents {
    session: String,
    /// Requests without an answer, in order.
    open: Vec<(String, Value)>,
    /// Requests that were decided, and how; none if an answer was not honoured.
    decided: Vec<(String, Option<bool>)>,
}

fn read_events(path: &Path) -> io::Result<ToldEvents> {
    let mut file = match File::open(path) {
        // It has written nothing yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ToldEvents::default()),
        other => other?,
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_EVENTS_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(MAX_EVENTS_BYTES).read_to_end(&mut bytes)?;
    Ok(fold_events(&bytes))
}

fn fold_events(bytes: &[u8]) -> ToldEvents {
    let mut told = ToldEvents::default();
    // A line that is not whole is read with its end.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    for line in bytes[..whole].split(|byte| *byte == b'\n') {
        let concerns = |mark: &[u8]| line.windows(mark.len()).any(|window| window == mark);
        if !concerns(b"\"control_re") && !told.session.is_empty() {
            continue;
        }
        let Ok(value) = serde_json::from_slice::<Value>(line) else { continue };
        if let Some(session) = value["session_id"].as_str().filter(|id| is_safe_id(id)) {
            session.clone_into(&mut told.session);
        }
        match value["type"].as_str() {
            Some("control_request") if value["request"]["subtype"] == "can_use_tool" => {
                let id = value["request_id"].as_str().filter(|id| is_safe_id(id));
                told.open.extend(id.map(|id| (id.to_owned(), value["request"].clone())));
            }
            Some("control_response") => {
                let response = &value["response"];
                let Some(id) = response["request_id"].as_str() else { continue };
                let allowed = response["response"]["allowed"].as_bool();
                told.open.retain(|(open, _)| open != id);
                told.decided.push((id.to_owned(), allowed));
            }
            _ => {}
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decided_is_not_open_and_half_a_line_is_nothing() {
        let asked = r#"{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"run_shell_command","input":{"command":"ls"}}}"#;
        let start = r#"{"type":"system","subtype":"session_start","session_id":"s1"}"#;
        let said = r#"{"type":"control_response","response":{"subtype":"success","request_id":"r1","response":{"allowed":true}}}"#;
        let told = fold_events(format!("{start}\n{asked}\n{{\"type\":\"control_requ").as_bytes());
        assert_eq!((told.session.as_str(), told.open.len()), ("s1", 1));
        assert_eq!(told.open[0].1["tool_name"], "run_shell_command");
        let told = fold_events(format!("{start}\n{asked}\n{said}\n").as_bytes());
        assert_eq!((told.open.len(), told.decided), (0, vec![("r1".to_owned(), Some(true))]));
    }

    #[test]
    fn a_pair_has_a_name_of_its_own_and_only_its_input_is_made() {
        let home = tempfile::tempdir().unwrap();
        let pair = FilePair::new_in(&home.path().join("permits")).unwrap();
        assert!(!pair.input.exists(), "a plan makes nothing");
        pair.make().unwrap();
        assert!(pair.input.exists() && !pair.events.exists());
        put_prompt(&pair.input, "one\ntwo").unwrap();
        let written = std::fs::read_to_string(&pair.input).unwrap();
        assert_eq!(written, "{\"text\":\"one\\ntwo\",\"type\":\"submit\"}\n");
        assert_eq!(pair.arguments()[0], "--input-file");
    }
}
