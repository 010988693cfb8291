//! A directory that is used again and again, because making one costs more than most questions.

use std::path::Path;

use tempfile::TempDir;

thread_local! {
    static SCRATCH: TempDir = tempfile::tempdir().expect("a temporary directory");
}

/// Calls `work` with this thread's directory.
pub(crate) fn with<T>(work: impl FnOnce(&Path) -> T) -> T {
    SCRATCH.with(|directory| work(directory.path()))
}
