//! What acts on agents, with real processes: each answer fits the document, and what changed meanwhile is refused.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::home::TempHome;

use super::client::{HttpAnswer, WebUnderTest};
use super::routes::{assert_fits, document, routes};
use crate::cli::live::{FakeAgent, lab, register, wait_until};
use crate::cli::run::{claude_session, run, sample_home};

const ID: &str = "11111111-1111-4111-8111-111111111111";
/// The session of `fake_agent.py`.
const DRIVEN: &str = "5b1e0c52-8a5e-4b8e-9a55-d0a3a0c3c001";
const SAMPLE: &str = "666e4f9b-6b85-4b9f-83d1-1435ba512bba";

/// A server, a tab with every right, and the document that answers are compared with.
struct VerbsUnderTest {
    web: WebUnderTest,
    token: String,
    document: Value,
}

impl VerbsUnderTest {
    fn start(home: &TempHome) -> Self {
        let web = WebUnderTest::start(home, "--allow manage");
        let token = web.sign_in();
        Self { web, token, document: document(home) }
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> HttpAnswer {
        self.web.call(method, path, &self.token, body)
    }

    /// Calls a route of the table; its answer fits the document.
    #[track_caller]
    fn fits(&self, method: &str, route: &str, id: &str, body: &Value) -> Value {
        let answer = self.call(method, &route.replace("{id}", id), body);
        assert_eq!(answer.status, 200, "{method} {route}: {}", answer.text());
        let table = routes(&self.document);
        let found = table.iter().find(|(one, path, _)| one == method && path == route);
        assert_fits(&self.document, &found.unwrap().2, &answer);
        answer.json()["result"].clone()
    }
}

/// An agent with files, and the identity of its process.
fn start_agent(home: &TempHome, repo: &Path) -> FakeAgent {
    let agent = FakeAgent::start(home, "claude", repo);
    register(home, &agent, &agent.registration(ID, repo));
    agent
}

fn identity(verbs: &VerbsUnderTest) -> String {
    let shown = verbs.call("GET", &format!("/v1/sessions/{ID}"), &Value::Null).json();
    let owner = &shown["result"]["session"]["owner"];
    format!("{}:{}", owner["pid"], owner["start"])
}

#[test]
fn row_31_what_stops_pins_finalizes_and_cleans_up_answers_as_the_document_says() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let agent = start_agent(&home, &repo);
    let verbs = VerbsUnderTest::start(&home);
    verbs.fits("PUT", "/v1/sessions/{id}/pin", ID, &json!({ "note": "keep" }));
    verbs.fits("DELETE", "/v1/sessions/{id}/pin", ID, &Value::Null);
    let stop = "/v1/sessions/{id}/stop";
    let identity = identity(&verbs);
    let plan = verbs.fits("POST", stop, ID, &json!({ "identity": identity, "dryRun": true }));
    assert_eq!(plan["stopped"][0]["processes"][0]["how"], "would-end", "{plan}");
    let done = verbs.fits("POST", stop, ID, &json!({ "identity": identity }));
    assert_eq!(done["stopped"][0]["processes"][0]["pid"], agent.pid(), "{done}");
    // A session that hooks told of, and whose agent is gone.
    let mut told = crate::cli::agent::Agent::start(&home, "22222222-2222-4222-8222-222222222222");
    told.begin();
    run(&home, "status").exits(0);
    told.kill();
    let path = "/v1/sessions/claude-code:22222222-2222-4222-8222-222222222222/finalize";
    let table = routes(&verbs.document);
    let of_finalize = &table.iter().find(|(_, path, _)| path.ends_with("/finalize")).unwrap().2;
    let finalize = |body: &Value| {
        let answer = verbs.call("POST", path, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_fits(&verbs.document, of_finalize, &answer);
        let told = answer.json()["result"].clone();
        assert_eq!(told["ended"].as_array().unwrap().len(), 1, "{told}");
        told
    };
    let shown = finalize(&json!({ "dryRun": true }));
    assert_eq!(shown["dryRun"], true, "{shown}");
    // Another process than the one that was shown: nothing is ended.
    let other = verbs.call("POST", path, &json!({ "identity": "1:1" }));
    assert_eq!((other.status, other.code().as_str()), (409, "REFUSED"), "{}", other.text());
    assert_eq!(verbs.call("POST", path, &json!({})).status, 400);
    let done = finalize(&json!({ "identity": shown["ended"][0]["identity"] }));
    assert_eq!(done["dryRun"], false, "{done}");
    let plan = verbs.fits("GET", "/v1/gc", "", &Value::Null);
    let hash = plan["plan"].clone();
    let done = verbs.fits("POST", "/v1/gc", "", &json!({ "planHash": hash }));
    if let Some(receipt) = done["receipt"].as_str() {
        verbs.fits("POST", "/v1/receipts/{id}/undo", receipt, &Value::Null);
    }
    // Each act is an event, and what was only shown or refused is none.
    verbs.fits("PUT", "/v1/sessions/{id}/pin", ID, &json!({ "note": "the last" }));
    let commands = || -> Vec<String> {
        let events = run(&home, "events --json").exits(0).stdout;
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let acts = events.filter(|event| event["kind"] == "page.command");
        acts.map(|event| event["detail"]["command"].as_str().unwrap().to_owned()).collect()
    };
    wait_until("the last act is an event", || {
        commands().iter().filter(|one| *one == "pin").count() == 2
    });
    let times = |command: &str| commands().iter().filter(|one| *one == command).count();
    assert_eq!((times("stop"), times("finalize"), times("pin --remove")), (1, 1, 1));
}

#[test]
fn an_entry_is_revealed_to_who_may_manage_and_that_is_an_event() {
    let home = TempHome::new();
    let secret = format!("sk-ant-api03-{}", "a1B2".repeat(24));
    claude_session(&home, ID, "/home/user/repo", &format!("use {secret}"));
    let verbs = VerbsUnderTest::start(&home);
    let talk = verbs.fits("GET", "/v1/sessions/{id}/talk", ID, &Value::Null);
    let masked = talk["entries"].as_array().unwrap().iter().find(|one| one["masked"] == 1);
    let masked = masked.unwrap_or_else(|| panic!("{talk}"));
    assert!(!talk.to_string().contains(&secret), "{talk}");
    let body = json!({ "entry": masked["number"] });
    let shown = verbs.fits("POST", "/v1/sessions/{id}/reveal", ID, &body);
    assert_eq!(shown["entries"].as_array().unwrap().len(), 1, "{shown}");
    assert!(shown.to_string().contains(&secret), "{shown}");
    let events = || run(&home, "events --json").exits(0).stdout;
    wait_until("it is an event", || events().contains("logs --blocks --reveal"));
    assert!(!events().contains(&secret));
}

/// An agent that takes prompts, in a terminal.
struct DrivenAgent<'a> {
    home: &'a TempHome,
    terminal: String,
    record: PathBuf,
}

impl<'a> DrivenAgent<'a> {
    fn start(home: &'a TempHome, options: &str) -> Self {
        let record = home.join("record");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/fake_agent.py");
        let (noted, files) = (record.display(), home.join(".claude"));
        let line = format!(
            "create --json -- python3 {script} {noted} claude={} {options}",
            files.display()
        );
        let made = run(home, line.trim()).exits(0).result();
        let terminal = made["sessionId"].as_str().unwrap().to_owned();
        let agent = Self { home, terminal, record };
        wait_until("the agent is linked to its terminal", || {
            run(home, &format!("show {DRIVEN} --json")).stdout.contains(&agent.terminal)
        });
        agent
    }

    fn noted(&self, what: &str) -> usize {
        let text = std::fs::read_to_string(&self.record).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line.get(what).is_some()).count()
    }
}

impl Drop for DrivenAgent<'_> {
    fn drop(&mut self) {
        run(self.home, &format!("destroy --force {}", self.terminal));
    }
}

#[test]
fn row_31_a_prompt_answers_as_the_document_says_and_one_request_arrives_once() {
    let home = TempHome::new();
    let agent = DrivenAgent::start(&home, "");
    let verbs = VerbsUnderTest::start(&home);
    let prompt = "/v1/sessions/{id}/prompt";
    let body = json!({ "text": "mend the parser", "requestId": "draft-1" });
    let first = verbs.fits("POST", prompt, DRIVEN, &body);
    assert_eq!(first["delivery"]["state"].as_str().or(first["state"].as_str()), Some("accepted"));
    // The same draft once more: its receipt, and nothing is typed.
    let again = verbs.fits("POST", prompt, DRIVEN, &body);
    assert_eq!(again["id"], first["id"], "{again}");
    assert_eq!((agent.noted("pasted"), agent.noted("prompt")), (1, 1));
    // Another draft of the same text is another prompt; another text under the same name is none.
    let body = json!({ "text": "another text", "requestId": "draft-1" });
    let reused = verbs.call("POST", &prompt.replace("{id}", DRIVEN), &body);
    assert_eq!((reused.status, reused.code().as_str()), (409, "REFUSED"), "{}", reused.text());
    let body = json!({ "text": "mend the parser", "requestId": "draft-2" });
    verbs.fits("POST", prompt, DRIVEN, &body);
    assert_eq!(agent.noted("prompt"), 2);
}

#[test]
fn row_42_another_process_under_the_same_session_is_not_stopped() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let first = start_agent(&home, &repo);
    let verbs = VerbsUnderTest::start(&home);
    let shown = identity(&verbs);
    let old = home.join(format!(".claude/sessions/{}.json", first.pid()));
    first.kill();
    std::fs::remove_file(old).unwrap();
    let second = start_agent(&home, &repo);
    let stop = format!("/v1/sessions/{ID}/stop");
    let refused = verbs.call("POST", &stop, &json!({ "identity": shown }));
    assert_eq!((refused.status, refused.code().as_str()), (409, "REFUSED"), "{}", refused.text());
    let now = identity(&verbs);
    assert!(now.starts_with(&format!("{}:", second.pid())), "{now} is alive still");
    assert_ne!(now, shown);
}

#[test]
fn row_42_a_plan_that_changed_since_it_was_shown_is_refused_as_a_whole() {
    let home = sample_home();
    let make_old = |path: &Path| {
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
        let file = std::fs::File::options().append(true).open(path).unwrap();
        file.set_modified(long_ago).unwrap();
    };
    make_old(&home.join(format!(".claude/projects/-home-user-repo/{SAMPLE}.jsonl")));
    let verbs = VerbsUnderTest::start(&home);
    let options = "include=transcripts&olderThan=0s";
    let shown = verbs.call("GET", &format!("/v1/gc?{options}"), &Value::Null).json();
    let count = shown["result"]["count"].as_u64().unwrap();
    assert!(count > 0, "{shown}");
    // One more may go since it was shown.
    make_old(&claude_session(&home, ID, "/home/user/repo", "hello"));
    let before = home.snapshot();
    let body = json!({
        "planHash": shown["result"]["plan"], "include": "transcripts", "olderThan": "0s",
    });
    let refused = verbs.call("POST", "/v1/gc", &body);
    assert_eq!((refused.status, refused.code().as_str()), (409, "REFUSED"), "{}", refused.text());
    let changes = before.changes(&home.snapshot());
    let moved: Vec<_> = changes.iter().filter(|one| one.contains(".claude")).collect();
    assert!(moved.is_empty(), "{changes:?}");
    let now = verbs.call("GET", &format!("/v1/gc?{options}"), &Value::Null).json();
    assert_eq!(now["result"]["count"], count + 1, "{now}");
}
