//! The `ostler` binary: picks the role before any thread starts.

mod api;
mod cli;
mod config;
mod daemon;
mod env;
mod error;
mod helper;
mod metrics_server;
mod render;
mod timeouts;
mod top;
mod web;

use std::process::ExitCode;

fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    // What must be known before anything is opened, what an agent waits for, and the cheapest
    // question: none of them needs the command tree.
    match args.first().and_then(|first| first.to_str()) {
        Some("host" | "_host") => return flows::terminal::host_main(),
        Some("agent-tty") => return cli::agent_tty::run_agent_tty(&args[1..]),
        _ if cli::agent_tty::is_name(&called) => return cli::agent_tty::run_agent_tty(&args),
        Some("hook") => {
            if let Some(code) = cli::hook::run_without_parser(&args[1..]) {
                return code;
            }
        }
        Some("badge") => {
            if let Some(code) = cli::badge::run_without_parser(&args[1..]) {
                return code;
            }
        }
        Some(flows::stop::halted::HALTED_TREE_ROLE) => {
            return flows::stop::halted::guard_halted_tree();
        }
        Some(access::keeper::KEEPER_ROLE) => {
            return cli::keep_access(args.into_iter().skip(1));
        }
        Some("version" | "--version" | "-V") if args.len() == 1 => {
            return cli::version::print_version();
        }
        _ => {}
    }
    cli::run_ostler()
}
