//! What a status bar pays for `ostler badge`: against `/bin/true` with the daemon, against `ostler ls` without.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Bound, clean, generate, side_by_side};

/// How many sessions the home has.
const SESSIONS: usize = 1000;

pub(super) fn measure(ostler: &Path, directory: &Path) -> Result<Vec<Bound>, String> {
    let home = std::path::absolute(directory.join(format!("home-{SESSIONS}")));
    let home = home.map_err(|error| error.to_string())?;
    generate::ensure(&home, SESSIONS, None)?;
    let run = |word: &str| {
        let mut command = clean(ostler, &home);
        command.env("XDG_RUNTIME_DIR", home.join("run")).arg(word);
        command
    };
    let nothing = || clean(Path::new("/bin/true"), &home);
    super::time(&mut run("ls"))?;
    let [list, alone] = side_by_side(51, [run("ls"), run("badge")])?;
    let daemon = RunningDaemon::start(ostler, &home)?;
    daemon.wait_for_badge(ostler)?;
    let [floor, told] = side_by_side(200, [nothing(), run("badge")])?;
    drop(daemon);
    eprintln!(
        "badge: /bin/true {floor:?}, with the daemon {told:?}; ls {list:?}, without {alone:?}"
    );
    let bound = |what: &str, measured: Duration, floor: Duration, limit: f64| Bound {
        what: what.to_owned(),
        measured: measured.as_secs_f64() / floor.as_secs_f64(),
        limit: Some(limit),
        unit: "x",
    };
    Ok(vec![
        bound("badge with the daemon, against /bin/true", told, floor, 3.0),
        bound("badge without the daemon, against ls", alone, list, 1.2),
    ])
}

/// A daemon that is stopped when this goes.
struct RunningDaemon {
    ostler: PathBuf,
    home: PathBuf,
}

impl RunningDaemon {
    fn start(ostler: &Path, home: &Path) -> Result<Self, String> {
        let daemon = Self { ostler: ostler.to_owned(), home: home.to_owned() };
        super::time(&mut daemon.command("start"))?;
        Ok(daemon)
    }

    fn command(&self, action: &str) -> Command {
        let mut command = clean(&self.ostler, &self.home);
        command.env("XDG_RUNTIME_DIR", self.home.join("run")).args(["daemon", action]);
        command
    }

    /// Waits until the daemon answers: only it can with a configuration that cannot be read.
    fn wait_for_badge(&self, ostler: &Path) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let mut command = clean(ostler, &self.home);
            command.env("XDG_RUNTIME_DIR", self.home.join("run"));
            command.env("OSTLER_CONFIG", "/no/such/file").arg("badge");
            if super::time(&mut command).is_ok() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err("the daemon does not answer for the badge".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for RunningDaemon {
    fn drop(&mut self) {
        if let Err(reason) = super::time(&mut self.command("stop")) {
            eprintln!("the daemon was not stopped: {reason}");
        }
    }
}
