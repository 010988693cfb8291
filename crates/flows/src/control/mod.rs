//! Driving agents: who holds a conversation, and prompts with a receipt. The rules are in
//! `model::control`, what is known of each agent in its adapter's control table.

pub mod agent_wait;
pub mod prompt;
pub mod who;
