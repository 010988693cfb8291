//! What the last release left behind: its store, spool, terminals, trash, vault and what it set up are read, shown
//! and taken back by this one.
//!
//! `cargo xtask upgrade-test --old COMMIT --record crates/ostler/tests/fixtures/previous-release` keeps another.
//! What two releases do to each other while both run is tried by `cargo xtask upgrade-test`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use testkit::home::TempHome;

use super::daemon::{home_id, socket};
use super::run::run;

const SESSION: &str = "44444444-4444-4444-8444-444444444444";
const SPOOLED: &str = "55555555-5555-4555-8555-555555555555";

/// A home as the last release left it.
fn left_home() -> TempHome {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/previous-release");
    let home = TempHome::new();
    let place = home.path().to_str().unwrap().to_owned();
    lay_out(&fixture.join("home"), home.path(), &place);
    let sql = fs::read_to_string(fixture.join("store.sql")).unwrap().replace("@HOME@", &place);
    let here = home.write("store.sql", sql);
    drop(testkit::sql::load_sql(&here, &home.join(".local/state/ostler/ostler.db")));
    fs::remove_file(here).unwrap();
    close_to_others(&home.join(".local/state/ostler"));
    home
}

fn lay_out(from: &Path, to: &Path, place: &str) {
    for entry in fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        let to = to.join(from.file_name().unwrap());
        if from.is_dir() {
            fs::create_dir_all(&to).unwrap();
            lay_out(&from, &to, place);
            continue;
        }
        let bytes = fs::read(&from).unwrap();
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => text.replace("@HOME@", place).into_bytes(),
            Err(error) => error.into_bytes(),
        };
        fs::write(to, bytes).unwrap();
    }
}

fn close_to_others(path: &Path) {
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            close_to_others(&entry.unwrap().path());
        }
    }
}

fn kinds(home: &TempHome, session: &str) -> Vec<String> {
    let events = run(home, "events --json --since 0").exits(0).stdout;
    let events =
        events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let of_session = events.filter(|event| event["session"] == session);
    of_session.map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn row_17_the_store_of_the_last_release_is_read_before_and_after_it_is_brought_up() {
    let home = left_home();
    let read = |when: &str| {
        let seen = ["session-start", "turn-start", "turn-end", "exited", "condensed"];
        assert_eq!(kinds(&home, SESSION), seen, "{when}");
        let pins = run(&home, "pin --json").exits(0).result().to_string();
        assert!(pins.contains("kept by the last release"), "{when}: {pins}");
        let listed = run(&home, "ls -a --json").exits(0).session(SESSION);
        assert_eq!(listed["status"], "exited", "{when}: {listed}");
        let kept = run(&home, "vault ls --json").exits(0).result().to_string();
        assert!(kept.contains(SESSION), "{when}: {kept}");
        run(&home, "vault verify").exits(0);
        assert!(run(&home, &format!("vault cat {SESSION}")).exits(0).stdout.contains("do it"));
    };
    read("before");
    assert_eq!(kinds(&home, SPOOLED), Vec::<String>::new());
    // A writer takes the steps to this version, and what waits in the spool.
    run(&home, "finalize").exits(0);
    read("after");
    assert_eq!(kinds(&home, SPOOLED)[0], "session-start");
}

#[test]
fn row_17_a_terminal_of_the_last_release_is_shown_as_it_was() {
    let home = left_home();
    let shown = run(&home, "snapshot over --format text").exits(0).stdout;
    assert!(shown.contains("line-30") && shown.contains("bold ü 漢"), "{shown}");
    let whole = run(&home, "snapshot over --format text --include-scrollback").exits(0).stdout;
    assert!(whole.contains("line-1\n") && whole.contains("line-21"), "{whole}");
    run(&home, "verify over").exits(0);
    run(&home, "screenshot over").exits(0);
    run(&home, "record export over --format asciicast").exits(0);
    let inspected = run(&home, "inspect over --json").exits(0).stdout;
    assert!(inspected.contains("\"exitCode\": 7"), "{inspected}");
    // The keyframe is a shortcut: without it the same is replayed from the log.
    let sessions = home.join(".local/state/ostler/sessions");
    let session: PathBuf = fs::read_dir(sessions).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(session.join("keyframe")).unwrap();
    assert_eq!(run(&home, "snapshot over --format text").exits(0).stdout, shown);
}

#[test]
fn row_17_receipts_of_the_last_release_are_listed_verified_and_undone() {
    let home = left_home();
    let listed = run(&home, "trash ls --json").exits(0).result();
    assert_eq!(listed["receipts"].as_array().unwrap().len(), 1, "{listed}");
    run(&home, "trash verify").exits(0);
    run(&home, "undo").exits(0);
    assert!(run(&home, "snapshot gone --format text").exits(0).stdout.contains("still-here"));
}

#[test]
fn row_17_what_the_last_release_set_up_is_taken_back_to_the_byte() {
    let home = left_home();
    let status = run(&home, "hooks status --json").exits(0).result().to_string();
    assert!(!status.contains("\"broken\""), "{status}");
    run(&home, "setup --undo --yes").exits(0);
    let settings = String::from_utf8(home.read(".claude/settings.json")).unwrap();
    assert_eq!(settings, "{\n  // mine\n  \"model\": \"x\",\n}\n");
    assert!(!home.join(".local/share/bash-completion").exists());
}

#[test]
fn row_17_a_page_that_does_not_understand_a_command_is_named_as_another_release() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    let home = left_home();
    let path = socket(&home).with_file_name(format!("web-{}.sock", home_id(&home)));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    close_to_others(path.parent().unwrap());
    let listener = UnixListener::bind(&path).unwrap();
    close_to_others(&path);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // An order that it does not know is not answered.
            let mut line = String::new();
            BufReader::new(stream.unwrap()).read_line(&mut line).unwrap();
        }
    });
    let refused = run(&home, "web link").exits(13);
    assert!(refused.stderr.contains("is of another release"), "{}", refused.stderr);
    assert!(refused.stderr.contains("start `ostler web` again"), "{}", refused.stderr);
}
