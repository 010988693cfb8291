//! The npm packages: a small wrapper, and one package per platform with the program in it.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Release, pack_tar_gz, place, workspace, write};

/// The scope of the platforms' packages.
const SCOPE: &str = "@ostler";

/// Every platform that the wrapper may find a program for.
const PLATFORMS: [&str; 4] = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"];

/// The wrapper's program. Agents' hooks do not go through it: they name the program itself.
const WRAPPER: &str = include_str!("wrapper.js");

/// Makes both. The wrapper has the manual pages: npm installs those of a package that was asked for by name.
pub(super) fn make_packages(
    release: &Release,
    work: &Path,
    manual: &[PathBuf],
) -> Result<(), String> {
    let processor = match release.processor() {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => return Err(format!("npm has no name for {other}")),
    };
    let system = if release.is_linux() { "linux" } else { "darwin" };
    let version = &release.version;
    let common = json!({
        "version": version, "license": "MIT OR Apache-2.0",
        "description": "The truth about every AI coding agent session on this machine",
    });
    let with_common = |mut package: serde_json::Value| {
        if let (Some(package), Some(common)) = (package.as_object_mut(), common.as_object()) {
            package.extend(common.clone());
        }
        format!("{package:#}\n")
    };
    let platform = with_common(json!({
        "name": format!("{SCOPE}/{system}-{processor}"), "os": [system], "cpu": [processor],
        "files": ["bin", "LICENSE-MIT", "LICENSE-APACHE"], "preferUnplugged": true,
    }));
    let directory = work.join("npm-platform");
    place(&release.binary, &directory.join("package/bin/ostler"), 0o755)?;
    place(&release.helper, &directory.join("package/bin/ostler-net"), 0o755)?;
    write(&directory.join("package/package.json"), platform.as_bytes())?;
    place_licences(&directory)?;
    let name = format!("ostler-npm-{system}-{processor}-{version}.tgz");
    pack_tar_gz(release, &directory, "package", &release.out.join(name))?;
    let optional: serde_json::Map<String, serde_json::Value> = PLATFORMS
        .iter()
        .map(|platform| (format!("{SCOPE}/{platform}"), version.as_str().into()))
        .collect();
    let directory = work.join("npm-wrapper");
    let mut pages = Vec::new();
    for page in manual {
        let name = page.file_name().unwrap_or_default();
        place(page, &directory.join("package/man").join(name), 0o644)?;
        pages.push(format!("man/{}", name.to_string_lossy()));
    }
    let wrapper = with_common(json!({
        "name": "ostler", "bin": { "ostler": "bin/ostler.js" }, "engines": { "node": ">=16" },
        "files": ["bin", "man", "LICENSE-MIT", "LICENSE-APACHE"], "man": pages,
        "optionalDependencies": optional,
    }));
    let script = work.join("wrapper.js");
    write(&script, WRAPPER.as_bytes())?;
    place(&script, &directory.join("package/bin/ostler.js"), 0o755)?;
    write(&directory.join("package/package.json"), wrapper.as_bytes())?;
    place(&workspace().join("README.md"), &directory.join("package/README.md"), 0o644)?;
    place_licences(&directory)?;
    let to = release.out.join(format!("ostler-npm-{version}.tgz"));
    pack_tar_gz(release, &directory, "package", &to)
}

fn place_licences(directory: &Path) -> Result<(), String> {
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        place(&workspace().join(file), &directory.join("package").join(file), 0o644)?;
    }
    Ok(())
}
