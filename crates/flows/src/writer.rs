//! The one writer of ostler's state: whoever holds `writer.lock`, and nobody else opens the store for
//! writing. The daemon holds it as long as it runs; without one, a command holds it while it works.
//!
//! The store is opened when it is needed: what was removed can be brought back, and the trash emptied, with
//! the lock alone, when the store is damaged or the disk is full.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::identity::Identity;
use store::state::{State, StateError};
use sys::lock::{Attempt, Lock};

/// Why this process may not write.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// Somebody else is the writer.
    #[error("{} holds the store for writing", holder_words(.0.as_deref()))]
    Held(Option<Box<Identity>>),
    /// The lock is not ours alone.
    #[error(transparent)]
    NotPrivate(#[from] sys::private::PrivateError),
    /// The store cannot be used.
    #[error(transparent)]
    State(StateError),
}

impl From<StateError> for WriterError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::NotPrivate(error) => Self::NotPrivate(error),
            other => Self::State(other),
        }
    }
}

fn holder_words(holder: Option<&Identity>) -> String {
    match holder.and_then(|holder| holder.pid) {
        Some(pid) => format!("another ostler (pid {pid})"),
        None => "another ostler".to_owned(),
    }
}

/// The right to change ostler's state, for as long as it is held.
#[derive(Debug)]
pub struct Writer {
    state: OnceCell<State>,
    /// ostler's home.
    pub home: PathBuf,
    _lock: Lock,
}

/// The lock of a home.
pub fn lock_path(home: &Path) -> PathBuf {
    home.join("writer.lock")
}

/// Becomes the writer, waiting for another one for at most `patience`.
pub fn take(home: &Path, patience: Duration) -> Result<Writer, WriterError> {
    sys::private::create_private_dir(home)?;
    match sys::lock::take_within(&lock_path(home), patience)? {
        Attempt::Held(holder) => Err(WriterError::Held(holder)),
        Attempt::Taken(mut lock) => {
            if let Ok(me) = sys::proc::identify_self() {
                // Only for the words of an error: who may write is decided by the kernel's lock.
                let _ = lock.sign(&me);
            }
            Ok(Writer { state: OnceCell::new(), home: home.to_owned(), _lock: lock })
        }
    }
}

impl Writer {
    /// The store, opened for writing when it is first asked for.
    pub fn state(&self) -> Result<&State, StateError> {
        if let Some(state) = self.state.get() {
            return Ok(state);
        }
        let opened = State::open(&self.home)?;
        Ok(self.state.get_or_init(|| opened))
    }

    /// As [`Writer::state`], to be changed.
    pub fn state_mut(&mut self) -> Result<&mut State, StateError> {
        self.state()?;
        let Some(state) = self.state.get_mut() else { unreachable!("it has just been opened") };
        Ok(state)
    }
}
