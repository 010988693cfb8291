//! Every route of the table, by somebody who tries everything: other names, other pages, other methods, no token, wrong
//! ones, bodies that are none. Nothing is read, nothing is changed, nothing goes down.

use serde_json::Value;

use super::client::WebUnderTest;
use super::routes::{document, routes};
use crate::cli::run::sample_home;

const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"];

/// What they do, they do without a body.
const BODILESS: [(&str, &str); 4] = [
    ("DELETE", "/v1/tab"),
    ("POST", "/v1/tab/keep"),
    ("POST", "/v1/tickets"),
    ("GET", "/v1/stream"),
];

/// Bodies that no route takes.
fn wrong_bodies() -> Vec<Vec<u8>> {
    let deep = [vec![b'['; 20_000], vec![b']'; 20_000]].concat();
    vec![
        b"{".to_vec(),
        b"not json".to_vec(),
        b"[]".to_vec(),
        b"\"text\"".to_vec(),
        b"{\"no-such-field\":1}".to_vec(),
        b"{\"id\":\"another\"}".to_vec(),
        b"{\"identity\":{\"pid\":1},\"planHash\":[1],\"text\":1,\"keys\":\"a\",\"right\":2}"
            .to_vec(),
        vec![0, 159, 146, 150],
        deep,
    ]
}

#[test]
fn a_scanner_without_a_right_reads_nothing_and_changes_nothing() {
    let home = sample_home();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let (host, port) = (web.host(), web.port);
    let before = home.snapshot();
    let ask = |method: &str, path: &str, lines: &str| {
        let head = format!("{method} {path} HTTP/1.1\nConnection: close\n{lines}");
        web.say(&head, b"")
    };
    let good = format!("Authorization: Bearer {token}");
    let mut asked = 0;
    for (method, path, operation) in routes(&document(&home)) {
        let path = path.replace("{id}", "claude-code:666e4f9b-6b85-4b9f-83d1-1435ba512bba");
        let is_open = operation["x-right"] == "anybody";
        for (lines, wanted) in [
            (format!("Host: evil.example\n{good}"), &[403][..]),
            (format!("Host: 127.0.0.1:{}\n{good}", port ^ 1), &[403]),
            (format!("Host: {host}\nHost: {host}\n{good}"), &[400, 403]),
            (format!("Host: {host}\nOrigin: http://evil.example\n{good}"), &[403]),
            (format!("Host: {host}\nOrigin: null\n{good}"), &[403]),
            (format!("Host: {host}\nSec-Fetch-Site: cross-site\n{good}"), &[403]),
            (format!("Host: {host}\nSec-Fetch-Site: none\n{good}"), &[403]),
            (format!("Host: {host}"), &[401, 429]),
            (format!("Host: {host}\nAuthorization: Bearer"), &[401, 429]),
            (format!("Host: {host}\nAuthorization: Basic {token}"), &[401, 429]),
            (format!("Host: {host}\nAuthorization: bearer {token} "), &[401, 429]),
            (format!("Host: {host}\nAuthorization: Bearer {}", token.to_uppercase()), &[401, 429]),
            (format!("Host: {host}\n{good}\n{good}"), &[401, 429]),
            (format!("Host: {host}\nCookie: token={token}"), &[401, 429]),
        ] {
            let answer = ask(&method, &path, &lines);
            let fits = wanted.contains(&answer.status)
                || (is_open && [400, 401, 429].contains(&answer.status));
            assert!(fits, "{method} {path} {lines}: {}", answer.head);
            let text = answer.text();
            assert!(!text.contains("666e4f9b") && !text.contains(&token), "{path}: {text}");
            asked += 1;
        }
        // A token in the address is no token.
        let sneaked = ask(&method, &format!("{path}?token={token}"), &format!("Host: {host}"));
        assert!([400, 401, 429].contains(&sneaked.status), "{path}: {}", sneaked.head);
    }
    assert!(asked > 500, "{asked}");
    assert_eq!(before.changes(&home.snapshot()), Vec::<String>::new());
    assert_eq!(web.get("/v1/tab", &token).status, 200, "the one with the token is served");
}

#[test]
fn other_methods_and_bodies_that_are_none_do_nothing_even_with_every_right() {
    let home = sample_home();
    let web = WebUnderTest::start(&home, "--allow manage");
    let token = web.sign_in();
    let host = web.host();
    let before = home.snapshot();
    let table = routes(&document(&home));
    let say = |method: &str, path: &str, body: &[u8]| {
        let head = format!(
            "{method} {path} HTTP/1.1\nHost: {host}\nAuthorization: Bearer {token}\n\
             Connection: close\nContent-Length: {}",
            body.len()
        );
        web.say(&head, body)
    };
    for (_, path, _) in &table {
        let known: Vec<&str> = table
            .iter()
            .filter(|(_, one, _)| one == path)
            .map(|(method, ..)| method.as_str())
            .collect();
        let asked = path.replace("{id}", "none");
        for method in METHODS.iter().filter(|method| !known.contains(method)) {
            let answer = say(method, &asked, b"");
            assert!([400, 404, 405].contains(&answer.status), "{method} {asked}: {}", answer.head);
        }
    }
    for (method, path, _) in &table {
        if method == "GET" || BODILESS.contains(&(method.as_str(), path.as_str())) {
            continue;
        }
        let path = path.replace("{id}", "666e4f9b-6b85-4b9f-83d1-1435ba512bba");
        for body in wrong_bodies() {
            let answer = say(method, &path, &body);
            let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
            assert!(
                (400..500).contains(&answer.status),
                "{method} {path} {shown}: {}",
                answer.head
            );
            let told: Value = answer.json();
            assert_eq!(told["ok"], false, "{told}");
            assert!(told["error"]["message"].is_string(), "{told}");
        }
    }
    assert_eq!(before.changes(&home.snapshot()), Vec::<String>::new());
    assert_eq!(web.get("/v1/tab", &token).status, 200);
}
