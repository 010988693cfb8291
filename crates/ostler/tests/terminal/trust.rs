//! What is believed of a home that others can write to: nothing. The others are a second, real user.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::stage::{Name, Stage, is_alive, kill, read_json, until};

const NOBODY: u32 = 65534;

/// Only root can be two users.
fn is_root() -> bool {
    let root =
        fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !root {
        eprintln!("SKIPPED: needs two users");
    }
    root
}

/// Runs a shell line as the other user.
#[track_caller]
fn as_attacker(line: &str, input: &str) {
    let mut child = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
        .args(["/bin/sh", "-c", line])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{line}");
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A victim: a process and a file of hers, and the two files that would have both destroyed.
struct Victim {
    stage: Stage,
    program: u32,
    file: PathBuf,
    manifest: String,
    holder: String,
}

impl Victim {
    fn new(name: Name) -> Self {
        let stage = Stage::new(name);
        let (dead, alive) = (stage.create(&["/bin/cat"]), stage.create(&["/bin/cat"]));
        let host = stage.pid(&dead, "hostPid");
        kill(host, "-KILL");
        until("the end of the host", || !is_alive(host));
        let file = stage.home.join("precious");
        fs::write(&file, "mine").unwrap();
        let read = |id: &str| read_json(&stage.directory(id).join("host.json"));
        let holder = json!({
            "host": read(&dead)["host"],
            "child": read(&alive)["child"],
            "socket": file,
            "version": "0",
        });
        let mut manifest: Value = stage.manifest(&dead);
        manifest["sessionId"] = "EVIL".into();
        let program = stage.pid(&alive, "childPid");
        let (manifest, holder) = (manifest.to_string(), holder.to_string());
        Self { stage, program, file, manifest, holder }
    }

    /// Lets the other user lay the trap in `home`.
    fn trap(&self, home: &Path) {
        let directory = home.join("sessions/EVIL");
        let line = format!(
            "umask 022; mkdir -p {0} && chmod 777 {0} && cat >{0}/session.json",
            directory.display()
        );
        as_attacker(&line, &self.manifest);
        as_attacker(&format!("umask 077; cat >{}/host.json", directory.display()), &self.holder);
    }

    /// Runs every command that looks or sends with that home, and expects no harm from any.
    fn survives(&self, home: &Path) {
        let commands: [&[&str]; 12] = [
            &["list"],
            &["list", "--all", "--json"],
            &["ls"],
            &["ls", "-a"],
            &["show", "EVIL"],
            &["inspect", "EVIL"],
            &["type", "EVIL", "x"],
            &["run", "EVIL", "true"],
            &["wait", "EVIL", "--exit", "--timeout", "100"],
            &["snapshot", "EVIL"],
            &["destroy", "EVIL"],
            &["destroy", "--force", "EVIL"],
        ];
        for args in commands {
            let mut command = self.stage.command();
            command.env("OSTLER_HOME", home).env("AGENT_TTY_HOME", home).args(args);
            let ran = super::stage::ran(&mut command);
            assert!(is_alive(self.program), "{args:?} killed: {ran:?}");
            assert_eq!(fs::read(&self.file).unwrap(), b"mine", "{args:?}");
            let manifest = home.join("sessions/EVIL/session.json");
            assert_eq!(fs::read_to_string(manifest).unwrap(), self.manifest, "{args:?}");
        }
    }
}

#[test]
fn h4_a_home_that_others_write_to_kills_and_deletes_nothing() {
    if !is_root() {
        return;
    }
    for name in [Name::AgentTty, Name::Ostler] {
        let victim = Victim::new(name);
        chmod(victim.stage.home.path(), 0o755);
        // Made by the victim, open to others; and made by the other user.
        let shared = victim.stage.home.join("shared");
        fs::create_dir(&shared).unwrap();
        chmod(&shared, 0o777);
        victim.trap(&shared);
        victim.survives(&shared);
        victim.trap(&shared.join("theirs"));
        victim.survives(&shared.join("theirs"));
    }
}

#[test]
fn h4_a_session_that_somebody_else_put_into_our_home_is_not_believed() {
    if !is_root() {
        return;
    }
    let victim = Victim::new(Name::AgentTty);
    chmod(victim.stage.home.path(), 0o755);
    let sessions = victim.stage.root.join("sessions");
    chmod(&victim.stage.root, 0o755);
    chmod(&sessions, 0o777);
    victim.trap(&victim.stage.root);
    chmod(&sessions, 0o755);
    victim.survives(&victim.stage.root);
    // Given to us, but open: it may have been written by anybody.
    chown(sessions.join("EVIL"), Some(0), Some(0)).unwrap();
    victim.survives(&victim.stage.root);
    let ran = victim.stage.run(&["inspect", "EVIL"]);
    assert!(ran.stderr.contains("chmod go-w"), "{ran:?}");
    // The directory is ours, the file that says whom to kill is not.
    chmod(&sessions.join("EVIL"), 0o755);
    chown(sessions.join("EVIL/session.json"), Some(0), Some(0)).unwrap();
    let listed = victim.stage.ok(&["list", "--all"]);
    assert!(listed.to_string().contains("EVIL"), "the manifest is ours: {listed}");
    victim.stage.run(&["destroy", "--force", "EVIL"]);
    assert!(is_alive(victim.program));
    assert_eq!(fs::read(&victim.file).unwrap(), b"mine");
}

#[test]
fn h4_the_usual_home_is_not_used_when_somebody_else_made_it() {
    if !is_root() {
        return;
    }
    let victim = Victim::new(Name::AgentTty);
    let home = victim.stage.home.path();
    chmod(home, 0o777);
    victim.trap(&home.join(".agent-tty"));
    for args in [&["list"][..], &["create"], &["inspect", "EVIL"], &["destroy", "--force", "EVIL"]]
    {
        let mut command = victim.stage.command();
        command.env_remove("AGENT_TTY_HOME").args(args);
        let ran = super::stage::ran(&mut command);
        assert_eq!(ran.code, 8, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("belongs to user 65534"), "{args:?}: {ran:?}");
        assert!(is_alive(victim.program));
    }
    assert_eq!(
        fs::metadata(home.join(".agent-tty"))
            .map(|m| std::os::unix::fs::MetadataExt::uid(&m))
            .unwrap(),
        NOBODY
    );
    assert_eq!(fs::read_dir(home.join(".agent-tty/sessions")).unwrap().count(), 1, "nothing made");
}

#[test]
fn h4_a_path_in_a_file_is_never_removed() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.create(&["/bin/cat"]);
    let host = stage.pid(&id, "hostPid");
    kill(host, "-KILL");
    until("the end of the host", || !is_alive(host));
    let precious = stage.home.join("precious");
    fs::write(&precious, "mine").unwrap();
    let path = stage.directory(&id).join("host.json");
    let mut holder = read_json(&path);
    let real = PathBuf::from(holder["socket"].as_str().unwrap());
    holder["socket"] = precious.to_str().unwrap().into();
    fs::write(&path, holder.to_string()).unwrap();
    // Nothing but a socket is taken for one.
    fs::remove_file(&real).unwrap();
    fs::write(&real, "not a socket").unwrap();
    stage.ok(&["destroy", &id]);
    assert_eq!(fs::read(&precious).unwrap(), b"mine");
    assert_eq!(fs::read(&real).unwrap(), b"not a socket");
    assert_eq!(stage.manifest(&id)["status"], "destroyed");
}

#[test]
fn h4_a_look_writes_nothing_and_signals_nobody() {
    for name in [Name::AgentTty, Name::Ostler] {
        let stage = Stage::new(name);
        // It survives the loss of its terminal, as the trap's victim does.
        let id = stage.script("trap '' HUP; echo READY; while :; do sleep 1; done");
        stage.ok(&["wait", &id, "--text", "READY"]);
        let (host, child) = (stage.pid(&id, "hostPid"), stage.pid(&id, "childPid"));
        kill(host, "-KILL");
        until("the end of the host", || !is_alive(host));
        let manifest = stage.directory(&id).join("session.json");
        let before = fs::read(&manifest).unwrap();
        let looks: &[&[&str]] = match name {
            Name::AgentTty => {
                &[&["list"], &["inspect", &id], &["snapshot", &id], &["type", &id, "x"]]
            }
            Name::Ostler => {
                &[&["ls", "-a"], &["show", &id], &["inspect", &id], &["type", &id, "x"]]
            }
        };
        for args in looks {
            stage.run(args);
            assert_eq!(fs::read(&manifest).unwrap(), before, "{args:?}");
            assert!(is_alive(child), "{args:?}");
        }
        let shown = stage.ok(&["inspect", &id]);
        assert_eq!(shown["session"]["status"], "failed");
        stage.ok(&["destroy", &id]);
        until("the program's end", || !is_alive(child));
    }
}

#[test]
fn l8_a_pipe_in_a_session_directory_hangs_nobody() {
    let stage = Stage::new(Name::Ostler);
    for file in [
        "session.json",
        "host.json",
        "events.jsonl",
        "keyframe",
        "chain.jsonl",
        "artifacts/manifest.json",
    ] {
        let id = stage.script("echo hello");
        stage.ok(&["wait", &id, "--exit"]);
        stage.run(&["snapshot", &id]);
        until("the host's leaving", || stage.directory(&id).join("keyframe").exists());
        let path = stage.directory(&id).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        for args in [
            &["ls", "-a"][..],
            &["show", &id],
            &["snapshot", &id],
            &["inspect", &id],
            &["verify", &id],
            &["logs", &id],
            &["screenshot", &id],
            &["record", "export", &id, "--format", "asciicast"],
            &["destroy", &id],
        ] {
            let begun = Instant::now();
            let mut child = stage
                .command()
                .args(args)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            while child.try_wait().unwrap().is_none() {
                if begun.elapsed() > Duration::from_secs(10) {
                    let _ = child.kill();
                    panic!("{args:?} hangs on a pipe called {file}");
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        fs::remove_file(&path).unwrap();
    }
}
