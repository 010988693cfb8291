//! Bad input: the thing, the reason, the remedy, the exit code.

use testkit::home::TempHome;

use super::run::{claude_session, ostler, ran, run, sample_home};

#[test]
fn an_unknown_session_is_not_found() {
    let home = TempHome::new();
    let ran = run(&home, "show nothing-here").exits(3);
    insta::assert_snapshot!(ran.stderr, @r"
    error: no session `nothing-here`
    hint: `ostler ls -a` lists every session with its id
    ");
    assert_eq!(ran.stdout, "");
}

#[test]
fn an_ambiguous_prefix_is_never_guessed() {
    let home = TempHome::new();
    claude_session(&home, "aaaa1111-0000-4000-8000-000000000000", "/a", "one");
    claude_session(&home, "aaaa2222-0000-4000-8000-000000000000", "/a", "two");
    let ran = run(&home, "show aaaa").exits(2);
    insta::assert_snapshot!(ran.stderr, @r"
    error: `aaaa` could mean 2 sessions
    hint: type more of the id, or put the agent in front: claude-code:aaaa1111-0000-4000-8000-000000000000, claude-code:aaaa2222-0000-4000-8000-000000000000
    ");
    let json = run(&home, "show aaaa --json").exits(2).envelope();
    assert_eq!(json["error"]["code"], "AMBIGUOUS_ID");
    assert_eq!(json["error"]["details"]["candidates"].as_array().unwrap().len(), 2);
    run(&home, "show aaaa1").exits(0);
    run(&home, "show claude-code:aaaa2").exits(0);
}

#[test]
fn wrong_filters_say_what_there_is() {
    let home = TempHome::new();
    let ran = run(&home, "ls --agent clod").exits(2);
    assert!(ran.stderr.contains("no such agent; there are: claude-code, codex"), "{}", ran.stderr);
    let ran = run(&home, "ls --status gone").exits(2);
    assert!(ran.stderr.contains("one of alive, dead, running, exiting, exited"), "{}", ran.stderr);
    let ran = run(&home, "ls --since yesterday").exits(2);
    insta::assert_snapshot!(ran.stderr, @r"
    error: `--since yesterday` is neither a span nor a time
    hint: write it like 2h, 3d or 2026-11-15T12:00:00Z
    ");
    let ran = run(&home, "du --agent clod").exits(2);
    assert!(ran.stderr.contains("no such agent; there are: claude-code, codex"), "{}", ran.stderr);
    run(&home, "ls --watch 0").exits(2);
    run(&home, "frobnicate").exits(2);
    run(&home, "help frobnicate").exits(2);
}

#[test]
fn a_usage_error_in_json_names_what_is_missing() {
    let home = TempHome::new();
    let message = |line: &str| run(&home, line).exits(2).envelope()["error"]["message"].clone();
    assert_eq!(message("show --json"), "the following required arguments were not provided: <ID>");
    let record = message("record --json");
    assert!(record.as_str().unwrap().ends_with("[subcommands: export]"), "{record}");
}

#[test]
fn b17_one_bad_line_stops_no_listing_and_every_change() {
    let home = sample_home();
    let good = run(&home, "ls -a --json").exits(0).result();
    let file = home.write(
        ".config/ostler/config.toml",
        "stale_after = \"2h\"\nstale_afer = \"3h\"\n[retention]\ntrash = \"soon\"\n",
    );
    let listed = run(&home, "ls -a --json").exits(12).result();
    assert_eq!(listed["total"], good["total"]);
    let incomplete = listed["incomplete"].as_array().unwrap();
    assert_eq!(incomplete.len(), 2, "{incomplete:?}");
    for (one, key) in incomplete.iter().zip(["retention.trash", "stale_afer"]) {
        assert_eq!(one["source"], "configuration");
        assert_eq!(one["path"], file.to_str().unwrap());
        let reason = one["reason"].as_str().unwrap();
        assert!(reason.starts_with(&format!("`{key}` has its default: ")), "{reason}");
    }
    let told = run(&home, "ls").exits(12).stderr;
    assert!(told.contains("2 things could not be read") && told.contains("stale_afer"), "{told}");
    for looking in ["status", "show -", "why -", "du", "usage", "who -"] {
        let told = run(&home, looking).stderr;
        assert!(!told.contains("is not valid"), "{looking}: {told}");
    }
    // What holds is shown, and what does not is named.
    let shown = run(&home, "config show --origin").exits(12);
    assert!(shown.stdout.contains("stale_after = \"2h\""), "{shown:?}");
    assert!(shown.stderr.contains("stale_afer"), "{shown:?}");
    assert_eq!(run(&home, "config path").exits(0).stdout.trim(), file.to_str().unwrap());
    for changing in ["config check", "gc", "gc --yes", "trash empty --yes", "pin 666e4f9b"] {
        let ran = run(&home, changing).exits(2);
        assert!(ran.stderr.contains("is not valid"), "{changing}: {}", ran.stderr);
    }
    let check = run(&home, "config check").exits(2).stderr;
    assert!(check.contains("line 2") && check.contains("stale_afer"), "{check}");
}

#[test]
fn a_setting_that_is_wrong_is_an_error_with_its_key() {
    let home = TempHome::new();
    home.write(".config/ostler/config.toml", "stale_after = \"soon\"\n");
    let check = || run(&home, "config check").exits(2).stderr;
    assert!(check().contains("`stale_after = \"soon\"` is not a duration"));
    home.write(".config/ostler/config.toml", "disabled_adapters = [\"clod\"]\n");
    assert!(check().contains("names `clod`, which is no adapter"));
}

#[test]
fn t4_nothing_is_made_where_nothing_is() {
    let home = TempHome::new();
    let nowhere = home.join("nobody");
    for line in ["ls", "ls -a", "du", "status", "doctor", "adapters", "why -", "search x"] {
        let mut command = ostler(&home);
        command.env("HOME", &nowhere).env_remove("OSTLER_HOME").env_remove("XDG_CACHE_HOME");
        ran(command.args(line.split_whitespace()));
        assert!(!nowhere.exists(), "`{line}` made {}", nowhere.display());
    }
}

#[test]
fn settings_say_where_they_come_from() {
    let home = TempHome::new();
    let shown = run(&home, "config show --origin").exits(0).stdout;
    assert!(shown.starts_with("stale_after = \"1h\"  # default\n"), "{shown}");
    assert!(shown.lines().all(|line| line.ends_with("  # default")), "{shown}");
    let file = home.write(".config/ostler/config.toml", "stale_after = \"90m\"\n");
    let shown = run(&home, "config show --origin").stdout;
    assert!(shown.contains(&format!("stale_after = \"90m\"  # {}", file.display())), "{shown}");
}

#[test]
fn a_disabled_adapter_is_not_asked() {
    let home = sample_home();
    home.write(".config/ostler/config.toml", "disabled_adapters = [\"claude-code\"]\n");
    let sessions = run(&home, "ls -a --json").sessions();
    assert!(!sessions.is_empty());
    assert!(sessions.iter().all(|session| session["agent"] != "claude-code"));
}

#[test]
fn configured_roots_are_read_and_never_collected() {
    let home = TempHome::new();
    let id = "33333333-3333-4333-8333-333333333333";
    let usual = super::run::claude_session(&home, id, "/home/user/repo", "hello");
    std::fs::rename(home.join(".claude"), home.join(".fork")).unwrap();
    let ids = || run(&home, "ls -a --json").sessions();
    assert!(ids().is_empty());
    let set = |text: &str| home.write(".config/ostler/config.toml", text);
    set("[adapters.claude-code]\nroots = [\"~/.fork\"]\n");
    assert_eq!(ids()[0]["id"], id);
    let moved = home.join(".fork").join(usual.strip_prefix(home.join(".claude")).unwrap());
    super::collect::age(&moved, 100);
    let line = "gc --include transcripts --older-than 1d --agent claude-code --yes --json";
    run(&home, line);
    assert!(moved.exists(), "nobody knows how the fork's processes look");
    set("[adapters.clod]\nroots = []\n");
    assert!(
        run(&home, "config check").exits(2).stderr.contains("`[adapters.clod]` is of no adapter")
    );
    set("[adapters.pi]\nroots = [\"here\"]\n");
    assert!(run(&home, "config check").exits(2).stderr.contains("neither absolute nor below"));
    set("[adapters.pi]\nroot = []\n");
    assert!(run(&home, "config check").exits(2).stderr.contains("line 2"));
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    let home = sample_home();
    for line in ["ls -a", "ls -a --json", "schema", "version"] {
        let mut child = super::run::ostler(&home)
            .args(line.split(' '))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{line}: {:?}", output.status);
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{line}");
    }
}

#[test]
fn b4_without_a_home_it_says_so_instead_of_finding_nothing() {
    let home = TempHome::new();
    let mut command = super::run::ostler(&home);
    let ran = super::run::ran(command.env_remove("HOME").args(["ls", "-a"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    assert!(ran.stderr.contains("`HOME`"), "{ran:?}");
}

#[test]
fn row_17_a_helper_that_cannot_be_started_is_named() {
    let home = TempHome::new();
    // As a package of another system would leave it: the file is there, its interpreter is not.
    let helper = home.write("bin/ostler-net", "#!/no/such/loader\n");
    std::fs::set_permissions(&helper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = home.join("bin/ostler");
    if std::fs::hard_link(env!("CARGO_BIN_EXE_ostler"), &program).is_err() {
        std::fs::copy(env!("CARGO_BIN_EXE_ostler"), &program).unwrap();
    }
    let mut command = testkit::run::bare(&program, &home);
    let refused = ran(command.args(["fleet", "join", "--name", "here"])).exits(9);
    assert!(refused.stderr.contains("`ostler-net` is there and cannot be started"), "{refused:?}");
    assert!(refused.stderr.contains("from the same package"), "{refused:?}");
}
