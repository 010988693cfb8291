//! What is put right when somebody asks: entries that lead astray from their transcripts, and direct
//! chats that belong into the main session.

use serde_json::{Value, json};

use super::faults::{killed_at, meanwhile};
use super::stage::{DAY, Living, MESSAGE, SESSIONS, Stage, aged, header, run};

const OTHER: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// The index of a session `s` that names `file`, in an odd way of writing.
fn odd(file: &str) -> String {
    let now = super::stage::now();
    format!(
        "{{ \"agent:main:cron:j\" :{{\"zeta\":1e2, \"sessionFile\" : \"{file}\",\n\t\"sessionId\":\"s\",\
         \"updatedAt\":{now},\"route\":{{\"sessionFile\":\"{file}\"}} }},\r\n  \"x\": null }}\n"
    )
}

fn astray(file: &str) -> Stage {
    let stage = Stage::new();
    stage.write("sessions.json", odd(file));
    stage.transcript("s");
    stage
}

/// Where an entry leads.
fn named(stage: &Stage) -> String {
    let index: Value = serde_json::from_str(&stage.text()).unwrap();
    index["agent:main:cron:j"]["sessionFile"].as_str().unwrap().to_owned()
}

#[test]
fn an_entry_that_leads_astray_is_put_right_and_nothing_else_is_touched() {
    let stage = astray("/gone/home/s.jsonl");
    let before = stage.text();
    assert_eq!(stage.cleanup("--yes")["wouldMutate"], false, "nobody asked");
    let verified = stage.run("verify --json").result();
    assert!(verified.to_string().contains("stale-session-file"), "{verified:#}");
    let plan = stage.cleanup("--dry-run --fix-missing");
    let counts = |store: &Value| (store["repaired"].as_u64(), store["missing"].as_u64());
    assert_eq!(counts(&plan), (Some(1), Some(0)), "{plan:#}");
    assert_eq!((&plan["beforeCount"], &plan["afterCount"]), (&json!(2), &json!(2)));
    let item = &plan["items"][0];
    assert_eq!((&item["action"], &item["rule"]), (&json!("repair"), &json!("repair-session-file")));
    assert_eq!(stage.text(), before);
    let table = stage.run("cleanup --dry-run --fix-missing").exits(0).stdout;
    assert!(
        table.contains("repair-session-file") && table.contains("1 would be repaired"),
        "{table}"
    );

    // Changing something needs consent, even if nothing goes.
    let refused = stage.run("cleanup --fix-missing").exits(13).stderr;
    assert!(refused.contains("1 would be repaired; nothing was changed"), "{refused}");
    assert_eq!(stage.text(), before);

    let ran = stage.run("cleanup --yes --fix-missing --json").exits(0).result();
    let store = &ran["stores"][0];
    assert_eq!((counts(store), &store["items"][0]["outcome"]), (counts(&plan), &json!("done")));
    assert_eq!(store["planHash"], plan["planHash"]);
    let own = stage.path("s.jsonl");
    assert_eq!(named(&stage), own.to_str().unwrap());
    let expected = before.replacen("/gone/home/s.jsonl", own.to_str().unwrap(), 1);
    assert_eq!(stage.text(), expected, "every other byte stays");
    let again = stage.cleanup("--yes --fix-missing");
    assert_eq!(again["wouldMutate"], false, "twice changes nothing more");
    run(&stage.home, &format!("undo {}", ran["receipt"].as_str().unwrap())).exits(0);
    assert_eq!(stage.text(), before);
}

#[test]
fn what_leads_astray_is_what_holds_nothing_or_is_anothers() {
    // Nothing is there; nothing but a header is; another session's words are.
    let empty = astray("empty.jsonl");
    empty.write("empty.jsonl", header("s"));
    let anothers = astray(&format!("{OTHER}.jsonl"));
    anothers.transcript(OTHER);
    for stage in [astray("gone.jsonl"), empty, anothers] {
        let names = stage.names();
        stage.cleanup("--yes --fix-missing");
        assert_eq!(named(&stage), stage.path("s.jsonl").to_str().unwrap());
        assert_eq!(stage.names(), names, "no file goes");
    }
    // Words under a name that somebody chose, words elsewhere, none of its own, and those of a topic.
    let topic = astray("s-topic-7.jsonl");
    topic.write("s-topic-7.jsonl", header("s"));
    let chosen = astray("chosen.jsonl");
    chosen.transcript("chosen");
    let elsewhere = Stage::new();
    let words = elsewhere.home.write("elsewhere/s.jsonl", format!("{}{MESSAGE}", header("s")));
    elsewhere.write("sessions.json", odd(words.to_str().unwrap()));
    elsewhere.transcript("s");
    let linked = astray("gone.jsonl");
    let target = linked.home.write("elsewhere/s.jsonl", MESSAGE);
    std::fs::remove_file(linked.path("s.jsonl")).unwrap();
    linked.home.link(format!("{SESSIONS}/s.jsonl"), &target);
    for stage in [chosen, elsewhere, linked, topic] {
        let before = stage.text();
        assert_eq!(stage.cleanup("--yes --fix-missing")["wouldMutate"], false, "{before}");
    }
}

#[test]
fn a_live_session_is_not_put_right() {
    let living = Living::new();
    let stage = astray("gone.jsonl");
    stage.write("s.jsonl.lock", living.lock());
    let store = stage.cleanup("--yes --fix-missing -a");
    assert_eq!((&store["repaired"], &store["wouldMutate"]), (&json!(0), &json!(false)));
    assert_eq!(named(&stage), "gone.jsonl");
}

#[test]
fn a_transcript_that_comes_back_is_not_abandoned() {
    let stage = astray("back.jsonl");
    let ran = meanwhile(&stage, "cleanup --yes --fix-missing --json", "store.planned", || {
        stage.write("back.jsonl", format!("{}{MESSAGE}\n", header("s")));
    });
    let store = &ran.exits(0).result()["stores"][0];
    assert_eq!((&store["repaired"], &store["replanned"]), (&json!(0), &json!(true)));
    assert_eq!(named(&stage), "back.jsonl");
}

#[test]
fn a_kill_while_an_entry_is_put_right_leaves_the_old_or_the_new_index() {
    for point in ["store.checked", "reap.begun", "reap.backed-up", "atomic-update", "reap.moved"] {
        let stage = astray("gone.jsonl");
        let before = stage.text();
        killed_at(&stage, "cleanup --yes --fix-missing", point);
        let own = stage.path("s.jsonl");
        let after = before.replacen("\"gone.jsonl\"", &format!("\"{}\"", own.display()), 1);
        assert!([&before, &after].contains(&&stage.text()), "{point}");
        stage.run("cleanup --yes --fix-missing").exits(0);
        assert_eq!(stage.text(), after, "{point}");
        let undone = |_: usize| run(&stage.home, "undo").code == 0;
        assert!((0..4).take_while(|at| undone(*at)).count() > 0, "{point}");
        assert_eq!(stage.text(), before, "{point}");
    }
}

fn peers(scope: Option<&str>) -> Stage {
    let stage = Stage::new();
    let mut session = json!({ "maintenance": { "mode": "warn" } });
    if let Some(scope) = scope {
        session["dmScope"] = scope.into();
    }
    stage.config(json!({ "session": session }));
    let mut group = aged("group", 0);
    group["chatType"] = "group".into();
    stage.index(&[
        ("agent:main:main", aged("m", 0)),
        ("agent:main:direct:u1", aged("one", 0)),
        ("agent:main:telegram:direct:u2", aged("two", 0)),
        ("agent:main:telegram:work:direct:u3", aged("three", 40 * DAY)),
        ("agent:main:telegram:direct:g", group),
        ("agent:ops:direct:u1", aged("ops", 0)),
    ]);
    for id in ["m", "one", "two", "three"] {
        stage.transcript(id);
    }
    stage
}

#[test]
fn direct_chats_are_retired_when_they_share_the_main_session() {
    for scope in [None, Some("main")] {
        let stage = peers(scope);
        let before = stage.home.snapshot();
        assert_eq!(stage.cleanup("--dry-run")["dmScopeRetired"], 0, "nobody asked");
        let plan = stage.cleanup("--dry-run --fix-dm-scope");
        assert!(before.changes(&stage.home.snapshot()).is_empty());
        assert_eq!((&plan["dmScopeRetired"], &plan["pruned"]), (&json!(3), &json!(0)), "{plan:#}");
        assert_eq!(plan["items"][0]["rule"], "retire-dm-scope");
        let result = stage.run("cleanup --yes --fix-dm-scope --json").exits(0).result();
        let store = &result["stores"][0];
        assert_eq!((&store["dmScopeRetired"], &store["planHash"]), (&json!(3), &plan["planHash"]));
        let kept = ["agent:main:main", "agent:main:telegram:direct:g", "agent:ops:direct:u1"];
        assert_eq!(stage.keys(), kept);
        let put_away = |id: &str| {
            let prefix = format!("{id}.jsonl.deleted.");
            stage.names().iter().any(|name| name.starts_with(&prefix))
        };
        assert!(["one", "two", "three"].iter().all(|id| put_away(id)), "{:?}", stage.names());
        assert!(stage.path("m.jsonl").exists());
        assert_eq!(stage.cleanup("--yes --fix-dm-scope")["wouldMutate"], false);
        run(&stage.home, &format!("undo {}", result["receipt"].as_str().unwrap())).exits(0);
        assert_eq!(stage.keys().len(), 6);
    }
}

#[test]
fn with_another_scope_nothing_is_retired_and_that_is_said() {
    let stage = peers(Some("per-channel-peer"));
    let store = stage.cleanup("--yes --fix-dm-scope");
    assert_eq!((&store["dmScopeRetired"], &store["wouldMutate"]), (&json!(0), &json!(false)));
    let said = stage.run("cleanup --yes --fix-dm-scope").exits(0).stdout;
    assert!(said.contains("session.dmScope is `per-channel-peer`"), "{said}");
    assert_eq!(stage.keys().len(), 6);
}

#[test]
fn a_live_an_active_and_an_uncertain_direct_chat_stay() {
    let living = Living::new();
    let stage = peers(None);
    stage.write("one.jsonl.lock", living.lock());
    stage.write("two.jsonl.lock", "{}");
    let line = "--yes --fix-dm-scope --active-key agent:main:telegram:work:direct:U3";
    assert_eq!(stage.cleanup(line)["wouldMutate"], false);
    assert_eq!(stage.keys().len(), 6);
}
