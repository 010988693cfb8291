//! Exit codes: the table behind `ostler help exit-codes`.

/// A documented way to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExitRow {
    pub(crate) code: u8,
    /// The error codes that end with it.
    pub(crate) codes: &'static str,
    pub(crate) meaning: &'static str,
}

/// The table behind `ostler help exit-codes`.
pub(crate) const EXIT_TABLE: &[ExitRow] = &[
    exit_row(0, "", "success"),
    exit_row(
        1,
        "INTERNAL_ERROR, SKILL_NOT_FOUND",
        "a defect in ostler, or a failed check of `doctor`",
    ),
    exit_row(
        2,
        "INVALID_INPUT, AMBIGUOUS_ID, INVALID_SESSION_ID, INVALID_DIMENSIONS, INVALID_SIGNAL, \
         INVALID_KEYS, INVALID_DURATION",
        "the command line is wrong, or an id could mean several sessions",
    ),
    exit_row(
        3,
        "SESSION_NOT_FOUND, NOT_FOUND, MEMBER_UNKNOWN, ACCESS_ROOT",
        "no such session, receipt, agent, store or member; or the directory of access sessions is not ours alone",
    ),
    exit_row(
        4,
        "SESSION_NOT_RUNNING, SESSION_ALREADY_DESTROYED, ACCESS_REFUSED",
        "the session is over; or nothing was done to an access session, for want of proof",
    ),
    exit_row(
        5,
        "HOST_TIMEOUT, MEMBER_TIMEOUT, BUSY, ACCESS_STILL_RUNNING",
        "the session's host or another machine did not answer in time, or has too much to do; or an ssh-agent did not end",
    ),
    exit_row(
        6,
        "HOST_UNREACHABLE, MEMBER_UNREACHABLE, ACCESS_FAILED",
        "the session's host or another machine cannot be reached; or an access session could not be opened or removed",
    ),
    exit_row(7, "EXPORT_ERROR", "an export failed"),
    exit_row(
        8,
        "STORAGE_READ_ERROR, STORAGE_WRITE_ERROR, MANIFEST_VALIDATION_ERROR",
        "a file could not be read or written",
    ),
    exit_row(9, "PROTOCOL_ERROR, RPC_ERROR", "the other side spoke another language"),
    exit_row(10, "REPLAY_ERROR", "a log could not be replayed"),
    exit_row(11, "WAIT_TIMEOUT", "what was waited for did not happen in time"),
    exit_row(
        12,
        "INCOMPLETE",
        "the answer is right as far as it goes, but some source could not be read; see `incomplete`",
    ),
    exit_row(13, "REFUSED", "policy said no; nothing was changed"),
    exit_row(14, "MAY_HAVE_APPLIED", "the change was sent, and its outcome is not known"),
    exit_row(15, "NOT_DELIVERED", "a prompt did not arrive as it was given"),
    exit_row(
        16,
        "BLOCKED",
        "the agent was started or took the prompt, and now asks a person something",
    ),
    exit_row(
        17,
        "TURN_FAILED",
        "the agent ended, or its turn ended in an error, a limit or an interruption",
    ),
];

const fn exit_row(code: u8, codes: &'static str, meaning: &'static str) -> ExitRow {
    ExitRow { code, codes, meaning }
}
