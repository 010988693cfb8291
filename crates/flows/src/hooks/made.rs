//! Provenance of directories: those that an installation made are noted in ostler's home, so that
//! uninstalling removes these and no other, however empty.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sys::dropped::NoteDropped;

/// The list in ostler's home, as JSON.
const LIST: &str = "hook-directories";

/// The directories above settings files.
#[derive(Debug)]
pub(super) struct SettingsDirectories<'a> {
    /// ostler's home; without one nothing is noted, and nothing removed.
    pub(super) home: Option<&'a Path>,
    /// What lies outside of this is never removed.
    pub(super) boundary: Option<PathBuf>,
    /// These are never removed.
    pub(super) kept: &'a [PathBuf],
}

impl SettingsDirectories<'_> {
    /// Makes the directory of a file and its missing parents.
    pub(super) fn make_parent(&self, file: &Path) -> io::Result<()> {
        let Some(parent) = file.parent() else { return Ok(()) };
        let missing = parent.ancestors().take_while(|one| fs::symlink_metadata(one).is_err());
        let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        if missing.is_empty() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        // After making them: a directory that is not noted stays.
        let mut noted = self.read_list();
        noted.extend(missing.into_iter().filter(|one| !noted.contains(one)).collect::<Vec<_>>());
        self.write_list(&noted)
    }

    /// Removes the directories above a file that an installation made and that are empty again.
    #[expect(clippy::disallowed_methods, reason = "it removes nothing but empty directories")]
    pub(super) fn remove_made(&self, file: &Path) -> io::Result<()> {
        let Some(boundary) = &self.boundary else { return Ok(()) };
        let mut noted = self.read_list();
        let before = noted.len();
        for directory in file.ancestors().skip(1) {
            let below = directory.starts_with(boundary) && directory != boundary;
            let is_kept = self.kept.iter().any(|kept| kept == directory);
            let ours = below && !is_kept && noted.iter().any(|one| one == directory);
            // It fails for one that is not empty, and that is the end of it.
            if !ours || fs::remove_dir(directory).is_err() {
                break;
            }
            noted.retain(|one| one != directory);
        }
        if noted.len() < before { self.write_list(&noted) } else { Ok(()) }
    }

    fn list_path(&self) -> Option<PathBuf> {
        Some(self.home?.join(LIST))
    }

    /// A list that cannot be read names nothing: then every directory stays.
    fn read_list(&self) -> Vec<PathBuf> {
        let bytes = self.list_path().and_then(|path| {
            sys::private::read_regular(&path).ok_or_note("the list of made directories")
        });
        serde_json::from_slice(&bytes.unwrap_or_default()).unwrap_or_default()
    }

    fn write_list(&self, noted: &[PathBuf]) -> io::Result<()> {
        let (Some(home), Some(path)) = (self.home, self.list_path()) else { return Ok(()) };
        sys::private::create_private_dir(home).map_err(io::Error::other)?;
        // A path that is no text is not noted, and stays.
        let texts: Vec<&str> = noted.iter().filter_map(|one| one.to_str()).collect();
        sys::atomic::write_synced(&path, serde_json::to_string(&texts)?.as_bytes())
    }
}
