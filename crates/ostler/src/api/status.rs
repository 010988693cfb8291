//! HTTP status codes of ostler's error codes.

use hyper::StatusCode;

/// The status of an answer with that error code.
pub(super) fn status_of_code(code: &str) -> StatusCode {
    match code {
        "INVALID_INPUT" | "AMBIGUOUS_ID" | "INVALID_SESSION_ID" | "INVALID_DIMENSIONS"
        | "INVALID_SIGNAL" | "INVALID_KEYS" | "INVALID_DURATION" => StatusCode::BAD_REQUEST,
        "UNAUTHORIZED" => StatusCode::UNAUTHORIZED,
        "FORBIDDEN" => StatusCode::FORBIDDEN,
        "SESSION_NOT_FOUND" | "NOT_FOUND" | "SKILL_NOT_FOUND" => StatusCode::NOT_FOUND,
        "METHOD_NOT_ALLOWED" => StatusCode::METHOD_NOT_ALLOWED,
        "REFUSED"
        | "NOT_DELIVERED"
        | "SESSION_NOT_RUNNING"
        | "SESSION_ALREADY_DESTROYED"
        | "ACCESS_REFUSED"
        | "ACCESS_STILL_RUNNING" => StatusCode::CONFLICT,
        "TOO_LARGE" => StatusCode::PAYLOAD_TOO_LARGE,
        "TOO_MANY" => StatusCode::TOO_MANY_REQUESTS,
        "BUSY" => StatusCode::SERVICE_UNAVAILABLE,
        "MAY_HAVE_APPLIED" | "WAIT_TIMEOUT" | "HOST_TIMEOUT" => StatusCode::GATEWAY_TIMEOUT,
        "HOST_UNREACHABLE" => StatusCode::BAD_GATEWAY,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Whether a command that ended with that code may have changed something. What was refused has not.
pub(super) fn may_have_acted(code: &str) -> bool {
    let status = status_of_code(code);
    match code {
        "NOT_DELIVERED" | "ACCESS_STILL_RUNNING" => true,
        _ => status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE,
    }
}
