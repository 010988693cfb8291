//! Fuses: fired by the daemon, at most once, and judged anew when they are due.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::agent::{Agent, state};
use super::daemon::Daemon;
use super::run::{ostler, ran, run};

const ID: &str = "11111111-1111-4111-8111-111111111111";

fn fuses(home: &TempHome) -> Vec<Value> {
    let ran = run(home, "fuse ls -a --json");
    assert!([0, 12].contains(&ran.code), "{ran:?}");
    ran.result()["fuses"].as_array().unwrap().clone()
}

/// The only fuse, once nothing more can come of it.
#[track_caller]
fn await_settled(home: &TempHome) -> Value {
    let until = Instant::now() + Duration::from_secs(40);
    loop {
        let all = fuses(home);
        assert_eq!(all.len(), 1);
        if all[0]["state"] != "armed" && all[0]["state"] != "firing" {
            return all[0].clone();
        }
        assert!(Instant::now() < until, "{all:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn events(home: &TempHome, kind: &str) -> Vec<Value> {
    let text = run(home, "events --json").exits(0).stdout;
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|event| event["kind"] == kind).collect()
}

/// A session that is alive, so that a fuse on it is not moot.
fn live_agent(home: &TempHome) -> Agent {
    let mut agent = Agent::start(home, ID);
    agent.begin();
    run(home, "finalize").exits(0);
    agent
}

#[test]
fn a_fuse_is_set_listed_put_off_and_taken_back() {
    let home = TempHome::new();
    let set = run(&home, "fuse set --dir . --after 1h --do event --json").exits(0);
    assert!(set.stderr.contains("nothing will fire"), "{set:?}");
    let id = set.result()["fuses"][0]["id"].as_str().unwrap().to_owned();
    let due = |home: &TempHome| fuses(home)[0]["dueAt"].as_str().unwrap().to_owned();
    let before = due(&home);
    run(&home, &format!("fuse extend {} --by 1h", &id[..20])).exits(0);
    assert!(due(&home) > before);
    run(&home, &format!("fuse cancel {id}")).exits(0);
    assert_eq!(fuses(&home)[0]["state"], "cancelled");
    run(&home, &format!("fuse cancel {id}")).exits(13);
    run(&home, "fuse cancel f-none").exits(3);
    assert!(events(&home, "fuse.fired").is_empty(), "nothing fired");
}

#[test]
fn row_80_exec_gets_its_words_as_given_and_its_output_is_bounded() {
    let home = TempHome::new();
    let _agent = live_agent(&home);
    let mut command = ostler(&home);
    let words = ["fuse", "set", ID, "--after", "0s", "--do", "exec", "--", "/bin/sh", "-c"];
    let script =
        r#"printf '%s|' "$@" "$PWD" "$SECRET_TOKEN" > "$HOME/argv"; head -c 200000000 /dev/zero"#;
    command.args(words).args([script, "sh", "a;b", "$(touch pwned)", "c d"]);
    ran(&mut command).exits(0);
    let mut daemon = ostler(&home);
    daemon.env("SECRET_TOKEN", "canary");
    let _daemon = Daemon::with(daemon);
    let fuse = await_settled(&home);
    assert_eq!(fuse["state"], "fired", "{fuse}");
    assert!(fuse["outcome"].as_str().unwrap().contains("cut"), "{fuse}");
    let argv = std::fs::read_to_string(home.join("argv")).unwrap();
    let project = home.join("project");
    assert_eq!(argv, format!("a;b|$(touch pwned)|c d|{}||", project.display()));
    assert!(!project.join("pwned").exists());
    let log = state(&home).join(format!("fuses/{}.log", fuse["id"].as_str().unwrap()));
    assert_eq!(std::fs::metadata(log).unwrap().len(), 1 << 20);
    assert_eq!(events(&home, "fuse.fired")[0]["detail"]["result"], "fired");
}

#[test]
fn row_78_a_fuse_on_what_is_gone_or_another_process_has_is_moot() {
    let home = TempHome::new();
    let mut agent = live_agent(&home);
    run(&home, &format!("fuse set {ID} --after 0s --do stop")).exits(0);
    agent.kill();
    // The same session, held by another process.
    let mut other = live_agent(&home);
    other.hook("UserPromptSubmit", json!({"prompt": "again"}));
    let _daemon = Daemon::start(&home);
    let fuse = await_settled(&home);
    assert_eq!(
        (&fuse["state"], fuse["outcome"].as_str()),
        (&json!("moot"), Some("another process holds it now"))
    );
    other.hook("Stop", json!({}));
}

#[test]
fn row_78_a_fuse_that_was_set_on_no_proven_process_stops_nobody_who_has_it_later() {
    let home = TempHome::new();
    live_agent(&home).kill();
    run(&home, &format!("fuse set {ID} --after 0s --do stop")).exits(0);
    let mut other = live_agent(&home);
    other.hook("UserPromptSubmit", json!({"prompt": "again"}));
    let _daemon = Daemon::start(&home);
    let fuse = await_settled(&home);
    assert_eq!(fuse["state"], "held-back", "{fuse}");
    let table = sys::proc::read_process_table();
    assert!(!table.has_ended(other.pid()), "nobody was signalled");
    other.hook("Stop", json!({}));
}

#[test]
fn row_78_a_fuse_on_what_cannot_be_looked_into_is_held_back() {
    let (home, repo) = super::live::lab();
    super::run::claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let agent = super::live::FakeAgent::start(&home, "claude", &repo);
    // It says that it runs on another machine.
    let mut record = agent.registration(ID, &repo);
    record["pidDomain"] = json!("linux:0123456789abcdef0123456789abcdef:4026531836");
    super::live::register(&home, &agent, &record);
    run(&home, &format!("fuse set {ID} --after 0s --do stop")).exits(0);
    let _daemon = Daemon::start(&home);
    let fuse = await_settled(&home);
    assert_eq!(fuse["state"], "held-back", "{fuse}");
    assert_eq!(events(&home, "fuse.fired")[0]["detail"]["result"], "held-back");
    let table = sys::proc::read_process_table();
    assert!(!table.has_ended(agent.pid()), "nobody was signalled");
}

#[test]
fn a_fuse_stops_a_session_with_its_tree() {
    let home = TempHome::new();
    let agent = live_agent(&home);
    let pid = agent.pid();
    let _daemon = Daemon::start(&home);
    run(&home, &format!("fuse set {ID} --after 0s --do stop")).exits(0);
    let fuse = await_settled(&home);
    assert_eq!(fuse["state"], "fired", "{fuse}");
    let table = sys::proc::read_process_table();
    assert!(table.has_ended(pid) || table.get(pid).is_none());
}

#[test]
fn row_79_killed_at_every_point_of_firing_it_fires_at_most_once_and_says_what_became_of_it() {
    for point in ["fuse.due", "fuse.journalled", "fuse.started"] {
        let home = TempHome::new();
        let _agent = live_agent(&home);
        let mut set = ostler(&home);
        let script = "echo x >> \"$HOME/fired\"";
        set.args(["fuse", "set", ID, "--after", "0s", "--late", "fire", "--do", "exec", "--"]);
        ran(set.args(["/bin/sh", "-c", script])).exits(0);
        let pauses = Pauses::new();
        pauses.arm(point);
        // It stops before it says that it is ready, or soon after.
        let mut command = ostler(&home);
        let mut daemon = pauses.apply(&mut command).args(["daemon", "run"]).spawn().unwrap();
        pauses.wait(point);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        let _again = Daemon::start(&home);
        let fuse = await_settled(&home);
        let fired = std::fs::read_to_string(home.join("fired")).unwrap_or_default();
        let state = fuse["state"].as_str().unwrap();
        match point {
            "fuse.due" => assert_eq!((state, fired.as_str()), ("fired", "x\n")),
            "fuse.journalled" => assert_eq!((state, fired.as_str()), ("unsettled", "")),
            // Its carrier and the new daemon race: either it was carried out, or it never will be.
            _ => match state {
                "fired" => assert_eq!(fired, "x\n"),
                state => assert_eq!((state, fired.as_str()), ("unsettled", "")),
            },
        }
        assert_eq!(events(&home, "fuse.fired").len(), 1, "{point}");
    }
}

#[test]
fn row_79_a_daemon_that_begins_while_a_carrier_gives_its_word_hears_it() {
    let home = TempHome::new();
    let _agent = live_agent(&home);
    let mut set = ostler(&home);
    set.args(["fuse", "set", ID, "--after", "0s", "--late", "fire", "--do", "exec", "--"]);
    ran(set.args(["/bin/sh", "-c", "echo x >> \"$HOME/fired\""])).exits(0);
    let pauses = Pauses::new();
    pauses.arm("fuse.acted");
    let mut command = ostler(&home);
    let mut daemon = pauses.apply(&mut command).args(["daemon", "run"]).spawn().unwrap();
    pauses.wait("fuse.acted");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    // It finds no daemon, and by the time it wants to write itself another one has the lock.
    pauses.arm("work.no-daemon");
    pauses.release("fuse.acted");
    pauses.wait("work.no-daemon");
    let _again = Daemon::start(&home);
    pauses.release("work.no-daemon");
    assert_eq!(await_settled(&home)["state"], "fired");
    assert_eq!(std::fs::read_to_string(home.join("fired")).unwrap(), "x\n");
}

#[test]
fn a_carrier_that_nobody_called_does_nothing() {
    let home = TempHome::new();
    run(&home, "fuse set --dir . --after 1h --do event").exits(0);
    let id = fuses(&home)[0]["id"].as_str().unwrap().to_owned();
    run(&home, &format!("fuse carry-out {id}")).exits(13);
    assert_eq!(fuses(&home)[0]["state"], "armed");
}

#[test]
fn a_daemon_with_fuses_armed_rests() {
    let home = TempHome::new();
    for _ in 0..20 {
        run(&home, "fuse set --dir . --after 1h --do event").exits(0);
    }
    let daemon = Daemon::start(&home);
    run(&home, "finalize").exits(0);
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.pid())).unwrap();
        let fields: Vec<u64> = stat
            .rsplit(") ")
            .next()
            .unwrap()
            .split(' ')
            .map(|word| word.parse().unwrap_or(0))
            .collect();
        fields[11] + fields[12]
    };
    let before = used();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(used(), before, "it used processor time");
}
