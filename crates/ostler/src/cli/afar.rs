//! Commands for other machines: `--host NAME`, ids like `NAME/ID`, `gc --fleet`.
//!
//! The command line is read by the same tree as every other; what was given becomes an order, which the
//! network helper hands to the member. There it is run as a local command.

use std::ffi::OsString;
use std::process::ExitCode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::ArgMatches;
use clap::parser::ValueSource;
use flows::caller::find_calling_party;
use model::fleet_order::{OrderArguments, OrderRule, OrderedRunResult};
use model::helper::{FleetAsk, OrderReport, OrderRequest, OrderWay};
use model::json_text::{from_json_value, write_pretty};
use model::wire::{FleetLevel, GcResult};
use serde_json::{Value, json};
use sys::dropped::NoteDropped;

use crate::cli::terminal::attach::AttachArgs;
use crate::cli::{CliContext, branch_of, fleet, gc, gc_fleet, word_of_command};
use crate::env;
use crate::error::Error;
use crate::render::output;

/// Commands whose first word names a session.
const ADDRESSED: [&str; 25] = [
    "attach",
    "show",
    "why",
    "who",
    "logs",
    "peek",
    "inspect",
    "snapshot",
    "screenshot",
    "wait",
    "prompt",
    "type",
    "paste",
    "send-keys",
    "run",
    "resize",
    "mark",
    "signal",
    "stop",
    "destroy",
    "finalize",
    "pin",
    "undo",
    "outcome",
    "events",
];

/// A command that is meant for other machines.
#[derive(Debug)]
pub(crate) struct AfarOrder {
    hosts: Vec<String>,
    command: &'static str,
    args: OrderArguments,
    via: Option<OrderWay>,
}

/// What stands before a command and says where it is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AfarChoice<'a> {
    pub(crate) hosts: &'a [String],
    pub(crate) via: Option<OrderWay>,
    /// Whether this home has to do with a fleet.
    pub(crate) in_fleet: bool,
}

/// The order that a command line stands for; none if it is for this machine.
pub(crate) fn read_order(
    args: &[OsString],
    command: &'static str,
    choice: AfarChoice<'_>,
) -> Result<Option<AfarOrder>, Error> {
    // Lists of members are read from the hub.
    if command == "ls" || command.starts_with("fleet") {
        return Ok(None);
    }
    let has_slash = |arg: &OsString| arg.to_str().is_some_and(|arg| arg.contains('/'));
    let may_address = choice.in_fleet && ADDRESSED.contains(&command) && args.iter().any(has_slash);
    let may_collect = command == "gc" && args.iter().any(|arg| arg == "--fleet");
    if choice.hosts.is_empty() && !may_address && !may_collect {
        return Ok(None);
    }
    let mut given = read_arguments(args, command)?;
    let is_everywhere = may_collect && given.options.remove("fleet").is_some();
    let mut hosts = choice.hosts.to_vec();
    if hosts.is_empty() && may_address {
        hosts.extend(take_address(&mut given));
    }
    if hosts.is_empty() && !is_everywhere {
        return Ok(None);
    }
    if OrderRule::of_command(command).is_none() {
        return Err(Error::usage_error(
            format!("`{command}` cannot be run on another machine"),
            "run it there, e.g. by ssh",
        ));
    }
    if hosts.len() > 1 && command != "gc" {
        return Err(Error::usage_error(
            "several members at once can be listed (`ls`) and cleaned up (`gc`) only",
            "name one member",
        ));
    }
    Ok(Some(AfarOrder { hosts, command, args: given, via: choice.via }))
}

/// Takes `NAME/` away from what names a session.
fn take_address(given: &mut OrderArguments) -> Option<String> {
    let option = given.options.get_mut("session").and_then(|values| values.first_mut());
    let text = option.or_else(|| given.words.first_mut())?;
    let (name, id) = text.split_once('/')?;
    let is_name = (1..=63).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    let (name, id) = (name.to_owned(), id.to_owned());
    if !is_name || id.is_empty() {
        return None;
    }
    *text = id;
    Some(name)
}

/// What was given on the command line, by the long names of options.
fn read_arguments(args: &[OsString], command: &str) -> Result<OrderArguments, Error> {
    let tree = word_of_command(args).and_then(branch_of);
    let Some(mut tree) = tree else { return Ok(OrderArguments::default()) };
    let matches = tree.try_get_matches_from_mut(args);
    // It was read before, by the same tree.
    let Ok(matches) = matches else { return Ok(OrderArguments::default()) };
    let (mut level, mut found): (&clap::Command, &ArgMatches) = (&tree, &matches);
    for word in command.split(' ') {
        match (level.find_subcommand(word), found.subcommand_matches(word)) {
            (Some(inner), Some(below)) => (level, found) = (inner, below),
            _ => return Ok(OrderArguments::default()),
        }
    }
    let mut given = OrderArguments::default();
    for arg in level.get_arguments().filter(|arg| !arg.is_global_set()) {
        let id = arg.get_id().as_str();
        if found.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let values: Option<Vec<String>> = match arg.get_action().takes_values() {
            true => found
                .get_raw(id)
                .into_iter()
                .flatten()
                .map(|value| value.to_str().map(str::to_owned))
                .collect(),
            false => Some(Vec::new()),
        };
        let values = values.ok_or_else(|| {
            Error::usage_error(format!("`{id}` is not text"), "only text goes to another machine")
        })?;
        match (arg.is_positional(), arg.get_long()) {
            (true, _) => given.words.extend(values),
            (false, Some(long)) => drop(given.options.insert(long.to_owned(), values)),
            (false, None) => {
                let short = arg.get_short().map(String::from).unwrap_or_default();
                return Err(Error::usage_error(
                    format!("`-{short}` of `{command}` cannot be used on another machine"),
                    "leave it out, or run the command there",
                ));
            }
        }
    }
    Ok(given)
}

/// Has it done, and prints what came of it.
pub(crate) fn give_order(context: &CliContext, order: AfarOrder) -> Result<ExitCode, Error> {
    fleet::need_fleet(context)?;
    let settings = context.load_config()?;
    let level = OrderRule::of_command(order.command)
        .map_or(FleetLevel::Reap, |rule| rule.level_of(&order.args));
    check_agent(context, level, settings.fleet.agents_may)?;
    if order.command == "attach" {
        return attach_afar(context, &order);
    }
    let is_collecting = order.command == "gc";
    let request = OrderRequest {
        hosts: order.hosts.clone(),
        command: order.command.to_owned(),
        args: order.args.clone(),
        // A plan is drawn here, with those of others.
        json: context.json || is_collecting,
        timeout_ms: settings.fleet.timeout_ms,
        via: order.via,
        ssh: settings.fleet_ssh,
    };
    let reports: Vec<OrderReport> = fleet::ask_fleet(context, FleetAsk::Order(Box::new(request)))?;
    if is_collecting && order.hosts.len() != 1 {
        return gc_fleet::print_fleet_plans(context, &order.args, order.hosts.is_empty(), reports);
    }
    let Some(report) = reports.into_iter().next() else {
        return Err(Error::usage_error("there is no such member", "`ostler fleet status`"));
    };
    print_report(context, report, is_collecting)
}

/// A terminal goes on, so it goes through the hub alone.
fn attach_afar(context: &CliContext, order: &AfarOrder) -> Result<ExitCode, Error> {
    let attach = AttachArgs::of_order(&order.args);
    match order.hosts.first().filter(|_| order.via != Some(OrderWay::Ssh)) {
        Some(host) => attach.run_afar(context, host),
        None => Err(Error::usage_error(
            "a terminal is joined through the hub",
            "leave `--via` out, or `ssh -t TARGET ostler attach ID`",
        )),
    }
}

/// An agent looks; for more a person has to say so. A guard against accidents, not against theft.
fn check_agent(context: &CliContext, level: FleetLevel, most: FleetLevel) -> Result<(), Error> {
    if level <= FleetLevel::Read || level <= most {
        return Ok(());
    }
    let party = find_calling_party(context.machine()?, &env::user_name());
    match party.process {
        None => Ok(()),
        Some(_) => Err(Error::Refused {
            what: format!(
                "{} runs below an agent, and agents may only `{}` on other machines",
                party.name,
                most.as_str()
            ),
            hint: "`agents_may` under [fleet] raises it".to_owned(),
        }),
    }
}

fn print_report(
    context: &CliContext,
    report: OrderReport,
    is_collecting: bool,
) -> Result<ExitCode, Error> {
    let run = report.done?;
    let bytes = decode_run(&run);
    if report.via == OrderWay::Ssh && !context.json {
        output::print_notice(&format!("{}: through ssh", report.member));
    }
    let envelope: Option<Value> = serde_json::from_slice(&bytes).ok();
    if context.json {
        match envelope {
            Some(Value::Object(mut envelope)) if envelope.contains_key("ok") => {
                envelope.insert("member".to_owned(), json!(report.member));
                envelope.insert("via".to_owned(), json!(report.via.as_str()));
                output::print_foreign(&pretty_line(&Value::Object(envelope)))?;
            }
            _ => output::print_foreign(&bytes)?,
        }
        return Ok(ExitCode::from(run.exit));
    }
    match (envelope.as_ref().and_then(|one| one.pointer("/error")), is_collecting) {
        (Some(error), _) => {
            let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or("");
            output::report_foreign_error(&report.member, text("message"), text("hint"));
        }
        (None, true) => {
            let plan = envelope.as_ref().and_then(|one| one.get("result")).cloned();
            let plan: GcResult = from_json_value(&plan.unwrap_or_default())?;
            gc::print_plan_text(&plan)?;
        }
        (None, false) => output::print_foreign(&bytes)?,
    }
    Ok(ExitCode::from(run.exit))
}

/// What a member's command printed.
pub(crate) fn decode_run(run: &OrderedRunResult) -> Vec<u8> {
    STANDARD.decode(&run.body).unwrap_or_default()
}

fn pretty_line(value: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    // A tree of values always has a form.
    write_pretty(&mut text, value).note_dropped("writing a tree of values");
    text
}
