//! Driving agents: starting them, prompts with a receipt, who holds a conversation. The rules are in
//! `model::control`, what is known of each agent in its adapter's control table.

pub mod agent_wait;
mod conversation;
pub mod deliveries;
mod fresh;
mod headless;
mod idle;
pub mod launch;
mod launch_plan;
mod launch_terms;
pub mod limits;
mod pasted;
pub mod peek;
pub mod prompt;
mod queue;
mod ready_agent;
pub mod resume;
mod rivals;
mod running;
mod transcript_watch;
pub mod turn_wait;
pub mod who;

pub use running::LookAtMachine;
