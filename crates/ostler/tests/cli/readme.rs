//! Every example of the README and of the book is run; every page is in the book, and every link leads somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::home::TempHome;

use super::help::split_words;
use super::run::{ostler, ran, run, sample_home};

/// Commands that set up a machine; CI runs them, or what is behind them, itself.
const SETUP: [&str; 2] = ["cargo xtask install && ostler ls", ".ci/run"];

/// Programs whose lines are about something else than ostler itself: `cargo xtask dist-test` does what these say.
const OTHER_PROGRAMS: [&str; 8] = ["cargo", ".ci/run", "npm", "pip", "pipx", "uvx", "sudo", "tar"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A home where `-`, the newest session, is one that has said something.
fn worked_home() -> TempHome {
    let home = sample_home();
    fs::remove_dir_all(home.join(".claude/sessions")).unwrap();
    home
}

/// The command lines of a page's `console` blocks.
fn console_lines(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut in_console = false;
    for line in page.lines() {
        if let Some(fence) = line.strip_prefix("```") {
            in_console = fence == "console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_console) {
            lines.push(command.split("  #").next().unwrap().trim().to_owned());
        }
    }
    lines
}

/// Runs the lines of a page in one home, one after the other; returns how many.
fn run_page(name: &str, page: &str, home: &TempHome) -> usize {
    let mut examples = 0;
    for command in console_lines(page) {
        let words = split_words(&command);
        if OTHER_PROGRAMS.contains(&words[0].as_str()) {
            continue;
        }
        assert_eq!(words[0], "ostler", "{name} shows `{command}`, which no test runs");
        let outcome = ran(ostler(home).args(&words[1..]));
        let has_findings = words[1] == "doctor" && outcome.code == 1;
        assert!(
            [0, 12].contains(&outcome.code) || has_findings,
            "{name}: `{command}`: {outcome:?}"
        );
        examples += 1;
    }
    examples
}

#[test]
fn every_example_works() {
    let readme = fs::read_to_string(workspace().join("README.md")).unwrap();
    let examples = run_page("README.md", &readme, &worked_home());
    assert!(examples >= 8, "only {examples} examples");
    for command in SETUP {
        assert!(readme.contains(&format!("$ {command}\n")), "`{command}` is missing");
    }
}

#[test]
fn row_17_looking_sends_nothing_anywhere() {
    if Command::new("strace").arg("-V").output().is_err() {
        testkit::access::skipped("strace is not installed");
        return;
    }
    let home = worked_home();
    let log = home.join("calls");
    let lines =
        ["ls -a", "show -", "why -", "logs -", "search retry", "usage", "badge", "du", "ps"];
    for line in lines.into_iter().chain(["gc", "doctor --no-sweep", "setup --dry-run"]) {
        let like_us = ostler(&home);
        let mut traced = Command::new("strace");
        traced.env_clear().current_dir(home.path());
        for (name, value) in like_us.get_envs() {
            traced.env(name, value.unwrap_or_default());
        }
        traced.args(["-f", "-qq", "-e", "trace=socket,connect,sendto", "-o"]).arg(&log);
        traced.arg(like_us.get_program()).args(line.split(' '));
        let outcome = ran(&mut traced);
        assert!([0, 12].contains(&outcome.code), "{line}: {outcome:?}");
        let calls = fs::read_to_string(&log).unwrap();
        assert!(!calls.contains("AF_INET"), "`{line}` opens a connection: {calls}");
    }
}

/// Every page of the book below `docs`.
fn pages() -> Vec<(String, String)> {
    fn walk(directory: &Path, below: &str, pages: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{below}{}", path.file_name().unwrap().to_string_lossy());
            if path.is_dir() {
                walk(&path, &format!("{name}/"), pages);
            } else if name.ends_with(".md") {
                pages.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    walk(&workspace().join("docs"), "", &mut found);
    found.sort();
    found
}

#[test]
fn row_17_every_example_of_the_book_works() {
    let mut examples = 0;
    // A home for each: `-` is the newest session, which a page may have made itself.
    for (name, page) in pages().iter().filter(|(_, page)| !console_lines(page).is_empty()) {
        examples += run_page(name, page, &worked_home());
    }
    assert!(examples >= 50, "only {examples} examples");
}

#[test]
fn row_17_every_example_of_the_skill_works() {
    let skill = include_str!("../../skills/ostler/SKILL.md");
    let examples = run_page("SKILL.md", skill, &worked_home());
    assert!(examples >= 15, "only {examples} examples");
}

/// What the links of a page lead to, without those to other places.
fn links_of(page: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut in_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        }
        // What stands between backticks is code.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (at, _) in prose.match_indices("](").filter(|_| !in_code) {
            let target = &prose[at + 2..];
            let target = &target[..target.find(')').unwrap_or(target.len())];
            if !target.contains("://") && !target.starts_with('#') {
                links.push(target.split('#').next().unwrap().to_owned());
            }
        }
    }
    links
}

/// The summary, in which every decision must be listed by its title. `OSTLER_WRITE_PAGES=1` lists them anew.
fn list_decisions(path: &Path) -> String {
    const HEADING: &str = "- [Decisions](decisions/README.md)\n";
    let decisions = pages().into_iter().filter_map(|(name, page)| {
        let number = name.strip_prefix("decisions/")?.get(..4)?;
        let title = page.lines().next()?.trim_start_matches("# ");
        let is_numbered =
            number.starts_with('0') && title.starts_with(|c: char| c.is_ascii_digit());
        let title = if is_numbered { title.split_once(' ')?.1 } else { title };
        number.starts_with('0').then(|| format!("  - [{number} {title}]({name})\n"))
    });
    let decisions: String = decisions.collect();
    let summary = fs::read_to_string(path).unwrap();
    let (chapters, listed) = summary.split_once(HEADING).unwrap();
    if std::env::var_os("OSTLER_WRITE_PAGES").is_some() {
        fs::write(path, format!("{chapters}{HEADING}{decisions}")).unwrap();
        return fs::read_to_string(path).unwrap();
    }
    assert_eq!(listed, decisions, "OSTLER_WRITE_PAGES=1 lists the decisions in SUMMARY.md anew");
    summary
}

#[test]
fn row_17_every_page_is_in_the_book_and_every_link_leads_somewhere() {
    let docs = workspace().join("docs");
    let summary = list_decisions(&docs.join("SUMMARY.md"));
    let listed: BTreeSet<String> = links_of(&summary).into_iter().collect();
    for (name, page) in pages() {
        let title = page.lines().next().unwrap_or_default().trim_start_matches("# ");
        let is_listed = name == "SUMMARY.md" || listed.contains(&name);
        assert!(
            is_listed,
            "docs/SUMMARY.md lacks `- [{title}]({name})`: it would not be in the book"
        );
        let directory = docs.join(&name).parent().unwrap().to_owned();
        for link in links_of(&page) {
            assert!(directory.join(&link).exists(), "{name} links to {link}, which is not there");
        }
    }
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        for link in links_of(&fs::read_to_string(workspace().join(page)).unwrap()) {
            assert!(workspace().join(&link).exists(), "{page} links to {link}, which is not there");
        }
    }
}

#[test]
fn the_page_of_decisions_lists_every_one() {
    let directory = workspace().join("docs/decisions");
    let list = fs::read_to_string(directory.join("README.md")).unwrap();
    let listed: Vec<String> = links_of(&list);
    for (name, _) in pages() {
        let Some(page) = name.strip_prefix("decisions/").filter(|page| *page != "README.md") else {
            continue;
        };
        let times = listed.iter().filter(|link| *link == page).count();
        assert_eq!(times, 1, "docs/decisions/README.md lists {page}");
    }
}

#[test]
fn row_17_the_page_of_exit_codes_is_the_table() {
    let home = TempHome::new();
    let page = fs::read_to_string(workspace().join("docs/exit-codes.md")).unwrap();
    let table = run(&home, "help exit-codes").exits(0).stdout;
    let block = page.split("```").nth(1).unwrap().trim_start_matches("text\n");
    assert_eq!(block.trim(), table.trim(), "docs/exit-codes.md holds `ostler help exit-codes`");
}

/// Every page that a person reads: the README, the book, and what contributors read.
fn all_pages() -> Vec<(String, String)> {
    let tops = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"];
    let read = |name: &str| (name.to_owned(), fs::read_to_string(workspace().join(name)).unwrap());
    let decides = |name: &str| name.starts_with("decisions/");
    let book = pages().into_iter().filter(|(name, _)| !decides(name));
    tops.iter().map(|name| read(name)).chain(book).collect()
}

/// What a page shows as code within a sentence; line ends within it are blanks.
fn inline_code(page: &str) -> Vec<String> {
    let prose = page.split("\n```").step_by(2).collect::<Vec<_>>().join("\n");
    let code = prose.split('`').skip(1).step_by(2);
    code.map(|code| code.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The lines of blocks that need more than one machine, and so are not run as a whole.
fn session_lines(page: &str) -> Vec<String> {
    let blocks = page.split("```sh-session\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ "));
    lines.map(|line| line.split("  ").next().unwrap().to_owned()).collect()
}

#[test]
fn row_17_every_command_in_a_sentence_is_one() {
    let home = worked_home();
    let mut commands = BTreeSet::new();
    for (name, page) in all_pages() {
        for line in inline_code(&page).into_iter().chain(session_lines(&page)) {
            // What stands for something else, or is left out, is not typed.
            let typed =
                line.replace("[TEXT]", "").replace("AGENT", "codex").replace("LEVEL", "read");
            if typed.starts_with("ostler ") && !typed.contains('…') {
                commands.insert((typed, name.clone()));
            }
        }
    }
    let mut ran_before = BTreeSet::new();
    for (command, name) in commands {
        if !ran_before.insert(command.clone()) {
            continue;
        }
        let like_us = ostler(&home);
        let mut limited = Command::new("timeout");
        limited.env_clear();
        for (name, value) in like_us.get_envs() {
            limited.env(name, value.unwrap_or_default());
        }
        // No agent of this machine is started.
        limited.env("PATH", "/usr/bin:/bin").current_dir(home.path());
        limited.args(["--kill-after=1", "3", like_us.get_program().to_str().unwrap()]);
        let outcome =
            ran(limited.args(&split_words(&command)[1..]).stdin(std::process::Stdio::null()));
        // What it needs beside its name, a terminal or an id, may be left to the reader.
        let unknown = [
            "unrecognized subcommand",
            "unexpected argument",
            "invalid value",
            "there is no command",
        ];
        let is_wrong = unknown.iter().any(|word| outcome.stderr.contains(word));
        let code = outcome.code;
        assert!(!is_wrong && ![-1, 101].contains(&code), "{name} names `{command}`: {outcome:?}");
    }
    assert!(ran_before.len() >= 60, "{}", ran_before.len());
    run(&home, "daemon stop").exits(0);
}

/// What begins a block of code, and each of its lines.
fn code_lines(page: &str) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut fence = None;
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), &fence) {
            (Some(kind), None) => fence = Some(kind.to_owned()),
            (Some(_), Some(_)) => fence = None,
            (None, Some(kind)) => lines.push((kind.clone(), line.trim_start().to_owned())),
            (None, None) => {}
        }
    }
    lines
}

#[test]
fn row_17_no_command_of_the_book_stands_where_no_test_looks() {
    for (name, page) in all_pages() {
        for (kind, line) in code_lines(&page) {
            let is_run = ["console", "sh-session"].contains(&kind.as_str());
            // A snippet of a status bar or a shell is run by tests/cli/badge.rs.
            let is_snippet = name == "status-bars.md" && line == "ostler badge --format prompt";
            let typed = line.trim_start_matches("$ ").strip_prefix("ostler ");
            let is_command = typed.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii()));
            assert!(
                !is_command || is_run || is_snippet,
                "{name} shows `{line}` in a block of `{kind}`, which no test runs"
            );
        }
    }
}

#[test]
fn row_17_every_task_of_developers_is_one() {
    let tasks = fs::read_to_string(workspace().join("xtask/src/tools.rs")).unwrap();
    let variants = tasks.split("enum Task {").nth(1).unwrap().split("\n}").next().unwrap();
    let names: BTreeSet<String> = variants
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.split(['(', ' ']).next())
        .filter(|word| word.starts_with(|first: char| first.is_ascii_uppercase()))
        .map(|word| {
            let dashed = word.chars().enumerate().map(|(at, letter)| match letter {
                'A'..='Z' if at > 0 => format!("-{}", letter.to_ascii_lowercase()),
                letter => letter.to_ascii_lowercase().to_string(),
            });
            dashed.collect()
        })
        .collect();
    let mut named = 0;
    for (page, text) in all_pages() {
        for (at, _) in text.match_indices("cargo xtask ") {
            let rest = &text[at + "cargo xtask ".len()..];
            let end =
                rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
            assert!(names.contains(&rest[..end]), "{page}: `cargo xtask {}`", &rest[..end]);
            named += 1;
        }
    }
    assert!(named >= 10, "{named}");
}

#[test]
fn row_17_every_setting_of_the_book_is_valid() {
    let mut blocks = 0;
    for (name, page) in all_pages() {
        for block in page.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            // A snippet for another program: starship's is run by tests/cli/badge.rs.
            if block.starts_with("[custom.") || name.starts_with("guides/") {
                continue;
            }
            let home = TempHome::new();
            home.write(".config/ostler/config.toml", block);
            let checked = run(&home, "config check");
            assert_eq!(checked.code, 0, "{name}:\n{block}\n{checked:?}");
            blocks += 1;
        }
    }
    assert!(blocks >= 5, "{blocks}");
}
