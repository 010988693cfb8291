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
    ("ostler-access", &["ostler-model", "ostler-sys"]),
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
    ("ostler-testkit", &[]),
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
