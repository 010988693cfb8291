//! What a hand does on the dashboard that something else comes in between of: another typist, a plan, a filter.

use testkit::pause::Pauses;

use super::stage::{Name, Stage, kill, until};
use super::top::{keys, seat, seat_of, select, shows, subject};

#[test]
fn row_11_who_loses_the_keyboard_is_told_and_types_into_nothing() {
    let stage = Stage::new(Name::Ostler);
    let typist = subject(&stage, "typist", &["/bin/cat"]);
    let seat = seat(&stage, (120, 40), "");
    select(&stage, &seat, "typist");
    shows(&stage, &seat, "80×24");
    keys(&stage, &seat, &["i"]);
    shows(&stage, &seat, "TYPING");
    stage.ok(&["type", &seat, "mine"]);
    stage.ok(&["wait", &typist, "--text", "mine"]);
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let other = subject(&stage, "other", &[ostler, "attach", "--take", &typist]);
    shows(
        &stage,
        &seat,
        "Somebody else types into typist now: what you typed last may not have arrived.",
    );
    assert!(!stage.screen(&seat).contains("TYPING"), "{}", stage.screen(&seat));
    // It is watched on, and can be had again when the other has left.
    stage.ok(&["type", &other, "theirs"]);
    shows(&stage, &seat, "minetheirs");
    keys(&stage, &other, &["Ctrl+]"]);
    until("the other has left", || stage.ok(&["inspect", &typist])["viewers"] == 1);
    // Keys that follow at once are taken for the rest of what was typed into the terminal.
    stage.ok(&["wait", &seat, "--idle-ms", "500"]);
    keys(&stage, &seat, &["i"]);
    shows(&stage, &seat, "TYPING");
    stage.ok(&["type", &seat, "again"]);
    stage.ok(&["wait", &typist, "--text", "again"]);
}

#[test]
fn row_14_a_y_that_was_meant_for_something_else_cleans_up_nothing() {
    let stage = Stage::new(Name::Ostler);
    let old = subject(&stage, "old", &["/bin/true"]);
    until("its end", || stage.manifest(&old)["status"] == "exited");
    let config = "[retention]\nterminals = \"0s\"\n";
    stage.home.write(".config/ostler/config.toml", config);
    let pauses = Pauses::new();
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let words = format!("OSTLER_PAUSE={} {ostler} top", pauses.path().display());
    let seat = seat_of(&stage, (120, 40), &words);
    shows(&stage, &seat, "? help");
    // The plan is there and not on the screen; whoever copies an id now has not seen it.
    pauses.arm("top.planned");
    keys(&stage, &seat, &["c"]);
    pauses.wait("top.planned");
    assert!(!stage.screen(&seat).contains("to the trash"));
    keys(&stage, &seat, &["y"]);
    pauses.release("top.planned");
    shows(&stage, &seat, "y does it · ");
    shows(&stage, &seat, "That was before you could read it.");
    assert!(stage.directory(&old).exists());
    keys(&stage, &seat, &["y"]);
    shows(&stage, &seat, "moved to the trash");
}

#[test]
fn row_11_typing_goes_on_in_its_terminal_when_the_row_leaves_the_list() {
    let stage = Stage::new(Name::Ostler);
    let typist = subject(&stage, "typist", &["/bin/cat"]);
    let other = subject(&stage, "other", &["/bin/cat"]);
    for id in [&typist, &other] {
        stage.ok(&["pin", id]);
    }
    let seat = seat(&stage, (120, 40), "");
    select(&stage, &seat, "is:pinned typist");
    shows(&stage, &seat, "80×24");
    keys(&stage, &seat, &["i"]);
    shows(&stage, &seat, "TYPING → typist");
    stage.ok(&["type", &seat, "one"]);
    stage.ok(&["wait", &typist, "--text", "one"]);
    stage.ok(&["pin", "--remove", &typist]);
    until("its row is gone", || !stage.screen(&seat).lines().any(|line| line.starts_with('▌')));
    stage.ok(&["wait", &seat, "--idle-ms", "500"]);
    stage.ok(&["type", &seat, "two"]);
    stage.ok(&["wait", &typist, "--text", "onetwo"]);
    shows(&stage, &seat, "TYPING → typist");
    keys(&stage, &seat, &["Ctrl+]"]);
    until("the list again", || !stage.screen(&seat).contains("TYPING"));
    assert!(!stage.screen(&other).contains('t'), "{}", stage.screen(&other));
}

#[test]
fn two_terminals_that_were_typed_into_and_left_both_get_all_of_it() {
    const BYTES: usize = 1_000_000;
    let stage = Stage::new(Name::Ostler);
    let eater = |name: &str| {
        let script = format!(
            "stty raw -echo; echo READY $((1+1)); while ! [ -e go ]; do sleep 0.05; done; \
             head -c {BYTES} >got-{name}; cat >rest-{name}"
        );
        subject(&stage, name, &["/bin/bash", "-c", &script]);
    };
    eater("first");
    eater("second");
    let seat = seat(&stage, (120, 40), "");
    let text: String = (0..BYTES / 10).map(|n| format!("{n:09} ")).collect();
    let file = stage.home.write("pasted", &text);
    for name in ["first", "second"] {
        select(&stage, &seat, name);
        shows(&stage, &seat, "READY 2");
        keys(&stage, &seat, &["i"]);
        shows(&stage, &seat, &format!("TYPING → {name}"));
        stage.ok(&["paste", &seat, "--file", file.to_str().unwrap()]);
        keys(&stage, &seat, &["Ctrl+]"]);
        until("the list again", || !stage.screen(&seat).contains("TYPING"));
        keys(&stage, &seat, &["Escape"]);
    }
    stage.home.write("go", "");
    for name in ["first", "second"] {
        let got = stage.home.join(format!("got-{name}"));
        until("all of it", || std::fs::metadata(&got).is_ok_and(|file| file.len() == BYTES as u64));
        assert!(std::fs::read_to_string(&got).unwrap() == text, "{name}: and in its order");
    }
}

/// A dashboard whose points a test can break.
fn breakable_seat(stage: &Stage, pauses: &Pauses) -> String {
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let words = format!("OSTLER_PAUSE={} {ostler} top", pauses.path().display());
    let seat = seat_of(stage, (160, 40), &words);
    shows(stage, &seat, "? help");
    seat
}

#[test]
fn row_19_a_thread_that_breaks_off_is_told_and_the_dashboard_goes_on() {
    let stage = Stage::new(Name::Ostler);
    subject(&stage, "builder", &["/bin/cat"]);
    let pauses = Pauses::new();
    let seat = breakable_seat(&stage, &pauses);
    select(&stage, &seat, "builder");
    shows(&stage, &seat, "80×24");
    let point = pauses.path().join("top.work");
    std::fs::write(&point, "panic").unwrap();
    keys(&stage, &seat, &["p"]);
    shows(&stage, &seat, "It broke off, and how far it came is not known");
    assert_eq!(stage.ok(&["snapshot", &seat])["isAltScreen"], true);
    std::fs::remove_file(&point).unwrap();
    keys(&stage, &seat, &["p"]);
    shows(&stage, &seat, "is pinned: never collected");
    assert!(stage.screen(&seat).starts_with(" ostler "), "{}", stage.screen(&seat));
}

#[test]
fn row_19_a_dashboard_that_is_told_nothing_any_more_says_why_and_ends() {
    for (how, why) in [("panic", "looking at sessions broke off"), ("error", "asked to break")] {
        let stage = Stage::new(Name::Ostler);
        let pauses = Pauses::new();
        let seat = breakable_seat(&stage, &pauses);
        std::fs::write(pauses.path().join("live.found"), how).unwrap();
        subject(&stage, "builder", &["/bin/cat"]);
        shows(&stage, &seat, "left with ");
        shows(&stage, &seat, why);
        let screen = stage.screen(&seat);
        assert!(screen.starts_with("BEFORE"), "{screen}");
        assert_eq!(stage.ok(&["snapshot", &seat])["isAltScreen"], false);
    }
}

#[test]
fn what_was_said_last_is_shown_last_however_long_a_reading_takes() {
    let stage = Stage::new(Name::Ostler);
    let id = "5b1e0c52-8a5e-4b8e-9a55-d0a3a0c3c001";
    let path = format!(".claude/projects/-a/{id}.jsonl");
    let line = |text: &str| {
        let line = serde_json::json!({
            "type": "user", "sessionId": id, "cwd": "/a", "timestamp": "2026-11-15T10:00:00.000Z",
            "message": { "role": "user", "content": text }
        });
        format!("{line}\n")
    };
    stage.home.write(&path, line("the first word"));
    let pauses = Pauses::new();
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let words = format!("OSTLER_PAUSE={} {ostler} top --all", pauses.path().display());
    let seat = seat_of(&stage, (120, 40), &words);
    select(&stage, &seat, "agent:claude");
    keys(&stage, &seat, &["Space"]);
    shows(&stage, &seat, "  the first word");
    pauses.arm("top.read");
    stage.home.append(&path, line("the second word"));
    pauses.wait("top.read");
    // Read once more while what was read before is still on its way.
    stage.home.append(&path, line("the third word"));
    stage.ok(&["wait", &seat, "--idle-ms", "1000"]);
    pauses.release("top.read");
    shows(&stage, &seat, "  the third word");
    stage.ok(&["wait", &seat, "--idle-ms", "500"]);
    shows(&stage, &seat, "  the third word");
}

/// A process of this test's own under a number that was another's; none where that cannot be had.
fn take_pid(pid: u32) -> Option<std::process::Child> {
    let begun = std::time::Instant::now();
    while begun.elapsed().as_secs() < 20 {
        // Only whoever has rights over the namespace may say which number is next.
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        if child.id() == pid {
            return Some(child);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    None
}

#[test]
fn row_14_a_stop_does_not_reach_who_has_the_number_now() {
    let stage = Stage::new(Name::Ostler);
    let build = subject(&stage, "build", &["/bin/sleep", "1000"]);
    let pid = stage.pid(&build, "childPid");
    let seat = seat(&stage, (120, 40), "");
    select(&stage, &seat, "build");
    keys(&stage, &seat, &["s"]);
    shows(&stage, &seat, &format!("pid {pid} sleep (started "));
    shows(&stage, &seat, "y does it");
    kill(pid, "-KILL");
    until("its end", || stage.manifest(&build)["status"] == "exited");
    let Some(mut other) = take_pid(pid) else {
        eprintln!("skipped: pid {pid} cannot be had again");
        return;
    };
    keys(&stage, &seat, &["y"]);
    shows(&stage, &seat, "was gone already: nothing was signalled");
    assert!(other.try_wait().unwrap().is_none(), "the other process goes on");
    other.kill().unwrap();
    other.wait().unwrap();
}
