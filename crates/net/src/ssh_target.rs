//! Names of machines for ssh: what is written down about members, and what ssh is started with.

use model::helper::{HelperFailure, HelperFailureKind};

/// Whether a text can name a machine for ssh; one that looks like an option cannot.
pub(crate) fn check_target(target: &str) -> Result<(), HelperFailure> {
    if target.starts_with('-') || target.is_empty() || target.chars().any(char::is_control) {
        return Err(HelperFailure::new(
            HelperFailureKind::Input,
            format!("`{}` cannot name a machine for ssh", target.escape_debug()),
            "write it like user@machine, or a name of your ssh configuration",
        ));
    }
    Ok(())
}
