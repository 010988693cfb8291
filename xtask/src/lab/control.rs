//! Control in real agents: launched, prompted, resumed and stopped by the ostler under test.
//!
//! Rows of `control.md` that are marked `[A]` are run for every agent that can be driven here. What was seen is printed
//! as a table and compared with what ostler's control tables were written from: a difference fails. Then the figure:
//! so many prompts, on an idle machine and under load, each accepted or refused, none lost, none doubled; and so many
//! prompts into an open question, which must approve nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::control_rows;
use super::control_table::{ControlCase, Fact, case_of, compare_facts};
use super::report::{Outcome, Verdict};
use super::stage::Stage;

/// The columns of this part of the lab.
pub(crate) const CHECKS: &[&str] = &[
    "drive", "first", "idle", "load", "texts", "pair", "asks", "now", "command", "working", "turn",
    "held", "stop", "resume", "unknown", "errors", "headless", "trust", "table",
];

/// How long an Enter counts as a prompt that is not recorded yet.
const ANSWERED_SPAN: Duration = Duration::from_secs(21);

/// How much is done.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ControlOptions {
    /// Prompts of the delivery figure, idle and under load
    #[arg(long, default_value_t = 20, requires = "control")]
    pub(super) prompts: usize,
    /// Prompts into an open question
    #[arg(long, default_value_t = 200, requires = "control")]
    pub(super) tries: usize,
    /// Prompts that race with a question which opens, each in an agent of its own
    #[arg(long, default_value_t = 200, requires = "control")]
    pub(super) races: usize,
    /// The delivery figure and the prompts into an open question, and none of the other rows
    #[arg(long, requires = "control")]
    pub(super) figure: bool,
}

/// One answer of ostler's: its exit code and envelope.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: i32,
    pub(super) envelope: Value,
    pub(super) took: Duration,
}

impl Answer {
    /// The delivery, whether it succeeded or not.
    pub(super) fn delivery(&self) -> &Value {
        let error = &self.envelope["error"]["details"]["delivery"];
        if error.is_object() {
            return error;
        }
        let result = &self.envelope["result"];
        let launched = &result["delivery"];
        if launched.is_object() { launched } else { result }
    }

    /// The launch, whether it succeeded or not.
    pub(super) fn launch(&self) -> &Value {
        let error = &self.envelope["error"]["details"]["launch"];
        if error.is_object() { error } else { &self.envelope["result"] }
    }

    pub(super) fn reason(&self) -> &str {
        self.envelope["error"]["details"]["reason"].as_str().unwrap_or_default()
    }

    pub(super) fn is(&self, code: i32, what: &str) -> Result<(), String> {
        match self.code == code {
            true => Ok(()),
            false => {
                Err(format!("{what}: exit code {} instead of {code}: {}", self.code, self.text()))
            }
        }
    }

    pub(super) fn text(&self) -> String {
        let text = match self.envelope["error"].is_object() {
            true => {
                self.envelope["error"]["message"].to_string()
                    + &self.delivery()["reason"].to_string()
            }
            false => self.envelope["result"].to_string(),
        };
        text.chars().take(400).collect()
    }
}

/// One agent under control.
pub(crate) struct ControlRun<'a> {
    pub(super) stage: &'a Stage,
    pub(super) case: &'static ControlCase,
    pub(super) ostler: PathBuf,
    pub(super) options: ControlOptions,
    pub(super) outcomes: Vec<Outcome>,
    pub(super) facts: Vec<Fact>,
    started: usize,
}

/// Runs the part for one agent; the rows of the table are printed.
pub(crate) fn run(stage: &Stage, ostler: &Path, options: ControlOptions) -> Vec<Outcome> {
    let Some(case) = case_of(stage.agent.id) else {
        let reason = "it is not driven".to_owned();
        return vec![Outcome { check: "drive", verdict: Verdict::NotApplicable, reason }];
    };
    let mut run = ControlRun {
        stage,
        case,
        ostler: ostler.to_owned(),
        options,
        outcomes: Vec::new(),
        facts: Vec::new(),
        started: 0,
    };
    let prepared = (case.prepare)(stage);
    let driven = prepared.and_then(|()| run.all());
    run.judge("drive", driven);
    if options.figure {
        return run.outcomes;
    }
    let (table, differences) = compare_facts(case, &run.facts);
    println!("{table}");
    let compared = if differences.is_empty() { Ok(()) } else { Err(differences.join("; ")) };
    run.judge("table", compared);
    run.outcomes
}

impl ControlRun<'_> {
    pub(super) fn judge(&mut self, check: &'static str, result: Result<(), String>) {
        let (verdict, reason) = match result {
            Ok(()) => (Verdict::Pass, String::new()),
            Err(reason) => (Verdict::Fail, reason),
        };
        eprintln!("lab:   {check}: {}", if reason.is_empty() { "ok" } else { &reason });
        self.outcomes.push(Outcome { check, verdict, reason });
    }

    pub(super) fn skip(&mut self, check: &'static str, reason: &str) {
        let verdict = Verdict::NotApplicable;
        self.outcomes.push(Outcome { check, verdict, reason: reason.to_owned() });
    }

    /// Notes what was seen, for the table.
    pub(super) fn fact(&mut self, name: &'static str, value: impl Into<String>) {
        let value = value.into();
        self.facts.push(Fact { name, value });
    }

    /// Runs a command of ostler's where the agent works.
    pub(super) fn ask(&self, words: &[&str]) -> Answer {
        self.ask_in(&self.stage.repo, words)
    }

    pub(super) fn ask_in(&self, directory: &Path, words: &[&str]) -> Answer {
        let begun = Instant::now();
        let mut command = self.command(words);
        let output = command.current_dir(directory).stdin(Stdio::null()).output();
        let (code, text) = match output {
            Ok(output) => (
                output.status.code().unwrap_or(-1),
                String::from_utf8_lossy(&output.stdout).into_owned(),
            ),
            Err(error) => (-1, format!("{{\"error\":{{\"message\":\"{error}\"}}}}")),
        };
        let envelope = serde_json::from_str(&text).unwrap_or_default();
        Answer { code, envelope, took: begun.elapsed() }
    }

    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.stage.command(&[self.ostler.to_string_lossy().into_owned()]);
        let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        command.args(&words[..at]).arg("--json").args(&words[at..]).env("SHELL", "/bin/sh");
        command
    }

    /// Launches the agent in a terminal; answers trust dialogs as a person would, and returns when it is ready.
    pub(super) fn launch(&mut self, text: Option<&str>, more: &[&str]) -> Result<Launched, String> {
        self.started += 1;
        let name = format!("run-{}", self.started);
        let mut words = vec!["launch", self.stage.agent.id];
        words.extend(text);
        words.extend(["--name", &name, "--ready-timeout", "120s", "--accept-timeout", "60s", "--"]);
        words.extend(self.case.arguments);
        words.extend(more);
        let answer = self.ask(&words);
        let mut launch = answer.launch().clone();
        let kind = launch["blockedBy"]["kind"].as_str().unwrap_or_default().to_owned();
        if answer.code == 16 && kind == "trust" {
            let keys = [&["send-keys", &name][..], self.case.trust_keys].concat();
            self.ask(&keys).is(0, "answering the trust dialog")?;
            let words = ["wait", &name, "--screen-stable-ms", "1500", "--timeout", "30000"];
            self.ask(&words).is(0, "after the trust dialog")?;
            // That Enter may have been a prompt, for as long as a record of one may be late.
            thread::sleep(ANSWERED_SPAN);
            if let Some(text) = text {
                let sent = self.ask(&["prompt", &name, text, "--now", "--accept-timeout", "60s"]);
                sent.is(0, "the first prompt after the trust dialog")?;
                launch["session"]["id"] = sent.delivery()["session"].clone();
            }
        } else if answer.code != 0 {
            let shown = launch["blockedBy"]["screen"].to_string();
            return Err(format!("launch: {} {}: {shown}", answer.code, answer.text()));
        }
        let session = launch["session"]["id"].as_str().unwrap_or_default().to_owned();
        let bound = launch["session"]["bound"].as_str().unwrap_or("none").to_owned();
        Ok(Launched { name, session, bound, took: answer.took })
    }

    /// The words that make the model run a script in the agent's shell.
    pub(super) fn tool_call(&self, script: &str) -> String {
        self.case.tool.replace("{}", script)
    }

    pub(super) fn prompt(&self, target: &str, text: &str, more: &[&str]) -> Answer {
        let words = ["prompt", target, text, "--accept-timeout", "60s"];
        self.ask(&[&words[..], more].concat())
    }

    pub(super) fn stop(&self, target: &str) -> Answer {
        self.ask(&["stop", target])
    }

    /// Waits until ostler says that the agent in a terminal does something.
    pub(super) fn await_agent(&self, target: &str, state: &str, seconds: u64) -> bool {
        let timeout = (seconds * 1000).to_string();
        self.ask(&["wait", target, "--for-agent", state, "--timeout", &timeout]).code == 0
    }

    fn all(&mut self) -> Result<(), String> {
        self.deliver()?;
        match self.options.figure {
            true => control_rows::run_question(self),
            false => control_rows::run_rows(self),
        }
        Ok(())
    }

    /// The delivery figure: idle and under load.
    fn deliver(&mut self) -> Result<(), String> {
        let launched = self.launch(None, &[])?;
        eprintln!("lab:   ready after {:.1} s", launched.took.as_secs_f64());
        let first = self.prompt(&launched.name, "lab-first: reply with one word, please", &[]);
        let first = first.is(0, "the first prompt, without --now");
        self.judge("first", first);
        let session = self.session_in(&launched.name)?;
        let bound = match launched.session.as_str() {
            "" => "first-prompt".to_owned(),
            id if id == session => launched.bound.clone(),
            other => format!("{other} became {session}"),
        };
        self.fact("id", bound);
        let idle = self.figure(&launched.name, &session, "idle");
        self.judge("idle", idle);
        let load = MachineLoad::start(4);
        let loaded = self.figure(&launched.name, &session, "load");
        drop(load);
        self.judge("load", loaded);
        self.stop(&launched.name).is(0, "stop")
    }

    /// The conversation that runs in a terminal.
    pub(super) fn session_in(&self, terminal: &str) -> Result<String, String> {
        let deadline = Instant::now() + Duration::from_secs(15);
        loop {
            let who = self.ask(&["who", terminal]);
            let all =
                who.envelope["result"]["conversations"].as_array().cloned().unwrap_or_default();
            let own = all.iter().find(|one| one["agent"] == self.stage.agent.id);
            if let Some(id) = own.and_then(|one| one["conversation"].as_str()) {
                return Ok(id.to_owned());
            }
            if Instant::now() > deadline {
                return Err(format!("no conversation in {terminal}: {}", who.envelope));
            }
            thread::sleep(Duration::from_millis(300));
        }
    }

    fn figure(&mut self, terminal: &str, session: &str, kind: &'static str) -> Result<(), String> {
        let count = self.options.prompts;
        let (mut accepted, mut refused, mut enters, mut times) = (0, 0, 0, Vec::new());
        let mut matches: Vec<String> = Vec::new();
        let mut bad = Vec::new();
        for at in 0..count {
            let tag = format!("lab-{kind}-{at:03}");
            let text = sample_text(&tag, at);
            let answer = self.prompt(terminal, &text, &["--timeout", "120s"]);
            let delivery = answer.delivery();
            match answer.code {
                0 => {
                    accepted += 1;
                    times.push(delivery["acceptedMs"].as_u64().unwrap_or_default());
                    enters += delivery["enters"].as_u64().unwrap_or_default();
                    let how = delivery["match"].as_str().unwrap_or("none").to_owned();
                    if !matches.contains(&how) {
                        matches.push(how);
                    }
                }
                11 | 13 => refused += 1,
                _ => bad.push(format!("{tag}: {} {}", answer.code, answer.text())),
            }
        }
        let said = self.user_texts(session);
        let times_said = |tag: &str| said.iter().filter(|text| text.contains(tag)).count();
        let seen: Vec<usize> =
            (0..count).map(|at| times_said(&format!("lab-{kind}-{at:03}"))).collect();
        let lost = seen.iter().filter(|times| **times == 0).count();
        let doubled = seen.iter().filter(|times| **times > 1).count();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let slowest = times.last().copied().unwrap_or_default();
        matches.sort();
        println!(
            "{} {kind}: {accepted} of {count} accepted, {refused} refused, {} otherwise; {enters} Enters; \
             lost {}, doubled {doubled}; median {median} ms, slowest {slowest} ms; {}",
            self.stage.agent.id,
            bad.len(),
            lost.saturating_sub(refused),
            matches.join(", ")
        );
        if kind == "idle" {
            self.fact("match", matches.join(", "));
        }
        match bad.is_empty() && lost <= refused && doubled == 0 {
            true => Ok(()),
            false => Err(format!(
                "lost {lost}, refused {refused}, doubled {doubled}; {}",
                bad.join("; ")
            )),
        }
    }

    /// What the agent's own record says that the user said.
    pub(super) fn user_texts(&self, session: &str) -> Vec<String> {
        let mut command = self.command(&["logs", session, "--lines", "100000"]);
        let output = command.current_dir(&self.stage.repo).stdin(Stdio::null()).output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut found = Vec::new();
        for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>().flatten() {
            collect_user_texts(&value, &mut found);
        }
        found
    }
}

fn collect_user_texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if members.get("role").and_then(Value::as_str) == Some("user")
                && let Some(text) = members.get("text").and_then(Value::as_str)
            {
                found.push(text.to_owned());
                return;
            }
            members.values().for_each(|value| collect_user_texts(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| collect_user_texts(value, found)),
        _ => {}
    }
}

/// One line, several, or a long one: a third of the prompts each.
fn sample_text(tag: &str, at: usize) -> String {
    match at % 3 {
        0 => format!("{tag}: reply with one word, please"),
        1 => {
            format!("{tag}: first line\n\nthird line with \"quotes\", $HOME and 日本 👍\nlast line")
        }
        _ => {
            let line = "a longer line of a long prompt, as somebody pastes it from elsewhere\n";
            format!("{tag}: {}", line.repeat(20 + at))
        }
    }
}

/// An agent in a terminal.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) name: String,
    pub(super) session: String,
    bound: String,
    took: Duration,
}

/// Threads that keep every core busy several times over, until dropped.
struct MachineLoad {
    stop: Arc<AtomicBool>,
    workers: Vec<thread::JoinHandle<()>>,
}

impl MachineLoad {
    fn start(times: usize) -> Self {
        let cores = thread::available_parallelism().map_or(2, usize::from);
        let stop = Arc::new(AtomicBool::new(false));
        let worker = |_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut sum = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
                }
            })
        };
        let workers = (0..cores * times).map(worker).collect();
        Self { stop, workers }
    }
}

impl Drop for MachineLoad {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for worker in self.workers.drain(..) {
            drop(worker.join());
        }
    }
}
