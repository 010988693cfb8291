//! Redaction: takes secrets out of text that is given to others. Best effort, and it says so.
//!
//! Transcripts are JSON, in which a line break is the two letters `\n` and a quote is `\"`; rules for
//! text do not hold there. So every JSON string is decoded, redacted and written again, what
//! stands around it keeps its bytes, and only what is no JSON is looked at as it is. The rules are a
//! table of well-known formats (`data/secret-formats.txt`), what stands after a telling name
//! (`values`), and the places where programs expect a secret (`rules`).

mod rules;
mod values;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::IgnoredAny;

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

/// How deep JSON inside of strings of JSON is taken apart.
const MOST_DEPTH: usize = 6;

/// How many secrets of each kind were found.
pub type SecretKinds = BTreeMap<&'static str, u64>;

/// A text without what looks like a secret, and the kinds of what was taken out.
pub fn redact(text: &str) -> (String, SecretKinds) {
    let mut found = SecretKinds::new();
    let text = redact_document(text, 0, &mut found);
    (text.into_owned(), found)
}

/// Redacts a text that may be one JSON document, or lines of JSON among other lines.
fn redact_document<'a>(text: &'a str, depth: usize, found: &mut SecretKinds) -> Cow<'a, str> {
    if depth >= MOST_DEPTH || !text.contains(['{', '[', '"']) {
        return redact_text(text, found);
    }
    if is_json(text) {
        return redact_json(text, depth, found);
    }
    let mut out = String::with_capacity(text.len());
    // Lines that are no JSON belong together: a key block runs over many.
    let mut plain = 0;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        if is_json(line) {
            out.push_str(&redact_text(&text[plain..start], found));
            out.push_str(&redact_json(line, depth, found));
            plain = end;
        } else if is_torn_json(line) {
            out.push_str(&redact_text(&text[plain..start], found));
            let strings = redact_json(line, depth, found);
            out.push_str(&redact_text(&strings, found));
            plain = end;
        }
        start = end;
    }
    out.push_str(&redact_text(&text[plain..], found));
    Cow::Owned(out)
}

/// Whether a text is one JSON object, list or string.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[', '"'])
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Whether a line looks like a JSON record that is not whole: its strings are still strings.
fn is_torn_json(line: &str) -> bool {
    let line = line.trim_start();
    ["{\"", "[{\"", "[\""].iter().any(|start| line.starts_with(start))
}

/// Redacts the strings of JSON, the last of which may be cut off. Every other byte stays.
fn redact_json<'a>(json: &'a str, depth: usize, found: &mut SecretKinds) -> Cow<'a, str> {
    let mut out = String::new();
    let mut written = 0;
    let mut name: Option<String> = None;
    let mut at = 0;
    while let Some(start) = json[at..].find('"').map(|offset| at + offset) {
        // A name holds for its value, and for every element of a list.
        let between = &json[at..start];
        if between.contains(['{', '}', ']']) {
            name = None;
        }
        let (end, quote) = string_end(json, start);
        let token = &json[start..end];
        at = end;
        let is_name = json[end..].trim_start().starts_with(':');
        // A lone surrogate cannot be decoded: such a string is looked at as it is written.
        let closed = if quote.is_empty() { &format!("{}\"", token.trim_end()) } else { token };
        let Ok(decoded) = serde_json::from_str::<String>(closed) else {
            let inner = &token[1..token.len() - quote.len()];
            if let Cow::Owned(redacted) = redact_text(inner, found) {
                out.push_str(&json[written..start + 1]);
                out.push_str(&redacted);
                written = end - quote.len();
            }
            continue;
        };
        let redacted = match name.as_deref().filter(|_| !is_name) {
            Some(name) if values::is_secret(name, &decoded, values::Form::Quoted) => {
                *found.entry("named-value").or_default() += 1;
                Some(REDACTED.to_owned())
            }
            _ => match redact_document(&decoded, depth + 1, found) {
                Cow::Owned(text) if text != decoded => Some(text),
                _ => None,
            },
        };
        if let Some(text) = redacted {
            out.push_str(&json[written..start]);
            let string = serde_json::Value::String(text).to_string();
            out.push_str(if quote.is_empty() { &string[..string.len() - 1] } else { &string });
            written = end;
        }
        name = if is_name { Some(decoded) } else { name };
    }
    if written == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[written..]);
    Cow::Owned(out)
}

/// The end of the JSON string that begins at `start`, and the quote that closes it, if one does.
fn string_end(json: &str, start: usize) -> (usize, &'static str) {
    let bytes = json.as_bytes();
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return (at + 1, "\""),
            _ => at += 1,
        }
    }
    (bytes.len(), "")
}

/// Redacts plain text: what any rule finds is replaced, overlapping finds once.
fn redact_text<'a>(text: &'a str, found: &mut SecretKinds) -> Cow<'a, str> {
    let mut spans = rules::find(text);
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let mut out = String::with_capacity(text.len());
    let mut written = 0;
    for span in spans {
        if span.start >= written {
            out.push_str(&text[written..span.start]);
            out.push_str(REDACTED);
            *found.entry(span.kind).or_default() += 1;
        }
        written = written.max(span.end);
    }
    out.push_str(&text[written..]);
    Cow::Owned(out)
}
