//! The conversation of a session, whichever agent held it.

use std::collections::VecDeque;

use adapters::{ReadError, TranscriptSource};
use model::conversation::{ConversationEntry, ConversationRole};

/// Reads the conversation from `position` on; returns where to go on later.
pub fn read_conversation(
    agent: &str,
    source: &TranscriptSource,
    position: u64,
    say: &mut dyn FnMut(ConversationEntry),
) -> Result<u64, ReadError> {
    match adapters::by_id(agent) {
        Some(adapter) => adapter.read_conversation(source, position, say),
        None => Ok(position),
    }
}

/// How much of a transcript's end is read first: enough for what one screen shows.
const FIRST_TAIL_BYTES: u64 = 1 << 20;

/// Reads the last entries of a conversation, without those that the agent put in for itself. Of a transcript whose
/// lines are entries, as much of the end is read as that takes.
pub fn read_talk_end(
    agent: &str,
    source: &TranscriptSource,
    most: usize,
) -> Result<Vec<ConversationEntry>, ReadError> {
    let read_from = |position: u64| {
        let mut window = TalkWindow::new(0, Some(most), None).without_system(true);
        read_conversation(agent, source, position, &mut |entry| window.add_entry(entry))?;
        Ok::<_, ReadError>(window.into_part())
    };
    let has_lines = adapters::by_id(agent).is_some_and(|adapter| {
        adapter.is_plain_text(source) && adapter.line_conversation().is_some()
    });
    let bytes = source.stamp.bytes;
    let mut tail = FIRST_TAIL_BYTES;
    while has_lines && tail < bytes {
        // What stands before the first line break there is the end of a record, which is none by itself.
        let part = read_from(bytes - tail)?;
        if part.total >= most {
            return Ok(part.entries);
        }
        tail = tail.saturating_mul(8);
    }
    Ok(read_from(0)?.entries)
}

/// A part of a conversation, kept while the whole is read: what lies outside of it takes no memory.
#[derive(Debug)]
pub struct TalkWindow {
    first: usize,
    last: Option<usize>,
    limit: usize,
    hides_system: bool,
    kept: VecDeque<ConversationEntry>,
    total: usize,
    hidden: usize,
}

/// What a window kept.
#[derive(Debug)]
pub struct TalkPart {
    pub entries: Vec<ConversationEntry>,
    /// Entries before the first of them.
    pub omitted: usize,
    /// Entries of the whole conversation, hidden ones apart.
    pub total: usize,
    /// Entries that the agent put in for itself, and that were not wanted.
    pub hidden: usize,
}

impl TalkWindow {
    /// From the entry with that number on (from 0), of those the last so many, of those so many.
    pub fn new(first: usize, last: Option<usize>, limit: Option<usize>) -> Self {
        Self {
            first,
            last,
            limit: limit.unwrap_or(usize::MAX),
            hides_system: false,
            kept: VecDeque::new(),
            total: 0,
            hidden: 0,
        }
    }

    /// Without what the agent put in for itself; it is not counted either.
    #[must_use]
    pub fn without_system(self, hides_system: bool) -> Self {
        Self { hides_system, ..self }
    }

    pub fn add_entry(&mut self, entry: ConversationEntry) {
        if self.hides_system && entry.role == ConversationRole::System {
            self.hidden += 1;
            return;
        }
        let number = self.total;
        self.total += 1;
        if number < self.first {
            return;
        }
        match self.last {
            Some(0) => {}
            Some(last) => {
                if self.kept.len() == last {
                    self.kept.pop_front();
                }
                self.kept.push_back(entry);
            }
            None if self.kept.len() < self.limit => self.kept.push_back(entry),
            None => {}
        }
    }

    pub fn into_part(mut self) -> TalkPart {
        let by_last = self.last.map_or(0, |last| self.total.saturating_sub(last));
        let omitted = self.first.max(by_last).min(self.total);
        self.kept.truncate(self.limit);
        let (total, hidden) = (self.total, self.hidden);
        TalkPart { entries: self.kept.into(), omitted, total, hidden }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_what_is_left_of_the_whole_and_keeps_no_more() {
        let entry = |number: usize| {
            let role = if number.is_multiple_of(3) {
                ConversationRole::System
            } else {
                ConversationRole::User
            };
            ConversationEntry::new(None, role, number.to_string())
        };
        let all: Vec<ConversationEntry> = (0..20).map(entry).collect();
        for hides_system in [false, true] {
            let mut talk = all.clone();
            talk.retain(|one| !hides_system || one.role != ConversationRole::System);
            for first in [0, 1, 7, 20, 90] {
                let ends = [Some(0), Some(4), Some(50)].map(|last| (last, None));
                let limits = [None, Some(0), Some(3)].map(|limit| (None, limit));
                for (last, limit) in ends.into_iter().chain(limits) {
                    let mut window =
                        TalkWindow::new(first, last, limit).without_system(hides_system);
                    for one in &all {
                        window.add_entry(one.clone());
                        let most = last.or(limit).unwrap_or(usize::MAX);
                        assert!(window.kept.len() <= most, "{first} {last:?} {limit:?}");
                    }
                    let part = window.into_part();
                    let by_last = last.map_or(0, |last| talk.len().saturating_sub(last));
                    let omitted = first.max(by_last).min(talk.len());
                    let wanted: Vec<_> =
                        talk[omitted..].iter().take(limit.unwrap_or(usize::MAX)).collect();
                    assert_eq!(part.entries.iter().collect::<Vec<_>>(), wanted);
                    assert_eq!((part.omitted, part.total), (omitted, talk.len()));
                    assert_eq!(part.hidden, all.len() - talk.len());
                }
            }
        }
    }
}
