//! Joining, admitting, leaving, evicting: who belongs to a fleet. Secrets never travel; two lines do.

use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use model::helper::{HelperFailure, HelperFailureKind, OperatorEnd};
use model::time::Time;
use model::wire::{
    FleetAdmitResult, FleetDepartureResult, FleetJoinResult, FleetLevel, FleetOperatorsResult,
    OperatorView,
};
use serde::{Deserialize, Serialize};

use crate::failure::internal_failure;
use crate::fleet_files::{
    FleetDir, LINK_SEED, MEMBER_FILE, MemberFile, OPERATOR_LINK_SEED, OPERATOR_SEAL_SEED,
    SEAL_SEED, read_member, this_machine,
};
use crate::hub::{Hub, ensure_buckets, find_strangers, purge_member};
use crate::hub_lock::open_to_change;
use crate::record::{
    FleetOperator, MOST_META_BYTES, MemberCertificate, RECORD_VERSION, is_fleet_name,
    read_certificate,
};
use crate::seal::{SEAL_BYTES, SealKind, fingerprint, member_id, open_record, seal_json};
use crate::ssh_target::check_target;
use crate::timeouts::LEASE_CHECK_INTERVAL;

const REQUEST_PREFIX: &str = "ostler-join:";
const ANSWER_PREFIX: &str = "ostler-admit:";

/// The longest line that is read.
const MOST_LINE_BYTES: usize = 16 << 10;

/// What `join` sends: public keys and what is asked for, sealed with the home's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct JoinRequest {
    v: u32,
    name: String,
    machine: String,
    seal: String,
    link: String,
    level: FleetLevel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator: Option<OperatorKeys>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OperatorKeys {
    seal: String,
    link: String,
}

/// What `admit` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AdmitAnswer {
    v: u32,
    id: String,
    name: String,
    site: String,
    url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca: Option<String>,
    root: String,
    certificate: String,
    level: FleetLevel,
}

impl JoinRequest {
    /// What people compare: every key that it brings.
    fn fingerprint(&self) -> String {
        let operator = self.operator.iter().flat_map(|keys| [&*keys.seal, &*keys.link]);
        let keys: Vec<&str> = [&*self.seal, &*self.link].into_iter().chain(operator).collect();
        fingerprint(&keys)
    }

    /// The line, sealed by the home that asks: nobody else can put other keys beside its own.
    fn to_line(&self, seal: &nkeys::KeyPair) -> Result<String, HelperFailure> {
        let sealed = seal_json(seal, SealKind::Join, self);
        Ok(write_line(REQUEST_PREFIX, &sealed.map_err(|error| internal_failure(&error))?))
    }

    fn from_line(line: &str) -> Result<Self, HelperFailure> {
        let sealed = read_line(REQUEST_PREFIX, line)?;
        let wrong = |reason: &dyn std::fmt::Display| wrong_line(REQUEST_PREFIX, reason);
        // Its key is known only when it was read; nothing is done with it before the seal was checked.
        let body = sealed.get(SEAL_BYTES..).ok_or_else(|| wrong(&"it is too short"))?;
        let claimed: Self = serde_json::from_slice(body).map_err(|error| wrong(&error))?;
        open_record(&claimed.seal, SealKind::Join, &sealed).map_err(|error| wrong(&error))?;
        Ok(claimed)
    }
}

fn write_line(prefix: &str, bytes: &[u8]) -> String {
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))
}

fn wrong_line(prefix: &str, reason: &dyn std::fmt::Display) -> HelperFailure {
    HelperFailure::new(
        HelperFailureKind::Input,
        format!("the line cannot be used: {reason}"),
        format!(
            "paste the whole line that begins with `{prefix}`; both sides need ostler of the same version"
        ),
    )
}

fn read_line(prefix: &str, line: &str) -> Result<Vec<u8>, HelperFailure> {
    let line: String = line.split_whitespace().collect();
    if line.len() > MOST_LINE_BYTES {
        return Err(wrong_line(prefix, &"it is too long"));
    }
    let rest = line.strip_prefix(prefix);
    let rest = rest.ok_or_else(|| wrong_line(prefix, &"it begins otherwise"))?;
    URL_SAFE_NO_PAD.decode(rest).map_err(|error| wrong_line(prefix, &error))
}

/// Makes this home's keys, and the line that asks the hub to admit it.
pub fn ask_to_join(
    home: &Path,
    name: &str,
    level: FleetLevel,
    new: bool,
) -> Result<FleetJoinResult, HelperFailure> {
    if !is_fleet_name(name) {
        return Err(HelperFailure::new(
            HelperFailureKind::Input,
            format!("`{name}` cannot name a member"),
            "`--name` with up to 63 of a-z, 0-9 and -",
        ));
    }
    let dir = FleetDir::create(home, "fleet")?;
    let before: Option<MemberFile> = dir.read_json(MEMBER_FILE)?;
    if let Some(member) = before.filter(|member| !member.left && !new) {
        return Err(HelperFailure::new(
            HelperFailureKind::Refused,
            format!("this home is a member already, as `{}`", member.name),
            "`ostler fleet leave` first; `--new` makes new keys for a home that was copied",
        ));
    }
    if new {
        dir.give_up_keys()?;
        sys::pause::pause_at("fleet.join.anew");
    }
    let seal_key = dir.ensure_key(SEAL_SEED)?;
    let seal = seal_key.public_key();
    sys::pause::pause_at("fleet.join.key");
    let link = dir.ensure_key(LINK_SEED)?.public_key();
    let operator = match level {
        FleetLevel::None => None,
        _ => Some(OperatorKeys {
            seal: dir.ensure_key(OPERATOR_SEAL_SEED)?.public_key(),
            link: dir.ensure_key(OPERATOR_LINK_SEED)?.public_key(),
        }),
    };
    let id = member_id(&seal).map_err(|error| internal_failure(&error))?;
    let request = JoinRequest {
        v: RECORD_VERSION,
        name: name.to_owned(),
        machine: this_machine(),
        seal,
        link,
        level,
        operator,
    };
    let fingerprint = Some(request.fingerprint());
    let request = Some(request.to_line(&seal_key)?);
    let name = name.to_owned();
    Ok(FleetJoinResult { name, id, joined: false, request, fingerprint, level, url: None })
}

/// Becomes a member, with what the hub answered.
pub fn take_answer(home: &Path, line: &str) -> Result<FleetJoinResult, HelperFailure> {
    let answer: AdmitAnswer = serde_json::from_slice(&read_line(ANSWER_PREFIX, line)?)
        .map_err(|error| wrong_line(ANSWER_PREFIX, &error))?;
    let refused = |reason: String| {
        HelperFailure::new(
            HelperFailureKind::Refused,
            format!("the answer is not for this home: {reason}"),
            "run `ostler fleet join` here, `ostler fleet admit` with its line on the hub, then this again",
        )
    };
    let dir = FleetDir::open(home, "fleet")?.ok_or_else(|| refused("it never asked".to_owned()))?;
    let seal = dir.need_key(SEAL_SEED)?.public_key();
    let id = member_id(&seal).map_err(|error| internal_failure(&error))?;
    let sealed = STANDARD.decode(&answer.certificate);
    let sealed = sealed.map_err(|error| refused(error.to_string()))?;
    let certificate = read_certificate(&answer.root, &id, &sealed);
    let certificate = certificate.map_err(|error| refused(error.to_string()))?;
    let member = MemberFile {
        id: id.clone(),
        name: certificate.name.clone(),
        site: answer.site,
        url: answer.url.clone(),
        ca: answer.ca,
        root: answer.root,
        certificate: answer.certificate,
        level: answer.level,
        joined_at: sys::clock::now(),
        left: false,
    };
    sys::pause::pause_at("fleet.join.answered");
    dir.write_json(MEMBER_FILE, &member)?;
    sys::pause::pause_at("fleet.join.joined");
    let (name, level, url) = (certificate.name, answer.level, Some(answer.url));
    Ok(FleetJoinResult { name, id, joined: true, request: None, fingerprint: None, level, url })
}

/// Admits a member: account and certificate, two reloads, and its first lease if that is waited for.
pub async fn admit_member(
    home: &Path,
    line: &str,
    level: Option<FleetLevel>,
    ssh: Option<String>,
    until: Option<Time>,
    wait: Duration,
) -> Result<FleetAdmitResult, HelperFailure> {
    let request = JoinRequest::from_line(line)?;
    ssh.as_deref().map_or(Ok(()), check_target)?;
    let (mut hub, lock) = open_to_change(home)?;
    let fingerprint = request.fingerprint();
    let wrong = |reason: String| {
        HelperFailure::new(HelperFailureKind::Refused, reason, "ask for another name with `--name`")
    };
    let id = member_id(&request.seal).map_err(|error| wrong(error.to_string()))?;
    let is_key = |key: &str| nkeys::KeyPair::from_public_key(key).is_ok() && key.starts_with('U');
    if !is_fleet_name(&request.name) || !is_key(&request.link) || request.machine.len() > 128 {
        return Err(wrong("the request names what cannot be a member".to_owned()));
    }
    let is_taken = |one: &MemberCertificate| one.name == request.name && one.id != id;
    if hub.file.members.iter().any(is_taken) {
        return Err(wrong(format!("there is another member `{}`", request.name)));
    }
    // More than looking is given only by somebody who says so.
    let (asked, level) = (request.level, level.unwrap_or(FleetLevel::Read).min(request.level));
    let known = hub.file.members.iter().find(|one| one.id == id);
    let names = [Some(request.name.clone()), known.map(|known| known.name.clone())];
    let certificate = MemberCertificate {
        v: RECORD_VERSION,
        id: id.clone(),
        name: request.name.clone(),
        seal: request.seal.clone(),
        link: request.link,
        machine: request.machine.clone(),
        admitted_at: known.map_or_else(sys::clock::now, |known| known.admitted_at),
        ssh: ssh.or_else(|| known.and_then(|known| known.ssh.clone())),
    };
    hub.file.members.retain(|one| one.id != id);
    hub.file.members.push(certificate.clone());
    let is_same = |one: &FleetOperator| names.iter().flatten().any(|name| *name == one.name);
    // Whoever is admitted again has no longer than before, unless somebody says so.
    let known_end =
        hub.file.operators.iter().find(|one| is_same(one)).and_then(|one| one.not_after);
    hub.file.operators.retain(|one| !is_same(one));
    if let Some(keys) =
        request.operator.filter(|keys| level > FleetLevel::None && is_key(&keys.link))
    {
        hub.file.operators.push(FleetOperator {
            name: request.name.clone(),
            seal: keys.seal,
            link: keys.link,
            level,
            not_after: until.or(known_end),
        });
    }
    hub.file.operators_version += 1;
    check_list_fits(&hub)?;
    if let Some((one, other)) = hub.find_shared_key() {
        return Err(HelperFailure::new(
            HelperFailureKind::Refused,
            format!("{other} would connect with the key of {one}"),
            "keys are made where they are used: `ostler fleet join --new` there makes new ones",
        ));
    }
    hub.save()?;
    apply_to_engine(&hub).await?;
    sys::pause::pause_at("fleet.admit.applied");
    drop(lock);
    let heard = wait_for_lease(&hub, &id, wait).await?;
    let sealed = hub.sealed_certificate(&certificate)?;
    let answer = serde_json::to_vec(&AdmitAnswer {
        v: RECORD_VERSION,
        id: id.clone(),
        name: request.name.clone(),
        site: hub.file.site.clone(),
        url: hub.file.url.clone(),
        ca: hub.ca().map(str::to_owned),
        root: hub.root.public_key(),
        certificate: STANDARD.encode(sealed),
        level,
    });
    let answer = answer.map_err(|error| internal_failure(&error))?;
    Ok(FleetAdmitResult {
        name: request.name,
        id,
        machine: request.machine,
        fingerprint,
        asked,
        level,
        answer: write_line(ANSWER_PREFIX, &answer),
        heard,
    })
}

/// Members refuse a list that is too long, and then every order of everybody.
fn check_list_fits(hub: &Hub) -> Result<(), HelperFailure> {
    match hub.sealed_operators()?.len() > MOST_META_BYTES {
        false => Ok(()),
        true => Err(HelperFailure::new(
            HelperFailureKind::Refused,
            format!("{} operators are too many for one list", hub.file.operators.len()),
            "admit with `--level none`, or remove one: `ostler fleet operator NAME --level none`",
        )),
    }
}

/// Has a running engine take over what was changed. One that does not run does so when it starts.
async fn apply_to_engine(hub: &Hub) -> Result<(), HelperFailure> {
    match hub.reload_engine().await {
        Ok(()) => {}
        Err(crate::nats::HubError::Unreachable { .. }) => {
            return Err(HelperFailure::new(
                HelperFailureKind::Unreachable,
                "the hub does not run; what was changed takes effect when it starts",
                "`ostler fleet hub` runs it; then do this again",
            ));
        }
        Err(error) => return Err(error.into()),
    }
    let mut admin = hub.connect_admin().await?;
    ensure_buckets(&mut admin, hub.file.members.len()).await?;
    hub.publish_meta(&mut admin).await?;
    for (id, _) in find_strangers(hub, &mut admin).await? {
        purge_member(&mut admin, &id).await?;
    }
    Ok(())
}

async fn wait_for_lease(hub: &Hub, id: &str, wait: Duration) -> Result<bool, HelperFailure> {
    let begun = Instant::now();
    let mut admin = hub.connect_admin().await?;
    let subject = "$JS.API.DIRECT.GET.KV_lease";
    loop {
        let filter = format!("$KV.lease.{id}");
        let found = admin.read_records(subject, &filter, crate::hub::ADMIN_TIMEOUT).await?;
        if !found.is_empty() || begun.elapsed() >= wait {
            return Ok(!found.is_empty());
        }
        tokio::time::sleep(LEASE_CHECK_INTERVAL).await;
    }
}

/// Removes a member: its account and connection, its certificate, what the hub keeps of it. Its machine is
/// not touched.
pub async fn evict_member(home: &Path, name: &str) -> Result<FleetDepartureResult, HelperFailure> {
    let (mut hub, _lock) = open_to_change(home)?;
    // One that is half gone is meant rather than another whose name begins so.
    let member = match find_half_evicted(&hub, name).await {
        Some(member) => member,
        None => find_member(&hub.file.members, name)?.clone(),
    };
    hub.file.members.retain(|one| one.id != member.id);
    hub.file.operators.retain(|one| one.name != member.name);
    hub.file.operators_version += 1;
    hub.save()?;
    apply_to_engine(&hub).await?;
    sys::pause::pause_at("fleet.evict.applied");
    let mut admin = hub.connect_admin().await?;
    purge_member(&mut admin, &member.id).await?;
    Ok(FleetDepartureResult { name: member.name, id: member.id, told: true })
}

/// A member whose eviction was noted and then killed: the hub may still have its certificate.
async fn find_half_evicted(hub: &Hub, name: &str) -> Option<MemberCertificate> {
    if hub.file.members.iter().any(|one| one.name == name || one.id == name) {
        return None;
    }
    let mut admin = hub.connect_admin().await.ok()?;
    let strangers = find_strangers(hub, &mut admin).await.ok()?;
    let mut certificates = strangers.into_iter().filter_map(|(_, certificate)| certificate);
    certificates.find(|one| one.name == name || one.id == name)
}

/// By name, id, or the beginning of either.
pub fn find_member<'a>(
    members: &'a [MemberCertificate],
    text: &str,
) -> Result<&'a MemberCertificate, HelperFailure> {
    let exact: Vec<_> = members.iter().filter(|one| one.name == text || one.id == text).collect();
    let begins = |one: &&MemberCertificate| one.name.starts_with(text) || one.id.starts_with(text);
    let found = match exact.is_empty() {
        true => members.iter().filter(begins).collect(),
        false => exact,
    };
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(HelperFailure::new(
            HelperFailureKind::NotFound,
            format!("there is no member `{text}`"),
            "`ostler fleet status` lists them",
        )),
        several => Err(HelperFailure::new(
            HelperFailureKind::Ambiguous,
            format!("`{text}` could mean several members"),
            several.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", "),
        )),
    }
}

/// Leaves the fleet: the link says so when it hears it; keys are given up here.
pub async fn leave_fleet(home: &Path) -> Result<FleetDepartureResult, HelperFailure> {
    let (dir, mut member) = read_leaving_member(home)?;
    let told = crate::departure::publish_departure(&dir, &member).await;
    member.left = true;
    dir.write_json(MEMBER_FILE, &member)?;
    sys::pause::pause_at("fleet.leave.noted");
    dir.give_up_keys()?;
    Ok(FleetDepartureResult { name: member.name, id: member.id, told })
}

/// The member that this home is, also one that was killed while it left and still has its keys.
fn read_leaving_member(home: &Path) -> Result<(FleetDir, MemberFile), HelperFailure> {
    let failure = match read_member(home) {
        Ok(found) => return Ok(found),
        Err(failure) => failure,
    };
    let Some(dir) = FleetDir::open(home, "fleet")? else { return Err(failure) };
    match (dir.read_json(MEMBER_FILE)?, dir.read_key(SEAL_SEED)?) {
        (Some(member), Some(_)) => Ok((dir, member)),
        _ => Err(failure),
    }
}

/// All operators of this hub.
pub fn list_operators(home: &Path) -> Result<FleetOperatorsResult, HelperFailure> {
    Ok(operators_of(&Hub::open(home)?))
}

fn operators_of(hub: &Hub) -> FleetOperatorsResult {
    let view = |one: &FleetOperator| OperatorView {
        name: one.name.clone(),
        level: one.level,
        not_after: one.not_after,
    };
    FleetOperatorsResult {
        version: hub.file.operators_version,
        operators: hub.file.operators.iter().map(view).collect(),
    }
}

/// Changes an operator's level or its end, or removes it.
pub async fn set_operator(
    home: &Path,
    name: &str,
    level: Option<FleetLevel>,
    until: Option<OperatorEnd>,
) -> Result<FleetOperatorsResult, HelperFailure> {
    let (mut hub, _lock) = open_to_change(home)?;
    let Some(operator) = hub.file.operators.iter_mut().find(|one| one.name == name) else {
        return Err(HelperFailure::new(
            HelperFailureKind::NotFound,
            format!("there is no operator `{name}`"),
            "an operator's keys come with `ostler fleet join --level`; `ostler fleet operator` lists them",
        ));
    };
    operator.level = level.unwrap_or(operator.level);
    match until {
        Some(OperatorEnd::At(end)) => operator.not_after = Some(end),
        Some(OperatorEnd::Never) => operator.not_after = None,
        None => {}
    }
    hub.file.operators.retain(|one| one.level > FleetLevel::None);
    hub.file.operators_version += 1;
    hub.save()?;
    apply_to_engine(&hub).await?;
    Ok(operators_of(&hub))
}
