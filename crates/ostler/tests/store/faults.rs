//! Changes in between, kills, and many at once.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::pause::Pauses;

use super::stage::{DAY, MESSAGE, Ran, Stage, age, aged, header, run};

/// Runs a command that stops at a point, where something is done.
pub(crate) fn meanwhile(stage: &Stage, line: &str, point: &str, something: impl FnOnce()) -> Ran {
    let pauses = Pauses::new();
    pauses.arm(point);
    let mut command = stage.command(line);
    pauses.apply(&mut command).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    pauses.wait(point);
    something();
    pauses.release(point);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn row_62_a_transcript_that_comes_back_keeps_its_entry() {
    for header_only in [false, true] {
        let stage = Stage::new();
        stage.index(&[("agent:main:a", aged("a", 0)), ("agent:main:b", aged("b", 0))]);
        if header_only {
            stage.write("a.jsonl", header("a"));
        }
        let ran = meanwhile(&stage, "cleanup --yes --fix-missing --json", "store.planned", || {
            stage.write("a.jsonl", format!("{}{MESSAGE}\n", header("a")));
        });
        let store = &ran.exits(0).result()["stores"][0];
        assert_eq!(
            (store["missing"].as_u64(), store["replanned"].as_bool()),
            (Some(1), Some(true))
        );
        assert_eq!(stage.keys(), ["agent:main:a"]);
    }
}

fn changed_meanwhile(after: impl FnOnce(&str) -> String, same_look: bool, point: &str) {
    let stage = Stage::new();
    let path = stage
        .index(&[("agent:main:old", aged("old", 31 * DAY)), ("agent:main:new", aged("new", 0))]);
    let ran = meanwhile(&stage, "cleanup --yes --json", point, || {
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        // In place: the same file, and if need be of the same size and time.
        std::fs::write(&path, after(&stage.text())).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        if same_look {
            file.set_modified(modified).unwrap();
        }
    });
    let store = &ran.exits(0).result()["stores"][0];
    assert_eq!((&store["replanned"], &store["pruned"]), (&json!(true), &json!(1)), "{store:#}");
    let index: Value = serde_json::from_str(&stage.text()).unwrap();
    assert_eq!(index.as_object().unwrap().len(), 1);
    assert!(index.to_string().contains("meanwhile"), "{index}");
}

#[test]
fn row_65_a_store_that_changes_meanwhile_is_planned_anew() {
    let add = |text: &str| text.replace("\"sessionId\":\"new\"", "\"sessionId\":\"meanwhile\"");
    changed_meanwhile(add, false, "store.planned");
    changed_meanwhile(add, false, "atomic-update");
}

#[test]
fn row_66_a_change_that_size_and_time_do_not_show_is_seen() {
    // Nine letters for nine.
    let stage = "agent:main:new";
    let swap = |text: &str| text.replace(stage, "meanwhile:news");
    assert_eq!(stage.len(), "meanwhile:news".len());
    changed_meanwhile(swap, true, "store.planned");
}

#[test]
fn row_49_a_file_that_cannot_be_moved_frees_nothing_and_is_reported() {
    let stage = Stage::new();
    stage.index(&[("agent:main:main", aged("m", 0))]);
    for name in ["one", "two"] {
        let path = stage.write(&format!("{name}.jsonl"), [b'x'; 1000]);
        age(&path, Duration::from_secs(9000));
    }
    stage.maintenance(json!({ "maxDiskBytes": 500 }));
    let ran = meanwhile(&stage, "cleanup --yes --json", "reap.recheck", || {
        // Whichever comes first has changed when it is looked at again.
        stage.write("one.jsonl", "somebody writes here again");
        stage.write("two.jsonl", "somebody writes here again");
    });
    let store = &ran.exits(0).result()["stores"][0];
    let items = store["items"].as_array().unwrap();
    let skipped: Vec<&Value> = items.iter().filter(|item| item["action"] == "skip").collect();
    assert_eq!(skipped.len(), 2, "{store:#}");
    assert_eq!(skipped[0]["refused"]["refusal"], "changed");
    let budget = &store["diskBudget"];
    assert_eq!((&budget["freedBytes"], &budget["removedFiles"]), (&json!(0), &json!(0)));
    assert!(stage.path("one.jsonl").exists() && stage.path("two.jsonl").exists());
}

/// Kills a command at a point.
pub(crate) fn killed_at(stage: &Stage, line: &str, point: &str) {
    let pauses = Pauses::new();
    pauses.arm(point);
    let mut command: Command = stage.command(line);
    let mut child =
        pauses.apply(&mut command).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    pauses.wait(point);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn l3_recovery_lets_go_of_the_locks_of_a_killed_run() {
    let stage = Stage::new();
    stage.index(&[("agent:main:old", aged("old", 31 * DAY)), ("agent:main:new", aged("new", 0))]);
    stage.transcript("old");
    stage.transcript("new");
    killed_at(&stage, "cleanup --yes", "store.locked");
    let locks =
        || stage.names().into_iter().filter(|name| name.ends_with(".lock")).collect::<Vec<_>>();
    assert_eq!(locks(), ["old.jsonl.lock"]);
    // Somebody else's lock, and one of ours whose holder is there, are not touched.
    let living = super::stage::Living::new();
    stage.write("new.jsonl.lock", living.lock());
    run(&stage.home, "undo").exits(0);
    assert_eq!(locks(), ["new.jsonl.lock"]);
    assert_eq!(stage.keys().len(), 2);
}

#[test]
fn row_68_a_kill_at_any_point_loses_nothing() {
    let points = [
        "store.planned",
        "store.checked",
        "reap.opened",
        "reap.begun",
        "reap.backed-up",
        "atomic-update",
        "reap.moved",
        "reap.done",
        "reap.ended",
    ];
    for point in points {
        let stage = Stage::new();
        stage.index(&[
            ("agent:main:old", aged("old", 31 * DAY)),
            ("agent:main:new", aged("new", 0)),
        ]);
        let words = std::fs::read(stage.transcript("old")).unwrap();
        stage.transcript("new");
        let before = stage.text();
        killed_at(&stage, "cleanup --yes", point);
        let index: Value = serde_json::from_str(&stage.text()).unwrap();
        assert!(index.get("agent:main:new").is_some(), "{point}: whole, old or new");
        let holds_words = |name: &String| std::fs::read(stage.path(name)).unwrap() == words;
        assert!(stage.names().iter().any(holds_words), "{point}: the words are there");
        // The next run finishes it, and what the write left behind is swept when it is old.
        for name in stage.names().iter().filter(|name| name.ends_with(".tmp")) {
            age(&stage.path(name), Duration::from_secs(3600));
        }
        stage.run("cleanup --yes").exits(0);
        assert_eq!(stage.keys(), ["agent:main:new"], "{point}");
        assert!(!stage.names().iter().any(|name| name.ends_with(".tmp")), "{point}");
        // Both runs can be undone, and then everything is as it was.
        let undone = |_: usize| run(&stage.home, "undo").code == 0;
        assert!((0..4).take_while(|at| undone(*at)).count() > 0, "{point}");
        assert_eq!(stage.text(), before, "{point}");
        assert_eq!(std::fs::read(stage.path("old.jsonl")).unwrap(), words, "{point}");
        run(&stage.home, "trash verify").exits(0);
    }
}

#[test]
fn row_67_many_at_once_all_land_and_one_failure_is_its_own() {
    let stage = Stage::new();
    let keys: Vec<String> = (0..20).map(|at| format!("agent:main:direct:{at}")).collect();
    let mut entries: Vec<(&str, Value)> = keys
        .iter()
        .enumerate()
        .map(|(at, key)| (key.as_str(), aged(&format!("s{at}"), 31 * DAY)))
        .collect();
    entries.push(("agent:main:main", aged("m", 0)));
    stage.index(&entries);
    let mut children = Vec::new();
    for at in 0..8 {
        let line = match at {
            3 => "cleanup --yes --agent nobody --json".to_owned(),
            _ => "cleanup --yes --json".to_owned(),
        };
        let mut command = stage.command(&line);
        children.push((at, command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()));
    }
    let mut removed = 0;
    for (at, child) in children {
        let output = child.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["ok"], at != 3, "{at}: {answer:#}");
        removed += answer["result"]["stores"][0]["pruned"].as_u64().unwrap_or(0);
    }
    assert_eq!((removed, stage.keys()), (20, vec!["agent:main:main".to_owned()]));
}
