//! No arrow up or sideways: the crates depend on each other as the architecture page says.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// What each crate may use, directly.
const ALLOWED: &[(&str, &[&str])] = &[
    ("ostler-model", &[]),
    ("ostler-sys", &["ostler-model"]),
    ("ostler-adapters", &["ostler-model", "ostler-sys"]),
    ("ostler-store", &["ostler-model", "ostler-sys"]),
    ("ostler-host", &["ostler-model", "ostler-sys", "ostler-screen"]),
    ("ostler-reaper", &["ostler-model", "ostler-sys"]),
    (
        "ostler-openclaw",
        &["ostler-model", "ostler-sys", "ostler-adapters", "ostler-store", "ostler-reaper"],
    ),
    ("ostler-access", &["ostler-model", "ostler-sys", "ostler-reaper"]),
    (
        "ostler-flows",
        &[
            "ostler-model",
            "ostler-sys",
            "ostler-adapters",
            "ostler-store",
            "ostler-host",
            "ostler-reaper",
            "ostler-openclaw",
            "ostler-access",
        ],
    ),
    (
        "ostler",
        &[
            "ostler-model",
            "ostler-sys",
            "ostler-store",
            "ostler-reaper",
            "ostler-openclaw",
            "ostler-access",
            "ostler-flows",
        ],
    ),
    ("ostler-screen", &["ostler-model"]),
    // Speaks to other machines: knows wire types and the operating system, never what is done with them.
    ("ostler-net", &["ostler-model", "ostler-sys"]),
    ("ostler-testkit", &["ostler-model", "ostler-sys"]),
    // Asks all who read foreign bytes; nothing uses it but tests and fuzz targets.
    (
        "ostler-oracles",
        &[
            "ostler-model",
            "ostler-adapters",
            "ostler-screen",
            "ostler-host",
            "ostler-access",
            "ostler-flows",
            "ostler-net",
        ],
    ),
    // Lays the same siege as the suite, for longer.
    ("xtask", &["ostler-sys", "ostler-testkit"]),
];

#[test]
fn crates_depend_only_downwards() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let members: BTreeSet<String> =
        metadata.packages.iter().map(|package| package.name.to_string()).collect();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let may = allowed.get(name).unwrap_or_else(|| panic!("{name} has no line in ALLOWED"));
        for dependency in &package.dependencies {
            let ships = dependency.kind != DependencyKind::Development;
            if ships && members.contains(&dependency.name) {
                assert!(may.contains(&dependency.name.as_str()), "{name} uses {}", dependency.name);
            }
        }
    }
}

/// What reads agents' files and runs in their hooks has no network stack, and no verdict, plan or sweep can
/// take a fact from another machine: neither knows the helper, and they share no library that speaks to one.
#[test]
fn nothing_of_the_network_helper_is_in_ostler() {
    let metadata = MetadataCommand::new().exec().unwrap();
    let resolve = metadata.resolve.as_ref().unwrap();
    let name_of = |id: &cargo_metadata::PackageId| metadata[id].name.to_string();
    let mut left: Vec<_> =
        resolve.nodes.iter().filter(|node| name_of(&node.id) == "ostler").collect();
    let mut seen = BTreeSet::new();
    while let Some(node) = left.pop() {
        for dependency in &node.deps {
            let ships = dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
            if ships && seen.insert(name_of(&dependency.pkg)) {
                left.extend(resolve.nodes.iter().find(|node| node.id == dependency.pkg));
            }
        }
    }
    // So what `cargo xtask install` builds without `--net` is what it built before there was a helper:
    // the same size, the same time, the same cost of a hook.
    assert!(seen.contains("ostler-flows"));
    for banned in ["ostler-net", "async-nats", "rustls", "tokio-rustls", "rcgen", "nkeys"] {
        assert!(!seen.contains(banned), "ostler uses {banned}");
    }
}

#[test]
fn main_stays_tiny() {
    let main = include_str!("../../src/main.rs");
    assert!(main.lines().count() <= 60);
}

#[test]
fn files_that_the_architecture_page_names_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/guides/add-an-adapter.md",
        "docs/guides/add-a-command.md",
    ] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let is_path = word.contains('/') && !word.contains(['<', '$', ' ', '*', '~', ':']);
            if is_path && (word.starts_with("crates/") || word.starts_with("docs/")) {
                assert!(root.join(word).exists(), "{page} names {word}, which does not exist");
            }
        }
    }
}

/// One line of a walk: how deep it is, its file, its function.
fn parse_hop(line: &str) -> (usize, &str, &str) {
    let (file, function) = line.trim().split_once(' ').unwrap();
    (line.len() - line.trim_start().len(), file, function)
}

/// Whether a text calls a function, or declares it as what runs a command.
fn calls(text: &str, function: &str) -> bool {
    text.match_indices(function).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + function.len()..]);
        let is_whole = !before.ends_with(is_word);
        is_whole && after.starts_with(['(', ':']) && !before.ends_with("fn ")
    })
}

/// The bodies of all functions of that name in a file that rustfmt wrote: each ends where a brace stands as far
/// left as its `fn`.
fn bodies_of(text: &str, function: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let declares = |line: &str| {
        line.split_once("fn ").is_some_and(|(_, rest)| {
            rest.strip_prefix(function).is_some_and(|rest| rest.starts_with(['(', '<']))
        })
    };
    let mut bodies = String::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| declares(line)) {
        let end = format!("{}}}", " ".repeat(line.len() - line.trim_start().len()));
        for line in lines[at + 1..].iter().take_while(|line| **line != end) {
            bodies.push_str(line);
            bodies.push('\n');
        }
    }
    bodies
}

/// A crate may call itself and what `ALLOWED` says.
fn is_downward(from: &str, to: &str) -> bool {
    let package = |file: &str| match file.split('/').nth(1).unwrap() {
        "ostler" => "ostler".to_owned(),
        name => format!("ostler-{name}"),
    };
    let (from, to) = (package(from), package(to));
    let allowed = ALLOWED.iter().find(|(name, _)| *name == from);
    from == to || allowed.is_some_and(|(_, may)| may.contains(&to.as_str()))
}

#[test]
fn the_four_walks_are_true() {
    const MOST_HOPS: usize = 20;
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| {
        std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    let page = read("ARCHITECTURE.md");
    let walks: Vec<&str> =
        page.split("```walk ").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(walks.len(), 4);
    for walk in walks {
        let hops: Vec<_> = walk.lines().skip(1).map(parse_hop).collect();
        assert!(hops.len() <= MOST_HOPS, "{} hops: {walk}", hops.len());
        for (at, &(depth, file, function)) in hops.iter().enumerate() {
            let text = read(file);
            assert!(text.contains(&format!("fn {function}")), "{file} has no {function}");
            let Some((_, caller, by)) = hops[..at].iter().rev().find(|one| one.0 < depth) else {
                continue;
            };
            let called = calls(&bodies_of(&read(caller), by), function);
            let declared = text.contains("entry!(") && text.contains(&format!(", {function})"));
            assert!(called || declared, "{by} in {caller} does not call {function} of {file}");
            assert!(is_downward(caller, file), "{caller} may not call {file}");
        }
    }
}

#[test]
fn a_call_is_told_from_a_mention() {
    assert!(calls("x = read_it(1)", "read_it") && calls("read_it::<T>(1)", "read_it"));
    for other in ["fn read_it(", "reread_it(1)", "read_items(1)", "use a::read_it;"] {
        assert!(!calls(other, "read_it"), "{other}");
    }
    let text = "fn one() {\n    two();\n}\n\n    fn one<T>(\n    ) {\n        three()\n    }\nfn four() {\n    five();\n}\n";
    let bodies = bodies_of(text, "one");
    assert!(
        calls(&bodies, "two") && calls(&bodies, "three") && !calls(&bodies, "five"),
        "{bodies}"
    );
    assert!(is_downward("crates/flows/src/a.rs", "crates/sys/src/b.rs"));
    assert!(!is_downward("crates/sys/src/b.rs", "crates/flows/src/a.rs"));
}

/// Every way to remove or rename something. A `clippy.toml` bans each of them in every crate but the reaper
/// and `sys`, and what only tests and developers use.
const WAYS_TO_REMOVE: &[&str] = &[
    "std::fs::remove_file",
    "std::fs::remove_dir",
    "std::fs::remove_dir_all",
    "std::fs::rename",
    "rustix::fs::unlink",
    "rustix::fs::unlinkat",
    "rustix::fs::rmdir",
    "rustix::fs::rename",
    "rustix::fs::renameat",
    "rustix::fs::renameat_with",
    "ostler_sys::trash::remove_tree",
    "ostler_sys::trash::rename_noreplace",
    "ostler_sys::exchange::exchange_expected",
    "ostler_sys::exchange::give_back",
    "ostler_sys::exchange::remove_known",
    "ostler_sys::atomic::remove_own",
    "ostler_sys::atomic::rename_over",
    "ostler_sys::private::PrivateDir::unlink_name",
    "ostler_sys::private::PrivateDir::unlink_socket",
    "ostler_sys::private::PrivateDir::remove_child",
    "ostler_sys::private::PrivateDir::rename_noreplace",
    "ostler_sys::socket::abandon_socket",
    "ostler_sys::socket::drop_empty_directory",
];

#[test]
fn every_way_to_remove_is_banned_outside_the_reaper_and_sys() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in std::fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if ["reaper", "sys", "testkit", "oracles"].contains(&name.as_str()) {
            continue;
        }
        let bans = std::fs::read_to_string(path.join("clippy.toml")).unwrap();
        for way in WAYS_TO_REMOVE {
            assert!(bans.contains(&format!("\"{way}\"")), "{name} may call {way}");
        }
    }
}

/// Where something is removed or renamed beside the reaper, and how often: a process's own sockets, locks,
/// files that it was writing, and spool segments that were taken in. The numbers may only shrink.
const EXCEPTIONS: &[(&str, usize)] = &[
    ("access/src/keeper.rs", 2),
    ("access/src/open.rs", 1),
    ("access/src/root.rs", 1),
    ("access/src/stop.rs", 1),
    // The one place that opens foreign databases: not a removal.
    ("adapters/src/database.rs", 1),
    ("flows/src/bundle.rs", 1),
    ("flows/src/doctor.rs", 1),
    ("flows/src/hooks/files.rs", 1),
    ("flows/src/hooks/made.rs", 1),
    ("flows/src/permits.rs", 1),
    ("flows/src/tracks/intake.rs", 2),
    ("flows/src/terminal/export.rs", 2),
    ("flows/src/terminal/mod.rs", 1),
    ("flows/src/vault.rs", 2),
    ("host/src/artifacts.rs", 1),
    ("host/src/server/ending.rs", 1),
    ("host/src/server/headless.rs", 1),
    ("host/src/server/start.rs", 2),
    ("ostler/src/cli/agent_tty/doctor.rs", 2),
    ("ostler/src/web/control.rs", 1),
    ("store/src/index.rs", 1),
];

#[test]
fn exceptions_from_the_one_removal_pipeline_only_shrink() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut left: Vec<_> =
        std::fs::read_dir(&crates).unwrap().map(|one| one.unwrap().path().join("src")).collect();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|one| one.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let count = text.matches("clippy::disallowed_methods").count();
        if count > 0 {
            let allowed = text.matches("allow(clippy::disallowed_methods").count();
            assert_eq!(allowed, 0, "{}: an exception is expected, with its reason", path.display());
            let name = path.strip_prefix(&crates).unwrap().to_string_lossy().into_owned();
            found.insert(name, count);
        }
    }
    let listed = EXCEPTIONS.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert_eq!(found, listed, "left: what is there; right: what is listed");
}

/// Every way to overwrite or cut what a file holds. Files of ostler's own are replaced as a whole by `sys::atomic` or a
/// `PrivateDir`, foreign ones by the reaper: so these occur nowhere, but as listed below.
const WAYS_TO_OVERWRITE: &[&str] = &[
    "fs::write(",
    "fs::copy(",
    "File::create(",
    "truncate(true)",
    "set_len(",
    "ftruncate(",
    "OFlags::TRUNC",
];

/// Where a file is overwritten or cut, and how often. The numbers may only shrink.
const OVERWRITE_EXCEPTIONS: &[(&str, usize)] = &[
    // A log of a session whose last line was cut off: the part of a line goes.
    ("host/src/log/reader.rs", 1),
    // What was written of a line that did not get onto the disk as a whole.
    ("host/src/log/writer.rs", 1),
    // The second log of a program without a terminal, which is begun anew when it is full.
    ("host/src/server/headless.rs", 1),
    // What a daemon says on its standard error, from its start on.
    ("ostler/src/cli/daemon.rs", 1),
    // A page of the manual, where the user wants it.
    ("ostler/src/cli/man.rs", 1),
    // The bell of the events: what it holds says nothing.
    ("store/src/state.rs", 1),
];

#[test]
fn nothing_is_overwritten_but_what_is_listed() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let exempt = ["reaper", "sys", "testkit", "oracles"];
    let found = count_occurrences(&crates, WAYS_TO_OVERWRITE, |name| !exempt.contains(&name));
    let listed =
        OVERWRITE_EXCEPTIONS.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert_eq!(found, listed, "left: what is there; right: what is listed");
}

/// How often any of these texts stands in the code of the wanted crates, by file.
fn count_occurrences(
    crates: &std::path::Path,
    texts: &[&str],
    wanted: impl Fn(&str) -> bool,
) -> BTreeMap<String, usize> {
    let all = std::fs::read_dir(crates).unwrap().map(|one| one.unwrap().path());
    let mut left: Vec<_> = all
        .filter(|path| wanted(&path.file_name().unwrap().to_string_lossy()))
        .map(|path| path.join("src"))
        .collect();
    let mut found = BTreeMap::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|one| one.unwrap().path()));
            continue;
        }
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        let text = shipped_text(&path);
        let count: usize = texts.iter().map(|one| text.matches(one).count()).sum();
        if count > 0 {
            let name = path.strip_prefix(crates).unwrap().to_string_lossy().into_owned();
            found.insert(name, count);
        }
    }
    found
}

/// What reads the world beside the one `sys::machine::Machine` of a command: the clock, the environment, the
/// observer, and the directories that follow from the environment.
const WORLD_READERS: &[&str] = &[
    "clock::now(",
    "clock::time_since_boot(",
    "SystemTime::now(",
    "Timestamp::now(",
    "std::env::var",
    "std::env::current_dir(",
    "env::vars",
    "proc::current_observer(",
    "proc::identify_process(",
    "proc::identify_self(",
    "dirs::of_this_process(",
    "dirs::home_of_this_process(",
    "dirs::runtime_of_this_process(",
    "Machine::here(",
    "Machine::with_home(",
];

/// Where the world is read beside a machine that was given, and how often. The numbers may only shrink.
const WORLD_EXCEPTIONS: &[(&str, usize)] = &[
    // A role of its own: it is started without an environment and told its home.
    ("access/src/keeper.rs", 1),
];

#[test]
fn journeys_read_the_world_through_their_machine() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let journeys = ["reaper", "openclaw", "access", "flows"];
    let found = count_occurrences(&crates, WORLD_READERS, |name| journeys.contains(&name));
    let listed =
        WORLD_EXCEPTIONS.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert_eq!(found, listed, "left: what is there; right: what is listed");
}

#[test]
fn commands_read_the_environment_in_one_file() {
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut left = vec![src];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|one| one.unwrap().path()));
        } else if !path.ends_with("src/env.rs") {
            let reads = shipped_text(&path).contains("env::var");
            assert!(!reads, "{} reads the environment beside env.rs", path.display());
        }
    }
}

#[test]
fn top_level_modules_form_no_cycle() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut crates: Vec<_> =
        std::fs::read_dir(root).unwrap().map(|one| one.unwrap().path()).collect();
    crates.sort();
    for path in crates.iter().filter(|path| path.join("src").is_dir()) {
        let name = path.file_name().unwrap().to_string_lossy();
        let cycle = find_cycle(&module_graph(&path.join("src")));
        assert!(cycle.is_none(), "{name}: {}", cycle.unwrap_or_default().join(" -> "));
    }
}

/// Which top-level module of a crate names which others, by `crate::` paths and, at the top, `super::`; a name
/// that the root passes on counts for the module that it comes from.
fn module_graph(src: &std::path::Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut inner = Vec::new();
    for entry in std::fs::read_dir(src).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            inner.push((name, path));
        } else if name != "lib" && name != "main" {
            texts
                .entry(name)
                .or_default()
                .push_str(&shipped_text(&path).replace("super::", "crate::"));
        }
    }
    while let Some((module, directory)) = inner.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
            if path.is_dir() {
                inner.push((module.clone(), path));
            } else if !is_test {
                texts.entry(module.clone()).or_default().push_str(&shipped_text(&path));
            }
        }
    }
    let names: BTreeSet<String> = texts.keys().cloned().collect();
    let root = ["lib.rs", "main.rs"].map(|name| shipped_text(&src.join(name))).concat();
    let reexports = root_reexports(&root);
    let edges = |(module, text): (&String, &String)| {
        let mut named = root_names(text);
        let through_root: Vec<_> =
            named.iter().filter_map(|name| reexports.get(name).cloned()).collect();
        named.extend(through_root);
        named.retain(|name| names.contains(name) && name != module);
        (module.clone(), named)
    };
    texts.iter().map(edges).collect()
}

/// What a text takes from the root of its crate: of every `crate::` path the first name, of every
/// `crate::{…}` the first name of each of its entries.
fn root_names(text: &str) -> BTreeSet<String> {
    let first_word =
        |path: &str| path.trim().split(|c: char| !is_word(c)).next().unwrap().to_owned();
    let paths = text.split("crate::").skip(1);
    paths.flat_map(|rest| split_use_list(rest).into_iter().map(first_word)).collect()
}

/// The entries of a `{…}` list, or the one path that stands there.
fn split_use_list(text: &str) -> Vec<&str> {
    let Some(list) = text.strip_prefix('{') else { return vec![text] };
    let mut entries = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                entries.push(&list[start..at]);
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    entries
}

/// Which module a name comes from that a crate's root passes on: `pub use module::{…}`, whoever may see it.
/// Without this a module could take a type of its own user through the root, and no cycle would be seen.
fn root_reexports(root: &str) -> BTreeMap<String, String> {
    let mut reexports = BTreeMap::new();
    for statement in root.split(';') {
        let Some((visibility, path)) = statement.trim().rsplit_once("use ") else { continue };
        if !visibility.lines().last().unwrap_or_default().starts_with("pub") {
            continue;
        }
        let path = path.trim_start_matches("crate::").trim_start_matches("self::");
        let Some((module, rest)) = path.split_once("::") else { continue };
        let list = rest.find('{').map_or_else(|| vec![rest], |at| split_use_list(&rest[at..]));
        for entry in list {
            let name = entry.trim().rsplit(|c: char| !is_word(c)).next().unwrap();
            reexports.insert(name.to_owned(), module.to_owned());
        }
    }
    reexports
}

#[test]
fn a_name_that_the_root_passes_on_counts_for_its_module() {
    let names = |text: &str| root_names(text).into_iter().collect::<Vec<_>>();
    assert_eq!(names("use crate::{a::{b, c}, D};\ncrate::e::f()"), ["D", "a", "e"]);
    let root =
        "mod a;\npub use a::{B, c::D};\npub(crate) use e::f::G as H;\nuse i::J;\npub use k::L;";
    let passed_on: Vec<_> = root_reexports(root).into_iter().collect();
    let expected = [("B", "a"), ("D", "a"), ("H", "e"), ("L", "k")];
    assert_eq!(passed_on, expected.map(|(name, module)| (name.to_owned(), module.to_owned())));
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A file without its tests and comments.
fn shipped_text(path: &std::path::Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let shipped = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    shipped.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

fn find_cycle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(
        graph: &BTreeMap<String, BTreeSet<String>>,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> bool {
        let last = path.last().unwrap().clone();
        for next in &graph[&last] {
            if let Some(at) = path.iter().position(|one| one == next) {
                path.drain(..at);
                path.push(next.clone());
                return true;
            }
            if !done.contains(next) {
                path.push(next.clone());
                if walk(graph, path, done) {
                    return true;
                }
                path.pop();
            }
        }
        done.insert(last);
        false
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|start| {
        let mut path = vec![start.clone()];
        walk(graph, &mut path, &mut done).then_some(path)
    })
}

#[test]
fn a_cycle_is_found() {
    let graph = |edges: &[(&str, &str)]| {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry((*to).to_owned()).or_default();
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    };
    assert_eq!(find_cycle(&graph(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let found = find_cycle(&graph(&[("a", "b"), ("b", "c"), ("c", "b")])).unwrap();
    assert_eq!(found, ["b", "c", "b"]);
}
