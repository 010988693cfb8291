//! Failures that were not expected, in the shape that `ostler` renders.

use model::helper::{HelperFailure, HelperFailureKind};

/// Any unexpected failure.
pub fn internal_failure(error: &dyn std::fmt::Display) -> HelperFailure {
    HelperFailure::new(
        HelperFailureKind::Protocol,
        error.to_string(),
        "try again; if it stays, report it",
    )
}
