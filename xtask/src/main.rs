//! `cargo xtask <task>`: development tasks that need more than cargo.

fn main() {}
