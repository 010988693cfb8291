//! The tool table of the MCP server: every tool is declared once, with its right, its schemas and its work.
//!
//! What a client may list and what it may call are the same table with the same filter, so that a tool
//! that is not granted is neither seen nor run.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::quote;
use super::server::McpCall;
use crate::cli::registry::root_schema;
use crate::config::McpRight;
use crate::error::Error;

mod look;
mod prompt;
mod screens;
mod terminals;
mod totals;

/// What a tool does to the world. Clients are told, and nothing relies on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolEffect {
    Reads,
    Adds,
    Ends,
}

/// An MCP tool: its name, its schemas, and what it does.
trait McpTool {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const RIGHT: Option<McpRight> = None;
    const EFFECT: ToolEffect = ToolEffect::Reads;
    type Input: DeserializeOwned + JsonSchema;
    type Output: Serialize + JsonSchema;

    fn run(state: &McpCall<'_>, input: Self::Input) -> Result<Self::Output, Error>;

    /// A picture to send beside the answer.
    fn picture(_output: &Self::Output) -> Option<Vec<u8>> {
        None
    }
}

/// What a tool gave.
#[derive(Debug)]
pub(super) struct ToolAnswer {
    pub(super) structured: Value,
    pub(super) picture: Option<Vec<u8>>,
}

/// The field that says what quoted fields are. Clients that are given a structured answer show their model
/// that alone, not the text with its fence.
const NOTICE_FIELD: &str = "notice";

/// One line of the table.
pub(super) struct ToolEntry {
    pub(super) name: &'static str,
    pub(super) right: Option<McpRight>,
    describe: fn() -> Tool,
    run: fn(&McpCall<'_>, Value) -> Result<ToolAnswer, Error>,
}

const fn entry<T: McpTool>() -> ToolEntry {
    ToolEntry { name: T::NAME, right: T::RIGHT, describe: describe_tool::<T>, run: run_tool::<T> }
}

/// Every tool there is.
const ALL_TOOLS: &[ToolEntry] = &[
    entry::<look::ListSessions>(),
    entry::<look::GetSession>(),
    entry::<look::ReadTalk>(),
    entry::<look::SearchTalks>(),
    entry::<totals::SumUsage>(),
    entry::<totals::DiskUse>(),
    entry::<totals::CleanUpPlan>(),
    entry::<screens::ReadScreen>(),
    entry::<screens::TakeScreenshot>(),
    entry::<screens::WaitFor>(),
    entry::<terminals::CreateTerminal>(),
    entry::<terminals::RunCommand>(),
    entry::<terminals::TypeText>(),
    entry::<terminals::SendKeys>(),
    entry::<terminals::RunBatch>(),
    entry::<terminals::ResizeTerminal>(),
    entry::<terminals::DestroyTerminal>(),
    entry::<prompt::PromptSession>(),
];

/// The tools that these rights allow.
pub(super) fn granted_tools(rights: &[McpRight]) -> impl Iterator<Item = &'static ToolEntry> {
    ALL_TOOLS.iter().filter(move |tool| tool.right.is_none_or(|right| rights.contains(&right)))
}

impl ToolEntry {
    /// What a client is told of it.
    pub(super) fn describe(&self) -> Tool {
        (self.describe)()
    }

    pub(super) fn run(&self, state: &McpCall<'_>, input: Value) -> Result<ToolAnswer, Error> {
        (self.run)(state, input)
    }
}

fn run_tool<T: McpTool>(state: &McpCall<'_>, input: Value) -> Result<ToolAnswer, Error> {
    let input = serde_json::from_value(input).map_err(|error| {
        Error::usage_error(
            format!("the arguments of `{}` cannot be used: {error}", T::NAME),
            "read the tool's input schema",
        )
    })?;
    let output = T::run(state, input)?;
    let mut structured = serde_json::to_value(&output)
        .map_err(|error| Error::Output(std::io::Error::other(error)))?;
    if quote::has_quoted_fields(&structured)
        && let Value::Object(fields) = &mut structured
    {
        fields.insert(NOTICE_FIELD.to_owned(), quote::QUOTED_NOTICE.into());
    }
    Ok(ToolAnswer { picture: T::picture(&output), structured })
}

fn describe_tool<T: McpTool>() -> Tool {
    let annotations = ToolAnnotations::new()
        .read_only(T::EFFECT == ToolEffect::Reads)
        .destructive(T::EFFECT == ToolEffect::Ends)
        .open_world(false);
    let settings = SchemaSettings::draft2020_12;
    let input = root_schema(settings(), &T::Input::json_schema, T::Input::schema_name());
    let written = settings().for_serialize();
    let output = root_schema(written, &T::Output::json_schema, T::Output::schema_name());
    let mut output = output.to_value();
    if let Some(Value::Object(fields)) = output.get_mut("properties") {
        fields.insert(NOTICE_FIELD.to_owned(), serde_json::json!({ "type": "string" }));
    }
    Tool::new(T::NAME, T::DESCRIPTION, as_object(input.to_value()))
        .with_raw_output_schema(as_object(output))
        .with_annotations(annotations)
}

fn as_object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(mut object) => {
            // An object without fields still has to say that it is one.
            object.entry("type").or_insert_with(|| "object".into());
            Arc::new(object)
        }
        _ => Arc::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_83_without_a_right_only_tools_that_read_are_there() {
        for tool in granted_tools(&[]) {
            let annotations = tool.describe().annotations.unwrap();
            assert_eq!(annotations.read_only_hint, Some(true), "{}", tool.name);
            assert_eq!(annotations.open_world_hint, Some(false), "{}", tool.name);
        }
        assert_eq!(
            granted_tools(&[McpRight::Terminals, McpRight::Prompt]).count(),
            ALL_TOOLS.len()
        );
    }

    /// What another party wrote is in a field whose name says so, in every answer of every tool.
    #[test]
    fn row_85_quoted_text_stands_only_in_quoted_fields() {
        fn check(name: &str, schema: &Value) {
            let Some(object) = schema.as_object() else {
                if let Some(list) = schema.as_array() {
                    list.iter().for_each(|one| check(name, one));
                }
                return;
            };
            if let Some(fields) = object.get("properties").and_then(Value::as_object) {
                for (field, kind) in fields {
                    let quotes = kind.to_string().contains("QuotedText");
                    assert_eq!(quotes, field.starts_with("quoted"), "{name}: {field}: {kind}");
                }
            }
            object.values().for_each(|value| check(name, value));
        }
        for tool in ALL_TOOLS {
            let output = tool.describe().output_schema.unwrap();
            check(tool.name, &Value::Object((*output).clone()));
        }
    }
}
