//! `agent-tty doctor`

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use flows::terminal::screen::{Limits, Screen, Size, png};
use model::time::millis;
use serde::Serialize;

use super::version::{Capability, capabilities};
use crate::cli::Context;
use crate::error::Error;
use crate::render::{output, text};

/// Check whether everything works here.
#[derive(Debug, Args)]
pub(crate) struct Doctor {}

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

fn check(name: &'static str, look: impl FnOnce() -> Result<String, String>) -> Check {
    let begun = Instant::now();
    let (status, message) = match look() {
        Ok(message) => ("pass", message),
        Err(message) => ("fail", message),
    };
    let duration_ms = millis(begun.elapsed());
    Check { name, status, message, duration_ms }
}

fn skip(name: &'static str, why: &str) -> Check {
    Check { name, status: "skip", message: why.to_owned(), duration_ms: 0 }
}

impl Doctor {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let home = context.terminals()?;
        let root = home.root.clone();
        let words = |error: std::io::Error| error.to_string();
        let scratch = |below: &std::path::Path| -> Result<String, String> {
            std::fs::create_dir_all(below).map_err(words)?;
            let file = below.join(format!(".doctor-{}", std::process::id()));
            let written = sys::atomic::write(&file, b"x").map_err(words);
            sys::atomic::abandon(&file);
            written.map(|()| format!("{} is writable", below.display()))
        };
        let environment = vec![
            skip("node-runtime", "not needed"),
            check("cwd-access", || {
                std::env::current_dir().map_err(words).map(|d| d.display().to_string())
            }),
            check("temp-dir", || scratch(&std::env::temp_dir())),
            check("home_isolation", || Ok(format!("sessions are kept in {}", root.display()))),
            check("home-writable", || scratch(&root)),
            check("pty-spawn", || {
                let size = sys::pty::Size { cols: 80, rows: 24 };
                let command = std::process::Command::new("/bin/true");
                let (_master, program) = sys::pty::start(command, size).map_err(words)?;
                program.reap().map_err(words).map(|_| "a program was run on a terminal".to_owned())
            }),
            check("socket-viable", || {
                let path = home.socket_of(&format!("doctor-{}", std::process::id()));
                let listener = sys::socket::listen(&path).map_err(|error| error.to_string())?;
                let met = sys::socket::connect(&path).map_err(|error| error.to_string());
                drop(listener);
                sys::atomic::abandon(&path);
                met.map(|_| format!("{} works", path.display()))
            }),
            check("artifact-atomicity", || scratch(&root)),
            check("event-log-writable", || scratch(&home.sessions())),
        ];
        let no_browser = "not needed: pictures are drawn in process";
        let renderer = vec![
            skip("playwright_available", no_browser),
            skip("browser_cache_accessible", no_browser),
            skip("browser_launch", no_browser),
            check("ghostty_web_available", || Ok("ostler's own renderer".to_owned())),
            check("screenshot_viable", || {
                let screen = Screen::new(Size { cols: 80, rows: 24 }, Limits::default());
                let profile = png::Profile::reference_dark();
                let picture = png::draw(&screen, &profile, png::ShowCursor::No);
                Ok(format!("{} bytes", picture.len()))
            }),
            check("libghostty_vt_available", || Ok("ostler's own renderer".to_owned())),
        ];
        let ok = environment.iter().chain(&renderer).all(|check| check.status != "fail");
        let report =
            Report { ok, checks: Checks { environment, renderer }, capabilities: capabilities() };
        if context.json {
            context.answer(&report)?;
        } else {
            output::text(&page(&report))?;
        }
        Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn page(report: &Report) -> String {
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
