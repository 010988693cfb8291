//! The moments that hooks report, in an agent whose hooks ostler has installed: what they say must make
//! nothing wrong that is right without them.

use std::fs;

use super::{NOTICE, PATIENCE, Truth, quiet};
use crate::lab::checks;
use crate::lab::ostler::Ostler;
use crate::lab::process;
use crate::lab::stage::{until, yes};

impl Truth<'_> {
    /// A question for permission, and an interrupt.
    pub(super) fn live_with_hooks(&mut self) -> Result<(), String> {
        let Some(hooked) = &self.stage.agent.hooked else {
            self.skip("hook-prompt", "ostler has no hooks for it");
            return Ok(());
        };
        self.install_hooks()?;
        self.words.extend(hooked.trust.map(str::to_owned));
        let mut window = self.open_window("the window with hooks")?;
        let id = match self.case.question {
            Some(question) => {
                let tag = self.send(&mut window, self.case.asking)?;
                until("the permission prompt", PATIENCE, || {
                    yes(window.text().contains(question), "not on the screen")
                })?;
                let waiting = self.find_waiting();
                self.judge("hook-prompt", waiting);
                quiet(&window)?;
                window.press("\r").map_err(|error| error.to_string())?;
                self.answered_after_tool(&tag, &window)?;
                self.find(&tag)?
            }
            None => {
                self.skip("hook-prompt", "it asks for nothing");
                let hold = self.hold(1);
                let tag = self.send(&mut window, &hold)?;
                self.answered(&tag, &window)?;
                self.find(&tag)?
            }
        };
        self.interrupt(&mut window, &id)?;
        process::kill_run(&self.stage.home);
        Ok(())
    }

    /// Hooks name the program that installed them, so it gets a place of its own.
    fn install_hooks(&self) -> Result<(), String> {
        let program = self.stage.dir.join("bin/ostler");
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        fs::create_dir_all(self.stage.dir.join("bin")).map_err(failed)?;
        fs::copy(self.ostler.binary(), &program).map_err(failed)?;
        let installer = Ostler::new(&program, &self.stage.home);
        installer.result(&["hooks", "install", self.stage.agent.id, "--json"]).map(drop)
    }

    /// One session waits, and that is no conclusion: the agent has said so.
    fn find_waiting(&self) -> Result<(), String> {
        until("a session that waits", NOTICE, || {
            let listing = self.ostler.list()?;
            let mut said = Err(format!("none waits: {listing}"));
            for session in checks::sessions(&listing) {
                if checks::state(session, "running", "alive", "waiting").is_ok() {
                    let derived = session["activityDerived"] == true;
                    said = yes(!derived, &format!("only concluded: {session}"));
                }
            }
            said
        })
    }
}
