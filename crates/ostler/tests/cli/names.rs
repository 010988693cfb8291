//! Names that can be searched: public types are called differently, functions say what they are about, and
//! what the architecture page names is there. Errors can be searched, too: few are dropped without a note.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Public type names that more than one type has, and why. A name may only be taken off this list.
const REPEATED_NAMES: &[(&str, &str)] = &[
    ("ProcessHandle", "one for each platform, of which one is compiled"),
    ("TableSource", "one for each platform, of which one is compiled"),
    ("Connections", "those of lent credentials and those of a terminal's host"),
];

/// Of a hundred public types, how many may share their name with another.
const MAX_SHARED_PERCENT: usize = 8;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The sources below a directory, with their text.
fn sources_below(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

/// What a file ships: without the tests at its end.
fn shipped_part(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or_default()
}

/// The sources of the crates that reach users.
fn shipped_sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(workspace().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("testkit") && !path.ends_with("oracles") {
            found.extend(sources_below(&path.join("src")));
        }
    }
    let is_test = |path: &Path| {
        path.components().any(|part| part.as_os_str() == "tests")
            || path
                .file_stem()
                .is_some_and(|stem| stem == "tests" || stem.to_string_lossy().ends_with("_tests"))
    };
    found.retain(|(path, _)| !is_test(path));
    found.sort();
    found
}

/// The name of the type that a line makes public: `pub struct Name`, `pub(crate) enum Name`, ….
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => rest,
    };
    let (kind, rest) = rest.strip_prefix(' ')?.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    ["struct", "enum", "trait", "type", "union"].contains(&kind).then_some(name)
}

/// A file of which one platform's is compiled.
fn is_platform_file(path: &Path) -> bool {
    let names = ["linux", "macos", "other"];
    path.iter().any(|part| {
        let part = part.to_string_lossy();
        names.contains(&part.strip_suffix(".rs").unwrap_or(&part))
    })
}

#[test]
fn a_public_type_name_occurs_once() {
    let sources = shipped_sources();
    let mut names: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for (path, text) in &sources {
        for name in shipped_part(text).lines().filter_map(public_type) {
            names.entry(name).or_default().push(path);
        }
    }
    let total: usize = names.values().map(Vec::len).sum();
    assert!(total > 500, "only {total} public types were found");
    names.retain(|_, places| places.len() > 1);
    let shared: usize = names.values().map(Vec::len).sum();
    for (name, places) in &names {
        let is_listed = REPEATED_NAMES.iter().any(|(listed, _)| listed == name);
        assert!(is_listed, "{name} is the name of several public types: {places:#?}");
        let one_per_platform = places.iter().all(|place| is_platform_file(place));
        assert!(places.len() <= 2 || one_per_platform, "{name} more than twice: {places:#?}");
    }
    for (listed, _) in REPEATED_NAMES {
        assert!(names.contains_key(listed), "{listed} occurs once: take it off REPEATED_NAMES");
    }
    let most = total * MAX_SHARED_PERCENT / 100;
    assert!(shared <= most, "{shared} of {total} public types share their name, at most {most}");
}

#[test]
fn public_types_are_recognised() {
    assert_eq!(public_type("pub struct One<T> {"), Some("One"));
    assert_eq!(public_type("    pub(in crate::proc) enum Two {"), Some("Two"));
    assert_eq!(public_type("pub(crate) trait Three: Send {"), Some("Three"));
    assert_eq!(public_type("pub fn four() {"), None);
    assert_eq!(public_type("struct Five;"), None);
    assert_eq!(public_type("pub const fn six() {"), None);
}

/// Of a hundred functions, how many may have a name of one word: `new`, `open`, what a trait of another
/// crate wants.
const MAX_ONE_WORD_PERCENT: usize = 20;

/// The name of the function that a line begins.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_word = |word: &str| {
        ["const", "async", "unsafe", "extern", "\"C\""].contains(&word) || word.starts_with("pub")
    };
    let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (before.split_whitespace().all(is_word) && !name.is_empty()).then_some(name)
}

#[test]
fn functions_are_named_by_verb_and_object() {
    let sources = shipped_sources();
    let lines = sources.iter().flat_map(|(_, text)| shipped_part(text).lines());
    let names: Vec<&str> = lines.filter_map(function_name).collect();
    assert!(names.len() > 3000, "only {} functions were found", names.len());
    let short = names.iter().filter(|name| !name.trim_matches('_').contains('_')).count();
    let most = names.len() * MAX_ONE_WORD_PERCENT / 100;
    assert!(short <= most, "{short} of {} functions have one word, at most {most}", names.len());
}

#[test]
fn functions_are_recognised() {
    assert_eq!(function_name("    pub(crate) const fn read_one(self) {"), Some("read_one"));
    assert_eq!(function_name("fn two<T>() {"), Some("two"));
    assert_eq!(function_name("    /// As fn three."), None);
    assert_eq!(function_name("    read: fn(&[u8]) -> u8,"), None);
}

/// Of ten thousand lines, how many may drop a result without a note in the log: conversions, formatting
/// into memory, channels whose other end has gone. Everything else says `note_dropped` or `ok_or_note`.
const MAX_DROPPED: usize = 52;

#[test]
fn results_are_seldom_dropped_without_a_note() {
    let sources = shipped_sources();
    let lines = sources.iter().flat_map(|(_, text)| shipped_part(text).lines());
    let (mut all, mut dropped) = (0, 0);
    for line in lines {
        let is_code = !line.trim_start().starts_with("//");
        all += 1;
        dropped += usize::from(is_code && (line.contains(".ok()") || line.contains("let _ =")));
    }
    let most = all * MAX_DROPPED / 10_000;
    assert!(dropped <= most, "{dropped} results are dropped in {all} lines, at most {most}");
}

/// How many places at least note in the log what they drop. The number may only grow.
const MIN_NOTED: usize = 175;

#[test]
fn what_is_dropped_is_noted() {
    let sources = shipped_sources();
    let noted: usize = sources
        .iter()
        .flat_map(|(_, text)| shipped_part(text).lines())
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| line.matches(".note_dropped(").count() + line.matches(".ok_or_note(").count())
        .sum();
    assert!(noted >= MIN_NOTED, "{noted} places note what they drop, at least {MIN_NOTED}");
}

/// Crates whose spans of time stand in their `timeouts.rs`, by name.
const CRATES_THAT_WAIT: [&str; 6] = ["access", "flows", "host", "net", "openclaw", "ostler"];

/// How many spans of time may stand elsewhere: the limits of the daemon's client are a table of their own.
const MAX_LOOSE_SPANS: usize = 12;

/// Whether a line makes a span of time out of a number.
fn writes_a_span(line: &str) -> bool {
    let units = ["from_secs(", "from_millis(", "from_mins("];
    let begins_with_digit =
        |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit()) && !rest.starts_with("0)");
    units.iter().any(|unit| {
        let written = format!("Duration::{unit}");
        line.split(written.as_str()).skip(1).any(begins_with_digit)
    })
}

#[test]
fn spans_of_time_have_names_in_one_place_per_crate() {
    let crates = workspace().join("crates");
    let mut loose = Vec::new();
    for (path, text) in shipped_sources() {
        let below = path.strip_prefix(&crates).unwrap();
        let of_crate = below.iter().next().unwrap().to_string_lossy().into_owned();
        // What a rule says of time is policy, and stands beside the rule.
        let is_policy = below.components().any(|part| part.as_os_str() == "rules");
        if !CRATES_THAT_WAIT.contains(&&*of_crate) || is_policy || path.ends_with("timeouts.rs") {
            continue;
        }
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        for line in shipped_part(&text).lines().filter(is_code).filter(|line| writes_a_span(line)) {
            loose.push(format!("{}: {}", below.display(), line.trim()));
        }
    }
    let count = loose.len();
    assert!(count <= MAX_LOOSE_SPANS, "{count} spans of time outside timeouts.rs: {loose:#?}");
}

#[test]
fn spans_of_time_are_recognised() {
    assert!(writes_a_span("let until = now + Duration::from_secs(5 * 60);"));
    assert!(writes_a_span("std::thread::sleep(std::time::Duration::from_millis(20));"));
    assert!(!writes_a_span("Duration::from_millis(params.timeout_ms)"));
    assert!(!writes_a_span("Duration::from_secs(0)"));
}

/// The doc comments of a text, each as its words, with the line below it. One word in backticks is the name
/// of something outside the program, and says enough.
fn doc_comments(text: &str) -> Vec<(Vec<&str>, &str)> {
    let mut found = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        match line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) {
            Some(said) => words.extend(said.split_whitespace()),
            None if words.is_empty() => {}
            None => found.push((std::mem::take(&mut words), line)),
        }
    }
    found
}

#[test]
fn no_doc_comment_is_one_word() {
    let mut short = Vec::new();
    for (path, text) in shipped_sources() {
        // Below `cli`, they are the words of the help.
        if path
            .components()
            .any(|part| part.as_os_str() == "cli" || part.as_os_str() == "agent_tty")
        {
            continue;
        }
        for (words, below) in doc_comments(shipped_part(&text)) {
            if words.len() == 1 && !words[0].contains('`') {
                short.push(format!("{}: {:?} above `{below}`", path.display(), words[0]));
            }
        }
    }
    assert!(short.is_empty(), "a comment of one word says what the name says: {short:#?}");
}

/// The public items that a text declares, but those of traits.
fn public_items(text: &str) -> Vec<&str> {
    let kinds = ["fn", "struct", "enum", "trait", "type", "const", "static"];
    let mut found = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix("pub") else { continue };
        let rest = match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(')').map_or("", |(_, rest)| rest),
            None => rest,
        };
        let mut words = rest.split([' ', '(', '<', ':', ';', '=']).filter(|word| !word.is_empty());
        let is_modifier = |word: &&str| ["async", "unsafe"].contains(word);
        let mut word = words.find(|word| !is_modifier(word));
        if word == Some("const") && rest.contains("const fn ") {
            word = words.next();
        }
        if word.is_some_and(|word| kinds.contains(&word)) {
            found.extend(words.next());
        }
    }
    found
}

/// Public items that only tests use, and why they are there. A name may only be taken off this list.
const ONLY_TESTED: &[(&str, &str)] = &[
    ("one_of_each", "pages and tests of refusals are compared with all of them"),
    ("replays_offline", "a column of the status table, which its invariants compare"),
    ("turn_end_of", "what lines of each agent say of the end of a turn"),
    ("with_entry", "how an entry of OpenClaw's is to be written; nothing writes one yet"),
    ("without_host", "a terminal's channel that is fed with recorded streams"),
];

/// What a file has of code: without its modules of tests, wherever they stand, and without comments, as a link
/// in a comment uses nothing.
fn used_part(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" {
            let opens = |line: &&str| line.starts_with("mod ") && line.ends_with('{');
            if lines.peek().is_some_and(opens) {
                lines.by_ref().find(|line| *line == "}");
            }
        } else if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

#[test]
fn every_public_item_is_used() {
    let root = workspace();
    let mut texts: Vec<String> =
        shipped_sources().iter().map(|(_, text)| used_part(text)).collect();
    for beside in ["crates/testkit", "crates/oracles", "crates/net/examples", "xtask", "fuzz"] {
        texts.extend(sources_below(&root.join(beside)).into_iter().map(|(_, text)| text));
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for text in &texts {
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
            *counts.entry(word).or_default() += 1;
        }
    }
    let sources = shipped_sources();
    let mut unused = Vec::new();
    for (path, text) in &sources {
        // Declarations of one platform are used by code of that platform only.
        for name in public_items(shipped_part(text)).iter().filter(|_| !is_platform_file(path)) {
            if counts.get(name) == Some(&1) && !ONLY_TESTED.iter().any(|(one, _)| one == name) {
                unused.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(unused.is_empty(), "public, and named nowhere but in tests: {unused:#?}");
    for (name, _) in ONLY_TESTED {
        assert_eq!(counts.get(name), Some(&1), "{name} is used, or gone: take it off the list");
    }
}

#[test]
fn tests_use_nothing() {
    let text =
        "a();\n#[cfg(test)]\nmod b;\n// [`c`]\n#[cfg(test)]\nmod tests {\n    d();\n}\ne();\n";
    assert_eq!(used_part(text), "a();\nmod b;\ne();\n");
}

#[test]
fn public_items_are_recognised() {
    let text = "pub struct One<T> {\n    pub two: u8,\npub(crate) const fn three() {\npub const FOUR: u8 = 4;\n\
                pub async fn five(\npub(in crate::x) type Six = u8;\nfn seven() {\npub mod eight;";
    assert_eq!(public_items(text), ["One", "three", "FOUR", "five", "Six"]);
}

/// Whether a text defines something of this name.
fn defines(text: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    ["fn", "struct", "enum", "trait", "type", "const", "static", "mod"].iter().any(|kind| {
        let word = format!("{kind} {name}");
        text.match_indices(&word).any(|(at, _)| ends(&text[at + word.len()..]))
    })
}

/// Whether `crate::module::item` names a module or an item of the workspace.
fn is_item(root: &Path, path: &str) -> bool {
    let mut parts = path.split("::");
    let mut place = root.join("crates").join(parts.next().unwrap_or_default()).join("src");
    if !place.is_dir() {
        return false;
    }
    let mut text = std::fs::read_to_string(place.join("lib.rs")).unwrap_or_default();
    for part in parts {
        let (file, inner) = (place.join(format!("{part}.rs")), place.join(part));
        if file.is_file() || inner.join("mod.rs").is_file() {
            let own = if file.is_file() { file } else { inner.join("mod.rs") };
            text = std::fs::read_to_string(own).unwrap();
            place = inner;
        } else {
            let below = || sources_below(&place).iter().any(|(_, text)| defines(text, part));
            return defines(&text, part) || below();
        }
    }
    true
}

/// What a word in backticks of the page claims to be there, if it is not. `beside` is the directory of
/// the last path that the line has named: `a/b.rs`, `c.rs`.
fn find_missing(
    root: &Path,
    sources: &[(PathBuf, String)],
    word: &str,
    beside: &mut Option<PathBuf>,
) -> Option<String> {
    let missing = || Some(word.to_owned());
    if ["crates/", "docs/", "xtask/"].iter().any(|start| word.starts_with(start)) {
        let path = root.join(word);
        let parent = path.parent().map(Path::to_owned);
        let exists = if word.contains('<') { parent.as_ref()?.is_dir() } else { path.exists() };
        *beside = parent;
        return if exists { None } else { missing() };
    }
    if word.contains("::") {
        return if is_item(root, word) { None } else { missing() };
    }
    if word.ends_with(".rs") && !word.contains('/') {
        let there = match beside {
            Some(directory) => directory.join(word).is_file(),
            None => sources.iter().any(|(path, _)| path.ends_with(word)),
        };
        return if there { None } else { missing() };
    }
    let is_type = word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().all(|c| c.is_ascii_alphanumeric())
        && word.contains(|c: char| c.is_ascii_lowercase());
    let is_defined = || sources.iter().any(|(_, text)| defines(text, word));
    if is_type && !is_defined() { missing() } else { None }
}

#[test]
fn what_the_architecture_page_names_is_there() {
    let root = workspace();
    let sources = sources_below(&root.join("crates"));
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut missing = Vec::new();
    for line in page.lines() {
        let mut beside = None;
        for word in line.split('`').skip(1).step_by(2) {
            missing.extend(find_missing(&root, &sources, word, &mut beside));
        }
    }
    assert!(missing.is_empty(), "ARCHITECTURE.md names what is not there: {missing:#?}");
}

#[test]
fn a_name_that_is_not_there_is_noticed() {
    let root = workspace();
    let sources = sources_below(&root.join("crates/model"));
    let find = |word: &str| find_missing(&root, &sources, word, &mut None);
    for word in
        ["crates/model/src/status.rs", "model::rules::judge", "AgentProgram", "status.rs", "find"]
    {
        assert_eq!(find(word), None);
    }
    for word in ["crates/model/src/no.rs", "model::rules::no", "no::such", "NoSuchType", "no.rs"] {
        assert_eq!(find(word).as_deref(), Some(word));
    }
}
