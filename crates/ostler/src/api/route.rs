//! What a route of the API is: its right, its fields, and how it is answered.

use serde::Serialize;

/// What a caller may do. The order counts: each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ApiRight {
    /// Nothing is needed: it reads nothing of the machine.
    Anybody,
    /// Look at everything.
    Watch,
    /// Type into terminals, prompt agents.
    Type,
    /// Create, stop, pin, finalize, clean up, undo, access.
    Manage,
}

impl ApiRight {
    /// The rights that a person can be given.
    pub(crate) const GRANTED: [Self; 3] = [Self::Watch, Self::Type, Self::Manage];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Anybody => "anybody",
            Self::Watch => "watch",
            Self::Type => "type",
            Self::Manage => "manage",
        }
    }

    /// The right of that name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::GRANTED.into_iter().find(|right| right.as_str() == text)
    }
}

/// The largest body of a request.
pub(crate) const MAX_BODY_BYTES: usize = 1 << 20;

/// One thing that can be asked for.
#[derive(Debug)]
pub(crate) struct ApiRoute {
    pub(crate) method: &'static str,
    /// With names in braces: `/v1/sessions/{id}`.
    pub(crate) path: &'static str,
    pub(crate) right: ApiRight,
    pub(crate) meaning: &'static str,
    pub(crate) work: RouteWork,
    pub(crate) fields: &'static [RouteField],
}

/// How a route is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RouteWork {
    /// By this command, with `--json`.
    Command(&'static [&'static str]),
    /// By this command, whose JSON lines are sent as they are printed; its schema has that suffix.
    Lines(&'static [&'static str], &'static str),
    /// By this command, which prints a file of that type.
    File(&'static [&'static str], &'static str),
    /// By the server itself.
    Door(DoorRoute),
}

/// What a server answers without a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoorRoute {
    SignIn,
    SignOut,
    Tab,
    AskRight,
    Keep,
    Ticket,
    Stream,
    Document,
}

/// A part of a request.
#[derive(Debug)]
pub(crate) struct RouteField {
    pub(crate) name: &'static str,
    pub(crate) place: RouteFieldPlace,
    pub(crate) used: FieldUse,
    pub(crate) required: bool,
    pub(crate) meaning: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteFieldPlace {
    Path,
    Query,
    Body,
}

/// What becomes of a field in the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldUse {
    /// `--option=value`; a list is joined with commas.
    Opt(&'static str),
    /// `--option=value`, once for each value.
    Each(&'static str),
    /// `--option`, if true.
    Flag(&'static str),
    /// `--option=number`, at most so many; if it is not given, that many.
    Count(&'static str, u32),
    /// The same, and nothing if the field of that name is given instead.
    CountUnless(&'static str, u32, &'static str),
    /// `--option=number`, at most so many.
    UpTo(&'static str, u32),
    /// An id behind `--`: exact, never a prefix or a name.
    Exact,
    /// A word behind `--`.
    Word,
    /// Words behind `--`.
    Words,
    /// `--identity=pid:start`.
    Identity,
    /// The same, needed unless the flag of that name is set.
    IdentityUnless(&'static str),
    /// The server's own.
    Own,
}

pub(super) const fn field(
    name: &'static str,
    place: RouteFieldPlace,
    used: FieldUse,
    meaning: &'static str,
) -> RouteField {
    RouteField { name, place, used, required: false, meaning }
}

pub(super) const fn need(
    name: &'static str,
    place: RouteFieldPlace,
    used: FieldUse,
    meaning: &'static str,
) -> RouteField {
    RouteField { name, place, used, required: true, meaning }
}

pub(super) const fn route(
    method: &'static str,
    path: &'static str,
    right: ApiRight,
    meaning: &'static str,
    work: RouteWork,
    fields: &'static [RouteField],
) -> ApiRoute {
    ApiRoute { method, path, right, meaning, work, fields }
}
