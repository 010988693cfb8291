//! `cargo xtask dist-test`: makes the release twice and compares, then installs each package where nothing else is,
//! uses it there, takes it away, and looks for what is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use super::{Options as DistOptions, create_dir, make_release, run_quiet};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where the packages and the clean roots are made.
    #[arg(long, default_value = "target/dist-test")]
    dir: PathBuf,
    /// Package this program instead of building one: `cargo xtask install --debug --root target/installed` makes one quickly.
    #[arg(long)]
    binary: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> ExitCode {
    match check_release(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn check_release(options: &Options) -> Result<(), String> {
    let directory = std::path::absolute(&options.dir).map_err(|error| error.to_string())?;
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(|error| error.to_string())?;
    }
    create_dir(&directory)?;
    let make = |name: &str| {
        let base_url = "https://example.invalid/ostler/releases".to_owned();
        let options =
            DistOptions { out: directory.join(name), binary: options.binary.clone(), base_url };
        make_release(&options)
    };
    let files = make("first")?;
    let again = make("second")?;
    for (one, other) in files.iter().zip(&again) {
        let same =
            fs::read(one).ok() == fs::read(other).ok() && one.file_name() == other.file_name();
        if !same || files.len() != again.len() {
            return Err(format!("{} differs from one run to the next", one.display()));
        }
    }
    println!("{} files, the same twice", files.len());
    let checks = Checks { directory, files };
    checks.check_sums()?;
    checks.timed("tarball", Checks::check_tarball)?;
    checks.timed("npm", Checks::check_npm)?;
    checks.timed("wheel", Checks::check_wheel)?;
    if cfg!(target_os = "linux") {
        checks.timed("deb", Checks::check_deb)?;
    }
    checks.check_formula()
}

struct Checks {
    directory: PathBuf,
    files: Vec<PathBuf>,
}

impl Checks {
    /// The file whose name has these in it.
    fn file(&self, parts: &[&str]) -> Result<&Path, String> {
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let fits = |path: &&PathBuf| parts.iter().all(|part| name(path).contains(part));
        let found = self.files.iter().find(fits).map(PathBuf::as_path);
        found.ok_or_else(|| format!("no file of the release is named like {parts:?}"))
    }

    /// A directory of its own.
    fn room(&self, name: &str) -> Result<PathBuf, String> {
        let room = self.directory.join(name);
        create_dir(&room)?;
        Ok(room)
    }

    fn timed(&self, name: &str, check: fn(&Self) -> Result<(), String>) -> Result<(), String> {
        let begun = Instant::now();
        check(self).map_err(|reason| format!("{name}: {reason}"))?;
        println!(
            "{name}: installed, used and taken away in {:.1} s",
            begun.elapsed().as_secs_f64()
        );
        Ok(())
    }

    fn check_sums(&self) -> Result<(), String> {
        let mut command = Command::new("sha256sum");
        command.args(["--check", "--strict", "--quiet", "SHA256SUMS"]);
        run_quiet(command.current_dir(self.directory.join("first"))).map(drop)
    }

    fn check_tarball(&self) -> Result<(), String> {
        let room = self.room("tarball")?;
        let tarball = self.file(&[".tar.gz"])?;
        run_quiet(Command::new("tar").arg("-xzf").arg(tarball).arg("-C").arg(&room))?;
        let inside = fs::read_dir(&room).map_err(|error| error.to_string())?;
        let inside: Vec<PathBuf> = inside.filter_map(|one| Some(one.ok()?.path())).collect();
        let [prefix] = inside.as_slice() else { return Err("it has no one directory".to_owned()) };
        use_program(&prefix.join("bin/ostler"), &room.join("home"), &[])?;
        read_manual(&prefix.join("share/man"))
    }

    /// Both packages, as npm would fetch them: the wrapper finds the program beside itself.
    fn check_npm(&self) -> Result<(), String> {
        let prefix = self.room("npm")?;
        let npm = |words: &[&str], files: &[&Path]| {
            let mut command = Command::new("npm");
            command.args(words).args(["--prefix"]).arg(&prefix).args(files);
            command.args(["--offline", "--no-audit", "--no-fund", "--loglevel=error"]);
            command.env("npm_config_cache", self.directory.join("npm-cache"));
            command.env("HOME", self.directory.join("npm-home"));
            run_quiet(&mut command)
        };
        let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
        let wrapper = self.files.iter().find(|path| is_wrapper(path)).ok_or("no wrapper")?;
        npm(&["install", "--global"], &[self.file(&["-npm-", system])?, wrapper])?;
        use_program(&prefix.join("bin/ostler"), &self.directory.join("npm-user"), &[])?;
        let listed = npm(&["ls", "--global", "--parseable"], &[])?;
        let scope = prefix.join("lib/node_modules/@ostler");
        let platform = fs::read_dir(&scope).map_err(|error| format!("{listed}: {error}"))?;
        for package in platform.filter_map(Result::ok) {
            let name = format!("@ostler/{}", package.file_name().to_string_lossy());
            npm(&["uninstall", "--global", &name], &[])?;
        }
        npm(&["uninstall", "--global", "ostler"], &[])?;
        expect_nothing(&prefix, |path| path.ends_with("node_modules/.package-lock.json"))
    }

    fn check_wheel(&self) -> Result<(), String> {
        let room = self.room("venv")?;
        run_quiet(Command::new("python3").args(["-m", "venv"]).arg(&room))?;
        let before = list_files(&room)?;
        let pip = |words: &[&str], file: Option<&Path>| {
            let mut command = Command::new(room.join("bin/python3"));
            command.args(["-m", "pip", "--disable-pip-version-check", "--quiet"]).args(words);
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            run_quiet(command.args(file))
        };
        pip(&["install", "--no-index"], Some(self.file(&[".whl"])?))?;
        use_program(&room.join("bin/ostler"), &self.directory.join("venv-user"), &[])?;
        pip(&["uninstall", "--yes", "ostler"], None)?;
        let left: Vec<_> = list_files(&room)?.difference(&before).cloned().collect();
        let left: Vec<_> = left.iter().filter(|path| !path.contains("__pycache__")).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}")) }
    }

    /// In a root with nothing in it, where the program is all that can be run.
    fn check_deb(&self) -> Result<(), String> {
        let root = self.room("root")?;
        for place in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "proc", "tmp", "home", "dev"] {
            create_dir(&root.join(place))?;
        }
        for file in ["status", "available"] {
            super::write(&root.join("var/lib/dpkg").join(file), b"")?;
        }
        let dpkg = |words: &[&str], file: Option<&Path>| {
            let mut command = Command::new("dpkg");
            command.arg(format!("--root={}", root.display()));
            command.args(["--force-not-root", "--force-bad-path"]).args(words).args(file);
            command.stdin(Stdio::null());
            run_quiet(&mut command)
        };
        let deb = self.file(&[".deb"])?;
        dpkg(&["--force-depends", "--install"], Some(deb))?;
        if is_static(&root.join("usr/bin/ostler"))? {
            use_in_root(&root)?;
        } else {
            use_program(&root.join("usr/bin/ostler"), &root.join("home"), &[])?;
        }
        read_manual(&root.join("usr/share/man"))?;
        for file in [
            "usr/lib/systemd/user/ostler.service",
            "usr/share/bash-completion/completions/ostler",
            "usr/share/zsh/vendor-completions/_ostler",
            "usr/share/fish/vendor_completions.d/ostler.fish",
            "usr/share/doc/ostler/copyright",
            "usr/share/doc/ostler/THIRD-PARTY-NOTICES.txt",
        ] {
            if !root.join(file).is_file() {
                return Err(format!("{file} is not in the package"));
            }
        }
        fs::remove_dir_all(root.join("home")).map_err(|error| error.to_string())?;
        dpkg(&["--purge", "ostler"], None)?;
        expect_nothing(&root, |path| path.starts_with(root.join("var/lib/dpkg")))
    }

    /// The formula is Ruby, and names the tarball's hash.
    fn check_formula(&self) -> Result<(), String> {
        let formula = self.file(&["ostler.rb"])?;
        let text = fs::read_to_string(formula).map_err(|error| error.to_string())?;
        let tarball = fs::read(self.file(&[".tar.gz"])?).map_err(|error| error.to_string())?;
        if !text.contains(&sys::hash::sha256(&tarball)) {
            return Err("the formula names another tarball".to_owned());
        }
        match Command::new("ruby").arg("-c").arg(formula).output() {
            Ok(output) if !output.status.success() => {
                Err(String::from_utf8_lossy(&output.stderr).into_owned())
            }
            Ok(_) => Ok(()),
            Err(_) => {
                println!("formula: not parsed, since ruby is not installed");
                Ok(())
            }
        }
    }
}

/// `ostler-npm-0.1.0.tgz`, not `ostler-npm-linux-x64-0.1.0.tgz`.
fn is_wrapper(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix("ostler-npm-")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn is_static(program: &Path) -> Result<bool, String> {
    super::has_interpreter(program).map(|dynamic| !dynamic)
}

/// Uses an installed program as somebody new would.
fn use_program(program: &Path, home: &Path, more: &[&str]) -> Result<(), String> {
    create_dir(home)?;
    for words in [&["ls"][..], &["version"], &["help"], &["setup", "--dry-run"]] {
        let mut command = Command::new(program);
        command.args(words).args(more).env_clear().env("HOME", home).stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("XDG_RUNTIME_DIR", home.join("run"));
        run_quiet(&mut command)?;
    }
    Ok(())
}

/// The same where nothing is but the package and the kernel's process table.
fn use_in_root(root: &Path) -> Result<(), String> {
    let script = r#"
        mount -t proc proc "$ROOT/proc"
        for words in ls version help "setup --dry-run"; do
            chroot "$ROOT" /usr/bin/ostler $words > /dev/null || exit 1
        done
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "sh", "-ec", script]).env("ROOT", root);
    command.env("HOME", "/home").env_remove("XDG_RUNTIME_DIR").env_remove("OSTLER_HOME");
    run_quiet(&mut command).map(drop)
}

/// `man ostler` finds its page and can draw it.
fn read_manual(pages: &Path) -> Result<(), String> {
    let page = pages.join("man1/ostler.1.gz");
    if !page.is_file() {
        return Err("there is no manual page".to_owned());
    }
    let mut command = Command::new("man");
    command.env("MANPATH", pages).env("MANPAGER", "cat").args(["1", "ostler"]);
    match command.output() {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => Ok(()),
        Ok(output) => Err(format!("man: {}", String::from_utf8_lossy(&output.stderr))),
        // A machine without `man` has the page all the same.
        Err(_) => Ok(()),
    }
}

fn list_files(directory: &Path) -> Result<BTreeSet<String>, String> {
    let text = run_quiet(Command::new("find").arg(directory).args(["-not", "-type", "d"]))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Nothing is left but what belongs to the package manager.
fn expect_nothing(root: &Path, is_managers: impl Fn(&Path) -> bool) -> Result<(), String> {
    let left: Vec<String> =
        list_files(root)?.into_iter().filter(|path| !is_managers(Path::new(path))).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}")) }
}
