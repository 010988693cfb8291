//! A member's inventory: what is published of its sessions, divided into pages.
//!
//! Pure. A session's page follows from its name and the number of pages; when it moves, the page that gains
//! it is written first, so that a reader finds it at least once and, by the higher revision, not twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::time::Time;
use model::wire::SessionCounts;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::record::{
    InventoryPage, MOST_PAGE_BYTES, PAGES_OF_A_KIND, RECORD_VERSION, compress_page, fit_session,
};
use crate::seal::SEAL_BYTES;

/// How long ended sessions are published.
const ENDED_FOR_MS: i64 = 86_400_000;

/// What is the member's own business.
const OWN_FIELDS: [&str; 5] = ["owner", "owners", "transcript", "origin", "linked"];

/// What a member that shares little keeps to itself.
const PRIVATE_FIELDS: [&str; 5] = ["title", "waitingFor", "cwd", "branch", "name"];

/// Statuses of sessions that are over.
const ENDED_STATUSES: [&str; 3] = ["exited", "failed", "destroyed"];

/// The sessions of a machine, ready to be published.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// The sessions of every page, by its name.
    pub pages: BTreeMap<String, Vec<Map<String, Value>>>,
    /// How many sessions there are.
    pub counts: SessionCounts,
    /// How many did not fit.
    pub truncated: u64,
}

/// `agent` and `id` of a session.
pub fn session_key(session: &Map<String, Value>) -> (String, String) {
    let text = |name: &str| session.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    (text("agent"), text("id"))
}

/// Whether a session is over by its own word. What is not understood is not over.
pub fn is_ended(session: &Map<String, Value>) -> bool {
    let status = session.get("status").and_then(Value::as_str).unwrap_or("");
    ENDED_STATUSES.contains(&status)
}

/// Makes the inventory of what `ls -a` listed.
pub fn take_inventory(listed: &Value, now: Time, minimal: bool) -> Inventory {
    let sessions = listed.get("sessions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut counts = SessionCounts::default();
    let (mut active, mut ended) = (Vec::new(), Vec::new());
    for session in sessions {
        let Value::Object(mut session) = session else { continue };
        session.retain(|name, _| !OWN_FIELDS.contains(&name.as_str()));
        if minimal {
            session.retain(|name, _| !PRIVATE_FIELDS.contains(&name.as_str()));
        }
        fit_session(&mut session);
        if is_ended(&session) {
            counts.ended += 1;
            if ended_recently(&session, now) {
                ended.push(session);
            }
        } else {
            match session.get("activity").and_then(Value::as_str) {
                Some("working") => counts.working += 1,
                Some("waiting") => counts.waiting += 1,
                Some("idle") => counts.idle += 1,
                _ => counts.unknown += 1,
            }
            active.push(session);
        }
    }
    for sessions in [&mut active, &mut ended] {
        sessions.sort_by(|one, other| last_sign(other).cmp(&last_sign(one)));
    }
    let mut inventory = Inventory { counts, ..Inventory::default() };
    for (kind, sessions) in [("active", active), ("ended", ended)] {
        let (pages, left_out) = divide_sessions(kind, sessions);
        inventory.truncated += left_out;
        inventory.pages.extend(pages);
    }
    inventory
}

fn last_sign(session: &Map<String, Value>) -> Option<&str> {
    ["lastActivityAt", "endedAt", "startedAt"].iter().find_map(|name| session.get(*name)?.as_str())
}

fn ended_recently(session: &Map<String, Value>, now: Time) -> bool {
    let at = session.get("endedAt").or_else(|| session.get("lastActivityAt"));
    let at = at.and_then(Value::as_str).and_then(Time::parse);
    at.is_some_and(|at| now.as_millis() - at.as_millis() <= ENDED_FOR_MS)
}

/// Divides sessions into pages that fit; the number of those that did not.
fn divide_sessions(
    kind: &str,
    mut sessions: Vec<Map<String, Value>>,
) -> (BTreeMap<String, Vec<Map<String, Value>>>, u64) {
    let whole = sessions.len();
    let mut count = 1;
    loop {
        let mut pages: BTreeMap<String, Vec<Map<String, Value>>> = BTreeMap::new();
        for session in &sessions {
            let name = format!("{kind}.{}", page_number(session, count));
            pages.entry(name).or_default().push(session.clone());
        }
        if pages.iter().all(|(name, sessions)| fits_page(name, sessions)) {
            return (pages, (whole - sessions.len()) as u64);
        }
        if count < PAGES_OF_A_KIND {
            count *= 2;
        } else {
            // The oldest tenth goes; what is left out is counted, never silent.
            sessions.truncate(sessions.len() * 9 / 10);
        }
    }
}

fn page_number(session: &Map<String, Value>, count: usize) -> usize {
    let (agent, id) = session_key(session);
    let hash = Sha256::digest(format!("{agent}\0{id}"));
    usize::from(hash[0]) % count
}

fn fits_page(name: &str, sessions: &[Map<String, Value>]) -> bool {
    const ROOM: usize = 512;
    let page = InventoryPage {
        v: RECORD_VERSION,
        member: "m".repeat(26),
        incarnation: "i".repeat(26),
        rev: u64::MAX,
        page: name.to_owned(),
        sent_at: Time::from_millis(0),
        sessions: sessions.to_vec(),
    };
    sessions.len() <= 4096
        && compress_page(&page).is_ok_and(|body| body.len() + SEAL_BYTES + ROOM <= MOST_PAGE_BYTES)
}

/// What is written, in order, to come from one inventory to the next: each write has a higher revision than
/// the one before. A session that moves is written to its new page before it goes from the old one; where two
/// pages exchange sessions, the first is written with what it is about to lose, and once more at the end. A page
/// that is no longer there is written empty.
pub fn plan_page_writes(
    before: &Inventory,
    after: &Inventory,
) -> Vec<(String, Vec<Map<String, Value>>)> {
    let keys = |inventory: &Inventory, name: &String| -> BTreeSet<(String, String)> {
        inventory.pages.get(name).into_iter().flatten().map(session_key).collect()
    };
    let place = |name: &String| after.pages.get(name).cloned().unwrap_or_default();
    let mut new_pages: HashMap<(String, String), &String> = HashMap::new();
    for (name, sessions) in &after.pages {
        new_pages.extend(sessions.iter().map(|session| (session_key(session), name)));
    }
    let names: BTreeSet<&String> = before.pages.keys().chain(after.pages.keys()).collect();
    let changed =
        names.into_iter().filter(|name| before.pages.get(*name) != after.pages.get(*name));
    let (gaining, losing): (Vec<&String>, Vec<&String>) =
        changed.partition(|name| !keys(after, name).is_subset(&keys(before, name)));
    let (mut writes, mut written, mut again) = (Vec::new(), BTreeSet::new(), Vec::new());
    for name in gaining {
        let mut sessions = place(name);
        let leaving: Vec<Map<String, Value>> = before
            .pages
            .get(name)
            .into_iter()
            .flatten()
            .filter(|session| {
                let target = new_pages.get(&session_key(session));
                target.is_some_and(|target| *target != name && !written.contains(*target))
            })
            .cloned()
            .collect();
        if !leaving.is_empty() {
            sessions.extend(leaving);
            again.push(name);
        }
        written.insert(name);
        writes.push((name.clone(), sessions));
    }
    writes.extend(losing.into_iter().chain(again).map(|name| (name.clone(), place(name))));
    writes
}

/// What is written, in order, to say everything: first what leads from what this run published before, then the other
/// pages of `names`. Of what an earlier run published only the names are known, so the pages to which sessions usually
/// go come first: those of the ended, then, within a kind, the later ones, which a larger inventory adds, and the empty
/// ones last.
pub fn plan_all_writes(
    before: Option<&Inventory>,
    after: &Inventory,
    names: impl Iterator<Item = String>,
) -> Vec<(String, Vec<Map<String, Value>>)> {
    let mut writes = before.map_or_else(Vec::new, |before| plan_page_writes(before, after));
    let planned: BTreeSet<String> = writes.iter().map(|(name, _)| name.clone()).collect();
    let rest: BTreeSet<String> = names.filter(|name| !planned.contains(name)).collect();
    let place = |name: String| {
        let sessions = after.pages.get(&name).cloned().unwrap_or_default();
        (name, sessions)
    };
    let (full, empty): (Vec<_>, Vec<_>) =
        rest.into_iter().rev().map(place).partition(|(_, sessions)| !sessions.is_empty());
    writes.extend(full.into_iter().chain(empty));
    writes
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn session(id: usize, status: &str) -> Value {
        json!({
            "id": format!("s{id}"), "agent": "codex", "status": status, "title": "t",
            "transcript": {"path": "/secret"}, "origin": {"x": 1},
            "lastActivityAt": format!("2026-11-18T00:00:{:02}.000Z", id % 60),
        })
    }

    fn inventory(sessions: &[Value]) -> Inventory {
        let now = Time::parse("2026-11-18T01:00:00.000Z").unwrap();
        take_inventory(&json!({ "sessions": sessions }), now, false)
    }

    #[test]
    fn row_56_what_does_not_fit_is_counted() {
        let title: String = (0..200).map(|_| 'x').collect();
        let many: Vec<Value> = (0..20_000_u32)
            .map(|number| {
                let mut one = session(number as usize, "running");
                // Nothing that compresses well.
                let noise = model::hex::to_hex(&Sha256::digest(number.to_be_bytes()));
                one["cwd"] = json!(format!("/{noise}{noise}"));
                one["title"] = json!(format!("{noise}{}", &title[..100]));
                one
            })
            .collect();
        let inventory = inventory(&many);
        let published: usize = inventory.pages.values().map(Vec::len).sum();
        assert!(inventory.truncated > 0);
        assert_eq!(published as u64 + inventory.truncated, 20_000);
        assert_eq!(inventory.counts.unknown, 20_000, "counted all the same");
    }

    #[test]
    fn row_57_what_is_shared_little_of_holds_no_title_or_place() {
        let now = Time::parse("2026-11-18T01:00:00.000Z").unwrap();
        let mut one = session(1, "running");
        one["cwd"] = json!("/canary");
        one["title"] = json!("canary");
        let listed = json!({ "sessions": [one] });
        let full = serde_json::to_string(&take_inventory(&listed, now, false).pages).unwrap();
        assert!(full.contains("canary") && !full.contains("/secret"));
        let minimal = serde_json::to_string(&take_inventory(&listed, now, true).pages).unwrap();
        assert!(!minimal.contains("canary"), "{minimal}");
    }

    /// What a reader finds that asks for the next record by its sequence while a member writes: of each session
    /// the revision that it was found with last, by the page that holds it.
    fn read_beside_writes(
        mut stored: BTreeMap<String, (u64, Vec<usize>)>,
        mut writes: VecDeque<(String, Vec<usize>)>,
        mut next_chance: impl FnMut() -> bool,
    ) -> BTreeMap<usize, Vec<u64>> {
        let (mut from, mut read) = (0, BTreeMap::new());
        let mut last = stored.values().map(|(sequence, _)| *sequence).max().unwrap_or(0);
        loop {
            while !writes.is_empty() && next_chance() {
                if let Some((name, ids)) = writes.pop_front() {
                    last += 1;
                    stored.insert(name, (last, ids));
                }
            }
            let rest = stored.iter().filter(|(_, (sequence, _))| *sequence > from);
            let Some((name, (sequence, ids))) = rest.min_by_key(|(_, (sequence, _))| *sequence)
            else {
                break;
            };
            from = *sequence;
            read.insert(name.clone(), (*sequence, ids.clone()));
        }
        let mut found: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (sequence, ids) in read.into_values() {
            for id in ids {
                found.entry(id).or_default().push(sequence);
            }
        }
        found
    }

    fn ids_of(page: &[Map<String, Value>]) -> Vec<usize> {
        let number = |one: &Map<String, Value>| one["id"].as_str()?.strip_prefix('s')?.parse().ok();
        page.iter().filter_map(number).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(250))]

        /// Row 53 after a restart: sessions that ended while nobody published are found in either page all the time, and
        /// so are all others, also where the number of pages has changed.
        #[test]
        fn row_53_a_session_that_ended_between_two_runs_is_never_absent(
            before in proptest::collection::btree_map(0_usize..60, any::<bool>(), 1..50),
            ended in proptest::collection::btree_set(0_usize..60, 0..30),
            pages in (0_u32..3, 0_u32..3),
        ) {
            let make = |ended: &BTreeSet<usize>, count: usize| {
                let mut pages: BTreeMap<String, Vec<Map<String, Value>>> = BTreeMap::new();
                for (id, live) in &before {
                    let is_over = !live || ended.contains(id);
                    let one = session(*id, if is_over { "exited" } else { "running" });
                    let one = one.as_object().unwrap().clone();
                    let kind = if is_over { "ended" } else { "active" };
                    let name = format!("{kind}.{}", page_number(&one, count));
                    pages.entry(name).or_default().push(one);
                }
                Inventory { pages, ..Inventory::default() }
            };
            let (one, two) = (make(&BTreeSet::new(), 1 << pages.0), make(&ended, 1 << pages.1));
            let mut stored: BTreeMap<String, Vec<usize>> =
                one.pages.iter().map(|(name, page)| (name.clone(), ids_of(page))).collect();
            let names = one.pages.keys().chain(two.pages.keys()).cloned();
            for (name, page) in plan_all_writes(None, &two, names) {
                stored.insert(name, ids_of(&page));
                for id in before.keys() {
                    prop_assert!(stored.values().flatten().any(|one| one == id), "s{} is absent", id);
                }
            }
            let left: usize = stored.values().map(Vec::len).sum();
            prop_assert_eq!(left, before.len(), "and found once at the end");
        }

        /// Row 53: a reader that reads while pages are written finds each session that stays at least once, and by the
        /// higher revision exactly once: 250 pairs of inventories, 400 interleavings each.
        #[test]
        fn row_53_a_session_that_moves_is_never_absent_and_never_twice(
            before in proptest::collection::btree_map(0_usize..60, any::<bool>(), 0..50),
            after in proptest::collection::btree_map(0_usize..60, any::<bool>(), 0..50),
            seed in any::<u64>(),
        ) {
            let make = |states: &BTreeMap<usize, bool>| {
                let list: Vec<Value> = states.iter()
                    .map(|(id, live)| session(*id, if *live { "running" } else { "exited" }))
                    .collect();
                inventory(&list)
            };
            let (one, two) = (make(&before), make(&after));
            let stored: BTreeMap<String, (u64, Vec<usize>)> = one.pages.iter().zip(1..)
                .map(|((name, page), sequence)| (name.clone(), (sequence, ids_of(page))))
                .collect();
            // The second: the hub was away meanwhile, and everything is said again.
            let names = one.pages.keys().chain(two.pages.keys()).cloned();
            let plans = [plan_page_writes(&one, &two), plan_all_writes(Some(&one), &two, names)];
            for plan in plans {
                let writes: VecDeque<(String, Vec<usize>)> = plan.into_iter()
                    .map(|(name, page)| (name, ids_of(&page)))
                    .collect();
                let mut state = seed | 1;
                for _ in 0..400 {
                    // xorshift: one bit decides whether a write comes before the next read.
                    let chance = || {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        state & 1 == 1
                    };
                    let found = read_beside_writes(stored.clone(), writes.clone(), chance);
                    for id in before.keys().filter(|id| after.contains_key(*id)) {
                        let revisions = found.get(id).map(Vec::as_slice).unwrap_or_default();
                        let newest = revisions.iter().max();
                        prop_assert!(newest.is_some(), "s{} is absent", id);
                        prop_assert_eq!(revisions.iter().filter(|rev| Some(*rev) == newest).count(), 1);
                    }
                }
                let mut all = stored.clone();
                all.extend(writes.into_iter().map(|(name, ids)| (name, (0, ids))));
                let all: usize = all.values().map(|(_, ids)| ids.len()).sum();
                prop_assert_eq!(all, two.pages.values().map(Vec::len).sum::<usize>());
            }
        }
    }
}
