//! Process classification: which processes are coding agents.
//!
//! Names alone lie: node agents show up as `MainThread`, others overwrite their arguments, and a
//! package manager's wrapper carries the agent's name. A rule therefore looks at the executable,
//! at the script an interpreter runs, and at the arguments that mean "this is not a session".

/// How one agent's processes look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentProgram {
    /// Base names of the executable, or of `argv[0]`.
    pub names: &'static [&'static str],
    /// Parts of the path of a script run by an interpreter, or of the executable, e.g. the name of
    /// the npm package. Compared with whole path components.
    pub packages: &'static [&'static str],
    /// First arguments (sub-commands, of one or more words) that mean a server: it can host any
    /// session, so that only what it locks or holds open says which, and its directory says nothing.
    pub servers: &'static [&'static str],
    /// First arguments that mean a helper process, which never has a session.
    pub helpers: &'static [&'static str],
}

/// What the process table says about a process, for recognition only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessAppearance {
    /// The kernel's short name (15 bytes).
    pub comm: String,
    /// The executable's path, without the kernel's " (deleted)".
    pub exe: Option<String>,
    /// The command line.
    pub args: Vec<String>,
}

/// How many bytes of a name the kernel keeps.
const MAX_COMM_BYTES: usize = 15;

/// Programs that run another program's script.
const INTERPRETERS: [&str; 9] =
    ["node", "nodejs", "bun", "deno", "tsx", "python", "python3", "ruby", "MainThread"];

/// Where the system keeps programs, each under the name that it is called by.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/"];

/// How the names of system programs begin that run other programs in their own process: interpreters in all their
/// versions, emulators, loaders, launchers.
const CARRIERS: [&str; 24] = [
    "box64", "bun", "bwrap", "deno", "electron", "fex", "java", "ld", "mise", "node", "npm", "npx",
    "perl", "php", "proot", "pypy", "python", "qemu", "ruby", "snap", "tsx", "uv", "volta", "wine",
];

impl AgentProgram {
    /// Whether the executable alone says that a process is not this agent, whatever it calls itself: a shell,
    /// or a program of the system whose own name has nothing of the agent's in it. So its arguments
    /// need not be read.
    pub fn rules_out_exe(&self, exe: &str) -> bool {
        let base = base_name(exe);
        if self.is_named(exe) || self.is_packaged(exe) || is_interpreter(base) {
            return false;
        }
        let is_system =
            || SYSTEM_DIRECTORIES.iter().any(|place| exe.strip_prefix(place) == Some(base));
        let carries = || CARRIERS.iter().any(|carrier| base.starts_with(carrier));
        let is_related = || self.names.iter().any(|name| base.contains(name));
        is_shell(base) || (is_system() && !carries() && !is_related())
    }

    /// Whether a process that looks like this is this agent, and one that can have a session.
    pub fn matches(&self, seen: &ProcessAppearance) -> bool {
        self.find_agent_argument(seen).is_some_and(|own| !begins_with_any(seen, own, self.helpers))
    }

    /// Whether a process that looks like this is this agent's program at all, helpers included.
    pub fn is_program(&self, seen: &ProcessAppearance) -> bool {
        self.find_agent_argument(seen).is_some()
    }

    /// Whether a process that looks like this is a server of this agent.
    pub fn is_server(&self, seen: &ProcessAppearance) -> bool {
        let titled = seen.args.first().is_some_and(|title| self.is_server_title(title));
        self.find_agent_argument(seen)
            .is_some_and(|own| titled || begins_with_any(seen, own, self.servers))
    }

    /// What this agent was started with, after the program's own name. `None` where a title of its own has taken the
    /// place of the arguments.
    pub fn own_arguments<'a>(&self, seen: &'a ProcessAppearance) -> Option<&'a [String]> {
        let begin = self.find_agent_argument(seen)?;
        let program = seen.args.get(begin.checked_sub(1)?)?;
        let exe = base_name(seen.exe.as_deref().unwrap_or(""));
        let is_title = begin == 1 && (is_interpreter(exe) || program.contains(' '));
        (!is_title).then(|| seen.args.get(begin..).unwrap_or_default())
    }

    /// `<name>-<server>`: a title that some servers give themselves.
    fn is_server_title(&self, title: &str) -> bool {
        let word = base_name(title.split(' ').next().unwrap_or(title));
        let after = |name: &&str| word.strip_prefix(*name)?.strip_prefix('-');
        self.names.iter().filter_map(after).any(|rest| self.servers.contains(&rest))
    }

    /// The index of the first argument that belongs to the agent, if this is the agent at all.
    fn find_agent_argument(&self, seen: &ProcessAppearance) -> Option<usize> {
        let exe = seen.exe.as_deref().unwrap_or("");
        let interpreted =
            is_interpreter(base_name(exe)) || (exe.is_empty() && is_interpreter(&seen.comm));
        if interpreted {
            let script =
                seen.args.iter().enumerate().skip(1).find(|(_, arg)| !arg.starts_with('-'));
            if let Some((index, script)) = script
                && (self.is_named(script) || self.is_packaged(script))
            {
                return Some(index + 1);
            }
            // Some agents overwrite their command line with their own name.
            return self.is_titled(seen).then_some(1);
        }
        if self.is_named(exe) || self.is_packaged(exe) || self.is_titled(seen) {
            return Some(1);
        }
        None
    }

    fn is_named(&self, path: &str) -> bool {
        let base = base_name(path);
        let stem = [".js", ".mjs", ".cjs", ".py", ".exe"]
            .iter()
            .find_map(|ending| base.strip_suffix(ending))
            .unwrap_or(base);
        self.names.contains(&stem)
    }

    fn is_packaged(&self, path: &str) -> bool {
        self.packages.iter().any(|package| {
            path.match_indices(package).any(|(at, _)| {
                let before = path[..at].ends_with('/');
                let after = path[at + package.len()..].starts_with('/');
                before && after
            })
        })
    }

    /// `argv[0]` is the agent's name alone: a rewritten title, or a symlink it was started by.
    fn is_titled(&self, seen: &ProcessAppearance) -> bool {
        let Some(title) = seen.args.first() else {
            // Nothing is left of one that ends but the kernel's short name.
            let short = |name: &str| name.get(..MAX_COMM_BYTES).unwrap_or(name) == seen.comm;
            return self.names.iter().any(|name| short(name));
        };
        let word = title.split(' ').next().unwrap_or(title);
        !is_shell(base_name(seen.exe.as_deref().unwrap_or(""))) && self.is_named(word)
    }
}

/// Whether the agent's own arguments, from index `own` on, begin with one of these commands.
fn begins_with_any(seen: &ProcessAppearance, own: usize, commands: &[&str]) -> bool {
    let own = seen.args.get(own..).unwrap_or_default();
    commands.iter().any(|command| {
        let mut words = command.split(' ').zip(own);
        words.clone().count() == command.split(' ').count() && words.all(|(word, arg)| word == arg)
    })
}

/// The last component of a path.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a program of this name runs other programs' scripts.
pub fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.contains(&name)
        || name
            .strip_prefix("python3.")
            .is_some_and(|minor| minor.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether a program of this name is a shell.
pub fn is_shell(name: &str) -> bool {
    [
        "sh", "bash", "zsh", "dash", "fish", "ash", "ksh", "csh", "tcsh", "nu", "elvish", "pwsh",
        "busybox",
    ]
    .contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: AgentProgram = AgentProgram {
        names: &["claude"],
        packages: &["@anthropic-ai/claude-code"],
        servers: &[],
        helpers: &["bg-spare", "daemon", "server watch"],
    };

    fn seen(comm: &str, exe: &str, args: &[&str]) -> ProcessAppearance {
        ProcessAppearance {
            comm: comm.into(),
            exe: (!exe.is_empty()).then(|| exe.into()),
            args: args.iter().map(|&arg| arg.into()).collect(),
        }
    }

    #[test]
    fn an_agent_is_recognised_by_executable_script_or_title() {
        for process in [
            seen("claude", "/home/u/.local/bin/claude", &["claude"]),
            seen("claude", "/home/u/.local/share/claude/versions/2.1.325", &["claude", "-p", "hi"]),
            seen(
                "MainThread",
                "/usr/bin/node",
                &["node", "/x/node_modules/@anthropic-ai/claude-code/cli.js"],
            ),
            seen("node", "/usr/bin/node", &["node", "--max-old-space-size=4096", "/x/bin/claude"]),
            seen("claude", "/usr/bin/node", &["claude"]),
            seen("claude", "/x/bin/claude", &["claude", "server", "run"]),
            seen("claude", "/x/bin/claude", &["claude", "server"]),
        ] {
            assert!(CLAUDE.matches(&process), "{process:?}");
        }
    }

    #[test]
    fn d2_arguments_are_those_after_the_program() {
        let own = |process: &ProcessAppearance| CLAUDE.own_arguments(process).map(<[_]>::to_vec);
        let given = Some(vec!["-p".to_owned(), "hi".to_owned()]);
        assert_eq!(own(&seen("claude", "/x/bin/claude", &["claude", "-p", "hi"])), given);
        let script = ["node", "--max-old-space-size=4096", "/x/bin/claude", "-p", "hi"];
        assert_eq!(own(&seen("node", "/usr/bin/node", &script)), given);
        assert_eq!(own(&seen("claude", "/usr/bin/node", &["claude"])), None, "a title");
        assert_eq!(own(&seen("claude", "", &[])), None, "it is ending");
    }

    #[test]
    fn an_executable_rules_out_only_what_cannot_carry_an_agent() {
        for other in
            ["/usr/bin/sleep", "/usr/sbin/sshd", "/bin/cat", "/opt/x/bash", "/usr/bin/dash"]
        {
            assert!(CLAUDE.rules_out_exe(other), "{other}");
        }
        for possible in [
            "/usr/bin/claude",
            "/usr/bin/claude-code",
            "/usr/bin/claude-2.1.325",
            "/home/u/.local/share/claude/versions/2.1.325",
            "/usr/bin/node",
            "/usr/bin/node-22",
            "/usr/bin/python3.13",
            "/usr/bin/electron37",
            "/usr/bin/ld.so",
            "/usr/local/bin/sleep",
            "/usr/lib/x/sleep",
            "/usr/bin/vendor_perl/x",
            "/tmp/sleep",
            "",
        ] {
            assert!(!CLAUDE.rules_out_exe(possible), "{possible}");
        }
    }

    /// A shell that calls itself something else is never an agent, so its arguments decide nothing.
    #[test]
    fn what_is_ruled_out_outside_of_the_system_is_no_match_anyway() {
        for exe in ["/opt/x/bash", "/nix/store/x/bin/sh", "/usr/bin/zsh"] {
            for title in ["claude", "/x/bin/claude", "-claude"] {
                assert!(CLAUDE.rules_out_exe(exe));
                assert!(
                    !CLAUDE.matches(&seen("x", exe, &[title, "/x/bin/claude"])),
                    "{exe} {title}"
                );
            }
        }
    }

    #[test]
    fn one_that_ends_is_known_by_its_short_name() {
        let program = AgentProgram { names: &["claude-long-gateway"], ..CLAUDE };
        assert!(program.is_program(&seen("claude-long-gat", "", &[])));
        assert!(!program.is_program(&seen("claude-long", "", &[])));
        assert!(CLAUDE.is_program(&seen("claude", "", &[])));
    }

    #[test]
    fn a_server_is_the_agent_but_of_no_directory() {
        let program = AgentProgram { servers: &["app-server"], ..CLAUDE };
        let server = seen("claude", "/x/bin/claude", &["claude", "app-server", "--listen", "x"]);
        assert!(program.matches(&server) && program.is_server(&server));
        let session = seen("claude", "/x/bin/claude", &["claude", "-p", "app-server"]);
        assert!(program.matches(&session) && !program.is_server(&session));
    }

    #[test]
    fn a_mention_of_the_agent_is_not_the_agent() {
        for process in [
            seen("vim", "/usr/bin/vim", &["vim", "claude"]),
            seen("bash", "/usr/bin/bash", &["bash", "-c", "claude -p hi"]),
            seen("node", "/usr/bin/node", &["node", "/x/claude-helper/index.js", "claude"]),
            seen("claude", "/x/bin/claude", &["claude", "bg-spare"]),
            seen("claude", "/x/bin/claude", &["claude", "daemon", "run"]),
            seen("claude", "/x/bin/claude", &["claude", "server", "watch", "-v"]),
            seen("sh", "/bin/sh", &["claude"]),
            seen("", "", &[]),
        ] {
            assert!(!CLAUDE.matches(&process), "{process:?}");
        }
    }
}
