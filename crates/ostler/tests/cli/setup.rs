//! `ostler setup`: one plan, once, and taken back to the byte, whatever people's settings look like.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::run::{Ran, ostler, ran, run, sample_home};

/// What is to be the same afterwards: kind and mode, where a link leads, the bytes.
pub(crate) type TreePicture = BTreeMap<PathBuf, (u32, Option<PathBuf>, Vec<u8>)>;

/// Everything below the home but what is ostler's own.
pub(crate) fn picture(home: &TempHome) -> TreePicture {
    fn walk(home: &TempHome, directory: &Path, into: &mut TreePicture) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let own = [".local/state/ostler", ".cache/ostler", "run"];
            if own.iter().any(|own| path == home.join(own)) {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).unwrap();
            let bytes = match metadata.is_file() {
                true => fs::read(&path).unwrap(),
                false => Vec::new(),
            };
            let mode = metadata.permissions().mode();
            into.insert(path.clone(), (mode, fs::read_link(&path).ok(), bytes));
            if metadata.is_dir() {
                walk(home, &path, into);
            }
        }
    }
    // What ostler keeps for itself lies below directories that would otherwise appear with it.
    for parent in [".local/state", ".cache"] {
        fs::create_dir_all(home.join(parent)).unwrap();
    }
    let mut found = BTreeMap::new();
    walk(home, home.path(), &mut found);
    found
}

#[track_caller]
pub(crate) fn assert_same(before: &TreePicture, after: &TreePicture, what: &str) {
    let paths: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed: Vec<_> =
        paths.into_iter().filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(changed.is_empty(), "{what}: {changed:?}");
}

/// Settings as the lab's agents have them, and shells.
pub(crate) fn worked_home() -> TempHome {
    let home = sample_home();
    home.write(
        ".claude/settings.json",
        "{\n  \"permissions\": {\n    \"allow\": [\"Bash(ls:*)\"]\n  },\n  \"hooks\": {\n    \"Stop\": [\n      { \"hooks\": [{ \"type\": \"command\", \"command\": \"notify-send done\" }] }\n    ]\n  }\n}\n",
    );
    // As the real programs of the lab have left them: Codex and Qwen add to their own, without a line end.
    for (path, text) in [
        (
            ".codex/config.toml",
            "# mine\nmodel=\"fake-model\"\nmodel_provider=\"lab\"\ncheck_for_update_on_startup=false\n[model_providers.lab]\nname=\"lab\"\nbase_url=\"http://127.0.0.1:1/v1\"\nwire_api=\"responses\"\nenv_key=\"LAB_API_KEY\"\n[projects.\"/repo\"]\ntrust_level=\"trusted\"\n\n[tui]\nscreen_reader_detection_done = true\n\n[tui.model_availability_nux]\n\"gpt-6.1-sol\" = 1\n",
        ),
        (
            ".gemini/settings.json",
            r#"{"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": false}}"#,
        ),
        (
            ".qwen/settings.json",
            "{\n  \"security\": {\n    \"auth\": {\n      \"selectedType\": \"openai\"\n    }\n  },\n  \"general\": {\n    \"disableAutoUpdate\": true,\n    \"enableAutoUpdate\": false\n  },\n  \"$version\": 4,\n  \"ui\": {\n    \"autoModeAcknowledged\": true\n  }\n}",
        ),
        (
            ".factory/settings.json",
            r#"{"customModels":[{"model":"fake-model","displayName":"Fake","provider":"generic-chat-completion-api"}]}"#,
        ),
        (
            ".kimi-code/config.toml",
            "default_model=\"lab/fake\"\n[providers.lab]\ntype=\"openai\"\nbase_url=\"http://127.0.0.1:1/v1\"\napi_key=\"dummy-key\"\n[models.\"lab/fake\"]\nprovider=\"lab\"\nmodel=\"fake-model\"\nmax_context_size=100000\n",
        ),
        (
            ".copilot/config.json",
            "// User settings belong in settings.json.\n// This file is managed automatically.\n{\n  \"firstLaunchAt\": \"2026-11-18T10:48:31.772Z\",\n  \"appTipShown\": true\n}\n",
        ),
        (
            ".config/opencode/opencode.json",
            "{\n  \"$schema\": \"https://opencode.ai/config.json\",\"model\": \"lab/fake-model\", \"provider\": {\"lab\": {\"npm\": \"@ai-sdk/openai-compatible\"}}}\n",
        ),
    ] {
        home.write(path, text);
    }
    home.write(".bashrc", "PS1='$ '\n");
    home.write(".zshrc", "autoload -U compinit && compinit\n");
    home.directory(".config/fish");
    home
}

#[test]
fn row_17_setup_and_undo_give_back_every_byte() {
    let home = worked_home();
    let before = picture(&home);
    let plan = run(&home, "setup --dry-run --json").exits(0).result();
    assert_eq!((&plan["changes"], &plan["dryRun"]), (&true.into(), &true.into()));
    assert!(plan["hooks"].as_array().unwrap().len() >= 9, "{plan}");
    assert!(plan["hooks"][0]["files"][0]["diff"].is_string(), "{plan}");
    assert_same(&before, &picture(&home), "a dry run");
    let done = run(&home, "setup --yes").exits(0);
    assert!(done.stderr.contains("`ostler setup --undo` takes it back"), "{}", done.stderr);
    assert!(done.stderr.contains("fpath+=~/.zfunc"), "{}", done.stderr);
    assert!(home.join(".local/share/bash-completion/completions/ostler").exists());
    assert!(home.join(".config/fish/completions/ostler.fish").exists());
    assert!(home.join(".zfunc/_ostler").exists());
    let status = run(&home, "hooks status --json").exits(0).result();
    let states: Vec<_> =
        status["agents"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert!(!states.contains(&&"not-installed".into()), "{status}");
    let set_up = picture(&home);
    let again = run(&home, "setup --yes --json").exits(0).result();
    assert_eq!(again["changes"], false, "{again}");
    assert_same(&set_up, &picture(&home), "a second run");
    let preview = run(&home, "setup --undo --dry-run --json").exits(0).result();
    assert_eq!(preview["changes"], true, "{preview}");
    assert_same(&set_up, &picture(&home), "a dry run of the undo");
    run(&home, "setup --undo --yes").exits(0);
    assert_same(&before, &picture(&home), "taken back");
    let nothing = run(&home, "setup --undo --yes --json").exits(0).result();
    assert_eq!(nothing["changes"], false, "{nothing}");
}

#[test]
fn row_17_undo_takes_only_what_setup_did() {
    let home = worked_home();
    run(&home, "hooks install qwen").exits(0);
    home.write(".config/fish/completions/ostler.fish", "# my own\n");
    let before = picture(&home);
    let done = run(&home, "setup --yes").exits(0);
    assert!(done.stderr.contains("fish: another file is there"), "{}", done.stderr);
    run(&home, "setup --undo --yes").exits(0);
    assert_same(&before, &picture(&home), "hooks that were there before stay");
}

#[test]
fn row_17_what_others_change_after_setup_stays() {
    let home = worked_home();
    run(&home, "setup --yes").exits(0);
    let settings = home.join(".claude/settings.json");
    let text = fs::read_to_string(&settings).unwrap().replace("notify-send done", "beep");
    fs::write(&settings, text).unwrap();
    home.write(".zfunc/_ostler", "# edited\n");
    let undone = run(&home, "setup --undo --yes").exits(0);
    assert!(undone.stderr.contains("zsh: it was changed since"), "{}", undone.stderr);
    let text = fs::read_to_string(&settings).unwrap();
    assert!(text.contains("\"beep\"") && !text.contains("ostler-hooks"), "{text}");
    assert_eq!(home.read(".zfunc/_ostler"), b"# edited\n");
}

/// A name, and what lays such a home out.
type AwkwardHome = (&'static str, fn(&TempHome));

/// Claude Code's settings as people, and accidents, leave them.
fn awkward_homes() -> Vec<AwkwardHome> {
    const FILE: &str = ".claude/settings.json";
    vec![
        ("none", |home| drop(home.directory(".claude"))),
        ("empty", |home| drop(home.write(FILE, ""))),
        ("blank lines", |home| drop(home.write(FILE, "\n\n"))),
        ("a comment only", |home| drop(home.write(FILE, "// nothing yet\n"))),
        ("comments", |home| {
            home.write(
                FILE,
                "// top\n{\n  // one\n  \"a\": 1 // behind\n  /* end */\n}\n// bottom\n",
            );
        }),
        ("carriage returns", |home| {
            home.write(FILE, "{\r\n  \"a\": 1,\r\n  \"hooks\": {}\r\n}\r\n");
        }),
        ("byte order mark", |home| drop(home.write(FILE, "\u{feff}{\n  \"a\": 1\n}\n"))),
        ("tabs", |home| drop(home.write(FILE, "{\n\t\"a\": {\n\t\t\"b\": true\n\t}\n}\n"))),
        ("minified", |home| drop(home.write(FILE, r#"{"a":1,"b":[1,2]}"#))),
        ("no final newline", |home| drop(home.write(FILE, "{\n  \"a\": 1\n}"))),
        ("trailing commas", |home| {
            home.write(FILE, "{\n  \"a\": [1, 2,],\n  \"hooks\": {\"Stop\": [],},\n}\n");
        }),
        ("unusual spaces", |home| {
            home.write(FILE, "{\"a\" :\n1 ,   \"hooks\":{ } }  \n\n");
        }),
        ("a link", |home| {
            home.write("dotfiles/claude.json", "{\n  \"a\": 1\n}\n");
            home.link(FILE, "../dotfiles/claude.json");
        }),
        ("a link to a link", |home| {
            home.write("dotfiles/claude.json", "{}\n");
            home.link("between.json", "dotfiles/claude.json");
            home.link(FILE, "../between.json");
        }),
        ("a link to nowhere", |home| drop(home.link(FILE, "../nowhere.json"))),
        ("a linked directory", |home| {
            home.write("dotfiles/claude/settings.json", "{\n  \"a\": 1\n}\n");
            home.link(".claude", "dotfiles/claude");
        }),
        ("read-only", |home| {
            let file = home.write(FILE, "{\n  \"a\": 1\n}\n");
            fs::set_permissions(file, fs::Permissions::from_mode(0o400)).unwrap();
        }),
        ("for the group too", |home| {
            let file = home.write(FILE, "{\n  \"a\": 1\n}\n");
            fs::set_permissions(file, fs::Permissions::from_mode(0o664)).unwrap();
        }),
        ("two names", |home| {
            let file = home.write(FILE, "{\n  \"a\": 1\n}\n");
            fs::hard_link(file, home.join("second-name.json")).unwrap();
        }),
        ("large", |home| {
            let filler = "x".repeat(3 << 20);
            home.write(FILE, format!("{{\n  \"a\": \"{filler}\"\n}}\n"));
        }),
        ("huge", |home| drop(home.write(FILE, " ".repeat(17 << 20)))),
        ("broken", |home| drop(home.write(FILE, "{\n  \"a\": 1,\n  \"b\" 2\n}\n"))),
        ("not text", |home| drop(home.write(FILE, b"{\"a\": \"\xff\xfe\"}"))),
        ("a directory", |home| drop(home.directory(".claude/settings.json"))),
        ("a pipe", |home| {
            home.directory(".claude");
            let made = Command::new("mkfifo").arg(home.join(FILE)).status().unwrap();
            assert!(made.success());
        }),
        ("an old copy beside it", |home| {
            home.write(FILE, "{\n  \"a\": 1\n}\n");
            home.write(".claude/settings.json.bak", "{}");
        }),
    ]
}

#[test]
fn row_17_awkward_settings_come_back_to_the_byte() {
    let cases = awkward_homes();
    assert!(cases.len() >= 20);
    for (name, lay_out) in cases {
        let home = TempHome::new();
        // Another agent, whose settings are fine, is set up whatever the first one's are like.
        home.write(".qwen/settings.json", "{}\n");
        home.directory(".cursor");
        lay_out(&home);
        let before = picture(&home);
        let done = run(&home, "setup --yes");
        assert!([0, 8, 13].contains(&done.code), "{name}: {done:?}");
        assert!(
            String::from_utf8(home.read(".qwen/settings.json")).unwrap().contains("ostler-hooks")
        );
        if done.code != 0 {
            assert!(done.stderr.contains("error: claude-code: "), "{name}: {}", done.stderr);
        }
        let set_up = picture(&home);
        let again = run(&home, "setup --yes");
        assert_eq!(again.code, done.code, "{name}: {again:?}");
        assert_same(&set_up, &picture(&home), &format!("{name}: a second run"));
        run(&home, "setup --undo --yes").exits(0);
        assert_same(&before, &picture(&home), name);
    }
}

/// Starts `ostler` with a point armed, and waits until it is there.
pub(crate) fn start_paused(
    home: &TempHome,
    pauses: &Pauses,
    point: &str,
    words: &[&str],
) -> std::process::Child {
    pauses.arm(point);
    let mut command = ostler(home);
    let command = pauses.apply(command.args(words));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    pauses.wait(point);
    child
}

#[test]
fn row_17_settings_that_are_being_written_keep_both_changes() {
    let home = TempHome::new();
    let file = home.write(".claude/settings.json", "{\n  \"a\": 1\n}\n");
    let pauses = Pauses::new();
    let mut child = start_paused(&home, &pauses, "atomic-update", &["setup", "--yes"]);
    fs::write(&file, "{\n  \"a\": 2\n}\n").unwrap();
    pauses.release("atomic-update");
    assert!(child.wait().unwrap().success());
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"a\": 2") && text.contains("ostler-hooks"), "{text}");
    run(&home, "setup --undo --yes").exits(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\n  \"a\": 2\n}\n");
}

#[test]
fn row_17_a_killed_setup_can_be_taken_back_and_gone_on_with() {
    for point in ["setup.recorded", "atomic-update", "setup.hooked"] {
        let home = worked_home();
        let before = picture(&home);
        let pauses = Pauses::new();
        let mut child = start_paused(&home, &pauses, point, &["setup", "--yes"]);
        child.kill().unwrap();
        child.wait().unwrap();
        // A temporary file of the killed process is nobody's change.
        let after = || {
            let mut after = picture(&home);
            after.retain(|path, _| path.extension().is_none_or(|end| end != "tmp"));
            after
        };
        run(&home, "setup --undo --yes").exits(0);
        assert_same(&before, &after(), point);
        run(&home, "setup --yes").exits(0);
        run(&home, "setup --undo --yes").exits(0);
        assert_same(&before, &after(), point);
    }
}

#[test]
fn row_17_two_setups_at_once_are_one() {
    let home = worked_home();
    let before = picture(&home);
    let pauses = Pauses::new();
    let mut first = start_paused(&home, &pauses, "setup.recorded", &["setup", "--yes"]);
    let mut second = ostler(&home);
    let second = second.args(["setup", "--yes"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut second = second.spawn().unwrap();
    pauses.release("setup.recorded");
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
    run(&home, "setup --undo --yes").exits(0);
    assert_same(&before, &picture(&home), "taken back");
}

#[test]
fn row_17_without_anybody_to_ask_nothing_is_done() {
    let home = worked_home();
    let before = picture(&home);
    let refused = run(&home, "setup").exits(13);
    assert!(refused.stderr.contains("`--yes` carries it out"), "{}", refused.stderr);
    assert_eq!(run(&home, "setup --json").exits(13).error(), "REFUSED");
    assert_same(&before, &picture(&home), "refused");
}

/// Runs a line as a person at a terminal would, typing `typed`.
pub(crate) fn at_a_terminal(home: &TempHome, line: &str, typed: &str) -> Ran {
    let mut script = Command::new("sh");
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let shell = format!("printf '{typed}' | script -qec '{ostler} {line}' /dev/null");
    script.env_clear().env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.join("run"));
    script.env("PATH", std::env::var_os("PATH").unwrap()).env("TERM", "xterm").env("NO_COLOR", "1");
    script.current_dir(home.path());
    ran(script.args(["-c", &shell]).stdin(Stdio::null()))
}

#[test]
fn row_17_at_a_terminal_it_asks_once() {
    let home = worked_home();
    let before = picture(&home);
    let declined = at_a_terminal(&home, "setup", "n\\n");
    assert_eq!(declined.stdout.matches("[y/N]").count(), 1, "{}", declined.stdout);
    assert!(
        declined.stdout.contains("+") && declined.stdout.contains("PART"),
        "{}",
        declined.stdout
    );
    assert_same(&before, &picture(&home), "declined");
    let done = at_a_terminal(&home, "setup", "y\\n");
    assert_eq!(done.stdout.matches("[y/N]").count(), 1, "{}", done.stdout);
    assert!(home.join(".zfunc/_ostler").exists(), "{}", done.stdout);
    at_a_terminal(&home, "setup --undo", "y\\n");
    assert_same(&before, &picture(&home), "taken back");
}

#[test]
fn row_17_the_plan_of_many_agents_stays_in_sight() {
    let home = worked_home();
    let lines = |text: &str| text.lines().count();
    let whole = run(&home, "setup --dry-run").exits(0).stdout;
    assert!(lines(&whole) > 500, "{}", lines(&whole));
    let shown = at_a_terminal(&home, "setup --dry-run", "").stdout;
    assert!(lines(&shown) < 250, "{shown}");
    for said in ["more lines like these", "`ostler setup --dry-run | less` shows every line"] {
        assert!(shown.contains(said), "{shown}");
    }
    // Every file that changes is named in both.
    for file in whole.lines().filter_map(|line| line.strip_prefix("+++ ")) {
        assert!(shown.contains(file), "{file} is not in {shown}");
    }
}

#[test]
fn row_17_the_first_listing_at_a_terminal_names_setup_once() {
    let home = sample_home();
    assert!(!run(&home, "ls -a").stderr.contains("ostler setup"), "nobody is at a terminal");
    let first = at_a_terminal(&home, "ls -a", "");
    assert_eq!(first.stdout.matches("`ostler setup`").count(), 1, "{}", first.stdout);
    let last = first.stdout.trim_end().lines().last().unwrap();
    assert!(last.contains("`ostler setup`"), "it is the last line: {last}");
    let second = at_a_terminal(&home, "ls -a", "");
    assert!(!second.stdout.contains("`ostler setup`"), "{}", second.stdout);
    let other = sample_home();
    run(&other, "setup --yes --without service").exits(0);
    let listed = at_a_terminal(&other, "ls -a", "");
    assert!(!listed.stdout.contains("`ostler setup`"), "{}", listed.stdout);
}
