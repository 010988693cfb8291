//! Groups and worktrees (control.md rows 69 to 72): several agents at once, each with a branch of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::pause::Pauses;

use super::launch::InstalledClaude;
use super::stage::{ran, until};

const TEXT: &str = "please mend the parser, then run all of its tests";

fn git(directory: &Path, script: &str) -> String {
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
    String::from_utf8(done.stdout).unwrap()
}

/// A repository with one commit, that is pushed.
fn repository(claude: &InstalledClaude) -> PathBuf {
    let repo = claude.stage.home.directory("repo");
    git(
        &repo,
        "git init -q -b main; echo one > one; echo secret.env > .gitignore; git add .; git commit -qm one; \
         git init -q --bare ../remote.git; git remote add origin ../remote.git; git push -q -u origin main",
    );
    repo
}

fn run_in(claude: &InstalledClaude, directory: &Path, words: &[&str]) -> (i32, Value) {
    let ran = ran(claude.command().current_dir(directory).args(words).arg("--json"));
    (ran.code, serde_json::from_str(&ran.stdout).unwrap_or_default())
}

fn branches(repo: &Path) -> String {
    git(repo, "git branch --list 'ostler/*'; git worktree list --porcelain | grep -c ^worktree")
}

#[test]
fn row_69_a_group_starts_every_slot_in_a_worktree_of_its_own() {
    let claude = InstalledClaude::new(&[]);
    let repo = repository(&claude);
    git(&repo, "echo changed > one");
    let words = ["launch", "claude", "claude:opus", TEXT, "--group", "race", "--worktree"];
    let (code, answer) = run_in(&claude, &repo, &words);
    let result = &answer["result"];
    assert_eq!(code, 0, "{answer}");
    assert_eq!((&result["group"], &result["uncommitted"]), (&"race".into(), &true.into()));
    let slots = result["slots"].as_array().unwrap();
    assert_eq!(slots.len(), 2, "{answer}");
    for (slot, name) in slots.iter().zip(["claude-code", "claude-code-opus"]) {
        assert_eq!((&slot["slot"], &slot["launch"]["state"]), (&name.into(), &"accepted".into()));
        let tree = Path::new(slot["worktree"].as_str().unwrap());
        assert_eq!(
            std::fs::read_to_string(tree.join("one")).unwrap(),
            "one\n",
            "the base, not the change"
        );
        assert_eq!(
            git(tree, "git rev-parse --abbrev-ref HEAD").trim(),
            format!("ostler/race/{name}")
        );
    }
    let (code, listed) = run_in(&claude, &repo, &["ls", "--group", "race"]);
    assert_eq!(code, 0, "{listed}");
    let ids: Vec<&Value> =
        listed["result"]["sessions"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    for slot in slots {
        assert!(ids.contains(&&slot["launch"]["session"]["id"]), "{listed}");
    }
    // The same group again takes nobody's place.
    let (code, answer) = run_in(&claude, &repo, &words);
    assert_eq!((code, &answer["error"]["code"]), (13, &"REFUSED".into()), "{answer}");
    // A worktree whose agent lives stays, whatever git says of it.
    let gc = ["gc", "--include", "worktrees", "--older-than", "0s"];
    let (_, plan) = run_in(&claude, &repo, &gc);
    let kept = |plan: &Value| -> Vec<String> {
        let items = plan["result"]["items"].as_array().unwrap();
        let trees =
            items.iter().filter(|item| item["kind"] == "worktree" && item["action"] == "stays");
        trees.map(|item| item["refused"]["code"].to_string()).collect()
    };
    assert_eq!(kept(&plan).len(), 2, "{plan}");
    let (code, stopped) = run_in(&claude, &repo, &["stop", "--group", "race", "--now"]);
    assert_eq!(code, 0, "{stopped}");
    // What was just written keeps for a while; without a conversation there is nothing of that kind.
    claude.stage.home.remove(".claude");
    // Once they are gone, one that holds nothing of its own goes, locked as it was; the other one stays.
    let busy = Path::new(slots[0]["worktree"].as_str().unwrap());
    std::fs::write(busy.join("work"), "not committed").unwrap();
    let idle = Path::new(slots[1]["worktree"].as_str().unwrap());
    git(idle, "find . -exec touch -h -d '1 day ago' {} +");
    let (_, gone) = run_in(&claude, &repo, &[&gc[..], &["--yes"]].concat());
    assert_eq!(kept(&gone).len(), 1, "{gone}");
    assert!(busy.join("work").exists());
    assert!(!Path::new(slots[1]["worktree"].as_str().unwrap()).exists(), "{gone}");
    git(&repo, "git worktree prune; test $(git worktree list | wc -l) = 2");
    assert!(branches(&repo).contains("ostler/race/claude-code-opus"), "no branch is deleted");
    // Without a daemon it is a sweep that notices.
    ran(claude.command().arg("finalize")).exits(0);
    let told = ran(claude.command().args(["events", "--since", "0", "--json"])).stdout;
    assert_eq!(told.matches("group.done").count(), 1, "{told}");
}

#[test]
fn row_69_nothing_is_made_before_everything_is_checked() {
    let claude = InstalledClaude::new(&[]);
    let repo = repository(&claude);
    let before = branches(&repo);
    git(&repo, "git branch ostler/taken/claude-code");
    let rows: [(&[&str], i32); 5] = [
        (&["launch", "claude", "codex", TEXT, "--group", "g", "--worktree"], 3),
        (&["launch", "claude", TEXT, "--group", "taken", "--worktree"], 13),
        (&["launch", "claude", TEXT, "--group", "g", "--worktree", "--base", "nowhere"], 2),
        (&["launch", "claude", "claude", TEXT, "--group", "g", "--worktree"], 2),
        (&["launch", "claude", TEXT, "--group", "../g", "--worktree"], 2),
    ];
    for (words, wanted) in rows {
        let (code, answer) = run_in(&claude, &repo, words);
        assert_eq!(code, wanted, "{words:?}: {answer}");
    }
    git(&repo, "git branch -D -q ostler/taken/claude-code");
    assert_eq!(branches(&repo), before);
    assert!(!claude.stage.root.join("worktrees").exists());
    assert_eq!(claude.noted("started").len(), 0);
    let bare = claude.stage.home.join("remote.git");
    let (code, answer) =
        run_in(&claude, &bare, &["launch", "claude", TEXT, "--worktree=solo", "--base", "main"]);
    assert_eq!((code, &answer["result"]["state"]), (0, &"accepted".into()), "{answer}");
    assert!(answer["result"]["worktree"].as_str().unwrap().ends_with("/solo"), "{answer}");
}

#[test]
fn row_69_a_slot_whose_agent_breaks_is_told_and_the_others_go_on() {
    let claude = InstalledClaude::new(&[]);
    let repo = repository(&claude);
    let broken = claude.stage.home.write("bin/gemini", "#!/bin/sh\necho it is broken; exit 3\n");
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let words = ["launch", "claude", "gemini", "claude:opus", TEXT, "--group", "g", "--worktree"];
    let (code, answer) = run_in(&claude, &repo, &words);
    assert_eq!(code, 17, "the worst of them: {answer}");
    let told = match &answer["result"]["slots"] {
        Value::Null => &answer["error"]["details"]["slots"],
        slots => slots,
    };
    let states: Vec<&str> = told
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"))
        .iter()
        .map(|slot| slot["launch"]["state"].as_str().unwrap_or("none"))
        .collect();
    assert_eq!(states, ["accepted", "failed", "accepted"], "{answer}");
    assert_eq!(claude.noted("prompt"), [TEXT, TEXT]);
    let (_, listed) = run_in(&claude, &repo, &["groups", "g"]);
    assert_eq!(listed["result"]["members"].as_array().unwrap().len(), 3, "{listed}");
}

#[test]
fn several_agents_are_waited_for_all_at_once_or_any_of_them() {
    let claude = InstalledClaude::new(&[]);
    let repo = repository(&claude);
    let words = ["launch", "claude", "claude:opus", TEXT, "--group", "race", "--worktree"];
    let (code, answer) = run_in(&claude, &repo, &words);
    assert_eq!(code, 0, "{answer}");
    let slots = &answer["result"]["slots"];
    let terminal = |at: usize| slots[at]["launch"]["terminal"].as_str().unwrap().to_owned();
    let session = |at: usize| slots[at]["launch"]["session"]["id"].as_str().unwrap().to_owned();
    let wait = |words: &[&str]| run_in(&claude, &repo, &[&["wait"][..], words].concat());
    let (code, all) = wait(&["--group", "race", "--all", "--for-agent", "idle"]);
    assert_eq!(code, 0, "{all}");
    let told = all["result"]["sessions"].as_array().unwrap();
    assert!(told.len() == 2 && told.iter().all(|one| one["matched"] == true), "{all}");
    // Nobody works: the time is up, with each told.
    let (first, second) = (session(0), session(1));
    let none = [&first, &second, "--any", "--for-agent", "working", "--timeout", "300"];
    let (code, none) = wait(&none);
    assert_eq!((code, &none["result"]["timedOut"]), (11, &true.into()), "{none}");
    assert_eq!(none["result"]["sessions"].as_array().unwrap().len(), 2);
    let (code, stopped) = run_in(&claude, &repo, &["stop", &terminal(0), "--now"]);
    assert_eq!(code, 0, "{stopped}");
    // One of them is over: not all can be idle any more, and one still is.
    let (code, lost) = wait(&["--group", "race", "--for-agent", "idle"]);
    assert!(code != 0 && code != 11, "{code} {lost}");
    let (code, one) = wait(&["--group", "race", "--any", "--for-agent", "idle"]);
    assert_eq!(code, 0, "{one}");
    let mut ended = claude.command();
    ended.current_dir(&repo).args(["wait", "--group", "race", "--for-agent", "ended", "--json"]);
    let waiting = ended.stdout(std::process::Stdio::piped()).spawn().unwrap();
    run_in(&claude, &repo, &["stop", &terminal(1), "--now"]);
    let waited = waiting.wait_with_output().unwrap();
    assert!(waited.status.success(), "{}", String::from_utf8_lossy(&waited.stdout));
}

#[test]
fn row_71_a_worktree_whose_agent_may_live_is_locked_and_stays() {
    let claude = InstalledClaude::new(&[]);
    let repo = repository(&claude);
    let words = ["launch", "claude", TEXT, "--group", "far", "--worktree"];
    let (code, answer) = run_in(&claude, &repo, &words);
    assert_eq!(code, 0, "{answer}");
    let tree = answer["result"]["slots"][0]["worktree"].as_str().unwrap().to_owned();
    let locked = git(&repo, "git worktree list --porcelain");
    assert!(locked.contains("locked "), "git knows the lock and its reason: {locked}");
    // From another pid namespace nothing can be said about the process that was started.
    let inside = claude.command();
    let mut elsewhere = Command::new("unshare");
    elsewhere.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
    elsewhere.arg(inside.get_program()).current_dir(&repo).env_clear();
    for (key, value) in inside.get_envs() {
        value.map(|value| elsewhere.env(key, value));
    }
    elsewhere.args(["gc", "--include", "worktrees", "--older-than", "0s", "--yes", "--json"]);
    let Some(plan) = Some(ran(&mut elsewhere)).filter(|ran| ran.stdout.starts_with('{')) else {
        eprintln!("skipped: no user namespaces here");
        return;
    };
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    let items = plan["result"]["items"].as_array().cloned().unwrap_or_default();
    let mine = items.iter().find(|item| item["kind"] == "worktree");
    assert!(mine.is_some_and(|item| item["action"] == "stays"), "{plan:#}");
    assert!(Path::new(&tree).exists(), "{plan:#}");
}

#[test]
fn row_70_a_group_that_is_killed_leaves_every_worktree_listed_or_absent() {
    for point in ["group.reserved", "group.added", "group.made", "group.started"] {
        let claude = InstalledClaude::new(&[]);
        let repo = repository(&claude);
        let pauses = Pauses::new();
        pauses.arm(point);
        let mut command = claude.command();
        let words = ["launch", "claude", "claude:opus", TEXT, "--group", "race", "--worktree"];
        pauses.apply(command.current_dir(&repo).args(words));
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut launcher = command.spawn().unwrap();
        pauses.wait(point);
        launcher.kill().unwrap();
        launcher.wait().unwrap();
        let (_, listed) = run_in(&claude, &repo, &["groups", "race"]);
        let members = listed["result"]["members"].as_array().unwrap().clone();
        assert_eq!(members.len(), 2, "{point}: {listed}");
        let known = git(&repo, "git worktree list --porcelain");
        for member in &members {
            let tree = member["worktree"].as_str().unwrap();
            let is_there = Path::new(tree).exists();
            assert_eq!(member["isPresent"], is_there, "{point}");
            assert_eq!(known.contains(tree), is_there, "{point}: {known}");
        }
        if point == "group.started" {
            // Its agent runs, although nobody wrote that down.
            let alive = |one: &Value| one["liveness"] == "alive";
            assert!(members.iter().any(alive), "{point}: {listed}");
        }
    }
}

#[test]
fn row_72_included_files_are_copied_and_nothing_leads_outside() {
    let claude = InstalledClaude::new(&[]);
    let repo = repository(&claude);
    let outside = claude.stage.home.write("outside", "canary");
    git(&repo, "echo '*.env\nsock\nlink.env\nbig.env' > .gitignore; git commit -qam ignore");
    std::fs::write(repo.join("secret.env"), "KEY=1").unwrap();
    std::fs::create_dir(repo.join("deep")).unwrap();
    std::fs::write(repo.join("deep/more.env"), "KEY=2").unwrap();
    std::os::unix::fs::symlink(&outside, repo.join("link.env")).unwrap();
    let big = std::fs::File::create(repo.join("big.env")).unwrap();
    big.set_len(2 << 30).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(repo.join("sock")).unwrap();
    std::fs::write(repo.join(".worktreeinclude"), "../outside\n*.env\n").unwrap();
    let words = ["launch", "claude", TEXT, "--group", "g", "--worktree"];
    let (code, answer) = run_in(&claude, &repo, &words);
    assert_eq!(code, 2, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("line 1"), "{answer}");
    std::fs::write(repo.join(".worktreeinclude"), "*.env\nsock\n").unwrap();
    let (code, answer) = run_in(&claude, &repo, &words);
    assert_eq!(code, 0, "{answer}");
    let slot = &answer["result"]["slots"][0];
    let tree = Path::new(slot["worktree"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(tree.join("secret.env")).unwrap(), "KEY=1");
    assert_eq!(std::fs::read_to_string(tree.join("deep/more.env")).unwrap(), "KEY=2");
    for absent in ["link.env", "big.env", "sock"] {
        assert!(std::fs::symlink_metadata(tree.join(absent)).is_err(), "{absent}");
        let named = slot["skipped"].as_array().unwrap().iter().any(|one| one["path"] == absent);
        assert!(named, "{absent}: {answer}");
    }
    until("the agent", || !claude.noted("started").is_empty());
}
