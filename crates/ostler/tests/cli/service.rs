//! `ostler service` with a real user manager: systemd in namespaces of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::access::skipped;
use testkit::home::TempHome;

use super::run::run;

/// Starts `systemd --user` where nothing else is, then runs a script beside it. It sees a control group
/// hierarchy and a process table of its own, and everything ends with it.
const UNDER_A_MANAGER: &str = r#"
set -e
mount --make-rprivate /
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/0
chmod 700 /run/user/0
export XDG_RUNTIME_DIR=/run/user/0
group=/sys/fs/cgroup/ostler-test-$PPID-$$
mkdir -p "$group"
echo $$ > "$group/cgroup.procs"
"$MANAGER" --user --log-target=null &
for _ in $(seq 300); do [ -S /run/user/0/systemd/private ] && break; sleep 0.05; done
[ -S /run/user/0/systemd/private ] || exit 77
set +e
"#;

const MANAGERS: [&str; 2] = ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"];

/// What a script printed, or nothing where there can be no manager.
pub(crate) fn under_a_manager(home: &TempHome, script: &str) -> Option<String> {
    let Some(manager) = MANAGERS.iter().find(|path| Path::new(path).exists()) else {
        skipped("there is no systemd");
        return None;
    };
    let whole = format!("{UNDER_A_MANAGER}\n{script}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--cgroup", "--pid", "--fork", "--kill-child", "bash", "-c", &whole]);
    command.env_clear().env("HOME", home.path()).env("MANAGER", manager);
    command.env("OSTLER", env!("CARGO_BIN_EXE_ostler")).env("PATH", std::env::var_os("PATH")?);
    command.current_dir(home.path()).stdin(std::process::Stdio::null());
    let output = command.output().ok()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !printed.contains("begun") {
        skipped(&format!("no user manager can be run here: {said}"));
        return None;
    }
    assert!(output.status.success(), "{printed}\n{said}");
    Some(printed)
}

/// The text between two marks.
#[track_caller]
pub(crate) fn part<'t>(printed: &'t str, name: &str) -> &'t str {
    let from = format!("== {name}\n");
    let at = printed.find(&from).unwrap_or_else(|| panic!("no {name} in {printed}")) + from.len();
    let rest = &printed[at..];
    rest.find("== ").map_or(rest, |end| &rest[..end])
}

#[test]
fn row_17_a_restart_of_the_service_touches_no_terminal() {
    let home = TempHome::new();
    let script = r#"
        echo begun
        "$OSTLER" create --name work -- sleep 300 > /dev/null
        echo "== scope"; cat /proc/$(pgrep -f '^sleep 300')/cgroup
        echo "== install"; "$OSTLER" service install; echo "exit $?"
        echo "== active"; systemctl --user is-active ostler.service
        echo "== again"; "$OSTLER" service install --json
        echo "== setup"; "$OSTLER" setup --yes --json
        echo "== verify"; systemd-analyze --user verify "$HOME/.config/systemd/user/ostler.service" 2>&1; echo "exit $?"
        before=$(systemctl --user show -p MainPID --value ostler.service)
        systemctl --user restart ostler.service
        echo "== restarted"; [ "$before" != "$(systemctl --user show -p MainPID --value ostler.service)" ] && echo yes
        echo "== inspect"; "$OSTLER" inspect work --json
        echo "== status"; "$OSTLER" service status --json
        mkdir "$HOME/bin"; printf '#!/bin/sh\n[ "$1" = show-user ] && echo no\n' > "$HOME/bin/loginctl"; chmod +x "$HOME/bin/loginctl"
        echo "== linger"; PATH="$HOME/bin:$PATH" "$OSTLER" service status 2>&1
        echo "== logs"; "$OSTLER" service logs 2>&1; echo "exit $?"
        kill -9 "$(systemctl --user show -p MainPID --value ostler.service)"
        for _ in $(seq 100); do "$OSTLER" daemon status | grep -q '^running' && break; sleep 0.1; done
        echo "== killed"; "$OSTLER" daemon status
        echo "== uninstall"; "$OSTLER" service uninstall; echo "exit $?"
        echo "== gone"; ls "$HOME/.config/systemd/user/ostler.service" 2>&1; "$OSTLER" daemon status
        echo "== still"; "$OSTLER" inspect work --json
        "$OSTLER" destroy work > /dev/null
        echo "== end"
    "#;
    let Some(printed) = under_a_manager(&home, script) else { return };
    assert!(part(&printed, "scope").contains("/ostler-"), "{printed}");
    assert!(part(&printed, "scope").contains(".scope"), "{printed}");
    assert!(
        part(&printed, "install").contains("created, starts with your session, runs"),
        "{printed}"
    );
    assert!(part(&printed, "install").contains("exit 0"), "{printed}");
    assert_eq!(part(&printed, "active"), "active\n");
    assert!(part(&printed, "again").contains("\"change\": \"unchanged\""), "{printed}");
    assert!(part(&printed, "setup").contains("\"changes\": false"), "{printed}");
    assert_eq!(part(&printed, "verify"), "exit 0\n");
    assert_eq!(part(&printed, "restarted"), "yes\n");
    assert!(part(&printed, "inspect").contains("\"status\": \"running\""), "{printed}");
    assert!(part(&printed, "status").contains("\"active\": true"), "{printed}");
    // Without linger the note names the command that enables it.
    let told = "`loginctl enable-linger \"$USER\"` keeps them";
    assert!(part(&printed, "linger").contains(told), "{printed}");
    assert!(part(&printed, "logs").contains("exit 0"), "{printed}");
    assert!(part(&printed, "logs").lines().count() > 1, "it says something: {printed}");
    assert!(part(&printed, "killed").starts_with("running"), "{printed}");
    assert!(part(&printed, "uninstall").contains("exit 0"), "{printed}");
    assert!(part(&printed, "gone").contains("No such file"), "{printed}");
    assert!(part(&printed, "gone").contains("not running"), "{printed}");
    assert!(part(&printed, "still").contains("\"status\": \"running\""), "{printed}");
}

#[test]
fn row_17_setup_installs_the_service_and_undo_takes_it_away() {
    let home = TempHome::new();
    home.write(".qwen/settings.json", "{}\n");
    let script = r#"
        echo begun
        "$OSTLER" daemon start > /dev/null
        echo "== setup"; "$OSTLER" setup --yes; echo "exit $?"
        echo "== main"; systemctl --user is-active ostler.service; "$OSTLER" daemon status
        echo "== undo"; "$OSTLER" setup --undo --yes; echo "exit $?"
        echo "== after"; systemctl --user is-active ostler.service; ls -A "$HOME" "$HOME/.config" 2>&1
        echo "== end"
    "#;
    let Some(printed) = under_a_manager(&home, script) else { return };
    assert!(part(&printed, "setup").contains("ostler.service"), "{printed}");
    assert!(part(&printed, "setup").contains("exit 0"), "{printed}");
    assert!(part(&printed, "main").starts_with("active\nrunning"), "{printed}");
    assert!(part(&printed, "undo").contains("exit 0"), "{printed}");
    assert!(part(&printed, "after").starts_with("inactive\n"), "{printed}");
    assert!(!home.join(".config/systemd").exists(), "{printed}");
    assert_eq!(home.read(".qwen/settings.json"), b"{}\n");
}

#[test]
fn row_17_a_stop_that_would_end_others_is_refused() {
    let home = TempHome::new();
    let script = r#"
        echo begun
        "$OSTLER" service install > /dev/null
        mkdir -p "$HOME/.config/systemd/user/ostler.service.d"
        printf '[Service]\nKillMode=control-group\n' > "$HOME/.config/systemd/user/ostler.service.d/mine.conf"
        systemctl --user daemon-reload
        sleep 300 & other=$!
        group=$(systemctl --user show -p ControlGroup --value ostler.service)
        echo $other > "/sys/fs/cgroup$group/cgroup.procs"
        echo "== refused $other"; "$OSTLER" service uninstall 2>&1; echo "exit $?"
        echo "== runs"; systemctl --user is-active ostler.service; kill -0 $other && echo alive
        kill $other; wait $other 2> /dev/null
        echo "== edited"; echo '# mine' >> "$HOME/.config/systemd/user/ostler.service"
        "$OSTLER" service install 2>&1; echo "exit $?"
        echo "== uninstalled"; "$OSTLER" service uninstall 2>&1; echo "exit $?"
        echo "== end"
    "#;
    let Some(printed) = under_a_manager(&home, script) else { return };
    assert!(printed.contains("a stop would end other processes with it"), "{printed}");
    assert!(printed.contains("exit 13\n== runs\nactive\nalive\n"), "{printed}");
    assert!(part(&printed, "edited").contains("was edited since"), "{printed}");
    assert!(part(&printed, "edited").contains("exit 13"), "{printed}");
    assert!(part(&printed, "uninstalled").contains("exit 0"), "{printed}");
    let trash = run(&home, "trash ls --json").exits(0).result();
    assert!(
        trash.to_string().contains("ostler.service"),
        "an edited unit can be had back: {trash}"
    );
}

#[test]
fn row_17_a_foreign_unit_is_left_alone() {
    let home = TempHome::new();
    let unit = "[Service]\nExecStart=/bin/true\n";
    let file = home.write(".config/systemd/user/ostler.service", unit);
    let script = r#"
        echo begun
        echo "== install"; "$OSTLER" service install 2>&1; echo "exit $?"
        echo "== uninstall"; "$OSTLER" service uninstall 2>&1; echo "exit $?"
        echo "== end"
    "#;
    let Some(printed) = under_a_manager(&home, script) else { return };
    for name in ["install", "uninstall"] {
        assert!(part(&printed, name).contains("was not written by ostler"), "{printed}");
        assert!(part(&printed, name).contains("exit 13"), "{printed}");
    }
    assert_eq!(fs::read_to_string(file).unwrap(), unit);
}

#[test]
fn row_17_without_a_manager_it_says_what_to_do_instead() {
    let home = TempHome::new();
    let refused = run(&home, "service install").exits(13);
    assert!(
        refused.stderr.contains("no service manager of this user answers"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("`ostler daemon start`"), "{}", refused.stderr);
    let status = run(&home, "service status --json").exits(0).result();
    assert_eq!(status["installed"], false);
}
