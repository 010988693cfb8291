//! The end of a terminal takes the whole tree of its program (K3, control row 60), and nothing else.

use std::process::{Child, Command};

use super::stage::{Name, Stage, is_alive, kill, until};

/// A process of somebody else's, beside the terminal.
struct Bystander(Child);

impl Bystander {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The pids that a script wrote, one per file.
fn pids(stage: &Stage, names: &[&str]) -> Vec<u32> {
    let read = |name: &str| {
        let text = std::fs::read_to_string(stage.home.join(name)).unwrap_or_default();
        text.trim().parse().ok()
    };
    until("the processes", || names.iter().all(|name| read(name).is_some()));
    names.iter().map(|name| read(name).unwrap()).collect()
}

/// One in a session of its own, one that also lost its parent, one that ignores everything it can.
const LEAVES: &str = "
setsid sh -c 'echo $$ >own; exec sleep 1000' &
(setsid sh -c 'echo $$ >orphan; exec sleep 1000' &)
(setsid sh -c 'trap \"\" HUP TERM INT; echo $$ >deaf; while :; do sleep 1000; done' &)
";

#[test]
fn row_60_destroy_takes_what_has_a_session_of_its_own_and_what_lost_its_parent() {
    for force in [false, true] {
        let stage = Stage::new(Name::Ostler);
        let mut bystander = Bystander::new();
        let id = stage.script(&format!("{LEAVES} echo all; exec sleep 1000"));
        let left = pids(&stage, &["own", "orphan", "deaf"]);
        let host = stage.pid(&id, "hostPid");
        assert!(left.iter().all(|pid| is_alive(*pid)));
        let args: &[&str] = if force { &["destroy", &id, "--force"] } else { &["destroy", &id] };
        stage.ok(args);
        for pid in left {
            assert!(!is_alive(pid), "{pid} is left, force: {force}");
        }
        until("the host's end", || !is_alive(host));
        assert!(bystander.lives());
        assert_eq!(stage.manifest(&id)["status"], "destroyed");
    }
}

#[test]
fn k3_what_forks_while_it_is_ended_is_ended() {
    let stage = Stage::new(Name::Ostler);
    let forks = "setsid sh -c 'trap \"\" HUP TERM; echo $$ >forker; \
                 while :; do (setsid sleep 1000 &) ; sleep 0.01; done' & sleep 1000";
    let id = stage.script(forks);
    let forker = pids(&stage, &["forker"])[0];
    let descends = || {
        let marker = format!("OSTLER_SESSION={id}\0");
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let of_session = |pid: &u32| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| memmem(&environ, marker.as_bytes()))
        };
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(of_session).filter(|pid| is_alive(*pid)).count()
    };
    until("several", || descends() > 5);
    stage.ok(&["destroy", &id]);
    assert!(!is_alive(forker));
    assert_eq!(descends(), 0);
}

fn memmem(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn k3_a_program_that_ends_by_itself_leaves_what_it_put_into_the_background() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.script(&format!(
        "{LEAVES} while ! [ -s own -a -s orphan -a -s deaf ]; do sleep 0.01; done"
    ));
    let left = pids(&stage, &["own", "orphan", "deaf"]);
    until("the end", || stage.manifest(&id)["status"] == "exited");
    let host = stage.pid(&id, "hostPid");
    until("the host's end", || !is_alive(host));
    for pid in left {
        assert!(is_alive(pid), "{pid} went on purpose");
        kill(pid, "-9");
    }
}

#[test]
fn k3_orphans_that_end_are_reaped_while_the_terminal_lives() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.script("for n in 1 2 3 4 5; do (setsid true &) ; done; echo made; sleep 1000");
    stage.ok(&["wait", &id, "--text", "made"]);
    let host = stage.pid(&id, "hostPid").to_string();
    let zombies = || {
        let listed = Command::new("ps").args(["--ppid", &host, "-o", "stat="]).output().unwrap();
        String::from_utf8(listed.stdout)
            .unwrap()
            .lines()
            .filter(|line| line.starts_with('Z'))
            .count()
    };
    until("no zombie", || zombies() == 0);
    // How the program itself ends is still known.
    let child = stage.pid(&id, "childPid");
    kill(child, "-9");
    until("the end", || stage.manifest(&id)["status"] == "exited");
    assert_eq!(stage.manifest(&id)["exitSignal"], "9");
}

#[test]
fn k3_another_terminal_that_was_made_inside_stays() {
    let stage = Stage::new(Name::Ostler);
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let id = stage.script(&format!(
        "{ostler} create --json -- sleep 1000 >inner.json; mv inner.json inner; sleep 1000"
    ));
    until("the inner one", || stage.home.join("inner").exists());
    let inner = super::stage::read_json(&stage.home.join("inner"));
    let inner = inner["result"]["sessionId"].as_str().unwrap().to_owned();
    let (host, child) = (stage.pid(&inner, "hostPid"), stage.pid(&inner, "childPid"));
    stage.ok(&["destroy", &id]);
    assert!(is_alive(host) && is_alive(child));
    stage.ok(&["destroy", &inner]);
    assert!(!is_alive(child));
}

#[test]
fn k3_after_a_host_was_killed_only_what_is_proven_is_signalled() {
    let stage = Stage::new(Name::Ostler);
    let mut bystander = Bystander::new();
    // The program outlives its host, and has one below it; the orphan's link to them is gone.
    let id = stage.script(
        "trap '' HUP TERM; (setsid sh -c 'echo $$ >orphan; exec sleep 1000' &)
         setsid sh -c 'echo $$ >own; exec sleep 1000' & echo $$ >program; while :; do sleep 1; done",
    );
    let pids = pids(&stage, &["orphan", "own", "program"]);
    let (orphan, own, program) = (pids[0], pids[1], pids[2]);
    let host = stage.pid(&id, "hostPid");
    kill(host, "-9");
    until("the host's end", || !is_alive(host));
    assert!(is_alive(program) && is_alive(own) && is_alive(orphan));
    stage.ok(&["destroy", &id]);
    until("the program's end", || !is_alive(program) && !is_alive(own));
    assert!(bystander.lives());
    assert!(is_alive(orphan), "nothing proves whose it is");
    kill(orphan, "-9");
}
