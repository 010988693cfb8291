//! `ostler record export`

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use flows::terminal::export::{self, Format};

use crate::cli::Context;
use crate::error::Error;
use crate::render::{output, text};

/// Write a terminal's log as a recording.
#[derive(Debug, Args)]
pub(crate) struct Record {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Export(Export),
}

/// Write a recording that other programs play: the whole session, as it was.
#[derive(Debug, Args)]
struct Export {
    /// The session.
    #[arg(value_name = "SESSION")]
    id: String,
    /// `asciicast`, `cast-v3`, `txt` or `html`.
    #[arg(long)]
    format: String,
    /// Where to write it; its directory must exist.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// The colours of a page.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How time passes in a video.
    #[arg(long, hide = true)]
    timing: Option<String>,
}

impl Record {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let What::Export(export) = &self.what;
        export.run(context)
    }
}

impl Export {
    fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let format = Format::parse(&self.format)?;
        let home = context.terminals()?;
        let session = home.find(&self.id)?;
        let profile = context.profile(self.profile.as_deref())?;
        let result = export::export(&home, &session, format, self.out.as_deref(), profile.theme)?;
        if context.json {
            context.answer(&result)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = String::new();
        let _ = writeln!(out, "Session: {}", result.session_id);
        let _ = writeln!(out, "Format: {}", result.format);
        let _ = writeln!(out, "Path: {}", text::one_line(&result.artifact_path));
        let _ = writeln!(out, "Bytes: {}", result.bytes);
        let _ = writeln!(out, "SHA-256: {}", result.sha256);
        let _ = writeln!(out, "Captured at seq: {}", result.captured_at_seq);
        let _ = writeln!(out, "Duration: {}ms", result.duration_ms.unwrap_or(0));
        output::text(&out)?;
        Ok(ExitCode::SUCCESS)
    }
}
