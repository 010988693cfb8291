//! `stop` and `ps` with real processes: what ends, in which order, and what is never touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::live::{FakeAgent, lab, register, wait_until};
use super::run::{claude_session, ostler, ran, run};

const ID: &str = "11111111-1111-4111-8111-111111111111";

/// A program named `claude` that runs a shell's script in `repo`.
fn start_agent(home: &TempHome, repo: &Path, script: &str) -> FakeAgent {
    fs::create_dir_all(home.join("bin")).unwrap();
    fs::copy("/bin/bash", home.join("bin/claude")).unwrap();
    claude_session(home, ID, repo.to_str().unwrap(), "hello");
    let like_us = ostler(home);
    let agent = FakeAgent::with(home, "claude", repo, |command| {
        for (name, value) in like_us.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.env("OSTLER", env!("CARGO_BIN_EXE_ostler")).args(["-c", script])
    });
    register(home, &agent, &agent.registration(ID, repo));
    agent
}

/// The pid that a script wrote to a file.
fn written_pid(path: &Path) -> u32 {
    let read = || fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok();
    wait_until("a pid is written", || read().is_some());
    read().unwrap()
}

/// Whether a process is there and no zombie.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rfind(')').is_some_and(|end| !stat[end..].starts_with(") Z"))
}

/// A process that has nothing to do with the agent. Killed with the value.
struct Bystander(Child);

impl Bystander {
    fn start(directory: &Path) -> Self {
        Self(Command::new("sleep").arg("1000").current_dir(directory).spawn().unwrap())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn endings(result: &Value) -> Vec<(u64, String)> {
    let told = result["stopped"][0]["processes"].as_array().unwrap();
    let ending = |one: &Value| (one["pid"].as_u64().unwrap(), one["how"].as_str().unwrap().into());
    told.iter().map(ending).collect()
}

fn ending_of(result: &Value, pid: u32) -> String {
    let found = endings(result).into_iter().find(|(one, _)| *one == u64::from(pid));
    found.unwrap_or_else(|| panic!("{pid} is not told of: {result:#}")).1
}

#[test]
fn row_53_a_tree_with_sessions_and_groups_of_its_own_ends_and_nothing_else() {
    let (home, repo) = lab();
    let script =
        "setsid sleep 1000 & echo $! > session; set -m; sleep 1000 & echo $! > group; wait";
    let agent = start_agent(&home, &repo, script);
    let (session, group) = (written_pid(&repo.join("session")), written_pid(&repo.join("group")));
    let bystander = Bystander::start(&repo);
    let preview = run(&home, &format!("stop {ID} --dry-run --json")).exits(0).result();
    assert_eq!(ending_of(&preview, agent.pid()), "would-end");
    assert!(runs(agent.pid()) && runs(session) && runs(group), "a dry run signals nothing");
    let result = run(&home, &format!("stop {ID} --json")).exits(0).result();
    let told = endings(&result);
    assert_eq!(told[0], (u64::from(agent.pid()), "term".to_owned()), "the agent first: {told:?}");
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(ending_of(&result, session), "term");
    assert!(!runs(agent.pid()) && !runs(session) && !runs(group));
    assert!(runs(bystander.0.id()), "in the same directory, and not the agent's");
    assert_eq!(result["stopped"][0]["left"], serde_json::json!([]));
    let again = run(&home, &format!("stop {ID} --json")).exits(13);
    assert_eq!(again.envelope()["error"]["details"]["reason"], "not-alive");
}

#[test]
fn row_53_what_forked_twice_below_a_host_ends_with_its_terminal() {
    let (home, repo) = lab();
    let script = "(setsid sleep 1000 & echo $! > daemon) & sleep 1000 & echo $! > tool; wait";
    let mut create = ostler(&home);
    create.args(["create", "--json", "--cwd", repo.to_str().unwrap(), "--", "bash", "-c", script]);
    let id = ran(&mut create).exits(0).result()["sessionId"].as_str().unwrap().to_owned();
    let pids = ["daemon", "tool"].map(|name| written_pid(&repo.join(name)));
    assert!(pids.into_iter().all(runs));
    let result = run(&home, &format!("stop {id} --json")).exits(0).result();
    assert!(!pids.into_iter().any(runs), "{result:#}");
    for pid in pids {
        assert_ne!(ending_of(&result, pid), "survived");
    }
}

#[test]
fn row_54_what_ignores_sigterm_is_killed_in_time() {
    let (home, repo) = lab();
    let script = "trap '' TERM; sleep 1000 & echo $! > tool; wait";
    let agent = start_agent(&home, &repo, script);
    let tool = written_pid(&repo.join("tool"));
    let begun = Instant::now();
    let result = run(&home, &format!("stop {ID} --grace 1s --json")).exits(0).result();
    assert_eq!(ending_of(&result, agent.pid()), "kill");
    assert_eq!(ending_of(&result, tool), "kill");
    for one in result["stopped"][0]["processes"].as_array().unwrap() {
        assert!(one["ms"].as_u64().unwrap() < 5_000, "grace + 4 s: {one}");
    }
    assert!(begun.elapsed().as_secs() >= 3, "it was asked twice before");
    assert!(!runs(agent.pid()) && !runs(tool));
}

#[test]
fn row_54_a_stop_that_is_killed_before_its_kill_leaves_nothing_halted() {
    let (home, repo) = lab();
    let script =
        "trap '' TERM; (trap '' TERM; echo $BASHPID > tool; while :; do sleep 0.1; done) & wait";
    let agent = start_agent(&home, &repo, script);
    let tool = written_pid(&repo.join("tool"));
    let pauses = Pauses::new();
    pauses.arm("stop.halted");
    let mut stop = ostler(&home);
    pauses.apply(stop.args(["stop", ID, "--grace", "1s"]).stdout(Stdio::null()));
    let mut stop = stop.spawn().unwrap();
    pauses.wait("stop.halted");
    let is_halted = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat[stat.rfind(')').unwrap()..].starts_with(") T")
    };
    wait_until("all of it is halted", || is_halted(agent.pid()) && is_halted(tool));
    stop.kill().unwrap();
    stop.wait().unwrap();
    wait_until("all of it goes on", || !is_halted(agent.pid()) && !is_halted(tool));
    assert!(runs(agent.pid()) && runs(tool));
    let again = run(&home, &format!("stop {ID} --now --json")).exits(0).result();
    assert_eq!(again["stopped"][0]["left"], serde_json::json!([]));
}

#[test]
fn row_55_what_is_forked_while_it_is_stopped_ends_too_and_so_does_a_large_tree() {
    let (home, repo) = lab();
    let script = "for i in $(seq 300); do sleep 1000 & done; \
                  (trap '' TERM; while :; do setsid sleep 1000 & sleep 0.02; done) & echo $! > forker; wait";
    let agent = start_agent(&home, &repo, script);
    let forker = written_pid(&repo.join("forker"));
    let result = run(&home, &format!("stop {ID} --grace 1s --json")).exits(0).result();
    assert!(endings(&result).len() > 300, "{}", endings(&result).len());
    assert_eq!(result["stopped"][0]["left"], serde_json::json!([]));
    assert!(!runs(agent.pid()) && !runs(forker));
    // What the forker made after the last look at its tree has nobody above it.
    let left = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let cwd = fs::read_link(entry.path().join("cwd"));
        cwd.is_ok_and(|cwd| cwd == fs::canonicalize(&repo).unwrap())
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn row_56_an_agent_does_not_stop_itself() {
    let (home, repo) = lab();
    let script = format!(
        "while [ ! -e go ]; do sleep 0.05; done; \"$OSTLER\" stop {ID} --json > out; echo $? > code; \
         sleep 1000"
    );
    let agent = start_agent(&home, &repo, &script);
    fs::write(repo.join("go"), "").unwrap();
    assert_eq!(written_pid(&repo.join("code")), 13);
    let answer: Value = serde_json::from_slice(&fs::read(repo.join("out")).unwrap()).unwrap();
    assert_eq!(answer["error"]["details"]["reason"], "is-calling", "{answer:#}");
    assert!(runs(agent.pid()));
}

#[test]
fn row_56_an_agent_may_stop_another_session_and_that_is_recorded() {
    let (home, repo) = lab();
    let caller = "22222222-2222-4222-8222-222222222222";
    let script = format!(
        "while [ ! -e go ]; do sleep 0.05; done; \"$OSTLER\" stop {ID} --json > out; \
         echo $? > code; sleep 1000"
    );
    let target = start_agent(&home, &repo, "sleep 1000");
    claude_session(&home, caller, repo.to_str().unwrap(), "the other one");
    let like_us = ostler(&home);
    let agent = FakeAgent::with(&home, "claude", &repo, |command| {
        for (name, value) in like_us.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.env("OSTLER", env!("CARGO_BIN_EXE_ostler")).args(["-c", &script])
    });
    register(&home, &agent, &agent.registration(caller, &repo));
    fs::write(repo.join("go"), "").unwrap();
    assert_eq!(written_pid(&repo.join("code")), 0, "{:?}", fs::read_to_string(repo.join("out")));
    assert!(!runs(target.pid()) && runs(agent.pid()));
    let told = run(&home, "events --json").exits(0).stdout;
    let stopped = told.lines().find(|line| line.contains("session.stopped")).unwrap();
    let stopped: Value = serde_json::from_str(stopped).unwrap();
    assert_eq!(stopped["session"], ID, "{stopped}");
    assert_eq!(stopped["detail"]["by"], format!("claude-code:{caller}"), "{stopped}");
}

#[test]
fn row_55_a_zombie_is_dead_and_what_it_left_is_an_orphan() {
    let (home, repo) = lab();
    let script =
        format!("export CLAUDE_CODE_SESSION_ID={ID}; setsid sleep 1000 & echo $! > tool; wait");
    let agent = start_agent(&home, &repo, &script);
    let tool = written_pid(&repo.join("tool"));
    // Nobody asks for its end: its parent is this test, which goes on.
    let _ = Command::new("kill").args(["-KILL", &agent.pid().to_string()]).status();
    wait_until("it is a zombie", || !runs(agent.pid()));
    assert!(Path::new(&format!("/proc/{}", agent.pid())).exists());
    let refused = run(&home, &format!("stop {ID} --json")).exits(13).envelope();
    assert_eq!(refused["error"]["details"]["reason"], "not-alive", "{refused:#}");
    assert_eq!(run(&home, "ls -a --json").session(ID)["liveness"]["state"], "dead");
    let result = run(&home, &format!("stop {ID} --orphans --json")).exits(0).result();
    assert_eq!(ending_of(&result, tool), "term", "{result:#}");
    assert!(!runs(tool));
}

/// What Claude Code would write of a process that another one started.
fn register_pid(home: &TempHome, pid: u32, id: &str, repo: &Path, status: &str) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = stat[stat.rfind(')').unwrap() + 2..].split(' ').nth(19).unwrap();
    let record = serde_json::json!({"pid": pid, "sessionId": id, "cwd": repo, "procStart": start,
        "version": "2.1.325", "kind": "bg", "status": status});
    home.write(format!(".claude/sessions/{pid}.json"), record.to_string());
}

/// Ends a process group with the value.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn row_59_a_supervised_agent_is_not_signalled_and_its_supervisors_command_is_named() {
    let (home, repo) = lab();
    fs::create_dir_all(home.join("bin")).unwrap();
    fs::copy("/bin/bash", home.join("bin/claude")).unwrap();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    // The helper that runs background sessions: a program of the agent's that is none itself.
    fs::write(repo.join("daemon"), "\"$BASH\" -c 'sleep 1000; :' & echo $! > worker; wait")
        .unwrap();
    let supervisor = FakeAgent::with(&home, "claude", &repo, |command| {
        command.env("PATH", "/usr/bin:/bin").arg("daemon")
    });
    let worker = written_pid(&repo.join("worker"));
    wait_until("it is the agent's program", || {
        fs::read_link(format!("/proc/{worker}/exe")).is_ok_and(|exe| exe.ends_with("claude"))
    });
    register_pid(&home, worker, ID, &repo, "idle");
    for line in [format!("stop {ID} --json"), format!("resume {ID} --take-over --json")] {
        let refused = run(&home, &line).exits(13).envelope();
        assert_eq!(refused["error"]["details"]["reason"], "supervised", "{line}: {refused:#}");
        let hint = refused["error"]["hint"].as_str().unwrap();
        assert!(hint.contains("`claude stop 11111111`"), "{refused:#}");
    }
    let who = run(&home, &format!("who {ID} --json")).exits(0).result();
    let one = &who["conversations"][0];
    assert_eq!(one["holders"][0]["kind"], "supervised", "{who:#}");
    assert_eq!(one["handOver"]["how"], "supervisor-command", "{who:#}");
    assert_eq!(one["handOver"]["command"], "claude stop 11111111", "{who:#}");
    let prompt = run(&home, &format!("prompt {ID} hello --json")).exits(13).envelope();
    assert!(prompt["error"]["hint"].as_str().unwrap().contains("claude stop"), "{prompt:#}");
    assert!(runs(worker) && runs(supervisor.pid()), "nobody was signalled");
    let _ = Command::new("kill").args(["-KILL", &worker.to_string()]).status();
}

#[test]
fn row_59_one_that_comes_back_is_said_and_not_chased() {
    let (home, repo) = lab();
    fs::create_dir_all(home.join("bin")).unwrap();
    fs::copy("/bin/bash", home.join("bin/claude")).unwrap();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    // It registers itself, as the agent does, each time that it is started.
    let record = format!(
        r#"{{"pid":%d,"sessionId":"{ID}","cwd":"%s","procStart":"%s","kind":"interactive","status":"idle"}}"#
    );
    home.write(
        "worker.sh",
        format!(
            "f=$HOME/.claude/sessions/$$.json; mkdir -p \"${{f%/*}}\"; \
             printf '{record}' $$ \"$PWD\" \"$(cut -d' ' -f22 /proc/$$/stat)\" > \"$f.new\"; \
             mv \"$f.new\" \"$f\"; echo $$ > worker; sleep 1000; :"
        ),
    );
    let mut command = Command::new("/bin/bash");
    command.args(["-c", "while :; do \"$HOME\"/bin/claude \"$HOME\"/worker.sh; done"]);
    command.env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let _respawner = Group(command.current_dir(&repo).spawn().unwrap());
    let first = written_pid(&repo.join("worker"));
    let result = run(&home, &format!("stop {ID} --json")).exits(12).result();
    assert_eq!(ending_of(&result, first), "term", "{result:#}");
    assert_eq!(result["stopped"][0]["respawned"], true, "{result:#}");
    let second = written_pid(&repo.join("worker"));
    assert!(second != first && runs(second), "it was not chased");
}

/// A stop that has made its plan and signalled nothing yet.
fn stop_until_planned(home: &TempHome, pauses: &Pauses) -> Child {
    pauses.arm("stop-planned");
    let mut command = ostler(home);
    command.args(["stop", ID, "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = pauses.apply(&mut command).spawn().unwrap();
    pauses.wait("stop-planned");
    child
}

fn result_of(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["result"].take()
}

#[test]
fn row_57_what_ended_between_plan_and_signal_gets_none() {
    let (home, repo) = lab();
    let agent = start_agent(&home, &repo, "sleep 1000");
    let pid = agent.pid();
    let pauses = Pauses::new();
    let stop = stop_until_planned(&home, &pauses);
    agent.kill();
    pauses.release("stop-planned");
    assert_eq!(ending_of(&result_of(stop), pid), "already-gone");
}

#[test]
fn row_61_of_two_stops_at_once_neither_fails() {
    let (home, repo) = lab();
    let agent = start_agent(&home, &repo, "sleep 1000 & echo $! > tool; wait");
    let tool = written_pid(&repo.join("tool"));
    let pauses = Pauses::new();
    let first = stop_until_planned(&home, &pauses);
    let second = run(&home, &format!("stop {ID} --json")).exits(0).result();
    assert_eq!(ending_of(&second, agent.pid()), "term");
    pauses.release("stop-planned");
    let first = result_of(first);
    assert_eq!(ending_of(&first, agent.pid()), "already-gone");
    assert_eq!(ending_of(&first, tool), "already-gone");
}

/// The tools of an agent have its session's id in their environment; one that forked twice is nobody's
/// child when the agent is gone.
fn leave_orphan(home: &TempHome, repo: &Path) -> (FakeAgent, u32) {
    let script = format!(
        "export CLAUDE_CODE_SESSION_ID={ID}; (setsid sleep 1000 & echo $! > daemon) & wait; sleep 1000"
    );
    let agent = start_agent(home, repo, &script);
    let orphan = written_pid(&repo.join("daemon"));
    (agent, orphan)
}

fn listed_orphans(home: &TempHome) -> Vec<u64> {
    let rows = run(home, "ps --orphans --json").exits(0).result()["processes"].take();
    rows.as_array().unwrap().iter().map(|row| row["pid"].as_u64().unwrap()).collect()
}

#[test]
fn orphans_are_named_and_ended_only_once_their_agent_is_proven_dead() {
    let (home, repo) = lab();
    let (agent, orphan) = leave_orphan(&home, &repo);
    assert!(!listed_orphans(&home).contains(&u64::from(orphan)), "its agent lives");
    agent.kill();
    assert!(listed_orphans(&home).contains(&u64::from(orphan)));
    let text = run(&home, "ps --orphans --agent claude-code").exits(0).stdout;
    assert!(text.contains(&format!("orphan of claude-code:{ID}")), "{text}");
    run(&home, &format!("stop {ID}")).exits(13);
    assert!(runs(orphan), "only `--orphans` ends it");
    let result = run(&home, &format!("stop {ID} --orphans --json")).exits(0).result();
    assert_eq!(ending_of(&result, orphan), "term");
    assert!(!runs(orphan));
}

#[test]
fn without_a_session_all_that_dead_agents_left_is_ended_and_nothing_else() {
    let (home, repo) = lab();
    let none = run(&home, "stop --orphans --json").exits(0).result();
    assert_eq!(none["stopped"], serde_json::json!([]));
    let (agent, orphan) = leave_orphan(&home, &repo);
    let bystander = Bystander::start(&repo);
    run(&home, "stop --orphans").exits(0);
    assert!(runs(orphan), "its agent lives");
    agent.kill();
    let preview = run(&home, "stop --orphans --dry-run --json").exits(0).result();
    assert_eq!(ending_of(&preview, orphan), "would-end");
    assert!(runs(orphan));
    let result = run(&home, "stop --orphans --json").exits(0).result();
    assert_eq!(ending_of(&result, orphan), "term");
    assert!(!runs(orphan) && runs(bystander.0.id()));
    run(&home, "stop").exits(2);
}

/// A wrapper that does nothing about SIGTERM until its agent has ended, as Gemini's.
#[test]
fn row_54_the_name_of_a_terminal_reaches_the_agent_below_its_wrapper() {
    let (home, repo) = lab();
    fs::create_dir_all(home.join("bin")).unwrap();
    let program = home.join("bin/claude");
    fs::copy("/bin/bash", &program).unwrap();
    home.write("inner.sh", "trap 'exit 0' TERM; echo $$ > inner; while :; do sleep 0.05; done");
    let outer = "trap : TERM; \"$0\" $HOME/inner.sh & while kill -0 $!; do wait $!; done";
    home.write("outer.sh", outer.replace("$0", program.to_str().unwrap()));
    let mut create = ostler(&home);
    create.args(["create", "--json", "--name", "wrapped", "--cwd", repo.to_str().unwrap(), "--"]);
    ran(create.arg(&program).arg(home.join("outer.sh"))).exits(0);
    let inner = written_pid(&repo.join("inner"));
    let began = Instant::now();
    let result = run(&home, "stop wrapped --json").exits(0).result();
    assert_eq!(ending_of(&result, inner), "term", "{result:#}");
    let told = result["stopped"][0]["processes"].as_array().unwrap();
    let slowest = told.iter().filter_map(|one| one["ms"].as_u64()).max().unwrap();
    assert!(slowest < 8000, "the whole grace was waited for: {result:#}");
    assert!(began.elapsed().as_secs() < 10);
}

#[test]
fn ps_shows_an_agent_with_what_it_started() {
    let (home, repo) = lab();
    let agent = start_agent(&home, &repo, "sleep 1000 & echo $! > tool; wait");
    let tool = written_pid(&repo.join("tool"));
    let result = run(&home, "ps --json").exits(0).result();
    let row = |pid: u32| {
        let rows = result["processes"].as_array().unwrap();
        rows.iter().find(|row| row["pid"] == pid).unwrap_or_else(|| panic!("{result:#}")).clone()
    };
    let (agent, tool) = (row(agent.pid()), row(tool));
    assert_eq!((&agent["role"], &tool["role"]), (&"agent".into(), &"tool".into()));
    assert_eq!(tool["depth"].as_u64(), agent["depth"].as_u64().map(|depth| depth + 1));
    for row in [&agent, &tool] {
        assert_eq!(row["session"]["id"], ID);
        assert!(row["memoryBytes"].as_u64().unwrap() > 0);
        assert_eq!(row.get("orphan"), None);
    }
    run(&home, &format!("stop {ID} --now")).exits(0);
}

#[test]
fn a_session_whose_process_is_only_concluded_is_not_stopped() {
    let (home, repo) = lab();
    let agent = start_agent(&home, &repo, "sleep 1000");
    let registered: PathBuf = home.join(format!(".claude/sessions/{}.json", agent.pid()));
    fs::remove_file(registered).unwrap();
    let refused = run(&home, &format!("stop {ID} --json")).exits(13);
    assert_eq!(refused.envelope()["error"]["details"]["reason"], "not-alive");
    assert!(runs(agent.pid()));
}

/// An agent in a terminal of ostler's: Escape ends its turn, the end of its input ends it.
#[test]
fn row_58_a_turn_is_interrupted_by_keys_and_the_agent_quits_by_its_own() {
    let (home, repo) = lab();
    let script = "echo $$ > pid; IFS= read -rsn1 key; \
                  sed -i s/busy/idle/ \"$HOME\"/.claude/sessions/$$.json; cat; exit 3";
    let template = start_agent(&home, &repo, "sleep 1000");
    let mut record = template.registration(ID, &repo);
    fs::remove_file(home.join(format!(".claude/sessions/{}.json", template.pid()))).unwrap();
    template.kill();
    let program = home.join("bin/claude");
    let words = ["create", "--json", "--cwd", repo.to_str().unwrap(), "--"];
    let mut create = ostler(&home);
    create.args(words).arg(&program).args(["-c", script]);
    ran(&mut create).exits(0);
    let pid = written_pid(&repo.join("pid"));
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = stat[stat.rfind(')').unwrap() + 2..].split(' ').nth(19).unwrap().to_owned();
    record["pid"] = pid.into();
    record["procStart"] = start.into();
    home.write(format!(".claude/sessions/{pid}.json"), record.to_string());
    let turn = run(&home, &format!("stop {ID} --turn --json")).exits(0).result();
    assert_eq!(turn["stopped"][0]["turnOnly"], true, "{turn:#}");
    assert!(runs(pid), "only its turn ended");
    assert_eq!(run(&home, "ls --json").session(ID)["activity"], "idle");
    let result = run(&home, &format!("stop {ID} --json")).exits(0).result();
    assert_eq!(ending_of(&result, pid), "exited", "{result:#}");
    assert_eq!(result["stopped"][0]["exitCode"], 3, "{result:#}");
    assert!(!runs(pid));
}
