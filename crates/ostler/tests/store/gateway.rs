//! Whose change it is: the gateway's if it runs; ours only on the proof that it does not.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::json;
use testkit::gateway::{FakeGateway, Manner, TOKEN, closed_port};

use super::faults::meanwhile;
use super::stage::{DAY, SESSIONS, Stage, aged, ran, run};

fn beside(gateway: &FakeGateway) -> Stage {
    let stage = Stage::new();
    stage.config(json!({ "gateway": { "port": gateway.port, "auth": { "token": TOKEN } } }));
    stage.index(&[("agent:main:direct:old", aged("old", 31 * DAY))]);
    stage.transcript("old");
    stage
}

#[test]
fn row_74_without_a_gateway_the_cleanup_is_ours() {
    let stage = Stage::new();
    stage.index(&[("old", aged("old", 31 * DAY))]);
    let result = stage.run("cleanup --enforce --json").exits(0).result();
    assert_eq!((result["transport"].as_str(), stage.text().as_str()), (Some("local"), "{}"));
}

/// A store whose gateway runs and owns it: two sessions are due, and the main one is so old.
fn owned(main_age: i64) -> (Stage, FakeGateway) {
    let stage = Stage::new();
    let index = stage.path("sessions.json");
    let gateway = FakeGateway::start(Manner::Owns { index, enforces: true });
    stage.config(json!({ "gateway": { "port": gateway.port, "auth": { "token": TOKEN } } }));
    stage.index(&[
        ("agent:main:main", aged("m", main_age)),
        ("agent:main:direct:one", aged("one", 40 * DAY)),
        ("agent:main:direct:two", aged("two", 50 * DAY)),
        ("agent:main:direct:new", aged("new", DAY)),
    ]);
    (stage, gateway)
}

fn shown(result: &serde_json::Value) -> Vec<String> {
    let items = result["stores"][0]["items"].as_array().unwrap();
    let goes = items.iter().filter(|item| item["action"] == "remove" && item["kind"] == "entry");
    goes.map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn p3_beside_a_gateway_exactly_what_was_shown_goes_and_is_listed() {
    let (stage, gateway) = owned(DAY);
    let preview = stage.run("cleanup --dry-run --json").exits(0).result();
    assert_eq!(preview["transport"], "gateway", "the preview says who would do it");
    let notes = preview["stores"][0]["policy"]["notes"].to_string();
    assert!(notes.contains("gateway deletes") && notes.contains("undo"), "{notes}");
    assert_eq!(gateway.methods(), Vec::<String>::new());
    let planned = ["agent:main:direct:one", "agent:main:direct:two"];
    assert_eq!(shown(&preview), planned);
    let result = stage.run("cleanup --yes --json").exits(0).result();
    assert_eq!(shown(&result), planned);
    assert_eq!((&result["count"], &result["transport"]), (&json!(2), &json!("gateway")));
    assert_eq!((&result["receipt"], &result["applied"]), (&json!(null), &json!(true)));
    assert_eq!(stage.keys(), ["agent:main:direct:new", "agent:main:main"]);
    let store = &result["stores"][0];
    assert_eq!((&store["storePath"], &store["appliedCount"]), (&store["path"], &json!(2)));
    assert_eq!((&store["modelRunPruned"], &store["modelRuns"]), (&json!(0), &json!(0)));
    let asked = gateway.asked();
    let deletions: Vec<_> = asked
        .iter()
        .filter(|asked| asked["method"] != "connect")
        .map(|asked| &asked["params"])
        .collect();
    assert_eq!(deletions.len(), 2, "{asked:?}");
    assert!(!gateway.methods().contains(&"sessions.cleanup".to_owned()));
    assert_eq!(deletions[0]["expectedSessionId"], "one");
    assert!(deletions[0]["expectedSessionUpdatedAt"].is_i64());
    let again = stage.run("cleanup --yes").exits(0);
    assert!(again.stdout.contains("nothing went"), "{again:?}");
}

/// The gateway of 2026.7.1 applies its policy with every write, and that does not keep main sessions.
#[test]
fn p3_where_the_gateway_would_take_more_than_was_shown_nothing_is_begun() {
    let (stage, gateway) = owned(40 * DAY);
    let preview = stage.run("cleanup --dry-run --json").exits(0).result();
    assert_eq!(shown(&preview), Vec::<String>::new());
    assert!(preview["stores"][0]["policy"]["notes"].to_string().contains("agent:main:main"));
    let before = stage.text();
    let refused = stage.run("cleanup --yes").exits(13);
    assert!(refused.stderr.contains("`agent:main:main`"), "{refused:?}");
    assert!(refused.stderr.contains("openclaw gateway stop"), "{refused:?}");
    assert_eq!((stage.text(), gateway.methods().len()), (before, 0));
}

#[test]
fn p3_an_entry_that_is_worked_on_meanwhile_stays_and_is_told() {
    let (stage, _gateway) = owned(DAY);
    let ran = meanwhile(&stage, "cleanup --enforce --json", "store.delete-key", || {
        let mut index: serde_json::Value = serde_json::from_str(&stage.text()).unwrap();
        index["agent:main:direct:one"]["updatedAt"] = json!(super::stage::now());
        stage.write("sessions.json", index.to_string());
    });
    let result = ran.exits(12).result();
    assert_eq!(shown(&result), ["agent:main:direct:two"]);
    let kept = result["stores"][0]["items"].as_array().unwrap();
    let kept = kept.iter().find(|item| item["id"] == "agent:main:direct:one").unwrap();
    assert_eq!((&kept["action"], &kept["outcome"]), (&json!("skip"), &json!("refused")));
    assert!(result["incomplete"].to_string().contains("changed before deletion"), "{result:#}");
    assert!(stage.keys().contains(&"agent:main:direct:one".to_owned()));
}

#[test]
fn p3_what_only_we_could_do_waits_until_the_gateway_is_stopped() {
    let (stage, gateway) = owned(DAY);
    let left = stage.write("sessions.json.01234567-89ab-cdef-0123-456789abcdef.tmp", "{}");
    super::stage::age(&left, std::time::Duration::from_secs(86_400));
    let result = stage.run("cleanup --yes --json").exits(0).result();
    assert!(left.exists());
    let items = result["stores"][0]["items"].as_array().unwrap();
    let file = items.iter().find(|item| item["kind"] == "temporary").unwrap();
    assert_eq!(file["action"], "skip", "{file:#}");
    assert!(!gateway.methods().contains(&"sessions.cleanup".to_owned()));
}

/// Nobody but OpenClaw can plan for a database: a person must say so, and the keys are compared afterwards.
#[test]
fn p3_a_database_is_cleaned_up_on_a_persons_word_and_what_went_is_listed() {
    let answer = json!({ "allAgents": true, "mode": "enforce", "dryRun": false,
        "stores": [{ "agentId": "main", "beforeCount": 1, "afterCount": 0, "archived": 2,
            "capArchived": 1, "diskBudget": null, "wouldMutate": true }],
        "partialError": { "failingStorePath": "/other", "message": "disk full" } });
    let gateway = FakeGateway::start(Manner::Answers(answer));
    let stage = Stage::new();
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../adapters/fixtures/openclaw/2026.9.6");
    stage.home.lay_out(std::path::Path::new(fixtures), ".openclaw");
    stage.config(json!({ "gateway": { "port": gateway.port, "auth": { "token": TOKEN } } }));
    let refused = stage.run("cleanup --json").exits(13);
    assert!(refused.message().contains("can neither be shown first nor undone"), "{refused:?}");
    assert_eq!(gateway.methods(), Vec::<String>::new());
    let ran = meanwhile(&stage, "cleanup --yes --json", "gateway-ask", || {
        let database = stage.home.database(".openclaw/agents/main/agent/openclaw-agent.sqlite");
        database.execute_batch("pragma foreign_keys = off; delete from session_nodes").unwrap();
    });
    let result = ran.exits(12).result();
    assert_eq!((gateway.methods()[1].as_str(), shown(&result).len()), ("sessions.cleanup", 1));
    assert_eq!(result["count"], 1);
    assert!(result["incomplete"].to_string().contains("disk full"), "{result:#}");
    let store = &result["stores"][0];
    assert_eq!((&store["archived"], &store["capArchived"]), (&json!(2), &json!(1)));
    let policy = &store["policy"];
    assert_eq!(policy["maxEntries"]["value"], 5000);
    assert_eq!(policy["maxDiskBytes"]["value"], 10_u64 << 30);
}

#[test]
fn row_75_and_76_whatever_a_gateway_does_wrong_nothing_is_written_here() {
    for (manner, code, words) in [
        (Manner::Closes(1008, "unauthorized"), 13, "let us in"),
        (Manner::Drops, 14, "may have been applied"),
        (Manner::Babbles, 14, "may have been applied"),
        (Manner::OffersNothing, 13, "sessions.delete"),
        (Manner::Fails("INVALID_REQUEST", "no such thing"), 13, "no such thing"),
        (Manner::Http(404), 13, "could not be asked"),
    ] {
        let gateway = FakeGateway::start(manner.clone());
        let stage = beside(&gateway);
        let before = stage.home.snapshot();
        let ran = stage.run("cleanup --enforce").exits(code);
        assert!(ran.stderr.contains(words), "{manner:?}: {ran:?}");
        assert!(before.changes(&stage.home.snapshot()).is_empty(), "{manner:?}");
    }
}

#[test]
fn row_77_a_gateway_elsewhere_is_never_replaced() {
    let stage = Stage::new();
    let url = format!("ws://127.0.0.1:{}", closed_port());
    stage.config(json!({ "gateway": { "mode": "remote", "remote": { "url": url } } }));
    stage.index(&[("old", aged("old", 31 * DAY))]);
    let before = stage.text();
    stage.run("cleanup --enforce").exits(13);
    assert_eq!(stage.text(), before);
}

#[test]
fn row_78_a_preview_and_a_named_store_ask_nothing_of_the_gateway() {
    let gateway = FakeGateway::start(Manner::Answers(json!({})));
    let stage = beside(&gateway);
    stage.run("cleanup --dry-run").exits(0);
    let copy = stage.home.write("copy/sessions.json", stage.text());
    stage.run(&format!("cleanup --enforce --store {}", copy.display())).exits(0);
    assert_eq!(std::fs::read(&copy).unwrap(), b"{}", "a copy is nobody's");
    // The gateway's own store is refused by name, too: it would write it back.
    let own = stage.path("sessions.json");
    let ran = stage.run(&format!("cleanup --enforce --store {}", own.display())).exits(13);
    assert!(ran.stderr.contains("openclaw gateway stop"), "{ran:?}");
    assert_eq!(gateway.methods(), Vec::<String>::new());
    assert_eq!(stage.keys().len(), 1);
}

#[test]
fn a_process_that_ends_while_it_is_looked_at_is_no_doubt() {
    let stage = Stage::new();
    stage.index(&[("old", aged("old", 31 * DAY))]);
    // A gateway of another home that shows no environment, as one does that gives its memory back.
    let mut ending = Command::new("/bin/cat");
    ending.arg0("openclaw-gateway").env_clear().stdin(Stdio::piped());
    let mut ending = ending.spawn().unwrap();
    let ran = meanwhile(&stage, "cleanup --enforce --json", "gateway.untold", || {
        ending.kill().unwrap();
        ending.wait().unwrap();
    });
    assert_eq!(ran.exits(0).result()["transport"], "local");
    assert_eq!(stage.text(), "{}");
}

/// Stops the daemon of a home, whatever becomes of the test.
struct Stop<'a>(&'a Stage);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        run(&self.0.home, "daemon stop");
    }
}

#[test]
fn the_daemon_does_it_if_it_runs() {
    let stage = Stage::new();
    stage.index(&[("agent:main:main", aged("m", 0)), ("old", aged("old", 31 * DAY))]);
    run(&stage.home, "daemon start").exits(0);
    let _stop = Stop(&stage);
    // The directory is the asker's, and so is the environment.
    let state = stage.home.join(".openclaw");
    let mut command = stage.command("cleanup --enforce --store sessions.json --json");
    command.current_dir(stage.home.join(SESSIONS)).env("OPENCLAW_STATE_DIR", &state);
    let result = ran(&mut command).exits(0).result();
    assert_eq!((&result["transport"], &result["count"]), (&json!("daemon"), &json!(1)));
    assert_eq!(stage.keys(), ["agent:main:main"]);
    let receipt = result["receipt"].as_str().unwrap();
    run(&stage.home, &format!("undo {receipt}")).exits(0);
    assert_eq!(stage.keys().len(), 2);
    stage.write("sessions.json", "{");
    stage.transcript("s");
    assert_eq!(stage.run("rebuild --yes --json").exits(0).result()["applied"], true);
    stage.write("sessions.json", "[]");
    let error = stage.run("cleanup --enforce --json").exits(8).envelope();
    assert!(error["error"]["hint"].as_str().unwrap().contains("store rebuild"), "{error:#}");
}
