//! The `ostler` binary: picks the role before any thread starts.

mod cli;
mod config;
mod daemon;
mod env;
mod error;
mod render;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    // What an agent waits for, and the cheapest question, need no command tree.
    match args.first().and_then(|first| first.to_str()) {
        Some("hook") => {
            if let Some(code) = cli::hook::quick(&args[1..]) {
                return code;
            }
        }
        Some("version" | "--version" | "-V") if args.len() == 1 => return cli::version::plain(),
        _ => {}
    }
    cli::main()
}
