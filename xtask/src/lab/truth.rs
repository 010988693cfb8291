//! The truth table: each agent is brought into every moment that a person could ask about, and what ostler
//! says then is compared with what is so. An answer that says less than it could (`unknown`, `~`) passes where
//! the agent registers nothing; one that is wrong never does.

mod headless;
mod hooks;

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::agents::Tui;
use super::checks::{self, Made};
use super::model_server::TITLE;
use super::ostler::Ostler;
use super::process;
use super::report::{Outcome, Verdict};
use super::stage::{Stage, until, yes};
use super::terminal::Terminal;
use super::truth_cases::{COMMON, TruthCase, case_of};

/// The columns, in the order of a session's life.
pub(crate) const CHECKS: &[&str] = &[
    "drive",
    "before",
    "mid-turn",
    "idle",
    "prompt",
    "hook-prompt",
    "esc",
    "exit",
    "killed",
    "new",
    "resume",
    "windows",
    "sub-agent",
    "compaction",
    "worktree",
    "facts",
    "cost",
];

/// How long a turn is held open that is interrupted or looked at.
const HOLD: u64 = 12;
/// How long ostler may take to notice what has happened.
const NOTICE: Duration = Duration::from_secs(8);
/// How long a window may take for anything it is told.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a window may take to be there; some install things first.
const START: Duration = Duration::from_secs(90);
/// How long a daemon may hold on to a session that nobody looks at.
const LINGER: Duration = Duration::from_secs(150);
/// How long a window is waited for that does not stop drawing.
const PACE: Duration = Duration::from_secs(8);

struct Truth<'a> {
    stage: &'a Stage,
    case: &'static TruthCase,
    /// How it is driven in a terminal, or why it is not.
    tui: Result<&'a Tui, &'static str>,
    /// How it is started in a terminal.
    words: Vec<String>,
    ostler: Ostler,
    outcomes: Vec<Outcome>,
    turns: usize,
}

/// Runs the table for one agent.
pub(crate) fn run(stage: &Stage, ostler: &Path) -> Vec<Outcome> {
    let (case, tui) = match (case_of(stage.agent.id), &stage.agent.tui) {
        (Some(case), Ok(tui)) => (case, Ok(tui)),
        (None, Ok(_)) => (&COMMON, Err("it has no row in the truth table yet")),
        (_, Err(why)) => (&COMMON, Err(*why)),
    };
    let command = tui.map_or(&[][..], |tui| case.command.unwrap_or(tui.command));
    let words = command.iter().map(|word| (*word).to_owned()).collect();
    let ostler = Ostler::new(ostler, &stage.home);
    let mut truth = Truth { stage, case, tui, words, ostler, outcomes: Vec::new(), turns: 0 };
    let driven = match truth.tui {
        Ok(_) => (case.prepare)(stage).and_then(|()| truth.live_through()),
        Err(why) => truth.live_headless(why),
    };
    truth.judge("drive", driven);
    truth.outcomes
}

impl Truth<'_> {
    fn judge(&mut self, check: &'static str, result: Result<(), String>) {
        let (verdict, reason) = match result {
            Ok(()) => (Verdict::Pass, String::new()),
            Err(reason) => (Verdict::Fail, reason),
        };
        self.outcomes.push(Outcome { check, verdict, reason });
    }

    fn skip(&mut self, check: &'static str, reason: &str) {
        let verdict = Verdict::NotApplicable;
        self.outcomes.push(Outcome { check, verdict, reason: reason.to_owned() });
    }

    fn live_through(&mut self) -> Result<(), String> {
        let mut window = self.open_window("before the first prompt")?;
        let before = self.say_before();
        self.judge("before", before);
        let first = self.first_turn(&mut window)?;
        self.ask_permission(&mut window, &first)?;
        self.interrupt(&mut window, &first)?;
        self.compact(&mut window, &first)?;
        self.delegate(&mut window, &first)?;
        let second = self.begin_anew(&mut window, &first)?;
        self.resume_inside(&mut window, &first, &second)?;
        self.open_two_windows(&mut window, &[&first, &second])?;
        self.work_in_worktree()?;
        self.kill_all()?;
        self.live_with_hooks()
    }

    /// A new window, once it takes a prompt.
    fn open_window(&self, what: &str) -> Result<Terminal, String> {
        let tui = self.tui?;
        let failed = |error: std::io::Error| format!("{what}: {error}");
        let mut window = Terminal::start(&self.stage.command(&self.words)).map_err(failed)?;
        let mut dialogs = tui.dialogs.to_vec();
        until(&format!("{what}: {:?} on the screen", tui.ready), START, || {
            // A directory is trusted once, so the second window may not ask again.
            let text = window.text();
            if let Some(at) = dialogs.iter().position(|(asks, _)| text.contains(asks)) {
                quiet(&window)?;
                window.press(dialogs.remove(at).1).map_err(failed)?;
                return Err("a dialog was answered".to_owned());
            }
            yes(text.contains(tui.ready), "not shown")
        })?;
        quiet(&window)?;
        Ok(window)
    }

    /// What stands on the screen must be named: as a session, or as a process without one.
    fn say_before(&self) -> Result<(), String> {
        until("the agent to be named by plain ls", NOTICE, || {
            let listing = self.ostler.result(&["ls", "--json"])?;
            let here = |one: &&Value| one["agent"] == self.stage.agent.id;
            let session = checks::sessions(&listing).iter().find(here);
            let unattached = listing["unattached"].as_array().into_iter().flatten().find(here);
            let one = session.or(unattached).ok_or("nothing is said of it")?;
            yes(one["cwd"] == *self.stage.repo.to_string_lossy(), &format!("no directory: {one}"))
        })
    }

    /// Sends a prompt that the model answers after a while. Returns once it was asked.
    fn send(&mut self, window: &mut Terminal, words: &str) -> Result<String, String> {
        self.turns += 1;
        let tag = format!("truth-{}-of-it", self.turns);
        let prompt = format!("Reply to {tag} {words}");
        window.submit(&prompt).map_err(|error| error.to_string())?;
        let asked = |limit, window: &mut Terminal| {
            until(&format!("a request for {tag}"), limit, || {
                yes(!self.stage.server.turns(&tag).is_empty(), "not asked")?;
                yes(!window.has_exited(), "the window has closed")
            })
        };
        if asked(Duration::from_secs(15), window).is_err() {
            // Some take the first Enter for something else, and some lose what is typed too early.
            let shown = window.text().contains(&tag);
            let again = if shown { window.press("\r") } else { window.submit(&prompt) };
            again.map_err(|error| error.to_string())?;
            asked(Duration::from_secs(45), window).map_err(|reason| {
                let text: Vec<char> = window.text().chars().collect();
                let end: String = text[text.len().saturating_sub(300)..].iter().collect();
                format!("{reason}; the screen ends with {end}")
            })?;
        }
        Ok(tag)
    }

    fn hold(&self, seconds: u64) -> String {
        match self.stage.agent.silent_until_answer {
            true => format!("[[say:done]] [[tool:sleep {seconds}]]"),
            false => format!("[[say:done]] [[delay:{seconds}]]"),
        }
    }

    fn answered(&self, tag: &str, window: &Terminal) -> Result<(), String> {
        until("the answer", Duration::from_secs(HOLD + 40), || {
            let turns = self.stage.server.turns(tag);
            yes(!turns.is_empty() && turns.iter().all(|turn| turn.answered), "not yet")
        })?;
        quiet(window)
    }

    /// The session of that tag: the one in whose conversation it was last said.
    fn find(&self, tag: &str) -> Result<String, String> {
        until("the session of the prompt", NOTICE, || {
            let listing = self.ostler.list()?;
            let holds = |session: &&Value| {
                let id = session["id"].as_str().unwrap_or_default();
                session["parent"].is_null()
                    && self
                        .ostler
                        .log_texts(id)
                        .is_ok_and(|texts| texts.iter().any(|text| text.contains(tag)))
            };
            let found = checks::sessions(&listing).iter().find(holds);
            let id = found.and_then(|session| session["id"].as_str());
            id.map(str::to_owned).ok_or_else(|| format!("{tag} stands in no session"))
        })
    }

    fn session(&self, id: &str) -> Result<Value, String> {
        let listing = self.ostler.list()?;
        let found = checks::sessions(&listing).iter().find(|session| session["id"] == id);
        found.cloned().ok_or_else(|| format!("{id} is not listed"))
    }

    fn expect(&self, id: &str, state: [&str; 3]) -> Result<(), String> {
        let [status, liveness, activity] = state;
        until(&format!("{id} to be {status} {activity}"), NOTICE, || {
            checks::state(&self.session(id)?, status, liveness, activity)
        })
    }

    /// Whether nobody may take a session that is open.
    fn is_kept(&self, id: &str) -> Result<(), String> {
        let why = self.ostler.result(&["why", id, "--json"])?;
        let allowed = why["collect"]["allowed"].as_bool().unwrap_or(true);
        yes(!allowed, &format!("it may be collected: {}", why["collect"]))
    }

    fn first_turn(&mut self, window: &mut Terminal) -> Result<String, String> {
        let hold = self.hold(HOLD);
        let tag = self.send(window, &hold)?;
        if self.stage.agent.silent_until_answer {
            self.stage.in_turn(&tag, PATIENCE, || true)?;
        }
        let working = self.find_working().map(drop);
        self.judge("mid-turn", working);
        self.answered(&tag, window)?;
        let id = self.find(&tag)?;
        let idle = self.expect(&id, ["running", "alive", "idle"]);
        self.judge("idle", idle);
        self.judge_facts(&id, &tag, &format!("Reply to {tag} {hold}"))?;
        Ok(id)
    }

    /// Title, model, tokens and turns of a session with one turn, and what it has cost.
    fn judge_facts(&mut self, id: &str, tag: &str, prompt: &str) -> Result<(), String> {
        let turns = self.stage.server.turns(tag);
        let agent = self.stage.agent;
        let asked = turns.first().map(|turn| turn.model.clone()).unwrap_or_default();
        let made = Made {
            agent: agent.id,
            prompt: prompt.to_owned(),
            id: None,
            cwd: (!agent.own_workspace).then(|| self.stage.repo.clone()),
            model: agent.model.map_or(asked, str::to_owned),
            requests: turns.iter().filter(|turn| turn.answered).count() as u64,
            turns: 1,
            made_title: agent.makes_titles.then_some(TITLE),
        };
        let facts = until("its facts", NOTICE, || checks::facts(&self.session(id)?, &made));
        self.judge("facts", facts);
        match self.session(id)?["costMicroUsd"].as_u64() {
            None => self.skip("cost", "none is given"),
            Some(0) => self.judge("cost", Err("a cost of nothing is given".to_owned())),
            Some(_) => self.judge("cost", Ok(())),
        }
        Ok(())
    }

    fn ask_permission(&mut self, window: &mut Terminal, id: &str) -> Result<(), String> {
        let Some(question) = self.case.question else {
            self.skip("prompt", "it asks for nothing");
            return Ok(());
        };
        let tag = self.send(window, self.case.asking)?;
        until("the permission prompt", PATIENCE, || {
            yes(window.text().contains(question), "not on the screen")
        })?;
        let waiting = self.expect(id, ["running", "alive", "waiting"]);
        self.judge("prompt", waiting);
        quiet(window)?;
        window.press("\r").map_err(|error| error.to_string())?;
        self.answered_after_tool(&tag, window)
    }

    fn answered_after_tool(&self, tag: &str, window: &Terminal) -> Result<(), String> {
        until("the answer after the tool", PATIENCE, || {
            let answered = self.stage.server.turns(tag).iter().filter(|one| one.answered).count();
            yes(answered >= 2, "not yet")
        })?;
        quiet(window)
    }

    fn interrupt(&mut self, window: &mut Terminal, id: &str) -> Result<(), String> {
        self.send(window, "[[say:done]] [[delay:90]]")?;
        thread::sleep(Duration::from_secs(2));
        for keys in self.case.interrupt {
            window.press(keys).map_err(|error| error.to_string())?;
            thread::sleep(Duration::from_millis(600));
        }
        quiet(window)?;
        let idle = self.expect(id, ["running", "alive", "idle"]);
        self.judge("esc", idle);
        Ok(())
    }

    fn compact(&mut self, window: &mut Terminal, id: &str) -> Result<(), String> {
        // An interrupted prompt may stand in the line again.
        window.press("\x15").map_err(|error| error.to_string())?;
        window.submit(self.case.compact).map_err(|error| error.to_string())?;
        thread::sleep(Duration::from_secs(3));
        quiet(window)?;
        let hold = self.hold(1);
        let tag = self.send(window, &hold)?;
        self.answered(&tag, window)?;
        let same = self.find(&tag).and_then(|now| {
            yes(now == id, &format!("it goes on as {now}, it was {id}"))?;
            self.expect(id, ["running", "alive", "idle"])
        });
        self.judge("compaction", same);
        Ok(())
    }

    /// A finished sub-agent is over, and its parent lives.
    fn delegate(&mut self, window: &mut Terminal, id: &str) -> Result<(), String> {
        let Some(words) = self.case.helper else {
            self.skip("sub-agent", "none is made in the lab");
            return Ok(());
        };
        // Its tool has several names.
        let log = self.stage.server.log();
        let offered =
            |name: &&&str| log.iter().any(|one| one.tools.iter().any(|tool| tool == **name));
        let tool = ["Agent", "Task", "agent", "task"]
            .iter()
            .find(offered)
            .ok_or("it offers no sub-agents")?;
        let tag = self.send(window, &format!("[[call:{tool}:{words}]]"))?;
        self.answered(&tag, window)?;
        let result = until("the sub-agent to be over", NOTICE, || {
            let shown = self.ostler.result(&["show", id, "--json"])?;
            let helpers = shown["subagents"].as_array().cloned().unwrap_or_default();
            yes(!helpers.is_empty(), "no sub-agent is shown")?;
            helpers.iter().try_for_each(|one| checks::state(one, "exited", "dead", ""))
        });
        let result = result.and_then(|()| self.expect(id, ["running", "alive", ""]));
        self.judge("sub-agent", result);
        Ok(())
    }

    fn begin_anew(&mut self, window: &mut Terminal, first: &str) -> Result<String, String> {
        window.submit(self.case.anew).map_err(|error| error.to_string())?;
        quiet(window)?;
        let hold = self.hold(1);
        let tag = self.send(window, &hold)?;
        self.answered(&tag, window)?;
        let second = self.find(&tag)?;
        let registers = self.case.registers;
        let limit = self.stage.agent.lingers.map_or(NOTICE, |_| LINGER);
        let result = until("the new one to live and the old one not", limit, || {
            yes(second != first, "it goes on in the same session")?;
            let (new, old) = (self.session(&second)?, self.session(first)?);
            match registers {
                true => {
                    checks::state(&new, "running", "alive", "idle")?;
                    checks::state(&old, "exited", "dead", "")
                }
                // Both were written by this window: which is open, nobody knows.
                false => is_not_over(&new),
            }
        });
        self.judge("new", result);
        Ok(second)
    }

    fn resume_inside(
        &mut self,
        window: &mut Terminal,
        first: &str,
        second: &str,
    ) -> Result<(), String> {
        let (command, keys) = self.case.resume;
        window.submit(command).map_err(|error| error.to_string())?;
        quiet(window)?;
        for keys in keys {
            window.press(keys).map_err(|error| error.to_string())?;
            thread::sleep(Duration::from_millis(700));
        }
        quiet(window)?;
        // Nothing was written yet; whichever was chosen, neither may go.
        let silent = if self.case.registers {
            Ok(())
        } else {
            self.is_kept(first).and_then(|()| self.is_kept(second))
        };
        let hold = self.hold(HOLD);
        let tag = self.send(window, &hold)?;
        let open = until("what was resumed to live", NOTICE, || {
            let now = self.find(&tag)?;
            let session = self.session(&now)?;
            is_not_over(&session)?;
            self.is_kept(&now)
        });
        self.answered(&tag, window)?;
        let went_back = self.find(&tag)?;
        let result = silent.and(open);
        match went_back == first || result.is_err() {
            true => self.judge("resume", result),
            false => {
                let words = format!("the lab's keys opened {went_back} and not {first}");
                self.judge("resume", Err(words));
            }
        }
        Ok(())
    }

    /// Another window in the same directory; then the first is killed.
    fn open_two_windows(&mut self, window: &mut Terminal, before: &[&str]) -> Result<(), String> {
        let others: Vec<i32> = self.pids();
        let mut other = self.open_window("the second window")?;
        let hold = self.hold(1);
        let tag = self.send(&mut other, &hold)?;
        self.answered(&tag, &other)?;
        let newer = self.find(&tag)?;
        let tag = self.send(window, &hold)?;
        self.answered(&tag, window)?;
        let older = self.find(&tag)?;
        let mut result = [&newer, &older].into_iter().try_for_each(|id| {
            until("both windows to live", NOTICE, || is_not_over(&self.session(id)?))?;
            self.is_kept(id)
        });
        // The second window is killed; the first lives, and so does what it has open.
        let its: Vec<i32> = self.pids().into_iter().filter(|pid| !others.contains(pid)).collect();
        process::kill_these(&self.stage.home, &its);
        thread::sleep(Duration::from_secs(1));
        result = result.and_then(|()| {
            is_not_over(&self.session(&older)?).map_err(|why| format!("after the kill: {why}"))?;
            self.is_kept(&older)
        });
        self.judge("windows", result);
        drop(other);
        self.close(window)?;
        let over = until("everything to be over", LINGER, || {
            let all = before.iter().copied().chain([newer.as_str(), older.as_str()]);
            all.into_iter()
                .try_for_each(|id| checks::state(&self.session(id)?, "exited", "dead", ""))
        });
        self.judge("exit", over);
        Ok(())
    }

    fn pids(&self) -> Vec<i32> {
        process::of_home(&self.stage.home).iter().map(|process| process.pid).collect()
    }

    fn close(&self, window: &mut Terminal) -> Result<(), String> {
        window.submit(self.tui?.quit).map_err(|error| error.to_string())?;
        for keys in ["\r", "\x03", "\x03", "\x04"] {
            let ended = until("the end of the window", Duration::from_secs(5), || {
                yes(window.has_exited(), "it still runs")
            });
            if ended.is_ok() {
                return Ok(());
            }
            let _ = window.press(keys);
        }
        yes(window.has_exited(), "the window does not close")
    }

    fn work_in_worktree(&mut self) -> Result<(), String> {
        if self.stage.agent.own_workspace {
            self.skip("worktree", "it works in a directory of its own");
            return Ok(());
        }
        let tree = self.stage.dir.join("beside");
        let mut git = Command::new("git");
        git.current_dir(&self.stage.repo).args(["worktree", "add", "-q", "-b", "beside"]);
        let made = git.arg(&tree).status().map_err(|error| error.to_string())?;
        yes(made.success(), "git worktree add failed")?;
        let tag = "truth-in-worktree";
        let prompt = format!("Reply to {tag} [[say:done]]");
        let words: Vec<String> =
            self.stage.agent.headless.iter().map(|word| word.replace("{}", &prompt)).collect();
        let mut command = self.stage.command(&words);
        let ran = command.current_dir(&tree).output().map_err(|error| error.to_string())?;
        let result = self.find(tag).and_then(|id| {
            let session = self.session(&id)?;
            yes(session["cwd"] == *tree.to_string_lossy(), &format!("its directory: {session}"))?;
            // Most agents do not write it down.
            let branch = &session["branch"];
            yes(branch.is_null() || branch == "beside", &format!("its branch: {branch}"))
        });
        let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
        self.judge("worktree", result.map_err(|reason| format!("{reason}; it said {said:.200}")));
        Ok(())
    }

    fn kill_all(&mut self) -> Result<(), String> {
        let mut window = self.open_window("the window that is killed")?;
        let hold = self.hold(1);
        let tag = self.send(&mut window, &hold)?;
        self.answered(&tag, &window)?;
        let id = self.find(&tag)?;
        let left = process::kill_run(&self.stage.home);
        yes(left.is_empty(), "the processes could not be killed")?;
        let over = self.expect(&id, ["exited", "dead", ""]);
        self.judge("killed", over);
        Ok(())
    }
}

/// Whether a session that a live window has open is not called over.
fn is_not_over(session: &Value) -> Result<(), String> {
    yes(session["liveness"]["state"] != "dead", &format!("called over: {}", session["liveness"]))
}

/// Waits until a window has drawn what it was told to. It may begin late, and some draw on and on: this only
/// keeps the pace.
fn quiet(window: &Terminal) -> Result<(), String> {
    thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    until("a quiet screen", PATIENCE, || {
        let long_enough = begun.elapsed() > PACE;
        yes(long_enough || window.is_quiet(Duration::from_millis(1500)), "it still draws")
    })
}
