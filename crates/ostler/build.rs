//! Hands the target triple to `ostler version --json`, and collects what the files below `src/cli`
//! declare with `declare_commands!` into the table of the command registry.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "build/declarations.rs"]
mod declarations;

fn main() {
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=OSTLER_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/cli");
    let table = declarations::render_table(Path::new("src/cli"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("commands.rs"), table).expect("a table that can be written");
}
