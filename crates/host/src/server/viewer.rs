//! People who watch, and the one of them who types.

use model::hosted::wire::{AttachParams, AttachResult, Dimensions};
use screen::{Screen, Size};

use super::connection::{Connection, Role};
use super::host::{Host, MOST_INPUT};
use crate::stream::{self, Kind};

/// What may wait for a viewer. One that falls further behind is shown the screen anew when it reads
/// again; it holds up nobody.
const BACKLOG: usize = 1 << 20;

/// One viewer.
#[derive(Debug)]
pub(super) struct Viewer {
    /// Whether what it types reaches the program.
    pub(super) writes: bool,
    /// Whether it must be shown the whole screen before anything else.
    pub(super) behind: bool,
    size: Option<Size>,
}

impl Viewer {
    /// Shows it what the program wrote.
    pub(super) fn show(connection: &mut Connection, bytes: &[u8], screen: &Screen) {
        let Role::Viewing(viewer) = &mut connection.role else { return };
        if viewer.behind {
            return;
        }
        stream::put(&mut connection.output, Kind::Bytes, bytes);
        connection.send();
        if connection.backlog() > BACKLOG {
            Self::fall_behind(connection);
        }
        Self::catch_up(connection, screen);
    }

    fn fall_behind(connection: &mut Connection) {
        // A frame that was begun must be ended, so what is on the way stays; the rest is dropped
        // with the frames it consists of.
        let Role::Viewing(viewer) = &mut connection.role else { return };
        viewer.behind = true;
        connection.keep_begun_frame();
    }

    /// Draws the screen anew for a viewer that fell behind and reads again.
    pub(super) fn catch_up(connection: &mut Connection, screen: &Screen) {
        let ready = !connection.wants_to_write();
        let Role::Viewing(viewer) = &mut connection.role else { return };
        if viewer.behind && ready {
            viewer.behind = false;
            let redraw = screen.redraw();
            stream::put(&mut connection.output, Kind::Bytes, &redraw);
            connection.send();
        }
    }

    /// Tells it about another size, and draws the screen in it.
    pub(super) fn tell_size(connection: &mut Connection, size: Size) {
        let Role::Viewing(viewer) = &mut connection.role else { return };
        viewer.behind = true;
        let size = Dimensions { cols: size.cols, rows: size.rows };
        let size = serde_json::to_vec(&size).unwrap_or_default();
        stream::put(&mut connection.output, Kind::Size, &size);
        connection.send();
    }

    fn tell_writer(connection: &mut Connection) {
        let Role::Viewing(viewer) = &connection.role else { return };
        let word: &[u8] = if viewer.writes { b"1" } else { b"0" };
        stream::put(&mut connection.output, Kind::Writer, word);
        connection.send();
    }
}

impl Host {
    /// Makes the connection a viewer.
    pub(super) fn attach(
        &mut self,
        connection: &mut Connection,
        id: &serde_json::Value,
        params: AttachParams,
    ) {
        let taken = self.connections.viewers().any(|(viewer, _)| viewer.writes);
        let writes = !params.read_only && (params.take || !taken);
        let size = params.size.map(|size| Size { cols: size.cols, rows: size.rows }.clamped());
        if writes {
            self.take_keyboard_away();
            if let Some(size) = size.filter(|size| *size != self.screen.size()) {
                let _ = self.resize(size);
            }
        }
        let now = self.screen.size();
        let answer = AttachResult {
            session_id: self.manifest.session_id.clone(),
            cols: now.cols,
            rows: now.rows,
            writer: writes,
            viewers: self.connections.viewers().count() + 1,
        };
        connection.role = Role::Viewing(Box::new(Viewer { writes, behind: true, size }));
        connection.answer(id, serde_json::to_value(answer).map_err(super::methods::internal));
        Viewer::catch_up(connection, &self.screen);
    }

    fn take_keyboard_away(&mut self) {
        for connection in &mut self.connections.all {
            if let Role::Viewing(viewer) = &mut connection.role
                && viewer.writes
            {
                viewer.writes = false;
                Viewer::tell_writer(connection);
            }
        }
    }

    /// Does what a viewer asks for.
    pub(super) fn hear_viewer(&mut self, connection: &mut Connection) {
        loop {
            match stream::take(&mut connection.input) {
                Err(_) => {
                    connection.dead = true;
                    return;
                }
                Ok(None) => return,
                Ok(Some((kind, payload))) => self.viewer_says(connection, kind, &payload),
            }
        }
    }

    fn viewer_says(&mut self, connection: &mut Connection, kind: Kind, payload: &[u8]) {
        let Role::Viewing(viewer) = &mut connection.role else { return };
        match kind {
            Kind::Bytes if viewer.writes && self.input.len() < MOST_INPUT => {
                self.type_in(payload);
                let data = String::from_utf8_lossy(payload).into_owned();
                self.record(&model::hosted::Fact::InputText { data });
            }
            Kind::Size => {
                let Ok(Dimensions { cols, rows }) = serde_json::from_slice(payload) else { return };
                let size = Size { cols, rows }.clamped();
                viewer.size = Some(size);
                if viewer.writes && size != self.screen.size() {
                    let _ = self.resize(size);
                    // This connection is not among the others while it is heard.
                    Viewer::tell_size(connection, size);
                    Viewer::catch_up(connection, &self.screen);
                }
            }
            Kind::Take if !viewer.writes => {
                viewer.writes = true;
                let size = viewer.size;
                self.take_keyboard_away();
                Viewer::tell_writer(connection);
                if let Some(size) = size.filter(|size| *size != self.screen.size()) {
                    let _ = self.resize(size);
                    Viewer::tell_size(connection, size);
                    Viewer::catch_up(connection, &self.screen);
                }
            }
            Kind::Bytes | Kind::Take | Kind::Writer | Kind::Over => {}
        }
    }
}
