//! A scanner's view: what a client without a right, of another page, with another name or without manners
//! can see and do.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::home::TempHome;

use super::client::{Heard, WebUnderTest};
use crate::cli::run::{run, sample_home};

#[test]
fn row_33_34_other_names_and_other_pages_are_refused_before_anything_else() {
    let home = sample_home();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let port = web.port;
    let ask = |lines: &str| {
        let head = format!(
            "GET /v1/sessions HTTP/1.1\nAuthorization: Bearer {token}\nConnection: close\n{lines}"
        );
        web.say(&head, b"").status
    };
    assert_eq!(ask(&format!("Host: 127.0.0.1:{port}")), 200);
    assert_eq!(ask(&format!("Host: localhost:{port}")), 200);
    for host in ["evil.example", "127.0.0.1", "127.0.0.1:1", "x@127.0.0.1", "[::1]"] {
        assert_eq!(ask(&format!("Host: {host}")), 403, "{host}");
    }
    assert!([400, 403].contains(&ask("X: y")));
    let here = format!("Host: 127.0.0.1:{port}");
    for other in [
        "Origin: null".to_owned(),
        "Origin: http://evil.example".to_owned(),
        format!("Origin: https://127.0.0.1:{port}"),
        format!("Origin: http://127.0.0.1:{}", port.wrapping_add(1)),
        "Sec-Fetch-Site: cross-site".to_owned(),
        "Sec-Fetch-Site: same-site".to_owned(),
    ] {
        assert_eq!(ask(&format!("{here}\n{other}")), 403, "{other}");
    }
    // The page itself may be reached from a link, and holds nothing.
    let page = web.say(
        &format!("GET / HTTP/1.1\n{here}\nSec-Fetch-Site: cross-site\nConnection: close"),
        b"",
    );
    assert_eq!(page.status, 200);
    let rebound = web.say("GET / HTTP/1.1\nHost: evil.example\nConnection: close", b"");
    assert_eq!(rebound.status, 403);
}

#[test]
fn row_35_36_keys_and_tickets_are_good_once() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let again = web.call("POST", "/v1/tab", "", &json!({ "key": web.key() }));
    assert_eq!((again.status, again.code().as_str()), (401, "UNAUTHORIZED"));
    let ticket = web.call("POST", "/v1/tickets", &token, &Value::Null).json();
    let ticket = ticket["result"]["ticket"].as_str().unwrap();
    assert_eq!(web.try_socket(ticket).0, 101);
    assert_eq!(web.try_socket(ticket).0, 401);
    assert_eq!(web.try_socket(&token).0, 401);
}

#[test]
fn row_37_every_answer_has_the_headers() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let shell = web.get("/", "").text();
    let asset = shell.split('"').find(|part| part.ends_with("app.js")).unwrap().to_owned();
    for (path, token) in [
        ("/", ""),
        ("/s/x", ""),
        (asset.as_str(), ""),
        ("/nothing", ""),
        ("/v1/sessions", ""),
        ("/v1/sessions", token.as_str()),
        ("/v1/nothing", token.as_str()),
    ] {
        let head = web.get(path, token).head.to_lowercase();
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; \
             font-src 'self'; img-src 'self' blob:; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
             trusted-types 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(head.contains(header), "{path}: {header} in {head}");
        }
        assert!(!head.contains("set-cookie"), "{head}");
        assert_eq!(
            head.contains("cache-control: no-store"),
            path.starts_with("/v1/") || path == "/nothing"
        );
    }
}

#[test]
fn row_38_only_loopback_is_listened_on() {
    let home = TempHome::new();
    for option in ["--bind 0.0.0.0", "--host 0.0.0.0", "--port 0.0.0.0:7117", "--port 70000"] {
        run(&home, &format!("web {option}")).exits(2);
    }
    home.write(".config/ostler/config.toml", "[web]\nbind = \"0.0.0.0\"\n");
    let refused = run(&home, "web --port 0");
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("bind"), "{refused:?}");
    home.write(".config/ostler/config.toml", "");
    let web = WebUnderTest::start(&home, "");
    let listening = std::fs::read_to_string(format!("/proc/{}/net/tcp", web.pid())).unwrap();
    let port = format!(":{:04X} ", web.port);
    let ours: Vec<&str> = listening.lines().filter(|line| line.contains(&port)).collect();
    assert!(ours.iter().any(|line| line.contains("0100007F")), "{ours:?}");
    assert!(
        !ours.iter().any(|line| line.contains(" 00000000:")
            && line.contains(&format!("00000000{}", port.trim_end()))),
        "{ours:?}"
    );
    // The port of somebody else is named, not taken; and one home has one server.
    let other = TempHome::new();
    let taken = run(&other, &format!("web --port {}", web.port)).exits(13);
    assert!(taken.stderr.contains(&web.port.to_string()), "{taken:?}");
    let second = run(&home, "web --port 0").exits(13);
    assert!(second.stderr.contains(&web.pid().to_string()), "{second:?}");
}

#[test]
fn row_39_no_secret_is_where_others_look() {
    let home = sample_home();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let wrong = "y".repeat(43);
    assert_eq!(web.get("/v1/sessions", &wrong).status, 401);
    web.get("/v1/sessions", &token);
    let process = |file: &str| std::fs::read(format!("/proc/{}/{file}", web.pid())).unwrap();
    let mut seen = [process("cmdline"), process("environ")].concat();
    let mut places = vec![home.path().to_owned()];
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(place).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                places.push(entry.path());
            } else if kind.is_file() {
                seen.extend(std::fs::read(entry.path()).unwrap());
            }
        }
    }
    for secret in [token.as_str(), web.key(), wrong.as_str()] {
        let found = seen.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "a secret is in a file, in argv or in the environment");
    }
}

#[test]
fn row_40_rude_clients_cost_nobody_else_anything() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let idle: Vec<_> = (0..1000).map(|_| web.connect()).collect();
    let host = web.host();
    // Slow in the head, slow in the body, and silent after an answer.
    let mut slow = Vec::new();
    for begun in [
        "GET / HTTP/1.1\r\nHost: ".to_owned(),
        format!("POST /v1/tab HTTP/1.1\r\nHost: {host}\r\nContent-Length: 20\r\n\r\n{{\"key"),
        format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"),
    ] {
        let mut stream = web.connect();
        stream.write_all(begun.as_bytes()).unwrap();
        slow.push(stream);
    }
    let begun = Instant::now();
    assert_eq!(web.get("/v1/tab", &token).status, 200);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    drop((idle, slow));
    let huge = format!("GET / HTTP/1.1\nHost: {host}\nX-Big: {}", "x".repeat(100_000));
    assert!([0, 400, 431].contains(&web.say(&huge, b"").status));
    let head = format!(
        "POST /v1/tab/ask HTTP/1.1\nHost: {host}\nAuthorization: Bearer {token}\n\
         Connection: close\nContent-Length: 2000000"
    );
    let large = web.say(&head, &vec![b' '; 2_000_000]);
    assert!([0, 413].contains(&large.status), "{}", large.head);
    for path in [
        "//v1/sessions",
        "/v1/../etc/passwd",
        "/assets/../../etc/passwd",
        "/%2e%2e/x",
        "/v1/sessions%00",
    ] {
        assert!([400, 404].contains(&web.get(path, &token).status), "{path}");
    }
    for garbage in
        ["\u{0}\u{1}", "GET", "GET / HTTP/9.9\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut stream = web.connect();
        stream.write_all(garbage.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
    }
    assert_eq!(web.get("/v1/tab", &token).status, 200);
}

#[test]
fn row_40_who_reads_nothing_gives_its_place_to_others() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let host = web.host();
    let shell = web.get("/", "").text();
    let style = shell.split('"').find(|part| part.ends_with("style.css")).unwrap().to_owned();
    let font = style.replace("style.css", "mono.ttf");
    let asks = format!("GET {font} HTTP/1.1\r\nHost: {host}\r\n\r\n").repeat(40);
    let deaf: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = web.connect();
            stream.write_all(asks.as_bytes()).unwrap();
            stream
        })
        .collect();
    let begun = Instant::now();
    assert_eq!(web.get("/v1/tab", &token).status, 200);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    drop(deaf);
}

/// How many may wait and follow at once.
const MOST_LASTING: usize = 32;

/// The status of an answer whose body may never end, once its head has come.
fn read_status(stream: &mut impl Read) -> u16 {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Something that happened, so that who follows has something to read.
fn make_event(home: &TempHome, web: &WebUnderTest, token: &str) {
    let pin = "/v1/sessions/666e4f9b-6b85-4b9f-83d1-1435ba512bba/pin";
    assert_eq!(web.call("PUT", pin, token, &json!({ "note": "keep" })).status, 200);
    while run(home, "events --json").exits(0).stdout.is_empty() {}
}

#[test]
fn row_40_who_follows_keeps_nobody_from_anything_and_ends_with_its_client() {
    let home = sample_home();
    let web = WebUnderTest::start(&home, "--allow manage");
    let token = web.sign_in();
    make_event(&home, &web, &token);
    let follow = || {
        let mut stream = web.connect();
        let host = web.host();
        let head = format!(
            "GET /v1/events?follow=true&since=0 HTTP/1.1\r\nHost: {host}\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        (read_status(&mut stream), stream)
    };
    let mut followers = Vec::new();
    for _ in 0..MOST_LASTING {
        let (status, stream) = follow();
        assert_eq!(status, 200);
        followers.push(stream);
    }
    let refused = web.get("/v1/events?follow=true&since=0", &token);
    assert_eq!((refused.status, refused.code().as_str()), (503, "BUSY"), "{}", refused.text());
    assert_eq!(refused.json()["error"]["retryable"], true);
    // Everything else is served, what looks and what acts.
    assert_eq!(web.get("/v1/sessions?all=true", &token).status, 200);
    assert_eq!(web.get("/v1/events", &token).status, 200);
    let keys = web.call("POST", "/v1/terminals/none/keys", &token, &json!({ "keys": ["a"] }));
    assert_eq!(keys.status, 404, "{}", keys.text());
    let prompt = web.call("POST", "/v1/sessions/none/prompt", &token, &json!({ "text": "a" }));
    assert_eq!(prompt.status, 404, "{}", prompt.text());
    let stop = web.call("POST", "/v1/sessions/none/stop", &token, &json!({ "identity": "1:1" }));
    assert_eq!(stop.status, 404, "{}", stop.text());
    // Nothing happens, and still their places are free when they have left.
    drop(followers);
    let begun = Instant::now();
    while follow().0 == 503 {
        assert!(begun.elapsed() < Duration::from_secs(20), "their places are not given back");
    }
}

#[test]
fn row_40_who_waits_keeps_nobody_from_anything_and_ends_with_its_client() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "--allow manage");
    let token = web.sign_in();
    let made = json!({ "command": ["/bin/cat"], "cols": 40, "rows": 8 });
    let made = web.call("POST", "/v1/terminals", &token, &made);
    let id = made.json()["result"]["sessionId"].as_str().unwrap().to_owned();
    let path = format!("/v1/terminals/{id}/wait");
    let waiting: Vec<_> = (0..MOST_LASTING)
        .map(|_| {
            let body = json!({ "text": "never", "timeout": 0 }).to_string();
            let mut stream = web.connect();
            let (host, length) = (web.host(), body.len());
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let try_wait = || web.call("POST", &path, &token, &json!({ "text": "never", "timeout": 1 }));
    let begun = Instant::now();
    while try_wait().status != 503 {
        assert!(begun.elapsed() < Duration::from_secs(20), "so many may wait");
    }
    assert_eq!(try_wait().json()["error"]["retryable"], true);
    let keys = format!("/v1/terminals/{id}/type");
    assert_eq!(web.call("POST", &keys, &token, &json!({ "text": "a" })).status, 200);
    assert_eq!(web.get("/v1/sessions", &token).status, 200);
    drop(waiting);
    let begun = Instant::now();
    let free = loop {
        let answer = try_wait();
        if answer.status != 503 {
            break answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "their places are not given back");
    };
    assert_eq!(free.json()["result"]["timedOut"], true, "{}", free.text());
    // A wait of several turns ends with what it waits for.
    let found = std::thread::scope(|scope| {
        let body = json!({ "text": "later", "timeout": 60_000 });
        let asked = scope.spawn(move || web.call("POST", &path, &token, &body));
        run(&home, &format!("wait {id} --text never --timeout 2500"));
        run(&home, &format!("type {id} later")).exits(0);
        asked.join().unwrap()
    });
    assert_eq!((found.status, &found.json()["result"]["timedOut"]), (200, &json!(false)));
    run(&home, &format!("destroy --force {id}")).exits(0);
}

#[test]
fn row_40_on_the_daemons_socket_who_follows_keeps_nobody_from_anything() {
    let home = sample_home();
    let web = WebUnderTest::start(&home, "--allow manage");
    let token = web.sign_in();
    make_event(&home, &web, &token);
    drop(web);
    let _daemon = crate::cli::daemon::Daemon::start(&home);
    let (socket, home_id) = (crate::cli::daemon::socket(&home), crate::cli::daemon::home_id(&home));
    let ask = |path: &str| {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nx-ostler-home: {home_id}\r\n\r\n")
            .unwrap();
        (read_status(&mut stream), stream)
    };
    let follow = "/v1/events?follow=true&since=0";
    let followers: Vec<_> = (0..MOST_LASTING).map(|_| ask(follow)).collect();
    assert!(followers.iter().all(|(status, _)| *status == 200));
    assert_eq!(ask(follow).0, 503);
    assert_eq!(ask("/v1/sessions").0, 200);
    drop(followers);
    let begun = Instant::now();
    while ask(follow).0 == 503 {
        assert!(begun.elapsed() < Duration::from_secs(20), "their places are not given back");
    }
}

#[test]
fn row_44_a_revoked_tab_loses_its_socket_within_a_second() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let mut socket = web.open_socket(&token);
    let listed = run(&home, "web ls --json").exits(0).result();
    assert_eq!(listed["pid"], web.pid());
    let name = listed["tabs"][0]["name"].as_str().unwrap().to_owned();
    run(&home, &format!("web revoke {name}")).exits(0);
    // The command itself takes its time to start: what counts begins when the server has done it.
    let revoked = Instant::now();
    assert_eq!(socket.hear(), Heard::Closed(4003));
    assert!(revoked.elapsed() < Duration::from_secs(1), "{:?}", revoked.elapsed());
    assert_eq!(web.get("/v1/tab", &token).status, 401);
    run(&home, &format!("web revoke {name}")).exits(2);
}

#[test]
fn row_44_a_revoked_tab_loses_its_streams_within_a_second() {
    let home = sample_home();
    let web = WebUnderTest::start(&home, "--allow manage");
    let token = web.sign_in();
    make_event(&home, &web, &token);
    let mut stream = web.connect();
    let host = web.host();
    let head = format!(
        "GET /v1/events?follow=true&since=0 HTTP/1.1\r\nHost: {host}\r\n\
         Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(read_status(&mut stream), 200);
    run(&home, "web revoke tab-1").exits(0);
    let revoked = Instant::now();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(revoked.elapsed() < Duration::from_secs(1), "{:?}", revoked.elapsed());
    assert!(rest.contains("\"UNAUTHORIZED\""), "the last line says why: {rest}");
    // It is whole: the last chunk is there.
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "{rest}");
}

#[test]
fn row_44_a_revoked_tab_waits_for_nothing() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "--allow manage");
    let token = web.sign_in();
    let made = json!({ "command": ["/bin/cat"], "cols": 40, "rows": 8 });
    let made = web.call("POST", "/v1/terminals", &token, &made);
    let id = made.json()["result"]["sessionId"].as_str().unwrap().to_owned();
    let path = format!("/v1/terminals/{id}/wait");
    let refused = std::thread::scope(|scope| {
        let asked = scope
            .spawn(|| web.call("POST", &path, &token, &json!({ "text": "never", "timeout": 0 })));
        run(&home, "web revoke tab-1").exits(0);
        asked.join().unwrap()
    });
    assert_eq!(refused.status, 401, "{}", refused.text());
    run(&home, &format!("destroy --force {id}")).exits(0);
}

#[test]
fn row_64_a_right_is_opened_by_a_person_and_the_page_is_told() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let mut socket = web.open_socket(&token);
    web.allow(&home, &token, "type");
    assert_eq!(socket.hear_until("its right", |told| told.get("right").is_some())["right"], "type");
    assert_eq!(web.get("/v1/tab", &token).json()["result"]["right"], "type");
    run(&home, "web allow AAAA-AAAA").exits(2);
}
