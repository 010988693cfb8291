//! `cargo xtask upgrade-test`: two releases in one home. Long-running processes are of the one release, commands
//! of the other; then the other way round. Either it works, or it says what it needs, and nothing is lost.

mod daemon;
mod fleet;
mod kept;
mod network;
mod old;
mod prompt;
mod record;
mod room;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use room::Room;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The other release: a commit, which is built, or a directory with `ostler` and `ostler-net` in it. Without
    /// it, the release whose commit is in `.ci/previous-release`.
    #[arg(long)]
    old: Option<String>,
    /// A directory with this release's `ostler` and `ostler-net`; built when left out.
    #[arg(long)]
    new: Option<PathBuf>,
    /// Instead, keep what the older release writes here, as `crates/ostler/tests/fixtures/previous-release` is kept.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Only checks whose name has this in it.
    #[arg(long)]
    only: Option<String>,
}

/// A release: its two programs lie in one directory, as they are installed.
#[derive(Debug, Clone)]
struct Release {
    /// What it is called in the report.
    name: &'static str,
    directory: PathBuf,
}

impl Release {
    fn ostler(&self) -> PathBuf {
        self.directory.join("ostler")
    }

    fn helper(&self) -> PathBuf {
        self.directory.join("ostler-net")
    }
}

/// One check: what runs is of the first release, what asks is of the second. Returns what is worth telling.
type Check = fn(&Room) -> Result<String, String>;

const CHECKS: [(&str, Check); 12] = [
    ("daemon", daemon::ask_a_running_daemon),
    ("writers", daemon::write_in_turns),
    ("terminal", terminal::use_a_running_host),
    ("prompt", prompt::prompt_through_a_running_host),
    ("attach", prompt::attach_to_a_running_host),
    ("finished terminal", terminal::read_a_finished_terminal),
    ("trash", kept::undo_what_the_other_removed),
    ("vault", kept::read_the_vault),
    ("setup", kept::take_back_what_the_other_set_up),
    ("web", network::ask_a_running_page),
    ("network helper", network::send_through_the_other_helper),
    ("fleet", fleet::share_a_fleet),
];

pub(crate) fn run(options: &Options) -> ExitCode {
    match test_upgrades(options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("error: {failed} checks failed");
            ExitCode::FAILURE
        }
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn test_upgrades(options: &Options) -> Result<usize, String> {
    let which = match &options.old {
        Some(which) => which.clone(),
        None => old::read_previous_release()?,
    };
    let old = Release { name: "old", directory: old::find_or_build(&which)? };
    if let Some(directory) = &options.record {
        return record::record_fixture(&Room::new(&old, &old)?, directory).map(|()| 0);
    }
    let directory = match &options.new {
        Some(directory) => std::path::absolute(directory).map_err(|error| error.to_string())?,
        None => old::build_this_release()?,
    };
    let new = Release { name: "new", directory };
    let mut failed = 0;
    for (running, asking) in [(&old, &new), (&new, &old)] {
        for (name, check) in CHECKS {
            if options.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
                continue;
            }
            let begun = Instant::now();
            let checked = Room::new(running, asking).and_then(|room| check(&room));
            let line = format!("{} runs, {} asks: {name}", running.name, asking.name);
            let took = begun.elapsed().as_secs_f64();
            match checked {
                Ok(said) => println!("{line}: {said} ({took:.1} s)"),
                Err(reason) => {
                    failed += 1;
                    println!("{line}: FAILED: {reason}");
                }
            }
        }
    }
    Ok(failed)
}
