//! When this machine is looked at: at once when a session died or waits for somebody, a moment later after any other
//! happening, so that several are taken together, and otherwise now and then.

use std::time::{Duration, Instant};

use model::helper::{FleetRights, FleetSettings, MachineChange};
use model::wire::FleetLevel;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::daemon_client::{DaemonClient, DaemonClientError};
use crate::timeouts::{CHANGE_COALESCE_TIME, DAEMON_RETRY_PAUSE, LONGEST_CHANGE_WAIT};

/// What was seen.
#[derive(Debug)]
pub(crate) struct MachineLook {
    /// What `ls -a` lists.
    pub(crate) listed: Value,
    /// What operators may do now, if that could be told.
    pub(crate) allow: Option<FleetLevel>,
}

/// Looks until nobody listens.
pub(crate) async fn look_at_machine(
    daemon: DaemonClient,
    settings: FleetSettings,
    told: mpsc::Sender<MachineLook>,
) {
    let wait = Duration::from_millis(settings.look_ms).min(LONGEST_CHANGE_WAIT);
    let mut cursor = -1_i64;
    loop {
        let ask = |after, wait| ask_for_change(daemon.clone(), after, wait);
        cursor = match wait_for_reason(cursor, wait, ask).await {
            Ok(newest) => newest,
            Err(error) => {
                tracing::debug!(%error, "waiting for changes");
                tokio::time::sleep(DAEMON_RETRY_PAUSE).await;
                cursor
            }
        };
        match daemon.get::<Value>("/v1/net/sessions", Duration::ZERO).await {
            Ok(listed) => {
                let rights = daemon.get::<FleetRights>("/v1/net/rights", Duration::ZERO).await;
                let allow = rights.ok().map(|rights| rights.allow);
                if told.send(MachineLook { listed, allow }).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "looking at the machine");
                tokio::time::sleep(DAEMON_RETRY_PAUSE).await;
            }
        }
    }
}

async fn ask_for_change(
    daemon: DaemonClient,
    after: i64,
    wait: Duration,
) -> Result<MachineChange, DaemonClientError> {
    daemon.get(&format!("/v1/net/changes?after={after}&wait={}", wait.as_millis()), wait).await
}

/// Waits until there is a reason to look; the newest event then. What is not urgent is taken together with what
/// follows it soon, and whatever is urgent among that ends the wait.
async fn wait_for_reason<E, F: Future<Output = Result<MachineChange, E>>>(
    after: i64,
    wait: Duration,
    ask: impl Fn(i64, Duration) -> F,
) -> Result<i64, E> {
    let mut change = ask(after, wait).await?;
    // Nothing happened for so long, or nothing was seen before.
    if change.newest == after || after < 0 {
        return Ok(change.newest);
    }
    let begun = Instant::now();
    while !change.urgent {
        let left = CHANGE_COALESCE_TIME.saturating_sub(begun.elapsed());
        if left.is_zero() {
            break;
        }
        change = ask(change.newest, left).await?;
    }
    Ok(change.newest)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// What is asked for, answered by these changes; the newest event, and how often it was asked.
    fn wait_with(after: i64, changes: &[(i64, bool)]) -> (i64, usize) {
        let (asked, script) = (RefCell::new(0), RefCell::new(changes.iter()));
        let ask = |_, wait: Duration| {
            *asked.borrow_mut() += 1;
            let next = script.borrow_mut().next().copied();
            let newest = changes.last().map_or(0, |(newest, _)| *newest);
            async move {
                if next.is_none() {
                    tokio::time::sleep(wait).await;
                }
                let (newest, urgent) = next.unwrap_or((newest, false));
                Ok::<_, ()>(MachineChange { newest, urgent })
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let newest = runtime.block_on(wait_for_reason(after, Duration::from_millis(1), ask));
        (newest.unwrap(), asked.into_inner())
    }

    #[test]
    fn row_79_a_death_is_looked_at_at_once_and_other_happenings_together() {
        assert_eq!(wait_with(1, &[(2, true)]), (2, 1), "nobody waits for more");
        assert_eq!(wait_with(1, &[(2, false), (3, false), (4, true)]), (4, 3), "nor any longer");
        assert_eq!(wait_with(1, &[(2, false), (3, false)]).0, 3, "until nothing follows");
        assert_eq!(wait_with(0, &[]), (0, 1), "the time is up");
        assert_eq!(wait_with(-1, &[(7, false)]), (7, 1), "the first look");
    }
}
