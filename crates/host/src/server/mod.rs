//! The host process.

mod plain;
mod runs;
