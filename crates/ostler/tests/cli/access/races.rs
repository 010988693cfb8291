//! Rows 45 to 47 and everything else that can change between a check and what follows from it. The
//! binary is stopped at a named point, somebody changes something, and it goes on. A tree beside the
//! sessions is the victim: nothing in it may ever change.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use testkit::access::{Agent, ID, Sessions, chmod, wait_until};
use testkit::home::Snapshot;
use testkit::pause::Pauses;

use super::super::run::Ran;
use super::{ostler, pruned, run};

const CHECKED: &str = "access-prune-checked";
const RENAMED: &str = "access-prune-renamed";
const RECHECKED: &str = "access-prune-rechecked";
const UNLINKED: &str = "reap.discarded-file";

/// A base session that may go, and a victim that may not be touched.
struct Scene {
    sessions: Sessions,
    pauses: Pauses,
    before: Snapshot,
}

impl Scene {
    fn new() -> Self {
        let sessions = Sessions::expired();
        for name in ["meta.json", "agent.env", "stop.json", "agent.sock", "precious"] {
            sessions.home.write(format!("victim/{name}"), name);
            chmod(&sessions.home.join(format!("victim/{name}")), 0o600);
        }
        chmod(&sessions.home.join("victim"), 0o700);
        let before = Snapshot::of(&sessions.home.join("victim"));
        Self { sessions, pauses: Pauses::new(), before }
    }

    fn victim(&self) -> PathBuf {
        self.sessions.home.join("victim")
    }

    /// Starts a command that stops at `point`, and waits until it has.
    fn stopped_at(&self, point: &str, line: &str) -> Child {
        self.pauses.arm(point);
        let mut command = ostler(&self.sessions);
        self.pauses.apply(&mut command);
        let child = command
            .arg("access")
            .args(line.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        self.pauses.wait(point);
        child
    }

    /// Stops `prune` at `point`, lets `change` happen, and lets it go on.
    fn prune_with(&self, point: &str, change: impl FnOnce(&Sessions)) -> Ran {
        let child = self.stopped_at(point, "prune");
        change(&self.sessions);
        self.pauses.release(point);
        self.outcome(child)
    }

    fn outcome(&self, child: Child) -> Ran {
        let output = child.wait_with_output().unwrap();
        let changes = self.before.changes(&Snapshot::of(&self.victim()));
        assert!(changes.is_empty(), "the victim was touched: {changes:#?}");
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The directory that a removal moved out of the way.
    fn aside(&self) -> PathBuf {
        let entries = fs::read_dir(self.sessions.directory()).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().path());
        names.find(|path| path.to_string_lossy().contains(".pruning-")).expect("it was renamed")
    }
}

#[test]
fn row_45_a_file_becomes_a_link_between_check_and_removal() {
    for name in ["agent.env", "meta.json"] {
        let scene = Scene::new();
        let victim = scene.victim().join(name);
        let ran = scene.prune_with(CHECKED, |sessions| {
            fs::remove_file(sessions.file(ID, name)).unwrap();
            symlink(&victim, sessions.file(ID, name)).unwrap();
        });
        assert!(ran.stdout.starts_with("SKIP_CHANGED s-alpha01"), "{ran:?}");
        assert!(scene.sessions.of(ID).exists(), "it has its name back");
    }
}

#[test]
fn row_46_an_agent_starts_between_check_and_rename() {
    let scene = Scene::new();
    let mut agent = None;
    let ran = scene.prune_with(CHECKED, |sessions| {
        agent = Some(Agent::start(&sessions.file(ID, "agent.sock")));
    });
    assert!(ran.stdout.starts_with("SKIP_AGENT_ALIVE s-alpha01"), "{ran:?}");
    assert!(scene.sessions.of(ID).exists(), "it has its name back");
    assert_eq!(agent.unwrap().answers(), Some(1), "and its borrower finds it there");
}

#[test]
fn row_47_a_crash_after_the_rename_is_finished_by_the_next_run() {
    let scene = Scene::new();
    let mut child = scene.stopped_at(RENAMED, "prune");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!scene.sessions.of(ID).exists() && scene.aside().join("meta.json").exists());
    let listed = run(&scene.sessions, "list").exits(0).stdout;
    assert!(listed.contains(".pruning-s-alpha01-"), "it is not lost from sight: {listed}");
    pruned(&scene.sessions, "PRUNED s-alpha01 expired");
}

#[test]
fn row_47_a_crash_after_any_unlink_is_finished_by_the_next_run() {
    for unlinked in 1..=4 {
        let scene = Scene::new();
        scene.sessions.ends_in(ID, 300);
        scene.sessions.mark_stopped(ID);
        let socket = scene.sessions.file(ID, "agent.sock");
        drop(UnixListener::bind(&socket).unwrap());
        chmod(&socket, 0o600);
        let mut child = scene.stopped_at(UNLINKED, "prune");
        for _ in 1..unlinked {
            scene.pauses.arm(UNLINKED);
            scene.pauses.release(UNLINKED);
            scene.pauses.wait(UNLINKED);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let left = fs::read_dir(scene.aside()).unwrap().count();
        assert_eq!(left, 4 - unlinked);
        pruned(&scene.sessions, "PRUNED s-alpha01 stopped");
    }
}

#[test]
fn row_47_an_agent_on_a_leftover_keeps_it_and_gets_its_path_back() {
    let scene = Scene::new();
    let mut child = scene.stopped_at(RENAMED, "prune");
    child.kill().unwrap();
    child.wait().unwrap();
    let agent = Agent::start(&scene.aside().join("agent.sock"));
    let ran = run(&scene.sessions, "prune").exits(0);
    assert!(ran.stdout.starts_with("SKIP_AGENT_ALIVE s-alpha01"), "{ran:?}");
    let found = std::os::unix::net::UnixStream::connect(scene.sessions.file(ID, "agent.sock"));
    assert!(found.is_ok(), "{found:?}");
    drop(agent);
}

#[test]
fn the_directory_is_exchanged_before_the_rename() {
    let scene = Scene::new();
    let victim = scene.victim();
    let ran = scene.prune_with(CHECKED, |sessions| {
        fs::rename(sessions.of(ID), sessions.home.join("moved")).unwrap();
        symlink(&victim, sessions.of(ID)).unwrap();
    });
    assert!(ran.stdout.starts_with("SKIP_CHANGED s-alpha01"), "{ran:?}");
    assert!(scene.sessions.home.join("moved/meta.json").exists());
    let link = fs::read_link(scene.sessions.of(ID)).unwrap();
    assert_eq!(link, scene.victim(), "what was found there has its name back");
}

#[test]
fn the_directory_is_exchanged_for_another_before_the_rename() {
    let scene = Scene::new();
    let ran = scene.prune_with(CHECKED, |sessions| {
        fs::rename(sessions.of(ID), sessions.home.join("moved")).unwrap();
        fs::create_dir(sessions.of(ID)).unwrap();
        chmod(&sessions.of(ID), 0o700);
        for name in ["meta.json", "agent.env"] {
            fs::copy(sessions.home.join("moved").join(name), sessions.file(ID, name)).unwrap();
        }
    });
    assert!(ran.stdout.starts_with("SKIP_CHANGED s-alpha01"), "{ran:?}");
    assert!(scene.sessions.file(ID, "meta.json").exists());
    assert!(scene.sessions.home.join("moved/meta.json").exists());
}

#[test]
fn the_renamed_directory_is_exchanged() {
    for point in [RENAMED, RECHECKED] {
        let scene = Scene::new();
        let victim = scene.victim();
        let child = scene.stopped_at(point, "prune");
        let aside = scene.aside();
        fs::rename(&aside, scene.sessions.home.join("moved")).unwrap();
        symlink(&victim, &aside).unwrap();
        scene.pauses.release(point);
        let ran = scene.outcome(child);
        assert!(ran.stdout.starts_with("SKIP_CHANGED s-alpha01"), "{point}: {ran:?}");
    }
}

#[test]
fn a_file_is_exchanged_after_the_last_look() {
    for name in ["agent.env", "meta.json", "agent.sock"] {
        let scene = Scene::new();
        let socket = scene.sessions.file(ID, "agent.sock");
        drop(UnixListener::bind(&socket).unwrap());
        chmod(&socket, 0o600);
        let child = scene.stopped_at(RECHECKED, "prune");
        let file = scene.aside().join(name);
        fs::remove_file(&file).unwrap();
        symlink(scene.victim().join(name), &file).unwrap();
        scene.pauses.release(RECHECKED);
        let ran = scene.outcome(child);
        assert!(ran.stdout.starts_with("SKIP_CHANGED s-alpha01"), "{name}: {ran:?}");
        assert!(file.symlink_metadata().is_ok(), "what was put there stays");
    }
}

#[test]
fn a_file_appears_after_the_check() {
    for point in [CHECKED, RENAMED, RECHECKED] {
        let scene = Scene::new();
        let child = scene.stopped_at(point, "prune");
        let directory = if point == CHECKED { scene.sessions.of(ID) } else { scene.aside() };
        fs::write(directory.join("precious"), "theirs").unwrap();
        scene.pauses.release(point);
        let ran = scene.outcome(child);
        assert!(!ran.stdout.contains("PRUNED"), "{point}: {ran:?}");
        let kept = [scene.sessions.file(ID, "precious")];
        let left = kept.iter().find(|path| path.exists()).cloned();
        let left = left.unwrap_or_else(|| scene.aside().join("precious"));
        assert_eq!(fs::read(left).unwrap(), b"theirs", "{point}");
    }
}

#[test]
fn stop_writes_into_the_directory_it_checked() {
    let scene = Scene::new();
    let child = scene.stopped_at("access-stop-checked", "stop s-alpha01");
    fs::rename(scene.sessions.of(ID), scene.sessions.home.join("moved")).unwrap();
    symlink(scene.victim(), scene.sessions.of(ID)).unwrap();
    scene.pauses.release("access-stop-checked");
    scene.outcome(child).exits(0);
    assert!(scene.sessions.home.join("moved/stop.json").exists());
}

#[test]
fn an_opener_that_is_killed_leaves_no_agent() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.sessions.of(ID)).unwrap();
    let mut child = scene.stopped_at("access-open-before-meta", "open --generate --ttl 5m");
    let name =
        fs::read_dir(scene.sessions.directory()).unwrap().next().unwrap().unwrap().file_name();
    let id = name.to_str().unwrap();
    let env = fs::read_to_string(scene.sessions.file(id, "agent.env")).unwrap();
    let pid = env.split("SSH_AGENT_PID=").nth(1).unwrap().split(';').next().unwrap().to_owned();
    assert!(PathBuf::from(format!("/proc/{pid}")).exists());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the agent ends with its opener", || {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_err()
    });
    wait_until("what it made is gone", || !scene.sessions.of(id).exists());
    assert_eq!(run(&scene.sessions, "prune").exits(0).stdout, "0 pruned, 0 skipped\n");
}
