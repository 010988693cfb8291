//! Writes the fake model's answer in the wire format it was asked in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::ask::{Ask, Reply, Wire};
use super::http::Response;
use super::{USAGE_INPUT, USAGE_OUTPUT};

/// An id that no other answer of this process has.
fn fresh(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}lab{:08x}{count:012x}", std::process::id())
}

pub(super) fn answer(ask: &Ask, reply: &Reply) -> Response {
    if let Reply::Error(status) = reply {
        let kind = match (*status, ask.wire) {
            (529, _) => "overloaded_error",
            (429, Wire::Responses) => "usage_limit_reached",
            (429, _) => "rate_limit_error",
            _ => "api_error",
        };
        let message = format!("the fake model was asked to fail with {status}");
        let mut error = json!({ "type": kind, "message": message, "code": status });
        if kind == "usage_limit_reached" {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            error["plan_type"] = json!("plus");
            error["resets_at"] = json!(now + 3600);
            error["resets_in_seconds"] = json!(3600);
        }
        return Response::Json(*status, json!({ "type": "error", "error": error }));
    }
    match ask.wire {
        Wire::Messages => messages(ask, reply),
        Wire::Responses => responses(ask, reply),
        Wire::Chat => chat(ask, reply),
        Wire::Gemini => gemini(ask, reply),
    }
}

/// Events that are named after the `type` of their data.
fn typed(events: Vec<Value>) -> Response {
    let named = |event: Value| (event["type"].as_str().map(str::to_owned), event.to_string());
    Response::Events(events.into_iter().map(named).collect())
}

fn messages(ask: &Ask, reply: &Reply) -> Response {
    let usage = |output: u64| {
        json!({ "input_tokens": USAGE_INPUT, "output_tokens": output,
                "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0 })
    };
    let (blocks, stop) = match reply {
        Reply::Tool { name, arguments } => {
            let call = json!({ "type": "tool_use", "id": fresh("toolu_"), "name": name,
                               "input": arguments });
            (vec![json!({ "type": "text", "text": "running a tool" }), call], "tool_use")
        }
        Reply::Text(text) => (vec![json!({ "type": "text", "text": text })], "end_turn"),
        Reply::Error(_) => return Response::Json(500, Value::Null),
    };
    let mut message = json!({ "id": fresh("msg_"), "type": "message", "role": "assistant",
        "model": ask.model, "content": blocks, "stop_reason": stop, "stop_sequence": null,
        "usage": usage(USAGE_OUTPUT) });
    if !ask.stream {
        return Response::Json(200, message);
    }
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    message["usage"] = usage(1);
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    for (index, block) in blocks.into_iter().enumerate() {
        let (empty, delta) = if block["type"] == "text" {
            let empty = json!({ "type": "text", "text": "" });
            (empty, json!({ "type": "text_delta", "text": block["text"] }))
        } else {
            let arguments = block["input"].to_string();
            let mut empty = block;
            empty["input"] = json!({});
            (empty, json!({ "type": "input_json_delta", "partial_json": arguments }))
        };
        events.extend([
            json!({ "type": "content_block_start", "index": index, "content_block": empty }),
            json!({ "type": "content_block_delta", "index": index, "delta": delta }),
            json!({ "type": "content_block_stop", "index": index }),
        ]);
    }
    events.push(json!({ "type": "message_delta", "usage": { "output_tokens": USAGE_OUTPUT },
        "delta": { "stop_reason": stop, "stop_sequence": null } }));
    events.push(json!({ "type": "message_stop" }));
    typed(events)
}

fn responses(ask: &Ask, reply: &Reply) -> Response {
    let item = match reply {
        Reply::Tool { name, arguments } => {
            let mut call = json!({ "id": fresh("fc_"), "type": "function_call",
                "status": "completed", "call_id": fresh("call_"), "name": name,
                "arguments": arguments.to_string() });
            if let Some((group, own)) = ask.grouped.get(name) {
                call["namespace"] = json!(group);
                call["name"] = json!(own);
            }
            call
        }
        Reply::Text(text) => json!({ "id": fresh("msg_"), "type": "message",
            "status": "completed", "role": "assistant",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }] }),
        Reply::Error(_) => return Response::Json(500, Value::Null),
    };
    let begun = json!({ "id": fresh("resp_"), "object": "response", "created_at": 1_700_000_000,
        "model": ask.model, "status": "in_progress", "output": [] });
    let mut done = begun.clone();
    done["status"] = json!("completed");
    done["output"] = json!([item]);
    done["usage"] = json!({
        "input_tokens": USAGE_INPUT, "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": USAGE_OUTPUT, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": USAGE_INPUT + USAGE_OUTPUT });
    if !ask.stream {
        return Response::Json(200, done);
    }
    let mut opened = item.clone();
    opened["status"] = json!("in_progress");
    let id = item["id"].clone();
    let mut events = vec![json!({ "type": "response.created", "response": begun })];
    if let Some(arguments) = item.get("arguments") {
        opened["arguments"] = json!("");
        events.extend([
            json!({ "type": "response.output_item.added", "output_index": 0, "item": opened }),
            json!({ "type": "response.function_call_arguments.delta", "item_id": id,
                    "output_index": 0, "delta": arguments }),
            json!({ "type": "response.function_call_arguments.done", "item_id": id,
                    "output_index": 0, "arguments": arguments }),
        ]);
    } else {
        let part = &item["content"][0];
        let text = &part["text"];
        let empty = json!({ "type": "output_text", "text": "", "annotations": [] });
        opened["content"] = json!([]);
        events.push(json!({ "type": "response.output_item.added", "output_index": 0,
                            "item": opened }));
        for (kind, key, value) in [
            ("response.content_part.added", "part", &empty),
            ("response.output_text.delta", "delta", text),
            ("response.output_text.done", "text", text),
            ("response.content_part.done", "part", part),
        ] {
            events.push(json!({ "type": kind, "item_id": id, "output_index": 0,
                                "content_index": 0, key: value }));
        }
    }
    events.push(json!({ "type": "response.output_item.done", "output_index": 0, "item": item }));
    events.push(json!({ "type": "response.completed", "response": done }));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    typed(events)
}

fn chat(ask: &Ask, reply: &Reply) -> Response {
    let (message, finish) = match reply {
        Reply::Tool { name, arguments } => {
            let call = json!({ "index": 0, "id": fresh("call_"), "type": "function",
                "function": { "name": name, "arguments": arguments.to_string() } });
            (json!({ "role": "assistant", "content": null, "tool_calls": [call] }), "tool_calls")
        }
        Reply::Text(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        Reply::Error(_) => return Response::Json(500, Value::Null),
    };
    let usage = json!({ "prompt_tokens": USAGE_INPUT, "completion_tokens": USAGE_OUTPUT,
                        "total_tokens": USAGE_INPUT + USAGE_OUTPUT });
    let id = fresh("chatcmpl-");
    if !ask.stream {
        return Response::Json(
            200,
            json!({ "id": id, "object": "chat.completion", "created": 1_700_000_000,
                "model": ask.model, "usage": usage,
                "choices": [{ "index": 0, "message": message, "finish_reason": finish }] }),
        );
    }
    let chunk = |choices: Value, usage: &Value| {
        let mut chunk = json!({ "id": id, "object": "chat.completion.chunk",
            "created": 1_700_000_000, "model": ask.model, "choices": choices });
        if !usage.is_null() {
            chunk["usage"] = usage.clone();
        }
        (None, chunk.to_string())
    };
    let delta = |delta: Value, finish: Value| {
        let choices = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        chunk(choices, &Value::Null)
    };
    Response::Events(vec![
        delta(message, Value::Null),
        delta(json!({}), json!(finish)),
        chunk(json!([]), &usage),
        (None, "[DONE]".to_owned()),
    ])
}

fn gemini(ask: &Ask, reply: &Reply) -> Response {
    let part = match reply {
        Reply::Tool { name, arguments } => {
            json!({ "functionCall": { "name": name, "args": arguments } })
        }
        Reply::Text(text) => json!({ "text": text }),
        Reply::Error(_) => return Response::Json(500, Value::Null),
    };
    let body = json!({
        "candidates": [{ "content": { "role": "model", "parts": [part] },
                         "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": USAGE_INPUT, "candidatesTokenCount": USAGE_OUTPUT,
                           "totalTokenCount": USAGE_INPUT + USAGE_OUTPUT },
        "modelVersion": ask.model, "responseId": fresh("resp_") });
    if ask.stream {
        Response::Events(vec![(None, body.to_string())])
    } else {
        Response::Json(200, body)
    }
}
