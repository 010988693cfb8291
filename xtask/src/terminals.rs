//! A home with hosted terminals in it, for tasks that measure them. All of it ends with the value.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The home.
pub(crate) struct Stage {
    ostler: PathBuf,
    pub(crate) home: PathBuf,
}

impl Stage {
    /// Makes the home at `dir`, or at a shorter place.
    pub(crate) fn new(ostler: &Path, dir: &Path) -> Result<Self, String> {
        let home = std::path::absolute(dir).map_err(|error| error.to_string())?;
        let _ = fs::remove_dir_all(&home);
        // Sockets have short names.
        let home = if home.as_os_str().len() > 50 {
            std::env::temp_dir().join("ostler-bench")
        } else {
            home
        };
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(home.join("run")).map_err(|error| error.to_string())?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(home.join("run"), mode).map_err(|error| error.to_string())?;
        Ok(Self { ostler: ostler.to_owned(), home })
    }

    /// Another program in the same home.
    pub(crate) fn program(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("OSTLER_HOME", self.home.join("state"))
            .env("AGENT_TTY_HOME", self.home.join("state"))
            .env("XDG_RUNTIME_DIR", self.home.join("run"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("PS1", "$ ")
            .args(args)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.program(&self.ostler, args)
    }

    /// Runs ostler and gives what it prints.
    pub(crate) fn run(&self, args: &[&str]) -> Result<String, String> {
        let output = self.command(args).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("ostler {args:?}: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Makes a session that runs a script.
    pub(crate) fn script(&self, name: &str, script: &str) -> Result<(), String> {
        self.run(&["create", "--name", name, "--", "/bin/bash", "-c", script]).map(drop)
    }

    /// The pid of a session's host.
    pub(crate) fn host(&self, session: &str) -> Result<u32, String> {
        let inspected = self.run(&["inspect", session])?;
        let pid = inspected.lines().find_map(|line| line.strip_prefix("Host pid: "));
        pid.and_then(|pid| pid.parse().ok()).ok_or_else(|| "no host".to_owned())
    }

    /// Where sessions are.
    pub(crate) fn sessions(&self) -> PathBuf {
        self.home.join("state/sessions")
    }

    /// The directory of the session that has a name.
    pub(crate) fn directory(&self, session: &str) -> Result<PathBuf, String> {
        let inspected: serde_json::Value =
            serde_json::from_str(&self.run(&["inspect", session, "--json"])?)
                .map_err(|error| error.to_string())?;
        let id = inspected["result"]["session"]["sessionId"].as_str();
        id.map(|id| self.sessions().join(id)).ok_or_else(|| "no session".to_owned())
    }

    /// The processes that know of this home.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let home = self.home.as_os_str().as_encoded_bytes();
        let knows = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(home.len()).any(|part| part == home)
        };
        fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(knows)
            .collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for id in fs::read_dir(self.sessions()).into_iter().flatten().flatten() {
            let _ = self.run(&["destroy", "--force", &id.file_name().to_string_lossy()]);
        }
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// How long a process has run, in ticks of the kernel.
pub(crate) fn ticks_of(pid: u32) -> Result<f64, String> {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| error.to_string())?;
    let fields = stat[stat.rfind(')').unwrap_or(0) + 2..].split(' ').skip(11).take(2);
    Ok(fields.filter_map(|field| field.parse::<f64>().ok()).sum())
}

/// A number that `/proc` tells of a process, in kilobytes.
pub(crate) fn kilobytes(pid: u32, file: &str, field: &str) -> Result<f64, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).map_err(|e| e.to_string())?;
    let line = text.lines().find(|line| line.starts_with(field)).ok_or("no such field")?;
    let number = line.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    number.ok_or_else(|| "no number".to_owned())
}
