//! `cargo xtask dist-test`: makes the release twice and compares, then installs each package where nothing else is,
//! uses it there, takes it away, and looks for what is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use super::{Options as DistOptions, create_dir, make_release, run_quiet};
use crate::install::{ReleaseBuild, build_for_release};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where the packages and the clean roots are made.
    #[arg(long, default_value = "target/dist-test")]
    dir: PathBuf,
    /// Package this program, and `ostler-net` beside it, instead of building them: `cargo xtask install --net --debug
    /// --root target/installed` makes them quickly.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// A build that is linked dynamically, and has `ostler-net` beside it: it is packaged under that name, and works.
    #[arg(long, value_name = "PROGRAM")]
    dynamic: Option<PathBuf>,
    /// Also build the commit a second time, from another directory, and compare the programs. With `--debug` quickly.
    #[arg(long)]
    rebuild: bool,
    /// What `--rebuild` compares is built quickly instead of well.
    #[arg(long, requires = "rebuild")]
    debug: bool,
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
    let make = |name: &str, binary: Option<&PathBuf>| {
        let base_url = "https://example.invalid/ostler/releases".to_owned();
        let out = directory.join(name);
        make_release(&DistOptions { out, binary: binary.cloned(), base_url })
    };
    // Side by side: most of it is packing, which takes one core each.
    let (files, again) = std::thread::scope(|scope| {
        let again = scope.spawn(|| make("second", options.binary.as_ref()));
        let files = make("first", options.binary.as_ref());
        (files, again.join().unwrap_or_else(|_| Err("the second run ended early".to_owned())))
    });
    let (files, again) = (files?, again?);
    compare_releases(&files, &again)?;
    println!("{} files, the same twice", files.len());
    if let Some(dynamic) = &options.dynamic {
        let files = make("dynamic", Some(dynamic))?;
        Checks { directory: directory.join("of-dynamic"), files }.check_dynamic()?;
    }
    if options.rebuild {
        build_twice(&directory, options.debug)?;
    }
    let checks = Checks { directory, files };
    checks.check_sums()?;
    checks.check_readme()?;
    checks.timed("tarball", Checks::check_tarball)?;
    checks.timed("npm", Checks::check_npm)?;
    checks.timed("wheel", Checks::check_wheel)?;
    if cfg!(target_os = "linux") {
        checks.timed("deb", Checks::check_deb)?;
    }
    checks.check_formula()
}

/// The same files, and the same in them.
fn compare_releases(files: &[PathBuf], again: &[PathBuf]) -> Result<(), String> {
    let names = |files: &[PathBuf]| -> Vec<_> {
        files.iter().map(|file| file.file_name().map(ToOwned::to_owned)).collect()
    };
    if names(files) != names(again) {
        return Err(format!("not the same files from one run to the next: {files:?}, {again:?}"));
    }
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    for (one, other) in files.iter().zip(again) {
        if read(one)? != read(other)? {
            return Err(format!("{} differs from one run to the next", one.display()));
        }
    }
    Ok(())
}

/// Builds a commit here and elsewhere: the programs are the same to the byte.
fn build_twice(directory: &Path, debug: bool) -> Result<(), String> {
    let source = directory.join("elsewhere/source");
    create_dir(&source)?;
    let archive = directory.join("elsewhere/source.tar");
    let mut git = Command::new("git");
    git.args(["archive", "--output"]).arg(&archive).arg("HEAD");
    run_quiet(git.current_dir(super::workspace()))?;
    run_quiet(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&source))?;
    let target_directory = Some(directory.join("elsewhere/target"));
    let begun = Instant::now();
    let here = build_for_release(&ReleaseBuild { debug, ..ReleaseBuild::here() })?;
    let there = build_for_release(&ReleaseBuild { source, target_directory, debug })?;
    for (one, other) in [(&here.0, &there.0), (&here.1, &there.1)] {
        if fs::read(one).map_err(|error| error.to_string())?
            != fs::read(other).map_err(|error| error.to_string())?
        {
            let (one, other) = (one.display(), other.display());
            return Err(format!("two builds of one commit differ: {one} and {other}"));
        }
    }
    println!("both programs, built twice: the same, {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// From a package to the first listing, whatever else the machine does: what the README promises.
const LISTED_WITHIN: Duration = Duration::from_secs(20);

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

    /// Runs a check, which says how long it took from the package to the first listing.
    fn timed(
        &self,
        name: &str,
        check: fn(&Self) -> Result<Duration, String>,
    ) -> Result<(), String> {
        let begun = Instant::now();
        let listed = check(self).map_err(|reason| format!("{name}: {reason}"))?;
        if listed > LISTED_WITHIN {
            return Err(format!(
                "`ostler ls` after {listed:.1?}, and the README says {LISTED_WITHIN:?}"
            ));
        }
        let (listed, whole) = (listed.as_secs_f64(), begun.elapsed().as_secs_f64());
        println!("{name}: `ostler ls` after {listed:.1} s; used and taken away after {whole:.1} s");
        Ok(())
    }

    /// A dynamic build is called that, and works where its libraries are.
    fn check_dynamic(&self) -> Result<(), String> {
        self.file(&["-linux-dynamic.tar.gz"])?;
        self.check_tarball().map_err(|reason| format!("dynamic: {reason}"))?;
        println!("dynamic: named so, and works");
        Ok(())
    }

    fn check_sums(&self) -> Result<(), String> {
        let mut command = Command::new("sha256sum");
        command.args(["--check", "--strict", "--quiet", "SHA256SUMS"]);
        run_quiet(command.current_dir(self.directory.join("first"))).map(drop)
    }

    /// The README installs files by the names that they have.
    fn check_readme(&self) -> Result<(), String> {
        let readme = fs::read_to_string(super::workspace().join("README.md"));
        let readme = readme.map_err(|error| error.to_string())?;
        let within = format!("within {} seconds", LISTED_WITHIN.as_secs());
        if !readme.contains(&within) {
            return Err(format!("the README does not say {within:?}"));
        }
        for end in [".deb", ".tgz", ".tar.gz", ".whl"] {
            for file in self.files.iter().filter(|file| file.to_string_lossy().ends_with(end)) {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                // What is published is static.
                let name = name.replace("-linux-dynamic", "-linux-static");
                if name.contains("-py3-none-linux_") {
                    continue;
                }
                if !readme.contains(&name) {
                    return Err(format!("the README does not name {name}"));
                }
            }
        }
        Ok(())
    }

    fn check_tarball(&self) -> Result<Duration, String> {
        let room = self.room("tarball")?;
        let tarball = self.file(&[".tar.gz"])?;
        let begun = Instant::now();
        run_quiet(Command::new("tar").arg("-xzf").arg(tarball).arg("-C").arg(&room))?;
        let inside = fs::read_dir(&room).map_err(|error| error.to_string())?;
        let inside: Vec<PathBuf> = inside.filter_map(|one| Some(one.ok()?.path())).collect();
        let [prefix] = inside.as_slice() else { return Err("it has no one directory".to_owned()) };
        let listed = use_program(&prefix.join("bin/ostler"), &room.join("home"), begun)?;
        read_manual(&prefix.join("share/man"))?;
        Ok(listed)
    }

    /// Both packages, as npm would fetch them: the wrapper finds the program beside itself.
    fn check_npm(&self) -> Result<Duration, String> {
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
        let begun = Instant::now();
        npm(&["install", "--global"], &[self.file(&["-npm-", system])?, wrapper])?;
        let user = self.directory.join("npm-user");
        let listed_after = use_program(&prefix.join("bin/ostler"), &user, begun)?;
        read_manual(&prefix.join("share/man"))?;
        let listed = npm(&["ls", "--global", "--parseable"], &[])?;
        let scope = prefix.join("lib/node_modules/@ostler");
        let platform = fs::read_dir(&scope).map_err(|error| format!("{listed}: {error}"))?;
        for package in platform.filter_map(Result::ok) {
            let name = format!("@ostler/{}", package.file_name().to_string_lossy());
            npm(&["uninstall", "--global", &name], &[])?;
        }
        npm(&["uninstall", "--global", "ostler"], &[])?;
        expect_nothing(&prefix, |path| path.ends_with("node_modules/.package-lock.json"))?;
        Ok(listed_after)
    }

    fn check_wheel(&self) -> Result<Duration, String> {
        let room = self.room("venv")?;
        run_quiet(Command::new("python3").args(["-m", "venv"]).arg(&room))?;
        let before = list_files(&room)?;
        let pip = |words: &[&str], file: Option<&Path>| {
            let mut command = Command::new(room.join("bin/python3"));
            command.args(["-m", "pip", "--disable-pip-version-check", "--quiet"]).args(words);
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            run_quiet(command.args(file))
        };
        let begun = Instant::now();
        pip(&["install", "--no-index"], Some(self.file(&[".whl"])?))?;
        let user = self.directory.join("venv-user");
        let listed = use_program(&room.join("bin/ostler"), &user, begun)?;
        read_manual(&room.join("share/man"))?;
        pip(&["uninstall", "--yes", "ostler"], None)?;
        let left: Vec<_> = list_files(&room)?.difference(&before).cloned().collect();
        let left: Vec<_> = left.iter().filter(|path| !path.contains("__pycache__")).collect();
        if left.is_empty() { Ok(listed) } else { Err(format!("left behind: {left:?}")) }
    }

    /// In a root with nothing in it, where the program is all that can be run.
    fn check_deb(&self) -> Result<Duration, String> {
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
        let begun = Instant::now();
        dpkg(&["--force-depends", "--install"], Some(deb))?;
        let listed = match is_static(&root.join("usr/bin/ostler"))? {
            true => use_in_root(&root, begun)?,
            false => use_program(&root.join("usr/bin/ostler"), &root.join("home"), begun)?,
        };
        read_manual(&root.join("usr/share/man"))?;
        for file in [
            "usr/bin/ostler-net",
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
        expect_nothing(&root, |path| path.starts_with(root.join("var/lib/dpkg")))?;
        Ok(listed)
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

/// What a new user does after the first listing.
const FIRST_STEPS: [&str; 4] = ["version", "help", "setup --dry-run", "ls -a --json"];

/// Uses an installed program as a new user would. Returns the time from `begun` to the first listing.
fn use_program(program: &Path, home: &Path, begun: Instant) -> Result<Duration, String> {
    create_dir(home)?;
    let ask = |line: &str| {
        let mut command = Command::new(program);
        command.args(line.split(' ')).env_clear().env("HOME", home).stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("XDG_RUNTIME_DIR", home.join("run"));
        command
    };
    run_quiet(&mut ask("ls"))?;
    let listed = begun.elapsed();
    for line in FIRST_STEPS {
        run_quiet(&mut ask(line))?;
    }
    expect_helper(&mut ask("fleet join --name here"))?;
    Ok(listed)
}

/// The same where nothing is but the package and the kernel's process table.
fn use_in_root(root: &Path, begun: Instant) -> Result<Duration, String> {
    let ask = |line: &str| {
        let script =
            "mount -t proc proc \"$ROOT/proc\"; exec chroot \"$ROOT\" /usr/bin/ostler $LINE";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "sh", "-ec", script]).env("ROOT", root);
        command.env("HOME", "/home").env_remove("XDG_RUNTIME_DIR").env_remove("OSTLER_HOME");
        command.env("LINE", line).stdin(Stdio::null());
        command
    };
    run_quiet(&mut ask("ls"))?;
    let listed = begun.elapsed();
    for line in FIRST_STEPS {
        run_quiet(&mut ask(line))?;
    }
    expect_helper(&mut ask("fleet join --name here"))?;
    Ok(listed)
}

/// `ostler-net` is found and answers: it makes the keys of a new member.
fn expect_helper(command: &mut Command) -> Result<(), String> {
    let said = run_quiet(command)?;
    let answers = said.contains("ostler fleet admit ostler-join:");
    if answers { Ok(()) } else { Err(format!("`ostler fleet join` says {said:?}")) }
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
        Err(error) => Err(format!("man: {error}")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d10_releases_differ_by_a_file_more_and_by_one_that_cannot_be_read() {
        let room = testkit::home::TempHome::new();
        let file = |below: &str, text: &str| room.write(below, text);
        let first = [file("first/a", "1"), file("first/b", "2")];
        let same = [file("second/a", "1"), file("second/b", "2")];
        assert_eq!(compare_releases(&first, &same), Ok(()));
        assert!(compare_releases(&first, &[file("third/a", "1"), file("third/b", "3")]).is_err());
        assert!(compare_releases(&first[..1], &same).is_err(), "a file more");
        assert!(compare_releases(&first, &same[..1]).is_err(), "a file less");
        let gone = [room.join("first/gone")];
        assert!(compare_releases(&gone, &[room.join("second/gone")]).is_err(), "both are unread");
    }
}
