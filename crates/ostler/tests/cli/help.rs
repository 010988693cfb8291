//! Help, manual pages, completions: the whole reference is one snapshot, so no flag changes unseen.

use testkit::home::TempHome;

use super::cases::REGISTRY;
use super::run::{claude_session, ostler, ran, run};

#[test]
fn the_reference() {
    let home = TempHome::new();
    let mut reference = run(&home, "help").exits(0).stdout;
    for entry in &REGISTRY.commands {
        reference.push_str(&format!("\n======== ostler help {}\n\n", entry.name));
        reference.push_str(&run(&home, &format!("help {}", entry.name)).exits(0).stdout);
    }
    reference.push_str("\n======== ostler help exit-codes\n\n");
    reference.push_str(&run(&home, "help exit-codes").exits(0).stdout);
    insta::assert_snapshot!("reference", reference);
}

#[test]
fn the_help_lists_every_command_once_under_its_heading() {
    let home = TempHome::new();
    let help = run(&home, "--help").exits(0).stdout;
    let listed: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Every day:")
        .take_while(|line| *line != "Options:")
        .filter(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(listed[..5], ["ls", "show", "why", "status", "attach"]);
    for entry in &REGISTRY.commands {
        let is_shown = !entry.name.contains(' ') && entry.place.0 != "internal";
        let times = listed.iter().filter(|name| **name == entry.name).count();
        assert_eq!(times, usize::from(is_shown), "{} in {help}", entry.name);
    }
}

#[test]
fn the_help_of_every_command_ends_with_its_examples() {
    let home = TempHome::new();
    for entry in &REGISTRY.commands {
        let mut help = entry.name.split(' ').collect::<Vec<_>>();
        help.push("--help");
        let text = ran(ostler(&home).args(help)).exits(0).stdout;
        for example in &entry.examples {
            assert!(text.contains(&format!("  ostler {}\n", example.line)), "{text}");
        }
    }
}

/// The command lines that a page shows.
fn shown_lines(page: &str) -> Vec<Vec<String>> {
    let lines = page.lines().filter_map(|line| line.trim_start().strip_prefix("$ ostler "));
    // What explains a line stands two blanks behind it.
    lines.map(|line| split_words(line.split("  ").next().unwrap())).collect()
}

/// Words as a shell splits them, with single quotes.
pub(crate) fn split_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.trim().chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn row_17_every_line_of_every_topic_works() {
    let home = super::run::sample_home();
    // `-` is the newest session: let it be one that has said something.
    std::fs::remove_dir_all(home.join(".claude/sessions")).unwrap();
    let topics = run(&home, "help topics").exits(0).stdout;
    let mut lines = 0;
    for topic in topics.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()) {
        let page = run(&home, &format!("help {topic}")).exits(0).stdout;
        assert!(page.lines().count() > 3, "{topic}: {page}");
        let spoken = topic.replace('-', " ");
        assert_eq!(run(&home, &format!("help {spoken}")).exits(0).stdout, page);
        for words in shown_lines(&page) {
            let outcome = ran(ostler(&home).args(&words));
            assert!([0, 1, 12].contains(&outcome.code), "{topic}: {words:?}: {outcome:?}");
            assert!(outcome.code != 1 || words[0] == "doctor", "{topic}: {words:?}: {outcome:?}");
            lines += 1;
        }
    }
    assert!(lines > 30, "{lines}");
}

#[test]
fn row_17_the_topic_of_states_knows_every_state() {
    let home = TempHome::new();
    let page = run(&home, "help states").exits(0).stdout;
    let glossary = include_str!("../../../../docs/glossary.md");
    let rows = glossary.lines().skip_while(|line| !line.starts_with("| status | active"));
    let states: Vec<&str> = rows.skip(2).map_while(|row| row.split('|').nth(1)).collect();
    assert!(states.len() >= 7, "{states:?}");
    for state in states.iter().map(|state| state.trim()).chain(["working", "waiting", "idle"]) {
        assert!(page.contains(&format!("\n  {state} ")), "{state} is not in {page}");
    }
}

#[test]
fn row_17_errors_suggest_what_was_meant() {
    let home = super::run::sample_home();
    for (line, near) in [
        ("shwo -", "`show`"),
        ("ls --agnet codex", "did you mean `--agent`?"),
        ("hooks instal", "`install`"),
        ("help sates", "`ostler help states`"),
        ("help shwo", "`ostler help show`"),
        ("show 666e4f9c", "`666e4f9b`"),
        ("why 666e4f9b-6b85-4b9f-83d1-1435ba512bbb", "`666e4f9b-6b85-4b9f-83d1-1435ba512bba`"),
        ("ls --agent claud-code", "`claude-code`"),
        ("trash rm", "there are: ls, "),
        ("ls --limit x", "it is not a whole number"),
        ("sl", "did you mean `ls`?"),
        ("lst", "did you mean `ls`?"),
        ("shwo -", "did you mean `show`?"),
        ("hooks instal", "did you mean `install`?"),
        ("daemon strt", "did you mean `start`?"),
        ("access opne", "did you mean `open`?"),
        ("screensh", "did you mean `screenshot`?"),
        ("list", "`ostler ls`"),
        ("kill 666e4f9b", "`ostler stop`"),
        ("rm 666e4f9b", "`ostler gc`"),
        ("new", "`ostler launch`"),
        ("tail -", "`ostler logs`"),
        ("install", "`ostler setup`"),
        ("uninstall", "`ostler setup --undo`"),
        ("update", "whatever installed ostler updates it"),
        ("frobnicate", "`ostler help` lists the commands"),
        ("ls codex", "`ostler ls --filter codex`"),
        ("ls --agent claud", "`claude-code`"),
        ("ls --activity wating", "`waiting`"),
        ("ls --status exitd", "`exited`"),
        ("ls --attention needs-me", "`needs-you`"),
        ("attach", "`-` is the newest session"),
        ("show", "`-` is the newest session"),
        ("show 666e4f9bx", "`666e4f9b`"),
        // Only one session is about it.
        ("show 'codex first'", "`01a1e05b-2a2f-7a73-94fb-06f3b2a6e9b4`"),
    ] {
        let refused = ran(ostler(&home).args(split_words(line)));
        assert!([2, 3].contains(&refused.code), "{line}: {refused:?}");
        assert!(refused.stderr.contains(near), "{line}: {}", refused.stderr);
        let body = ran(ostler(&home).arg("--json").args(split_words(line)));
        let error = body.envelope()["error"].to_string();
        assert!(error.contains(near), "{line}: {error}");
    }
    // Nothing is guessed from a letter or two, or from what is like nothing.
    for line in ["show zz", "show something-else-entirely"] {
        let refused = run(&home, line).exits(3);
        assert!(!refused.stderr.contains("did you mean"), "{line}: {}", refused.stderr);
    }
}

#[test]
fn row_17_every_refused_command_line_has_one_form() {
    let home = super::run::sample_home();
    for line in [
        "ls --agnet codex",
        "ls --no-such-option",
        "ls --limit x",
        "ls --sort colour",
        "gc --plan abc",
        "doctor --fix --no-sweep",
        "fuse set --dir . --do stop",
        "frobnicate",
        "hooks instal",
        "trash rm",
        "show",
        "setup --without fish",
        "type build",
        "run build true --timeout 0",
        "inspect ../x",
        "attach",
        "create -- /no/such/program",
        "snapshot build --format gif",
        "batch build nonsense",
        "lock no-such-directory",
        "schema nothing",
        "usage --since soon",
        "help sates",
        "record export build --format flv",
    ] {
        let refused = ran(ostler(&home).args(split_words(line)));
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{line}: {refused:?}");
        let told: Vec<&str> = refused.stderr.lines().collect();
        let [error, hint] = told[..] else { panic!("{line}: {told:#?}") };
        let sentence = error.strip_prefix("error: ").unwrap_or_else(|| panic!("{line}: {error}"));
        let is_in_style = !sentence.ends_with('.')
            && !sentence.starts_with(|c: char| c.is_ascii_uppercase())
            && !sentence.contains("(os error");
        assert!(is_in_style, "{line}: {error}");
        assert!(hint.len() > 20 && hint.starts_with("hint: "), "{line}: {hint}");
    }
}

#[test]
fn version_answers_in_every_form() {
    let home = TempHome::new();
    for line in ["version", "--version", "-V"] {
        assert_eq!(
            run(&home, line).exits(0).stdout,
            format!("ostler {}\n", env!("CARGO_PKG_VERSION"))
        );
    }
    assert_eq!(run(&home, "version --json").result()["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn manual_pages_are_written() {
    let home = TempHome::new();
    assert!(run(&home, "man").exits(0).stdout.contains(".TH ostler"));
    assert!(run(&home, "man ls").exits(0).stdout.contains("ostler"));
    let pages = home.join("pages");
    std::fs::create_dir(&pages).unwrap();
    run(&home, "man --out pages").exits(0);
    assert!(pages.join("ostler.1").exists() && pages.join("ostler-ls.1").exists());
    run(&home, "man --out no/such/place").exits(8);
    // A page says of what it is, and of which day where a build does.
    let mut dated = ostler(&home);
    let page = ran(dated.env("SOURCE_DATE_EPOCH", "86400").args(["man", "access", "open"]));
    let page = page.exits(0).stdout;
    let title = format!(
        ".TH ostler-access-open 1 1970-01-02 \"ostler {}\" ostler\n",
        env!("CARGO_PKG_VERSION")
    );
    assert!(page.contains(&title), "{page}");
    assert!(page.contains("\nostler access open [OPTIONS] [\\-\\- <COMMAND>...]\n"), "{page}");
    let same = std::fs::read_to_string(pages.join("ostler-access-open.1")).unwrap();
    assert_eq!(same.replace(" 1  \"", " 1 1970-01-02 \""), page);
}

#[test]
fn completions_offer_live_ids() {
    let home = TempHome::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&home, &format!("completions {shell}")).exits(0).stdout;
        assert!(script.contains("ostler"), "{shell}");
    }
    claude_session(&home, "abcd1234-0000-4000-8000-000000000000", "/a", "find me");
    let mut command = ostler(&home);
    command.env("COMPLETE", "fish").args(["--", "ostler", "show", "abcd"]);
    let offered = ran(&mut command).stdout;
    assert!(offered.contains("abcd1234-0000-4000-8000-000000000000"), "{offered}");
}
