//! A tarball for a bug report: what is known about ostler itself, with everything left out that is
//! a person's. Transcripts, prompts, titles and values of the environment are never read for it; all
//! text goes through the redaction, and the home directory is called `~`.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::hex::to_hex;
use model::time::Time;
use sha2::{Digest, Sha256};
use sys::machine::Machine;

use crate::redact::redact;

/// How much of the end of a log is taken.
const LOG_TAIL_BYTES: u64 = 64 << 10;
/// How many files are listed.
const MOST_LISTED_FILES: usize = 5_000;
/// What is in these directories has names that others chose: only the directories themselves are listed.
const UNLISTED_IN: [&str; 1] = ["worktrees"];
/// The same, one step further down: of each receipt only its directory.
const UNLISTED_BELOW: [&str; 1] = ["trash"];
/// How long a name in a tarball (ustar) may be.
const MAX_TAR_NAME_BYTES: usize = 99;
/// A secret of the environment that is shorter would be found in any text.
const MIN_SECRET_BYTES: usize = 6;

/// The texts of a bundle, as they will be written.
#[derive(Debug)]
pub struct ReportBundle {
    /// What is taken out, and what is written for it, in this order.
    replacements: Vec<(String, &'static str)>,
    files: Vec<(String, Vec<u8>)>,
}

impl ReportBundle {
    /// An empty one. `user_home` is written `~`; `secrets` are taken out wherever they stand.
    pub fn new(user_home: Option<&Path>, mut secrets: Vec<String>) -> Self {
        secrets.retain(|secret| secret.len() >= MIN_SECRET_BYTES);
        let mut secrets: Vec<String> =
            secrets.iter().flat_map(|secret| written_forms(secret)).collect();
        // The longest first: one may be a part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let home = user_home.and_then(Path::to_str).filter(|home| home.len() > 1);
        let home = home.into_iter().flat_map(written_forms).map(|form| (form, "~"));
        let secrets = secrets.into_iter().map(|form| (form, "[redacted]"));
        Self { replacements: secrets.chain(home).collect(), files: Vec::new() }
    }

    /// Adds a text, redacted.
    pub fn add_text(&mut self, name: &str, text: &str) {
        let name = shorten_tar_name(&self.redact_text(name));
        let text = self.redact_text(text);
        self.files.push((name, text.into_bytes()));
    }

    fn redact_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (form, instead) in &self.replacements {
            text = text.replace(form, instead);
        }
        redact(&text).0
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
        if !list_files(home, home, &mut lines) {
            lines.push(format!("(there are more: only {MOST_LISTED_FILES} are listed)\n"));
        }
        self.add_text("files.txt", &lines.concat());
    }

    /// What is in it: names and bytes.
    pub fn contents(&self) -> impl Iterator<Item = (&str, usize)> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.len()))
    }

    /// Writes it, compressed, where nothing is yet. What cannot be written as a whole is not there afterwards.
    pub fn write_to(&self, path: &Path, at: Time) -> io::Result<()> {
        let packed = self.pack(at)?;
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        let written = file.write_all(&packed).and_then(|()| file.sync_all());
        if written.is_err() {
            #[expect(clippy::disallowed_methods, reason = "a file that this process was writing")]
            sys::atomic::remove_own(path);
        }
        written
    }

    fn pack(&self, at: Time) -> io::Result<Vec<u8>> {
        let mut packed = zstd::Encoder::new(Vec::new(), 3)?;
        for (name, bytes) in &self.files {
            packed.write_all(&tar_header(name, bytes.len(), at))?;
            packed.write_all(bytes)?;
            packed.write_all(&[0; 512][..(512 - bytes.len() % 512) % 512])?;
        }
        packed.write_all(&[0; 1024])?;
        packed.finish()
    }
}

/// A text as it stands in a file: as it is, within a string of JSON, and as Rust quotes it.
fn written_forms(text: &str) -> Vec<String> {
    let in_json = serde_json::Value::from(text).to_string();
    let quoted = [in_json, format!("{text:?}")];
    let unquoted = quoted.iter().map(|quoted| quoted[1..quoted.len() - 1].to_owned());
    let mut forms: Vec<String> = std::iter::once(text.to_owned()).chain(unquoted).collect();
    // The plain one may be within another.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.dedup();
    forms
}

/// A name that a tarball can hold; one that is too long is cut, and told from others by its hash.
fn shorten_tar_name(name: &str) -> String {
    if name.len() <= MAX_TAR_NAME_BYTES {
        return name.to_owned();
    }
    let hash = &to_hex(&Sha256::digest(name))[..16];
    let kept = name.floor_char_boundary(MAX_TAR_NAME_BYTES - hash.len() - 1);
    format!("{}~{hash}", &name[..kept])
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

/// Says whether that is all of it.
fn list_files(home: &Path, directory: &Path, lines: &mut Vec<String>) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if lines.len() >= MOST_LISTED_FILES {
            return false;
        }
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        let short = path.strip_prefix(home).unwrap_or(&path);
        lines.push(format!("{:o} {:>12} {}\n", about.mode(), about.len(), short.display()));
        let is_unlisted = UNLISTED_IN.iter().any(|name| short == Path::new(name))
            || UNLISTED_BELOW.iter().any(|name| short.parent() == Some(Path::new(name)));
        if about.is_dir() && !is_unlisted && !list_files(home, &path, lines) {
            return false;
        }
    }
    true
}

/// A header of the tape archive format (ustar), for a regular file. The name is one that fits.
fn tar_header(name: &str, bytes: usize, at: Time) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put = |offset: usize, text: &str| {
        header[offset..offset + text.len()].copy_from_slice(text.as_bytes());
    };
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
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_in_every_form_that_it_is_written_in() {
        let secret = "a\"b\\c canary\u{1}";
        let home = "/home/o\"neil";
        let mut bundle = ReportBundle::new(Some(Path::new(home)), vec![secret.to_owned()]);
        let json = serde_json::to_string_pretty(&serde_json::json!({"a": secret, "b": home}));
        bundle.add_text("plain", &format!("{secret} {home}/x"));
        bundle.add_text("json", &json.unwrap());
        bundle.add_text("log", &format!("token={secret:?} path={home:?}"));
        for (name, bytes) in &bundle.files {
            let text = String::from_utf8_lossy(bytes);
            assert!(!text.contains("canary") && !text.contains("neil"), "{name}: {text}");
            assert!(text.contains('~'), "{name}: {text}");
        }
    }

    #[test]
    fn a_long_name_is_cut_and_still_its_own() {
        let mut bundle = ReportBundle::new(None, Vec::new());
        for end in ["one.log", "two.log"] {
            bundle.add_text(&format!("logs/{}{end}", "é".repeat(60)), end);
        }
        let names: Vec<&str> = bundle.contents().map(|(name, _)| name).collect();
        assert!(names[0] != names[1] && names.iter().all(|name| name.len() <= MAX_TAR_NAME_BYTES));
        assert!(bundle.pack(Time::from_millis(0)).is_ok());
    }

    #[test]
    fn a_listing_that_is_cut_says_so_and_worktrees_are_one_line() {
        let home = tempfile::tempdir().unwrap();
        let listing = || {
            let mut bundle = ReportBundle::new(None, Vec::new());
            bundle.add_listing(home.path());
            String::from_utf8(bundle.files.remove(0).1).unwrap()
        };
        fs::create_dir_all(home.path().join("worktrees/secret-project/branch")).unwrap();
        let text = listing();
        assert!(text.ends_with(" worktrees\n") && !text.contains("secret-project"), "{text}");
        for at in 0..MOST_LISTED_FILES {
            File::create(home.path().join(format!("{at}"))).unwrap();
        }
        let text = listing();
        assert_eq!(text.lines().count(), MOST_LISTED_FILES + 1);
        assert!(text.ends_with("(there are more: only 5000 are listed)\n"));
    }
}
