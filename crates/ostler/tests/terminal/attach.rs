//! People who join: on real terminals, which are themselves hosted here.

use std::time::Duration;

use super::stage::{Name, Stage, is_alive, kill, ran, until};

/// A session in which somebody attaches to another one.
fn viewer(stage: &Stage, args: &str) -> String {
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let script = format!(
        "echo BEFORE; stty -a >modes-before; {ostler} attach {args}; echo \"left with $?\"; stty -a >modes-after; sleep 1000"
    );
    stage.create(&["/bin/bash", "-c", &script])
}

#[test]
fn a_viewer_sees_types_and_leaves_without_a_trace() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.shell();
    stage.ok(&["run", &id, "echo earlier"]);
    let seat = viewer(&stage, &id);
    stage.ok(&["wait", &seat, "--text", "earlier"]);
    stage.ok(&["type", &seat, "echo $((40+2))\n"]);
    stage.ok(&["wait", &seat, "--text", "42"]);
    stage.ok(&["wait", &id, "--text", "42"]);
    stage.ok(&["send-keys", &seat, "Ctrl+]"]);
    stage.ok(&["wait", &seat, "--text", "left with 0"]);
    until("the modes", || stage.home.join("modes-after").exists());
    let read = |name: &str| std::fs::read_to_string(stage.home.join(name)).unwrap();
    until("the modes", || read("modes-before") == read("modes-after"));
    assert_eq!(stage.ok(&["run", &id, "true"])["exitCode"], 0);
    until("the viewer's end", || stage.ok(&["inspect", &id])["viewers"] == 0);
}

#[test]
fn one_types_until_another_takes_over() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.create(&["/bin/cat"]);
    let one = viewer(&stage, &id);
    until("the first", || stage.ok(&["inspect", &id])["viewers"] == 1);
    let two = viewer(&stage, &id);
    until("the second", || stage.ok(&["inspect", &id])["viewers"] == 2);
    stage.ok(&["type", &two, "not heard\n"]);
    stage.ok(&["type", &one, "heard\n"]);
    stage.ok(&["wait", &two, "--text", "heard"]);
    assert!(!stage.screen(&id).contains("not heard"));
    let three = viewer(&stage, &format!("{id} --take"));
    until("the third", || stage.ok(&["inspect", &id])["viewers"] == 3);
    stage.ok(&["type", &three, "taken\n"]);
    stage.ok(&["wait", &one, "--text", "taken"]);
    stage.ok(&["type", &one, "no longer\n"]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!stage.screen(&id).contains("no longer"));
}

#[test]
fn the_terminal_takes_the_size_of_whoever_types() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.create(&["/bin/cat"]);
    let seat = viewer(&stage, &id);
    until("the viewer", || stage.ok(&["inspect", &id])["viewers"] == 1);
    stage.ok(&["resize", &seat, "--cols", "101", "--rows", "31"]);
    until("the size", || stage.manifest(&id)["cols"] == 101 && stage.manifest(&id)["rows"] == 31);
}

#[test]
fn the_end_of_a_session_ends_its_viewers() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.create(&["/bin/cat"]);
    let seat = viewer(&stage, &id);
    until("the viewer", || stage.ok(&["inspect", &id])["viewers"] == 1);
    stage.ok(&["destroy", &id]);
    stage.ok(&["wait", &seat, "--text", "is over: destroyed"]);
    let id = stage.create(&["/bin/cat"]);
    let seat = viewer(&stage, &id);
    until("the viewer", || stage.ok(&["inspect", &id])["viewers"] == 1);
    let host = stage.pid(&id, "hostPid");
    kill(host, "-KILL");
    stage.ok(&["wait", &seat, "--text", "left with 0"]);
    until("the end of the host", || !is_alive(host));
}

#[test]
fn a_viewer_that_never_reads_holds_up_nobody() {
    use std::io::{Read, Write};
    let stage = Stage::new(Name::Ostler);
    let id = stage.shell();
    let socket = stage.ok(&["inspect", &id])["host"]["rpcSocketPath"].as_str().unwrap().to_owned();
    let mut viewer = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    viewer.write_all(b"{\"id\":\"1\",\"method\":\"attach\",\"params\":{\"readOnly\":true},\"dialect\":\"ostler\"}\n").unwrap();
    until("the viewer", || stage.ok(&["inspect", &id])["viewers"] == 1);
    let run = stage.ok(&[
        "run",
        &id,
        "base64 -w 76 /dev/zero | head -c 20000000; echo LAST LINE",
        "--timeout",
        "60000",
    ]);
    assert_eq!(run["completed"], true);
    let host = stage.pid(&id, "hostPid");
    let status = std::fs::read_to_string(format!("/proc/{host}/status")).unwrap();
    let peak: u64 = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    assert!(peak < 64 << 10, "{peak} KiB");
    // When it reads again it is shown the screen as it is now.
    viewer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let (mut seen, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    while !String::from_utf8_lossy(&seen).contains("LAST LINE") {
        let count = viewer.read(&mut buffer).unwrap();
        assert!(count > 0, "it was dropped");
        seen.extend_from_slice(&buffer[..count]);
        assert!(seen.len() < 8 << 20);
    }
}

#[test]
fn a_hosts_log_tells_who_came_and_how_it_ended() {
    use std::io::Write;
    let stage = Stage::new(Name::Ostler);
    let mut command = stage.command();
    command.env("OSTLER_LOG", "debug").args(["--json", "create", "--", "/bin/cat"]);
    let id = ran(&mut command).exits(0).result()["sessionId"].as_str().unwrap().to_owned();
    let socket = stage.ok(&["inspect", &id])["host"]["rpcSocketPath"].as_str().unwrap().to_owned();
    let mut viewer = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    viewer.write_all(b"{\"id\":\"1\",\"method\":\"attach\",\"dialect\":\"ostler\"}\n").unwrap();
    until("the viewer", || stage.ok(&["inspect", &id])["viewers"] == 1);
    drop(viewer);
    until("its end", || stage.ok(&["inspect", &id])["viewers"] == 0);
    stage.ok(&["resize", &id, "--cols", "91", "--rows", "17"]);
    stage.ok(&["type", &id, "not for a log\n"]);
    let host = stage.pid(&id, "hostPid");
    stage.ok(&["destroy", &id]);
    until("the end of the host", || !is_alive(host));
    let log = stage.root.join("logs/host.log");
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&log.metadata().unwrap()) & 0o777, 0o600);
    let text = std::fs::read_to_string(log).unwrap();
    for said in [
        "begins role=\"host\"",
        "listening session=",
        "a viewer joined viewer=",
        "a viewer left viewer=",
        "resized cols=91 rows=17",
        "ending the program step=HangUp",
        "the program ended",
        "the session is over status=\"destroyed\"",
        "a keyframe is written",
        ": ends",
    ] {
        assert!(text.contains(said), "{said} is not in {text}");
    }
    assert!(!text.contains("not for a log"), "{text}");
}

/// Waits until both viewers show what the terminal shows.
#[track_caller]
fn all_show_the_same(stage: &Stage, id: &str, seats: &[&str], marker: &str) {
    stage.ok(&["type", id, &format!("{marker}\n")]);
    for seat in seats {
        let wait = ["wait", seat, "--text", marker, "--timeout", "10000"];
        let ran = stage.run(&wait);
        assert_eq!(ran.code, 0, "a viewer is frozen before {marker}: {}", stage.screen(seat));
    }
    for seat in seats {
        until("the same screen", || stage.screen(seat) == stage.screen(id));
    }
}

#[test]
fn b2_no_change_of_size_freezes_a_viewer() {
    let stage = Stage::new(Name::Ostler);
    for round in 0..4u16 {
        let id = stage.create(&["/bin/cat"]);
        let one = viewer(&stage, &id);
        until("the first", || stage.ok(&["inspect", &id])["viewers"] == 1);
        let two = viewer(&stage, &id);
        until("the second", || stage.ok(&["inspect", &id])["viewers"] == 2);
        let (cols, rows) = ((90 + round).to_string(), (20 + round % 3).to_string());
        // The one who types, the one who looks, and a command.
        stage.ok(&["resize", &one, "--cols", &cols, "--rows", &rows]);
        until("the size", || stage.manifest(&id)["cols"] == 90 + round);
        all_show_the_same(&stage, &id, &[&one], "FIRST");
        stage.ok(&["wait", &two, "--text", "FIRST", "--timeout", "10000"]);
        stage.ok(&["resize", &two, "--cols", &cols, "--rows", &rows]);
        all_show_the_same(&stage, &id, &[&one, &two], "SECOND");
        stage.ok(&["resize", &id, "--cols", "70", "--rows", "15"]);
        stage.ok(&["type", &id, "THIRD\n"]);
        stage.ok(&["wait", &one, "--text", "THIRD", "--timeout", "10000"]);
        stage.ok(&["wait", &two, "--text", "THIRD", "--timeout", "10000"]);
        let three = viewer(&stage, &format!("{id} --take"));
        until("the third", || stage.ok(&["inspect", &id])["viewers"] == 3);
        // What is typed before the viewer has its terminal is not the terminal's.
        stage.ok(&["wait", &three, "--text", "THIRD", "--timeout", "10000"]);
        stage.ok(&["type", &three, "FOURTH\n"]);
        for seat in [&one, &two, &three] {
            stage.ok(&["wait", seat, "--text", "FOURTH", "--timeout", "10000"]);
        }
        for seat in [&one, &two, &three, &id] {
            stage.ok(&["destroy", "--force", seat]);
        }
    }
}

#[test]
fn b2_who_has_the_keyboard_is_said_and_whoever_types_next_has_it() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.create(&["/bin/cat"]);
    let one = viewer(&stage, &id);
    until("the first", || stage.ok(&["inspect", &id])["viewers"] == 1);
    let two = viewer(&stage, &id);
    stage.ok(&["wait", &two, "--text", "--take to take the keyboard"]);
    // It is said for a moment, and again to whoever types in vain.
    stage.ok(&["wait", &two, "--gone", "--take to take the keyboard"]);
    stage.ok(&["type", &two, "not heard\n"]);
    stage.ok(&["wait", &two, "--text", "--take to take the keyboard"]);
    stage.ok(&["send-keys", &one, "Ctrl+]"]);
    stage.ok(&["wait", &two, "--text", "type to take the keyboard"]);
    stage.ok(&["type", &two, "heard now\n"]);
    stage.ok(&["wait", &id, "--text", "heard now"]);
    assert!(!stage.screen(&id).contains("not heard"));
    stage.ok(&["wait", &two, "--text", "the keyboard is yours"]);
}

#[test]
fn attach_needs_a_terminal() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.create(&["/bin/cat"]);
    let ran = stage.run(&["attach", &id]).exits(2);
    assert!(ran.stderr.contains("needs a terminal"), "{ran:?}");
}
