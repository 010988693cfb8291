//! The hash chain of a log (tamper evidence), in a file beside it: each link covers the bytes since the
//! last one and the link before, so that a log cannot be changed in the past without it showing.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use model::hex::to_hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sys::dropped::NoteDropped;
use sys::private::open_regular;

/// A link is written at least every so many bytes of log.
const LINK_BYTES: u64 = 4 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Link {
    /// The length of the log that is covered.
    bytes: u64,
    /// The next event's number.
    next: u64,
    sha256: String,
}

/// Writes the chain along with the log.
#[derive(Debug)]
pub(super) struct HashChain {
    file: Option<File>,
    hash: Sha256,
    covered: u64,
    linked: u64,
}

impl HashChain {
    /// Begins a chain. Where it cannot be written there is none; the log goes on.
    pub(super) fn create(path: &Path) -> Self {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .ok_or_note("the hash chain of a log");
        Self { file, hash: Sha256::new(), covered: 0, linked: 0 }
    }

    /// Takes in bytes that were written to the log.
    pub(super) fn cover_bytes(&mut self, bytes: &[u8], next: u64) {
        self.hash.update(bytes);
        self.covered += bytes.len() as u64;
        if self.covered - self.linked >= LINK_BYTES {
            self.write_link(next);
        }
    }

    /// Writes a link for what is not covered yet.
    pub(super) fn write_link(&mut self, next: u64) {
        let Some(file) = &mut self.file else { return };
        if self.covered == self.linked {
            return;
        }
        let sha256 = to_hex(&self.hash.finalize_reset());
        self.hash.update(sha256.as_bytes());
        let link = Link { bytes: self.covered, next, sha256 };
        let line = serde_json::to_string(&link).unwrap_or_default() + "\n";
        if file.write_all(line.as_bytes()).is_err() {
            self.file = None;
        }
        self.linked = self.covered;
    }
}

/// What the chain says about the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainReport {
    /// Bytes of the log that it covers and that are as they were written.
    pub bytes: u64,
    /// The first link that does not hold.
    pub broken: Option<String>,
}

/// Compares the log with its chain. `None` when there is no chain.
pub fn verify_chain(log: &Path, chain: &Path) -> io::Result<Option<ChainReport>> {
    let chain = match open_regular(chain).map_err(io::Error::from) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut log = BufReader::new(open_regular(log)?);
    let mut found = ChainReport::default();
    let mut hash = Sha256::new();
    for (number, line) in chain.lines().enumerate() {
        let broken = |what: &str| Some(format!("link {} {what}", number + 1));
        // A link that was cut off says nothing; what it would have covered is not covered.
        let Ok(link) = serde_json::from_str::<Link>(&line?) else { break };
        let Some(length) = link.bytes.checked_sub(found.bytes) else {
            found.broken = broken("goes backwards");
            break;
        };
        let copied = copy_into(&mut hash, &mut (&mut log).take(length))?;
        if copied < length {
            found.broken = broken(&format!("covers {} bytes that are gone", length - copied));
            break;
        }
        let sha256 = to_hex(&hash.finalize_reset());
        if sha256 != link.sha256 {
            let (from, to) = (found.bytes, link.bytes);
            found.broken = broken(&format!("does not fit the bytes {from} to {to}"));
            break;
        }
        hash.update(sha256.as_bytes());
        found.bytes = link.bytes;
    }
    Ok(Some(found))
}

fn copy_into(hash: &mut Sha256, from: &mut impl Read) -> io::Result<u64> {
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(total);
        }
        hash.update(&buffer[..count]);
        total += count as u64;
    }
}
