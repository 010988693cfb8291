//! The registry of commands: nothing is left out of it, its examples work, its cases look as they did.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use testkit::access::wait_until;

use super::cases::{Case, Entry, REGISTRY, Stage, Stages};
use super::declarations::render_table;

/// The kinds of case that every command has, or says why not.
const KINDS: [&str; 4] = ["empty", "usual", "refused", "incomplete"];

/// What is different in every run, and what stands for it: the only such list for the snapshots of commands. Ids of
/// conversations look like the fixtures' own, so [`without_uuids`] takes them out where ostler drew them; the pages of
/// `show.rs` keep all but ages.
const FILTERS: &[(&str, &str)] = &[
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[TIME]"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[TIME]"),
    (r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b", "[ULID]"),
    (r"\b(sha256:)?[0-9a-f]{64}\b", "[HASH]"),
    (r"\bSHA256:[A-Za-z0-9+/]{43}", "[FINGERPRINT]"),
    (r#""owner":\{.*?"uid":\d+\}"#, "\"owner\":[OWNER]"),
    (r"\b[0-9a-f]{11}-[0-9a-f]+-[0-9a-f]{4,8}-\d+\b", "[RECEIPT]"),
    (r"\b(recording|screenshot|snapshot)-\d+-", "$1-[N]-"),
    (r"\b\d+ events\b", "[N] events"),
    (r"\ba-[0-9a-z]{10}\b", "[ACCESS]"),
    (r"[0-9a-f]{32}", "[ID]"),
    (r"\bwh_[0-9a-f]{12}\b", "wh_[N]"),
    (r"ostler/[0-9a-f]{8}/[0-9a-f]{12}", "ostler/[SOCKET]"),
    (r"daemon-[0-9a-f-]+\.sock", "[SOCKET]"),
    (r"( events| last event|  up)( +)\S+\n", "$1$2[N]\n"),
    // A fake agent takes its name a moment after it was started.
    (r#""comm": "(python3|claude)""#, "\"comm\": \"[AGENT]\""),
    (r#"("(pid|\w+Pid|ppid|startTicks|start|uid)": )\d+"#, "$1[PID]"),
    (r"(pid|PID|user|start)([ =:]+)\d+", "$1$2[PID]"),
    (r#"("\w*([mM]s|[sS]eq|[bB]ytes|Size|[cC]ount|uptime|events)": )\d+"#, "$1[N]"),
    (r"\b(seq:?|[bB]ytes:|Events:|Last event:|Duration:) \d+(ms)?", "$1 [N]"),
    (r"\b(captured at seq|bytes|events|last event) {2}\d+\b", "$1  [N]"),
    (r"\b\d+(\.\d+)? (KiB|MiB|GiB|kB|MB|GB|B|bytes?)\b", "[SIZE]"),
    (r"\b\d+(\.\d+)?(ms|s|m|h|d|w|mo|y)\b( ago)?", "[AGE]"),
    (r#"("(timestamp|record|notedEnd)": )\d+"#, "$1[N]"),
    (r"(_sum\{[^}]*\}) [\d.]+", "$1 [N]"),
    (r#"(?s)("suffix": "_sum",.*?"value": )[\d.]+"#, "$1[N]"),
    // Every process on the machine counts, also those of other tests.
    (r#"("processes": )\d+"#, "$1[N]"),
    (r"\b(seen|documented) +(\S+) +(-|\d+) ", "$1  $2  [N] "),
    (r"just now", "[AGE]"),
    (r"ostler \d+\.\d+\.\d+", "ostler [VERSION]"),
    (r#""\d+\.\d+\.\d+""#, "\"[VERSION]\""),
    (r"x86_64-[a-z-]+|aarch64-[a-z-]+", "[TARGET]"),
    (r"[ \t]+\n", "\n"),
    (r"(\S) {2,}", "$1  "),
    // An age of less than a second.
    (r"  now  ", "  [AGE]  "),
];

#[test]
fn every_command_that_can_be_typed_is_an_entry() {
    let names: BTreeSet<&str> = REGISTRY.commands.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names.len(), REGISTRY.commands.len(), "a name is declared twice");
    for leaf in &REGISTRY.leaves {
        assert!(names.contains(leaf.as_str()), "`ostler {leaf}` has no entry");
    }
    for entry in &REGISTRY.commands {
        let is_family =
            REGISTRY.leaves.iter().any(|leaf| leaf.starts_with(&format!("{} ", entry.name)));
        assert!(
            is_family || REGISTRY.leaves.contains(&entry.name),
            "{} cannot be typed",
            entry.name
        );
    }
}

#[test]
fn every_command_has_a_case_of_every_kind_or_says_why_not() {
    let mut missing = Vec::new();
    for entry in REGISTRY.leaves() {
        for kind in KINDS {
            let has_case = entry.cases.iter().any(|case| case.kind == kind);
            let reason = entry.uncased.iter().find(|(uncased, _)| uncased == kind);
            match (has_case, reason) {
                (true, None) => {}
                (false, Some((_, reason))) if reason.len() > 10 => {}
                _ => missing.push(format!("{}: {kind}", entry.name)),
            }
        }
        let is_internal = entry.place.0 == "internal";
        if entry.examples.is_empty() && !is_internal || entry.examples.len() > 3 {
            missing.push(format!("{}: {} examples", entry.name, entry.examples.len()));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// A new command is one new file and one `mod` line: the files that name a command are its own.
#[test]
fn no_file_but_its_own_lists_a_command() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for directory in ["src/cli", "tests/cli"] {
        collect_sources(&root.join(directory), &mut files);
    }
    // Where lists of commands were once kept by hand.
    let shared = [
        "src/cli/mod.rs",
        "src/cli/registry.rs",
        "src/cli/tree.rs",
        "src/cli/schema.rs",
        "src/cli/man.rs",
        "src/cli/terminal/mod.rs",
        "src/cli/access/mod.rs",
        "src/cli/store/mod.rs",
        "tests/cli/json_contract.rs",
        "tests/cli/foreign_tree.rs",
        "tests/cli/cases.rs",
    ];
    for entry in REGISTRY.leaves() {
        let declared: Vec<_> = files
            .iter()
            .filter(|(_, text)| text.contains(&format!("entry!(\"{}\"", entry.name)))
            .map(|(path, _)| path.clone())
            .collect();
        assert_eq!(declared.len(), 1, "{} is declared in {declared:?}", entry.name);
        let file = Path::new(&declared[0]);
        let module = file.file_stem().unwrap().to_str().unwrap();
        let lines: Vec<String> = files
            .iter()
            .filter(|(path, _)| path.ends_with("mod.rs") && Path::new(path) != file)
            .flat_map(|(_, text)| text.lines())
            .filter(|line| line.ends_with(&format!("mod {module};")))
            .map(str::to_owned)
            .collect();
        // Two files of one name (`ls`, `store/ls`) have a line each, in two places.
        assert!((1..=2).contains(&lines.len()), "{}: {lines:?}", entry.name);
        let is_shared = |path: &str| shared.contains(&path) && Path::new(path) != file;
        for (path, text) in files.iter().filter(|(path, _)| is_shared(path)) {
            let listed = [format!("(\"{}\", ", entry.name), format!("=> \"{}\"", entry.name)];
            assert!(!listed.iter().any(|form| text.contains(form)), "{path} lists {}", entry.name);
        }
    }
}

/// A command is added to a copy of the sources as docs/guides/add-a-command.md says. The registry, and with it
/// dispatch, help, schemas and suites, has it by its own file alone; it does not compile without the one line.
#[test]
fn adding_a_command_touches_one_existing_file() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
    let copy = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    collect_sources(&sources, &mut files);
    for (path, text) in &files {
        let place = copy.path().join(Path::new(path).strip_prefix("src/cli").unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }
    let before = render_table(copy.path());
    assert_eq!(before, render_table(&sources));
    let command =
        "declare_commands![CommandEntry { ..entry!(\"greet\", GreetArgs, run_greet) }];\n";
    fs::write(copy.path().join("greet.rs"), command).unwrap();
    let after = render_table(copy.path());
    let new: Vec<_> = after.lines().filter(|line| !before.contains(line)).collect();
    assert_eq!(new, ["    crate::cli::greet::COMMANDS,"]);
    assert_eq!(after.lines().count(), before.lines().count() + 1);
    // `crate::cli::greet` is there once the one existing file says so, as it does of every other command.
    let root = fs::read_to_string(sources.join("mod.rs")).unwrap();
    for module in before.lines().filter_map(|line| line.trim().strip_prefix("crate::cli::")) {
        let top = module.split("::").next().unwrap();
        let lines = root.lines().filter(|line| line.ends_with(&format!("mod {top};")));
        assert_eq!(lines.count(), 1, "{top}");
    }
}

fn collect_sources(directory: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_sources(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let below = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
            files.push((below.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
}

/// The entries whose place in the registry, counted by `of`, is `part`: the suites run side by side.
fn share(part: usize, of: usize) -> impl Iterator<Item = &'static Entry> {
    REGISTRY.leaves().enumerate().filter(move |(at, _)| at % of == part).map(|(_, entry)| entry)
}

/// A line that has the daemon run, here or in the background.
fn run_daemon_example(stage: &Stage, line: &str) {
    let mut command = stage.command(line);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_until(line, || {
        // Between taking its lock and listening it does not answer.
        let told = stage.run("daemon status --json");
        told.code == 0 && told.result()["running"] == true
    });
    stage.run("daemon stop").exits(0);
    assert!(child.wait().unwrap().success(), "`ostler {line}`");
}

fn run_examples(part: usize) {
    for entry in share(part, 2) {
        // crates/net/tests/net/examples.rs runs those that need another machine.
        for example in entry.examples.iter().filter(|example| example.stage != "afar") {
            let stage = Stage::new(&example.stage);
            if example.stage == "served" {
                run_daemon_example(&stage, &example.line);
                continue;
            }
            let outcome = stage.run(&example.line);
            let expected: &[i32] = if example.stage == "person" { &[2] } else { &[0, 12] };
            // `doctor` has an exit code of its own for findings.
            let has_findings = entry.name == "doctor" && outcome.code == 1;
            assert!(
                expected.contains(&outcome.code) || has_findings,
                "`ostler {}`: {outcome:?}",
                example.line
            );
        }
    }
}

#[test]
fn every_example_works_1() {
    run_examples(0);
}

#[test]
fn every_example_works_2() {
    run_examples(1);
}

/// Human output and JSON of every case, in one snapshot per command.
fn take_snapshots(part: usize) {
    let mut settings = insta::Settings::clone_current();
    for (pattern, name) in FILTERS {
        settings.add_filter(pattern, *name);
    }
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path("snapshots/commands");
    settings.bind(|| {
        let mut stages = Stages::default();
        let mut failed = Vec::new();
        for entry in share(part, 4) {
            let shown: Vec<&Case> = entry.cases.iter().filter(|case| case.kind != "also").collect();
            if shown.is_empty() {
                continue;
            }
            let mut page = String::new();
            for case in shown {
                page.push_str(&render_case(&mut stages, case));
            }
            let name = entry.name.replace(' ', "-");
            let compared = std::panic::catch_unwind(|| insta::assert_snapshot!(name, page));
            failed.extend(compared.err().map(|_| entry.name.as_str()));
        }
        assert!(failed.is_empty(), "changed: {failed:?}");
    });
}

fn render_case(stages: &mut Stages, case: &Case) -> String {
    let mut page = format!("======== {} ({})\n", case.kind, case.stage);
    for before in &case.before {
        page.push_str(&format!("$ ostler {before}\n"));
    }
    for line in [case.line.clone(), format!("--json {}", case.line)] {
        let outcome = stages.run(case, &line);
        page.push_str(&format!("$ ostler {line}\n{}", outcome.stdout));
        for told in outcome.stderr.lines() {
            page.push_str(&format!("stderr: {told}\n"));
        }
        page.push_str(&format!("exit {}\n\n", outcome.ran.code));
    }
    // Conversations that ostler starts have ids that it drew.
    let draws_ids = ["installed", "paused", "grouped"].contains(&case.stage.as_str());
    if draws_ids { without_uuids(&page) } else { page }
}

fn without_uuids(page: &str) -> String {
    let is_uuid = |word: &str| {
        word.len() == 36
            && word.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
    };
    let mut rest = page;
    let mut plain = String::new();
    while let Some(first) = rest.chars().next() {
        match rest.get(..36).filter(|word| is_uuid(word)) {
            Some(word) => {
                plain.push_str("[UUID]");
                rest = &rest[word.len()..];
            }
            None => {
                plain.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    plain
}

#[test]
fn cases_look_as_they_did_1() {
    take_snapshots(0);
}

#[test]
fn cases_look_as_they_did_2() {
    take_snapshots(1);
}

#[test]
fn cases_look_as_they_did_3() {
    take_snapshots(2);
}

#[test]
fn cases_look_as_they_did_4() {
    take_snapshots(3);
}
