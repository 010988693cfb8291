//! Token usage over time: one message's share, prices that a person set, and sums that say where
//! their dollars come from.

use std::collections::BTreeMap;

use crate::sighting::TokenUsage;
use crate::time::Time;

/// What one answer of a model used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageUsage {
    /// Tells answers apart that are written more than once; `None` for one that never is.
    pub id: Option<u64>,
    pub at: Option<Time>,
    /// The model that answered.
    pub model: Option<String>,
    pub tokens: TokenUsage,
    /// Its cost, where the agent states that.
    pub cost_micro_usd: Option<u64>,
}

/// What a person set as the price of a model, in millionths of a dollar for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenPrice {
    /// Input that was not read from a cache.
    pub input: u64,
    pub output: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache.
    pub cache_write: u64,
}

/// Prices by the exact name of the model. There are none but those a person set: a price that was
/// true once is a wrong number that looks right.
pub type PriceTable = BTreeMap<String, TokenPrice>;

/// Dollars, as agents and people write them, in millionths: sums of these are exact.
pub fn micro_usd(dollars: f64) -> u64 {
    (dollars * 1e6).round() as u64
}

impl TokenPrice {
    /// What these tokens cost, in millionths of a dollar.
    pub fn cost_micro_usd(self, tokens: TokenUsage) -> u64 {
        let part = |count: u64, price: u64| u128::from(count) * u128::from(price);
        let sum = part(tokens.input, self.input)
            + part(tokens.output, self.output)
            + part(tokens.cache_read, self.cache_read)
            + part(tokens.cache_write, self.cache_write);
        u64::try_from((sum + 500_000) / 1_000_000).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_for_a_million_tokens_of_each_kind() {
        let price = TokenPrice {
            input: 3_000_000,
            output: 15_000_000,
            cache_read: 300_000,
            cache_write: 3_750_000,
        };
        let tokens =
            TokenUsage { input: 1_000_000, output: 100_000, cache_read: 2_000_000, cache_write: 4 };
        assert_eq!(price.cost_micro_usd(tokens), 3_000_000 + 1_500_000 + 600_000 + 15);
        let all = TokenUsage { input: u64::MAX, ..TokenUsage::default() };
        assert_eq!(price.cost_micro_usd(all), u64::MAX);
    }
}
