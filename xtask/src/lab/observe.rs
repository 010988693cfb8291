//! The raw view: what an agent has on disk and which processes it runs at one moment, written
//! down for the authors of adapters. Asked for with `--snapshots`.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use super::process;

/// Directories that hold programs and downloads, not sessions.
const SKIPPED: [&str; 5] = ["node_modules", ".npm", ".cache", ".git", "extensions-cache"];
const MAX_FILE: u64 = 20 * 1024 * 1024;

/// Writes `<into>/<agent>-<moment>/` (a copy of the home) and `<into>/<agent>-<moment>.txt` (the
/// processes, what they hold open and locked, and the files).
pub(crate) fn snapshot(home: &Path, into: &Path, agent: &str, moment: &str) -> io::Result<()> {
    let name = if moment.is_empty() { agent.to_owned() } else { format!("{agent}-{moment}") };
    let copy = into.join(&name);
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    let mut text = processes(home);
    text.push_str("\n== files\n");
    copy_tree(home, &copy, home, &mut text)?;
    fs::write(into.join(format!("{name}.txt")), text)
}

fn processes(home: &Path) -> String {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut text = String::from("== processes\n");
    for process in process::of_home(home) {
        let _ = writeln!(
            text,
            "pid {} ppid {} pgrp {} sid {} state {} start {} comm {:?}\n  exe {}\n  cwd {}\n  argv {:?}",
            process.pid,
            process.parent,
            process.group,
            process.session,
            process.state,
            process.start,
            process.comm,
            process.link("exe").display(),
            process.link("cwd").display(),
            process.arguments(),
        );
        for fd in fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten().flatten()
        {
            let target = fs::read_link(fd.path()).unwrap_or_default();
            if target.starts_with(home) {
                let fd = fd.file_name();
                let _ = writeln!(text, "  fd {} {}", fd.to_string_lossy(), target.display());
            }
        }
        for line in locks.lines() {
            if line.split_whitespace().nth(4) == Some(&process.pid.to_string()) {
                let _ = writeln!(text, "  /proc/locks {line}");
            }
        }
    }
    text
}

fn copy_tree(from: &Path, to: &Path, home: &Path, text: &mut String) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let mut entries: Vec<_> = fs::read_dir(from)?.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let shown = path.strip_prefix(home).unwrap_or(&path).display().to_string();
        // A file may vanish between the listing and here: then it is simply not there.
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        if meta.is_dir() {
            if SKIPPED.iter().any(|skipped| name == *skipped) {
                let _ = writeln!(text, "{shown}/ (not copied)");
            } else {
                copy_tree(&path, &to.join(name), home, text)?;
            }
        } else if meta.is_file() {
            use std::os::unix::fs::MetadataExt;
            let _ = writeln!(
                text,
                "{shown} {} bytes, mode {:o}, inode {}",
                meta.len(),
                meta.mode() & 0o7777,
                meta.ino()
            );
            if meta.len() <= MAX_FILE {
                let _ = fs::copy(&path, to.join(name));
            }
        } else if meta.is_symlink() {
            let target = fs::read_link(&path).unwrap_or_default();
            let _ = writeln!(text, "{shown} -> {}", target.display());
        } else {
            let _ = writeln!(text, "{shown} (special file)");
        }
    }
    Ok(())
}
