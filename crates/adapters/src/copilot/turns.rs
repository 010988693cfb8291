//! How a turn of Copilot's ended.

use model::control::delivery::{DeliveryTurn, TurnEnd};

use crate::skim::JsonValue;
use crate::turn_ends::end_by_status;

/// What was seen of a turn so far: its end is written before the error that ended it, so an end without a message of the
/// model's says nothing yet.
#[derive(Default)]
pub(super) struct CopilotTurn {
    /// Whether the model said something, and whether that calls for tools.
    said: Option<bool>,
}

impl CopilotTurn {
    pub(super) fn reader(mut self) -> impl FnMut(JsonValue<'_>) -> Option<DeliveryTurn> {
        move |line| {
            let end = self.read_event(line)?;
            let ended_at = line.get("timestamp").and_then(JsonValue::as_time);
            Some(DeliveryTurn { end, resets_at: None, ended_at })
        }
    }

    fn read_event(&mut self, line: JsonValue<'_>) -> Option<TurnEnd> {
        if line.get("agentId").is_some_and(|agent| agent.raw() != b"null") {
            return None;
        }
        let data = line.get("data");
        match &*line.get("type")?.as_str()? {
            "assistant.message" => {
                let tools = data?.get("toolRequests").and_then(JsonValue::as_array);
                self.said = Some(tools.is_some_and(|mut tools| tools.next().is_some()));
                None
            }
            "assistant.turn_start" => {
                self.said = None;
                None
            }
            "assistant.turn_end" if self.said == Some(false) => Some(TurnEnd::Answered),
            "session.error" => {
                let status = data.and_then(|data| data.get("statusCode")?.as_u64());
                Some(end_by_status(status))
            }
            "abort" => Some(TurnEnd::Interrupted),
            "session.shutdown" => Some(TurnEnd::Over),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::converse_line;
    use super::*;
    use crate::turn_ends::turn_end_of;

    const PROMPT: &str = r#"{"type":"user.message","data":{"content":"mend it","delivery":"idle"},"timestamp":"2026-11-19T04:15:28.703Z"}"#;
    const ENDS: &str = r#"{"type":"assistant.turn_end","data":{"turnId":"0"},"timestamp":"2026-11-19T04:15:29.026Z"}"#;

    fn end(lines: &[&str]) -> Option<TurnEnd> {
        turn_end_of(PROMPT, lines, converse_line, CopilotTurn::default().reader())
    }

    #[test]
    fn row_28_an_end_says_how_only_with_what_was_said() {
        let error = |status: u16| {
            format!(
                r#"{{"type":"session.error","data":{{"errorType":"query","message":"x","statusCode":{status}}},"timestamp":"2026-11-19T04:15:29.029Z"}}"#
            )
        };
        let says = |tools: &str| {
            format!(
                r#"{{"type":"assistant.message","data":{{"content":"x","toolRequests":[{tools}]}}}}"#
            )
        };
        assert_eq!(end(&[ENDS]), None, "its error is written behind it");
        assert_eq!(end(&[ENDS, &error(400)]), Some(TurnEnd::Failed));
        assert_eq!(end(&[ENDS, &error(429)]), Some(TurnEnd::Limited));
        assert_eq!(end(&[&says(""), ENDS]), Some(TurnEnd::Answered));
        assert_eq!(end(&[&says(r#"{"name":"bash"}"#), ENDS]), None, "its tool runs");
        assert_eq!(end(&[r#"{"type":"abort","data":{}}"#]), Some(TurnEnd::Interrupted));
        assert_eq!(end(&[r#"{"type":"session.shutdown","data":{}}"#]), Some(TurnEnd::Over));
    }
}
