//! A lossless parser of `sessions.json`.
//!
//! `sessions.json` is one object from key to entry. It is taken apart into entries whose bytes stay
//! where they are: an entry is removed by leaving out its bytes, a field is changed by putting others in
//! the place of its own, and everything else, unknown fields, odd order and white space included, is
//! written back as it was read. What is not such an object is
//! an error, never an empty index.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::rules::key::SessionKey;

mod patch;
mod view;

pub use view::EntryView;
use view::{BorrowedText, read_entry};

#[derive(Debug)]
pub struct IndexDocument<'a> {
    text: &'a str,
    /// Its entries, in the order in which they are written.
    pub entries: Vec<StoreEntry<'a>>,
}

#[derive(Debug)]
pub struct StoreEntry<'a> {
    /// Its key, as it is written.
    pub key: Cow<'a, str>,
    /// Its value, as it is written.
    pub raw: &'a str,
    /// What the value says.
    pub view: EntryView<'a>,
    /// Why it is no session, if it is none.
    pub fault: Option<EntryFault>,
    /// Its bytes, from the comma before it to its end.
    span: Range<usize>,
}

impl StoreEntry<'_> {
    /// How many bytes of the index it takes.
    pub fn byte_len(&self) -> usize {
        self.span.len()
    }

    /// Its value with another `sessionFile`, everything else as it is written.
    pub fn with_session_file(&self, path: &str) -> String {
        patch::with_text(self.raw, "sessionFile", path)
    }
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryEdit<'t> {
    /// It stays as it is written.
    Keep,
    /// It stays, with this value.
    Value(&'t str),
    Remove,
}

/// Why an entry is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryFault {
    /// `null`, a text, a number, a list.
    NotAnObject,
    /// Its session's id would be no file's name.
    SessionId,
}

impl EntryFault {
    pub const fn reason_text(self) -> &'static str {
        match self {
            Self::NotAnObject => "the entry is not an object",
            Self::SessionId => "its sessionId cannot be the name of a file",
        }
    }
}

/// What is wrong with an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexDocumentError {
    /// Nothing in it.
    Empty,
    /// Another kind of JSON.
    NotAnObject,
    /// Not JSON, or cut off.
    Broken(String),
}

impl fmt::Display for IndexDocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::NotAnObject => f.write_str("it is not an object from keys to entries"),
            Self::Broken(why) => write!(f, "it is cut off or damaged ({why})"),
        }
    }
}

impl std::error::Error for IndexDocumentError {}

impl<'a> IndexDocument<'a> {
    /// Takes an index apart.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, IndexDocumentError> {
        let (document, fault) = Self::parse_salvaging(bytes);
        fault.map_or(Ok(document), Err)
    }

    /// As much of an index as can be read, and what is wrong with the rest.
    pub fn parse_salvaging(bytes: &'a [u8]) -> (Self, Option<IndexDocumentError>) {
        let (text, broken) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(error) => {
                let (sound, _) = bytes.split_at(error.valid_up_to());
                (std::str::from_utf8(sound).unwrap_or(""), Some("not UTF-8".to_owned()))
            }
        };
        let mut entries = Vec::new();
        let fault = match text.trim_ascii_start().as_bytes().first() {
            None => Some(IndexDocumentError::Empty),
            Some(b'{') => {
                let mut json = serde_json::Deserializer::from_str(text);
                let read = json.deserialize_map(Entries { text, entries: &mut entries });
                let read = read.and_then(|()| json.end());
                read.err().map(|error| error.to_string()).or(broken).map(IndexDocumentError::Broken)
            }
            Some(_) => Some(IndexDocumentError::NotAnObject),
        };
        (Self { text, entries }, fault)
    }

    /// The index as it is written.
    pub fn source_text(&self) -> &'a str {
        self.text
    }

    /// How many bytes [`IndexDocument::without_entries`] gives.
    pub fn size_without(&self, remove: impl Fn(usize) -> bool) -> usize {
        let mut bytes = self.text.len();
        let mut first = None;
        for (index, entry) in self.entries.iter().enumerate() {
            if remove(index) {
                bytes -= entry.span.len();
            } else {
                first.get_or_insert(index);
            }
        }
        match first {
            None => 2,
            Some(0) => bytes,
            // The first one that is left loses its comma.
            Some(index) => {
                let own = &self.text[self.entries[index].span.clone()];
                bytes - (own.len() - without_comma(own).len())
            }
        }
    }

    /// The index without some of its entries, everything else as it was.
    pub fn without_entries(&self, remove: impl Fn(usize) -> bool) -> String {
        self.with_edits(|index| if remove(index) { EntryEdit::Remove } else { EntryEdit::Keep })
    }

    /// The index with some of its entries changed, everything else as it was.
    pub fn with_edits<'t>(&self, edit: impl Fn(usize) -> EntryEdit<'t>) -> String {
        let mut text = String::with_capacity(self.text.len());
        let mut first = true;
        for (index, entry) in self.entries.iter().enumerate() {
            let value = match edit(index) {
                EntryEdit::Keep => entry.raw,
                EntryEdit::Value(value) => value,
                EntryEdit::Remove => continue,
            };
            if first {
                text.push_str(&self.text[..self.entries[0].span.start]);
            }
            let name = &self.text[entry.span.start..entry.span.end - entry.raw.len()];
            text.push_str(if first && index > 0 { without_comma(name) } else { name });
            text.push_str(value);
            first = false;
        }
        if first {
            return "{}".to_owned();
        }
        let end = self.entries.last().map_or(0, |last| last.span.end);
        text.push_str(&self.text[end..]);
        text
    }

    /// The index with `value` under `key` in lower case, in the place of all that differ from it only
    /// in case: the newest of them is what is replaced.
    pub fn with_entry(&self, key: &str, value: &str) -> String {
        let key = SessionKey::new(key);
        let same = |entry: &StoreEntry<'_>| SessionKey::new(&entry.key).as_str() == key.as_str();
        let newest = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| same(entry))
            .max_by_key(|(_, entry)| entry.view.updated_at)
            .map(|(index, _)| index);
        let name = serde_json::Value::from(key.as_str()).to_string();
        let written = format!("\n  {name}: {value}");
        let mut parts: Vec<String> = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            if Some(index) == newest {
                parts.push(written.clone());
            } else if !same(entry) {
                let bytes = &self.text[entry.span.clone()];
                let bytes = if index == 0 { bytes } else { without_comma(bytes) };
                parts.push(bytes.to_owned());
            }
        }
        if newest.is_none() {
            parts.push(written);
        }
        format!("{{{}\n}}", parts.join(","))
    }
}

/// A whole index of entries that are already JSON, as OpenClaw writes one.
pub fn write_index<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::from("{");
    for (key, value) in entries {
        text.push_str(if text.len() == 1 { "\n  " } else { ",\n  " });
        text.push_str(&serde_json::Value::from(key).to_string());
        text.push_str(": ");
        text.push_str(value);
    }
    text.push_str(if text.len() == 1 { "}" } else { "\n}" });
    text
}

/// An entry's bytes without the comma before it. White space may stand in front of that.
fn without_comma(bytes: &str) -> &str {
    bytes.split_once(',').map_or(bytes, |(_, rest)| rest)
}

/// Collects the entries of the outermost object.
struct Entries<'d, 'a> {
    text: &'a str,
    entries: &'d mut Vec<StoreEntry<'a>>,
}

impl<'a> Visitor<'a> for Entries<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object from keys to entries")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        let base = self.text.as_ptr() as usize;
        let mut from = self.text.find('{').map_or(0, |at| at + 1);
        while let Some(key) = map.next_key::<BorrowedText<'a>>()? {
            let raw: &'a RawValue = map.next_value()?;
            let raw = raw.get();
            // The value is a part of the text: where it ends is where it begins plus its length.
            let to = raw.as_ptr() as usize - base + raw.len();
            let (view, fault) = read_entry(raw);
            self.entries.push(StoreEntry { key: key.0, raw, view, fault, span: from..to });
            from = to;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &str = "{ \"b\" : {\"z\":1,\"sessionId\":\"s1\",\"a\":[1 , 2]}\n\t,\"a\":{\"updatedAt\":17.0,\"label\":\"\\u00e9\\n\"},\r\n \"c\":null }\n";

    fn document() -> IndexDocument<'static> {
        IndexDocument::parse(ODD.as_bytes()).unwrap()
    }

    #[test]
    fn row_63_what_is_kept_keeps_every_byte() {
        let document = document();
        assert_eq!(document.without_entries(|_| false), ODD);
        let rest = document.without_entries(|index| index == 0);
        assert_eq!(
            rest,
            "{\"a\":{\"updatedAt\":17.0,\"label\":\"\\u00e9\\n\"},\r\n \"c\":null }\n"
        );
        for removed in 0..8_usize {
            let gone = |index: usize| removed & (1 << index) != 0;
            let text = document.without_entries(gone);
            assert_eq!(text.len(), document.size_without(gone), "{removed}");
            let left = IndexDocument::parse(text.as_bytes()).unwrap();
            let kept: Vec<&str> = document
                .entries
                .iter()
                .enumerate()
                .filter(|(index, _)| !gone(*index))
                .map(|(_, entry)| entry.raw)
                .collect();
            assert_eq!(left.entries.iter().map(|entry| entry.raw).collect::<Vec<_>>(), kept);
        }
    }

    #[test]
    fn row_63_what_is_changed_changes_nothing_beside_it() {
        let document = document();
        let edit = |index: usize| match index {
            0 => EntryEdit::Remove,
            1 => EntryEdit::Value("{}"),
            _ => EntryEdit::Keep,
        };
        assert_eq!(document.with_edits(edit), "{\"a\":{},\r\n \"c\":null }\n");
        assert_eq!(document.with_edits(|_| EntryEdit::Remove), "{}");
    }

    #[test]
    fn entries_are_looked_into_loosely() {
        let document = document();
        let view = &document.entries[1].view;
        assert_eq!(view.updated_at, Some(model::time::Time::from_millis(17)));
        assert_eq!(view.label.as_deref(), Some("é\n"));
        assert_eq!(document.entries[2].fault, Some(EntryFault::NotAnObject));
        let odd = br#"{"a":{"updatedAt":"x","sessionId":"../x","updatedAt":3,"origin":{"chatType":"group"},
            "compactionCheckpoints":[{"preCompaction":{"sessionFile":"/d/c.jsonl"}}],
            "skillsSnapshot":{"promptRef":{"hash":"ab"}},"model":7}}"#;
        let document = IndexDocument::parse(odd).unwrap();
        let entry = &document.entries[0];
        assert_eq!(entry.fault, Some(EntryFault::SessionId));
        assert_eq!(entry.view.updated_at, Some(model::time::Time::from_millis(3)));
        assert_eq!(entry.view.origin_chat_type.as_deref(), Some("group"));
        assert_eq!(entry.view.checkpoints, ["/d/c.jsonl"]);
        assert_eq!(entry.view.prompts, ["ab"]);
        assert_eq!(entry.view.model, None);
    }

    #[test]
    fn what_is_no_index_is_an_error() {
        use IndexDocumentError as E;
        assert_eq!(IndexDocument::parse(b"").unwrap_err(), E::Empty);
        assert_eq!(IndexDocument::parse(b" \n").unwrap_err(), E::Empty);
        assert_eq!(IndexDocument::parse(b"[]").unwrap_err(), E::NotAnObject);
        assert_eq!(IndexDocument::parse(b"null").unwrap_err(), E::NotAnObject);
        for broken in ["{", "{}x", r#"{"a":{"b":1}"#, r#"{"a":}"#, "{\"a\":\"\u{0}"] {
            let error = IndexDocument::parse(broken.as_bytes()).unwrap_err();
            assert!(matches!(error, E::Broken(_)), "{broken}: {error:?}");
        }
        assert!(matches!(IndexDocument::parse(b"{\"\xff\":1}").unwrap_err(), E::Broken(_)));
        assert_eq!(IndexDocument::parse(b"{}").unwrap().entries.len(), 0);
        let (saved, fault) = IndexDocument::parse_salvaging(br#"{"a":{"sessionId":"s"},"b":{"x""#);
        assert_eq!((saved.entries.len(), fault.is_some()), (1, true));
    }

    #[test]
    fn row_64_keys_that_differ_in_case_become_one() {
        let text =
            r#"{"Agent:Main:X":{"updatedAt":1,"n":1},"k":{},"agent:main:x":{"updatedAt":2}}"#;
        let document = IndexDocument::parse(text.as_bytes()).unwrap();
        let written = document.with_entry("AGENT:main:x", r#"{"updatedAt":3}"#);
        let after = IndexDocument::parse(written.as_bytes()).unwrap();
        let keys: Vec<&str> = after.entries.iter().map(|entry| &*entry.key).collect();
        assert_eq!(keys, ["k", "agent:main:x"]);
        assert_eq!(after.entries[1].raw, r#"{"updatedAt":3}"#);
        let empty = IndexDocument::parse(b"{}").unwrap().with_entry("A", "{}");
        assert_eq!(empty, write_index([("a", "{}")]));
    }
}
