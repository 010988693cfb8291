//! The `ostler` binary: picks the role before any thread starts.

mod cli;
mod config;
mod env;
mod error;
mod render;

use std::process::ExitCode;

fn main() -> ExitCode {
    // A host is another role of the same program, and must know before anything is opened.
    let mut args = std::env::args_os();
    let called = args.next().unwrap_or_default();
    let first = args.next();
    if first.as_ref().is_some_and(|word| word == "host" || word == "_host") {
        return flows::terminal::host_main();
    }
    if cli::agent_tty::is_meant(&called, first.as_deref()) {
        return cli::agent_tty::main();
    }
    let mut args = std::env::args_os().skip(1);
    // The cheapest question is answered without building the command tree.
    if let (Some(only), None) = (args.next(), args.next())
        && (only == "version" || only == "--version" || only == "-V")
    {
        return cli::version::plain();
    }
    cli::main()
}
