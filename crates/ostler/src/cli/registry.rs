//! The command registry: what each command file declares about its commands, in one table.
//!
//! A file below `cli/` declares its commands with `declare_commands!`, next to their arguments. The
//! build script collects these declarations from the files that a `mod` line names; dispatch, help,
//! schemas, manual pages, completions and the suites over all commands read the table and nothing else.

use std::borrow::Cow;
use std::process::ExitCode;

use clap::ArgMatches;
use model::wire::SuccessEnvelope;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Value;

use crate::cli::CliContext;
use crate::error::Error;

/// What a command file may say in its declaration without importing it.
pub(crate) mod prelude {
    pub(crate) use ::access::wire as access_wire;
    pub(crate) use ::model::hosted::wire as hosted_wire;
    pub(crate) use ::model::wire;
    pub(crate) use ::openclaw::wire as openclaw_wire;

    pub(crate) use super::CaseKind::{Empty, Incomplete, Refused, Usual};
    pub(crate) use super::CommandEffect::{WritesFiles, WritesState};
    pub(crate) use super::HelpGroup::*;
    pub(crate) use super::SampleStage::*;
    pub(crate) use super::{
        CommandEntry, HelpPlace, ONE_FILE, ONE_HOME, ONE_PROGRAM, also, answer, empty, example,
        incomplete, refused, stream, usual,
    };
}

/// Declares the commands of a file, as a list of [`CommandEntry`]s.
macro_rules! declare_commands {
    ($($entry:expr),* $(,)?) => {
        pub(in crate::cli) const COMMANDS: &[$crate::cli::registry::CommandEntry] = {
            #[allow(clippy::wildcard_imports, unused_imports, reason = "a declaration reads like a table")]
            use $crate::cli::registry::prelude::*;
            &[$($entry),*]
        };
    };
}

/// The part of an entry that says how the command is read and run: its name, its arguments, and the
/// method that runs it. Without a method it is a family, whose commands are entries of their own;
/// without arguments, the family's arguments read it.
macro_rules! entry {
    ($name:literal, $args:ty, $run:ident) => {
        $crate::cli::registry::CommandEntry {
            parse: Some(|matches| {
                let args = <$args as ::clap::FromArgMatches>::from_arg_matches(matches)?;
                Ok(Box::new(move |context| args.$run(context)))
            }),
            ..entry!($name, $args)
        }
    };
    ($name:literal, $args:ty) => {
        $crate::cli::registry::CommandEntry {
            augment: Some(<$args as ::clap::Args>::augment_args),
            ..entry!($name)
        }
    };
    ($name:literal) => {
        $crate::cli::registry::CommandEntry {
            name: $name,
            ..$crate::cli::registry::CommandEntry::BLANK
        }
    };
}

/// A command whose arguments are read.
pub(crate) type ReadyCommand = Box<dyn Fn(&CliContext) -> Result<ExitCode, Error>>;

/// Reads the arguments of a command.
pub(crate) type ReadArguments = fn(&ArgMatches) -> Result<ReadyCommand, clap::Error>;

/// Everything that is known of a command.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandEntry {
    /// As it is typed, and as the envelope has it: `ls`, `access open`.
    pub(crate) name: &'static str,
    /// Where the help lists it.
    pub(crate) place: HelpPlace,
    /// What it may write.
    pub(crate) effect: CommandEffect,
    /// Its place among agent-tty's commands, from 1; 0 if it is not one of them.
    pub(crate) agent_tty: u8,
    /// Of a family, the command that is meant when none is named; empty if one has to be.
    pub(crate) usual_member: &'static str,
    /// What it prints under `--json`.
    pub(crate) answers: &'static [AnswerSchema],
    /// Shown in its help, and run by a test.
    pub(crate) examples: &'static [CommandExample],
    /// Run by the suites over all commands.
    pub(crate) cases: &'static [CommandCase],
    /// Why there is no case of a kind.
    pub(crate) uncased: &'static [(CaseKind, &'static str)],
    #[serde(skip)]
    pub(crate) augment: Option<fn(clap::Command) -> clap::Command>,
    #[serde(skip)]
    pub(crate) parse: Option<ReadArguments>,
}

impl CommandEntry {
    /// What an entry says if it says nothing.
    pub(crate) const BLANK: Self = Self {
        name: "",
        place: HelpPlace(HelpGroup::SetUp, u8::MAX),
        effect: CommandEffect::Reads,
        agent_tty: 0,
        usual_member: "",
        answers: &[],
        examples: &[],
        cases: &[],
        uncased: &[],
        augment: None,
        parse: None,
    };

    /// The family that it is a command of; `access` of `access open`.
    pub(crate) fn family(&self) -> Option<&'static str> {
        self.name.rsplit_once(' ').map(|(family, _)| family)
    }

    /// The last word of its name.
    pub(crate) fn last_word(&self) -> &'static str {
        self.name.rsplit(' ').next().unwrap_or(self.name)
    }

    /// Its commands, if it is a family.
    pub(crate) fn members(&self) -> impl Iterator<Item = &'static Self> {
        let mut members: Vec<_> =
            all_entries().filter(|one| one.family() == Some(self.name)).collect();
        members.sort_by_key(|one| one.place);
        members.into_iter()
    }
}

/// A heading of the help, and the place below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct HelpPlace(pub(crate) HelpGroup, pub(crate) u8);

/// The headings of the help, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum HelpGroup {
    Everyday,
    See,
    Drive,
    CleanUp,
    Terminals,
    Credentials,
    OpenClaw,
    SetUp,
    /// For programs; no help lists it.
    Internal,
}

impl HelpGroup {
    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Self::Everyday => "Every day",
            Self::See => "See",
            Self::Drive => "Drive",
            Self::CleanUp => "Finish and clean up",
            Self::Terminals => "Terminals",
            Self::Credentials => "Credentials",
            Self::OpenClaw => "OpenClaw",
            Self::SetUp => "Set-up and plumbing",
            Self::Internal => "Internal",
        }
    }
}

/// What a command may write. Caches do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CommandEffect {
    /// Nothing.
    Reads,
    /// What is ostler's own: its store, vault, trash, terminals, access sessions.
    WritesState,
    /// Files of agents and people, as its help says.
    WritesFiles,
}

/// One kind of JSON that a command prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnswerSchema {
    /// What follows the command's name in the name of the schema; mostly nothing.
    pub(crate) suffix: &'static str,
    /// One object per line, without an envelope.
    pub(crate) streams: bool,
    #[serde(skip)]
    pub(crate) schema: fn() -> Schema,
}

/// A result in the envelope.
pub(crate) const fn answer<T: JsonSchema + 'static>() -> AnswerSchema {
    AnswerSchema { suffix: "", streams: false, schema: answer_schema::<T> }
}

/// One object per line; `suffix` is the option that asks for it.
pub(crate) const fn stream<T: JsonSchema>(suffix: &'static str) -> AnswerSchema {
    AnswerSchema { suffix, streams: true, schema: schema_of::<T> }
}

/// The schema of what is written: fields that may be left out are not required.
pub(crate) fn schema_of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    root_schema(settings, &T::json_schema, T::schema_name())
}

/// The schema of a result in the envelope.
fn answer_schema<T: JsonSchema>() -> Schema {
    let name = SuccessEnvelope::<'static, T>::schema_name();
    envelope_schema(SchemaGenerator::subschema_for::<T>, name)
}

/// The schema of the envelope around a result that is described elsewhere. Derived for each result, it was
/// 0.4 MB of the program (docs/decisions/0160-what-the-program-weighs.md); this is compiled once.
fn envelope_schema(result: fn(&mut SchemaGenerator) -> Schema, name: Cow<'static, str>) -> Schema {
    let describe = |generator: &mut SchemaGenerator| {
        let mut envelope = SuccessEnvelope::<'static, Value>::json_schema(generator);
        let mut result = result(generator);
        let fields = envelope.get_mut("properties").and_then(Value::as_object_mut);
        if let Some(field) = fields.and_then(|fields| fields.get_mut("result")) {
            // What the envelope says of the field, beside what the result says of itself.
            if let Value::Object(said) = field.take() {
                result.ensure_object().extend(said);
            }
            *field = result.to_value();
        }
        envelope
    };
    root_schema(SchemaSettings::draft2020_12().for_serialize(), &describe, name)
}

/// What `SchemaGenerator::into_root_schema_for` does for a type that does not contain itself. That function is
/// compiled for each type, this one once.
pub(crate) fn root_schema(
    settings: SchemaSettings,
    describe: &dyn Fn(&mut SchemaGenerator) -> Schema,
    name: Cow<'static, str>,
) -> Schema {
    let mut generator = settings.into_generator();
    let mut schema = describe(&mut generator);
    let definitions = generator.take_definitions(false);
    let object = schema.ensure_object();
    object.entry("title").or_insert_with(|| name.into());
    if let Some(meta_schema) = generator.settings().meta_schema.clone() {
        object.insert("$schema".to_owned(), meta_schema.into());
    }
    if !definitions.is_empty() {
        object.insert("$defs".to_owned(), definitions.into());
    }
    schema
}

/// The home that an example or a case is run in. `ID` in a line is the id of what the home has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SampleStage {
    /// A new user's.
    Fresh,
    /// Every agent has worked here.
    Worked,
    /// The same, with things in it that cannot be read.
    Broken,
    /// A shell runs on a terminal named `build`.
    Terminal,
    /// An idle agent runs on a terminal named `build`.
    Driven,
    /// A new user's, with a program that is run when somebody is needed.
    Notified,
    /// A new user's, with an agent that is installed.
    Installed,
    /// The same, and one of it was launched in a group.
    Grouped,
    /// The same, with a conversation of that agent that no process holds.
    Paused,
    /// An access session is open.
    Access,
    /// OpenClaw has a session store.
    Store,
    /// The same, with an index in the trash.
    Trashed,
    /// An agent reported by hooks and was killed.
    Told,
    /// The same, and its session is in the vault.
    Kept,
    /// A fuse is set.
    Fused,
    /// An agent asks for a permission.
    Asking,
    /// There is a webhook.
    Hooked,
    /// The daemon runs, and is stopped at the end.
    Served,
    /// It needs another machine or a receiver: `crates/net` runs it. `LINE` is what the other side printed.
    Afar,
    /// It needs a person at a terminal: without one it is refused.
    Person,
}

/// A line of the help's examples.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandExample {
    pub(crate) line: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) stage: SampleStage,
}

/// An example that runs in the usual home.
pub(crate) const fn example(line: &'static str, meaning: &'static str) -> CommandExample {
    CommandExample { line, meaning, stage: SampleStage::Worked }
}

impl CommandExample {
    pub(crate) const fn on(self, stage: SampleStage) -> Self {
        Self { stage, ..self }
    }
}

/// What a case shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CaseKind {
    /// Nothing is there.
    Empty,
    /// The usual answer.
    Usual,
    Refused,
    /// A part of the truth could not be read.
    Incomplete,
    /// One more line for the contracts, too long or too changeable for a snapshot.
    Also,
}

/// A command line with the home that it is run in.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandCase {
    pub(crate) kind: CaseKind,
    pub(crate) stage: SampleStage,
    /// Lines that are run before.
    pub(crate) before: &'static [&'static str],
    pub(crate) line: &'static str,
    /// It writes no foreign file, though its command may.
    pub(crate) harmless: bool,
}

impl CommandCase {
    const fn new(kind: CaseKind, stage: SampleStage, line: &'static str) -> Self {
        Self { kind, stage, before: &[], line, harmless: false }
    }

    /// In another home.
    pub(crate) const fn on(self, stage: SampleStage) -> Self {
        Self { stage, ..self }
    }

    /// After these lines.
    pub(crate) const fn after(self, before: &'static [&'static str]) -> Self {
        Self { before, ..self }
    }

    /// Writes no foreign file.
    pub(crate) const fn harmless(self) -> Self {
        Self { harmless: true, ..self }
    }
}

/// A case in an empty home.
pub(crate) const fn empty(line: &'static str) -> CommandCase {
    CommandCase::new(CaseKind::Empty, SampleStage::Fresh, line)
}

/// A case in the usual home.
pub(crate) const fn usual(line: &'static str) -> CommandCase {
    CommandCase::new(CaseKind::Usual, SampleStage::Worked, line)
}

/// A case that is refused.
pub(crate) const fn refused(line: &'static str) -> CommandCase {
    CommandCase::new(CaseKind::Refused, SampleStage::Fresh, line)
}

/// A case in which something cannot be read.
pub(crate) const fn incomplete(line: &'static str) -> CommandCase {
    CommandCase::new(CaseKind::Incomplete, SampleStage::Broken, line)
}

/// A case for the contracts, without a snapshot.
pub(crate) const fn also(line: &'static str) -> CommandCase {
    CommandCase::new(CaseKind::Also, SampleStage::Worked, line)
}

/// Why there is no incomplete case: a thing is asked for that is there or is not.
pub(crate) const ONE_FILE: (CaseKind, &str) =
    (CaseKind::Incomplete, "it is about one thing, which can be read or is an error");

/// Why there is no incomplete case: no agent's files are read.
pub(crate) const ONE_PROGRAM: (CaseKind, &str) =
    (CaseKind::Incomplete, "it reads no agent's files, so none can be unreadable");

/// Why there is no empty case.
pub(crate) const ONE_HOME: (CaseKind, &str) =
    (CaseKind::Empty, "it answers the same in every home");

// The declarations of every file, collected by the build script.
include!(concat!(env!("OUT_DIR"), "/commands.rs"));

/// Every command and every family.
pub(crate) fn all_entries() -> impl Iterator<Item = &'static CommandEntry> {
    DECLARED_COMMANDS.iter().copied().flatten()
}

/// The command of this name.
pub(crate) fn find_entry(name: &str) -> Option<&'static CommandEntry> {
    all_entries().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schema of an answer as schemars derives it.
    fn derived_schema<T: JsonSchema>() -> Schema {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        settings.into_generator().into_root_schema_for::<SuccessEnvelope<'static, T>>()
    }

    #[test]
    fn schemas_of_answers_are_those_that_schemars_derives() {
        use model::wire::{ErrorBody, GcResult, LsResult};

        assert_eq!(answer_schema::<LsResult<'static>>(), derived_schema::<LsResult<'static>>());
        assert_eq!(answer_schema::<GcResult>(), derived_schema::<GcResult>());
        assert_eq!(answer_schema::<Vec<ErrorBody>>(), derived_schema::<Vec<ErrorBody>>());
        assert_eq!(answer_schema::<Option<String>>(), derived_schema::<Option<String>>());
    }
}
