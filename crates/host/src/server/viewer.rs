//! Attached viewers, and the one of them that holds the keyboard.

use model::hosted::wire::{AttachParams, AttachResult, Dimensions};
use screen::{Screen, ScreenSize};
use sys::dropped::NoteDropped;

use super::connection::{Connection, ConnectionRole};
use super::host::Host;
use crate::stream::{self, FrameKind, Keyboard};

/// What may wait for a viewer. One that falls further behind is shown the screen anew when it reads
/// again; it holds up no other client.
const MAX_VIEWER_BACKLOG_BYTES: usize = 1 << 20;

/// One viewer. What it must be told is derived from what it was told last, once in every turn
/// ([`Viewer::sync`]), so that no change of the terminal can leave it behind.
#[derive(Debug)]
pub(super) struct Viewer {
    /// Whether what it types reaches the program.
    pub(super) writes: bool,
    /// Whether it may take the keyboard.
    may_write: bool,
    /// Whether it must be shown the whole screen before anything else.
    behind: bool,
    /// The size of its own terminal.
    size: Option<ScreenSize>,
    /// The size of the screen that it was told last.
    told_size: ScreenSize,
    told_keyboard: Keyboard,
    /// Who it is, for the log.
    by: Option<String>,
}

impl Viewer {
    /// Shows it what the program wrote.
    pub(super) fn show_output(connection: &mut Connection, bytes: &[u8], screen: &Screen) {
        let ConnectionRole::Viewing(viewer) = &mut connection.role else { return };
        if viewer.behind || viewer.told_size != screen.size() {
            // It will be shown all of it at the end of this turn.
            viewer.behind = true;
            return;
        }
        stream::put_frame(&mut connection.output, FrameKind::Bytes, bytes);
        connection.send_pending();
        if connection.backlog_bytes() > MAX_VIEWER_BACKLOG_BYTES {
            Self::fall_behind(connection);
        }
    }

    fn fall_behind(connection: &mut Connection) {
        // A frame that was begun must be ended, so what is on the way stays; the rest is dropped
        // with the frames it consists of.
        let ConnectionRole::Viewing(viewer) = &mut connection.role else { return };
        viewer.behind = true;
        connection.keep_begun_frame();
    }

    /// Tells it what has changed: the size, who has the keyboard, and the whole screen if it fell behind
    /// and reads again.
    pub(super) fn sync(connection: &mut Connection, screen: &Screen, typist: bool) {
        if connection.wants_to_write() {
            // A viewer that does not read is told when it reads again.
            return;
        }
        let ConnectionRole::Viewing(viewer) = &mut connection.role else { return };
        let output = &mut connection.output;
        let size = screen.size();
        if viewer.told_size != size {
            viewer.told_size = size;
            viewer.behind = true;
            let size = Dimensions { cols: size.cols, rows: size.rows };
            let size = serde_json::to_vec(&size).unwrap_or_default();
            stream::put_frame(output, FrameKind::Size, &size);
        }
        if std::mem::take(&mut viewer.behind) {
            stream::put_frame(output, FrameKind::Bytes, &screen.redraw());
        }
        let keyboard = match (viewer.writes, typist) {
            (true, _) => Keyboard::Yours,
            (false, true) => Keyboard::Anothers,
            (false, false) => Keyboard::Free,
        };
        if viewer.told_keyboard != keyboard {
            viewer.told_keyboard = keyboard;
            stream::put_frame(output, FrameKind::Writer, keyboard.word());
        }
        connection.send_pending();
    }
}

impl Host {
    /// Makes the connection a viewer.
    pub(super) fn attach_viewer(&mut self, connection: &mut Connection, params: AttachParams) {
        let taken = self.connections.viewers().any(|viewer| viewer.writes);
        let writes = !params.read_only && (params.take || !taken);
        let size =
            params.size.map(|size| ScreenSize { cols: size.cols, rows: size.rows }.clamped());
        if writes {
            self.take_keyboard_away();
            self.fit_to(size);
        }
        let now = self.screen.size();
        let answer = AttachResult {
            session_id: self.manifest.session_id.clone(),
            cols: now.cols,
            rows: now.rows,
            writer: writes,
            viewers: self.connections.viewers().count() + 1,
        };
        tracing::info!(viewer = connection.id, writes, viewers = answer.viewers, "a viewer joined");
        connection.role = ConnectionRole::Viewing(Box::new(Viewer {
            writes,
            may_write: !params.read_only,
            behind: true,
            size,
            told_size: now,
            told_keyboard: if writes { Keyboard::Yours } else { Keyboard::Anothers },
            by: params.by,
        }));
        connection.answer_and_close(
            &serde_json::to_value(answer).map_err(super::methods::internal_fault),
        );
    }

    /// Gives the terminal the size of the typist.
    fn fit_to(&mut self, size: Option<ScreenSize>) {
        if let Some(size) = size.filter(|size| *size != self.screen.size()) {
            // A program that cannot be told a size keeps the one it has.
            self.resize(size).note_dropped("resizing to a viewer");
        }
    }

    fn take_keyboard_away(&mut self) {
        tracing::debug!("the keyboard changes hands");
        for connection in &mut self.connections.all {
            if let ConnectionRole::Viewing(viewer) = &mut connection.role {
                viewer.writes = false;
            }
        }
    }

    /// Reads on what viewers sent while no more could be kept for the program.
    pub(super) fn resume_viewers(&mut self) {
        let waits = |one: &Connection| one.awaits_program() && one.has_input();
        if self.is_input_full() || !self.connections.all.iter().any(waits) {
            return;
        }
        let ids = self.connections.all.iter().filter(|one| waits(one)).map(|one| one.id);
        for id in ids.collect::<Vec<_>>() {
            let at = self.connections.all.iter().position(|connection| connection.id == id);
            let Some(at) = at else { continue };
            let mut connection = self.connections.all.swap_remove(at);
            self.read_viewer(&mut connection);
            self.connections.all.push(connection);
        }
    }

    /// Does what a viewer asks for.
    pub(super) fn read_viewer(&mut self, connection: &mut Connection) {
        loop {
            // What is not taken here waits for the program; of one that has left nothing more is to come.
            if connection.awaits_program() && self.is_input_full() && !connection.dead {
                return;
            }
            match stream::take_frame(&mut connection.input) {
                Err(_) => {
                    connection.dead = true;
                    return;
                }
                Ok(None) => return,
                Ok(Some((kind, payload))) => self.handle_viewer_frame(connection, kind, &payload),
            }
        }
    }

    fn handle_viewer_frame(
        &mut self,
        connection: &mut Connection,
        kind: FrameKind,
        payload: &[u8],
    ) {
        let ConnectionRole::Viewing(viewer) = &mut connection.role else { return };
        // This connection is out of the list while its input is handled.
        let free = !self.connections.viewers().any(|other| other.writes);
        match kind {
            FrameKind::Bytes => {
                if !viewer.writes && free && viewer.may_write {
                    // The typist has left: the next to type is the typist.
                    viewer.writes = true;
                    let size = viewer.size;
                    self.fit_to(size);
                }
                let ConnectionRole::Viewing(viewer) = &mut connection.role else { return };
                if viewer.writes {
                    let by = viewer.by.clone();
                    self.type_in_as_person(payload, by);
                }
            }
            FrameKind::Size => {
                let Ok(Dimensions { cols, rows }) = serde_json::from_slice(payload) else { return };
                let size = ScreenSize { cols, rows }.clamped();
                viewer.size = Some(size);
                if viewer.writes {
                    self.fit_to(Some(size));
                }
            }
            FrameKind::Take if !viewer.writes && viewer.may_write => {
                viewer.writes = true;
                let size = viewer.size;
                self.take_keyboard_away();
                self.fit_to(size);
            }
            FrameKind::Redraw => viewer.behind = true,
            FrameKind::Take | FrameKind::Writer | FrameKind::Over => {}
        }
    }
}
