//! The member's link: one connection to the hub, which holds the lease and publishes the inventory.
//!
//! Soft state only: what is lost at the hub is published anew. Two that claim to be this member are
//! noticed, and the newcomer keeps silent. It ends with its input, and says so to the hub.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::{Event, HeaderMap, Message, Subscriber};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use model::helper::{DaemonPlace, FleetSettings, HelperFailure};
use model::liveness::Liveness;
use nkeys::KeyPair;
use serde_json::{Value, json};
use sys::dropped::NoteDropped;
use tokio::sync::mpsc;

use crate::daemon_client::DaemonClient;
use crate::engine::{ENGINE_VERSIONS, is_engine_new_enough};
use crate::fleet_files::{FleetDir, LINK_SEED, LinkReport, MemberFile, SEAL_SEED, read_member};
use crate::helper_input::HelperInput;
use crate::inventory::{Inventory, plan_all_writes, plan_page_writes, take_inventory};
use crate::lease::{
    FoundLease, HolderLife, HolderPulse, HolderWatch, LeaseClaimant, LeaseDecision, decide_lease,
};
use crate::machine_look::{MachineLook, look_at_machine};
use crate::nats::{
    HubConnection, HubError, HubLogin, PutError, StoredRecord, connect_hub, violation_in,
};
use crate::order_desk::OrderDesk;
use crate::published_pages::PublishedPages;
use crate::record::{
    InventoryPage, LeaseState, MemberCertificate, MemberLease, RECORD_VERSION, compress_page,
    read_certificate, read_lease,
};
use crate::seal::{SealKind, seal_json, seal_record};
use crate::timeouts::{FAREWELL_TIMEOUT, HUB_ANSWER_TIMEOUT};

/// How many times the renewal interval a lease is good for.
const RENEWALS_PER_LEASE: u64 = 3;

/// The link's file for `fleet status` and `fleet doctor`.
pub const LINK_REPORT_FILE: &str = "link.json";

/// How many refusals are remembered.
const MOST_VIOLATIONS: usize = 20;

/// Runs until the input ends.
pub async fn run_link(
    home: &Path,
    place: DaemonPlace,
    settings: FleetSettings,
    mut input: HelperInput,
) {
    loop {
        let ended = match read_member(home) {
            Ok((dir, member)) => match MemberLink::prepare(home, dir, member, &place, settings) {
                Ok(link) => link.run(&mut input).await,
                Err((dir, failure)) => {
                    write_report(&dir, &failure.message);
                    input.next_signal().await.is_none()
                }
            },
            Err(failure) => {
                tracing::debug!(%failure, "no link");
                input.next_signal().await.is_none()
            }
        };
        if ended {
            return;
        }
    }
}

fn write_report(dir: &FleetDir, state: &str) {
    let mut report: LinkReport = dir.read_json(LINK_REPORT_FILE).ok().flatten().unwrap_or_default();
    (report.at, report.state) = (Some(sys::clock::now()), state.to_owned());
    dir.write_json(LINK_REPORT_FILE, &report).note_dropped("the link's report");
}

/// One run of the link.
struct MemberLink {
    home: PathBuf,
    dir: FleetDir,
    member: MemberFile,
    certificate: MemberCertificate,
    link_key: KeyPair,
    seal_key: KeyPair,
    settings: FleetSettings,
    daemon: DaemonClient,
    version: String,
    me: LeaseClaimant,
    holder: model::identity::Identity,
    begun: Instant,
    /// When the machine was last looked at; before that nothing is published, as nothing is known.
    looked_at: Option<Instant>,
    n: u64,
    rev: u64,
    sequence: u64,
    holds: bool,
    /// Another holder, while it is watched for a renewal.
    watch: Option<HolderWatch>,
    rival: Option<String>,
    inventory: Inventory,
    /// What this run has published, page by page.
    published: Option<Inventory>,
    /// The connection over which everything was said; whatever the hub forgot before it has to be said again.
    said_over: Option<u64>,
    pages: PublishedPages,
    report: LinkReport,
}

/// The boot and the machine of a process, as texts that can be compared.
fn place_of(holder: &model::identity::Identity) -> (String, String) {
    let text = |value: Result<Value, serde_json::Error>| match value {
        Ok(Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    };
    (text(serde_json::to_value(&holder.boot)), text(serde_json::to_value(&holder.machine)))
}

impl MemberLink {
    fn prepare(
        home: &Path,
        dir: FleetDir,
        member: MemberFile,
        place: &DaemonPlace,
        settings: FleetSettings,
    ) -> Result<Self, (FleetDir, HelperFailure)> {
        let prepared = (|| {
            let failed = |error: &dyn std::fmt::Display| crate::failure::internal_failure(error);
            let sealed = STANDARD.decode(&member.certificate).map_err(|error| failed(&error))?;
            let certificate = read_certificate(&member.root, &member.id, &sealed);
            let certificate = certificate.map_err(|error| failed(&error))?;
            if certificate.machine != crate::fleet_files::this_machine() {
                return Err(failed(
                    &"copied: these keys were made on another machine; \
                                    `ostler fleet join --new` makes new ones",
                ));
            }
            let link_key = dir.need_key(LINK_SEED)?;
            let seal_key = dir.need_key(SEAL_SEED)?;
            let holder = sys::proc::identify_self().map_err(|error| failed(&error))?;
            let holder = model::identity::Identity { comm: None, exe: None, ..holder };
            let incarnation = sys::random::new_ulid().map_err(|error| failed(&error))?;
            Ok((certificate, link_key, seal_key, holder, incarnation))
        })();
        let (certificate, link_key, seal_key, holder, incarnation) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return Err((dir, failure)),
        };
        let (boot, machine) = place_of(&holder);
        let report = dir.read_json(LINK_REPORT_FILE).ok().flatten().unwrap_or_default();
        Ok(Self {
            home: home.to_owned(),
            dir,
            member,
            certificate,
            link_key,
            seal_key,
            settings,
            daemon: DaemonClient::new(place.clone()),
            version: place.version.clone(),
            me: LeaseClaimant { incarnation, machine, boot },
            holder,
            begun: Instant::now(),
            looked_at: None,
            n: 0,
            rev: 0,
            sequence: 0,
            holds: false,
            watch: None,
            rival: None,
            inventory: Inventory::default(),
            published: None,
            said_over: None,
            pages: PublishedPages::default(),
            report,
        })
    }

    async fn connect(&self) -> Result<HubConnection, HubError> {
        let login = HubLogin {
            url: &self.member.url,
            ca: self.member.ca.as_deref(),
            key: &self.link_key,
            inbox: &self.member.id,
            timeout: HUB_ANSWER_TIMEOUT,
            stays: true,
        };
        connect_hub(&login).await
    }

    /// Returns whether the input has ended; otherwise the member's file has changed.
    async fn run(mut self, input: &mut HelperInput) -> bool {
        let mut hub = match self.connect().await {
            Ok(hub) => hub,
            Err(error) => {
                self.say(&error.to_string());
                return input.next_signal().await.is_none();
            }
        };
        let rival_subject = format!("ostler.v1.out.{}.state.rival", self.member.id);
        let Ok(mut rivals) = hub.client.subscribe(rival_subject).await else { return false };
        let desk = self.open_desk();
        let mut asks = None;
        let (told, mut looks) = mpsc::channel(1);
        let looker = tokio::spawn(look_at_machine(self.daemon.clone(), self.settings, told));
        let mut renewal = Box::pin(tokio::time::sleep(Duration::ZERO));
        let ended = loop {
            tokio::select! {
                Some(message) = next_ask(&mut asks) => {
                    if let Some(desk) = desk.clone().filter(|_| self.answers()) {
                        tokio::spawn(desk.answer_message(hub.client.clone(), message));
                    }
                }
                () = &mut renewal, if self.looked_at.is_some() => {
                    self.renew(&mut hub, &mut asks).await;
                    renewal = Box::pin(tokio::time::sleep(self.renewal_pause()));
                }
                Some(look) = looks.recv() => {
                    self.looked_at = Some(Instant::now());
                    self.take_look(&look);
                    if self.holds {
                        self.publish_changes(&mut hub).await;
                    }
                }
                Some(event) = hub.events.recv() => {
                    self.note_event(&event);
                    if matches!(event, Event::Connected) {
                        renewal = Box::pin(tokio::time::sleep(Duration::ZERO));
                    }
                }
                Some(notice) = rivals.next() => self.hear_rival(&notice.payload),
                signal = input.next_signal() => match signal {
                    None => break true,
                    Some(_) => if self.is_outdated() { break false },
                },
            }
        };
        looker.abort();
        if self.holds {
            let state = if ended { LeaseState::Stopping } else { LeaseState::Left };
            let farewell = self.put_lease(&mut hub, state);
            tokio::time::timeout(FAREWELL_TIMEOUT, farewell)
                .await
                .map_err(|_| HubError::TimedOut)
                .note_dropped("saying goodbye to the hub");
        }
        self.say(if ended { "stopped" } else { "left" });
        ended
    }

    /// Where orders are answered; nowhere if the keys cannot be read any more.
    fn open_desk(&self) -> Option<Arc<OrderDesk>> {
        let dir = FleetDir::open(&self.home, "fleet").ok().flatten()?;
        let seal = dir.need_key(SEAL_SEED).ok()?;
        let (id, root) = (&self.member.id, &self.member.root);
        let daemon = self.daemon.clone();
        Some(Arc::new(OrderDesk::open(dir, id, root, seal, daemon)))
    }

    /// Whether another file says who this home is.
    fn is_outdated(&self) -> bool {
        let now: Option<MemberFile> =
            self.dir.read_json(crate::fleet_files::MEMBER_FILE).ok().flatten();
        now.as_ref() != Some(&self.member)
    }

    /// A tenth to either side, so that members that started together do not stay together.
    fn renewal_pause(&self) -> Duration {
        if self.watch.is_some() {
            return Duration::from_millis(self.settings.renew_ms / 2);
        }
        let chance = sys::random::random_bytes::<1>().map_or(0.5, |[byte]| f64::from(byte) / 255.0);
        Duration::from_millis(self.settings.renew_ms).mul_f64(0.9 + 0.2 * chance)
    }

    fn say(&mut self, state: &str) {
        if self.report.state != state {
            tracing::info!(state, "the link");
            state.clone_into(&mut self.report.state);
            self.report.at = Some(sys::clock::now());
            self.report.sequence = self.sequence;
            self.dir.write_json(LINK_REPORT_FILE, &self.report).note_dropped("the link's report");
        }
    }

    fn note_event(&mut self, event: &Event) {
        if let Some(text) = violation_in(event) {
            self.note_violation(text);
        }
        if matches!(event, Event::Disconnected) {
            self.say("the hub cannot be reached");
        }
    }

    fn note_violation(&mut self, text: String) {
        self.report.violations.push(text);
        let surplus = self.report.violations.len().saturating_sub(MOST_VIOLATIONS);
        self.report.violations.drain(..surplus);
        self.dir.write_json(LINK_REPORT_FILE, &self.report).note_dropped("the link's report");
    }

    fn hear_rival(&mut self, payload: &[u8]) {
        let notice: Value = serde_json::from_slice(payload).unwrap_or_default();
        let other = notice.get("incarnation").and_then(Value::as_str).unwrap_or("");
        if other.is_empty() || other == self.me.incarnation {
            return;
        }
        let machine = notice.get("machine").and_then(Value::as_str).unwrap_or("another machine");
        self.rival = Some(machine.chars().take(80).collect());
    }

    fn take_look(&mut self, look: &MachineLook) {
        let inventory = take_inventory(&look.listed, sys::clock::now(), self.settings.minimal);
        self.inventory = inventory;
        self.settings.allow = look.allow.unwrap_or(self.settings.allow);
    }

    /// Two that claim to be this member answer no order.
    fn answers(&self) -> bool {
        self.holds && self.rival.is_none()
    }

    /// Renews the lease, or tries to take it. Orders are subscribed to before the lease is seen, and not without
    /// it: whoever asks one that does not answer is told at once that nobody is there.
    async fn renew(&mut self, hub: &mut HubConnection, asks: &mut Option<Subscriber>) {
        let version = hub.client.server_info().version;
        if version.is_empty() {
            // Renewed as soon as it is: nothing waits in a queue for an engine that nobody has looked at.
            return self.say("the hub is not reached yet");
        }
        if !is_engine_new_enough(&version) {
            self.say(&format!(
                "the hub runs version {version}, which is too old: {ENGINE_VERSIONS}"
            ));
            (self.holds, *asks) = (false, None);
            return;
        }
        if !self.holds && !self.may_take(hub).await {
            *asks = None;
            return;
        }
        if asks.is_none() && self.rival.is_none() {
            let subject = format!("ostler.v1.ask.{}.>", self.member.id);
            *asks = hub.client.subscribe(subject).await.ok();
        }
        let mut put = self.put_lease(hub, LeaseState::Up).await;
        if let Err(PutError::Conflict { found }) = put
            && self.settle_conflict(hub, found).await
        {
            put = self.put_lease(hub, LeaseState::Up).await;
        }
        match put {
            Ok(()) => {
                self.holds = true;
                match self.rival.clone() {
                    None => self.say("publishing"),
                    Some(rival) => {
                        self.say(&format!("rival: {rival} claims to be this member too"))
                    }
                }
                self.publish_changes(hub).await;
            }
            // `may_take` has said who did.
            Err(PutError::Conflict { .. }) => self.holds = false,
            Err(PutError::Hub(error)) => self.say(&error.to_string()),
        }
        if !self.answers() {
            *asks = None;
        }
    }

    /// Whether the lease may be put again after somebody else seems to have written it.
    async fn settle_conflict(&mut self, hub: &mut HubConnection, found: u64) -> bool {
        if found < self.sequence {
            // Smaller than ours or nothing: the hub lost data. It is all said again.
            (self.sequence, self.said_over) = (found, None);
            return true;
        }
        // Often a renewal of our own, which a hub that hung stored after it was given up.
        self.holds = false;
        self.may_take(hub).await
    }

    async fn put_lease(
        &mut self,
        hub: &mut HubConnection,
        state: LeaseState,
    ) -> Result<(), PutError> {
        self.n += 1;
        let lease = MemberLease {
            v: RECORD_VERSION,
            member: self.member.id.clone(),
            incarnation: self.me.incarnation.clone(),
            boot: self.me.boot.clone(),
            machine: self.me.machine.clone(),
            pid: self.holder.pid.unwrap_or_default(),
            start: self.holder.start.unwrap_or_default(),
            holder: self.holder.clone(),
            n: self.n,
            rev: self.rev,
            state,
            sent_at: sys::clock::now(),
            up_ms: model::time::whole_millis(self.begun.elapsed()),
            counts: self.inventory.counts,
            truncated: Some(self.inventory.truncated).filter(|count| *count > 0),
            allow: self.settings.allow.as_str().to_owned(),
            lease_ms: RENEWALS_PER_LEASE * self.settings.renew_ms,
            ostler: self.version.clone(),
            rival: self.rival.clone(),
            pages: Some(self.pages.bits()),
        };
        let sealed = seal_json(&self.seal_key, SealKind::Lease, &lease);
        let sealed = sealed.map_err(|error| HubError::Protocol(error.to_string()))?;
        let subject = format!("$KV.lease.{}", self.member.id);
        self.sequence = hub.put_record(&subject, Some(self.sequence), sealed.clone()).await?;
        self.tell(hub, "lease", sealed).await;
        Ok(())
    }

    /// Says something to watchers; nothing depends on it.
    async fn tell(&self, hub: &HubConnection, what: &str, bytes: Vec<u8>) {
        let subject = format!("ostler.v1.out.{}.state.{what}", self.member.id);
        hub.client.publish(subject, bytes.into()).await.note_dropped("a notice to watchers");
    }

    /// Publishes the pages that the hub does not have as they are.
    async fn publish_changes(&mut self, hub: &mut HubConnection) {
        let pages = self.pages.with(self.inventory.pages.keys());
        let connects = hub.count_connects();
        let writes = match &self.published {
            Some(before) if self.said_over == Some(connects) => {
                plan_page_writes(before, &self.inventory)
            }
            // Also those that are empty now: the hub may have something there.
            before => plan_all_writes(before.as_ref(), &self.inventory, pages.names()),
        };
        // The lease says of a page that it may be there before it is: the next run has to know.
        let before = std::mem::replace(&mut self.pages, pages);
        if before != pages && self.put_lease(hub, LeaseState::Up).await.is_err() {
            self.pages = before;
            return;
        }
        // Until all of it is there, nobody knows what is: a write that was given up may be stored late.
        self.said_over = None;
        for (name, sessions) in writes {
            self.rev += 1;
            let published = sessions.clone();
            let looked_ago = self.looked_at.map_or(Duration::ZERO, |at| at.elapsed());
            let looked = model::time::whole_millis(looked_ago);
            let sessions = sessions.into_iter().map(|mut session| {
                session.insert("lookedMs".to_owned(), json!(looked));
                session
            });
            let page = InventoryPage {
                v: RECORD_VERSION,
                member: self.member.id.clone(),
                incarnation: self.me.incarnation.clone(),
                rev: self.rev,
                page: name.clone(),
                sent_at: sys::clock::now(),
                sessions: sessions.collect(),
            };
            let sealed = compress_page(&page)
                .ok()
                .and_then(|body| seal_record(&self.seal_key, SealKind::Page, &body).ok());
            let Some(sealed) = sealed else { return };
            let subject = format!("$KV.inv.{}.{name}", self.member.id);
            if let Err(error) = hub.put_record(&subject, None, sealed.clone()).await {
                tracing::debug!(%error, page = name, "not published");
                return;
            }
            self.tell(hub, &name, sealed).await;
            if let Some(before) = &mut self.published {
                before.pages.insert(name, published);
            }
        }
        (self.published, self.said_over) = (Some(self.inventory.clone()), Some(connects));
    }

    /// Whether the lease may be taken; says so where it may not. Another holder is watched from one renewal to the
    /// next, so that nothing else waits for that.
    async fn may_take(&mut self, hub: &mut HubConnection) -> bool {
        let asked_at = Instant::now();
        let Some((found, sequence)) = self.read_own_lease(hub).await else {
            if let Some(watch) = &mut self.watch {
                watch.miss(Instant::now());
            }
            return false;
        };
        self.sequence = sequence;
        let pulse = match &mut self.watch {
            Some(watch) => watch.hear(sequence, asked_at),
            None => HolderPulse::Unwatched,
        };
        let decision = decide_lease(&found, &self.me, self.probe_holder(&found), pulse);
        if !matches!(decision, LeaseDecision::Watch | LeaseDecision::Rival) {
            self.watch = None;
        }
        let FoundLease::Signed(lease) = &found else {
            if decision == LeaseDecision::TakeFromForger {
                self.note_violation("a lease was found that this member did not sign".into());
            }
            self.pages = self.pages.and(PublishedPages::of_found(&found));
            return true;
        };
        match decision {
            LeaseDecision::Take | LeaseDecision::TakeFromForger => {
                self.pages = self.pages.and(PublishedPages::of_found(&found));
                return true;
            }
            LeaseDecision::Watch if self.watch.is_none() => {
                self.watch = Some(HolderWatch::begin(sequence, lease.lease_ms, Instant::now()));
                self.say("watching whether another one publishes as this member");
            }
            LeaseDecision::Watch => {}
            LeaseDecision::SecondDaemon => {
                self.say(&format!("another process (pid {}) publishes as this member", lease.pid));
            }
            // It is watched on: it may be gone one day.
            LeaseDecision::Rival => {
                self.say(
                    "rival: another machine or boot publishes as this member; \
                          `ostler fleet join --new` makes this one a member of its own",
                );
                let notice = json!({
                    "incarnation": self.me.incarnation, "machine": self.me.machine,
                    "boot": self.me.boot,
                });
                self.tell(hub, "rival", notice.to_string().into_bytes()).await;
            }
            LeaseDecision::Copied => self.say(
                "copied: another machine was this member; \
                 `ostler fleet join --new` makes this one a member of its own",
            ),
        }
        false
    }

    async fn read_own_lease(&mut self, hub: &mut HubConnection) -> Option<(FoundLease, u64)> {
        let answer = hub.ask("ostler.v1.own.lease", HeaderMap::new(), "".into()).await;
        let message = match answer {
            Ok(message) => message,
            Err(error) => {
                self.say(&error.to_string());
                return None;
            }
        };
        if message.status.is_some_and(|status| status.as_u16() == 404) {
            return Some((FoundLease::Nothing, 0));
        }
        let record = StoredRecord::from_message(&message)?;
        let found = match read_lease(&self.certificate, &record.bytes) {
            Ok(lease) => FoundLease::Signed(Box::new(lease)),
            Err(_) => FoundLease::Forged,
        };
        Some((found, record.sequence))
    }

    fn probe_holder(&self, found: &FoundLease) -> HolderLife {
        let FoundLease::Signed(lease) = found else { return HolderLife::Unknown };
        let observer = sys::proc::current_observer();
        let liveness: Liveness = sys::proc::probe_liveness(&lease.holder, &observer);
        match (liveness.is_alive(), liveness.is_dead()) {
            (true, _) => HolderLife::Alive,
            (_, true) => HolderLife::Dead,
            _ => HolderLife::Unknown,
        }
    }
}

async fn next_ask(asks: &mut Option<Subscriber>) -> Option<Message> {
    match asks {
        Some(asks) => asks.next().await,
        None => std::future::pending().await,
    }
}
