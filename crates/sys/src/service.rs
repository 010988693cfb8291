//! The user's service manager: systemd user units and launchd agents.
//!
//! What is asked of it goes through its own program (`systemctl --user`, `launchctl`): these know
//! where the manager listens and what it may be asked.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The unit's name for systemd.
pub const SYSTEMD_UNIT: &str = "ostler.service";

/// The agent's label for launchd.
const LAUNCHD_LABEL: &str = "ostler.daemon";

/// How `launchctl bootout` ends if there is nothing to unload: no such process, no such service.
const NOT_LOADED: [i32; 2] = [3, 113];

/// Where packages put user units.
const PACKAGED_UNIT_DIRECTORIES: [&str; 2] =
    ["/usr/lib/systemd/user", "/usr/local/lib/systemd/user"];

/// A service manager that answers for this user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceManager {
    /// `systemd --user`.
    SystemdUser,
    /// launchd, for the user's login session.
    Launchd,
}

/// What a unit runs.
#[derive(Debug)]
pub struct ServiceUnit<'a> {
    /// The program, by an absolute path.
    pub program: &'a Path,
    /// Its arguments: plain words.
    pub arguments: &'a [&'a str],
    /// Variables that the manager does not know.
    pub environment: &'a BTreeMap<String, String>,
    /// Where its talk goes, if the manager keeps no journal.
    pub log: &'a Path,
}

/// What the manager says of the unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitState {
    /// Whether it is started with the user's session.
    pub enabled: bool,
    /// Whether it runs.
    pub active: bool,
    /// Its main process.
    pub pid: Option<u32>,
    /// The control group that it runs in, without the mount point.
    pub control_group: Option<String>,
    /// Whether a stop ends its main process and no other.
    pub stop_spares_others: bool,
}

/// Why a unit cannot be written, or the manager did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ServiceManagerError {
    /// A path or a variable that has no form in a unit's file.
    #[error("`{0}` cannot be written into a unit: it is not plain text")]
    NotText(String),
    /// The manager's program failed.
    #[error("`{command}` failed: {reason}")]
    Command {
        /// As it was run.
        command: String,
        /// What it said.
        reason: String,
    },
}

/// The manager that answers for this user, if any does; `runtime` is the user's runtime directory.
pub fn detect_manager(runtime: Option<&Path>) -> Option<ServiceManager> {
    if cfg!(target_os = "macos") {
        return Some(ServiceManager::Launchd);
    }
    let listens = runtime.is_some_and(|runtime| runtime.join("systemd/private").exists());
    (cfg!(target_os = "linux") && listens).then_some(ServiceManager::SystemdUser)
}

impl ServiceManager {
    /// The one that a machine like this has, whether it answers or not.
    pub const fn usual_manager() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::SystemdUser }
    }

    /// In a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SystemdUser => "systemd",
            Self::Launchd => "launchd",
        }
    }

    /// Where the user's own unit is; `config` is their directory of configurations.
    pub fn unit_path(self, config: &Path, home_directory: &Path) -> PathBuf {
        match self {
            Self::SystemdUser => config.join("systemd/user").join(SYSTEMD_UNIT),
            Self::Launchd => {
                home_directory.join(format!("Library/LaunchAgents/{LAUNCHD_LABEL}.plist"))
            }
        }
    }

    /// The units that a package has installed for every user.
    pub fn packaged_units(self) -> Vec<PathBuf> {
        match self {
            Self::SystemdUser => {
                let path = |directory: &&str| Path::new(directory).join(SYSTEMD_UNIT);
                PACKAGED_UNIT_DIRECTORIES.iter().map(path).collect()
            }
            Self::Launchd => Vec::new(),
        }
    }

    /// The unit's file; `mark` is put into a comment on a line of its own.
    pub fn render_unit(
        self,
        unit: &ServiceUnit<'_>,
        mark: &str,
    ) -> Result<String, ServiceManagerError> {
        match self {
            Self::SystemdUser => render_systemd_unit(unit, mark),
            Self::Launchd => render_launchd_plist(unit, mark),
        }
    }

    /// Starts the unit at this path, now and with every session of the user's. One that runs is
    /// started anew.
    pub fn start_unit(self, path: &Path) -> Result<(), ServiceManagerError> {
        match self {
            Self::SystemdUser => {
                run_systemctl(&["daemon-reload"])?;
                run_systemctl(&["enable", SYSTEMD_UNIT])?;
                run_systemctl(&["restart", SYSTEMD_UNIT])
            }
            Self::Launchd => {
                // It is refused while an older one is loaded; there may be none.
                let old = run_quiet(Command::new("launchctl").args(["bootout", &launchd_target()]));
                drop(old);
                load_launchd_agent(path)
            }
        }
    }

    /// Takes back what a [`Self::start_unit`] did that failed, as far as it was not so `before`. The
    /// unit's file is still the one that did not start.
    pub fn withdraw_unit(self, before: &UnitState) -> Result<(), ServiceManagerError> {
        match (self, before.enabled, before.active) {
            (Self::SystemdUser, true, true) => Ok(()),
            (Self::SystemdUser, true, false) => run_systemctl(&["stop", SYSTEMD_UNIT]),
            (Self::SystemdUser, false, true) => run_systemctl(&["disable", SYSTEMD_UNIT]),
            (Self::SystemdUser, false, false) => self.stop_unit(),
            (Self::Launchd, ..) => self.stop_unit(),
        }
    }

    /// Starts what ran `before` a [`Self::start_unit`] that failed. The unit's file is again as it was then.
    pub fn resume_unit(self, path: &Path, before: &UnitState) -> Result<(), ServiceManagerError> {
        match self {
            Self::SystemdUser => {
                run_systemctl(&["daemon-reload"])?;
                if before.active { run_systemctl(&["restart", SYSTEMD_UNIT]) } else { Ok(()) }
            }
            Self::Launchd if before.enabled => load_launchd_agent(path),
            Self::Launchd => Ok(()),
        }
    }

    /// Stops the unit and starts it no more. One that the manager does not know any more is stopped.
    pub fn stop_unit(self) -> Result<(), ServiceManagerError> {
        match self {
            Self::SystemdUser => {
                let Err(error) = run_systemctl(&["disable", "--now", SYSTEMD_UNIT]) else {
                    return Ok(());
                };
                // What was deleted by hand cannot be disabled, and is then not stopped either.
                if self.query_unit()?.active {
                    run_systemctl(&["stop", SYSTEMD_UNIT])?;
                }
                let state = self.query_unit()?;
                if state.enabled || state.active { Err(error) } else { Ok(()) }
            }
            Self::Launchd => unload_launchd_agent(Path::new("launchctl")),
        }
    }

    /// Lets the manager know that a unit's file has changed or gone.
    pub fn reload_units(self) -> Result<(), ServiceManagerError> {
        match self {
            Self::SystemdUser => run_systemctl(&["daemon-reload"]),
            Self::Launchd => Ok(()),
        }
    }

    /// What the manager says of the unit. One that it does not know is not enabled and not active.
    pub fn query_unit(self) -> Result<UnitState, ServiceManagerError> {
        match self {
            Self::SystemdUser => {
                let properties =
                    "--property=ActiveState,UnitFileState,MainPID,ControlGroup,KillMode";
                let text = run_quiet(systemctl().args(["show", SYSTEMD_UNIT, properties]))?;
                Ok(parse_systemd_state(&text))
            }
            Self::Launchd => {
                let said = run_quiet(Command::new("launchctl").args(["print", &launchd_target()]));
                Ok(said.map(|text| parse_launchd_state(&text)).unwrap_or_default())
            }
        }
    }

    /// Prints the unit's last lines, and goes on with new ones if that is asked for. `None` where the
    /// manager keeps no journal.
    pub fn journal_command(self, lines: usize, follow: bool) -> Option<Command> {
        if self == Self::Launchd {
            return None;
        }
        let mut command = Command::new("journalctl");
        command.args(["--user", "--quiet", "--no-pager", "--output=short-iso", "--unit"]);
        command.arg(SYSTEMD_UNIT).arg(format!("--lines={lines}"));
        if follow {
            command.arg("--follow");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Some(command)
    }

    /// Whether the user's services go on after the last logout, where that can be asked.
    pub fn user_lingers(self) -> Option<bool> {
        if self == Self::Launchd {
            return None;
        }
        let user = rustix::process::geteuid().as_raw().to_string();
        let mut command = Command::new("loginctl");
        let said = run_quiet(command.args(["show-user", &user, "--property=Linger", "--value"]));
        match said.ok()?.trim() {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        }
    }
}

/// The processes in a control group, from the process table; none where there are no such groups.
pub fn control_group_members(group: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let below = format!("{group}/");
    let is_member = |pid: &u32| {
        // One that has ended meanwhile is in no group.
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let groups = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        groups.into_iter().any(|path| path == group || path.starts_with(&below))
    };
    pids.filter(is_member).collect()
}

fn systemctl() -> Command {
    let mut command = Command::new("systemctl");
    command.args(["--user", "--no-ask-password"]);
    command
}

fn run_systemctl(arguments: &[&str]) -> Result<(), ServiceManagerError> {
    run_quiet(systemctl().args(arguments)).map(drop)
}

/// Runs a program of the manager's; returns what it printed.
fn run_quiet(command: &mut Command) -> Result<String, ServiceManagerError> {
    run_manager(command)?.map_err(|(_, error)| error)
}

/// As [`run_quiet`]; how a program ended that could be run is told apart from one that could not.
fn run_manager(
    command: &mut Command,
) -> Result<Result<String, (ExitStatus, ServiceManagerError)>, ServiceManagerError> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let failed = |reason: String| ServiceManagerError::Command { command: line.clone(), reason };
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error: io::Error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(Ok(String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let reason = if said.is_empty() { output.status.to_string() } else { said };
    Ok(Err((output.status, failed(reason))))
}

fn parse_systemd_state(text: &str) -> UnitState {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.filter(|value| !value.is_empty())
    };
    UnitState {
        enabled: value("UnitFileState") == Some("enabled"),
        active: matches!(value("ActiveState"), Some("active" | "activating" | "reloading")),
        pid: value("MainPID").and_then(|pid| pid.parse().ok()).filter(|pid| *pid != 0),
        control_group: value("ControlGroup").map(str::to_owned),
        stop_spares_others: matches!(value("KillMode"), Some("process" | "none")),
    }
}

fn parse_launchd_state(text: &str) -> UnitState {
    let value = |name: &str| {
        text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(" = "))
    };
    UnitState {
        enabled: true,
        active: value("state") == Some("running"),
        pid: value("pid").and_then(|pid| pid.parse().ok()),
        control_group: None,
        stop_spares_others: true,
    }
}

/// Loads an agent from its file, which starts it.
fn load_launchd_agent(path: &Path) -> Result<(), ServiceManagerError> {
    let mut command = Command::new("launchctl");
    run_quiet(command.arg("bootstrap").arg(launchd_domain()).arg(path)).map(drop)
}

/// Unloads the agent, which ends it, by way of the manager's program. One that is not loaded is no error.
fn unload_launchd_agent(launchctl: &Path) -> Result<(), ServiceManagerError> {
    let mut command = Command::new(launchctl);
    match run_manager(command.args(["bootout", &launchd_target()]))? {
        Ok(_) => Ok(()),
        Err((status, _)) if status.code().is_some_and(|code| NOT_LOADED.contains(&code)) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

fn launchd_domain() -> String {
    format!("gui/{}", rustix::process::geteuid().as_raw())
}

fn launchd_target() -> String {
    format!("{}/{LAUNCHD_LABEL}", launchd_domain())
}

/// A text without anything that would end its line or its quotes.
fn plain_text(text: &str) -> Result<&str, ServiceManagerError> {
    let is_plain = !text.is_empty() && !text.chars().any(char::is_control);
    is_plain.then_some(text).ok_or_else(|| ServiceManagerError::NotText(text.to_owned()))
}

fn plain_path(path: &Path) -> Result<&str, ServiceManagerError> {
    let not_text = || ServiceManagerError::NotText(path.display().to_string());
    plain_text(path.to_str().ok_or_else(not_text)?)
}

/// A word in quotes, as systemd.syntax(7) has it; `%` begins a specifier.
fn quote_systemd_word(word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{word}\"")
}

fn render_systemd_unit(unit: &ServiceUnit<'_>, mark: &str) -> Result<String, ServiceManagerError> {
    // `$` begins a variable in a command, and nowhere else.
    let program = quote_systemd_word(plain_path(unit.program)?).replace('$', "$$");
    let arguments = unit.arguments.join(" ");
    let mut environment = String::new();
    for (name, value) in unit.environment {
        let pair = format!("{}={}", plain_text(name)?, plain_text(value)?);
        environment.push_str(&format!("Environment={}\n", quote_systemd_word(&pair)));
    }
    Ok(format!(
        "# {mark}\n\
         [Unit]\n\
         Description=ostler, which notes the end of agents' sessions at once\n\
         \n\
         [Service]\n\
         Type=exec\n\
         ExecStart={program} {arguments}\n\
         Restart=on-failure\n\
         RestartSec=2\n\
         UMask=0077\n\
         # Terminals run in scopes of their own. Whatever was started from here without one outlives\n\
         # a restart of the daemon too.\n\
         KillMode=process\n\
         {environment}\n\
         [Install]\n\
         WantedBy=default.target\n"
    ))
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn render_launchd_plist(unit: &ServiceUnit<'_>, mark: &str) -> Result<String, ServiceManagerError> {
    let string = |text: &str| format!("<string>{}</string>", escape_xml(text));
    let mut words = vec![string(plain_path(unit.program)?)];
    words.extend(unit.arguments.iter().map(|word| string(word)));
    let words: String = words.iter().map(|word| format!("    {word}\n")).collect();
    let mut environment = String::new();
    for (name, value) in unit.environment {
        let name = escape_xml(plain_text(name)?);
        environment
            .push_str(&format!("    <key>{name}</key>\n    {}\n", string(plain_text(value)?)));
    }
    let log = string(plain_path(unit.log)?);
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <!-- {mark} -->\n\
         <plist version=\"1.0\">\n\
         <dict>\n  \
         <key>Label</key>\n  {label}\n  \
         <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n  \
         <key>EnvironmentVariables</key>\n  <dict>\n{environment}  </dict>\n  \
         <key>RunAtLoad</key>\n  <true/>\n  \
         <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n  \
         <!-- What was started from here outlives the daemon. -->\n  \
         <key>AbandonProcessGroup</key>\n  <true/>\n  \
         <key>ProcessType</key>\n  <string>Background</string>\n  \
         <key>StandardErrorPath</key>\n  {log}\n\
         </dict>\n\
         </plist>\n",
        label = string(LAUNCHD_LABEL),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit_text(manager: ServiceManager, program: &str, value: &str) -> String {
        let environment = BTreeMap::from([("OSTLER_HOME".to_owned(), value.to_owned())]);
        let unit = ServiceUnit {
            program: Path::new(program),
            arguments: &["daemon", "run"],
            environment: &environment,
            log: Path::new("/h/daemon.log"),
        };
        manager.render_unit(&unit, "mark").unwrap()
    }

    #[test]
    fn row_17_a_unit_quotes_what_systemd_would_read_otherwise() {
        let text = unit_text(ServiceManager::SystemdUser, "/a b/$x/50%/\"q\"/ostler", "/o/%h\\x");
        assert!(
            text.contains("ExecStart=\"/a b/$$x/50%%/\\\"q\\\"/ostler\" daemon run\n"),
            "{text}"
        );
        assert!(text.contains("Environment=\"OSTLER_HOME=/o/%%h\\\\x\"\n"), "{text}");
        assert!(text.starts_with("# mark\n") && text.contains("KillMode=process\n"), "{text}");
    }

    #[test]
    fn row_17_a_plist_escapes_what_xml_would_read_otherwise() {
        let text = unit_text(ServiceManager::Launchd, "/a & b/<c>/ostler", "/o");
        assert!(text.contains("<string>/a &amp; b/&lt;c&gt;/ostler</string>"), "{text}");
        assert!(text.contains("<key>AbandonProcessGroup</key>\n  <true/>"), "{text}");
    }

    #[test]
    fn row_17_a_plist_is_read_back_as_it_was_meant() {
        let text = unit_text(ServiceManager::Launchd, "/a & b/<c>/ostler", "/o/\"x\"'y'");
        let read =
            "import json, plistlib, sys; print(json.dumps(plistlib.loads(sys.argv[1].encode())))";
        let Ok(output) = Command::new("python3").args(["-c", read, &text]).output() else {
            eprintln!("SKIPPED: python3 is not installed");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let plist: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected = serde_json::json!({
            "Label": LAUNCHD_LABEL,
            "ProgramArguments": ["/a & b/<c>/ostler", "daemon", "run"],
            "EnvironmentVariables": { "OSTLER_HOME": "/o/\"x\"'y'" },
            "RunAtLoad": true,
            "KeepAlive": { "SuccessfulExit": false },
            "AbandonProcessGroup": true,
            "ProcessType": "Background",
            "StandardErrorPath": "/h/daemon.log",
        });
        assert_eq!(plist, expected);
    }

    #[test]
    fn row_17_a_line_break_is_in_no_unit() {
        let environment = BTreeMap::from([("A".to_owned(), "x\nExecStartPre=evil".to_owned())]);
        for manager in [ServiceManager::SystemdUser, ServiceManager::Launchd] {
            let unit = ServiceUnit {
                program: Path::new("/ostler"),
                arguments: &[],
                environment: &environment,
                log: Path::new("/log"),
            };
            assert!(manager.render_unit(&unit, "mark").is_err());
        }
    }

    #[test]
    fn what_the_managers_say_is_read() {
        let text = "ActiveState=active\nUnitFileState=enabled\nMainPID=12\n\
                    ControlGroup=/user.slice/ostler.service\nKillMode=process\n";
        let state = parse_systemd_state(text);
        assert!(state.enabled && state.active && state.stop_spares_others);
        assert_eq!(
            (state.pid, state.control_group.as_deref()),
            (Some(12), Some("/user.slice/ostler.service"))
        );
        let unknown = parse_systemd_state("ActiveState=inactive\nUnitFileState=\nMainPID=0\n");
        assert_eq!(unknown, UnitState::default());
        let state = parse_launchd_state("gui/1/x = {\n\tstate = running\n\tpid = 7\n}\n");
        assert!(state.active && state.pid == Some(7));
    }

    #[test]
    fn d8_an_agent_that_is_not_loaded_is_unloaded() {
        use std::os::unix::fs::PermissionsExt;

        let home = tempfile::tempdir().unwrap();
        let launchctl = home.path().join("launchctl");
        for (code, unloaded) in [(0, true), (3, true), (113, true), (1, false), (36, false)] {
            let script = format!(
                "#!/bin/sh\necho \"$@\" > '{0}.said'\necho no >&2\nexit {code}\n",
                launchctl.display()
            );
            std::fs::write(&launchctl, script).unwrap();
            std::fs::set_permissions(&launchctl, std::fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(unload_launchd_agent(&launchctl).is_ok(), unloaded, "{code}");
            let said = std::fs::read_to_string(home.path().join("launchctl.said")).unwrap();
            assert_eq!(said, format!("bootout {}\n", launchd_target()));
        }
        assert!(unload_launchd_agent(&home.path().join("none")).is_err(), "no proof of anything");
    }

    #[test]
    fn a_process_is_in_its_own_control_group() {
        let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let Some(group) = text.lines().find_map(|line| line.splitn(3, ':').nth(2)) else { return };
        assert!(control_group_members(group).contains(&std::process::id()));
        assert!(control_group_members("/no/such.service").is_empty());
    }
}
