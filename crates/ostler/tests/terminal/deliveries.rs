//! What is kept of prompts (control.md rows 7, 18 to 23, 26 to 29, 93).

use serde_json::Value;
use testkit::pause::Pauses;

use super::launch::InstalledClaude;
use super::stage::{kill, until};

const TEXT: &str = "please mend the parser, then run all of its tests";

/// An idle agent in a terminal, and its conversation.
fn idle(options: &[&str]) -> (InstalledClaude, String) {
    let claude = InstalledClaude::new(options);
    let (code, answer) = claude.run(&["launch", "claude"]);
    assert_eq!(code, 0, "{answer}");
    let id = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
    until("its registration", || {
        claude.run(&["prompt", &id, "!"]).1["error"]["details"]["reason"] == "command-character"
    });
    (claude, id)
}

fn kept(claude: &InstalledClaude, id: &str) -> Vec<Value> {
    let (code, answer) = claude.run(&["deliveries", id]);
    assert_eq!(code, 0, "{answer}");
    answer["result"]["deliveries"].as_array().unwrap().clone()
}

#[test]
fn row_07_a_proof_that_comes_late_makes_it_accepted() {
    let (claude, id) = idle(&["late=3"]);
    let (code, answer) = claude.run(&["prompt", &id, TEXT, "--accept-timeout", "1s"]);
    assert_eq!(code, 14, "{answer}");
    assert_eq!(kept(&claude, &id)[0]["state"], "unproven");
    until("the late record", || kept(&claude, &id)[0]["state"] == "accepted");
    assert_eq!(kept(&claude, &id)[0]["match"], "exact");
    let (_, listed) = claude.run(&["deliveries", "--state", "unproven"]);
    assert_eq!(listed["result"]["deliveries"].as_array().unwrap().len(), 0);
}

#[test]
fn row_18_under_one_key_a_text_is_sent_once() {
    let (claude, id) = idle(&[]);
    let ids: Vec<Value> = std::thread::scope(|threads| {
        let send = |_| threads.spawn(|| claude.run(&["prompt", &id, TEXT, "--key", "k1"]));
        let all: Vec<_> = (0..3).map(send).collect();
        all.into_iter()
            .map(|one| {
                let (code, answer) = one.join().unwrap();
                assert_eq!(code, 0, "{answer}");
                answer["result"]["id"].clone()
            })
            .collect()
    });
    assert!(ids.iter().all(|one| *one == ids[0]), "{ids:?}");
    assert_eq!(claude.noted("prompt"), [TEXT]);
    let (code, answer) = claude.run(&["prompt", &id, "another text", "--key", "k1"]);
    assert_eq!(
        (code, &answer["error"]["details"]["reason"]),
        (13, &"key-reused".into()),
        "{answer}"
    );
    assert_eq!(claude.noted("prompt").len(), 1);
}

#[test]
fn row_19_a_caller_that_is_killed_sends_nothing_twice_and_the_ledger_tells_the_truth() {
    for point in ["prompt.noted", "prompt.before-submit", "prompt.submitted", "prompt.before-note"]
    {
        let (claude, id) = idle(&[]);
        let pauses = Pauses::new();
        pauses.arm(point);
        let mut child = pauses
            .apply(&mut claude.command())
            .args(["prompt", &id, TEXT, "--key", "k"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        pauses.wait(point);
        kill(child.id(), "-KILL");
        child.wait().unwrap();
        pauses.release(point);
        let was_sent = matches!(point, "prompt.submitted" | "prompt.before-note");
        if was_sent {
            until("the agent takes it", || claude.noted("prompt").len() == 1);
            until("its record", || kept(&claude, &id)[0]["state"] == "accepted");
        } else {
            assert_eq!(kept(&claude, &id)[0]["state"], "unproven", "{point}");
        }
        // The same key never sends it a second time.
        let (code, answer) = claude.run(&["prompt", &id, TEXT, "--key", "k"]);
        assert_eq!(code, if was_sent { 0 } else { 14 }, "{point}: {answer}");
        assert_eq!(claude.noted("prompt").len(), usize::from(was_sent), "{point}");
    }
}

#[test]
fn row_20_a_host_that_is_killed_in_mid_delivery_leaves_an_unproven_one() {
    let (claude, id) = idle(&["show=3"]);
    let (_, who) = claude.run(&["who", &id]);
    let terminal = who["result"]["conversations"][0]["holders"][0]["terminal"].as_str().unwrap();
    let host = claude.stage.pid(terminal, "hostPid");
    std::thread::scope(|threads| {
        let sent = threads.spawn(|| claude.run(&["prompt", &id, TEXT]));
        until("the paste", || !claude.noted("pasted").is_empty());
        kill(host, "-KILL");
        let (code, answer) = sent.join().unwrap();
        assert_eq!((code, &answer["error"]["code"]), (6, &"HOST_UNREACHABLE".into()), "{answer}");
    });
    assert_eq!(kept(&claude, &id)[0]["state"], "unproven");
    assert_eq!(claude.noted("pasted").len(), 1);
}

#[test]
fn row_23_a_working_agent_is_waited_for_and_rows_28_29_the_end_of_a_turn_is_told() {
    let (claude, id) = idle(&["turn=1"]);
    assert_eq!(claude.run(&["prompt", &id, "first"]).0, 0);
    let (code, answer) = claude.run(&["prompt", &id, "second", "--wait", "idle"]);
    assert_eq!((code, &answer["result"]["turn"]["end"]), (0, &"answered".into()), "{answer}");
    assert_eq!(claude.noted("prompt"), ["first", "second"]);
    for (end, told) in
        [("limited", "limited"), ("failed", "failed"), ("interrupted", "interrupted")]
    {
        let (claude, id) = idle(&["turn=0.3", &format!("end={end}")]);
        let (code, answer) = claude.run(&["prompt", &id, TEXT, "--wait", "idle"]);
        assert_eq!((code, &answer["error"]["code"]), (17, &"TURN_FAILED".into()), "{answer}");
        assert_eq!(answer["error"]["details"]["delivery"]["turn"]["end"], told);
    }
}

#[test]
fn row_17_of_two_prompts_at_once_the_second_waits_for_the_end_of_the_firsts_turn() {
    let (claude, id) = idle(&["turn=2"]);
    let send = |text: &str| {
        let pauses = Pauses::new();
        pauses.arm("prompt.seen-idle");
        let mut command = claude.command();
        pauses.apply(command.args(["prompt", &id, text, "--json"]));
        let child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        pauses.wait("prompt.seen-idle");
        (pauses, child)
    };
    // Both see it idle before either is pasted.
    for (pauses, mut child) in [send("one of two"), send("two of two")] {
        pauses.release("prompt.seen-idle");
        assert!(child.wait().unwrap().success());
    }
    let record = std::fs::read_to_string(claude.stage.home.join("record")).unwrap();
    let order: Vec<&str> = record
        .lines()
        .filter_map(|line| {
            ["prompt", "ended"].into_iter().find(|name| line.contains(&format!("\"{name}\"")))
        })
        .collect();
    assert_eq!(order, ["prompt", "ended", "prompt"], "not into an agent that works");
}

#[test]
fn row_05_a_text_that_was_never_entered_is_not_proven_by_whoever_sends_it_later() {
    let (claude, id) = idle(&["opens=1"]);
    assert_eq!(claude.run(&["prompt", &id, TEXT]).0, 15);
    assert_eq!(kept(&claude, &id)[0]["state"], "not-composed");
    let lines = claude.stage.home.join(format!(".claude/projects/-x/{id}.jsonl"));
    let said = serde_json::json!({"type": "user", "sessionId": id, "timestamp": "2037-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": TEXT}});
    let before = std::fs::read_to_string(&lines).unwrap_or_default();
    std::fs::create_dir_all(lines.parent().unwrap()).unwrap();
    std::fs::write(&lines, format!("{before}{said}\n")).unwrap();
    assert_eq!(kept(&claude, &id)[0]["state"], "not-composed");
}

#[test]
fn rows_28_29_the_end_of_an_earlier_prompts_turn_is_waited_for_by_its_delivery() {
    let send = |options: &[&str]| {
        let (claude, id) = idle(options);
        let (code, answer) = claude.run(&["prompt", &id, TEXT]);
        assert_eq!(code, 0, "{answer}");
        let delivery = answer["result"]["id"].as_str().unwrap().to_owned();
        (claude, delivery)
    };
    let (claude, delivery) = send(&["turn=1"]);
    let (code, answer) = claude.run(&["wait", "--turn", &delivery[..20]]);
    assert_eq!((code, &answer["result"]["turn"]["end"]), (0, &"answered".into()), "{answer}");
    assert_eq!(claude.run(&["wait", "--turn", "no-such-delivery"]).0, 3);
    let (claude, delivery) = send(&["turn=0.5", "end=limited"]);
    let (code, answer) = claude.run(&["wait", "--turn", &delivery]);
    assert_eq!((code, &answer["error"]["code"]), (17, &"TURN_FAILED".into()), "{answer}");
    assert_eq!(answer["error"]["details"]["delivery"]["turn"]["end"], "limited");
    let (claude, delivery) = send(&["turn=600"]);
    let (code, answer) = claude.run(&["wait", "--turn", &delivery, "--timeout", "300"]);
    assert_eq!((code, &answer["error"]["code"]), (11, &"WAIT_TIMEOUT".into()), "{answer}");
}

#[test]
fn row_28_a_turn_that_hangs_is_open_and_one_that_asks_is_blocked() {
    let (claude, id) = idle(&["turn=600"]);
    let (code, answer) = claude.run(&["prompt", &id, TEXT, "--wait", "idle", "--timeout", "1s"]);
    assert_eq!((code, &answer["error"]["code"]), (11, &"WAIT_TIMEOUT".into()), "{answer}");
    assert_eq!(answer["error"]["details"]["delivery"]["turn"]["end"], "open");
    let (claude, id) = idle(&["turn=600", "asks=0.5"]);
    let (code, answer) = claude.run(&["prompt", &id, TEXT, "--wait", "idle"]);
    assert_eq!((code, &answer["error"]["code"]), (16, &"BLOCKED".into()), "{answer}");
}

#[test]
fn row_29_an_interruption_on_the_screen_ends_the_wait() {
    let (claude, id) = idle(&["turn=600"]);
    std::thread::scope(|threads| {
        let sent = threads.spawn(|| claude.run(&["prompt", &id, TEXT, "--wait", "idle"]));
        until("the turn", || {
            kept(&claude, &id).first().is_some_and(|one| one["state"] == "accepted")
        });
        let (_, who) = claude.run(&["who", &id]);
        let terminal =
            who["result"]["conversations"][0]["holders"][0]["terminal"].as_str().unwrap();
        assert_eq!(claude.run(&["send-keys", terminal, "Escape"]).0, 0);
        let begun = std::time::Instant::now();
        let (code, answer) = sent.join().unwrap();
        assert_eq!(code, 17, "{answer}");
        assert_eq!(answer["error"]["details"]["delivery"]["turn"]["end"], "interrupted");
        assert!(begun.elapsed().as_secs_f32() < 3.0, "took {:?}", begun.elapsed());
    });
}

#[test]
fn row_21_an_agent_that_is_killed_after_enter_is_told_by_its_transcript() {
    let (claude, id) = idle(&["late=600"]);
    let (_, who) = claude.run(&["who", &id]);
    let pid = who["result"]["conversations"][0]["holders"][0]["process"]["pid"].as_u64().unwrap();
    std::thread::scope(|threads| {
        let sent = threads.spawn(|| claude.run(&["prompt", &id, TEXT, "--accept-timeout", "2s"]));
        until("the prompt", || !claude.noted("prompt").is_empty());
        kill(u32::try_from(pid).unwrap(), "-KILL");
        let (code, answer) = sent.join().unwrap();
        assert!([14, 15].contains(&code), "{answer}");
    });
    assert_ne!(kept(&claude, &id)[0]["state"], "accepted");
    let (code, listed) = claude.run(&["ls", "-a", "--agent", "claude-code"]);
    assert_eq!(code, 0, "{listed}");
    let sessions = listed["result"]["sessions"].as_array().unwrap();
    let one = sessions.iter().find(|one| one["id"] == *id).unwrap_or_else(|| panic!("{listed}"));
    assert_eq!(one["status"], "exited", "{one}");
}

#[test]
fn row_93_a_prompt_works_beside_a_store_that_cannot_be_written() {
    let (claude, id) = idle(&[]);
    let database = claude.stage.root.join("ostler.db");
    for side in ["ostler.db-wal", "ostler.db-shm"] {
        let _ = std::fs::remove_file(claude.stage.root.join(side));
    }
    std::fs::write(&database, b"this is no database at all, and long enough to be looked at")
        .unwrap();
    let (code, answer) = claude.run(&["prompt", &id, TEXT]);
    assert_eq!((code, &answer["result"]["state"]), (12, &"accepted".into()), "{answer}");
    assert_eq!(answer["result"]["incomplete"][0]["source"], "store", "{answer}");
    let (code, answer) = claude.run(&["prompt", &id, "with a key", "--key", "k"]);
    assert_eq!(
        (code, &answer["error"]["details"]["reason"]),
        (13, &"key-unknown".into()),
        "{answer}"
    );
    assert_eq!(claude.noted("prompt"), [TEXT]);
    let (code, answer) = claude.run(&["stop", &id]);
    assert_eq!((code, &answer["result"]["stopped"][0]["left"]), (12, &serde_json::json!([])));
    assert_eq!(answer["result"]["incomplete"][0]["source"], "store", "{answer}");
    for words in [&["resume", &id][..], &["launch", "claude"]] {
        let (code, answer) = claude.run(words);
        assert_eq!((code, &answer["result"]["state"]), (12, &"ready".into()), "{answer}");
        let told = answer["result"]["incomplete"].as_array().unwrap();
        assert!(told.iter().any(|one| one["source"] == "store"), "{answer}");
    }
}

#[test]
fn row_05_without_the_list_of_deliveries_no_late_record_proves_one() {
    let (claude, id) = idle(&["late=4"]);
    let words = ["prompt", &id, TEXT, "--key", "k", "--accept-timeout", "1s"];
    let (code, answer) = claude.run(&words);
    assert_eq!(code, 14, "{answer}");
    until("its record", || !claude.noted("recorded").is_empty());
    // Another delivery to it, of which nothing can be read any more.
    let database = claude.stage.root.join("ostler.db");
    let damage = "insert into delivery
        select 'damaged', agent, session, at, null, '{', sender from delivery limit 1";
    testkit::sql::run_sql(&database, damage).unwrap();
    let (code, answer) = claude.run(&words);
    assert_eq!((code, &answer["error"]["code"]), (14, &"MAY_HAVE_APPLIED".into()), "{answer}");
    testkit::sql::run_sql(&database, "delete from delivery where id = 'damaged'").unwrap();
    let (code, answer) = claude.run(&words);
    assert_eq!((code, &answer["result"]["state"]), (0, &"accepted".into()), "{answer}");
    assert_eq!(claude.noted("prompt").len(), 1);
}

#[test]
fn row_93_all_of_it_works_while_another_process_holds_the_writer_lock() {
    let (claude, id) = idle(&[]);
    let work = claude.stage.home.directory("work");
    let pauses = Pauses::new();
    pauses.arm("lock.begun");
    let mut lock = claude.command();
    pauses.apply(lock.args(["lock", work.to_str().unwrap(), "--by", "ada"]));
    let mut lock = lock.stdout(std::process::Stdio::null()).spawn().unwrap();
    pauses.wait("lock.begun");
    let (code, answer) = claude.run(&["prompt", &id, TEXT]);
    assert_eq!((code, &answer["result"]["state"]), (12, &"accepted".into()), "{answer}");
    assert_eq!(answer["result"]["incomplete"][0]["source"], "store", "{answer}");
    let (code, answer) = claude.run(&["stop", &id]);
    assert_eq!((code, &answer["result"]["stopped"][0]["left"]), (12, &serde_json::json!([])));
    for words in [&["resume", &id][..], &["launch", "claude"]] {
        let (code, answer) = claude.run(words);
        assert_eq!((code, &answer["result"]["state"]), (12, &"ready".into()), "{answer}");
        assert_eq!(answer["result"]["incomplete"][0]["source"], "store", "{answer}");
    }
    pauses.release("lock.begun");
    assert!(lock.wait().unwrap().success(), "and nothing was taken from whoever held it");
}

#[test]
fn row_58_a_prompt_that_an_interrupted_agent_puts_back_is_not_sent_with_the_next_one() {
    let (claude, id) = idle(&["turn=30", "restores=1"]);
    let (code, answer) = claude.run(&["prompt", &id, TEXT]);
    assert_eq!(code, 0, "{answer}");
    let (code, answer) = claude.run(&["stop", &id, "--turn"]);
    assert_eq!(code, 0, "{answer}");
    let (code, answer) = claude.run(&["prompt", &id, "something else"]);
    assert_eq!((code, &answer["result"]["match"]), (0, &"exact".into()), "{answer}");
    assert_eq!(claude.noted("prompt"), [TEXT, "something else"]);
}
