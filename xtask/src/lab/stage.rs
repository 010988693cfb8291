//! Where an agent performs: its scratch home and repository, its environment, the model it
//! talks to, and how it is started.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::agents::{Agent, Place};
use super::install::Prefixes;
use super::model_server::ModelServer;
use super::process::{self, Reaped};

/// One agent, ready to be started. Dropping it ends every process it left.
pub(crate) struct Stage {
    pub(crate) agent: &'static Agent,
    pub(crate) dir: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) repo: PathBuf,
    pub(crate) server: ModelServer,
    path: OsString,
}

/// Polls until `probe` succeeds; the failure names what was awaited and the last answer.
pub(crate) fn until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    let deadline = Instant::now() + limit;
    loop {
        let last = match probe() {
            Ok(value) => return Ok(value),
            Err(last) => last,
        };
        if Instant::now() >= deadline {
            return Err(format!("waited {} s for {what}: {last}", limit.as_secs()));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// A condition as a step of [`until`].
pub(crate) fn yes(condition: bool, otherwise: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(otherwise.to_owned()) }
}

impl Stage {
    /// Makes the home, the repository and the model.
    pub(crate) fn prepare(
        agent: &'static Agent,
        scratch: &Path,
        prefixes: &Prefixes,
    ) -> io::Result<Stage> {
        let dir = scratch.join("runs").join(agent.id);
        if dir.exists() {
            process::kill_run(&dir.join("home"));
            fs::remove_dir_all(&dir)?;
        }
        let (home, repo) = (dir.join("home"), dir.join("repo"));
        fs::create_dir_all(&home)?;
        fs::create_dir_all(&repo)?;
        let stage = Stage {
            agent,
            path: prefixes.path(agent.id),
            dir,
            home,
            repo,
            server: ModelServer::start()?,
        };
        fs::write(stage.repo.join("README.md"), "# A repository for agents to work in\n")?;
        for arguments in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["add", "."],
            &["-c", "user.name=lab", "-c", "user.email=lab@localhost", "commit", "-qm", "Begin"],
        ] {
            stage.command(&["git".to_owned()]).args(arguments).status()?;
        }
        for (name, text) in (agent.files)(&stage.place()) {
            let path = stage.home.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        if let Some(setup) = agent.setup {
            let out = File::create(stage.dir.join("setup.log"))?;
            let err = out.try_clone()?;
            stage
                .command(&setup(&stage.place()))
                .stdin(Stdio::null())
                .stdout(out)
                .stderr(err)
                .status()?;
        }
        Ok(stage)
    }

    fn place(&self) -> Place<'_> {
        Place { repo: &self.repo, port: self.server.port() }
    }

    pub(crate) fn command(&self, words: &[String]) -> Command {
        // Found here, because the search of `Command` would use our own PATH.
        let find = |word: &String| {
            let found = std::env::split_paths(&self.path).map(|dir| dir.join(word));
            found.into_iter().find(|path| path.exists()).unwrap_or_else(|| word.into())
        };
        let mut command = Command::new(words.first().map(find).unwrap_or_default());
        command
            .args(words.get(1..).unwrap_or_default())
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", &self.path)
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .current_dir(&self.repo)
            .stdin(Stdio::null());
        for (key, value) in (self.agent.env)(&self.place()) {
            command.env(key, value);
        }
        command
    }

    /// Waits until the turn with this tag is held open.
    pub(crate) fn in_turn(
        &self,
        tag: &str,
        limit: Duration,
        alive: impl FnMut() -> bool,
    ) -> Result<(), String> {
        let mut alive = alive;
        let wants_answer = self.agent.silent_until_answer;
        until(&format!("a model request for {tag}"), limit, || {
            let turns = self.server.turns(tag);
            if !turns.is_empty() && turns.iter().all(|turn| turn.answered == wants_answer) {
                return Ok(());
            }
            let seen = self.server.log().len();
            yes(alive(), &format!("the agent has ended, {seen} requests seen"))?;
            Err(format!("{seen} requests seen"))
        })
    }

    pub(crate) fn start_headless(&self, prompt: &str, name: &str) -> Result<Reaped, String> {
        let words: Vec<String> =
            self.agent.headless.iter().map(|word| word.replace("{}", prompt)).collect();
        self.start(&words, &[], name)
    }

    /// Starts a command of the agent, with more in its environment; its output goes to files.
    pub(crate) fn start(
        &self,
        words: &[String],
        env: &[(&str, &str)],
        name: &str,
    ) -> Result<Reaped, String> {
        let start = || -> io::Result<Reaped> {
            let out = File::create(self.dir.join(format!("{name}.out")))?;
            let err = File::create(self.dir.join(format!("{name}.err")))?;
            let mut command = self.command(words);
            Ok(Reaped(command.envs(env.iter().copied()).stdout(out).stderr(err).spawn()?))
        };
        start().map_err(|error| format!("start {}: {error}", words[0]))
    }

    /// The path that commands of the agent are found in, behind one more directory.
    pub(crate) fn path_with(&self, first: &Path) -> String {
        format!("{}:{}", first.display(), self.path.to_string_lossy())
    }

    /// The end of what a headless run printed, for a failure.
    pub(crate) fn printed(&self, name: &str) -> String {
        let mut text = String::new();
        for kind in ["out", "err"] {
            let bytes = fs::read(self.dir.join(format!("{name}.{kind}"))).unwrap_or_default();
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let text: Vec<char> = words.join(" ").chars().collect();
        text[text.len().saturating_sub(400)..].iter().collect()
    }

    /// The session id that a headless run stated in its output.
    pub(crate) fn stated_id(&self, name: &str, key: &str) -> Option<String> {
        let bytes = fs::read(self.dir.join(format!("{name}.out"))).ok()?;
        stated_id(&String::from_utf8_lossy(&bytes), key)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        process::kill_run(&self.home);
    }
}

/// The first value of `key` in JSON that an agent printed, one object per line or one in all.
fn stated_id(text: &str, key: &str) -> Option<String> {
    fn find(value: &Value, key: &str) -> Option<String> {
        match value {
            Value::Object(members) => members
                .get(key)
                .and_then(Value::as_str)
                .map(str::to_owned)
                .or_else(|| members.values().find_map(|member| find(member, key))),
            Value::Array(values) => values.iter().find_map(|value| find(value, key)),
            _ => None,
        }
    }
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.into_iter().find_map(|value| find(&value, key)).or_else(|| {
        let whole = text.get(text.find('{')?..)?;
        let mut values = serde_json::Deserializer::from_str(whole).into_iter::<Value>();
        find(&values.next()?.ok()?, key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_lines_and_in_documents() {
        assert_eq!(stated_id("noise\n{\"a\":{\"sid\":\"x\"}}\n", "sid").as_deref(), Some("x"));
        assert_eq!(stated_id("noise\n{\n \"sid\": \"y\"\n}\n", "sid").as_deref(), Some("y"));
        assert_eq!(stated_id("{\"other\":1}", "sid"), None);
    }

    #[test]
    fn a_failure_names_what_was_awaited() {
        let result: Result<(), String> = until("rain", Duration::ZERO, || Err("sun".into()));
        assert_eq!(result.unwrap_err(), "waited 0 s for rain: sun");
    }
}
