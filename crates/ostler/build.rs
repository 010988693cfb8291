//! Hands the target triple to `ostler version --json`, and collects what the files below `src/cli`
//! declare with `declare_commands!` into the table of the command registry.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=OSTLER_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/cli");
    let mut modules = Vec::new();
    find_declarations(Path::new("src/cli"), "crate::cli", &mut modules);
    modules.sort();
    let mut table = String::from("static DECLARED_COMMANDS: &[&[CommandEntry]] = &[\n");
    for module in modules {
        table.push_str(&format!("    {module}::COMMANDS,\n"));
    }
    table.push_str("];\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("commands.rs"), table).expect("a table that can be written");
}

/// The modules below a directory that declare commands.
fn find_declarations(directory: &Path, module: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("a directory of the sources") {
        let path = entry.expect("an entry of the sources").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            find_declarations(&path, &format!("{module}::{name}"), found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("a source that can be read");
            if text.lines().any(|line| line.starts_with("declare_commands![")) {
                let is_directory = name == "mod";
                found.push(if is_directory {
                    module.to_owned()
                } else {
                    format!("{module}::{name}")
                });
            }
        }
    }
}
