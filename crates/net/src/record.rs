//! Records that members publish and readers believe: lease, page, certificate, operator list.
//!
//! A reader takes nothing for granted: every record is bounded before it is decoded, and what is
//! beyond a limit makes that one member unreadable and no other.

use std::io::Read;

use model::fleet_order::{OrderAnswer, OrderAsk, TerminalChunk};
use model::identity::Identity;
use model::time::Time;
use model::wire::{FleetLevel, SessionCounts};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::seal::{SealKind, member_id, open_record};

/// The version of every record.
pub const RECORD_VERSION: u32 = 1;

/// The largest sealed page.
pub const MOST_PAGE_BYTES: usize = 96 << 10;

/// The largest sealed lease.
pub const MOST_LEASE_BYTES: usize = 2 << 10;

/// The largest certificate or operator list.
pub const MOST_META_BYTES: usize = 64 << 10;

/// The largest page when it is decoded.
const MOST_DECODED_BYTES: u64 = 4 << 20;

/// The most sessions of a page.
const MOST_SESSIONS: usize = 4096;

/// The longest text.
const MOST_TEXT_BYTES: usize = 4096;

/// The longest title, in characters.
const MOST_TITLE_CHARS: usize = 200;

/// How deep JSON may be nested.
const MOST_DEPTH: usize = 16;

/// How many pages there are of active sessions, and of ended ones.
pub const PAGES_OF_A_KIND: usize = 8;

/// The first of January 2200: no clock is that far ahead.
const LATEST_TIME: i64 = 7_258_118_400_000;

/// Why a record cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The seal is missing or wrong.
    #[error(transparent)]
    Seal(#[from] crate::seal::SealError),
    /// A limit is exceeded.
    #[error("{0} is beyond the limit")]
    Limit(&'static str),
    /// It cannot be decoded.
    #[error("it cannot be decoded: {0}")]
    Malformed(String),
    /// It is of another version.
    #[error("it is of a newer version ({0}): update ostler here or there")]
    Newer(u32),
    /// It belongs elsewhere.
    #[error("it names another {0} than its place")]
    Misplaced(&'static str),
}

/// What a member says of itself with each renewal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberLease {
    pub v: u32,
    pub member: String,
    /// One run of its link.
    pub incarnation: String,
    pub boot: String,
    pub machine: String,
    /// The process that holds it.
    pub pid: u32,
    /// When that started, in the platform's own unit.
    pub start: u64,
    /// The same process, with all that names it for ever.
    #[serde(default)]
    pub holder: Identity,
    /// Grows with each renewal.
    pub n: u64,
    /// Grows with each change of the inventory.
    pub rev: u64,
    /// How it is.
    pub state: LeaseState,
    /// When it was sent, by its own clock.
    pub sent_at: Time,
    /// For how long this run has lasted.
    pub up_ms: u64,
    /// How many sessions it has.
    pub counts: SessionCounts,
    /// How many it could not publish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<u64>,
    /// What operators may do there.
    pub allow: String,
    /// How long it is good for.
    pub lease_ms: u64,
    /// Its version of ostler.
    pub ostler: String,
    /// Another one that claims to be this member, if one was heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rival: Option<String>,
    /// Which pages may be at the hub, one bit for each in the order of their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u16>,
}

/// How a member says that it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseState {
    Up,
    /// Its daemon stops.
    Stopping,
    /// It leaves the fleet.
    Left,
    /// A word that this version does not know.
    #[serde(untagged)]
    Other(String),
}

/// One part of a member's inventory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InventoryPage {
    pub v: u32,
    /// Whose it is.
    pub member: String,
    /// One run of its link.
    pub incarnation: String,
    /// The inventory's revision when it was published.
    pub rev: u64,
    /// Its name, like `active.0`.
    pub page: String,
    /// When it was sent, by its own clock.
    pub sent_at: Time,
    pub sessions: Vec<Map<String, Value>>,
}

/// Who is a member: signed by the fleet's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberCertificate {
    pub v: u32,
    pub id: String,
    pub name: String,
    /// The public key that it seals with.
    pub seal: String,
    /// The public key that it connects with.
    pub link: String,
    pub machine: String,
    /// Since when it is a member.
    pub admitted_at: Time,
    /// How ssh reaches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<String>,
}

/// One operator: a key that may look or order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetOperator {
    pub name: String,
    /// The public key that it seals with.
    pub seal: String,
    /// The public key that it connects with.
    pub link: String,
    /// What it may do.
    pub level: FleetLevel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
}

/// All operators: signed by the fleet's root. A lower version than one that was seen is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorList {
    /// The version of the record.
    pub v: u32,
    /// Grows with each change.
    pub version: u64,
    pub operators: Vec<FleetOperator>,
}

/// The names of a member's pages.
pub fn page_names() -> impl Iterator<Item = String> {
    ["active", "ended"]
        .into_iter()
        .flat_map(|kind| (0..PAGES_OF_A_KIND).map(move |number| format!("{kind}.{number}")))
}

/// Whether a text may name a member, an operator or a site.
pub fn is_fleet_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

fn parse_record<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, RecordError> {
    #[derive(Deserialize)]
    struct Versioned {
        v: u32,
    }
    check_depth(body)?;
    let malformed = |error: serde_json::Error| RecordError::Malformed(error.to_string());
    let Versioned { v } = serde_json::from_slice(body).map_err(malformed)?;
    if v != RECORD_VERSION {
        return Err(RecordError::Newer(v));
    }
    serde_json::from_slice(body).map_err(malformed)
}

/// Counts brackets outside of strings, before anything is allocated for them.
fn check_depth(body: &[u8]) -> Result<(), RecordError> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in body {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => {
                depth += 1;
                if depth > MOST_DEPTH {
                    return Err(RecordError::Limit("its nesting"));
                }
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

fn check_time(time: Time) -> Result<(), RecordError> {
    match (0..LATEST_TIME).contains(&time.as_millis()) {
        true => Ok(()),
        false => Err(RecordError::Limit("a time")),
    }
}

/// Reads a member's lease.
pub fn read_lease(
    certificate: &MemberCertificate,
    sealed: &[u8],
) -> Result<MemberLease, RecordError> {
    if sealed.len() > MOST_LEASE_BYTES {
        return Err(RecordError::Limit("its size"));
    }
    let lease: MemberLease =
        parse_record(open_record(&certificate.seal, SealKind::Lease, sealed)?)?;
    if lease.member != certificate.id {
        return Err(RecordError::Misplaced("member"));
    }
    check_time(lease.sent_at)?;
    Ok(lease)
}

/// Reads one page of a member.
pub fn read_page(
    certificate: &MemberCertificate,
    name: &str,
    sealed: &[u8],
) -> Result<InventoryPage, RecordError> {
    if sealed.len() > MOST_PAGE_BYTES {
        return Err(RecordError::Limit("its size"));
    }
    let body = open_record(&certificate.seal, SealKind::Page, sealed)?;
    let page: InventoryPage = parse_record(&decompress_page(body)?)?;
    if page.member != certificate.id {
        return Err(RecordError::Misplaced("member"));
    }
    if page.page != name {
        return Err(RecordError::Misplaced("page"));
    }
    if page.sessions.len() > MOST_SESSIONS {
        return Err(RecordError::Limit("the number of its sessions"));
    }
    check_time(page.sent_at)?;
    page.sessions.iter().try_for_each(check_session)?;
    Ok(page)
}

/// Decodes no further than the limit: a few kilobytes can hold hundreds of megabytes of zeros.
fn decompress_page(body: &[u8]) -> Result<Vec<u8>, RecordError> {
    let malformed = |error: std::io::Error| RecordError::Malformed(error.to_string());
    let mut decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(malformed)?;
    // 8 MiB of window is what the limit of the content can need.
    decoder.window_log_max(23).map_err(malformed)?;
    let mut decoded = Vec::new();
    decoder.take(MOST_DECODED_BYTES + 1).read_to_end(&mut decoded).map_err(malformed)?;
    match decoded.len() as u64 > MOST_DECODED_BYTES {
        true => Err(RecordError::Limit("its decoded size")),
        false => Ok(decoded),
    }
}

/// Compresses a page; the seal comes after.
pub fn compress_page(page: &InventoryPage) -> Result<Vec<u8>, RecordError> {
    let malformed = |error: &dyn std::fmt::Display| RecordError::Malformed(error.to_string());
    let text = serde_json::to_vec(page).map_err(|error| malformed(&error))?;
    if text.len() as u64 > MOST_DECODED_BYTES {
        return Err(RecordError::Limit("its decoded size"));
    }
    zstd::stream::encode_all(text.as_slice(), 3).map_err(|error| malformed(&error))
}

fn check_session(session: &Map<String, Value>) -> Result<(), RecordError> {
    for name in ["id", "agent", "status"] {
        if !session.get(name).is_some_and(Value::is_string) {
            return Err(RecordError::Malformed(format!("a session has no `{name}`")));
        }
    }
    for (name, value) in session {
        check_texts(value)?;
        match (name.as_str(), value) {
            ("title", Value::String(title)) if title.chars().count() > MOST_TITLE_CHARS => {
                return Err(RecordError::Limit("a title"));
            }
            (name, Value::String(text)) if name.ends_with("At") => {
                check_time(Time::parse(text).ok_or(RecordError::Limit("a time"))?)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_texts(value: &Value) -> Result<(), RecordError> {
    match value {
        Value::String(text) if text.len() > MOST_TEXT_BYTES => Err(RecordError::Limit("a text")),
        Value::Array(values) => values.iter().try_for_each(check_texts),
        Value::Object(values) => values.iter().try_for_each(|(name, value)| {
            if name.len() > MOST_TEXT_BYTES {
                return Err(RecordError::Limit("a text"));
            }
            check_texts(value)
        }),
        _ => Ok(()),
    }
}

/// Shortens what the limits would refuse, so that a member's own titles never make it unreadable.
pub fn fit_session(session: &mut Map<String, Value>) {
    for value in session.values_mut() {
        fit_texts(value);
    }
    if let Some(Value::String(title)) = session.get_mut("title") {
        *title = title.chars().take(MOST_TITLE_CHARS).collect();
    }
}

fn fit_texts(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MOST_TEXT_BYTES => {
            let end = (0..=MOST_TEXT_BYTES).rev().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
        }
        Value::Array(values) => values.iter_mut().for_each(fit_texts),
        Value::Object(values) => values.values_mut().for_each(fit_texts),
        _ => {}
    }
}

/// Reads a certificate.
pub fn read_certificate(
    root: &str,
    id: &str,
    sealed: &[u8],
) -> Result<MemberCertificate, RecordError> {
    if sealed.len() > MOST_META_BYTES {
        return Err(RecordError::Limit("its size"));
    }
    let body = open_record(root, SealKind::Certificate, sealed)?;
    let certificate: MemberCertificate = parse_record(body)?;
    if certificate.id != id || member_id(&certificate.seal)? != id {
        return Err(RecordError::Misplaced("member"));
    }
    if !is_fleet_name(&certificate.name) {
        return Err(RecordError::Limit("a name"));
    }
    check_time(certificate.admitted_at)?;
    Ok(certificate)
}

/// Reads the operator list.
pub fn read_operators(root: &str, sealed: &[u8]) -> Result<OperatorList, RecordError> {
    if sealed.len() > MOST_META_BYTES {
        return Err(RecordError::Limit("its size"));
    }
    parse_record(open_record(root, SealKind::Operators, sealed)?)
}

/// The largest sealed order or answer.
pub const MOST_ORDER_BYTES: usize = 96 << 10;

/// Reads an order of an operator with that key.
pub fn read_ask(seal: &str, sealed: &[u8]) -> Result<OrderAsk, RecordError> {
    if sealed.len() > MOST_ORDER_BYTES {
        return Err(RecordError::Limit("its size"));
    }
    let ask: OrderAsk = parse_record(open_record(seal, SealKind::Ask, sealed)?)?;
    match ask.id.len() {
        1..=64 => Ok(ask),
        _ => Err(RecordError::Limit("its id")),
    }
}

/// Reads a member's answer.
pub fn read_answer(
    certificate: &MemberCertificate,
    sealed: &[u8],
) -> Result<OrderAnswer, RecordError> {
    if sealed.len() > MOST_ORDER_BYTES {
        return Err(RecordError::Limit("its size"));
    }
    let answer: OrderAnswer =
        parse_record(open_record(&certificate.seal, SealKind::Answer, sealed)?)?;
    match answer.from == certificate.id {
        true => Ok(answer),
        false => Err(RecordError::Misplaced("member")),
    }
}

/// Reads a part of what a member's terminal shows.
pub fn read_chunk(
    certificate: &MemberCertificate,
    stream: &str,
    sealed: &[u8],
) -> Result<TerminalChunk, RecordError> {
    if sealed.len() > MOST_ORDER_BYTES {
        return Err(RecordError::Limit("its size"));
    }
    let chunk: TerminalChunk =
        parse_record(open_record(&certificate.seal, SealKind::Chunk, sealed)?)?;
    match chunk.stream == stream {
        true => Ok(chunk),
        false => Err(RecordError::Misplaced("stream")),
    }
}
