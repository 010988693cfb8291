//! A tarball for a bug report: what is known about ostler itself, with everything left out that is
//! a person's. Transcripts, prompts, titles and values of the environment are never read for it; all
//! text goes through the redaction, and the home directory is called `~`.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::time::Time;
use sys::machine::Machine;

use crate::redact::redact;

/// How much of the end of a log is taken.
const LOG_TAIL_BYTES: u64 = 64 << 10;
/// How many files are listed.
const MOST_LISTED_FILES: usize = 5_000;
/// Files of these directories have names that others chose: only the directories are listed.
const UNLISTED_BELOW: [&str; 1] = ["trash"];
/// A secret of the environment that is shorter would be found in any text.
const MIN_SECRET_BYTES: usize = 6;

/// The texts of a bundle, as they will be written.
#[derive(Debug)]
pub struct ReportBundle {
    user_home: Option<PathBuf>,
    secrets: Vec<String>,
    files: Vec<(String, Vec<u8>)>,
}

impl ReportBundle {
    /// An empty one. `user_home` is written `~`; `secrets` are taken out wherever they stand.
    pub fn new(user_home: Option<PathBuf>, mut secrets: Vec<String>) -> Self {
        secrets.retain(|secret| secret.len() >= MIN_SECRET_BYTES);
        // The longest first: one may be a part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { user_home, secrets, files: Vec::new() }
    }

    /// Adds a text, redacted.
    pub fn add_text(&mut self, name: &str, text: &str) {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret, "[redacted]");
        }
        if let Some(home) = self.user_home.as_deref().and_then(Path::to_str)
            && home.len() > 1
        {
            text = text.replace(home, "~");
        }
        self.files.push((name.to_owned(), redact(&text).0.into_bytes()));
    }

    /// Adds the ends of ostler's logs.
    pub fn add_logs(&mut self, logs: &[PathBuf]) {
        for log in logs {
            let name = log.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match read_tail(log) {
                Ok(tail) => self.add_text(&format!("logs/{name}"), &tail),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.add_text(&format!("logs/{name}"), &format!("({error})\n")),
            }
        }
    }

    /// Adds a list of the files in ostler's home: names, sizes and modes.
    pub fn add_listing(&mut self, home: &Path) {
        let mut lines = Vec::new();
        list_files(home, home, &mut lines);
        self.add_text("files.txt", &lines.concat());
    }

    /// What is in it: names and bytes.
    pub fn contents(&self) -> impl Iterator<Item = (&str, usize)> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.len()))
    }

    /// Writes it, compressed, where nothing is yet.
    pub fn write_to(&self, path: &Path, at: Time) -> io::Result<()> {
        let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        let mut packed = zstd::Encoder::new(file, 3)?;
        for (name, bytes) in &self.files {
            packed.write_all(&tar_header(name, bytes.len(), at)?)?;
            packed.write_all(bytes)?;
            packed.write_all(&[0; 512][..(512 - bytes.len() % 512) % 512])?;
        }
        packed.write_all(&[0; 1024])?;
        packed.finish()?.sync_all()
    }
}

/// The logs that ostler keeps of itself.
pub fn own_logs(machine: &Machine, log_directory: &str) -> Vec<PathBuf> {
    let home = machine.home();
    let mut logs = crate::hook::problem_logs(Some(home), machine.runtime());
    let listed = fs::read_dir(home.join(log_directory)).into_iter().flatten().flatten();
    logs.extend(listed.map(|entry| entry.path()));
    logs.sort();
    logs
}

fn read_tail(path: &Path) -> io::Result<String> {
    let mut file = sys::private::open_private(path).map_err(|error| match error {
        sys::private::PrivateError::Io { source, .. } => source,
        other => io::Error::other(other),
    })?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}

fn list_files(home: &Path, directory: &Path, lines: &mut Vec<String>) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if lines.len() >= MOST_LISTED_FILES {
            return;
        }
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        let short = path.strip_prefix(home).unwrap_or(&path);
        lines.push(format!("{:o} {:>12} {}\n", about.mode(), about.len(), short.display()));
        let is_listed = !UNLISTED_BELOW.iter().any(|name| short.parent() == Some(Path::new(name)));
        if about.is_dir() && is_listed {
            list_files(home, &path, lines);
        }
    }
}

/// A header of the tape archive format (ustar), for a regular file.
fn tar_header(name: &str, bytes: usize, at: Time) -> io::Result<[u8; 512]> {
    let mut header = [0; 512];
    let mut put = |offset: usize, text: &str| {
        header[offset..offset + text.len()].copy_from_slice(text.as_bytes());
    };
    if name.len() > 99 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a name is too long for a tarball",
        ));
    }
    put(0, name);
    put(100, "0000600\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{bytes:011o}\0"));
    put(136, &format!("{:011o}\0", at.as_millis().max(0) / 1000));
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}
