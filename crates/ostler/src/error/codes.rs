//! The error codes of what other crates say went wrong.

use access::AccessError;
use flows::hooks::HooksError;
use model::failure::FailureKind;
use model::helper::HelperFailureKind;
use openclaw::gateway::{self, GatewayError};
use openclaw::store::StoreError;

/// The code of something that the writer did not do.
pub(super) const fn failure_code(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Input => "INVALID_INPUT",
        FailureKind::NotFound => "NOT_FOUND",
        FailureKind::Refused => "REFUSED",
        FailureKind::Read => "STORAGE_READ_ERROR",
        FailureKind::Write => "STORAGE_WRITE_ERROR",
        FailureKind::MayHaveApplied => "MAY_HAVE_APPLIED",
    }
}

/// The code of something that the network helper did not do.
pub(super) const fn helper_code(kind: HelperFailureKind) -> &'static str {
    match kind {
        HelperFailureKind::Input => "INVALID_INPUT",
        HelperFailureKind::NotFound => "MEMBER_UNKNOWN",
        HelperFailureKind::Ambiguous => "AMBIGUOUS_ID",
        HelperFailureKind::Refused => "REFUSED",
        HelperFailureKind::Unreachable => "MEMBER_UNREACHABLE",
        HelperFailureKind::Timeout => "MEMBER_TIMEOUT",
        HelperFailureKind::Busy => "BUSY",
        HelperFailureKind::Read => "STORAGE_READ_ERROR",
        HelperFailureKind::Write => "STORAGE_WRITE_ERROR",
        HelperFailureKind::Protocol => "PROTOCOL_ERROR",
        HelperFailureKind::MayHaveApplied => "MAY_HAVE_APPLIED",
    }
}

pub(super) fn store_code(error: &StoreError) -> &'static str {
    match error {
        StoreError::Config(_) | StoreError::Policy { .. } | StoreError::NoAgent { .. } => {
            "INVALID_INPUT"
        }
        StoreError::NoKey(_) => "SESSION_NOT_FOUND",
        StoreError::Nothing(_) => "NOT_FOUND",
        StoreError::Ambiguous { .. } => "AMBIGUOUS_ID",
        StoreError::Read { .. } | StoreError::Broken { .. } | StoreError::Pins(_) => {
            "STORAGE_READ_ERROR"
        }
        StoreError::Database(_) => "REFUSED",
    }
}

pub(super) fn gateway_code(error: &GatewayError) -> &'static str {
    match error {
        GatewayError::Call(gateway::GatewayCallError::MayHaveApplied(_)) => "MAY_HAVE_APPLIED",
        _ => "REFUSED",
    }
}

pub(super) fn access_code(error: &AccessError) -> &'static str {
    match error {
        AccessError::Root(_) => "ACCESS_ROOT",
        AccessError::Address(_) => "SESSION_NOT_FOUND",
        AccessError::Unusable { .. } => "ACCESS_REFUSED",
        AccessError::NotActive { .. } => "SESSION_NOT_RUNNING",
        AccessError::Refused { .. } => "REFUSED",
        AccessError::Io { .. } => "STORAGE_WRITE_ERROR",
        AccessError::Program { .. } | AccessError::Failed { .. } | AccessError::Key { .. } => {
            "ACCESS_FAILED"
        }
    }
}

pub(super) fn hooks_code(error: &HooksError) -> &'static str {
    match error {
        HooksError::NoHooks(_) | HooksError::NoProject(_) | HooksError::NoHome(_) => {
            "INVALID_INPUT"
        }
        HooksError::Read { .. } => "STORAGE_READ_ERROR",
        HooksError::Write { .. } => "STORAGE_WRITE_ERROR",
        HooksError::Program(_)
        | HooksError::UnknownAgent(_)
        | HooksError::Wrong { .. }
        | HooksError::LeavesProject { .. }
        | HooksError::Busy(_) => "REFUSED",
    }
}
