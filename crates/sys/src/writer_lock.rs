//! The writer lock of a home: one process at a time may change what is in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::identity::Identity;

use crate::dropped::NoteDropped;
use crate::lock::{AdvisoryLock, LockAttempt};
use crate::private::PrivateError;

/// Why this process may not write.
#[derive(Debug, thiserror::Error)]
pub enum WriterLockError {
    /// Another process is the writer.
    #[error("{} holds the store for writing", describe_holder(.0.as_deref()))]
    Held(Option<Box<Identity>>),
    /// The lock is not ours alone.
    #[error(transparent)]
    NotPrivate(#[from] PrivateError),
}

fn describe_holder(holder: Option<&Identity>) -> String {
    match holder.and_then(|holder| holder.pid) {
        Some(pid) => format!("another ostler (pid {pid})"),
        None => "another ostler".to_owned(),
    }
}

/// The right to change what is in a home, for as long as it is held.
#[derive(Debug)]
pub struct WriterLock {
    pub home: PathBuf,
    _lock: AdvisoryLock,
}

impl WriterLock {
    /// Takes the lock, waiting for another writer for at most `timeout`.
    pub fn take(home: &Path, timeout: Duration) -> Result<Self, WriterLockError> {
        crate::private::create_private_dir(home)?;
        match crate::lock::take_within(&writer_lock_path(home), timeout)? {
            LockAttempt::Held(holder) => Err(WriterLockError::Held(holder)),
            LockAttempt::Taken(mut lock) => {
                if let Ok(me) = crate::proc::identify_self() {
                    // Only for the words of an error: who may write is decided by the kernel's lock.
                    lock.write_holder(&me).note_dropped("the name of the writer");
                }
                Ok(Self { home: home.to_owned(), _lock: lock })
            }
        }
    }
}

/// The lock file of a home.
pub fn writer_lock_path(home: &Path) -> PathBuf {
    home.join("writer.lock")
}
