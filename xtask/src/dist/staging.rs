//! The files of an installation as they lie below `/`, and the packages that are made of that: tarball and `.deb`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Release, create_dir, pack_tar_gz, place, run_quiet, workspace, write};

/// A tree that a package unpacks at `/`.
pub(super) struct Staging {
    root: PathBuf,
    work: PathBuf,
}

/// Where the program is after an installation.
const INSTALLED_PROGRAM: &str = "/usr/bin/ostler";

impl Staging {
    /// Lays out everything; manual pages, completions and the unit come from the program itself.
    pub(super) fn prepare(release: &Release, work: &Path, notices: &str) -> Result<Self, String> {
        let root = work.join("root");
        place(&release.binary, &root.join("usr/bin/ostler"), 0o755)?;
        place(&release.helper, &root.join("usr/bin/ostler-net"), 0o755)?;
        let ask = |words: &[&str]| {
            let mut command = Command::new(&release.binary);
            run_quiet(command.env("SOURCE_DATE_EPOCH", &release.epoch).args(words))
        };
        let man = root.join("usr/share/man/man1");
        create_dir(&man)?;
        ask(&["man", "--out", &man.to_string_lossy()])?;
        for page in fs::read_dir(&man).map_err(|error| error.to_string())? {
            let page = page.map_err(|error| error.to_string())?.path();
            run_quiet(Command::new("gzip").args(["-9", "--no-name"]).arg(page))?;
        }
        for (shell, place) in [
            ("bash", "usr/share/bash-completion/completions/ostler"),
            ("zsh", "usr/share/zsh/vendor-completions/_ostler"),
            ("fish", "usr/share/fish/vendor_completions.d/ostler.fish"),
        ] {
            write(&root.join(place), ask(&["completions", shell])?.as_bytes())?;
        }
        if release.is_linux() {
            let unit = ask(&["service", "install", "--print", INSTALLED_PROGRAM])?;
            write(&root.join("usr/lib/systemd/user/ostler.service"), unit.as_bytes())?;
        }
        let doc = root.join("usr/share/doc/ostler");
        for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            place(&workspace().join(file), &doc.join(file), 0o644)?;
        }
        write(&doc.join("THIRD-PARTY-NOTICES.txt"), notices.as_bytes())?;
        let copyright = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
                         Upstream-Name: ostler\n\nFiles: *\nLicense: MIT or Apache-2.0\n\
                         Comment: both texts, and those of everything that is linked in, lie beside this file.\n";
        write(&doc.join("copyright"), copyright.as_bytes())?;
        Ok(Self { root, work: work.to_owned() })
    }

    /// The manual pages, packed, in order.
    pub(super) fn manual_pages(&self) -> Result<Vec<PathBuf>, String> {
        let pages = fs::read_dir(self.root.join("usr/share/man/man1"));
        let pages = pages.map_err(|error| error.to_string())?;
        let mut pages: Vec<PathBuf> = pages.filter_map(|page| Some(page.ok()?.path())).collect();
        pages.sort();
        Ok(pages)
    }

    /// The tarball: one directory, to be unpacked anywhere. `bin` and `share` are laid out to be copied to a prefix.
    pub(super) fn make_tarball(&self, release: &Release) -> Result<PathBuf, String> {
        let name = release.tarball_name();
        let directory = self.work.join("tarball");
        let inside = name.trim_end_matches(".tar.gz");
        create_dir(&directory.join(inside))?;
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(self.root.join("usr/bin")).arg(self.root.join("usr/share"));
        run_quiet(copy.arg(directory.join(inside)))?;
        let to = release.out.join(&name);
        pack_tar_gz(release, &directory, inside, &to)?;
        Ok(to)
    }

    /// The Debian package. It has no scripts: what it unpacks is all there is.
    pub(super) fn make_deb(&self, release: &Release) -> Result<PathBuf, String> {
        let architecture = match release.processor() {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => return Err(format!("no Debian architecture is known for {other}")),
        };
        let depends = if release.is_static { "" } else { "Depends: libc6, libgcc-s1\n" };
        let kibibytes = tree_bytes(&self.root)?.div_ceil(1024);
        let control = format!(
            "Package: ostler\nVersion: {}\nArchitecture: {architecture}\nMaintainer: ostler maintainers <maintainers@ostler.invalid>\n\
             Installed-Size: {kibibytes}\nSection: utils\nPriority: optional\n{depends}\
             Description: the truth about every AI coding agent session on this machine\n \
             Lists the sessions of coding agents: which are alive, which wait for you, which are over; hosts terminals\n \
             that agents and people share, and cleans up without touching what may be alive.\n",
            release.version
        );
        let root = self.work.join("deb");
        let mut copy = Command::new("cp");
        run_quiet(copy.arg("-a").arg(&self.root).arg(&root))?;
        write(&root.join("DEBIAN/control"), control.as_bytes())?;
        run_quiet(Command::new("chmod").arg("-R").arg("u+rwX,go+rX,go-w").arg(&root))?;
        let to = release.out.join(format!("ostler_{}_{architecture}.deb", release.version));
        let mut build = Command::new("dpkg-deb");
        build.env("SOURCE_DATE_EPOCH", &release.epoch);
        build.args(["--root-owner-group", "-Zgzip", "--build"]).arg(&root).arg(&to);
        run_quiet(&mut build)?;
        Ok(to)
    }
}

/// The bytes of all files below a directory.
fn tree_bytes(directory: &Path) -> Result<u64, String> {
    let mut total = 0;
    for entry in fs::read_dir(directory).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let metadata = fs::symlink_metadata(&path).map_err(|error| error.to_string())?;
        total += if metadata.is_dir() { tree_bytes(&path)? } else { metadata.len() };
    }
    Ok(total)
}
