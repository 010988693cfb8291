//! The hook that waits: it writes a permission request down and sleeps until there is an answer, the question is
//! decided otherwise, or its time is up. It uses no processor time meanwhile, and gives no answer of its own.

use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::control::permits::{PermitAnswer, PermitRequest};
use model::event::{HookHappening, HookReport};
use sys::dropped::NoteDropped;
use sys::watch::DirectoryWatch;

use crate::permits::{answer_name, forget_file, permits_directory, read_answer, request_name};

/// The most that is read at once of what was added to a file.
const MAX_TAIL_BYTES: u64 = 1 << 20;

/// A request that was written down.
#[derive(Debug)]
pub(super) struct OpenRequest {
    directory: PathBuf,
    request: PermitRequest,
    answers: DirectoryWatch,
    spool: FileTail,
    transcript: Option<FileTail>,
    tool_use: Option<String>,
}

/// What was added to a file since the question, and a watch of its directory.
#[derive(Debug)]
struct FileTail {
    path: PathBuf,
    offset: u64,
    watch: Option<DirectoryWatch>,
}

impl FileTail {
    fn at_end_of(path: PathBuf) -> Self {
        let watch = path.parent().and_then(|parent| {
            DirectoryWatch::watch_directory(parent).ok_or_note("the watch of a log")
        });
        let offset = std::fs::metadata(&path).map_or(0, |about| about.len());
        Self { path, offset, watch }
    }

    /// What was added since the last time. A file that is another one now is read from its start.
    fn read_added(&mut self) -> Vec<u8> {
        let mut added = Vec::new();
        let Ok(mut file) = std::fs::File::open(&self.path) else { return added };
        let length = file.metadata().map_or(0, |about| about.len());
        if length < self.offset {
            self.offset = 0;
        }
        if file.seek(SeekFrom::Start(self.offset)).is_ok()
            && file.take(MAX_TAIL_BYTES).read_to_end(&mut added).is_ok()
        {
            self.offset += added.len() as u64;
        }
        added
    }
}

/// What ended the waiting.
#[derive(Debug)]
pub(super) enum WaitEnd {
    Answered(PermitAnswer),
    /// There was no answer: the agent's own question is there.
    Unanswered,
}

impl OpenRequest {
    /// Writes a request down; an answer from here on is noticed.
    pub(super) fn write_down(
        home: &Path,
        spool: PathBuf,
        report: &HookReport,
        request: PermitRequest,
        tool_use: Option<String>,
    ) -> Result<Self, String> {
        let directory = permits_directory(home);
        sys::private::create_private_dir(&directory).map_err(|error| error.to_string())?;
        let answers =
            DirectoryWatch::watch_directory(&directory).map_err(|error| error.to_string())?;
        let spool = FileTail::at_end_of(spool);
        let transcript = report.hook.transcript.as_ref().filter(|_| tool_use.is_some());
        let transcript = transcript.map(|path| FileTail::at_end_of(PathBuf::from(path)));
        let text = serde_json::to_vec(&request).map_err(|error| error.to_string())?;
        let path = directory.join(request_name(&request.id));
        sys::atomic::write_unsynced(&path, &text).map_err(|error| error.to_string())?;
        Ok(Self { directory, request, answers, spool, transcript, tool_use })
    }

    /// Sleeps until the waiting is over.
    pub(super) fn await_answer(&mut self, wait: Duration) -> WaitEnd {
        let until = Instant::now() + wait;
        let observer = sys::proc::recording_observer();
        let owner = self.request.owner.as_ref();
        let owner = owner.and_then(|owner| sys::proc::watch_process_end(owner, &observer));
        loop {
            if let Some(answer) = read_answer(&self.directory, &self.request.id) {
                return WaitEnd::Answered(answer);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_decided() {
                return WaitEnd::Unanswered;
            }
            let tails = [Some(&self.spool), self.transcript.as_ref()];
            let watches = tails.into_iter().flatten().filter_map(|tail| tail.watch.as_ref());
            let watches: Vec<&DirectoryWatch> = watches.chain([&self.answers]).collect();
            let mut told: Vec<_> = watches.iter().filter_map(|watch| watch.descriptor()).collect();
            told.extend(owner.as_ref().map(AsFd::as_fd));
            let nap = sys::watch::POLL_INTERVAL.map_or(left, |interval| interval.min(left));
            let Ok(ready) = sys::watch::poll_readable(&told, Some(nap)) else {
                return WaitEnd::Unanswered;
            };
            // The agent is gone, and with it the reader of the answer.
            if owner.is_some() && ready.last() == Some(&true) {
                return WaitEnd::Unanswered;
            }
            watches.iter().for_each(|watch| watch.clear());
        }
    }

    /// Whether the agent's own record shows that a person was faster.
    fn is_decided(&mut self) -> bool {
        let request = &self.request;
        let decides = |line: &[u8]| {
            HookReport::parse(line).is_some_and(|report| shows_decision(request, &report))
        };
        let added = self.spool.read_added();
        if added.split(|byte| *byte == b'\n').any(decides) {
            return true;
        }
        let (Some(transcript), Some(id)) = (&mut self.transcript, &self.tool_use) else {
            return false;
        };
        // The result of this very call is written once it is decided.
        let mark = format!("\"tool_use_id\":\"{id}\"");
        let added = transcript.read_added();
        added.windows(mark.len()).any(|window| window == mark.as_bytes())
    }

    /// The answer was given: first it goes, which tells the one who gave it, then the request.
    pub(super) fn close_answered(self) {
        forget_file(&self.directory.join(answer_name(&self.request.id)));
        sys::pause::pause_at("hook.taken");
        forget_file(&self.directory.join(request_name(&self.request.id)));
    }

    /// Nothing was answered: a later answer learns that it came too late.
    pub(super) fn close_unanswered(self) {
        forget_file(&self.directory.join(request_name(&self.request.id)));
    }
}

/// Whether a later report of the same session means that the question is no longer open.
fn shows_decision(request: &PermitRequest, report: &HookReport) -> bool {
    let hook = &report.hook;
    let same = report.agent == request.agent
        && hook.session == request.session
        && hook.subagent == request.subagent
        && report.at >= request.asked_at;
    match hook.happening {
        _ if !same => false,
        // Of calls at the same time another one may have got on.
        HookHappening::Progress => hook.detail.is_none() || hook.detail == request.tool,
        HookHappening::TurnStart
        | HookHappening::TurnEnd
        | HookHappening::SessionStart
        | HookHappening::SessionEnd => true,
        HookHappening::Waiting | HookHappening::Compaction | HookHappening::Sign => false,
    }
}
