//! Hooks in real agents: installed by the ostler under test, they report a turn; with ostler gone
//! or its home unusable the agent does not notice; taken out again, nothing of them is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::process;
use super::report::{Outcome, Verdict};
use super::stage::{Stage, until, yes};

/// The columns of this part of the lab.
pub(crate) const CHECKS: &[&str] = &[
    "drive",
    "install",
    "untrusted",
    "reports",
    "ended",
    "killed",
    "missing",
    "unusable",
    "uninstall",
];

/// How long a turn may take; some agents install things first.
const TURN: Duration = Duration::from_secs(150);
/// How long a report may come after the turn.
const LATE: Duration = Duration::from_secs(5);

/// What the hooks of an agent are known to report of a turn without a terminal.
#[derive(Debug)]
pub(crate) struct Hooked {
    pub(crate) reports: &'static [&'static str],
    /// Without this the agent skips them, but reports the end of a turn in another way.
    pub(crate) trust: Option<&'static str>,
}

/// Runs the part for one agent.
pub(crate) fn run(stage: &Stage, hooked: &Hooked, ostler: &Path) -> Vec<Outcome> {
    let mut run =
        Run { stage, hooked, program: stage.dir.join("bin/ostler"), outcomes: Vec::new() };
    let driven = run.all(ostler);
    run.judge("drive", driven);
    run.outcomes
}

struct Run<'a> {
    stage: &'a Stage,
    hooked: &'a Hooked,
    program: PathBuf,
    outcomes: Vec<Outcome>,
}

impl Run<'_> {
    fn judge(&mut self, check: &'static str, result: Result<(), String>) {
        let (verdict, reason) = match result {
            Ok(()) => (Verdict::Pass, String::new()),
            Err(reason) => (Verdict::Fail, reason),
        };
        self.outcomes.push(Outcome { check, verdict, reason });
    }

    fn all(&mut self, ostler: &Path) -> Result<(), String> {
        let place = |error: std::io::Error| format!("{}: {error}", self.program.display());
        fs::create_dir_all(self.stage.dir.join("bin")).map_err(place)?;
        fs::copy(ostler, &self.program).map_err(place)?;
        // The agent writes its own settings at its first run.
        self.turn("hook-zero", &[], &[])?;
        let before = self.hooks("status")?;
        let files = paths(&before);
        let contents: Vec<Option<Vec<u8>>> = files.iter().map(|path| fs::read(path).ok()).collect();

        let installed = self.hooks("install").and_then(|result| {
            let wanted = if self.hooked.trust.is_some() { "not-trusted" } else { "installed" };
            same("state", state(&result), wanted)?;
            same("state", state(&self.hooks("status")?), wanted)?;
            let again = self.hooks("install")?;
            let changes = again["agents"][0]["files"].as_array().cloned().unwrap_or_default();
            yes(
                changes.iter().all(|file| file["change"] == "unchanged"),
                "a second install changes",
            )
        });
        self.judge("install", installed);

        if let Some(trust) = self.hooked.trust {
            let untrusted = self.turn("hook-one", &[], &[]).and_then(|()| {
                self.reported(&["turn-end"])?;
                let events: Vec<String> =
                    self.lines().iter().map(|l| l["event"].to_string()).collect();
                yes(events.iter().all(|event| event == "\"notify\""), &format!("{events:?} ran"))
            });
            self.judge("untrusted", untrusted);
            let _ = fs::remove_file(self.spool());
            let reports = self
                .turn("hook-two", &[trust], &[])
                .and_then(|()| self.reported(self.hooked.reports));
            self.judge("reports", reports);
        } else {
            let reports =
                self.turn("hook-one", &[], &[]).and_then(|()| self.reported(self.hooked.reports));
            self.judge("reports", reports);
        }

        let trust: Vec<&str> = self.hooked.trust.into_iter().collect();
        let tag = if trust.is_empty() { "hook-one" } else { "hook-two" };
        let ended = self.ended(tag);
        self.judge("ended", ended);
        let killed = self.killed(&trust);
        self.judge("killed", killed);
        let hidden = self.program.with_extension("hidden");
        fs::rename(&self.program, &hidden).map_err(|error| error.to_string())?;
        let missing = self.turn("hook-three", &trust, &[]);
        fs::rename(&hidden, &self.program).map_err(|error| error.to_string())?;
        self.judge("missing", missing);
        // Not even root can make a directory there.
        let unusable = self.turn("hook-four", &trust, &[("OSTLER_HOME", "/proc/ostler")]);
        self.judge("unusable", unusable);

        let uninstalled = self.hooks("uninstall").and_then(|result| {
            same("state", state(&result), "not-installed")?;
            for (path, content) in files.iter().zip(&contents) {
                let now = fs::read(path).ok();
                let text = String::from_utf8_lossy(now.as_deref().unwrap_or_default()).into_owned();
                yes(!text.contains("ostler-hooks"), &format!("{path} still has hooks"))?;
                if now.as_deref() != content.as_deref() {
                    // The agent may have written its settings meanwhile.
                    eprintln!("lab: {}: {path} is not as before", self.stage.agent.id);
                }
            }
            Ok(())
        });
        self.judge("uninstall", uninstalled);
        Ok(())
    }

    /// A session whose agent has quit is over, once, and what is kept of it is right.
    fn ended(&self, tag: &str) -> Result<(), String> {
        let session = self.session()?;
        self.ostler(&["finalize", "--json"])?;
        self.kept(&session, tag)?;
        let again = self.ostler(&["finalize", "--json"])?;
        yes(again["ended"] == json!([]) && again["condensed"] == json!([]), "it ended twice")?;
        let events = self.events(&session);
        let ends = events.iter().filter(|kind| ["session-end", "exited"].contains(&kind.as_str()));
        yes(ends.count() == 1, &format!("not one end in {events:?}"))
    }

    /// A session whose agent is killed in mid-turn ends when the daemon is told of it.
    fn killed(&self, trust: &[&str]) -> Result<(), String> {
        let tag = "hook-killed";
        let _ = fs::remove_file(self.spool());
        let hold =
            if self.stage.agent.silent_until_answer { "tool:sleep 100" } else { "delay:100" };
        let prompt = format!("Reply to {tag} [[{hold}]] [[say:never]]");
        let mut words: Vec<String> =
            self.stage.agent.headless.iter().map(|word| word.replace("{}", &prompt)).collect();
        words.extend(trust.iter().map(|word| (*word).to_owned()));
        self.ostler(&["daemon", "start", "--json"])?;
        let stop = Stop(self);
        let mut child = self.stage.start(&words, &[], tag)?;
        until("the first report", TURN, || {
            let owned = self.lines().iter().any(|line| line["owner"]["pid"].is_u64());
            let working = self.hooked.reports.contains(&"turn-start");
            let told = self.lines().iter().any(|line| line["happening"] == "turn-start");
            yes(owned && (told || !working), "no report of the turn")
        })?;
        let session = self.session()?;
        until("the turn", TURN, || yes(!self.stage.server.turns(tag).is_empty(), "no request"))?;
        process::kill_agents(&self.stage.home, &self.program);
        let begun = Instant::now();
        until("its end", LATE, || {
            let events = self.events(&session);
            yes(events.iter().any(|kind| kind == "exited"), &format!("{events:?}"))
        })?;
        eprintln!("lab: {}: exited after {:?}", self.stage.agent.id, begun.elapsed());
        child.ended();
        until("the copy", LATE, || self.kept(&session, tag))?;
        drop(stop);
        Ok(())
    }

    /// What the vault says of a session: the prompt, and how it ended.
    fn kept(&self, session: &str, tag: &str) -> Result<(), String> {
        let kept = self.ostler(&["vault", "ls", "--json"])?;
        let all = kept["kept"].as_array().cloned().unwrap_or_default();
        let one = all.iter().find(|one| one["session"] == session);
        let summary = &one.ok_or("it is not in the vault")?["summary"];
        let said = summary.to_string();
        yes(said.contains(tag), &format!("the prompt is not in {said}"))?;
        yes(summary["turns"].as_u64().unwrap_or(0) > 0, &format!("no turn in {said}"))
    }

    /// The session that the spool tells of last.
    fn session(&self) -> Result<String, String> {
        let lines = self.lines();
        let last = lines.last().and_then(|line| line["session"].as_str());
        last.map(str::to_owned).ok_or_else(|| "no report names a session".to_owned())
    }

    /// The kinds of everything that was published of a session.
    fn events(&self, session: &str) -> Vec<String> {
        let program = self.program.to_string_lossy().into_owned();
        let words = [&program, "events", "--json", "--session", session].map(str::to_owned);
        let output = self.stage.command(&words).stdin(Stdio::null()).output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let lines = String::from_utf8_lossy(&text).into_owned();
        let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter_map(|event| event["kind"].as_str().map(str::to_owned)).collect()
    }

    /// One turn without a terminal, to its end.
    fn turn(&self, tag: &str, more: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
        let prompt = format!("Reply to {tag} [[say:answer to {tag}]]");
        let mut words: Vec<String> =
            self.stage.agent.headless.iter().map(|word| word.replace("{}", &prompt)).collect();
        words.extend(more.iter().map(|word| (*word).to_owned()));
        let mut child = self.stage.start(&words, env, tag)?;
        let ended = until(&format!("the end of {tag}"), TURN, || {
            child.ended().ok_or_else(|| "it still runs".to_owned())
        });
        let printed = self.stage.printed(tag);
        let status = ended.map_err(|reason| format!("{reason}; it printed: {printed}"))?;
        yes(status.success(), &format!("{status}; it printed: {printed}"))?;
        yes(self.stage.server.turns(tag).iter().any(|turn| turn.answered), "no answer")
    }

    /// Waits for these happenings in the spool, in a session that is the same all along.
    fn reported(&self, wanted: &[&str]) -> Result<(), String> {
        until("the reports", LATE, || {
            let lines = self.lines();
            let told: Vec<&str> =
                lines.iter().filter_map(|line| line["happening"].as_str()).collect();
            for one in wanted {
                yes(told.contains(one), &format!("no {one} in {told:?}"))?;
            }
            let first = lines.first().map(|line| line["session"].clone()).unwrap_or_default();
            yes(lines.iter().all(|line| line["session"] == first), "several sessions")?;
            let agent = self.stage.agent.id;
            yes(lines.iter().all(|line| line["agent"] == agent), "another agent")?;
            let owned = lines.iter().filter(|line| line["owner"]["pid"].is_u64()).count();
            yes(owned > 0, "no report names the agent's process")
        })
    }

    fn spool(&self) -> PathBuf {
        self.stage.home.join(".local/state/ostler/spool/events.jsonl")
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.spool()).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// `ostler hooks <what> <agent> --json`: the result.
    fn hooks(&self, what: &str) -> Result<Value, String> {
        self.ostler(&["hooks", what, self.stage.agent.id, "--json"])
    }

    /// What the ostler under test answers.
    fn ostler(&self, arguments: &[&str]) -> Result<Value, String> {
        let program = self.program.to_string_lossy().into_owned();
        let arguments_of = arguments.iter().map(|word| (*word).to_owned());
        let words: Vec<String> = std::iter::once(program).chain(arguments_of).collect();
        let shown = arguments.join(" ");
        let mut command = self.stage.command(&words);
        let output = command.env("XDG_RUNTIME_DIR", self.stage.home.join("run")).output();
        let output = output.map_err(|error| format!("ostler {shown}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut envelope: Value =
            serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}: {text}"))?;
        yes(envelope["ok"] == true, &text)?;
        Ok(envelope["result"].take())
    }
}

/// Stops the daemon, however the check ended.
struct Stop<'a>(&'a Run<'a>);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        let _ = self.0.ostler(&["daemon", "stop", "--json"]);
    }
}

fn state(result: &Value) -> &str {
    result["agents"][0]["state"].as_str().unwrap_or_default()
}

fn paths(result: &Value) -> Vec<String> {
    let files = result["agents"][0]["files"].as_array();
    let path = |file: &Value| file["path"].as_str().map(str::to_owned);
    files.into_iter().flatten().filter_map(path).collect()
}

fn same(what: &str, found: &str, wanted: &str) -> Result<(), String> {
    yes(found == wanted, &format!("{what}: expected {wanted:?}, found {found:?}"))
}
