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
    /// Whether it only answers a question.
    is_question: bool,
    /// Whether its last part was sent.
    is_fetched: bool,
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

/// What is said instead of an answer: of an order that was carried out never that nothing was done.
fn cannot_send(ask: &OrderAsk, result: &OrderedRunResult, why: &str) -> OrderReply {
    match ask.grant {
        None => refused(why, "ask for less: `--limit`, `--lines`"),
        Some(_) => {
            let reason = format!("it ended with {}, and {why}", result.exit);
            OrderReply::Unknown { reason }
        }
    }
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
            return cannot_send(ask, &result, "the answer is too long");
        }
        self.0.retain(|_, held| held.until > Instant::now());
        if self.0.len() >= MOST_HELD && !self.make_room() {
            return cannot_send(ask, &result, "too many long answers wait to be fetched");
        }
        let (exit, until) = (result.exit, Instant::now() + ANSWER_HOLD_TIME);
        let held =
            HeldAnswer { exit, bytes, until, is_question: ask.grant.is_none(), is_fetched: false };
        self.0.insert((ask.from.clone(), ask.id.clone()), held);
        self.next_part(ask, 0)
    }

    /// Makes room by what was fetched, else by a question: that can be asked again, an order cannot be given again.
    fn make_room(&mut self) -> bool {
        let spare = self.0.iter().filter(|(_, held)| held.is_fetched || held.is_question);
        let oldest = spare.min_by_key(|(_, held)| (!held.is_fetched, held.until));
        let oldest = oldest.map(|(key, _)| key.clone());
        oldest.and_then(|key| self.0.remove(&key)).is_some()
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
        // The last part is kept too: it may get lost on its way.
        let is_last = end == held.bytes.len();
        held.is_fetched |= is_last;
        OrderReply::Done { exit, body, cursor: (!is_last).then_some(end as u64) }
    }
}

#[cfg(test)]
mod tests {
    use model::fleet_order::OrderArguments;
    use model::wire::FleetLevel;

    use super::*;

    fn ask(id: &str, grant: Option<&str>) -> OrderAsk {
        OrderAsk {
            v: 1,
            id: id.to_owned(),
            to: "m".to_owned(),
            from: "ada".to_owned(),
            level: FleetLevel::Drive,
            verb: "run".to_owned(),
            args: OrderArguments::default(),
            json: false,
            grant: grant.map(str::to_owned),
            cursor: None,
        }
    }

    fn long_answer(bytes: usize) -> OrderedRunResult {
        OrderedRunResult { exit: 0, body: STANDARD.encode(vec![b'x'; bytes]) }
    }

    #[test]
    fn of_an_order_that_was_carried_out_it_is_never_said_that_nothing_was_done() {
        let mut held = HeldAnswers::default();
        let (question, order) = (ask("q", None), ask("o", Some("grant")));
        let too_long = held.reply_in_parts(&question, long_answer(MOST_BODY_BYTES + 1));
        assert!(matches!(too_long, OrderReply::Refused { .. }), "{too_long:?}");
        let too_long = held.reply_in_parts(&order, long_answer(MOST_BODY_BYTES + 1));
        assert!(matches!(too_long, OrderReply::Unknown { .. }), "{too_long:?}");
        // Questions whose rest nobody fetches give way, whoever asked them.
        for number in 0..MOST_HELD + 1 {
            let begun = ask(&format!("q{number}"), None);
            let first = held.reply_in_parts(&begun, long_answer(PART_BYTES + 1));
            assert!(matches!(first, OrderReply::Done { cursor: Some(_), .. }), "{first:?}");
        }
        for number in 0..MOST_HELD {
            let done = ask(&format!("o{number}"), Some("grant"));
            let first = held.reply_in_parts(&done, long_answer(PART_BYTES + 1));
            assert!(matches!(first, OrderReply::Done { cursor: Some(_), .. }), "{first:?}");
        }
        let first = held.reply_in_parts(&order, long_answer(PART_BYTES + 1));
        assert!(matches!(first, OrderReply::Unknown { .. }), "{first:?}");
        let late = held.reply_in_parts(&question, long_answer(PART_BYTES + 1));
        assert!(matches!(late, OrderReply::Refused { .. }), "{late:?}");
        // An answer whose part got lost can be asked for again.
        for _ in 0..2 {
            let rest = held.next_part(&ask("o3", None), PART_BYTES as u64);
            assert!(matches!(rest, OrderReply::Done { cursor: None, .. }), "{rest:?}");
        }
        let first = held.reply_in_parts(&order, long_answer(PART_BYTES + 1));
        assert!(matches!(first, OrderReply::Done { cursor: Some(_), .. }), "{first:?}");
    }
}
