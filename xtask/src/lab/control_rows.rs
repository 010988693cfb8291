//! The rows of `control.md` that are run with each real agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::control::ControlRun;
use super::process;
use super::stage::yes;

/// How long prompts are raced with questions of one agent: each race starts an agent.
const RACE_BUDGET: Duration = Duration::from_secs(4 * 3600);

/// How long prompts are sent into one open question.
const TRIES_BUDGET: Duration = Duration::from_secs(1800);

/// Runs the rows, each for itself: one that fails does not keep the others from being tried.
pub(super) fn run_rows(run: &mut ControlRun<'_>) {
    if let Err(reason) = conversation_rows(run) {
        run.judge("texts", Err(reason));
    }
    run_question(run);
    if run.case.question.is_some() {
        let raced = race_rows(run);
        run.judge("now", raced);
    }
    let stopped = stop_row(run);
    run.judge("stop", stopped);
    let resumed = resume_rows(run);
    run.judge("resume", resumed);
    let unknown = unknown_row(run);
    run.judge("unknown", unknown);
    let errors = error_rows(run);
    run.judge("errors", errors);
    let headless = headless_row(run);
    run.judge("headless", headless);
    let trust = trust_row(run);
    run.judge("trust", trust);
}

/// Prompts into an open question, of an agent that asks.
pub(super) fn run_question(run: &mut ControlRun<'_>) {
    if run.case.question.is_none() {
        return run.skip("asks", "it asks nothing that a model could make it ask here");
    }
    let asked = question_rows(run);
    run.judge("asks", asked);
}

/// What needs one idle agent in a terminal: rows 2, 3, 4, 11, 23, 41, 58.
fn conversation_rows(run: &mut ControlRun<'_>) -> Result<(), String> {
    let agent = run.launch(Some("lab-rows: reply with one word, please"), &[])?;
    let name = agent.name.clone();
    let texts = text_rows(run, &name);
    run.judge("texts", texts);
    let pair = pair_row(run, &name);
    run.judge("pair", pair);
    let commands = command_rows(run, &name);
    run.judge("command", commands);
    let working = working_row(run, &name);
    run.judge("working", working);
    let turn = turn_row(run, &name);
    run.judge("turn", turn);
    let held = held_row(run, &name);
    run.judge("held", held);
    run.stop(&name).is(0, "stop")
}

/// Row 2: several lines, blank lines, 20 KB, emoji, tabs, quotes, trailing blanks.
fn text_rows(run: &mut ControlRun<'_>, name: &str) -> Result<(), String> {
    let long = "one more line of about twenty kilobytes, with \"quotes\" and $HOME\n".repeat(300);
    let texts = [
        ("lines", "lab-text-lines: one\n\n\nfour\n\tfive after a tab".to_owned()),
        ("signs", "lab-text-signs: 日本語 👩‍👩‍👧 \"q\" 'q' `x` $HOME $(id) \\n end   ".to_owned()),
        ("20 KB", format!("lab-text-long: {long}")),
    ];
    let mut bad = Vec::new();
    for (what, text) in texts {
        let answer = run.prompt(name, &text, &[]);
        let how = answer.delivery()["match"].as_str().unwrap_or("none").to_owned();
        match answer.code {
            0 if what == "20 KB" => run.fact("20 KB", how),
            0 => {}
            _ => bad.push(format!("{what}: {} {}", answer.code, answer.text())),
        }
    }
    yes(bad.is_empty(), &bad.join("; "))
}

/// Row 3: two long prompts of equal length.
fn pair_row(run: &mut ControlRun<'_>, name: &str) -> Result<(), String> {
    let text =
        |word: &str| format!("lab-pair-{word}: {}", format!("{word} and so on ").repeat(320));
    let first = run.prompt(name, &text("aaaa"), &[]);
    let second = run.prompt(name, &text("bbbb"), &[]);
    first.is(0, "the first")?;
    let state = second.delivery()["state"].as_str().unwrap_or_default().to_owned();
    run.fact("second of equal length", state.clone());
    yes(
        second.code == 0 || (second.code == 15 && state == "altered"),
        &format!("the second: {} {}", second.code, second.text()),
    )
}

/// Row 11: what the agent would run as a command is refused, and nothing ran.
fn command_rows(run: &ControlRun<'_>, name: &str) -> Result<(), String> {
    let marker = run.stage.dir.join("bang");
    let controls = run.case.agent;
    for front in ["!", " !", "\n!"] {
        let answer = run.prompt(name, &format!("{front}touch {}", marker.display()), &[]);
        // Mere text in some: then it may be delivered, and must not run.
        let text_only = ["gemini", "qwen", "opencode"].contains(&controls);
        yes(answer.code == 13 || text_only, &format!("{front:?}: {}", answer.text()))?;
    }
    let slash = run.prompt(name, "/help", &[]);
    yes(slash.code == 13 && slash.reason() == "command-character", "/help was not refused")?;
    let second = run.prompt(name, "lab-bang: first line\n!second line", &[]);
    second.is(0, "`!` in the second line")?;
    thread::sleep(Duration::from_secs(1));
    yes(!marker.exists(), "a command ran")
}

/// Row 23: a prompt to a working agent waits for the end of its turn.
fn working_row(run: &ControlRun<'_>, name: &str) -> Result<(), String> {
    run.prompt(name, "lab-slow: wait [[delay:4]] [[say:done]]", &[]).is(0, "the slow one")?;
    let begun = Instant::now();
    let after = run.prompt(name, "lab-after: reply with one word", &["--timeout", "90s"]);
    after.is(0, "the one after")?;
    let waited = begun.elapsed();
    yes(waited > Duration::from_millis(1500), &format!("it waited only {waited:?}"))
}

/// Row 58: a turn is interrupted, and the next prompt is accepted.
fn turn_row(run: &mut ControlRun<'_>, name: &str) -> Result<(), String> {
    run.prompt(name, "lab-long: wait [[delay:60]] [[say:never]]", &[]).is(0, "the long one")?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) && run.stage.server.turns("lab-long").is_empty()
    {
        thread::sleep(Duration::from_millis(200));
    }
    let session = run.session_in(name)?;
    let turn = run.ask(&["stop", &session, "--turn"]);
    run.fact("stop --turn", if turn.code == 0 { "ends the turn" } else { "does not end the turn" });
    turn.is(0, "stop --turn")?;
    run.prompt(name, "lab-again: reply with one word", &["--timeout", "60s"]).is(0, "the next one")
}

/// Row 41: a live id is not resumed.
fn held_row(run: &mut ControlRun<'_>, name: &str) -> Result<(), String> {
    let session = run.session_in(name)?;
    let mut words = vec!["resume", &session, "--"];
    words.extend(run.case.arguments);
    let before = process::of_home(&run.stage.home).len();
    let answer = run.ask(&words);
    run.fact("live id", answer.reason().to_owned());
    let after = process::of_home(&run.stage.home).len();
    yes(answer.code == 13, &answer.text())?;
    yes(after <= before, "something was started")
}

/// A question of the agent's about a command that would make a file.
fn open_question(run: &mut ControlRun<'_>, name: &str, tag: &str) -> Result<PathBuf, String> {
    let marker = run.stage.repo.join(format!("ran-{tag}"));
    let text =
        format!("lab-{tag}: do it {}", run.tool_call(&format!("touch {}", marker.display())));
    run.prompt(name, &text, &["--now"]).is(0, "the prompt that makes it ask")?;
    await_question(run, name)?;
    Ok(marker)
}

fn await_question(run: &ControlRun<'_>, name: &str) -> Result<(), String> {
    let words = run.case.question.unwrap_or_default();
    run.ask(&["wait", name, "--text", words, "--timeout", "40000"]).is(0, "its question")
}

/// Row 8: prompts into an open question, each refused, and the question stays.
fn question_rows(run: &mut ControlRun<'_>) -> Result<(), String> {
    let agent = run.launch(Some("lab-ask: reply with one word, please"), &[])?;
    let name = agent.name.clone();
    run.await_agent(&name, "idle", 20);
    let marker = match open_question(run, &name, "ask") {
        Ok(marker) => marker,
        Err(reason) => {
            run.stop(&name);
            return Err(reason);
        }
    };
    let seen = run.await_agent(&name, "waiting", 10);
    run.fact("waiting", if seen { "seen" } else { "not seen" });
    let texts = ["yes, please go on", "1", "y", "1\ny\n", "lab-in: first\nsecond", "y\n\n1\n"];
    let (mut refused, mut composed, mut other) = (0, 0, Vec::new());
    let begun = Instant::now();
    let mut tries = 0;
    while tries < run.options.tries && begun.elapsed() < TRIES_BUDGET {
        let text = texts[tries % texts.len()];
        let more: &[&str] = if tries % 2 == 0 { &[] } else { &["--now"] };
        let words = ["prompt", &name, text, "--accept-timeout", "1s", "--timeout", "1s"];
        let answer = run.ask(&[&words[..], more].concat());
        match answer.code {
            13 | 11 => refused += 1,
            15 => composed += 1,
            code => other.push(format!("{text:?}: {code} {}", answer.text())),
        }
        tries += 1;
        if marker.exists() {
            break;
        }
    }
    let still = run.ask(&[
        "wait",
        &name,
        "--text",
        run.case.question.unwrap_or_default(),
        "--timeout",
        "1000",
    ]);
    println!(
        "{} question open: {tries} prompts, {refused} refused, {composed} without Enter, {} otherwise; tools run: {}",
        run.stage.agent.id,
        other.len(),
        usize::from(marker.exists())
    );
    let stopped = run.stop(&name);
    yes(!marker.exists(), "a prompt approved the tool")?;
    yes(other.is_empty(), &other.join("; "))?;
    check_count(tries, run.options.tries, "prompts into the question")?;
    still.is(0, "the question is gone")?;
    stopped.is(0, "stop while the question was open")?;
    yes(!marker.exists(), "stopping approved the tool")
}

/// Row 24: `--now` while a question opens at any moment, each time in a new agent.
fn race_rows(run: &mut ControlRun<'_>) -> Result<(), String> {
    let begun = Instant::now();
    let (mut races, mut approved) = (0, 0);
    while races < run.options.races && begun.elapsed() < RACE_BUDGET {
        let agent = run.launch(None, &[])?;
        let marker = run.stage.repo.join(format!("race-{races}"));
        let result = race_once(run, &agent.name, races, &marker);
        run.stop(&agent.name);
        approved += usize::from(marker.exists());
        result?;
        races += 1;
    }
    let id = run.stage.agent.id;
    println!("{id} question opens: {races} prompts by --now, tools run: {approved}");
    yes(approved == 0, &format!("{approved} of {races} were approved"))?;
    check_count(races, run.options.races, "races")
}

/// A figure that rests on fewer tries than were asked for is none.
fn check_count(done: usize, asked: usize, what: &str) -> Result<(), String> {
    yes(done == asked, &format!("only {done} of {asked} {what} in the time there was"))
}

fn race_once(run: &ControlRun<'_>, name: &str, race: usize, marker: &Path) -> Result<(), String> {
    let delay = f64::from(u32::try_from(race % 8).unwrap_or_default()) * 0.25;
    let call = run.tool_call(&format!("touch {}", marker.display()));
    let text = format!("lab-race-{race}: [[delay:{delay}]] {call}");
    run.prompt(name, &text, &["--now"]).is(0, "the prompt that makes it ask")?;
    run.ask(&["prompt", name, "and one more thing", "--now", "--accept-timeout", "2s"]);
    await_question(run, name)
}

/// Row 53: an agent is stopped while its tool runs in a session of its own.
fn stop_row(run: &mut ControlRun<'_>) -> Result<(), String> {
    let agent = run.launch(None, &[])?;
    let result = stop_with_tool(run, &agent.name);
    run.stop(&agent.name);
    result
}

fn stop_with_tool(run: &mut ControlRun<'_>, name: &str) -> Result<(), String> {
    let marker = run.stage.repo.join("tool-runs");
    let script = format!("touch {0}; setsid sleep 300; touch {0}.over", marker.display());
    let text = format!("lab-stop: {}", run.tool_call(&script));
    run.prompt(name, &text, &["--now"]).is(0, "the prompt")?;
    if run.case.question.is_some() {
        await_question(run, name)?;
        // As a person does.
        run.ask(&["send-keys", name, "Enter"]).is(0, "the answer")?;
    }
    let begun = Instant::now();
    while !marker.exists() && begun.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(200));
    }
    if !marker.exists() {
        return Err("its tool did not run".to_owned());
    }
    let answer = run.stop(name);
    let stopped = &answer.envelope["result"]["stopped"][0];
    let told = stopped["processes"].as_array().cloned().unwrap_or_default();
    let mut ways: Vec<&str> = told.iter().filter_map(|one| one["how"].as_str()).collect();
    ways.sort_unstable();
    ways.dedup();
    let slowest = told.iter().filter_map(|one| one["ms"].as_u64()).max().unwrap_or_default();
    println!(
        "{} stop with a tool: {} processes, {}, {slowest} ms",
        run.stage.agent.id,
        told.len(),
        ways.join(" and ")
    );
    answer.is(0, "stop")?;
    let own = fs::canonicalize(&run.ostler).unwrap_or_default();
    let left: Vec<String> = process::of_home(&run.stage.home)
        .iter()
        .filter(|one| one.link("exe") != own && one.comm == "sleep")
        .map(|one| format!("{} {}", one.pid, one.comm))
        .collect();
    yes(left.is_empty(), &format!("left: {}", left.join(", ")))
}

/// Rows 39 and 43: the same conversation goes on, in its own directory, and the model is shown the earlier text.
fn resume_rows(run: &mut ControlRun<'_>) -> Result<(), String> {
    let first = run.launch(Some("lab-memory: the word is heliotrope"), &[])?;
    let session = run.session_in(&first.name);
    run.await_agent(&first.name, "idle", 20);
    run.stop(&first.name).is(0, "stop")?;
    let session = session?;
    let elsewhere = run.stage.dir.join("elsewhere");
    fs::create_dir_all(&elsewhere).map_err(|error| error.to_string())?;
    let mut words = vec![
        "resume",
        &session,
        "lab-recall: which word was it?",
        "--name",
        "again",
        "--accept-timeout",
        "60s",
        "--ready-timeout",
        "120s",
        "--",
    ];
    words.extend(run.case.arguments);
    let answer = run.ask_in(&elsewhere, &words);
    let launch = answer.launch();
    let place = if launch["cwd"] == run.stage.repo.to_string_lossy().as_ref() {
        "its own"
    } else {
        "another"
    };
    let resumed = launch["session"]["id"].as_str().unwrap_or_default().to_owned();
    run.fact("other directory", place);
    let reason = launch["reason"].to_string();
    answer.is(0, &format!("resume ({reason})"))?;
    yes(resumed == session, &format!("{resumed} instead of {session}"))?;
    let begun = Instant::now();
    let recalled = loop {
        let turns = run.stage.server.turns("lab-recall");
        if turns.iter().any(|turn| turn.user_text.contains("heliotrope")) {
            break true;
        }
        if begun.elapsed() > Duration::from_secs(20) {
            break false;
        }
        thread::sleep(Duration::from_millis(200));
    };
    run.stop("again");
    yes(recalled, "the model was not shown the earlier text")
}

/// Row 40: an unknown id starts nothing.
fn unknown_row(run: &mut ControlRun<'_>) -> Result<(), String> {
    let before = process::of_home(&run.stage.home).len();
    let answer = run.ask(&["resume", "00000000-0000-4000-8000-00000000beef", "x"]);
    run.fact("unknown id", if answer.code == 3 { "not found" } else { "taken" });
    answer.is(3, "an unknown id")?;
    yes(process::of_home(&run.stage.home).len() <= before, "something was started")
}

/// Row 28: how a turn that fails is told. Each in an agent of its own: what a failed turn said is sent again with the next.
fn error_rows(run: &mut ControlRun<'_>) -> Result<(), String> {
    let mut bad = Vec::new();
    for status in [400, 429, 529] {
        let name = run.launch(None, &[])?.name;
        let text = format!("lab-error-{status}: [[error:{status}]]");
        let answer = run.prompt(&name, &text, &["--now", "--wait", "idle", "--timeout", "20s"]);
        let end = answer.delivery()["turn"]["end"].as_str().unwrap_or("none").to_owned();
        let what = match status {
            400 => "turn after 400",
            429 => "turn after 429",
            _ => "turn after 529",
        };
        run.fact(what, format!("{} {end}", answer.code));
        run.stop(&name);
        bad.extend(judge_error(status, answer.code, &end).err());
    }
    // One that never answers.
    let name = run.launch(None, &[])?.name;
    let more = ["--now", "--wait", "idle", "--timeout", "5s"];
    let answer = run.prompt(&name, "lab-hang: [[delay:600]] [[say:never]]", &more);
    let end = answer.delivery()["turn"]["end"].as_str().unwrap_or("none").to_owned();
    run.stop(&name);
    run.fact("turn that hangs", format!("{} {end}", answer.code));
    if answer.code != 11 || end != "open" {
        bad.push(format!("a turn that hangs: {}", answer.text()));
    }
    yes(bad.is_empty(), &bad.join("; "))
}

/// How a turn may be told that the model ended with that status. An agent that tries again has an open turn, and one whose
/// record does not say how a turn ended is told so; an answer it is never.
fn judge_error(status: u16, code: i32, end: &str) -> Result<(), String> {
    let fits = match (code, end) {
        (17, "limited") => status == 429,
        (17, "failed") | (0, "over") => true,
        (11, "open") => status != 400,
        _ => false,
    };
    yes(fits, &format!("a turn after {status}: {code} {end}"))
}

/// Row 31: a prompt of 200 KB without a terminal.
fn headless_row(run: &mut ControlRun<'_>) -> Result<(), String> {
    let file = run.stage.dir.join("long-prompt");
    let text = format!("lab-headless: {}", "a line of two hundred kilobytes\n".repeat(6300));
    fs::write(&file, &text).map_err(|error| error.to_string())?;
    let file = file.to_string_lossy().into_owned();
    let mut words = vec![
        "launch",
        run.stage.agent.id,
        "--headless",
        "--file",
        &file,
        "--wait",
        "idle",
        "--accept-timeout",
        "90s",
        "--timeout",
        "120s",
        "--",
    ];
    let arguments = run.case.arguments;
    // Options of its terminal mode mean nothing without one.
    words.extend(arguments.iter().filter(|_| run.case.agent == "pi"));
    let answer = run.ask(&words);
    let state = answer.delivery()["state"].as_str().unwrap_or_default().to_owned();
    let told = if answer.code == 13 { "refused".to_owned() } else { state };
    run.fact("headless", told.clone());
    yes(answer.code == 0 || (run.case.agent == "kimi" && answer.code == 13), &answer.text())
}

/// Row 10: a directory that is not trusted yet.
fn trust_row(run: &mut ControlRun<'_>) -> Result<(), String> {
    let new = run.stage.dir.join("untrusted");
    fs::create_dir_all(&new).map_err(|error| error.to_string())?;
    let place = new.to_string_lossy().into_owned();
    let mut words = vec![
        "launch",
        run.stage.agent.id,
        "--cwd",
        &place,
        "--name",
        "new-place",
        "--ready-timeout",
        "60s",
        "--",
    ];
    words.extend(run.case.arguments);
    let answer = run.ask(&words);
    let kind = answer.launch()["blockedBy"]["kind"].as_str().unwrap_or_default().to_owned();
    run.fact("trust", if kind == "trust" { "asks" } else { "does not ask" });
    run.stop("new-place");
    match (answer.code, kind.as_str()) {
        (0, _) => Ok(()),
        (16, "trust") => {
            let again = run.ask(&words);
            run.stop("new-place");
            again.is(16, "the second start: it was trusted by the first")
        }
        (code, _) => Err(format!("{code} {}", answer.text())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_28_a_turn_that_failed_is_never_told_as_an_answer() {
        for (status, code, end, fits) in [
            (400, 17, "failed", true),
            (429, 17, "limited", true),
            (429, 11, "open", true),
            (529, 0, "over", true),
            (400, 0, "answered", false),
            (400, 11, "open", false),
            (529, 17, "limited", false),
        ] {
            assert_eq!(judge_error(status, code, end).is_ok(), fits, "{status} {code} {end}");
        }
        assert!(check_count(199, 200, "races").is_err() && check_count(200, 200, "races").is_ok());
    }
}
