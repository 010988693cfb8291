//! The Homebrew formula, for the tarball of this platform.

use std::path::Path;

use super::{Release, write};

pub(super) fn write_formula(release: &Release, tarball: &Path) -> Result<(), String> {
    let bytes =
        std::fs::read(tarball).map_err(|error| format!("{}: {error}", tarball.display()))?;
    let digest = sys::hash::sha256(&bytes);
    let (version, name, base) = (&release.version, release.tarball_name(), &release.base_url);
    let text = format!(
        r##"class Ostler < Formula
  desc "Truth about every AI coding agent session on this machine"
  homepage "{base}"
  url "{base}/v{version}/{name}"
  version "{version}"
  sha256 "{digest}"
  license any_of: ["MIT", "Apache-2.0"]

  def install
    bin.install "bin/ostler", "bin/ostler-net"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/ostler"
    zsh_completion.install "share/zsh/vendor-completions/_ostler"
    fish_completion.install "share/fish/vendor_completions.d/ostler.fish"
    doc.install Dir["share/doc/ostler/*"]
  end

  service do
    run [opt_bin/"ostler", "daemon", "run"]
    keep_alive successful_exit: false
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/ostler version")
    system bin/"ostler", "ls"
  end
end
"##
    );
    write(&release.out.join("ostler.rb"), text.as_bytes())
}
