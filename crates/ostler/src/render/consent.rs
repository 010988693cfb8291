//! Asking a person before something is done that they may not want.

use std::io::{BufRead, IsTerminal, Write};

/// Whether there is a person to ask.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks. Anything but a yes is a no.
pub(crate) fn ask_yes_no(question: &str) -> bool {
    let mut err = std::io::stderr().lock();
    // Who cannot be asked has not said yes.
    if write!(err, "{question} [y/N] ").and_then(|()| err.flush()).is_err() {
        return false;
    }
    let mut answer = String::new();
    let heard = std::io::stdin().lock().read_line(&mut answer).is_ok();
    heard && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}
