//! Agents that start agents, end to end: the child is a run of its own and hides nothing of its parent's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::home::TempHome;

use super::collect::{age, items};
use super::gc_second_look::gc_while;
use super::live::{FakeAgent, assert_liveness, lab, listed, register, start_ticks, wait_until};
use super::openers::{DAY, gc, gemini, refusal};
use super::run::claude_session;

const ONE: &str = "11111111-1111-4111-8111-111111111111";
const TWO: &str = "22222222-2222-4222-8222-222222222222";

/// An agent that has started another one of its kind, without a shell in between. The child ends when the
/// value goes: nobody holds its input any more.
struct Nested {
    parent: FakeAgent,
    name: &'static str,
}

impl Nested {
    /// The parent works in `of_parent` and runs this shell line, in which `$CHILD` is the child's program.
    fn start(home: &TempHome, name: &'static str, of_parent: &Path, line: &str) -> Self {
        fs::create_dir_all(home.join("bin")).unwrap();
        fs::create_dir_all(home.join("inner")).unwrap();
        let child = home.join(format!("inner/{name}"));
        fs::copy("/bin/cat", &child).unwrap();
        fs::copy("/bin/bash", home.join(format!("bin/{name}"))).unwrap();
        // What follows keeps the shell from becoming the child. In a file: `-c` is an option of some agents.
        let line = home.write("line", format!("{line}\ntrue\n"));
        let parent = FakeAgent::with(home, name, of_parent, |command| {
            command.arg(line).env("CHILD", child).stdin(Stdio::piped())
        });
        Self { parent, name }
    }

    /// Waits until the child runs.
    fn child(&self) -> u32 {
        wait_until("the agent has started another", || self.find_child().is_some());
        self.find_child().unwrap()
    }

    fn find_child(&self) -> Option<u32> {
        let pid = self.parent.pid();
        let pids = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        pids.split_whitespace().find_map(|pid| {
            let exe = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
            exe.ends_with(format!("inner/{}", self.name)).then(|| pid.parse().ok())?
        })
    }
}

/// The directory beside the repository.
fn elsewhere(repo: &Path) -> PathBuf {
    let elsewhere = repo.with_file_name("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    elsewhere
}

#[test]
fn d2_an_agent_that_an_agent_starts_elsewhere_leaves_the_parent_where_it_is() {
    let (home, repo) = lab();
    let path = gemini(&home, &repo, ONE, 2 * DAY, &[2 * DAY]);
    let line = format!("(cd {} && exec $CHILD)", elsewhere(&repo).display());
    let nested = Nested::start(&home, "gemini", &repo, &line);
    nested.child();
    let session = listed(&home).session(ONE);
    assert_liveness(&session, "exited", "dead", "not-attached", "derived");
    let result = gc(&home, "gemini");
    assert_eq!(refusal(&result, &path), "couldBeOpen");
    let reason = result["items"][0]["refused"]["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("pid {}", nested.parent.pid())), "{reason}");
    assert!(path.exists());
}

/// The child says which session it has, the parent does not.
#[test]
fn d2_a_child_that_is_registered_does_not_hide_its_parent() {
    let (home, repo) = lab();
    let path = claude_session(&home, ONE, repo.to_str().unwrap(), "hello");
    age(&path, 10);
    claude_session(&home, TWO, repo.to_str().unwrap(), "hello");
    let nested = Nested::start(&home, "claude", &repo, "$CHILD");
    let child = nested.child();
    let mut record = nested.parent.registration(TWO, &repo);
    record["pid"] = child.into();
    record["procStart"] = start_ticks(child).to_string().into();
    home.write(format!(".claude/sessions/{child}.json"), record.to_string());
    let ran = listed(&home);
    assert_eq!(ran.session(TWO)["status"], "running");
    assert_liveness(&ran.session(ONE), "exited", "dead", "not-attached", "derived");
    assert_eq!(refusal(&gc(&home, "claude-code"), &path), "couldBeOpen");
    // And the other way round: the parent is settled, the child could have opened it.
    fs::remove_file(home.join(format!(".claude/sessions/{child}.json"))).unwrap();
    register(&home, &nested.parent, &nested.parent.registration(TWO, &repo));
    assert_liveness(&listed(&home).session(ONE), "exited", "dead", "not-attached", "derived");
    let result = gc(&home, "claude-code");
    assert_eq!(refusal(&result, &path), "couldBeOpen");
    assert!(result.to_string().contains(&format!("pid {child}")), "{result:#}");
}

/// A wrapper that runs itself again, with the same arguments in the same directory, is one run as before.
#[test]
fn d2_a_wrapper_and_what_it_runs_again_are_one_run() {
    let (home, repo) = lab();
    let program = home.join("bin/gemini");
    fs::create_dir_all(home.join("bin")).unwrap();
    fs::copy("/bin/bash", &program).unwrap();
    // The second time around it waits.
    let line =
        "if [ -n \"$AGAIN\" ]; then read -r line; else AGAIN=1 \"$0\" -c \"$LINE\"; fi; true";
    let agent = FakeAgent::with(&home, "gemini", &repo, |command| {
        std::os::unix::process::CommandExt::arg0(command, &program)
            .args(["-c", line])
            .env("LINE", line)
            .stdin(Stdio::piped())
    });
    let children = format!("/proc/{0}/task/{0}/children", agent.pid());
    let is_again = |pid: &str| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|one| one == b"AGAIN=1")
    };
    wait_until("it runs itself again", || {
        fs::read_to_string(&children).is_ok_and(|pids| pids.split_whitespace().any(is_again))
    });
    let unattached = super::run::run(&home, "ls --json").result()["unattached"].clone();
    assert_eq!(unattached.as_array().unwrap().len(), 1, "{unattached:#}");
}

/// What runs already when the plan is made starts another one afterwards.
#[test]
fn d2_the_second_look_sees_what_a_known_run_has_started() {
    let (home, repo) = lab();
    let path = gemini(&home, &repo, ONE, 2 * DAY, &[2 * DAY]);
    let signal = home.join("signal");
    assert!(Command::new("mkfifo").arg(&signal).status().unwrap().success());
    let line =
        format!("read -r line < {}; (cd {} && exec $CHILD)", signal.display(), repo.display());
    let nested = Nested::start(&home, "gemini", &elsewhere(&repo), &line);
    let result = gc_while(&home, "gemini", || {
        fs::write(&signal, "go\n").unwrap();
        nested.child();
    });
    assert_eq!(refusal(&result, &path), "couldBeOpen");
    let reason = result["items"][0]["refused"]["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("pid {}", nested.child())), "{reason}");
    drop(nested);
    wait_until("nobody runs there", || {
        listed(&home).session(ONE)["liveness"]["reason"] == "no-process"
    });
    assert_eq!(items(&gc(&home, "gemini"), "trashed"), [path.to_str().unwrap()]);
}
