//! An agent that goes on to another conversation (control.md rows 22, 38): after /clear, a compaction or a fork of its own.

use serde_json::Value;

use super::launch::InstalledClaude;
use super::stage::until;

const TEXT: &str = "please mend the parser, then run all of its tests";

/// An idle agent, its conversation and its terminal.
fn idle(options: &[&str]) -> (InstalledClaude, String, String) {
    let claude = InstalledClaude::new(options);
    let (code, answer) = claude.run(&["launch", "claude"]);
    assert_eq!(code, 0, "{answer}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (id, terminal) =
        (text(&answer["result"]["session"]["id"]), text(&answer["result"]["terminal"]));
    until("its registration", || {
        claude.run(&["prompt", &id, "!"]).1["error"]["details"]["reason"] == "command-character"
    });
    // Its first prompt makes its record, which the next one leaves.
    (claude, id, terminal)
}

#[test]
fn row_22_a_prompt_that_is_recorded_in_another_conversation_is_accepted_there() {
    let (claude, id, terminal) = idle(&["clears=1"]);
    let (code, answer) = claude.run(&["prompt", &terminal, TEXT, "--accept-timeout", "2s"]);
    let told = &answer["result"];
    assert_eq!((code, &told["state"]), (0, &"accepted".into()), "{answer}");
    assert_ne!(told["session"], id.as_str(), "{answer}");
    let path = told["proof"]["path"].as_str().unwrap();
    assert!(std::fs::read_to_string(path).unwrap().contains(TEXT));
    assert_eq!(claude.noted("prompt"), [TEXT], "and sent once");
}

#[test]
fn row_22_a_prompt_that_is_in_no_record_is_said_to_have_met_another_conversation() {
    let (claude, id, _) = idle(&["clears=2"]);
    let (code, answer) = claude.run(&["prompt", &id, TEXT, "--accept-timeout", "1s"]);
    assert!([14, 15].contains(&code), "{answer}");
    let told = &answer["error"]["details"]["delivery"];
    assert!(told["reason"].as_str().unwrap().starts_with("moved-on"), "{answer}");
    assert_eq!(claude.noted("pasted").len(), 1);
}

#[test]
fn row_22_a_record_in_a_new_file_is_a_proof_and_one_that_was_copied_there_is_not() {
    let long = "a line that makes a record long, so that a new file is shorter\n".repeat(20);
    for (option, first, wanted) in [
        ("rotates=1", long.as_str(), (0, "accepted")),
        // The new file is the longer one: where the old one ended is within its first line.
        ("rotates=1", "b", (0, "accepted")),
        ("rotates=2", long.as_str(), (14, "unproven")),
        ("rotates=2", "b", (14, "unproven")),
    ] {
        let claude = InstalledClaude::new(&[option]);
        let (code, answer) = claude.run(&["launch", "claude", first]);
        assert_eq!(code, 0, "{answer}");
        let id = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
        let text = if first == "b" { &long } else { TEXT };
        let (code, answer) = claude.run(&["prompt", &id, text, "--accept-timeout", "1s"]);
        let failed = &answer["error"]["details"]["delivery"];
        let told = if failed.is_object() { failed } else { &answer["result"] };
        assert_eq!((code, told["state"].as_str().unwrap()), wanted, "{option} {answer}");
        assert_eq!(claude.noted("prompt").len(), 2, "sent once");
    }
}

#[test]
fn row_38_the_terminal_is_linked_to_the_new_conversation_and_the_old_id_is_refused() {
    let claude = InstalledClaude::new(&[]);
    let (code, answer) = claude.run(&["launch", "claude", "begin"]);
    assert_eq!(code, 0, "{answer}");
    let old = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
    let terminal = answer["result"]["terminal"].as_str().unwrap().to_owned();
    let pid = answer["result"]["process"]["pid"].as_u64().unwrap();
    // As after /clear: the same process registers another conversation, without a transcript so far.
    let new = "88888888-8888-4888-8888-000000000001";
    let registration = claude.stage.home.join(format!(".claude/sessions/{pid}.json"));
    let text = std::fs::read_to_string(&registration).unwrap().replace(&old, new);
    std::fs::write(&registration, text).unwrap();
    let before = claude.noted("pasted").len();
    let (code, answer) = claude.run(&["prompt", &old, "to whom?"]);
    let reason = &answer["error"]["details"]["reason"];
    assert_eq!((code, reason), (13, &"moved-on".into()), "{answer}");
    assert!(answer["error"].to_string().contains(new), "the new one is named: {answer}");
    assert_eq!(claude.noted("pasted").len(), before, "nothing was written");
    let (code, who) = claude.run(&["who", new]);
    assert_eq!(code, 0, "{who}");
    let holder = &who["result"]["conversations"][0]["holders"][0];
    assert_eq!((&holder["terminal"], &holder["process"]["pid"]), (&terminal.into(), &pid.into()));
}
