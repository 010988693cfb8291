//! The helper's standard input: signals from `ostler`, one line each, until it ends.

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

/// What `ostler` says after its request: that something changed. Ends when `ostler` does.
#[derive(Debug)]
pub struct HelperInput(Lines<BufReader<Stdin>>);

impl HelperInput {
    /// This process's standard input.
    pub fn from_stdin() -> Self {
        Self(BufReader::new(tokio::io::stdin()).lines())
    }

    /// Waits for the next word; `None` when the process that started the helper is gone.
    pub async fn next_signal(&mut self) -> Option<String> {
        self.0.next_line().await.ok().flatten()
    }

    /// What comes after the lines, as bytes.
    pub fn into_bytes(self) -> BufReader<Stdin> {
        self.0.into_inner()
    }
}
