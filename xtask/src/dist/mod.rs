//! `cargo xtask dist`: everything that a release needs, from one build of one commit.
//!
//! Nothing in it depends on when, where or by whom it is made: times are the commit's, owners are root, names are
//! sorted, paths of the build are mapped away. Two runs give the same bytes; `dist-test` compares them.

mod formula;
mod inventory;
mod npm;
mod staging;
mod wheel;

pub(crate) mod check;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::install::ReleaseBuild;
use inventory::Inventory;
use staging::Staging;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Where everything is put.
    #[arg(long, default_value = "target/dist")]
    out: PathBuf,
    /// Package this program, and `ostler-net` beside it, instead of building them.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Where the files of this release can be fetched; the Homebrew formula names it.
    #[arg(long, default_value = "https://example.invalid/ostler/releases")]
    base_url: String,
}

pub(crate) fn run(options: &Options) -> ExitCode {
    match make_release(options) {
        Ok(files) => {
            for file in files {
                println!("{}", file.display());
            }
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// What is packaged.
#[derive(Debug)]
struct Release {
    /// The program, stripped.
    binary: PathBuf,
    /// `ostler-net`, which the fleet and webhooks need, stripped.
    helper: PathBuf,
    version: String,
    /// `x86_64-unknown-linux-gnu`
    target: String,
    /// Whether it needs nothing of the machine's.
    is_static: bool,
    /// The commit's time: every file's.
    epoch: String,
    /// Where the files are made.
    out: PathBuf,
    base_url: String,
}

impl Release {
    /// The processor, as Rust names it.
    fn processor(&self) -> &str {
        self.target.split('-').next().unwrap_or_default()
    }

    fn is_linux(&self) -> bool {
        self.target.contains("-linux-")
    }

    /// `x86_64-linux-static`: what a person chooses by.
    fn platform(&self) -> String {
        let system = if self.is_linux() { "linux" } else { "macos" };
        let linked = match (self.is_linux(), self.is_static) {
            (true, true) => "-static",
            (true, false) => "-dynamic",
            (false, _) => "",
        };
        format!("{}-{system}{linked}", self.processor())
    }

    fn tarball_name(&self) -> String {
        format!("ostler-{}-{}.tar.gz", self.version, self.platform())
    }
}

fn make_release(options: &Options) -> Result<Vec<PathBuf>, String> {
    let out = std::path::absolute(&options.out).map_err(|error| error.to_string())?;
    if out.exists() {
        fs::remove_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    create_dir(&out)?;
    let work = out.join(".work");
    create_dir(&work)?;
    let (built, built_helper) = match &options.binary {
        Some(binary) => {
            let binary = std::path::absolute(binary).map_err(|error| error.to_string())?;
            let helper = binary.with_file_name("ostler-net");
            (binary, helper)
        }
        None => crate::install::build_for_release(&ReleaseBuild::here())?,
    };
    let binary = take_stripped(&built, &work.join("ostler"))?;
    let helper = take_stripped(&built_helper, &work.join("ostler-net"))?;
    let (version, target) = describe_binary(&binary)?;
    let release = Release {
        is_static: !has_interpreter(&binary)?,
        binary,
        helper,
        version,
        target,
        epoch: commit_time()?,
        out: out.clone(),
        base_url: options.base_url.trim_end_matches('/').to_owned(),
    };
    let inventory = Inventory::of_workspace(&release.target)?;
    let notices = inventory.render_notices()?;
    let staging = Staging::prepare(&release, &work, &notices)?;
    let bill = out.join(format!("ostler-{}.cdx.json", release.version));
    write(&bill, inventory.render_bill(&release.version).as_bytes())?;
    write(&out.join("THIRD-PARTY-NOTICES.txt"), notices.as_bytes())?;
    let tarball = staging.make_tarball(&release)?;
    if release.is_linux() {
        staging.make_deb(&release)?;
    }
    let manual = staging.manual_pages()?;
    npm::make_packages(&release, &work, &manual)?;
    wheel::make_wheel(&release, &work, &notices, &manual)?;
    formula::write_formula(&release, &tarball)?;
    fs::remove_dir_all(&work).map_err(|error| error.to_string())?;
    write_checksums(&out)
}

/// Copies a program and takes its symbols away.
fn take_stripped(built: &Path, to: &Path) -> Result<PathBuf, String> {
    fs::copy(built, to).map_err(|error| format!("{}: {error}", built.display()))?;
    run_quiet(Command::new("strip").arg("-s").arg(to))?;
    Ok(to.to_owned())
}

/// Writes `SHA256SUMS` over everything that is there, as `sha256sum -c` reads it.
fn write_checksums(out: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(out).map_err(|error| error.to_string())?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let mut sums = String::new();
    for file in &files {
        let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        sums.push_str(&format!("{}  {name}\n", sys::hash::sha256(&bytes)));
    }
    let path = out.join("SHA256SUMS");
    write(&path, sums.as_bytes())?;
    files.push(path);
    Ok(files)
}

/// The version and the target that a program says of itself.
fn describe_binary(binary: &Path) -> Result<(String, String), String> {
    let text = run_quiet(Command::new(binary).args(["version", "--json"]))?;
    let said: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", binary.display()))?;
    let field = |name: &str| said["result"][name].as_str().map(str::to_owned);
    match (field("version"), field("target")) {
        (Some(version), Some(target)) => Ok((version, target)),
        _ => Err(format!("{} does not say what it is", binary.display())),
    }
}

/// Whether a program is started by a dynamic loader: its path stands near the beginning (PT_INTERP).
fn has_interpreter(binary: &Path) -> Result<bool, String> {
    let bytes = fs::read(binary).map_err(|error| error.to_string())?;
    let head = &bytes[..bytes.len().min(8192)];
    Ok(head.windows(6).any(|window| window == b"/ld-li" || window == b"/ld-mu"))
}

/// When the commit was made, in seconds; `SOURCE_DATE_EPOCH` says otherwise.
fn commit_time() -> Result<String, String> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let time = run_quiet(Command::new("git").args(["log", "-1", "--format=%ct"]))?;
    Ok(time.trim().to_owned())
}

/// The root of the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn create_dir(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if let Some(parent) = path.parent() {
        create_dir(parent)?;
    }
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// Puts a file there that everybody may read, or run.
fn place(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;

    if let Some(parent) = to.parent() {
        create_dir(parent)?;
    }
    fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(|error| error.to_string())
}

/// Runs a program and returns what it printed.
fn run_quiet(command: &mut Command) -> Result<String, String> {
    Ok(String::from_utf8_lossy(&run_for_bytes(command)?).into_owned())
}

/// The same for what is no text.
fn run_for_bytes(command: &mut Command) -> Result<Vec<u8>, String> {
    let line = format!("{command:?}");
    let output = command.output().map_err(|error| format!("{line}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{line} ended with {}: {said}", output.status));
    }
    Ok(output.stdout)
}

/// Packs what is in a directory under `name` there: sorted, of root's, of the commit's time.
fn pack_tar_gz(release: &Release, directory: &Path, name: &str, to: &Path) -> Result<(), String> {
    let tar = to.with_extension("tar.part");
    let mut command = Command::new("tar");
    command.args(["--create", "--format=ustar", "--sort=name", "--owner=0", "--group=0"]);
    command.args(["--numeric-owner", "--mode=u+rwX,go+rX,go-w"]);
    command.arg(format!("--mtime=@{}", release.epoch)).arg("--file").arg(&tar);
    run_quiet(command.arg("--directory").arg(directory).arg(name))?;
    let mut gzip = Command::new("gzip");
    let packed = run_for_bytes(gzip.args(["-9", "--no-name", "--stdout"]).arg(&tar))?;
    fs::remove_file(&tar).map_err(|error| error.to_string())?;
    write(to, &packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d10_half_of_a_package_is_none() {
        let mut packer = Command::new("sh");
        let packed = run_for_bytes(packer.args(["-c", "printf half; echo full >&2; exit 1"]));
        assert!(packed.unwrap_err().ends_with("full\n"));
    }
}
