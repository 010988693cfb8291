//! The hub: a `nats-server` with a configuration that one can read. One account for each member, streams
//! without roll-ups, and only the admin key may touch the engine's own interface.
//!
//! Why so strict: in one shared account a client that may write only its own keys can still have the hub
//! write to another's (by a reply subject), erase a bucket (by a roll-up header) or have a put dropped (by a
//! message id). `crates/net/tests/net/isolation.rs` tries each of these.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;

use model::helper::{HelperFailure, HelperFailureKind};
use model::wire::FleetLevel;
use nkeys::KeyPair;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fleet_files::FleetDir;
use crate::nats::{HubConnection, HubError, HubLogin, StoredRecord, connect_hub};
use crate::record::{
    FleetOperator, MOST_LEASE_BYTES, MOST_META_BYTES, MOST_PAGE_BYTES, MemberCertificate,
    OperatorList, RECORD_VERSION, page_names, read_certificate, read_operators,
};
use crate::seal::{SealKind, seal_record};

pub use crate::timeouts::ADMIN_TIMEOUT;

/// Where a hub's files are, below the home.
pub const HUB_DIRECTORY: &str = "fleet/hub";

/// The file that describes the hub.
pub const HUB_FILE: &str = "hub.json";

/// The engine's configuration.
pub const ENGINE_CONFIG: &str = "nats.conf";

/// The keys of a hub.
pub const ROOT_SEED: &str = "root.seed";
/// The key that writes certificates and makes streams.
pub const ADMIN_SEED: &str = "admin.seed";
/// The key that reloads the engine.
pub const SYSTEM_SEED: &str = "system.seed";

/// What a hub is, and who belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HubFile {
    /// The site's name.
    pub site: String,
    /// Where it listens.
    pub listen: String,
    /// Where members connect to.
    pub url: String,
    /// Whether connections are in the clear.
    pub plain: bool,
    /// Everybody who was admitted.
    pub members: Vec<MemberCertificate>,
    /// The version of the operator list.
    pub operators_version: u64,
    /// Everybody who may look or order.
    pub operators: Vec<FleetOperator>,
}

/// A hub with its keys.
#[derive(Debug)]
pub struct Hub {
    pub dir: FleetDir,
    /// What it is.
    pub file: HubFile,
    /// The fleet's key.
    pub root: KeyPair,
    admin: KeyPair,
    system: KeyPair,
    ca: Option<String>,
}

impl Hub {
    /// The hub of this home.
    pub fn open(home: &Path) -> Result<Self, HelperFailure> {
        let missing = || {
            HelperFailure::new(
                HelperFailureKind::Refused,
                "this home is no hub",
                "`ostler fleet init` makes one; run this on the hub's machine",
            )
        };
        let dir = FleetDir::open(home, HUB_DIRECTORY)?.ok_or_else(missing)?;
        let file: HubFile = dir.read_json(HUB_FILE)?.ok_or_else(missing)?;
        let ca = dir.read("ca.pem")?.map(|pem| String::from_utf8_lossy(&pem).into_owned());
        Ok(Self {
            root: dir.need_key(ROOT_SEED)?,
            admin: dir.need_key(ADMIN_SEED)?,
            system: dir.need_key(SYSTEM_SEED)?,
            ca: ca.filter(|_| !file.plain),
            file,
            dir,
        })
    }

    /// The hub's CA; none where connections are in the clear.
    pub fn ca(&self) -> Option<&str> {
        self.ca.as_deref()
    }

    /// Where the engine listens, for clients on this machine.
    fn local_url(&self, port: Option<u16>) -> String {
        let (host, own) = self.file.listen.rsplit_once(':').unwrap_or(("127.0.0.1", "4222"));
        let port = port.map_or_else(|| own.to_owned(), |port| port.to_string());
        let host = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            // One on another port is the brief engine of `init`, which listens on loopback alone.
            _ if port != own => "127.0.0.1",
            Ok(address) if address.is_unspecified() => "127.0.0.1",
            _ => host,
        };
        format!("{}://{host}:{port}", if self.file.plain { "nats" } else { "tls" })
    }

    /// The name or address that members connect to.
    pub fn host_name(&self) -> &str {
        let rest = self.file.url.split_once("://").map_or("", |(_, rest)| rest);
        let host = rest.rsplit_once(':').map_or(rest, |(host, _)| host);
        host.trim_matches(['[', ']'])
    }

    async fn login(&self, key: &KeyPair, port: Option<u16>) -> Result<HubConnection, HubError> {
        let url = self.local_url(port);
        let login = HubLogin {
            url: &url,
            ca: self.ca(),
            key,
            inbox: "admin",
            timeout: ADMIN_TIMEOUT,
            stays: false,
        };
        connect_hub(&login).await
    }

    /// Connects as the one who may write certificates.
    pub async fn connect_admin(&self) -> Result<HubConnection, HubError> {
        self.login(&self.admin, None).await
    }

    /// Connects as the admin to an engine that listens on another port of this machine.
    pub async fn connect_admin_at(&self, port: u16) -> Result<HubConnection, HubError> {
        self.login(&self.admin, Some(port)).await
    }

    /// Writes what it is, and the engine's configuration that follows from it.
    pub fn save(&self) -> Result<(), HelperFailure> {
        self.dir.write_json(HUB_FILE, &self.file)?;
        sys::pause::pause_at("fleet.saved");
        self.dir.write(ENGINE_CONFIG, self.engine_config().as_bytes())
    }

    /// Has the engine read its configuration again, twice: an account that is new in a reload has no
    /// working imports until the next one.
    pub async fn reload_engine(&self) -> Result<(), HubError> {
        for _ in 0..2 {
            let mut connection = self.login(&self.system, None).await?;
            let server = connection.client.server_info().server_id;
            let subject = format!("$SYS.REQ.SERVER.{server}.RELOAD");
            connection.ask_engine(&subject, &json!({})).await?;
            sys::pause::pause_at("fleet.reloaded");
        }
        Ok(())
    }

    /// Who would connect with the key of somebody else: an engine that is given one key twice does not start.
    pub fn find_shared_key(&self) -> Option<(String, String)> {
        let HubFile { members, operators, .. } = &self.file;
        let own = [&self.admin, &self.system].map(|key| ("the hub".to_owned(), key.public_key()));
        let members =
            members.iter().map(|one| (format!("member `{}`", one.name), one.link.clone()));
        let operators =
            operators.iter().map(|one| (format!("operator `{}`", one.name), one.link.clone()));
        let mut holders: HashMap<String, String> = HashMap::new();
        for (holder, key) in own.into_iter().chain(members).chain(operators) {
            if let Some(other) = holders.insert(key, holder.clone()) {
                return Some((other, holder));
            }
        }
        None
    }

    /// What the engine counts: connections, messages, bytes.
    pub async fn read_engine_stats(&self) -> Result<Value, HubError> {
        let mut connection = self.login(&self.system, None).await?;
        let server = connection.client.server_info().server_id;
        let subject = format!("$SYS.REQ.SERVER.{server}.VARZ");
        let answer = connection.ask_engine(&subject, &json!({})).await?;
        Ok(answer.get("data").cloned().unwrap_or_default())
    }

    /// Who is connected, those first that sent most.
    pub async fn read_connections(&self) -> Result<Value, HubError> {
        let mut connection = self.login(&self.system, None).await?;
        let server = connection.client.server_info().server_id;
        let subject = format!("$SYS.REQ.SERVER.{server}.CONNZ");
        let question = json!({ "auth": true, "sort": "bytes_from", "limit": 16 });
        let answer = connection.ask_engine(&subject, &question).await?;
        Ok(answer.get("data").cloned().unwrap_or_default())
    }

    /// What is wrong with the engine's store, by its own word: a full disk is silence to everybody else.
    pub async fn read_store_faults(&self) -> Result<Vec<String>, HubError> {
        let mut connection = self.login(&self.system, None).await?;
        let server = connection.client.server_info().server_id;
        let subject = format!("$SYS.REQ.SERVER.{server}.HEALTHZ");
        let answer = connection.ask_engine(&subject, &json!({ "details": true })).await?;
        let faults = answer.pointer("/data/errors").and_then(Value::as_array);
        let text = |one: &Value| one.get("error").and_then(Value::as_str).map(str::to_owned);
        Ok(faults.into_iter().flatten().filter_map(text).collect())
    }

    /// The signed list of operators.
    pub fn sealed_operators(&self) -> Result<Vec<u8>, HelperFailure> {
        let list = OperatorList {
            v: RECORD_VERSION,
            version: self.file.operators_version,
            operators: self.file.operators.clone(),
        };
        self.seal_by_root(SealKind::Operators, &list)
    }

    /// The signed certificate of a member.
    pub fn sealed_certificate(
        &self,
        certificate: &MemberCertificate,
    ) -> Result<Vec<u8>, HelperFailure> {
        self.seal_by_root(SealKind::Certificate, certificate)
    }

    fn seal_by_root(
        &self,
        kind: SealKind,
        record: &impl Serialize,
    ) -> Result<Vec<u8>, HelperFailure> {
        let failed = |error: &dyn std::fmt::Display| crate::failure::internal_failure(error);
        let body = serde_json::to_vec(record).map_err(|error| failed(&error))?;
        seal_record(&self.root, kind, &body).map_err(|error| failed(&error))
    }

    /// Puts what root signed where members and operators read it.
    pub async fn publish_meta(&self, admin: &mut HubConnection) -> Result<(), HelperFailure> {
        let failed = |error: crate::nats::PutError| match error {
            crate::nats::PutError::Hub(error) => HelperFailure::from(error),
            conflict => crate::failure::internal_failure(&conflict),
        };
        for member in &self.file.members {
            let subject = format!("$KV.meta.member.{}", member.id);
            let record = self.sealed_certificate(member)?;
            admin.put_record(&subject, None, record).await.map_err(failed)?;
            sys::pause::pause_at("fleet.published");
        }
        let record = self.sealed_operators()?;
        admin.put_record("$KV.meta.operators", None, record).await.map_err(failed)?;
        Ok(())
    }

    /// The engine's configuration.
    pub fn engine_config(&self) -> String {
        let mut text = String::from("# Written by ostler; `ostler fleet` commands change it.\n");
        let directory = self.dir.path();
        let quote = |path: &Path| json!(path.to_string_lossy()).to_string();
        let file = &self.file;
        let mut line = |words: std::fmt::Arguments<'_>| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{words}");
        };
        line(format_args!("server_name: \"ostler-{}\"", file.site));
        line(format_args!("listen: \"{}\"", file.listen));
        line(format_args!("max_payload: 131072"));
        line(format_args!("ping_interval: \"20s\"\nping_max: 2"));
        line(format_args!("log_file: {}", quote(&directory.join("hub.log"))));
        line(format_args!("logfile_size_limit: 16777216\nlogfile_max_num: 2"));
        line(format_args!(
            "jetstream {{ store_dir: {}, max_memory_store: 0, max_file_store: {} }}",
            quote(&directory.join("store")),
            file.max_store_bytes()
        ));
        if !file.plain {
            line(format_args!(
                "tls {{ cert_file: {}, key_file: {}, min_version: \"1.3\" }}",
                quote(&directory.join("hub.pem")),
                quote(&directory.join("hub.key"))
            ));
        }
        line(format_args!("system_account: SYS\naccounts {{"));
        line(format_args!("  SYS: {{ users: [ {{ nkey: {} }} ] }}", self.system.public_key()));
        text.push_str(&fleet_account(&self.admin.public_key(), file));
        text.push_str(&operators_account(file));
        for member in &file.members {
            text.push_str(&member_account(member));
        }
        text.push_str("}\n");
        text
    }
}

impl HubFile {
    /// What all members together may store, with room to spare.
    pub fn max_store_bytes(&self) -> u64 {
        (self.members.len().max(64) as u64) * 3 * (2 << 20)
    }
}

fn list(subjects: impl IntoIterator<Item = String>) -> String {
    let quoted: Vec<String> = subjects.into_iter().map(|one| format!("\"{one}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

/// The streams, and services for exactly those who may use them.
fn fleet_account(admin: &str, file: &HubFile) -> String {
    let mut exports = Vec::new();
    for bucket in BUCKETS {
        exports.push(format!(
            "{{ service: \"$JS.API.DIRECT.GET.KV_{bucket}\", response_type: stream, accounts: [OPS] }}"
        ));
    }
    exports.push("{ service: \"$JS.API.STREAM.INFO.KV_lease\", accounts: [OPS] }".to_owned());
    for member in &file.members {
        let (id, account) = (&member.id, account_name(&member.id));
        for subject in [
            format!("$KV.lease.{id}"),
            format!("$KV.inv.{id}.*.*"),
            format!("$JS.API.DIRECT.GET.KV_lease.$KV.lease.{id}"),
            "$JS.API.DIRECT.GET.KV_meta.$KV.meta.operators".to_owned(),
        ] {
            exports.push(format!("{{ service: \"{subject}\", accounts: [{account}] }}"));
        }
    }
    // One export for a subject, for all its users.
    let operators = "{ service: \"$JS.API.DIRECT.GET.KV_meta.$KV.meta.operators\"";
    exports.retain(|export| !export.starts_with(operators));
    if !file.members.is_empty() {
        let accounts: Vec<String> =
            file.members.iter().map(|member| account_name(&member.id)).collect();
        exports.push(format!("{operators}, accounts: [{}] }}", accounts.join(", ")));
    }
    format!(
        "  FLEET: {{ jetstream: enabled, users: [ {{ nkey: {admin} }} ], exports: [\n    {}\n  ] }}\n",
        exports.join("\n    ")
    )
}

fn operators_account(file: &HubFile) -> String {
    let site = &file.site;
    let mut imports = Vec::new();
    for bucket in BUCKETS {
        imports.push(format!(
            "{{ service: {{ account: FLEET, subject: \"$JS.API.DIRECT.GET.KV_{bucket}\" }}, \
             to: \"ostler.v1.get.{site}.{bucket}\" }}"
        ));
    }
    imports.push(format!(
        "{{ service: {{ account: FLEET, subject: \"$JS.API.STREAM.INFO.KV_lease\" }}, \
         to: \"ostler.v1.get.{site}.clock\" }}"
    ));
    for member in &file.members {
        let (id, account) = (&member.id, account_name(&member.id));
        imports.push(format!(
            "{{ service: {{ account: {account}, subject: \"ostler.v1.ask.{id}.>\" }} }}"
        ));
        imports.push(format!(
            "{{ stream: {{ account: {account}, subject: \"ostler.v1.out.{id}.>\" }} }}"
        ));
    }
    let users: Vec<String> =
        file.operators.iter().map(|operator| operator_user(operator, site)).collect();
    format!(
        "  OPS: {{ users: [\n    {}\n  ], imports: [\n    {}\n  ] }}\n",
        users.join("\n    "),
        imports.join("\n    ")
    )
}

fn operator_user(operator: &FleetOperator, site: &str) -> String {
    let name = &operator.name;
    let gets =
        ["lease", "inv", "meta", "clock"].map(|bucket| format!("ostler.v1.get.{site}.{bucket}"));
    let asks = FleetLevel::ALL
        .into_iter()
        .filter(|level| *level > FleetLevel::None && *level <= operator.level)
        .map(|level| format!("ostler.v1.ask.*.{}.{name}.>", level.as_str()));
    let publish = list(gets.into_iter().chain(asks));
    let subscribe = list([
        format!("_INBOX.{name}.>"),
        "ostler.v1.out.*.state.>".to_owned(),
        format!("ostler.v1.out.*.term.{name}.>"),
    ]);
    format!(
        "{{ nkey: {}, permissions: {{ publish: {publish}, subscribe: {subscribe} }} }}",
        operator.link
    )
}

/// The account of a member.
pub fn account_name(id: &str) -> String {
    format!("H_{id}")
}

/// Everything that a member may do: its own lease, its pages by name, its own notices, one answer to each
/// order.
fn member_account(member: &MemberCertificate) -> String {
    let id = &member.id;
    let publish = list(
        [
            format!("$KV.lease.{id}"),
            "ostler.v1.own.lease".to_owned(),
            "ostler.v1.own.operators".to_owned(),
            format!("ostler.v1.out.{id}.>"),
        ]
        .into_iter()
        .chain(page_names().map(|page| format!("$KV.inv.{id}.{page}"))),
    );
    let subscribe = list([
        format!("_INBOX.{id}.>"),
        format!("ostler.v1.ask.{id}.>"),
        // A home that was cloned is heard by the one it was cloned from.
        format!("ostler.v1.out.{id}.state.rival"),
    ]);
    let imports = [
        format!("{{ service: {{ account: FLEET, subject: \"$KV.lease.{id}\" }} }}"),
        format!("{{ service: {{ account: FLEET, subject: \"$KV.inv.{id}.*.*\" }} }}"),
        format!(
            "{{ service: {{ account: FLEET, subject: \"$JS.API.DIRECT.GET.KV_lease.$KV.lease.{id}\" }}, \
             to: \"ostler.v1.own.lease\" }}"
        ),
        "{ service: { account: FLEET, subject: \"$JS.API.DIRECT.GET.KV_meta.$KV.meta.operators\" }, \
         to: \"ostler.v1.own.operators\" }"
            .to_owned(),
    ];
    format!(
        "  {}: {{\n    limits: {{ max_connections: 2, max_subscriptions: 32, max_payload: 131072 }}\n    \
         users: [ {{ nkey: {}, permissions: {{ publish: {publish}, subscribe: {subscribe}, \
         allow_responses: {{ max: 1, expires: \"60s\" }} }} }} ]\n    exports: [\n      \
         {{ service: \"ostler.v1.ask.{id}.>\", accounts: [OPS] }}\n      \
         {{ stream: \"ostler.v1.out.{id}.>\", accounts: [OPS] }}\n    ]\n    imports: [\n      {}\n    ]\n  }}\n",
        account_name(id),
        member.link,
        imports.join("\n      ")
    )
}

/// The buckets: leases, inventories, and who is who.
pub const BUCKETS: [&str; 3] = ["lease", "inv", "meta"];

/// What a bucket's stream must be.
pub fn bucket_config(bucket: &str, members: usize) -> Value {
    let most = match bucket {
        // With room for the header that says which sequence is replaced.
        "lease" => MOST_LEASE_BYTES + 256,
        "inv" => MOST_PAGE_BYTES,
        _ => MOST_META_BYTES,
    };
    json!({
        "name": format!("KV_{bucket}"),
        "subjects": [format!("$KV.{bucket}.>")],
        "retention": "limits",
        "storage": "file",
        "num_replicas": 1,
        "discard": "new",
        "max_consumers": 1,
        "max_msgs": -1,
        "max_age": 0,
        "max_msgs_per_subject": 1,
        "max_bytes": (members.max(64) as u64) * (2 << 20),
        "max_msg_size": most,
        "duplicate_window": 100_000_000_u64,
        "allow_direct": true,
        "deny_delete": true,
        "allow_rollup_hdrs": false,
    })
}

/// Makes the streams that are missing.
pub async fn ensure_buckets(admin: &mut HubConnection, members: usize) -> Result<(), HubError> {
    for bucket in BUCKETS {
        let config = bucket_config(bucket, members);
        let info = admin.ask_engine(&format!("$JS.API.STREAM.INFO.KV_{bucket}"), &json!({})).await;
        let verb = if info.is_ok() { "UPDATE" } else { "CREATE" };
        admin.ask_engine(&format!("$JS.API.STREAM.{verb}.KV_{bucket}"), &config).await?;
    }
    Ok(())
}

/// What differs between a stream and what it must be; each difference opens a way that must be closed.
pub async fn find_bucket_drift(admin: &mut HubConnection) -> Result<Vec<String>, HubError> {
    let mut drift = Vec::new();
    for bucket in BUCKETS {
        let subject = format!("$JS.API.STREAM.INFO.KV_{bucket}");
        let info = match admin.ask_engine(&subject, &json!({})).await {
            Ok(info) => info,
            Err(HubError::Refused(reason)) => {
                drift.push(format!("KV_{bucket}: {reason}"));
                continue;
            }
            Err(error) => return Err(error),
        };
        let wanted = bucket_config(bucket, 0);
        for name in [
            "subjects",
            "discard",
            "max_consumers",
            "max_msgs_per_subject",
            "max_msg_size",
            "allow_direct",
            "deny_delete",
            "allow_rollup_hdrs",
            "max_age",
            "max_msgs",
            "retention",
            "storage",
            "duplicate_window",
        ] {
            let found = info["config"].get(name).cloned().unwrap_or(json!(false));
            if found != wanted[name] {
                drift.push(format!("KV_{bucket}: {name} is {found}, not {}", wanted[name]));
            }
        }
    }
    Ok(drift)
}

/// Removes what the hub keeps of a member.
pub async fn purge_member(admin: &mut HubConnection, id: &str) -> Result<(), HubError> {
    for (bucket, filter) in [
        ("lease", format!("$KV.lease.{id}")),
        ("inv", format!("$KV.inv.{id}.>")),
        ("meta", format!("$KV.meta.member.{id}")),
    ] {
        let subject = format!("$JS.API.STREAM.PURGE.KV_{bucket}");
        admin.ask_engine(&subject, &json!({ "filter": filter })).await?;
    }
    Ok(())
}

/// What root signed, as the hub has it.
async fn read_meta(admin: &mut HubConnection) -> Result<Vec<StoredRecord>, HubError> {
    admin.read_records("$JS.API.DIRECT.GET.KV_meta", "$KV.meta.>", ADMIN_TIMEOUT).await
}

/// Members that the hub still has something of and that are none of its own any more: an `evict` was killed, or
/// somebody restored an older store. Each with its certificate, if that can be read.
pub async fn find_strangers(
    hub: &Hub,
    admin: &mut HubConnection,
) -> Result<Vec<(String, Option<MemberCertificate>)>, HubError> {
    let root = hub.root.public_key();
    let stranger = |record: &StoredRecord| {
        let id = record.subject.strip_prefix("$KV.meta.member.")?;
        let is_known = hub.file.members.iter().any(|member| member.id == id);
        (!is_known).then(|| (id.to_owned(), read_certificate(&root, id, &record.bytes).ok()))
    };
    Ok(read_meta(admin).await?.iter().filter_map(stranger).collect())
}

/// What differs between the certificates and operators that were signed here and those that the hub hands out.
pub async fn find_certificate_drift(
    hub: &Hub,
    admin: &mut HubConnection,
) -> Result<Vec<String>, HubError> {
    let records = read_meta(admin).await?;
    let root = hub.root.public_key();
    let find = |subject: &str| records.iter().rev().find(|one| one.subject == subject);
    let mut drift = Vec::new();
    for MemberCertificate { id, name, .. } in &hub.file.members {
        let found = find(&format!("$KV.meta.member.{id}"));
        match found.map(|record| read_certificate(&root, id, &record.bytes)) {
            None => drift.push(format!("that of `{name}` is missing at the hub")),
            Some(Err(error)) => drift.push(format!("that of `{name}` at the hub: {error}")),
            Some(Ok(found)) if hub.file.members.contains(&found) => {}
            Some(Ok(_)) => drift.push(format!("that of `{name}` at the hub is another one")),
        }
    }
    for (id, certificate) in find_strangers(hub, admin).await? {
        let name = certificate.map_or(id, |certificate| certificate.name);
        drift.push(format!("the hub has one of `{name}`, who is no member"));
    }
    let operators = find("$KV.meta.operators");
    match operators.map(|record| read_operators(&root, &record.bytes)) {
        None => drift.push("the operator list is missing at the hub".to_owned()),
        Some(Err(error)) => drift.push(format!("the operator list at the hub: {error}")),
        Some(Ok(list)) if list.version == hub.file.operators_version => {}
        Some(Ok(list)) => drift.push(format!(
            "the operator list at the hub is version {}, not {}",
            list.version, hub.file.operators_version
        )),
    }
    Ok(drift)
}
