//! Records of a fleet as a hub serves them: open, decode, merge. One member says whatever it likes, with its
//! own valid seal or without; another one is well.

use std::sync::OnceLock;

use model::identity::Identity;
use model::time::Time;
use model::wire::{FleetLevel, MemberState, SessionCounts};
use net::inventory::is_ended;
use net::merge::{FleetPicture, HubRecords, merge_records};
use net::nats::StoredRecord;
use net::record::{
    InventoryPage, LeaseState, MemberCertificate, MemberLease, compress_page, page_names,
    read_answer, read_ask, read_operators,
};
use net::seal::{SealKind, member_id, seal_json, seal_record};
use nkeys::{KeyPair, KeyPairType};
use serde_json::json;

/// Ends one record; what follows is another one.
const NEXT_RECORD: u8 = 0x1e;

/// How many records there are at a time.
const MOST_RECORDS: usize = 24;

/// The hub's clock.
const NOW: i64 = 1_795_000_000_000;

/// A fleet with a hostile member and a good one. Its keys are of nobody.
struct Stage {
    root: KeyPair,
    hostile: KeyPair,
    hostile_id: String,
    good_id: String,
    records: HubRecords,
}

fn key_of(byte: u8) -> KeyPair {
    KeyPair::new_from_raw(KeyPairType::User, [byte; 32]).expect("32 bytes are a key")
}

fn stored(subject: String, age_ms: i64, bytes: Vec<u8>) -> StoredRecord {
    let stored_at = Time::from_millis(NOW - age_ms);
    StoredRecord { subject, sequence: 1, stored_at, bytes: bytes.into() }
}

fn certificate_of(key: &KeyPair, name: &str) -> MemberCertificate {
    let seal = key.public_key();
    MemberCertificate {
        v: 1,
        id: member_id(&seal).expect("a key"),
        name: name.to_owned(),
        link: seal.clone(),
        seal,
        machine: "m".to_owned(),
        admitted_at: Time::from_millis(NOW),
        ssh: None,
    }
}

fn lease_of(id: &str) -> MemberLease {
    MemberLease {
        v: 1,
        member: id.to_owned(),
        incarnation: "i1".to_owned(),
        boot: "b".to_owned(),
        machine: "m".to_owned(),
        pid: 1,
        start: 1,
        holder: Identity::default(),
        n: 1,
        rev: 1,
        state: LeaseState::Up,
        sent_at: Time::from_millis(NOW),
        up_ms: 1,
        counts: SessionCounts::default(),
        truncated: None,
        allow: FleetLevel::Read.as_str().to_owned(),
        lease_ms: 15_000,
        ostler: "0".to_owned(),
        rival: None,
        pages: None,
    }
}

impl Stage {
    fn new() -> Self {
        let (root, hostile, good) = (key_of(1), key_of(2), key_of(3));
        let certificates = [certificate_of(&hostile, "hostile"), certificate_of(&good, "good")];
        let meta = certificates.iter().map(|certificate| {
            let sealed = seal_json(&root, SealKind::Certificate, certificate).expect("a seal");
            stored(format!("$KV.meta.member.{}", certificate.id), 0, sealed)
        });
        let meta = meta.collect();
        let [hostile_id, good_id] = certificates.map(|certificate| certificate.id);
        let session = json!({ "id": "s1", "agent": "codex", "status": "running", "lookedMs": 0 });
        let page = InventoryPage {
            v: 1,
            member: good_id.clone(),
            incarnation: "i1".to_owned(),
            rev: 1,
            page: "active.0".to_owned(),
            sent_at: Time::from_millis(NOW),
            sessions: session.as_object().cloned().into_iter().collect(),
        };
        let body = compress_page(&page).expect("a page");
        let page = seal_record(&good, SealKind::Page, &body).expect("a seal");
        let lease = seal_json(&good, SealKind::Lease, &lease_of(&good_id)).expect("a seal");
        let own = seal_json(&hostile, SealKind::Lease, &lease_of(&hostile_id)).expect("a seal");
        let records = HubRecords {
            now: Some(Time::from_millis(NOW)),
            meta,
            leases: vec![
                stored(format!("$KV.lease.{hostile_id}"), 1000, own),
                stored(format!("$KV.lease.{good_id}"), 1000, lease),
            ],
            pages: vec![stored(format!("$KV.inv.{good_id}.active.0"), 1000, page)],
        };
        Self { root, hostile, hostile_id, good_id, records }
    }

    fn seal(&self, kind: SealKind, body: &[u8]) -> Vec<u8> {
        seal_record(&self.hostile, kind, body).expect("a seal")
    }

    /// A body with the hostile member's id where it says `@me`: seeds cannot know it.
    fn fill_id(&self, body: &[u8]) -> Vec<u8> {
        const TOKEN: &[u8] = b"@me";
        let mut filled = Vec::with_capacity(body.len());
        let mut rest = body;
        while let Some((first, others)) = rest.split_first() {
            match rest.strip_prefix(TOKEN) {
                Some(after) => {
                    filled.extend_from_slice(self.hostile_id.as_bytes());
                    rest = after;
                }
                None => {
                    filled.push(*first);
                    rest = others;
                }
            }
        }
        filled
    }

    /// Adds what the hostile member stores: the first byte says as what, the second where and how old.
    fn add_record(&self, records: &mut HubRecords, said: &[u8]) {
        let [what, place, body @ ..] = said else { return };
        let body = self.fill_id(body);
        let body = body.as_slice();
        let age_ms = i64::from(*place) * 500;
        let page = page_names().nth(usize::from(*place) % 17).unwrap_or("other.9".to_owned());
        let id = &self.hostile_id;
        let in_page = |bytes| stored(format!("$KV.inv.{id}.{page}"), age_ms, bytes);
        let in_lease = |bytes| stored(format!("$KV.lease.{id}"), age_ms, bytes);
        match what {
            b'p' => {
                let packed = zstd::encode_all(body, 1).expect("it packs anything");
                records.pages.push(in_page(self.seal(SealKind::Page, &packed)));
            }
            b'P' => records.pages.push(in_page(self.seal(SealKind::Page, body))),
            b'x' => records.pages.push(in_page(body.to_vec())),
            b'l' => records.leases.push(in_lease(self.seal(SealKind::Lease, body))),
            b'k' => records.leases.push(in_lease(self.seal(SealKind::Page, body))),
            b'L' => records.leases.push(in_lease(body.to_vec())),
            // A root that errs, or a hub that makes up a member.
            b'c' => {
                let sealed = seal_record(&self.root, SealKind::Certificate, body).expect("a seal");
                records.meta.push(stored(format!("$KV.meta.member.{id}"), age_ms, sealed));
            }
            b'C' => records.meta.push(stored(
                format!("$KV.meta.member.{}", String::from_utf8_lossy(body)),
                age_ms,
                body.to_vec(),
            )),
            b'o' => {
                let sealed = seal_record(&self.root, SealKind::Operators, body).expect("a seal");
                drop(read_operators(&self.root.public_key(), &sealed));
            }
            b'a' => drop(read_ask(&self.hostile.public_key(), &self.seal(SealKind::Ask, body))),
            b'r' => {
                let certificate = certificate_of(&self.hostile, "hostile");
                drop(read_answer(&certificate, &self.seal(SealKind::Answer, body)));
            }
            _ => {}
        }
    }

    fn check_picture(&self, picture: &FleetPicture) {
        let good = picture.members.iter().find(|member| member.id == self.good_id);
        let good = good.expect("whoever is well is shown");
        assert_eq!(good.state, MemberState::Reachable, "nobody else makes it unreadable");
        let own = picture.sessions.iter().filter(|one| one.member.id == self.good_id).count();
        assert_eq!(own, 1, "its session is there once");
        for session in &picture.sessions {
            let state = picture.members.iter().find(|one| one.id == session.member.id);
            let state = state.expect("every session has its member").state;
            assert!(!matches!(
                state,
                MemberState::Left | MemberState::Unreadable | MemberState::Silent
            ));
            if state != MemberState::Reachable && !is_ended(&session.session) {
                assert_eq!(session.text("status"), Some("unknown"), "silence proves nothing");
            }
        }
        for member in picture.members.iter().filter(|member| member.state.is_incomplete()) {
            let source = format!("member {}", member.name);
            assert!(picture.incomplete.iter().any(|one| one.source == source), "it is named");
        }
        let keys: std::collections::BTreeSet<_> = picture
            .sessions
            .iter()
            .map(|one| (&one.member.id, one.text("agent"), one.text("id")))
            .collect();
        assert_eq!(keys.len(), picture.sessions.len(), "no session stands there twice");
        serde_json::to_vec(&picture.sessions).expect("what is shown is JSON");
    }
}

/// Whatever one member stores, the other is shown as it is, and silence kills nobody.
pub fn fleet_records(bytes: &[u8]) {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    let stage = STAGE.get_or_init(Stage::new);
    let mut records = stage.records.clone();
    for said in bytes.split(|byte| *byte == NEXT_RECORD).take(MOST_RECORDS) {
        stage.add_record(&mut records, said);
    }
    let root = stage.root.public_key();
    stage.check_picture(&merge_records(&root, &records, None));
    let here = merge_records(&root, &records, Some(&stage.hostile_id));
    assert!(here.sessions.iter().all(|one| one.member.id != stage.hostile_id), "read here instead");
}
