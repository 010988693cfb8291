//! `ostler search`: the rows 73 to 81 of the specification, with the built binary.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::Value;
use testkit::home::TempHome;

use super::run::{claude_session, claude_transcript, ostler, ran, run, sample_home};

const ONE: &str = "aaaa1111-0000-4000-8000-000000000000";
const TWO: &str = "bbbb2222-0000-4000-8000-000000000000";

/// The hits of a query, as `--json` tells them.
#[track_caller]
fn search(home: &TempHome, args: &[&str]) -> Vec<Value> {
    let ran = ran(ostler(home).args(["search", "--json", "--limit", "0"]).args(args));
    assert!(matches!(ran.code, 0 | 12), "{ran:?}");
    ran.result()["hits"].as_array().unwrap().clone()
}

/// One line of a Claude Code transcript with this content, which is JSON as it is to be written.
fn claude_line(role: &str, content: &str) -> String {
    format!(
        r#"{{"type":"{role}","sessionId":"{ONE}","cwd":"/a","timestamp":"2026-11-15T10:00:00.000Z","message":{{"role":"{role}","content":{content}}}}}
"#
    )
}

fn claude_lines(home: &TempHome, id: &str, lines: &str) {
    home.write(format!(".claude/projects/-a/{id}.jsonl"), lines);
}

#[test]
fn row_73_each_escape_form_is_found() {
    let home = TempHome::new();
    let lines = [
        r#""plain caf\u00e9 \u65e5\u672C \ud83e\udd80 a\/b \u003ctag\u003e""#,
        r#""café 日本 🦀 a/b <tag>""#,
        r#"[{"type":"tool_use","name":"Bash","input":{"command":"echo \"caf\u00e9\" 日本 \ud83e\udd80 a\/b <tag>\nnext"}}]"#,
    ];
    let lines: String = lines.iter().map(|content| claude_line("assistant", content)).collect();
    claude_lines(&home, ONE, &lines);
    for query in ["café", "CAFÉ", "日本", "🦀", "a/b", "<tag>"] {
        let expected = if query == "CAFÉ" { 0 } else { 3 };
        assert_eq!(search(&home, &[query]).len(), expected, "{query}");
    }
    assert_eq!(search(&home, &["\"<tag> next\""]).len(), 1);
    // Neither the names of fields nor ids of the record around them are anybody's words.
    for query in ["sessionId", "command", "tool_use", ONE] {
        assert_eq!(search(&home, &[query]).len(), 0, "{query}");
    }
}

#[test]
fn row_73_every_agents_first_prompt_is_found() {
    let home = sample_home();
    let mut agents = std::collections::BTreeSet::new();
    for session in run(&home, "ls -a --json").sessions() {
        let (agent, id) = (session["agent"].as_str().unwrap(), session["id"].as_str().unwrap());
        let logs = run(&home, &format!("logs {agent}:{id} --json"));
        if logs.code != 0 {
            continue;
        }
        let entries = logs.result()["entries"].as_array().unwrap().clone();
        for (index, entry) in
            entries.iter().enumerate().filter(|(_, entry)| entry["role"] == "user")
        {
            let text = entry["text"].as_str().unwrap();
            let Some(word) =
                text.split_whitespace().find(|word| word.chars().all(char::is_alphanumeric))
            else {
                continue;
            };
            let hits = search(&home, &["--agent", agent, "--role", "user", "--", word]);
            let number = index as u64 + 1;
            assert!(
                hits.iter().any(|hit| hit["session"] == id && hit["entry"] == number),
                "{agent}:{id} {word}: {hits:#?}"
            );
            agents.insert(agent.to_owned());
        }
    }
    assert!(agents.len() >= 8, "{agents:?}");
}

#[test]
fn row_74_any_language_any_case_and_one_character() {
    let home = TempHome::new();
    let texts = [
        "修复解析器的错误",
        "パーサーを直す",
        "구문 분석기",
        "Ünïcode Straße ÉCOLE",
        "the 👩‍👩‍👧 and 🦀",
        "x",
    ];
    for (number, text) in texts.iter().enumerate() {
        claude_session(&home, &format!("aaaa{number}111-0000-4000-8000-000000000000"), "/a", text);
    }
    let found = |query: &str| -> Vec<usize> {
        let hits = search(&home, &["--role", "user", "--", query]);
        let place = |hit: &Value| texts.iter().position(|text| hit["text"] == *text).unwrap();
        let mut places: Vec<usize> = hits.iter().map(place).collect();
        places.sort_unstable();
        places
    };
    for (query, place) in [
        ("解析", 0),
        ("器", 0),
        ("サー", 1),
        ("분석", 2),
        ("straße", 3),
        ("école", 3),
        ("ünï", 3),
        ("🦀", 4),
        ("👩‍👩‍👧", 4),
    ] {
        assert_eq!(found(query), [place], "{query}");
    }
    assert_eq!(found("x"), [5]);
    assert_eq!(found("École"), Vec::<usize>::new(), "a capital makes case count");
    assert_eq!(found("ÉCOLE"), [3]);
}

#[test]
fn row_75_words_of_one_entry_and_a_phrase_across_a_line_end() {
    let home = TempHome::new();
    claude_session(&home, ONE, "/a", "alpha is here,\nbeta there");
    claude_session(&home, TWO, "/a", "alpha alone");
    assert_eq!(search(&home, &["alpha beta"]).len(), 1);
    assert_eq!(search(&home, &["\"here, beta\""]).len(), 1);
    assert_eq!(search(&home, &["alpha -beta"])[0]["session"], TWO);
    assert_eq!(search(&home, &["--regex", r"^beta\s\w+$"]).len(), 0);
    assert_eq!(search(&home, &["--regex", r"(?m)^beta\s\w+$"]).len(), 1);
    let hit = &search(&home, &["beta"])[0];
    assert_eq!(
        (&hit["text"], &hit["ranges"]),
        (&"alpha is here,\nbeta there".into(), &serde_json::json!([[15, 19]]))
    );
    assert_eq!(search(&home, &["--context", "0", "beta"])[0]["text"], "beta there");
    for wrong in [vec!["--regex", "("], vec!["\"open"], vec!["--", "-x"], vec![" "]] {
        ran(ostler(&home).arg("search").args(wrong)).exits(2);
    }
}

#[test]
fn row_76_results_equal_a_naive_decode_of_everything() {
    let home = TempHome::new();
    let word = prop_oneof!["[a-c]{1,2}", "[A-C]", "é|É|日|🦀|\"|\\\\|/|<", "[ \n]{1,2}"];
    let text = prop::collection::vec(word, 1..8).prop_map(|parts| parts.concat());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(12));
    let strategy = (
        prop::collection::vec((text, any::<bool>()), 1..12),
        prop::collection::vec("[a-c]{1,2}|é|日|🦀|/|<", 1..3),
    );
    let checked = runner.run(&strategy, |(entries, words)| {
        let lines: String = entries
            .iter()
            .map(|(text, ascii)| {
                let mut json = serde_json::to_string(text).unwrap();
                if *ascii {
                    json = escape_all(&json);
                }
                claude_line("user", &json)
            })
            .collect();
        claude_lines(&home, ONE, &lines);
        let folded: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let expected: Vec<u64> = entries
            .iter()
            .enumerate()
            .filter(|(_, (text, _))| folded.iter().all(|word| text.to_lowercase().contains(word)))
            .map(|(index, _)| index as u64 + 1)
            .collect();
        let hits = search(&home, &["--", &words.join(" ")]);
        let found: Vec<u64> = hits.iter().map(|hit| hit["entry"].as_u64().unwrap()).collect();
        prop_assert_eq!(found, expected);
        Ok(())
    });
    checked.unwrap();
}

/// JSON with everything outside ASCII, and some of what is in it, written as escapes.
fn escape_all(json: &str) -> String {
    json.chars()
        .map(|c| match c {
            '/' => r"\/".to_owned(),
            '<' => r"\u003c".to_owned(),
            c if c.is_ascii() => c.to_string(),
            c => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect(),
        })
        .collect()
}

#[test]
fn row_77_a_file_that_grows_is_cut_or_replaced_meanwhile_breaks_nothing() {
    let home = TempHome::new();
    let path = claude_session(&home, ONE, "/a", "needle first");
    claude_session(&home, TWO, "/a", "needle second");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let line = claude_line("user", "\"needle again\"");
            let (mut long, other) =
                (claude_transcript(ONE, "/a", "needle first"), path.with_extension("new"));
            for _ in 0..2000 {
                long.push_str(&line);
            }
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fs::write(&path, &long).unwrap();
                let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
                file.set_len(long.len() as u64 / 2 + 7).unwrap();
                fs::write(&other, &line).unwrap();
                fs::rename(&other, &path).unwrap();
            }
        });
        for _ in 0..10 {
            let hits = search(&home, &["needle"]);
            assert!(hits.iter().any(|hit| hit["session"] == TWO), "{hits:#?}");
            assert!(hits.iter().all(|hit| hit["text"].as_str().unwrap().contains("needle")));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    home.append(
        format!(".claude/projects/-a/{TWO}.jsonl"),
        claude_line("user", "\"torn needle\"").trim_end(),
    );
    let hits = search(&home, &["torn"]);
    assert_eq!(hits.len(), 1, "a whole last line without its line break counts");
}

#[test]
fn row_78_sub_agents_only_when_asked_and_databases_always() {
    let home = sample_home();
    let subagents = run(&home, "ls -a --subagents --json").sessions();
    let sub =
        subagents.iter().find(|one| one["agent"] == "claude-code" && one.get("parent").is_some());
    let sub = sub.unwrap()["id"].as_str().unwrap().to_owned();
    let entries = |args: &[&str]| {
        let hits = search(&home, args);
        hits.into_iter().filter(|hit| hit["session"] == *sub).count()
    };
    assert_eq!(entries(&["--regex", "."]), 0);
    assert!(entries(&["--subagents", "--regex", "."]) > 0);
    for agent in ["opencode", "goose", "crush"] {
        assert!(!search(&home, &["--agent", agent, "--regex", "."]).is_empty(), "{agent}");
    }
}

#[test]
fn row_79_what_cannot_be_read_is_named_and_exits_12() {
    let home = TempHome::new();
    claude_session(&home, ONE, "/a", "needle");
    home.link(format!(".claude/projects/-a/{TWO}.jsonl"), "/etc/passwd");
    let ran = run(&home, "search needle --json").exits(12);
    assert_eq!(ran.result()["hits"].as_array().unwrap().len(), 1);
    assert!(ran.result()["incomplete"][0]["path"].as_str().unwrap().contains(TWO));
    assert!(run(&home, "search needle").exits(12).stderr.contains(TWO));
}

#[test]
fn row_80_a_closed_pipe_ends_it_and_a_huge_line_is_searched_in_little_memory() {
    use std::io::Write;

    let home = TempHome::new();
    claude_session(&home, ONE, "/a", "small needle");
    let huge = home.join(format!(".claude/projects/-a/{TWO}.jsonl"));
    let mut file = std::io::BufWriter::new(fs::File::create(&huge).unwrap());
    write!(file, r#"{{"type":"user","cwd":"/a","timestamp":"2026-11-15T10:00:00.000Z","message":{{"content":""#).unwrap();
    let chunk = "lorem ipsum dolor sit amet ".repeat(1 << 15);
    for _ in 0..(256 << 20) / chunk.len() {
        file.write_all(chunk.as_bytes()).unwrap();
    }
    writeln!(file, r#"the huge needle"}}}}"#).unwrap();
    drop(file);
    // This address space would not hold the line and its text.
    let limited = |query: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -v 524288; exec \"$0\" search --json --context 0 \"$@\""]);
        shell.arg(env!("CARGO_BIN_EXE_ostler")).arg(query).env_clear().env("HOME", home.path());
        ran(&mut shell)
    };
    let hits = limited("\"huge needle\"").result()["hits"].as_array().unwrap().clone();
    assert_eq!(hits.len(), 1, "{hits:#?}");
    assert!(hits[0].get("entry").is_none() && hits[0]["text"].as_str().unwrap().len() < 5000);
    assert!(hits[0]["text"].as_str().unwrap().contains("huge needle"));

    let mut child = ostler(&home)
        .args(["search", "no-such-word lorem"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It is at work on the huge line, and nothing of what it looks for is there.
    let read = format!("/proc/{}/io", child.id());
    super::live::wait_until("it reads", || {
        let told = fs::read_to_string(&read).unwrap_or_default();
        let count = told.lines().find_map(|line| line.strip_prefix("rchar: "));
        count.is_some_and(|count| count.parse::<u64>().unwrap() > 4 << 20)
    });
    drop(child.stdout.take());
    let begun = Instant::now();
    assert!(child.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn row_81_the_first_hit_comes_before_the_walk_ends() {
    let home = TempHome::new();
    claude_session(&home, ONE, "/a", "needle newest");
    let filler = claude_line("user", "\"needle filler\"").repeat(2_000);
    let old = filler.replace("2026-11-15", "2020-01-01");
    for index in 0..8 {
        claude_lines(&home, &format!("cccc{index}000-0000-4000-8000-000000000000"), &old);
    }
    run(&home, "ls -a -q").exits(0);
    let mut child = ostler(&home)
        .args(["search", "--json", "--stream", "--limit", "0", "needle"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    assert!(first.contains(ONE), "{first}");
    // It is still at work: what it has to say does not fit into the pipe.
    assert!(child.try_wait().unwrap().is_none());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    let last: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    assert_eq!(last["end"]["complete"], true);
    assert_eq!(last["end"]["scanned"]["sessions"], 9);
}

#[test]
fn a_block_says_which_session_and_how_to_open_the_entry() {
    let home = TempHome::new();
    claude_session(&home, ONE, "/home/u/api", "where is the \u{1b}[31mneedle\u{202e}?");
    let ran = run(&home, "search needle").exits(0);
    let open = format!("ostler logs {ONE} --from 1");
    assert!(ran.stdout.starts_with("· where is the") && ran.stdout.contains("claude-code · api"));
    assert!(ran.stdout.contains("1 hit") && ran.stdout.contains(&open), "{}", ran.stdout);
    assert!(ran.stdout.contains("[needle]") && !ran.stdout.contains(['\u{1b}', '\u{202e}']));
    let logs = run(&home, &format!("logs {ONE} --from 2 --json")).exits(0).result();
    assert_eq!((&logs["omitted"], &logs["entries"][0]["text"]), (&1.into(), &"done".into()));
    assert!(run(&home, "search nothing").exits(0).stdout.starts_with("Nothing found in 1 session"));
}

#[test]
fn the_limit_says_that_there_may_be_more() {
    let home = TempHome::new();
    claude_session(&home, ONE, "/a", "needle");
    claude_session(&home, TWO, "/a", "needle done");
    let ran = run(&home, "search --limit 1 needle").exits(0);
    assert!(ran.stderr.contains("--limit 0"), "{}", ran.stderr);
    let sorted = run(&home, "search --json --sort hits --limit 0 done").result();
    assert_eq!(sorted["sessions"][0]["id"], TWO);
    assert_eq!(sorted["sessions"][0]["hits"], 2);
    assert_eq!(sorted["complete"], true);
}

#[test]
fn ls_filter_shows_what_fits_and_marks_what_it_does_not_know() {
    let home = TempHome::new();
    claude_session(&home, ONE, "/home/u/api", "fix the parser");
    claude_session(&home, TWO, "/home/u/web", "draw the page");
    let ids =
        |filter: &str| ran(ostler(&home).args(["ls", "-q", "--filter", filter])).exits(0).stdout;
    assert_eq!(ids("is:ended parser"), format!("{ONE}\n"));
    assert_eq!(ids("is:ended -project:api"), format!("{TWO}\n"));
    let wrong = ran(ostler(&home).args(["ls", "--filter", "ist:ended"])).exits(2);
    assert!(wrong.stderr.contains("  ist:ended\n  ^^^^^^^^^"), "{}", wrong.stderr);
}

#[test]
fn titles_names_and_directories_are_searched_and_told_as_such() {
    let home = TempHome::new();
    claude_session(&home, ONE, "/home/u/zebra-shop", "hello");
    let titled = r#"{"type":"custom-title","customTitle":"Mend the walrus","sessionId":"x"}"#;
    claude_lines(&home, TWO, &format!("{}{titled}\n", claude_line("user", "\"a question\"")));
    let found = |query: &str| run(&home, &format!("search --json {query}")).exits(0).result();
    let by_title = found("walrus");
    assert_eq!(by_title["hits"], serde_json::json!([]));
    let session = &by_title["sessions"][0];
    assert_eq!((&session["id"], &session["hits"]), (&TWO.into(), &0.into()));
    let matched = serde_json::json!([{
        "field": "title", "text": "Mend the walrus", "ranges": [[9, 15]]
    }]);
    assert_eq!(session["matched"], matched);
    let by_directory = found("zebra");
    assert_eq!(by_directory["sessions"][0]["matched"][0]["field"], "cwd");
    // Where an entry fits, that says more; and whoever asks for a part of a conversation means that.
    let both = found("a question");
    assert!(both["sessions"][0].get("matched").is_none() && both["hits"][0]["session"] == TWO);
    assert_eq!(found("--role user walrus")["sessions"], serde_json::json!([]));
    assert_eq!(found("-- walrus -mend")["sessions"], serde_json::json!([]));
    let told = run(&home, "search walrus").exits(0).stdout;
    assert!(told.contains("title  ostler show ") && told.contains("Mend the [walrus]"), "{told}");
    assert!(!told.contains("0 hits"), "{told}");
}
