//! What the system does not allow: named with the path, the reason and a remedy; nothing is lost, and
//! the rest is done. Root may do everything, so that these run as somebody else.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::home::{Snapshot, TempHome};

use super::agent::state;
use super::collect::{age, items, temporary_name};
use super::run::{Ran, claude_session, ostler, ran};

/// Whoever has no rights of his own.
const NOBODY: u32 = 65_534;

/// A home whose owner may not do everything.
pub(crate) struct Plain {
    pub(crate) home: TempHome,
    program: PathBuf,
}

impl Plain {
    pub(crate) fn new() -> Self {
        let home = TempHome::new();
        let program = program_for_everybody(&home);
        Self { home, program }
    }

    /// Gives everything in the home to whoever the commands run as.
    pub(crate) fn hand_over(&self) {
        if is_root() {
            let owner = format!("{NOBODY}:{NOBODY}");
            let given = Command::new("chown").args(["-R", &owner]).arg(self.home.path()).status();
            assert!(given.unwrap().success());
        }
    }

    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> Ran {
        let like_us = ostler(&self.home);
        let mut command = Command::new(&self.program);
        command.args(line.split_whitespace()).env_clear().current_dir(self.home.path());
        for (name, value) in like_us.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        ran(&mut command)
    }

    fn temporary(&self, agent: &str) -> PathBuf {
        let sessions = format!(".openclaw/agents/{agent}/sessions");
        self.home.write(format!("{sessions}/sessions.json"), "{}");
        let path = self.home.write(format!("{sessions}/{}", temporary_name(1)), b"left over");
        age(&path, 10);
        path
    }

    fn trash(&self) -> PathBuf {
        state(&self.home).join("trash")
    }

    /// Nothing is lost: everything that was moved is where its receipt says.
    #[track_caller]
    fn verified(&self) {
        let verified = self.run("trash verify --json").exits(0).result();
        assert_eq!(verified["problems"].as_array().unwrap().len(), 0, "{verified}");
        assert_eq!(verified["interrupted"], 0, "{verified}");
    }
}

fn is_root() -> bool {
    sys::private::our_uid() == 0
}

/// The binary, or a copy of it where everybody can get at it.
fn program_for_everybody(home: &TempHome) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_ostler"));
    let may_enter = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o001 != 0)
    };
    if !is_root() || program.ancestors().all(may_enter) {
        return program.to_owned();
    }
    let copy = home.join("ostler");
    std::fs::copy(program, &copy).unwrap();
    std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).unwrap();
    copy
}

/// A path with other permissions for as long as the value lives.
struct Mode(PathBuf, u32);

impl Mode {
    fn set(path: &Path, mode: u32) -> Self {
        let before = std::fs::metadata(path).unwrap().permissions().mode();
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        Self(path.to_owned(), before)
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        let _ = std::fs::set_permissions(&self.0, PermissionsExt::from_mode(self.1));
    }
}

const TEMPS: &str = "gc --include temps --agent openclaw --yes --json";

/// An error that names the path, the reason and a remedy.
#[track_caller]
fn names(ran: &Ran, path: &Path) {
    let error = &ran.envelope()["error"];
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(path.to_str().unwrap()), "{message}");
    assert!(message.contains("ermission denied"), "{message}");
    assert!(error["hint"].as_str().unwrap().contains("permissions"), "{error}");
}

#[track_caller]
fn names_in(list: &Value, path: &Path) {
    let list = list.as_array().unwrap();
    let path = path.to_str().unwrap();
    let found = list.iter().find(|line| line["path"] == path);
    let found = found.unwrap_or_else(|| panic!("{path} is not in {list:#?}"));
    assert!(found["reason"].as_str().unwrap().contains("ermission denied"), "{found}");
}

#[test]
fn what_lies_in_a_closed_directory_stays_and_the_rest_goes() {
    let plain = Plain::new();
    let (closed, open) = (plain.temporary("closed"), plain.temporary("open"));
    plain.hand_over();
    let mode = Mode::set(closed.parent().unwrap(), 0o555);
    let result = plain.run(TEMPS).exits(0).result();
    assert_eq!(items(&result, "trashed"), [open.to_str().unwrap()], "{result}");
    assert_eq!(items(&result, "stays"), [closed.to_str().unwrap()], "{result}");
    let stays = result["items"].as_array().unwrap().iter().find(|item| item["action"] == "stays");
    let refused = &stays.unwrap()["refused"];
    assert_eq!(refused["refusal"], "undeletable", "{refused}");
    assert!(refused["reason"].as_str().unwrap().contains("ermission denied"), "{refused}");
    assert!(refused["remedy"].as_str().unwrap().contains("permissions"), "{refused}");
    assert!(closed.exists() && !open.exists());
    plain.verified();
    drop(mode);
    plain.run(TEMPS).exits(0);
    assert!(!closed.exists());
    for _ in 0..2 {
        plain.run("undo").exits(0);
    }
    assert!(closed.exists() && open.exists());
    plain.verified();
}

#[test]
fn a_transcript_that_cannot_be_read_has_no_copy_and_stays() {
    let plain = Plain::new();
    let closed = claude_session(&plain.home, "11111111-1111-4111-8111-111111111111", "/w", "hello");
    let open = claude_session(&plain.home, "22222222-2222-4222-8222-222222222222", "/w", "hello");
    let ours = plain.temporary("main");
    age(&open, 10);
    plain.hand_over();
    let before = Snapshot::of(&closed);
    let mode = Mode::set(&closed, 0o000);
    let line = "gc --include transcripts,temps --older-than 0s --yes --json";
    let ran = plain.run(line);
    let result = ran.exits(12).result();
    let mut gone = items(&result, "trashed");
    gone.sort();
    assert_eq!(gone, [open.to_str().unwrap(), ours.to_str().unwrap()], "{result}");
    names_in(&result["incomplete"], &closed);
    plain.verified();
    drop(mode);
    assert_eq!(before.changes(&Snapshot::of(&closed)), Vec::<String>::new());
}

#[test]
fn without_a_trash_that_can_be_written_nothing_moves() {
    let plain = Plain::new();
    let (first, second) = (plain.temporary("first"), plain.temporary("second"));
    plain.hand_over();
    let keeping = format!("openclaw --keep {}", second.display());
    plain.run(&TEMPS.replace("openclaw", &keeping)).exits(0);
    plain.run("undo").exits(0);
    for mode in [0o500, 0o000] {
        let mode = Mode::set(&plain.trash(), mode);
        names(&plain.run(TEMPS).exits(8), &plain.trash());
        assert!(first.exists() && second.exists());
        drop(mode);
        plain.verified();
    }
    let mode = Mode::set(&plain.trash(), 0o000);
    let verified = plain.run("trash verify --json").exits(12).result();
    names_in(&verified["problems"], &plain.trash());
    names_in(&plain.run("trash ls --json").exits(12).result()["incomplete"], &plain.trash());
    names(&plain.run("undo --json").exits(8), &plain.trash());
    drop(mode);
    plain.run(TEMPS).exits(0);
    assert!(!first.exists() && !second.exists());
    plain.verified();
}

#[test]
fn a_journal_that_cannot_be_read_is_named_and_the_rest_goes() {
    let plain = Plain::new();
    let first = plain.temporary("first");
    plain.hand_over();
    let receipt = plain.run(TEMPS).exits(0).result()["receipt"].as_str().unwrap().to_owned();
    let place = plain.trash().join(&receipt);
    let journal = place.join("journal.jsonl");
    // The journal itself, and the directory that it is in.
    for (closed, mode) in [(&journal, 0o000), (&place, 0o000)] {
        let second = plain.temporary("second");
        plain.hand_over();
        let mode = Mode::set(closed, mode);
        let result = plain.run(TEMPS).exits(12).result();
        assert_eq!(items(&result, "trashed"), [second.to_str().unwrap()], "{result}");
        names_in(&result["incomplete"], &journal);
        names(&plain.run(&format!("undo {receipt} --json")).exits(8), &journal);
        names_in(&plain.run("trash ls --json").exits(12).result()["incomplete"], &journal);
        names_in(&plain.run("trash verify --json").exits(12).result()["problems"], &journal);
        let emptied = plain.run("trash empty --older-than 1d --yes --json").exits(12).result();
        names_in(&emptied["failed"], &journal);
        // What can be read is undone; behind that comes what cannot, and is not skipped.
        plain.run("undo").exits(0);
        assert!(second.exists());
        names(&plain.run("undo --json").exits(8), &journal);
        drop(mode);
        plain.verified();
        std::fs::remove_file(&second).unwrap();
    }
    assert!(!first.exists());
    plain.run(&format!("undo {receipt}")).exits(0);
    assert_eq!(std::fs::read(&first).unwrap(), b"left over");
}

#[test]
fn what_cannot_be_put_back_stays_in_the_trash() {
    let plain = Plain::new();
    let (closed, open) = (plain.temporary("closed"), plain.temporary("open"));
    plain.hand_over();
    let receipt = plain.run(TEMPS).exits(0).result()["receipt"].as_str().unwrap().to_owned();
    let mode = Mode::set(closed.parent().unwrap(), 0o555);
    let undone = plain.run("undo --json").exits(13).result();
    let back = |path: &Path| {
        let items = undone["items"].as_array().unwrap().iter();
        items.clone().find(|item| item["path"] == path.to_str().unwrap()).unwrap()
    };
    assert_eq!(back(&open).get("refused"), None, "{undone}");
    let refused = &back(&closed)["refused"];
    assert!(refused["reason"].as_str().unwrap().contains("ermission denied"), "{refused}");
    assert!(refused["remedy"].as_str().unwrap().contains("permissions"), "{refused}");
    assert!(open.exists() && !closed.exists());
    plain.verified();
    drop(mode);
    // A journal that cannot be added to: nothing is put back that could not be told of.
    let journal = plain.trash().join(&receipt).join("journal.jsonl");
    let mode = Mode::set(&journal, 0o400);
    names(&plain.run("undo --json").exits(8), &journal);
    assert!(!closed.exists());
    drop(mode);
    plain.run("undo").exits(0);
    assert!(closed.exists());
    plain.verified();
}

#[test]
fn a_home_that_cannot_be_written_has_no_writer() {
    let plain = Plain::new();
    let path = plain.temporary("main");
    claude_session(&plain.home, "11111111-1111-4111-8111-111111111111", "/w", "hello");
    plain.hand_over();
    plain.run("pin 1111").exits(0);
    plain.run("pin 1111 --remove").exits(0);
    let own = state(&plain.home);
    // What needs no store is done without one: only the lock says who is the writer.
    let needs_it = |closed: &str| match closed {
        "ostler.db" => vec!["pin 1111 --json"],
        _ => vec![TEMPS, "pin 1111 --json"],
    };
    for name in ["writer.lock", "ostler.db"] {
        let closed = own.join(name);
        let mode = Mode::set(&closed, 0o400);
        for line in needs_it(name) {
            names(&plain.run(line).exits(8), &closed);
        }
        drop(mode);
    }
    std::fs::remove_file(own.join("writer.lock")).unwrap();
    let mode = Mode::set(&own, 0o500);
    for line in [TEMPS, "pin 1111 --json"] {
        names(&plain.run(line).exits(8), &own.join("writer.lock"));
    }
    drop(mode);
    assert!(path.exists());
    assert_eq!(plain.run("pin --json").exits(0).result()["pins"], serde_json::json!([]));
    plain.run("pin 1111").exits(0);
    plain.run(TEMPS).exits(0);
    assert!(!path.exists());
    plain.verified();
}

#[test]
fn what_belongs_to_another_user_stays() {
    if !is_root() {
        return eprintln!("skipped: only root can give files away");
    }
    let plain = Plain::new();
    let (other, own) = (plain.temporary("other"), plain.temporary("own"));
    plain.hand_over();
    chown(&other, Some(NOBODY - 1), None).unwrap();
    let result = plain.run(TEMPS).exits(0).result();
    assert_eq!(items(&result, "trashed"), [own.to_str().unwrap()], "{result}");
    let stays = result["items"].as_array().unwrap().iter().find(|item| item["action"] == "stays");
    assert_eq!(stays.unwrap()["path"], other.to_str().unwrap());
    assert!(other.exists());
    plain.verified();
}
