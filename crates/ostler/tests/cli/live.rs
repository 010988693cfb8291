//! Liveness end to end: fake agents that are real processes, registered the way real ones are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use testkit::home::TempHome;

use super::collect::age;
use super::run::{Ran, claude_session, ostler, ran, run};

const ID: &str = "11111111-1111-4111-8111-111111111111";
const OTHER: &str = "22222222-2222-4222-8222-222222222222";

/// A process that looks like an agent and does nothing. Killed with the value.
pub(crate) struct FakeAgent {
    child: Child,
}

impl FakeAgent {
    /// Runs a program of that name in `directory`, with that home.
    pub(crate) fn start(home: &TempHome, name: &str, directory: &Path) -> Self {
        Self::with(home, name, directory, |command| command.arg("1000"))
    }

    pub(crate) fn with(
        home: &TempHome,
        name: &str,
        directory: &Path,
        prepare: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let program = home.join(format!("bin/{name}"));
        fs::create_dir_all(home.join("bin")).unwrap();
        if !program.exists() {
            fs::copy("/bin/sleep", &program).unwrap();
        }
        let mut command = Command::new(program);
        command.env_clear().env("HOME", home.path()).current_dir(directory);
        let child = prepare(&mut command).stdout(Stdio::null()).spawn().unwrap();
        Self { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Field 22 of its stat line: spawn has returned, so the program has been executed.
    fn start_ticks(&self) -> u64 {
        start_ticks(self.pid())
    }

    /// What Claude Code writes about itself.
    pub(crate) fn registration(&self, session: &str, directory: &Path) -> Value {
        json!({
            "pid": self.pid(),
            "sessionId": session,
            "cwd": directory,
            "startedAt": now_ms(),
            "procStart": self.start_ticks().to_string(),
            "version": "2.1.325",
            "kind": "interactive",
            "pidDomain": format!("linux:{}:{}", machine_id(), pid_namespace()),
            "name": "lab",
            "status": "busy",
            "statusUpdatedAt": now_ms(),
        })
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.pid().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Field 22 of a process's stat line.
pub(crate) fn start_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_comm = &stat[stat.rfind(')').unwrap() + 2..];
    after_comm.split(' ').nth(19).unwrap().parse().unwrap()
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

fn machine_id() -> String {
    fs::read_to_string("/etc/machine-id").unwrap_or_default().trim().to_owned()
}

fn pid_namespace() -> String {
    fs::read_link("/proc/self/ns/pid").unwrap().to_string_lossy().into_owned()
}

/// A home with a repository in it.
pub(crate) fn lab() -> (TempHome, PathBuf) {
    let home = TempHome::new();
    let repository = fs::canonicalize(home.path()).unwrap().join("repo");
    fs::create_dir(&repository).unwrap();
    (home, repository)
}

pub(crate) fn register(home: &TempHome, agent: &FakeAgent, record: &Value) -> PathBuf {
    home.write(format!(".claude/sessions/{}.json", agent.pid()), record.to_string())
}

pub(crate) fn listed(home: &TempHome) -> Ran {
    run(home, "ls -a --json")
}

#[track_caller]
pub(crate) fn assert_liveness(
    session: &Value,
    status: &str,
    state: &str,
    reason: &str,
    certainty: &str,
) {
    let liveness = &session["liveness"];
    let seen =
        (&session["status"], &liveness["state"], &liveness["reason"], &liveness["certainty"]);
    assert_eq!(
        seen,
        (&json!(status), &json!(state), &json!(reason), &json!(certainty)),
        "{session:#}"
    );
}

#[test]
fn a_registered_process_owns_its_session() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let agent = FakeAgent::start(&home, "claude", &repo);
    register(&home, &agent, &agent.registration(ID, &repo));
    let session = run(&home, "ls --json").exits(0).session(ID);
    assert_liveness(&session, "running", "alive", "running", "proven");
    assert_eq!(session["liveness"]["source"], "native");
    assert_eq!(session["activity"], "working");
    assert_eq!(session["owner"]["pid"], agent.pid());
    assert_eq!(session["owner"]["start"], agent.start_ticks());
    assert_eq!(session["owner"]["comm"], "claude");
    assert_eq!(session["name"], "lab");
}

#[test]
fn what_it_waits_for_is_said() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let agent = FakeAgent::start(&home, "claude", &repo);
    let mut record = agent.registration(ID, &repo);
    record["status"] = "waiting".into();
    record["waitingFor"] = "permission prompt".into();
    register(&home, &agent, &record);
    let session = listed(&home).session(ID);
    assert_eq!(
        (&session["activity"], &session["waitingFor"]),
        (&json!("waiting"), &json!("permission prompt"))
    );
    assert_eq!(run(&home, "ls --activity waiting -q").stdout, format!("{ID}\n"));
    assert_eq!(run(&home, "ls --activity idle -q").stdout, "");
}

#[test]
fn a_killed_process_leaves_an_exited_session() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let agent = FakeAgent::start(&home, "claude", &repo);
    register(&home, &agent, &agent.registration(ID, &repo));
    agent.kill();
    let session = listed(&home).session(ID);
    assert_liveness(&session, "exited", "dead", "gone", "proven");
    assert_eq!(session.get("activity"), None);
    assert_eq!(run(&home, "ls -q").stdout, "", "not listed as live");
}

#[test]
fn a_zombie_is_dead() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let agent = FakeAgent::start(&home, "claude", &repo);
    register(&home, &agent, &agent.registration(ID, &repo));
    agent.signal("-KILL");
    wait_until("the process is a zombie", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", agent.pid())).unwrap();
        stat[stat.rfind(')').unwrap()..].starts_with(") Z")
    });
    assert_liveness(&listed(&home).session(ID), "exited", "dead", "zombie", "proven");
}

#[test]
fn a_stopped_process_is_alive() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let agent = FakeAgent::start(&home, "claude", &repo);
    register(&home, &agent, &agent.registration(ID, &repo));
    agent.signal("-STOP");
    wait_until("the process is stopped", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", agent.pid())).unwrap();
        stat[stat.rfind(')').unwrap()..].starts_with(") T")
    });
    assert_liveness(&listed(&home).session(ID), "running", "alive", "stopped", "proven");
}

#[test]
fn a_recycled_pid_fools_nobody() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let elsewhere = TempHome::new();
    let agent = FakeAgent::start(&home, "claude", elsewhere.path());
    let mut record = agent.registration(ID, &repo);
    record["procStart"] = (agent.start_ticks() - 100).to_string().into();
    register(&home, &agent, &record);
    assert_liveness(&listed(&home).session(ID), "exited", "dead", "reused", "proven");
}

#[test]
fn another_machine_or_namespace_is_unknown_and_stays_listed() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let elsewhere = TempHome::new();
    let agent = FakeAgent::start(&home, "claude", elsewhere.path());
    let mut record = agent.registration(ID, &repo);
    record["pidDomain"] = format!("linux:{}:{}", "0".repeat(32), pid_namespace()).into();
    register(&home, &agent, &record);
    assert_liveness(&listed(&home).session(ID), "unknown", "unknown", "foreign-host", "derived");
    record["pidDomain"] = format!("linux:{}:pid:[4026000000]", machine_id()).into();
    register(&home, &agent, &record);
    assert_liveness(
        &listed(&home).session(ID),
        "unknown",
        "unknown",
        "foreign-namespace",
        "derived",
    );
    assert_eq!(run(&home, "ls -q").stdout, format!("{ID}\n"));
}

/// The clock was set forward or back after the agent wrote its record: the record's times are off by
/// the step, and everything else is true.
#[test]
fn h1_whatever_the_clock_was_set_to_a_live_session_runs_and_stays() {
    let (home, repo) = lab();
    let transcript = claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let agent = FakeAgent::start(&home, "claude", &repo);
    for step_s in [-2_592_000_i64, -86_400, -5, 5, 3600, 7200, 86_400, 2_592_000] {
        let written = now_ms().checked_add_signed(-step_s * 1000).unwrap();
        let mut record = agent.registration(ID, &repo);
        record["startedAt"] = written.into();
        record["statusUpdatedAt"] = written.into();
        let file = register(&home, &agent, &record);
        let modified = UNIX_EPOCH + Duration::from_millis(written);
        for path in [&file, &transcript] {
            fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
        }
        let session = listed(&home).session(ID);
        assert_eq!(session["liveness"]["state"], "alive", "{step_s}: {session:#}");
        run(&home, "gc --include transcripts --older-than 0s --agent claude-code --yes");
        assert!(transcript.exists(), "{step_s}");
        // The same with what older versions write: a pid and a time.
        record.as_object_mut().unwrap().remove("procStart");
        register(&home, &agent, &record);
        let session = listed(&home).session(ID);
        assert_ne!(session["liveness"]["state"], "dead", "{step_s}: {session:#}");
        run(&home, "gc --include transcripts --older-than 0s --agent claude-code --yes");
        assert!(transcript.exists(), "{step_s}");
    }
}

#[test]
fn of_two_registrations_the_live_one_wins() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let dead = FakeAgent::start(&home, "claude", &repo);
    register(&home, &dead, &dead.registration(ID, &repo));
    dead.kill();
    let alive = FakeAgent::start(&home, "claude", &repo);
    register(&home, &alive, &alive.registration(ID, &repo));
    let session = listed(&home).session(ID);
    assert_liveness(&session, "running", "alive", "running", "proven");
    assert_eq!(session["owner"]["pid"], alive.pid());
}

#[test]
fn after_clear_the_old_session_is_exited_and_the_new_one_runs() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let agent = FakeAgent::start(&home, "claude", &repo);
    // The transcript of the new session does not exist yet.
    register(&home, &agent, &agent.registration(OTHER, &repo));
    let ran = listed(&home);
    assert_eq!(ran.session(ID)["status"], "exited");
    let new = ran.session(OTHER);
    assert_liveness(&new, "running", "alive", "running", "proven");
    assert_eq!(new.get("transcript"), None);
    assert_eq!(new["cwd"], repo.to_str().unwrap());
}

#[test]
fn a_session_killed_before_it_wrote_anything_is_over_and_not_lost() {
    let (home, repo) = lab();
    let agent = FakeAgent::start(&home, "claude", &repo);
    register(&home, &agent, &agent.registration(ID, &repo));
    agent.kill();
    let session = listed(&home).exits(0).session(ID);
    assert_liveness(&session, "exited", "dead", "gone", "proven");
    assert_eq!(session["cwd"], repo.to_str().unwrap());
    assert_eq!(run(&home, "ls -q").stdout, "", "not listed as live");
}

#[test]
fn an_empty_lock_that_outlived_its_process_is_no_session() {
    let (home, _) = lab();
    let id = "01a1e059-e0bc-7313-8247-ecfc1125a526";
    home.write(format!(".codex/thread-writer-locks/{id}.lock"), b"");
    assert!(listed(&home).exits(0).sessions().is_empty());
}

#[test]
fn a_registration_that_cannot_be_read_protects() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    // Not recognisable as the agent: only the registration speaks for it.
    let agent = FakeAgent::start(&home, "something-else", &repo);
    for bytes in [&b"{\"pid\": 1"[..], b"", b"[]", &[0xff; 40]] {
        let path = home.write(format!(".claude/sessions/{}.json", agent.pid()), bytes);
        let ran = listed(&home).exits(12);
        assert_liveness(&ran.session(ID), "unknown", "unknown", "unreadable", "derived");
        assert_eq!(ran.result()["incomplete"][0]["path"], path.to_str().unwrap());
    }
    home.fifo(format!(".claude/sessions/{}.json", agent.pid()));
    let ran = listed(&home).exits(12);
    assert_eq!(ran.session(ID)["status"], "unknown", "a FIFO in its place");
}

#[test]
fn a_record_without_a_start_time_proves_only_absence() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let elsewhere = TempHome::new();
    let agent = FakeAgent::start(&home, "claude", elsewhere.path());
    let mut record = agent.registration(ID, &repo);
    record.as_object_mut().unwrap().remove("procStart");
    register(&home, &agent, &record);
    assert_liveness(&listed(&home).session(ID), "unknown", "unknown", "incomplete", "derived");
    // One that was started before anybody watched the clock may be the one, by any clock.
    let before = now_ms() - 60_000;
    record["startedAt"] = before.into();
    record["statusUpdatedAt"] = before.into();
    register(&home, &agent, &record);
    let seen = listed(&home).session(ID);
    assert_liveness(&seen, "unknown", "unknown", "clock-unproven", "derived");
    // One that was started since, and after the record was written, cannot be.
    let later = FakeAgent::start(&home, "claude", elsewhere.path());
    fs::remove_file(home.join(format!(".claude/sessions/{}.json", agent.pid()))).unwrap();
    record["pid"] = later.pid().into();
    register(&home, &later, &record);
    assert_liveness(&listed(&home).session(ID), "exited", "dead", "reused", "proven");
}

#[test]
fn a_process_in_the_directory_is_only_circumstance() {
    let (home, repo) = lab();
    let agent = FakeAgent::start(&home, "claude", &repo);
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let session = listed(&home).session(ID);
    assert_liveness(&session, "running", "alive", "running", "derived");
    assert_eq!(session["liveness"]["source"], "process");
    assert_eq!(session.get("owner"), None);
    agent.kill();
    assert_liveness(&listed(&home).session(ID), "exited", "dead", "no-process", "proven");
}

#[test]
fn a_process_elsewhere_or_of_another_home_is_none_of_its() {
    let (home, repo) = lab();
    let elsewhere = TempHome::new();
    let _there = FakeAgent::start(&home, "claude", elsewhere.path());
    let _stranger = FakeAgent::start(&elsewhere, "claude", &repo);
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    assert_liveness(&listed(&home).session(ID), "exited", "dead", "no-process", "proven");
}

#[test]
fn an_agent_that_has_written_nothing_yet_is_reported_beside_the_sessions() {
    let (home, repo) = lab();
    let elsewhere = TempHome::new();
    claude_session(&home, ID, "/somewhere/else", "hello");
    let agent = FakeAgent::start(&home, "claude", &repo);
    let ran = listed(&home).exits(0);
    assert_eq!(ran.session(ID)["status"], "exited");
    let unattached = &ran.result()["unattached"];
    assert_eq!(unattached[0]["pid"], agent.pid());
    assert_eq!(unattached[0]["cwd"], repo.to_str().unwrap());
    assert!(run(&elsewhere, "ls -a --json").result().get("unattached").is_none());
}

#[test]
fn the_session_on_the_command_line_is_meant() {
    let (home, repo) = lab();
    age(&claude_session(&home, ID, repo.to_str().unwrap(), "old"), 2);
    age(&claude_session(&home, OTHER, repo.to_str().unwrap(), "newer"), 1);
    let script = home.write(
        "bin/node_modules/@anthropic-ai/claude-code/cli.py",
        "import time; time.sleep(1000)\n",
    );
    let mut child = Command::new("python3")
        .arg(script)
        .args(["--resume", ID])
        .env_clear()
        .env("HOME", home.path())
        .current_dir(&repo)
        .spawn()
        .unwrap();
    let session = listed(&home);
    let (old, newer) = (session.session(ID), session.session(OTHER));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_liveness(&old, "running", "alive", "running", "derived");
    assert_eq!(newer["status"], "exited");
}

#[test]
fn forty_idle_days_with_a_live_process_is_alive() {
    let (home, repo) = lab();
    let path = claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let agent = FakeAgent::start(&home, "claude", &repo);
    let mut record = agent.registration(ID, &repo);
    record["status"] = "idle".into();
    register(&home, &agent, &record);
    let long_ago = SystemTime::now() - Duration::from_secs(40 * 86_400);
    fs::File::options().append(true).open(path).unwrap().set_modified(long_ago).unwrap();
    let session = listed(&home).session(ID);
    assert_liveness(&session, "running", "alive", "running", "proven");
    assert_eq!(session["activity"], "idle");
}

#[test]
fn an_open_turn_without_a_process_is_dead() {
    let (home, repo) = lab();
    let path = claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let open = "{\"type\":\"user\",\"message\":{\"content\":\"and now?\"}}\n";
    fs::write(&path, fs::read_to_string(&path).unwrap() + open).unwrap();
    assert_liveness(&listed(&home).session(ID), "exited", "dead", "no-process", "proven");
}

#[test]
fn working_without_a_sign_of_life_is_stale_and_never_dead() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let agent = FakeAgent::start(&home, "claude", &repo);
    register(&home, &agent, &agent.registration(ID, &repo));
    let session = listed(&home).session(ID);
    assert_eq!(session.get("stale"), None);
    let impatient =
        || ran(ostler(&home).env("OSTLER_STALE_AFTER", "0s").args(["ls", "--json"])).session(ID);
    wait_until("the clock has moved on", || impatient().get("stale") == Some(&json!(true)));
    assert_eq!(impatient()["status"], "running");
}

#[test]
fn an_orphaned_tool_with_the_session_in_its_environment_proves_nothing() {
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "hello");
    let _tool = FakeAgent::with(&home, "some-tool", &repo, |command| {
        command.arg("1000").env("CLAUDE_CODE_SESSION_ID", ID).env("CLAUDECODE", "1")
    });
    assert_liveness(&listed(&home).session(ID), "exited", "dead", "no-process", "proven");
}

#[test]
fn codex_writer_locks_name_their_holder() {
    let (home, repo) = lab();
    let id = "01a1e059-e0bc-7313-8247-ecfc1125a526";
    let meta = json!({"timestamp": "2026-11-15T10:00:00.000Z", "type": "session_meta",
        "payload": {"id": id, "cwd": repo, "cli_version": "0.166.0", "source": "cli"}});
    home.write(
        format!(".codex/sessions/2026/11/15/rollout-2026-11-15T10-00-00-{id}.jsonl"),
        format!("{meta}\n"),
    );
    let lock = home.write(format!(".codex/thread-writer-locks/{id}.lock"), b"");
    let session = listed(&home).session(id);
    assert_liveness(&session, "exited", "dead", "gone", "proven");
    let file = fs::File::open(&lock).unwrap();
    file.lock().unwrap();
    let session = listed(&home).session(id);
    assert_liveness(&session, "running", "alive", "running", "proven");
    assert_eq!(session["owner"]["pid"], std::process::id());
    drop(file);
    assert_eq!(listed(&home).session(id)["status"], "exited");
}

#[test]
fn a_server_of_many_sessions_makes_none_of_its_directory_live() {
    let (home, repo) = lab();
    let script = home.write("bin/codex.py", "import time; time.sleep(1000)\n");
    let mut server = Command::new("python3")
        .arg(script)
        .args(["app-server", "--listen", "unix://"])
        .env_clear()
        .env("HOME", home.path())
        .current_dir(&repo)
        .spawn()
        .unwrap();
    let id = "01a1e059-e0bc-7313-8247-ecfc1125a526";
    let meta = json!({"timestamp": "2026-11-15T10:00:00.000Z", "type": "session_meta",
        "payload": {"id": id, "cwd": repo, "cli_version": "0.166.0", "source": "cli"}});
    home.write(
        format!(".codex/sessions/2026/11/15/rollout-2026-11-15T10-00-00-{id}.jsonl"),
        format!("{meta}\n"),
    );
    let ran = listed(&home);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_liveness(&ran.session(id), "exited", "dead", "no-process", "proven");
    assert_eq!(ran.result().get("unattached"), None);
}

#[test]
fn copilot_is_proved_by_the_file_it_holds_open() {
    let (home, repo) = lab();
    let id = "6125af29-0762-4b33-a944-13a0f18430cf";
    let start = json!({"type": "session.start", "id": "e1", "timestamp": "2026-11-15T10:00:00.000Z",
        "data": {"sessionId": id, "context": {"cwd": repo}}});
    home.write(format!(".copilot/session-state/{id}/events.jsonl"), format!("{start}\n"));
    let place = format!(".copilot/session-state/{id}/inuse");
    let hold = home.write(format!("{place}.hold"), b"");
    let holder = FakeAgent::with(&home, "holder", &repo, |command| {
        command.arg("1000").stdin(fs::File::open(&hold).unwrap())
    });
    let pid = holder.pid();
    home.write(format!("{place}.{pid}.lock"), pid.to_string());
    assert_liveness(&listed(&home).session(id), "unknown", "unknown", "incomplete", "derived");
    fs::rename(&hold, home.join(format!("{place}.{pid}.hold"))).unwrap();
    let session = listed(&home).session(id);
    assert_liveness(&session, "running", "alive", "running", "proven");
    assert_eq!(session["owner"]["pid"], pid);
    holder.kill();
    assert_liveness(&listed(&home).session(id), "exited", "dead", "gone", "proven");
}

#[test]
fn from_inside_another_pid_namespace_nothing_is_called_dead() {
    let unshare = ["--pid", "--fork", "--mount-proc"];
    let permitted = Command::new("unshare").args(unshare).arg("true").output();
    if !permitted.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: unshare --pid is not permitted here");
        return;
    }
    let (home, repo) = lab();
    claude_session(&home, ID, repo.to_str().unwrap(), "registered");
    claude_session(&home, OTHER, "/elsewhere", "claimed by nothing");
    let agent = FakeAgent::start(&home, "claude", &repo);
    register(&home, &agent, &agent.registration(ID, &repo));
    let inside = |line: &str| {
        let mut command = Command::new("unshare");
        command
            .args(unshare)
            .arg(env!("CARGO_BIN_EXE_ostler"))
            .args(line.split(' '))
            .env_clear()
            .env("HOME", home.path());
        ran(&mut command)
    };
    let seen = inside("ls --json");
    assert_liveness(&seen.session(ID), "unknown", "unknown", "foreign-namespace", "derived");
    assert_liveness(&seen.session(OTHER), "unknown", "unknown", "blind", "derived");
    let why = inside(&format!("why {ID} --json")).result();
    assert_eq!(why["collect"]["allowed"], false);
    // From outside, the truth.
    assert_eq!(listed(&home).session(ID)["status"], "running");
    assert_eq!(listed(&home).session(OTHER)["status"], "exited");
}

/// Waits for a named condition.
#[track_caller]
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
