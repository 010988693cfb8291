//! The completions of shells: files that ostler alone writes, renews and takes away.

use std::fs;
use std::io;
use std::path::Path;

use model::wire::{FileChange, SetupCompletion};

use super::record::RecordedFile;
use super::{SetupRequest, ShellScript, remove_made_directories};
use crate::hooks::RemoveSettings;

/// The most that is read of a completion script.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// What is to become of a script: `recorded` is what an earlier setup has written there.
pub(super) fn preview_script(
    script: &ShellScript,
    recorded: Option<&RecordedFile>,
) -> SetupCompletion {
    plan_script(script, recorded).0
}

/// The same, with the content that is to be replaced.
fn plan_script(
    script: &ShellScript,
    recorded: Option<&RecordedFile>,
) -> (SetupCompletion, Option<Vec<u8>>) {
    let mut view = SetupCompletion {
        shell: script.shell.to_owned(),
        path: script.path.to_string_lossy().into_owned(),
        change: FileChange::Unchanged,
        diff: None,
        note: script.note.clone(),
        problem: None,
    };
    let found = read_script(&script.path);
    let is_own = |text: &[u8]| recorded.is_some_and(|one| one.is_content(text));
    let has_own = matches!(&found, Ok(Some(text)) if is_own(text));
    // A script of the user's own comes before the package's: one of ours is renewed there.
    if let Some(packaged) = script.packaged.iter().find(|path| !has_own && path.exists()) {
        view.path = packaged.to_string_lossy().into_owned();
        view.note = None;
        return (view, None);
    }
    let before = match found {
        Ok(Some(text)) if text == script.text.as_bytes() => return (view, None),
        Ok(Some(_)) if !has_own => {
            view.note = Some("another file is there, and was left as it is".to_owned());
            return (view, None);
        }
        Ok(before) => before,
        Err(error) => {
            view.problem = Some(error.to_string());
            return (view, None);
        }
    };
    let old = String::from_utf8_lossy(before.as_deref().unwrap_or_default());
    let from = if before.is_some() { view.path.as_str() } else { "/dev/null" };
    let diff = similar::TextDiff::from_lines(old.as_ref(), &script.text);
    view.diff = Some(diff.unified_diff().header(from, &view.path).to_string());
    view.change = if before.is_some() { FileChange::Changed } else { FileChange::Created };
    (view, before)
}

pub(super) fn install_script(
    script: &ShellScript,
    recorded: Option<&RecordedFile>,
) -> SetupCompletion {
    let (mut view, before) = plan_script(script, recorded);
    view.diff = None;
    if view.change == FileChange::Unchanged {
        return view;
    }
    let parent = script.path.parent().unwrap_or(Path::new("/"));
    let made = fs::create_dir_all(parent).and_then(|()| {
        let wanted = script.text.as_bytes();
        sys::atomic::replace_if_unchanged(&script.path, before.as_deref(), wanted)
    });
    if let Err(error) = made {
        view.change = FileChange::Unchanged;
        view.problem = Some(error.to_string());
    }
    view
}

/// Removes a script, unless it was changed since.
pub(super) fn remove_script(
    request: &SetupRequest<'_>,
    recorded: &RecordedFile,
    dry_run: bool,
    remove: RemoveSettings<'_>,
) -> SetupCompletion {
    let mut view = SetupCompletion {
        shell: recorded.shell.clone(),
        path: recorded.path.to_string_lossy().into_owned(),
        change: FileChange::Unchanged,
        diff: None,
        note: None,
        problem: None,
    };
    let bytes = match read_script(&recorded.path) {
        Ok(None) => return view,
        Ok(Some(bytes)) => bytes,
        Err(error) => {
            view.problem = Some(error.to_string());
            return view;
        }
    };
    if !recorded.is_content(&bytes) {
        view.note = Some("it was changed since, and was left as it is".to_owned());
        return view;
    }
    view.change = FileChange::Removed;
    if !dry_run {
        match remove(&recorded.path, &bytes) {
            Ok(()) => {
                let kept = recorded.kept_directory.as_ref();
                remove_made_directories(request, &recorded.path, kept);
            }
            Err(error) => {
                view.change = FileChange::Unchanged;
                view.problem = Some(error.to_string());
            }
        }
    }
    view
}

fn read_script(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"))
        }
        Ok(metadata) if metadata.len() > MAX_SCRIPT_BYTES => {
            Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large for a script"))
        }
        Ok(_) => fs::read(path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(None),
        Err(error) => Err(error),
    }
}
