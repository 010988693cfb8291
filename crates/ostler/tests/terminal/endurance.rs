//! Many sessions, one after the other and at once: nothing is left behind, and nothing runs while nothing
//! happens. `cargo xtask endure` asks the same for longer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::stage::{Name, Stage, until};

/// The processes that know of this home, but this one.
fn processes(home: &Path) -> Vec<u32> {
    let home = home.as_os_str().as_encoded_bytes();
    let knows = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(home.len()).any(|part| part == home)
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id())
        .filter(knows)
        .collect()
}

/// Everything in a home, by path.
fn tree(directory: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            all.append(&mut tree(&entry.path()));
        }
        all.insert(entry.path());
    }
    all
}

/// Whether it is the directory of a removal that was carried out.
fn is_receipt(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.ends_with("state/trash"))
}

/// How much a process has run: its ticks, and how often it was woken.
fn ran(pid: u32) -> (u64, u64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat[stat.rfind(')').unwrap() + 2..].split(' ').skip(11).take(2);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
    (
        fields.map(|field| field.parse::<u64>().unwrap()).sum(),
        switches.map(|line| line.rsplit('\t').next().unwrap().parse::<u64>().unwrap()).sum(),
    )
}

#[test]
fn an_idle_host_uses_no_processor_at_all() {
    let stage = Stage::new(Name::Ostler);
    let id = stage.shell();
    stage.ok(&["run", &id, "true"]);
    let host = stage.pid(&id, "hostPid");
    std::thread::sleep(Duration::from_millis(500));
    let before = ran(host);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(ran(host), before, "it did not even wake up");
}

#[test]
fn cycles_leave_no_process_socket_descriptor_or_directory_behind() {
    let stage = Stage::new(Name::Ostler);
    let cycle = || {
        let id = stage.create(&["/bin/cat"]);
        stage.ok(&["destroy", &id]);
    };
    let collect = || {
        until("the processes' end", || processes(stage.home.path()).is_empty());
        stage.ok(&["gc", "--older-than", "0s", "--yes"]);
        stage.ok(&["trash", "empty", "--older-than", "0s", "--yes"]);
        let mut left = tree(stage.home.path());
        // One journal is kept of each removal, however many sessions it removed.
        left.retain(|path| !path.ends_with("journal.jsonl") && !is_receipt(path));
        left
    };
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    // What is made once, the first time.
    cycle();
    let (before, open) = (collect(), descriptors());
    (0..25).for_each(|_| cycle());
    assert_eq!(collect(), before);
    assert_eq!(descriptors(), open);
}

#[test]
fn many_sessions_at_once_rest_and_all_end() {
    const MANY: usize = 30;
    let stage = Stage::new(Name::Ostler);
    let ids: Vec<String> = (0..MANY).map(|_| stage.create(&["/bin/cat"])).collect();
    let hosts: Vec<u32> = ids.iter().map(|id| stage.pid(id, "hostPid")).collect();
    assert_eq!(stage.ok(&["ls"])["sessions"].as_array().unwrap().len(), MANY);
    std::thread::sleep(Duration::from_millis(500));
    let before: Vec<_> = hosts.iter().map(|host| ran(*host)).collect();
    std::thread::sleep(Duration::from_secs(1));
    let after: Vec<_> = hosts.iter().map(|host| ran(*host)).collect();
    assert_eq!(after, before, "none of them woke up");
    for id in &ids {
        stage.ok(&["destroy", id]);
    }
    until("the processes' end", || processes(stage.home.path()).is_empty());
    let sockets = tree(&stage.home.join("run")).into_iter().filter(|path| !path.is_dir());
    assert_eq!(sockets.count(), 0, "no socket is left");
}

#[test]
fn row_96_with_fuses_and_a_request_armed_nobody_wakes_up() {
    const MANY: usize = 20;
    let stage = Stage::new(Name::Ostler);
    stage.ok(&["daemon", "start"]);
    let ids: Vec<String> = (0..MANY).map(|_| stage.create(&["/bin/cat"])).collect();
    for id in &ids {
        stage.ok(&["fuse", "set", id, "--after", "1h", "--do", "stop"]);
        stage.ok(&["fuse", "set", id, "--idle", "30m", "--do", "event"]);
    }
    let mut hook = stage.command();
    hook.args(["hook", "claude-code", "PermissionRequest"]).env("OSTLER_PERMITS", "600s");
    let mut hook = hook
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let asked = br#"{"session_id":"x","tool_name":"Bash","tool_input":{}}"#;
    std::io::Write::write_all(&mut hook.stdin.take().unwrap(), asked).unwrap();
    until("its request", || {
        stage.ok(&["permits"])["requests"].as_array().is_some_and(|all| all.len() == 1)
    });
    let daemon = stage.ok(&["daemon", "status"])["pid"].as_u64().unwrap();
    let mut all: Vec<u32> = ids.iter().map(|id| stage.pid(id, "hostPid")).collect();
    all.extend([u32::try_from(daemon).unwrap(), hook.id()]);
    std::thread::sleep(Duration::from_secs(2));
    let used = || all.iter().map(|pid| ran(*pid).0).collect::<Vec<_>>();
    let before = used();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(used(), before, "one of them used processor time");
    hook.kill().unwrap();
    hook.wait().unwrap();
    stage.ok(&["daemon", "stop"]);
}
