//! Hooks in agents' settings: in, in again, looked at, out, and nothing else touched.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::run::{Ran, ostler, ran, run};

/// Each agent, its settings file, and how far its hooks are right after they were installed.
const AGENTS: &[(&str, &str, &str)] = &[
    ("claude-code", ".claude/settings.json", "installed"),
    ("codex", ".codex/hooks.json", "not-trusted"),
    ("opencode", ".config/opencode/plugin/ostler.js", "installed"),
    ("gemini", ".gemini/settings.json", "installed"),
    ("pi", ".pi/agent/extensions/ostler.ts", "installed"),
    ("copilot", ".copilot/hooks/ostler.json", "installed"),
    ("qwen", ".qwen/settings.json", "installed"),
    ("droid", ".factory/settings.json", "installed"),
    ("kimi", ".kimi-code/config.toml", "installed"),
    ("cursor", ".cursor/hooks.json", "installed"),
];

/// Documents as people have them: all of them settings of agents that take JSON.
const DOCUMENTS: &[(&str, &str)] = &[
    ("empty", ""),
    ("blank lines", "\n\n"),
    ("only a comment", "// nothing yet\n"),
    ("empty object", "{}"),
    ("empty object on two lines", "{\n}\n"),
    ("minified", r#"{"a":1,"b":[1,2]}"#),
    ("no final newline", "{\n  \"a\": 1\n}"),
    ("tabs", "{\n\t\"a\": {\n\t\t\"b\": true\n\t}\n}\n"),
    ("four spaces", "{\n    \"a\": 1\n}\n"),
    ("carriage returns", "{\r\n  \"a\": 1,\r\n  \"hooks\": {}\r\n}\r\n"),
    ("byte order mark", "\u{feff}{\n  \"a\": 1\n}\n"),
    ("comments", "// top\n{\n  // one\n  \"a\": 1 // behind\n  /* end */\n}\n// bottom\n"),
    ("trailing commas", "{\n  \"a\": [1, 2,],\n  \"hooks\": {\"Stop\": [],},\n}\n"),
    ("a comment that ends the file", "{\"a\":1 // last\n}"),
    ("empty hooks", "{\n  \"hooks\": {}\n}\n"),
    ("an empty list", "{ \"hooks\": { \"Stop\": [ ] } }\n"),
    ("unusual spaces", "{\"a\" :\n1 ,   \"hooks\":{ } }  \n\n"),
    ("others' hooks", OTHERS),
];

const OTHERS: &str = r#"{
  "permissions": { "allow": ["Bash(ls:*)"] },
  "hooks": {
    // the formatter
    "PostToolUse": [
      { "matcher": "Edit", "hooks": [{ "type": "command", "command": "fmt" }] } // keep
    ],
    "Stop": [{"hooks":[{"type":"command","command":"/opt/ostler-like hook me"}]}],
    "SomethingNew": [{ "hooks": [] }]
  },
  "model": "x"
}
"#;

/// Every file below the home with its bytes; directories end in a slash. What ostler keeps for itself, the
/// trash above all, is another matter.
fn tree(home: &TempHome) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(directory: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                into.insert(path.join(""), Vec::new());
                walk(&path, into);
            } else {
                into.insert(path.clone(), fs::read(&path).unwrap_or_default());
            }
        }
    }
    let mut files = BTreeMap::new();
    walk(home.path(), &mut files);
    files.retain(|path, _| {
        ![".local", ".cache", "run"].iter().any(|own| path.starts_with(home.join(own)))
    });
    files
}

fn hooks(home: &TempHome, line: &str) -> Ran {
    run(home, &format!("hooks {line}"))
}

#[track_caller]
fn state(home: &TempHome, agent: &str) -> String {
    let result = hooks(home, &format!("status {agent} --json")).exits(0).result();
    result["agents"][0]["state"].as_str().unwrap().to_owned()
}

fn parsed(text: &[u8]) -> Value {
    let text = std::str::from_utf8(text).unwrap().trim_start_matches('\u{feff}');
    // The documents have comments at the ends of lines and between blanks only.
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let text = lines.collect::<Vec<_>>().join("\n").replace("/* end */", "");
    let text = text.replace(",]", "]").replace(",\n}", "\n}").replace("],}", "]}");
    if text.trim().is_empty() {
        return serde_json::json!({});
    }
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

#[test]
fn every_agent_in_an_empty_home_in_again_and_out() {
    for (agent, file, expected) in AGENTS {
        let home = TempHome::new();
        assert_eq!(state(&home, agent), "not-installed", "{agent}");
        hooks(&home, &format!("install {agent}")).exits(0);
        assert!(home.join(file).exists(), "{agent}");
        assert_eq!(state(&home, agent), *expected, "{agent}");
        let before = tree(&home);
        let again = hooks(&home, &format!("install {agent} --json")).exits(0).result();
        assert_eq!(again["agents"][0]["files"][0]["change"], "unchanged", "{agent}");
        assert_eq!(tree(&home), before, "{agent}");
        hooks(&home, &format!("uninstall {agent}")).exits(0);
        assert_eq!(tree(&home), BTreeMap::new(), "{agent}");
        hooks(&home, &format!("uninstall {agent}")).exits(0);
    }
}

#[test]
fn what_an_uninstall_removes_is_in_the_trash_and_comes_back() {
    let home = TempHome::new();
    hooks(&home, "install claude-code").exits(0);
    let installed = home.read(".claude/settings.json");
    hooks(&home, "uninstall claude-code").exits(0);
    assert!(!home.join(".claude/settings.json").exists());
    let receipts = run(&home, "trash ls --json").exits(0).result();
    assert_eq!(receipts["receipts"][0]["command"], "hooks uninstall", "{receipts}");
    assert_eq!(receipts["receipts"][0]["items"][0]["action"], "trashed", "{receipts}");
    run(&home, "undo").exits(0);
    assert_eq!(home.read(".claude/settings.json"), installed);
}

#[test]
fn an_uninstall_beside_the_daemon_goes_through_it() {
    let home = TempHome::new();
    hooks(&home, "install claude-code").exits(0);
    let daemon = super::daemon::Daemon::start(&home);
    hooks(&home, "uninstall claude-code").exits(0);
    assert!(!home.join(".claude/settings.json").exists());
    let receipts = run(&home, "trash ls --json").exits(0).result();
    assert_eq!(receipts["receipts"][0]["command"], "hooks uninstall", "{receipts}");
    drop(daemon);
}

#[test]
fn every_document_keeps_what_it_has_and_gets_its_bytes_back() {
    for (agent, file, expected) in AGENTS {
        if !file.ends_with(".json") {
            continue;
        }
        for (name, document) in DOCUMENTS {
            let home = TempHome::new();
            home.write(file, document);
            let before = tree(&home);
            hooks(&home, &format!("install {agent}")).exits(0);
            let installed = home.read(file);
            assert_eq!(state(&home, agent), *expected, "{agent}: {name}");
            assert!(is_within(document, &installed), "{agent}: {name}: only insertions");
            let kept = parsed(document.as_bytes());
            let now = parsed(&installed);
            for (key, value) in kept.as_object().unwrap().iter().filter(|(key, _)| *key != "hooks")
            {
                assert_eq!(now[key], *value, "{agent}: {name}");
            }
            assert!(now["hooks"].is_object(), "{agent}: {name}");
            let tree_before = tree(&home);
            hooks(&home, &format!("install {agent}")).exits(0);
            assert_eq!(tree(&home), tree_before, "{agent}: {name}: idempotent");
            hooks(&home, &format!("uninstall {agent}")).exits(0);
            assert_eq!(tree(&home), before, "{agent}: {name}");
        }
    }
}

/// Whether a text is another one with things inserted.
fn is_within(text: &str, longer: &[u8]) -> bool {
    let mut rest = longer.iter();
    text.trim_end().bytes().all(|byte| rest.any(|other| *other == byte))
}

#[test]
fn toml_keeps_its_comments_and_gets_its_bytes_back() {
    for document in [
        "",
        "# mine\nmodel = \"x\" # yes\n\n[a.b]\nc = [\n  1, # one\n]\n",
        "model = \"x\"\r\n\r\n[[hooks]]\r\nevent = \"Stop\"\r\ncommand = \"beep\"\r\n",
        "model = \"x\"",
        "\n\n# only a comment",
        "[projects.\"/a\"]\ntrust_level = \"trusted\"\n",
    ] {
        for (agent, file) in [("kimi", ".kimi-code/config.toml"), ("codex", ".codex/config.toml")] {
            let home = TempHome::new();
            if agent == "codex" && document.contains("[[hooks]]") {
                continue;
            }
            home.write(file, document);
            let before = tree(&home);
            hooks(&home, &format!("install {agent}")).exits(0);
            let installed = home.read(file);
            assert_ne!(installed, document.as_bytes());
            assert!(is_within(document, &installed), "{agent}: {document:?}");
            hooks(&home, &format!("install {agent}")).exits(0);
            assert_eq!(home.read(file), installed, "idempotent");
            hooks(&home, &format!("uninstall {agent}")).exits(0);
            assert_eq!(tree(&home), before, "{agent}: {document:?}");
        }
    }
}

#[test]
fn what_others_add_after_the_install_stays() {
    let home = TempHome::new();
    let file = home.write(".claude/settings.json", OTHERS);
    hooks(&home, "install claude-code").exits(0);
    let text = fs::read_to_string(&file).unwrap().replace("\"x\"", "\"y\"");
    // Another tool puts its hook into the group of ours, and one behind it.
    let ours = text.find("hook claude-code Stop").unwrap();
    let end = ours + text[ours..].find('}').unwrap() + 1;
    let text = format!("{}, {{ \"command\": \"theirs\" }}{}", &text[..end], &text[end..]);
    fs::write(&file, text).unwrap();
    assert_eq!(state(&home, "claude-code"), "foreign-edited");
    hooks(&home, "uninstall claude-code").exits(0);
    let after = fs::read_to_string(&file).unwrap();
    assert!(!after.contains("ostler-hooks"), "{after}");
    assert!(after.contains("\"theirs\"") && after.contains("// the formatter"), "{after}");
    let value = parsed(after.as_bytes());
    assert_eq!(value["hooks"]["Stop"][1]["hooks"][0]["command"], "theirs");
    assert_eq!(value["hooks"]["SomethingNew"], parsed(OTHERS.as_bytes())["hooks"]["SomethingNew"]);
    assert_eq!(value["hooks"].as_object().unwrap().len(), 3);
    assert_eq!(value["model"], "y");
    assert_eq!(home.read(".claude/settings.json.ostler-backup"), OTHERS.as_bytes());
}

#[test]
fn edits_are_told_from_other_versions_and_put_right() {
    for (agent, file, expected) in AGENTS {
        let edits: [(&str, &str, &str); 2] = match *file {
            file if file.ends_with(".js") || file.ends_with(".ts") => {
                [("catch {}", "catch { }", "foreign-edited"), ("hooks 1", "hooks 0", "outdated")]
            }
            file if file.ends_with(".toml") => [
                ("timeout = 5", "timeout = 50", "foreign-edited"),
                ("hooks 1", "hooks 0", "outdated"),
            ],
            _ => [("\": 5", "\": 50", "foreign-edited"), ("hooks 1", "hooks 0", "outdated")],
        };
        for (old, new, told) in edits {
            let home = TempHome::new();
            hooks(&home, &format!("install {agent}")).exits(0);
            let right = home.read(file);
            let text = String::from_utf8(right.clone()).unwrap();
            assert!(text.contains(old), "{agent}: {text}");
            home.write(file, text.replacen(old, new, 1));
            assert_eq!(state(&home, agent), told, "{agent}");
            hooks(&home, &format!("install {agent}")).exits(0);
            assert_eq!(state(&home, agent), *expected, "{agent}");
            assert_eq!(home.read(file), right, "{agent}");
        }
    }
}

#[test]
fn hooks_of_another_ostler_are_outdated_and_replaced() {
    let home = TempHome::new();
    let file = home.write(".claude/settings.json", OTHERS);
    hooks(&home, "install claude-code").exits(0);
    let program = env!("CARGO_BIN_EXE_ostler");
    let moved = fs::read_to_string(&file).unwrap().replace(program, "'/old place/ostler'");
    fs::write(&file, moved).unwrap();
    assert_eq!(state(&home, "claude-code"), "outdated");
    hooks(&home, "install claude-code").exits(0);
    assert_eq!(state(&home, "claude-code"), "installed");
    assert!(!fs::read_to_string(&file).unwrap().contains("/old place/"));
    hooks(&home, "uninstall claude-code").exits(0);
    assert_eq!(home.read(".claude/settings.json"), OTHERS.as_bytes());
}

#[test]
fn a_file_that_cannot_be_parsed_is_not_touched() {
    for (agent, file, text, place) in [
        ("claude-code", ".claude/settings.json", "{\n  \"a\": 1,\n  \"b\" 2\n}\n", "line 3"),
        ("gemini", ".gemini/settings.json", "{ 'a': 1 }", "line 1"),
        ("qwen", ".qwen/settings.json", "{\"hooks\": []}", "`hooks` is not an object"),
        ("droid", ".factory/settings.json", "{\"hooks\": {\"Stop\": 1}}", "`hooks.Stop`"),
        ("cursor", ".cursor/hooks.json", "{\"hooks\":{},\"hooks\":{}}", "there twice"),
        ("copilot", ".copilot/hooks/ostler.json", "[]", "not an object"),
        ("kimi", ".kimi-code/config.toml", "a = 1\nb = = 2\n", "line 2"),
        ("kimi", ".kimi-code/config.toml", "hooks = []\n", "`[[hooks]]`"),
        ("codex", ".codex/config.toml", "[a\n", "line 1"),
        ("pi", ".pi/agent/extensions/ostler.ts", "export default 1\n", "not written by ostler"),
        ("claude-code", ".claude/settings.json", "{\"a\": \"\u{0}", "line 1"),
    ] {
        let home = TempHome::new();
        home.write(file, text);
        let before = tree(&home);
        let refused = hooks(&home, &format!("install {agent}")).exits(13);
        assert!(refused.stderr.contains(place), "{agent}: {}", refused.stderr);
        assert!(refused.stderr.contains(file), "{agent}: {}", refused.stderr);
        assert!(refused.stderr.contains("hint: put the file right"), "{}", refused.stderr);
        let error = hooks(&home, &format!("install {agent} --json")).exits(13).envelope();
        assert_eq!(error["error"]["code"], "REFUSED");
        assert_eq!(tree(&home), before, "{agent}");
    }
}

#[test]
fn one_agent_that_is_refused_does_not_hold_up_the_others() {
    let home = TempHome::new();
    home.write(".claude/settings.json", "{");
    home.write(".qwen/settings.json", "{}");
    let ran = hooks(&home, "install --json").exits(13);
    let agents = ran.result()["agents"].as_array().unwrap().clone();
    let by_name = |name: &str| agents.iter().find(|agent| agent["agent"] == name).unwrap().clone();
    assert_eq!(agents.len(), 2, "only those that were ever run here");
    assert_eq!(by_name("claude-code")["problem"]["code"], "REFUSED");
    assert_eq!(by_name("qwen")["state"], "installed");
    assert_eq!(home.read(".claude/settings.json"), b"{");
}

#[test]
fn a_link_stays_a_link_and_a_mode_a_mode() {
    let home = TempHome::new();
    let real = home.write("dotfiles/claude.json", "{\n  \"a\": 1\n}\n");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let link = home.link(".claude/settings.json", "../dotfiles/claude.json");
    hooks(&home, "install claude-code").exits(0);
    assert!(link.is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("ostler-hooks"));
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    hooks(&home, "uninstall claude-code").exits(0);
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap(), "{\n  \"a\": 1\n}\n");
    home.link(".claude/settings.json", "../nowhere.json");
    let refused = hooks(&home, "install claude-code").exits(8);
    assert!(refused.stderr.contains("link to a file that is not there"), "{}", refused.stderr);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let home = TempHome::new();
    // A file where the directory should be stops even root.
    home.write(".cursor", "not a directory");
    let refused = hooks(&home, "install cursor").exits(8);
    assert!(refused.stderr.contains(".cursor/hooks.json"), "{}", refused.stderr);
    home.write(".claude/settings.json", "{}");
    let directory = home.join(".claude");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o500)).unwrap();
    let ran = hooks(&home, "install claude-code");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    // Root may write anyway.
    if ran.code != 0 {
        ran.exits(8);
        assert_eq!(home.read(".claude/settings.json"), b"{}");
    }
}

#[test]
fn an_edit_between_reading_and_writing_is_not_lost() {
    let home = TempHome::new();
    let file = home.write(".claude/settings.json", "{\n  \"a\": 1\n}\n");
    let pauses = Pauses::new();
    pauses.arm("atomic-update");
    let mut command = ostler(&home);
    let child = pauses.apply(command.args(["hooks", "install", "claude-code"]));
    let mut child = child.stdout(Stdio::null()).spawn().unwrap();
    pauses.wait("atomic-update");
    fs::write(&file, "{\n  \"a\": 2\n}\n").unwrap();
    pauses.release("atomic-update");
    assert!(child.wait().unwrap().success());
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"a\": 2") && text.contains("ostler-hooks"), "{text}");
    hooks(&home, "uninstall claude-code").exits(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\n  \"a\": 2\n}\n");
}

#[test]
fn a_kill_leaves_the_old_file_or_the_new_one() {
    let home = TempHome::new();
    let file = home.write(".claude/settings.json", OTHERS);
    for action in ["install", "uninstall"] {
        let before = fs::read(&file).unwrap();
        let pauses = Pauses::new();
        pauses.arm("atomic-update");
        let mut command = ostler(&home);
        let child = pauses.apply(command.args(["hooks", action, "claude-code"]));
        let mut child = child.stdout(Stdio::null()).spawn().unwrap();
        pauses.wait("atomic-update");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(fs::read(&file).unwrap(), before, "{action}");
        hooks(&home, &format!("{action} claude-code")).exits(0);
    }
    assert_eq!(fs::read(&file).unwrap(), OTHERS.as_bytes());
}

#[test]
fn a_dry_run_shows_the_change_and_makes_none() {
    let home = TempHome::new();
    home.write(".claude/settings.json", "{\n  \"a\": 1\n}\n");
    let before = tree(&home);
    let shown = hooks(&home, "install claude-code --dry-run").exits(0).stdout;
    assert!(shown.contains("-  \"a\": 1\n+  \"a\": 1,\n+  \"hooks\": {\n"), "{shown}");
    let result = hooks(&home, "install claude-code --dry-run --json").exits(0).result();
    assert_eq!(result["dryRun"], true);
    assert_eq!(result["agents"][0]["files"][0]["change"], "changed");
    assert_eq!(result["agents"][0]["state"], "not-installed");
    assert_eq!(tree(&home), before);
}

#[test]
fn a_project_has_hooks_of_its_own() {
    for (agent, file) in [
        ("claude-code", ".claude/settings.local.json"),
        ("codex", ".codex/hooks.json"),
        ("copilot", ".github/hooks/ostler.json"),
        ("opencode", ".opencode/plugin/ostler.js"),
    ] {
        let home = TempHome::new();
        let project = home.directory("work");
        let run = |action: &str| {
            let arguments = ["hooks", action, agent, "--scope", "project"];
            ran(ostler(&home).current_dir(&project).args(arguments)).exits(0)
        };
        run("install");
        assert!(project.join(file).exists(), "{agent}");
        assert_eq!(state(&home, agent), "not-installed", "the user's are another matter");
        run("uninstall");
        assert_eq!(tree(&home).len(), 1, "{agent}");
    }
    let home = TempHome::new();
    let refused = hooks(&home, "install kimi --scope project").exits(2);
    assert!(refused.stderr.contains("no hooks for a project"), "{}", refused.stderr);
}

#[test]
fn only_events_that_the_agent_knows_are_written() {
    let home = TempHome::new();
    hooks(&home, "install cursor").exits(0);
    let cursor = parsed(&home.read(".cursor/hooks.json"));
    assert_eq!(cursor["version"], 1);
    let known = ["sessionStart", "beforeSubmitPrompt", "postToolUse", "stop", "sessionEnd"];
    let mut written: Vec<&String> = cursor["hooks"].as_object().unwrap().keys().collect();
    written.sort();
    let mut known = known.to_vec();
    known.sort_unstable();
    assert_eq!(written, known);
    hooks(&home, "install codex").exits(0);
    let codex = parsed(&home.read(".codex/hooks.json"));
    assert_eq!(codex["hooks"]["notify"], Value::Null);
    assert_eq!(codex["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"], 1);
    hooks(&home, "install gemini").exits(0);
    let gemini = parsed(&home.read(".gemini/settings.json"));
    assert_eq!(gemini["hooks"]["AfterAgent"][0]["hooks"][0]["timeout"], 5000);
}

#[test]
fn codex_says_whether_its_user_has_agreed() {
    let home = TempHome::new();
    home.write(".codex/config.toml", "notify = [\"beep\"]\n");
    let ran = hooks(&home, "install codex").exits(0);
    assert!(ran.stderr.contains("names another program"), "{}", ran.stderr);
    assert!(ran.stderr.contains("/hooks"), "{}", ran.stderr);
    assert_eq!(home.read(".codex/config.toml"), b"notify = [\"beep\"]\n");
    assert_eq!(state(&home, "codex"), "not-trusted");
}

#[test]
fn names_that_are_no_agents_with_hooks_are_refused() {
    let home = TempHome::new();
    for name in ["clod", "aider"] {
        let refused = hooks(&home, &format!("install {name}")).exits(2);
        assert!(refused.stderr.contains("there are: claude-code, codex"), "{}", refused.stderr);
    }
    let refused = hooks(&home, "install").exits(2);
    assert!(refused.stderr.contains("no agent with hooks was ever run"), "{}", refused.stderr);
}

#[test]
fn what_is_installed_reports_to_the_spool() {
    let home = TempHome::new();
    hooks(&home, "install claude-code").exits(0);
    let settings = parsed(&home.read(".claude/settings.json"));
    let command = settings["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().unwrap();
    let payload = home.write("payload", r#"{"session_id":"s-1","cwd":"/a"}"#);
    let mut shell = std::process::Command::new("sh");
    shell.env_clear().env("HOME", home.path()).args(["-c", command]);
    let output = shell.stdin(fs::File::open(payload).unwrap()).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let spool = home.read(".local/state/ostler/spool/events.jsonl");
    let line: Value = serde_json::from_slice(&spool).unwrap();
    assert_eq!((&line["session"], &line["happening"]), (&"s-1".into(), &"turn-end".into()));
}

#[test]
fn b18_directories_that_were_empty_before_are_empty_after() {
    let home = TempHome::new();
    home.directory(".codex");
    home.directory(".config/opencode");
    let before = tree(&home);
    // `plugin` below it and `.gemini` are made by the installation, and go with it.
    hooks(&home, "install codex opencode gemini").exits(0);
    assert!(home.join(".config/opencode/plugin/ostler.js").exists());
    hooks(&home, "uninstall codex opencode gemini").exits(0);
    assert_eq!(tree(&home), before);
    // What somebody made meanwhile in the place of one is theirs.
    home.directory(".gemini");
    hooks(&home, "install gemini").exits(0);
    hooks(&home, "uninstall gemini").exits(0);
    assert!(home.join(".gemini").is_dir());
}

#[test]
fn b17_a_foreign_notify_reports_nothing_and_nothing_else_is_said() {
    let home = TempHome::new();
    home.write(".codex/config.toml", "notify = [\"/usr/bin/theirs\"]\n");
    let said = hooks(&home, "install codex --json").exits(0).result();
    let notes = said["agents"][0]["notes"].to_string();
    assert!(notes.contains("until then nothing is reported"), "{notes}");
    assert!(!notes.contains("through `notify`"), "{notes}");
}
