//! `agent-tty doctor`

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use flows::terminal::screen::{Screen, ScreenLimits, ScreenSize, png};
use model::time::whole_millis;
use serde::Serialize;

use super::version::{Capability, list_capabilities};
use crate::cli::CliContext;
use crate::error::Error;
use crate::render::{output, text};

/// Check whether everything works here.
#[derive(Debug, Args)]
pub(crate) struct AgentTtyDoctorArgs {}

#[derive(Serialize)]
struct Report {
    ok: bool,
    checks: Checks,
    capabilities: Vec<Capability>,
}

#[derive(Serialize)]
struct Checks {
    environment: Vec<Check>,
    renderer: Vec<Check>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    name: &'static str,
    status: &'static str,
    message: String,
    duration_ms: u64,
}

fn run_check(name: &'static str, look: impl FnOnce() -> Result<String, String>) -> Check {
    let begun = Instant::now();
    let (status, message) = match look() {
        Ok(message) => ("pass", message),
        Err(message) => ("fail", message),
    };
    let duration_ms = whole_millis(begun.elapsed());
    Check { name, status, message, duration_ms }
}

fn skip_check(name: &'static str, why: &str) -> Check {
    Check { name, status: "skip", message: why.to_owned(), duration_ms: 0 }
}

impl AgentTtyDoctorArgs {
    pub(crate) fn run_agent_tty_doctor(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let home = context.terminals_home()?;
        let root = home.root.clone();
        let words = |error: std::io::Error| error.to_string();
        let scratch = |below: &std::path::Path| -> Result<String, String> {
            std::fs::create_dir_all(below).map_err(words)?;
            let file = below.join(format!(".doctor-{}", std::process::id()));
            let written = sys::atomic::write_synced(&file, b"x").map_err(words);
            #[expect(
                clippy::disallowed_methods,
                reason = "a file of this process, written to see whether that works"
            )]
            sys::atomic::remove_own(&file);
            written.map(|()| format!("{} is writable", below.display()))
        };
        let environment = vec![
            skip_check("node-runtime", "not needed"),
            run_check("cwd-access", || {
                std::env::current_dir().map_err(words).map(|d| d.display().to_string())
            }),
            run_check("temp-dir", || scratch(&std::env::temp_dir())),
            run_check("home_isolation", || Ok(format!("sessions are kept in {}", root.display()))),
            run_check("home-writable", || scratch(&root)),
            run_check("pty-spawn", || {
                let size = sys::pty::PtySize { cols: 80, rows: 24 };
                let command = std::process::Command::new("/bin/true");
                let (_master, program) = sys::pty::spawn_on_pty(command, size).map_err(words)?;
                program.reap().map_err(words).map(|_| "a program was run on a terminal".to_owned())
            }),
            run_check("socket-viable", || {
                let path = home.socket_of(&format!("doctor-{}", std::process::id()));
                let listener =
                    sys::socket::listen_private(&path).map_err(|error| error.to_string())?;
                let met = sys::socket::connect_private(&path).map_err(|error| error.to_string());
                drop(listener);
                #[expect(
                    clippy::disallowed_methods,
                    reason = "a socket of this process, made to see whether that works"
                )]
                sys::atomic::remove_own(&path);
                met.map(|_| format!("{} works", path.display()))
            }),
            run_check("artifact-atomicity", || scratch(&root)),
            run_check("event-log-writable", || scratch(&home.sessions_directory())),
        ];
        let no_browser = "not needed: pictures are drawn in process";
        let renderer = vec![
            skip_check("playwright_available", no_browser),
            skip_check("browser_cache_accessible", no_browser),
            skip_check("browser_launch", no_browser),
            run_check("ghostty_web_available", || Ok("ostler's own renderer".to_owned())),
            run_check("screenshot_viable", || {
                let screen =
                    Screen::new(ScreenSize { cols: 80, rows: 24 }, ScreenLimits::default());
                let profile = png::Profile::reference_dark();
                let picture = png::draw_png(&screen, &profile, png::ShowCursor::No);
                Ok(format!("{} bytes", picture.len()))
            }),
            run_check("libghostty_vt_available", || Ok("ostler's own renderer".to_owned())),
        ];
        let ok = environment.iter().chain(&renderer).all(|check| check.status != "fail");
        let report = Report {
            ok,
            checks: Checks { environment, renderer },
            capabilities: list_capabilities(),
        };
        if context.json {
            context.print_json(&report)?;
        } else {
            output::print_text(&render_report_text(&report))?;
        }
        Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn render_report_text(report: &Report) -> String {
    let mut out = String::new();
    for (title, checks) in
        [("Environment", &report.checks.environment), ("Renderer", &report.checks.renderer)]
    {
        let _ = writeln!(out, "{title}");
        for check in checks {
            let mark = match check.status {
                "pass" => "✓",
                "fail" => "✗",
                _ => "-",
            };
            let _ = writeln!(out, "  {mark} {}: {}", check.name, text::one_line(&check.message));
        }
    }
    out
}
