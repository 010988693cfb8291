//! The route table is router, document and this list at once.

use serde_json::{Value, json};
use testkit::home::TempHome;

use super::client::{HttpAnswer, WebUnderTest};
use crate::cli::run::{run, sample_home};

const SESSION: &str = "666e4f9b-6b85-4b9f-83d1-1435ba512bba";

pub(super) fn document(home: &TempHome) -> Value {
    serde_json::from_str(&run(home, "schema --openapi").exits(0).stdout).unwrap()
}

/// Every route of the document: method, path, what it says.
pub(super) fn routes(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let methods = paths.iter().flat_map(|(path, methods)| {
        methods
            .as_object()
            .unwrap()
            .iter()
            .map(|(method, operation)| (method.to_uppercase(), path.clone(), operation.clone()))
    });
    methods.collect()
}

/// The answer is what the document says of that route.
#[track_caller]
pub(super) fn assert_fits(document: &Value, operation: &Value, answer: &HttpAnswer) {
    let content = operation["responses"]["200"]["content"].as_object().unwrap();
    let (kind, about) = content.iter().next().unwrap();
    let text = answer.text();
    assert!(answer.head.to_lowercase().contains(kind), "{kind}: {} {text}", answer.head);
    let schema = json!({ "$ref": about["schema"]["$ref"], "components": document["components"] });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let parts: Vec<&str> =
        if kind.contains("ndjson") { text.lines().collect() } else { vec![&text] };
    for part in parts {
        let value: Value = serde_json::from_str(part).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&value).map(|one| one.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:?}: {value}");
    }
}

#[test]
fn row_31_the_document_is_what_is_served_and_answers_fit_it() {
    let home = sample_home();
    let web = WebUnderTest::start(&home, "--allow manage");
    let token = web.sign_in();
    let document = document(&home);
    let served = web.get("/v1/openapi.json", &token);
    assert_eq!(served.json(), document);
    let mut checked = 0;
    for (method, path, operation) in routes(&document) {
        let content = &operation["responses"]["200"]["content"];
        let Some(kind) = content.as_object().unwrap().keys().next().cloned() else { continue };
        let is_own = content[&kind]["schema"].get("$ref").is_none();
        if method != "GET" || path.starts_with("/v1/terminals") || is_own {
            continue;
        }
        let query = if path == "/v1/search" { "?q=hello" } else { "" };
        let answer = web.get(&format!("{}{query}", path.replace("{id}", SESSION)), &token);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_fits(&document, &operation, &answer);
        checked += 1;
    }
    assert!(checked >= 12, "{checked}");
}

#[test]
fn row_31_every_route_of_a_terminal_answers_as_the_document_says() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "--allow manage");
    let token = web.sign_in();
    let document = document(&home);
    let made = json!({ "command": ["/bin/cat"], "name": "cat", "cols": 40, "rows": 8 });
    let made = web.call("POST", "/v1/terminals", &token, &made);
    assert_eq!(made.status, 200, "{}", made.text());
    let id = made.json()["result"]["sessionId"].as_str().unwrap().to_owned();
    let bodies = json!({
        "run": { "command": "true", "noWait": true }, "type": { "text": "a" },
        "paste": { "text": "b" }, "keys": { "keys": ["Enter"] },
        "batch": { "steps": "[{\"type\":\"c\"}]" }, "resize": { "cols": 50, "rows": 9 },
        "mark": { "label": "here" }, "wait": { "text": "a", "timeout": 10_000 },
        "signal": { "signal": "SIGWINCH" },
    });
    for (method, path, operation) in routes(&document) {
        let Some(rest) = path.strip_prefix("/v1/terminals/{id}") else { continue };
        if method == "DELETE" {
            continue;
        }
        let body = if method == "POST" { bodies[&rest[1..]].clone() } else { Value::Null };
        assert!(method == "GET" || !body.is_null(), "{path} has no example");
        let answer = web.call(&method, &path.replace("{id}", &id), &token, &body);
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
        let content = operation["responses"]["200"]["content"].as_object().unwrap();
        if content.contains_key("image/png") {
            assert!(answer.body.starts_with(b"\x89PNG"), "{path}");
            continue;
        }
        assert!(!answer.body.is_empty(), "{path} says nothing");
        assert_fits(&document, &operation, &answer);
    }
    let gone =
        web.call("DELETE", &format!("/v1/terminals/{id}"), &token, &json!({ "force": true }));
    assert_eq!(gone.status, 200, "{}", gone.text());
}

#[test]
fn row_32_every_route_asks_for_its_right() {
    let home = sample_home();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let before = home.snapshot();
    for (method, path, operation) in routes(&document(&home)) {
        let right = operation["x-right"].as_str().unwrap().to_owned();
        let path = path.replace("{id}", "no-such-session");
        let anonymous = web.call(&method, &path, "", &Value::Null);
        let wrong = web.call(&method, &path, &"x".repeat(43), &Value::Null);
        if right == "anybody" {
            assert!(
                [400, 401, 429].contains(&anonymous.status),
                "{method} {path} {}",
                anonymous.head
            );
            continue;
        }
        for refused in [&anonymous, &wrong] {
            assert!([401, 429].contains(&refused.status), "{method} {path}: {}", refused.head);
            assert!(!refused.text().contains("no-such-session"), "{}", refused.text());
        }
        // What these do is theirs: the tab is signed out, or kept.
        if (path == "/v1/tab" && method == "DELETE") || path == "/v1/tab/keep" {
            continue;
        }
        let watching = web.call(&method, &path, &token, &Value::Null);
        match right.as_str() {
            "watch" => assert!(
                ![401, 403, 500].contains(&watching.status),
                "{method} {path} {}",
                watching.text()
            ),
            _ => assert_eq!(
                (watching.status, watching.code().as_str()),
                (403, "FORBIDDEN"),
                "{path}"
            ),
        }
    }
    assert_eq!(before.changes(&home.snapshot()), Vec::<String>::new());
    // With more rights, exactly the routes of those answer for themselves.
    for (given, locked) in [("type", &["manage"][..]), ("manage", &[])] {
        web.allow(&home, &token, given);
        for (method, path, operation) in routes(&document(&home)) {
            let right = operation["x-right"].as_str().unwrap();
            if !["type", "manage"].contains(&right) {
                continue;
            }
            // A field that no route has: the right is looked at before, and nothing is done behind it.
            let path = path.replace("{id}", "no-such-session");
            let answer = web.call(&method, &path, &token, &json!({ "no-such-field": 1 }));
            let wanted = if locked.contains(&right) { 403 } else { 400 };
            assert_eq!(answer.status, wanted, "{given}: {method} {path} {}", answer.text());
        }
    }
    assert_eq!(before.changes(&home.snapshot()), Vec::<String>::new());
}

#[test]
fn row_42_what_changed_meanwhile_is_refused_and_nothing_is_done() {
    let home = sample_home();
    let web = WebUnderTest::start(&home, "--allow manage");
    let token = web.sign_in();
    let before = home.snapshot();
    let plan = json!({ "planHash": "0000", "include": ["temps"], "olderThan": "0s" });
    let gc = web.call("POST", "/v1/gc", &token, &plan);
    assert_eq!((gc.status, gc.code().as_str()), (409, "REFUSED"), "{}", gc.text());
    let stop = json!({ "identity": "1:1" });
    let stop = web.call("POST", &format!("/v1/sessions/{SESSION}/stop"), &token, &stop);
    assert_eq!(stop.status, 409, "{}", stop.text());
    assert_eq!(before.changes(&home.snapshot()), Vec::<String>::new());
}

#[test]
fn row_67_clean_up_and_undo_say_what_the_command_line_says() {
    let home = sample_home();
    let old = home.join(format!(".claude/projects/-home-user-repo/{SESSION}.jsonl"));
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    std::fs::File::options().append(true).open(old).unwrap().set_modified(long_ago).unwrap();
    let web = WebUnderTest::start(&home, "--allow manage");
    let token = web.sign_in();
    let options = "include=transcripts&olderThan=0s";
    let plan = web.get(&format!("/v1/gc?{options}"), &token).json()["result"].clone();
    let told = run(&home, "gc --include transcripts --older-than 0s --json").exits(0).result();
    assert_eq!(
        (&plan["plan"], &plan["count"], &plan["bytes"]),
        (&told["plan"], &told["count"], &told["bytes"])
    );
    assert!(plan["count"].as_u64().unwrap() > 0, "{plan}");
    let body = json!({ "planHash": plan["plan"], "include": "transcripts", "olderThan": "0s" });
    let done = web.call("POST", "/v1/gc", &token, &body).json()["result"].clone();
    assert_eq!((&done["applied"], &done["count"]), (&json!(true), &plan["count"]), "{done}");
    let receipt = done["receipt"].as_str().unwrap();
    let receipts = web.get("/v1/receipts", &token);
    assert!(receipts.text().contains(receipt), "{}", receipts.text());
    let undone = web.call("POST", &format!("/v1/receipts/{receipt}/undo"), &token, &Value::Null);
    assert_eq!(undone.status, 200, "{}", undone.text());
    let again = web.get(&format!("/v1/gc?{options}"), &token).json()["result"]["count"].clone();
    assert_eq!(again, plan["count"]);
}

#[test]
fn the_daemon_answers_the_same_routes_to_its_own_user() {
    use std::io::{Read, Write};

    let home = sample_home();
    let _daemon = crate::cli::daemon::Daemon::start(&home);
    let ask = |head: &str| {
        let mut stream =
            std::os::unix::net::UnixStream::connect(crate::cli::daemon::socket(&home)).unwrap();
        let home = crate::cli::daemon::home_id(&home);
        write!(stream, "{head} HTTP/1.1\r\nhost: x\r\nx-ostler-home: {home}\r\n\r\n").unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        all
    };
    let shown = ask(&format!("GET /v1/sessions/{SESSION}/why"));
    assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
    assert!(shown.contains("\"command\": \"why\""), "{shown}");
    assert!(ask("GET /v1/sessions/none").starts_with("HTTP/1.1 404"));
    assert!(ask("POST /v1/tab").starts_with("HTTP/1.1 404"));
    assert!(ask("GET /v1/openapi.json").contains("\"openapi\":\"3.1.0\""));
}

#[test]
fn an_id_is_exact_over_http_and_a_list_goes_on_where_it_ended() {
    let home = sample_home();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    for good in [SESSION.to_owned(), format!("claude-code:{SESSION}")] {
        assert_eq!(web.get(&format!("/v1/sessions/{good}"), &token).status, 200, "{good}");
    }
    for loose in [&SESSION[..8], &SESSION.to_uppercase(), &format!("codex:{SESSION}")] {
        assert_eq!(web.get(&format!("/v1/sessions/{loose}"), &token).status, 404, "{loose}");
    }
    let list = |query: &str| web.get(&format!("/v1/sessions?{query}"), &token).json();
    let ids = |answer: &Value| -> Vec<String> {
        let sessions = answer["result"]["sessions"].as_array().unwrap().iter();
        sessions.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let all = ids(&list("all=true"));
    let (mut seen, mut query) = (Vec::new(), "all=true&limit=3".to_owned());
    loop {
        let page = list(&query);
        seen.extend(ids(&page));
        let Some(after) = page["result"]["after"].as_str() else { break };
        query = format!("all=true&limit=3&after={after}");
    }
    assert_eq!(seen, all);
    let ended = list("all=true&group=ended&limit=2");
    let groups = ended["result"]["groups"].as_array().unwrap().clone();
    let count = groups.iter().find(|one| one["group"] == "ended").unwrap()["count"].as_u64();
    let whole = ids(&list("all=true&group=ended"));
    assert!(whole.len() > 2 && ids(&ended) == whole[..2], "{whole:?}");
    assert_eq!(count, Some(whole.len() as u64), "{groups:?}");
    assert_eq!(web.get("/v1/sessions?after=claude-code:none", &token).status, 400);
}

#[test]
fn a_kept_browser_stays_signed_in_until_it_is_revoked() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let kept = web.call("POST", "/v1/tab/keep", &token, &Value::Null);
    assert_eq!(kept.status, 200, "{}", kept.text());
    let name = kept.json()["result"]["name"].as_str().unwrap().to_owned();
    drop(web);
    let web = WebUnderTest::start(&home, "");
    assert_eq!(web.get("/v1/tab", &token).status, 200);
    drop(web);
    let listed = run(&home, "web ls --json").exits(0).result();
    assert_eq!(listed["tabs"][0]["name"], name.as_str(), "{listed}");
    run(&home, &format!("web revoke {name}")).exits(0);
    let web = WebUnderTest::start(&home, "");
    assert_eq!(web.get("/v1/tab", &token).status, 401);
    // Signing out forgets at once.
    let token = web.sign_in();
    assert_eq!(web.call("POST", "/v1/tab/keep", &token, &Value::Null).status, 200);
    assert_eq!(web.call("DELETE", "/v1/tab", &token, &Value::Null).status, 200);
    drop(web);
    assert_eq!(WebUnderTest::start(&home, "").get("/v1/tab", &token).status, 401);
    // Another link of a server that runs.
    let web = WebUnderTest::start(&home, "");
    let link = run(&home, "web link --json").exits(0).result();
    let key = link["link"].as_str().unwrap().split_once("#k=").unwrap().1.to_owned();
    assert_eq!(web.call("POST", "/v1/tab", "", &json!({ "key": key })).status, 201);
    run(&home, "web link --qr").exits(2);
}
