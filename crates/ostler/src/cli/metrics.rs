//! `ostler metrics`

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flows::metrics::gather_metrics;
use flows::observe::ObserveScope;
use model::metrics::{MetricFamily, render_prometheus};
use model::wire::MetricsResult;

use crate::cli::{CliContext, version};
use crate::error::{self, Error};
use crate::metrics_server::MetricsServer;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(SetUp, 7),
    effect: WritesState,
    answers: &[answer::<wire::MetricsResult>()],
    examples: &[example("metrics", "Everything that is measured, once.")],
    cases: &[
        empty("metrics"),
        refused("metrics --listen 0.0.0.0:9464"),
        also("metrics"),
        also("metrics").on(Broken),
        usual("metrics").on(Kept)
    ],
    uncased: &[(Incomplete, "the same page with a number in it: tests/cli/metrics.rs")],
    ..entry!("metrics", MetricsArgs, run_metrics)
}];

/// Print metrics in the Prometheus text format: sessions now, and what was counted since the store began.
///
/// No id, path or text is a label. The daemon answers the same at `/v1/metrics` on its socket. With
/// `--listen` this process serves them over HTTP on a loopback address, to whoever has the token.
#[derive(Debug, Args)]
pub(crate) struct MetricsArgs {
    /// Serve them at this loopback address, such as 127.0.0.1:9464, until interrupted.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The file with the bearer token, readable by you alone; made if it is not there.
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,
}

impl MetricsArgs {
    pub(crate) fn run_metrics(&self, context: &CliContext) -> Result<ExitCode, Error> {
        if let Some(address) = self.listen {
            return self.serve_metrics(context, address);
        }
        let (families, is_whole) = measure(context)?;
        if context.json {
            context.print_json(&MetricsResult { metrics: families })?;
        } else {
            output::print_text(&render_prometheus(&families))?;
        }
        Ok(if is_whole { ExitCode::SUCCESS } else { error::exit_code_of("INCOMPLETE") })
    }

    fn serve_metrics(&self, context: &CliContext, address: SocketAddr) -> Result<ExitCode, Error> {
        if !address.ip().is_loopback() {
            return Err(Error::usage_error(
                format!("`{address}` is not a loopback address, and others could reach it"),
                "listen on 127.0.0.1 or [::1], and let a proxy of yours face the network",
            ));
        }
        let home = context.ostler_home()?;
        let file = self.token_file.clone().unwrap_or_else(|| home.join("metrics.token"));
        let token = read_or_make_token(&file)?;
        let server = MetricsServer::bind(address, token, metrics_text)?;
        let address = server.local_address()?;
        output::print_notice(&format!(
            "metrics: http://{address}/metrics, token in {}",
            file.display()
        ));
        server.serve()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The families, and whether everything could be read.
fn measure(context: &CliContext) -> Result<(Vec<MetricFamily>, bool), Error> {
    let observation = context.observe_now(ObserveScope::All, &[])?;
    let families = gather_metrics(&observation, context.machine()?, version::OSTLER_VERSION)
        .map_err(|error| Error::Events(error.into()))?;
    Ok((families, observation.incomplete.is_empty()))
}

/// The text as of now, for the server.
pub(crate) fn metrics_text() -> Result<String, String> {
    let context = CliContext::of_role("metrics");
    let measured = measure(&context).map_err(|error| error.to_string())?;
    Ok(render_prometheus(&measured.0))
}

/// The token in a file of ours alone. A new one has 128 random bits.
fn read_or_make_token(file: &Path) -> Result<String, Error> {
    let unreadable = |reason: String| Error::Read { path: file.display().to_string(), reason };
    if !file.exists() {
        let bytes: [u8; 16] = sys::random::random_bytes()?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some(directory) = file.parent().filter(|directory| !directory.exists()) {
            sys::private::create_private_dir(directory)
                .map_err(|error| unreadable(error.to_string()))?;
        }
        sys::append::append_bytes(file, token.as_bytes())?;
    }
    let opened = sys::private::open_private(file).map_err(|error| unreadable(error.to_string()))?;
    let token = std::io::read_to_string(opened).map_err(|error| unreadable(error.to_string()))?;
    match token.trim() {
        "" => Err(unreadable("it is empty".to_owned())),
        token => Ok(token.to_owned()),
    }
}
