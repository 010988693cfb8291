//! Token usage over time: what each answer of a model cost, told message by message.

use model::sighting::{TokenUsage, TranscriptDigest};
use model::usage::{MessageUsage, micro_usd};

/// Tells what a digest has grown by with each record, for transcripts that write every answer once.
#[derive(Debug, Default)]
pub(crate) struct UsageGrowth {
    tokens: TokenUsage,
    dollars: f64,
}

impl UsageGrowth {
    /// Tells the usage that came with the last record, if any did.
    pub(crate) fn tell_growth(
        &mut self,
        digest: &TranscriptDigest,
        dollars: Option<f64>,
        at: Option<model::time::Time>,
        say: &mut dyn FnMut(MessageUsage),
    ) {
        let tokens = digest.tokens.unwrap_or_default();
        let spent = dollars.unwrap_or(0.0);
        if tokens == self.tokens {
            return;
        }
        say(MessageUsage {
            id: None,
            at,
            model: digest.model.clone(),
            tokens: TokenUsage {
                input: tokens.input.saturating_sub(self.tokens.input),
                output: tokens.output.saturating_sub(self.tokens.output),
                cache_read: tokens.cache_read.saturating_sub(self.tokens.cache_read),
                cache_write: tokens.cache_write.saturating_sub(self.tokens.cache_write),
            },
            cost_micro_usd: dollars.map(|_| micro_usd(spent - self.dollars)),
        });
        (self.tokens, self.dollars) = (tokens, spent);
    }
}
