//! Prompts with a receipt (control.md §4, rows 1, 5, 7, 8, 11, 17, 94): an agent that keeps Claude Code's files.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::stage::{Name, Stage, until};

const SESSION: &str = "5b1e0c52-8a5e-4b8e-9a55-d0a3a0c3c001";
const TEXT: &str = "please mend the parser, then run all of its tests";

struct FakeClaude {
    stage: Stage,
    terminal: String,
    record: PathBuf,
}

impl FakeClaude {
    /// Returns when the agent is registered and listed as a session in its terminal.
    fn start(options: &[&str]) -> Self {
        let stage = Stage::new(Name::Ostler);
        let record = stage.home.join("record");
        let files = format!("claude={}", stage.home.join(".claude").display());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/terminal/fake_agent.py");
        let mut command =
            vec!["python3", script.to_str().unwrap(), record.to_str().unwrap(), &files];
        command.extend(options);
        let terminal = stage.create(&command);
        let fake = Self { stage, terminal, record };
        until("the agent is linked to its terminal", || {
            let shown = fake.stage.run(&["show", SESSION, "--json"]).stdout;
            let shown: Value = serde_json::from_str(&shown).unwrap_or_default();
            shown["result"]["session"]["linked"][0]["id"] == *fake.terminal
                || shown["result"]["linked"][0]["id"] == *fake.terminal
        });
        fake
    }

    fn prompt(&self, args: &[&str]) -> (i32, Value) {
        let mut all = vec!["prompt", "--json"];
        all.extend(args);
        let ran = self.stage.run(&all);
        (ran.code, serde_json::from_str(&ran.stdout).unwrap())
    }

    fn noted(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.record).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| line.get(name).cloned()).collect()
    }
}

#[test]
fn row_01_a_prompt_is_accepted_when_the_agents_record_holds_it() {
    let fake = FakeClaude::start(&[]);
    let (code, answer) = fake.prompt(&[SESSION, TEXT]);
    let delivery = &answer["result"];
    assert_eq!((code, &delivery["state"]), (0, &"accepted".into()), "{answer}");
    assert_eq!((&delivery["match"], &delivery["enters"]), (&"exact".into(), &1.into()), "{answer}");
    assert_eq!(
        (&delivery["session"], &delivery["terminal"]),
        (&SESSION.into(), &(*fake.terminal).into())
    );
    assert!(delivery["proof"]["path"].as_str().unwrap().ends_with(&format!("{SESSION}.jsonl")));
    // By its terminal's id, several lines, and a tab that agents may change.
    let (code, answer) = fake.prompt(&[&fake.terminal, "first\n\n\tsecond 日本 👩‍👩‍👧 $HOME"]);
    assert_eq!((code, &answer["result"]["state"]), (0, &"accepted".into()), "{answer}");
    assert_eq!(fake.noted("prompt").len(), 2);
    assert_eq!(fake.noted("pasted").len(), 2);
}

#[test]
fn row_05_a_record_with_another_text_is_no_success() {
    // One letter more, only its beginning, and one letter changed.
    for option in ["alter=1", "alter=2", "alter=3"] {
        let fake = FakeClaude::start(&[option]);
        let (code, answer) = fake.prompt(&[SESSION, TEXT, "--accept-timeout", "1s"]);
        assert_eq!(code, 15, "{option} {answer}");
        assert_eq!(answer["error"]["code"], "NOT_DELIVERED");
        assert_eq!(answer["error"]["details"]["delivery"]["state"], "altered");
    }
}

#[test]
fn row_05_an_earlier_record_of_the_same_text_is_no_proof() {
    let fake = FakeClaude::start(&["drops=1"]);
    let (code, answer) = fake.prompt(&[SESSION, TEXT]);
    assert_eq!((code, &answer["result"]["match"]), (0, &"exact".into()), "{answer}");
    let (code, answer) = fake.prompt(&[SESSION, TEXT, "--accept-timeout", "1s"]);
    let delivery = &answer["error"]["details"]["delivery"];
    assert_eq!((code, &delivery["state"]), (14, &"unproven".into()), "{answer}");
    assert_eq!(fake.noted("prompt"), [TEXT, TEXT], "it was taken, and is in no record");
}

#[test]
fn row_06_a_text_that_stays_in_the_composer_is_told_as_stuck() {
    let fake = FakeClaude::start(&["swallow=99"]);
    let (code, answer) = fake.prompt(&[SESSION, TEXT]);
    let delivery = &answer["error"]["details"]["delivery"];
    assert_eq!((code, &answer["error"]["code"]), (15, &"NOT_DELIVERED".into()), "{answer}");
    assert_eq!((&delivery["state"], &delivery["enters"]), (&"stuck".into(), &4.into()));
    assert_eq!((fake.noted("pasted").len(), fake.noted("prompt").len()), (1, 0));
}

#[test]
fn row_07_a_prompt_that_is_recorded_too_late_may_have_been_applied() {
    let fake = FakeClaude::start(&["late=60"]);
    let (code, answer) = fake.prompt(&[SESSION, TEXT, "--accept-timeout", "1s"]);
    assert_eq!(code, 14, "{answer}");
    assert_eq!(answer["error"]["code"], "MAY_HAVE_APPLIED");
    assert_eq!(answer["error"]["details"]["delivery"]["state"], "unproven");
    assert_eq!(fake.noted("pasted").len(), 1, "it is never pasted twice");
}

#[test]
fn row_08_nothing_is_sent_while_the_agent_waits_for_an_answer() {
    let fake = FakeClaude::start(&["status=waiting", "dialog=1"]);
    for text in [TEXT, "1", "y", "one\ntwo", "1\ny\n"].repeat(4) {
        let (code, answer) = fake.prompt(&[SESSION, text]);
        assert_eq!(code, 13, "{answer}");
        assert_eq!(answer["error"]["details"]["reason"], "agent-waits");
    }
    assert_eq!(fake.noted("pasted").len() + fake.noted("approved").len(), 0);
}

#[test]
fn row_11_a_command_is_sent_only_if_it_is_meant_to_be_one() {
    let fake = FakeClaude::start(&[]);
    for text in ["!ls", " !ls", "\n!ls", "/clear"] {
        let (code, answer) = fake.prompt(&[SESSION, text]);
        assert_eq!(code, 13, "{answer}");
        assert_eq!(answer["error"]["details"]["reason"], "command-character");
    }
    assert_eq!(fake.noted("pasted").len(), 0);
    let (code, answer) = fake.prompt(&[SESSION, "/clear", "--command"]);
    assert_eq!(code, 0, "{answer}");
    // In a later line it is text.
    let (code, answer) = fake.prompt(&[SESSION, "first\n!second\n/third"]);
    assert_eq!((code, &answer["result"]["match"]), (0, &"exact".into()), "{answer}");
}

#[test]
fn row_17_prompts_at_once_are_each_recorded_once() {
    let fake = FakeClaude::start(&[]);
    let texts: Vec<String> = (0..6).map(|n| format!("prompt number {n} of several")).collect();
    std::thread::scope(|threads| {
        for text in &texts {
            threads.spawn(|| {
                let (code, answer) = fake.prompt(&[SESSION, text]);
                assert_eq!(code, 0, "{answer}");
            });
        }
    });
    let mut recorded: Vec<String> =
        fake.noted("prompt").iter().map(|one| one.as_str().unwrap().to_owned()).collect();
    recorded.sort();
    assert_eq!(recorded, texts);
}

#[test]
fn row_13_an_agent_that_was_told_nothing_is_idle_until_somebody_presses_enter() {
    // What it does is not in its files.
    let fresh = |touch: bool| {
        let claude = super::launch::InstalledClaude::new(&["status=odd"]);
        let (code, answer) = claude.run(&["launch", "claude", "--name", "new"]);
        assert_eq!(code, 0, "{answer}");
        if touch {
            let (code, answer) = claude.run(&["send-keys", "new", "Enter"]);
            assert_eq!(code, 0, "{answer}");
        }
        let (code, answer) = claude.run(&["prompt", "new", TEXT]);
        (code, answer, claude)
    };
    let (code, answer, claude) = fresh(false);
    assert_eq!((code, &answer["result"]["state"]), (0, &"accepted".into()), "{answer}");
    // Told once, it may be at work.
    let (code, answer) = claude.run(&["prompt", "new", "and more"]);
    assert_eq!((code, &answer["error"]["details"]["reason"]), (13, &"activity-unknown".into()));
    let (code, answer, claude) = fresh(true);
    let reason = &answer["error"]["details"]["reason"];
    assert_eq!((code, reason), (13, &"activity-unknown".into()), "{answer}");
    assert_eq!(claude.noted("pasted").len(), 0);
}

#[test]
fn row_90_what_looks_like_an_option_is_text_and_what_is_empty_or_too_long_is_refused() {
    let fake = FakeClaude::start(&["place=1"]);
    for text in ["--help", "-v and then --json"] {
        let (code, answer) = fake.prompt(&[SESSION, "--", text]);
        assert_eq!((code, &answer["result"]["match"]), (0, &"exact".into()), "{answer}");
    }
    let file = fake.stage.home.write("dash", "-");
    let (code, answer) = fake.prompt(&[SESSION, "--file", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{answer}");
    let long = fake.stage.home.write("long", "x".repeat((64 << 10) + 1));
    let long = ["--file", long.to_str().unwrap()];
    for words in [&["", ""][..1], &["  \n "], &long] {
        let (code, answer) = fake.prompt(&[&[SESSION], words].concat());
        assert!([2, 13].contains(&code), "{words:?} {code} {answer}");
    }
    assert_eq!(fake.noted("prompt"), ["--help", "-v and then --json", "-"]);
}

#[test]
fn row_94_a_terminal_without_a_known_agent_is_not_driven() {
    let stage = Stage::new(Name::Ostler);
    let terminal = stage.create(&["sleep", "600"]);
    let ran = stage.run(&["prompt", &terminal, TEXT, "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, 13, "{answer}");
    assert_eq!(answer["error"]["code"], "REFUSED");
}

#[test]
fn row_49_who_names_the_terminal_that_holds_a_conversation() {
    let fake = FakeClaude::start(&[]);
    let who = fake.stage.ok(&["who", SESSION]);
    let one = &who["conversations"][0];
    assert_eq!(one["holders"].as_array().unwrap().len(), 1, "{who}");
    assert_eq!(one["holders"][0]["terminal"], *fake.terminal);
    assert_eq!(one["handOver"]["how"], "attach");
    assert_eq!(&fake.stage.ok(&["who", &fake.terminal])["conversations"][0], one);
    assert_eq!(one["handOver"]["command"], format!("ostler attach {}", fake.terminal));
}
