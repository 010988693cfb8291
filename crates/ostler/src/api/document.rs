//! The OpenAPI document (3.1), from the route table and the schemas of the commands.

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::reply::{ApiReply, typed_reply};
use super::route::{ApiRight, ApiRoute, FieldUse, RouteField, RouteFieldPlace, RouteWork};
use super::routes::ROUTES;
use super::run::CommandRunner;

/// The document as it is served.
pub(crate) fn document_reply(runner: &CommandRunner) -> ApiReply {
    let document = serde_json::to_vec(&openapi_document(runner)).unwrap_or_default();
    typed_reply(StatusCode::OK, "application/json", document.into())
}

pub(crate) fn openapi_document(runner: &CommandRunner) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let mut schemas: Map<String, Value> = Map::new();
    if let Some(error) = (runner.schema)("error") {
        schemas.insert("error".to_owned(), component_schema("error", error.to_value()));
    }
    for route in ROUTES {
        if let Some((name, _)) = answer_schema_name(route)
            && let Some(schema) = (runner.schema)(&name)
        {
            let key = component_name(&name);
            let schema = component_schema(&key, schema.to_value());
            schemas.insert(key, schema);
        }
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Value::Object(methods) = path {
            methods.insert(route.method.to_lowercase(), operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "ostler",
            "summary": "Every AI coding agent session on this machine.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "tab": { "type": "http", "scheme": "bearer",
                         "description": "The token of a tab; not needed on the daemon's socket." },
            },
        },
    })
}

/// The name of the schema of an answer, and the type of its content.
fn answer_schema_name(route: &ApiRoute) -> Option<(String, &'static str)> {
    let name = |words: &[&str]| {
        words
            .iter()
            .copied()
            .take_while(|word| !word.starts_with('-'))
            .collect::<Vec<_>>()
            .join(" ")
    };
    match route.work {
        RouteWork::Command(words) => {
            let forms = ["--blocks", "--series"];
            let suffix = words.iter().find(|word| forms.contains(word));
            let suffix = suffix.map(|form| format!(" {form}")).unwrap_or_default();
            Some((name(words) + &suffix, "application/json"))
        }
        RouteWork::Lines(words, suffix) => Some((name(words) + suffix, "application/x-ndjson")),
        RouteWork::File(..) | RouteWork::Door(_) => None,
    }
}

fn operation(route: &ApiRoute) -> Value {
    let fields = |place| route.fields.iter().filter(move |field| field.place == place);
    let parameters: Vec<Value> = fields(RouteFieldPlace::Path)
        .map(|field| parameter(field, "path"))
        .chain(fields(RouteFieldPlace::Query).map(|field| parameter(field, "query")))
        .collect();
    let content = match route.work {
        RouteWork::File(_, kind) => json!({ kind: { "schema": { "type": "string" } } }),
        RouteWork::Door(_) => json!({ "application/json": { "schema": { "type": "object" } } }),
        _ => match answer_schema_name(route) {
            Some((name, kind)) => {
                let target = format!("#/components/schemas/{}", component_name(&name));
                json!({ kind: { "schema": { "$ref": target } } })
            }
            None => json!({}),
        },
    };
    let failure = json!({
        "description": "An error, in the envelope of the command line.",
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/error" } } },
    });
    let mut operation = json!({
        "summary": route.meaning,
        "operationId": operation_id(route),
        "parameters": parameters,
        "responses": { "200": { "description": "The answer.", "content": content }, "default": failure },
        "x-right": route.right.as_str(),
    });
    if route.right != ApiRight::Anybody {
        operation["security"] = json!([{ "tab": [] }]);
    }
    if fields(RouteFieldPlace::Body).next().is_some() {
        let properties: Map<String, Value> = fields(RouteFieldPlace::Body)
            .map(|field| (field.name.to_owned(), field_schema(field)))
            .collect();
        let required: Vec<&str> = fields(RouteFieldPlace::Body)
            .filter(|field| field.required)
            .map(|field| field.name)
            .collect();
        operation["requestBody"] = json!({
            "required": !required.is_empty(),
            "content": { "application/json": { "schema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            } } },
        });
    }
    operation
}

fn operation_id(route: &ApiRoute) -> String {
    let words = route.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.filter(|word| !["v1", "id"].contains(word)).collect();
    format!("{}-{}", route.method.to_lowercase(), words.join("-"))
}

fn parameter(field: &RouteField, place: &str) -> Value {
    json!({
        "name": field.name,
        "in": place,
        "required": field.required,
        "description": field.meaning,
        "schema": field_schema(field),
    })
}

fn field_schema(field: &RouteField) -> Value {
    let mut schema = match field.used {
        FieldUse::Flag(_) => json!({ "type": "boolean" }),
        FieldUse::Count(_, most) | FieldUse::CountUnless(_, most, _) | FieldUse::UpTo(_, most) => {
            json!({ "type": "integer", "minimum": 1, "maximum": most })
        }
        FieldUse::Words | FieldUse::Each(_) => {
            json!({ "type": "array", "items": { "type": "string" } })
        }
        FieldUse::Opt(_) if field.place == RouteFieldPlace::Body => {
            json!({ "type": ["string", "number", "array"] })
        }
        _ => json!({ "type": "string" }),
    };
    schema["description"] = Value::String(field.meaning.to_owned());
    schema
}

/// What a component may be called: letters, digits, dashes.
fn component_name(name: &str) -> String {
    name.replace(" --", "-").replace(' ', "-")
}

/// A schema as a component: what it refers to in itself is found from the document's root.
fn component_schema(name: &str, mut schema: Value) -> Value {
    move_references(&mut schema, &format!("#/components/schemas/{name}/$defs/"));
    if let Value::Object(fields) = &mut schema {
        fields.remove("$schema");
    }
    schema
}

fn move_references(value: &mut Value, place: &str) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match inner {
                    Value::String(target) if name == "$ref" => {
                        if let Some(rest) = target.strip_prefix("#/$defs/") {
                            *target = format!("{place}{rest}");
                        }
                    }
                    _ => move_references(inner, place),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| move_references(item, place)),
        _ => {}
    }
}
