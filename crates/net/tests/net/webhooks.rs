//! Webhooks end to end: a real receiver, a real daemon, and everything that goes wrong between them.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::kit::{TestDaemon, ostler, report_hook, run, wait_until, webhooks};

/// One message as a receiver got it.
#[derive(Clone, Debug)]
struct Received {
    headers: HashMap<String, String>,
    body: String,
}

impl Received {
    fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A receiver that answers as it is told: the answers in turn, the last one for ever.
pub(crate) struct Receiver {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
    answers: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    pub(crate) fn start(answers: &[&str]) -> Self {
        Self::listen(0, answers)
    }

    fn listen(port: u16, answers: &[&str]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let answers = answers.iter().map(|one| (*one).to_owned()).collect();
        let answers = Arc::new(Mutex::new(answers));
        let receiver = Self { url, received: Arc::clone(&received), answers: Arc::clone(&answers) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (received, answers) = (Arc::clone(&received), Arc::clone(&answers));
                std::thread::spawn(move || serve(stream, &received, &answers));
            }
        });
        receiver
    }

    fn answer(&self, answers: &[&str]) {
        *self.answers.lock().unwrap() = answers.iter().map(|one| (*one).to_owned()).collect();
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    #[track_caller]
    fn wait_for(&self, count: usize) -> Vec<Received> {
        wait_until(&format!("{count} messages"), || {
            Some(self.received()).filter(|received| received.len() >= count)
        })
    }
}

fn serve(stream: TcpStream, received: &Mutex<Vec<Received>>, answers: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut headers = HashMap::new();
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        received.lock().unwrap().push(Received { headers, body });
        let answer = {
            let mut answers = answers.lock().unwrap();
            if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() }
        };
        if answer == "drip" {
            // Never a whole line of an answer, and never silence.
            while (&stream).write_all(b"H").is_ok() {
                std::thread::sleep(Duration::from_millis(300));
            }
            return;
        }
        if answer == "hang" {
            std::thread::sleep(Duration::from_secs(3600));
        }
        let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n");
        if (&stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

pub(crate) fn add_webhook(home: &TempHome, url: &str, more: &str) -> Value {
    let result = run(home, &format!("webhook add --url {url} --json {more}")).exits(0).result();
    result["webhooks"][0].clone()
}

fn id_of(webhook: &Value) -> String {
    webhook["id"].as_str().unwrap().to_owned()
}

/// The cursor of a message, by its id.
fn cursor_of(id: &str) -> i64 {
    id.rsplit('_').next().unwrap().parse().unwrap()
}

/// Asks the public library for the same format whether it would accept the message.
fn accepted_elsewhere(secret: &str, message: &Received) -> bool {
    use base64::Engine;
    let key = base64::engine::general_purpose::STANDARD
        .decode(secret.trim().strip_prefix("whsec_").unwrap())
        .unwrap();
    let signed =
        format!("{}.{}.{}", message.id(), message.headers["webhook-timestamp"], message.body);
    // Another implementation of HMAC than the sender's: Python's.
    let program = "import sys,hmac,hashlib,base64\n\
                   key=bytes.fromhex(sys.argv[1])\n\
                   data=sys.stdin.buffer.read()\n\
                   print(base64.b64encode(hmac.new(key,data,hashlib.sha256).digest()).decode())";
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut child = std::process::Command::new("python3")
        .args(["-c", program, &hex])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(signed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let expected = String::from_utf8(output.stdout).unwrap();
    message.headers["webhook-signature"]
        .split(' ')
        .any(|one| one.strip_prefix("v1,") == Some(expected.trim()))
}

#[test]
fn events_arrive_signed_in_order_and_without_texts() {
    let home = TempHome::new();
    let receiver = Receiver::start(&["204 No Content"]);
    let _daemon = TestDaemon::start(&home);
    report_hook(&home, "before", "SessionStart", "");
    wait_until("the first event", || {
        Some(()).filter(|()| run(&home, "events").stdout.contains("before"))
    });
    let webhook = add_webhook(&home, &receiver.url, "");
    for number in 0..3 {
        report_hook(&home, &format!("s{number}"), "UserPromptSubmit", "canary-prompt");
    }
    let received = receiver.wait_for(3);
    let sessions: Vec<Value> =
        received.iter().map(|one| one.json()["data"]["session"].clone()).collect();
    assert_eq!(sessions, ["s0", "s1", "s2"], "from the day it was added, in order");
    let secret = webhook["secretFiles"][0].as_str().unwrap();
    let secret = std::fs::read_to_string(secret).unwrap();
    for message in &received {
        assert_eq!(message.json()["type"], "turn-start");
        assert!(!message.body.contains("canary"), "{}", message.body);
        assert!(!message.body.contains(home.path().to_str().unwrap()), "{}", message.body);
        assert!(accepted_elsewhere(&secret, message), "row 84");
        let altered = Received { body: message.body.replace("s1", "s2") + " ", ..message.clone() };
        assert!(!accepted_elsewhere(&secret, &altered), "row 84");
    }
    let listed =
        wait_until("the cursor", || webhooks(&home).pop().filter(|one| one["delivered"] == 3));
    assert_eq!(listed["cursor"], cursor_of(received[2].id()));
    let told = run(&home, "webhook ls").stdout;
    assert!(told.contains("3 delivered") && !told.contains("whsec_"), "{told}");
}

#[test]
fn row_82_answers_are_obeyed() {
    let home = TempHome::new();
    let _daemon = TestDaemon::start(&home);
    let failing = Receiver::start(&["500 Oh", "429 Slow\r\nretry-after: 90"]);
    let redirecting = Receiver::start(&["302 Found\r\nlocation: http://127.0.0.1:1/"]);
    let gone = Receiver::start(&["410 Gone"]);
    let well = Receiver::start(&["200 OK"]);
    let ids: Vec<String> = [&failing, &redirecting, &gone, &well]
        .map(|one| id_of(&add_webhook(&home, &one.url, "")))
        .to_vec();
    report_hook(&home, "one", "SessionStart", "");
    report_hook(&home, "two", "SessionStart", "");
    assert_eq!(well.wait_for(2).len(), 2);
    let find = |id: &str| webhooks(&home).into_iter().find(|one| one["id"] == id).unwrap();
    let disabled =
        wait_until("410", || Some(find(&ids[2])).filter(|one| one["disabled"] != Value::Null));
    assert!(disabled["disabled"].as_str().unwrap().contains("410"));
    let redirected = wait_until("302", || Some(find(&ids[1])).filter(|one| one["tries"] == 1));
    assert!(redirected["lastError"].as_str().unwrap().contains("not followed"));
    let failed = wait_until("500", || Some(find(&ids[0])).filter(|one| one["tries"] == 1));
    let next = |one: &Value| one["nextTryAt"].as_str().unwrap().to_owned();
    assert_eq!(failing.received().len(), 1, "the second one waits for the first");
    // Asked to try at once, it hears to wait for 90 s, which is longer than its own pause.
    run(&home, &format!("webhook retry {}", ids[0])).exits(0);
    let asked = wait_until("429", || Some(find(&ids[0])).filter(|one| one["tries"] == 2));
    assert!(next(&asked) > next(&failed));
    assert!(asked["lastError"].as_str().unwrap().contains("429"));
    failing.answer(&["200 OK"]);
    run(&home, &format!("webhook retry {}", ids[0])).exits(0);
    let received = failing.wait_for(4);
    let order: Vec<i64> = received.iter().map(|one| cursor_of(one.id())).collect();
    assert_eq!(order[0], order[1], "the same id in every try");
    assert_eq!(order[1], order[2]);
    assert!(order[3] > order[2], "in order");
}

#[test]
fn row_82_what_is_refused_five_times_is_set_aside_and_sent_on_request() {
    let home = TempHome::new();
    let _daemon = TestDaemon::start(&home);
    let receiver = Receiver::start(&["404 No"]);
    let id = id_of(&add_webhook(&home, &receiver.url, ""));
    report_hook(&home, "one", "SessionStart", "");
    for tries in 1..5 {
        wait_until("a try", || webhooks(&home).pop().filter(|one| one["tries"] == tries));
        run(&home, &format!("webhook retry {id}")).exits(0);
    }
    let aside = wait_until("setting aside", || {
        webhooks(&home).pop().filter(|one| one["setAside"] != Value::Null)
    });
    assert_eq!(aside["setAside"][0]["tries"], 5);
    receiver.answer(&["200 OK"]);
    report_hook(&home, "two", "SessionStart", "");
    receiver.wait_for(6);
    run(&home, &format!("webhook retry {id}")).exits(0);
    wait_until("the end of it", || {
        webhooks(&home).pop().filter(|one| one["setAside"] == Value::Null)
    });
    let last = receiver.received().pop().unwrap();
    assert_eq!(last.json()["data"]["session"], "one");
}

/// What cannot be reached, is no TLS, or answers a byte at a time is tried again, and comes in order once it can.
#[test]
fn row_82_a_receiver_that_is_down_broken_or_slow_is_tried_again_in_order() {
    let home = TempHome::new();
    let _daemon = TestDaemon::start(&home);
    let port = super::kit::free_port();
    let slow = Receiver::start(&["drip", "200 OK"]);
    let plain = Receiver::start(&["200 OK"]);
    let urls = [
        format!("http://127.0.0.1:{port}/hook"),
        slow.url.clone(),
        plain.url.replace("http://", "https://"),
    ];
    let ids: Vec<String> = urls.iter().map(|url| id_of(&add_webhook(&home, url, ""))).collect();
    report_hook(&home, "one", "SessionStart", "");
    report_hook(&home, "two", "SessionStart", "");
    let failed = |id: &str, what: &str| {
        let find = || webhooks(&home).into_iter().find(|one| one["id"] == *id).unwrap();
        let one = wait_until(what, || Some(find()).filter(|one| one["tries"] == 1));
        let reason = one["lastError"].as_str().unwrap().to_owned();
        assert!(reason.contains(what), "{one}");
        assert!(one["nextTryAt"].is_string() && one["setAside"].is_null(), "{one}");
    };
    failed(&ids[0], "cannot be reached");
    failed(&ids[2], "TLS");
    failed(&ids[1], "did not answer within 10 s");
    assert_eq!(plain.received().len(), 0, "nothing is sent in the clear instead");
    let up = Receiver::listen(port, &["200 OK"]);
    for (id, receiver, count) in [(&ids[0], &up, 2), (&ids[1], &slow, 3)] {
        run(&home, &format!("webhook retry {id}")).exits(0);
        let received = receiver.wait_for(count);
        let sessions: Vec<Value> =
            received.iter().map(|one| one.json()["data"]["session"].clone()).collect();
        assert_eq!(sessions[count - 2..], ["one", "two"], "in order");
    }
}

#[test]
fn row_83_killed_between_answer_and_cursor_sends_the_same_id_again() {
    let home = TempHome::new();
    let receiver = Receiver::start(&["200 OK"]);
    let pauses = Pauses::new();
    let mut command = ostler(&home);
    pauses.apply(&mut command);
    let daemon = TestDaemon::with(command);
    add_webhook(&home, &receiver.url, "");
    pauses.arm("webhook.reported");
    report_hook(&home, "one", "SessionStart", "");
    pauses.wait("webhook.reported");
    let first = receiver.wait_for(1)[0].id().to_owned();
    daemon.kill();
    report_hook(&home, "two", "SessionStart", "");
    let _daemon = TestDaemon::start(&home);
    let received = receiver.wait_for(3);
    assert_eq!(received[1].id(), first, "at least once");
    assert_eq!(received[2].json()["data"]["session"], "two", "nothing skipped");
}

#[test]
fn row_84_two_secrets_sign_side_by_side() {
    let home = TempHome::new();
    let _daemon = TestDaemon::start(&home);
    let receiver = Receiver::start(&["200 OK"]);
    let secrets = [
        "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "whsec_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB",
    ];
    for (name, secret) in ["old", "new"].iter().zip(secrets) {
        let path = home.write(name, secret);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
    }
    let id = id_of(&add_webhook(&home, &receiver.url, "--secret-file old --secret-file new"));
    let tested = run(&home, &format!("webhook test {id} --json")).exits(0).result();
    assert_eq!(tested["delivered"], true);
    let message = receiver.wait_for(1).pop().unwrap();
    assert_eq!(message.json()["type"], "test");
    assert!(secrets.iter().all(|secret| accepted_elsewhere(secret, &message)));
}

/// The memory of its own that the daemon's sender has, in kilobytes.
fn sender_memory(daemon: &TestDaemon) -> u64 {
    let own = std::fs::read_dir(format!("/proc/{}/task", daemon.0.id())).unwrap();
    let below: String = own
        .map(|one| std::fs::read_to_string(one.unwrap().path().join("children")).unwrap())
        .collect();
    let all = below.split_whitespace().filter_map(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    all.max().expect("the sender runs")
}

#[test]
fn row_85_a_receiver_that_hangs_delays_nobody_else() {
    let home = TempHome::new();
    let daemon = TestDaemon::start(&home);
    let hanging = Receiver::start(&["hang"]);
    let (one, other) = (Receiver::start(&["200 OK"]), Receiver::start(&["200 OK"]));
    for receiver in [&hanging, &one, &other] {
        add_webhook(&home, &receiver.url, "");
    }
    // A thousand reports, as hooks leave them: lines of the spool.
    let mut lines = String::new();
    for number in 0..1000 {
        lines.push_str(&format!(
            "\n{{\"id\":\"r{number}\",\"at\":\"2026-11-18T00:00:00.000Z\",\"agent\":\"claude-code\",\
             \"event\":\"Stop\",\"session\":\"s{number}\",\"happening\":\"turn-end\"}}\n"
        ));
    }
    report_hook(&home, "first", "SessionStart", "");
    let spool = std::fs::read_dir(home.join(".local/state/ostler/spool")).unwrap();
    let file = spool.map(|one| one.unwrap().path()).find(|path| path.is_file()).unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    one.wait_for(100);
    let before = sender_memory(&daemon);
    for receiver in [&one, &other] {
        let received = receiver.wait_for(1001);
        let cursors: Vec<i64> = received.iter().map(|one| cursor_of(one.id())).collect();
        assert!(cursors.is_sorted(), "in order");
    }
    assert_eq!(hanging.received().len(), 1);
    let after = sender_memory(&daemon);
    assert!(after < before + 4096, "from {before} kB to {after} kB");
}

#[test]
fn row_86_a_secret_that_others_can_read_is_refused() {
    let home = TempHome::new();
    let _daemon = TestDaemon::start(&home);
    let receiver = Receiver::start(&["200 OK"]);
    let path = home.write("secret", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    let open = |mode: u32| {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    };
    open(0o640);
    let line = format!("webhook add --url {} --secret-file secret", receiver.url);
    let refused = run(&home, &line).exits(13);
    assert!(refused.stderr.contains("chmod 600"), "{}", refused.stderr);
    open(0o600);
    run(&home, &line).exits(0);
    open(0o644);
    report_hook(&home, "one", "SessionStart", "");
    let failing = wait_until("the refusal", || {
        webhooks(&home).pop().filter(|one| one["lastError"] != Value::Null)
    });
    assert!(failing["lastError"].as_str().unwrap().contains("open to others"), "{failing}");
    assert_eq!(receiver.received().len(), 0, "nothing leaves unsigned");
    open(0o600);
    run(&home, &format!("webhook retry {}", id_of(&failing))).exits(0);
    receiver.wait_for(1);
}

#[test]
fn a_removed_webhook_gets_nothing_and_the_last_one_ends_the_helper() {
    let home = TempHome::new();
    let daemon = TestDaemon::start(&home);
    let receiver = Receiver::start(&["200 OK"]);
    let id = id_of(&add_webhook(&home, &receiver.url, "--events turn-end"));
    report_hook(&home, "one", "SessionStart", "");
    report_hook(&home, "one", "Stop", "");
    assert_eq!(receiver.wait_for(1)[0].json()["type"], "turn-end", "only what is wanted");
    let children = || {
        let path = format!("/proc/{0}/task/{0}/children", daemon.0.id());
        let own = std::fs::read_dir(format!("/proc/{}/task", daemon.0.id())).unwrap();
        let tasks = own.map(|one| one.unwrap().path().join("children"));
        let text: String = tasks
            .chain([path.into()])
            .map(|one| std::fs::read_to_string(one).unwrap_or_default())
            .collect();
        text.split_whitespace().count()
    };
    assert!(children() > 0);
    run(&home, &format!("webhook rm {id}")).exits(0);
    wait_until("the end of the helper", || Some(()).filter(|()| children() == 0));
    report_hook(&home, "one", "Stop", "");
    assert_eq!(receiver.received().len(), 1);
    run(&home, &format!("webhook rm {id}")).exits(3);
}

#[test]
fn a_missing_helper_is_named_with_what_to_install() {
    let home = TempHome::new();
    let alone = home.directory("alone").join("ostler");
    std::fs::copy(super::kit::ostler_program(), &alone).unwrap();
    let id = id_of(&add_webhook(&home, "http://127.0.0.1:9/", ""));
    let mut command = testkit::run::bare(&alone, &home);
    let ran =
        testkit::run::ran(command.env("PATH", "/usr/bin:/bin").args(["webhook", "test", &id]));
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stderr.contains("cargo xtask install --net"), "{}", ran.stderr);
}
