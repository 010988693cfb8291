//! Temporary homes, fake agents and snapshot filters for ostler's tests.

pub mod home;
pub mod pause;
pub mod sql;
