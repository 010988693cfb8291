//! What is linked into the program: the bill of materials (CycloneDX) and the notices of third parties.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{run_quiet, workspace};

/// One package that is linked in.
struct LinkedPackage {
    name: String,
    version: String,
    licence: String,
    directory: PathBuf,
    checksum: Option<String>,
    /// Whether it is a crate of ostler's own.
    is_own: bool,
    depends_on: Vec<String>,
}

impl LinkedPackage {
    fn reference(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// Every package that is linked in, by name and version.
pub(super) struct Inventory {
    packages: Vec<LinkedPackage>,
}

impl Inventory {
    /// The packages of both programs for a target, from cargo's own resolution.
    pub(super) fn of_workspace(target: &str) -> Result<Self, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let ask = |more: &[&str]| {
            let mut command = Command::new(&cargo);
            command.args(["metadata", "--format-version", "1", "--locked"]).args(more);
            command.args(["--filter-platform", target]).current_dir(workspace());
            run_quiet(&mut command)
        };
        let text = ask(&["--offline"]).or_else(|_| ask(&[]))?;
        let metadata: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let checksums = lock_checksums()?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let by_id: BTreeMap<String, Value> = list(&metadata["packages"])
            .into_iter()
            .map(|package| (text_of(&package["id"]), package))
            .collect();
        let nodes: BTreeMap<String, Value> = list(&metadata["resolve"]["nodes"])
            .into_iter()
            .map(|node| (text_of(&node["id"]), node))
            .collect();
        let is_root = |(_, package): &(&String, &Value)| {
            let is_program = package["name"] == "ostler" || package["name"] == "ostler-net";
            is_program && package["source"].is_null()
        };
        let mut waiting: Vec<String> =
            by_id.iter().filter(is_root).map(|(id, _)| id.clone()).collect();
        if waiting.len() != 2 {
            return Err("the workspace does not have the two programs".to_owned());
        }
        let mut seen = BTreeSet::new();
        let mut packages = Vec::new();
        while let Some(id) = waiting.pop() {
            if !seen.insert(id.clone()) {
                continue;
            }
            let linked: Vec<String> = list(&nodes[&id]["deps"])
                .into_iter()
                // What only tests or build scripts need is in no program.
                .filter(|dep| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()))
                .map(|dep| text_of(&dep["pkg"]))
                .collect();
            let package = &by_id[&id];
            let (name, version) = (text_of(&package["name"]), text_of(&package["version"]));
            let manifest = PathBuf::from(text_of(&package["manifest_path"]));
            let reference = |id: &String| {
                let package = &by_id[id];
                format!("pkg:cargo/{}@{}", text_of(&package["name"]), text_of(&package["version"]))
            };
            packages.push(LinkedPackage {
                checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
                licence: package["license"]
                    .as_str()
                    .unwrap_or("see its files")
                    .replace('/', " OR "),
                directory: manifest.parent().unwrap_or(Path::new("/")).to_owned(),
                is_own: package["source"].is_null(),
                depends_on: linked.iter().map(reference).collect(),
                name,
                version,
            });
            waiting.extend(linked);
        }
        packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok(Self { packages })
    }

    /// The bill of materials.
    pub(super) fn render_bill(&self, version: &str) -> String {
        let component = |package: &LinkedPackage| {
            let mut component = json!({
                "type": "library", "bom-ref": package.reference(), "name": package.name,
                "version": package.version, "purl": package.reference(),
                "licenses": [{ "expression": package.licence }],
            });
            if let Some(checksum) = &package.checksum {
                component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
            }
            component
        };
        let dependency = |package: &LinkedPackage| {
            let mut depends_on = package.depends_on.clone();
            depends_on.sort();
            json!({ "ref": package.reference(), "dependsOn": depends_on })
        };
        let root = format!("pkg:cargo/ostler@{version}");
        let libraries = self.packages.iter().filter(|package| package.reference() != root);
        let bill = json!({
            "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": { "component": {
                "type": "application", "bom-ref": root, "name": "ostler", "version": version,
                "purl": root, "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            } },
            "components": libraries.map(component).collect::<Vec<_>>(),
            "dependencies": self.packages.iter().map(dependency).collect::<Vec<_>>(),
        });
        format!("{bill:#}\n")
    }

    /// The licences of everything that is linked in, each text once.
    pub(super) fn render_notices(&self) -> Result<String, String> {
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut list = String::new();
        for package in &self.packages {
            let found = licence_files(&package.directory)?;
            if package.is_own && found.is_empty() {
                continue;
            }
            let name = format!("{} {}", package.name, package.version);
            list.push_str(&format!("  {name}: {}\n", package.licence));
            for text in found {
                texts.entry(text).or_default().push(name.clone());
            }
        }
        let mut page = format!("What is linked into ostler, and under which licences.\n\n{list}");
        let mut texts: Vec<(Vec<String>, String)> =
            texts.into_iter().map(|(text, names)| (names, text)).collect();
        texts.sort();
        for (names, text) in texts {
            page.push_str(&format!(
                "\n{}\n{}\n\n{}\n",
                "=".repeat(80),
                names.join(", "),
                text.trim()
            ));
        }
        Ok(page)
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The hashes of what was downloaded, from the lock file.
fn lock_checksums() -> Result<BTreeMap<(String, String), String>, String> {
    let path = workspace().join("Cargo.lock");
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut checksums = BTreeMap::new();
    for block in text.split("[[package]]") {
        let value = |key: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")));
            line.map(|line| line.trim_end_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (value("name"), value("version"), value("checksum"))
        {
            checksums.insert((name, version), checksum);
        }
    }
    Ok(checksums)
}

/// The texts of the licence files of a package, those of fonts and bundled sources one directory below too.
fn licence_files(directory: &Path) -> Result<Vec<String>, String> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    for depth in 0..2 {
        for place in std::mem::take(&mut directories) {
            for entry in fs::read_dir(&place).map_err(|error| error.to_string())? {
                let path = entry.map_err(|error| error.to_string())?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
                let is_licence = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "OFL", "UNLICENSE"]
                    .iter()
                    .any(|word| name.starts_with(word));
                if path.is_dir() && depth == 0 && !path.is_symlink() {
                    directories.push(path);
                } else if path.is_file() && is_licence && !name.ends_with(".RS") {
                    files.push(path);
                }
            }
        }
    }
    files.sort();
    let read = |path: &PathBuf| {
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n").trim().to_owned())
    };
    files.iter().map(read).collect()
}
