//! The list: which lines it has, which of them is selected, and where they stand on the screen.

use std::collections::BTreeMap;

use model::rules::attention::AttentionGroup;
use model::session::SessionName;

use super::row::TopRow;

/// What is selected: a session or a fold, never a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TopSelection {
    Session(SessionName),
    Fold(AttentionGroup),
}

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListLine {
    /// The name of what follows.
    Heading(String),
    /// A session, by its place among the rows.
    Row(usize),
    /// A group of which only the number is shown, with a word about it.
    Fold { group: AttentionGroup, count: usize, note: String },
}

/// How the list is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListShape {
    pub(crate) by_project: bool,
    pub(crate) folds_idle: bool,
    pub(crate) folds_unknown: bool,
    pub(crate) shows_ended: bool,
    /// Whether groups have headings.
    pub(crate) has_headings: bool,
    /// Whether what needs a person takes two lines.
    pub(crate) is_roomy: bool,
}

impl ListShape {
    fn folds(self, group: AttentionGroup) -> bool {
        match group {
            AttentionGroup::Idle => self.folds_idle,
            AttentionGroup::Unknown => self.folds_unknown,
            _ => false,
        }
    }

    /// The lines of these rows, which are in their order.
    pub(crate) fn list_lines(self, rows: &[TopRow]) -> Vec<ListLine> {
        let shown = |group: AttentionGroup| group != AttentionGroup::Ended || self.shows_ended;
        let mut lines = Vec::new();
        if self.by_project {
            self.add_section(&mut lines, rows, "needs you", |row| {
                row.group() == AttentionGroup::NeedsYou
            });
            let mut projects: BTreeMap<&str, ()> = BTreeMap::new();
            for row in rows.iter().filter(|row| shown(row.group())) {
                if row.group() != AttentionGroup::NeedsYou {
                    projects.insert(&row.project, ());
                }
            }
            for project in projects.keys() {
                let heading = if project.is_empty() { "no project" } else { project };
                self.add_section(&mut lines, rows, heading, |row| {
                    row.project == *project
                        && row.group() != AttentionGroup::NeedsYou
                        && shown(row.group())
                });
            }
            return lines;
        }
        for group in AttentionGroup::ALL.into_iter().filter(|group| shown(*group)) {
            if self.folds(group) {
                let folded: Vec<&TopRow> = rows.iter().filter(|row| row.group() == group).collect();
                if !folded.is_empty() {
                    let note = describe_fold(group, &folded);
                    lines.push(ListLine::Fold { group, count: folded.len(), note });
                }
            } else {
                self.add_section(&mut lines, rows, group.as_str(), |row| row.group() == group);
            }
        }
        lines
    }

    fn add_section(
        self,
        lines: &mut Vec<ListLine>,
        rows: &[TopRow],
        heading: &str,
        belongs: impl Fn(&TopRow) -> bool,
    ) {
        let places: Vec<usize> = (0..rows.len()).filter(|place| belongs(&rows[*place])).collect();
        if !places.is_empty() && self.has_headings {
            lines.push(ListLine::Heading(heading.to_owned()));
        }
        lines.extend(places.into_iter().map(ListLine::Row));
    }

    /// How many rows of the screen a line takes.
    pub(crate) fn height_of(self, line: &ListLine, rows: &[TopRow]) -> usize {
        match line {
            ListLine::Row(place) if self.is_roomy => {
                let needs =
                    rows.get(*place).is_some_and(|row| row.group() == AttentionGroup::NeedsYou);
                if needs { 2 } else { 1 }
            }
            _ => 1,
        }
    }
}

/// The commonest reason of those that are unknown.
fn describe_fold(group: AttentionGroup, folded: &[&TopRow]) -> String {
    if group != AttentionGroup::Unknown {
        return String::new();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in folded {
        *counts.entry(&row.doubt).or_default() += 1;
    }
    let commonest = counts.into_iter().max_by_key(|(_, count)| *count);
    commonest.map_or_else(String::new, |(reason, _)| reason.to_owned())
}

/// Whether a line is the selected one.
pub(crate) fn is_selected(line: &ListLine, rows: &[TopRow], selection: &TopSelection) -> bool {
    match (line, selection) {
        (ListLine::Row(place), TopSelection::Session(name)) => {
            rows.get(*place).is_some_and(|row| row.name == *name)
        }
        (ListLine::Fold { group, .. }, TopSelection::Fold(selected)) => group == selected,
        _ => false,
    }
}

/// What selecting a line selects.
pub(crate) fn selection_of(line: &ListLine, rows: &[TopRow]) -> Option<TopSelection> {
    match line {
        ListLine::Heading(_) => None,
        ListLine::Row(place) => Some(TopSelection::Session(rows.get(*place)?.name.clone())),
        ListLine::Fold { group, .. } => Some(TopSelection::Fold(*group)),
    }
}
