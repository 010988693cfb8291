//! `ostler usage`: each message once, from every agent, with a price only where there is one.

use testkit::home::TempHome;

use super::run::{claude_session, ostler, ran, run, sample_home};

const ONE: &str = "aaaa1111-0000-4000-8000-000000000000";
const TWO: &str = "bbbb2222-0000-4000-8000-000000000000";

fn answer(message: &str, request: &str, day: &str, output: u32) -> String {
    format!(
        r#"{{"type":"assistant","cwd":"/a","timestamp":"{day}T10:00:00.000Z","requestId":"{request}","message":{{"id":"{message}","model":"m-1","content":[],"usage":{{"input_tokens":100,"output_tokens":{output},"cache_read_input_tokens":10,"cache_creation_input_tokens":1}}}}}}
"#
    )
}

#[test]
fn a_message_counts_once_however_often_it_is_written() {
    let home = TempHome::new();
    let one = answer("m1", "r1", "2026-11-14", 3);
    let grown = answer("m1", "r1", "2026-11-14", 7);
    let other = answer("m1", "r2", "2026-11-15", 5);
    home.write(format!(".claude/projects/-a/{ONE}.jsonl"), [&*one, &grown, &other].concat());
    // A resumed session repeats the history.
    home.write(format!(".claude/projects/-a/{TWO}.jsonl"), [&*one, &grown].concat());
    let result = run(&home, "usage --json").exits(0).result();
    assert_eq!(
        result["total"]["tokens"],
        serde_json::json!({ "input": 200, "output": 12, "cacheRead": 20, "cacheWrite": 2 })
    );
    let days: Vec<&str> = result["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["key"].as_str().unwrap())
        .collect();
    assert_eq!(days, ["2026-11-14", "2026-11-15"]);
    assert_eq!(result["total"]["unpricedTokens"], 234);
    let later = run(&home, "usage --since 2026-11-15 --csv").exits(0).stdout;
    assert!(later.ends_with("\n2026-11-15,100,5,10,1,116,1,,,116\n"), "{later}");
    let before = run(&home, "usage --until 2026-11-15 --by model --csv").exits(0).stdout;
    assert!(before.ends_with("\nm-1,100,7,10,1,118,1,,,118\n"), "{before}");
}

#[test]
fn a_day_is_one_of_the_local_time_zone() {
    let home = TempHome::new();
    home.write(
        format!(".claude/projects/-a/{ONE}.jsonl"),
        answer("m1", "r1", "2026-11-14", 3).replace("T10:", "T23:"),
    );
    let day = |zone: &str| {
        let ran = ran(ostler(&home).args(["usage", "--json"]).env("TZ", zone)).exits(0);
        ran.result()["groups"][0]["key"].as_str().unwrap().to_owned()
    };
    assert_eq!((day("UTC"), day("<+09>-9")), ("2026-11-14".to_owned(), "2026-11-15".to_owned()));
}

#[test]
fn cost_is_stated_or_by_the_settings_or_not_there() {
    let home = TempHome::new();
    claude_session(&home, ONE, "/a", "x");
    let table = run(&home, "usage").exits(0).stdout;
    assert!(table.contains("18 unpriced"), "{table}");
    // The cost is the last that gives way.
    let narrow = ran(ostler(&home).env("COLUMNS", "60").arg("usage")).exits(0).stdout;
    assert!(narrow.contains("18 unpriced") && !narrow.contains("CACHE WRITE"), "{narrow}");
    home.write(
        ".config/ostler/config.toml",
        "[prices.\"claude-opus-5-5\"]\ninput = 5\noutput = 25.0\ncache_read = 0.5\ncache_write = 6.25\n",
    );
    let result = run(&home, "usage --by agent --json").exits(0).result();
    // 10 × 5 + 5 × 25 + 2 × 0.5 + 1 × 6.25 millionths of a dollar.
    assert_eq!(result["total"]["pricedMicroUsd"], 182);
    assert_eq!(result["total"]["unpricedTokens"], 0);
    home.append(
        format!(".claude/projects/-a/{ONE}.jsonl"),
        "{\"type\":\"cost-state\",\"totalCostUSD\":0.25}\n",
    );
    let result = run(&home, "usage --json").exits(0).result();
    assert_eq!(result["total"]["statedMicroUsd"], 250_000);
    assert_eq!(result["total"].get("pricedMicroUsd"), None);
    home.write(".config/ostler/config.toml", "[prices.x]\ninput = -1\noutput = 1\n");
    assert!(run(&home, "usage").stderr.contains("not a price"));
}

#[test]
fn every_agent_that_tells_tokens_is_in_the_sum() {
    let home = sample_home();
    let result = run(&home, "usage --by agent --json").result();
    let counted: Vec<&str> = result["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["key"].as_str().unwrap())
        .collect();
    for session in run(&home, "ls -a --json").sessions() {
        if session.get("tokens").is_some_and(|tokens| tokens["output"] != 0) {
            assert!(counted.contains(&session["agent"].as_str().unwrap()), "{session:#}");
        }
    }
}
