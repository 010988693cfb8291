//! The liveness table from other places: another namespace, another user, a hidden process table.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use model::identity::{BootId, Identity};
use ostler_sys::proc::{current_observer, identify_process};
use support::{
    NOBODY, Running, UNSHARE_MOUNT, UNSHARE_PID, helper, helper_named, in_own_mounts, output,
    permits, pid_only, probed_below, with_ticks, words,
};

#[test]
fn row_2_without_proc_nothing_is_known() {
    if !permits(&UNSHARE_MOUNT) {
        return;
    }
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    for hide in ["umount -l /proc", "mount -t tmpfs none /proc"] {
        let mut args = vec![helper().display().to_string(), "probe".into()];
        args.extend(words(&identity));
        let script = format!("{hide}; exec \"$@\"");
        assert_eq!(output(&mut in_own_mounts(&script, &args)), "unknown no-proc", "{hide}");
    }
}

#[test]
fn row_2_the_proc_of_another_pid_namespace_is_none() {
    let prefix = ["unshare", "--pid", "--fork"];
    if !permits(&prefix) {
        return;
    }
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    assert_eq!(probed_below(&prefix, &helper(), &identity), "unknown no-proc");
    assert_eq!(probed_below(&prefix, &helper(), &pid_only(&identity)), "unknown no-proc");
}

#[test]
fn row_3_the_hostname_is_irrelevant() {
    if !permits(&["unshare", "--uts"]) {
        return;
    }
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--uts", "sh", "-ec", "hostname elsewhere; exec \"$@\"", "sh"]);
    command.arg(helper()).arg("probe").args(words(&identity));
    assert_eq!(output(&mut command), "alive running");
}

#[test]
fn row_6_another_pid_namespace_with_the_same_hostname_and_boot() {
    if !permits(&UNSHARE_PID) {
        return;
    }
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    // From inside a sandbox: its own session's owner, recorded outside, is not dead.
    let inside = |record: &Identity| probed_below(&UNSHARE_PID, &helper(), record);
    assert_eq!(inside(&identity), "unknown foreign-namespace");
    assert_eq!(inside(&pid_only(&identity)), "unknown blind");
    assert_eq!(inside(&with_ticks(&identity)), "unknown blind");
    // From outside: what was recorded inside is not looked for here.
    let mut command = Command::new(UNSHARE_PID[0]);
    command.args(&UNSHARE_PID[1..]).arg(helper()).args(["run"]).arg(helper()).arg("identify");
    let captured = output(&mut command);
    assert!(captured.starts_with("pid=2 "), "{captured}");
    let mut command = Command::new(helper());
    command.arg("probe").args(captured.split(' '));
    assert_eq!(output(&mut command), "unknown foreign-namespace");
}

#[test]
fn row_6_a_time_namespace() {
    if !permits(&["unshare", "--time", "--fork"]) {
        return;
    }
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let uptime: u64 = uptime.split('.').next().unwrap().parse().unwrap();
    // Forward, and back to a boot that seems to have begun a second ago.
    for offset in ["86400".to_owned(), format!("-{}", uptime - 1)] {
        let prefix = ["unshare", "--time", "--boottime", &offset, "--fork"];
        let inside = |record: &Identity| probed_below(&prefix, &helper(), record);
        assert_eq!(inside(&identity), "unknown foreign-namespace", "{offset}");
        assert_eq!(inside(&with_ticks(&identity)), "unknown blind", "{offset}");
        assert_eq!(inside(&pid_only(&identity)), "unknown incomplete", "{offset}");
        let an_hour_ago = identity.recorded_at.map(|time| {
            time.minus(std::time::Duration::from_secs(uptime.saturating_sub(30).min(3600)))
        });
        let older = Identity { recorded_at: an_hour_ago, ..with_ticks(&identity) };
        assert_eq!(inside(&older), "unknown blind", "not rebooted: {offset}");
        let by_time =
            Identity { boot: current_observer().boot_time().map(BootId::Time), ..identity.clone() };
        assert_eq!(inside(&by_time), "unknown boot-unknown", "not rebooted: {offset}");
    }
}

/// What the helper says as another user, with `/proc` mounted with this `hidepid`.
fn probed_by_nobody(directory: &Path, hidepid: &str, identity: &Identity) -> String {
    let script = format!("mount -t proc -o hidepid={hidepid} proc /proc; exec \"$@\"");
    let mut args: Vec<String> = NOBODY.iter().map(|&word| word.into()).collect();
    args.push(open_helper(directory).display().to_string());
    args.push("probe".into());
    args.extend(words(identity));
    output(&mut in_own_mounts(&script, &args))
}

/// A helper in a directory that every user can reach.
fn open_helper(directory: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.join("open-helper");
    if path.exists() { path } else { helper_named(directory, "open-helper") }
}

fn can_hide_pids() -> bool {
    permits(&UNSHARE_MOUNT) && permits(&NOBODY)
}

#[test]
fn row_7_a_process_of_another_user_may_be_hidden() {
    if !can_hide_pids() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    for hidepid in ["2", "invisible", "4"] {
        let says = probed_by_nobody(home.path(), hidepid, &identity);
        assert_eq!(says, "unknown hidden", "{hidepid}, running");
        let says = probed_by_nobody(home.path(), hidepid, &pid_only(&identity));
        assert_eq!(says, "unknown hidden", "{hidepid}, running, pid only");
    }
    process.end();
    assert_eq!(probed_by_nobody(home.path(), "2", &identity), "unknown hidden", "gone");
    assert_eq!(probed_by_nobody(home.path(), "0", &identity), "dead gone");
}

#[test]
fn row_7_our_own_users_process_may_be_hidden_too() {
    if !can_hide_pids() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let helper = open_helper(home.path());
    let start = |command: &str| {
        let mut started = Command::new(NOBODY[0]);
        Running::start(started.args(&NOBODY[1..]).arg(&helper).arg(command))
    };
    let plain = start("wait");
    let identity = identify_process(plain.pid()).unwrap();
    assert_eq!(identity.uid, Some(65534));
    assert_eq!(probed_by_nobody(home.path(), "2", &identity), "alive running");
    plain.end();
    assert_eq!(probed_by_nobody(home.path(), "2", &identity), "dead gone");
    // An agent that forbids to be traced is missing from /proc, and is not gone.
    let hardened = start("wait-untraceable");
    let identity = identify_process(hardened.pid()).unwrap();
    assert_eq!(identity.uid, Some(65534));
    assert_eq!(probed_by_nobody(home.path(), "2", &identity), "unknown hidden");
    assert_eq!(probed_by_nobody(home.path(), "0", &identity), "alive running");
}

#[test]
fn row_7_the_proc_that_counts_is_the_one_on_top() {
    if !can_hide_pids() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let says = |mounts: &str| {
        let args: Vec<String> = NOBODY
            .iter()
            .map(|&word| word.to_owned())
            .chain([open_helper(home.path()).display().to_string(), "observe".into()])
            .collect();
        output(&mut in_own_mounts(&format!("{mounts} exec \"$@\""), &args))
    };
    let hiding = "mount -t proc -o hidepid=2 proc /proc;";
    let open = "mount -t proc -o hidepid=0 proc /proc;";
    assert!(says("").contains("hides_pids: false"));
    assert!(says(hiding).contains("hides_pids: true"));
    assert!(says(&format!("{hiding} {open}")).contains("hides_pids: false"));
    assert!(says(&format!("{open} {hiding}")).contains("hides_pids: true"));
}

#[test]
fn row_8_what_cannot_be_read_is_unreadable() {
    if !can_hide_pids() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    for hidepid in ["1", "noaccess"] {
        let says = probed_by_nobody(home.path(), hidepid, &identity);
        assert_eq!(says, "unknown unreadable", "{hidepid}");
    }
}
