//! Others who write to the index in the very moment in which it is exchanged, once and twice, with and
//! without a kill: everything that they wrote is in its place, or where `trash verify` says.

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::pause::Pauses;

use super::faults::killed_at;
use super::stage::{DAY, Ran, Stage, aged, run};

/// One of two entries is due.
fn stage_with_due() -> Stage {
    let stage = Stage::new();
    stage.index(&[("agent:main:old", aged("old", 31 * DAY)), ("agent:main:new", aged("new", 0))]);
    stage
}

/// As OpenClaw writes: it reads the index, adds an entry and puts a new file in its place.
fn add_entry(stage: &Stage, name: &str) {
    let mut index: Value = serde_json::from_str(&stage.text()).unwrap();
    index[format!("agent:main:{name}")] = aged(name, 0);
    let beside = stage.write("sessions.json.writing", index.to_string());
    std::fs::rename(&beside, stage.path("sessions.json")).unwrap();
}

/// Adds an entry at every point that a command stops at, in this order, and lets it go on, or kills it at the
/// last one.
fn write_at(stage: &Stage, line: &str, points: &[(&str, &str)], kill: bool) {
    let pauses = Pauses::new();
    for (point, _) in points {
        pauses.arm(point);
    }
    let mut command = testkit::run::bare(env!("CARGO_BIN_EXE_ostler"), &stage.home);
    command.args(line.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = pauses.apply(&mut command).spawn().unwrap();
    for (at, (point, entry)) in points.iter().enumerate() {
        pauses.wait(point);
        add_entry(stage, entry);
        if kill && at + 1 == points.len() {
            child.kill().unwrap();
        } else {
            pauses.release(point);
        }
    }
    child.wait().unwrap();
}

fn verified(stage: &Stage) -> Value {
    let ran: Ran = run(&stage.home, "trash verify --json").exits(0);
    let verified = ran.result();
    assert_eq!(verified["problems"], json!([]), "{verified:#}");
    verified
}

/// The private names beside the index.
fn private_names(stage: &Stage) -> Vec<String> {
    stage.names().into_iter().filter(|name| name.starts_with(".ostler-")).collect()
}

/// Every entry that somebody wrote is found beside the index, or in a file that `trash verify` tells of.
#[track_caller]
fn assert_found(stage: &Stage, entries: &[&str]) {
    let verified = verified(stage);
    let told: Vec<&str> = verified["undecided"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|matter| matter["places"].as_array().unwrap())
        .map(|place| place.as_str().unwrap())
        .collect();
    let seen = stage.names().into_iter().filter(|name| !name.starts_with('.'));
    let mut texts: Vec<String> =
        seen.map(|name| std::fs::read_to_string(stage.path(&name)).unwrap()).collect();
    texts.extend(told.iter().map(|place| std::fs::read_to_string(place).unwrap()));
    for entry in entries {
        let key = format!("agent:main:{entry}\"");
        assert!(texts.iter().any(|text| text.contains(&key)), "{entry} is lost: {texts:#?}");
    }
    for name in private_names(stage) {
        assert!(told.iter().any(|place| place.ends_with(&name)), "not told of: {name}, {told:?}");
    }
}

const CLEANUP: &str = "store cleanup --yes --json";

#[test]
fn c2_one_write_between_the_last_look_and_the_exchange_stays() {
    let stage = stage_with_due();
    write_at(&stage, CLEANUP, &[("atomic-exchange", "first")], false);
    assert_found(&stage, &["new", "first"]);
    assert_eq!(private_names(&stage), [""; 0]);
    assert_eq!(stage.keys(), ["agent:main:first", "agent:main:new"], "it was planned anew");
}

/// The second write is made from what ostler wrote, and does not have the first in it.
#[test]
fn c2_two_writes_while_the_index_is_exchanged_are_both_kept() {
    let stage = stage_with_due();
    let points = [("atomic-exchange", "first"), ("exchange.out", "second")];
    write_at(&stage, CLEANUP, &points, false);
    assert!(stage.text().contains("agent:main:second"), "the newest is in its place");
    assert_found(&stage, &["new", "first", "second"]);
    assert_eq!(private_names(&stage).len(), 1);
    // Undoing what can be undone does not make it less of a matter.
    run(&stage.home, "undo --beside");
    assert_found(&stage, &["new", "first", "second"]);
    run(&stage.home, "trash empty --older-than 0s --yes").exits(0);
    assert_found(&stage, &["new", "first", "second"]);
    // Whoever moved it away has decided.
    for name in private_names(&stage) {
        std::fs::remove_file(stage.path(&name)).unwrap();
    }
    assert_eq!(verified(&stage)["undecided"], json!([]));
}

#[test]
fn c2_a_write_while_another_is_given_back_is_kept() {
    let stage = stage_with_due();
    let points =
        [("atomic-exchange", "first"), ("exchange.out", "second"), ("exchange.back", "third")];
    write_at(&stage, CLEANUP, &points, false);
    assert!(stage.text().contains("agent:main:third"), "{}", stage.text());
    assert_found(&stage, &["new", "first", "second", "third"]);
}

#[test]
fn c2_killed_in_the_exchange_what_they_wrote_before_and_since_is_kept() {
    for points in [
        &[("exchange.out", "second")][..],
        &[("atomic-exchange", "first"), ("exchange.out", "second")],
        &[("atomic-exchange", "first"), ("exchange.out", "second"), ("exchange.back", "third")],
    ] {
        let stage = stage_with_due();
        write_at(&stage, CLEANUP, points, true);
        run(&stage.home, "trash empty --yes").exits(0);
        let mut entries: Vec<&str> = points.iter().map(|(_, entry)| *entry).collect();
        entries.push("new");
        assert_found(&stage, &entries);
        run(&stage.home, "undo --beside");
        assert_found(&stage, &entries);
    }
}

/// Killed with their write taken out and ours in its place; they write again while recovery gives it back.
#[test]
fn c2_a_write_while_recovery_gives_another_back_is_kept() {
    for point in ["recover.theirs", "exchange.back"] {
        let stage = stage_with_due();
        let pauses = Pauses::new();
        pauses.arm("atomic-exchange");
        pauses.arm("exchange.out");
        let mut command = stage.command("cleanup --yes");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = pauses.apply(&mut command).spawn().unwrap();
        pauses.wait("atomic-exchange");
        add_entry(&stage, "first");
        pauses.release("atomic-exchange");
        pauses.wait("exchange.out");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!stage.text().contains("agent:main:first"), "ours is in its place");
        write_at(&stage, "trash empty --yes", &[(point, "second")], false);
        assert!(stage.text().contains("agent:main:second"), "{point}");
        assert_found(&stage, &["new", "first", "second"]);
    }
}

/// The old index comes back by an exchange, too.
#[test]
fn c2_two_writes_while_the_index_is_put_back_are_both_kept() {
    for kill in [false, true] {
        let stage = stage_with_due();
        stage.run("cleanup --yes").exits(0);
        let points = [("undo.returning", "first"), ("exchange.out", "second")];
        write_at(&stage, "undo", &points, kill);
        run(&stage.home, "trash empty --yes").exits(0);
        assert_found(&stage, &["new", "first", "second"]);
        assert!(stage.text().contains("agent:main:second"), "the newest is in its place");
        run(&stage.home, "undo --beside --json");
        assert_found(&stage, &["old", "new", "first", "second"]);
    }
}

/// Killed with their write taken out by an undo; they write again while recovery gives it back.
#[test]
fn c2_a_write_while_recovery_of_an_undo_gives_another_back_is_kept() {
    for point in ["recover.theirs", "exchange.back"] {
        let stage = stage_with_due();
        stage.run("cleanup --yes").exits(0);
        let pauses = Pauses::new();
        pauses.arm("undo.returning");
        pauses.arm("exchange.out");
        let mut command = testkit::run::bare(env!("CARGO_BIN_EXE_ostler"), &stage.home);
        command.arg("undo").stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = pauses.apply(&mut command).spawn().unwrap();
        pauses.wait("undo.returning");
        add_entry(&stage, "first");
        pauses.release("undo.returning");
        pauses.wait("exchange.out");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!stage.text().contains("agent:main:first"), "the old one is in its place");
        write_at(&stage, "trash empty --yes", &[(point, "second")], false);
        assert!(stage.text().contains("agent:main:second"), "{point}");
        assert_found(&stage, &["new", "first", "second"]);
    }
}

/// Somebody has the index open and writes to it in place, after it was exchanged.
#[cfg(target_os = "linux")]
#[test]
fn c2_a_write_in_place_by_whoever_had_it_open_is_kept() {
    let stage = stage_with_due();
    let pauses = Pauses::new();
    pauses.arm("exchange.out");
    let mut held = std::fs::File::options().write(true).open(stage.path("sessions.json")).unwrap();
    let mut command = stage.command("cleanup --yes");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = pauses.apply(&mut command).spawn().unwrap();
    pauses.wait("exchange.out");
    let theirs = json!({ "agent:main:held": aged("held", 0) }).to_string();
    pauses.release("exchange.out");
    child.wait().unwrap();
    held.set_len(0).unwrap();
    std::io::Write::write_all(&mut held, theirs.as_bytes()).unwrap();
    assert_found(&stage, &["held"]);
}

#[test]
fn c2_nothing_is_left_of_a_cleanup_that_nobody_disturbed() {
    for point in ["atomic-exchange", "exchange.out", "reap.moved"] {
        let stage = stage_with_due();
        let before = stage.text();
        killed_at(&stage, "cleanup --yes", point);
        run(&stage.home, "trash empty --yes").exits(0);
        assert_eq!(private_names(&stage), [""; 0], "{point}");
        assert_eq!(verified(&stage)["undecided"], json!([]), "{point}");
        stage.run("cleanup --yes").exits(0);
        assert!((0..3).take_while(|_| run(&stage.home, "undo").code == 0).count() > 0, "{point}");
        assert_eq!(stage.text(), before, "{point}");
    }
}
