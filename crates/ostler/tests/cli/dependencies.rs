//! Licences, bans and sources of the dependencies, as `deny.toml` says: what `cargo deny check licenses
//! bans sources` asks, of the packages that Linux and macOS build, without a tool to install.

use cargo_metadata::{Metadata, MetadataCommand};

/// The platforms that ostler is built for.
const PLATFORMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin"];

fn deny_rules() -> toml::Table {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deny.toml");
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

/// All packages that are built for a platform. From what the build downloaded, where that is enough.
fn packages_of(platform: &str) -> Metadata {
    let ask = |offline: &[&str]| {
        let options = [&["--locked", "--filter-platform", platform], offline].concat();
        let options: Vec<String> = options.into_iter().map(str::to_owned).collect();
        MetadataCommand::new().other_options(options).exec()
    };
    ask(&["--offline"]).or_else(|_| ask(&[])).unwrap()
}

fn texts<'a>(rules: &'a toml::Table, section: &str, key: &str) -> Vec<&'a str> {
    let list = rules[section][key].as_array().unwrap().iter();
    list.map(|one| one.as_str().or_else(|| one["crate"].as_str()).unwrap()).collect()
}

#[test]
fn every_dependency_may_be_used_by_its_licence() {
    let rules = deny_rules();
    let allowed = texts(&rules, "licenses", "allow");
    for platform in PLATFORMS {
        for package in packages_of(platform).packages {
            let licence = package.license.unwrap_or_default();
            assert!(is_allowed(&licence, &allowed), "{}: {licence:?}", package.name);
        }
    }
}

#[test]
fn no_dependency_is_banned_and_all_come_from_the_registry() {
    let rules = deny_rules();
    assert_eq!(rules["sources"]["unknown-registry"].as_str(), Some("deny"));
    assert_eq!(rules["sources"]["unknown-git"].as_str(), Some("deny"));
    assert_eq!(rules["bans"]["wildcards"].as_str(), Some("deny"));
    for platform in PLATFORMS {
        let metadata = packages_of(platform);
        for (banned, wrappers) in bans(&rules) {
            for user in users_of(&metadata, banned) {
                assert!(wrappers.contains(&user), "{banned} is banned, and {user} uses it");
            }
        }
        for package in metadata.packages {
            let name = package.name.as_str();
            if let Some(source) = &package.source {
                assert!(source.is_crates_io(), "{name} comes from {source}");
                continue;
            }
            for dependency in package.dependencies.iter().filter(|one| one.path.is_none()) {
                assert_ne!(dependency.req.to_string(), "*", "{name}: {}", dependency.name);
            }
        }
    }
}

/// The banned crates, each with those that may use it all the same.
fn bans(rules: &toml::Table) -> Vec<(&str, Vec<&str>)> {
    rules["bans"]["deny"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let list = one.get("wrappers").and_then(toml::Value::as_array).into_iter().flatten();
            (one["crate"].as_str().unwrap(), list.map(|name| name.as_str().unwrap()).collect())
        })
        .collect()
}

/// Whoever is built with that crate.
fn users_of<'a>(metadata: &'a Metadata, name: &str) -> Vec<&'a str> {
    let resolve = metadata.resolve.as_ref().unwrap();
    let uses = |node: &&cargo_metadata::Node| {
        node.dependencies.iter().any(|id| metadata[id].name.as_str() == name)
    };
    resolve.nodes.iter().filter(uses).map(|node| metadata[&node.id].name.as_str()).collect()
}

/// Whether an SPDX expression is satisfied by these licences. `/` is an old way to write `OR`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let answer = any_of(&words, &mut at, allowed);
    answer && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize, allowed: &[&str]) -> bool {
    let mut answer = all_of(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        answer |= all_of(words, at, allowed);
    }
    answer
}

fn all_of(words: &[&str], at: &mut usize, allowed: &[&str]) -> bool {
    let mut answer = one_licence(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        answer &= one_licence(words, at, allowed);
    }
    answer
}

fn one_licence(words: &[&str], at: &mut usize, allowed: &[&str]) -> bool {
    let Some(&word) = words.get(*at) else { return false };
    *at += 1;
    if word == "(" {
        let answer = any_of(words, at, allowed);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return answer && closed;
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or_default();
        *at += 2;
        return allowed.contains(&format!("{word} WITH {exception}").as_str());
    }
    allowed.contains(&word)
}

#[test]
fn licence_expressions_are_understood() {
    let allowed = ["MIT", "OFL-1.1", "Apache-2.0 WITH LLVM-exception"];
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "GPL-3.0/MIT",
        "(MIT OR GPL-3.0) AND OFL-1.1",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
    ] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND Zlib", "Apache-2.0", "(MIT"]
    {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}
