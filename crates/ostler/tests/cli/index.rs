//! The index is a cache: deleting, damaging or locking it changes nothing but the time it takes.

use std::fs;

use rusqlite::Connection;
use serde_json::Value;
use testkit::home::TempHome;

use super::run::{claude_session, run, sample_home};

/// The answer without the time it was given.
fn answer(home: &TempHome, line: &str) -> Value {
    let mut envelope = run(home, line).envelope();
    envelope.as_object_mut().unwrap().remove("timestamp");
    envelope
}

fn index_file(home: &TempHome) -> std::path::PathBuf {
    home.join(".cache/ostler/index.db")
}

#[test]
fn the_answer_is_the_same_with_and_without_it() {
    let home = sample_home();
    let truth = answer(&home, "ls -a --json --no-index");
    assert!(!index_file(&home).exists(), "--no-index writes none");
    // Files that changed just now are not indexed: make them old.
    make_old(&home);
    let truth_old = answer(&home, "ls -a --json --no-index");
    assert_eq!(truth["result"]["total"], truth_old["result"]["total"]);
    for round in 0..3 {
        assert_eq!(answer(&home, "ls -a --json"), truth_old, "round {round}");
    }
    assert!(index_file(&home).exists());
    fs::remove_dir_all(home.join(".cache")).unwrap();
    assert_eq!(answer(&home, "ls -a --json"), truth_old, "deleted");
}

#[test]
fn any_damage_is_noticed() {
    let home = sample_home();
    make_old(&home);
    let truth = answer(&home, "ls -a --json --no-index");
    answer(&home, "ls -a --json");
    let good = fs::read(index_file(&home)).unwrap();
    assert!(good.len() > 4096);
    let step = good.len() / 97;
    for offset in (0..good.len()).step_by(step.max(1)) {
        let mut bad = good.clone();
        for byte in bad.iter_mut().skip(offset).take(64) {
            *byte ^= 0x5a;
        }
        fs::write(index_file(&home), &bad).unwrap();
        assert_eq!(answer(&home, "ls -a --json"), truth, "64 bytes flipped at {offset}");
    }
    for (name, bytes) in [("empty", &b""[..]), ("cut", &good[..5000]), ("text", b"not a database")]
    {
        fs::write(index_file(&home), bytes).unwrap();
        assert_eq!(answer(&home, "ls -a --json"), truth, "{name}");
    }
    fs::remove_file(index_file(&home)).unwrap();
    fs::create_dir(index_file(&home)).unwrap();
    assert_eq!(answer(&home, "ls -a --json"), truth, "a directory in its place");
}

#[test]
fn a_home_that_is_a_link_has_one_too() {
    let home = sample_home();
    make_old(&home);
    let elsewhere = TempHome::new();
    let link = elsewhere.link("home", home.path());
    super::run::ran(super::run::ostler(&home).env("HOME", link).args(["ls", "-a"]));
    assert!(fs::metadata(index_file(&home)).unwrap().len() > 4096);
}

#[test]
fn a_locked_one_is_not_waited_for() {
    let home = sample_home();
    make_old(&home);
    let truth = answer(&home, "ls -a --json");
    let other = Connection::open(index_file(&home)).unwrap();
    other.execute_batch("begin exclusive").unwrap();
    assert_eq!(answer(&home, "ls -a --json"), truth);
}

#[test]
fn a_changed_transcript_is_read_again() {
    let home = TempHome::new();
    let id = "11111111-1111-4111-8111-111111111111";
    claude_session(&home, id, "/repo", "first");
    make_old(&home);
    assert_eq!(run(&home, "ls -a --json").session(id)["turns"], 1);
    home.append(
        format!(".claude/projects/-repo/{id}.jsonl"),
        "{\"type\":\"user\",\"message\":{\"content\":\"second\"}}\n",
    );
    assert_eq!(run(&home, "ls -a --json").session(id)["turns"], 2);
}

#[test]
fn a_cache_directory_that_cannot_be_written_is_no_error() {
    let home = sample_home();
    home.write(".cache", b"a file where the directory should be");
    let truth = answer(&home, "ls -a --json --no-index");
    assert_eq!(answer(&home, "ls -a --json"), truth);
}

/// Moves every file's time an hour back.
fn make_old(home: &TempHome) {
    fn walk(directory: &std::path::Path, time: std::time::SystemTime) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), time);
            } else {
                fs::File::options()
                    .append(true)
                    .open(entry.path())
                    .unwrap()
                    .set_modified(time)
                    .unwrap();
            }
        }
    }
    walk(home.path(), std::time::SystemTime::now() - std::time::Duration::from_secs(3600));
}
