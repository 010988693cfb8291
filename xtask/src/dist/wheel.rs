//! The Python wheel: the program as a script of a package without modules, for `pip`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Release, place, run_quiet, workspace, write};

/// Packs a directory as a wheel: names sorted, times fixed, with the list of hashes that pip checks.
const PACK: &str = include_str!("wheel.py");

pub(super) fn make_wheel(
    release: &Release,
    work: &Path,
    notices: &str,
    manual: &[PathBuf],
) -> Result<(), String> {
    let processor = release.processor();
    let platform = match (release.is_linux(), release.is_static) {
        // Nothing of the machine's is needed but its kernel.
        (true, true) => format!(
            "manylinux_2_17_{processor}.manylinux2014_{processor}.musllinux_1_1_{processor}"
        ),
        (true, false) => format!("linux_{processor}"),
        (false, _) => {
            let processor = if processor == "aarch64" { "arm64" } else { processor };
            format!("macosx_11_0_{processor}")
        }
    };
    let version = &release.version;
    let directory = work.join("wheel");
    let info = directory.join(format!("ostler-{version}.dist-info"));
    let scripts = directory.join(format!("ostler-{version}.data/scripts"));
    place(&release.binary, &scripts.join("ostler"), 0o755)?;
    place(&release.helper, &scripts.join("ostler-net"), 0o755)?;
    for page in manual {
        let pages = directory.join(format!("ostler-{version}.data/data/share/man/man1"));
        place(page, &pages.join(page.file_name().unwrap_or_default()), 0o644)?;
    }
    let readme = std::fs::read_to_string(workspace().join("README.md"));
    let readme = readme.map_err(|error| error.to_string())?;
    let metadata = format!(
        "Metadata-Version: 2.1\nName: ostler\nVersion: {version}\n\
         Summary: The truth about every AI coding agent session on this machine\n\
         License: MIT OR Apache-2.0\nRequires-Python: >=3.7\n\
         Description-Content-Type: text/markdown\n\n{readme}"
    );
    write(&info.join("METADATA"), metadata.as_bytes())?;
    let tags: String = platform.split('.').map(|tag| format!("Tag: py3-none-{tag}\n")).collect();
    let about = format!("Wheel-Version: 1.0\nGenerator: ostler\nRoot-Is-Purelib: false\n{tags}");
    write(&info.join("WHEEL"), about.as_bytes())?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        place(&workspace().join(file), &info.join("licenses").join(file), 0o644)?;
    }
    write(&info.join("licenses/THIRD-PARTY-NOTICES.txt"), notices.as_bytes())?;
    let to = release.out.join(format!("ostler-{version}-py3-none-{platform}.whl"));
    let mut pack = Command::new("python3");
    pack.args(["-c", PACK]).arg(&directory).arg(&to).arg(&release.epoch);
    run_quiet(&mut pack).map(drop)
}
