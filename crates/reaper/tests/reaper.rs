//! The reaper's steps, and that undoing them gives everything back.

#![allow(clippy::disallowed_methods, reason = "tests remove what they made")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::plan::{Refusal, RemovableKind};
use ostler_reaper::{PlannedRemoval, Reaper, WhenTaken, recheck_planned};
use proptest::prelude::*;
use sys::machine::Machine;
use sys::writer_lock::WriterLock;
use testkit::home::Snapshot;

struct Bench {
    _directory: tempfile::TempDir,
    machine: Machine,
    writer: WriterLock,
    work: PathBuf,
}

fn bench() -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let work = directory.path().join("work");
    fs::create_dir(&work).unwrap();
    let machine = Machine::with_home(directory.path().join("home"));
    let writer = WriterLock::take(machine.home(), Duration::ZERO).unwrap();
    Bench { _directory: directory, machine, writer, work }
}

/// What is not as it was. The directory itself may have been written to.
fn changes(before: &Snapshot, bench: &Bench) -> Vec<String> {
    let mut changes = before.changes(&Snapshot::of(&bench.work));
    changes.retain(|change| !change.starts_with(" was"));
    changes
}

fn planned(path: &Path) -> PlannedRemoval {
    PlannedRemoval::new(RemovableKind::Temporary, path, "test", "a test").unwrap()
}

#[test]
fn replaced_content_comes_back_with_its_mode_and_times() {
    let bench = bench();
    let path = bench.work.join("file");
    fs::write(&path, "before").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000);
    fs::File::options().append(true).open(&path).unwrap().set_modified(old).unwrap();
    let before = Snapshot::of(&bench.work);
    let plan = planned(&path);
    let mut reaper = Reaper::begin(&bench.writer, "test", &bench.machine).unwrap();
    let checked = recheck_planned(&plan, |_| Ok(None)).unwrap();
    reaper.replace_content(&checked, b"before", b"after").unwrap().unwrap();
    reaper.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"after");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    ostler_reaper::undo_receipt(&bench.writer, None, WhenTaken::Refuse, &bench.machine).unwrap();
    assert_eq!(changes(&before, &bench), Vec::<String>::new());
}

#[test]
fn content_that_is_not_what_was_read_is_not_replaced() {
    let bench = bench();
    let path = bench.work.join("file");
    fs::write(&path, "theirs").unwrap();
    let plan = planned(&path);
    let mut reaper = Reaper::begin(&bench.writer, "test", &bench.machine).unwrap();
    let checked = recheck_planned(&plan, |_| Ok(None)).unwrap();
    let refused = reaper.replace_content(&checked, b"as read", b"after").unwrap();
    assert_eq!(refused, Err(Refusal::Changed));
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    reaper.finish().unwrap();
    assert!(ostler_reaper::verify_trash(&bench.writer.home).problems.is_empty());
}

#[test]
fn a_replacement_that_was_changed_since_is_not_undone() {
    let bench = bench();
    let path = bench.work.join("file");
    fs::write(&path, "before").unwrap();
    let plan = planned(&path);
    let mut reaper = Reaper::begin(&bench.writer, "test", &bench.machine).unwrap();
    let checked = recheck_planned(&plan, |_| Ok(None)).unwrap();
    reaper.replace_content(&checked, b"before", b"after").unwrap().unwrap();
    reaper.finish().unwrap();
    fs::write(&path, "somebody's").unwrap();
    let undone =
        ostler_reaper::undo_receipt(&bench.writer, None, WhenTaken::Refuse, &bench.machine)
            .unwrap();
    assert_eq!(undone.items[0].refused.as_ref().unwrap().refusal, Refusal::Changed);
    assert_eq!(fs::read(&path).unwrap(), b"somebody's");
}

/// A receipt as a killed run leaves it: its lines, and what lies in its first slot.
fn left_by_a_kill(
    bench: &Bench,
    lines: &[serde_json::Value],
    name: &str,
    content: &[u8],
) -> PathBuf {
    let place = bench.writer.home.join("trash/19a000000-1-1-0");
    let slot = place.join("0");
    for directory in [place.parent().unwrap(), &place, &slot] {
        sys::private::create_private_dir(directory).unwrap();
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(place.join("journal.jsonl"), text).unwrap();
    fs::set_permissions(place.join("journal.jsonl"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(slot.join(name), content).unwrap();
    slot.join(name)
}

fn begin(path: &Path, action: serde_json::Value) -> serde_json::Value {
    let print = sys::fingerprint::of_path(path).unwrap();
    let mut line = serde_json::json!({
        "line": "begin", "step": 0, "path": path, "kind": "transcript",
        "why": "a test", "bytes": 6, "print": print,
    });
    line.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
    line
}

/// As earlier versions left it: a whole copy, and the original where it was. It was worked on since.
#[test]
fn c1_an_original_that_was_worked_on_since_the_kill_is_not_removed() {
    let bench = bench();
    let path = bench.work.join("session");
    fs::write(&path, "before").unwrap();
    let begun = begin(&path, serde_json::json!({ "action": "trash" }));
    let copied = serde_json::json!({ "line": "copied", "step": 0 });
    let copy = left_by_a_kill(&bench, &[begun, copied], "session", b"before");
    let mut file = fs::File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, b", and a turn").unwrap();
    ostler_reaper::recover_interrupted(&bench.writer, &bench.machine).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before, and a turn");
    assert_eq!(fs::read(&copy).unwrap(), b"before", "recovery removes nothing");
    let verified = ostler_reaper::verify_trash(&bench.writer.home);
    assert!(verified.problems.is_empty() && verified.interrupted == 0, "{verified:?}");
    assert_eq!(verified.spare, 1, "it is freed with the trash");
    ostler_reaper::empty_trash(&bench.writer, Duration::ZERO, &bench.machine).unwrap();
    assert!(!copy.exists() && path.exists());
}

/// Three cases, not two: replaced and written to since is neither what it was nor what it became.
#[test]
fn c2_the_copy_of_a_replaced_file_that_changed_since_is_kept() {
    let (before, after) = (sys::hash::sha256(b"before"), sys::hash::sha256(b"after"));
    for (now_there, state) in [
        (Some("before"), "notDone"),
        (Some("after"), "done"),
        (Some("since"), "undecided"),
        (None, "undecided"),
    ] {
        let bench = bench();
        let path = bench.work.join("index");
        fs::write(&path, "before").unwrap();
        let action = serde_json::json!({ "action": "replace", "before": before, "after": after });
        let begun = begin(&path, action);
        let copy = left_by_a_kill(&bench, &[begun], "index", b"before");
        match now_there {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        ostler_reaper::recover_interrupted(&bench.writer, &bench.machine).unwrap();
        assert_eq!(fs::read(&copy).unwrap(), b"before", "{now_there:?}");
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), now_there);
        let item = ostler_reaper::list_receipts(&bench.writer.home).0[0].items[0].clone();
        assert_eq!(item.state, state, "{now_there:?}");
        if state != "undecided" {
            continue;
        }
        let matter = &ostler_reaper::undecided(&bench.writer.home)[0];
        assert_eq!(matter.places, [copy.to_string_lossy()]);
        let refused =
            ostler_reaper::undo_receipt(&bench.writer, None, WhenTaken::Refuse, &bench.machine)
                .unwrap();
        let item = &refused.items[0];
        assert_eq!(item.refused.as_ref().unwrap().refusal, Refusal::Changed);
        assert_eq!(item.kept_at.as_deref(), copy.to_str());
        let undone =
            ostler_reaper::undo_receipt(&bench.writer, None, WhenTaken::Beside, &bench.machine)
                .unwrap();
        let place = undone.items[0].beside.clone().map_or(path.clone(), PathBuf::from);
        assert_eq!(fs::read(place).unwrap(), b"before");
        assert!(ostler_reaper::undecided(&bench.writer.home).is_empty());
    }
}

/// Somebody writes between the last look and the rename.
#[test]
fn m11_a_rename_that_finds_a_change_goes_back() {
    let bench = bench();
    let (path, to) = (bench.work.join("session"), bench.work.join("session.deleted"));
    fs::write(&path, "x").unwrap();
    let plan = planned(&path);
    let checked = recheck_planned(&plan, |_| Ok(None)).unwrap();
    fs::write(&path, "x and a turn").unwrap();
    let mut reaper = Reaper::begin(&bench.writer, "test", &bench.machine).unwrap();
    assert_eq!(reaper.rename_item(&checked, &to).unwrap(), Err(Refusal::Changed));
    reaper.finish().unwrap();
    assert_eq!(ostler_reaper::list_receipts(&bench.writer.home).0[0].items[0].state, "notDone");
    assert_eq!(fs::read(&path).unwrap(), b"x and a turn");
    assert!(!to.exists());
}

/// A kill leaves the lock of the agent's that was held, and the file that was being written.
#[test]
fn l3_recovery_lets_go_of_its_own_lock_and_temporary_file() {
    let bench = bench();
    let (path, lock) = (bench.work.join("index"), bench.work.join("index.lock"));
    fs::write(&path, "before").unwrap();
    fs::write(&lock, "killed").unwrap();
    let action = serde_json::json!({
        "action": "replace", "before": sys::hash::sha256(b"before"), "after": sys::hash::sha256(b"after"),
        "lock": { "path": lock, "print": sys::fingerprint::of_path(&lock).unwrap() },
    });
    let begun = begin(&path, action);
    left_by_a_kill(&bench, &[begun], "index", b"before");
    let temporary = bench.work.join(".ostler-19a000000-1-1-0-0");
    fs::write(&temporary, "aft").unwrap();
    ostler_reaper::recover_interrupted(&bench.writer, &bench.machine).unwrap();
    assert!(!lock.exists() && !temporary.exists());
    assert_eq!(fs::read(&path).unwrap(), b"before");
}

#[test]
fn what_was_made_goes_away_again_and_what_is_there_is_not_made() {
    let bench = bench();
    let path = bench.work.join("new");
    let before = Snapshot::of(&bench.work);
    let mut reaper = Reaper::begin(&bench.writer, "test", &bench.machine).unwrap();
    reaper.create_file(RemovableKind::StoreIndex, &path, "rebuilt", b"{}").unwrap().unwrap();
    let again = reaper.create_file(RemovableKind::StoreIndex, &path, "rebuilt", b"[]").unwrap();
    assert_eq!(again, Err(Refusal::Changed));
    reaper.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"{}");
    ostler_reaper::undo_receipt(&bench.writer, None, WhenTaken::Refuse, &bench.machine).unwrap();
    assert_eq!(changes(&before, &bench), Vec::<String>::new());
}

#[test]
fn a_lock_is_held_until_the_thing_is_gone() {
    let bench = bench();
    let (path, lock) = (bench.work.join("file"), bench.work.join("lock"));
    fs::write(&path, "x").unwrap();
    let plan = planned(&path);
    let checked =
        recheck_planned(&plan, |_| Ok(sys::lockfile::create_lock_file(&lock, b"us").unwrap()))
            .unwrap();
    assert!(sys::lockfile::create_lock_file(&lock, b"others").unwrap().is_none());
    let mut reaper = Reaper::begin(&bench.writer, "test", &bench.machine).unwrap();
    reaper.trash_item(&checked).unwrap().unwrap();
    drop(checked);
    assert!(sys::lockfile::create_lock_file(&lock, b"others").unwrap().is_some());
}

#[test]
fn special_files_and_mount_points_stay() {
    let bench = bench();
    let socket = bench.work.join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(recheck_planned(&planned(&socket), |_| Ok(None)).unwrap_err(), Refusal::Special);
    assert_eq!(
        recheck_planned(&planned(Path::new("/proc")), |_| Ok(None)).unwrap_err(),
        Refusal::Mounted
    );
    assert_eq!(
        recheck_planned(&planned(Path::new("/")), |_| Ok(None)).unwrap_err(),
        Refusal::Mounted
    );
}

#[derive(Clone, Debug)]
enum Deed {
    Trash(usize),
    Rename(usize, usize),
    Replace(usize, Vec<u8>),
    Create(usize, Vec<u8>),
}

fn deed() -> impl Strategy<Value = Deed> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        (0usize..6).prop_map(Deed::Trash),
        (0usize..6, 0usize..9).prop_map(|(from, to)| Deed::Rename(from, to)),
        (0usize..6, bytes()).prop_map(|(at, bytes)| Deed::Replace(at, bytes)),
        (0usize..9, bytes()).prop_map(|(at, bytes)| Deed::Create(at, bytes)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_done_is_undone(runs in proptest::collection::vec(proptest::collection::vec(deed(), 1..8), 1..4)) {
        let bench = bench();
        let name = |index: usize| format!("file-{index}");
        for index in 0..6 {
            fs::write(bench.work.join(name(index)), vec![index as u8; index * 7]).unwrap();
        }
        let before = Snapshot::of(&bench.work);
        let mut receipts = Vec::new();
        for deeds in runs {
            let mut reaper = Reaper::begin(&bench.writer, "test", &bench.machine).unwrap();
            for deed in deeds {
                let at = |index: usize| bench.work.join(name(index));
                let plan = |index: usize| PlannedRemoval::new(RemovableKind::Temporary, &at(index), "test", "a test").ok();
                match deed {
                    Deed::Trash(index) => {
                        let Some(plan) = plan(index) else { continue };
                        let checked = recheck_planned(&plan, |_| Ok(None)).unwrap();
                        reaper.trash_item(&checked).unwrap().unwrap();
                    }
                    Deed::Rename(from, to) => {
                        let Some(plan) = plan(from) else { continue };
                        let checked = recheck_planned(&plan, |_| Ok(None)).unwrap();
                        let taken = at(to).exists();
                        prop_assert_eq!(reaper.rename_item(&checked, &at(to)).unwrap().is_err(), taken);
                    }
                    Deed::Replace(index, bytes) => {
                        let Some(plan) = plan(index) else { continue };
                        let read = fs::read(at(index)).unwrap();
                        let checked = recheck_planned(&plan, |_| Ok(None)).unwrap();
                        reaper.replace_content(&checked, &read, &bytes).unwrap().unwrap();
                    }
                    Deed::Create(index, bytes) => {
                        let taken = at(index).exists();
                        let made = reaper.create_file(RemovableKind::StoreIndex, &at(index), "a test", &bytes);
                        prop_assert_eq!(made.unwrap().is_err(), taken);
                    }
                }
            }
            receipts.extend(reaper.finish().unwrap().map(|(receipt, _)| receipt));
        }
        let verified = ostler_reaper::verify_trash(&bench.writer.home);
        prop_assert!(verified.problems.is_empty(), "{:?}", verified);
        for receipt in receipts.iter().rev() {
            let undone = ostler_reaper::undo_receipt(&bench.writer, Some(receipt), WhenTaken::Refuse, &bench.machine).unwrap();
            let refused = undone.items.iter().find(|item| item.refused.is_some());
            prop_assert!(refused.is_none(), "{:?}", refused);
        }
        prop_assert_eq!(changes(&before, &bench), Vec::<String>::new());
    }
}
