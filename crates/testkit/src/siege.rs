//! Crash testing of the reaper beside other writers: ostler is killed at random moments while others create,
//! append and save files in what it moves. Every byte whose write was acknowledged must be found where a
//! person finds it: in its place, in the trash, or under a name that `trash ls` tells.
#![expect(clippy::unwrap_used, reason = "a siege that cannot be laid is a broken test")]

mod again;
mod moment;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use self::moment::{Moments, Outcome};
use crate::home::TempHome;
use crate::run::{bare, ran};

/// How long a command may take at most.
const LONGEST_RUN: Duration = Duration::from_secs(60);

/// How many files a worktree has.
const FILES: usize = 48;

/// How often everything is looked for.
const KILLS_BETWEEN_LOOKS: usize = 25;

/// What is asked of one siege.
#[derive(Clone, Debug)]
pub struct Siege {
    pub ostler: PathBuf,
    /// How often it is killed.
    pub kills: usize,
    /// What the moments follow from.
    pub seed: u64,
    /// Where ostler's home is to be: another device than temporary directories, or none for the same.
    pub elsewhere: Option<PathBuf>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How often a run was killed while it was at work.
    pub kills: usize,
    /// How many of those had begun to write to their journal.
    pub at_work: usize,
    /// Things that were made anew at a path right after a kill had left nothing there.
    pub made_again: usize,
    /// Runs that came to their end before they could be killed.
    pub finished: usize,
    /// Kills by command.
    pub by_command: BTreeMap<String, usize>,
    /// Writes that others were told had succeeded.
    pub writes: usize,
    /// Writes that failed, because what was to be written to had gone.
    pub failed_writes: usize,
    /// Those that are found nowhere.
    pub lost: Vec<String>,
    /// Where those are that a person has to decide about.
    pub undecided: usize,
    /// Transcripts that a cleanup of OpenClaw's store has archived.
    pub archived: usize,
    /// How many sessions the vault has a copy of.
    pub kept_copies: usize,
    /// What `trash verify` or a look at the directories found wrong.
    pub problems: Vec<String>,
    /// Where everything is left for a look, if something is wrong.
    pub evidence: Vec<PathBuf>,
}

/// A generator of numbers that look random and can be had again.
#[derive(Debug)]
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// What others wrote, and were told is written.
#[derive(Debug, Default)]
struct Written {
    /// By what was written, where.
    tokens: BTreeMap<String, PathBuf>,
    failed: usize,
}

/// The stage: a home with a repository, worktrees, transcripts and left-over files.
struct Ground {
    home: TempHome,
    state: PathBuf,
    ostler: PathBuf,
    elsewhere: Option<tempfile::TempDir>,
    serial: usize,
    moments: Moments,
}

/// Lays a siege.
///
/// # Panics
/// If the stage cannot be set.
pub fn lay(siege: &Siege) -> Seen {
    let mut numbers = Numbers(siege.seed.max(1));
    let mut ground = Ground::new(siege);
    let mut seen = Seen::default();
    let written = Arc::new(Mutex::new(Written::default()));
    while seen.kills < siege.kills {
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..3)
            .map(|_| {
                let (root, seed) = (ground.home.path().to_owned(), numbers.next());
                let (stop, written) = (Arc::clone(&stop), Arc::clone(&written));
                std::thread::spawn(move || write_on(&root, seed, &stop, &written))
            })
            .collect();
        let index_writer = {
            let (root, seed) = (ground.home.path().to_owned(), numbers.next());
            let (stop, written) = (Arc::clone(&stop), Arc::clone(&written));
            std::thread::spawn(move || store::write_index(&root, seed, &stop, &written))
        };
        let until = (seen.kills + KILLS_BETWEEN_LOOKS).min(siege.kills);
        while seen.kills < until {
            ground.populate();
            ground.run_and_kill(&mut numbers, &mut seen, &written);
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().chain([index_writer]).for_each(|writer| writer.join().unwrap());
        ground.look(&written.lock().unwrap(), &mut seen);
        if !seen.lost.is_empty() || !seen.problems.is_empty() {
            break;
        }
    }
    let written = written.lock().unwrap();
    seen.writes = written.tokens.len();
    seen.failed_writes = written.failed;
    if !seen.lost.is_empty() || !seen.problems.is_empty() {
        seen.evidence = ground.leave_behind();
    }
    seen
}

impl Ground {
    fn new(siege: &Siege) -> Self {
        let home = TempHome::new();
        let elsewhere = siege.elsewhere.as_ref().map(|on| tempfile::tempdir_in(on).unwrap());
        let state = match &elsewhere {
            Some(directory) => directory.path().join("state"),
            None => home.join(".local/state/ostler"),
        };
        let script = format!(
            "set -e; exec >/dev/null 2>&1
            git init -q --bare -b main remote.git
            git clone -q remote.git repo && cd repo && git checkout -q -b main
            printf 'build/\\n*.log\\n' > .gitignore
            for n in $(seq {FILES}); do mkdir -p d$((n % 6)); echo file $n > d$((n % 6))/f$n; done
            git add . && git commit -qm one && git push -q origin main
            git remote set-head origin main"
        );
        git(home.path(), &script);
        home.write(".openclaw/agents/main/sessions/sessions.json", "{}");
        store::set_up(&home);
        let ostler = siege.ostler.clone();
        Self { home, state, ostler, elsewhere, serial: 0, moments: Moments::default() }
    }

    /// Leaves everything where it is.
    fn leave_behind(self) -> Vec<PathBuf> {
        let elsewhere = self.elsewhere.map(tempfile::TempDir::keep);
        std::iter::once(self.home.keep()).chain(elsewhere).collect()
    }

    fn ostler(&self, line: &str) -> Command {
        let mut command = bare(&self.ostler, &self.home);
        command.env("OSTLER_HOME", &self.state).args(line.split(' '));
        command
    }

    /// Sees to it that there is something to collect of every kind.
    fn populate(&mut self) {
        self.serial += 1;
        let number = self.serial;
        let name = format!("sessions.json.{number}.7b0c5b0e-0000-4000-8000-{number:012}.tmp");
        let left = self
            .home
            .write(format!(".openclaw/agents/main/sessions/{name}"), format!("left over {number}"));
        make_old(&left);
        let trees = worktrees(self.home.path());
        let whole = trees.iter().filter(|tree| tree.join(".git").is_file()).count();
        if whole < 2 {
            let tree = self.home.join(format!("tree-{number}"));
            let branch = format!("git -C repo worktree add -q -b t{number} ../tree-{number}");
            git(self.home.path(), &format!("exec >/dev/null 2>&1; {branch}"));
            fs::create_dir_all(tree.join("build")).unwrap();
            make_old_below(&tree);
            self.transcript(&tree, number);
        }
        self.transcript(Path::new("/somewhere"), number + 1_000_000);
        self.conversation(number + 2_000_000);
    }

    /// A session whose agent told of it by hooks and is gone: `finalize` keeps a copy of it in the vault.
    fn conversation(&self, number: usize) {
        let directory = self.home.join("project");
        fs::create_dir_all(&directory).unwrap();
        let id = self.transcript(&directory, number);
        let transcript = self.home.join(format!(".claude/projects/p/{id}.jsonl"));
        for (event, more) in [("SessionStart", "source"), ("UserPromptSubmit", "prompt")] {
            let told = serde_json::json!({ "session_id": id, "cwd": directory, more: "hello",
                "transcript_path": transcript });
            let mut hook = Command::new("bash");
            let line = r#"export CLAUDE_PID=$$; printf %s "$1" | "$2" hook claude-code "$3"; true"#;
            hook.args(["-c", line, "agent", &told.to_string()]).arg(&self.ostler).arg(event);
            let like_us = self.ostler("ls");
            hook.env_clear().current_dir(&directory);
            for (name, value) in like_us.get_envs() {
                hook.env(name, value.unwrap_or_default());
            }
            assert!(hook.status().unwrap().success());
        }
    }

    /// A Claude Code session that has ended long ago.
    fn transcript(&self, cwd: &Path, number: usize) -> String {
        let id = format!("33333333-3333-4333-8333-{number:012}");
        let line = serde_json::json!({
            "type": "user", "sessionId": id, "cwd": cwd, "version": "2.1.325",
            "timestamp": "2026-01-15T10:00:00.000Z",
            "message": { "role": "user", "content": "hello" },
        });
        // It appears whole, or a writer who finds it half written would be written over.
        let whole = self.home.write(format!("being-written/{id}"), format!("{line}\n"));
        make_old(&whole);
        let directory = self.home.join(".claude/projects/p");
        fs::create_dir_all(&directory).unwrap();
        fs::rename(&whole, directory.join(format!("{id}.jsonl"))).unwrap();
        id
    }

    /// Runs something and kills it in the middle.
    fn run_and_kill(&mut self, numbers: &mut Numbers, seen: &mut Seen, written: &Mutex<Written>) {
        const COMMANDS: [&str; 15] = [
            "gc --include worktrees --older-than 1d --yes --json",
            "gc --include worktrees --older-than 1d --yes --json",
            "gc --include worktrees --older-than 1d --yes --json",
            "gc --include temps --agent openclaw --yes --json",
            "gc --include transcripts --older-than 1d --agent claude-code --yes --json",
            "undo --json",
            "undo --json",
            "undo --beside --json",
            "undo --beside --json",
            "trash empty --older-than 3650d --yes --json",
            "store cleanup --agent ops --yes --json",
            "store cleanup --agent ops --yes --json",
            "store cleanup --agent ops --yes --json",
            "finalize --json",
            "finalize --json",
        ];
        let line = COMMANDS[numbers.below(COMMANDS.len())];
        let mut command = self.ostler(line);
        let trash = self.state.join("trash");
        let before = moment::journal_bytes(&trash);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let outcome = self.moments.kill(line, &mut child, &trash, before, numbers).unwrap();
        let Outcome::Killed { at_work } = outcome else {
            seen.finished += 1;
            return;
        };
        // In the half of all cases somebody comes before recovery does.
        if at_work && numbers.below(2) == 0 {
            seen.made_again += again::make_what_went(&trash, numbers, written);
        }
        seen.at_work += usize::from(at_work);
        seen.kills += 1;
        let word = line.split(" --").take(2).collect::<Vec<_>>().join(" --");
        *seen.by_command.entry(word).or_default() += 1;
    }

    /// Settles what is open, and looks for everything that was written.
    fn look(&self, written: &Written, seen: &mut Seen) {
        let settled = ran(&mut self.ostler("trash empty --older-than 3650d --yes --json"));
        if settled.code != 0 {
            seen.problems.push(format!("{settled:?}"));
        }
        let verified = ran(&mut self.ostler("trash verify --json"));
        let envelope: Value = serde_json::from_str(&verified.stdout).unwrap_or_default();
        for problem in envelope["result"]["problems"].as_array().into_iter().flatten() {
            seen.problems.push(problem.to_string());
        }
        self.look_into_vault(seen);
        let undecided = envelope["result"]["undecided"].as_array().cloned().unwrap_or_default();
        seen.undecided = undecided.len();
        seen.archived = store::count_archived(self.home.path());
        let spare = again::spare_copies(&ran(&mut self.ostler("trash ls --json")).stdout);
        let told: Vec<PathBuf> = undecided
            .iter()
            .flat_map(|matter| matter["places"].as_array().cloned().unwrap_or_default())
            .filter_map(|place| place.as_str().map(PathBuf::from))
            .collect();
        let mut found = Vec::new();
        let mut strays = Vec::new();
        let trash = self.state.join("trash");
        // There is no trash before the first thing has gone.
        for root in [self.home.path(), &trash].into_iter().filter(|root| root.exists()) {
            gather(root, &told, &spare, &mut found, &mut strays).unwrap();
        }
        seen.problems.extend(strays.iter().map(|path| format!("not told of: {}", path.display())));
        let found = String::from_utf8_lossy(&found);
        let is_apart = |c: char| !c.is_ascii_alphanumeric() && c != '-';
        let known: BTreeSet<&str> = found.split(is_apart).collect();
        let missing = written.tokens.iter().filter(|(token, _)| !known.contains(token.as_str()));
        seen.lost.extend(missing.map(|(token, at)| format!("{token} in {}", at.display())));
    }
}

impl Ground {
    /// Every copy in the vault is whole, and every session that ended has one.
    fn look_into_vault(&self, seen: &mut Seen) {
        let ended = ran(&mut self.ostler("finalize --json"));
        if ended.code != 0 {
            seen.problems.push(format!("{ended:?}"));
        }
        let verified = ran(&mut self.ostler("vault verify --json"));
        let envelope: Value = serde_json::from_str(&verified.stdout).unwrap_or_default();
        if verified.code != 0 || envelope["ok"] != true {
            seen.problems.push(format!("{verified:?}"));
        }
        for problem in envelope["result"]["problems"].as_array().into_iter().flatten() {
            seen.problems.push(problem.to_string());
        }
        let listed = ran(&mut self.ostler("vault ls --json"));
        let envelope: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        seen.kept_copies = envelope["result"]["kept"].as_array().map_or(0, Vec::len);
    }
}

/// Reads everything that a person would find. What has a private name is found only if it is told of, and what nobody is
/// said to need any more goes with the next emptying.
fn gather(
    directory: &Path,
    told: &[PathBuf],
    spare: &[PathBuf],
    found: &mut Vec<u8>,
    strays: &mut Vec<PathBuf>,
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let private = name.starts_with(".ostler-") || name == ".partial";
        if spare.contains(&path) {
            continue;
        }
        if private && !told.iter().any(|place| path.starts_with(place)) {
            strays.push(path);
        } else if kind.is_dir() {
            gather(&path, told, spare, found, strays)?;
        } else if kind.is_file() {
            found.extend(fs::read(&path)?);
            found.push(b'\n');
        }
    }
    Ok(())
}

/// A process that works in what ostler moves, until told to stop.
fn write_on(root: &Path, seed: u64, stop: &AtomicBool, written: &Mutex<Written>) {
    let mut numbers = Numbers(seed.max(1));
    let mut serial = 0;
    while !stop.load(Ordering::Relaxed) {
        serial += 1;
        let trees = worktrees(root);
        let Some(tree) = trees.get(numbers.below(trees.len().max(1))) else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let deed = numbers.below(9);
        let token = format!("token-{seed:x}-{serial}-{deed}");
        if deed == 8 {
            let mut written = written.lock().unwrap();
            if let Some(at) = store::append_to_some(root, &mut numbers, &token) {
                written.tokens.insert(token, at);
            }
            continue;
        }
        let at = match deed {
            0 => tree.join(format!("build/{token}")),
            1 => tree.join("build/all.log"),
            // An ignored file beside tracked ones.
            2 => tree.join(format!("d{}/notes.log", numbers.below(6))),
            // Each by a name of its own: a tree may come back beside itself, and who saves over what was
            // in the other one has removed that himself.
            3 => tree.join(format!("build/saved-{token}")),
            4 => tree.join("build"),
            5 => tree.join("build/held.log"),
            6 => match some_transcript(root, &mut numbers) {
                Some(path) => path,
                None => continue,
            },
            _ => tree.join(format!("d0/{token}.log")),
        };
        let done = match deed {
            1 | 2 => append(&at, &token),
            3 => save(&at, &token),
            4 => through_handle(&at, &token),
            5 => held_open(&at, &token),
            6 => append_existing(&at, &token),
            7 if serial % 40 == 0 => {
                let above = at.parent().unwrap_or(root);
                fs::create_dir_all(above).and_then(|()| create(&at, &token))
            }
            _ => create(&at, &token),
        };
        drop(at.parent().map(make_old_if_there));
        if deed == 4 {
            drop(make_old_if_there(&at));
        }
        let mut written = written.lock().unwrap();
        match done {
            Err(_) => written.failed += 1,
            Ok(()) => drop(written.tokens.insert(token, at)),
        }
        drop(written);
        std::thread::sleep(Duration::from_micros(numbers.below(1500) as u64));
    }
}

fn worktrees(root: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(root).into_iter().flatten().flatten();
    let mut trees: Vec<PathBuf> = listed
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("tree-"))
        .map(|entry| entry.path())
        .collect();
    trees.sort();
    trees
}

/// Any transcript, but for the reaper's private names: a process that lists them and writes to a copy that is being
/// made loses that, and is the one writer that nothing is promised to (docs/decisions/0018).
fn some_transcript(root: &Path, numbers: &mut Numbers) -> Option<PathBuf> {
    let listed = fs::read_dir(root.join(".claude/projects/p")).ok()?.flatten();
    let listed: Vec<PathBuf> = listed
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with(".ostler-"))
        .map(|entry| entry.path())
        .collect();
    match listed.len() {
        0 => None,
        count => Some(listed[numbers.below(count)].clone()),
    }
}

fn create(path: &Path, token: &str) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    write_line(&mut file, token)
}

fn append(path: &Path, token: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    write_line(&mut file, token)
}

/// In one write, so that the lines of several writers stay whole. What was just written is left alone by all that
/// collects: so it looks old, and is moved while others write.
fn write_line(file: &mut File, line: &str) -> io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())?;
    file.set_modified(long_ago())
}

/// As an agent that resumes a session: without making the file anew.
fn append_existing(path: &Path, token: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    let line = serde_json::json!({ "type": "note", "note": token });
    write_line(&mut file, &format!("{line} {token}"))
}

/// As an editor saves: a new file in the place of the old one.
fn save(path: &Path, token: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    write_line(&mut File::create(&beside)?, token)?;
    fs::rename(&beside, path)
}

/// By a directory that was opened before, wherever that is by now.
fn through_handle(directory: &Path, token: &str) -> io::Result<()> {
    let handle = File::open(directory)?;
    std::thread::sleep(Duration::from_millis(3));
    create(Path::new(&format!("/proc/self/fd/{}/{token}", handle.as_raw_fd())), token)
}

/// By a file that was opened before, wherever that is by now.
fn held_open(path: &Path, token: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.set_modified(long_ago())?;
    std::thread::sleep(Duration::from_millis(3));
    write_line(&mut file, token)
}

fn long_ago() -> SystemTime {
    SystemTime::now() - Duration::from_secs(10 * 86_400)
}

fn make_old(path: &Path) {
    File::options().append(true).open(path).unwrap().set_modified(long_ago()).unwrap();
}

/// As far as it is there: others may be moving it.
fn make_old_below(tree: &Path) {
    for entry in fs::read_dir(tree).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => make_old_below(&entry.path()),
            Ok(kind) if kind.is_file() => drop(make_old_if_there(&entry.path())),
            _ => {}
        }
    }
    drop(make_old_if_there(tree));
}

fn make_old_if_there(path: &Path) -> io::Result<()> {
    File::open(path)?.set_modified(long_ago())
}

fn git(directory: &Path, script: &str) {
    let done = Command::new("sh")
        .args(["-c", script])
        .current_dir(directory)
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")])
        .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b")])
        .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@b")])
        .status()
        .unwrap();
    assert!(done.success(), "{script}");
}

/// A directory on another file system than temporary directories are on, if there is one.
pub fn other_device() -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;

    let shared = Path::new("/dev/shm");
    let here = fs::metadata(std::env::temp_dir()).ok()?.dev();
    (fs::metadata(shared).ok()?.dev() != here).then(|| shared.to_owned())
}
