//! `ostler ls --fleet`: sessions of other machines beside those of this one.

use std::process::ExitCode;
use std::time::Instant;

use flows::observe::{ObserveScope, Observed};
use model::fleet_order::OrderArguments;
use model::helper::{FleetAsk, OrderReport, OrderRequest};
use model::json_text::to_json_value;
use model::wire::{FleetLsResult, FleetSession, IncompleteSource, MemberName, MemberView};
use serde_json::{Map, Value};

use crate::cli::{CliContext, afar, fleet, ls};
use crate::error::{self, Error};
use crate::render::{duration, output, text};

/// What is asked for.
pub(crate) struct FleetListing<'a> {
    /// Ended sessions too.
    pub(crate) all: bool,
    /// Only of these members.
    pub(crate) hosts: &'a [String],
    /// Members that are not reachable do not count as missing.
    pub(crate) reachable: bool,
    /// How many seconds the hub is waited for.
    pub(crate) timeout: u64,
    /// Only ids.
    pub(crate) quiet: bool,
    /// Only these agents.
    pub(crate) agents: &'a [String],
    /// At most so many.
    pub(crate) limit: Option<usize>,
}

/// Lists them. What is here is read here, first, and never waits for the hub.
pub(crate) fn list_fleet(
    context: &CliContext,
    listing: &FleetListing<'_>,
) -> Result<ExitCode, Error> {
    fleet::need_fleet(context)?;
    let scope = if listing.all { ObserveScope::All } else { ObserveScope::Active };
    let observation = context.observe_now(scope, listing.agents)?;
    let timeout_ms = listing.timeout.saturating_mul(1000);
    let what = FleetAsk::Sessions { all: listing.all, hosts: listing.hosts.to_vec(), timeout_ms };
    let mut result: FleetLsResult = fleet::ask_fleet(context, what)?;
    // The hub has what ended within a day, as far as it fits; of a member that is named, everything is asked for.
    if listing.all && !listing.hosts.is_empty() {
        ask_for_all(context, timeout_ms, &mut result)?;
    }
    let here = result.members.iter().find(|member| member.here);
    let name = here.map(|member| MemberName { id: member.id.clone(), name: member.name.clone() });
    if listing.hosts.is_empty() || here.is_some() {
        let whose =
            name.unwrap_or_else(|| MemberName { id: String::new(), name: "here".to_owned() });
        let wanted = |one: &&Observed| listing.all || one.verdict.status.is_active();
        let local = observation.sessions.iter().filter(wanted);
        let mut sessions: Vec<FleetSession> = local.map(|one| local_session(one, &whose)).collect();
        sessions.append(&mut result.sessions);
        result.sessions = sessions;
        result.incomplete.extend(observation.incomplete.iter().cloned());
    }
    if !listing.agents.is_empty() {
        let is_wanted = |one: &FleetSession| {
            one.text("agent")
                .is_some_and(|agent| listing.agents.iter().any(|wanted| wanted == agent))
        };
        result.sessions.retain(is_wanted);
    }
    if listing.reachable {
        result.incomplete.retain(|one| !one.source.starts_with("member "));
    }
    result.total = result.sessions.len();
    result.sessions.truncate(listing.limit.unwrap_or(usize::MAX));
    result.shown = result.sessions.len();
    if context.json {
        context.print_json(&result)?;
    } else if listing.quiet {
        let line = |one: &FleetSession| {
            text::one_line(&format!("{}/{}", one.member.name, one.text("id").unwrap_or(""))) + "\n"
        };
        output::print_text(&result.sessions.iter().map(line).collect::<String>())?;
    } else {
        print_listing(&result)?;
    }
    Ok(error::exit_code_for(&result.incomplete))
}

/// Asks members for all of their sessions, in place of what the hub has of them.
fn ask_for_all(
    context: &CliContext,
    timeout_ms: u64,
    result: &mut FleetLsResult,
) -> Result<(), Error> {
    let asked = |member: &&MemberView| member.state.vouches() && !member.here;
    let members: Vec<MemberView> = result.members.iter().filter(asked).cloned().collect();
    if members.is_empty() {
        return Ok(());
    }
    let mut args = OrderArguments::default();
    args.options.insert("all".to_owned(), Vec::new());
    let settings = context.load_config()?;
    let request = OrderRequest {
        hosts: members.iter().map(|member| member.id.clone()).collect(),
        command: "ls".to_owned(),
        args,
        json: true,
        timeout_ms,
        via: None,
        ssh: settings.fleet_ssh,
    };
    let asked_at = Instant::now();
    let reports: Vec<OrderReport> = fleet::ask_fleet(context, FleetAsk::Order(Box::new(request)))?;
    // They were looked at after they were asked for, and by no clock but this one.
    let age_ms = model::time::whole_millis(asked_at.elapsed());
    for member in members {
        let report = reports.iter().find(|report| report.member == member.name);
        let answer = report.map(|report| report.done.as_ref().map(afar::decode_run));
        let told: Option<Value> = match answer {
            Some(Ok(bytes)) => serde_json::from_slice(&bytes).ok(),
            _ => None,
        };
        let sessions = told.as_ref().and_then(|told| told.pointer("/result/sessions")?.as_array());
        let Some(sessions) = sessions else {
            let reason = "only what the hub has of it: it did not answer".to_owned();
            let source = format!("member {}", member.name);
            result.incomplete.push(IncompleteSource { source, path: None, reason });
            continue;
        };
        let whose = MemberName { id: member.id.clone(), name: member.name.clone() };
        result.sessions.retain(|one| one.member.id != member.id);
        result.sessions.extend(sessions.iter().filter_map(Value::as_object).map(|session| {
            let (session, member) = (session.clone(), whose.clone());
            FleetSession { session, member, age_ms, last_known: None }
        }));
    }
    Ok(())
}

fn local_session(one: &Observed, whose: &MemberName) -> FleetSession {
    let session = match to_json_value(&one.session_view()) {
        Ok(Value::Object(session)) => session,
        _ => Map::new(),
    };
    FleetSession { session, member: whose.clone(), age_ms: 0, last_known: None }
}

fn print_listing(result: &FleetLsResult) -> Result<(), Error> {
    let mut page = String::new();
    for member in &result.members {
        page.push_str(&text::one_line(&fleet::member_line(member)));
        page.push('\n');
        for one in result.sessions.iter().filter(|one| one.member.id == member.id) {
            page.push_str(&session_line(one));
        }
        // A member that was not heard has not said that it has no sessions.
        let has_any = result.sessions.iter().any(|one| one.member.id == member.id);
        if !has_any && !member.state.vouches() && !member.here {
            page.push_str("  its sessions are not known\n");
        }
    }
    let known =
        |one: &&FleetSession| !result.members.iter().any(|member| member.id == one.member.id);
    let others: Vec<&FleetSession> = result.sessions.iter().filter(known).collect();
    if !others.is_empty() {
        page.push_str("here\n");
        others.iter().for_each(|one| page.push_str(&session_line(one)));
    }
    if page.is_empty() {
        page.push_str("No members.\n");
    }
    output::print_text(&page)?;
    if result.shown < result.total {
        output::print_notice(&format!("{} of {} sessions shown", result.shown, result.total));
    }
    ls::report_incomplete(&result.incomplete);
    Ok(())
}

fn session_line(one: &FleetSession) -> String {
    let word = |name: &str| one.text(name).unwrap_or("").to_owned();
    let state = match (one.text("activity"), &one.last_known) {
        (_, Some(last)) => {
            let last = last.get("activity").or_else(|| last.get("status")).and_then(Value::as_str);
            format!("unknown, was {}", last.unwrap_or("unknown"))
        }
        (Some(activity), None) => activity.to_owned(),
        (None, None) => word("status"),
    };
    let age = duration::age_phrase(std::time::Duration::from_millis(one.age_ms));
    let id: String = word("id").chars().take(8).collect();
    let line = format!(
        "  {id}  {:12}  {state}  ({age})  {}  {}",
        word("agent"),
        word("cwd"),
        word("title")
    );
    text::one_line(line.trim_end()) + "\n"
}
