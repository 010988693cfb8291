//! The reaper's steps, and that undoing them gives everything back.

#![allow(clippy::disallowed_methods, reason = "tests remove what they made")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::plan::{Refusal, RemovableKind};
use model::wire::UndoResult;
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
    let home = directory.path().join("home");
    bench_with(directory, home)
}

fn bench_with(directory: tempfile::TempDir, home: PathBuf) -> Bench {
    let work = directory.path().join("work");
    fs::create_dir(&work).unwrap();
    let machine = Machine::with_home(home);
    let writer = WriterLock::take(machine.home(), Duration::ZERO).unwrap();
    Bench { _directory: directory, machine, writer, work }
}

/// What is not as it was. The directory itself may have been written to.
fn changes(before: &Snapshot, bench: &Bench) -> Vec<String> {
    let mut changes = before.changes(&Snapshot::of(&bench.work));
    changes.retain(|change| !change.starts_with(" was"));
    changes
}

/// Undoes the last run.
fn undo(bench: &Bench, when: WhenTaken) -> UndoResult {
    ostler_reaper::undo_receipt(&bench.writer, None, when, &bench.machine).unwrap()
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
    undo(&bench, WhenTaken::Refuse);
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
    let undone = undo(&bench, WhenTaken::Refuse);
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
    let mut begun = begin(&path, serde_json::json!({ "action": "trash" }));
    // They did not write down when it came into being.
    begun["print"].as_object_mut().unwrap().remove("born");
    let copied = serde_json::json!({ "line": "copied", "step": 0 });
    let copy = left_by_a_kill(&bench, &[begun, copied], "session", b"before");
    let mut file = fs::File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, b", and a turn").unwrap();
    ostler_reaper::recover_interrupted(&bench.writer, &bench.machine).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before, and a turn");
    assert_eq!(fs::read(&copy).unwrap(), b"before", "recovery removes nothing");
    let verified = ostler_reaper::verify_trash(&bench.writer.home);
    assert!(verified.problems.is_empty() && verified.interrupted == 0, "{verified:?}");
    assert_eq!(
        (verified.spare, verified.undecided.len()),
        (0, 1),
        "nobody can tell which is whose"
    );
    ostler_reaper::empty_trash(&bench.writer, Duration::ZERO, &bench.machine).unwrap();
    assert!(copy.exists() && path.exists());
}

/// The path was made anew since, and got the number of what is gone. Where nothing says when that came into being, only the
/// same content counts as the same thing; the copy may be the only one.
#[test]
fn d1_what_only_has_the_number_of_the_original_does_not_count_as_it() {
    for (there, is_same, knows_birth) in [
        ("theirs", false, true),
        ("theirs", false, false),
        ("before", true, true),
        ("before", true, false),
    ] {
        let bench = bench();
        let path = bench.work.join("session");
        fs::write(&path, there).unwrap();
        let mut begun = begin(&path, serde_json::json!({ "action": "trash" }));
        let print = begun["print"].as_object_mut().unwrap();
        match print.get_mut("born").filter(|_| knows_birth) {
            Some(born) => *born = serde_json::json!([1, 1]),
            None => drop(print.remove("born")),
        }
        let aside = bench.work.join(PRIVATE);
        let lines = [
            begun,
            serde_json::json!({ "line": "aside", "step": 0, "name": aside }),
            serde_json::json!({ "line": "copied", "step": 0 }),
        ];
        let copy = left_by_a_kill(&bench, &lines, "session", b"before");
        ostler_reaper::recover_interrupted(&bench.writer, &bench.machine).unwrap();
        ostler_reaper::empty_trash(&bench.writer, Duration::ZERO, &bench.machine).unwrap();
        assert_eq!(copy.exists(), !is_same, "{there}, {knows_birth}");
        assert_eq!(fs::read_to_string(&path).unwrap(), there);
        if is_same {
            continue;
        }
        let told = ostler_reaper::undecided(&bench.writer.home);
        assert_eq!(told[0].places, [copy.to_string_lossy()], "{told:?}");
        let undone = undo(&bench, WhenTaken::Beside);
        let beside = undone.items[0].beside.clone().unwrap();
        assert_eq!(fs::read(beside).unwrap(), b"before");
        assert_eq!(fs::read_to_string(&path).unwrap(), there);
        assert_eq!(ostler_reaper::undecided(&bench.writer.home), []);
    }
}

/// A copy that was half made goes while the whole is there, in its place or beside it, and stays if that is nowhere.
#[test]
fn d1_a_half_made_copy_goes_only_while_the_original_is_there() {
    for now_at in ["place", "aside", "nowhere"] {
        let bench = bench();
        let (path, aside) = (bench.work.join("session"), bench.work.join(PRIVATE));
        fs::write(&path, "before").unwrap();
        let mut begun = begin(&path, serde_json::json!({ "action": "trash" }));
        let knows_birth = begun["print"]["born"].is_array();
        if knows_birth && now_at == "nowhere" {
            begun["print"]["born"] = serde_json::json!([1, 1]);
        }
        let line = serde_json::json!({ "line": "aside", "step": 0, "name": aside });
        let copy = left_by_a_kill(&bench, &[begun, line], ".partial", b"bef");
        if now_at == "aside" {
            fs::rename(&path, &aside).unwrap();
            fs::write(&path, "theirs").unwrap();
        }
        ostler_reaper::recover_interrupted(&bench.writer, &bench.machine).unwrap();
        ostler_reaper::empty_trash(&bench.writer, Duration::ZERO, &bench.machine).unwrap();
        let stays = now_at == "nowhere" || (now_at == "place" && !knows_birth);
        assert_eq!((copy.exists(), aside.exists()), (stays, now_at == "aside"), "{now_at}");
    }
}

/// Somebody has made a file where the renamed one was, and it has got the number that was free meanwhile.
#[test]
fn d1_a_rename_is_undone_by_what_lies_under_the_new_name() {
    let bench = bench();
    let (path, to) = (bench.work.join("session"), bench.work.join("session.deleted"));
    fs::write(&path, "x").unwrap();
    let plan = planned(&path);
    let checked = recheck_planned(&plan, |_| Ok(None)).unwrap();
    let mut reaper = Reaper::begin(&bench.writer, "test", &bench.machine).unwrap();
    reaper.rename_item(&checked, &to).unwrap().unwrap();
    reaper.finish().unwrap();
    // Of the same number for certain: another name of the same file.
    fs::hard_link(&to, &path).unwrap();
    let refused = || undo(&bench, WhenTaken::Refuse).items.remove(0).refused;
    assert!(refused().is_some(), "it is not said to be back while it lies elsewhere");
    fs::remove_file(&path).unwrap();
    assert!(refused().is_none());
    assert_eq!(fs::read(&path).unwrap(), b"x");
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
        let refused = undo(&bench, WhenTaken::Refuse);
        let item = &refused.items[0];
        assert_eq!(item.refused.as_ref().unwrap().refusal, Refusal::Changed);
        assert_eq!(item.kept_at.as_deref(), copy.to_str());
        let undone = undo(&bench, WhenTaken::Beside);
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
    let temporary = bench.work.join(PRIVATE);
    fs::write(&temporary, "after").unwrap();
    let unfinished = sys::exchange::unfinished_name(&temporary);
    fs::write(&unfinished, "aft").unwrap();
    ostler_reaper::recover_interrupted(&bench.writer, &bench.machine).unwrap();
    assert!(!lock.exists() && !temporary.exists() && !unfinished.exists());
    assert_eq!(fs::read(&path).unwrap(), b"before");
    assert_eq!(ostler_reaper::undecided(&bench.writer.home), []);
}

/// The private name of the first step of `left_by_a_kill`.
const PRIVATE: &str = ".ostler-19a000000-1-1-0-0";

/// What others wrote in the moment of an exchange has the private name when ostler is killed. It is removed
/// by nobody, whatever is in its place by now, and told of until somebody has taken it away.
#[test]
fn c2_what_others_wrote_in_the_moment_of_the_exchange_stays_and_is_told() {
    let (before, after) = (sys::hash::sha256(b"before"), sys::hash::sha256(b"after"));
    for now_there in ["before", "since"] {
        let bench = bench();
        let path = bench.work.join("index");
        fs::write(&path, "before").unwrap();
        let action = serde_json::json!({ "action": "replace", "before": before, "after": after });
        let begun = begin(&path, action);
        let copy = left_by_a_kill(&bench, &[begun], "index", b"before");
        let private = bench.work.join(PRIVATE);
        fs::write(&private, "theirs").unwrap();
        fs::write(&path, now_there).unwrap();
        ostler_reaper::recover_interrupted(&bench.writer, &bench.machine).unwrap();
        let told = || ostler_reaper::undecided(&bench.writer.home);
        let places: Vec<PathBuf> = told()[0].places.iter().map(PathBuf::from).collect();
        assert_eq!(places, [private.clone(), copy.clone()], "{now_there}");
        let when = if now_there == "before" { WhenTaken::Refuse } else { WhenTaken::Beside };
        let undone = undo(&bench, when);
        assert!(undone.items[0].refused.is_none(), "{undone:?}");
        assert_eq!(told()[0].places, [private.to_string_lossy()], "{now_there}: still told");
        let listed = ostler_reaper::list_receipts(&bench.writer.home).0[0].items[0].clone();
        assert_eq!(listed.state, "undecided");
        ostler_reaper::empty_trash(&bench.writer, Duration::ZERO, &bench.machine).unwrap();
        assert_eq!(told()[0].places, [private.to_string_lossy()], "{now_there}: still told");
        assert_eq!(fs::read(&private).unwrap(), b"theirs");
        assert_eq!(fs::read_to_string(&path).unwrap(), now_there);
        fs::remove_file(&private).unwrap();
        assert_eq!(told(), []);
    }
}

/// The copy of what others wrote is what they get it back by if a reader of the new content writes over it: without it
/// nothing is exchanged.
#[test]
fn d4_what_cannot_be_kept_besides_is_not_given_back() {
    let (before, after) = (sys::hash::sha256(b"before"), sys::hash::sha256(b"after"));
    let bench = bench();
    let path = bench.work.join("index");
    fs::write(&path, "before").unwrap();
    let action = serde_json::json!({ "action": "replace", "before": before, "after": after });
    let begun = begin(&path, action);
    let copy = left_by_a_kill(&bench, &[begun], "index", b"before");
    fs::write(&path, "after").unwrap();
    fs::write(bench.work.join(PRIVATE), "theirs").unwrap();
    fs::create_dir_all(copy.with_file_name("written-meanwhile-1").join("in the way")).unwrap();
    ostler_reaper::recover_interrupted(&bench.writer, &bench.machine).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"after");
    assert_eq!(fs::read(bench.work.join(PRIVATE)).unwrap(), b"theirs");
    let told = ostler_reaper::undecided(&bench.writer.home);
    assert!(told[0].places.contains(&bench.work.join(PRIVATE).to_string_lossy().into_owned()));
}

/// Killed with their write taken out and the new content in its place: it is given back, and kept besides,
/// as somebody may have read the new content and write over it.
#[test]
fn c2_what_others_wrote_is_given_back_where_nobody_wrote_since() {
    let (before, after) = (sys::hash::sha256(b"before"), sys::hash::sha256(b"after"));
    let bench = bench();
    let path = bench.work.join("index");
    fs::write(&path, "before").unwrap();
    let action = serde_json::json!({ "action": "replace", "before": before, "after": after });
    let begun = begin(&path, action);
    let copy = left_by_a_kill(&bench, &[begun], "index", b"before");
    fs::write(&path, "after").unwrap();
    fs::write(bench.work.join(PRIVATE), "theirs").unwrap();
    ostler_reaper::recover_interrupted(&bench.writer, &bench.machine).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    assert!(!bench.work.join(PRIVATE).exists());
    assert_eq!(fs::read(copy.with_file_name("written-meanwhile-1")).unwrap(), b"theirs");
    assert_eq!(fs::read(&copy).unwrap(), b"before");
    assert_eq!(ostler_reaper::undecided(&bench.writer.home), []);
}

/// The same on the way back: what an exchange took out of its place was not what had been written then.
#[test]
fn c2_what_others_wrote_while_the_old_content_came_back_stays_and_is_told() {
    let (before, after) = (sys::hash::sha256(b"before"), sys::hash::sha256(b"after"));
    // What is in its place, whether that is the file that came back, and whether theirs is given back.
    for (now_there, came_back, given_back) in
        [("before", true, true), ("since", true, false), ("since", false, false)]
    {
        let bench = bench();
        let path = bench.work.join("index");
        fs::write(&path, "before").unwrap();
        let by = bench.work.join(format!("{PRIVATE}.back"));
        fs::write(&by, "theirs").unwrap();
        let action = serde_json::json!({ "action": "replace", "before": before, "after": after });
        let arrived = sys::fingerprint::of_path(if came_back { &path } else { &by }).unwrap();
        let lines = [
            begin(&path, action),
            serde_json::json!({ "line": "done", "step": 0 }),
            serde_json::json!({ "line": "end", "at": "2026-11-18T10:00:00.000Z" }),
            serde_json::json!({ "line": "returning", "step": 0, "by": by, "to": path, "print": arrived }),
        ];
        let copy = left_by_a_kill(&bench, &lines, "index", b"before");
        fs::write(&path, now_there).unwrap();
        ostler_reaper::recover_interrupted(&bench.writer, &bench.machine).unwrap();
        let told = ostler_reaper::undecided(&bench.writer.home);
        if given_back {
            assert_eq!((fs::read(&path).unwrap(), by.exists()), (b"theirs".to_vec(), false));
            assert_eq!((told, fs::read(&copy).unwrap()), (vec![], b"before".to_vec()));
        } else {
            assert_eq!(fs::read_to_string(&path).unwrap(), now_there);
            assert_eq!(fs::read(&by).unwrap(), b"theirs");
            assert_eq!(told[0].places, [by.to_string_lossy()], "came back: {came_back}");
        }
    }
}

/// What an earlier undo left under the name by which things come back is not in the way of the next, and not
/// removed by it.
#[test]
fn c2_what_an_undo_left_of_somebody_elses_outlasts_the_next_undo() {
    let (before, after) = (sys::hash::sha256(b"before"), sys::hash::sha256(b"after"));
    for now_there in ["after", "since"] {
        let bench = bench();
        let path = bench.work.join("index");
        fs::write(&path, "before").unwrap();
        let by = bench.work.join(format!("{PRIVATE}.back"));
        let action = serde_json::json!({ "action": "replace", "before": before, "after": after });
        let matter = serde_json::json!({ "reason": "others wrote to it", "places": [by] });
        let lines = [
            begin(&path, action),
            serde_json::json!({ "line": "done", "step": 0 }),
            serde_json::json!({ "line": "undecided", "step": 0, "matter": matter }),
            serde_json::json!({ "line": "returned", "step": 0 }),
        ];
        left_by_a_kill(&bench, &lines, "index", b"before");
        fs::write(&by, "theirs").unwrap();
        fs::write(&path, now_there).unwrap();
        let undone = undo(&bench, WhenTaken::Beside);
        assert!(undone.items[0].refused.is_none(), "{undone:?}");
        let back = undone.items[0].beside.clone().map_or(path.clone(), PathBuf::from);
        assert_eq!(fs::read(&back).unwrap(), b"before", "{now_there}");
        assert_eq!(fs::read(&by).unwrap(), b"theirs", "{now_there}");
        let told = ostler_reaper::undecided(&bench.writer.home);
        assert_eq!(told[0].places, [by.to_string_lossy()], "{now_there}");
    }
}

/// As earlier versions left it: undone, with a file of somebody's under the private name.
#[test]
fn c2_a_private_name_is_told_of_whatever_the_journal_says() {
    let bench = bench();
    let path = bench.work.join("index");
    fs::write(&path, "before").unwrap();
    let action = serde_json::json!({
        "action": "replace", "before": sys::hash::sha256(b"before"), "after": sys::hash::sha256(b"after"),
    });
    let at = "2026-11-18T10:00:00.000Z";
    let lines = [
        begin(&path, action),
        serde_json::json!({ "line": "done", "step": 0 }),
        serde_json::json!({ "line": "undone", "step": 0, "at": at }),
        serde_json::json!({ "line": "end", "at": at }),
    ];
    left_by_a_kill(&bench, &lines, "index", b"before");
    let private = bench.work.join(PRIVATE);
    fs::write(&private, "theirs").unwrap();
    let told = ostler_reaper::verify_trash(&bench.writer.home).undecided;
    assert_eq!(told[0].places, [private.to_string_lossy()]);
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
    undo(&bench, WhenTaken::Refuse);
    assert_eq!(changes(&before, &bench), Vec::<String>::new());
}

/// Somebody has the file open that undoing moves to another device.
#[cfg(target_os = "linux")]
#[test]
fn h2_a_made_file_that_is_being_written_is_not_taken_away() {
    let Some(elsewhere) = testkit::siege::other_device() else { return };
    let state = tempfile::tempdir_in(elsewhere).unwrap();
    let bench = bench_with(tempfile::tempdir().unwrap(), state.path().join("home"));
    let path = bench.work.join("new");
    let mut reaper = Reaper::begin(&bench.writer, "test", &bench.machine).unwrap();
    reaper.create_file(RemovableKind::StoreIndex, &path, "rebuilt", b"{}").unwrap().unwrap();
    reaper.finish().unwrap();
    let refused =
        || undo(&bench, WhenTaken::Refuse).items.remove(0).refused.map(|refused| refused.refusal);
    let mut held = fs::File::options().append(true).open(&path).unwrap();
    assert_eq!(refused(), Some(Refusal::Changed));
    std::io::Write::write_all(&mut held, b" theirs").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"{} theirs");
    fs::write(&path, "{}").unwrap();
    drop(held);
    assert_eq!(refused(), None);
    assert!(!path.exists());
    assert_eq!(ostler_reaper::undecided(&bench.writer.home), []);
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
