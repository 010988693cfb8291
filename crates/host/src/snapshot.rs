//! Screen snapshots: text, cells, cursor and hash, as JSON.

use model::hosted::wire::{
    SnapshotCell, SnapshotCells, SnapshotFormat, SnapshotLine, SnapshotParams, SnapshotResult,
};
use model::hosted::{FaultCode, HostFault};
use screen::{Attrs, Screen, StyledCell};
use serde_json::{Map, Value};

use crate::artifacts::{self, ArtifactDir, ArtifactKind, NewArtifact};
use crate::picture::RENDERER_NAME;

/// Tells about `screen` as of the event `seq`.
pub fn take_snapshot(
    screen: &Screen,
    id: &str,
    seq: i64,
    params: &SnapshotParams,
) -> SnapshotResult {
    let rows = screen.rows();
    let cursor = screen.cursor();
    let size = screen.size();
    let scrollback = params.include_scrollback.then(|| screen.scrollback(usize::MAX));
    let mut result = SnapshotResult {
        format: params.format,
        session_id: id.to_owned(),
        captured_at_seq: seq,
        cols: size.cols,
        rows: size.rows,
        cursor_row: cursor.row,
        cursor_col: cursor.col,
        screen_hash: screen::hash_rows(&rows),
        ..SnapshotResult::default()
    };
    match params.format {
        SnapshotFormat::Text => {
            let all: Vec<String> = scrollback.unwrap_or_default().into_iter().chain(rows).collect();
            result.text = Some(all.join("\n"));
        }
        SnapshotFormat::Structured => {
            result.is_alt_screen = Some(screen.is_alt_screen());
            result.visible_lines = Some(snapshot_lines(rows));
            result.scrollback_lines = scrollback.map(snapshot_lines);
            result.cells = params.include_cells.then(|| snapshot_cells(screen));
        }
    }
    result
}

/// Keeps a snapshot among the session's artifacts.
pub fn keep(shelf: ArtifactDir<'_>, snapshot: &SnapshotResult) -> Result<(), HostFault> {
    let internal =
        |error: serde_json::Error| HostFault::new(FaultCode::InternalError, error.to_string());
    let content = serde_json::to_string_pretty(snapshot).map_err(internal)? + "\n";
    let format = snapshot.format.as_str();
    let scrollback = snapshot.scrollback_lines.as_ref().map_or(0, Vec::len);
    let metadata = Map::from_iter([
        ("format".to_owned(), Value::from(format)),
        ("rendererBackend".to_owned(), RENDERER_NAME.into()),
        ("cols".to_owned(), snapshot.cols.into()),
        ("rows".to_owned(), snapshot.rows.into()),
        ("cursorRow".to_owned(), snapshot.cursor_row.into()),
        ("cursorCol".to_owned(), snapshot.cursor_col.into()),
        ("scrollbackLineCount".to_owned(), scrollback.into()),
    ]);
    // An event's number is never negative in the list.
    let seq = snapshot.captured_at_seq.max(0);
    let new = NewArtifact {
        kind: ArtifactKind::Snapshot,
        filename: format!("snapshot-{seq}-{format}.json"),
        seq,
        content: content.as_bytes(),
        metadata,
    };
    artifacts::keep_artifact(shelf, new).map(drop)
}

fn snapshot_lines(rows: Vec<String>) -> Vec<SnapshotLine> {
    rows.into_iter().enumerate().map(|(row, text)| SnapshotLine { row, text }).collect()
}

fn snapshot_cells(screen: &Screen) -> Vec<SnapshotCells> {
    let rows = screen.cells().into_iter().enumerate();
    let cells = rows.map(|(line_number, cells)| SnapshotCells {
        line_number,
        cells: cells.into_iter().map(snapshot_cell).collect(),
    });
    cells.filter(|row| row.cells.iter().any(|cell| *cell != blank_cell())).collect()
}

fn blank_cell() -> SnapshotCell {
    SnapshotCell { char: " ".to_owned(), ..SnapshotCell::default() }
}

fn snapshot_cell(cell: StyledCell) -> SnapshotCell {
    SnapshotCell {
        char: cell.text,
        fg: cell.fg.map(StyledCell::color_hex),
        bg: cell.bg.map(StyledCell::color_hex),
        bold: cell.attrs.has(Attrs::BOLD),
        italic: cell.attrs.has(Attrs::ITALIC),
        underline: cell.attrs.underline_style() > 0,
        strikethrough: cell.attrs.has(Attrs::STRIKE),
    }
}
