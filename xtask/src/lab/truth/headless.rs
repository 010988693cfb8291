//! The moments of an agent that the lab drives without a terminal.

use std::time::{Duration, Instant};

use super::{HOLD, NOTICE, START, Truth};
use crate::lab::checks;
use crate::lab::process;
use crate::lab::stage::{until, yes};

/// What needs a window.
const WINDOWED: &[&str] = &[
    "idle",
    "prompt",
    "hook-prompt",
    "esc",
    "new",
    "resume",
    "windows",
    "sub-agent",
    "compaction",
];

impl Truth<'_> {
    /// One turn to its end, one in a worktree, one that is killed.
    pub(super) fn live_headless(&mut self, why: &str) -> Result<(), String> {
        for check in WINDOWED {
            self.skip(check, why);
        }
        let tag = "truth-headless";
        let prompt = format!("Reply to {tag} [[say:answer to {tag}]] {}", self.hold(HOLD));
        let begun = Instant::now();
        let mut child = self.stage.start_headless(&prompt, tag)?;
        let before = self.say_before();
        if before.is_ok() {
            eprintln!("lab: {}: named after {:?}", self.stage.agent.id, begun.elapsed());
        }
        self.judge("before", before);
        let asked = self.stage.in_turn(tag, START, || child.ended().is_none());
        asked.map_err(|why| format!("{why}; it printed: {}", self.stage.printed(tag)))?;
        let working = self.find_working().map(drop);
        self.judge("mid-turn", working);
        let status = until("the end of the run", Duration::from_secs(HOLD + 60), || {
            child.ended().ok_or_else(|| "it still runs".to_owned())
        })?;
        yes(status.success(), &format!("{status}: {}", self.stage.printed(tag)))?;
        let id = self.find(tag)?;
        let over = self.expect(&id, ["exited", "dead", ""]);
        self.judge("exit", over);
        self.judge_facts(&id, tag, &prompt)?;
        self.work_in_worktree()?;
        self.kill_headless()
    }

    fn kill_headless(&mut self) -> Result<(), String> {
        let tag = "truth-killed";
        let held = self.hold(100);
        let child = self.stage.start_headless(&format!("Reply to {tag} {held}"), tag)?;
        let mut child = child;
        self.stage.in_turn(tag, START, || child.ended().is_none())?;
        let id = self.find_working()?;
        let left = process::kill_run(&self.stage.home);
        child.ended();
        yes(left.is_empty(), "the processes could not be killed")?;
        let over = self.expect(&id, ["exited", "dead", ""]);
        self.judge("killed", over);
        Ok(())
    }

    /// The session that works. Its file may not have the prompt yet, so it is found by what it does.
    pub(super) fn find_working(&self) -> Result<String, String> {
        until("a working session", NOTICE, || {
            let listing = self.ostler.list()?;
            let at_work = |session: &&serde_json::Value| {
                checks::state(session, "running", "alive", "working").is_ok()
            };
            let found = checks::sessions(&listing).iter().find(at_work);
            let id = found.and_then(|session| session["id"].as_str());
            id.map(str::to_owned).ok_or_else(|| format!("none works: {listing}"))
        })
    }
}
