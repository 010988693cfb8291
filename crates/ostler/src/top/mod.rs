//! The dashboard: who needs me, and one key to each of them.
//!
//! The state is pure (`state`, `command`), drawing is pure (`draw`), and one loop (`run`) waits for the
//! keyboard, the sessions, a terminal's output and the work of threads. Nothing is drawn while nothing
//! happens. No runtime is started.

mod accessible;
mod command;
mod consent;
mod draft;
mod drag;
mod draw;
mod guard;
mod input;
mod keys;
mod layout;
mod list;
mod needing;
mod once;
mod palette;
mod pane;
mod preview;
mod quiet;
mod reader;
mod replies;
mod row;
mod run;
mod search;
mod state;
mod tty;
mod typing;
mod usage;
mod work;
mod writing;

#[cfg(test)]
mod tests;

pub(crate) use accessible::run_accessible;
pub(crate) use guard::guard_dashboard;
pub(crate) use keys::TopKeyMap;
pub(crate) use once::{grouped_result, render_once};
pub(crate) use palette::TopPalette;
pub(crate) use pane::PaneKind;
pub(crate) use run::{TopOptions, run_dashboard};
pub(crate) use work::TopPlace;
