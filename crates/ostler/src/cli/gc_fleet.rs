//! `ostler gc --fleet`: the plans of all members in one table, and one outcome each.

use std::ffi::OsString;
use std::process::ExitCode;

use model::fleet_order::{OrderArguments, OrderRule, OrderedRunResult};
use model::helper::{HelperFailure, HelperFailureKind, OrderReport, OrderWay};
use model::json_text::from_json_value;
use model::wire::{FleetGcResult, GcResult, IncompleteSource, MemberGc};
use serde_json::Value;

use crate::cli::{CliContext, afar, ls, served};
use crate::error::{self, Error};
use crate::render::{output, text};

/// Prints what every member would collect, or has collected. This home answers for itself, first.
pub(crate) fn print_fleet_plans(
    context: &CliContext,
    args: &OrderArguments,
    with_here: bool,
    reports: Vec<OrderReport>,
) -> Result<ExitCode, Error> {
    let mut members = Vec::new();
    if with_here {
        members.push(read_member("here", "local", "", &Ok(collect_here(args))));
    }
    for report in &reports {
        members.push(read_member(&report.member, report.via.as_str(), &report.id, &report.done));
    }
    let incomplete = members.iter().filter_map(describe_failure).collect();
    let worst = worst_exit(members.iter().map(|one| one.exit));
    let result = FleetGcResult { members, incomplete };
    if context.json {
        context.print_json(&result)?;
    } else {
        output::print_text(&render_table(&result))?;
        ls::report_incomplete(&result.incomplete);
    }
    Ok(ExitCode::from(worst))
}

/// The same command on this machine.
fn collect_here(args: &OrderArguments) -> OrderedRunResult {
    let line = OrderRule::of_command("gc").map(|rule| rule.command_line(args, true));
    let line: Vec<OsString> = line.unwrap_or_default().into_iter().map(OsString::from).collect();
    served::run_captured(line)
}

fn read_member(
    name: &str,
    via: &str,
    id: &str,
    done: &Result<OrderedRunResult, HelperFailure>,
) -> MemberGc {
    let mut member = MemberGc {
        member: name.to_owned(),
        via: via.to_owned(),
        order: Some(id.to_owned()).filter(|id| !id.is_empty()),
        exit: 0,
        result: None,
        error: None,
        hint: None,
    };
    match done {
        Err(failure) => {
            member.exit = error::exit_number_of(Error::Helper(failure.clone()).stable_code());
            member.error = Some(failure.message.clone());
            member.hint = Some(failure.hint.clone());
        }
        Ok(run) => {
            member.exit = run.exit;
            let envelope: Value =
                serde_json::from_slice(&afar::decode_run(run)).unwrap_or_default();
            let text = |pointer: &str| envelope.pointer(pointer)?.as_str().map(str::to_owned);
            (member.error, member.hint) = (text("/error/message"), text("/error/hint"));
            let plan = envelope.get("result").cloned();
            member.result = plan.and_then(|plan| from_json_value::<GcResult>(&plan).ok());
            if member.result.is_none() && member.error.is_none() {
                let kind = HelperFailureKind::Protocol;
                let failure = HelperFailure::new(kind, "it answered something else", "");
                return read_member(name, via, id, &Err(failure));
            }
        }
    }
    member
}

/// A member whose plan is not known is not one that has nothing to collect.
fn describe_failure(member: &MemberGc) -> Option<IncompleteSource> {
    let reason = member.error.clone()?;
    Some(IncompleteSource { source: format!("member {}", member.member), path: None, reason })
}

/// What is not known is worst, then what failed, then what could not be read.
fn worst_exit(exits: impl Iterator<Item = u8>) -> u8 {
    let rank = |exit: &u8| match exit {
        0 => 0,
        12 => 1,
        14 => u16::MAX,
        other => 2 + u16::from(*other),
    };
    exits.max_by_key(rank).unwrap_or(0)
}

fn render_table(result: &FleetGcResult) -> String {
    let mut page = String::new();
    let width = result.members.iter().map(|one| one.member.len()).max().unwrap_or(0);
    let (mut count, mut bytes) = (0, 0);
    for one in &result.members {
        let told = match &one.result {
            None => {
                format!("nothing is known: {}", one.error.as_deref().unwrap_or("no reason"))
            }
            Some(plan) => {
                (count, bytes) = (count + plan.count, bytes + plan.bytes);
                let things = text::format_plural(plan.count, "thing");
                let size = text::format_bytes(plan.bytes);
                match (&plan.receipt, plan.applied, plan.count) {
                    (_, _, 0) => "nothing to collect".to_owned(),
                    (Some(receipt), true, _) => {
                        format!("{things}, {size}, moved to the trash (receipt {receipt})")
                    }
                    _ => format!("{things}, {size} (plan {})", plan.plan),
                }
            }
        };
        let way = if one.via == OrderWay::Ssh.as_str() { " (ssh)" } else { "" };
        let line = format!("{:width$}  {told}{way}", one.member);
        page.push_str(&text::one_line(&line));
        page.push('\n');
    }
    let things = text::format_plural(count, "thing");
    page.push_str(&format!("in all {things}, {}\n", text::format_bytes(bytes)));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_69_the_worst_exit_is_what_is_not_known() {
        assert_eq!(worst_exit([0, 12, 0].into_iter()), 12);
        assert_eq!(worst_exit([0, 12, 6].into_iter()), 6);
        assert_eq!(worst_exit([14, 13, 6].into_iter()), 14);
        assert_eq!(worst_exit([0].into_iter()), 0);
        assert_eq!(worst_exit([].into_iter()), 0);
    }
}
