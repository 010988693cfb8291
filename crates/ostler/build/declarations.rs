//! Finds the files that declare commands. A module of the build script, and of the test that shows what a
//! new command takes.

use std::fs;
use std::path::Path;

/// The modules below a directory that declare commands.
pub(crate) fn find_declarations(directory: &Path, module: &str, found: &mut Vec<String>) {
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

/// The table of the registry: the commands of every such module.
pub(crate) fn render_table(sources: &Path) -> String {
    let mut modules = Vec::new();
    find_declarations(sources, "crate::cli", &mut modules);
    modules.sort();
    let mut table = String::from("static DECLARED_COMMANDS: &[&[CommandEntry]] = &[\n");
    for module in modules {
        table.push_str(&format!("    {module}::COMMANDS,\n"));
    }
    table.push_str("];\n");
    table
}
