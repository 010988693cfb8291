//! A machine that has nothing left (control.md row 91): no room, no descriptors, no right to write.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::home::TempHome;

use super::launch::InstalledClaude;
use super::stage::{Name, Stage, is_alive, ran, until};

const TEXT: &str = "please mend the parser, then run all of its tests";

/// A small file system; taken away with the value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(place: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m,mode=700", "ostler-test"]).arg(place);
        let mounted = mount.stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(place.to_owned()))
    }

    /// Leaves no byte of room.
    fn fill(&self) -> PathBuf {
        let ballast = self.0.join("ballast");
        let mut file = std::fs::File::create(&ballast).unwrap();
        let mut block = 64 << 10;
        while block > 0 {
            if file.write_all(&vec![0; block]).is_err() {
                block /= 2;
            }
        }
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        until("the file system's end", || {
            let mut umount = Command::new("umount");
            umount.arg(&self.0).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
        });
    }
}

#[test]
fn row_91_without_room_a_launch_leaves_no_half_agent_and_stop_still_stops() {
    let place = TempHome::new();
    let Some(disk) = SmallDisk::mount(place.path()) else {
        eprintln!("skipped: a small file system cannot be mounted here");
        return;
    };
    let stage = Stage::at(Name::Ostler, TempHome::new(), place.join("state"));
    let claude = InstalledClaude::on(stage, &[]);
    let (code, answer) = claude.run(&["launch", "claude", "begin"]);
    assert_eq!(code, 0, "{answer}");
    let id = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
    let pid = u32::try_from(answer["result"]["process"]["pid"].as_u64().unwrap()).unwrap();
    let started = claude.noted("started").len();
    let ballast = disk.fill();
    let (code, answer) = claude.run(&["launch", "claude", TEXT]);
    assert_ne!(code, 0, "{answer}");
    assert!(answer["error"]["message"].is_string(), "it is said: {answer}");
    assert_eq!(claude.noted("started").len(), started, "nothing was started");
    let (code, answer) = claude.run(&["prompt", &id, TEXT]);
    assert_eq!((code, &answer["result"]["state"]), (12, &"accepted".into()), "{answer}");
    let (code, answer) = claude.run(&["stop", &id]);
    assert!([0, 12].contains(&code), "{code} {answer}");
    assert!(!is_alive(pid), "stop still stops");
    std::fs::remove_file(ballast).unwrap();
    let (_, listed) = claude.run(&["ls"]);
    assert_eq!(listed["result"]["sessions"].as_array().unwrap().len(), 0, "{listed}");
    drop(claude);
    drop(disk);
}

#[test]
fn row_66_with_a_full_home_a_hook_that_would_wait_returns_at_once() {
    let place = TempHome::new();
    let Some(disk) = SmallDisk::mount(place.path()) else {
        eprintln!("skipped: a small file system cannot be mounted here");
        return;
    };
    let stage = Stage::at(Name::Ostler, TempHome::new(), place.join("state"));
    let claude = InstalledClaude::on(stage, &[]);
    ran(claude.command().args(["ls", "--json"]));
    disk.fill();
    let begun = std::time::Instant::now();
    let mut hook = claude.command();
    hook.args(["hook", "claude-code", "PermissionRequest"]).env("OSTLER_PERMITS", "60s");
    let mut hook = hook.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let asked = br#"{"session_id":"5b1e0c52-8a5e-4b8e-9a55-d0a3a0c3c001","tool_name":"Bash","tool_input":{}}"#;
    hook.stdin.take().unwrap().write_all(asked).unwrap();
    let done = hook.wait_with_output().unwrap();
    assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
    assert!(begun.elapsed().as_secs() < 5, "its agent's own question waits for it");
    drop(claude);
    drop(disk);
}

/// A directory that nobody can write to, root included; sockets in it are still there. Given back with the value.
struct ReadOnly(PathBuf);

impl ReadOnly {
    fn bind(place: &Path) -> Option<Self> {
        let mount = |words: &[&str]| {
            let mut mount = Command::new("mount");
            mount.args(words).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let name = place.to_str().unwrap();
        let bound = mount(&["--bind", name, name]).then(|| Self(place.to_owned()))?;
        mount(&["-o", "remount,bind,ro", name]).then_some(bound)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        until("the end of the mount", || {
            let mut umount = Command::new("umount");
            umount.arg(&self.0).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
        });
    }
}

#[test]
fn row_91_where_nothing_can_be_written_that_is_said_and_stop_still_stops() {
    let claude = InstalledClaude::new(&[]);
    let (code, answer) = claude.run(&["launch", "claude", "begin"]);
    assert_eq!(code, 0, "{answer}");
    let id = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
    let pid = u32::try_from(answer["result"]["process"]["pid"].as_u64().unwrap()).unwrap();
    let Some(read_only) = ReadOnly::bind(&claude.stage.root) else {
        eprintln!("skipped: nothing can be mounted here");
        return;
    };
    let started = claude.noted("started").len();
    let (code, answer) = claude.run(&["launch", "claude", TEXT]);
    assert_ne!(code, 0, "{answer}");
    assert!(answer["error"]["message"].is_string(), "it is said: {answer}");
    assert_eq!(claude.noted("started").len(), started, "nothing was started");
    let (code, answer) = claude.run(&["prompt", &id, TEXT]);
    let told = answer["result"]["incomplete"][0]["source"].as_str();
    assert!((code, told) == (12, Some("store")) || answer["error"].is_object(), "{answer}");
    assert!(claude.noted("prompt").len() <= 2, "{:?}", claude.noted("prompt"));
    let (code, answer) = claude.run(&["stop", &id]);
    assert!([0, 12].contains(&code), "{code} {answer}");
    assert!(!is_alive(pid), "stop still stops");
    drop(read_only);
    let (_, listed) = claude.run(&["ls"]);
    assert_eq!(listed["result"]["sessions"].as_array().unwrap().len(), 0, "{listed}");
}

#[test]
fn row_91_with_few_descriptors_a_prompt_says_so_or_arrives_and_stop_still_stops() {
    let claude = InstalledClaude::new(&[]);
    let (code, answer) = claude.run(&["launch", "claude", "begin"]);
    assert_eq!(code, 0, "{answer}");
    let id = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
    let pid = u32::try_from(answer["result"]["process"]["pid"].as_u64().unwrap()).unwrap();
    let limited = |limit: u32, words: &str| {
        let plain = claude.command();
        let mut command = Command::new("sh");
        command.env_clear().current_dir(claude.stage.home.path());
        for (key, value) in plain.get_envs() {
            value.map(|value| command.env(key, value));
        }
        let program = plain.get_program().to_str().unwrap().to_owned();
        ran(command.args(["-c", &format!("ulimit -n {limit}; exec {program} {words}")]))
    };
    for limit in [8, 12, 16] {
        let before = claude.noted("prompt").len();
        let told = limited(limit, &format!("prompt {id} 'number {limit}' --json"));
        let taken = claude.noted("prompt").len() - before;
        assert!(told.code == 0 || told.code == 12 || taken == 0 || told.code == 14, "{told:?}");
        assert!(taken <= 1, "{told:?}");
        assert!(!told.stderr.contains("panicked"), "{told:?}");
    }
    let told = limited(16, &format!("stop {id} --json"));
    assert!([0, 12].contains(&told.code), "{told:?}");
    assert!(!is_alive(pid), "stop still stops");
}
