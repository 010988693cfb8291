//! Which process above a hook is the agent that the turn belongs to?
//!
//! A pure choice over the chain of ancestors, nearest first. A wrong short-lived owner would end a
//! live session, so no owner is always better than a guess.

use std::time::Duration;

use crate::program::{AgentProgram, ProcessAppearance, base_name, is_interpreter, is_shell};

/// The most ancestors that are looked at.
pub const MAX_ANCESTORS: usize = 32;

/// What an unknown program must have been there for, before the hook started, to be an owner:
/// helpers that were started for the hook are younger.
const MIN_OWNER_AGE: Duration = Duration::from_secs(1);

/// One process above the hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessAncestor {
    pub pid: u32,
    /// The user it runs as.
    pub uid: u32,
    /// How it looks.
    pub appearance: ProcessAppearance,
    /// How long it had been there when the hook started.
    pub older_by: Duration,
    /// Whether it is in the hook's own process group.
    pub in_hook_group: bool,
}

/// Why a process was taken for the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerBasis {
    /// The agent itself named its pid, and it is above the hook.
    Claim,
    /// It is the program of this agent.
    Agent(&'static str),
    /// It is the nearest one that was there before and is not known to pass things on.
    Steady,
}

/// The chosen owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerChoice {
    /// Its place in the chain, counted from the hook's parent.
    pub index: usize,
    pub basis: OwnerBasis,
}

/// What the agent says about itself and what is known about agents.
#[derive(Clone, Copy, Debug)]
pub struct OwnerQuestion<'a> {
    /// How each agent's processes look.
    pub rules: &'a [(&'static str, AgentProgram)],
    /// Pids that the agent named as its own, in the hook's environment or payload.
    pub claims: &'a [u32],
    /// The user the hook runs as.
    pub uid: u32,
}

/// Chooses the owner from the ancestors, nearest first. Takes no more of them than it needs.
///
/// A claim that holds wins over everything nearer; then the nearest known agent; then the nearest
/// steady process below the first one that adopts orphans. An unknown program in the hook's own process
/// group is either the agent or something that it started for the hook, and nothing tells which: then
/// there is no owner, for what is above it could be anything.
pub fn choose_owner(
    question: OwnerQuestion<'_>,
    ancestors: impl IntoIterator<Item = ProcessAncestor>,
) -> Option<OwnerChoice> {
    let mut agent = None;
    let mut steady = None;
    let mut is_ambiguous = false;
    let mut below_reaper = true;
    for (index, ancestor) in ancestors.into_iter().take(MAX_ANCESTORS).enumerate() {
        if ancestor.pid <= 1 {
            break;
        }
        if question.claims.contains(&ancestor.pid) && ancestor.uid == question.uid {
            return Some(OwnerChoice { index, basis: OwnerBasis::Claim });
        }
        if agent.is_none() {
            agent = question
                .rules
                .iter()
                .find(|(_, program)| program.matches(&ancestor.appearance))
                .map(|&(name, _)| OwnerChoice { index, basis: OwnerBasis::Agent(name) });
        }
        if agent.is_some() && question.claims.is_empty() {
            break;
        }
        // What adopted an orphan says nothing about who started it, nor does anything above.
        below_reaper &= !adopts_orphans(&ancestor.appearance);
        if steady.is_none() && below_reaper && !passes_on(&ancestor.appearance) {
            is_ambiguous |= ancestor.in_hook_group;
            if ancestor.older_by >= MIN_OWNER_AGE && !is_ambiguous {
                steady = Some(OwnerChoice { index, basis: OwnerBasis::Steady });
            }
        }
    }
    agent.or(steady)
}

/// Programs that only start another one, and whose end says nothing about the agent.
const LAUNCHER_PROGRAMS: [&str; 38] = [
    "env", "sudo", "doas", "su", "timeout", "nice", "xargs", "flock", "script", "time", "strace",
    "setsid", "stdbuf", "unshare", "direnv", "mise", "uv", "uvx", "npx", "npx-cli", "npm",
    "npm-cli", "pnpm", "pnpx", "yarn", "yarnpkg", "bunx", "corepack", "git", "cargo", "go",
    "ostler", "nohup", "nsenter", "setpriv", "runuser", "chroot", "rbash",
];

/// Whether the process is a wrapper, a shell, or ostler itself.
fn passes_on(seen: &ProcessAppearance) -> bool {
    let name = program_name(seen);
    let passes = |name: &str| is_shell(name) || LAUNCHER_PROGRAMS.contains(&name);
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
const ORPHAN_ADOPTERS: [&str; 19] = [
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
fn adopts_orphans(seen: &ProcessAppearance) -> bool {
    // The kernel's names are cut off at 15 bytes.
    let is_reaper = |name: &str| {
        ORPHAN_ADOPTERS
            .iter()
            .any(|reaper| *reaper == name || (name.len() == 15 && reaper.starts_with(name)))
    };
    is_reaper(program_name(seen)) || is_reaper(&seen.comm)
}

/// The executable's name, or the kernel's short name where the executable cannot be read.
fn program_name(seen: &ProcessAppearance) -> &str {
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
