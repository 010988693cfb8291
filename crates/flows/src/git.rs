//! Running git: as its user would, or with everything of the repository's switched off.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs git as the user would, without their terminal: hooks and filters of theirs run.
pub(crate) fn run_git(directory: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.arg("--no-pager").args(arguments).current_dir(directory);
    finish(&mut command)
}

/// Asks git, with the commands that the repository's settings name switched off.
pub(crate) fn ask_guarded(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let filters = filter_commands(root)?;
    ask_git(root, arguments, &filters)
}

/// The settings that name commands which git would run to compare a file (`filter.<driver>.clean` and
/// the like), wherever they are set. Without them a filtered file counts as changed, and stays.
fn filter_commands(root: &Path) -> Result<Vec<String>, String> {
    let names = ask_git(root, &["config", "--list", "--name-only", "-z", "--includes"], &[])?;
    let runs = |name: &&str| {
        let is_command = [".clean", ".smudge", ".process"].iter().any(|end| name.ends_with(end));
        name.starts_with("filter.") && is_command
    };
    Ok(names.split('\0').filter(runs).map(str::to_owned).collect())
}

/// Runs git without anything of the repository's: no hooks, no monitor, no pager, no prompts, no
/// fetching of what is missing, and an empty command for each of `emptied`.
fn ask_git(root: &Path, arguments: &[&str], emptied: &[String]) -> Result<String, String> {
    let mut command = Command::new("git");
    command
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c"])
        .args(["core.untrackedCache=false", "--no-optional-locks", "--no-pager"])
        .args(arguments)
        .current_dir(root)
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_CONFIG_COUNT", emptied.len().to_string())
        .env_remove("GIT_CONFIG_PARAMETERS");
    for (index, name) in emptied.iter().enumerate() {
        command.env(format!("GIT_CONFIG_KEY_{index}"), name);
        command.env(format!("GIT_CONFIG_VALUE_{index}"), "");
    }
    finish(&mut command)
}

/// Runs it in the directory that it was given, even if the environment (a git hook's, say) names another repository.
fn finish(command: &mut Command) -> Result<String, String> {
    command
        .env("GIT_TERMINAL_PROMPT", "0")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .env_remove("GIT_COMMON_DIR")
        .stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("git cannot be run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("git said: {said}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
