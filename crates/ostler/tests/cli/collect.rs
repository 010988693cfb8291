//! The reaper: what goes, what stays, what comes back, and what a kill at any point leaves.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use testkit::home::{Snapshot, TempHome};
use testkit::pause::Pauses;
use testkit::siege::other_device;

use super::agent::{paused, state};
use super::run::{claude_session, ostler, ran, run};

/// A terminal that is over: made, ended, and its host gone.
pub(crate) fn finished_terminal(home: &TempHome) -> String {
    let created = run(home, "create --json -- /bin/true").exits(0).result();
    let id = created["sessionId"].as_str().unwrap().to_owned();
    run(home, &format!("wait {id} --exit --json")).exits(0);
    // Its host writes a little more after it has said so.
    let begun = std::time::Instant::now();
    while !run(home, "gc --older-than 0s --json").stdout.contains(&id) {
        assert!(begun.elapsed() < Duration::from_secs(30), "the host of {id} does not leave");
    }
    id
}

/// An agent's temporary file, ten days old.
fn old_temporary(home: &TempHome, name: &str) -> PathBuf {
    let store = home.join(".openclaw/agents/main/sessions/sessions.json");
    if !store.exists() {
        home.write(".openclaw/agents/main/sessions/sessions.json", "{}");
    }
    let path = home.write(format!(".openclaw/agents/main/sessions/{name}"), b"left over");
    age(&path, 10);
    path
}

pub(crate) fn age(path: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 86_400);
    std::fs::File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
}

pub(crate) fn temporary_name(number: u32) -> String {
    format!("sessions.json.{number}00.7b0c5b0e-0000-4000-8000-00000000000{number}.tmp")
}

const TEMPS: &str = "gc --include temps --agent openclaw";

pub(crate) fn items(result: &Value, action: &str) -> Vec<String> {
    let items = result["items"].as_array().unwrap().iter();
    items
        .filter(|item| item["action"] == action)
        .map(|item| item["path"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn sessions_of(home: &TempHome) -> PathBuf {
    state(home).join("sessions")
}

#[test]
fn a_preview_changes_nothing_and_says_what_why_and_how_much() {
    let home = TempHome::new();
    let id = finished_terminal(&home);
    let before = Snapshot::of(home.path());
    let plan = run(&home, "gc --older-than 0s --json").exits(0).result();
    assert_eq!(before.changes(&Snapshot::of(home.path())), Vec::<String>::new());
    let item = &plan["items"][0];
    assert_eq!((&item["action"], &item["kind"]), (&"wouldGo".into(), &"hostedSession".into()));
    assert_eq!(item["session"], id.as_str());
    assert!(item["bytes"].as_u64().unwrap() > 0 && item["why"].as_str().unwrap().contains("over"));
    assert!(!item["evidence"].as_array().unwrap().is_empty());
    assert_eq!(plan["applied"], false);
    let text = run(&home, "gc --older-than 0s").exits(0).stdout;
    assert!(text.contains("would go") && text.contains("gc --yes"), "{text}");
    assert!(run(&home, "gc").exits(0).stdout.contains("nothing to collect"), "it is too young");
}

#[test]
fn where_nothing_went_there_is_nothing_to_undo() {
    let home = TempHome::new();
    let refused = run(&home, "undo").exits(3).stderr;
    assert!(refused.contains("there is nothing to undo") && refused.contains("ostler trash ls"));
    let unknown = run(&home, "undo 01NOSUCH").exits(3).stderr;
    assert!(unknown.contains("there is no receipt `01NOSUCH`"), "{unknown}");
}

#[test]
fn what_was_collected_comes_back_as_it_was() {
    let home = TempHome::new();
    let id = finished_terminal(&home);
    let directory = sessions_of(&home).join(&id);
    std::fs::set_permissions(directory.join("events.jsonl"), PermissionsExt::from_mode(0o640))
        .unwrap();
    std::os::unix::fs::symlink("/nowhere", directory.join("a-link")).unwrap();
    let before = Snapshot::of(&directory);
    let preview = run(&home, "gc --older-than 0s --json").exits(0).result();
    let gone = run(&home, "gc --older-than 0s --yes --json").exits(0).result();
    assert_eq!(gone["plan"], preview["plan"], "what was shown is what was done");
    assert_eq!(items(&gone, "trashed"), items(&preview, "wouldGo"));
    assert_eq!((&gone["replanned"], &gone["transport"]), (&false.into(), &"local".into()));
    assert!(!directory.exists());
    run(&home, &format!("show {id}")).exits(3);
    run(&home, "trash verify").exits(0);
    let again = run(&home, "gc --older-than 0s --yes --json").exits(0).result();
    assert_eq!(again["count"], 0, "a second time there is nothing left to do");
    let receipt = gone["receipt"].as_str().unwrap();
    let undone = run(&home, &format!("undo {} --json", &receipt[..8])).exits(0).result();
    assert_eq!(undone["items"][0]["path"], directory.to_str().unwrap());
    assert_eq!(before.changes(&Snapshot::of(&directory)), Vec::<String>::new());
    run(&home, &format!("show {id}")).exits(0);
    assert!(run(&home, &format!("undo {receipt}")).exits(0).stdout.contains("nothing"));
    let none = run(&home, "undo --json").exits(3).envelope();
    assert_eq!(none["error"]["code"], "NOT_FOUND");
}

#[test]
fn what_is_alive_or_asked_to_be_kept_stays() {
    let home = TempHome::new();
    let over = finished_terminal(&home);
    let created = run(&home, "create --json -- /bin/cat").exits(0).result();
    let live = created["sessionId"].as_str().unwrap().to_owned();
    let all = run(&home, "gc --older-than 0s --max-bytes 0 --yes --json").exits(0).result();
    assert_eq!(items(&all, "trashed").len(), 1);
    assert!(!sessions_of(&home).join(&over).exists() && sessions_of(&home).join(&live).exists());
    run(&home, "undo").exits(0);
    let line = format!("gc --older-than 0s --keep {} --yes --json", &over[..6]);
    let kept = run(&home, &line).exits(0).result();
    assert_eq!(kept["items"][0]["refused"]["refusal"], "kept");
    assert!(sessions_of(&home).join(&over).exists());
    // By its name, by a path as it is typed, and by what is in it or above it.
    let created = run(&home, "create --name named --json -- /bin/true").exits(0).result();
    let named = sessions_of(&home).join(created["sessionId"].as_str().unwrap());
    run(&home, "wait named --exit").exits(0);
    let below = named.join("events.jsonl");
    let typed =
        named.strip_prefix(home.path()).unwrap().join("..").join(named.file_name().unwrap());
    for keep in ["named", typed.to_str().unwrap(), below.to_str().unwrap(), ".local"] {
        let line = format!("gc --older-than 0s --agent ostler --keep {keep} --keep {over} --yes");
        run(&home, &line).exits(0);
        assert!(named.exists(), "--keep {keep}");
    }
    let refused = run(&home, "gc --older-than 0s --keep nmaed --yes").exits(2);
    assert!(refused.stderr.contains("`--keep nmaed` names no path"), "{}", refused.stderr);
    assert!(named.exists(), "nothing goes when a name was mistyped");
    run(&home, &format!("destroy {live} --force")).exits(0);
}

#[test]
fn another_plan_than_the_one_consented_to_is_refused() {
    let home = TempHome::new();
    finished_terminal(&home);
    let plan = run(&home, "gc --older-than 0s --json").exits(0).result();
    let id = finished_terminal(&home);
    let line = format!("gc --older-than 0s --yes --plan {}", plan["plan"].as_str().unwrap());
    assert!(run(&home, &line).exits(13).stderr.contains("another one"));
    assert!(sessions_of(&home).join(id).exists());
}

#[test]
fn what_changes_between_plan_and_removal_stays() {
    let home = TempHome::new();
    let path = old_temporary(&home, &temporary_name(1));
    let pauses = Pauses::new();
    pauses.arm("reap.recheck");
    let child = paused(&home, &pauses, &format!("{TEMPS} --yes --json"));
    pauses.wait("reap.recheck");
    std::fs::write(&path, "somebody writes after all").unwrap();
    pauses.release("reap.recheck");
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let item = &answer["result"]["items"][0];
    assert_eq!(item["refused"]["refusal"], "changed", "{answer}");
    assert!(path.exists());
    assert!(!state(&home).join("trash").exists(), "nothing went, so there is no receipt");
}

#[test]
fn what_somebody_has_open_stays() {
    let home = TempHome::new();
    let path = old_temporary(&home, &temporary_name(1));
    let _open = std::fs::File::open(&path).unwrap();
    let result = run(&home, &format!("{TEMPS} --yes --json")).exits(0).result();
    assert_eq!(result["items"][0]["refused"]["refusal"], "busy", "{result}");
    assert!(path.exists());
}

#[test]
fn row_46_a_temporary_file_that_may_be_the_only_copy_stays() {
    let home = TempHome::new();
    let path = old_temporary(&home, &temporary_name(1));
    for broken in ["", "{\"agent:main:main\": {", "gone"] {
        match broken {
            "gone" => {
                std::fs::remove_file(home.join(".openclaw/agents/main/sessions/sessions.json"))
                    .unwrap();
            }
            text => drop(home.write(".openclaw/agents/main/sessions/sessions.json", text)),
        }
        let result = run(&home, &format!("{TEMPS} --yes --json"));
        let result: Value = serde_json::from_str::<Value>(&result.stdout).unwrap()["result"].take();
        assert_eq!(result["items"][0]["refused"]["refusal"], "onlyCopy", "{broken}: {result}");
        assert!(path.exists());
    }
}

#[test]
fn agents_own_files_go_only_on_request() {
    let home = TempHome::new();
    let path = old_temporary(&home, &temporary_name(1));
    let transcript = claude_session(&home, "11111111-1111-4111-8111-111111111111", "/w", "hello");
    age(&transcript, 10);
    let result = run(&home, "gc --older-than 0s --max-bytes 0 --yes --json").exits(0).result();
    assert_eq!(result["count"], 0, "{result}");
    assert!(path.exists() && transcript.exists());
    assert!(run(&home, "gc --include transcripts").exits(2).stderr.contains("--older-than 90d"));
}

#[test]
fn a_transcript_is_in_the_vault_before_it_goes() {
    let home = TempHome::new();
    let id = "11111111-1111-4111-8111-111111111111";
    let transcript = claude_session(&home, id, "/w", "hello there");
    age(&transcript, 1);
    let bytes = std::fs::read(&transcript).unwrap();
    let line = "gc --include transcripts --older-than 0s --agent claude-code --yes --json";
    let result = run(&home, line).exits(0).result();
    assert_eq!(items(&result, "trashed"), [transcript.to_str().unwrap()], "{result}");
    assert!(!transcript.exists());
    let copy = run(&home, &format!("vault cat {id}")).exits(0).stdout;
    assert_eq!(copy.as_bytes(), bytes);
    run(&home, "undo").exits(0);
    assert_eq!(std::fs::read(&transcript).unwrap(), bytes);
}

/// Kills a run at a point, and says whether everything is in its place or in the trash with a receipt.
pub(crate) fn kill_at(
    point: &str,
    home: &TempHome,
    line: &str,
    objects: &[PathBuf],
    before: &[Snapshot],
) {
    let pauses = Pauses::new();
    pauses.arm(point);
    let mut child = paused(home, &pauses, line);
    pauses.wait(point);
    child.kill().unwrap();
    child.wait().unwrap();
    let verified = run(home, "trash verify --json").exits(0).result();
    assert_eq!(verified["problems"].as_array().unwrap().len(), 0, "{point}: {verified}");
    // The next run finishes what was begun, and everything can be brought back.
    let next = run(home, line).exits(0).result();
    assert!(items(&next, "stays").is_empty(), "{point}: {next}");
    for object in objects {
        assert!(std::fs::symlink_metadata(object).is_err(), "{point}: {}", object.display());
    }
    let verified = run(home, "trash verify --json").exits(0).result();
    assert_eq!(verified["interrupted"], 0, "{point}: {verified}");
    assert_eq!(verified["problems"].as_array().unwrap().len(), 0, "{point}: {verified}");
    while run(home, "undo --json").code == 0 {}
    for (object, before) in objects.iter().zip(before) {
        let now = Snapshot::of(object);
        assert_eq!(before.changes(&now), Vec::<String>::new(), "{point}: {}", object.display());
        assert!(object.exists(), "{point}");
    }
}

#[test]
fn killed_at_any_point_everything_is_in_its_place_or_in_the_trash() {
    for point in [
        "gc.planned",
        "reap.recheck",
        "reap.opened",
        "reap.begun",
        "reap.moved",
        "reap.done",
        "reap.ended",
    ] {
        let home = TempHome::new();
        let objects: Vec<PathBuf> =
            (1..4).map(|number| old_temporary(&home, &temporary_name(number))).collect();
        let before: Vec<Snapshot> = objects.iter().map(|path| Snapshot::of(path)).collect();
        kill_at(point, &home, &format!("{TEMPS} --yes --json"), &objects, &before);
    }
}

#[test]
fn what_was_begun_is_finished_although_nothing_is_left_to_go() {
    for point in ["reap.begun", "reap.moved", "reap.done", "reap.ended"] {
        let home = TempHome::new();
        let objects = [old_temporary(&home, &temporary_name(1))];
        let before = [Snapshot::of(&objects[0])];
        kill_at(point, &home, &format!("{TEMPS} --yes --json"), &objects, &before);
    }
}

#[test]
fn killed_at_any_point_between_two_devices() {
    let elsewhere = match other_device() {
        Some(directory) => directory,
        None => return eprintln!("skipped: there is no second file system to write to"),
    };
    for point in [
        "reap.begun",
        "reap.setting-aside",
        "reap.aside",
        "reap.copying",
        "reap.copied",
        "reap.unlinked",
        "reap.moved",
        "reap.done",
    ] {
        let home = TempHome::new();
        let own = tempfile::tempdir_in(&elsewhere).unwrap();
        let set = format!("{}/state", own.path().display());
        let objects: Vec<PathBuf> =
            (1..3).map(|number| old_temporary(&home, &temporary_name(number))).collect();
        let before: Vec<Snapshot> = objects.iter().map(|path| Snapshot::of(path)).collect();
        cross_kill(point, &home, &set, &objects, &before);
    }
}

fn cross_kill(point: &str, home: &TempHome, set: &str, objects: &[PathBuf], before: &[Snapshot]) {
    let line = format!("{TEMPS} --yes --json");
    let run = |line: &str| ran(ostler(home).env("OSTLER_HOME", set).args(line.split(' ')));
    let pauses = Pauses::new();
    pauses.arm(point);
    let mut command = ostler(home);
    command.env("OSTLER_HOME", set).args(line.split(' '));
    command.stdout(std::process::Stdio::piped());
    let mut child = pauses.apply(&mut command).spawn().unwrap();
    pauses.wait(point);
    child.kill().unwrap();
    child.wait().unwrap();
    let verified = run("trash verify --json").exits(0).result();
    assert_eq!(verified["problems"].as_array().unwrap().len(), 0, "{point}: {verified}");
    // What was set aside is put back by the next run, and was not in what that run was told to take.
    run(&line).exits(0);
    run(&line).exits(0);
    assert!(objects.iter().all(|object| !object.exists()), "{point}");
    run("trash verify --json").exits(0);
    while run("undo --json").code == 0 {}
    for (object, before) in objects.iter().zip(before) {
        assert_eq!(before.changes(&Snapshot::of(object)), Vec::<String>::new(), "{point}");
    }
}

#[test]
fn an_undo_that_was_killed_is_completed_by_the_next() {
    let home = TempHome::new();
    let objects: Vec<PathBuf> =
        (1..4).map(|number| old_temporary(&home, &temporary_name(number))).collect();
    run(&home, &format!("{TEMPS} --yes")).exits(0);
    let pauses = Pauses::new();
    pauses.arm("undo.put-back");
    let mut child = paused(&home, &pauses, "undo");
    pauses.wait("undo.put-back");
    child.kill().unwrap();
    child.wait().unwrap();
    run(&home, "trash verify").exits(0);
    // Whoever settles it first knows that one has come back, whatever becomes of that.
    run(&home, "trash empty --yes").exits(0);
    let back: Vec<&PathBuf> = objects.iter().filter(|object| object.exists()).collect();
    assert_eq!(back.len(), 1);
    std::fs::rename(back[0], home.join("moved on")).unwrap();
    run(&home, "trash verify").exits(0);
    std::fs::rename(home.join("moved on"), back[0]).unwrap();
    run(&home, "undo").exits(0);
    assert!(objects.iter().all(|object| object.exists()));
    run(&home, "trash verify").exits(0);
}

#[test]
fn a_name_that_was_taken_meanwhile_is_left_alone() {
    let home = TempHome::new();
    let path = old_temporary(&home, &temporary_name(1));
    run(&home, &format!("{TEMPS} --yes")).exits(0);
    std::fs::write(&path, "new").unwrap();
    let undone = run(&home, "undo --json").exits(13).result();
    assert_eq!(undone["items"][0]["refused"]["refusal"], "nameTaken", "{undone}");
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    std::fs::remove_file(&path).unwrap();
    run(&home, "undo").exits(0);
    assert_eq!(std::fs::read(&path).unwrap(), b"left over");
}

#[test]
fn the_trash_is_emptied_only_when_told_and_says_so_afterwards() {
    let home = TempHome::new();
    old_temporary(&home, &temporary_name(1));
    let receipt = run(&home, &format!("{TEMPS} --yes --json")).exits(0).result()["receipt"].clone();
    let listed = run(&home, "trash ls --json").exits(0).result();
    assert_eq!(listed["receipts"][0]["receipt"], receipt);
    assert_eq!(listed["receipts"][0]["items"][0]["state"], "done");
    assert!(run(&home, "trash empty").exits(0).stdout.contains("nothing"), "too young");
    let preview = run(&home, "trash empty --older-than 0s --json").exits(0).result();
    assert_eq!(
        (&preview["applied"], preview["receipts"].as_array().unwrap().len()),
        (&false.into(), 1)
    );
    run(&home, "trash verify").exits(0);
    let emptied = run(&home, "trash empty --older-than 0s --yes --json").exits(0).result();
    assert_eq!((&emptied["applied"], &emptied["bytes"]), (&true.into(), &9.into()));
    let line = format!("undo {} --json", receipt.as_str().unwrap());
    let undone = run(&home, &line).exits(13).result();
    assert_eq!(undone["items"][0]["refused"]["refusal"], "emptied");
    run(&home, "trash verify").exits(0);
}

#[test]
fn without_room_for_the_journal_nothing_moves() {
    let mount = TempHome::new();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k,mode=700", "ostler-test"])
        .arg(mount.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: a small file system cannot be mounted here");
    }
    struct Unmount(PathBuf);
    impl Drop for Unmount {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let _unmount = Unmount(mount.path().to_owned());
    let home = TempHome::new();
    let path = old_temporary(&home, &temporary_name(1));
    std::fs::write(&path, vec![7; 400 << 10]).unwrap();
    age(&path, 10);
    let set = mount.join("state");
    let run = |line: &str| ran(ostler(&home).env("OSTLER_HOME", &set).args(line.split(' ')));
    // The copy does not fit: the file stays, and no part of the copy is left.
    let result = run(&format!("{TEMPS} --yes --json")).exits(0).result();
    assert_eq!(result["items"][0]["refused"]["refusal"], "noSpace", "{result}");
    assert_eq!(std::fs::read(&path).unwrap().len(), 400 << 10);
    run("trash verify").exits(0);
    // Not even the journal fits.
    let ballast = mount.join("ballast");
    let fill = Command::new("dd")
        .args(["if=/dev/zero", "bs=1k", &format!("of={}", ballast.display())])
        .output()
        .unwrap();
    assert!(!fill.status.success(), "the disk is full");
    let failed = run(&format!("{TEMPS} --yes --json"));
    assert!(failed.code == 8 || failed.result()["count"] == 0, "{failed:?}");
    assert!(path.exists());
    std::fs::remove_file(&ballast).unwrap();
    run("trash verify").exits(0);
}

#[test]
fn with_no_descriptor_left_nothing_is_lost() {
    let home = TempHome::new();
    let path = old_temporary(&home, &temporary_name(1));
    for limit in 6..24 {
        let line = format!("ulimit -n {limit}; exec \"$0\" {TEMPS} --yes --json");
        let command = ostler(&home);
        let program = command.get_program();
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).arg(program).env_clear();
        for (name, value) in command.get_envs() {
            shell.env(name, value.unwrap());
        }
        shell.current_dir(home.path()).output().unwrap();
        let verified = run(&home, "trash verify --json").exits(0).result();
        assert_eq!(verified["problems"].as_array().unwrap().len(), 0, "{limit}: {verified}");
        while !path.exists() {
            run(&home, "undo").exits(0);
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"left over");
        age(&path, 10);
    }
}

#[test]
fn what_lies_where_nothing_can_be_written_stays() {
    let home = TempHome::new();
    let path = old_temporary(&home, &temporary_name(1));
    let directory = path.parent().unwrap();
    let bound = Command::new("mount").arg("--bind").arg(directory).arg(directory).status();
    if !bound.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: nothing can be mounted here");
    }
    let read_only = Command::new("mount").args(["-o", "remount,ro,bind"]).arg(directory).status();
    let result = run(&home, &format!("{TEMPS} --yes --json"));
    let _ = Command::new("umount").arg("-l").arg(directory).status();
    assert!(read_only.unwrap().success());
    let refusal = &result.exits(0).result()["items"][0]["refused"]["refusal"];
    assert!(["readOnly", "busy"].contains(&refusal.as_str().unwrap()), "{refusal}");
    assert!(path.exists());
}

#[test]
fn every_refusal_has_a_reason_and_a_remedy() {
    let lines: Vec<String> = model::plan::Refusal::one_of_each()
        .iter()
        .map(|refusal| format!("{}\n    {}\n", refusal.reason_text(), refusal.remedy()))
        .collect();
    insta::assert_snapshot!("refusals", lines.concat());
}

#[test]
fn a_dead_socket_of_ours_goes_and_a_live_one_stays() {
    let home = TempHome::new();
    let directory = home.join("run/ostler/0123abcd");
    std::fs::create_dir_all(&directory).unwrap();
    for place in [home.join("run"), home.join("run/ostler"), directory.clone()] {
        std::fs::set_permissions(place, PermissionsExt::from_mode(0o700)).unwrap();
    }
    let [dead, live, fresh] = ["dead", "live", "fresh"].map(|name| directory.join(name));
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    drop(std::os::unix::net::UnixListener::bind(&fresh).unwrap());
    let _listener = std::os::unix::net::UnixListener::bind(&live).unwrap();
    // Another home's daemon is in the same directory, and may have bound its socket without listening yet.
    for old in [&dead, &live] {
        assert!(Command::new("touch").args(["-d", "-1 hour"]).arg(old).status().unwrap().success());
    }
    let result = run(&home, "gc --yes --json").exits(0).result();
    assert_eq!(items(&result, "discarded"), [dead.to_str().unwrap()], "{result}");
    assert!(!dead.exists() && live.exists() && fresh.exists());
    run(&home, "trash verify").exits(0);
}

#[test]
fn the_vault_is_kept_within_its_budget() {
    let home = TempHome::new();
    let ids = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];
    for id in ids {
        age(&claude_session(&home, id, "/w", &format!("hello {id}")), 1);
        let line = "gc --include transcripts --older-than 0s --agent claude-code --yes";
        run(&home, line).exits(0);
    }
    home.write(".config/ostler/config.toml", "[retention]\nvault_bytes = \"450B\"\n");
    let result = run(&home, "gc --agent ostler --yes --json").exits(0).result();
    assert_eq!(items(&result, "trashed").len(), 1, "{result}");
    run(&home, &format!("vault cat {}", ids[1])).exits(0);
    assert_ne!(run(&home, &format!("vault cat {}", ids[0])).code, 0);
    run(&home, "undo").exits(0);
    run(&home, &format!("vault cat {}", ids[0])).exits(0);
}

#[test]
fn retention_is_strict_and_checked() {
    let home = TempHome::new();
    assert!(run(&home, "config check").exits(0).stdout.contains("defaults hold"));
    let write = |text: &str| home.write(".config/ostler/config.toml", text);
    write("[retention]\nterminals = \"3d\"\nvault_bytes = \"20GB\"\n");
    assert!(run(&home, "config check").exits(0).stdout.contains("is valid"));
    let shown = run(&home, "config show").exits(0).stdout;
    assert!(shown.contains("retention.terminals = \"3d\""), "{shown}");
    assert!(shown.contains("retention.vault_bytes = 20000000000"), "{shown}");
    write("[retention]\nterminal = \"3d\"\n");
    assert!(run(&home, "config check").exits(2).stderr.contains("line 2"));
    write("[retention]\nterminals = \"soon\"\n");
    let wrong = run(&home, "config check").exits(2).stderr;
    assert!(wrong.contains("retention.terminals") && wrong.contains("30d"), "{wrong}");
    write("[retention]\nvault_bytes = \"much\"\n");
    assert!(run(&home, "config check").exits(2).stderr.contains("20GB"));
}

/// A repository with a remote, and a linked worktree whose branch is merged and pushed.
pub(crate) fn worktree(home: &TempHome) -> PathBuf {
    let script = "set -e; exec >/dev/null 2>&1
        export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q --bare -b main remote.git
        git clone -q remote.git repo && cd repo
        git checkout -q -b main
        echo one > file && git add file && git commit -qm one && git push -q origin main
        git remote set-head origin main
        git worktree add -q -b topic ../tree";
    let made = Command::new("sh").args(["-c", script]).current_dir(home.path()).status();
    assert!(made.unwrap().success());
    let tree = home.join("tree");
    let transcript =
        claude_session(home, "33333333-3333-4333-8333-333333333333", tree.to_str().unwrap(), "hi");
    age(&transcript, 30);
    age_below(&tree, 30);
    tree
}

/// Makes everything in a tree as old as that.
pub(crate) fn age_below(directory: &Path, days: u64) {
    let date = format!("{days} days ago");
    let touch = ["-exec", "touch", "-h", "-d", &date, "{}", "+"];
    let aged = Command::new("find").arg(directory).args(touch).status();
    assert!(aged.unwrap().success());
}

pub(crate) fn git(tree: &Path, line: &str) {
    let done = Command::new("git")
        .args(line.split(' '))
        .current_dir(tree)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b")])
        .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@b")])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn a_worktree_goes_only_if_nothing_in_it_could_be_lost() {
    let home = TempHome::new();
    let tree = worktree(&home);
    let line = "gc --include worktrees --older-than 0s --agent claude-code --json";
    let refusal = || {
        let result = run(&home, line).exits(0).result();
        let items = result["items"].as_array().unwrap().clone();
        assert_eq!(items.len(), 1, "{result}");
        items[0]["refused"]["refusal"].as_str().unwrap_or("none").to_owned()
    };
    assert_eq!(refusal(), "none");
    home.write("tree/new", "untracked");
    assert_eq!(refusal(), "dirty");
    git(&tree, "add new");
    git(&tree, "commit -qm two");
    assert_eq!(refusal(), "unpushed");
    git(&tree, "push -q origin topic");
    assert_eq!(refusal(), "unmerged");
    git(&tree, "push -q origin topic:main");
    age_below(&tree, 1);
    assert_eq!(refusal(), "none");
    git(&tree, "worktree lock .");
    assert_eq!(refusal(), "locked");
    git(&tree, "worktree unlock .");
    let mut inside = Command::new("sleep").arg("60").current_dir(&tree).spawn().unwrap();
    assert_eq!(refusal(), "workedIn");
    inside.kill().unwrap();
    inside.wait().unwrap();
    git(&tree, "checkout -q --detach");
    home.write("tree/lost", "on no branch");
    git(&tree, "add lost");
    git(&tree, "commit -qm three");
    assert_eq!(refusal(), "unpushed", "commits without a branch are commits");
    git(&tree, "checkout -q topic");
    age_below(&tree, 1);
    let before = Snapshot::of(&tree);
    run(&home, &format!("{line} --yes")).exits(0);
    assert!(!tree.exists());
    run(&home, "undo").exits(0);
    assert_eq!(before.changes(&Snapshot::of(&tree)), Vec::<String>::new());
    git(&tree, "status");
}
