//! Notes of control as the writer puts them into the store: deliveries and events.

use model::control::note::{ControlNote, KeptDelivery};
use model::failure::{Failure, FailureKind};
use model::time::Time;
use store::writer::StoreWriter;

/// Writes a note. The caller holds the writer lock.
pub(crate) fn perform_note(
    writer: &mut StoreWriter,
    note: &ControlNote,
    now: Time,
) -> Result<Option<KeptDelivery>, Failure> {
    sys::pause::pause_at("control.noting");
    let noted = match note {
        ControlNote::Delivery(kept) => {
            writer.state_mut().and_then(|state| state.note_delivery(kept, now))
        }
        ControlNote::Event { kind, session, detail } => {
            let state = writer.state_mut();
            state
                .and_then(|state| state.add_control_event(*kind, session, detail, now))
                .map(|()| None)
        }
    };
    noted.map_err(|error| Failure {
        kind: FailureKind::Write,
        message: error.to_string(),
        hint: "`ostler doctor` tells what is wrong".to_owned(),
    })
}
