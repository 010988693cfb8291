//! `agent.env`: two assignments, written by us, read by a grammar, never sourced or evaluated.

use crate::rules::{AGENT_PIDS, MAX_SOCKET_PATH_BYTES};
use model::refusal::{Refusal, SkipCode};

/// What an `agent.env` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentEnv {
    /// `SSH_AUTH_SOCK`.
    pub socket: String,
    /// `SSH_AGENT_PID`.
    pub pid: u32,
}

const SOCKET_NAME: &str = "SSH_AUTH_SOCK";
const PID_NAME: &str = "SSH_AGENT_PID";

impl AgentEnv {
    /// Reads the file's bytes: exactly two assignments in this order, each optionally followed by
    /// `; export NAME;`, and one optional `echo Agent pid N;` at the end. Anything else is bad.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let text =
            std::str::from_utf8(bytes).map_err(|_| malformed_env("agent.env is not UTF-8"))?;
        let mut lines = text.strip_suffix('\n').unwrap_or(text).split('\n');
        let socket = parse_assignment(lines.next(), SOCKET_NAME)?;
        let pid = parse_assignment(lines.next(), PID_NAME)?;
        if !is_socket_path(socket) {
            return Err(malformed_env("agent.env: SSH_AUTH_SOCK is not a plain absolute path"));
        }
        let number =
            parse_pid(pid).ok_or_else(|| malformed_env("agent.env: SSH_AGENT_PID is not a pid"))?;
        match lines.next() {
            None => {}
            Some(line) if line == format!("echo Agent pid {pid};") => {}
            Some(_) => {
                return Err(malformed_env("agent.env has a line that does not belong there"));
            }
        }
        if lines.next().is_some() {
            return Err(malformed_env("agent.env has too many lines"));
        }
        Ok(Self { socket: socket.to_owned(), pid: number })
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        format!(
            "{SOCKET_NAME}={socket}; export {SOCKET_NAME};\n{PID_NAME}={pid}; export {PID_NAME};\n",
            socket = self.socket,
            pid = self.pid
        )
    }

    /// The same for a shell to evaluate. A socket path that passed the rule has no quote in it.
    pub fn to_shell(&self) -> String {
        format!(
            "{SOCKET_NAME}='{socket}'; export {SOCKET_NAME};\n{PID_NAME}={pid}; export {PID_NAME};\n",
            socket = self.socket,
            pid = self.pid
        )
    }
}

fn malformed_env(detail: &str) -> Refusal {
    Refusal::skip(SkipCode::AgentEnvBad, detail)
}

/// The value of `NAME=value` or `NAME=value; export NAME;`.
fn parse_assignment<'a>(line: Option<&'a str>, name: &str) -> Result<&'a str, Refusal> {
    let refused = || malformed_env(&format!("agent.env does not assign {name} where it should"));
    let value =
        line.and_then(|line| line.strip_prefix(name)?.strip_prefix('=')).ok_or_else(refused)?;
    let value = match value.split_once(';') {
        None => value,
        Some((value, rest)) if rest.strip_prefix(" export ") == Some(&format!("{name};")) => value,
        Some(_) => return Err(refused()),
    };
    if value.is_empty() { Err(refused()) } else { Ok(value) }
}

/// Digits only, no sign, no leading zero, and a number that can be an agent's.
fn parse_pid(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|pid| plain && AGENT_PIDS.contains(pid))
}

/// Absolute, normalised, short enough, and without anything a shell would act upon inside quotes.
pub fn is_socket_path(path: &str) -> bool {
    let hostile = |c: char| c.is_control() || "'\"\\$`;".contains(c);
    let Some(below) = path.strip_prefix('/') else { return false };
    path.len() <= MAX_SOCKET_PATH_BYTES
        && !path.contains(hostile)
        && below.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> SkipCode {
        AgentEnv::parse(text.as_bytes()).unwrap_err().skip_code()
    }

    #[test]
    fn what_we_write_and_what_ssh_agent_writes_is_read() {
        let env = AgentEnv { socket: "/s/x y/agent.sock".to_owned(), pid: 4711 };
        assert_eq!(AgentEnv::parse(env.to_text().as_bytes()).unwrap(), env);
        let plain = "SSH_AUTH_SOCK=/s/x y/agent.sock\nSSH_AGENT_PID=4711";
        assert_eq!(AgentEnv::parse(plain.as_bytes()).unwrap(), env);
        let echoed = env.to_text() + "echo Agent pid 4711;\n";
        assert_eq!(AgentEnv::parse(echoed.as_bytes()).unwrap(), env);
    }

    #[test]
    fn anything_else_is_bad() {
        for text in [
            "",
            "\n",
            "SSH_AUTH_SOCK=/s\n",
            "SSH_AGENT_PID=5\nSSH_AUTH_SOCK=/s\n",
            "SSH_AUTH_SOCK=/s\nSSH_AGENT_PID=5\nPATH=/x\n",
            "PATH=/x\nSSH_AUTH_SOCK=/s\nSSH_AGENT_PID=5\n",
            "SSH_AUTH_SOCK=/s\nSSH_AGENT_PID=5\necho Agent pid 6;\n",
            "SSH_AUTH_SOCK=/s\nSSH_AGENT_PID=5\necho Agent pid 5;\necho Agent pid 5;\n",
            "SSH_AUTH_SOCK=/s; rm -rf /;\nSSH_AGENT_PID=5\n",
            "SSH_AUTH_SOCK=/s; export PATH;\nSSH_AGENT_PID=5\n",
            "SSH_AUTH_SOCK=/s\n\nSSH_AGENT_PID=5\n",
            "SSH_AUTH_SOCK=/s\r\nSSH_AGENT_PID=5\n",
            " SSH_AUTH_SOCK=/s\nSSH_AGENT_PID=5\n",
        ] {
            assert_eq!(code(text), SkipCode::AgentEnvBad, "{text:?}");
        }
        assert!(AgentEnv::parse(b"SSH_AUTH_SOCK=/\xff\nSSH_AGENT_PID=5\n").is_err());
    }

    #[test]
    fn pids_are_digits_of_a_possible_process() {
        for pid in ["-1", "0", "1", "+5", "007", "12a", "", "12345678901234567890", "4194305", "٣"]
        {
            let text = format!("SSH_AUTH_SOCK=/s\nSSH_AGENT_PID={pid}\n");
            assert_eq!(code(&text), SkipCode::AgentEnvBad, "{pid}");
        }
    }

    #[test]
    fn sockets_are_plain_absolute_paths() {
        for path in ["s", "/a/../b", "/a/./b", "/a//b", "/a/", "/", "/$(touch x)", "/a'b", "/a`b"] {
            let text = format!("SSH_AUTH_SOCK={path}\nSSH_AGENT_PID=5\n");
            assert_eq!(code(&text), SkipCode::AgentEnvBad, "{path}");
        }
        assert!(is_socket_path(&format!("/{}", "a".repeat(102))));
        assert!(!is_socket_path(&format!("/{}", "a".repeat(103))));
    }
}
