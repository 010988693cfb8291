//! A member's farewell: its lease says that it left, and its pages are emptied.

use async_nats::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::fleet_files::{FleetDir, LINK_SEED, MemberFile, SEAL_SEED};
use crate::nats::{HubLogin, StoredRecord, connect_hub};
use crate::published_pages::PublishedPages;
use crate::record::{
    InventoryPage, LeaseState, RECORD_VERSION, compress_page, read_certificate, read_lease,
};
use crate::seal::{SealKind, seal_json, seal_record};
use crate::timeouts::HUB_ANSWER_TIMEOUT;

/// Says that this member leaves, and empties its pages. Says whether the hub heard it.
pub async fn publish_departure(dir: &FleetDir, member: &MemberFile) -> bool {
    let tried = async {
        let link_key = dir.need_key(LINK_SEED).ok()?;
        let seal_key = dir.need_key(SEAL_SEED).ok()?;
        let login = HubLogin {
            url: &member.url,
            ca: member.ca.as_deref(),
            key: &link_key,
            inbox: &member.id,
            timeout: HUB_ANSWER_TIMEOUT,
            stays: false,
        };
        let mut hub = connect_hub(&login).await.ok()?;
        let answer = hub.ask("ostler.v1.own.lease", HeaderMap::new(), "".into()).await.ok()?;
        let record = StoredRecord::from_message(&answer)?;
        let sealed = STANDARD.decode(&member.certificate).ok()?;
        let certificate = read_certificate(&member.root, &member.id, &sealed).ok()?;
        let mut lease = read_lease(&certificate, &record.bytes).ok()?;
        (lease.state, lease.sent_at) = (LeaseState::Left, sys::clock::now());
        lease.n += 1;
        let body = seal_json(&seal_key, SealKind::Lease, &lease).ok()?;
        hub.put_record(&format!("$KV.lease.{}", member.id), None, body).await.ok()?;
        for name in PublishedPages::of_lease(&lease).names() {
            let page = InventoryPage {
                v: RECORD_VERSION,
                member: member.id.clone(),
                incarnation: lease.incarnation.clone(),
                rev: lease.rev + 1,
                page: name.clone(),
                sent_at: sys::clock::now(),
                sessions: Vec::new(),
            };
            let body = compress_page(&page).ok()?;
            let sealed = seal_record(&seal_key, SealKind::Page, &body).ok()?;
            hub.put_record(&format!("$KV.inv.{}.{name}", member.id), None, sealed).await.ok()?;
        }
        Some(())
    };
    let within = tokio::time::timeout(2 * HUB_ANSWER_TIMEOUT, tried).await;
    within.ok().flatten().is_some()
}
