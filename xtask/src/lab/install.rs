//! Installs Node and the agents from the npm registry, or agents from PyPI, each into a prefix of its own under the
//! scratch directory. What is there already is kept, so a second run needs no network.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::agents::Agent;

/// Several agents refuse older versions or, worse, npm silently picks an old release for them.
const NODE: &str = "node@24";

/// Pythons by name, newest first.
const PYTHONS: &[&str] = &["python3.14", "python3.13", "python3.12", "python3"];

fn is_new_enough(python: &str) -> bool {
    let asks = "import sys; sys.exit(sys.version_info < (3, 12))";
    let mut command = Command::new(python);
    command.args(["-c", asks]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Where everything is installed.
#[derive(Debug)]
pub(crate) struct Prefixes {
    dir: PathBuf,
}

impl Prefixes {
    pub(crate) fn new(scratch: &Path) -> Prefixes {
        Prefixes { dir: scratch.join("npm") }
    }

    fn bin(&self, name: &str) -> PathBuf {
        self.dir.join(name).join("node_modules/.bin")
    }

    fn venv(&self, name: &str) -> PathBuf {
        self.dir.join(name).join("venv")
    }

    /// The `PATH` for an agent: its own prefix, our Node, and the system.
    pub(crate) fn path(&self, agent: &str) -> OsString {
        let mut path = self.bin(agent).into_os_string();
        for part in [
            self.venv(agent).join("bin").as_os_str(),
            self.bin("node24").as_os_str(),
            "/usr/bin".as_ref(),
            "/bin".as_ref(),
        ] {
            path.push(":");
            path.push(part);
        }
        path
    }

    /// Makes sure an agent can be started. `again` fetches the newest version.
    pub(crate) fn ensure(&self, agent: &Agent, again: bool) -> Result<(), String> {
        if agent.python {
            return self.pip(agent, again);
        }
        self.npm("node24", NODE, "node", false)?;
        self.npm(agent.id, agent.package, agent.program, again)
    }

    /// The version of the installed package.
    pub(crate) fn version(&self, agent: &Agent) -> String {
        if agent.python {
            return self.pip_version(agent);
        }
        let manifest = self.dir.join(agent.id).join("node_modules").join(agent.package);
        let text = fs::read(manifest.join("package.json")).unwrap_or_default();
        let manifest = serde_json::from_slice::<serde_json::Value>(&text).unwrap_or_default();
        manifest["version"].as_str().unwrap_or("unknown").to_owned()
    }

    /// Installs a package of PyPI into an environment of its own.
    fn pip(&self, agent: &Agent, again: bool) -> Result<(), String> {
        let venv = self.venv(agent.id);
        let program = venv.join("bin").join(agent.program);
        if program.exists() && !again {
            return Ok(());
        }
        let python = PYTHONS.iter().find(|python| is_new_enough(python)).ok_or_else(|| {
            format!("{} needs Python 3.12 or newer, and there is none in PATH", agent.package)
        })?;
        let run = |command: &mut Command| {
            let output = command.stdin(Stdio::null()).output();
            match output.map_err(|error| format!("{}: {error}", agent.package))? {
                output if output.status.success() => Ok(()),
                output => Err(format!(
                    "install {}: {}",
                    agent.package,
                    String::from_utf8_lossy(&output.stderr)
                )),
            }
        };
        eprintln!("lab: pip install {}", agent.package);
        run(Command::new(python).args(["-m", "venv"]).arg(&venv))?;
        run(Command::new(venv.join("bin/pip")).args(["install", "--upgrade", agent.package]))
    }

    fn pip_version(&self, agent: &Agent) -> String {
        let mut show = Command::new(self.venv(agent.id).join("bin/pip"));
        let output = show.args(["show", agent.package]).stdin(Stdio::null()).output();
        let output = output.map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&output);
        let version = text.lines().find_map(|line| line.strip_prefix("Version: "));
        version.unwrap_or("unknown").to_owned()
    }

    fn npm(&self, name: &str, package: &str, program: &str, again: bool) -> Result<(), String> {
        let program = self.bin(name).join(program);
        if program.exists() && !again {
            return Ok(());
        }
        let prefix = self.dir.join(name);
        let says = |what: &str, error: &dyn std::fmt::Display| format!("{what} {package}: {error}");
        fs::create_dir_all(&prefix).map_err(|e| says("make a prefix for", &e))?;
        let log = self.dir.join(format!("{name}.log"));
        let out = File::create(&log).map_err(|e| says("log the install of", &e))?;
        let err = out.try_clone().map_err(|e| says("log the install of", &e))?;
        eprintln!("lab: npm install {package}");
        let mut path = self.bin("node24").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let status = Command::new("npm")
            .args(["install", "--no-fund", "--no-audit", "--prefix"])
            .arg(&prefix)
            .arg(if again { format!("{package}@latest") } else { package.to_owned() })
            .env("PATH", path)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .status()
            .map_err(|e| says("run npm for", &e))?;
        if !status.success() || !program.exists() {
            return Err(format!("npm install {package} failed, see {}", log.display()));
        }
        Ok(())
    }
}
