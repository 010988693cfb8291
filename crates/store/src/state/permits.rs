//! The events of permission requests. The requests themselves are files of the hooks that wait.

use model::event::HookReport;
use model::time::Time;
use rusqlite::Transaction;
use serde_json::json;

use super::{StateError, StateStore, publish_event};

/// A request that was answered through ostler.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredPermit<'a> {
    /// The adapter's id.
    pub agent: &'a str,
    /// The agent's own session id.
    pub session: &'a str,
    pub request: &'a str,
    /// `allow` or `deny`.
    pub result: &'a str,
    pub by: &'a str,
    /// How long it had waited.
    pub wait_ms: u64,
}

/// Tells of a request, with the report that a hook made of it.
pub(super) fn publish_request(
    transaction: &Transaction<'_>,
    report: &HookReport,
    request: &str,
) -> rusqlite::Result<()> {
    let hook = &report.hook;
    let detail = json!({
        "request": request,
        "tool": hook.detail,
        "ofSubagent": hook.subagent,
        "cwd": hook.cwd,
    });
    let told = (report.agent.as_str(), hook.session.as_str());
    let id = format!("{}.permit", report.id);
    let kind = "permission.requested";
    publish_event(transaction, &id, report.at, kind, told, &detail.to_string()).map(drop)
}

impl StateStore {
    /// Tells that a request was answered.
    pub fn note_answered(
        &mut self,
        answered: &AnsweredPermit<'_>,
        now: Time,
    ) -> Result<(), StateError> {
        let failed = self.sqlite_error();
        let transaction = self.connection.transaction().map_err(&failed)?;
        let detail = json!({
            "request": answered.request,
            "result": answered.result,
            "by": answered.by,
            "waitMs": answered.wait_ms,
        });
        // A request has one answer, however often it is told.
        let id = format!("{}.answered", answered.request);
        let told = (answered.agent, answered.session);
        let kind = "permission.answered";
        publish_event(&transaction, &id, now, kind, told, &detail.to_string()).map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
        self.ring_bell();
        Ok(())
    }
}
