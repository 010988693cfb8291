//! Temporary homes, fake agents and snapshot filters for ostler's tests.

pub mod access;
pub mod gateway;
pub mod home;
pub mod hostile;
pub mod machine;
pub mod pause;
pub mod run;
pub mod siege;
pub mod sql;
