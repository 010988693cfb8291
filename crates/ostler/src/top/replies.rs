//! Which replies are on their way, and under which key each is sent: the same text goes once.

use std::collections::HashMap;

use model::session::SessionName;
use model::time::Time;

/// What became of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyOutcome {
    /// The agent has it.
    Arrived,
    /// Nothing of it was sent: it can be tried again.
    NotSent,
    /// It may have arrived. Sent again, it asks what became of the first one.
    InDoubt,
}

/// A reply that was sent.
#[derive(Debug)]
struct SentReply {
    text: String,
    key: String,
    is_under_way: bool,
}

/// The keys of replies.
#[derive(Debug)]
pub(crate) struct ReplyKeys {
    /// What no other dashboard begins its keys with.
    prefix: String,
    count: u64,
    sent: HashMap<SessionName, SentReply>,
}

impl ReplyKeys {
    /// For a dashboard that was opened now.
    pub(crate) fn begin(now: Time) -> Self {
        let prefix = format!("top-{}-{}", std::process::id(), now.as_millis());
        Self { prefix, count: 0, sent: HashMap::new() }
    }

    /// The key to send this text under; none while the very same is on its way.
    pub(crate) fn key_for(&mut self, target: &SessionName, text: &str) -> Option<String> {
        if let Some(sent) = self.sent.get_mut(target).filter(|sent| sent.text == text) {
            let key = (!sent.is_under_way).then(|| sent.key.clone());
            sent.is_under_way = true;
            return key;
        }
        self.count += 1;
        let key = format!("{}-{}", self.prefix, self.count);
        let sent = SentReply { text: text.to_owned(), key: key.clone(), is_under_way: true };
        self.sent.insert(target.clone(), sent);
        Some(key)
    }

    /// Notes what became of one.
    pub(crate) fn settle(&mut self, target: &SessionName, text: &str, outcome: ReplyOutcome) {
        let Some(sent) = self.sent.get_mut(target).filter(|sent| sent.text == text) else { return };
        sent.is_under_way = false;
        if outcome != ReplyOutcome::InDoubt {
            self.sent.remove(target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_13_the_same_text_goes_once_until_it_is_known_that_it_did_not_arrive() {
        let target = SessionName::new("claude-code", "a");
        let mut keys = ReplyKeys::begin(Time::from_millis(7));
        let first = keys.key_for(&target, "go on").unwrap();
        assert_eq!(keys.key_for(&target, "go on"), None, "it is on its way");
        keys.settle(&target, "go on", ReplyOutcome::InDoubt);
        assert_eq!(keys.key_for(&target, "go on"), Some(first.clone()), "asks what became of it");
        keys.settle(&target, "go on", ReplyOutcome::NotSent);
        let second = keys.key_for(&target, "go on").unwrap();
        assert_ne!(second, first, "nothing was sent, so it is another try");
        assert_ne!(keys.key_for(&target, "stop"), Some(second), "another text is another prompt");
    }
}
