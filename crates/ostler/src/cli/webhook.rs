//! `ostler webhook`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use flows::work::carry_out_work;
use flows::writer::{Work, WorkDone};
use model::address::{NoSingleId, pick_by_id};
use model::helper::HelperAsk;
use model::webhook::{WebhookChange, WebhookInclude, WebhookRecord, check_webhook_url};
use model::wire::{WebhookTestResult, WebhooksResult};
use sys::machine::Machine;

use crate::cli::CliContext;
use crate::error::{self, Error};
use crate::helper;
use crate::render::{duration, output, text};

declare_commands![
    CommandEntry {
        place: HelpPlace(SetUp, 5),
        usual_member: "ls",
        ..entry!("webhook", WebhookArgs, run_webhook_command)
    },
    CommandEntry {
        place: HelpPlace(SetUp, 1),
        effect: WritesState,
        answers: &[answer::<wire::WebhooksResult>()],
        examples: &[example(
            "webhook add --url https://example.org/hook --events turn-end,exited",
            "Send these events there from now on."
        )],
        cases: &[
            usual("webhook add --url http://127.0.0.1:9/ --events turn-end,exited"),
            refused("webhook add --url http://example.org/")
        ],
        uncased: &[ONE_HOME, ONE_PROGRAM],
        ..entry!("webhook add")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 2),
        answers: &[answer::<wire::WebhooksResult>()],
        examples: &[example("webhook ls", "Where events go, and what waits or failed.")],
        cases: &[
            empty("webhook ls"),
            usual("webhook ls").after(&["webhook add --url http://127.0.0.1:9/"]),
            refused("webhook ls --no-such-option")
        ],
        uncased: &[ONE_PROGRAM],
        ..entry!("webhook ls")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 3),
        effect: WritesState,
        answers: &[answer::<wire::WebhooksResult>()],
        examples: &[example("webhook rm ID", "Send nothing there any more.").on(Hooked)],
        cases: &[
            usual("webhook rm ID").after(&["webhook add --url http://127.0.0.1:9/"]),
            refused("webhook rm wh_none")
        ],
        uncased: &[ONE_HOME, ONE_PROGRAM],
        ..entry!("webhook rm")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 4),
        effect: WritesState,
        answers: &[answer::<wire::WebhooksResult>()],
        examples: &[example("webhook retry ID", "Its receiver is well again.").on(Hooked)],
        cases: &[
            usual("webhook retry ID").after(&["webhook add --url http://127.0.0.1:9/"]),
            refused("webhook retry wh_none")
        ],
        uncased: &[ONE_HOME, ONE_PROGRAM],
        ..entry!("webhook retry")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 5),
        answers: &[answer::<wire::WebhookTestResult>()],
        examples: &[example("webhook test ID", "Whether its receiver answers.").on(Afar)],
        cases: &[refused("webhook test wh_none")],
        uncased: &[
            (Usual, "it needs a receiver: tests/webhooks.rs of crates/net"),
            ONE_HOME,
            ONE_PROGRAM
        ],
        ..entry!("webhook test")
    }
];

/// Send events to other programs over HTTP, signed as Standard Webhooks says.
///
/// A webhook is a place in the stream of `ostler events` that moves when its receiver answers 2xx: every
/// event arrives at least once and in order. The daemon's helper, `ostler-net`, sends; without the daemon
/// events wait.
#[derive(Debug, Args)]
pub(crate) struct WebhookArgs {
    #[command(subcommand)]
    action: WebhookCommand,
}

#[derive(Debug, Subcommand)]
enum WebhookCommand {
    /// Add one: it gets every event from now on.
    ///
    /// No prompt, title or path is sent unless `--include` names it. Without `--secret-file`, a secret is
    /// made in ostler's home; the receiver needs it to check signatures.
    Add(WebhookAddArgs),
    /// List them: how far each got, what failed and what was set aside.
    Ls,
    /// Remove one.
    Rm(WebhookNameArgs),
    /// Try again now what failed, what was set aside and what was disabled.
    Retry(WebhookNameArgs),
    /// Send a test event now and tell what the receiver answers.
    Test(WebhookNameArgs),
}

#[derive(Debug, Args)]
struct WebhookNameArgs {
    /// Its id, as `ostler webhook ls` lists it.
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(Debug, Args)]
struct WebhookAddArgs {
    /// Where to: https, or http on this machine.
    #[arg(long, value_name = "URL")]
    url: String,
    /// Only these kinds of events, as `ostler events` names them.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = parse_event_kind)]
    events: Vec<String>,
    /// A file (mode 0600) with the secret, `whsec_…`; given twice, both sign while one is replaced.
    #[arg(long, value_name = "FILE")]
    secret_file: Vec<PathBuf>,
    /// Send these too: text, title, cwd.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = parse_include)]
    include: Vec<WebhookInclude>,
}

fn parse_include(text: &str) -> Result<WebhookInclude, String> {
    let found = WebhookInclude::ALL.into_iter().find(|one| one.as_str() == text);
    found.ok_or_else(|| "one of text, title, cwd".to_owned())
}

fn parse_event_kind(text: &str) -> Result<String, String> {
    let is_kind = |letter: char| letter.is_ascii_lowercase() || letter == '-' || letter == '.';
    match !text.is_empty() && text.chars().all(is_kind) {
        true => Ok(text.to_owned()),
        false => Err("a kind as `ostler events` names it, like turn-end or exited".to_owned()),
    }
}

impl WebhookArgs {
    pub(crate) fn run_webhook_command(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
        let result = match &self.action {
            WebhookCommand::Add(add) => {
                let webhook = add.new_webhook(context, machine)?;
                change_webhooks(machine, WebhookChange::Add(Box::new(webhook)))?
            }
            WebhookCommand::Ls => {
                let listed = flows::webhooks::list_webhooks(machine.home());
                listed.map_err(|error| Error::Events(error.into()))?
            }
            WebhookCommand::Rm(WebhookNameArgs { id }) => {
                let id = find_webhook(machine, id)?.id;
                change_webhooks(machine, WebhookChange::Remove { id })?
            }
            WebhookCommand::Retry(WebhookNameArgs { id }) => {
                let id = find_webhook(machine, id)?.id;
                change_webhooks(machine, WebhookChange::Retry { id })?
            }
            WebhookCommand::Test(WebhookNameArgs { id }) => {
                let webhook = find_webhook(machine, id)?;
                return test_webhook(context, machine, webhook);
            }
        };
        print_webhooks(context, &self.action, &result)
    }
}

impl WebhookAddArgs {
    fn new_webhook(&self, context: &CliContext, machine: &Machine) -> Result<WebhookRecord, Error> {
        check_webhook_url(&self.url).map_err(|reason| {
            Error::usage_error(reason, "give an https address, or http://127.0.0.1:PORT/…")
        })?;
        let random = model::hex::to_hex(&sys::random::random_bytes::<6>()?);
        let id = format!("wh_{random}");
        let mut secret_files = Vec::new();
        for path in &self.secret_file {
            let path = std::path::absolute(path)?;
            check_secret_file(&path)?;
            secret_files.push(path.to_string_lossy().into_owned());
        }
        if secret_files.is_empty() {
            secret_files.push(make_secret_file(machine, &id)?.to_string_lossy().into_owned());
        }
        Ok(WebhookRecord {
            id,
            url: self.url.clone(),
            events: self.events.clone(),
            include: self.include.clone(),
            secret_files,
            added_at: context.now,
            cursor: 0,
            delivered: 0,
            delivered_at: None,
            failed_tries: 0,
            tries: 0,
            failing_since: None,
            next_try_at: None,
            last_error: None,
            disabled: None,
            set_aside: Vec::new(),
            forgotten: 0,
        })
    }
}

/// The sender reads it at every try; a fault in it is reported now.
fn check_secret_file(path: &Path) -> Result<(), Error> {
    use std::io::Read;

    let refused = |reason: String| Error::Refused {
        what: format!("the secret file {} cannot be used: {reason}", path.display()),
        hint: format!("make it yours alone: chmod 600 {}", path.display()),
    };
    let file = sys::private::open_private(path).map_err(|error| refused(error.to_string()))?;
    let mut secret = String::new();
    file.take(4096).read_to_string(&mut secret).map_err(|error| refused(error.to_string()))?;
    match secret.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) if line.starts_with("whsec_") => Ok(()),
        _ => Err(Error::usage_error(
            format!("{} holds no secret", path.display()),
            "a line `whsec_` and 24 to 64 bytes as base64; without the option one is made",
        )),
    }
}

fn make_secret_file(machine: &Machine, id: &str) -> Result<PathBuf, Error> {
    let directory = machine.home().join("webhooks");
    let failed =
        |reason: String| Error::Write { path: directory.to_string_lossy().into_owned(), reason };
    sys::private::create_private_dir(machine.home()).map_err(|error| failed(error.to_string()))?;
    sys::private::create_private_dir(&directory).map_err(|error| failed(error.to_string()))?;
    let place =
        sys::private::open_own_dir(&directory).map_err(|error| failed(error.to_string()))?;
    let name = format!("{id}.secret");
    let secret = flows::webhooks::new_secret()? + "\n";
    place.write_atomic(&name, secret.as_bytes()).map_err(|error| failed(error.to_string()))?;
    Ok(directory.join(name))
}

/// By its id or the beginning of it.
fn find_webhook(machine: &Machine, text: &str) -> Result<WebhookRecord, Error> {
    let listed = flows::webhooks::list_webhooks(machine.home());
    let webhooks = listed.map_err(|error| Error::Events(error.into()))?.webhooks;
    pick_by_id(webhooks, text, |one| [&one.id]).map_err(|why| match why {
        NoSingleId::Nothing => {
            Error::NotListed { text: text.to_owned(), kind: "webhook", list: "ostler webhook ls" }
        }
        NoSingleId::Several(several) => {
            let ids: Vec<&str> = several.iter().map(|one| one.id.as_str()).collect();
            Error::usage_error(
                format!("`{text}` could mean several webhooks: {}", ids.join(", ")),
                "type more of the id",
            )
        }
    })
}

fn change_webhooks(machine: &Machine, what: WebhookChange) -> Result<WebhooksResult, Error> {
    let work = Work::Webhook { what };
    let done = carry_out_work(&work, machine, &mut |_, _| {});
    match done.map_err(Error::Order)? {
        (WorkDone::Webhook(result), transport) => {
            helper::wake_helpers(machine);
            Ok(WebhooksResult { transport: Some(transport.as_str().to_owned()), ..result })
        }
        _ => Err(error::unexpected_answer()),
    }
}

fn test_webhook(
    context: &CliContext,
    machine: &Machine,
    webhook: WebhookRecord,
) -> Result<ExitCode, Error> {
    let ask = HelperAsk::WebhookTest(Box::new(webhook));
    let result: WebhookTestResult = helper::ask_helper(machine, ask)?;
    if context.json {
        context.print_json(&result)?;
    } else {
        let answer = match (&result.reason, result.status) {
            (Some(reason), _) => format!("not delivered: {reason}"),
            (None, Some(status)) => format!("delivered: it answered {status}"),
            (None, None) => "delivered".to_owned(),
        };
        let line = format!("{}  {}  ({} ms)", result.url, answer, result.took_ms);
        output::print_text(&(text::one_line(&line) + "\n"))?;
    }
    Ok(if result.delivered { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_webhooks(
    context: &CliContext,
    action: &WebhookCommand,
    result: &WebhooksResult,
) -> Result<ExitCode, Error> {
    if context.json {
        context.print_json(result)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = String::new();
    for webhook in &result.webhooks {
        page.push_str(&(text::one_line(&webhook_line(context, webhook, result.newest)) + "\n"));
        for aside in &webhook.set_aside {
            let line = format!(
                "  set aside: event {} after {} tries: {}",
                aside.cursor, aside.tries, aside.reason
            );
            page.push_str(&(text::one_line(&line) + "\n"));
        }
    }
    match action {
        WebhookCommand::Rm(_) => page.insert_str(0, "removed "),
        WebhookCommand::Ls if page.is_empty() => page.push_str("there are no webhooks\n"),
        _ => {}
    }
    output::print_text(&page)?;
    if let WebhookCommand::Add(_) = action {
        for file in result.webhooks.iter().flat_map(|one| &one.secret_files) {
            let line = format!("the receiver checks signatures with the secret in {file}");
            output::print_notice(&text::one_line(&line));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn webhook_line(context: &CliContext, webhook: &WebhookRecord, newest: i64) -> String {
    let state = match (&webhook.disabled, &webhook.last_error) {
        (Some(reason), _) => format!("disabled: {reason}"),
        (None, Some(reason)) => {
            let next = webhook.next_try_at.map(|at| at.since(context.now));
            let next = next.map(|span| format!("; next try in {} s", span.as_secs()));
            format!("failing ({} tries): {reason}{}", webhook.tries, next.unwrap_or_default())
        }
        (None, None) => match newest - webhook.cursor {
            waiting if waiting > 0 => format!("{waiting} waiting"),
            _ => "up to date".to_owned(),
        },
    };
    let last = webhook.delivered_at.map(|at| duration::age_phrase(context.now.since(at)));
    let last = last.map(|age| format!(", last {age}")).unwrap_or_default();
    format!("{}  {}  {} delivered{last}  {state}", webhook.id, webhook.url, webhook.delivered)
}
