//! Environment variables, of this process or of another one: looked up by name, empty as good as unset.

use std::ffi::OsString;
use std::path::PathBuf;

use super::Machine;

/// The environment an agent's roots depend on: ostler's own, or another process's.
#[derive(Clone, Copy)]
pub struct EnvLookup<'a> {
    values: Values<'a>,
}

#[derive(Clone, Copy)]
enum Values<'a> {
    Machine(&'a Machine),
    Lookup(&'a dyn Fn(&str) -> Option<OsString>),
}

impl std::fmt::Debug for EnvLookup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnvLookup").field("home", &self.home_dir()).finish()
    }
}

impl<'a> EnvLookup<'a> {
    /// An environment that answers through `lookup`.
    pub fn new(lookup: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        Self { values: Values::Lookup(lookup) }
    }

    pub(super) fn of_machine(machine: &'a Machine) -> Self {
        Self { values: Values::Machine(machine) }
    }

    /// The value of a variable, unless it is unset or empty.
    pub fn get(&self, name: &str) -> Option<OsString> {
        let value = match self.values {
            Values::Machine(machine) => machine.raw_variable(name),
            Values::Lookup(lookup) => lookup(name),
        };
        value.filter(|value| !value.is_empty())
    }

    /// The value of a variable as a path.
    pub fn path_of(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// The home directory.
    pub fn home_dir(&self) -> Option<PathBuf> {
        self.path_of("HOME")
    }

    /// `$HOME/below`, unless there is no home.
    pub fn in_home(&self, below: &str) -> Option<PathBuf> {
        self.home_dir().map(|home| home.join(below))
    }

    /// `$name`, else `$HOME/fallback`: the usual way to find a root.
    pub fn root_or_home(&self, name: &str, fallback: &str) -> Vec<PathBuf> {
        self.path_of(name).or_else(|| self.in_home(fallback)).into_iter().collect()
    }

    /// `$HOME/below`, if that is there: where a fork of an agent keeps the same format. It is looked
    /// at only then, so that no other process raises a doubt.
    pub fn fork_root(&self, below: &str) -> Option<PathBuf> {
        self.in_home(below).filter(|root| root.is_dir())
    }

    /// `$XDG_DATA_HOME`, else `$HOME/.local/share`.
    pub fn xdg_data(&self) -> Option<PathBuf> {
        self.path_of("XDG_DATA_HOME").or_else(|| self.in_home(".local/share"))
    }

    /// `$XDG_CONFIG_HOME`, else `$HOME/.config`.
    pub fn xdg_config(&self) -> Option<PathBuf> {
        self.path_of("XDG_CONFIG_HOME").or_else(|| self.in_home(".config"))
    }
}
