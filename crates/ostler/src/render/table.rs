//! A table that fits the terminal and stays aligned for any text.

use crate::render::colour::{Colour, Painter};
use crate::render::text;

#[derive(Clone, Copy, Debug)]
pub(crate) struct TableColumn {
    pub(crate) head: &'static str,
    /// How it gives way when the terminal is narrow.
    pub(crate) give: ColumnGive,
    /// Numbers stand on the right.
    pub(crate) right: bool,
}

/// How a column gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnGive {
    /// It keeps its width, however narrow the terminal.
    Rigid,
    /// Is cut in the middle down to this width.
    CutMiddle(usize),
    /// Is cut on the right down to this width.
    Cut(usize),
    /// Is left out when cutting is not enough; the higher, the sooner.
    Drop(u8),
}

/// A cell: what it says, and its colour.
pub(crate) type TableCell = (String, Option<Colour>);

/// Draws the table; `columns` of `None` means that nothing has to fit. Empty columns are left out.
pub(crate) fn render_table(
    heads: &[TableColumn],
    rows: &[Vec<TableCell>],
    columns: Option<usize>,
    paint: Painter,
) -> String {
    let is_used = |index: usize| rows.is_empty() || rows.iter().any(|row| !row[index].0.is_empty());
    render_columns(heads, rows, columns, paint, (0..heads.len()).map(is_used).collect())
}

/// As [`render_table`], with every column, whether or not anything is in it: what is drawn again and
/// again must not jump.
pub(crate) fn render_whole_table(
    heads: &[TableColumn],
    rows: &[Vec<TableCell>],
    columns: Option<usize>,
    paint: Painter,
) -> String {
    render_columns(heads, rows, columns, paint, vec![true; heads.len()])
}

fn render_columns(
    heads: &[TableColumn],
    rows: &[Vec<TableCell>],
    columns: Option<usize>,
    paint: Painter,
    mut shown: Vec<bool>,
) -> String {
    let mut widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(index, head)| {
            let cells = rows.iter().map(|row| text::display_width(&row[index].0));
            cells.chain([head.head.len()]).max().unwrap_or(0)
        })
        .collect();
    if let Some(columns) = columns {
        fit_widths(heads, &mut widths, &mut shown, columns);
    }
    let mut out = String::new();
    let heading: Vec<TableCell> =
        heads.iter().map(|head| (head.head.to_owned(), Some(Colour::Dim))).collect();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for (index, (cell, colour)) in row.iter().enumerate().filter(|(index, _)| shown[*index]) {
            let words = match heads[index].give {
                ColumnGive::CutMiddle(_) => text::cut_middle(cell, widths[index]),
                _ => text::cut_right(cell, widths[index]),
            };
            let gap = " ".repeat(widths[index] - text::display_width(&words));
            let words = colour.map_or(words.clone(), |colour| paint_cell(paint, colour, &words));
            if !line.is_empty() {
                line.push_str("  ");
            }
            if heads[index].right {
                line.push_str(&gap);
                line.push_str(&words);
            } else {
                line.push_str(&words);
                line.push_str(&gap);
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    text::for_locale(out)
}

/// Paints a cell; a mark of doubt in front of it stands back.
fn paint_cell(paint: Painter, colour: Colour, words: &str) -> String {
    match words.strip_prefix('~').filter(|rest| !rest.starts_with('/')) {
        Some(rest) => paint.paint(Colour::Dim, "~") + &paint.paint(colour, rest),
        None => paint.paint(colour, words),
    }
}

/// Cuts and drops until the table fits, or nothing gives way any more.
fn fit_widths(heads: &[TableColumn], widths: &mut [usize], shown: &mut [bool], columns: usize) {
    let total = |widths: &[usize], shown: &[bool]| {
        let used: Vec<usize> =
            widths.iter().zip(shown).filter(|(_, shown)| **shown).map(|(w, _)| *w).collect();
        used.iter().sum::<usize>() + 2 * used.len().saturating_sub(1)
    };
    for (index, head) in heads.iter().enumerate().rev() {
        let (ColumnGive::Cut(least) | ColumnGive::CutMiddle(least)) = head.give else {
            continue;
        };
        let excess = total(widths, shown).saturating_sub(columns);
        if shown[index] && excess > 0 {
            widths[index] = widths[index].saturating_sub(excess).max(least.min(widths[index]));
        }
    }
    let mut droppable: Vec<(u8, usize)> = heads
        .iter()
        .enumerate()
        .filter_map(|(index, head)| match head.give {
            ColumnGive::Drop(order) => Some((order, index)),
            _ => None,
        })
        .collect();
    droppable.sort_by_key(|(order, _)| std::cmp::Reverse(*order));
    for (_, index) in droppable {
        if total(widths, shown) <= columns {
            return;
        }
        shown[index] = false;
    }
    // Rather a missing column than a torn table.
    let flexible = (0..heads.len()).filter(|&index| heads[index].give != ColumnGive::Rigid);
    for index in flexible {
        if total(widths, shown) <= columns {
            return;
        }
        let excess = total(widths, shown) - columns;
        match widths[index].checked_sub(excess).filter(|width| *width >= 4) {
            Some(width) => widths[index] = width,
            None => shown[index] = false,
        }
    }
}
