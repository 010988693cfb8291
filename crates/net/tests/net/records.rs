//! Hostile and odd records: one member becomes unreadable, the others are shown, and nothing is called dead.

use bytes::Bytes;
use model::identity::Identity;
use model::time::Time;
use model::wire::{MemberState, SessionCounts};
use net::merge::{FleetPicture, HubRecords, merge_records};
use net::nats::StoredRecord;
use net::record::{InventoryPage, LeaseState, MemberCertificate, MemberLease, compress_page};
use net::seal::{SealKind, member_id, seal_record};
use nkeys::KeyPair;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

pub(super) const NOW: i64 = 1_795_000_000_000;

/// A fleet's root and two members, as the hub stores them.
pub(super) struct Forge {
    pub(super) root: KeyPair,
    members: Vec<(KeyPair, MemberCertificate)>,
}

impl Forge {
    pub(super) fn new(names: &[&str]) -> Self {
        let member = |name: &&str| {
            let key = KeyPair::new_user();
            let seal = key.public_key();
            let certificate = MemberCertificate {
                v: 1,
                id: member_id(&seal).unwrap(),
                name: (*name).to_owned(),
                link: seal.clone(),
                seal,
                machine: "m".to_owned(),
                admitted_at: Time::from_millis(NOW),
                ssh: None,
            };
            (key, certificate)
        };
        Self { root: KeyPair::new_user(), members: names.iter().map(member).collect() }
    }

    pub(super) fn id(&self, at: usize) -> &str {
        &self.members[at].1.id
    }

    pub(super) fn lease(&self, at: usize) -> MemberLease {
        MemberLease {
            v: 1,
            member: self.id(at).to_owned(),
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
            counts: SessionCounts { working: 1, ..SessionCounts::default() },
            truncated: None,
            allow: "read".to_owned(),
            lease_ms: 15_000,
            ostler: "0".to_owned(),
            rival: None,
            pages: None,
        }
    }

    pub(super) fn page(&self, at: usize, name: &str) -> InventoryPage {
        let session = json!({
            "id": "s1", "agent": "codex", "status": "running", "activity": "working", "lookedMs": 0,
            "liveness": {"state": "alive", "reason": "x", "source": "process", "certainty": "proven"}
        });
        InventoryPage {
            v: 1,
            member: self.id(at).to_owned(),
            incarnation: "i1".to_owned(),
            rev: 1,
            page: name.to_owned(),
            sent_at: Time::from_millis(NOW),
            sessions: vec![session.as_object().unwrap().clone()],
        }
    }

    fn stored(subject: String, age_ms: i64, bytes: Vec<u8>) -> StoredRecord {
        let stored_at = Time::from_millis(NOW - age_ms);
        StoredRecord { subject, sequence: 1, stored_at, bytes: Bytes::from(bytes) }
    }

    fn sealed(&self, at: usize, kind: SealKind, body: &[u8]) -> Vec<u8> {
        seal_record(&self.members[at].0, kind, body).unwrap()
    }

    pub(super) fn put_lease(&self, at: usize, lease: &MemberLease, age_ms: i64) -> StoredRecord {
        let body = serde_json::to_vec(lease).unwrap();
        let subject = format!("$KV.lease.{}", self.id(at));
        Self::stored(subject, age_ms, self.sealed(at, SealKind::Lease, &body))
    }

    pub(super) fn put_page(&self, at: usize, page: &InventoryPage) -> StoredRecord {
        let body = compress_page(page).unwrap();
        let subject = format!("$KV.inv.{}.{}", self.id(at), page.page);
        Self::stored(subject, 0, self.sealed(at, SealKind::Page, &body))
    }

    /// Everybody well.
    pub(super) fn records(&self) -> HubRecords {
        let meta = self.members.iter().map(|(_, certificate)| {
            let body = serde_json::to_vec(certificate).unwrap();
            let sealed = seal_record(&self.root, SealKind::Certificate, &body).unwrap();
            Self::stored(format!("$KV.meta.member.{}", certificate.id), 0, sealed)
        });
        let all = 0..self.members.len();
        HubRecords {
            now: Some(Time::from_millis(NOW)),
            meta: meta.collect(),
            leases: all.clone().map(|at| self.put_lease(at, &self.lease(at), 1000)).collect(),
            pages: all.map(|at| self.put_page(at, &self.page(at, "active.0"))).collect(),
        }
    }

    fn merge(&self, records: &HubRecords) -> FleetPicture {
        merge_records(&self.root.public_key(), records, None)
    }
}

fn states(picture: &FleetPicture) -> Vec<MemberState> {
    picture.members.iter().map(|member| member.state).collect()
}

/// The first member is unreadable and named; the second is as it was.
#[track_caller]
fn assert_first_unreadable(forge: &Forge, records: &HubRecords, what: &str) {
    let picture = forge.merge(records);
    assert_eq!(
        states(&picture),
        [MemberState::Unreadable, MemberState::Reachable],
        "{what}: {picture:?}"
    );
    assert_eq!(picture.sessions.len(), 1, "{what}");
    assert!(picture.incomplete[0].source.contains('a'), "{what}");
}

#[test]
fn row_48_every_limit_makes_one_member_unreadable_and_nobody_else() {
    let forge = Forge::new(&["a", "b"]);
    let good = forge.merge(&forge.records());
    assert_eq!(states(&good), [MemberState::Reachable, MemberState::Reachable]);
    assert_eq!(good.sessions.len(), 2);
    let with_page = |change: &dyn Fn(&mut InventoryPage)| {
        let mut page = forge.page(0, "active.0");
        change(&mut page);
        let mut records = forge.records();
        let body = zstd::encode_all(serde_json::to_vec(&page).unwrap().as_slice(), 3).unwrap();
        records.pages[0].bytes = forge.sealed(0, SealKind::Page, &body).into();
        records
    };
    let session = |change: fn(&mut Map<String, Value>)| {
        with_page(&move |page: &mut InventoryPage| change(&mut page.sessions[0]))
    };
    for (what, records) in [
        ("another member", with_page(&|page| page.member = "x".to_owned())),
        ("another page", with_page(&|page| page.page = "active.1".to_owned())),
        ("a time in 2300", with_page(&|page| page.sent_at = Time::from_millis(10_413_792_000_000))),
        ("a time before 1970", with_page(&|page| page.sent_at = Time::from_millis(-1))),
        (
            "too many sessions",
            with_page(&|page| {
                page.sessions = vec![page.sessions[0].clone(); 4097];
            }),
        ),
        (
            "a long text",
            session(|one| {
                one.insert("cwd".into(), json!("x".repeat(4097)));
            }),
        ),
        (
            "a long title",
            session(|one| {
                one.insert("title".into(), json!("x".repeat(201)));
            }),
        ),
        (
            "no id",
            session(|one| {
                one.remove("id");
            }),
        ),
        (
            "an odd time",
            session(|one| {
                one.insert("endedAt".into(), json!("yesterday"));
            }),
        ),
        (
            "deep nesting",
            session(|one| {
                let deep = (0..20).fold(json!(1), |inner, _| json!([inner]));
                one.insert("x".into(), deep);
            }),
        ),
    ] {
        assert_first_unreadable(&forge, &records, what);
    }
    let mut records = forge.records();
    records.pages[0].bytes = vec![b'x'; 98_305].into();
    assert_first_unreadable(&forge, &records, "too large");
    records.pages[0].bytes = forge.sealed(0, SealKind::Page, b"no zstd").into();
    assert_first_unreadable(&forge, &records, "no zstd");
    let mut records = forge.records();
    let body = serde_json::to_vec(&forge.lease(0)).unwrap();
    records.leases[0].bytes = forge.sealed(0, SealKind::Page, &body).into();
    assert_first_unreadable(&forge, &records, "wrong kind of seal (row 51)");
    records.leases[0].bytes = forge.sealed(1, SealKind::Lease, &body).into();
    assert_first_unreadable(&forge, &records, "sealed by another member");
    let mut records = forge.records();
    records.meta[0].bytes = records.meta[1].bytes.clone();
    let picture = forge.merge(&records);
    assert!(states(&picture).contains(&MemberState::Unreadable), "a certificate of another");
}

#[test]
fn row_48_what_is_exactly_at_a_limit_is_read_and_leases_and_certificates_have_limits_too() {
    let forge = Forge::new(&["a", "b"]);
    let page_of = |sessions: Vec<Map<String, Value>>| {
        let mut page = forge.page(0, "active.0");
        page.sessions = sessions;
        let mut records = forge.records();
        records.pages[0] = forge.put_page(0, &page);
        records
    };
    let session = forge.page(0, "active.0").sessions[0].clone();
    let with = |name: &str, value: Value| {
        let mut one = session.clone();
        one.insert(name.to_owned(), value);
        vec![one]
    };
    let many = (0..4096).map(|number| with("id", json!(format!("s{number}"))).remove(0)).collect();
    // A page, its list and the session are three levels.
    let deep = (0..13).fold(json!(1), |inner, _| json!([inner]));
    for (what, count, records) in [
        ("sessions", 4096, page_of(many)),
        ("a text", 1, page_of(with("cwd", json!("x".repeat(4096))))),
        ("a title", 1, page_of(with("title", json!("ü".repeat(200))))),
        ("nesting", 1, page_of(with("x", deep))),
        ("the first time", 1, page_of(with("endedAt", json!("1970-01-01T00:00:00.000Z")))),
        ("the last time", 1, page_of(with("endedAt", json!("2199-12-31T23:59:59.999Z")))),
    ] {
        let picture = forge.merge(&records);
        assert_eq!(states(&picture), [MemberState::Reachable; 2], "{what}: {picture:?}");
        assert_eq!(picture.sessions.len(), count + 1, "{what}");
    }
    let deeper = (0..14).fold(json!(1), |inner, _| json!([inner]));
    assert_first_unreadable(&forge, &page_of(with("x", deeper)), "one level more");
    let beyond = page_of(with("endedAt", json!("2200-01-01T00:00:00.000Z")));
    assert_first_unreadable(&forge, &beyond, "the first time that is too late");
    let lease_of = |change: &dyn Fn(&mut MemberLease)| {
        let mut lease = forge.lease(0);
        change(&mut lease);
        let mut records = forge.records();
        records.leases[0] = forge.put_lease(0, &lease, 1000);
        records
    };
    for (what, records) in [
        ("a lease of 2 KiB and more", lease_of(&|one| one.ostler = "x".repeat(2048))),
        ("a lease of 2300", lease_of(&|one| one.sent_at = Time::from_millis(10_413_792_000_000))),
        ("a lease of another member", lease_of(&|one| one.member = forge.id(1).to_owned())),
    ] {
        assert_first_unreadable(&forge, &records, what);
    }
    let certificate_of = |change: &dyn Fn(&mut MemberCertificate)| {
        let mut certificate = forge.members[0].1.clone();
        change(&mut certificate);
        let body = serde_json::to_vec(&certificate).unwrap();
        let mut records = forge.records();
        let sealed = seal_record(&forge.root, SealKind::Certificate, &body).unwrap();
        records.meta[0].bytes = sealed.into();
        records
    };
    for (what, records) in [
        ("a large one", certificate_of(&|one| one.ssh = Some("x".repeat(64 << 10)))),
        ("a long name", certificate_of(&|one| one.name = "x".repeat(64))),
        ("an odd name", certificate_of(&|one| one.name = "\x1b[2J".to_owned())),
        ("a key of another", certificate_of(&|one| one.seal = forge.members[1].1.seal.clone())),
    ] {
        let picture = forge.merge(&records);
        let id = forge.id(0);
        let member = picture.members.iter().find(|one| one.id == id).unwrap();
        assert_eq!(member.state, MemberState::Unreadable, "{what}");
        assert_eq!((picture.sessions.len(), picture.incomplete.len()), (1, 1), "{what}");
    }
}

#[test]
fn row_50_bytes_that_are_no_text_make_one_member_unreadable() {
    let forge = Forge::new(&["a", "b"]);
    let session = forge.page(0, "active.0").sessions[0].clone();
    let mut names: Vec<String> = session.keys().cloned().collect();
    names.extend(["title", "cwd", "branch", "name", "waitingFor"].map(str::to_owned));
    for name in names {
        let mut page = forge.page(0, "active.0");
        page.sessions[0].insert(name.clone(), json!("@@@"));
        let text = serde_json::to_string(&page).unwrap().into_bytes();
        let at = text.windows(3).position(|part| part == b"@@@").unwrap();
        // An overlong slash, half a character, a surrogate: no UTF-8, each of them.
        for bytes in [[0xc0, 0xaf, b'x'], [b'x', b'x', 0xe2], [0xed, 0xa0, 0x80]] {
            let mut body = text.clone();
            body[at..at + 3].copy_from_slice(&bytes);
            let packed = zstd::encode_all(body.as_slice(), 3).unwrap();
            let mut records = forge.records();
            records.pages[0].bytes = forge.sealed(0, SealKind::Page, &packed).into();
            assert_first_unreadable(&forge, &records, &name);
        }
    }
}

#[test]
fn row_29_no_state_of_a_member_but_reachable_leaves_a_session_anything_but_unknown() {
    let forge = Forge::new(&["a"]);
    let told = forge.merge(&forge.records()).sessions.remove(0);
    for state in MemberState::ALL.into_iter().filter(|state| !state.vouches()) {
        let mut session = told.clone();
        net::merge::make_unknown(&mut session, state);
        // From the cache a second time: what was last known is what was known first.
        net::merge::make_unknown(&mut session, MemberState::HubLost);
        assert_eq!(session.text("status"), Some("unknown"), "{state:?}");
        assert_eq!(session.session["liveness"]["state"], "unknown", "{state:?}");
        assert_eq!(session.last_known.as_ref().unwrap()["status"], "running", "{state:?}");
    }
}

#[test]
fn row_49_a_bomb_is_not_unpacked() {
    let forge = Forge::new(&["a", "b"]);
    let bomb = zstd::encode_all(std::io::Read::take(std::io::repeat(0), 300 << 20), 3).unwrap();
    assert!(bomb.len() < 64 << 10, "{}", bomb.len());
    let mut records = forge.records();
    records.pages[0].bytes = forge.sealed(0, SealKind::Page, &bomb).into();
    let before = peak_memory();
    assert_first_unreadable(&forge, &records, "300 MB of zeros");
    let grown = peak_memory() - before;
    assert!(grown <= 64 << 10, "{grown} kB");
}

/// The most memory that this process had, in kB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn row_55_a_newer_version_is_unreadable_and_says_what_to_update() {
    let forge = Forge::new(&["a", "b"]);
    let mut page = forge.page(0, "active.0");
    page.v = 2;
    let mut in_page = forge.records();
    in_page.pages[0] = forge.put_page(0, &page);
    let mut lease = forge.lease(0);
    lease.v = 2;
    let mut in_lease = forge.records();
    in_lease.leases[0] = forge.put_lease(0, &lease, 1000);
    let mut certificate = forge.members[0].1.clone();
    certificate.v = 2;
    let mut in_certificate = forge.records();
    let body = serde_json::to_vec(&certificate).unwrap();
    in_certificate.meta[0].bytes =
        seal_record(&forge.root, SealKind::Certificate, &body).unwrap().into();
    for (what, records) in [("page", in_page), ("lease", in_lease), ("certificate", in_certificate)]
    {
        let picture = forge.merge(&records);
        let id = forge.id(0);
        let member = picture.members.iter().find(|one| one.id == id).unwrap();
        assert_eq!(member.state, MemberState::Unreadable, "{what}");
        let reason = member.reason.as_deref().unwrap();
        assert!(reason.contains("newer") && reason.contains("update"), "{what}: {reason}");
        assert_eq!(picture.sessions.len(), 1, "{what}: the other one is shown");
        assert_eq!(picture.incomplete.len(), 1, "{what}");
    }
}

#[test]
fn row_58_the_same_id_on_two_members_is_two_rows() {
    let forge = Forge::new(&["a", "b"]);
    let picture = forge.merge(&forge.records());
    let rows: Vec<_> = picture
        .sessions
        .iter()
        .map(|one| (one.member.name.as_str(), one.text("agent").unwrap(), one.text("id").unwrap()))
        .collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!((rows[0].1, rows[0].2), (rows[1].1, rows[1].2));
    assert_ne!(rows[0].0, rows[1].0);
    // One member's word is nothing to the other's: what one calls over the other still has.
    let mut records = forge.records();
    let mut over = forge.page(0, "active.0");
    over.sessions[0].insert("status".to_owned(), json!("exited"));
    over.rev = 99;
    records.pages[0] = forge.put_page(0, &over);
    let picture = forge.merge(&records);
    let mut found: Vec<_> = picture.sessions.iter().map(|one| one.text("status")).collect();
    found.sort_unstable();
    assert_eq!(found, [Some("exited"), Some("running")]);
}

#[test]
fn row_36_a_clock_that_is_a_day_off_is_shown_and_ages_are_the_hubs() {
    let forge = Forge::new(&["a", "b"]);
    for skew in [-86_400_000, 86_400_000] {
        let mut lease = forge.lease(0);
        lease.sent_at = Time::from_millis(NOW - 1000 - skew);
        let mut records = forge.records();
        records.leases[0] = forge.put_lease(0, &lease, 1000);
        let picture = forge.merge(&records);
        let member = &picture.members[0];
        assert_eq!((member.state, member.age_ms), (MemberState::Reachable, Some(1000)));
        assert_eq!(member.clock_skew_ms, Some(skew));
        let ages: Vec<u64> = picture.sessions.iter().map(|one| one.age_ms).collect();
        assert_eq!(ages, [0, 0], "as old as what it published, by the hub's clock");
    }
}

#[test]
fn row_37_a_time_stamp_of_the_hub_in_the_future_is_age_zero() {
    let forge = Forge::new(&["a", "b"]);
    let mut records = forge.records();
    records.leases[0] = forge.put_lease(0, &forge.lease(0), -60_000);
    let member = &forge.merge(&records).members[0];
    assert_eq!((member.state, member.age_ms), (MemberState::Reachable, Some(0)));
}

#[test]
fn row_46_all_silent_at_once_points_at_the_hub() {
    let forge = Forge::new(&["a", "b", "c", "d"]);
    let mut records = forge.records();
    for at in 0..3 {
        records.leases[at] = forge.put_lease(at, &forge.lease(at), 60_000 + at as i64);
    }
    let picture = forge.merge(&records);
    assert_eq!(picture.incomplete[0].source, "hub");
    assert!(picture.incomplete[0].reason.contains("3 of 4"), "{:?}", picture.incomplete);
    records.leases[2] = forge.put_lease(2, &forge.lease(2), 0);
    assert_ne!(forge.merge(&records).incomplete[0].source, "hub");
}

#[test]
fn row_52_pages_of_another_run_are_marked_and_yield_to_those_of_the_lease() {
    let forge = Forge::new(&["a"]);
    let mut old = forge.page(0, "active.1");
    (old.incarnation, old.rev) = ("i0".to_owned(), 99);
    old.sessions[0].insert("title".to_owned(), json!("old"));
    let mut other = old.sessions[0].clone();
    other.insert("id".to_owned(), json!("s2"));
    old.sessions.push(other);
    let mut records = forge.records();
    records.pages.push(forge.put_page(0, &old));
    let picture = forge.merge(&records);
    assert_eq!(picture.sessions.len(), 2);
    assert!(picture.sessions[0].text("title").is_none(), "the run that holds the lease wins");
    assert_eq!(picture.sessions[1].session["superseded"], true);
}

proptest! {
    /// Row 29: whatever the lease says and however old it is, a session of a member that is not reachable is
    /// unknown, and none that was not over by its member's own word is ever called dead or over.
    #[test]
    fn row_29_silence_never_kills(
        age in 0_i64..10_000_000,
        state in prop_oneof![
            Just("up"), Just("stopping"), Just("left"), Just("something-newer")
        ],
        has_rival in any::<bool>(),
        same_run in any::<bool>(),
    ) {
        let forge = Forge::new(&["a"]);
        let mut lease = forge.lease(0);
        lease.state = serde_json::from_value(json!(state)).unwrap();
        lease.rival = has_rival.then(|| "other".to_owned());
        if !same_run {
            lease.incarnation = "i2".to_owned();
        }
        let mut records = forge.records();
        records.leases[0] = forge.put_lease(0, &lease, age);
        let picture = forge.merge(&records);
        let member = &picture.members[0];
        for session in &picture.sessions {
            let status = session.text("status").unwrap();
            prop_assert!(!["exited", "failed", "destroyed"].contains(&status));
            if member.state != MemberState::Reachable {
                prop_assert_eq!(status, "unknown");
                prop_assert_eq!(&session.session["liveness"]["state"], "unknown");
                prop_assert_eq!(&session.last_known.as_ref().unwrap()["status"], "running");
            }
        }
        prop_assert_eq!(member.state.is_incomplete(), !picture.incomplete.is_empty());
        if state == "up" && !has_rival {
            prop_assert_eq!(member.state == MemberState::Reachable, age <= 15_000);
        }
    }

    #[test]
    fn any_bytes_are_readable_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let forge = Forge::new(&["a", "b"]);
        let mut records = forge.records();
        records.pages[0].bytes = forge.sealed(0, SealKind::Page, &bytes).into();
        records.leases[0].bytes = bytes.clone().into();
        let picture = forge.merge(&records);
        prop_assert_eq!(picture.members[1].state, MemberState::Reachable);
    }
}

/// The records of the first release, as they were written.
const FIRST_RELEASE: [(&str, &str); 4] = [
    ("lease", include_str!("../fixtures/records-0.1/lease.json")),
    ("page", include_str!("../fixtures/records-0.1/page.json")),
    ("certificate", include_str!("../fixtures/records-0.1/certificate.json")),
    ("operators", include_str!("../fixtures/records-0.1/operators.json")),
];

/// Every path of a value with the type of what is there.
fn shape_of(value: &Value, path: &str, found: &mut std::collections::BTreeSet<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    found.insert(format!("{path}: {kind}"));
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| shape_of(value, &format!("{path}/{name}"), found)),
        Value::Array(values) => {
            values.iter().for_each(|one| shape_of(one, &format!("{path}/*"), found))
        }
        _ => {}
    }
}

#[test]
fn row_54_records_of_the_first_release_are_read_and_ours_have_every_field_of_theirs() {
    let forge = Forge::new(&["a"]);
    let own = |kind: &str| match kind {
        "lease" => serde_json::to_value(forge.lease(0)).unwrap(),
        "page" => serde_json::to_value(forge.page(0, "active.0")).unwrap(),
        "certificate" => serde_json::to_value(&forge.members[0].1).unwrap(),
        _ => serde_json::to_value(net::record::OperatorList {
            v: 1,
            version: 7,
            operators: vec![net::record::FleetOperator {
                name: "ada".to_owned(),
                seal: "U".to_owned(),
                link: "U".to_owned(),
                level: model::wire::FleetLevel::Read,
                not_after: None,
            }],
        })
        .unwrap(),
    };
    for (kind, text) in FIRST_RELEASE {
        let filled = text.replace("@id", forge.id(0)).replace("@seal", &forge.members[0].1.seal);
        let theirs: Value = serde_json::from_str(&filled).unwrap();
        let (mut old, mut new) = Default::default();
        shape_of(&theirs, "", &mut old);
        shape_of(&own(kind), "", &mut new);
        let lost: Vec<_> = old.difference(&new).collect();
        assert!(lost.is_empty(), "{kind}: an older reader misses {lost:?}");
        // Theirs, and one of a newer minor version with a field more, are understood.
        let mut newer = theirs.clone();
        newer["somethingNew"] = json!({"deep": [1]});
        for body in [theirs, newer] {
            let body = serde_json::to_vec(&body).unwrap();
            let mut records = forge.records();
            match kind {
                "lease" => records.leases[0].bytes = forge.sealed(0, SealKind::Lease, &body).into(),
                "page" => {
                    let packed = zstd::encode_all(body.as_slice(), 3).unwrap();
                    records.pages[0].bytes = forge.sealed(0, SealKind::Page, &packed).into();
                }
                "certificate" => {
                    let sealed = seal_record(&forge.root, SealKind::Certificate, &body).unwrap();
                    records.meta[0].bytes = sealed.into();
                }
                _ => {
                    let sealed = seal_record(&forge.root, SealKind::Operators, &body).unwrap();
                    let root = forge.root.public_key();
                    assert_eq!(net::record::read_operators(&root, &sealed).unwrap().version, 7);
                }
            }
            let picture = forge.merge(&records);
            assert_eq!(states(&picture), [MemberState::Reachable], "{kind}: {picture:?}");
            assert_eq!(picture.sessions.len(), 1, "{kind}");
        }
    }
}
