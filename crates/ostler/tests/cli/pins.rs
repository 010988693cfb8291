//! Pins: what a person said is never to be collected is not, whatever else is said.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::Value;
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::agent::{paused, state};
use super::collect::{age, finished_terminal, items, sessions_of, worktree};
use super::daemon::Daemon;
use super::run::{Ran, claude_session, ostler, ran, run};

const ONE: &str = "11111111-1111-4111-8111-111111111111";
const TWO: &str = "22222222-2222-4222-8222-222222222222";

const TRANSCRIPTS: &str = "gc --include transcripts --older-than 0s --agent claude-code --json";

/// The refusals of a plan, by path.
fn refusals(result: &Value) -> Vec<(String, String)> {
    let items = result["items"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    items
        .filter(|item| item["action"] == "stays")
        .map(|item| (text(&item["path"]), text(&item["refused"]["refusal"])))
        .collect()
}

fn pinned(home: &TempHome) -> BTreeSet<String> {
    let listed = run(home, "pin --json").exits(0).result();
    let pins = listed["pins"].as_array().unwrap().iter();
    pins.map(|pin| pin["session"].as_str().unwrap().to_owned()).collect()
}

fn transcript(home: &TempHome, id: &str) -> PathBuf {
    let path = claude_session(home, id, "/w", &format!("hello {id}"));
    age(&path, 10);
    path
}

#[test]
fn a_pin_is_made_listed_and_taken_away() {
    let home = TempHome::new();
    let path = transcript(&home, ONE);
    assert_eq!(run(&home, "pin").exits(0).stdout, "nothing is pinned\n");
    let made = ran(ostler(&home).args(["pin", "1111", "--note", "the \u{1b}[31mschema", "--json"]));
    let made = made.exits(0).result();
    let pin = &made["pins"][0];
    assert_eq!((&pin["session"], &pin["agent"]), (&ONE.into(), &"claude-code".into()));
    assert_eq!((&pin["pinned"], &pin["changed"]), (&true.into(), &true.into()));
    assert_eq!(made["transport"], "local");
    let again = run(&home, "pin 1111 --json").exits(0).result();
    assert_eq!(again["pins"][0].get("changed"), None, "{again}");
    assert_eq!(again["pins"][0]["pinnedAt"], pin["pinnedAt"]);
    let listed = run(&home, "pin").exits(0).stdout;
    assert!(listed.contains(&format!("pinned claude-code:{ONE}")), "{listed}");
    assert!(listed.contains("schema") && !listed.contains('\u{1b}'), "{listed}");
    // A pin outlives what it is of, and can be taken away all the same.
    std::fs::remove_file(&path).unwrap();
    run(&home, "pin 1111").exits(3);
    let taken = run(&home, "pin --remove 1111").exits(0).stdout;
    assert!(taken.contains("not pinned any more"), "{taken}");
    run(&home, "pin --remove 1111").exits(3);
    assert!(pinned(&home).is_empty());
    transcript(&home, ONE);
    assert!(run(&home, "pin --remove 1111").exits(0).stdout.contains("was not pinned"));
    run(&home, "pin --remove").exits(2);
}

#[test]
fn several_are_pinned_together_or_none_is() {
    let home = TempHome::new();
    transcript(&home, ONE);
    transcript(&home, TWO);
    let missing = run(&home, "pin 1111 nobody 2222 --json").exits(3);
    assert!(missing.message().contains("nobody"), "{missing:?}");
    assert!(pinned(&home).is_empty());
    run(&home, &format!("pin 1111 claude-code:{TWO}")).exits(0);
    assert_eq!(pinned(&home), [ONE, TWO].map(str::to_owned).into());
}

#[test]
fn show_why_and_ls_say_that_it_is_pinned() {
    let home = TempHome::new();
    transcript(&home, ONE);
    transcript(&home, TWO);
    run(&home, "pin 1111 --note schema").exits(0);
    let all = run(&home, "ls -a --json").exits(0);
    assert_eq!(all.session(ONE)["pinned"], true);
    assert_eq!(all.session(TWO).get("pinned"), None);
    assert_eq!(run(&home, "show 1111 --json").result()["session"]["pinned"], true);
    let shown = run(&home, "show 1111").exits(0).stdout;
    assert!(shown.contains("pinned  just now: schema"), "{shown}");
    let why = run(&home, "why 1111 --json").exits(0).result();
    assert_eq!(why["collect"]["allowed"], false);
    assert!(why["collect"]["remedy"].as_str().unwrap().contains("pin --remove"), "{why}");
}

#[test]
fn a_pinned_terminal_stays_whatever_its_age_and_the_budget() {
    let home = TempHome::new();
    let id = finished_terminal(&home);
    run(&home, &format!("pin {id}")).exits(0);
    let directory = sessions_of(&home).join(&id);
    let other = finished_terminal(&home);
    for line in ["--older-than 0s", "--max-bytes 0", "--older-than 0s --max-bytes 0"] {
        let preview = run(&home, &format!("gc {line} --json")).exits(0).result();
        let stays = [(directory.to_str().unwrap().to_owned(), "pinned".to_owned())];
        assert_eq!(refusals(&preview), stays, "{line}: {preview}");
        let result = run(&home, &format!("gc {line} --yes --json")).exits(0).result();
        assert_eq!(items(&result, "trashed").len(), 1, "{line}: {result}");
        assert!(directory.exists() && !sessions_of(&home).join(&other).exists(), "{line}");
        run(&home, "undo").exits(0);
    }
    let text = run(&home, "gc --older-than 0s").exits(0).stdout;
    assert!(text.contains("is pinned"), "{text}");
    run(&home, &format!("pin --remove {id}")).exits(0);
    run(&home, "gc --older-than 0s --yes").exits(0);
    assert!(!directory.exists());
}

#[test]
fn a_pinned_transcript_stays_with_its_sub_agents_and_others_make_room() {
    let home = TempHome::new();
    let (one, two) = (transcript(&home, ONE), transcript(&home, TWO));
    age(&one, 20);
    let name = format!(".claude/projects/-w/{ONE}/subagents/agent-abc.jsonl");
    let line = format!(
        r#"{{"type":"user","isSidechain":true,"agentId":"abc","sessionId":"{ONE}","cwd":"/w","timestamp":"2026-11-15T10:00:00.000Z","message":{{"role":"user","content":"look"}}}}"#
    );
    let part = home.write(name, line + "\n");
    age(&part, 10);
    run(&home, "pin 1111").exits(0);
    let result = run(&home, &format!("{TRANSCRIPTS} --yes")).exits(0).result();
    assert_eq!(items(&result, "trashed"), [two.to_str().unwrap()], "{result}");
    let stays = refusals(&result);
    assert!(stays.iter().all(|(_, refusal)| refusal == "pinned"), "{stays:?}");
    assert_eq!(stays.len(), 2, "{stays:?}");
    assert!(one.exists() && part.exists());
    run(&home, "undo").exits(0);
    // The oldest is pinned: the budget takes the next one.
    let bytes = std::fs::metadata(&one).unwrap().len() + std::fs::metadata(&part).unwrap().len();
    let line = "gc --include transcripts --agent claude-code --yes --json --max-bytes";
    let result = run(&home, &format!("{line} {bytes}")).exits(0).result();
    assert_eq!(items(&result, "trashed"), [two.to_str().unwrap()], "{result}");
}

#[test]
fn copies_in_the_vault_and_worktrees_of_a_pinned_session_stay() {
    let home = TempHome::new();
    transcript(&home, ONE);
    transcript(&home, TWO);
    run(&home, &format!("{TRANSCRIPTS} --yes")).exits(0);
    run(&home, "undo").exits(0);
    run(&home, "pin 1111").exits(0);
    home.write(".config/ostler/config.toml", "[retention]\nvault_bytes = \"0B\"\n");
    let result = run(&home, "gc --agent ostler --yes --json").exits(0).result();
    assert_eq!(items(&result, "trashed").len(), 1, "{result}");
    assert_eq!(refusals(&result)[0].1, "pinned", "{result}");
    run(&home, &format!("vault cat {ONE}")).exits(0);
    assert_ne!(run(&home, &format!("vault cat {TWO}")).code, 0);
    let tree = worktree(&home);
    run(&home, "pin 3333").exits(0);
    let line = "gc --include worktrees --older-than 0s --agent claude-code --yes --json";
    let result = run(&home, line).exits(0).result();
    assert_eq!(refusals(&result), [(tree.to_str().unwrap().to_owned(), "pinned".to_owned())]);
    assert!(tree.exists());
}

#[test]
fn a_pin_made_between_plan_and_removal_keeps() {
    for with_daemon in [false, true] {
        let home = TempHome::new();
        let path = transcript(&home, ONE);
        let _daemon = with_daemon.then(|| Daemon::start(&home));
        let pauses = Pauses::new();
        pauses.arm("work.asked");
        let child = paused(&home, &pauses, &format!("{TRANSCRIPTS} --yes"));
        pauses.wait("work.asked");
        run(&home, "pin 1111").exits(0);
        pauses.release("work.asked");
        let output = child.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(refusals(&answer["result"])[0].1, "pinned", "{answer}");
        assert!(path.exists());
        assert!(!state(&home).join("trash").exists(), "nothing went");
    }
}

/// Nobody but the writer pins, so that the last look cannot be surprised by the product; a row that
/// is put into the store behind its back shows that there is one.
#[test]
fn the_last_look_sees_a_pin_that_the_plan_did_not() {
    let home = TempHome::new();
    let path = transcript(&home, ONE);
    run(&home, "pin 1111").exits(0);
    run(&home, "pin --remove 1111").exits(0);
    let pauses = Pauses::new();
    pauses.arm("gc.planned");
    let child = paused(&home, &pauses, &format!("{TRANSCRIPTS} --yes"));
    pauses.wait("gc.planned");
    let store = rusqlite::Connection::open(state(&home).join("ostler.db")).unwrap();
    store.execute("insert into pin values ('claude-code', ?1, 0, null)", [ONE]).unwrap();
    pauses.release("gc.planned");
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(refusals(&answer["result"])[0].1, "pinned", "{answer}");
    assert!(path.exists());
}

#[test]
fn where_pins_cannot_be_read_everything_may_be_pinned() {
    let home = TempHome::new();
    transcript(&home, ONE);
    run(&home, "pin 1111").exits(0);
    let database = state(&home).join("ostler.db");
    for name in ["ostler.db-wal", "ostler.db-shm"] {
        let _ = std::fs::remove_file(database.with_file_name(name));
    }
    std::fs::write(&database, "this is no database, and never was").unwrap();
    let plan = run(&home, TRANSCRIPTS).exits(12).result();
    assert_eq!((plan["count"].as_u64(), items(&plan, "wouldGo").len()), (Some(0), 0), "{plan}");
    assert_eq!(refusals(&plan)[0].1, "unreadable", "{plan}");
    let failed = run(&home, "pin --json").exits(8);
    assert!(failed.message().contains("ostler.db"), "{failed:?}");
}

/// Fifty sessions, of which the last is only thought of.
fn fifty(home: &TempHome) -> Vec<String> {
    let id = |number: usize| format!("{number:08x}-0000-4000-8000-000000000000");
    let ids: Vec<String> = (1..=50).map(id).collect();
    for id in &ids[..49] {
        claude_session(home, id, "/w", "hello");
    }
    ids
}

fn pin_in_background(home: &TempHome, id: &str) -> Child {
    let mut command = ostler(home);
    command.args(["pin", id, "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn outcome(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap_or(-1);
    Ran { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn all_at_once(home: &TempHome, transport: &str) {
    let ids = fifty(home);
    let children: Vec<Child> = ids.iter().map(|id| pin_in_background(home, id)).collect();
    for (id, child) in ids.iter().zip(children) {
        let ran = outcome(child);
        if *id == ids[49] {
            let ran = ran.exits(3);
            assert!(ran.message().contains(id.as_str()), "the failure names itself: {ran:?}");
        } else {
            assert_eq!(ran.exits(0).result()["transport"], transport);
        }
    }
    assert_eq!(pinned(home), ids[..49].iter().cloned().collect());
}

#[test]
fn row_67_fifty_patches_at_once_without_a_daemon() {
    all_at_once(&TempHome::new(), "local");
}

#[test]
fn row_67_fifty_patches_at_once_through_the_daemon() {
    let home = TempHome::new();
    let _daemon = Daemon::start(&home);
    all_at_once(&home, "daemon");
}

fn daemon_with(home: &TempHome, pauses: &Pauses) -> Daemon {
    let mut command = ostler(home);
    pauses.apply(&mut command);
    Daemon::with(command)
}

#[test]
fn row_67_nothing_is_lost_when_the_daemon_is_killed_among_fifty() {
    let home = TempHome::new();
    let pauses = Pauses::new();
    let daemon = daemon_with(&home, &pauses);
    let ids = fifty(&home);
    let mut said: Vec<(String, Ran)> = Vec::new();
    for id in &ids[..5] {
        said.push((id.clone(), outcome(pin_in_background(&home, id))));
    }
    pauses.arm("pin.noted");
    let children: Vec<Child> = ids[5..].iter().map(|id| pin_in_background(&home, id)).collect();
    pauses.wait("pin.noted");
    daemon.kill();
    said.extend(ids[5..].iter().cloned().zip(children.into_iter().map(outcome)));
    let pinned = pinned(&home);
    let mut unknown = 0;
    for (id, ran) in said {
        match ran.code {
            0 => assert!(pinned.contains(&id), "{id} was told to be pinned: {ran:?}"),
            3 => assert_eq!(id, ids[49]),
            14 => {
                assert!(ran.message().contains("may have been applied"), "{ran:?}");
                unknown += 1;
            }
            _ => panic!("{id}: {ran:?}"),
        }
    }
    assert!(unknown >= 1, "one was being answered");
}

#[test]
fn a_daemon_that_dies_before_or_after_the_row_is_not_asked_again() {
    for (point, is_pinned) in [("pin.begun", false), ("pin.noted", true)] {
        let home = TempHome::new();
        transcript(&home, ONE);
        let pauses = Pauses::new();
        let daemon = daemon_with(&home, &pauses);
        pauses.arm(point);
        let child = pin_in_background(&home, ONE);
        pauses.wait(point);
        daemon.kill();
        assert_eq!(outcome(child).exits(14).error(), "MAY_HAVE_APPLIED");
        assert_eq!(pinned(&home).contains(ONE), is_pinned, "{point}");
        run(&home, "pin 1111").exits(0);
        assert!(pinned(&home).contains(ONE));
    }
}

#[test]
fn access_sessions_are_not_pinned() {
    let home = TempHome::new();
    let opened = run(&home, "access open --ttl 5m --generate --json").exits(0).result();
    let id = opened["id"].as_str().unwrap();
    let refused = run(&home, &format!("pin {id} --json")).exits(2);
    assert!(refused.message().contains("access session"), "{refused:?}");
    run(&home, &format!("access stop {id}")).exits(0);
}

#[test]
fn agent_tty_does_not_collect_what_is_pinned() {
    let home = TempHome::new();
    let id = finished_terminal(&home);
    run(&home, &format!("pin {id}")).exits(0);
    let gc = |line: &str| {
        let mut command = ostler(&home);
        command.args(["agent-tty", "gc", "--json"]).args(line.split_whitespace());
        ran(command.env("AGENT_TTY_HOME", state(&home))).exits(0).result()["homes"][0].clone()
    };
    for line in ["--dry-run", ""] {
        let row = gc(line);
        assert_eq!(row["skippedSessions"][0]["sessionId"], id.as_str(), "{line}: {row}");
        let reason = row["skippedSessions"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("is pinned"), "{line}: {row}");
    }
    assert!(sessions_of(&home).join(&id).exists());
    run(&home, &format!("pin --remove {id}")).exits(0);
    assert_eq!(gc("")["removedSessions"][0], id.as_str());
}
