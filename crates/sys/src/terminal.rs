//! The terminal that this process writes to.

/// How many columns the terminal on stdout has, if it says.
pub fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}
