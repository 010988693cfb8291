//! How answers look to people.

pub(crate) mod colour;
pub(crate) mod consent;
pub(crate) mod duration;
pub(crate) mod fields;
mod json;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod qr_code;
pub(crate) mod session_table;
pub(crate) mod sessions;
pub(crate) mod size;
pub(crate) mod table;
pub(crate) mod text;
