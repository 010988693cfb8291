//! A screen as programs are told about it.

use model::hosted::wire::{
    SnapshotCell, SnapshotCells, SnapshotFormat, SnapshotLine, SnapshotParams, SnapshotResult,
};
use model::hosted::{Code, Fault};
use screen::{Attrs, Screen, StyledCell};
use serde_json::{Map, Value};

use crate::artifacts::{self, Kind, New, Shelf};
use crate::picture::RENDERER;

/// Tells about `screen` as of the event `seq`.
pub fn snapshot(screen: &Screen, id: &str, seq: i64, params: &SnapshotParams) -> SnapshotResult {
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
            result.visible_lines = Some(lines(rows));
            result.scrollback_lines = scrollback.map(lines);
            result.cells = params.include_cells.then(|| cells(screen));
        }
    }
    result
}

/// Keeps a snapshot among the session's artifacts.
pub fn keep(shelf: Shelf<'_>, snapshot: &SnapshotResult) -> Result<(), Fault> {
    let internal = |error: serde_json::Error| Fault::new(Code::InternalError, error.to_string());
    let content = serde_json::to_string_pretty(snapshot).map_err(internal)? + "\n";
    let format = snapshot.format.word();
    let scrollback = snapshot.scrollback_lines.as_ref().map_or(0, Vec::len);
    let metadata = Map::from_iter([
        ("format".to_owned(), Value::from(format)),
        ("rendererBackend".to_owned(), RENDERER.into()),
        ("cols".to_owned(), snapshot.cols.into()),
        ("rows".to_owned(), snapshot.rows.into()),
        ("cursorRow".to_owned(), snapshot.cursor_row.into()),
        ("cursorCol".to_owned(), snapshot.cursor_col.into()),
        ("scrollbackLineCount".to_owned(), scrollback.into()),
    ]);
    // An event's number is never negative in the list.
    let seq = snapshot.captured_at_seq.max(0);
    let new = New {
        kind: Kind::Snapshot,
        filename: format!("snapshot-{seq}-{format}.json"),
        seq,
        content: content.as_bytes(),
        metadata,
    };
    artifacts::keep(shelf, new).map(drop)
}

fn lines(rows: Vec<String>) -> Vec<SnapshotLine> {
    rows.into_iter().enumerate().map(|(row, text)| SnapshotLine { row, text }).collect()
}

fn cells(screen: &Screen) -> Vec<SnapshotCells> {
    let rows = screen.cells().into_iter().enumerate();
    let cells = rows.map(|(line_number, cells)| SnapshotCells {
        line_number,
        cells: cells.into_iter().map(cell).collect(),
    });
    cells.filter(|row| row.cells.iter().any(|cell| *cell != blank())).collect()
}

fn blank() -> SnapshotCell {
    SnapshotCell { char: " ".to_owned(), ..SnapshotCell::default() }
}

fn cell(cell: StyledCell) -> SnapshotCell {
    SnapshotCell {
        char: cell.text,
        fg: cell.fg.map(StyledCell::hex),
        bg: cell.bg.map(StyledCell::hex),
        bold: cell.attrs.has(Attrs::BOLD),
        italic: cell.attrs.has(Attrs::ITALIC),
        underline: cell.attrs.underline() > 0,
        strikethrough: cell.attrs.has(Attrs::STRIKE),
    }
}
