//! Rows 27 to 33, 43, 44, 50: the directories themselves.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::access::{ID, Sessions, chmod, chown, is_root, reaped};

use super::{kept, pruned, run};

#[test]
fn row_27_sessions_open_to_the_group_fails() {
    let sessions = Sessions::expired();
    chmod(&sessions.directory(), 0o750);
    let before = sessions.home.snapshot();
    let ran = run(&sessions, "prune").exits(3);
    assert!(ran.stderr.contains("FAIL_ROOT_OPEN"), "{ran:?}");
    assert_eq!(ran.stdout, "");
    assert!(before.changes(&sessions.home.snapshot()).is_empty());
}

#[test]
fn row_28_any_open_mode_fails_every_command() {
    for mode in [0o701, 0o770, 0o777] {
        for place in ["access/sessions", "access"] {
            let sessions = Sessions::expired();
            chmod(&sessions.root().join(place), mode);
            for line in ["prune", "prune --dry-run", "stop s-alpha01", "list", "list --json"] {
                let ran = run(&sessions, line).exits(3);
                let words = format!("{}{}", ran.stdout, ran.stderr);
                assert!(words.contains("FAIL_ROOT_OPEN"), "{line}: {ran:?}");
                assert!(!words.contains("SHA256"), "nothing is listed: {ran:?}");
            }
            run(&sessions, "stop --all-expired --yes").exits(3);
            run(&sessions, "open").exits(3);
        }
    }
}

#[test]
fn row_29_a_link_to_a_private_directory_fails() {
    let sessions = Sessions::expired();
    let elsewhere = sessions.home.join("elsewhere");
    fs::rename(sessions.directory(), &elsewhere).unwrap();
    symlink(&elsewhere, sessions.directory()).unwrap();
    let ran = run(&sessions, "prune").exits(3);
    assert!(ran.stderr.contains("FAIL_ROOT_NOT_DIR"), "{ran:?}");
    assert!(elsewhere.join(ID).join("meta.json").exists());
}

#[test]
fn row_30_a_root_of_another_user_fails() {
    if !is_root() {
        return;
    }
    for place in ["access", "access/sessions"] {
        let sessions = Sessions::expired();
        chown(&sessions.root().join(place), 65534);
        let ran = run(&sessions, "prune").exits(3);
        assert!(ran.stderr.contains("FAIL_ROOT_OWNER"), "{ran:?}");
    }
    let sessions = Sessions::expired();
    chown(&sessions.root(), 65534);
    run(&sessions, "prune").exits(3);
}

#[test]
fn row_31_a_link_to_another_session_is_unsafe() {
    let sessions = Sessions::expired();
    symlink(sessions.of(ID), sessions.of("s-beta001")).unwrap();
    sessions.ends_in(ID, 300);
    let before = sessions.home.snapshot();
    let ran = run(&sessions, "prune").exits(0);
    assert!(ran.stdout.contains("SKIP_UNSAFE s-beta001"), "{ran:?}");
    assert!(before.changes(&sessions.home.snapshot()).is_empty(), "both intact");
}

#[test]
fn row_32_an_open_session_directory_is_unsafe() {
    let sessions = Sessions::expired();
    chmod(&sessions.of(ID), 0o755);
    kept(&sessions, "SKIP_UNSAFE");
}

#[test]
fn row_33_names_that_are_no_ids() {
    let sessions = Sessions::new();
    for name in ["..%2f", "A b", ".hidden", "esc\u{1b}[2Jape"] {
        fs::create_dir(sessions.of(name)).unwrap();
    }
    let list = run(&sessions, "list").exits(0).stdout;
    assert_eq!(list.matches("unknown").count(), 4, "{list}");
    let ran = kept(&sessions, "SKIP_UNSAFE");
    assert_eq!(ran.stdout.matches("SKIP_UNSAFE").count(), 4, "{ran:?}");
    for text in [&list, &ran.stdout] {
        assert!(!text.contains('\u{1b}') && text.contains("esc\\x1b[2Jape"), "{text}");
    }
}

#[test]
fn row_43_a_name_that_is_not_ours_keeps_it() {
    let sessions = Sessions::expired();
    sessions.put(ID, "id_ed25519", "somebody's");
    kept(&sessions, "SKIP_UNEXPECTED_FILES");
    assert_eq!(fs::read(sessions.file(ID, "id_ed25519")).unwrap(), b"somebody's");
}

#[test]
fn row_44_a_held_lock_keeps_it() {
    let sessions = Sessions::expired();
    let locks = sessions.root().join("access/locks");
    fs::create_dir(&locks).unwrap();
    chmod(&locks, 0o700);
    let lock = fs::File::create(locks.join(format!("{ID}.lock"))).unwrap();
    chmod(&locks.join(format!("{ID}.lock")), 0o600);
    lock.lock().unwrap();
    let begun = Instant::now();
    kept(&sessions, "SKIP_LOCKED");
    // Two runs of the binary; waiting for a lock would take far longer.
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    drop(lock);
    pruned(&sessions, "PRUNED s-alpha01 expired");
}

#[test]
fn a_removal_that_fails_says_so_and_is_finished_later() {
    let sessions = Sessions::expired();
    let set = |flag: &str| {
        let inside = fs::read_dir(sessions.directory()).unwrap().next().unwrap().unwrap().path();
        Command::new("chattr").arg(flag).arg(inside.join("agent.env")).output()
    };
    if !set("+i").is_ok_and(|output| output.status.success()) {
        testkit::access::skipped("no immutable files here");
        return;
    }
    let ran = run(&sessions, "prune");
    assert!(set("-i").unwrap().status.success());
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.stdout.starts_with("FAIL_REMOVE s-alpha01"), "{ran:?}");
    assert!(ran.stdout.ends_with("0 pruned, 0 skipped, 1 failed\n"), "{ran:?}");
    pruned(&sessions, "PRUNED s-alpha01 expired");
}

#[test]
fn row_48_a_mix() {
    let sessions = Sessions::expired();
    sessions.add("s-active1", &reaped());
    sessions.ends_in("s-active1", 300);
    sessions.add("s-living1", &testkit::access::record_of(std::process::id()));
    sessions.add("s-broken1", &reaped());
    sessions.put("s-broken1", "meta.json", "{");
    let ran = run(&sessions, "prune").exits(0);
    for line in ["PRUNED s-alpha01", "SKIP_ACTIVE s-active1", "SKIP_AGENT_ALIVE s-living1"] {
        assert!(ran.stdout.contains(line), "{ran:?}");
    }
    assert!(ran.stdout.ends_with("1 pruned, 3 skipped\n"), "{ran:?}");
}

#[test]
fn row_49_a_dry_run_says_the_same_and_changes_nothing() {
    // Every other row does this too, in `kept` and `pruned`.
    let sessions = Sessions::expired();
    sessions.add("s-active1", &reaped());
    sessions.ends_in("s-active1", 300);
    let before = sessions.home.snapshot();
    let ran = run(&sessions, "prune --dry-run").exits(0);
    assert_eq!(
        ran.stdout,
        "WOULD_SKIP_ACTIVE s-active1 it has not expired\nWOULD_PRUNE s-alpha01 expired\n\
         1 would be pruned, 1 would be skipped\n"
    );
    assert!(before.changes(&sessions.home.snapshot()).is_empty());
    let json = run(&sessions, "prune --dry-run --json").exits(0).result();
    assert_eq!(json["items"][1]["code"], "WOULD_PRUNE");
    assert_eq!((json["pruned"].as_u64(), json["dryRun"].as_bool()), (Some(1), Some(true)));
}

#[test]
fn row_50_nothing_there() {
    let sessions = Sessions::new();
    assert_eq!(run(&sessions, "prune").exits(0).stdout, "0 pruned, 0 skipped\n");
    for missing in ["access/sessions", "access", ""] {
        fs::remove_dir(sessions.root().join(missing)).unwrap();
        let before = sessions.home.snapshot();
        for line in ["prune", "list", "prune --dry-run", "stop --orphaned"] {
            run(&sessions, line).exits(0);
        }
        assert_eq!(run(&sessions, "prune").exits(0).stdout, "0 pruned, 0 skipped\n");
        assert!(before.changes(&sessions.home.snapshot()).is_empty(), "nothing is made");
    }
}
