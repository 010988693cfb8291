//! Listing: limits, hostile text, shapes.

use std::io::Read;
use std::process::Stdio;

use serde_json::{Value, json};

use super::stage::{DAY, SESSIONS, Stage, aged};

#[test]
fn row_03_without_a_date_the_age_is_unknown() {
    let stage = Stage::new();
    stage.index(&[("agent:main:direct:u", json!({ "sessionId": "s" }))]);
    assert!(stage.run("ls").exits(0).stdout.contains("unknown"));
    let listed = stage.run("ls --json").exits(0).result();
    assert_eq!(listed["sessions"][0].get("updatedAt"), None);
}

#[test]
fn row_79_what_makes_no_sense_is_said() {
    let stage = Stage::new();
    for (line, words) in [
        ("ls --agent nobody", "no agent `nobody`"),
        ("cleanup --dry-run --agent nobody", "no agent `nobody`"),
        ("ls --agent main --all-agents", "cannot be used with"),
        ("ls --all-agents --store x", "cannot be used with"),
        ("ls --limit 0", "above 0"),
        ("ls --limit some", "above 0"),
        ("ls --active x", "invalid"),
        ("ls --active 0", "0"),
    ] {
        let ran = stage.run(line).exits(2);
        assert!(ran.stderr.contains(words), "{line}: {ran:?}");
    }
    let error = stage.run("ls --agent nobody --json").exits(2).envelope();
    assert!(error["error"]["hint"].as_str().unwrap().contains("main"));
}

#[test]
fn row_80_one_store_and_several_have_one_shape() {
    let stage = Stage::new();
    stage.index(&[("a", aged("a", 31 * DAY))]);
    let one = stage.run("cleanup --dry-run --all-agents --json").exits(0).result();
    stage.home.write(".openclaw/agents/ops/sessions/sessions.json", "{}");
    let two = stage.run("cleanup --dry-run --all-agents --json").exits(0).result();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one), names(&two));
    assert_eq!(names(&one["stores"][0]), names(&two["stores"][1]));
    assert_eq!(two["stores"].as_array().unwrap().len(), 2);
}

#[test]
fn row_81_a_hundred_are_listed_and_it_is_said_that_there_are_more() {
    let stage = Stage::new();
    let keys: Vec<String> = (0..300).map(|at| format!("agent:main:direct:{at}")).collect();
    let entries: Vec<(&str, Value)> = keys
        .iter()
        .enumerate()
        .map(|(at, key)| (key.as_str(), aged(&format!("s{at}"), at as i64 * 60_000)))
        .collect();
    stage.index(&entries);
    let listed = stage.run("ls --json").exits(0).result();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 100);
    let numbers = ["count", "totalCount", "limitApplied"].map(|name| listed[name].as_u64());
    assert_eq!(numbers, [Some(100), Some(300), Some(100)]);
    assert_eq!(
        (&listed["hasMore"], &listed["sessions"][0]["key"]),
        (&json!(true), &json!(keys[0]))
    );
    let all = stage.run("ls --json --limit all").exits(0).result();
    assert_eq!((all["count"].as_u64(), all.get("limitApplied")), (Some(300), None));
    let active = stage.run("ls --json --active 10").exits(0).result();
    assert_eq!(active["totalCount"].as_u64().unwrap() / 2, 5);
}

#[test]
fn row_82_and_83_hostile_and_wide_text_stays_in_its_cell() {
    let stage = Stage::new();
    let mut entry = aged("s", 0);
    entry["model"] = "m\u{1b}[31m\nx".into();
    entry["label"] = "\u{202e}evil\u{7}".into();
    let keys = [
        "agent:main:direct:\u{1b}]0;x\u{7}",
        "agent:main:direct:日本語",
        "agent:main:direct:e\u{301}👩‍👩‍👧",
    ];
    stage.index(&keys.map(|key| (key, entry.clone())));
    for line in ["ls", "cleanup --dry-run -a", "show s --store x", "verify"] {
        let ran = stage.run(line);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let plain = said.chars().all(|c| c == '\n' || !c.is_control());
        assert!(plain && !said.contains('\u{202e}'), "{line}: {said:?}");
    }
    let listed = stage.run("ls --json").exits(0).result();
    assert_eq!(listed["sessions"][0]["model"], "m\u{1b}[31m\nx", "JSON keeps it raw");
    // Wide characters take two columns: what follows the key begins in the same one everywhere.
    let table = stage.run("ls").exits(0).stdout;
    let wide = table.lines().find(|line| line.contains("日本語")).unwrap();
    let plain = table.lines().find(|line| line.contains("\\u{1b}")).unwrap();
    let columns = |line: &str, word: &str| line[..line.find(word).unwrap()].chars().count();
    assert_eq!(columns(wide, "now") + 3, columns(plain, "now"));
}

#[test]
fn row_84_a_reader_who_leaves_is_no_error() {
    let stage = Stage::new();
    let keys: Vec<String> = (0..3000).map(|at| format!("agent:main:direct:{at}")).collect();
    let entries: Vec<(&str, Value)> = keys.iter().map(|key| (key.as_str(), aged("s", 0))).collect();
    stage.index(&entries);
    for line in ["ls --json --limit all", "ls --limit all", "cleanup --dry-run -a --json"] {
        let mut command = stage.command(line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut begin = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut begin).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{line}");
    }
}

#[test]
fn row_85_a_link_in_the_place_of_a_store_is_passed_over() {
    let stage = Stage::new();
    let victim =
        stage.home.write("victim/sessions.json", json!({ "old": aged("x", 90 * DAY) }).to_string());
    stage.home.link(format!("{SESSIONS}/sessions.json"), &victim);
    let outside = stage.home.join("victim");
    stage.home.write(".openclaw/agents/ops/keep", "");
    stage.home.link(".openclaw/agents/ops/sessions", &outside);
    let listed = stage.run("ls --json").exits(12).result();
    assert_eq!(listed["totalCount"], 0);
    assert_eq!(listed["incomplete"].as_array().unwrap().len(), 2, "{listed:#}");
    let before = std::fs::read(&victim).unwrap();
    stage.run("cleanup --enforce --all-agents").exits(12);
    assert_eq!(std::fs::read(&victim).unwrap(), before);
}

#[test]
fn a_session_is_shown_by_its_key_its_id_or_a_beginning() {
    let stage = Stage::new();
    stage.index(&[
        ("agent:main:direct:u1", aged("abc-1", 31 * DAY)),
        ("agent:main:direct:u2", aged("xyz-2", 0)),
    ]);
    let path = stage.transcript("abc-1");
    for key in ["agent:main:direct:u1", "AGENT:main:direct:U1", "abc", "direct:u1"] {
        let shown = stage.run(&format!("show {key} --json")).exits(0).result();
        assert_eq!(shown["session"]["sessionId"], "abc-1", "{key}");
        assert_eq!(
            (&shown["action"], &shown["transcript"]),
            (&json!("prune-stale"), &json!("sound"))
        );
        assert_eq!(shown["files"][0]["path"], path.to_str().unwrap());
        assert!(shown["raw"].as_str().unwrap().starts_with("{\"sessionId\":\"abc-1\""));
    }
    let error = stage.run("show agent:main:direct --json").exits(2).envelope();
    assert_eq!(error["error"]["details"]["candidates"].as_array().unwrap().len(), 2);
    stage.run("show nothing").exits(3);
}
