//! Other tools' files, read only: one module per coding agent.
//!
//! An adapter is a passive source of facts. It says where its agent keeps things, lists them
//! cheaply ([`Adapter::survey_root`]), and reads one of them when asked ([`Adapter::read_digest`],
//! [`Adapter::read_conversation`]). It judges nothing, prints nothing, and cannot write: files are opened by
//! [`files`], foreign databases by [`database`], and both only read. To add an agent, see
//! docs/guides/add-an-adapter.md; the one existing file that changes is this one.

use std::path::{Path, PathBuf};

use model::control::delivery::DeliveryTurn;
use model::conversation::ConversationEntry;
use model::plan::Fingerprint;
use model::program::{AgentProgram, ProcessAppearance, base_name, is_interpreter, is_shell};
use model::session::FormatCertainty;
use model::sighting::{FileStamp, ProcessRegistration, TranscriptDigest};
use model::time::Time;
use model::usage::MessageUsage;

pub mod control;
pub mod database;
pub mod files;
pub mod hooks;
mod mcp_client;
pub mod skim;

mod aider;
mod amp;
mod blocks;
mod claude_code;
mod cline;
mod codex;
mod continue_cli;
mod copilot;
mod crush;
mod cursor;
mod droid;
mod gemini;
mod goose;
mod hermes;
mod kilo;
mod kimi;
pub mod openclaw;
mod opencode;
mod pi;
mod qwen;
mod turn_ends;
mod usage;
pub mod variables;
mod vibe;

pub use control::AgentControl;
pub use files::ReadError;
pub use mcp_client::{McpClientSettings, McpSettingsShape};
pub use sys::machine::EnvLookup;

/// Every adapter, in the order people see them.
pub static ALL_ADAPTERS: &[&dyn Adapter] = &[
    &claude_code::ClaudeCode,
    &codex::Codex,
    &opencode::OpenCode,
    &gemini::Gemini,
    &pi::Pi,
    &openclaw::OpenClaw,
    &copilot::Copilot,
    &qwen::Qwen,
    &droid::Droid,
    &kimi::Kimi,
    &cline::Cline,
    &kilo::Kilo,
    &vibe::Vibe,
    &hermes::Hermes,
    &continue_cli::ContinueCli,
    &cursor::CursorCli,
    &goose::Goose,
    &amp::Amp,
    &aider::Aider,
    &crush::Crush,
];

/// Whether a process that hides its executable may be an agent: it calls itself one, or what it runs cannot be told.
pub fn may_be_agent(seen: &ProcessAppearance) -> bool {
    let title = seen.args.first().map_or("", |title| base_name(title));
    let carries = |name: &str| is_interpreter(name) || is_shell(name);
    let is_program = |adapter: &&dyn Adapter| adapter.agent_profile().program.is_program(seen);
    title.is_empty() || carries(title) || carries(&seen.comm) || ALL_ADAPTERS.iter().any(is_program)
}

/// The adapter of that id.
pub fn by_id(id: &str) -> Option<&'static dyn Adapter> {
    ALL_ADAPTERS.iter().copied().find(|adapter| adapter.agent_profile().id == id)
}

/// One coding agent's files and processes.
pub trait Adapter: Sync + std::fmt::Debug {
    /// What is always true of the agent.
    fn agent_profile(&self) -> &'static AgentProfile;

    /// How the agent is told of MCP servers; `None` if it is not known.
    fn mcp_client(&self) -> Option<McpClientSettings> {
        None
    }

    /// How the agent is started, prompted and stopped; `None` if that was not measured, and then it is
    /// not driven.
    fn control_table(&self) -> Option<&'static AgentControl> {
        None
    }

    /// Where the agent keeps its sessions in this environment. A root that does not exist is fine.
    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf>;

    /// Lists what is under `survey.root()`: sources, registrations, other files, problems. It may
    /// read small files and query indexes; it must not read transcripts.
    fn survey_root(&self, survey: &mut Survey);

    /// Reads one transcript. The result may depend on nothing but the files whose stamps are in
    /// the source: it is cached under them.
    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError>;

    /// Whether `gc` may take the file of a session. A part of something bigger never: neither a row
    /// of a database nor an entry of an index has a file of its own.
    fn check_removable(&self, source: &TranscriptSource) -> Removable {
        let extension = source.path.extension().and_then(|extension| extension.to_str());
        match extension {
            Some("jsonl" | "json" | "md") if source.bytes.is_none() => Removable::WholeFile,
            _ => Removable::Never,
        }
    }

    /// Tells what every answer of a model used. `false` if the agent writes only totals: those are in
    /// the digest.
    fn read_usage(
        &self,
        _source: &TranscriptSource,
        _say: &mut dyn FnMut(MessageUsage),
    ) -> Result<bool, ReadError> {
        Ok(false)
    }

    /// Whether the conversation stands as text in the file of the source and nowhere else: words that
    /// are not in its bytes, escaped or not, are then not in the conversation.
    fn is_plain_text(&self, source: &TranscriptSource) -> bool {
        let extension = source.path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("jsonl" | "json" | "md")) && source.bytes.is_none()
    }

    /// What tells one line of a transcript, where every line stands for itself: for copies of
    /// transcripts that are no longer where the agent wrote them.
    fn line_conversation(&self) -> Option<LineConversation> {
        None
    }

    /// The words that resume a session when its id follows them; none where the agent cannot.
    fn resume_words(&self) -> Vec<&'static str> {
        let profile = self.agent_profile();
        let words = profile.program.names.first().zip(profile.resume_options.first());
        words.map(|(program, option)| vec![*program, *option]).unwrap_or_default()
    }

    /// Where a new conversation of that id would be written, of an agent that is told so.
    fn new_transcript_path(&self, _env: &EnvLookup<'_>, _cwd: &str, _id: &str) -> Option<PathBuf> {
        None
    }

    /// How its record tells that a turn ended; nothing of an agent whose record says no more than that a turn is closed.
    fn turn_end_reader(&self) -> Option<TurnEndReader> {
        None
    }

    /// Tells the conversation from position `from` on (0 is the beginning) and returns where to go
    /// on later. Positions are the adapter's own; a transcript that only grows uses byte offsets.
    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        match self.line_conversation() {
            Some(converse) => Ok(source.each_line(from, |line| converse(line, say))?.offset),
            None => Err(ReadError::unknown_format("how its conversation is read is not known")),
        }
    }
}

/// Tells how the turn ended whose prompt was recorded after a position, and at a time if that is known: a prompt that was
/// queued is recorded after the end of the turn before it. `None` while it goes on.
pub type ReadTurnEnd =
    fn(&TranscriptSource, u64, Option<Time>) -> Result<Option<DeliveryTurn>, ReadError>;

/// How an agent's record tells that turns ended.
#[derive(Clone, Copy, Debug)]
pub struct TurnEndReader {
    pub read: ReadTurnEnd,
    /// Whether every turn's end is told; otherwise a turn may be closed without a word.
    pub tells_all: bool,
}

/// Tells the entries of one line of a transcript.
pub type LineConversation = fn(&[u8], &mut dyn FnMut(ConversationEntry));

/// What is always true of an agent.
#[derive(Debug)]
pub struct AgentProfile {
    /// The id used in JSON and filters.
    pub id: &'static str,
    /// The name people use.
    pub name: &'static str,
    /// Raised whenever `read_digest` would give another answer for the same bytes.
    pub version: u32,
    /// How well the formats are known.
    pub certainty: FormatCertainty,
    /// How its processes look.
    pub program: AgentProgram,
    /// Options that are followed by (or joined by `=` to) a session id on its command line.
    pub resume_options: &'static [&'static str],
    /// Options that mean "go on with the newest session of this directory".
    pub continue_options: &'static [&'static str],
    /// Environment variables that carry the session id in its processes.
    pub session_variables: &'static [&'static str],
    /// How its sessions are opened.
    pub opening: Opening,
    /// What its hooks can tell, if it has any.
    pub hooks: Option<&'static hooks::AgentHooks>,
    /// What `ostler adapters` says about how far the knowledge goes.
    pub note: &'static str,
}

/// What `gc` may do with the file of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removable {
    /// It is the session, and nothing else: it may go.
    WholeFile,
    /// It holds other things too, or is not known well enough.
    Never,
    /// Only this command of ostler's may, which keeps the agent's own index right.
    OnlyThrough(&'static str),
}

/// How sessions of an agent are opened: what a process that says nothing of its session may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Its own picker shows sessions of other directories than the one it runs in.
    pub beyond_directory: bool,
    /// A registration or lock stays with a session after another one was opened inside the agent.
    pub leaves_lock_behind: bool,
    /// A server of the agent has every session of its store.
    pub server_has_all: bool,
    /// The writer of a session holds its lock or file. A run that holds neither is the window of a
    /// server, or has only just begun: that something was written since says nothing about it.
    pub holds_what_it_writes: bool,
    /// A run writes to the files of earlier sessions, too: of a session only its own records tell that it is at work.
    pub writes_others_files: bool,
    /// Its hooks, or its registrations, tell when another session is opened inside it. Where they do not, or where it is
    /// not known, a hook says which session it had, and not which it has.
    pub tells_of_switches: bool,
    /// A session is kept at the top of a work tree: a run anywhere below its directory can open it.
    pub from_below: bool,
}

impl Opening {
    /// Only sessions of the directory it runs in.
    pub const IN_DIRECTORY: Self = Self {
        beyond_directory: false,
        leaves_lock_behind: false,
        server_has_all: false,
        holds_what_it_writes: false,
        writes_others_files: false,
        tells_of_switches: false,
        from_below: false,
    };
    /// Any of its sessions. Also for agents of which it is not known.
    pub const ANYWHERE: Self = Self { beyond_directory: true, ..Self::IN_DIRECTORY };
}

/// Something on disk that holds one session (or one sub-agent's part of it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptSource {
    /// The agent's own session id.
    pub id: String,
    /// The session this is a sub-agent or fork of, where the place on disk says so.
    pub parent: Option<String>,
    /// The title that an index of many sessions gives it. It stands here and not in the digest,
    /// because a digest that depended on such an index would be read anew at every change of it.
    pub title: Option<String>,
    /// The name that such an index gives it.
    pub name: Option<String>,
    /// When such an index says that it was begun.
    pub started_at: Option<Time>,
    /// The root it was found under, all links resolved.
    pub root: std::sync::Arc<Path>,
    /// The file; for a store of many sessions, the database.
    pub path: PathBuf,
    /// What the file was when it was listed.
    pub stamp: FileStamp,
    /// Other files that the digest depends on.
    pub beside: Vec<(PathBuf, FileStamp)>,
    /// The bytes of this session, where they are not simply those of the file.
    pub bytes: Option<u64>,
    /// The name of the format, e.g. `claude-jsonl`.
    pub format: &'static str,
}

/// Bytes of an agent that are no session: what `du` shows beside transcripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraFile {
    /// The file or directory.
    pub path: PathBuf,
    pub bytes: u64,
    /// What was seen there. A link, if it is one.
    pub print: Fingerprint,
    /// What it is.
    pub kind: ExtraFileKind,
    /// The session it belongs to.
    pub session: Option<String>,
}

/// What an extra file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraFileKind {
    /// Belongs to a session: snapshots, tool output, settings beside the transcript.
    Attachment,
    /// A finished session that the agent itself put away.
    Archive,
    /// Left over: temporary files, partial writes.
    Temporary,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyProblem {
    pub path: PathBuf,
    /// Why, and where it helps what to do.
    pub reason: String,
}

/// What a survey found so far.
#[derive(Debug)]
pub struct Survey {
    root: std::sync::Arc<Path>,
    /// Transcripts to be digested. Boxed: there may be ten thousand, and they are passed on.
    pub sources: Vec<Box<TranscriptSource>>,
    /// Sessions that the survey itself read from an index or database.
    pub ready: Vec<(TranscriptSource, TranscriptDigest)>,
    /// What the agent wrote down about processes.
    pub registrations: Vec<ProcessRegistration>,
    /// Other bytes of the agent.
    pub extras: Vec<ExtraFile>,
    /// What could not be read.
    pub problems: Vec<SurveyProblem>,
    /// The directories that were listed: what appears in them is what the next survey finds.
    pub directories: Vec<PathBuf>,
}

impl Survey {
    /// A survey of `root`. The root itself may be a link; nothing below it is followed out of it.
    pub fn new(root: &Path) -> Self {
        let resolved = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        Self::of_shared_root(resolved.into())
    }

    fn of_shared_root(root: std::sync::Arc<Path>) -> Self {
        Self {
            root,
            sources: Vec::new(),
            ready: Vec::new(),
            registrations: Vec::new(),
            extras: Vec::new(),
            problems: Vec::new(),
            directories: Vec::new(),
        }
    }

    /// The directory to survey.
    pub fn root_path(&self) -> std::sync::Arc<Path> {
        self.root.clone()
    }

    /// The entries of a directory. One that is not there is empty; one that cannot be read is a
    /// problem. Entries that are neither files nor directories become problems when `wanted` says
    /// that their name is one the adapter would read.
    pub fn list_wanted(
        &mut self,
        path: &Path,
        wanted: impl Fn(&str) -> bool,
    ) -> Vec<files::DirEntry> {
        let entries = self.list_all(path);
        let (good, bad): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| {
            matches!(entry.kind, files::EntryKind::File | files::EntryKind::Directory)
        });
        for entry in bad {
            if entry.name.to_str().is_none_or(&wanted) {
                let error = match entry.kind {
                    files::EntryKind::Escape => ReadError::Escapes,
                    _ => ReadError::NotAFile,
                };
                self.note_problem(&path.join(&entry.name), &error);
            }
        }
        good
    }

    /// Every entry of a directory, of any kind: for registrations, where one that cannot be read
    /// still says that there may be a process. Reading it finds out what is wrong with it.
    pub fn list_all(&mut self, path: &Path) -> Vec<files::DirEntry> {
        match files::list_directory(&self.root, path) {
            Ok(entries) => {
                self.directories.push(path.to_owned());
                entries
            }
            Err(error) => {
                self.note_problem(path, &error);
                Vec::new()
            }
        }
    }

    /// Notes bytes that are no session.
    pub fn note_extra(
        &mut self,
        kind: ExtraFileKind,
        entry: &files::DirEntry,
        path: PathBuf,
        session: Option<String>,
    ) {
        let (bytes, print) = (entry.stamp.bytes, entry.print);
        self.extras.push(ExtraFile { path, bytes, print, kind, session });
    }

    /// Surveys many places on all cores: `each` is given a survey of its own for every one of
    /// `places`, and what they find is put together in their order.
    pub fn survey_parallel<T: Sync>(&mut self, places: &[T], each: impl Fn(&mut Self, &T) + Sync) {
        let found = sys::spread::parallel_map(places, 1, |place| {
            let mut own = Self::of_shared_root(self.root.clone());
            each(&mut own, place);
            own
        });
        for found in found {
            self.absorb(found);
        }
    }

    /// Takes over everything that another survey found.
    pub fn absorb(&mut self, mut other: Self) {
        self.sources.append(&mut other.sources);
        self.ready.append(&mut other.ready);
        self.registrations.append(&mut other.registrations);
        self.extras.append(&mut other.extras);
        self.problems.append(&mut other.problems);
        self.directories.append(&mut other.directories);
    }

    /// Notes a problem, unless the thing is simply not there.
    pub fn note_problem(&mut self, path: &Path, error: &ReadError) {
        if !error.is_absent() {
            self.problems.push(SurveyProblem { path: path.to_owned(), reason: error.to_string() });
        }
    }

    /// Notes a transcript to be digested.
    pub fn note_source(&mut self, source: TranscriptSource) {
        self.sources.push(Box::new(source));
    }

    /// Notes a source with nothing but a file below the root.
    pub fn note_file(
        &mut self,
        id: impl Into<String>,
        path: PathBuf,
        stamp: FileStamp,
        format: &'static str,
    ) {
        let source = TranscriptSource::from_file(id, &self.root, path, stamp, format);
        self.note_source(source);
    }
}

impl TranscriptSource {
    /// A source with nothing but a file.
    pub fn from_file(
        id: impl Into<String>,
        root: &std::sync::Arc<Path>,
        path: PathBuf,
        stamp: FileStamp,
        format: &'static str,
    ) -> Self {
        Self {
            id: id.into(),
            parent: None,
            title: None,
            name: None,
            started_at: None,
            root: root.clone(),
            path,
            stamp,
            beside: Vec::new(),
            bytes: None,
            format,
        }
    }

    /// The same with another file that the digest depends on, if that exists.
    pub fn with_side_file(mut self, path: PathBuf) -> Self {
        if let Some(stamp) = files::stamp_path(&path) {
            self.beside.push((path, stamp));
        }
        self
    }

    /// Hands every line of the transcript from `offset` on to `each`.
    pub fn each_line(
        &self,
        offset: u64,
        each: impl FnMut(&[u8]),
    ) -> Result<files::LinesEnd, ReadError> {
        let (file, stamp) = files::open_file(&self.root, &self.path)?;
        if stamp.bytes == 0 {
            return Err(ReadError::Empty);
        }
        files::each_line(file, stamp.bytes, offset, each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codex hides as keepers of secrets do.
    #[test]
    fn h3_what_hides_and_is_called_an_agent_may_be_one() {
        let hidden = |comm: &str, args: &[&str]| {
            let args = args.iter().map(|&arg| arg.to_owned()).collect();
            may_be_agent(&ProcessAppearance { comm: comm.to_owned(), exe: None, args })
        };
        assert!(hidden("codex", &["/home/u/.local/bin/codex", "resume"]));
        assert!(hidden("node", &["node", "/x/cli.js"]) && hidden("MainThread", &["x"]));
        assert!(hidden("x", &[]) && hidden("bash", &["-bash"]));
        assert!(!hidden("ssh-agent", &["ssh-agent", "-s"]) && !hidden("(sd-pam)", &["(sd-pam)"]));
        assert!(!hidden("sshd-session", &["sshd-session: u@pts/0"]));
    }
}
