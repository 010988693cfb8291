//! Hands the target triple to `ostler version --json`.

fn main() {
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=OSTLER_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}
