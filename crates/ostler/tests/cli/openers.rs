//! Who could have a session open, end to end: real processes of agents that register nothing.
#![allow(clippy::print_stderr, reason = "a test that was skipped says so")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use testkit::home::TempHome;

use super::collect::{age, items};
use super::live::{FakeAgent, assert_liveness, lab, listed, wait_until};
use super::run::{claude_session, ostler, ran, run};

const ONE: &str = "11111111-1111-4111-8111-111111111111";
const TWO: &str = "22222222-2222-4222-8222-222222222222";

/// What Gemini writes: a session that began so many seconds ago, and prompts at these times.
pub(crate) fn gemini(
    home: &TempHome,
    repo: &Path,
    id: &str,
    began: i64,
    prompts: &[i64],
) -> PathBuf {
    let projects = json!({"projects": {repo.to_str().unwrap(): "repo"}});
    home.write(".gemini/projects.json", projects.to_string());
    let started = time(began);
    let mut text = json!({"sessionId": id, "projectHash": "ab", "startTime": started,
        "lastUpdated": started, "kind": "main"})
    .to_string();
    for (number, at) in prompts.iter().enumerate() {
        let at = time(*at);
        let line = json!({"id": format!("m{number}"), "timestamp": at, "type": "user",
            "content": [{"text": "do it"}]});
        text += &format!("\n{line}\n{}", json!({"$set": {"lastUpdated": at}}));
    }
    let path =
        home.write(format!(".gemini/tmp/repo/chats/session-x-{}.jsonl", &id[..8]), text + "\n");
    let last = prompts.iter().copied().fold(began, i64::min);
    touch(&path, last);
    path
}

/// So many seconds ago.
pub(crate) fn time(seconds_ago: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    model::time::Time::from_millis((now - seconds_ago) * 1000).to_string()
}

pub(crate) fn touch(path: &Path, seconds_ago: i64) {
    let then = SystemTime::now() - Duration::from_secs(u64::try_from(seconds_ago).unwrap_or(0));
    fs::File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
}

pub(crate) const DAY: i64 = 86_400;

pub(crate) fn gc(home: &TempHome, agent: &str) -> Value {
    let line = format!("gc --include transcripts --older-than 1s --agent {agent} --yes --json");
    run(home, &line).result()
}

pub(crate) fn refusal(result: &Value, path: &Path) -> String {
    let all = result["items"].as_array().unwrap();
    let item = all.iter().find(|item| item["path"] == path.to_str().unwrap());
    let item = item.unwrap_or_else(|| panic!("{} is not spoken of: {result:#}", path.display()));
    item["refused"]["refusal"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn b1_a_session_that_may_have_been_resumed_inside_is_only_derived_over_and_kept() {
    let (home, repo) = lab();
    let path = gemini(&home, &repo, ONE, 2 * DAY, &[2 * DAY]);
    let agent = FakeAgent::start(&home, "gemini", &repo);
    let session = listed(&home).session(ONE);
    assert_liveness(&session, "exited", "dead", "not-attached", "derived");
    let text = run(&home, "ls -a").exits(0);
    assert!(text.stdout.contains("~exited"), "{}", text.stdout);
    assert!(text.stderr.contains("~ concluded"), "{}", text.stderr);
    let why = run(&home, &format!("why {ONE} --json")).result();
    assert_eq!(why["collect"]["allowed"], false, "{why:#}");
    let reason = why["collect"]["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("pid {}", agent.pid())), "{reason}");
    assert!(reason.contains(repo.to_str().unwrap()), "{reason}");
    let result = gc(&home, "gemini");
    assert_eq!(refusal(&result, &path), "couldBeOpen");
    assert!(path.exists());
    // It becomes firm when the run ends.
    agent.kill();
    assert_liveness(&listed(&home).session(ONE), "exited", "dead", "no-process", "proven");
    assert_eq!(items(&gc(&home, "gemini"), "trashed"), [path.to_str().unwrap()]);
}

#[test]
fn b1_what_is_being_written_outranks_the_empty_session_of_the_interface() {
    let (home, repo) = lab();
    let agent = FakeAgent::start(&home, "gemini", &repo);
    gemini(&home, &repo, TWO, 0, &[]);
    gemini(&home, &repo, ONE, 2 * DAY, &[2 * DAY, 0]);
    let ran = listed(&home);
    assert_liveness(&ran.session(ONE), "running", "alive", "running", "derived");
    assert_liveness(&ran.session(TWO), "exited", "dead", "not-attached", "derived");
    assert!(items(&gc(&home, "gemini"), "trashed").is_empty());
    drop(agent);
}

/// The clock was set forward after the run had written: its start, which is counted from boot, is now shown later
/// than what it wrote.
#[test]
fn h1_a_clock_set_forward_leaves_the_session_of_a_live_run_running() {
    let (home, repo) = lab();
    run(&home, "ls").exits(0);
    let agent = FakeAgent::start(&home, "gemini", &repo);
    for step in [60, 3600, DAY, 30 * DAY] {
        let path = gemini(&home, &repo, ONE, step, &[step]);
        // The reading from before, when the clock was that much behind.
        let reading = home.join(".cache/ostler/clock");
        let kept = fs::read_to_string(&reading).unwrap();
        let words: Vec<&str> = kept.split_whitespace().collect();
        let now_booted: i64 = words[2].parse().unwrap();
        let then = now_booted - step * 1000;
        fs::write(&reading, format!("{} 1 {then} {then}\n", words[0])).unwrap();
        let session = listed(&home).session(ONE);
        assert_liveness(&session, "running", "alive", "running", "derived");
        assert_eq!(run(&home, "ls -q").stdout, format!("{ONE}\n"), "{step}");
        assert!(items(&gc(&home, "gemini"), "trashed").is_empty());
        assert!(path.exists());
        // What a later command finds kept: no step at all.
        fs::write(&reading, &kept).unwrap();
    }
    drop(agent);
}

/// At its start Gemini writes a summary into the file of the session before.
#[test]
fn b1_a_summary_that_a_new_run_writes_does_not_give_it_the_session_before() {
    let (home, repo) = lab();
    let before = gemini(&home, &repo, ONE, 600, &[600]);
    let agent = FakeAgent::start(&home, "gemini", &repo);
    gemini(&home, &repo, TWO, 0, &[]);
    let mut file = fs::File::options().append(true).open(&before).unwrap();
    std::io::Write::write_all(&mut file, b"{\"$set\":{\"summary\":\"what was done\"}}\n").unwrap();
    let ran = listed(&home);
    assert_liveness(&ran.session(TWO), "running", "alive", "running", "derived");
    assert_liveness(&ran.session(ONE), "exited", "dead", "not-attached", "derived");
    drop(agent);
}

#[test]
fn b1_killing_one_of_two_windows_never_calls_the_living_one_over() {
    let (home, repo) = lab();
    let first = FakeAgent::start(&home, "gemini", &repo);
    let second = FakeAgent::start(&home, "gemini", &repo);
    gemini(&home, &repo, ONE, 0, &[0]);
    gemini(&home, &repo, TWO, 0, &[0]);
    let both = listed(&home);
    for id in [ONE, TWO] {
        assert_liveness(&both.session(id), "running", "alive", "running", "derived");
    }
    first.kill();
    let left = listed(&home);
    for id in [ONE, TWO] {
        assert_liveness(&left.session(id), "unknown", "unknown", "maybe-open", "derived");
        let why = run(&home, &format!("why {id} --json")).result();
        let told = why["evidence"].to_string();
        assert!(told.contains(&format!("pid {}", second.pid())), "{why:#}");
    }
    let plain = run(&home, "ls -q").stdout;
    assert!(plain.contains(ONE) && plain.contains(TWO), "{plain}");
}

#[test]
fn b1_the_time_of_a_shared_database_says_nothing_about_one_session() {
    let (home, repo) = lab();
    home.lay_out_agent("opencode", &super::run::fixtures().join("opencode/1.18.33"));
    let _agent = FakeAgent::start(&home, "opencode", &repo);
    // Somebody else writes to the database: another session's row, or none at all.
    let database = home.join(".local/share/opencode/opencode.db");
    touch(&database, 0);
    let all = listed(&home);
    assert!(!all.sessions().is_empty());
    for session in all.sessions().iter().filter(|one| one["agent"] == "opencode") {
        assert_eq!(session["liveness"]["reason"], "not-attached", "{session:#}");
    }
}

#[test]
fn b1_a_lock_that_copilot_leaves_behind_settles_nothing() {
    let (home, repo) = lab();
    let agent = FakeAgent::start(&home, "copilot", &repo);
    let session = |id: &str, at: i64| {
        let at = time(at);
        let start = json!({"type": "session.start", "id": "e1", "timestamp": at,
            "data": {"sessionId": id, "context": {"cwd": repo}}});
        let prompt = json!({"type": "user.message", "id": "e2", "timestamp": at,
            "data": {"content": "hello"}});
        let below = format!(".copilot/session-state/{id}/events.jsonl");
        home.write(below, format!("{start}\n{prompt}\n"))
    };
    let pid = agent.pid();
    let old = session(TWO, 2 * DAY);
    touch(&old, 2 * DAY);
    session(ONE, 0);
    home.write(format!(".copilot/session-state/{ONE}/inuse.{pid}.lock"), pid.to_string());
    let hold = home.write(format!(".copilot/session-state/{ONE}/inuse.{pid}.hold"), b"");
    let seen = listed(&home);
    assert_eq!(seen.session(ONE)["status"], "running", "{:#}", seen.session(ONE));
    assert_eq!(seen.session(TWO)["liveness"]["reason"], "not-attached");
    assert_eq!(refusal(&gc(&home, "copilot"), &old), "couldBeOpen");
    drop(hold);
}

#[test]
fn t1_nothing_of_a_directory_with_an_unattached_agent_is_collectable() {
    let (home, repo) = lab();
    let path = claude_session(&home, ONE, repo.to_str().unwrap(), "hello");
    age(&path, 10);
    let agent = FakeAgent::start(&home, "claude", &repo);
    assert_eq!(refusal(&gc(&home, "claude-code"), &path), "couldBeOpen");
    drop(agent);
    assert_eq!(items(&gc(&home, "claude-code"), "trashed").len(), 1);
}

#[test]
fn b1_what_was_just_written_is_never_collected() {
    let home = TempHome::new();
    let path = claude_session(&home, ONE, "/w", "hello");
    touch(&path, 5);
    assert_eq!(refusal(&gc(&home, "claude-code"), &path), "justWritten");
    touch(&path, 9 * 60);
    assert_eq!(refusal(&gc(&home, "claude-code"), &path), "justWritten");
    touch(&path, 11 * 60);
    assert_eq!(items(&gc(&home, "claude-code"), "trashed").len(), 1);
}

#[test]
fn p2_a_store_that_cannot_be_listed_gives_nothing_to_collect() {
    let home = TempHome::new();
    let path = claude_session(&home, ONE, "/w", "hello");
    age(&path, 10);
    let broken = home.write(".claude/sessions/4999999.json", b"{\"pid\": 1");
    assert_eq!(refusal(&gc(&home, "claude-code"), &path), "listedInPart");
    fs::remove_file(broken).unwrap();
    assert_eq!(items(&gc(&home, "claude-code"), "trashed").len(), 1);
}

/// A file store of OpenClaw's with one session; its index and transcript.
fn openclaw(home: &TempHome) -> (PathBuf, PathBuf) {
    let below = ".openclaw/agents/main/sessions";
    let entry = json!({"agent:main:main": {"sessionId": ONE, "updatedAt": 1_790_000_000_000_u64}});
    let index = home.write(format!("{below}/sessions.json"), entry.to_string());
    let line = json!({"type": "session", "id": ONE, "timestamp": "2026-11-01T10:00:00.000Z"});
    let path = home.write(format!("{below}/{ONE}.jsonl"), format!("{line}\n"));
    age(&index, 10);
    age(&path, 10);
    (index, path)
}

#[test]
fn h5_gc_takes_nothing_of_openclaws_and_says_what_does() {
    let home = TempHome::new();
    let (index, path) = openclaw(&home);
    let result = gc(&home, "openclaw");
    assert_eq!(refusal(&result, &path), "onlyThrough");
    assert!(result.to_string().contains("ostler store cleanup"), "{result:#}");
    // An entry without a transcript: its file is the index, which is no transcript.
    fs::remove_file(&path).unwrap();
    let result = gc(&home, "openclaw");
    assert!(items(&result, "trashed").is_empty(), "{result:#}");
    assert!(index.exists());
}

#[test]
fn h5_a_session_of_a_service_is_not_dead_while_its_server_lives() {
    let home = TempHome::new();
    openclaw(&home);
    assert_eq!(listed(&home).session(ONE)["status"], "exited");
    let gateway = FakeAgent::with(&home, "openclaw", home.path(), |command| {
        std::os::unix::process::CommandExt::arg0(command, "openclaw-gateway").arg("1000")
    });
    let session = listed(&home).session(ONE);
    assert_liveness(&session, "running", "alive", "running", "derived");
    assert_eq!(run(&home, "ls -q").stdout, format!("{ONE}\n"));
    gateway.kill();
    assert_eq!(listed(&home).session(ONE)["status"], "exited");
}

#[test]
fn p2_backups_of_a_broken_index_stay() {
    let home = TempHome::new();
    let (index, path) = openclaw(&home);
    let backup = home.write(".openclaw/agents/main/sessions/sessions.json.bak.1790000000000", "{}");
    age(&backup, 100);
    fs::write(&index, "{\"agent:main:main\": {\"sess").unwrap();
    let line = "gc --include transcripts,temps --older-than 1s --agent openclaw --yes --json";
    let result = run(&home, line).result();
    assert!(items(&result, "trashed").is_empty(), "{result:#}");
    assert!(backup.exists() && path.exists());
}

/// Where Codex writes a thread.
pub(crate) fn rollout_place(thread: &str) -> String {
    format!(".codex/sessions/2026/11/18/rollout-2026-11-18T00-00-00-{thread}.jsonl")
}

/// A command that Codex asks to run outside its sandbox: nothing on disk says when it was allowed.
#[test]
fn b3_an_escalated_call_waits_until_its_command_runs() {
    let (home, repo) = lab();
    let id = "01a1ec21-1eba-7541-a9bf-0fa4bc115fce";
    let ask = || {
        let asked = json!({"cmd": "touch /etc/x", "sandbox_permissions": "require_escalated"});
        let call = json!({"type": "function_call", "name": "exec_command", "call_id": "c1",
            "arguments": asked.to_string()});
        let lines = [
            json!({"timestamp": time(0), "type": "session_meta", "payload": {"id": id, "cwd": repo}}),
            json!({"timestamp": time(0), "type": "event_msg", "payload": {"type": "task_started"}}),
            json!({"timestamp": time(0), "type": "response_item", "payload": call}),
        ];
        let text = lines.map(|line| format!("{line}\n")).concat();
        home.write(rollout_place(id), text);
    };
    let seen = || run(&home, "ls --json").session(id);
    ask();
    // As the real one, it holds the rollout that it writes.
    let rollout = home.join(rollout_place(id));
    let held = || fs::File::open(&rollout).unwrap();
    let agent = FakeAgent::with(&home, "codex", &repo, |command| command.arg("1000").stdin(held()));
    let waiting = seen();
    assert_eq!(waiting["activity"], "waiting", "{waiting:#}");
    assert_eq!(waiting["waitingFor"], "touch /etc/x");
    assert_eq!(waiting["activityDerived"], true);
    let table = run(&home, "ls").stdout;
    assert!(table.contains("~waiting"), "{table}");
    agent.kill();

    ask();
    fs::copy("/bin/bash", home.join("bin/codex")).unwrap();
    let agent = FakeAgent::with(&home, "codex", &repo, |command| {
        command.args(["-c", "/bin/sleep 30; true"]).stdin(held())
    });
    let children = format!("/proc/{0}/task/{0}/children", agent.pid());
    wait_until("the command runs", || {
        fs::read_to_string(&children).is_ok_and(|pids| !pids.is_empty())
    });
    assert_eq!(seen()["activity"], "working");
    agent.kill();
}

#[test]
fn b4_plain_ls_names_an_agent_from_the_first_second() {
    let (home, repo) = lab();
    let first = FakeAgent::start(&home, "pi", &repo);
    let told = |line: &str| run(&home, line).exits(0);
    let unattached = told("ls --json").result()["unattached"].clone();
    assert_eq!(unattached[0]["pid"], first.pid(), "in a home without any session");
    assert!(told("ls").stderr.contains(&format!("pi (pid {}) runs in", first.pid())));
    let claude = FakeAgent::start(&home, "claude", &repo);
    let old = claude_session(&home, ONE, "/elsewhere", "old");
    age(&old, 10);
    assert!(told("ls").stderr.contains(&format!("claude-code (pid {})", claude.pid())));
}

#[test]
fn b4_without_a_home_ls_is_an_error() {
    for home in [None, Some("relative/home")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command.arg("ls").env_clear().envs(home.map(|home| ("HOME", home)));
        let ran = ran(&mut command).exits(2);
        assert!(ran.stderr.contains("HOME"), "{}", ran.stderr);
        assert!(!ran.stdout.contains("No live"), "{}", ran.stdout);
    }
}

#[test]
fn t2_a_registration_whose_pid_is_text_leaves_its_session_unknown() {
    let home = TempHome::new();
    let path = claude_session(&home, ONE, "/w", "hello");
    age(&path, 10);
    let record = json!({"pid": "12345", "sessionId": ONE, "cwd": "/w"});
    home.write(".claude/sessions/12345.json", record.to_string());
    assert_liveness(&listed(&home).session(ONE), "unknown", "unknown", "incomplete", "derived");
    assert!(items(&gc(&home, "claude-code"), "trashed").is_empty());
}

#[test]
fn b10_one_conversation_in_two_processes_is_shown_as_such() {
    let (home, repo) = lab();
    claude_session(&home, ONE, repo.to_str().unwrap(), "hello");
    let (first, second) =
        (FakeAgent::start(&home, "claude", &repo), FakeAgent::start(&home, "claude", &repo));
    let mut idle = first.registration(ONE, &repo);
    idle["status"] = "idle".into();
    super::live::register(&home, &first, &idle);
    super::live::register(&home, &second, &second.registration(ONE, &repo));
    let session = listed(&home).session(ONE);
    assert_eq!(session["activity"], "working", "{session:#}");
    let mut pids: Vec<u64> = session["owners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|owner| owner["pid"].as_u64().unwrap())
        .collect();
    pids.sort_unstable();
    let mut expected = [u64::from(first.pid()), u64::from(second.pid())];
    expected.sort_unstable();
    assert_eq!(pids, expected);
    let warned = run(&home, "ls").exits(0).stderr;
    assert!(warned.contains("open in 2 processes"), "{warned}");
    let shown = run(&home, &format!("show {ONE}")).exits(0).stdout;
    assert!(shown.contains("warning") && shown.matches("process").count() >= 2, "{shown}");
}

#[test]
fn b13_a_finished_subagent_is_over_and_kept_with_its_parent() {
    let (home, repo) = lab();
    let transcript = claude_session(&home, ONE, repo.to_str().unwrap(), "hello");
    let below = transcript.with_extension("").join("subagents");
    fs::create_dir_all(&below).unwrap();
    let line = json!({"type": "assistant", "sessionId": ONE, "agentId": "ab12", "isSidechain": true,
        "cwd": repo, "timestamp": "2026-11-15T10:00:05.000Z", "message": {"id": "m", "role": "assistant",
        "content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"}});
    let child = below.join("agent-ab12.jsonl");
    fs::write(&child, format!("{line}\n")).unwrap();
    let meta = below.join("agent-ab12.meta.json");
    fs::write(&meta, json!({"agentType": "x"}).to_string()).unwrap();
    let agent = FakeAgent::start(&home, "claude", &repo);
    super::live::register(&home, &agent, &agent.registration(ONE, &repo));
    let subagent = || run(&home, "ls -a --subagents --json").session("ab12");
    assert_eq!(subagent()["status"], "running");
    fs::write(&meta, json!({"agentType": "x", "finished": true}).to_string()).unwrap();
    assert_liveness(&subagent(), "exited", "dead", "recorded", "proven");
    age(&child, 10);
    assert!(items(&gc(&home, "claude-code"), "trashed").is_empty(), "its parent lives");
}

#[test]
fn p6_what_could_not_be_finalized_is_called_exited_and_why() {
    let home = TempHome::new();
    let mut agent = super::agent::Agent::start(&home, ONE);
    agent.hook("SessionStart", json!({}));
    agent.hook("UserPromptSubmit", json!({"prompt": "go"}));
    agent.kill();
    let status = run(&home, "status --all --no-sweep").exits(0);
    assert!(status.stdout.contains("exited"), "{}", status.stdout);
    assert!(status.stderr.contains("not finalized: `--no-sweep` was given"), "{}", status.stderr);
    let told = run(&home, "status --all --no-sweep --json").result();
    assert_eq!(told["sessions"][0]["status"], "exited", "{told:#}");
}

#[test]
fn p5_a_proven_end_stays_known_to_a_blind_observer_until_a_later_sign() {
    let home = TempHome::new();
    let mut agent = super::agent::Agent::start(&home, ONE);
    agent.hook("SessionStart", json!({}));
    agent.hook("UserPromptSubmit", json!({"prompt": "go"}));
    agent.kill();
    run(&home, "finalize").exits(0);
    let session = listed(&home).session(ONE);
    assert_liveness(&session, "exited", "dead", "recorded", "proven");
    let events = run(&home, "status --all --json").result();
    assert_eq!(session["endedAt"], events["ended"][0]["at"], "one end, not two");
    let unshare = ["--pid", "--fork", "--mount-proc"];
    let permitted = Command::new("unshare").args(unshare).arg("true").output();
    if permitted.is_ok_and(|output| output.status.success()) {
        let mut inside = Command::new("unshare");
        inside.args(unshare).arg(env!("CARGO_BIN_EXE_ostler")).args(["ls", "-a", "--json"]);
        inside.env_clear();
        for (name, value) in ostler(&home).get_envs() {
            inside.env(name, value.unwrap_or_default());
        }
        assert_liveness(&ran(&mut inside).session(ONE), "exited", "dead", "recorded", "proven");
    }
    // Written since: what was recorded holds no longer.
    let path = PathBuf::from(session["transcript"]["path"].as_str().unwrap());
    let later = SystemTime::now() + Duration::from_secs(60);
    fs::File::options().append(true).open(path).unwrap().set_modified(later).unwrap();
    assert_eq!(listed(&home).session(ONE)["liveness"]["reason"], "no-process");
}

#[test]
fn b18_the_start_of_a_session_does_not_move() {
    let (home, repo) = lab();
    let agent = FakeAgent::start(&home, "claude", &repo);
    let mut record = agent.registration(ONE, &repo);
    let then = model::time::Time::parse(&time(600)).unwrap().as_millis();
    record["startedAt"] = then.into();
    super::live::register(&home, &agent, &record);
    let started = || run(&home, "ls --json").session(ONE)["startedAt"].take();
    assert_eq!(started(), Value::Null, "nothing has begun but the process");
    claude_session(&home, ONE, repo.to_str().unwrap(), "hello");
    let first = started();
    assert!(first.is_string());
    record["status"] = "idle".into();
    super::live::register(&home, &agent, &record);
    assert_eq!(started(), first);
    agent.kill();
    assert_eq!(run(&home, "ls -a --json").session(ONE)["startedAt"], first);
}

/// Copilot's hooks tell nothing when a session is opened inside it.
#[test]
fn b1_a_run_that_a_hook_told_of_may_have_resumed_another_session_since() {
    let (home, repo) = lab();
    let write = |id: &str, seconds_ago: i64| {
        let at = time(seconds_ago);
        let lines = [
            json!({"type": "session.start", "timestamp": at, "data": {"sessionId": id,
                "context": {"cwd": repo}, "startTime": at}}),
            json!({"type": "user.message", "timestamp": at, "data": {"content": "do it"}}),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let path = home.write(format!(".copilot/session-state/{id}/events.jsonl"), text);
        touch(&path, seconds_ago);
        path
    };
    let old = write(ONE, 2 * DAY);
    let agent = FakeAgent::start(&home, "copilot", &repo);
    write(TWO, 0);
    let hook = |event: &str, more: Value| {
        let mut payload = json!({"sessionId": TWO, "cwd": repo, "pid": agent.pid()});
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut command = ostler(&home);
        command.args(["hook", "copilot", event]).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), payload.to_string().as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
    };
    hook("sessionStart", json!({"source": "new"}));
    hook("userPromptSubmitted", json!({"prompt": "do it"}));
    let ran = listed(&home);
    assert_eq!(ran.session(TWO)["status"], "running");
    assert_liveness(&ran.session(ONE), "exited", "dead", "not-attached", "derived");
    assert_eq!(refusal(&gc(&home, "copilot"), &old), "couldBeOpen");
    agent.kill();
}

/// Aider keeps the session at the top of the work tree, wherever below it is started.
#[test]
fn b1_a_run_below_the_directory_of_a_session_could_have_it_open() {
    let (home, repo) = lab();
    let below = repo.join("deep/er");
    fs::create_dir_all(&below).unwrap();
    let start = "# aider chat started at 2026-01-15 10:00:00\n\n#### hello\n\nanswer\n";
    let path = repo.join(".aider.chat.history.md");
    fs::write(&path, start).unwrap();
    touch(&path, 2 * DAY);
    let agent = FakeAgent::start(&home, "aider", &below);
    let mut command = ostler(&home);
    command.args(["ls", "-a", "--json"]).current_dir(&repo).env("PWD", &repo);
    let sessions = ran(&mut command).sessions();
    let aider = sessions.iter().find(|one| one["agent"] == "aider").unwrap();
    assert_liveness(aider, "exited", "dead", "not-attached", "derived");
    agent.kill();
}

#[test]
fn what_hooks_told_and_cannot_be_read_is_a_doubt_for_all_sessions() {
    let (home, repo) = lab();
    let path = claude_session(&home, ONE, repo.to_str().unwrap(), "hello");
    age(&path, 10);
    assert_liveness(&listed(&home).session(ONE), "exited", "dead", "no-process", "proven");
    let spool = home.join(".local/state/ostler/spool/events.jsonl");
    fs::create_dir_all(&spool).unwrap();
    for private in spool.ancestors().take(3) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(private, mode).unwrap();
    }
    let ran = run(&home, "ls --json");
    assert_liveness(&ran.session(ONE), "unknown", "unknown", "unreadable", "derived");
    assert!(items(&gc(&home, "claude-code"), "trashed").is_empty());
    fs::remove_dir(&spool).unwrap();
    assert_eq!(items(&gc(&home, "claude-code"), "trashed"), [path.to_str().unwrap()]);
}
