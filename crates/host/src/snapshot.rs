//! A screen as programs are told about it.

use model::hosted::wire::{
    SnapshotCell, SnapshotCells, SnapshotFormat, SnapshotLine, SnapshotParams, SnapshotResult,
};
use screen::{Attrs, Screen, StyledCell};

/// Tells about `screen` as of the event `seq`.
pub fn snapshot(screen: &Screen, id: &str, seq: i64, params: SnapshotParams) -> SnapshotResult {
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
