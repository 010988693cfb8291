//! What is wrong with a fleet, as it is seen from this home: each finding with its reason and its remedy.

use std::path::Path;
use std::time::Duration;

use model::helper::HelperFailure;
use model::time::Time;
use model::wire::{FleetDoctorResult, FleetFinding, HubView, MemberState, MemberView};
use serde_json::Value;

use crate::engine::{ENGINE_VERSIONS, is_engine_new_enough};
use crate::fleet::FleetReader;
use crate::fleet_files::{
    FleetDir, LINK_SEED, LinkReport, MEMBER_FILE, OPERATOR_LINK_SEED, OPERATOR_SEAL_SEED,
    SEAL_SEED, read_member,
};
use crate::hub::{
    ADMIN_SEED, HUB_DIRECTORY, HUB_FILE, Hub, ROOT_SEED, SYSTEM_SEED, account_name,
    find_bucket_drift, find_certificate_drift,
};
use crate::hub_certificate::{
    AUTHORITY_KEY, HUB_CERTIFICATE_KEY, RENEWAL_DAYS, days_of_certificate,
};
use crate::link::LINK_REPORT_FILE;

/// The private files of a member and of a hub.
const PRIVATE_FILES: [(&str, &[&str]); 2] = [
    ("fleet", &[MEMBER_FILE, LINK_SEED, SEAL_SEED, OPERATOR_LINK_SEED, OPERATOR_SEAL_SEED]),
    (
        HUB_DIRECTORY,
        &[HUB_FILE, ROOT_SEED, ADMIN_SEED, SYSTEM_SEED, AUTHORITY_KEY, HUB_CERTIFICATE_KEY],
    ),
];

/// How much a member may send without being named: a renewal is some 70 bytes a second.
const LOUD_BYTES_PER_SECOND: f64 = 65_536.0;

/// Over how long that is an average at least: a member that begins says everything at once.
const LOUD_SECONDS: f64 = 60.0;

const RESTART: &str = "restart the hub: `ostler fleet hub`";

fn finding(grade: &str, what: &str, found: impl Into<String>, remedy: &str) -> FleetFinding {
    FleetFinding {
        grade: grade.to_owned(),
        what: what.to_owned(),
        finding: found.into(),
        remedy: Some(remedy.to_owned()).filter(|remedy| !remedy.is_empty()),
    }
}

fn good(what: &str, found: impl Into<String>) -> FleetFinding {
    finding("ok", what, found, "")
}

/// What is wrong, each with its remedy.
pub async fn fleet_doctor(
    home: &Path,
    cache: &Path,
    timeout: Duration,
) -> Result<FleetDoctorResult, HelperFailure> {
    let mut findings = examine_files(home);
    let are_private = findings.iter().all(|one| one.grade == "ok");
    match FleetReader::find(home) {
        Ok(reader) => examine_fleet(home, cache, timeout, &reader, &mut findings).await?,
        // Nothing is done with keys that others can read: the rest cannot be looked at.
        Err(_) if !are_private => {}
        Err(failure) => return Err(failure),
    }
    let healthy = findings.iter().all(|one| one.grade == "ok");
    Ok(FleetDoctorResult { findings, healthy })
}

/// Keys and what names them: this user's alone.
fn examine_files(home: &Path) -> Vec<FleetFinding> {
    let mut faults = Vec::new();
    for (below, names) in PRIVATE_FILES {
        match FleetDir::open(home, below) {
            Ok(None) => {}
            Ok(Some(dir)) => faults.extend(names.iter().filter_map(|name| dir.read(name).err())),
            Err(failure) => faults.push(failure),
        }
    }
    if faults.is_empty() {
        return vec![good("files", "keys and what names them are this user's alone")];
    }
    let remedy = "`chmod 600` the file, `chmod 700` its directory; if somebody may have read a key, \
                  `ostler fleet join --new` makes others";
    faults.into_iter().map(|failure| finding("error", "files", failure.message, remedy)).collect()
}

async fn examine_fleet(
    home: &Path,
    cache: &Path,
    timeout: Duration,
    reader: &FleetReader,
    findings: &mut Vec<FleetFinding>,
) -> Result<(), HelperFailure> {
    if let Ok((dir, _)) = read_member(home) {
        let report: LinkReport = dir.read_json(LINK_REPORT_FILE)?.unwrap_or_default();
        findings.push(examine_link(&report));
        findings.extend(report.violations.iter().map(|violation| {
            let remedy = "the hub's configuration differs from what this member needs: `ostler fleet doctor` on the hub";
            finding("error", "refused by the hub", violation.as_str(), remedy)
        }));
    }
    let (picture, hub) = reader.look(cache, false, timeout).await;
    findings.push(examine_engine(&hub));
    for member in picture.members.iter().filter(|member| hub.reachable && !member.here) {
        findings.extend(examine_member(member));
    }
    if let Some(hub) = &reader.hub {
        examine_hub(hub, findings).await;
    }
    Ok(())
}

fn examine_link(report: &LinkReport) -> FleetFinding {
    let state = report.state.as_str();
    match state {
        "publishing" => good("link", "this home publishes itself"),
        "" => finding("warning", "link", "it never ran", "`ostler daemon start` runs it"),
        _ if state.contains("join --new") => {
            let remedy = "on the copy, `ostler fleet join --new` makes a member of its own";
            finding("error", "link", state, remedy)
        }
        state => finding("error", "link", state, "`ostler daemon start`, or as it says"),
    }
}

fn examine_engine(hub: &HubView) -> FleetFinding {
    match (&hub.version, &hub.reason) {
        (Some(version), _) if is_engine_new_enough(version) => {
            good("hub", format!("{} runs version {version}", hub.url))
        }
        (Some(version), _) => finding(
            "error",
            "hub",
            format!("{} runs version {version}, which is too old", hub.url),
            &format!("{ENGINE_VERSIONS} on the hub's machine"),
        ),
        (None, reason) => {
            let reason = reason.clone().unwrap_or_default();
            finding("error", "hub", reason, "`ostler fleet hub` runs it")
        }
    }
}

fn examine_member(member: &MemberView) -> Vec<FleetFinding> {
    let what = format!("member {}", member.name);
    let mut findings = Vec::new();
    let mut warn = |found: String, remedy: &str| {
        findings.push(finding("warning", &what, found, remedy));
    };
    if member.state.is_incomplete() {
        let remedy = match member.state {
            MemberState::Rival => {
                "on the copy, `ostler fleet join --new` makes a member of its own"
            }
            MemberState::Unreadable => {
                "update ostler there or here; one whose keys are lost joins again"
            }
            MemberState::Silent => "`ostler daemon start` there publishes it",
            _ => "look at it: `ostler daemon status` there",
        };
        let reason = member.reason.as_deref().unwrap_or("");
        warn(format!("{} {reason}", member.state.as_str()).trim().to_owned(), remedy);
    }
    if let Some(skew) = member.clock_skew_ms {
        let found = format!("its clock differs from the hub's by {} s", skew / 1000);
        warn(found, "set its clock");
    }
    if let Some(count) = member.truncated {
        let found = format!("{count} of its sessions do not fit into what it may publish");
        warn(
            found,
            "`ostler --host NAME ls -a` asks the machine itself; `ostler gc` there makes fewer",
        );
    }
    findings
}

/// What only the hub's own machine can tell.
async fn examine_hub(hub: &Hub, findings: &mut Vec<FleetFinding>) {
    let written = hub.dir.read(crate::hub::ENGINE_CONFIG).ok().flatten().unwrap_or_default();
    findings.push(match written == hub.engine_config().as_bytes() {
        true => good("configuration", "it is what follows from who was admitted"),
        false => finding(
            "error",
            "configuration",
            "it is not what follows from who was admitted",
            "restart the hub: `ostler fleet hub` writes it anew",
        ),
    });
    findings.extend(examine_certificate(hub, sys::clock::now()));
    match hub.connect_admin().await {
        Err(error) => findings.push(finding("error", "buckets", error.to_string(), RESTART)),
        Ok(mut admin) => {
            let remedy = "restart the hub: `ostler fleet hub`, or admit anybody again";
            let drift = find_bucket_drift(&mut admin).await;
            list_faults(findings, "buckets", "they are as strict as they must be", drift, remedy);
            let drift = find_certificate_drift(hub, &mut admin).await;
            let remedy = "any `ostler fleet admit` or `ostler fleet operator` on the hub writes all of them again";
            list_faults(
                findings,
                "certificates",
                "the hub has those that were signed",
                drift,
                remedy,
            );
        }
    }
    let remedy = "make room on the hub's disk, then restart the hub: `ostler fleet hub`";
    list_faults(findings, "store", "the engine writes it", hub.read_store_faults().await, remedy);
    findings.push(examine_violations(hub));
    match hub.read_connections().await {
        Ok(connections) => findings.extend(examine_loudest(hub, &connections)),
        Err(error) => findings.push(finding("error", "traffic", error.to_string(), RESTART)),
    }
}

fn list_faults<E: std::fmt::Display>(
    findings: &mut Vec<FleetFinding>,
    what: &str,
    well: &str,
    faults: Result<Vec<String>, E>,
    remedy: &str,
) {
    match faults {
        Ok(faults) if faults.is_empty() => findings.push(good(what, well)),
        Ok(faults) => {
            findings.extend(faults.into_iter().map(|fault| finding("error", what, fault, remedy)));
        }
        Err(error) => findings.push(finding("error", what, error.to_string(), RESTART)),
    }
}

/// How long what the hub shows is good for.
fn examine_certificate(hub: &Hub, now: Time) -> Option<FleetFinding> {
    if hub.file.plain {
        return None;
    }
    let remedy = "restart the hub: `ostler fleet hub` issues another with the same CA";
    Some(match days_of_certificate(&hub.dir, hub.host_name(), now) {
        Ok(None) => good("certificate", "it is good for more than a year"),
        Ok(Some(days)) if days > RENEWAL_DAYS => {
            good("certificate", format!("it is good for {days} more days"))
        }
        Ok(Some(days)) => {
            finding("warning", "certificate", format!("it is good for {days} more days"), remedy)
        }
        Err(reason) => {
            finding("error", "certificate", format!("members refuse it: {reason}"), remedy)
        }
    })
}

/// Who tried what it may not since the engine was started, by the engine's log.
fn examine_violations(hub: &Hub) -> FleetFinding {
    let log = std::fs::read(hub.dir.path().join("hub.log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let since_start = log.rsplit("Starting nats-server").next().unwrap_or("");
    let violations: Vec<&str> =
        since_start.lines().filter(|line| line.contains(" Violation - ")).collect();
    let Some(last) = violations.last() else {
        return good("violations", "nobody tried what it may not since the hub was started");
    };
    let members = hub.file.members.iter().map(|one| (&one.name, account_name(&one.id), &one.link));
    let operators = hub.file.operators.iter().map(|one| (&one.name, one.link.clone(), &one.link));
    let count = |(name, account, key): (_, String, &String)| {
        let is_by = |line: &&&str| line.contains(&account) || line.contains(key.as_str());
        (violations.iter().filter(is_by).count(), name)
    };
    let most = members.chain(operators).map(count).max();
    let whose = match most {
        Some((count, name)) if count > 0 => format!(", most of them ({count}) by `{name}`"),
        _ => String::new(),
    };
    let what = last.split(" - ").skip(4).collect::<Vec<_>>().join(" - ");
    finding(
        "warning",
        "violations",
        format!("{} refused since the hub was started{whose}; the last: {what}", violations.len()),
        "look at that machine; `ostler fleet evict NAME` cuts it off",
    )
}

/// Static configuration has no limit on how often somebody writes: whoever sends the most is named.
fn examine_loudest(hub: &Hub, connections: &Value) -> Option<FleetFinding> {
    let time = |value: &Value, name: &str| value.get(name)?.as_str().and_then(Time::parse);
    let now = time(connections, "now")?;
    let all = connections.get("connections")?.as_array()?;
    let rates = all.iter().filter_map(|one| {
        let account = one.get("account")?.as_str()?;
        let member = hub.file.members.iter().find(|member| account_name(&member.id) == account)?;
        let seconds = now.since(time(one, "start")?).as_secs_f64().max(LOUD_SECONDS);
        Some((one.get("in_bytes")?.as_f64()? / seconds, &member.name))
    });
    let (rate, name) = rates.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let found = format!("`{name}` sends the most: {rate:.0} B/s");
    Some(match rate > LOUD_BYTES_PER_SECOND {
        false => good("traffic", found),
        true => finding(
            "warning",
            "traffic",
            found,
            "look at what changes so often there; `ostler fleet evict NAME` cuts it off",
        ),
    })
}
