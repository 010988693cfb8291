//! Rules that find secrets in plain text: formats, names with values, URLs, options of programs,
//! headers, key blocks.

use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};

use super::values::{self, Form};

/// Where a secret stands, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: &'static str,
}

/// Every secret in a text, in no order.
pub(super) fn find(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    find_formats(text, &mut spans);
    find_wrapped_formats(text, &mut spans);
    find_key_blocks(text, &mut spans);
    find_named_values(text, &mut spans);
    find_urls(text, &mut spans);
    find_in_places(text, &mut spans);
    extend_wrapped(text, &mut spans);
    spans
}

/// One line of the table.
struct Format {
    kind: &'static str,
    pattern: Regex,
}

static TABLE: &str = include_str!("../../data/secret-formats.txt");

/// What may stand before a word: anything that is no part of one, an escape as it is written in
/// JSON, the end of a colour.
const BEGINNING: &str = r"(?:^|[^A-Za-z0-9_-]|\\[nrtbf]|\[[0-9;]{0,12}m|%[0-9A-Fa-f]{2})";

/// The rows of the table that can be read: all of them, by the test `every_row_of_the_table_and_every_place_is_valid`.
fn rows() -> impl Iterator<Item = (&'static str, String)> {
    let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
    TABLE.lines().filter(is_row).filter_map(|line| {
        let (kind, rest) = line.split_once(char::is_whitespace)?;
        let (place, pattern) = rest.trim_start().split_once(char::is_whitespace)?;
        let pattern = pattern.trim_start();
        let pattern = match place {
            "word" => format!("{BEGINNING}(?P<secret>{pattern})"),
            _ => format!("(?P<secret>{pattern})"),
        };
        Some((kind, pattern))
    })
}

static FORMATS: LazyLock<Vec<Format>> = LazyLock::new(|| {
    let format = |(kind, pattern): (_, String)| {
        Regex::new(&pattern).ok().map(|pattern| Format { kind, pattern })
    };
    rows().filter_map(format).collect()
});

/// All formats at once: most texts have none of them.
static ANY_FORMAT: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new(FORMATS.iter().map(|format| format.pattern.as_str())).unwrap_or_default()
});

fn find_formats(text: &str, spans: &mut Vec<Span>) {
    for index in ANY_FORMAT.matches(text) {
        let format = &FORMATS[index];
        for found in format.pattern.captures_iter(text) {
            push_group(&found, "secret", format.kind, spans);
        }
    }
}

fn push_group(found: &Captures<'_>, name: &str, kind: &'static str, spans: &mut Vec<Span>) {
    if let Some(group) = found.name(name).filter(|group| !group.is_empty()) {
        spans.push(Span { start: group.start(), end: group.end(), kind });
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./+=".contains(&byte)
}

/// Finds tokens that are wrapped over lines: the text is put together where a line break stands
/// between two letters of a token, and only what spans such a place counts.
fn find_wrapped_formats(text: &str, spans: &mut Vec<Span>) {
    if !text.contains('\n') {
        return;
    }
    let bytes = text.as_bytes();
    let mut joined = Vec::with_capacity(bytes.len());
    // For each joint: where it is in the joined text, and how much was left out up to there.
    let mut joints: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let gap = gap_length(&bytes[at..]);
        let before = joined.last().copied().is_some_and(is_token_byte);
        if gap > 0 && before && bytes.get(at + gap).copied().is_some_and(is_token_byte) {
            let left_out = joints.last().map_or(0, |joint| joint.1) + gap;
            joints.push((joined.len(), left_out));
            at += gap;
        } else {
            joined.push(bytes[at]);
            at += 1;
        }
    }
    // Line breaks and blanks were left out, nothing else: it is still text.
    let Ok(joined) = String::from_utf8(joined) else { return };
    if joints.is_empty() {
        return;
    }
    let original = |offset: usize| {
        let before = joints.partition_point(|joint| joint.0 <= offset);
        offset + if before == 0 { 0 } else { joints[before - 1].1 }
    };
    let mut inside = Vec::new();
    find_formats(&joined, &mut inside);
    for span in inside {
        let (start, end) = (original(span.start), original(span.end - 1) + 1);
        if end - start > span.end - span.start {
            spans.push(Span { start, end, kind: span.kind });
        }
    }
}

/// The length of a line break with the indentation behind it, or 0.
fn gap_length(bytes: &[u8]) -> usize {
    let line_break = match bytes {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _ => return 0,
    };
    let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
    line_break + bytes[line_break..].iter().take_while(is_blank).count()
}

/// Takes the rest of a token into its span, where the line ends in it and the next begins with what
/// looks like more of it.
fn extend_wrapped(text: &str, spans: &mut [Span]) {
    let bytes = text.as_bytes();
    for span in spans {
        loop {
            let gap = gap_length(&bytes[span.end.min(bytes.len())..]);
            let rest = &text[span.end + gap..];
            let length = rest.bytes().take_while(|byte| is_token_byte(*byte)).count();
            if gap == 0 || !values::looks_random(&rest[..length], 8) {
                break;
            }
            span.end += gap + length;
        }
    }
}

static KEY_BEGINS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}|PuTTY-User-Key-File-[0-9]:")
        .ok()
});
static KEY_ENDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"-{4,5} ?END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}|Private-(?:MAC|Hash): ?[0-9a-f]+",
    )
    .ok()
});
static KEY_LINES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[A-Za-z0-9+/=]{16,}").ok());
static KEY_TAIL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?:[A-Za-z0-9+/=]{16,}(?:\s|\\[nr]|[0-9>|: ]){1,12})+-{4,5} ?END [A-Z0-9 ]*PRIVATE KEY",
    )
    .ok()
});

/// How far behind its first line the content of a key begins at the latest.
const KEY_CONTENT_WITHIN: usize = 400;

/// Finds blocks of private keys. One that is cut off runs to the end of the text: what looks like
/// something else there may be the key.
fn find_key_blocks(text: &str, spans: &mut Vec<Span>) {
    let (Some(begins), Some(ends), Some(lines), Some(tail)) =
        (&*KEY_BEGINS, &*KEY_ENDS, &*KEY_LINES, &*KEY_TAIL)
    else {
        return;
    };
    let kind = "private-key";
    let mut at = 0;
    while let Some(begin) = begins.find_at(text, at) {
        at = begin.end();
        let near = text.floor_char_boundary(begin.end() + KEY_CONTENT_WITHIN);
        // The first line alone is what people and programs look for, and no key.
        if !lines.is_match(&text[begin.end()..near]) {
            continue;
        }
        at = ends.find_at(text, begin.end()).map_or(text.len(), |end| end.end());
        spans.push(Span { start: begin.start(), end: at, kind });
    }
    for found in tail.find_iter(text) {
        spans.push(Span { start: found.start(), end: found.end(), kind });
    }
}

static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)(?:key|secret|token|pass|pwd|auth|cred|cookie)[a-z0-9_.-]{0,40}(?:\]|\\*["'`])?(?P<sep>[ \t]{0,8}(?:=>|:=|==?|:)[ \t]{0,8})"#,
    )
    .ok()
});

/// Finds values that stand after a name that tells what they are: `NAME=value`, `"name": "value"`.
fn find_named_values(text: &str, spans: &mut Vec<Span>) {
    let Some(names) = &*NAMES else { return };
    let mut at = 0;
    while let Some(found) = names.captures_at(text, at) {
        let (Some(whole), Some(separator)) = (found.get(0), found.name("sep")) else { return };
        at = whole.end();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let before = &text[..whole.start()];
        let start = before.trim_end_matches(is_part).len();
        let name = text[start..separator.start()].trim_end_matches(['"', '\'', '`', '\\', ']']);
        let (value, form) = value_at(text, separator.end(), separator.as_str(), name);
        if value.start < value.end && values::is_secret(name, &text[value.start..value.end], form) {
            spans.push(Span { start: value.start, end: value.end, kind: "named-value" });
            at = value.end;
        }
    }
}

/// The value that begins at `start`: to its closing quote, or to where an unquoted one ends.
fn value_at(
    text: &str,
    start: usize,
    separator: &str,
    name: &str,
) -> (std::ops::Range<usize>, Form) {
    let rest = &text[start..];
    let slashes = rest.len() - rest.trim_start_matches('\\').len();
    let quote = rest[slashes..].chars().next().filter(|c| matches!(c, '"' | '\'' | '`'));
    if let Some(quote) = quote {
        let opening = &rest[..slashes + 1];
        let inner = start + opening.len();
        let end = closing_quote(&text[inner..], opening, quote);
        return (inner..inner + end, Form::Quoted);
    }
    let is_tight = separator.trim() == separator && separator == "=";
    let form = if is_tight { Form::Assigned } else { Form::Loose };
    let line = rest.find(['\n', '\r']).map_or(rest, |end| &rest[..end]);
    if values::is_passphrase(name) {
        let end = line.find(['"', '`', '<']).unwrap_or(line.len());
        return (start..start + line[..end].trim_end().len(), Form::LastOnLine);
    }
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '`' | '<' | '>' | '&' | '|');
    let mut value = &line[..line.find(ends).unwrap_or(line.len())];
    // An escape as it is written in JSON ends it, and so does the next `name=`.
    for escape in ["\\n", "\\r", "\\t", "\\\"", "\\u"] {
        value = value.split(escape).next().unwrap_or(value);
    }
    for (index, _) in value.match_indices([';', ',']) {
        let next = &value[index + 1..];
        let name = next.split(['=', ':']).next().unwrap_or("");
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-. ".contains(c));
        if name.len() < next.len() && !name.is_empty() && is_name {
            value = &value[..index];
            break;
        }
    }
    let value = value.trim_end_matches([',', ';', '.', ')', ']', '}', '\'', '\\', ':']);
    let rest_of_line = line[value.len()..].trim_start_matches([',', ';', '.', ')', '}', '\'', '"']);
    let is_last = rest_of_line.trim().is_empty() || rest_of_line.trim_start().starts_with('#');
    let form = if form == Form::Loose && is_last { Form::LastOnLine } else { form };
    (start..start + value.len(), form)
}

/// Where a quoted text ends: at the same quote, escaped as often as the opening one.
fn closing_quote(text: &str, opening: &str, quote: char) -> usize {
    for (index, _) in text.match_indices(quote) {
        let slashes = index - text[..index].trim_end_matches('\\').len();
        if slashes < opening.len() {
            return index - slashes;
        }
    }
    text.find(['\n', '\r']).unwrap_or(text.len())
}

static URLS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"[A-Za-z][A-Za-z0-9+.-]{1,20}://(?P<rest>[^\s"'`<>\\]+)"#).ok());

/// Finds the password, or the token in its place, of a URL.
fn find_urls(text: &str, spans: &mut Vec<Span>) {
    let Some(urls) = &*URLS else { return };
    for found in urls.captures_iter(text) {
        let Some(rest) = found.name("rest") else { continue };
        let url = rest.as_str();
        let Some(at) = user_end(url) else { continue };
        let user = &url[..at];
        let (start, secret) = match user.split_once(':') {
            Some((name, password)) => (rest.start() + name.len() + 1, password),
            None if values::looks_random(user, 16) => (rest.start(), user),
            None => continue,
        };
        if !secret.is_empty() && !values::is_placeholder(secret) {
            spans.push(Span { start, end: rest.start() + at, kind: "url-password" });
        }
    }
}

/// Where the user of a URL ends: at the last `@` of its authority. A password with a slash in it
/// makes that look shorter than it is; a colon that no port follows tells.
fn user_end(url: &str) -> Option<usize> {
    let authority = url.split(['/', '?', '#']).next().unwrap_or(url);
    if let Some(at) = authority.rfind('@') {
        return Some(at);
    }
    let (_, port) = authority.split_once(':')?;
    if port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let at = url.rfind('@')?;
    let host = url[at + 1..].split(['/', ':', '?', '#']).next().unwrap_or("");
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_[]".contains(c);
    (!host.is_empty() && host.chars().all(is_host)).then_some(at)
}

/// A place where a program expects a secret.
struct Place {
    kind: &'static str,
    pattern: &'static str,
    /// Whether what stands there must also look like one.
    asks: Asks,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// Anything but a placeholder.
    NoPlaceholder,
    /// It must look random: the place is one where words stand too.
    Random,
    /// The first word of it must look random, or give something a name.
    BeginsRandom,
    /// Nothing: its form says it.
    Nothing,
}

/// Options of programs, headers, files with a form of their own. The group `secret` is what goes.
const PLACES: &[Place] = &[
    place(
        "command-line-password",
        r#"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mysqlsh|mariadb|mariadb-dump)\b[^\n|;&]*?\s-p(?P<secret>[^\s"'-][^\s"']*)"#,
    ),
    place(
        "command-line-password",
        r#"\b(?:mysql|mysqldump|mysqladmin|mysqlsh|mariadb)\b[^\n|;&]*?\s-p\\*["'](?P<secret>[^"'\n\\]+)"#,
    ),
    place("command-line-password", r#"\bsshpass\b[^\n|;&]*?\s-p\s*\\*["']?(?P<secret>[^\s"'\\]+)"#),
    place(
        "command-line-password",
        r#"\b(?:curl|wget|http|https|xh)\b[^\n|]*?\s(?:-u|-U|-a|--user|--proxy-user|--auth)[ =]?\\*["']?[^\s:"'\\]*:(?P<secret>[^\s"'\\]+)"#,
    ),
    place(
        "command-line-password",
        r#"\bredis-cli\b[^\n|;&]*?\s(?:-a|--pass)\s+\\*["']?(?P<secret>[^\s"'\\]+)"#,
    ),
    place(
        "command-line-password",
        r#"\b(?:docker|podman|buildah|helm|skopeo|oc|az|npm|gh)\b[^\n|;&]*?\blogin\b[^\n|;&]*?\s-p\s*\\*["']?(?P<secret>[^\s"'\\-][^\s"'\\]*)"#,
    ),
    place(
        "command-line-password",
        r#"\bldap(?:search|modify|add|delete|whoami|passwd)\b[^\n|;&]*?\s-w\s*\\*["']?(?P<secret>[^\s"'\\]+)"#,
    ),
    place(
        "command-line-password",
        r#"\b(?:zip|unzip|fcrackzip)\b[^\n|;&]*?\s-P\s*\\*["']?(?P<secret>[^\s"'\\]+)"#,
    ),
    place(
        "command-line-password",
        r#"\b(?:7z|7za|7zz|rar|unrar)\b[^\n|;&]*?\s-h?p(?P<secret>[^\s"'\\]+)"#,
    ),
    place(
        "command-line-password",
        r#"\b(?:smbclient|rpcclient|net|mount\.cifs)\b[^\n|;&]*?\s-U\s*\\*["']?[^\s%"'\\]+%(?P<secret>[^\s"'\\]+)"#,
    ),
    place(
        "command-line-password",
        r#"\bhtpasswd\b[^\n|;&]*?\s-[a-zA-Z]*b[a-zA-Z]*\s+\S+\s+\S+\s+(?P<secret>[^\s"'\\]+)"#,
    ),
    place(
        "command-line-password",
        r#"\b(?:sqlcmd|bcp|isql|osql)\b[^\n|;&]*?\s-P\s*\\*["']?(?P<secret>[^\s"'\\]+)"#,
    ),
    place(
        "command-line-password",
        r#"\bmongo(?:sh|dump|restore|export|import)?\b[^\n|;&]*?\s-p\s+\\*["']?(?P<secret>[^\s"'\\-][^\s"'\\]*)"#,
    ),
    place("command-line-password", r#"-pass(?:in|out)?\s+pass:(?P<secret>[^\s"'\\]+)"#),
    place(
        "command-line-password",
        r#"\s--?[a-z-]*(?:password|passwd|passphrase|api-?key|access-key|secret|token)\s+\\*["']?(?P<secret>[^\s"'\\-][^\s"'\\]*)"#,
    ),
    place(
        "command-line-password",
        r#"(?i)\becho\s+(?:-n\s+)?\\*["']?(?P<secret>[^\s"'\\|]+)\\*["']?\s*\|\s*(?:sudo\s+(?:-\w+\s+)*-S|docker login|passwd)"#,
    ),
    place(
        "command-line-password",
        r#"\becho\s+(?:-n\s+)?\\*["']?[a-z_][a-z0-9_-]*:(?P<secret>[^\s"'\\|]+)\\*["']?\s*\|\s*(?:sudo\s+)?chpasswd"#,
    ),
    place(
        "database-password",
        r#"(?i)\b(?:identified\s+(?:by|with\s+\S+\s+by)|(?:with|encrypted|set)\s+password(?:\s+for\s+\S+)?(?:\s*=)?)\s+\\*'(?P<secret>[^'\n]+)"#,
    ),
    place(
        "cookie",
        r#"(?i)(?:set-)?\bcookie\\*["']?\s*:\s*\\*["']?(?P<secret>[^\s"'\\=;]+=[^"'\r\n\\]{6,})"#,
    ),
    begins_random(
        "authorization",
        r#"(?i)\bauthorization\\*["']?\s*[:=]\s*\\*["']?(?:bearer|basic|token|digest|negotiate|apikey|api-key|bot|aws4-hmac-sha256|key)\s+(?P<secret>[^"'\r\n\\]{6,})"#,
    ),
    random(
        "authorization",
        r#"(?i)\bauthorization\\*["']?\s*[:=]\s*\\*["']?(?P<secret>[^\s"'\\]{8,})"#,
    ),
    random("authorization", r#"(?i)\b(?:bearer|basic)\s+(?P<secret>[A-Za-z0-9+/._=~-]{12,})"#),
    place(
        "netrc",
        r#"\b(?:machine\s+\S+|default)\s+login\s+\S+\s+password\s+(?P<secret>[^\s"\\]+)"#,
    ),
    place(
        "netrc",
        r#"\bmachine(?:\\[nrt]|\s)+[^\s\\]+(?:\\[nrt]|\s)+login(?:\\[nrt]|\s)+[^\s\\]+(?:\\[nrt]|\s)+password(?:\\[nrt]|\s)+(?P<secret>[^\s"\\]+)"#,
    ),
    place(
        "pgpass",
        r#"(?m)^[A-Za-z0-9.*_-]+:(?:5432|5433|6432|\*):[A-Za-z0-9_*-]+:[A-Za-z0-9_.*-]+:(?P<secret>[^\s"]+)\s*$"#,
    ),
    certain(
        "crypt-hash",
        r#"(?P<secret>\$(?:2[abxy]\$[0-9]{2}|argon2(?:id|i|d)\$v=[0-9]+|[156y])\$[A-Za-z0-9./,=$]{20,})"#,
    ),
];

const fn place(kind: &'static str, pattern: &'static str) -> Place {
    Place { kind, pattern, asks: Asks::NoPlaceholder }
}

const fn begins_random(kind: &'static str, pattern: &'static str) -> Place {
    Place { kind, pattern, asks: Asks::BeginsRandom }
}

const fn certain(kind: &'static str, pattern: &'static str) -> Place {
    Place { kind, pattern, asks: Asks::Nothing }
}

const fn random(kind: &'static str, pattern: &'static str) -> Place {
    Place { kind, pattern, asks: Asks::Random }
}

static PLACE_PATTERNS: LazyLock<Vec<Option<Regex>>> =
    LazyLock::new(|| PLACES.iter().map(|place| Regex::new(place.pattern).ok()).collect());
static ANY_PLACE: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(PLACES.iter().map(|place| place.pattern)).unwrap_or_default());

fn find_in_places(text: &str, spans: &mut Vec<Span>) {
    for index in ANY_PLACE.matches(text) {
        let (place, Some(pattern)) = (&PLACES[index], &PLACE_PATTERNS[index]) else { continue };
        for found in pattern.captures_iter(text) {
            let secret = found.name("secret").map_or("", |group| group.as_str());
            let goes = match place.asks {
                Asks::NoPlaceholder => !values::is_placeholder(secret),
                Asks::Random => values::looks_random(secret, 8),
                Asks::BeginsRandom => {
                    let first = secret.split_whitespace().next().unwrap_or("");
                    !values::is_placeholder(first)
                        && (first.contains('=')
                            || (first.len() >= 8 && first.contains(|c: char| c.is_ascii_digit()))
                            || values::looks_random(first, 6))
                }
                Asks::Nothing => true,
            };
            if goes {
                push_group(&found, "secret", place.kind, spans);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_and_every_place_is_valid() {
        let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert_eq!(FORMATS.len(), lines.count());
        assert_eq!(ANY_FORMAT.len(), FORMATS.len());
        assert_eq!(ANY_PLACE.len(), PLACES.len());
        assert!(PLACE_PATTERNS.iter().all(Option::is_some));
        assert!(KEY_BEGINS.is_some() && KEY_ENDS.is_some() && KEY_LINES.is_some());
        assert!(KEY_TAIL.is_some() && NAMES.is_some() && URLS.is_some());
        assert!(PLACES.iter().all(|place| place.pattern.contains("(?P<secret>")));
    }
}
