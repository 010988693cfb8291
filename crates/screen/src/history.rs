//! Scrollback: the rows that left the top of the main screen, oldest first.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::cell::Clusters;
use crate::grid::Row;
use crate::line;

/// Encoded lines, one after the other. Whole chunks are let go, so dropping the oldest line costs
/// nothing and the memory of a full history is used again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Chunk {
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

impl Chunk {
    const CHUNK_SIZE: usize = 32 << 10;

    fn encoded_line(&self, index: usize) -> &[u8] {
        let start = self.starts[index] as usize;
        let end = self.starts.get(index + 1).map_or(self.bytes.len(), |&end| end as usize);
        &self.bytes[start..end]
    }

    fn is_sound(&self) -> bool {
        self.starts.is_sorted()
            && self.starts.last().is_none_or(|&last| last as usize <= self.bytes.len())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    limit: usize,
    /// Lines in `chunks`; may exceed the limit by less than a chunk, which is not visible.
    held: usize,
    chunks: VecDeque<Chunk>,
}

impl History {
    pub(crate) fn new(limit: usize) -> History {
        History { limit, held: 0, chunks: VecDeque::new() }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn len(&self) -> usize {
        self.held.min(self.limit)
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        while let Some(oldest) = self.chunks.front().map(|chunk| chunk.starts.len()) {
            if self.held - oldest < limit {
                break;
            }
            self.chunks.pop_front();
            self.held -= oldest;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.held = 0;
        self.chunks.clear();
    }

    pub(crate) fn push(&mut self, row: &Row, clusters: &Clusters) {
        self.push_with(|out| match row.plain_text() {
            Some(text) => line::encode_plain_line(text, row.wrapped, out),
            None => line::encode_line(row.stored_cells(), row.wrapped, clusters, out),
        });
    }

    /// Adds the line that `write` appends to the bytes.
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.limit == 0 {
            return;
        }
        if self.chunks.back().is_none_or(|chunk| chunk.bytes.len() >= Chunk::CHUNK_SIZE) {
            let chunk = self.recycle_chunk();
            self.chunks.push_back(chunk);
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.starts.push(chunk.bytes.len() as u32);
            write(&mut chunk.bytes);
            self.held += 1;
        }
    }

    /// The oldest chunk, emptied, when everything in it is beyond the limit.
    fn recycle_chunk(&mut self) -> Chunk {
        let oldest = self.chunks.front().map_or(0, |chunk| chunk.starts.len());
        if oldest == 0 || self.held - oldest < self.limit {
            return Chunk {
                bytes: Vec::with_capacity(Chunk::CHUNK_SIZE + 512),
                starts: Vec::new(),
            };
        }
        self.held -= oldest;
        let mut chunk = self.chunks.pop_front().unwrap_or_default();
        chunk.bytes.clear();
        chunk.starts.clear();
        chunk
    }

    /// Takes the newest line back.
    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        if self.len() == 0 {
            return None;
        }
        while self.chunks.back().is_some_and(|chunk| chunk.starts.is_empty()) {
            self.chunks.pop_back();
        }
        let chunk = self.chunks.back_mut()?;
        let start = chunk.starts.pop()? as usize;
        self.held -= 1;
        Some(chunk.bytes.split_off(start))
    }

    /// The newest `count` lines, oldest of them first.
    pub(crate) fn newest_lines(&self, count: usize) -> impl Iterator<Item = &[u8]> {
        let skip = self.held - count.min(self.len());
        self.chunks
            .iter()
            .flat_map(|chunk| (0..chunk.starts.len()).map(|index| chunk.encoded_line(index)))
            .skip(skip)
    }

    /// Whether this could have been built by pushing: asked of what a keyframe gave.
    pub(crate) fn is_sound(&self) -> bool {
        self.chunks.iter().all(Chunk::is_sound)
            && self.chunks.iter().map(|chunk| chunk.starts.len()).sum::<usize>() == self.held
    }

    #[cfg(test)]
    fn byte_len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes.capacity() + chunk.starts.capacity() * 4).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(history: &mut History, text: &str) {
        history.push_with(|out| {
            out.push(0);
            out.extend_from_slice(text.as_bytes());
        });
    }

    #[test]
    fn holds_exactly_what_was_asked() {
        let mut history = History::new(1000);
        for n in 0..25_000 {
            push(&mut history, &format!("line {n}"));
        }
        let lines: Vec<String> = history.newest_lines(usize::MAX).map(line::line_text).collect();
        assert_eq!(lines.len(), 1000);
        assert_eq!(lines[0], "line 24000");
        assert_eq!(lines[999], "line 24999");
        assert_eq!(history.newest_lines(3).count(), 3);
        assert!(history.is_sound());
    }

    #[test]
    fn memory_does_not_grow_with_what_passed() {
        let mut history = History::new(10_000);
        for _ in 0..30_000 {
            push(&mut history, &"x".repeat(80));
        }
        let before = history.byte_len();
        for _ in 0..300_000 {
            push(&mut history, &"x".repeat(80));
        }
        assert!(
            history.byte_len() <= before + 2 * Chunk::CHUNK_SIZE,
            "{} then {before}",
            history.byte_len()
        );
        assert!(before < 1_100_000, "{before}");
    }

    #[test]
    fn lines_are_taken_back_newest_first() {
        let mut history = History::new(2);
        for text in ["a", "b", "c"] {
            push(&mut history, text);
        }
        assert_eq!(history.pop().map(|line| line::line_text(&line)).as_deref(), Some("c"));
        assert_eq!(history.len(), 2);
        assert_eq!(history.newest_lines(9).map(line::line_text).collect::<Vec<_>>(), ["a", "b"]);
    }
}
