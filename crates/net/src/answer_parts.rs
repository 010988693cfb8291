//! Long answers to orders: sent in parts, and kept until the last one is fetched.

use std::collections::HashMap;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::fleet_order::{OrderAsk, OrderReply, OrderedRunResult};

use crate::timeouts::ANSWER_HOLD_TIME;

/// How much of what a command printed is sent at once.
const PART_BYTES: usize = 48 << 10;

/// The longest answer.
const MOST_BODY_BYTES: usize = 16 << 20;

/// How many long answers are kept until they are fetched, and for how long.
const MOST_HELD: usize = 8;

#[derive(Debug)]
struct HeldAnswer {
    exit: u8,
    bytes: Vec<u8>,
    until: Instant,
}

/// Answers of which parts are still to be fetched, by operator and order.
#[derive(Debug, Default)]
pub(crate) struct HeldAnswers(HashMap<(String, String), HeldAnswer>);

/// What a command printed.
pub(crate) fn decode_body(result: &OrderedRunResult) -> Option<Vec<u8>> {
    STANDARD.decode(&result.body).ok()
}

fn refused(reason: &str, hint: &str) -> OrderReply {
    OrderReply::Refused { reason: reason.to_owned(), hint: hint.to_owned() }
}

impl HeldAnswers {
    /// The answer, or its first part; the rest is kept until it is fetched.
    pub(crate) fn reply_in_parts(
        &mut self,
        ask: &OrderAsk,
        result: OrderedRunResult,
    ) -> OrderReply {
        let Some(bytes) = decode_body(&result) else {
            return OrderReply::Unknown { reason: "the daemon's answer is no answer".to_owned() };
        };
        if bytes.len() <= PART_BYTES {
            return OrderReply::Done { exit: result.exit, body: result.body, cursor: None };
        }
        if bytes.len() > MOST_BODY_BYTES {
            return refused("the answer is too long", "ask for less: `--limit`, `--lines`");
        }
        self.0.retain(|_, held| held.until > Instant::now());
        if self.0.len() >= MOST_HELD {
            return OrderReply::Busy;
        }
        let held =
            HeldAnswer { exit: result.exit, bytes, until: Instant::now() + ANSWER_HOLD_TIME };
        self.0.insert((ask.from.clone(), ask.id.clone()), held);
        self.next_part(ask, 0)
    }

    /// The part that begins there.
    pub(crate) fn next_part(&mut self, ask: &OrderAsk, from: u64) -> OrderReply {
        let key = (ask.from.clone(), ask.id.clone());
        let Some(held) = self.0.get_mut(&key) else {
            return refused("the rest of the answer is no longer there", "ask again");
        };
        held.until = Instant::now() + ANSWER_HOLD_TIME;
        let begin = usize::try_from(from).unwrap_or(usize::MAX).min(held.bytes.len());
        let end = (begin + PART_BYTES).min(held.bytes.len());
        let body = STANDARD.encode(&held.bytes[begin..end]);
        let exit = held.exit;
        let is_last = end == held.bytes.len();
        if is_last {
            self.0.remove(&key);
        }
        OrderReply::Done { exit, body, cursor: (!is_last).then_some(end as u64) }
    }
}
