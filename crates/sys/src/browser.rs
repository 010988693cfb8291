//! Opens a file in the user's browser (xdg-open; open on macOS).

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// The program that opens a file with what the user chose for it.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens it, and does not wait.
pub fn open_in_browser(file: &Path) -> io::Result<()> {
    let quiet = Stdio::null;
    let mut child =
        Command::new(OPENER).arg(file).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn()?;
    // Its end must be reaped, or it stays in the process table.
    std::thread::Builder::new().name("browser".to_owned()).spawn(move || child.wait())?;
    Ok(())
}
