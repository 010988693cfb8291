//! Error recovery for the configuration file: the keys that hold, and a line for each that does not.
//!
//! Only for commands that look. A key is accepted if the file without it and with it can both be used, so
//! that the rules of `settle_settings` are the only ones.

use std::path::PathBuf;

use model::wire::IncompleteSource;
use toml::{Table, Value};

use super::{File, LoadedConfig, settle_settings};
use crate::error::Error;

/// So many lines that are no TOML are left out, one after another, before the file is given up.
const MAX_BROKEN_LINES: usize = 16;

/// The settings of a file that as a whole is not valid.
pub(super) fn salvage_settings(path: PathBuf) -> Result<LoadedConfig, Error> {
    let mut salvage = Salvage { path, kept: Table::new(), problems: Vec::new() };
    match std::fs::read_to_string(&salvage.path) {
        Ok(text) => {
            let table = salvage.parse_lines(text);
            salvage.accept_entries(table);
        }
        Err(error) => salvage.note_problem(error.to_string()),
    }
    let mut loaded = salvage.settle(salvage.kept.clone())?;
    loaded.problems = salvage.problems;
    Ok(loaded)
}

/// A file while its good parts are gathered.
struct Salvage {
    path: PathBuf,
    kept: Table,
    problems: Vec<IncompleteSource>,
}

impl Salvage {
    fn note_problem(&mut self, reason: String) {
        let path = Some(self.path.display().to_string());
        self.problems.push(IncompleteSource { source: "configuration".to_owned(), path, reason });
    }

    /// The file without the lines that are no TOML.
    fn parse_lines(&mut self, mut text: String) -> Table {
        for _ in 0..MAX_BROKEN_LINES {
            let error = match text.parse::<Table>() {
                Ok(table) => return table,
                Err(error) => error,
            };
            let at = error.span().map_or(0, |span| span.start).min(text.len());
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            let mut before = 0;
            let broken = lines
                .iter()
                .position(|line| {
                    before += line.len();
                    at < before
                })
                .unwrap_or(lines.len().saturating_sub(1));
            self.note_problem(format!(
                "line {} is left out: {}",
                broken + 1,
                error.message().replace('\n', " ")
            ));
            // Below a heading that cannot be read, keys would fall to the table above it.
            let is_heading = lines[broken].trim_start().starts_with('[');
            let is_next = |line: &&str| line.trim_start().starts_with('[');
            let end = match is_heading {
                true => lines[broken + 1..]
                    .iter()
                    .position(is_next)
                    .map_or(lines.len(), |next| broken + 1 + next),
                false => broken + 1,
            };
            // Blank lines stay in their places, so that the numbers of the others hold.
            let blank = "\n".repeat(end - broken);
            text = [lines[..broken].concat(), blank, lines[end..].concat()].concat();
        }
        self.note_problem("it is no TOML; defaults hold".to_owned());
        Table::new()
    }

    /// Takes the entries one by one: those of a table each for itself.
    fn accept_entries(&mut self, table: Table) {
        for (key, value) in table {
            let Value::Table(entries) = value else {
                self.accept_value(&[&key], value);
                continue;
            };
            if !self.accept_value(&[&key], Value::Table(Table::new())) {
                continue;
            }
            for (inner, value) in entries {
                self.accept_value(&[&key, &inner], value);
            }
        }
    }

    fn accept_value(&mut self, place: &[&str], value: Value) -> bool {
        let mut with = self.kept.clone();
        match place {
            [key] => {
                with.insert((*key).to_owned(), value);
            }
            [table, key] => {
                if let Some(Value::Table(table)) = with.get_mut(*table) {
                    table.insert((*key).to_owned(), value);
                }
            }
            _ => return false,
        }
        let refused = match self.settle(with.clone()) {
            Ok(_) => {
                self.kept = with;
                return true;
            }
            Err(Error::Config { reason, .. }) => reason,
            Err(error) => error.to_string(),
        };
        self.note_problem(format!("`{}` has its default: {refused}", place.join(".")));
        false
    }

    fn settle(&self, table: Table) -> Result<LoadedConfig, Error> {
        let path = self.path.clone();
        let file: File = Value::Table(table).try_into().map_err(|error: toml::de::Error| {
            let reason = error.message().replace('\n', " ");
            Error::Config { path: path.display().to_string(), reason }
        })?;
        settle_settings(file, Some(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a file, and what is said about the rest.
    fn salvaged(text: &str) -> (LoadedConfig, Vec<String>) {
        let home = testkit::home::TempHome::new();
        let path = home.write("config.toml", text);
        let mut loaded = salvage_settings(path).unwrap();
        let problems = std::mem::take(&mut loaded.problems);
        (loaded, problems.into_iter().map(|one| one.reason).collect())
    }

    #[test]
    fn b17_the_keys_that_hold_are_kept_and_the_others_are_named() {
        let (loaded, problems) = salvaged(
            "stale_after = \"2h\"\nbogus = 1\ndisabled_adapters = [\"nobody\"]\n\
             [retention]\ntrash = \"soon\"\nspills = \"3d\"\n[wrong]\nx = 1\n",
        );
        assert_eq!(loaded.config.stale_after.as_secs(), 7200);
        assert_eq!(loaded.config.retention.spills.as_secs(), 3 * 86_400);
        assert_eq!(loaded.config.retention.trash, model::config::Retention::default().trash);
        assert!(loaded.config.disabled_adapters.is_empty());
        let named = |key: &str| problems.iter().any(|one| one.starts_with(&format!("`{key}` ")));
        for key in ["bogus", "disabled_adapters", "retention.trash", "wrong"] {
            assert!(named(key), "{key}: {problems:?}");
        }
        assert_eq!(problems.len(), 4, "{problems:?}");
    }

    #[test]
    fn b17_a_line_that_is_no_toml_takes_no_other_with_it() {
        let (loaded, problems) = salvaged(
            "stale_after = \"2h\"\nwhat is this\n[retention\ntrash = \"1d\"\n[terminal]\nscrollback = 7\n",
        );
        assert_eq!(loaded.config.stale_after.as_secs(), 7200);
        assert_eq!(loaded.terminals.scrollback_lines, 7);
        assert_eq!(loaded.config.retention, model::config::Retention::default());
        assert!(problems[0].starts_with("line 2 is left out"), "{problems:?}");
        assert!(problems[1].starts_with("line 3 is left out"), "{problems:?}");
        let (_, problems) = salvaged(&"[\n".repeat(40));
        assert_eq!(problems.last().unwrap(), "it is no TOML; defaults hold");
    }
}
