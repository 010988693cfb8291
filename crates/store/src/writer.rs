//! The one writer of ostler's state: the process that holds the writer lock, and no other opens the store for
//! writing. The daemon holds it as long as it runs; without one, a command holds it while it works.
//!
//! The store is opened when it is first needed: what was removed can be brought back, and the trash emptied,
//! with the lock alone, when the store is damaged or the disk is full.

use std::cell::OnceCell;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use model::identity::Identity;
use model::plan::Refusal;
use model::rules::pins::may_be_pinned;
use model::session::SessionName;
use sys::writer_lock::{WriterLock, WriterLockError};

use crate::state::{StateError, StateStore};

/// Why this process may not write.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// Another process is the writer, or the lock is not ours alone.
    #[error(transparent)]
    Lock(#[from] WriterLockError),
    /// The store cannot be used.
    #[error(transparent)]
    State(StateError),
}

impl WriterError {
    /// Who is the writer, if that is why.
    pub fn holder(&self) -> Option<Option<&Identity>> {
        match self {
            Self::Lock(WriterLockError::Held(holder)) => Some(holder.as_deref()),
            _ => None,
        }
    }
}

impl From<StateError> for WriterError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::NotPrivate(error) => Self::Lock(error.into()),
            other => Self::State(other),
        }
    }
}

/// The right to change ostler's state, for as long as it is held.
#[derive(Debug)]
pub struct StoreWriter {
    state: OnceCell<StateStore>,
    lock: WriterLock,
}

impl Deref for StoreWriter {
    type Target = WriterLock;

    fn deref(&self) -> &WriterLock {
        &self.lock
    }
}

/// Becomes the writer, waiting for another one for at most `timeout`.
pub fn become_writer(home: &Path, timeout: Duration) -> Result<StoreWriter, WriterError> {
    let lock = WriterLock::take(home, timeout)?;
    tracing::debug!("became the writer");
    Ok(StoreWriter { state: OnceCell::new(), lock })
}

impl StoreWriter {
    /// The store, opened for writing when it is first asked for.
    pub fn state(&self) -> Result<&StateStore, StateError> {
        if let Some(state) = self.state.get() {
            return Ok(state);
        }
        let opened = StateStore::open(&self.home)?;
        Ok(self.state.get_or_init(|| opened))
    }

    /// As [`StoreWriter::state`], to be changed.
    pub fn state_mut(&mut self) -> Result<&mut StateStore, StateError> {
        self.state()?;
        let Some(state) = self.state.get_mut() else { unreachable!("it has just been opened") };
        Ok(state)
    }

    /// Looks for pins once more, in the store itself: the last thing that is asked before something goes.
    /// What cannot be read may be pinned.
    pub fn recheck_pins(&self, sessions: &[SessionName]) -> Result<(), Refusal> {
        for session in sessions {
            let pin = self.state().and_then(|state| state.pin_of(session));
            if pin.map_err(|error| may_be_pinned(&error))?.is_some() {
                return Err(Refusal::Pinned { session: session.to_string() });
            }
        }
        Ok(())
    }
}
