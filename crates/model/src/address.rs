//! Session addresses: what a person types to mean one session, and why it means none or several.

/// Why no single session is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing fits.
    #[error("no session `{0}`")]
    NotFound(String),
    /// Several fit.
    #[error("`{text}` could mean {} sessions", .candidates.len())]
    Ambiguous {
        /// What was typed.
        text: String,
        /// `agent:id` of each.
        candidates: Vec<String>,
    },
}
