//! Conversations that go on (control.md rows 39 to 52): the right one or none, and never two holders.

use serde_json::Value;
use testkit::pause::Pauses;

use super::launch::InstalledClaude;
use super::stage::{is_alive, kill, until};

/// A conversation that no process holds any more.
fn paused(options: &[&str]) -> (InstalledClaude, String) {
    let claude = InstalledClaude::new(&[]);
    let (code, answer) = claude.run(&["launch", "claude", "begin", "--headless", "--wait", "idle"]);
    assert_eq!(code, 0, "{answer}");
    let id = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
    claude.install(options);
    (claude, id)
}

fn started(claude: &InstalledClaude) -> usize {
    claude.noted("started").len()
}

fn reason(answer: &Value) -> &Value {
    &answer["error"]["details"]["reason"]
}

#[test]
fn row_39_a_resumed_conversation_keeps_its_id_and_its_file() {
    let (claude, id) = paused(&[]);
    let (code, answer) = claude.run(&["resume", &id[..8], "and go on"]);
    let launch = &answer["result"];
    assert_eq!((code, &launch["state"]), (0, &"accepted".into()), "{answer}");
    assert_eq!((&launch["session"]["id"], &launch["resumed"]), (&id.as_str().into(), &true.into()));
    assert_eq!(claude.noted("argv")[1], serde_json::json!(["--resume", id]));
    let record =
        std::fs::read_to_string(launch["session"]["transcript"].as_str().unwrap()).unwrap();
    assert!(record.contains("begin") && record.contains("and go on"));
}

#[test]
fn row_40_what_is_not_a_conversation_starts_nothing() {
    let (claude, id) = paused(&[]);
    let before = started(&claude);
    for (words, expected) in [
        (["resume", "00000000-0000-4000-8000-000000000000"], 3),
        (["resume", "no such name"], 3),
        (["resume", "-"], 2),
    ] {
        let (code, answer) = claude.run(&words);
        assert_eq!(code, expected, "{words:?} {answer}");
    }
    let (code, _) = claude.run(&["resume", &format!("codex:{id}")]);
    assert_eq!((code, started(&claude)), (3, before));
    // Another conversation whose id begins alike.
    let path = claude.stage.home.join(format!(".claude/projects/-x/{id}.jsonl"));
    let twin = format!("{}-0000-4000-8000-000000000000", &id[..8]);
    let text = std::fs::read_to_string(path).unwrap().replace(&id, &twin);
    claude.stage.home.write(format!(".claude/projects/-x/{twin}.jsonl"), text);
    let (code, answer) = claude.run(&["resume", &id[..8]]);
    assert_eq!((code, started(&claude)), (2, before), "{answer}");
}

#[test]
fn row_41_a_conversation_that_is_held_is_not_resumed_and_two_at_once_give_one_start() {
    let (claude, id) = paused(&["start=0.4"]);
    let before = started(&claude);
    let codes: Vec<i32> = std::thread::scope(|threads| {
        let resume = |_| threads.spawn(|| claude.run(&["resume", &id]));
        let both: Vec<_> = (0..2).map(resume).collect();
        both.into_iter().map(|one| one.join().unwrap().0).collect()
    });
    let mut sorted = codes;
    sorted.sort_unstable();
    assert_eq!((sorted, started(&claude)), (vec![0, 13], before + 1));
    for words in [vec!["resume", &id], vec!["resume", &id, "x", "--headless"]] {
        let (code, answer) = claude.run(&words);
        assert_eq!((code, reason(&answer)), (13, &"held".into()), "{answer}");
        assert!(answer["error"]["hint"].as_str().unwrap().contains("ostler attach"), "{answer}");
    }
    assert_eq!(started(&claude), before + 1);
}

#[test]
fn row_43_it_works_in_its_own_directory_or_not_at_all() {
    let (claude, _) = paused(&[]);
    let (work, other) = (claude.stage.home.join("work"), claude.stage.home.join("other"));
    for directory in [&work, &other] {
        std::fs::create_dir(directory).unwrap();
    }
    let words = ["launch", "claude", "in work", "--headless", "--wait", "idle", "--cwd"];
    let (_, answer) = claude.run(&[&words[..], &[work.to_str().unwrap()]].concat());
    let id = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
    let (code, answer) = claude.run(&["resume", &id, "--dry-run"]);
    assert_eq!((code, &answer["result"]["cwd"]), (0, &work.to_str().unwrap().into()), "{answer}");
    // From wherever it is asked for.
    let mut elsewhere = claude.command();
    elsewhere.current_dir(&other).args(["resume", &id, "--dry-run", "--json"]);
    let elsewhere = super::stage::ran(&mut elsewhere).exits(0).result();
    assert_eq!(elsewhere["cwd"], work.to_str().unwrap(), "{elsewhere}");
    let before = started(&claude);
    std::fs::rename(&work, claude.stage.home.join("moved")).unwrap();
    let (code, answer) = claude.run(&["resume", &id]);
    assert_eq!((code, reason(&answer)), (13, &"directory-missing".into()), "{answer}");
    std::os::unix::fs::symlink(&other, &work).unwrap();
    let (code, answer) = claude.run(&["resume", &id]);
    assert_eq!((code, reason(&answer)), (13, &"directory-missing".into()), "{answer}");
    assert_eq!(started(&claude), before);
}

#[test]
fn row_44_an_agent_that_begins_another_conversation_is_stopped_and_told_nothing() {
    for mode in [&["--wait", "accepted"][..], &["--headless"]] {
        let (claude, id) = paused(&["wrong=1", "late=1"]);
        let prompts = claude.noted("pasted").len();
        let (code, answer) = claude.run(&[&["resume", &id, "a secret plan"], mode].concat());
        let launch = &answer["error"]["details"]["launch"];
        assert_eq!((code, &answer["error"]["code"]), (15, &"NOT_DELIVERED".into()), "{answer}");
        assert_eq!(launch["state"], "wrong-conversation", "{answer}");
        let pid = u32::try_from(launch["process"]["pid"].as_u64().unwrap()).unwrap();
        until("the end of the wrong one", || !is_alive(pid));
        assert_eq!(claude.noted("pasted").len(), prompts);
    }
}

#[test]
fn row_47_a_fork_is_a_new_conversation_and_the_old_file_stays() {
    let (claude, id) = paused(&[]);
    let (_, shown) = claude.run(&["show", &id]);
    let path = find_text(&shown, &format!("{id}.jsonl")).expect("its transcript");
    let before = std::fs::read(&path).unwrap();
    let (code, answer) = claude.run(&["resume", &id, "another way", "--fork"]);
    let launch = &answer["result"];
    assert_eq!((code, &launch["state"]), (0, &"accepted".into()), "{answer}");
    assert_ne!(launch["session"]["id"], id.as_str());
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

fn find_text(value: &Value, end: &str) -> Option<String> {
    match value {
        Value::String(text) if text.ends_with(end) => Some(text.clone()),
        Value::Array(all) => all.iter().find_map(|one| find_text(one, end)),
        Value::Object(all) => all.values().find_map(|one| find_text(one, end)),
        _ => None,
    }
}

/// An agent outside of ostler's terminals: the test is its parent, on no terminal.
pub(super) struct ForeignClaude(std::process::Child);

impl ForeignClaude {
    pub(super) fn start(claude: &InstalledClaude, id: &str) -> Self {
        let mut command = claude.command();
        let words = ["-qc", &format!("bin/claude --resume {id}"), "/dev/null"];
        let program = std::mem::replace(&mut command, std::process::Command::new("script"));
        for (key, value) in program.get_envs() {
            value.map(|value| command.env(key, value));
        }
        command.args(words).current_dir(claude.stage.home.path());
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let one = Self(command.spawn().unwrap());
        until("the foreign agent holds it", || {
            let (_, who) = claude.run(&["who", id]);
            who["result"]["conversations"][0]["holders"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
        });
        one
    }
}

impl Drop for ForeignClaude {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn holder_pid(claude: &InstalledClaude, id: &str) -> Option<u32> {
    let (_, who) = claude.run(&["who", id]);
    let pid = who["result"]["conversations"][0]["holders"][0]["process"]["pid"].as_u64()?;
    u32::try_from(pid).ok()
}

#[test]
fn row_50_an_idle_holder_is_taken_over_and_a_working_or_asking_one_is_not() {
    let (claude, id) = paused(&[]);
    let foreign = ForeignClaude::start(&claude, &id);
    let (code, answer) = claude.run(&["prompt", &id, "hello"]);
    assert_eq!((code, reason(&answer)), (13, &"not-reachable".into()), "{answer}");
    assert!(answer["error"]["hint"].as_str().unwrap().contains("--take-over"), "{answer}");
    let old = holder_pid(&claude, &id).unwrap();
    let (code, answer) = claude.run(&["resume", &id, "yours now", "--take-over"]);
    assert_eq!((code, &answer["result"]["state"]), (0, &"accepted".into()), "{answer}");
    assert!(!is_alive(old));
    assert_ne!(holder_pid(&claude, &id), Some(old));
    let (code, again) = claude.run(&["resume", &id, "--take-over"]);
    assert_eq!(
        (code, &again["result"]["terminal"]),
        (0, &answer["result"]["terminal"]),
        "attached"
    );
    let (code, told) = claude.run(&["resume", &id, "and this, too", "--take-over"]);
    assert_eq!((code, &told["result"]["state"]), (0, &"accepted".into()), "{told}");
    assert_eq!(told["result"]["delivery"]["match"], "exact", "{told}");
    assert_eq!(claude.noted("prompt").last().unwrap(), "and this, too", "not dropped");
    drop(foreign);
    for status in ["busy", "waiting"] {
        let (claude, id) = paused(&[&format!("status={status}")]);
        let _foreign = ForeignClaude::start(&claude, &id);
        let old = holder_pid(&claude, &id).unwrap();
        let (code, answer) = claude.run(&["resume", &id, "--take-over"]);
        assert_eq!((code, reason(&answer)), (13, &"not-taken".into()), "{answer}");
        assert!(is_alive(old));
    }
}

#[test]
fn row_50_a_holder_that_works_is_waited_for_when_that_is_asked_for() {
    let (claude, id) = paused(&["status=busy"]);
    let foreign = ForeignClaude::start(&claude, &id);
    let old = holder_pid(&claude, &id).unwrap();
    let registered = claude.stage.home.join(format!(".claude/sessions/{old}.json"));
    claude.install(&[]);
    let pauses = Pauses::new();
    pauses.arm("resume.locked");
    let mut command = claude.command();
    let words = ["resume", &id, "yours now", "--take-over", "--when-idle", "--json"];
    pauses.apply(command.args(words).stdout(std::process::Stdio::piped()));
    let resume = command.spawn().unwrap();
    pauses.wait("resume.locked");
    pauses.release("resume.locked");
    assert!(is_alive(old), "it works");
    let idle = std::fs::read_to_string(&registered).unwrap().replace("busy", "idle");
    std::fs::write(&registered, idle).unwrap();
    let done = resume.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert!(!is_alive(old));
    assert_eq!(claude.noted("prompt").last().unwrap(), "yours now");
    drop(foreign);
}

/// `resume --take-over` of a conversation with these options, stopped at a point.
fn take_over_until(
    claude: &InstalledClaude,
    words: &[&str],
    point: &str,
) -> (Pauses, std::process::Child) {
    let pauses = Pauses::new();
    pauses.arm(point);
    let mut command = claude.command();
    command.arg("resume").args(words).args(["--take-over", "--json"]);
    pauses.apply(command.stdout(std::process::Stdio::piped()));
    let child = command.spawn().unwrap();
    pauses.wait(point);
    (pauses, child)
}

#[test]
fn row_50_a_holder_that_ends_while_it_is_waited_for_leaves_the_conversation_free() {
    let (claude, id) = paused(&["status=busy"]);
    let _foreign = ForeignClaude::start(&claude, &id);
    let old = holder_pid(&claude, &id).unwrap();
    claude.install(&[]);
    let words = [id.as_str(), "yours now", "--when-idle"];
    let (pauses, resume) = take_over_until(&claude, &words, "hand-over.waits");
    kill(old, "-KILL");
    until("its end", || !is_alive(old));
    pauses.release("hand-over.waits");
    let done = resume.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert_eq!(claude.noted("prompt").last().unwrap(), "yours now");
}

#[test]
fn row_50_a_holder_that_joins_meanwhile_is_not_stopped_unless_all_are_meant() {
    for point in ["hand-over.decided", "hand-over.planned"] {
        let (claude, id) = paused(&[]);
        let _foreign = ForeignClaude::start(&claude, &id);
        let old = holder_pid(&claude, &id).unwrap();
        let (pauses, resume) = take_over_until(&claude, &[&id], point);
        let _second = ForeignClaude::start(&claude, &id);
        let both = || {
            let (_, who) = claude.run(&["who", &id]);
            let holders = who["result"]["conversations"][0]["holders"].as_array().unwrap().clone();
            holders.iter().filter_map(|one| one["process"]["pid"].as_u64()).collect::<Vec<_>>()
        };
        until("the second one", || both().len() == 2);
        let pids = both();
        pauses.release(point);
        let done = resume.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&done.stdout).unwrap();
        let told = (done.status.code(), reason(&answer));
        assert_eq!(told, (Some(13), &"several-holders".into()), "{point}: {answer}");
        assert!(is_alive(old) && pids.iter().all(|pid| is_alive(u32::try_from(*pid).unwrap())));
    }
}

#[test]
fn row_50_a_holder_that_begins_to_work_meanwhile_is_not_stopped() {
    let (claude, id) = paused(&[]);
    let _foreign = ForeignClaude::start(&claude, &id);
    let old = holder_pid(&claude, &id).unwrap();
    let registered = claude.stage.home.join(format!(".claude/sessions/{old}.json"));
    let pauses = Pauses::new();
    pauses.arm("hand-over.planned");
    let mut command = claude.command();
    let words = ["resume", &id, "--take-over", "--json"];
    pauses.apply(command.args(words).stdout(std::process::Stdio::piped()));
    let resume = command.spawn().unwrap();
    pauses.wait("hand-over.planned");
    let busy = std::fs::read_to_string(&registered).unwrap().replace("idle", "busy");
    std::fs::write(&registered, busy).unwrap();
    pauses.release("hand-over.planned");
    let done = resume.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((done.status.code(), reason(&answer)), (Some(13), &"not-taken".into()), "{answer}");
    assert!(is_alive(old), "it works");
}

#[test]
fn row_51_a_take_over_that_is_killed_never_leaves_two_holders() {
    for point in ["resume.locked", "hand-over.planned", "hand-over.stopped", "launch.started"] {
        let (claude, id) = paused(&[]);
        let _foreign = ForeignClaude::start(&claude, &id);
        let pauses = Pauses::new();
        pauses.arm(point);
        let mut child = pauses
            .apply(&mut claude.command())
            .args(["resume", &id, "--take-over"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        pauses.wait(point);
        kill(child.id(), "-KILL");
        child.wait().unwrap();
        pauses.release(point);
        let (_, who) = claude.run(&["who", &id]);
        let holders = who["result"]["conversations"][0]["holders"].as_array().unwrap().len();
        assert!(holders <= 1, "{point}: {who}");
        // The next one gets it, or is told who has it.
        let (code, answer) = claude.run(&["resume", &id, "--take-over"]);
        assert_eq!(code, 0, "{point}: {answer}");
        let (_, who) = claude.run(&["who", &id]);
        let holders = who["result"]["conversations"][0]["holders"].as_array().unwrap().len();
        assert_eq!(holders, 1, "{point}: {who}");
    }
}
