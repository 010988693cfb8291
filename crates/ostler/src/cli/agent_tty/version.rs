//! `agent-tty version`

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

/// The renderers that can be asked for; both mean the one there is.
pub(super) const RENDERER_BACKENDS: [&str; 2] = ["ghostty-web", "libghostty-vt"];

/// Print the version.
#[derive(Debug, Args)]
pub(crate) struct AgentTtyVersionArgs {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    cli_version: String,
    /// What keeps the contract.
    implementation: &'static str,
    protocol_version: &'static str,
    renderer_backends: [&'static str; 2],
    runtime: Runtime,
    capabilities: Vec<Capability>,
}

#[derive(Serialize)]
struct Runtime {
    node: &'static str,
    platform: &'static str,
    arch: &'static str,
}

/// Something that can or cannot be done here.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Capability {
    name: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

pub(super) fn list_capabilities() -> Vec<Capability> {
    let can = |name| Capability { name, status: "available", reason: None };
    let cannot = |name, reason| Capability { name, status: "unavailable", reason: Some(reason) };
    vec![
        can("snapshot"),
        can("wait"),
        can("screenshot"),
        can("record-export-asciicast"),
        match flows::terminal::export::has_video_encoder() {
            true => can("record-export-webm"),
            false => cannot(
                "record-export-webm",
                "video is encoded by `ffmpeg`, which is not on the PATH",
            ),
        },
        can("dashboard"),
    ]
}

impl AgentTtyVersionArgs {
    pub(crate) fn run_agent_tty_version(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let platform = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
        let arch = match std::env::consts::ARCH {
            "x86_64" => "x64",
            "aarch64" => "arm64",
            other => other,
        };
        let result = Versions {
            cli_version: super::cli_version(),
            implementation: concat!("ostler ", env!("CARGO_PKG_VERSION")),
            protocol_version: "0.1.0",
            renderer_backends: RENDERER_BACKENDS,
            runtime: Runtime { node: "not used", platform, arch },
            capabilities: list_capabilities(),
        };
        if context.json {
            context.print_json(result)?;
        } else {
            output::print_text(&format!(
                "agent-tty {}\nprotocol {}\nruntime {platform}/{arch}\n",
                result.cli_version, result.protocol_version
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
