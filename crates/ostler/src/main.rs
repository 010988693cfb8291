//! The `ostler` binary: picks the role before any thread starts.

mod cli;
mod config;
mod env;
mod error;
mod render;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if std::env::args_os().nth(1).is_some_and(|role| role == flows::access::keeper::ROLE) {
        return cli::keep_access(args.skip(1));
    }
    // The cheapest question is answered without building the command tree.
    if let (Some(only), None) = (args.next(), args.next())
        && (only == "version" || only == "--version" || only == "-V")
    {
        return cli::version::plain();
    }
    cli::main()
}
