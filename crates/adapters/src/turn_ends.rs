//! How turns ended, of agents whose transcripts are lines that stand for themselves.

use model::control::delivery::{DeliveryTurn, TurnEnd};
use model::time::Time;

use crate::files::ReadError;
use crate::skim::{self, JsonValue};
use crate::{LineConversation, TranscriptSource};

/// The end of the first turn whose prompt is recorded after `from`, and not before `prompt_at`, by what a line after that
/// prompt says. An agent that tries again after an error writes that error first, so a later line of the turn counts.
pub(crate) fn read_turn_end_by_line(
    source: &TranscriptSource,
    from: u64,
    prompt_at: Option<Time>,
    converse: LineConversation,
    end_of_line: impl FnMut(JsonValue<'_>) -> Option<DeliveryTurn>,
) -> Result<Option<DeliveryTurn>, ReadError> {
    let mut reading = TurnReading::new(prompt_at, converse, end_of_line);
    source.each_line(from, |line| reading.read_line(line))?;
    Ok(reading.end)
}

struct TurnReading<F> {
    prompt_at: Option<Time>,
    converse: LineConversation,
    end_of_line: F,
    /// Whether the prompt was met.
    begun: bool,
    /// Whether nothing that follows is of this turn.
    is_over: bool,
    end: Option<DeliveryTurn>,
}

impl<F: FnMut(JsonValue<'_>) -> Option<DeliveryTurn>> TurnReading<F> {
    const fn new(prompt_at: Option<Time>, converse: LineConversation, end_of_line: F) -> Self {
        Self { prompt_at, converse, end_of_line, begun: false, is_over: false, end: None }
    }

    fn read_line(&mut self, line: &[u8]) {
        if self.is_over || skim::parse_object(line).is_err() {
            return;
        }
        let (mut is_prompt, prompt_at) = (false, self.prompt_at);
        (self.converse)(line, &mut |entry| is_prompt |= entry.is_prompt_since(prompt_at));
        if !self.begun || is_prompt {
            self.is_over = self.end.is_some();
            self.begun |= is_prompt;
            return;
        }
        if let Some(turn) = (self.end_of_line)(JsonValue::new(line)) {
            self.is_over = !matches!(turn.end, TurnEnd::Failed | TurnEnd::Limited);
            self.end = Some(turn);
        }
    }
}

/// A turn that ended in an error which has a status of HTTP.
pub(crate) const fn end_by_status(status: Option<u64>) -> TurnEnd {
    match status {
        Some(429) => TurnEnd::Limited,
        _ => TurnEnd::Failed,
    }
}

/// What the lines after a prompt say; `None` while the turn goes on.
#[cfg(test)]
pub(crate) fn turn_end_of(
    prompt: &str,
    lines: &[&str],
    converse: LineConversation,
    end_of_line: impl FnMut(JsonValue<'_>) -> Option<DeliveryTurn>,
) -> Option<TurnEnd> {
    let mut reading = TurnReading::new(None, converse, end_of_line);
    for line in [prompt].iter().chain(lines) {
        reading.read_line(line.as_bytes());
    }
    assert!(reading.begun, "no prompt: {prompt}");
    reading.end.map(|turn| turn.end)
}
