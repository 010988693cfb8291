//! `ostler web`

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use flows::observe::ObserveScope;
use flows::work::carry_out_work;
use flows::writer::{PageOrder, Work};
use model::page::KeptTab;
use model::wire::{WebLink, WebStarted, WebTab, WebTabs};

use crate::cli::{CliContext, served};
use crate::config::parse_rights;
use crate::error::Error;
use crate::render::{duration, output, qr_code, text};
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
        place: HelpPlace(Everyday, 4),
        answers: &[answer::<wire::WebLink>()],
        examples: &[example("web link --open", "Another tab, of the server that runs.").on(Person)],
        cases: &[refused("web link")],
        uncased: &[
            (Usual, "a server is asked in tests/cli/web.rs"),
            (Empty, "without a server it is refused"),
            ONE_PROGRAM
        ],
        ..entry!("web link")
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
    /// Draw the link for the camera of a phone; needs `[web] url`.
    #[arg(long)]
    qr: bool,
    /// Serve until standard input ends: how the daemon runs it.
    #[arg(long, hide = true)]
    until_input_ends: bool,
}

#[derive(Debug, Subcommand)]
enum WebCommand {
    /// List the tabs that are signed in.
    Ls,
    /// Print another link of the server that runs.
    Link {
        /// Open it in the browser.
        #[arg(long)]
        open: bool,
        /// Draw it for the camera of a phone; needs `[web] url`.
        #[arg(long)]
        qr: bool,
    },
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
            Some(WebCommand::Link { open, qr }) => print_another_link(context, *open, *qr),
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
                if let Some(result) = forget_kept_tab(context, tab)? {
                    return print_tabs(context, &result);
                }
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
        if self.qr && settings.url.is_none() {
            return Err(no_url_error());
        }
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
            machine: context.machine()?.clone(),
            kept: read_kept_tabs(context)?,
            proxy_url: settings.url,
        })
        .map_err(|error| listen_error(port, &error))?;
        let link = server.new_link()?;
        let (stopper, stop) = tokio::sync::oneshot::channel();
        if self.until_input_ends {
            stop_with_input(stopper);
        }
        if context.json {
            context.print_json(WebStarted {
                port: server.port(),
                pid: std::process::id(),
                right: allowed.as_str().to_owned(),
                url: server.url().to_owned(),
                link,
            })?;
        } else {
            print_link(&link, self.qr)?;
            output::print_notice(
                "the link is good once, for ten minutes; Enter prints another, Ctrl-C ends",
            );
            if self.open {
                open_browser(&dirs, &link)?;
            }
            print_links_on_enter(server.link_maker());
        }
        server.serve(stop)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Ends the server when standard input does, so that it never outlives the process that started it.
fn stop_with_input(stopper: tokio::sync::oneshot::Sender<()>) {
    std::thread::spawn(move || {
        // The peer may say something now and then; only its end counts.
        std::io::stdin().lock().lines().map_while(Result::ok).for_each(drop);
        let _ = stopper.send(());
    });
}

fn print_link(link: &str, qr: bool) -> Result<(), Error> {
    if qr {
        output::print_text(&qr_code::draw_qr_code(link)?)?;
    }
    output::print_text(&format!("{link}\n"))
}

fn no_url_error() -> Error {
    Error::usage_error(
        "`--qr` needs `[web] url`: another device cannot reach 127.0.0.1",
        "set it to the address of a TLS proxy on this machine (docs/web.md)",
    )
}

fn print_another_link(context: &CliContext, open: bool, qr: bool) -> Result<ExitCode, Error> {
    let dirs = sys::dirs::of_this_process()?;
    if qr && context.load_config()?.web.url.is_none() {
        return Err(no_url_error());
    }
    let answer = ask_web(&dirs, &WebOrder::Link).map_err(|error| control_error(&error))?;
    let WebAnswer { pid, link: Some(link), .. } = answer else {
        let reason = answer.failed.unwrap_or_else(|| "it gave none".to_owned());
        let hint = "end it and start it again".to_owned();
        return Err(Error::Refused { what: format!("there is no link: {reason}"), hint });
    };
    if context.json {
        context.print_json(WebLink { link, pid })?;
        return Ok(ExitCode::SUCCESS);
    }
    print_link(&link, qr)?;
    if open {
        open_browser(&dirs, &link)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Browsers that stay signed in.
fn read_kept_tabs(context: &CliContext) -> Result<Vec<KeptTab>, Error> {
    let kept = flows::pages::list_kept_tabs(context.machine()?.home(), context.now);
    kept.map_err(|error| Error::Order(store::writer::WriterError::from(error).into()))
}

/// Forgets a browser while no server runs; nothing, if one does or there is none of that name.
fn forget_kept_tab(context: &CliContext, name: &str) -> Result<Option<WebTabs>, Error> {
    let dirs = sys::dirs::of_this_process()?;
    if !matches!(ask_web(&dirs, &WebOrder::Ls), Err(WebControlError::NotRunning)) {
        return Ok(None);
    }
    let kept = read_kept_tabs(context)?.into_iter().find(|tab| tab.name == name);
    let Some(kept) = kept else { return Ok(None) };
    let work = Work::Page(Box::new(PageOrder::Forget { name: name.to_owned() }));
    carry_out_work(&work, context.machine()?, &mut |_, _| {}).map_err(Error::Order)?;
    Ok(Some(WebTabs { pid: None, url: None, tabs: vec![kept_view(&kept)] }))
}

fn kept_view(kept: &KeptTab) -> WebTab {
    WebTab {
        name: kept.name.clone(),
        right: kept.right.clone(),
        signed_in_at: kept.since,
        last_used_at: kept.since,
        kept_until: Some(kept.until),
        version: String::new(),
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
        hint: "`ostler web link` prints another link; press Ctrl-C where it runs to end it"
            .to_owned(),
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
        Err(WebControlError::NotRunning) => {
            let kept = read_kept_tabs(context)?;
            WebTabs { pid: None, url: None, tabs: kept.iter().map(kept_view).collect() }
        }
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
    if let Some(reason) = answer.failed {
        let what = format!("done until the server starts anew, but not written: {reason}");
        return Err(Error::Refused { what, hint: "try again in a moment".to_owned() });
    }
    let result = WebTabs { pid: Some(answer.pid), url: Some(answer.url), tabs: answer.tabs };
    print_tabs(context, &result)
}

fn control_error(error: &WebControlError) -> Error {
    if matches!(error, WebControlError::OtherRelease) {
        let hint = "end it where it runs (Ctrl-C), then start `ostler web` again; tabs that stay signed in are kept";
        return Error::Refused { what: error.to_string(), hint: hint.to_owned() };
    }
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
        let kept =
            tab.kept_until.map(|until| format!("  kept until {}", duration::local_time(until)));
        let kept = kept.unwrap_or_default();
        text::one_line(&format!("{}  may {}  used {used}{kept}", tab.name, tab.right)) + "\n"
    };
    page.extend(result.tabs.iter().map(line));
    output::print_text(&page)?;
    Ok(ExitCode::SUCCESS)
}
