//! Asking a person before something goes.

use std::io::{BufRead, IsTerminal};

use crate::render::output;

/// Whether there is a person to ask.
pub(super) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks. Anything but a yes is a no.
pub(super) fn ask(question: &str) -> bool {
    output::talk(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let heard = std::io::stdin().lock().read_line(&mut answer).is_ok();
    heard && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}
