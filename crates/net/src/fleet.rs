//! What `ostler fleet` and `ls --fleet` ask for: reading the hub, and this reader's cache of it.

use std::path::Path;
use std::time::{Duration, Instant};

use model::helper::{HelperFailure, HelperFailureKind};
use model::time::Time;
use model::wire::{
    FleetLsResult, FleetSession, FleetStatusResult, HubView, IncompleteSource, MemberState,
    MemberView,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sys::dropped::NoteDropped;

use crate::fleet_files::{FleetDir, MemberFile, OPERATOR_LINK_SEED, read_member};
use crate::hub::Hub;
use crate::merge::{FleetPicture, HubRecords, list_incomplete, make_unknown, merge_records};
use crate::nats::{HubConnection, HubError, HubLogin, connect_hub};

/// How a hub is read: as an operator, or on the hub's own machine as its admin.
#[derive(Debug)]
pub(crate) struct FleetReader {
    pub(crate) site: String,
    pub(crate) url: String,
    pub(crate) ca: Option<String>,
    pub(crate) root: String,
    pub(crate) me: Option<String>,
    pub(crate) key: Option<nkeys::KeyPair>,
    pub(crate) inbox: String,
    pub(crate) hub: Option<Hub>,
}

/// What was read last, for when the hub is lost.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FleetCache {
    read_at: Time,
    members: Vec<MemberView>,
    sessions: Vec<FleetSession>,
}

impl FleetReader {
    pub(crate) fn find(home: &Path) -> Result<Self, HelperFailure> {
        match read_member(home) {
            Ok((dir, member)) => Self::of_member(&dir, member, home),
            Err(failure) => match Hub::open(home) {
                Ok(hub) => Ok(Self::of_hub(hub)),
                Err(_) => Err(failure),
            },
        }
    }

    fn of_hub(hub: Hub) -> Self {
        Self {
            site: hub.file.site.clone(),
            url: hub.file.url.clone(),
            ca: None,
            root: hub.root.public_key(),
            me: None,
            key: None,
            inbox: "admin".to_owned(),
            hub: Some(hub),
        }
    }

    fn of_member(dir: &FleetDir, member: MemberFile, home: &Path) -> Result<Self, HelperFailure> {
        let key = dir.read_key(OPERATOR_LINK_SEED)?;
        let hub = Hub::open(home).ok().filter(|hub| hub.root.public_key() == member.root);
        if key.is_none() && hub.is_none() {
            return Err(HelperFailure::new(
                HelperFailureKind::Refused,
                "this home may not read the fleet: it joined without being an operator",
                "`ostler fleet leave`, then `ostler fleet join --level read`",
            ));
        }
        Ok(Self {
            site: member.site,
            url: member.url,
            ca: member.ca,
            root: member.root,
            me: Some(member.id),
            key,
            inbox: member.name,
            hub,
        })
    }

    async fn read(
        &self,
        pages: Option<&str>,
        timeout: Duration,
    ) -> Result<(HubRecords, String), HubError> {
        let begun = Instant::now();
        let mut hub = self.connect(timeout).await?;
        self.read_through(&mut hub, pages, timeout.saturating_sub(begun.elapsed())).await
    }

    /// Connects with this home's identity.
    pub(crate) async fn connect(&self, timeout: Duration) -> Result<HubConnection, HubError> {
        self.connect_as(timeout, false).await
    }

    /// The same, for a connection that is made again when it breaks.
    pub(crate) async fn connect_to_stay(
        &self,
        timeout: Duration,
    ) -> Result<HubConnection, HubError> {
        self.connect_as(timeout, true).await
    }

    async fn connect_as(&self, timeout: Duration, stays: bool) -> Result<HubConnection, HubError> {
        match (&self.key, &self.hub) {
            (Some(key), _) => {
                let login = HubLogin {
                    url: &self.url,
                    ca: self.ca.as_deref(),
                    key,
                    inbox: &self.inbox,
                    timeout,
                    stays,
                };
                connect_hub(&login).await
            }
            (None, Some(hub)) => {
                let connecting = tokio::time::timeout(timeout, hub.connect_admin()).await;
                connecting.map_err(|_| HubError::TimedOut)?
            }
            (None, None) => Err(HubError::NoResponders),
        }
    }

    /// Reads certificates, leases and the pages that a filter names.
    pub(crate) async fn read_through(
        &self,
        hub: &mut HubConnection,
        pages: Option<&str>,
        timeout: Duration,
    ) -> Result<(HubRecords, String), HubError> {
        let begun = Instant::now();
        let left = || timeout.saturating_sub(begun.elapsed());
        let is_admin = self.key.is_none();
        let get = |what: &str| match (is_admin, what) {
            (true, "clock") => "$JS.API.STREAM.INFO.KV_lease".to_owned(),
            (true, bucket) => format!("$JS.API.DIRECT.GET.KV_{bucket}"),
            (false, what) => format!("ostler.v1.get.{}.{what}", self.site),
        };
        let asked = tokio::time::timeout(left(), hub.ask_engine(&get("clock"), &Value::Null)).await;
        let clock = asked.map_err(|_| HubError::TimedOut)??;
        let now = clock.get("ts").and_then(Value::as_str).and_then(Time::parse);
        let now = now.ok_or_else(|| HubError::Protocol("it does not tell its time".to_owned()))?;
        let read_at = Instant::now();
        let meta = hub.read_records(&get("meta"), "$KV.meta.member.*", left()).await?;
        let leases = hub.read_records(&get("lease"), "$KV.lease.*", left()).await?;
        let pages = match pages {
            Some(filter) => hub.read_records(&get("inv"), filter, left()).await?,
            None => Vec::new(),
        };
        // The clock was asked first: what was stored meanwhile is as old as nothing.
        let now = now.plus(read_at.elapsed());
        let version = hub.client.server_info().version;
        Ok((HubRecords { now: Some(now), meta, leases, pages }, version))
    }

    fn cache_name(&self) -> String {
        format!("fleet-{}.json", self.site)
    }

    /// What the fleet looked like: from the hub, or from this reader's cache when that is lost.
    pub(crate) async fn look(
        &self,
        cache: &Path,
        all: bool,
        timeout: Duration,
    ) -> (FleetPicture, HubView) {
        let filter = if all { "$KV.inv.*.*.*" } else { "$KV.inv.*.active.*" };
        match self.read(Some(filter), timeout).await {
            Ok((records, version)) => {
                let mut picture = merge_records(&self.root, &records, self.me.as_deref());
                self.fill_unreadable(&mut picture, cache);
                self.write_cache(cache, &picture);
                (picture, self.reached(version))
            }
            Err(error) => self.look_back(cache, &error),
        }
    }

    /// The members alone, by their leases: what they published is not read, and so not judged either.
    async fn look_at_leases(&self, cache: &Path, timeout: Duration) -> (FleetPicture, HubView) {
        match self.read(None, timeout).await {
            Ok((records, version)) => {
                let picture = merge_records(&self.root, &records, self.me.as_deref());
                (picture, self.reached(version))
            }
            Err(error) => self.look_back(cache, &error),
        }
    }

    fn reached(&self, version: String) -> HubView {
        let url = self.url.clone();
        HubView { url, reachable: true, version: Some(version), reason: None }
    }

    fn look_back(&self, cache: &Path, error: &HubError) -> (FleetPicture, HubView) {
        let (url, reason) = (self.url.clone(), Some(error.to_string()));
        let hub = HubView { url, reachable: false, version: None, reason };
        (self.read_cache_as_lost(cache, error), hub)
    }

    fn load_cache(&self, cache: &Path) -> Option<FleetCache> {
        let dir = FleetDir::open(cache, "").ok().flatten()?;
        dir.read_json(&self.cache_name()).ok().flatten()
    }

    fn write_cache(&self, cache: &Path, picture: &FleetPicture) {
        let kept = FleetCache {
            read_at: sys::clock::now(),
            members: picture.members.clone(),
            sessions: picture.sessions.clone(),
        };
        FleetDir::create(cache, "")
            .and_then(|dir| dir.write_json(&self.cache_name(), &kept))
            .note_dropped("the fleet's cache");
    }

    /// Of a member that cannot be read now, the last good sessions from the cache, as unknown.
    fn fill_unreadable(&self, picture: &mut FleetPicture, cache: &Path) {
        let is_unreadable = |member: &&MemberView| member.state == MemberState::Unreadable;
        let ids: Vec<String> =
            picture.members.iter().filter(is_unreadable).map(|one| one.id.clone()).collect();
        if ids.is_empty() {
            return;
        }
        let Some(cached) = self.load_cache(cache) else { return };
        let passed = model::time::whole_millis(sys::clock::now().since(cached.read_at));
        for mut session in cached.sessions {
            if ids.contains(&session.member.id) {
                session.age_ms = session.age_ms.saturating_add(passed);
                make_unknown(&mut session, MemberState::Unreadable);
                picture.sessions.push(session);
            }
        }
    }

    fn read_cache_as_lost(&self, cache: &Path, error: &HubError) -> FleetPicture {
        let reason =
            |text: String| IncompleteSource { source: "hub".to_owned(), path: None, reason: text };
        let Some(cached) = self.load_cache(cache) else {
            let incomplete = vec![reason(format!("{error}; nothing was read before"))];
            return FleetPicture { incomplete, ..FleetPicture::default() };
        };
        // Both times are of this machine.
        let passed = model::time::whole_millis(sys::clock::now().since(cached.read_at));
        let mut picture = FleetPicture::default();
        for mut member in cached.members {
            if member.state != MemberState::Left && !member.here {
                member.since = member.since.or(member.last_seen_at);
                member.state = MemberState::HubLost;
            }
            member.age_ms = member.age_ms.map(|age| age.saturating_add(passed));
            picture.members.push(member);
        }
        for mut session in cached.sessions {
            session.age_ms = session.age_ms.saturating_add(passed);
            make_unknown(&mut session, MemberState::HubLost);
            picture.sessions.push(session);
        }
        picture.incomplete = list_incomplete(&picture.members);
        picture
            .incomplete
            .insert(0, reason(format!("{error}; what follows was read {} s ago", passed / 1000)));
        picture
    }
}

/// How everybody is.
pub async fn fleet_status(
    home: &Path,
    cache: &Path,
    timeout: Duration,
) -> Result<FleetStatusResult, HelperFailure> {
    let reader = FleetReader::find(home)?;
    let (picture, hub) = reader.look_at_leases(cache, timeout).await;
    let FleetPicture { members, incomplete, .. } = picture;
    Ok(FleetStatusResult { site: reader.site, hub, members, incomplete })
}

/// The sessions of members.
pub async fn fleet_sessions(
    home: &Path,
    cache: &Path,
    all: bool,
    hosts: &[String],
    timeout: Duration,
) -> Result<FleetLsResult, HelperFailure> {
    let reader = FleetReader::find(home)?;
    let (mut picture, hub) = reader.look(cache, all, timeout).await;
    if !hosts.is_empty() {
        let mut wanted = Vec::new();
        for host in hosts {
            let found = find_view(&picture.members, host);
            wanted.push(found.map_err(|failure| unless_lost(failure, host, &hub))?.id.clone());
        }
        picture.members.retain(|member| wanted.contains(&member.id));
        picture.sessions.retain(|session| wanted.contains(&session.member.id));
        let mut incomplete = list_incomplete(&picture.members);
        if !hub.reachable {
            incomplete.extend(picture.incomplete.into_iter().filter(|one| one.source == "hub"));
        }
        picture.incomplete = incomplete;
    }
    let count = picture.sessions.len();
    Ok(FleetLsResult {
        sessions: picture.sessions,
        total: count,
        shown: count,
        members: picture.members,
        hub,
        incomplete: picture.incomplete,
    })
}

/// Only the hub knows whom there is: without it, one that this machine never read of may well be a member.
fn unless_lost(failure: HelperFailure, host: &str, hub: &HubView) -> HelperFailure {
    if hub.reachable || failure.kind != HelperFailureKind::NotFound {
        return failure;
    }
    let reason = hub.reason.as_deref().unwrap_or("the hub cannot be reached");
    HelperFailure::new(
        HelperFailureKind::Unreachable,
        format!("{reason}, and nothing is known here of `{host}`"),
        "`ostler fleet status` tells more; `--via ssh` runs a command there without the hub",
    )
}

pub(crate) fn find_view<'a>(
    members: &'a [MemberView],
    text: &str,
) -> Result<&'a MemberView, HelperFailure> {
    let exact: Vec<_> = members.iter().filter(|one| one.name == text || one.id == text).collect();
    let begins: Vec<_> = members.iter().filter(|one| one.name.starts_with(text)).collect();
    match (exact.as_slice(), begins.as_slice()) {
        ([one], _) | ([], [one]) => Ok(one),
        ([], []) => Err(HelperFailure::new(
            HelperFailureKind::NotFound,
            format!("there is no member `{text}`"),
            "`ostler fleet status` lists them",
        )),
        _ => Err(HelperFailure::new(
            HelperFailureKind::Ambiguous,
            format!("`{text}` could mean several members"),
            "use the id that `ostler fleet status --json` lists",
        )),
    }
}
