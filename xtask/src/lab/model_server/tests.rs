//! Every wire format, streamed and whole, over a real connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ask::{Ask, Reply, markers};
use super::*;

fn send(server: &ModelServer, head: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

fn post(server: &ModelServer, path: &str, body: &Value) -> (u16, String) {
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
    send(server, &head, body.as_bytes())
}

fn ask_json(server: &ModelServer, path: &str, body: &Value) -> Value {
    let (status, text) = post(server, path, body);
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// The data of each event; the name, where given, must repeat the type.
fn events(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for block in text.split("\n\n").filter(|block| !block.is_empty()) {
        let data = block.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let value = serde_json::from_str(data).unwrap_or_else(|_| json!(data));
        if let Some(name) = block.lines().find_map(|line| line.strip_prefix("event: ")) {
            assert_eq!(value["type"], name);
        }
        found.push(value);
    }
    found
}

fn messages_body(prompt: &str, stream: bool) -> Value {
    json!({ "model": "claude-x", "stream": stream,
            "tools": [{ "name": "Bash", "input_schema": { "properties": { "command": {} } } }],
            "messages": [{ "role": "user", "content": [{ "type": "text", "text": prompt }] }] })
}

#[test]
fn anthropic_messages_whole() {
    let server = ModelServer::start().unwrap();
    let answer =
        ask_json(&server, "/v1/messages?beta=true", &messages_body("x [[say:yes]]", false));
    assert_eq!(answer["content"][0]["text"], "yes");
    assert_eq!(answer["model"], "claude-x");
    assert_eq!(answer["stop_reason"], "end_turn");
    assert_eq!(answer["usage"]["input_tokens"], 1234);
    assert_eq!(answer["usage"]["output_tokens"], 56);
}

#[test]
fn anthropic_messages_streamed_tool_call() {
    let server = ModelServer::start().unwrap();
    let (_, text) = post(&server, "/v1/messages", &messages_body("x [[tool:echo 1]]", true));
    let events = events(&text);
    assert_eq!(events[0]["type"], "message_start");
    assert_eq!(events[0]["message"]["usage"]["input_tokens"], 1234);
    let call = events.iter().find(|e| e["content_block"]["type"] == "tool_use").unwrap();
    assert_eq!(call["content_block"]["name"], "Bash");
    let delta = events.iter().find(|e| e["delta"]["type"] == "input_json_delta").unwrap();
    let input: Value =
        serde_json::from_str(delta["delta"]["partial_json"].as_str().unwrap()).unwrap();
    assert_eq!(input["command"], "echo 1");
    assert_eq!(events.last().unwrap()["type"], "message_stop");
}

#[test]
fn anthropic_final_text_after_the_tool_result() {
    let mut body = messages_body("x [[tool:echo 1]][[say:done]]", false);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": "t" }] }));
    messages.push(json!({ "role": "user", "content": [{ "type": "tool_result" }] }));
    messages.push(json!({ "role": "user", "content": "a reminder of the agent's own" }));
    assert_eq!(Ask::messages(&body).plan().reply, Reply::Text("done".into()));
}

fn responses_body(prompt: &str, stream: bool) -> Value {
    json!({ "model": "m", "stream": stream,
            "tools": [{ "type": "function", "name": "exec_command",
                        "parameters": { "properties": { "cmd": { "type": "string" } } } }],
            "input": [{ "type": "message", "role": "user",
                        "content": [{ "type": "input_text", "text": prompt }] }] })
}

#[test]
fn openai_responses_whole() {
    let server = ModelServer::start().unwrap();
    let answer = ask_json(&server, "/v1/responses", &responses_body("[[say:yes]]", false));
    assert_eq!(answer["output"][0]["content"][0]["text"], "yes");
    assert_eq!(answer["usage"]["total_tokens"], 1290);
}

#[test]
fn openai_responses_streamed() {
    let server = ModelServer::start().unwrap();
    let (_, text) = post(&server, "/responses", &responses_body("[[say:yes]]", true));
    let answer = events(&text);
    assert_eq!(answer[0]["type"], "response.created");
    let delta = answer.iter().find(|e| e["type"] == "response.output_text.delta").unwrap();
    assert_eq!(delta["delta"], "yes");
    let last = answer.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["usage"]["input_tokens"], 1234);
    assert_eq!(last["sequence_number"], answer.len() - 1);

    let (_, text) = post(&server, "/responses", &responses_body("[[tool:true]]", true));
    let answer = events(&text);
    let item = answer.iter().find(|e| e["type"] == "response.output_item.done").unwrap();
    assert_eq!(item["item"]["name"], "exec_command");
    assert_eq!(item["item"]["arguments"], r#"{"cmd":"true"}"#);
}

fn chat_body(prompt: &str, stream: bool) -> Value {
    json!({ "model": "m", "stream": stream,
            "tools": [{ "type": "function", "function": { "name": "bash", "parameters": {} } }],
            "messages": [{ "role": "system", "content": "[[say:not me]]" },
                         { "role": "user", "content": prompt }] })
}

#[test]
fn openai_chat_whole_and_streamed() {
    let server = ModelServer::start().unwrap();
    let path = "/v1/chat/completions";
    let answer = ask_json(&server, path, &chat_body("[[say:yes]]", false));
    assert_eq!(answer["choices"][0]["message"]["content"], "yes");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["usage"]["prompt_tokens"], 1234);

    let (_, text) = post(&server, path, &chat_body("[[call:bash:{\"command\":\"ls\"}]]", true));
    let answer = events(&text);
    let call = &answer[0]["choices"][0]["delta"]["tool_calls"][0];
    assert_eq!(call["function"]["arguments"], r#"{"command":"ls"}"#);
    assert_eq!(answer[1]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(answer[2]["usage"]["completion_tokens"], 56);
    assert_eq!(answer[3], "[DONE]");
}

fn gemini_body(prompt: &str) -> Value {
    json!({ "tools": [{ "functionDeclarations": [{ "name": "run_shell_command" }] }],
            "contents": [{ "role": "user", "parts": [{ "text": prompt }] }] })
}

#[test]
fn gemini_whole_and_streamed() {
    let server = ModelServer::start().unwrap();
    let path = "/v1beta/models/gemini-x:generateContent";
    let answer = ask_json(&server, path, &gemini_body("[[say:yes]]"));
    assert_eq!(answer["candidates"][0]["content"]["parts"][0]["text"], "yes");
    assert_eq!(answer["usageMetadata"]["promptTokenCount"], 1234);
    assert_eq!(answer["modelVersion"], "gemini-x");

    let path = "/v1beta/models/gemini-x:streamGenerateContent?alt=sse";
    let (_, text) = post(&server, path, &gemini_body("[[tool:true]]"));
    let part = &events(&text)[0]["candidates"][0]["content"]["parts"][0];
    assert_eq!(part["functionCall"]["name"], "run_shell_command");
    assert_eq!(part["functionCall"]["args"]["command"], "true");
}

#[test]
fn structured_output_fits_the_schema() {
    let schema = json!({ "type": "OBJECT", "properties": {
        "reason": { "type": "STRING" }, "score": { "type": "NUMBER" },
        "choice": { "type": "STRING", "enum": ["flash", "pro"] }, "list": { "type": "ARRAY" } } });
    let mut body = gemini_body("[[delay:60]] [[say:no]]");
    body["generationConfig"] = json!({ "responseSchema": schema });
    let plan = Ask::gemini(&body, "m", false).plan();
    assert_eq!(plan.delay, Duration::ZERO);
    let Reply::Text(text) = plan.reply else { panic!("{plan:?}") };
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value, json!({ "reason": "lab", "score": 1, "choice": "flash", "list": [] }));
}

#[test]
fn counts_models_and_unknown_paths() {
    let server = ModelServer::start().unwrap();
    let count = ask_json(&server, "/v1/messages/count_tokens", &json!({}));
    assert_eq!(count["input_tokens"], 1234);
    let count = ask_json(&server, "/v1beta/models/m:countTokens", &json!({}));
    assert_eq!(count["totalTokens"], 1234);
    let (status, text) = send(&server, "GET /v1/models HTTP/1.1\r\n\r\n", b"");
    assert!(status == 200 && text.contains("fake-model"));
    assert_eq!(send(&server, "GET /nowhere HTTP/1.1\r\n\r\n", b"").0, 404);
    assert_eq!(send(&server, "HEAD / HTTP/1.1\r\n\r\n", b"").1, "");
    assert_eq!(server.log().len(), 5);
    assert!(server.turns("").is_empty());
}

#[test]
fn errors_delays_and_the_log() {
    let server = ModelServer::start().unwrap();
    let (status, text) = post(&server, "/v1/messages", &messages_body("[[error:529]]", true));
    assert!(status == 529 && text.contains("overloaded_error"));
    let begin = Instant::now();
    post(&server, "/v1/messages", &messages_body("TAG-1 [[delay:0.3]]", true));
    assert!(begin.elapsed() >= Duration::from_millis(300));
    let turns = server.turns("TAG-1");
    assert_eq!(turns.len(), 1);
    assert!(turns[0].answered && turns[0].stream);
    assert_eq!(turns[0].tools, ["Bash"]);
}

#[test]
fn helpers_that_quote_the_prompt_do_not_obey_it() {
    let body = json!({ "messages": [{ "role": "user", "content": "title for [[delay:9]]" }] });
    let ask = Ask::messages(&body);
    assert!(!ask.is_turn());
    assert_eq!(ask.plan().delay, Duration::ZERO);
}

#[test]
fn a_new_prompt_after_an_answer_replaces_the_old_one() {
    let mut body = chat_body("[[say:one]]", false);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": "one" }));
    messages.push(json!({ "role": "user", "content": "plain" }));
    assert_eq!(Ask::chat(&body).plan().reply, Reply::Text(ask::DEFAULT_TEXT.into()));
}

#[test]
fn chunked_and_broken_requests() {
    let server = ModelServer::start().unwrap();
    let body = messages_body("[[say:yes]]", false).to_string();
    let (one, two) = body.split_at(10);
    let chunks = format!("{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\n\r\n", one.len(), two.len());
    let head = "POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (status, text) = send(&server, head, chunks.as_bytes());
    assert!(status == 200 && text.contains("yes"), "{text}");
    let head = "POST /v1/messages HTTP/1.1\r\ncontent-length: many\r\n\r\n";
    assert_eq!(send(&server, head, b"").0, 400);
}

#[test]
fn markers_are_found_in_order_and_odd_ones_skipped() {
    let text = "a [[delay:2]] [[nope:1]] [[x [[say:b]] [[tool:c";
    assert_eq!(markers(text), [("delay", "2"), ("say", "b")]);
}
