//! Which process above a hook is the agent that the turn belongs to?
//!
//! A pure choice over the chain of ancestors, nearest first. A wrong short-lived owner would end a
//! live session, so no owner is always better than a guess.

use std::time::Duration;

use crate::program::{Appearance, Program, base_name, is_interpreter, is_shell};

/// The most ancestors that are looked at.
pub const MOST_ANCESTORS: usize = 32;

/// What an unknown program must have been there for, before the hook started, to be an owner:
/// helpers that were started for the hook are younger.
const STEADY: Duration = Duration::from_secs(1);

/// One process above the hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Its pid.
    pub pid: u32,
    /// The user it runs as.
    pub uid: u32,
    /// How it looks.
    pub appearance: Appearance,
    /// How long it had been there when the hook started.
    pub older_by: Duration,
}

/// Why a process was taken for the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The agent itself named its pid, and it is above the hook.
    Claim,
    /// It is the program of this agent.
    Agent(&'static str),
    /// It is the nearest one that was there before and is not known to pass things on.
    Steady,
}

/// The chosen owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its place in the chain, counted from the hook's parent.
    pub index: usize,
    /// Why.
    pub basis: Basis,
}

/// What the agent says about itself and what is known about agents.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// How each agent's processes look.
    pub rules: &'a [(&'static str, Program)],
    /// Pids that the agent named as its own, in the hook's environment or payload.
    pub claims: &'a [u32],
    /// The user the hook runs as.
    pub uid: u32,
}

/// Chooses the owner from the ancestors, nearest first. Takes no more of them than it needs.
///
/// A claim that holds wins over everything nearer; then the nearest known agent; then the nearest
/// steady process below the first one that adopts orphans.
pub fn choose(
    question: Question<'_>,
    ancestors: impl IntoIterator<Item = Ancestor>,
) -> Option<Choice> {
    let mut agent = None;
    let mut steady = None;
    let mut below_reaper = true;
    for (index, ancestor) in ancestors.into_iter().take(MOST_ANCESTORS).enumerate() {
        if ancestor.pid <= 1 {
            break;
        }
        if question.claims.contains(&ancestor.pid) && ancestor.uid == question.uid {
            return Some(Choice { index, basis: Basis::Claim });
        }
        if agent.is_none() {
            agent = question
                .rules
                .iter()
                .find(|(_, program)| program.matches(&ancestor.appearance))
                .map(|&(name, _)| Choice { index, basis: Basis::Agent(name) });
        }
        if agent.is_some() && question.claims.is_empty() {
            break;
        }
        // What adopted an orphan says nothing about who started it, nor does anything above.
        below_reaper &= !adopts_orphans(&ancestor.appearance);
        if steady.is_none()
            && below_reaper
            && ancestor.older_by >= STEADY
            && !passes_on(&ancestor.appearance)
        {
            steady = Some(Choice { index, basis: Basis::Steady });
        }
    }
    agent.or(steady)
}

/// Programs that only start another one, and whose end says nothing about the agent.
const PASSING: [&str; 38] = [
    "env", "sudo", "doas", "su", "timeout", "nice", "xargs", "flock", "script", "time", "strace",
    "setsid", "stdbuf", "unshare", "direnv", "mise", "uv", "uvx", "npx", "npx-cli", "npm",
    "npm-cli", "pnpm", "pnpx", "yarn", "yarnpkg", "bunx", "corepack", "git", "cargo", "go",
    "ostler", "nohup", "nsenter", "setpriv", "runuser", "chroot", "rbash",
];

/// Whether the process is a wrapper, a shell, or ostler itself.
fn passes_on(seen: &Appearance) -> bool {
    let name = program_name(seen);
    let passes = |name: &str| is_shell(name) || PASSING.contains(&name);
    if passes(name) {
        return true;
    }
    if !is_interpreter(name) {
        return false;
    }
    // npm calls its process `npm exec <package>`.
    let title = seen.args.first().map_or("", |title| title.split(' ').next().unwrap_or(""));
    let script = seen.args.iter().skip(1).find(|arg| !arg.starts_with('-'));
    passes(base_name(title)) || script.is_some_and(|script| passes(script_name(script)))
}

/// Programs that adopt orphans. What they are the parent of was not started by them.
const REAPERS: [&str; 19] = [
    "systemd",
    "init",
    "launchd",
    "tmux: server",
    "screen",
    "SCREEN",
    "zellij",
    "tini",
    "dumb-init",
    "docker-init",
    "catatonit",
    "s6-svscan",
    "runsv",
    "runit",
    "conmon",
    "containerd-shim",
    "containerd-shim-runc-v2",
    "openrc-init",
    "supervisord",
];

/// Whether orphans may have been handed to this process.
fn adopts_orphans(seen: &Appearance) -> bool {
    // The kernel's names are cut off at 15 bytes.
    let is_reaper = |name: &str| {
        REAPERS
            .iter()
            .any(|reaper| *reaper == name || (name.len() == 15 && reaper.starts_with(name)))
    };
    is_reaper(program_name(seen)) || is_reaper(&seen.comm)
}

/// The executable's name, or the kernel's short name where the executable cannot be read.
fn program_name(seen: &Appearance) -> &str {
    match seen.exe.as_deref() {
        Some(exe) if !exe.is_empty() => base_name(exe),
        _ => &seen.comm,
    }
}

fn script_name(path: &str) -> &str {
    let base = base_name(path);
    [".js", ".mjs", ".cjs", ".py"]
        .iter()
        .find_map(|ending| base.strip_suffix(ending))
        .unwrap_or(base)
}
