//! `ostler schema`

use std::process::ExitCode;

use clap::Args;
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use model::wire;
use schemars::Schema;
use serde_json::{Map, Value};

use crate::api::openapi_document;
use crate::cli::registry::{AnswerSchema, all_entries, schema_of};
use crate::cli::{CliContext, served};
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(SetUp, 6),
    examples: &[
        example("schema ls", "What `ostler ls --json` prints, as JSON Schema."),
        example("schema --openapi", "The routes of the HTTP API.")
    ],
    cases: &[
        usual("schema version"),
        refused("schema nothing"),
        refused("schema --openapi ls"),
        also("schema"),
        also("schema --openapi")
    ],
    uncased: &[ONE_HOME, ONE_PROGRAM],
    ..entry!("schema", SchemaArgs, run_schema)
}];

/// Print the JSON Schema of every `--json` result, or of one command's.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The command, e.g. `ls`; `error` is the error envelope, `logs -f` a line of that stream.
    #[arg(add = ArgValueCandidates::new(complete_schemas))]
    command: Option<String>,
    /// The OpenAPI document of the HTTP API instead.
    #[arg(long, conflicts_with = "command")]
    openapi: bool,
}

fn complete_schemas() -> Vec<CompletionCandidate> {
    let one_word = list_schemas().into_iter().map(|(name, _)| name);
    one_word.filter(|name| !name.contains(' ')).map(CompletionCandidate::new).collect()
}

/// Everything that is printed as JSON, by command.
pub(crate) fn list_schemas() -> Vec<(String, Schema)> {
    let answers = all_entries().flat_map(|entry| {
        let named =
            |answer: &AnswerSchema| (format!("{}{}", entry.name, answer.suffix), (answer.schema)());
        entry.answers.iter().map(named)
    });
    let error = ("error".to_owned(), schema_of::<wire::ErrorEnvelope<'static>>());
    answers.chain([error]).collect()
}

impl SchemaArgs {
    pub(crate) fn run_schema(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let mut all = list_schemas();
        let answer = match &self.command {
            None if self.openapi => openapi_document(&served::COMMAND_RUNNER),
            None => Value::Object(
                all.into_iter()
                    .map(|(name, schema)| (name, schema.to_value()))
                    .collect::<Map<_, _>>(),
            ),
            Some(name) => {
                let index = all.iter().position(|(one, _)| one == name).ok_or_else(|| {
                    Error::usage_error(
                        format!("no JSON result is called `{name}`"),
                        "name a command as it is typed, such as `ls` or `access open`; `ostler schema` \
                         prints all of them by name",
                    )
                })?;
                all.swap_remove(index).1.to_value()
            }
        };
        if context.json {
            context.print_json(answer)?;
        } else {
            output::print_text(&(serde_json::to_string_pretty(&answer)? + "\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
