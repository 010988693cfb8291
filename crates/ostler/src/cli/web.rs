//! `ostler web`

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use flows::observe::ObserveScope;
use model::wire::{WebStarted, WebTab, WebTabs};

use crate::cli::{CliContext, served};
use crate::config::parse_rights;
use crate::error::Error;
use crate::render::{duration, output, text};
use crate::web::{
    WebAnswer, WebControlError, WebOrder, WebServer, WebSetup, ask_web, hold_web_lock,
};

declare_commands![
    CommandEntry {
        place: HelpPlace(Everyday, 6),
        effect: WritesState,
        answers: &[answer::<wire::WebStarted>()],
        examples: &[
            example("web --open", "Open the page in the browser.").on(Person),
            example("web --allow type", "Whoever signs in may type.").on(Person)
        ],
        cases: &[refused("web --allow everything"), refused("web --bind 0.0.0.0")],
        uncased: &[
            (Usual, "it serves until it is ended: tests/cli/web.rs"),
            (Empty, "it serves until it is ended: tests/cli/web.rs"),
            ONE_PROGRAM
        ],
        ..entry!("web", WebArgs, run_web_command)
    },
    CommandEntry {
        place: HelpPlace(Everyday, 1),
        answers: &[answer::<wire::WebTabs>()],
        examples: &[example("web ls", "Who is signed in.")],
        cases: &[empty("web ls"), refused("web ls --no-such-option"), also("web ls")],
        uncased: &[(Usual, "a server is asked in tests/cli/web.rs"), ONE_PROGRAM],
        ..entry!("web ls")
    },
    CommandEntry {
        place: HelpPlace(Everyday, 2),
        effect: WritesState,
        answers: &[answer::<wire::WebTabs>()],
        examples: &[example("web allow KQ7M-2XPA", "What a page asks for, by its code.").on(Person)],
        cases: &[refused("web allow ABCD-EFGH")],
        uncased: &[
            (Usual, "a server is asked in tests/cli/web.rs"),
            (Empty, "without a server it is refused"),
            ONE_PROGRAM
        ],
        ..entry!("web allow")
    },
    CommandEntry {
        place: HelpPlace(Everyday, 3),
        effect: WritesState,
        answers: &[answer::<wire::WebTabs>()],
        examples: &[example("web revoke tab-1", "Sign it out.").on(Person)],
        cases: &[refused("web revoke tab-1")],
        uncased: &[
            (Usual, "a server is asked in tests/cli/web.rs"),
            (Empty, "without a server it is refused"),
            ONE_PROGRAM
        ],
        ..entry!("web revoke")
    }
];

/// Serve the page: sessions, terminals, conversations, in a browser on this machine.
///
/// It listens on 127.0.0.1 and ::1 only and prints a link that signs one tab in, once, within ten
/// minutes; Enter prints another. A tab may look; for more it shows a code, and `ostler web allow CODE` grants
/// it. From elsewhere: `ssh -L 7117:127.0.0.1:7117`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WebArgs {
    #[command(subcommand)]
    action: Option<WebCommand>,
    /// The port; 0 takes any that is free [default: as configured, else 7117].
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// What whoever signs in may do: watch, type, manage [default: as configured, else watch].
    #[arg(long, value_name = "RIGHT", value_delimiter = ',')]
    allow: Vec<String>,
    /// Open the link in the browser.
    #[arg(long)]
    open: bool,
}

#[derive(Debug, Subcommand)]
enum WebCommand {
    /// List the tabs that are signed in.
    Ls,
    /// Grant the right that a page asks for, by the code that it shows.
    Allow {
        /// The code.
        code: String,
    },
    /// Sign a tab out; its socket is closed at once.
    Revoke {
        /// The tab, as `ostler web ls` names it.
        tab: String,
    },
}

impl WebArgs {
    pub(crate) fn run_web_command(&self, context: &CliContext) -> Result<ExitCode, Error> {
        match &self.action {
            None => self.serve_page(context),
            Some(WebCommand::Ls) => list_tabs(context),
            Some(WebCommand::Allow { code }) => {
                let order = WebOrder::Allow { code: code.clone() };
                let nothing = "no page asks for a right with that code";
                change_tab(
                    context,
                    &order,
                    nothing,
                    "the page shows the code; it is good for ten minutes",
                )
            }
            Some(WebCommand::Revoke { tab }) => {
                let order = WebOrder::Revoke { name: tab.clone() };
                let nothing = format!("no tab `{tab}` is signed in");
                change_tab(context, &order, &nothing, "`ostler web ls` lists them")
            }
        }
    }

    fn serve_page(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let settings = context.load_config()?.web;
        let given = parse_rights(self.allow.iter().map(String::as_str)).map_err(|wrong| {
            Error::usage_error(format!("`--allow`: {wrong}"), "write it like `--allow type`")
        })?;
        let allowed = if self.allow.is_empty() { settings.allowed } else { given };
        let dirs = sys::dirs::of_this_process()?;
        let _lock = hold_web_lock(&dirs.home).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => already_serves(&dirs),
            _ => write_error(&dirs.home, &error),
        })?;
        let port = self.port.unwrap_or(settings.port);
        let server = WebServer::listen(WebSetup {
            port,
            hosts: settings.hosts,
            allowed,
            runner: served::COMMAND_RUNNER,
            terminals: context.terminals_home()?,
            live: context.live_source(ObserveScope::Active, &[])?,
            dirs: dirs.clone(),
        })
        .map_err(|error| listen_error(port, &error))?;
        let url = settings.url.unwrap_or_else(|| format!("http://127.0.0.1:{}", server.port()));
        let link = server.new_link(&url)?;
        if context.json {
            context.print_json(WebStarted {
                port: server.port(),
                pid: std::process::id(),
                right: allowed.as_str().to_owned(),
                url,
                link,
            })?;
        } else {
            output::print_text(&format!("{link}\n"))?;
            output::print_notice(
                "the link is good once, for ten minutes; Enter prints another, Ctrl-C ends",
            );
            if self.open {
                open_browser(&dirs, &link)?;
            }
            print_links_on_enter(server.link_maker(url));
        }
        server.serve()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints a new link for every line that a person enters.
fn print_links_on_enter(new_link: impl Fn() -> std::io::Result<String> + Send + 'static) {
    if !std::io::stdin().is_terminal() {
        return;
    }
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
            let printed = new_link().map_err(Error::Output);
            if printed.and_then(|link| output::print_text(&format!("{link}\n"))).is_err() {
                return;
            }
        }
    });
}

/// Opens the link. Other users see the arguments of programs, so that the browser is given a private
/// file that leads there, and not the key.
fn open_browser(dirs: &sys::dirs::Dirs, link: &str) -> Result<(), Error> {
    let path = dirs.home.join("web-open.html");
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={link}\">\
         <title>ostler</title>\n"
    );
    sys::atomic::write_unsynced(&path, page.as_bytes())
        .map_err(|error| write_error(&path, &error))?;
    if let Err(error) = sys::browser::open_in_browser(&path) {
        output::print_notice(&format!("no browser could be opened: {error}"));
    }
    Ok(())
}

fn write_error(path: &std::path::Path, error: &std::io::Error) -> Error {
    Error::Write { path: path.display().to_string(), reason: error.to_string() }
}

fn already_serves(dirs: &sys::dirs::Dirs) -> Error {
    let place = match ask_web(dirs, &WebOrder::Ls) {
        Ok(WebAnswer { pid, url, .. }) => format!(" (pid {pid}) at {url}"),
        Err(_) => String::new(),
    };
    Error::Refused {
        what: format!("`ostler web` already serves this home{place}"),
        hint: "press Enter where it runs for another link, or end it there".to_owned(),
    }
}

fn listen_error(port: u16, error: &std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::AddrInUse {
        return Error::Refused {
            what: format!("port {port} of this machine is in use by another program"),
            hint: "`ostler web --port 0` takes one that is free; `[web] port` sets another"
                .to_owned(),
        };
    }
    Error::Refused {
        what: format!("cannot listen on 127.0.0.1:{port}: {error}"),
        hint: "`--port` takes another one".to_owned(),
    }
}

fn list_tabs(context: &CliContext) -> Result<ExitCode, Error> {
    let result = match ask_web(&sys::dirs::of_this_process()?, &WebOrder::Ls) {
        Ok(WebAnswer { pid, url, tabs, .. }) => WebTabs { pid: Some(pid), url: Some(url), tabs },
        Err(WebControlError::NotRunning) => WebTabs { pid: None, url: None, tabs: Vec::new() },
        Err(error) => return Err(control_error(&error)),
    };
    print_tabs(context, &result)
}

fn change_tab(
    context: &CliContext,
    order: &WebOrder,
    nothing: &str,
    hint: &str,
) -> Result<ExitCode, Error> {
    let answer =
        ask_web(&sys::dirs::of_this_process()?, order).map_err(|error| control_error(&error))?;
    if !answer.found {
        return Err(Error::usage_error(nothing, hint));
    }
    let result = WebTabs { pid: Some(answer.pid), url: Some(answer.url), tabs: answer.tabs };
    print_tabs(context, &result)
}

fn control_error(error: &WebControlError) -> Error {
    Error::usage_error(error.to_string(), "`ostler web` starts it")
}

fn print_tabs(context: &CliContext, result: &WebTabs) -> Result<ExitCode, Error> {
    if context.json {
        context.print_json(result)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = match (&result.url, result.pid) {
        (Some(url), Some(pid)) => format!("serving {url} (pid {pid})\n"),
        _ => "not serving\n".to_owned(),
    };
    let line = |tab: &WebTab| {
        let used = duration::age_phrase(context.now.since(tab.last_used_at));
        text::one_line(&format!("{}  may {}  used {used}", tab.name, tab.right)) + "\n"
    };
    page.extend(result.tabs.iter().map(line));
    output::print_text(&page)?;
    Ok(ExitCode::SUCCESS)
}
