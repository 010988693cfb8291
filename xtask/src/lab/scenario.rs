//! What is done with each agent: a turn without a terminal, a session in a terminal, a session
//! that is killed; and at each moment, what ostler must say about it.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::agents::{Agent, Tui};
use super::checks::{self, Made};
use super::model_server::TITLE;
use super::ostler::Ostler;
use super::report::{Outcome, Verdict};
use super::stage::{Stage, until, yes};
use super::terminal::Terminal;
use super::{Options, observe, process};

/// How long the model (or the tool) holds a turn open while ostler is asked about it.
const HOLD: u64 = 10;
/// How long an agent may take to send its first request; some install things first.
const START: Duration = Duration::from_secs(90);
/// How long ostler may take to notice what has happened.
const NOTICE: Duration = Duration::from_secs(8);
/// How long a daemon may hold on to a session whose terminal has quit.
const LINGER: Duration = Duration::from_secs(150);

/// One agent on its stage, and what was found out so far.
pub(crate) struct Run<'a> {
    agent: &'static Agent,
    stage: Stage,
    options: &'a Options,
    ostler: Option<Ostler>,
    /// How many sessions were made so far, and the ids of those that ostler has shown.
    made: usize,
    known: Vec<String>,
    outcomes: Vec<Outcome>,
}

/// What the model is told to say to the prompt with this tag.
fn answer(tag: &str) -> String {
    format!("answer to {tag}")
}

impl<'a> Run<'a> {
    pub(crate) fn new(stage: Stage, options: &'a Options) -> Run<'a> {
        let ostler = |binary| Ostler::new(binary, &stage.home);
        Run {
            agent: stage.agent,
            ostler: options.ostler.as_deref().map(ostler),
            stage,
            options,
            made: 0,
            known: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    /// Runs everything. What could not be driven is an outcome too.
    pub(crate) fn all(mut self) -> Vec<Outcome> {
        let mut driven = self.headless();
        match &self.agent.tui {
            Ok(tui) if driven.is_ok() => driven = self.terminal(tui),
            Ok(_) => {}
            Err(why) => {
                for check in ["tui-working", "idle", "waiting", "tui-session"] {
                    self.note(check, Verdict::NotApplicable, why);
                }
            }
        }
        let driven = driven.and_then(|()| self.killed());
        match driven {
            Ok(()) => self.note("drive", Verdict::Pass, ""),
            Err(reason) => self.note("drive", Verdict::Fail, &reason),
        }
        if let Some(ostler) = &self.ostler {
            let result =
                ostler.list().and_then(|listing| checks::only(&listing, &self.known, self.made));
            self.judge("listing", result, "");
        }
        let left = process::kill_run(&self.stage.home);
        if !left.is_empty() {
            let pids: Vec<String> = left.iter().map(|process| process.pid.to_string()).collect();
            self.note("drive", Verdict::Fail, &format!("could not end pids {}", pids.join(" ")));
        }
        self.look("");
        let log: Vec<Value> = self.stage.server.log().iter().map(|entry| entry.to_json()).collect();
        let log = Value::Array(log).to_string();
        let _ = fs::write(self.stage.dir.join("model-requests.json"), &log);
        if let Some(into) = &self.options.snapshots {
            let _ = fs::write(into.join(format!("{}-model-requests.json", self.agent.id)), &log);
        }
        if !self.options.keep {
            let _ = fs::remove_dir_all(&self.stage.dir);
        }
        std::mem::take(&mut self.outcomes)
    }

    fn note(&mut self, check: &'static str, verdict: Verdict, reason: &str) {
        self.outcomes.push(Outcome { check, verdict, reason: reason.to_owned() });
    }

    /// Turns the result of a check into an outcome. `how` explains a pass.
    fn judge(&mut self, check: &'static str, result: Result<(), String>, how: &str) {
        match result {
            Ok(()) => self.note(check, Verdict::Pass, how),
            Err(reason) => self.note(check, Verdict::Fail, &reason),
        }
    }

    /// The raw view of this moment, if it was asked for.
    fn look(&self, moment: &str) {
        if self.options.snapshots.is_some() && moment.ends_with("midturn") {
            // Some agents write a moment after they have asked the model.
            thread::sleep(Duration::from_secs(2));
        }
        if let Some(into) = &self.options.snapshots
            && let Err(error) = observe::snapshot(&self.stage.home, into, self.agent.id, moment)
        {
            eprintln!("lab: {} {moment}: {error}", self.agent.id);
        }
    }

    /// Asks ostler until the session that is not yet known is in this state.
    fn expect(&mut self, check: &'static str, what: &str, state: [&str; 3], how: &str) {
        self.expect_within(NOTICE, check, what, state, how);
    }

    fn expect_within(
        &mut self,
        limit: Duration,
        check: &'static str,
        what: &str,
        state: [&str; 3],
        how: &str,
    ) {
        let Some(ostler) = &self.ostler else { return };
        let [status, liveness, activity] = state;
        let result = until(what, limit, || {
            let listing = ostler.list()?;
            let session = checks::newest(&listing, self.agent.id, &self.known)?;
            checks::state(session, status, liveness, activity)
        });
        self.judge(check, result, how);
    }

    /// The prompt of a session and the words that hold its turn open for a while.
    fn prompt(&self, tag: &str, seconds: u64) -> String {
        let hold = if self.agent.silent_until_answer { "tool:sleep " } else { "delay:" };
        format!("Reply to {tag} [[say:{}]] [[{hold}{seconds}]]", answer(tag))
    }

    fn how_held(&self) -> &'static str {
        if self.agent.silent_until_answer {
            "asked during a tool call: it writes no file before the model's first answer"
        } else {
            ""
        }
    }

    fn made(&self, prompt: &str, tag: &str, id: Option<String>) -> Made {
        let turns = self.stage.server.turns(tag);
        let asked = turns.first().map(|turn| turn.model.clone()).unwrap_or_default();
        Made {
            agent: self.agent.id,
            prompt: prompt.to_owned(),
            id,
            cwd: (!self.agent.own_workspace).then(|| self.stage.repo.clone()),
            model: self.agent.model.map_or(asked, str::to_owned),
            requests: turns.iter().filter(|turn| turn.answered).count() as u64,
            turns: 1,
            made_title: self.agent.makes_titles.then_some(TITLE),
        }
    }

    /// Waits for the new session to be exited, judges its facts and its log, and remembers it.
    fn ended(&mut self, check: &'static str, made: &Made, answer: &str) {
        let what = "the session to be exited";
        let (limit, how) = match self.agent.lingers {
            Some(why) if check == "tui-session" => (LINGER, why),
            _ => (NOTICE, ""),
        };
        self.expect_within(limit, "exited", what, ["exited", "dead", ""], how);
        let Some(ostler) = &self.ostler else { return };
        let result = ostler.list().and_then(|listing| {
            let session = checks::newest(&listing, self.agent.id, &self.known)?;
            let id = session["id"].as_str().unwrap_or_default().to_owned();
            self.known.push(id.clone());
            let facts = checks::facts(session, made);
            Ok((id, facts.and_then(|()| checks::only(&listing, &self.known, self.made))))
        });
        match result {
            Err(reason) => self.note(check, Verdict::Fail, &reason),
            Ok((id, facts)) => {
                let texts = ostler.log_texts(&id);
                let log = texts.and_then(|texts| checks::log(&texts, &made.prompt, answer));
                self.judge(check, facts, "");
                self.judge("logs", log, "");
            }
        }
    }

    /// A turn without a terminal.
    fn headless(&mut self) -> Result<(), String> {
        let tag = "prompt-one";
        let prompt = self.prompt(tag, HOLD);
        let mut child = self.stage.start_headless(&prompt, "headless")?;
        self.stage.in_turn(tag, START, || child.ended().is_none()).map_err(|reason| {
            format!("{reason}; it printed: {}", self.stage.printed("headless"))
        })?;
        self.made += 1;
        self.look("midturn");
        self.expect(
            "working",
            "a working session",
            ["running", "alive", "working"],
            self.how_held(),
        );
        let status = until("the headless run to end", Duration::from_secs(HOLD + 60), || {
            child.ended().ok_or_else(|| "it still runs".to_owned())
        })?;
        yes(
            status.success(),
            &format!("the headless run ended with {status}: {}", self.stage.printed("headless")),
        )?;
        self.look("ended");
        let id = self.agent.id_key;
        let id = id.and_then(|key| self.stage.stated_id("headless", key));
        yes(id.is_some() || self.agent.id_key.is_none(), "its output states no session id")?;
        let made = self.made(&prompt, tag, id);
        self.ended("session", &made, &answer(tag));
        Ok(())
    }

    /// A session in a terminal: a turn, idle, waiting where that is visible, and a clean end.
    fn terminal(&mut self, tui: &Tui) -> Result<(), String> {
        let words: Vec<String> = tui.command.iter().map(|word| (*word).to_owned()).collect();
        let mut terminal =
            Terminal::start(&self.stage.command(&words)).map_err(|e| format!("terminal: {e}"))?;
        let result = self.drive(tui, &mut terminal);
        let _ = fs::write(self.stage.dir.join("terminal.out"), terminal.bytes());
        result.map_err(|reason| {
            let text: Vec<char> = terminal.text().chars().collect();
            let text: String = text[text.len().saturating_sub(300)..].iter().collect();
            format!("terminal: {reason}; the screen ends with {text}")
        })
    }

    fn drive(&mut self, tui: &Tui, terminal: &mut Terminal) -> Result<(), String> {
        let limit = Duration::from_secs(40);
        let quiet = |terminal: &Terminal| {
            yes(terminal.is_quiet(Duration::from_millis(1500)), "it still draws")
        };
        for (text, keys) in tui.dialogs {
            until(&format!("the dialog {text:?}"), limit, || {
                yes(terminal.text().contains(text), "not shown")
            })?;
            until("a quiet screen", limit, || quiet(terminal))?;
            terminal.press(keys).map_err(|error| error.to_string())?;
        }
        until(&format!("{:?} on the screen", tui.ready), limit, || {
            yes(terminal.text().contains(tui.ready), "not shown")
        })?;
        until("a quiet screen", limit, || quiet(terminal))?;
        self.look("tui-start");

        let tag = "prompt-two";
        let prompt = self.prompt(tag, HOLD);
        self.say(terminal, &prompt, tag)?;
        self.made += 1;
        self.look("tui-midturn");
        self.expect(
            "tui-working",
            "a working session",
            ["running", "alive", "working"],
            self.how_held(),
        );
        until("the answer to be complete", Duration::from_secs(HOLD + 30), || {
            let turns = self.stage.server.turns(tag);
            let wanted = if self.agent.silent_until_answer { 2 } else { 1 };
            yes(turns.len() >= wanted && turns.iter().all(|turn| turn.answered), "not yet")
        })?;
        until("a quiet screen", limit, || quiet(terminal))?;
        self.look("idle");
        self.expect("idle", "an idle session", ["running", "alive", "idle"], "");

        let mut made_turns = 1;
        if let Some(question) = self.agent.permission_prompt {
            made_turns += 1;
            let tag = "prompt-three";
            self.say(terminal, &format!("Reply to {tag} [[tool:touch made-by-{tag}]]"), tag)?;
            until("the permission prompt", limit, || {
                yes(terminal.text().contains(question), "not on the screen")
            })?;
            self.look("waiting");
            self.expect("waiting", "a session that waits", ["running", "alive", "waiting"], "");
            terminal.press("\r").map_err(|error| error.to_string())?;
            until("the end of the turn with the tool", limit, || {
                yes(
                    self.stage.server.turns(tag).iter().filter(|turn| turn.answered).count() >= 2,
                    "not yet",
                )?;
                quiet(terminal)
            })?;
            self.expect("idle", "an idle session again", ["running", "alive", "idle"], "");
        } else {
            self.note(
                "waiting",
                Verdict::NotApplicable,
                "it leaves no sign of a permission prompt on disk",
            );
        }

        self.quit(tui, terminal)?;
        self.look("tui-ended");
        let mut made = self.made(&prompt, tag, None);
        made.turns = made_turns;
        self.ended("tui-session", &made, &answer(tag));
        Ok(())
    }

    /// Types a prompt until the model is asked. Some agents take the first Enter for something
    /// else, and some lose what is typed too early.
    fn say(&self, terminal: &mut Terminal, prompt: &str, tag: &str) -> Result<(), String> {
        terminal.submit(prompt).map_err(|error| error.to_string())?;
        let first = self.stage.in_turn(tag, Duration::from_secs(8), || !terminal.has_exited());
        if first.is_ok() || !self.stage.server.turns(tag).is_empty() {
            return Ok(());
        }
        let shown = terminal.text().contains(tag);
        let again = if shown { terminal.press("\r") } else { terminal.submit(prompt) };
        again.map_err(|error| error.to_string())?;
        self.stage.in_turn(tag, Duration::from_secs(20), || !terminal.has_exited())
    }

    fn quit(&self, tui: &Tui, terminal: &mut Terminal) -> Result<(), String> {
        terminal.submit(tui.quit).map_err(|error| error.to_string())?;
        // The same again, for those that take the first Enter to complete the command; then
        // what every terminal program understands.
        for keys in ["\r", "\x03", "\x03", "\x04"] {
            let ended = until("the end of the terminal session", Duration::from_secs(5), || {
                yes(terminal.has_exited(), "it still runs")
            });
            if ended.is_ok() {
                return Ok(());
            }
            let _ = terminal.press(keys);
        }
        until("the end of the terminal session", Duration::from_secs(5), || {
            yes(terminal.has_exited(), "it still runs")
        })
    }

    /// A session whose processes are all killed in mid-turn.
    fn killed(&mut self) -> Result<(), String> {
        let tag = "prompt-four";
        let mut child = self.stage.start_headless(&self.prompt(tag, 100), "killed")?;
        self.stage
            .in_turn(tag, START, || child.ended().is_none())
            .map_err(|reason| format!("{reason}; it printed: {}", self.stage.printed("killed")))?;
        if self.agent.one_session {
            // The session is not a new one, so it is looked for again.
            self.known.clear();
        } else {
            self.made += 1;
        }
        self.expect("killed", "a running session", ["running", "alive", ""], "");
        let left = process::kill_run(&self.stage.home);
        drop(child);
        yes(left.is_empty(), "the processes could not be killed")?;
        self.look("killed");
        self.expect("killed", "the end of the killed session", ["exited", "dead", ""], "");
        if let Some(ostler) = &self.ostler
            && let Ok(listing) = ostler.list()
            && let Ok(session) = checks::newest(&listing, self.agent.id, &self.known)
            && let Some(id) = session["id"].as_str()
        {
            self.known.push(id.to_owned());
        }
        Ok(())
    }
}
