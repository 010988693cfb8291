//! What a reader makes of the hub's records: member states, sessions, ages. Pure, and safe for any bytes.
//!
//! A lease is a date by the hub's clock. Lapsed means *unreachable since*, and the sessions are unknown: what
//! was said last stays visible, with its age. No age is the difference of two machines' clocks.

use std::collections::{BTreeMap, HashMap};

use model::time::Time;
use model::wire::{FleetSession, IncompleteSource, MemberName, MemberState, MemberView};
use serde_json::{Map, Value, json};

use crate::inventory::{is_ended, session_key};
use crate::lease::MOST_LEASE_MS;
use crate::nats::StoredRecord;
use crate::record::{
    InventoryPage, LeaseState, MemberCertificate, MemberLease, RecordError, read_certificate,
    read_lease, read_page,
};

/// How far two clocks may differ before it is worth a word.
const WORTHY_SKEW_MS: i64 = 2000;

/// How many members must fall silent at once for the hub to be suspected.
const SUSPICIOUS_SILENCE: usize = 3;

/// Everything that was read from a hub.
#[derive(Clone, Debug, Default)]
pub struct HubRecords {
    /// The hub's clock.
    pub now: Option<Time>,
    /// Certificates and operators.
    pub meta: Vec<StoredRecord>,
    pub leases: Vec<StoredRecord>,
    pub pages: Vec<StoredRecord>,
}

/// What it means.
#[derive(Clone, Debug, Default)]
pub struct FleetPicture {
    /// Every member, by name.
    pub members: Vec<MemberView>,
    pub sessions: Vec<FleetSession>,
    /// Every member that cannot be vouched for.
    pub incomplete: Vec<IncompleteSource>,
}

/// Verifies, decodes and merges. `me` is this home's own member, which is read locally and not here.
pub fn merge_records(root: &str, records: &HubRecords, me: Option<&str>) -> FleetPicture {
    let now = records.now.unwrap_or(Time::from_millis(0));
    let mut leases: HashMap<&str, &StoredRecord> = HashMap::new();
    for record in &records.leases {
        if let Some(id) = record.subject.strip_prefix("$KV.lease.") {
            leases.insert(id, record);
        }
    }
    let mut pages: HashMap<&str, BTreeMap<&str, &StoredRecord>> = HashMap::new();
    for record in &records.pages {
        let rest = record.subject.strip_prefix("$KV.inv.").unwrap_or("");
        if let Some((id, page)) = rest.split_once('.') {
            // In the order of their sequence: a key that was written while it was read comes again.
            pages.entry(id).or_default().insert(page, record);
        }
    }
    let mut picture = FleetPicture::default();
    let mut meta: BTreeMap<&str, &StoredRecord> = BTreeMap::new();
    for record in &records.meta {
        if let Some(id) = record.subject.strip_prefix("$KV.meta.member.") {
            meta.insert(id, record);
        }
    }
    for (id, record) in meta {
        let own_pages = pages.get(id).cloned().unwrap_or_default();
        let lease = leases.get(id).copied();
        let is_here = me == Some(id);
        match read_certificate(root, id, &record.bytes) {
            Ok(certificate) => {
                let told = read_member(&certificate, lease, &own_pages, now, is_here);
                picture.members.push(told.0);
                picture.sessions.extend(told.1);
            }
            Err(error) => picture.members.push(unreadable_member(id, id, &error, is_here)),
        }
    }
    picture.members.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    picture.incomplete = list_incomplete(&picture.members);
    picture
}

fn unreadable_member(id: &str, name: &str, error: &RecordError, here: bool) -> MemberView {
    MemberView {
        id: id.to_owned(),
        name: name.to_owned(),
        state: MemberState::Unreadable,
        reason: Some(error.to_string()),
        since: None,
        last_seen_at: None,
        age_ms: None,
        clock_skew_ms: None,
        counts: None,
        truncated: None,
        version: None,
        allow: None,
        here,
    }
}

/// The state of a member by its lease.
pub fn judge_member(lease: &MemberLease, age_ms: u64) -> MemberState {
    match lease.state {
        LeaseState::Left => MemberState::Left,
        LeaseState::Stopping => MemberState::Stopped,
        _ if lease.rival.is_some() => MemberState::Rival,
        LeaseState::Up if age_ms <= lease.lease_ms.min(MOST_LEASE_MS) => MemberState::Reachable,
        _ => MemberState::Unreachable,
    }
}

fn read_member(
    certificate: &MemberCertificate,
    lease: Option<&StoredRecord>,
    pages: &BTreeMap<&str, &StoredRecord>,
    now: Time,
    here: bool,
) -> (MemberView, Vec<FleetSession>) {
    let (id, name) = (&certificate.id, &certificate.name);
    let Some(record) = lease else {
        let view = MemberView {
            state: MemberState::Silent,
            reason: Some("it was admitted and never heard".to_owned()),
            since: Some(certificate.admitted_at),
            ..unreadable_member(id, name, &RecordError::Limit("nothing"), here)
        };
        return (view, Vec::new());
    };
    let lease = match read_lease(certificate, &record.bytes) {
        Ok(lease) => lease,
        Err(error) => return (unreadable_member(id, name, &error, here), Vec::new()),
    };
    // Negative ages count as 0: the hub's clock may have been set back.
    let age_ms = model::time::whole_millis(now.since(record.stored_at));
    let mut state = judge_member(&lease, age_ms);
    let mut reason = (state == MemberState::Rival)
        .then(|| format!("{} claims to be it too", lease.rival.clone().unwrap_or_default()));
    let skew = record.stored_at.as_millis().saturating_sub(lease.sent_at.as_millis());
    let mut read = Vec::new();
    for (page, record) in pages {
        match read_page(certificate, page, &record.bytes) {
            Ok(read_page) => read.push((read_page, *record)),
            Err(error) => {
                state = MemberState::Unreadable;
                reason = Some(format!("page {page}: {error}"));
            }
        }
    }
    let whose = MemberName { id: id.clone(), name: name.clone() };
    let sessions = match state {
        MemberState::Left | MemberState::Unreadable => Vec::new(),
        _ if here => Vec::new(),
        _ => merge_pages(&whose, state, &lease, &read, now, skew),
    };
    let view = MemberView {
        id: id.clone(),
        name: name.clone(),
        state,
        reason,
        since: (!state.vouches()).then_some(record.stored_at),
        last_seen_at: Some(record.stored_at),
        age_ms: Some(age_ms),
        clock_skew_ms: Some(skew).filter(|skew| skew.abs() > WORTHY_SKEW_MS),
        counts: Some(lease.counts),
        truncated: lease.truncated.filter(|count| *count > 0),
        version: Some(lease.ostler),
        allow: Some(lease.allow),
        here,
    };
    (view, sessions)
}

/// Of two records of one session the higher revision wins; the run that holds the lease wins over others.
fn merge_pages(
    whose: &MemberName,
    state: MemberState,
    lease: &MemberLease,
    pages: &[(InventoryPage, &StoredRecord)],
    now: Time,
    skew: i64,
) -> Vec<FleetSession> {
    let mut newest: BTreeMap<(String, String), (bool, u64, FleetSession)> = BTreeMap::new();
    for (page, record) in pages {
        let is_current = page.incarnation == lease.incarnation;
        let since_stored = model::time::whole_millis(now.since(record.stored_at));
        for session in &page.sessions {
            let key = session_key(session);
            let rank = (is_current, page.rev);
            if newest.get(&key).is_some_and(|(current, rev, _)| (*current, *rev) >= rank) {
                continue;
            }
            let looked = session.get("lookedMs").and_then(Value::as_u64).unwrap_or(0);
            // While its member renews, what it published is what it says now.
            let said_ago = match state.vouches() && is_current {
                true => model::time::whole_millis(now.since(record.stored_at)).min(lease.lease_ms),
                false => since_stored,
            };
            let mut told = FleetSession {
                session: session.clone(),
                member: whose.clone(),
                age_ms: said_ago.saturating_add(looked),
                last_known: None,
            };
            told.session.remove("lookedMs");
            if !is_current {
                told.session.insert("superseded".to_owned(), json!(true));
            }
            correct_times(&mut told.session, skew);
            if !state.vouches() {
                make_unknown(&mut told, state);
            }
            newest.insert(key, (is_current, page.rev, told));
        }
    }
    newest.into_values().map(|(_, _, session)| session).collect()
}

/// Puts a session's times on the hub's clock, where the member's differs.
fn correct_times(session: &mut Map<String, Value>, skew: i64) {
    if skew.abs() <= WORTHY_SKEW_MS {
        return;
    }
    for name in ["startedAt", "lastActivityAt", "endedAt"] {
        let time = session.get(name).and_then(Value::as_str).and_then(Time::parse);
        if let Some(time) = time {
            let corrected = Time::from_millis(time.as_millis().saturating_add(skew));
            session.insert(name.to_owned(), json!(corrected));
        }
    }
}

/// Silence proves nothing: a session that no member vouches for is unknown, never dead. One that was over by
/// its member's own word stays over.
pub fn make_unknown(told: &mut FleetSession, state: MemberState) {
    if is_ended(&told.session) {
        return;
    }
    let mut last = Map::new();
    for name in ["status", "activity", "liveness"] {
        if let Some(value) = told.session.remove(name) {
            last.insert(name.to_owned(), value);
        }
    }
    told.session.remove("waitingFor");
    told.session.insert("status".to_owned(), json!("unknown"));
    let liveness = json!({
        "state": "unknown", "reason": state.reason_code(), "source": "none", "certainty": "derived"
    });
    told.session.insert("liveness".to_owned(), liveness);
    if told.last_known.is_none() {
        told.last_known = Some(last);
    }
}

/// Every member that is not reachable and has not left is named.
pub fn list_incomplete(members: &[MemberView]) -> Vec<IncompleteSource> {
    let describe = |member: &MemberView| {
        let mut reason = member.state.as_str().to_owned();
        if let Some(since) = member.since {
            reason.push_str(&format!(" since {since}"));
        }
        if let Some(more) = &member.reason {
            reason.push_str(&format!(": {more}"));
        }
        IncompleteSource { source: format!("member {}", member.name), path: None, reason }
    };
    let others: Vec<&MemberView> =
        members.iter().filter(|member| !member.here && member.state != MemberState::Left).collect();
    let silent: Vec<&MemberView> =
        others.iter().copied().filter(|member| member.state == MemberState::Unreachable).collect();
    let mut incomplete: Vec<IncompleteSource> = others
        .iter()
        .filter(|member| member.state.is_incomplete())
        .map(|one| describe(one))
        .collect();
    let times: Vec<i64> =
        silent.iter().filter_map(|member| member.since).map(Time::as_millis).collect();
    let at_once = times
        .iter()
        .max()
        .zip(times.iter().min())
        .is_some_and(|(last, first)| last - first <= 15_000);
    if silent.len() >= SUSPICIOUS_SILENCE && 2 * silent.len() > others.len() && at_once {
        incomplete.insert(
            0,
            IncompleteSource {
                source: "hub".to_owned(),
                path: None,
                reason: format!(
                    "{} of {} members fell silent at once: look at the hub and the way to it first",
                    silent.len(),
                    others.len()
                ),
            },
        );
    }
    incomplete
}
