//! Row 51: a private key that was put everywhere comes out nowhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use testkit::access::{Sessions, make_key, reaped};

use super::super::run::ran;
use super::{ostler, run};

/// The lines of a private key that say something: each must stay unseen.
fn secret_lines(key: &str) -> Vec<String> {
    key.lines()
        .filter(|line| line.len() >= 16 && !line.starts_with('-'))
        .map(str::to_owned)
        .collect()
}

#[track_caller]
fn assert_unseen(secrets: &[String], text: &str, place: &str) {
    for secret in secrets {
        assert!(!text.contains(secret.as_str()), "{place} shows the key: {text}");
        // JSON may break a line in two.
        assert!(!text.contains(&secret[..secret.len().min(32)]), "{place} shows a part of the key");
    }
    assert!(!text.contains("PRIVATE KEY"), "{place}: {text}");
}

/// Every command, on every session that there is.
fn every_command(sessions: &Sessions, secrets: &[String]) {
    let mut lines: Vec<String> =
        ["list", "list --json", "list --probe", "prune --dry-run"].map(str::to_owned).to_vec();
    for entry in fs::read_dir(sessions.directory()).unwrap() {
        let id = entry.unwrap().file_name().to_string_lossy().into_owned();
        for line in ["show", "env", "log", "stop", "exec"] {
            let tail = if line == "exec" { " -- true" } else { "" };
            lines.push(format!("{line} {id}{tail}"));
            lines.push(format!("{line} {id} --json{tail}"));
        }
    }
    lines.extend(
        ["stop --all-expired --yes", "stop --orphaned", "prune --json", "prune"].map(str::to_owned),
    );
    for line in &lines {
        let ran = run(sessions, line);
        assert_unseen(secrets, &ran.stdout, line);
        assert_unseen(secrets, &ran.stderr, line);
    }
    for line in ["ls -a", "ls -a --json", "why -", "show - --json"] {
        let ran = ran(ostler(sessions).args(line.split(' ')));
        assert_unseen(secrets, &(ran.stdout + &ran.stderr), line);
    }
    for directory in ["log", "locks"] {
        let Ok(files) = fs::read_dir(sessions.root().join("access").join(directory)) else {
            continue;
        };
        for file in files {
            let path = file.unwrap().path();
            assert_unseen(
                secrets,
                &fs::read_to_string(&path).unwrap(),
                &path.display().to_string(),
            );
        }
    }
}

#[test]
fn row_51_a_planted_key_is_never_shown() {
    let sessions = Sessions::new();
    let key = fs::read_to_string(make_key(sessions.home.path(), "planted")).unwrap();
    let secrets = secret_lines(&key);
    let line = secrets[0].clone();
    let mut count = 0;
    let mut session = |plant: &dyn Fn(&str)| {
        count += 1;
        let id = format!("s-plant{count:02}");
        sessions.add(&id, &reaped());
        plant(&id);
    };
    // Every field of the record, with the whole key and with one line of it.
    for secret in [key.clone(), line.clone(), line[..48].to_owned()] {
        for pointer in [
            "/label",
            "/id",
            "/created_at",
            "/created_boot",
            "/openssh_version",
            "/agent/comm",
            "/agent/boot",
            "/agent/machine_id",
            "/keys/0/fingerprint",
            "/keys/0/type",
            "/keys/0/comment",
            "/destinations",
            "/unknown",
        ] {
            session(&|id| {
                sessions.edit(id, |meta| match pointer {
                    "/destinations" => meta["destinations"] = serde_json::json!([secret]),
                    "/agent/boot" => {
                        meta["agent"]["boot"] = secret.clone().into();
                        meta["created_boot"] = secret.clone().into();
                    }
                    _ => {
                        let (parent, field) = pointer.rsplit_once('/').unwrap();
                        meta.pointer_mut(parent).unwrap()[field] = secret.clone().into();
                    }
                });
            });
        }
        for name in ["meta.json", "agent.env", "stop.json", "id_ed25519"] {
            session(&|id| sessions.put(id, name, &secret));
        }
        session(&|id| sessions.put_env(id, &secret));
        let target = sessions.home.write(format!("target{}", secret.len()), &secret);
        for name in ["meta.json", "agent.env", "stop.json"] {
            session(&|id| {
                let path = sessions.file(id, name);
                let _ = fs::remove_file(&path);
                symlink(&target, &path).unwrap();
            });
        }
    }
    let log = sessions.root().join("access/log");
    fs::create_dir(&log).unwrap();
    testkit::access::chmod(&log, 0o700);
    every_command(&sessions, &secrets);
}

#[test]
fn a_lent_key_is_nowhere_but_in_the_agent() {
    let sessions = Sessions::new();
    let path = make_key(sessions.home.path(), "lent");
    let key = fs::read_to_string(&path).unwrap();
    let secrets = secret_lines(&key);
    let opened =
        ran(ostler(&sessions).args(["access", "open", "--json", "--key"]).arg(&path)).exits(0);
    assert_unseen(&secrets, &opened.stdout, "open");
    assert_unseen(&secrets, &opened.stderr, "open");
    let id = opened.result()["id"].as_str().unwrap().to_owned();
    for file in fs::read_dir(sessions.of(&id)).unwrap() {
        let file = file.unwrap().path();
        let text = fs::read_to_string(&file).unwrap_or_default();
        assert_unseen(&secrets, &text, &file.display().to_string());
        assert!(!text.contains(path.to_str().unwrap()), "nor the path of the key: {text}");
    }
    let meta = sessions.meta(&id);
    for process in ["agent", "keeper"] {
        let proc = format!("/proc/{}", meta[process]["pid"]);
        let proc = Path::new(&proc);
        let limits = fs::read_to_string(proc.join("limits")).unwrap();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        let numbers: Vec<&str> = core.split_whitespace().skip(4).take(2).collect();
        assert_eq!(numbers, ["0", "0"], "no core file of the {process}: {core}");
        for file in ["cmdline", "environ"] {
            let text = fs::read(proc.join(file)).unwrap_or_default();
            assert_unseen(&secrets, &String::from_utf8_lossy(&text), file);
        }
    }
    every_command(&sessions, &secrets);
}

#[test]
fn a_file_that_is_no_key_is_not_quoted() {
    let sessions = Sessions::new();
    let key = fs::read_to_string(make_key(sessions.home.path(), "x")).unwrap();
    let secrets = secret_lines(&key);
    let broken = sessions.home.write("broken", key.replace("-----END", "-----"));
    testkit::access::chmod(&broken, 0o600);
    let ran = ran(ostler(&sessions).args(["access", "open", "--key"]).arg(&broken));
    assert_eq!(ran.code, 6, "{ran:?}");
    assert_unseen(&secrets, &(ran.stdout + &ran.stderr), "open");
    assert_eq!(fs::read_dir(sessions.directory()).unwrap().count(), 0, "nothing is left over");
    run(&sessions, "list").exits(0);
}
