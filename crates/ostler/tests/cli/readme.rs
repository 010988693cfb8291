//! Every example of the README and of the book is run; every page is in the book, and every link leads somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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

#[test]
fn row_17_every_page_is_in_the_book_and_every_link_leads_somewhere() {
    let docs = workspace().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<String> = links_of(&summary).into_iter().collect();
    let decisions = fs::read_to_string(docs.join("decisions/README.md")).unwrap();
    let decided: BTreeSet<String> =
        links_of(&decisions).into_iter().map(|link| format!("decisions/{link}")).collect();
    for (name, page) in pages() {
        let is_listed = listed.contains(&name) || decided.contains(&name);
        assert!(name == "SUMMARY.md" || is_listed, "{name} is not in SUMMARY.md");
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
fn row_17_the_page_of_exit_codes_is_the_table() {
    let home = TempHome::new();
    let page = fs::read_to_string(workspace().join("docs/exit-codes.md")).unwrap();
    let table = run(&home, "help exit-codes").exits(0).stdout;
    let block = page.split("```").nth(1).unwrap().trim_start_matches("text\n");
    assert_eq!(block.trim(), table.trim(), "docs/exit-codes.md holds `ostler help exit-codes`");
}
