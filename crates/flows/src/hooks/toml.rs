//! Hooks in TOML: `[[hooks]]` tables at the end of a file, and the program that Codex notifies.
//! The parser says where things are; the text is changed by insertions and removals only.

use std::ops::Range;

use toml_edit::{Document, Item, Table};

use super::command::{self, HOOK_VERSION, OstlerCommand};
use super::{EditError, HookEntry, State, Wiring, judge_commands};
use model::edit::splice::{Splices, line_ending};

const NOTIFY: &str = "notify";

/// How far ostler's `[[hooks]]` are in a text.
pub(super) fn hooks_state(wiring: &Wiring<'_>, text: &str) -> Result<State, EditError> {
    let document = parse_document(text)?;
    let ours: Vec<(&Table, OstlerCommand)> = find_own_hooks(wiring, &document)?;
    let is = |table: &Table, entry: &HookEntry| {
        table.len() == 3
            && text_of(table, "event") == Some(entry.event)
            && text_of(table, "command") == Some(&entry.command)
            && table.get("timeout").and_then(Item::as_integer) == Some(entry.seconds.into())
    };
    let expected =
        |entry: &HookEntry| ours.iter().filter(|(table, _)| is(table, entry)).count() == 1;
    let complete = ours.len() == wiring.entries.len() && wiring.entries.iter().all(expected);
    Ok(judge_commands(ours.iter().map(|(_, command)| command), wiring.program, complete))
}

/// The text with ostler's `[[hooks]]` at its end.
pub(super) fn add_hooks(wiring: &Wiring<'_>, text: &str) -> Result<String, EditError> {
    find_own_hooks(wiring, &parse_document(text)?)?;
    let line = line_ending(text);
    let mut out = text.to_owned();
    for entry in &wiring.entries {
        if !out.is_empty() {
            let ends = out.ends_with('\n');
            out.push_str(if ends { "" } else { line });
            out.push_str(line);
        }
        let (command, seconds) = (basic_string(&entry.command), entry.seconds);
        out.push_str(&format!(
            "[[hooks]]{line}event = \"{}\"{line}command = {command}{line}timeout = {seconds}{line}",
            entry.event
        ));
    }
    parse_document(&out)?;
    Ok(out)
}

/// The text without ostler's `[[hooks]]`.
pub(super) fn remove_hooks(wiring: &Wiring<'_>, text: &str) -> Result<String, EditError> {
    let document = parse_document(text)?;
    let mut splices = Splices::default();
    for (table, _) in find_own_hooks(wiring, &document)? {
        let Some(header) = table.span() else { continue };
        let values = table.iter().filter_map(|(_, item)| item.span()).map(|span| span.end);
        let end = values.max().unwrap_or(header.end).max(header.end);
        splices.remove(with_blank_lines_before(text, header.start..end_of_line(text, end)));
    }
    Ok(splices.apply(text))
}

/// How far the notified program is ostler; `None` if it is another one.
pub(super) fn notify_state(wiring: &Wiring<'_>, text: &str) -> Result<Option<State>, EditError> {
    let document = parse_document(text)?;
    let Some(item) = document.get(NOTIFY) else { return Ok(Some(State::NotInstalled)) };
    let Some(program) = notified_program(wiring, item) else { return Ok(None) };
    let line = item.span().map_or("", |span| &text[span.start..end_of_line(text, span.end)]);
    let mark = line.rsplit_once("# ostler-hooks ").and_then(|(_, mark)| mark.trim().parse().ok());
    let ours = OstlerCommand { program, version: mark };
    Ok(Some(judge_commands([&ours].into_iter(), wiring.program, mark.is_some())))
}

/// The text in which ostler is the notified program.
pub(super) fn with_notify(
    wiring: &Wiring<'_>,
    event: &str,
    text: &str,
) -> Result<String, EditError> {
    let document = parse_document(text)?;
    let line = line_ending(text);
    let words = [
        basic_string(wiring.program),
        basic_string("hook"),
        basic_string(wiring.agent),
        basic_string(event),
    ];
    let key = format!("{NOTIFY} = [{}] # ostler-hooks {HOOK_VERSION}{line}", words.join(", "));
    // After the last key that is in no table.
    let values = document.iter().filter(|(_, item)| item.is_value());
    let last = values.filter_map(|(_, item)| item.span()).map(|span| span.end).max();
    let at = last.map_or(0, |end| end_of_line(text, end));
    let mut splices = Splices::default();
    let separate = at > 0 && !text[..at].ends_with('\n');
    splices.insert(at, if separate { format!("{line}{key}") } else { key });
    let out = splices.apply(text);
    parse_document(&out)?;
    Ok(out)
}

/// The text in which ostler is not the notified program.
pub(super) fn without_notify(wiring: &Wiring<'_>, text: &str) -> Result<String, EditError> {
    let document = parse_document(text)?;
    let ours = document.get(NOTIFY).filter(|item| notified_program(wiring, item).is_some());
    let Some(span) = ours.and_then(Item::span) else { return Ok(text.to_owned()) };
    let start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let mut splices = Splices::default();
    splices.remove(start..end_of_line(text, span.end));
    Ok(splices.apply(text))
}

/// The hash that Codex has trusted for a hook, by the name it gives the hook.
pub(super) fn trusted_hash(text: &str, name: &str) -> Option<String> {
    let document = parse_document(text).ok()?;
    let hook = document.get("hooks")?.get("state")?.get(name)?;
    let enabled = hook.get("enabled").and_then(Item::as_bool) != Some(false);
    hook.get("trusted_hash")?.as_str().filter(|_| enabled).map(str::to_owned)
}

fn parse_document(text: &str) -> Result<Document<&str>, EditError> {
    Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let before = &text.as_bytes()[..at];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        EditError::Syntax {
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            column: at - line_start + 1,
            reason: error.message().to_owned(),
        }
    })
}

/// The program of the first hook of ostler's.
pub(super) fn hooked_program(wiring: &Wiring<'_>, text: &str) -> Result<Option<String>, EditError> {
    let document = parse_document(text)?;
    let first = find_own_hooks(wiring, &document)?.into_iter().next();
    Ok(first.map(|(_, command)| command.program))
}

/// The program that is notified, if it is ostler.
pub(super) fn notify_program(wiring: &Wiring<'_>, text: &str) -> Result<Option<String>, EditError> {
    let document = parse_document(text)?;
    Ok(document.get(NOTIFY).and_then(|item| notified_program(wiring, item)))
}

fn find_own_hooks<'d>(
    wiring: &Wiring<'_>,
    document: &'d Document<&str>,
) -> Result<Vec<(&'d Table, OstlerCommand)>, EditError> {
    let Some(hooks) = document.get("hooks") else { return Ok(Vec::new()) };
    let tables = hooks
        .as_array_of_tables()
        .ok_or_else(|| EditError::wrong_shape("`hooks` is not written as `[[hooks]]` tables"))?;
    let ours = |table: &'d Table| {
        Some((table, command::parse_command(text_of(table, "command")?, wiring.agent)?))
    };
    Ok(tables.iter().filter_map(ours).collect())
}

/// The program, if what is notified is ostler.
fn notified_program(wiring: &Wiring<'_>, item: &Item) -> Option<String> {
    let words: Vec<&str> =
        item.as_array()?.iter().map(|word| word.as_str()).collect::<Option<_>>()?;
    match words.as_slice() {
        [program, "hook", agent, ..] if *agent == wiring.agent => Some((*program).to_owned()),
        _ => None,
    }
}

fn text_of<'d>(table: &'d Table, key: &str) -> Option<&'d str> {
    table.get(key)?.as_str()
}

/// A basic string; what JSON escapes, TOML reads the same.
fn basic_string(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Behind the line break that ends the line with this position.
fn end_of_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |found| at + found + 1)
}

/// Takes in the empty lines before a range.
fn with_blank_lines_before(text: &str, range: Range<usize>) -> Range<usize> {
    let content = text[..range.start].trim_end().len();
    let start = if content == 0 { 0 } else { end_of_line(text, content) };
    start.min(range.start)..range.end
}
