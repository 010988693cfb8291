//! A fleet that is watched: what was read, and every change since.
//!
//! Notices are subscribed to before the hub is read, so nothing is missed in between. A notice counts only if it is
//! newer than what is held, by the member's own numbers; whatever does not follow from what is held is read again. A
//! member that falls silent is looked up once more before anything is said of it.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::time::Time;
use model::wire::{FleetChange, FleetSession, MemberName, MemberState, MemberView};

use crate::inventory::session_key;
use crate::merge::{HubRecords, merge_records};
use crate::nats::StoredRecord;
use crate::record::{MemberCertificate, MemberLease, read_certificate, read_lease, read_page};

/// What a notice came to.
#[derive(Clone, Debug, PartialEq)]
pub enum NoticeOutcome {
    /// It is old, or not believed: nothing follows.
    Ignored,
    Changes(Vec<FleetChange>),
    /// The hub has to be read again.
    ReadAgain,
}

/// A page as it is held. Revisions are counted anew by every run of a member's daemon.
#[derive(Debug)]
struct WatchedPage {
    incarnation: String,
    rev: u64,
    record: StoredRecord,
}

/// One member as it is held.
#[derive(Debug)]
struct WatchedMember {
    certificate: Option<MemberCertificate>,
    meta: StoredRecord,
    lease: Option<StoredRecord>,
    read_lease: Option<MemberLease>,
    pages: BTreeMap<String, WatchedPage>,
    heard: Instant,
    view: Option<MemberView>,
    sessions: BTreeMap<(String, String), FleetSession>,
}

/// Everybody as they are held.
#[derive(Debug)]
pub struct FleetWatch {
    root: String,
    members: HashMap<String, WatchedMember>,
    /// The hub's clock, and when it was read.
    clock: (Time, Instant),
}

impl FleetWatch {
    /// Nobody is known yet.
    pub fn new(root: &str) -> Self {
        let clock = (Time::from_millis(0), Instant::now());
        Self { root: root.to_owned(), members: HashMap::new(), clock }
    }

    fn hub_now(&self) -> Time {
        self.clock.0.plus(self.clock.1.elapsed())
    }

    /// Takes what was read anew; what is another than before.
    pub fn take_records(&mut self, records: HubRecords) -> Vec<FleetChange> {
        self.clock = (records.now.unwrap_or(self.clock.0), Instant::now());
        let before = std::mem::take(&mut self.members);
        for record in records.meta {
            let Some(id) = record.subject.strip_prefix("$KV.meta.member.") else { continue };
            let certificate = read_certificate(&self.root, id, &record.bytes).ok();
            let member = WatchedMember {
                certificate,
                meta: record.clone(),
                lease: None,
                read_lease: None,
                pages: BTreeMap::new(),
                heard: Instant::now(),
                view: None,
                sessions: BTreeMap::new(),
            };
            self.members.insert(id.to_owned(), member);
        }
        for record in records.leases {
            let id = record.subject.strip_prefix("$KV.lease.").unwrap_or("").to_owned();
            if let Some(member) = self.members.get_mut(&id) {
                member.read_lease = member
                    .certificate
                    .as_ref()
                    .and_then(|certificate| read_lease(certificate, &record.bytes).ok());
                member.lease = Some(record);
            }
        }
        for record in records.pages {
            let rest = record.subject.strip_prefix("$KV.inv.").unwrap_or("").to_owned();
            let Some((id, name)) = rest.split_once('.') else { continue };
            if let Some(member) = self.members.get_mut(id) {
                let (incarnation, rev) = member
                    .certificate
                    .as_ref()
                    .and_then(|certificate| read_page(certificate, name, &record.bytes).ok())
                    .map_or_else(Default::default, |page| (page.incarnation, page.rev));
                member.pages.insert(name.to_owned(), WatchedPage { incarnation, rev, record });
            }
        }
        let mut changes = Vec::new();
        for (id, old) in &before {
            if !self.members.contains_key(id) {
                changes.extend(old.view.as_ref().map(|view| FleetChange::MemberGone {
                    member: MemberName { id: id.clone(), name: view.name.clone() },
                }));
            }
        }
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            if let (Some(old), Some(member)) = (before.get(&id), self.members.get_mut(&id)) {
                (member.view, member.sessions) = (old.view.clone(), old.sessions.clone());
            }
            changes.extend(self.settle_member(&id));
        }
        changes
    }

    /// Merges one member anew; what is another than before.
    fn settle_member(&mut self, id: &str) -> Vec<FleetChange> {
        let now = self.hub_now();
        let Some(member) = self.members.get_mut(id) else { return Vec::new() };
        let records = HubRecords {
            now: Some(now),
            meta: vec![member.meta.clone()],
            leases: member.lease.iter().cloned().collect(),
            pages: member.pages.values().map(|page| page.record.clone()).collect(),
        };
        let picture = merge_records(&self.root, &records, None);
        let mut changes = Vec::new();
        let Some(view) = picture.members.into_iter().next() else { return changes };
        let name = MemberName { id: id.to_owned(), name: view.name.clone() };
        if member.view.as_ref().map(|old| (old.state, &old.reason))
            != Some((view.state, &view.reason))
        {
            changes.push(FleetChange::Member(view.clone()));
        }
        member.view = Some(view);
        let sessions: BTreeMap<_, _> =
            picture.sessions.into_iter().map(|one| (session_key(&one.session), one)).collect();
        for (key, session) in &sessions {
            let is_same = member.sessions.get(key).is_some_and(|old| {
                old.session == session.session && old.last_known == session.last_known
            });
            if !is_same {
                changes.push(FleetChange::Session(session.clone()));
            }
        }
        for (agent, id) in member.sessions.keys().filter(|key| !sessions.contains_key(*key)) {
            let (agent, id) = (agent.clone(), id.clone());
            changes.push(FleetChange::SessionGone { member: name.clone(), agent, id });
        }
        member.sessions = sessions;
        changes
    }

    /// Takes a notice: `ostler.v1.out.MEMBER.state.WHAT`.
    pub fn take_notice(&mut self, subject: &str, bytes: &Bytes) -> NoticeOutcome {
        let rest = subject.strip_prefix("ostler.v1.out.").unwrap_or("");
        let Some((id, what)) = rest.split_once(".state.") else { return NoticeOutcome::Ignored };
        let now = self.hub_now();
        let Some(member) = self.members.get_mut(id) else { return NoticeOutcome::ReadAgain };
        let Some(certificate) = &member.certificate else { return NoticeOutcome::Ignored };
        let record = |subject: String| StoredRecord {
            subject,
            sequence: 0,
            stored_at: now,
            bytes: bytes.clone(),
        };
        let held = member.read_lease.as_ref();
        if what == "lease" {
            let Ok(lease) = read_lease(certificate, bytes) else { return NoticeOutcome::Ignored };
            match held {
                Some(held) if held.incarnation == lease.incarnation => {
                    // Somebody plays back what was said before.
                    if lease.n <= held.n {
                        return NoticeOutcome::Ignored;
                    }
                }
                // Which of two runs is the newer one only the hub knows.
                _ => return NoticeOutcome::ReadAgain,
            }
            let own = member.pages.values().filter(|page| page.incarnation == lease.incarnation);
            let newest = own.map(|page| page.rev).max().unwrap_or(0);
            if lease.rev > newest {
                return NoticeOutcome::ReadAgain;
            }
            member.lease = Some(record(format!("$KV.lease.{id}")));
            (member.read_lease, member.heard) = (Some(lease), Instant::now());
        } else {
            let Ok(page) = read_page(certificate, what, bytes) else {
                return NoticeOutcome::Ignored;
            };
            if held.is_none_or(|held| held.incarnation != page.incarnation) {
                return NoticeOutcome::ReadAgain;
            }
            let is_old =
                |held: &WatchedPage| held.incarnation == page.incarnation && held.rev >= page.rev;
            if member.pages.get(what).is_some_and(is_old) {
                return NoticeOutcome::Ignored;
            }
            let record = record(format!("$KV.inv.{id}.{what}"));
            let (incarnation, rev) = (page.incarnation, page.rev);
            member.pages.insert(what.to_owned(), WatchedPage { incarnation, rev, record });
        }
        NoticeOutcome::Changes(self.settle_member(id))
    }

    /// Whether somebody who was reachable was not heard for longer than a lease lasts, by this machine's own clock.
    pub fn has_lapsed(&self) -> bool {
        self.members.values().any(|member| {
            let is_reachable =
                member.view.as_ref().is_some_and(|view| view.state == MemberState::Reachable);
            let lease = member.read_lease.as_ref().map_or(0, |lease| lease.lease_ms);
            is_reachable && member.heard.elapsed() > Duration::from_millis(lease)
        })
    }

    /// Everything that is held now: equal to what a fresh reader would see.
    pub fn sessions(&self) -> Vec<&FleetSession> {
        let mut all: Vec<_> =
            self.members.values().flat_map(|member| member.sessions.values()).collect();
        all.sort_by_key(|one| (one.member.id.clone(), session_key(&one.session)));
        all
    }
}
