//! One session looked through: raw bytes first, then the conversation as its agent's adapter tells it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use adapters::files::MAX_RECORD_BYTES;
use adapters::{Adapter, ReadError, TranscriptSource};
use model::conversation::{ConversationEntry, ConversationRole};
use model::summary::KeptFile;
use model::time::Time;
use model::wire::SearchMatch;

use super::oversized::OversizedRecord;
use super::query::SearchQuery;
use crate::terminal::tell;
use crate::{converse, vault};

/// How much of a file is looked through at once; also how soon a cancelled search ends.
const RAW_CHUNK_BYTES: usize = 512 << 10;

/// Files with lines longer than this are decoded one at a time, on any number of cores: each may need
/// several times its longest line.
const LARGE_LINE_BYTES: u64 = 8 << 20;

static LARGE_LINE_TURN: Mutex<()> = Mutex::new(());

/// The longest text of a hit, in bytes.
const MAX_EXCERPT_BYTES: usize = 4000;

/// Which entries are wanted, beside their words.
#[derive(Clone, Debug, Default)]
pub struct EntryScope {
    /// Only of these speakers; empty means all.
    pub roles: Vec<ConversationRole>,
    /// Only calls of this tool.
    pub tool: Option<String>,
    /// Not those that are known to be older.
    pub since: Option<Time>,
    /// Lines shown before and after the first match.
    pub context: usize,
    /// The most hits that are kept of one session; all are counted.
    pub most: usize,
}

impl EntryScope {
    /// Whether all of a conversation is asked for, and so what stands above it, too.
    pub(super) fn is_whole(&self) -> bool {
        self.roles.is_empty() && self.tool.is_none() && self.since.is_none()
    }
}

/// Where a conversation is.
#[derive(Clone, Debug)]
pub(super) enum TargetPlace {
    /// In an agent's own files.
    Living(Box<TranscriptSource>),
    /// In the vault, its transcript gone.
    Kept { home: PathBuf, files: Vec<KeptFile> },
    /// In the log of a hosted terminal.
    Hosted(PathBuf),
}

/// One entry that fits.
#[derive(Clone, Debug)]
pub struct EntryHit {
    /// Its number, counted from 1; `None` for a record that is too large to be an entry.
    pub number: Option<u64>,
    /// The entry; its text is the part around the first match.
    pub entry: ConversationEntry,
    /// Whether that is not the whole text.
    pub cut: bool,
    /// The matches in that part, in bytes.
    pub ranges: Vec<std::ops::Range<usize>>,
}

/// What one session gave.
#[derive(Clone, Debug, Default)]
pub struct SessionScan {
    /// The first hits.
    pub hits: Vec<EntryHit>,
    pub total: u64,
    /// Bytes that were looked through.
    pub bytes: u64,
    /// What could not be read, and why.
    pub problems: Vec<(String, String)>,
    /// What fits beside its conversation, where no entry does.
    pub matched: Vec<SearchMatch>,
}

/// Looks through one session.
pub(super) struct SessionScanner<'a> {
    pub(super) query: &'a SearchQuery,
    pub(super) scope: &'a EntryScope,
    pub(super) cancelled: &'a Arc<AtomicBool>,
    pub(super) scan: SessionScan,
    number: u64,
}

impl<'a> SessionScanner<'a> {
    pub(super) fn new(
        query: &'a SearchQuery,
        scope: &'a EntryScope,
        cancelled: &'a Arc<AtomicBool>,
    ) -> Self {
        Self { query, scope, cancelled, scan: SessionScan::default(), number: 0 }
    }

    pub(super) fn scan_place(mut self, agent: &str, place: &TargetPlace) -> SessionScan {
        match place {
            TargetPlace::Living(source) => {
                if let Err(error) = self.scan_source(agent, source) {
                    self.note_problem(&source.path, &error);
                }
            }
            TargetPlace::Kept { home, files } => {
                for file in files {
                    if let Err(reason) = self.scan_copy(agent, home, file) {
                        self.scan.problems.push((file.path.clone(), reason));
                    }
                }
            }
            TargetPlace::Hosted(directory) => {
                let told = tell::read_log_conversation(directory, 0, &mut |entry| self.see(entry));
                if let Err(error) = told {
                    let path = directory.to_string_lossy().into_owned();
                    self.scan.problems.push((path, error.to_string()));
                }
            }
        }
        self.scan
    }

    /// What vanished or has nothing in it yet is no problem: there is nothing to be found.
    fn note_problem(&mut self, path: &Path, error: &ReadError) {
        if !error.is_absent() && !matches!(error, ReadError::Empty) {
            let path = path.to_string_lossy().into_owned();
            self.scan.problems.push((path, error.to_string()));
        }
    }

    fn scan_source(&mut self, agent: &str, source: &TranscriptSource) -> Result<(), ReadError> {
        let Some(adapter) = adapters::by_id(agent) else { return Ok(()) };
        let mut has_large_lines = false;
        if adapter.is_plain_text(source) {
            let (file, stamp) = adapters::files::open_file(&source.root, &source.path)?;
            let raw = self.scan_raw(file)?;
            self.scan.bytes += raw.bytes;
            if !raw.may_hold {
                return Ok(());
            }
            has_large_lines = raw.longest_line > LARGE_LINE_BYTES;
            for range in &raw.oversized {
                self.scan_oversized(source, range.clone())?;
            }
            if stamp.bytes > adapters::files::MAX_LINES_FILE {
                let reason = "too large to be searched whole: its middle was left out";
                let path = source.path.to_string_lossy().into_owned();
                self.scan.problems.push((path, reason.to_owned()));
            }
        } else {
            self.scan.bytes += source.bytes.unwrap_or(source.stamp.bytes);
        }
        // A turn that was given up by a panic elsewhere is as good as any.
        let _turn = has_large_lines.then(|| LARGE_LINE_TURN.lock());
        if !self.is_cancelled() {
            let cancelled = self.cancelled;
            adapters::files::read_while_wanted(cancelled, || {
                converse::read_conversation(agent, source, 0, &mut |entry| self.see(entry))
            })?;
        }
        Ok(())
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Looks through the raw bytes to their end, or only until it is known that they must be decoded.
    fn scan_raw(&self, mut file: impl Read) -> Result<RawScan, ReadError> {
        let prefilter = self.query.prefilter();
        let overlap = prefilter.overlap();
        let mut raw = RawScan::default();
        let (mut kept, mut line_start) = (0, 0);
        with_chunk(overlap + RAW_CHUNK_BYTES, |buffer| {
            loop {
                if self.is_cancelled() {
                    return Ok(RawScan { may_hold: false, ..raw });
                }
                let count = match file.read(&mut buffer[kept..]) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error.into()),
                };
                let filled = kept + count;
                raw.may_hold |= !raw.may_hold && prefilter.may_hold(&buffer[..filled]);
                let fresh = &buffer[kept..filled];
                if let Some(first) = memchr::memchr(b'\n', fresh) {
                    raw.end_line(line_start, raw.bytes + first as u64);
                    let last = memchr::memrchr(b'\n', fresh).unwrap_or(first);
                    line_start = raw.bytes + last as u64 + 1;
                }
                raw.bytes += count as u64;
                kept = overlap.min(filled);
                buffer.copy_within(filled - kept..filled, 0);
            }
            raw.end_line(line_start, raw.bytes);
            Ok(raw)
        })
    }

    /// A line that no adapter reads.
    fn scan_oversized(
        &mut self,
        source: &TranscriptSource,
        range: std::ops::Range<u64>,
    ) -> Result<(), ReadError> {
        use std::io::{Seek, SeekFrom};

        let (mut file, _) = adapters::files::open_file(&source.root, &source.path)?;
        file.seek(SeekFrom::Start(range.start))?;
        let mut file = file.take(range.end - range.start);
        let mut record = OversizedRecord::new(self.query);
        with_chunk(RAW_CHUNK_BYTES, |buffer| {
            loop {
                match file.read(buffer)? {
                    count if count == 0 || self.is_cancelled() => return Ok(()),
                    count => record.feed(&buffer[..count]),
                }
            }
        })
        .map_err(ReadError::Io)?;
        let is_wanted = self.scope.roles.is_empty() && self.scope.tool.is_none();
        if let Some(text) = record.finish().filter(|_| is_wanted) {
            let entry = ConversationEntry::new(None, ConversationRole::System, text);
            self.keep_hit(None, entry);
        }
        Ok(())
    }

    /// A copy in the vault: the lines of a file, or entries of a conversation.
    fn scan_copy(&mut self, agent: &str, home: &Path, file: &KeptFile) -> Result<(), String> {
        self.number = 0;
        self.scan.bytes += file.bytes;
        let open = || vault::open_copy(home, file).map_err(|error| error.to_string());
        let raw = self.scan_raw(open()?).map_err(|error| error.to_string())?;
        if !raw.may_hold {
            return Ok(());
        }
        let tells = adapters::by_id(agent).and_then(<dyn Adapter>::line_conversation);
        let copy = open()?;
        let told = match (file.is_of_file(), tells) {
            (true, Some(tell_line)) => adapters::files::lines_from(copy, 0, |line| {
                tell_line(line, &mut |entry| self.see(entry));
            }),
            (true, None) => {
                // One document: its texts, without who said them.
                adapters::files::lines_from(copy, 0, |line| self.see_texts(line))
            }
            (false, _) => adapters::files::lines_from(copy, 0, |line| {
                if let Ok(entry) = serde_json::from_slice::<ConversationEntry>(line) {
                    self.see(entry);
                }
            }),
        };
        told.map(drop).map_err(|error| error.to_string())
    }

    fn see_texts(&mut self, line: &[u8]) {
        let mut record = OversizedRecord::new(self.query);
        record.feed(line);
        if let Some(text) = record.finish() {
            self.number += 1;
            let entry = ConversationEntry::new(None, ConversationRole::System, text);
            self.keep_hit(None, entry);
        }
    }

    /// Looks at one entry.
    fn see(&mut self, mut entry: ConversationEntry) {
        self.number += 1;
        let scope = self.scope;
        let wanted = (scope.roles.is_empty() || scope.roles.contains(&entry.role))
            && scope.tool.as_ref().is_none_or(|tool| entry.tool.as_ref() == Some(tool))
            && scope.since.is_none_or(|since| entry.at.is_none_or(|at| at >= since));
        if !wanted || self.is_cancelled() {
            return;
        }
        if entry.role == ConversationRole::Tool
            && let Some(values) = input_values(&entry.text)
        {
            entry.text = values;
        }
        if self.query.matches(&entry.text) {
            self.keep_hit(Some(self.number), entry);
        }
    }

    fn keep_hit(&mut self, number: Option<u64>, entry: ConversationEntry) {
        self.scan.total += 1;
        if self.scan.hits.len() < self.scope.most {
            self.scan.hits.push(excerpt(self.query, number, entry, self.scope.context));
        }
    }
}

/// What the raw bytes of a file say.
#[derive(Debug, Default)]
struct RawScan {
    may_hold: bool,
    bytes: u64,
    /// Only of lines that are longer than a chunk, which are all that matter.
    longest_line: u64,
    /// Lines that no adapter reads.
    oversized: Vec<std::ops::Range<u64>>,
}

impl RawScan {
    fn end_line(&mut self, start: u64, end: u64) {
        let length = end.saturating_sub(start);
        self.longest_line = self.longest_line.max(length);
        if length > MAX_RECORD_BYTES as u64 {
            self.oversized.push(start..end);
        }
    }
}

std::thread_local! {
    /// The chunk, kept from file to file: a fresh one is cleared by the system at every use.
    static CHUNK: std::cell::Cell<Vec<u8>> = const { std::cell::Cell::new(Vec::new()) };
}

fn with_chunk<T>(size: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    CHUNK.with(|chunk| {
        let mut buffer = chunk.take();
        buffer.resize(size.max(buffer.len()), 0);
        let done = work(&mut buffer[..size]);
        chunk.replace(buffer);
        done
    })
}

/// The values of a tool's input, decoded, without the names of its fields. `None` if it is no JSON.
fn input_values(input: &str) -> Option<String> {
    fn add(value: &serde_json::Value, out: &mut String) {
        match value {
            serde_json::Value::String(text) => {
                out.push_str(text);
                out.push('\n');
            }
            serde_json::Value::Number(number) => {
                out.push_str(&number.to_string());
                out.push('\n');
            }
            serde_json::Value::Array(values) => values.iter().for_each(|value| add(value, out)),
            serde_json::Value::Object(fields) => fields.values().for_each(|value| add(value, out)),
            serde_json::Value::Null | serde_json::Value::Bool(_) => {}
        }
    }
    if !input.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let value = serde_json::from_str::<serde_json::Value>(input).ok()?;
    let mut out = String::new();
    add(&value, &mut out);
    out.pop();
    Some(out)
}

/// A text of one line around its first match, and where the matches are.
pub(super) fn cut_around_match(
    query: &SearchQuery,
    text: &str,
) -> (String, Vec<std::ops::Range<usize>>) {
    let entry = ConversationEntry::new(None, ConversationRole::System, text.to_owned());
    let hit = excerpt(query, None, entry, 0);
    (hit.entry.text, hit.ranges)
}

/// The lines around the first match.
fn excerpt(
    query: &SearchQuery,
    number: Option<u64>,
    mut entry: ConversationEntry,
    context: usize,
) -> EntryHit {
    let text = std::mem::take(&mut entry.text);
    let first = query.ranges_in(&text).into_iter().next().unwrap_or(0..0);
    let before = text[..first.start].rmatch_indices('\n').nth(context).map_or(0, |(at, _)| at + 1);
    let after = text[first.end..].match_indices('\n').nth(context);
    let after = after.map_or(text.len(), |(at, _)| first.end + at);
    // Long lines: the match stays in sight.
    let from =
        before.max(text.ceil_char_boundary(first.start.saturating_sub(MAX_EXCERPT_BYTES / 4)));
    let to = after.min(text.floor_char_boundary(from + MAX_EXCERPT_BYTES));
    entry.text = text[from..to.max(from)].to_owned();
    let mut ranges = query.ranges_in(&entry.text);
    if ranges.is_empty() && first.start < to {
        // A match that is longer than what is shown.
        ranges.push(first.start - from..entry.text.len());
    }
    EntryHit { number, entry, cut: from > 0 || to < text.len(), ranges }
}

#[cfg(test)]
mod tests {
    use super::super::query::QueryOptions;
    use super::*;
    use model::summary::KeptForm;

    fn scan(place: &TargetPlace, agent: &str, query: &str) -> SessionScan {
        let query = SearchQuery::parse(query, QueryOptions::default()).unwrap();
        let scope = EntryScope { most: 10, ..EntryScope::default() };
        let cancelled = Arc::default();
        SessionScanner::new(&query, &scope, &cancelled).scan_place(agent, place)
    }

    #[test]
    fn row_78_copies_in_the_vault_are_searched_whatever_was_kept() {
        use sys::machine::Machine;

        let home = tempfile::tempdir().unwrap();
        let line = br#"{"type":"user","message":{"content":"one"}}
{"type":"user","message":{"content":"the caf\u00e9 needle"}}
"#;
        let entry = br#"{"role":"user","text":"a needle of a database"}"#;
        let document = br#"{"messages":[{"needle":"no"},{"text":"a needle of a document"}]}"#;
        let keep = |path: &str, form, bytes: &[u8]| {
            let machine = Machine::with_home(home.path().to_owned());
            let file = vault::keep_copy(&machine, path, form, bytes).unwrap();
            TargetPlace::Kept { home: home.path().to_owned(), files: vec![file] }
        };
        let claude = keep("/a.jsonl", KeptForm::File, line);
        let found = scan(&claude, "claude-code", "café needle");
        assert_eq!((found.total, found.hits[0].number), (1, Some(2)));
        assert!(found.problems.is_empty());
        let rows = keep("/o.db#s", KeptForm::Conversation, entry);
        assert_eq!(scan(&rows, "opencode", "needle").hits[0].number, Some(1));
        let whole = keep("/t.json", KeptForm::File, document);
        assert_eq!(scan(&whole, "amp", "needle").total, 1);
        assert_eq!(scan(&whole, "amp", "messages").total, 0);

        let TargetPlace::Kept { files, .. } = &claude else { unreachable!() };
        std::fs::write(vault::copy_path(home.path(), &files[0].sha256), b"damaged").unwrap();
        assert_eq!(scan(&claude, "claude-code", "needle").problems[0].0, "/a.jsonl");
    }

    #[test]
    fn a_tools_input_is_its_values() {
        let values = |text: &str| input_values(text);
        assert_eq!(values(r#"{"a":"x\ny","b":[1,true,{"c":"z"}]}"#).unwrap(), "x\ny\n1\nz");
        assert_eq!(values("*** Begin Patch"), None);
    }

    #[test]
    fn a_long_line_is_cut_around_its_match() {
        let query = SearchQuery::parse("needle", QueryOptions::default()).unwrap();
        let text = format!("{}needle{}", "é".repeat(100_000), "é".repeat(100_000));
        let entry = ConversationEntry::new(None, ConversationRole::User, text);
        let hit = excerpt(&query, Some(1), entry, 1);
        assert!(hit.cut && hit.entry.text.len() <= MAX_EXCERPT_BYTES);
        assert_eq!(&hit.entry.text[hit.ranges[0].clone()], "needle");
    }
}
