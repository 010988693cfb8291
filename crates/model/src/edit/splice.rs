//! Text splices: insertions and removals at byte offsets; everything else stays as it is.

use std::ops::Range;

/// Changes, in terms of the text before any of them.
#[derive(Debug, Default)]
pub struct Splices {
    changes: Vec<(Range<usize>, String)>,
}

impl Splices {
    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.changes.push((at..at, text.into()));
    }

    pub fn remove(&mut self, range: Range<usize>) {
        self.changes.push((range, String::new()));
    }

    /// The text with the changes made. Those at one place keep the order in which they were asked for.
    pub fn apply(mut self, text: &str) -> String {
        self.changes.sort_by_key(|(range, _)| range.start);
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (range, new) in self.changes {
            out.push_str(&text[done..range.start.max(done)]);
            out.push_str(&new);
            done = done.max(range.end);
        }
        out.push_str(&text[done..]);
        out
    }
}

/// How a text ends its lines.
pub fn line_ending(text: &str) -> &'static str {
    let crlf = text.find('\n').is_some_and(|at| text[..at].ends_with('\r'));
    if crlf { "\r\n" } else { "\n" }
}
