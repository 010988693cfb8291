//! Directories that are busy are read, those that are locked are rows.

use std::process::Command;

use serde_json::Value;
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::agent::{Agent, paused};
use super::daemon::Daemon;
use super::run::{ostler, ran, run};

const ID: &str = "11111111-1111-4111-8111-111111111111";

fn locks(home: &TempHome) -> Vec<Value> {
    run(home, "locks --json").exits(0).result()["locks"].as_array().unwrap().clone()
}

fn manual(home: &TempHome) -> Vec<Value> {
    locks(home).into_iter().filter(|one| one["kind"] == "manual").collect()
}

#[test]
fn row_74_a_worktree_is_busy_while_a_session_works_in_it_or_below() {
    let home = TempHome::new();
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    let busy = locks(&home);
    let path = std::fs::canonicalize(&agent.directory).unwrap();
    assert_eq!(busy[0]["kind"], "busy");
    assert_eq!(busy[0]["path"], path.to_str().unwrap());
    assert_eq!(busy[0]["sessions"][0], format!("claude-code:{ID}"));
    // Of a git worktree the root is busy, wherever below it the session works.
    let root = home.join("project/..");
    std::fs::create_dir_all(root.join(".git")).unwrap();
    assert_eq!(locks(&home)[0]["path"], std::fs::canonicalize(&root).unwrap().to_str().unwrap());
    agent.kill();
    run(&home, "finalize").exits(0);
    assert!(locks(&home).is_empty(), "nothing was stored");
}

#[test]
fn row_75_a_lock_follows_its_directory_ends_with_its_holder_or_time_and_is_stolen_with_an_event() {
    let home = TempHome::new();
    std::fs::create_dir_all(home.join("work")).unwrap();
    let mut holder = Command::new("sleep").arg("1000").spawn().unwrap();
    run(&home, &format!("lock work --by ada --holder {}", holder.id())).exits(0);
    let refused = run(&home, "lock work --by bob --json").exits(13);
    assert!(refused.message().contains("ada"), "{refused:?}");
    run(&home, "unlock work --by bob").exits(13);
    // Renamed: it is still locked, under its new name.
    std::fs::rename(home.join("work"), home.join("moved")).unwrap();
    assert_eq!(manual(&home)[0]["moved"], true);
    run(&home, "lock moved --by bob").exits(13);
    // Another directory under the old name is another directory.
    std::fs::create_dir_all(home.join("work")).unwrap();
    run(&home, "lock work --by bob").exits(0);
    run(&home, "unlock work --by bob").exits(0);
    let stolen = run(&home, "lock moved --by bob --steal --json").exits(0).result();
    assert_eq!(stolen["stolenFrom"], "ada");
    let events = run(&home, "events --json").exits(0).stdout;
    let kinds: Vec<String> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|event| event["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["lock.taken", "lock.taken", "lock.stolen"]);
    run(&home, "unlock moved --by bob").exits(0);
    run(&home, &format!("lock moved --by ada --holder {}", holder.id())).exits(0);
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(manual(&home)[0]["stale"], true, "its holder is dead");
    run(&home, "lock moved --by bob --ttl 0s").exits(0);
    assert!(manual(&home).is_empty(), "its time is over");
    // A directory that is gone is unlocked by the name it had.
    run(&home, "lock work --by ada").exits(0);
    std::fs::remove_dir(home.join("work")).unwrap();
    run(&home, "unlock work --by ada").exits(0);
    assert!(manual(&home).is_empty());
}

#[test]
fn two_who_lock_at_once_do_not_both_have_it() {
    let home = TempHome::new();
    let pauses = Pauses::new();
    std::fs::create_dir_all(home.join("work")).unwrap();
    pauses.arm("lock.begun");
    let first = paused(&home, &pauses, "lock work --by ada");
    pauses.wait("lock.begun");
    let second = std::thread::scope(|scope| {
        let second = scope.spawn(|| ran(ostler(&home).args(["lock", "work", "--by", "bob"])));
        std::thread::sleep(std::time::Duration::from_millis(200));
        pauses.release("lock.begun");
        second.join().unwrap()
    });
    assert!(first.wait_with_output().unwrap().status.success());
    second.exits(13);
    assert_eq!(manual(&home)[0]["by"], "ada");
}

#[test]
fn an_agent_locks_in_its_own_name_and_the_daemon_notes_it() {
    let home = TempHome::new();
    let _daemon = Daemon::start(&home);
    let agent = home.join("claude");
    std::fs::copy("/bin/bash", &agent).unwrap();
    let mut command = testkit::run::bare(&agent, &home);
    command.args(["-c", "\"$OSTLER\" lock \"$HOME\" --json; true"]);
    let locked = ran(command.env("OSTLER", env!("CARGO_BIN_EXE_ostler"))).exits(0).result();
    assert_eq!(locked["transport"], "daemon");
    let by = locked["locks"][0]["by"].as_str().unwrap();
    assert!(by.starts_with("claude-code:"), "{by}");
    assert_eq!(manual(&home)[0]["stale"], true, "it ended with the agent");
}
