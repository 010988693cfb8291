//! Feeds standard input to the emulator and does nothing else: what a replay is measured against.

use std::io::Read;

use ostler_screen::{Screen, ScreenLimits, ScreenSize};

fn main() -> std::io::Result<()> {
    let mut input = std::io::stdin().lock();
    let mut screen =
        Screen::new(ScreenSize { cols: 80, rows: 24 }, ScreenLimits { scrollback_lines: 10_000 });
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = input.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        let _ = screen.advance(&buffer[..count]);
    }
    // So that the work is not for nothing.
    std::hint::black_box(screen.hash());
    Ok(())
}
