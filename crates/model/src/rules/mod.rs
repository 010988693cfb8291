//! The rules: pure functions from facts to decisions.

pub mod judge;
pub mod owner;
