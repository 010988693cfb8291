//! The rules: pure functions from facts to decisions.

pub mod attention;
pub mod explain;
pub mod guard;
pub mod judge;
pub mod notice;
pub mod open;
pub mod owner;
pub mod pins;
pub mod retain;
pub mod track;
