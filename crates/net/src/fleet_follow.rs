//! Following a fleet: every change as a line of JSON, until nobody reads them.

use std::path::Path;

use async_nats::Event;
use futures_util::StreamExt;
use model::helper::HelperFailure;
use model::wire::{FleetChange, HubView};
use tokio::io::AsyncWriteExt;

use crate::fleet::FleetReader;
use crate::fleet_watch::{FleetWatch, NoticeOutcome};
use crate::helper_input::HelperInput;
use crate::nats::{HubConnection, HubError};
use crate::timeouts::{HUB_READ_TIMEOUT, LAPSE_CHECK_PAUSE, NOTICE_SETTLE_TIME};

const ALL_PAGES: &str = "$KV.inv.*.*.*";

/// Writes what everybody is, and then every change, until the input ends or nobody reads the output.
pub async fn follow_fleet(home: &Path, mut input: HelperInput) -> Result<(), HelperFailure> {
    let reader = FleetReader::find(home)?;
    let mut hub = reader.connect_to_stay(HUB_READ_TIMEOUT).await?;
    let notices = hub.client.subscribe("ostler.v1.out.*.state.>").await;
    let mut notices = notices.map_err(|error| HubError::Protocol(error.to_string()))?;
    let mut following =
        FleetFollowing { watch: FleetWatch::new(&reader.root), reader, out: tokio::io::stdout() };
    let mut is_due = true;
    loop {
        if is_due {
            tokio::time::sleep(NOTICE_SETTLE_TIME).await;
            match following.read_again(&mut hub).await {
                Ok(goes_on) if !goes_on => return Ok(()),
                Ok(_) => is_due = false,
                // It is tried again with the next look at the clock.
                Err(error) => tracing::debug!(%error, "reading the fleet again"),
            }
        }
        let goes_on = tokio::select! {
            notice = notices.next() => match notice {
                None => return Ok(()),
                Some(notice) => match following.watch.take_notice(&notice.subject, &notice.payload) {
                    NoticeOutcome::Ignored => true,
                    NoticeOutcome::Changes(changes) => following.write_changes(&changes).await,
                    NoticeOutcome::ReadAgain => {
                        is_due = true;
                        true
                    }
                },
            },
            Some(event) = hub.events.recv() => match event {
                // Whatever was said meanwhile, nobody heard it.
                Event::Connected | Event::SlowConsumer(_) => {
                    is_due = true;
                    true
                }
                Event::Disconnected => following.write_lost().await,
                _ => true,
            },
            signal = input.next_signal() => signal.is_some(),
            () = tokio::time::sleep(LAPSE_CHECK_PAUSE) => {
                is_due = is_due || following.watch.has_lapsed();
                true
            }
        };
        if !goes_on {
            return Ok(());
        }
    }
}

struct FleetFollowing {
    watch: FleetWatch,
    reader: FleetReader,
    out: tokio::io::Stdout,
}

impl FleetFollowing {
    async fn read_again(&mut self, hub: &mut HubConnection) -> Result<bool, HubError> {
        let read = self.reader.read_through(hub, Some(ALL_PAGES), HUB_READ_TIMEOUT).await;
        let (records, _) = read?;
        let changes = self.watch.take_records(records);
        Ok(self.write_changes(&changes).await)
    }

    async fn write_lost(&mut self) -> bool {
        let url = self.reader.url.clone();
        let reason = Some("the connection broke; it is made again".to_owned());
        let lost = HubView { url, reachable: false, version: None, reason };
        self.write_changes(&[FleetChange::Hub(lost)]).await
    }

    /// Whether somebody still reads them.
    async fn write_changes(&mut self, changes: &[FleetChange]) -> bool {
        let mut lines = Vec::new();
        for change in changes {
            if serde_json::to_writer(&mut lines, change).is_err() {
                return false;
            }
            lines.push(b'\n');
        }
        let written = async {
            self.out.write_all(&lines).await?;
            self.out.flush().await
        };
        written.await.is_ok()
    }
}
