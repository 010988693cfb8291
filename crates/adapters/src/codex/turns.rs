//! How a turn of Codex's ended, and when its usage limit is over.

use model::control::delivery::{DeliveryTurn, TurnEnd};
use model::time::Time;

use super::each_line;
use crate::TranscriptSource;
use crate::files::ReadError;
use crate::skim::{self, JsonValue};

/// The end of the first turn whose prompt is recorded after `from`.
pub(super) fn read_turn_end(
    source: &TranscriptSource,
    from: u64,
) -> Result<Option<DeliveryTurn>, ReadError> {
    let mut reading = TurnReading::default();
    each_line(source, from, |line| reading.read_line(line))?;
    Ok(reading.end)
}

#[derive(Default)]
struct TurnReading {
    resets_at: Option<Time>,
    failed: Option<TurnEnd>,
    end: Option<DeliveryTurn>,
}

impl TurnReading {
    fn read_line(&mut self, line: &[u8]) {
        if self.end.is_some() || skim::parse_object(line).is_err() {
            return;
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

    fn end(lines: &[&str]) -> Option<(TurnEnd, Option<i64>)> {
        let mut reading = TurnReading::default();
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
}
