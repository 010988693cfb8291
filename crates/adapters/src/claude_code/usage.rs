//! What the lines of a transcript count: tokens and cost, each message once.

use std::hash::{DefaultHasher, Hasher};

use model::sighting::TokenUsage;
use model::usage::{MessageUsage, micro_usd};

use super::USAGE;
use crate::skim::{self, FieldPlace, JsonValue};

pub(super) fn usage_of(usage: JsonValue<'_>) -> Result<TokenUsage, skim::BrokenJson> {
    let mut tokens = TokenUsage::default();
    for field in usage.as_object().ok_or(skim::BrokenJson)? {
        let (key, value) = field?;
        let slot = match key {
            b"input_tokens" => &mut tokens.input,
            b"output_tokens" => &mut tokens.output,
            b"cache_read_input_tokens" => &mut tokens.cache_read,
            b"cache_creation_input_tokens" => &mut tokens.cache_write,
            _ => continue,
        };
        *slot = value.as_u64().unwrap_or(0);
    }
    Ok(tokens)
}

/// Tells the usage of one line. Who asked is told apart by message and request together: the same
/// message may be written again in another transcript, for another block, or while it streams.
pub(super) fn tell_usage(raw: &[u8], say: &mut dyn FnMut(MessageUsage)) {
    if USAGE.find(raw).is_none() {
        return;
    }
    let Ok(fields) = skim::nested_fields(raw, "message") else { return };
    let mut said = MessageUsage::default();
    let (mut message, mut request) = (&b""[..], &b""[..]);
    let (mut usage, mut is_answer) = (None, false);
    for field in fields {
        let Ok((place, key, value)) = field else { return };
        match (place, key) {
            (FieldPlace::Outer, b"type") => is_answer = value.is_string("assistant"),
            (FieldPlace::Outer, b"timestamp") => said.at = value.as_time(),
            (FieldPlace::Outer, b"requestId") => request = value.raw(),
            (FieldPlace::Outer, b"costUSD") => {
                said.cost_micro_usd = value.as_f64().map(micro_usd);
            }
            (FieldPlace::Inner, b"id") => message = value.raw(),
            (FieldPlace::Inner, b"model") if !value.is_string("<synthetic>") => {
                said.model = value.to_owned_string();
            }
            (FieldPlace::Inner, b"usage") => usage = Some(value),
            _ => {}
        }
    }
    let Some(Ok(tokens)) = usage.filter(|_| is_answer).map(usage_of) else { return };
    said.tokens = tokens;
    said.id = (!message.is_empty()).then(|| hash_message_id(&[message, request].concat()));
    if tokens.total() > 0 || said.cost_micro_usd.is_some() {
        say(said);
    }
}

pub(super) fn hash_message_id(id: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(id);
    hasher.finish()
}
