//! The dashboard as people have it: the real binary, on terminals that are themselves hosted here.

use std::process::Command;
use std::time::Duration;

use super::stage::{Name, Stage, is_alive, kill, until};

/// A terminal on which somebody opens the dashboard.
pub(super) fn seat(stage: &Stage, size: (u16, u16), options: &str) -> String {
    let ostler = env!("CARGO_BIN_EXE_ostler");
    seat_of(stage, size, &format!("{ostler} top {options}"))
}

/// A terminal on which somebody opens the dashboard by these words of a shell.
pub(super) fn seat_of(stage: &Stage, size: (u16, u16), words: &str) -> String {
    let script = format!(
        "export LANG=C.UTF-8; echo BEFORE; stty -a >modes-before; {words}; echo \"left with $?\"; sleep 1000"
    );
    let (columns, rows) = (size.0.to_string(), size.1.to_string());
    let mut words = vec!["--json", "create", "--name", "seat", "--cols", &columns, "--rows", &rows];
    words.extend(["--", "/bin/bash", "-c", &script]);
    stage.run(&words).exits(0).result()["sessionId"].as_str().unwrap().to_owned()
}

/// A named terminal to look at.
pub(super) fn subject(stage: &Stage, name: &str, command: &[&str]) -> String {
    let words = [&["--json", "create", "--name", name, "--"], command].concat();
    stage.run(&words).exits(0).result()["sessionId"].as_str().unwrap().to_owned()
}

pub(super) fn keys(stage: &Stage, seat: &str, names: &[&str]) {
    stage.ok(&[&["send-keys", seat], names].concat());
}

/// Waits for a text; a failure prints the screen that was there instead.
pub(super) fn shows(stage: &Stage, seat: &str, text: &str) {
    let mut last = ScreenOnPanic(String::new());
    until(text, || {
        last.0 = stage.screen(seat);
        last.0.contains(text)
    });
}

struct ScreenOnPanic(String);

impl Drop for ScreenOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the screen:\n{}", self.0);
        }
    }
}

/// Selects a session by filtering for its name.
pub(super) fn select(stage: &Stage, seat: &str, name: &str) {
    // What is typed before the dashboard has the terminal is the shell's.
    until("the dashboard", || stage.screen(seat).starts_with(" ostler"));
    stage.ok(&["type", seat, &format!("/{name}")]);
    shows(stage, seat, &format!("/{name}"));
    keys(stage, seat, &["Enter"]);
}

/// The processes of the dashboard below a seat: the guard and its child.
pub(super) fn processes(stage: &Stage, seat: &str) -> (u32, u32) {
    let shell = stage.pid(seat, "childPid");
    let children = |pid: u32| -> Vec<u32> {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    };
    let mut found = None;
    until("the guard and its child", || {
        let guard = children(shell).first().copied();
        found = guard.and_then(|guard| Some((guard, *children(guard).first()?)));
        found.is_some()
    });
    found.unwrap()
}

/// The modes of the seat's terminal now are those of before. They are asked for, again and again: a
/// shell goes on as soon as the guard is gone, and the dashboard gives them back after that.
fn modes_are_as_before(stage: &Stage, seat: &str) {
    let before = std::fs::read_to_string(stage.home.join("modes-before")).unwrap();
    let shell = stage.pid(seat, "childPid");
    let terminal = std::fs::read_link(format!("/proc/{shell}/fd/0")).unwrap();
    until("the modes as before", || {
        let modes = Command::new("stty").arg("-a").arg("-F").arg(&terminal).output().unwrap();
        String::from_utf8_lossy(&modes.stdout) == before
    });
}

#[test]
fn row_10_attach_and_back_keeps_the_row_and_takes_the_new_size() {
    let stage = Stage::new(Name::Ostler);
    let shell = subject(&stage, "builder", &["/bin/cat"]);
    subject(&stage, "another", &["/bin/cat"]);
    let seat = seat(&stage, (120, 40), "");
    shows(&stage, &seat, "builder");
    select(&stage, &seat, "builder");
    keys(&stage, &seat, &["Enter"]);
    until("the viewer", || stage.ok(&["inspect", &shell])["viewers"] == 1);
    stage.ok(&["type", &seat, "typed there\n"]);
    stage.ok(&["wait", &shell, "--text", "typed there"]);
    stage.ok(&["resize", &seat, "--cols", "100", "--rows", "30"]);
    until("the size", || stage.manifest(&shell)["cols"] == 100);
    keys(&stage, &seat, &["Ctrl+]"]);
    until("the same row, in the new size", || {
        let screen = stage.screen(&seat);
        let row = screen.lines().find(|line| line.starts_with('▌')).unwrap_or("").to_owned();
        row.contains("builder") && screen.lines().count() == 30
    });
}

#[test]
fn row_19_the_terminal_is_given_back_whatever_ends_the_dashboard() {
    let ways = ["q", "TERM", "HUP", "QUIT", "INT", "KILL child", "ABRT child", "KILL guard"];
    for how in ways.into_iter().chain(["TERM guard", "error", "panic"]) {
        let stage = Stage::new(Name::Ostler);
        let pauses = testkit::pause::Pauses::new();
        let ostler = env!("CARGO_BIN_EXE_ostler");
        let words = format!("OSTLER_PAUSE={} {ostler} top", pauses.path().display());
        let seat = seat_of(&stage, (100, 30), &words);
        shows(&stage, &seat, "? help");
        let (guard, child) = processes(&stage, &seat);
        match how {
            "q" => keys(&stage, &seat, &["q"]),
            "KILL child" => kill(child, "-KILL"),
            "ABRT child" => kill(child, "-ABRT"),
            "KILL guard" => kill(guard, "-KILL"),
            "TERM guard" => kill(guard, "-TERM"),
            "error" | "panic" => {
                std::fs::write(pauses.path().join("top.turn"), how).unwrap();
                keys(&stage, &seat, &["j"]);
            }
            signal => kill(child, &format!("-{signal}")),
        }
        until("the end of both", || !is_alive(child) && !is_alive(guard));
        // A killed guard lets the shell go on before the dashboard has given the screen back.
        until("the screen of before", || stage.screen(&seat).starts_with("BEFORE"));
        modes_are_as_before(&stage, &seat);
        let state = stage.ok(&["snapshot", &seat]);
        assert_eq!(state["isAltScreen"], false, "{how}: {state}");
        let code = match how {
            "q" => "0",
            "TERM" | "TERM guard" => "143",
            "HUP" => "129",
            "QUIT" => "131",
            "INT" => "130",
            "ABRT child" => "134",
            "KILL child" => "137",
            // What the shell says before the screen is given back is on the screen that goes away.
            "KILL guard" => continue,
            _ => "",
        };
        shows(&stage, &seat, &format!("left with {code}"));
        let screen = stage.screen(&seat);
        if let "error" | "panic" = how {
            assert!(screen.contains(&format!("asked to {}", &how.replace("error", "break"))));
        }
    }
}

#[test]
fn row_19_a_terminal_that_is_gone_ends_both() {
    let stage = Stage::new(Name::Ostler);
    let seat = seat(&stage, (100, 30), "");
    shows(&stage, &seat, "? help");
    let (guard, child) = processes(&stage, &seat);
    // With its host the other end of the terminal is closed.
    kill(stage.pid(&seat, "hostPid"), "-KILL");
    until("the end of both", || !is_alive(child) && !is_alive(guard));
}

#[test]
fn row_20_suspended_resized_and_back() {
    let stage = Stage::new(Name::Ostler);
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let shell = stage.shell();
    stage.ok(&["type", &shell, &format!("export LANG=C.UTF-8; {ostler} top\n")]);
    shows(&stage, &shell, "? help");
    keys(&stage, &shell, &["Ctrl+z"]);
    shows(&stage, &shell, "Stopped");
    stage.ok(&["resize", &shell, "--cols", "70", "--rows", "20"]);
    stage.ok(&["type", &shell, "fg\n"]);
    until("the dashboard in its new size", || {
        let screen = stage.screen(&shell);
        screen.contains("? help") && screen.lines().all(|line| line.chars().count() <= 70)
    });
    keys(&stage, &shell, &["q"]);
    until("the shell again", || stage.screen(&shell).trim_end().ends_with('$'));
}

#[test]
fn row_21_a_daemon_may_come_and_go() {
    let stage = Stage::new(Name::Ostler);
    let seat = seat(&stage, (100, 30), "");
    shows(&stage, &seat, "? help");
    stage.ok(&["daemon", "start"]);
    subject(&stage, "with-daemon", &["/bin/cat"]);
    shows(&stage, &seat, "with-daemon");
    let pid = stage.ok(&["daemon", "status"])["pid"].as_u64().unwrap() as u32;
    kill(pid, "-KILL");
    subject(&stage, "without-daemon", &["/bin/cat"]);
    shows(&stage, &seat, "without-daemon");
    stage.ok(&["daemon", "start"]);
    subject(&stage, "again", &["/bin/cat"]);
    shows(&stage, &seat, "again");
    stage.ok(&["daemon", "stop"]);
}

#[test]
fn row_24_a_terminal_that_does_not_read_does_not_stop_events() {
    let stage = Stage::new(Name::Ostler);
    subject(&stage, "flood", &["/bin/bash", "-c", "while :; do echo $RANDOM flooding; done"]);
    let seat = seat(&stage, (200, 50), "");
    select(&stage, &seat, "flood");
    shows(&stage, &seat, "flooding");
    let (_, child) = processes(&stage, &seat);
    // The host reads the terminal of the seat; stopped, it is a connection that stalls.
    let host = stage.pid(&seat, "hostPid");
    kill(host, "-STOP");
    std::thread::sleep(Duration::from_millis(1500));
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
        stat[stat.rfind(')').unwrap() + 2..].chars().next().unwrap()
    };
    // Sleeping in its own wait, not in a write: a signal is answered at once.
    kill(child, "-TERM");
    until("its end while nobody reads", || !is_alive(child) || state() == 'Z');
    kill(host, "-CONT");
    shows(&stage, &seat, "left with");
    modes_are_as_before(&stage, &seat);
}

#[test]
fn row_26_accessible_mode_is_lines_and_words() {
    let stage = Stage::new(Name::Ostler);
    let cat = subject(&stage, "listener", &["/bin/cat"]);
    let seat = seat(&stage, (250, 40), "--accessible");
    shows(&stage, &seat, "listener (terminal) runs");
    shows(&stage, &seat, "next · list · why N");
    stage.ok(&["type", &seat, "next\n"]);
    shows(&stage, &seat, "Nobody needs you.");
    let screen = stage.screen(&seat);
    let line = screen.lines().find(|line| line.contains("listener (terminal)")).unwrap();
    let number = line.split(' ').next().unwrap().to_owned();
    stage.ok(&["type", &seat, &format!("why {number}\n")]);
    shows(&stage, &seat, "this process holds the session's terminal");
    stage.ok(&["type", &seat, "dance 1\n"]);
    shows(&stage, &seat, "dance is no command.");
    stage.ok(&["destroy", &cat]);
    shows(&stage, &seat, &format!("{number} listener ended"));
    stage.ok(&["type", &seat, "quit\n"]);
    shows(&stage, &seat, "left with 0");
    assert_eq!(stage.ok(&["snapshot", &seat])["isAltScreen"], false);
    // Everything that was ever said, in its order; what differs from run to run is one word, and where
    // evidence stands is left out: it has an age.
    let mut said = String::new();
    for line in stage.screen(&seat).lines().filter(|line| !line.starts_with("  ")) {
        let differs = |word: &str| {
            word.contains('/') || (word.len() > 2 && word.chars().any(|c| c.is_ascii_digit()))
        };
        let words = line.split(' ').map(|word| if differs(word) { "#" } else { word });
        said.push_str(words.collect::<Vec<&str>>().join(" ").trim_end());
        said.push('\n');
    }
    insta::assert_snapshot!("accessible_transcript", said);
}

#[test]
fn row_27_without_a_terminal_it_prints_one_look_and_ends() {
    let stage = Stage::new(Name::Ostler);
    subject(&stage, "builder", &["/bin/cat"]);
    for words in [&["top"][..], &["top", "--once"], &["dashboard"], &["d", "--once"]] {
        let ran = stage.run(words).exits(0);
        assert!(ran.stdout.starts_with("WORKING\n"), "{}", ran.stdout);
        assert!(ran.stdout.contains("builder"));
        assert!(!ran.stdout.contains('\u{1b}'));
    }
    let result = stage.ok(&["top"]);
    assert_eq!(result["groups"][0]["group"], "working");
    assert_eq!(result["groups"][0]["count"], 1);
    assert_eq!(result["groups"][0]["sessions"][0], result["sessions"][0]["id"]);
}

#[test]
fn row_15_and_16_clean_up_takes_what_it_showed_and_undo_brings_it_back() {
    let stage = Stage::new(Name::Ostler);
    let old = subject(&stage, "old", &["/bin/true"]);
    until("its end", || stage.manifest(&old)["status"] == "exited");
    let config = stage.home.join(".config/ostler/config.toml");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(&config, "[retention]\nterminals = \"0s\"\n").unwrap();
    let seat = seat(&stage, (120, 40), "");
    shows(&stage, &seat, "? help");
    keys(&stage, &seat, &["u"]);
    shows(&stage, &seat, "Nothing was cleaned up from here");
    keys(&stage, &seat, &["c"]);
    shows(&stage, &seat, "y moves them to the trash");
    // Between the plan and the `y` there is more to go: that was not consented to.
    let newer = subject(&stage, "newer", &["/bin/true"]);
    until("its end", || stage.manifest(&newer)["status"] == "exited");
    shows(&stage, &seat, "y does it");
    keys(&stage, &seat, &["y"]);
    shows(&stage, &seat, "Refused: the plan is another one now");
    assert!(stage.directory(&old).exists() && stage.directory(&newer).exists());
    keys(&stage, &seat, &["c"]);
    shows(&stage, &seat, "2 things");
    shows(&stage, &seat, "y does it");
    keys(&stage, &seat, &["y"]);
    shows(&stage, &seat, "moved to the trash");
    assert!(!stage.directory(&old).exists());
    // What somebody else cleans up meanwhile is theirs to bring back.
    let others = subject(&stage, "others", &["/bin/true"]);
    until("its end", || stage.manifest(&others)["status"] == "exited");
    stage.ok(&["gc", "--yes"]);
    assert!(!stage.directory(&others).exists());
    keys(&stage, &seat, &["u"]);
    shows(&stage, &seat, "is back (receipt ");
    assert!(stage.directory(&old).exists() && stage.directory(&newer).exists());
    assert!(!stage.directory(&others).exists());
    keys(&stage, &seat, &["u"]);
    shows(&stage, &seat, "Nothing was cleaned up from here");
}

#[test]
fn under_the_agent_tty_name_the_dashboard_has_its_terminals() {
    let stage = Stage::new(Name::AgentTty);
    let script = format!(
        "export LANG=C.UTF-8; {} dashboard; echo \"left with $?\"; sleep 1000",
        stage.home.join("bin/agent-tty").display()
    );
    let other = stage.create(&["/bin/cat"]);
    let seat = stage.create(&["/bin/bash", "-c", &script]);
    // Which of the two is selected depends on who wrote last.
    shows(&stage, &seat, "terminal cat");
    shows(&stage, &seat, "? help");
    keys(&stage, &seat, &["q"]);
    shows(&stage, &seat, "left with 0");
    stage.ok(&["inspect", &other]);
}
