//! ostler's own SQLite databases: the only crate that opens one for writing.

pub mod index;
pub mod state;
pub mod writer;
