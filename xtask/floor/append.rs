//! The floor of a hook: reads standard input and appends a line, and nothing else.

use std::io::{Read, Write};

fn main() {
    let mut payload = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut payload);
    let Some(path) = std::env::args_os().nth(1) else { return };
    if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path) {
        let _ = file.write_all(b"{\"id\":\"x\"}\n");
    }
}
