//! `ostler setup` and `ostler service` where the user's manager does not do what it is asked, or its files are gone.

use testkit::home::TempHome;

use super::service::{part, under_a_manager};
use super::setup::{assert_same, picture};

/// A `systemctl` that stops the unit instead of starting it anew, once there is `$HOME/fails`, and once only.
const FAILING_RESTART: &str = r#"
        real=$(command -v systemctl)
        mkdir -p "$HOME/run/bin"
        cat > "$HOME/run/bin/systemctl" <<'END'
#!/bin/sh
case " $* " in
    *" restart "*) if [ -e "$HOME/run/fails" ]; then
        rm "$HOME/run/fails"; "$REAL" --user stop ostler.service 2> /dev/null
        echo "no such luck" >&2; exit 1
    fi ;;
esac
exec "$REAL" "$@"
END
        chmod +x "$HOME/run/bin/systemctl"
        export REAL=$real
        failing() { touch "$HOME/run/fails"; PATH="$HOME/run/bin:$PATH" "$@"; }
"#;

#[test]
fn d3_a_service_that_cannot_be_started_leaves_everything_as_it_was() {
    let home = TempHome::new();
    home.write(".qwen/settings.json", "{}\n");
    let before = picture(&home);
    let script = r#"
        echo begun
        "$OSTLER" daemon start > /dev/null
        echo "== setup"; failing "$OSTLER" setup --yes 2>&1; echo "exit $?"
        echo "== left"; find "$HOME/.config" 2> /dev/null; ls "$HOME/run/fails" 2> /dev/null
        echo "== record"; cat "$HOME/.local/state/ostler/setup.json"
        echo "== daemon"; "$OSTLER" daemon status
        echo "== unit"; systemctl --user is-enabled ostler.service 2>&1; systemctl --user is-active ostler.service
        echo "== undo"; "$OSTLER" setup --undo --yes 2>&1; echo "exit $?"
        echo "== after"; "$OSTLER" daemon status
        "$OSTLER" daemon stop > /dev/null
        echo "== end"
    "#;
    let Some(printed) = under_a_manager(&home, &format!("{FAILING_RESTART}{script}")) else {
        return;
    };
    assert!(part(&printed, "setup").contains("no such luck"), "{printed}");
    assert!(part(&printed, "setup").contains("exit 13"), "{printed}");
    assert_eq!(part(&printed, "left"), "", "{printed}");
    assert!(part(&printed, "record").contains("\"service\": null"), "{printed}");
    assert!(part(&printed, "daemon").starts_with("running"), "it is started again: {printed}");
    assert!(part(&printed, "unit").ends_with("inactive\n"), "{printed}");
    assert!(part(&printed, "undo").contains("exit 0"), "{printed}");
    assert!(part(&printed, "after").starts_with("running"), "{printed}");
    assert_same(&before, &picture(&home), "taken back");
}

#[test]
fn d3_a_service_that_ran_runs_on_as_it_was_if_the_new_one_does_not_start() {
    let home = TempHome::new();
    let script = r#"
        echo begun
        unit="$HOME/.config/systemd/user/ostler.service"
        "$OSTLER" service install > /dev/null; cp "$unit" "$HOME/run/unit"
        export OSTLER_STALE_AFTER=7h
        echo "== failed"; failing "$OSTLER" service install 2>&1; echo "exit $?"
        echo "== unit"; cmp "$unit" "$HOME/run/unit" && echo same
        echo "== state"; systemctl --user is-enabled ostler.service; systemctl --user is-active ostler.service
        # The manager calls it active before it listens.
        n=0; until "$OSTLER" daemon status | grep -q '^running' || [ $((n += 1)) -gt 200 ]; do sleep 0.05; done
        echo "== daemon"; "$OSTLER" daemon status
        systemctl --user disable ostler.service 2> /dev/null
        echo "== disabled"; failing "$OSTLER" service install 2>&1; echo "exit $?"
        echo "== still"; systemctl --user is-enabled ostler.service; systemctl --user is-active ostler.service
        "$OSTLER" service uninstall > /dev/null
        echo "== end"
    "#;
    let Some(printed) = under_a_manager(&home, &format!("{FAILING_RESTART}{script}")) else {
        return;
    };
    assert!(part(&printed, "failed").contains("exit 13"), "{printed}");
    assert_eq!(part(&printed, "unit"), "same\n", "{printed}");
    assert_eq!(part(&printed, "state"), "enabled\nactive\n", "{printed}");
    assert!(part(&printed, "daemon").starts_with("running"), "{printed}");
    assert!(part(&printed, "disabled").contains("exit 13"), "{printed}");
    assert_eq!(part(&printed, "still"), "disabled\nactive\n", "{printed}");
}

#[test]
fn d1_an_undo_knows_the_service_of_an_earlier_setup_after_one_that_was_refused() {
    let home = TempHome::new();
    home.write(".qwen/settings.json", "{}\n");
    let script = r#"
        echo begun
        unit="$HOME/.config/systemd/user/ostler.service"
        "$OSTLER" setup --yes > /dev/null 2>&1
        echo "== first"; systemctl --user is-active ostler.service
        echo '# mine' >> "$unit"
        mkdir "$HOME/.gemini"; printf '{"a": 1}' > "$HOME/.gemini/settings.json"
        echo "== again"; "$OSTLER" setup --yes 2>&1; echo "exit $?"
        echo "== hooked"; grep -c ostler-hooks "$HOME/.gemini/settings.json"
        echo "== undo"; "$OSTLER" setup --undo --yes 2>&1; echo "exit $?"
        echo "== after"; systemctl --user is-active ostler.service; ls "$unit" 2>&1
        echo "== end"
    "#;
    let Some(printed) = under_a_manager(&home, script) else { return };
    assert_eq!(part(&printed, "first"), "active\n");
    assert!(part(&printed, "again").contains("was edited since"), "{printed}");
    assert!(part(&printed, "again").contains("exit 13"), "{printed}");
    assert_ne!(part(&printed, "hooked"), "0\n", "{printed}");
    assert!(part(&printed, "undo").contains("exit 0"), "{printed}");
    assert!(part(&printed, "after").starts_with("inactive\n"), "{printed}");
    assert!(part(&printed, "after").contains("No such file"), "{printed}");
    assert_eq!(home.read(".qwen/settings.json"), b"{}\n");
    assert_eq!(home.read(".gemini/settings.json"), b"{\"a\": 1}");
}

#[test]
fn d2_a_service_that_is_silent_is_taken_back_by_an_undo() {
    let home = TempHome::new();
    let script = r#"
        echo begun
        mkdir -p "$HOME/.config/systemd/user/ostler.service.d"
        printf '[Service]\nExecStart=\nExecStart=/bin/sleep 300\n' > "$HOME/.config/systemd/user/ostler.service.d/mine.conf"
        echo "== setup"; "$OSTLER" setup --yes 2>&1; echo "exit $?"
        echo "== left"; systemctl --user is-enabled ostler.service
        echo "== undo"; "$OSTLER" setup --undo --yes 2>&1; echo "exit $?"
        echo "== after"; systemctl --user is-active ostler.service; find "$HOME/.config" -name 'ostler.service'
        echo "== end"
    "#;
    let Some(printed) = under_a_manager(&home, script) else { return };
    assert!(part(&printed, "setup").contains("does not answer"), "{printed}");
    assert_eq!(part(&printed, "left"), "enabled\n", "{printed}");
    assert!(part(&printed, "undo").contains("exit 0"), "{printed}");
    assert_eq!(part(&printed, "after"), "inactive\n", "{printed}");
}

#[test]
fn d8_a_unit_that_was_deleted_while_it_ran_is_stopped() {
    let home = TempHome::new();
    home.write(".qwen/settings.json", "{}\n");
    let script = r#"
        echo begun
        for how in 'rm "$HOME/.config/systemd/user/ostler.service"' 'rm -r "$HOME/.config/systemd"'; do
            "$OSTLER" setup --yes > /dev/null 2>&1
            systemctl --user is-active ostler.service
            eval "$how"; systemctl --user daemon-reload
            "$OSTLER" setup --undo --yes 2>&1; echo "exit $?"
            echo "== after $how"; systemctl --user is-active ostler.service
            "$OSTLER" daemon status; find "$HOME/.config" 2> /dev/null
        done
        echo "== end"
    "#;
    let Some(printed) = under_a_manager(&home, script) else { return };
    assert_eq!(printed.matches("exit 0\n").count(), 2, "{printed}");
    let after = printed.matches("\ninactive\nnot running\n").count();
    assert_eq!(after, 2, "nothing runs: {printed}");
    assert!(!home.join(".config/systemd").exists(), "{printed}");
}
