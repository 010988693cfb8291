//! The journeys of ostler, without a terminal: they return data, print nothing and never exit.

pub mod address;
pub mod converse;
pub mod disk_use;
pub mod observe;
