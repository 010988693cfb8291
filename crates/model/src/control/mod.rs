//! Driving agents: what may be typed, what proves that it arrived, who holds a conversation, what is
//! signalled. Pure rules; `flows::control` gathers the facts and acts.

pub mod delivery;
pub mod fuse_wire;
pub mod fuses;
pub mod groups;
pub mod holders;
pub mod locks;
pub mod note;
pub mod obstacle;
pub mod permits;
pub mod process_list;
pub mod prompt;
pub mod refusal;
pub mod wire;
