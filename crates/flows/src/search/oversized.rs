//! Records too large to be read whole, searched as a stream: the texts of a JSON line of any length,
//! decoded piece by piece, in memory that does not grow with it.

use super::query::SearchQuery;

/// How much text is looked through at once.
const WINDOW_BYTES: usize = 1 << 20;

/// How much of a window is looked at again with the next, so that nothing is lost between them.
const OVERLAP_BYTES: usize = 64 << 10;

/// A string longer than this is no key.
const MAX_KEY_BYTES: usize = 512;

/// What was found in one oversized record.
#[derive(Debug)]
pub(super) struct OversizedRecord<'a> {
    query: &'a SearchQuery,
    found: Vec<bool>,
    excluded: bool,
    /// The window in which the first term was found.
    sample: Option<String>,
    window: String,
    /// The string being read, which may turn out to be a key.
    text: Vec<u8>,
    /// A short string whose next byte says whether it was a key.
    pending: bool,
    state: StringState,
    unit: u32,
    high_surrogate: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringState {
    Outside,
    Inside,
    Escape,
    /// So many digits of `\uXXXX` are still to come.
    Unicode(u8),
}

impl<'a> OversizedRecord<'a> {
    pub(super) fn new(query: &'a SearchQuery) -> Self {
        Self {
            query,
            found: vec![false; query.wanted_terms().len()],
            excluded: false,
            sample: None,
            window: String::new(),
            text: Vec::new(),
            pending: false,
            state: StringState::Outside,
            unit: 0,
            high_surrogate: None,
        }
    }

    /// Takes the next bytes of the record.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(&byte) = bytes.first() {
            match self.state {
                StringState::Inside => {
                    let plain = memchr::memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
                    self.text.extend_from_slice(&bytes[..plain]);
                    bytes = &bytes[plain..];
                    if self.text.len() >= WINDOW_BYTES {
                        self.flush_text();
                    }
                    match bytes.first() {
                        Some(b'"') => {
                            self.state = StringState::Outside;
                            self.high_surrogate = None;
                            self.pending = true;
                        }
                        Some(_) => self.state = StringState::Escape,
                        None => return,
                    }
                }
                StringState::Outside => {
                    if self.pending && !byte.is_ascii_whitespace() {
                        self.end_string(byte == b':');
                    }
                    if byte == b'"' {
                        self.state = StringState::Inside;
                    }
                }
                StringState::Escape => self.take_escape(byte),
                StringState::Unicode(left) => self.take_digit(byte, left),
            }
            bytes = &bytes[1..];
        }
    }

    /// The text around the match, if the record is a hit.
    pub(super) fn finish(mut self) -> Option<String> {
        self.end_string(false);
        self.look_through();
        let hit = !self.excluded && self.found.iter().all(|found| *found);
        self.sample.filter(|_| hit)
    }

    fn take_escape(&mut self, byte: u8) {
        self.state = StringState::Inside;
        let plain = match byte {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'u' => {
                self.state = StringState::Unicode(4);
                self.unit = 0;
                return;
            }
            other => other,
        };
        self.text.push(plain);
    }

    fn take_digit(&mut self, byte: u8, left: u8) {
        self.unit = self.unit * 16 + char::from(byte).to_digit(16).unwrap_or(0);
        if left > 1 {
            self.state = StringState::Unicode(left - 1);
            return;
        }
        self.state = StringState::Inside;
        let high = self.high_surrogate.take();
        let code = match (high, self.unit) {
            (_, unit @ 0xd800..=0xdbff) => {
                self.high_surrogate = Some(unit);
                return;
            }
            (Some(high), low @ 0xdc00..=0xdfff) => {
                0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
            }
            (_, unit) => unit,
        };
        let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn end_string(&mut self, is_key: bool) {
        self.pending = false;
        if is_key && self.text.len() <= MAX_KEY_BYTES {
            self.text.clear();
            return;
        }
        self.flush_text();
        self.window.push('\n');
    }

    /// Hands the text over to the window. A character cut in two at the end waits for its rest.
    fn flush_text(&mut self) {
        let whole = match std::str::from_utf8(&self.text) {
            Err(error) if error.error_len().is_none() && self.state == StringState::Inside => {
                error.valid_up_to()
            }
            _ => self.text.len(),
        };
        let rest = self.text.split_off(whole);
        self.window.push_str(&String::from_utf8_lossy(&self.text));
        self.text = rest;
        if self.window.len() >= WINDOW_BYTES {
            self.look_through();
        }
    }

    fn look_through(&mut self) {
        for (term, found) in self.query.wanted_terms().iter().zip(&mut self.found) {
            if !*found && let Some(place) = term.find(&self.window) {
                *found = true;
                if self.sample.is_none() {
                    let from = self.window.floor_char_boundary(place.start().saturating_sub(2000));
                    let to = self.window.ceil_char_boundary(place.end() + 2000);
                    self.sample = Some(self.window[from..to].to_owned());
                }
            }
        }
        self.excluded |= self.query.unwanted_terms().iter().any(|t| t.is_match(&self.window));
        let keep = self.window.len().saturating_sub(OVERLAP_BYTES);
        self.window.drain(..self.window.ceil_char_boundary(keep));
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::QueryOptions;
    use super::*;

    #[test]
    fn a_record_is_decoded_however_it_is_cut() {
        let line = br#"{"needle":"no","x":{"text":"caf\u00e9 \ud83e\udd80 line\nend","k":"a \"quoted\" word"}}"#;
        for (text, hit) in [
            ("needle", false),
            ("café", true),
            ("🦀", true),
            ("\"line end\"", true),
            ("quoted", true),
            ("café quoted", true),
            ("café -quoted", false),
        ] {
            let query = SearchQuery::parse(text, QueryOptions::default()).unwrap();
            for size in [1, 2, 7, 1000] {
                let mut record = OversizedRecord::new(&query);
                line.chunks(size).for_each(|chunk| record.feed(chunk));
                assert_eq!(record.finish().is_some(), hit, "{text} by {size}");
            }
        }
    }
}
