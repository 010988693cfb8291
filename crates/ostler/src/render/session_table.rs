//! The table of sessions: one row per agent, those that wait for a person first.

use std::path::Path;

use flows::observe::{Observation, Observed};
use flows::repository::checked_out_branch;
use model::address::ShortIds;
use model::rules::judge;
use model::session::SessionKind;
use model::status::{Activity, Status};
use model::time::Time;

use crate::render::colour::{Colour, Painter};
use crate::render::sessions::is_derived;
use crate::render::table::{ColumnGive, TableCell, TableColumn, render_table, render_whole_table};
use crate::render::{duration, output, text};

const SESSION_COLUMNS: [TableColumn; 9] = [
    TableColumn { head: "STATE", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "AGENT", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "ID", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "NAME", give: ColumnGive::Drop(1), right: false },
    TableColumn { head: "AGE", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "MODEL", give: ColumnGive::Drop(3), right: false },
    TableColumn { head: "BRANCH", give: ColumnGive::Drop(2), right: false },
    TableColumn { head: "DIRECTORY", give: ColumnGive::CutMiddle(16), right: false },
    TableColumn { head: "TITLE", give: ColumnGive::Cut(20), right: false },
];

/// Where the name and the title stand in [`SESSION_COLUMNS`].
const NAME_COLUMN: usize = 3;
const TITLE_COLUMN: usize = 8;

/// With more rows than this, groups have headings.
const MAX_UNGROUPED_ROWS: usize = 8;

/// What a person looks for, in the order of its urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SessionGroup {
    Waiting,
    Working,
    Resting,
    Ended,
}

impl SessionGroup {
    fn of_session(one: &Observed) -> Self {
        match (one.verdict.status.is_active(), one.verdict.activity) {
            (false, _) => Self::Ended,
            (true, Some(Activity::Waiting)) => Self::Waiting,
            (true, Some(Activity::Working)) => Self::Working,
            (true, _) => Self::Resting,
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::Waiting => "waiting for you",
            Self::Working => "working",
            Self::Resting => "at rest",
            Self::Ended => "ended",
        }
    }
}

/// A table of sessions.
pub(crate) struct SessionTable<'a> {
    /// Short ids among all sessions, not only those shown.
    pub(crate) ids: &'a ShortIds<'a>,
    /// Where terminals of these sessions are found.
    pub(crate) observation: &'a Observation,
    pub(crate) now: Time,
    pub(crate) paint: Painter,
    /// Whether it is drawn again and again.
    pub(crate) watched: bool,
    /// Whether those come first that wait for a person; else they stay in their order.
    pub(crate) by_urgency: bool,
}

/// Leaves out the terminals whose agents are in the list: an agent and its terminal are one row.
pub(crate) fn fold_terminals<'a>(sessions: &[&'a Observed]) -> Vec<&'a Observed> {
    let is_shown = |agent: &str, id: &str| {
        sessions.iter().any(|one| one.session.agent == agent && one.session.id == id)
    };
    let is_folded = |one: &Observed| {
        let linked = &one.session.linked;
        one.session.kind == SessionKind::Hosted
            && linked.iter().any(|other| is_shown(other.agent, &other.id))
    };
    sessions.iter().copied().filter(|one| !is_folded(one)).collect()
}

/// Puts those first that wait for a person, then those that work; within a group nothing moves.
pub(crate) fn sort_by_urgency(sessions: &mut [&Observed]) {
    sessions.sort_by_key(|one| SessionGroup::of_session(one));
}

impl SessionTable<'_> {
    /// Draws it for the terminal that is there.
    pub(crate) fn render(&self, sessions: &[&Observed]) -> String {
        let mut sessions = sessions.to_vec();
        if self.by_urgency {
            sort_by_urgency(&mut sessions);
        }
        let mut rows: Vec<Vec<TableCell>> =
            sessions.iter().map(|one| self.session_row(one)).collect();
        let draw = if self.watched { render_whole_table } else { render_table };
        let columns = output::output_columns();
        let mut table = draw(&SESSION_COLUMNS, &rows, columns, self.paint);
        let has_names = rows.iter().any(|row| !row[NAME_COLUMN].0.is_empty());
        if has_names && !first_line(&table).contains(SESSION_COLUMNS[NAME_COLUMN].head) {
            rows.iter_mut().for_each(|row| put_name_before_title(row));
            table = draw(&SESSION_COLUMNS, &rows, columns, self.paint);
        }
        if self.by_urgency && sessions.len() > MAX_UNGROUPED_ROWS {
            return self.with_headings(&table, &sessions);
        }
        table
    }

    fn with_headings(&self, table: &str, sessions: &[&Observed]) -> String {
        let mut out = String::with_capacity(table.len());
        let mut lines = table.split_inclusive('\n');
        out.extend(lines.next());
        let mut last = None;
        for (line, one) in lines.zip(sessions) {
            let group = SessionGroup::of_session(one);
            if last != Some(group) {
                let count = sessions.iter().filter(|one| SessionGroup::of_session(one) == group);
                let heading = format!("{} ({})", group.heading(), count.count());
                out.push_str(&self.paint.paint(Colour::Bold, &heading));
                out.push('\n');
                last = Some(group);
            }
            out.push_str(line);
        }
        out
    }

    fn session_row(&self, one: &Observed) -> Vec<TableCell> {
        let digest = &one.session.digest;
        let plain = |text: Option<&str>| text::one_line(text.unwrap_or(""));
        let short = |id: &str| text::one_line(self.ids.shorten(id));
        let age = one.session.last_activity_at();
        let age = age.map(|last| duration::short_age(self.now.since(last)));
        let mut title = plain(one.session.display_title());
        if let Some(parent) = &digest.parent {
            title = format!("↳ {} {title}", short(parent));
        }
        let waits = judge::waiting_for(&one.session, &one.verdict);
        if let Some(reason) = waits {
            title = format!("for {} · {title}", plain(Some(reason)));
        }
        let directory = text::home_as_tilde(&plain(digest.cwd.as_deref()));
        vec![
            state_cell(one),
            (one.session.agent.to_owned(), None),
            (short(&one.session.id), Some(Colour::Cyan)),
            (text::cut_right(&self.name_of(one), 24), Some(Colour::Cyan)),
            (age.unwrap_or_default(), None),
            (text::cut_right(&plain(digest.model.as_deref()), 24), Some(Colour::Dim)),
            (text::cut_right(&branch_of(one), 24), Some(Colour::Dim)),
            (directory, None),
            (title, waits.map(|_| Colour::BoldYellow)),
        ]
    }

    /// The name a person gave it; of an agent in a terminal, the terminal's, else its id.
    fn name_of(&self, one: &Observed) -> String {
        let own = one.session.digest.name.as_deref();
        let linked = one.session.linked.first().filter(|_| own.is_none());
        let name = match linked {
            None => own.map(str::to_owned),
            Some(other) => {
                let mut all = self.observation.sessions.iter();
                let other_one =
                    all.find(|one| one.session.agent == other.agent && one.session.id == other.id);
                let named = other_one.and_then(|one| one.session.digest.name.clone());
                Some(named.unwrap_or_else(|| format!("⇄ {}", self.ids.shorten(&other.id))))
            }
        };
        text::one_line(&name.unwrap_or_default())
    }
}

/// The branch that the agent wrote down. Where it writes none, and works, the one that its directory is on,
/// marked as concluded.
fn branch_of(one: &Observed) -> String {
    let digest = &one.session.digest;
    if let Some(branch) = &digest.branch {
        return text::one_line(branch);
    }
    let is_at_work = one.verdict.status.is_active() && one.session.kind == SessionKind::Native;
    let directory = digest.cwd.as_deref().filter(|_| is_at_work).map(Path::new);
    let branch = directory.filter(|directory| directory.is_absolute()).and_then(checked_out_branch);
    branch.map(|branch| format!("~{}", text::one_line(&branch))).unwrap_or_default()
}

fn first_line(table: &str) -> &str {
    table.lines().next().unwrap_or_default()
}

/// A terminal that is too narrow for the names has them where the titles are: people look for what they called it.
fn put_name_before_title(row: &mut [TableCell]) {
    let name = row[NAME_COLUMN].0.clone();
    let title = &mut row[TITLE_COLUMN].0;
    if !name.is_empty() && !title.contains(name.trim_end_matches('…')) {
        *title = format!("{name} · {title}");
    }
}

/// What it is doing, or that it is over, in one word.
fn state_cell(one: &Observed) -> TableCell {
    let verdict = &one.verdict;
    let word = match (verdict.status, verdict.activity) {
        (Status::Running, Some(Activity::Unknown) | None) => Status::Running.as_str(),
        (Status::Running, Some(activity)) => activity.as_str(),
        (status, _) => status.as_str(),
    };
    let colour = match (verdict.status, verdict.activity) {
        (Status::Running, Some(Activity::Waiting)) => Some(Colour::BoldYellow),
        (Status::Running, Some(Activity::Working)) => Some(Colour::Green),
        (Status::Running, Some(Activity::Idle)) => Some(Colour::Dim),
        (Status::Running, _) => None,
        (Status::Unknown, _) => Some(Colour::Red),
        _ => Some(Colour::Dim),
    };
    let mark = if is_derived(one) { "~" } else { "" };
    let stale = if verdict.stale { " (stale)" } else { "" };
    (format!("{mark}{word}{stale}"), colour)
}
