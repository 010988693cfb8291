//! The records of a session: `meta.json` and `stop.json`, closed schemas without a secret in them.

use serde::{Deserialize, Deserializer, Serialize};

use crate::rules::{AGENT_PIDS, is_id, may_be_secret};
use model::identity::{BootId, Identity, IdentityRecorder, MachineId};
use model::refusal::{Refusal, SkipCode};
use model::time::Time;

/// The version of the schema.
pub const META_SCHEMA_VERSION: u32 = 1;
/// How long a session may be lent, in seconds.
pub const TTL_SECONDS_RANGE: std::ops::RangeInclusive<u64> = 60..=86_400;
/// The most keys a session may hold.
pub const MAX_KEYS: usize = 32;
/// The longest label, in characters.
pub const MAX_LABEL_CHARS: usize = 64;
const MAX_TEXT_CHARS: usize = 255;

/// `meta.json`. Never in it: a private key, a passphrase, the path of a key, an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessMeta {
    /// [`META_SCHEMA_VERSION`].
    pub schema: u32,
    /// The name of the directory.
    pub id: String,
    /// What a person called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it was opened.
    #[serde(deserialize_with = "deserialize_utc")]
    pub created_at: Time,
    /// When its keys expire.
    #[serde(deserialize_with = "deserialize_utc")]
    pub expires_at: Time,
    /// The time between the two.
    pub ttl_s: u64,
    /// The boot in which it was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_boot: Option<String>,
    /// When its keys expire, in seconds since that boot.
    pub expires_boottime_s: u64,
    /// The ssh-agent that holds the keys.
    pub agent: ProcessRecord,
    /// The process of ostler that serves the lent socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeper: Option<ProcessRecord>,
    /// The keys it was opened with.
    pub keys: Vec<LentKey>,
    pub openssh_version: String,
    /// Whether each use of a key asks a person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirm: bool,
    /// Whether the borrower may not add keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Where the keys may be used, as it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<String>,
    /// The session it is lent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionBinding>,
}

/// A process of ours, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessRecord {
    pub pid: u32,
    /// Kernel start time in the platform's own unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// The boot: the kernel's id, or `time:` and its boot time in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// The machine, hashed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// Its pid namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_ns: Option<u64>,
    /// Its time namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
    pub uid: u32,
    /// Short name, for people.
    pub comm: String,
    /// Inode of a pidfd, where that is unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pidfd_ino: Option<u64>,
}

/// A key that a session was opened with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LentKey {
    /// `SHA256:` and 43 characters.
    pub fingerprint: String,
    /// The algorithm's name.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The session that an access is lent to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionBinding {
    pub agent: String,
    pub id: String,
    /// The process it belonged to when the access was opened.
    pub owner: ProcessRecord,
}

/// `stop.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopRecord {
    #[serde(deserialize_with = "deserialize_utc")]
    pub stopped_at: Time,
    /// The agent's pid, as in the metadata.
    pub pid: u32,
    /// The agent's start, as in the metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
}

/// RFC 3339 in UTC, and nothing else.
fn deserialize_utc<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = text.ends_with('Z').then(|| Time::parse(&text)).flatten();
    time.ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time in UTC"))
}

/// Two steps, so that what is no JSON and what is no record of ours have codes of their own. The
/// parser's own words may quote the file and are dropped.
fn parse_record<'de, T: Deserialize<'de>>(bytes: &'de [u8], file: &str) -> Result<T, Refusal> {
    let malformed = || Refusal::skip(SkipCode::Malformed, format!("{file} is not JSON"));
    serde_json::from_slice::<serde_json::Value>(bytes).map_err(|_| malformed())?;
    serde_json::from_slice(bytes).map_err(|_| {
        Refusal::skip(SkipCode::Invalid, format!("{file} does not have the fields it must"))
    })
}

impl AccessMeta {
    /// Reads and checks the record of the directory called `id`.
    pub fn parse_for(bytes: &[u8], id: &str) -> Result<Self, Refusal> {
        let meta: Self = parse_record(bytes, "meta.json")?;
        match meta.broken_rule(id) {
            None => Ok(meta),
            Some(rule) => Err(Refusal::skip(SkipCode::Invalid, format!("meta.json: {rule}"))),
        }
    }

    fn broken_rule(&self, id: &str) -> Option<&'static str> {
        let lifetime = self.expires_at.as_millis().checked_sub(self.created_at.as_millis());
        let ttl_ms = i64::try_from(self.ttl_s).ok().and_then(|s| s.checked_mul(1000));
        let label_fits =
            self.label.as_deref().is_none_or(|label| is_short_plain_text(label, MAX_LABEL_CHARS));
        let binding_fits = self.session.as_ref().is_none_or(|binding| {
            is_short_plain_text(&binding.agent, MAX_TEXT_CHARS)
                && is_short_plain_text(&binding.id, MAX_TEXT_CHARS)
                && binding.owner.is_within_limits()
        });
        let rules = [
            (self.schema == META_SCHEMA_VERSION, "an unknown schema"),
            (self.id == id && is_id(id), "the id is not the directory's name"),
            (
                TTL_SECONDS_RANGE.contains(&self.ttl_s),
                "the lifetime is not between a minute and a day",
            ),
            (lifetime.is_some() && lifetime == ttl_ms, "the times do not span the lifetime"),
            (label_fits, "the label is too long or no label"),
            (self.agent.is_within_limits(), "the agent's process is not a possible one"),
            (self.agent.boot == self.created_boot, "the agent belongs to another boot"),
            (
                self.keeper.as_ref().is_none_or(ProcessRecord::is_within_limits),
                "the keeper is not a possible one",
            ),
            (self.keys.len() <= MAX_KEYS, "too many keys"),
            (self.keys.iter().all(LentKey::is_within_limits), "a key breaks its rule"),
            (
                is_short_plain_text(&self.openssh_version, MAX_LABEL_CHARS),
                "the version is no version",
            ),
            (self.destinations.len() <= MAX_KEYS, "too many destinations"),
            (
                self.destinations.iter().all(|host| is_short_plain_text(host, MAX_TEXT_CHARS)),
                "a destination is no host",
            ),
            (binding_fits, "the session it is lent to is not a possible one"),
        ];
        rules.into_iter().find_map(|(kept, rule)| (!kept).then_some(rule))
    }
}

impl StopRecord {
    /// Reads the record.
    pub fn parse_stop(bytes: &[u8]) -> Result<Self, Refusal> {
        parse_record(bytes, "stop.json")
    }

    /// Whether it is about this session.
    pub fn check_same_session(&self, meta: &AccessMeta) -> Result<(), Refusal> {
        let same = self.pid == meta.agent.pid && self.start == meta.agent.start;
        if same && self.stopped_at >= meta.created_at {
            return Ok(());
        }
        Err(Refusal::skip(SkipCode::Invalid, "stop.json is not about this session"))
    }
}

impl ProcessRecord {
    /// Writes an identity down; `None` when it has no pid or user.
    pub fn from_identity(identity: &Identity) -> Option<Self> {
        Some(Self {
            pid: identity.pid?,
            start: identity.start,
            boot: identity.boot.as_ref().map(boot_text),
            machine_id: match &identity.machine {
                Some(MachineId::Hashed(id)) => Some(id.clone()),
                _ => None,
            },
            pid_ns: identity.pid_ns,
            time_ns: identity.time_ns,
            uid: identity.uid?,
            comm: identity.comm.clone().unwrap_or_default(),
            pidfd_ino: identity.pidfd_ino,
        })
    }

    /// What names the process. When it was written down is left out on purpose: a process that
    /// started later would be called another, and without a start any live pid must block.
    pub fn to_identity(&self) -> Identity {
        Identity {
            pid: Some(self.pid),
            uid: Some(self.uid),
            start: self.start,
            boot: self.boot.as_deref().map(|text| {
                match text.strip_prefix("time:").and_then(|seconds| seconds.parse().ok()) {
                    Some(seconds) => BootId::Time(seconds),
                    None => BootId::Id(text.to_owned()),
                }
            }),
            machine: self.machine_id.clone().map(MachineId::Hashed),
            pid_ns: self.pid_ns,
            time_ns: self.time_ns,
            pidfd_ino: self.pidfd_ino,
            recorded_at: None,
            recorder: IdentityRecorder::Ostler,
            comm: Some(self.comm.clone()),
            exe: None,
        }
    }

    fn is_within_limits(&self) -> bool {
        let texts = [Some(&self.comm), self.boot.as_ref(), self.machine_id.as_ref()];
        AGENT_PIDS.contains(&self.pid)
            && texts.into_iter().flatten().all(|text| is_short_plain_text(text, MAX_LABEL_CHARS))
    }
}

/// A boot as it is written down.
pub fn boot_text(boot: &BootId) -> String {
    match boot {
        BootId::Id(id) => id.clone(),
        BootId::Time(seconds) => format!("time:{seconds}"),
    }
}

impl LentKey {
    fn is_within_limits(&self) -> bool {
        is_fingerprint(&self.fingerprint)
            && is_short_plain_text(&self.kind, MAX_LABEL_CHARS)
            && self
                .comment
                .as_deref()
                .is_none_or(|comment| is_short_plain_text(comment, MAX_TEXT_CHARS))
    }

    /// A comment as it may be written down: cut to size, and left out when it may be a secret.
    pub fn plain_comment(comment: &str) -> Option<String> {
        let comment: String = comment.chars().take(MAX_TEXT_CHARS).collect();
        (!comment.is_empty() && !may_be_secret(&comment)).then_some(comment)
    }
}

/// `SHA256:` and 43 characters of base64.
pub fn is_fingerprint(text: &str) -> bool {
    text.strip_prefix("SHA256:").is_some_and(|hash| {
        hash.len() == 43
            && hash.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
    })
}

fn is_short_plain_text(text: &str, most: usize) -> bool {
    text.chars().count() <= most && !may_be_secret(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> serde_json::Value {
        serde_json::json!({
            "schema": 1, "id": "s-alpha01",
            "created_at": "2026-11-15T12:00:00.000Z", "expires_at": "2026-11-15T12:10:00.000Z",
            "ttl_s": 600, "created_boot": "b", "expires_boottime_s": 900,
            "agent": { "pid": 4711, "start": 5, "boot": "b", "pid_ns": 1, "uid": 0,
                       "comm": "ssh-agent" },
            "keys": [{ "fingerprint": format!("SHA256:{}", "a".repeat(43)), "type": "ssh-ed25519" }],
            "openssh_version": "OpenSSH_9.2p1"
        })
    }

    fn code(value: &serde_json::Value) -> Option<SkipCode> {
        let bytes = serde_json::to_vec(value).unwrap();
        AccessMeta::parse_for(&bytes, "s-alpha01").err().map(|skip| skip.skip_code())
    }

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let bytes = serde_json::to_vec(&sample()).unwrap();
        let meta = AccessMeta::parse_for(&bytes, "s-alpha01").unwrap();
        let again = serde_json::to_vec(&meta).unwrap();
        assert_eq!(AccessMeta::parse_for(&again, "s-alpha01").unwrap(), meta);
        assert_eq!(ProcessRecord::from_identity(&meta.agent.to_identity()).unwrap(), meta.agent);
    }

    #[test]
    fn each_rule_has_a_case_that_breaks_it() {
        assert_eq!(code(&sample()), None);
        let breaks: [(&str, serde_json::Value); 12] = [
            ("/schema", 2.into()),
            ("/id", "s-alpha02".into()),
            ("/ttl_s", 0.into()),
            ("/ttl_s", 601.into()),
            ("/expires_at", "2026-11-15T11:00:00.000Z".into()),
            ("/created_at", "2026-11-15T13:00:00.000+01:00".into()),
            ("/agent/pid", 1.into()),
            ("/agent/pid", (-5).into()),
            ("/created_boot", "c".into()),
            ("/keys/0/fingerprint", "MD5:aa".into()),
            ("/openssh_version", "-----BEGIN OPENSSH PRIVATE KEY-----".into()),
            ("/keys/0/type", "x".repeat(65).into()),
        ];
        for (pointer, value) in breaks {
            let mut record = sample();
            *record.pointer_mut(pointer).unwrap() = value;
            assert_eq!(code(&record), Some(SkipCode::Invalid), "{pointer}");
        }
        let mut record = sample();
        record["path"] = "/home/u/.ssh/id_ed25519".into();
        assert_eq!(code(&record), Some(SkipCode::Invalid), "an unknown key");
        record = sample();
        record["keys"] = vec![record["keys"][0].clone(); 33].into();
        assert_eq!(code(&record), Some(SkipCode::Invalid), "too many keys");
    }

    #[test]
    fn what_is_no_json_is_malformed_and_never_quoted() {
        let deep = "[".repeat(100_000);
        for bytes in [b"{".as_slice(), b"\xff\xfe", b"", deep.as_bytes()] {
            let skip = AccessMeta::parse_for(bytes, "s-alpha01").unwrap_err();
            assert_eq!(skip.skip_code(), SkipCode::Malformed);
        }
        let planted = br#"{"schema": "-----BEGIN OPENSSH PRIVATE KEY-----"}"#;
        let skip = AccessMeta::parse_for(planted, "s-alpha01").unwrap_err();
        assert!(!skip.to_string().contains("PRIVATE"), "{skip}");
    }
}
