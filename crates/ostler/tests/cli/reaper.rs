//! The reaper beside others who write: kills, recovery and undoing lose nothing of theirs.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::home::{Snapshot, TempHome};
use testkit::pause::Pauses;
use testkit::run::Ran;
use testkit::siege::{self, Siege, other_device};

use super::collect::{age, age_below, temporary_name, worktree};
use super::run::{claude_session, ostler, ran};

const TREES: &str = "gc --include worktrees --older-than 0s --agent claude-code --yes --json";
const TRANSCRIPTS: &str =
    "gc --include transcripts --older-than 0s --agent claude-code --yes --json";
const TEMPS: &str = "gc --include temps --agent openclaw --yes --json";

/// A home whose trash is on the same device, or on another.
struct Bench {
    home: TempHome,
    state: PathBuf,
    _elsewhere: Option<tempfile::TempDir>,
}

impl Bench {
    fn on_one_device() -> Self {
        let home = TempHome::new();
        let state = home.join("state");
        Self { home, state, _elsewhere: None }
    }

    /// None where there is no second device.
    fn across() -> Option<Self> {
        let elsewhere = tempfile::tempdir_in(other_device()?).unwrap();
        let state = elsewhere.path().join("state");
        Some(Self { home: TempHome::new(), state, _elsewhere: Some(elsewhere) })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = ostler(&self.home);
        command.env("OSTLER_HOME", &self.state).args(line.split(' '));
        command
    }

    #[track_caller]
    fn run(&self, line: &str) -> Ran {
        ran(&mut self.command(line))
    }

    /// Runs until a point, lets somebody else work, and kills it or lets it go on.
    #[track_caller]
    fn interrupt(&self, point: &str, line: &str, kill: bool, meanwhile: impl FnOnce()) -> String {
        let pauses = Pauses::new();
        pauses.arm(point);
        let mut command = self.command(line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pauses.apply(&mut command).spawn().unwrap();
        pauses.wait(point);
        meanwhile();
        if kill {
            child.kill().unwrap();
        } else {
            pauses.release(point);
        }
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn kill_at(&self, point: &str, line: &str) {
        self.interrupt(point, line, true, || {});
    }

    #[track_caller]
    fn verified(&self) -> Value {
        let verified = self.run("trash verify --json").exits(0).result();
        assert_eq!(verified["problems"].as_array().unwrap().len(), 0, "{verified}");
        verified
    }

    /// What a person must decide, where it is told: in each of three places the same.
    #[track_caller]
    fn undecided(&self) -> Value {
        let told = self.verified()["undecided"].clone();
        let doctor = self.run("doctor --no-sweep").stdout;
        let listed = self.run("trash ls").exits(0).stdout;
        for matter in told.as_array().unwrap() {
            for place in matter["places"].as_array().unwrap() {
                let place = place.as_str().unwrap();
                assert!(std::fs::symlink_metadata(place).is_ok(), "{place} is there");
                assert!(doctor.contains(place), "{doctor}");
                assert!(listed.contains(place), "{listed}");
            }
        }
        told
    }

    /// Names that only the reaper uses, and that are left in a directory.
    fn private_names(&self, directory: &Path) -> Vec<PathBuf> {
        let listed = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        listed
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(".ostler-"))
            .collect()
    }

    fn old_temporary(&self, number: u32) -> PathBuf {
        let sessions = ".openclaw/agents/main/sessions";
        if !self.home.join(sessions).exists() {
            self.home.write(format!("{sessions}/sessions.json"), "{}");
        }
        let path = format!("{sessions}/{}", temporary_name(number));
        let path = self.home.write(path, "left over");
        age(&path, 10);
        path
    }

    /// An agent's transcript, and the command that collects it.
    fn transcript(&self) -> PathBuf {
        let id = "11111111-1111-4111-8111-111111111111";
        let path = claude_session(&self.home, id, "/w", "hello there");
        age(&path, 10);
        path
    }
}

#[expect(clippy::print_stderr, reason = "whoever runs it is told")]
fn skipped() {
    eprintln!("skipped: there is no second file system to write to");
}

const ACROSS: [&str; 8] = [
    "reap.begun",
    "reap.setting-aside",
    "reap.aside",
    "reap.copying",
    "reap.copied",
    "reap.unlinked",
    "reap.moved",
    "reap.done",
];

/// Killed at a point, and nobody worked on meanwhile: the next run takes everything, and it comes back.
#[test]
fn h2_a_tree_survives_a_kill_at_any_point_between_two_devices() {
    for point in ACROSS {
        let Some(bench) = Bench::across() else { return skipped() };
        let tree = worktree(&bench.home);
        let before = Snapshot::of(&tree);
        bench.kill_at(point, TREES);
        bench.verified();
        // What was set aside is put back by the next run, and was not in what that run was told to take.
        bench.run(TREES).exits(0);
        let next = bench.run(TREES).exits(0).result();
        assert!(!tree.exists(), "{point}: {next}");
        assert_eq!(bench.private_names(bench.home.path()), [""; 0].map(PathBuf::from), "{point}");
        assert_eq!(bench.undecided().as_array().unwrap().len(), 0, "{point}");
        bench.run("undo --json").exits(0);
        assert_eq!(before.changes(&Snapshot::of(&tree)), Vec::<String>::new(), "{point}");
    }
}

/// Killed, and recovery killed in its turn.
#[test]
fn h2_recovery_can_be_killed_too() {
    for point in ["recover.step", "recover.completed", "recover.said"] {
        let Some(bench) = Bench::across() else { return skipped() };
        let tree = worktree(&bench.home);
        let before = Snapshot::of(&tree);
        bench.kill_at("reap.unlinked", TREES);
        bench.kill_at(point, "trash empty --yes");
        bench.verified();
        bench.run("trash empty --yes").exits(0);
        assert_eq!(before.changes(&Snapshot::of(&tree)), Vec::<String>::new(), "{point}");
        assert_eq!(bench.undecided().as_array().unwrap().len(), 0, "{point}");
        assert_eq!(bench.verified()["interrupted"], 0, "{point}");
    }
}

/// Days may lie between a kill and the next command, and somebody has made the directory again.
#[test]
fn c1_recovery_keeps_what_was_worked_on_since() {
    for point in ["reap.aside", "reap.copying", "reap.copied", "reap.unlinked"] {
        let Some(bench) = Bench::across() else { return skipped() };
        let tree = worktree(&bench.home);
        let before = Snapshot::of(&tree);
        bench.kill_at(point, TREES);
        bench.home.write("tree/NEW", "a day's work");
        bench.run("gc --yes --json").exits(0);
        assert_eq!(std::fs::read(tree.join("NEW")).unwrap(), b"a day's work", "{point}");
        let told = bench.undecided();
        assert_eq!(told.as_array().unwrap().len(), 1, "{point}: {told}");
        assert_eq!(told[0]["path"], tree.to_str().unwrap());
        let refused = bench.run("undo --json").exits(13).result();
        assert_eq!(refused["items"][0]["refused"]["refusal"], "nameTaken", "{refused}");
        let undone = bench.run("undo --beside --json").exits(0).result();
        let beside = PathBuf::from(undone["items"][0]["beside"].as_str().unwrap());
        assert_eq!(before.changes(&Snapshot::of(&beside)), Vec::<String>::new(), "{point}");
        assert_eq!(std::fs::read(tree.join("NEW")).unwrap(), b"a day's work");
        assert_eq!(bench.undecided().as_array().unwrap().len(), 0);
        assert_eq!(bench.private_names(bench.home.path()), [""; 0].map(PathBuf::from), "{point}");
    }
}

/// The agent resumes the session that was half collected.
#[test]
fn c1_a_transcript_that_goes_on_after_the_kill_stays() {
    for point in ["reap.aside", "reap.copied"] {
        let Some(bench) = Bench::across() else { return skipped() };
        let path = bench.transcript();
        let was = std::fs::read(&path).unwrap();
        bench.kill_at(point, TRANSCRIPTS);
        assert!(!path.exists(), "{point}: it has a private name");
        std::fs::write(&path, "a new turn").unwrap();
        bench.run("gc --yes --json").exits(0);
        assert_eq!(std::fs::read(&path).unwrap(), b"a new turn");
        let told = bench.undecided();
        let kept = told[0]["places"][0].as_str().unwrap();
        assert_eq!(std::fs::read(kept).unwrap(), was, "{point}: {told}");
    }
}

/// Killed when the original was gone and that was not written down yet. What is made there since has its number (ext4
/// gives it away at once), and is not it: the copy is the only one.
#[test]
fn d1_the_only_copy_outlasts_what_was_made_in_its_place_since() {
    for of_a_tree in [false, true] {
        let Some(bench) = Bench::across() else { return skipped() };
        let (path, line) = match of_a_tree {
            true => (worktree(&bench.home), TREES),
            false => (bench.transcript(), TRANSCRIPTS),
        };
        let before = Snapshot::of(&path);
        let number = std::fs::symlink_metadata(&path).unwrap().ino();
        bench.kill_at("reap.moved", line);
        assert!(!path.exists(), "it had gone");
        // Whoever comes first gets the free number: a few are tried.
        let mut spares = Vec::new();
        for count in 0..64 {
            let spare = path.with_file_name(format!("spare-{count}"));
            match of_a_tree {
                true => std::fs::create_dir(&spare).unwrap(),
                false => std::fs::write(&spare, "theirs").unwrap(),
            }
            let has_number = std::fs::symlink_metadata(&spare).unwrap().ino() == number;
            spares.push(spare);
            if has_number {
                break;
            }
        }
        std::fs::rename(spares.pop().unwrap(), &path).unwrap();
        if of_a_tree {
            std::fs::write(path.join("NEW"), "theirs").unwrap();
        }
        let theirs = Snapshot::of(&path);
        bench.run("gc --yes --json").exits(0);
        let told = bench.undecided();
        let places = told[0]["places"].as_array().expect("it is told");
        assert!(places[0].as_str().unwrap().contains("trash"), "{told}");
        bench.run("trash empty --older-than 0s --yes --json").exits(0);
        bench.run("undo --json").exits(13);
        let undone = bench.run("undo --beside --json").exits(0).result();
        let beside = PathBuf::from(undone["items"][0]["beside"].as_str().unwrap());
        assert_eq!(before.changes(&Snapshot::of(&beside)), Vec::<String>::new());
        assert_eq!(theirs.changes(&Snapshot::of(&path)), Vec::<String>::new());
        assert_eq!(bench.undecided().as_array().unwrap().len(), 0);
    }
}

/// What has a private name is on its way back when undoing is killed: it is not asked for where it was any more.
#[test]
fn d1_an_undo_of_what_was_set_aside_that_is_killed_is_known() {
    let Some(bench) = Bench::across() else { return skipped() };
    let path = bench.transcript();
    bench.kill_at("reap.aside", TRANSCRIPTS);
    std::fs::write(&path, "theirs").unwrap();
    bench.run("gc --yes --json").exits(0);
    assert_eq!(bench.undecided().as_array().unwrap().len(), 1);
    bench.kill_at("undo.put-back", "undo --beside");
    std::fs::remove_file(&path).unwrap();
    bench.run("gc --yes --json").exits(0);
    assert_eq!(bench.verified()["interrupted"], 0);
    assert_eq!(bench.undecided().as_array().unwrap().len(), 0);
    let listed = bench.run("trash ls --json").exits(0).result();
    assert_eq!(listed["receipts"][0]["items"][0]["state"], "undone", "{listed}");
}

/// Killed between the copy in the vault and the move, or in the middle of the plan: the copy is listed.
#[test]
fn d3_a_copy_in_the_vault_is_listed_before_the_transcript_goes() {
    for point in ["gc.copied", "reap.moved"] {
        let bench = Bench::on_one_device();
        let path = bench.transcript();
        let was = std::fs::read(&path).unwrap();
        bench.kill_at(point, TRANSCRIPTS);
        let kept = bench.run("vault ls --json").exits(0).result()["kept"].clone();
        assert_eq!(kept.as_array().unwrap().len(), 1, "{point}: {kept}");
        let id = kept[0]["session"].as_str().unwrap();
        let told = bench.run(&format!("vault cat {id}")).exits(0).stdout;
        assert_eq!(told.as_bytes(), was, "{point}");
    }
}

/// Somebody has a file of the tree open, or its directory, while it is moved.
#[test]
fn h2_what_is_written_while_a_tree_is_moved_is_kept() {
    for point in ["reap.copying", "reap.copied", "reap.unlinked"] {
        let Some(bench) = Bench::across() else { return skipped() };
        let tree = worktree(&bench.home);
        let handle = std::sync::Mutex::new(None);
        let aside = || {
            let name = bench.private_names(bench.home.path());
            assert_eq!(name.len(), 1, "{point}: it was set aside");
            name[0].clone()
        };
        let result = bench.interrupt(point, TREES, false, || {
            let aside = aside();
            std::fs::write(aside.join("written"), "meanwhile").unwrap();
            *handle.lock().unwrap() = Some(aside);
        });
        let result: Value = serde_json::from_str(&result).unwrap();
        let item = &result["result"]["items"][0];
        assert_eq!(item["refused"]["refusal"], "changed", "{point}: {result}");
        assert_eq!(std::fs::read(tree.join("written")).unwrap(), b"meanwhile", "{point}");
        assert_eq!(std::fs::read(tree.join("file")).unwrap(), b"one\n", "{point}");
        assert!(!handle.lock().unwrap().as_ref().unwrap().exists());
        bench.verified();
    }
}

/// Whatever comes into being under the old name while a tree is moved is somebody's new work.
#[test]
fn h2_what_reappears_under_the_old_name_is_not_touched() {
    let Some(bench) = Bench::across() else { return skipped() };
    let tree = worktree(&bench.home);
    let before = Snapshot::of(&tree);
    bench.interrupt("reap.copying", TREES, false, || {
        bench.home.write("tree/src/new", "new work");
    });
    assert_eq!(std::fs::read(tree.join("src/new")).unwrap(), b"new work");
    assert_eq!(bench.undecided().as_array().unwrap().len(), 0, "the old tree went whole");
    let undone = bench.run("undo --beside --json").exits(0).result();
    let beside = PathBuf::from(undone["items"][0]["beside"].as_str().unwrap());
    assert_eq!(before.changes(&Snapshot::of(&beside)), Vec::<String>::new());
    assert_eq!(std::fs::read(tree.join("src/new")).unwrap(), b"new work");
}

/// A single file, appended to by somebody who opened it before it was set aside.
#[test]
fn h2_a_line_added_to_a_file_while_it_is_moved_is_kept() {
    for point in ["reap.copying", "reap.copied"] {
        let Some(bench) = Bench::across() else { return skipped() };
        let path = bench.old_temporary(1);
        bench.interrupt(point, TEMPS, false, || {
            let aside = bench.private_names(path.parent().unwrap());
            let mut file = std::fs::File::options().append(true).open(&aside[0]).unwrap();
            std::io::Write::write_all(&mut file, b", and more").unwrap();
        });
        assert_eq!(std::fs::read(&path).unwrap(), b"left over, and more", "{point}");
        bench.verified();
    }
}

#[test]
fn h2_a_tree_that_could_not_be_given_back_is_not_moved() {
    let Some(bench) = Bench::across() else { return skipped() };
    let tree = worktree(&bench.home);
    std::fs::write(bench.home.join("repo/.git/info/exclude"), "ignored*\n").unwrap();
    let refused = || {
        age_below(&tree, 10);
        let result = bench.run(TREES).exits(0).result();
        result["items"][0]["refused"]["refusal"].as_str().unwrap_or("none").to_owned()
    };
    std::fs::hard_link(tree.join("file"), bench.home.join("outside")).unwrap();
    assert_eq!(refused(), "hardLinked");
    std::fs::remove_file(bench.home.join("outside")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(tree.join("ignored-socket")).unwrap();
    drop(socket);
    assert_eq!(refused(), "special");
    std::fs::remove_file(tree.join("ignored-socket")).unwrap();
    assert_eq!(refused(), "none");
}

/// On one device a thing is moved while a writer has it open: what is written goes with it.
#[test]
fn h2_on_one_device_nothing_is_lost_either() {
    for point in ["reap.begun", "reap.moved", "reap.done"] {
        let bench = Bench::on_one_device();
        let tree = worktree(&bench.home);
        bench.kill_at(point, TREES);
        bench.home.write("tree/NEW", "a day's work");
        bench.run("gc --yes --json").exits(0);
        assert_eq!(std::fs::read(tree.join("NEW")).unwrap(), b"a day's work", "{point}");
        bench.run("undo --beside --json");
        assert_eq!(std::fs::read(tree.join("NEW")).unwrap(), b"a day's work", "{point}");
        let listed = std::fs::read_dir(bench.home.path()).unwrap();
        let one = listed.flatten().any(|entry| entry.path().join("file").exists());
        assert!(one, "{point}: the old tree is there too");
    }
}

#[test]
fn a_thing_whose_place_is_taken_comes_back_beside_it() {
    for bench in [Some(Bench::on_one_device()), Bench::across()] {
        let Some(bench) = bench else { return skipped() };
        let path = bench.old_temporary(1);
        let gone = bench.run(TEMPS).exits(0).result();
        let receipt = gone["receipt"].as_str().unwrap();
        std::fs::write(&path, "theirs").unwrap();
        let refused = bench.run("undo --json").exits(13).result();
        let remedy = refused["items"][0]["refused"]["remedy"].as_str().unwrap();
        assert!(remedy.contains(&format!("ostler undo {receipt} --beside")), "{remedy}");
        let kept = refused["items"][0]["keptAt"].as_str().unwrap();
        assert_eq!(std::fs::read(kept).unwrap(), b"left over");
        let short = receipt.split('-').next().unwrap();
        let beside = format!("{}.ostler-{short}", path.display());
        std::fs::write(&beside, "taken too").unwrap();
        let undone = bench.run("undo --beside --json").exits(0).result();
        assert_eq!(undone["items"][0]["beside"], format!("{beside}-2"), "{undone}");
        assert_eq!(std::fs::read(format!("{beside}-2")).unwrap(), b"left over");
        assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
        assert_eq!(std::fs::read(&beside).unwrap(), b"taken too");
        bench.verified();
    }
}

#[test]
fn l2_an_undo_killed_between_two_devices_leaves_no_copy_behind() {
    for point in ["undo.copied", "undo.returning", "undo.put-back"] {
        let Some(bench) = Bench::across() else { return skipped() };
        let path = bench.old_temporary(1);
        let before = Snapshot::of(&path);
        bench.run(TEMPS).exits(0);
        bench.kill_at(point, "undo");
        bench.verified();
        // It may have come back already; then there is nothing left to undo.
        let again = bench.run("undo --json");
        assert!(again.code == 0 || again.code == 3, "{point}: {again:?}");
        assert_eq!(before.changes(&Snapshot::of(&path)), Vec::<String>::new(), "{point}");
        let left = bench.private_names(path.parent().unwrap());
        assert_eq!(left, [""; 0].map(PathBuf::from), "{point}");
        assert_eq!(bench.verified()["interrupted"], 0, "{point}");
    }
}

#[test]
fn l4_what_was_being_emptied_is_freed_by_the_next() {
    let bench = Bench::on_one_device();
    bench.old_temporary(1);
    bench.run(TEMPS).exits(0);
    bench.kill_at("trash.emptying", "trash empty --older-than 0s --yes");
    assert_eq!(bench.verified()["spare"], 1);
    let told = bench.run("trash verify").exits(0).stdout;
    assert!(told.contains("1 copy that nobody needs any more"), "{told}");
    let emptied = bench.run("trash empty --yes --json").exits(0).result();
    assert_eq!(emptied["bytes"], 9, "whatever its age: {emptied}");
    assert_eq!(bench.verified()["spare"], 0);
}

/// The last run is the last run, whatever the clock said.
#[test]
fn l6_the_last_run_is_undone_although_the_clock_went_back() {
    let bench = Bench::on_one_device();
    bench.old_temporary(1);
    let first = bench.run(TEMPS).exits(0).result()["receipt"].as_str().unwrap().to_owned();
    // As if it had been made tomorrow.
    let (millis, rest) = first.split_once('-').unwrap();
    let tomorrow = i64::from_str_radix(millis, 16).unwrap() + 86_400_000;
    let trash = bench.state.join("trash");
    std::fs::rename(trash.join(&first), trash.join(format!("{tomorrow:x}-{rest}"))).unwrap();
    let second = bench.old_temporary(2);
    let receipt = bench.run(TEMPS).exits(0).result()["receipt"].clone();
    assert_eq!(bench.run("undo --json").exits(0).result()["receipt"], receipt);
    assert!(second.exists());
}

/// Who opened a file before it went writes on, and who went into a tree stays there.
#[test]
fn what_is_in_use_in_the_trash_is_not_emptied() {
    let bench = Bench::on_one_device();
    bench.old_temporary(1);
    let tree = worktree(&bench.home);
    let empty = || {
        let ran = bench.run("trash empty --older-than 0s --yes --json");
        serde_json::from_str::<Value>(&ran.stdout).unwrap()["result"].clone()
    };
    let slot = |result: &Value, name: &std::ffi::OsStr| {
        let receipt = result["receipt"].as_str().unwrap();
        let path = bench.state.join("trash").join(receipt).join("0").join(name);
        assert!(path.exists(), "{}", path.display());
        path
    };
    let refused = |result: &Value, why: &str| {
        assert_eq!(result["receipts"], serde_json::json!([]), "{result}");
        let reason = result["failed"][0]["reason"].as_str().unwrap();
        assert!(reason.contains(why), "{reason}");
    };
    let file = slot(&bench.run(TEMPS).exits(0).result(), temporary_name(1).as_ref());
    let mut writer = std::fs::File::options().append(true).open(&file).unwrap();
    refused(&empty(), &format!("pid {} uses it", std::process::id()));
    std::io::Write::write_all(&mut writer, b"and more").unwrap();
    assert!(std::fs::read(&file).unwrap().ends_with(b"and more"));
    drop(writer);
    assert_eq!(empty()["failed"], serde_json::json!([]));
    assert!(!file.exists());
    let place = slot(&bench.run(TREES).exits(0).result(), tree.file_name().unwrap());
    let mut inside = Command::new("sleep").arg("1000").current_dir(&place).spawn().unwrap();
    refused(&empty(), &format!("pid {}", inside.id()));
    inside.kill().unwrap();
    inside.wait().unwrap();
    assert_eq!(empty()["failed"], serde_json::json!([]));
    assert!(!place.exists());
}

/// What can be done with the lock alone is done without the store.
#[test]
fn m13_undoing_and_emptying_need_no_store() {
    let bench = Bench::on_one_device();
    let paths = [bench.old_temporary(1), bench.old_temporary(2)];
    bench.run(TEMPS).exits(0);
    let database = bench.state.join("ostler.db");
    std::fs::write(&database, "this is no database, and has never been one").unwrap();
    bench.run("undo --json").exits(0);
    assert!(paths.iter().all(|path| path.exists()));
    age(&paths[0], 10);
    bench.run(&TEMPS.replace(" --yes", ""));
    bench.run("trash empty --older-than 0s --yes --json").exits(0);
    // What may be pinned counts as pinned.
    let path = bench.transcript();
    let result = bench.run(TRANSCRIPTS);
    assert!(path.exists(), "{result:?}");
}

/// Somebody opens a file in the moment in which it is asked who has it open.
#[cfg(target_os = "linux")]
#[test]
fn m6_somebody_opening_a_file_does_not_kill_ostler() {
    use std::os::unix::fs::OpenOptionsExt;

    let bench = Bench::on_one_device();
    let path = bench.old_temporary(1);
    let answer = bench.interrupt("lease.held", TEMPS, false, || {
        const O_NONBLOCK: i32 = 0o4000;
        let opened =
            std::fs::File::options().append(true).custom_flags(O_NONBLOCK).open(&path).unwrap_err();
        assert_eq!(opened.kind(), std::io::ErrorKind::WouldBlock);
    });
    let answer: Value = serde_json::from_str(&answer).expect("it was not killed");
    assert_eq!(answer["ok"], true, "{answer}");
}

/// Kills at random moments beside others who write. `cargo xtask endure --reaper N` does more of it.
fn besiege(seed: u64, elsewhere: Option<PathBuf>) {
    let ostler = PathBuf::from(env!("CARGO_BIN_EXE_ostler"));
    let seen = siege::lay(&Siege { ostler, kills: 10, seed, elsewhere });
    assert!(seen.lost.is_empty() && seen.problems.is_empty(), "{seen:#?}");
}

#[test]
fn kills_at_random_moments_lose_nothing_that_others_write() {
    besiege(7, None);
}

#[test]
fn kills_between_two_devices_lose_nothing_that_others_write() {
    let Some(elsewhere) = other_device() else { return skipped() };
    besiege(11, Some(elsewhere));
}
