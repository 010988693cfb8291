//! How a turn of Codex's ended, and when its usage limit is over.

use model::control::delivery::{DeliveryTurn, TurnEnd};
use model::time::Time;

use super::{converse_line, each_line};
use crate::TranscriptSource;
use crate::files::ReadError;
use crate::skim::{self, JsonValue};

/// The end of the first turn whose prompt is recorded after `from`, and not before `prompt_at`.
pub(super) fn read_turn_end(
    source: &TranscriptSource,
    from: u64,
    prompt_at: Option<Time>,
) -> Result<Option<DeliveryTurn>, ReadError> {
    let mut reading = TurnReading { prompt_at, ..TurnReading::default() };
    each_line(source, from, |line| reading.read_line(line))?;
    Ok(reading.end)
}

#[derive(Default)]
struct TurnReading {
    /// When the prompt was recorded, if that is known.
    prompt_at: Option<Time>,
    /// Whether its record was met.
    begun: bool,
    resets_at: Option<Time>,
    failed: Option<TurnEnd>,
    end: Option<DeliveryTurn>,
}

impl TurnReading {
    fn read_line(&mut self, line: &[u8]) {
        if self.end.is_some() || skim::parse_object(line).is_err() {
            return;
        }
        if !self.begun {
            let prompt_at = self.prompt_at;
            converse_line(line, &mut |entry| self.begun |= entry.is_prompt_since(prompt_at));
        }
        let line = JsonValue::new(line);
        if !line.get("type").is_some_and(|kind| kind.is_string("event_msg")) {
            return;
        }
        let Some(event) = line.get("payload") else { return };
        let Some(kind) = event.get("type").and_then(JsonValue::as_str) else { return };
        let end = match &*kind {
            "token_count" => {
                let resets = event.value_at(&["rate_limits", "primary", "resets_at"]);
                let resets = resets.and_then(JsonValue::as_i64);
                self.resets_at = resets.map(|seconds| Time::from_millis(seconds * 1000));
                return;
            }
            // What a turn fails with is said before its end, and again with it.
            "error" => {
                self.failed = Some(failure_of(event));
                return;
            }
            // Of the turn before.
            "task_complete" | "turn_complete" | "turn_aborted" if !self.begun => {
                self.failed = None;
                return;
            }
            "task_complete" | "turn_complete" => {
                let error = event.get("error").filter(|error| error.as_object().is_some());
                error.map(failure_of).or(self.failed).unwrap_or(TurnEnd::Answered)
            }
            "turn_aborted" => TurnEnd::Interrupted,
            _ => return,
        };
        self.end = Some(DeliveryTurn {
            end,
            resets_at: self.resets_at.filter(|_| end == TurnEnd::Limited),
            ended_at: line.get("timestamp").and_then(JsonValue::as_time),
        });
    }
}

fn failure_of(error: JsonValue<'_>) -> TurnEnd {
    match error.get("codex_error_info") {
        Some(info) if info.is_string("usage_limit_exceeded") => TurnEnd::Limited,
        _ => TurnEnd::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str = r#"{"timestamp":"2026-11-18T10:00:05.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"and then the tests"}]}}"#;

    fn end(lines: &[&str]) -> Option<(TurnEnd, Option<i64>)> {
        let mut reading = TurnReading { begun: true, ..TurnReading::default() };
        for line in lines {
            let line = format!(r#"{{"type":"event_msg","payload":{line}}}"#);
            reading.read_line(line.as_bytes());
        }
        reading.end.map(|turn| (turn.end, turn.resets_at.map(Time::as_millis)))
    }

    #[test]
    fn row_28_a_limit_says_when_it_is_over() {
        let count = r#"{"type":"token_count","rate_limits":{"primary":{"resets_at":1794765900}}}"#;
        let limited =
            r#"{"type":"task_complete","error":{"codex_error_info":"usage_limit_exceeded"}}"#;
        assert_eq!(end(&[count, limited]), Some((TurnEnd::Limited, Some(1_794_765_900_000))));
        let failed = r#"{"type":"error","message":"x","codex_error_info":"other"}"#;
        let done = r#"{"type":"task_complete","last_agent_message":null}"#;
        assert_eq!(end(&[failed, done]), Some((TurnEnd::Failed, None)));
        assert_eq!(end(&[count, done]), Some((TurnEnd::Answered, None)));
        let aborted = r#"{"type":"turn_aborted","reason":"interrupted"}"#;
        assert_eq!(end(&[aborted]), Some((TurnEnd::Interrupted, None)));
        assert_eq!(end(&[r#"{"type":"task_started"}"#, count]), None);
    }

    #[test]
    fn row_26_the_end_of_the_turn_before_is_not_that_of_a_queued_prompt() {
        let at = |time: &str| Time::parse(time).unwrap();
        let done = r#"{"type":"event_msg","payload":{"type":"task_complete"}}"#;
        let aborted = r#"{"type":"event_msg","payload":{"type":"turn_aborted"}}"#;
        let read = |prompt_at: Option<Time>, lines: &[&str]| {
            let mut reading = TurnReading { prompt_at, ..TurnReading::default() };
            lines.iter().for_each(|line| reading.read_line(line.as_bytes()));
            reading.end.map(|turn| turn.end)
        };
        assert_eq!(read(None, &[done, PROMPT, aborted]), Some(TurnEnd::Interrupted));
        assert_eq!(read(None, &[done, PROMPT]), None, "it goes on");
        let own = Some(at("2026-11-18T10:00:05.000Z"));
        assert_eq!(read(own, &[PROMPT, done]), Some(TurnEnd::Answered));
        let later = Some(at("2026-11-18T10:00:06.000Z"));
        assert_eq!(read(later, &[PROMPT, done]), None, "that was another prompt");
    }
}
