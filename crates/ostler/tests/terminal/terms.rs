//! The terms of a start (control.md rows 62, 74, 75, 77): alone or not, over a lock, for how long, and who is asked.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::pause::Pauses;

use super::launch::InstalledClaude;
use super::stage::{is_alive, until};

fn git(directory: &Path, script: &str) {
    let done = Command::new("sh")
        .args(["-ec", script])
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "a")
        .env("GIT_AUTHOR_EMAIL", "a@b")
        .env("GIT_COMMITTER_NAME", "a")
        .env("GIT_COMMITTER_EMAIL", "a@b")
        .output()
        .unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

fn reason(answer: &Value) -> &Value {
    &answer["error"]["details"]["reason"]
}

fn launch_in(claude: &InstalledClaude, directory: &Path, more: &[&str]) -> (i32, Value) {
    let words = ["launch", "claude", "--cwd", directory.to_str().unwrap()];
    claude.run(&[&words[..], more].concat())
}

#[test]
fn row_74_exclusive_is_refused_in_a_busy_worktree_and_nowhere_else() {
    let claude = InstalledClaude::new(&[]);
    let home = &claude.stage.home;
    let repo = home.directory("repo");
    git(&repo, "git init -q -b main; mkdir sub; echo x > sub/x; git add .; git commit -qm one");
    git(&repo, "git worktree add -q ../other; ln -s repo ../link");
    let (code, first) = launch_in(&claude, &repo, &[]);
    assert_eq!(code, 0, "{first}");
    let name = format!("claude-code:{}", first["result"]["session"]["id"].as_str().unwrap());
    let before = claude.noted("started").len();
    for busy in [repo.clone(), repo.join("sub"), home.join("link")] {
        for more in [&["--exclusive"][..], &["--exclusive", "--dry-run"]] {
            let (code, answer) = launch_in(&claude, &busy, more);
            assert_eq!((code, reason(&answer)), (13, &"busy".into()), "{busy:?} {answer}");
            assert!(answer["error"]["message"].as_str().unwrap().contains(&name), "{answer}");
        }
    }
    assert_eq!(claude.noted("started").len(), before, "nothing was started");
    // Another worktree of it is another place, and so is one below a session in the home.
    let (code, answer) = launch_in(&claude, home.path(), &[]);
    assert_eq!(code, 0, "{answer}");
    let below = home.directory("below");
    for free in [home.join("other"), below] {
        let (code, answer) = launch_in(&claude, &free, &["--exclusive"]);
        assert_eq!(code, 0, "{free:?} {answer}");
        assert_eq!(answer["result"].get("alsoHere"), None, "{answer}");
    }
    // Whoever does not ask for it is started, and told who is there.
    let (code, answer) = launch_in(&claude, &repo.join("sub"), &[]);
    assert_eq!((code, &answer["result"]["alsoHere"]), (0, &serde_json::json!([name])), "{answer}");
}

#[test]
fn row_74_of_two_who_want_a_directory_alone_at_once_one_is_started() {
    let claude = InstalledClaude::new(&[]);
    let pauses = Pauses::new();
    pauses.arm("launch.alone");
    let mut command = claude.command();
    pauses.apply(command.args(["launch", "claude", "--exclusive"]).stdout(Stdio::null()));
    let mut first = command.spawn().unwrap();
    pauses.wait("launch.alone");
    let (code, answer) = claude.run(&["launch", "claude", "--exclusive"]);
    assert_eq!((code, reason(&answer)), (13, &"busy".into()), "{answer}");
    pauses.release("launch.alone");
    assert!(first.wait().unwrap().success());
    assert_eq!(claude.noted("started").len(), 1);
    let (code, answer) = claude.run(&["launch", "claude", "--exclusive"]);
    assert_eq!((code, reason(&answer)), (13, &"busy".into()), "while its session lives: {answer}");
}

#[test]
fn row_75_a_lock_keeps_launch_and_resume_out_and_force_goes_over_it() {
    let claude = InstalledClaude::new(&[]);
    let work = claude.stage.home.directory("work");
    let begin = ["hello", "--headless", "--wait", "idle"];
    let (code, answer) = launch_in(&claude, &work, &begin);
    assert_eq!(code, 0, "{answer}");
    let id = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
    claude.run(&["lock", work.to_str().unwrap(), "--by", "ada", "--reason", "release"]);
    let before = claude.noted("started").len();
    let below = claude.stage.home.directory("work/below");
    for directory in [&work, &below] {
        let (code, answer) = launch_in(&claude, directory, &[]);
        assert_eq!((code, reason(&answer)), (13, &"locked".into()), "{answer}");
    }
    let (code, answer) = claude.run(&["resume", &id]);
    assert_eq!((code, reason(&answer)), (13, &"locked".into()), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("ada"), "{answer}");
    assert_eq!(claude.noted("started").len(), before);
    let (code, answer) = claude.run(&["resume", &id, "--force"]);
    assert_eq!(code, 0, "{answer}");
}

#[test]
fn row_77_a_launch_with_a_ttl_sets_a_fuse_beside_others_and_it_ends_the_tree() {
    let claude = InstalledClaude::new(&[]);
    // Without a daemon it is set, and said that nothing will fire.
    let (code, answer) = claude.run(&["launch", "claude", "--ttl", "4h", "--name", "long"]);
    assert_eq!(code, 12, "{answer}");
    let fuse = answer["result"]["fuse"].as_str().unwrap().to_owned();
    for due in [["--after", "2h"], ["--idle", "30m"]] {
        let words = [&["fuse", "set", "long", "--do", "stop"][..], &due].concat();
        let (code, answer) = claude.run(&words);
        assert_eq!(code, 0, "{answer}");
    }
    let (_, listed) = claude.run(&["fuse", "ls"]);
    let fuses = listed["result"]["fuses"].as_array().unwrap();
    assert_eq!(fuses.len(), 3, "{listed}");
    assert!(fuses.iter().any(|one| one["id"] == *fuse && one["action"] == "stop"), "{listed}");
    let (code, answer) = claude.run(&["daemon", "start"]);
    assert_eq!(code, 0, "{answer}");
    let (code, answer) = claude.run(&["launch", "claude", "--ttl", "1s", "--name", "short"]);
    assert_eq!(code, 0, "{answer}");
    let pid = u32::try_from(answer["result"]["process"]["pid"].as_u64().unwrap()).unwrap();
    until("its time is over", || !is_alive(pid));
    // Settled a moment after the last process has ended; the others stand.
    until("its fuse is settled", || {
        let (_, listed) = claude.run(&["fuse", "ls"]);
        listed["result"]["fuses"].as_array().unwrap().len() == 3
    });
    claude.run(&["daemon", "stop"]);
}

#[test]
fn row_62_a_launch_that_asks_ostler_says_so_to_its_own_process_alone() {
    let claude = InstalledClaude::new(&[]);
    let (code, answer) = claude.run(&["launch", "claude", "--permissions", "ostler"]);
    assert_eq!(code, 0, "{answer}");
    let words = claude.noted("argv")[0].as_array().unwrap().clone();
    let at = words.iter().position(|word| word == "--settings").expect("settings of its own");
    let settings: Value = serde_json::from_str(words[at + 1].as_str().unwrap()).unwrap();
    assert!(settings["hooks"]["PermissionRequest"].is_array(), "{settings}");
    let (code, answer) = claude.run(&["launch", "gemini", "--permissions", "ostler"]);
    assert_eq!((code, reason(&answer)), (13, &"cannot-ask".into()), "{answer}");
}
