//! The vault, a content-addressed store: compressed copies of sessions that are over, each under its SHA-256.
//!
//! A copy is written under another name, synced and renamed; one that is there already is the same
//! by its name. Nothing here knows what a session is.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Component, Path, PathBuf};

use model::hex::to_hex;
use model::summary::{KeptFile, KeptForm};
use sha2::{Digest, Sha256};
use sys::machine::Machine;

/// How hard copies are compressed: fast, and about ten times smaller for transcripts.
const COMPRESSION_LEVEL: i32 = 3;

/// Why a copy cannot be given back.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The system said no.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The copy is of no file, or its manifest names no place that a file could be written to.
    #[error("{path}: not the place of a file, so nothing is written there")]
    NoPlace {
        /// What the manifest says.
        path: String,
    },
    /// The copy is not what it was.
    #[error("{}: its content is not what was kept (damaged)", path.display())]
    Damaged { path: PathBuf },
}

/// Where a copy is.
pub(crate) fn copy_path(home: &Path, sha256: &str) -> PathBuf {
    let shelf = sha256.get(..2).unwrap_or("00");
    home.join("vault").join(shelf).join(format!("{sha256}.zst"))
}

/// Keeps a copy of everything that `from` gives. `path` says where it came from.
pub fn keep_copy(
    machine: &Machine,
    path: &str,
    form: KeptForm,
    mut from: impl Read,
) -> Result<KeptFile, VaultError> {
    let home = machine.home();
    let vault = home.join("vault");
    let failed = |source| VaultError::Io { path: vault.clone(), source };
    sys::private::create_private_dir(&vault).map_err(|error| failed(io::Error::other(error)))?;
    let unique = sys::clock::unique_suffix(machine.read_clock());
    let temporary = vault.join(format!(".{unique}.tmp"));
    let kept = write_copy(&temporary, &mut from).and_then(|(sha256, bytes)| {
        let place = copy_path(home, &sha256);
        let kept_bytes = temporary.metadata()?.len();
        if let Some(shelf) = place.parent() {
            sys::private::create_private_dir(shelf).map_err(io::Error::other)?;
        }
        sys::pause::pause_at("vault.written");
        #[expect(
            clippy::disallowed_methods,
            reason = "a copy of this process gets the name of its content"
        )]
        sys::atomic::rename_over(&temporary, &place)?;
        Ok(KeptFile { path: path.to_owned(), sha256, bytes, kept_bytes, form: Some(form) })
    });
    if kept.is_err() {
        #[expect(clippy::disallowed_methods, reason = "a copy that this process was writing")]
        sys::atomic::remove_own(&temporary);
    }
    kept.map_err(failed)
}

fn write_copy(temporary: &Path, from: &mut impl Read) -> io::Result<(String, u64)> {
    use std::os::unix::fs::OpenOptionsExt;

    let file = File::options().write(true).create_new(true).mode(0o600).open(temporary)?;
    let mut encoder = zstd::Encoder::new(BufWriter::new(file), COMPRESSION_LEVEL)?;
    encoder.include_checksum(true)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut chunk = vec![0; 64 << 10];
    loop {
        let count = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&chunk[..count]);
        encoder.write_all(&chunk[..count])?;
        bytes += count as u64;
    }
    let file = encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok((to_hex(&hash.finalize()), bytes))
}

/// Opens a copy to read what was kept, unpacked on the way. What it gives is not checked: only
/// [`fetch_copy`] knows the end.
pub(crate) fn open_copy(home: &Path, kept: &KeptFile) -> Result<impl Read + use<>, VaultError> {
    let place = copy_path(home, &kept.sha256);
    let failed = |source| VaultError::Io { path: place.clone(), source };
    let file =
        sys::private::open_private(&place).map_err(|error| failed(io::Error::other(error)))?;
    zstd::Decoder::new(file).map_err(failed)
}

/// Gives a copy back, checked to the end.
pub fn fetch_copy(home: &Path, kept: &KeptFile, out: &mut dyn Write) -> Result<(), VaultError> {
    let place = copy_path(home, &kept.sha256);
    let failed = |source| VaultError::Io { path: place.clone(), source };
    let damaged = || VaultError::Damaged { path: place.clone() };
    let file =
        sys::private::open_private(&place).map_err(|error| failed(io::Error::other(error)))?;
    let mut decoder = zstd::Decoder::new(file).map_err(failed)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut chunk = vec![0; 64 << 10];
    loop {
        // Bytes that cannot be decompressed are damage, under any error code of the library.
        let count = decoder.read(&mut chunk).map_err(|_| damaged())?;
        if count == 0 {
            break;
        }
        hash.update(&chunk[..count]);
        bytes += count as u64;
        out.write_all(&chunk[..count]).map_err(failed)?;
    }
    if bytes != kept.bytes || to_hex(&hash.finalize()) != kept.sha256 {
        return Err(damaged());
    }
    Ok(())
}

/// Where a copy is written back to: below `to`, else to its own place. The manifest's path holds
/// text that others chose, so it is believed only for a file and only if it is absolute and plain.
pub fn place_to_restore(kept: &KeptFile, to: Option<&Path>) -> Result<PathBuf, VaultError> {
    let original = Path::new(&kept.path);
    let name = original.file_name().filter(|_| kept.is_of_file());
    if let Some(directory) = to {
        let hash = kept.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(&kept.sha256);
        let name = name.or(hash.map(std::ffi::OsStr::new));
        return match name {
            Some(name) => Ok(directory.join(name)),
            None => Err(VaultError::NoPlace { path: kept.path.clone() }),
        };
    }
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if name.is_none() || !original.is_absolute() || !original.components().all(is_plain) {
        return Err(VaultError::NoPlace { path: kept.path.clone() });
    }
    Ok(original.to_owned())
}

/// Writes a copy to `path`, where nothing may be yet.
pub fn restore_copy(home: &Path, kept: &KeptFile, path: &Path) -> Result<(), VaultError> {
    use std::os::unix::fs::OpenOptionsExt;

    let failed = |source| VaultError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    fetch_copy(home, kept, &mut bytes)?;
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(failed)?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back_and_the_same_is_kept_once() {
        let home = tempfile::tempdir().unwrap();
        let machine = Machine::with_home(home.path().to_owned());
        let text = b"a line of a transcript\n".repeat(10_000);
        let first = keep_copy(&machine, "/a", KeptForm::File, &text[..]).unwrap();
        let second = keep_copy(&machine, "/a", KeptForm::File, &text[..]).unwrap();
        assert_eq!(first, second);
        assert!(first.kept_bytes * 10 < first.bytes);
        let mut back = Vec::new();
        fetch_copy(home.path(), &first, &mut back).unwrap();
        assert_eq!(back, text);
    }

    #[test]
    fn h7_a_copy_goes_back_to_the_place_of_a_file_and_nowhere_else() {
        let kept = |path: &str, form| KeptFile {
            path: path.to_owned(),
            sha256: "ab".repeat(32),
            bytes: 0,
            kept_bytes: 0,
            form,
        };
        let hash = Path::new("/to").join("ab".repeat(32));
        let to = Some(Path::new("/to"));
        let file = Some(KeptForm::File);
        for (path, form, own, below) in [
            ("/h/a.jsonl", file, true, Path::new("/to/a.jsonl")),
            ("/h/a#b.jsonl", file, true, Path::new("/to/a#b.jsonl")),
            ("/h/o.db#x/../../.ssh/rc", None, false, &hash),
            ("/h/o.db#ses_1", Some(KeptForm::Conversation), false, &hash),
            ("/h/o.db", Some(KeptForm::Conversation), false, &hash),
            ("/h/x/..", file, false, &hash),
            ("/h/../x", file, false, Path::new("/to/x")),
            ("h/x", None, false, Path::new("/to/x")),
            ("", None, false, &hash),
            ("/", None, false, &hash),
        ] {
            let kept = kept(path, form);
            assert_eq!(place_to_restore(&kept, to).unwrap(), below, "{path}");
            assert_eq!(place_to_restore(&kept, None).is_ok(), own, "{path}");
        }
        let mut forged = kept("/h/..", file);
        forged.sha256 = "../../x".to_owned();
        assert!(place_to_restore(&forged, to).is_err());
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let home = tempfile::tempdir().unwrap();
        let machine = Machine::with_home(home.path().to_owned());
        let kept =
            keep_copy(&machine, "/a", KeptForm::File, &b"some words that matter".repeat(9)[..])
                .unwrap();
        let place = copy_path(home.path(), &kept.sha256);
        let sound = std::fs::read(&place).unwrap();
        for index in 0..sound.len() {
            let mut bad = sound.clone();
            bad[index] ^= 0x10;
            std::fs::write(&place, bad).unwrap();
            let back = fetch_copy(home.path(), &kept, &mut Vec::new());
            assert!(back.is_err() || index < 6, "byte {index}");
        }
        std::fs::write(&place, &sound[..sound.len() / 2]).unwrap();
        assert!(matches!(
            fetch_copy(home.path(), &kept, &mut Vec::new()),
            Err(VaultError::Damaged { .. })
        ));
    }
}
