//! How a turn of Claude Code's ended.

use model::control::delivery::{DeliveryTurn, TurnEnd};
use model::time::Time;

use super::converse_line;
use crate::TranscriptSource;
use crate::files::ReadError;
use crate::skim::{self, JsonValue};

/// The end of the first turn whose prompt is recorded after `from`, and not before `prompt_at`.
pub(super) fn read_turn_end(
    source: &TranscriptSource,
    from: u64,
    prompt_at: Option<Time>,
) -> Result<Option<DeliveryTurn>, ReadError> {
    let (mut begun, mut end) = (false, None);
    source.each_line(from, |line| {
        if end.is_some() {
            return;
        }
        if begun {
            end = end_of_turn(line);
        } else {
            converse_line(line, &mut |entry| begun |= entry.is_prompt_since(prompt_at));
        }
    })?;
    Ok(end)
}

fn end_of_turn(line: &[u8]) -> Option<DeliveryTurn> {
    skim::parse_object(line).ok()?;
    let line = JsonValue::new(line);
    if line.get("isSidechain").and_then(JsonValue::as_bool) == Some(true) {
        return None;
    }
    let ended_at = line.get("timestamp").and_then(JsonValue::as_time);
    let ends = |end| Some(DeliveryTurn { end, resets_at: None, ended_at });
    let kind = line.get("type")?;
    if kind.is_string("assistant") {
        if line.get("isApiErrorMessage").and_then(JsonValue::as_bool) == Some(true) {
            let status = line.get("apiErrorStatus").and_then(JsonValue::as_u64);
            let limited = status == Some(429)
                || line.get("error").is_some_and(|error| error.is_string("rate_limit"));
            return ends(if limited { TurnEnd::Limited } else { TurnEnd::Failed });
        }
        let reason = line.value_at(&["message", "stop_reason"])?.as_str()?;
        return match &*reason {
            "end_turn" | "stop_sequence" | "max_tokens" | "refusal" => ends(TurnEnd::Answered),
            _ => None,
        };
    }
    if !kind.is_string("user") {
        return None;
    }
    let content = line.value_at(&["message", "content"])?;
    let is_interruption = |text: JsonValue<'_>| {
        text.as_str().is_some_and(|text| text.starts_with("[Request interrupted"))
    };
    let mut blocks = content.iter_elements().filter_map(|block| block.get("text"));
    let interrupted = is_interruption(content) || blocks.any(is_interruption);
    if interrupted { ends(TurnEnd::Interrupted) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(line: &str) -> Option<TurnEnd> {
        end_of_turn(line.as_bytes()).map(|turn| turn.end)
    }

    #[test]
    fn row_28_a_limit_an_error_an_answer_and_an_interruption_are_told_apart() {
        let limit = r#"{"type":"assistant","error":"rate_limit","isApiErrorMessage":true,"apiErrorStatus":429,"message":{"stop_reason":"stop_sequence"}}"#;
        assert_eq!(end(limit), Some(TurnEnd::Limited));
        let failed = r#"{"type":"assistant","error":"server_error","isApiErrorMessage":true,"message":{"stop_reason":"stop_sequence"}}"#;
        assert_eq!(end(failed), Some(TurnEnd::Failed));
        let answered = r#"{"type":"assistant","message":{"stop_reason":"end_turn","content":[]}}"#;
        assert_eq!(end(answered), Some(TurnEnd::Answered));
        let tool = r#"{"type":"assistant","message":{"stop_reason":"tool_use","content":[]}}"#;
        assert_eq!(end(tool), None);
        let stopped = r#"{"type":"user","message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#;
        assert_eq!(end(stopped), Some(TurnEnd::Interrupted));
        let side =
            r#"{"type":"assistant","isSidechain":true,"message":{"stop_reason":"end_turn"}}"#;
        assert_eq!(end(side), None);
    }
}
