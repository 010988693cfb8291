//! Free space on a file system.

use std::io;
use std::path::Path;

/// How many bytes this user may still write below a directory that is there.
pub fn free_bytes(directory: &Path) -> io::Result<u64> {
    let facts = rustix::fs::statvfs(directory)?;
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}
