//! The reaper's steps, and that undoing them gives everything back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::plan::{Kind, Refusal};
use model::time::Time;
use ostler_flows::collect::{self, Planned, Reaper, recheck};
use ostler_flows::writer::{self, Writer};
use proptest::prelude::*;
use testkit::home::Snapshot;

struct Bench {
    _directory: tempfile::TempDir,
    writer: Writer,
    work: PathBuf,
}

fn bench() -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let work = directory.path().join("work");
    fs::create_dir(&work).unwrap();
    let writer = writer::take(&directory.path().join("home"), Duration::ZERO).unwrap();
    Bench { _directory: directory, writer, work }
}

/// What is not as it was. The directory itself may have been written to.
fn changes(before: &Snapshot, bench: &Bench) -> Vec<String> {
    let mut changes = before.changes(&Snapshot::of(&bench.work));
    changes.retain(|change| !change.starts_with(" was"));
    changes
}

fn now() -> Time {
    sys::clock::now()
}

fn planned(path: &Path) -> Planned {
    Planned::new(Kind::Temporary, path, "test", "a test").unwrap()
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
    let mut reaper = Reaper::begin(&bench.writer, "test", now()).unwrap();
    let checked = recheck(&plan, |_| Ok(None)).unwrap();
    reaper.replace(&checked, b"before", b"after").unwrap().unwrap();
    reaper.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"after");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    collect::undo(&bench.writer, None, now()).unwrap();
    assert_eq!(changes(&before, &bench), Vec::<String>::new());
}

#[test]
fn content_that_is_not_what_was_read_is_not_replaced() {
    let bench = bench();
    let path = bench.work.join("file");
    fs::write(&path, "theirs").unwrap();
    let plan = planned(&path);
    let mut reaper = Reaper::begin(&bench.writer, "test", now()).unwrap();
    let checked = recheck(&plan, |_| Ok(None)).unwrap();
    let refused = reaper.replace(&checked, b"as read", b"after").unwrap();
    assert_eq!(refused, Err(Refusal::Changed));
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    reaper.finish().unwrap();
    assert!(collect::verify(&bench.writer.home).problems.is_empty());
}

#[test]
fn a_replacement_that_was_changed_since_is_not_undone() {
    let bench = bench();
    let path = bench.work.join("file");
    fs::write(&path, "before").unwrap();
    let plan = planned(&path);
    let mut reaper = Reaper::begin(&bench.writer, "test", now()).unwrap();
    let checked = recheck(&plan, |_| Ok(None)).unwrap();
    reaper.replace(&checked, b"before", b"after").unwrap().unwrap();
    reaper.finish().unwrap();
    fs::write(&path, "somebody's").unwrap();
    let undone = collect::undo(&bench.writer, None, now()).unwrap();
    assert_eq!(undone.items[0].refused.as_ref().unwrap().refusal, Refusal::Changed);
    assert_eq!(fs::read(&path).unwrap(), b"somebody's");
}

#[test]
fn what_was_made_goes_away_again_and_what_is_there_is_not_made() {
    let bench = bench();
    let path = bench.work.join("new");
    let before = Snapshot::of(&bench.work);
    let mut reaper = Reaper::begin(&bench.writer, "test", now()).unwrap();
    reaper.create(Kind::StoreIndex, &path, "rebuilt", b"{}").unwrap().unwrap();
    let again = reaper.create(Kind::StoreIndex, &path, "rebuilt", b"[]").unwrap();
    assert_eq!(again, Err(Refusal::Changed));
    reaper.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"{}");
    collect::undo(&bench.writer, None, now()).unwrap();
    assert_eq!(changes(&before, &bench), Vec::<String>::new());
}

#[test]
fn a_lock_is_held_until_the_thing_is_gone() {
    let bench = bench();
    let (path, lock) = (bench.work.join("file"), bench.work.join("lock"));
    fs::write(&path, "x").unwrap();
    let plan = planned(&path);
    let checked = recheck(&plan, |_| Ok(sys::lockfile::make(&lock, b"us").unwrap())).unwrap();
    assert!(sys::lockfile::make(&lock, b"others").unwrap().is_none());
    let mut reaper = Reaper::begin(&bench.writer, "test", now()).unwrap();
    reaper.trash(&checked).unwrap().unwrap();
    drop(checked);
    assert!(sys::lockfile::make(&lock, b"others").unwrap().is_some());
}

#[test]
fn special_files_and_mount_points_stay() {
    let bench = bench();
    let socket = bench.work.join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(recheck(&planned(&socket), |_| Ok(None)).unwrap_err(), Refusal::Special);
    assert_eq!(recheck(&planned(Path::new("/proc")), |_| Ok(None)).unwrap_err(), Refusal::Mounted);
    assert_eq!(recheck(&planned(Path::new("/")), |_| Ok(None)).unwrap_err(), Refusal::Mounted);
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
            let mut reaper = Reaper::begin(&bench.writer, "test", now()).unwrap();
            for deed in deeds {
                let at = |index: usize| bench.work.join(name(index));
                let plan = |index: usize| Planned::new(Kind::Temporary, &at(index), "test", "a test").ok();
                match deed {
                    Deed::Trash(index) => {
                        let Some(plan) = plan(index) else { continue };
                        let checked = recheck(&plan, |_| Ok(None)).unwrap();
                        reaper.trash(&checked).unwrap().unwrap();
                    }
                    Deed::Rename(from, to) => {
                        let Some(plan) = plan(from) else { continue };
                        let checked = recheck(&plan, |_| Ok(None)).unwrap();
                        let taken = at(to).exists();
                        prop_assert_eq!(reaper.rename(&checked, &at(to)).unwrap().is_err(), taken);
                    }
                    Deed::Replace(index, bytes) => {
                        let Some(plan) = plan(index) else { continue };
                        let read = fs::read(at(index)).unwrap();
                        let checked = recheck(&plan, |_| Ok(None)).unwrap();
                        reaper.replace(&checked, &read, &bytes).unwrap().unwrap();
                    }
                    Deed::Create(index, bytes) => {
                        let taken = at(index).exists();
                        let made = reaper.create(Kind::StoreIndex, &at(index), "a test", &bytes);
                        prop_assert_eq!(made.unwrap().is_err(), taken);
                    }
                }
            }
            receipts.extend(reaper.finish().unwrap().map(|(receipt, _)| receipt));
        }
        let verified = collect::verify(&bench.writer.home);
        prop_assert!(verified.problems.is_empty(), "{:?}", verified);
        for receipt in receipts.iter().rev() {
            let undone = collect::undo(&bench.writer, Some(receipt), now()).unwrap();
            let refused = undone.items.iter().find(|item| item.refused.is_some());
            prop_assert!(refused.is_none(), "{:?}", refused);
        }
        prop_assert_eq!(changes(&before, &bench), Vec::<String>::new());
    }
}
