//! Hooks in JSON, with or without comments. The text is changed by insertions and removals only:
//! nothing of what others wrote is written anew.

use std::collections::BTreeSet;
use std::ops::Range;

use adapters::hooks::HookFileShape;
use jsonc_parser::ast::{Array, Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::command::{self, OstlerCommand};
use super::{EditError, HookEntry, State, Wiring, judge_commands};
use model::edit::layout::{self, JsonLayout, JsonNode};
use model::edit::splice::Splices;

const HOOKS: &str = "hooks";
const VERSION: &str = "version";

/// What agents accept beyond JSON.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// How far ostler's hooks are in a text.
pub(super) fn hooks_state(wiring: &Wiring<'_>, text: &str) -> Result<State, EditError> {
    let Some(root) = parse_root(text)? else { return Ok(State::NotInstalled) };
    let ours = find_own_hooks(wiring, &root)?;
    let expected = |entry: &HookEntry| {
        let same =
            ours.iter().filter(|one| one.event == entry.event && one.is_entry(wiring, entry, text));
        same.count() == 1
    };
    let complete = ours.len() == wiring.entries.len() && wiring.entries.iter().all(expected);
    Ok(judge_commands(ours.iter().map(|one| &one.command), wiring.program, complete))
}

/// The text with ostler's hooks at the end of each event's. `text` must not have any.
pub(super) fn add_hooks(wiring: &Wiring<'_>, text: &str) -> Result<String, EditError> {
    let layout = JsonLayout::of_text(text);
    let Some(root) = parse_root(text)? else {
        let mut members = version_member(wiring);
        members.push((HOOKS.to_owned(), all_events_node(wiring)));
        let separator = if text.trim().is_empty() { "" } else { layout.newline };
        let document = layout.render_node(&JsonNode::Object(members), "", false);
        return Ok(format!("{}{separator}{document}{}", text.trim_end(), layout.newline));
    };
    let mut splices = Splices::default();
    let compact =
        !root.properties.is_empty() && !text[root.range.start..root.range.end].contains('\n');
    let mut to_root = Vec::new();
    if root.get(VERSION).is_none() {
        to_root.extend(version_member(wiring));
    }
    match object_in(&root, HOOKS)? {
        None => to_root.push((HOOKS.to_owned(), all_events_node(wiring))),
        Some(hooks) => {
            let mut missing = Vec::new();
            for entry in &wiring.entries {
                match array_in(hooks, entry.event)? {
                    None => missing.push((entry.event.to_owned(), event_list_node(wiring, entry))),
                    Some(array) => layout.append_elements(
                        &mut splices,
                        &to_container(array.range, array.elements.iter().map(Ranged::range)),
                        &[event_element_node(wiring, entry)],
                        compact,
                    ),
                }
            }
            layout.append_members(&mut splices, &object_container(hooks), missing, compact);
        }
    }
    layout.append_members(&mut splices, &object_container(&root), to_root, compact);
    Ok(splices.apply(text))
}

/// The text without ostler's hooks, and without the lists around them unless `original` had them.
pub(super) fn remove_hooks(
    wiring: &Wiring<'_>,
    text: &str,
    original: Option<&str>,
) -> Result<String, EditError> {
    let Some(root) = parse_root(text)? else { return Ok(text.to_owned()) };
    let Some(hooks) = object_in(&root, HOOKS)? else { return Ok(text.to_owned()) };
    let kept = kept_lists(original);
    let mut splices = Splices::default();
    let mut gone = Vec::new();
    for property in &hooks.properties {
        let name = property.name.as_str();
        let Some(array) = property.value.as_array() else {
            gone.push(false);
            continue;
        };
        let elements: Vec<bool> =
            array.elements.iter().map(|element| is_ours(wiring, element)).collect();
        let whole = !elements.is_empty()
            && elements.iter().all(|ours| *ours)
            && !kept.contains(&format!("{HOOKS}.{name}"));
        gone.push(whole);
        if !whole {
            let place = to_container(array.range, array.elements.iter().map(Ranged::range));
            layout::remove_children(&mut splices, text, &place, &elements);
            for (element, _) in array.elements.iter().zip(&elements).filter(|(_, ours)| !**ours) {
                thin_out(wiring, &mut splices, text, element);
            }
        }
    }
    let all_gone = !gone.is_empty() && gone.iter().all(|gone| *gone) && !kept.contains(HOOKS);
    if all_gone {
        let flags: Vec<bool> =
            root.properties.iter().map(|property| property.name.as_str() == HOOKS).collect();
        // Nothing inside is changed if the whole goes.
        splices = Splices::default();
        layout::remove_children(&mut splices, text, &object_container(&root), &flags);
    } else {
        layout::remove_children(&mut splices, text, &object_container(hooks), &gone);
    }
    Ok(splices.apply(text))
}

/// Whether nothing is left that anybody could have wanted.
pub(super) fn is_blank(text: &str) -> bool {
    match parse_root(text) {
        Ok(Some(root)) => {
            let braces = text.trim();
            let bare = braces.starts_with('{') && !braces.contains("//") && !braces.contains("/*");
            bare && root.properties.iter().all(|property| property.name.as_str() == VERSION)
        }
        Ok(None) => text.trim().is_empty(),
        Err(_) => false,
    }
}

/// Where each of ostler's hooks stands: event, position of the group and in it.
pub(super) fn hook_positions(
    wiring: &Wiring<'_>,
    text: &str,
) -> Result<Vec<(String, usize, usize)>, EditError> {
    let Some(root) = parse_root(text)? else { return Ok(Vec::new()) };
    Ok(find_own_hooks(wiring, &root)?
        .into_iter()
        .map(|one| (one.event, one.group, one.index))
        .collect())
}

/// One hook of ostler's in a document.
struct FoundHook {
    event: String,
    group: usize,
    index: usize,
    command: OstlerCommand,
    /// The whole element of the event's list.
    element: Range<usize>,
}

impl FoundHook {
    fn is_entry(&self, wiring: &Wiring<'_>, entry: &HookEntry, text: &str) -> bool {
        let written: Option<serde_json::Value> =
            jsonc_parser::parse_to_serde_value(&text[self.element.clone()], &OPTIONS).ok();
        written.is_some_and(|written| written == event_element_node(wiring, entry).to_value())
    }
}

fn parse_root(text: &str) -> Result<Option<Object<'_>>, EditError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS)?;
    match parsed.value {
        None => Ok(None),
        Some(Value::Object(root)) => Ok(Some(root)),
        Some(_) => Err(EditError::wrong_shape("the document is not an object")),
    }
}

fn member_once<'a, 'b>(
    object: &'b Object<'a>,
    name: &str,
) -> Result<Option<&'b Value<'a>>, EditError> {
    let mut found = object.properties.iter().filter(|property| property.name.as_str() == name);
    let first = found.next();
    if found.next().is_some() {
        return Err(EditError::wrong_shape(format!("`{name}` is there twice")));
    }
    Ok(first.map(|property| &property.value))
}

fn object_in<'a, 'b>(
    object: &'b Object<'a>,
    name: &str,
) -> Result<Option<&'b Object<'a>>, EditError> {
    let wrong = || EditError::wrong_shape(format!("`{name}` is not an object"));
    member_once(object, name)?.map(|value| value.as_object().ok_or_else(wrong)).transpose()
}

fn array_in<'a, 'b>(
    object: &'b Object<'a>,
    name: &str,
) -> Result<Option<&'b Array<'a>>, EditError> {
    let wrong = || EditError::wrong_shape(format!("`{HOOKS}.{name}` is not a list"));
    member_once(object, name)?.map(|value| value.as_array().ok_or_else(wrong)).transpose()
}

fn to_container(
    range: jsonc_parser::common::Range,
    children: impl Iterator<Item = jsonc_parser::common::Range>,
) -> layout::JsonContainer {
    layout::JsonContainer {
        range: range.start..range.end,
        children: children.map(|child| child.start..child.end).collect(),
    }
}

fn object_container(object: &Object<'_>) -> layout::JsonContainer {
    to_container(object.range, object.properties.iter().map(|property| property.range))
}

/// The program of the first hook of ostler's.
pub(super) fn hooked_program(wiring: &Wiring<'_>, text: &str) -> Result<Option<String>, EditError> {
    let Some(root) = parse_root(text)? else { return Ok(None) };
    let first = find_own_hooks(wiring, &root)?.into_iter().next();
    Ok(first.map(|hook| hook.command.program))
}

/// Every hook of ostler's in the document.
fn find_own_hooks(wiring: &Wiring<'_>, root: &Object<'_>) -> Result<Vec<FoundHook>, EditError> {
    let mut found = Vec::new();
    let Some(hooks) = object_in(root, HOOKS)? else { return Ok(found) };
    for property in &hooks.properties {
        let event = property.name.as_str();
        let Some(array) = property.value.as_array() else { continue };
        for (group, element) in array.elements.iter().enumerate() {
            for (index, hook) in inner_hooks(wiring, element).into_iter().enumerate() {
                if let Some(command) = command_of(wiring, hook) {
                    let range = element.range();
                    let element = range.start..range.end;
                    found.push(FoundHook {
                        event: event.to_owned(),
                        group,
                        index,
                        command,
                        element,
                    });
                }
            }
        }
    }
    Ok(found)
}

/// The hooks in one element of an event's list.
fn inner_hooks<'a, 'b>(wiring: &Wiring<'_>, element: &'b Value<'a>) -> Vec<&'b Value<'a>> {
    match wiring.shape {
        HookFileShape::Groups { .. } => {
            let group = element.as_object().and_then(|group| group.get_array(HOOKS));
            group.map_or_else(Vec::new, |group| group.elements.iter().collect())
        }
        _ => vec![element],
    }
}

fn command_of(wiring: &Wiring<'_>, hook: &Value<'_>) -> Option<OstlerCommand> {
    let key = match wiring.shape {
        HookFileShape::Flat { command, .. } => command,
        _ => "command",
    };
    command::parse_command(&hook.as_object()?.get_string(key)?.value, wiring.agent)
}

/// Whether an element of an event's list holds nothing but hooks of ostler's.
fn is_ours(wiring: &Wiring<'_>, element: &Value<'_>) -> bool {
    let hooks = inner_hooks(wiring, element);
    !hooks.is_empty() && hooks.iter().all(|hook| command_of(wiring, hook).is_some())
}

/// Takes ostler's hooks out of a group that has others too.
fn thin_out(wiring: &Wiring<'_>, splices: &mut Splices, text: &str, element: &Value<'_>) {
    let group = element.as_object().and_then(|group| group.get_array(HOOKS));
    let Some(group) = group.filter(|_| matches!(wiring.shape, HookFileShape::Groups { .. })) else {
        return;
    };
    let flags: Vec<bool> =
        group.elements.iter().map(|hook| command_of(wiring, hook).is_some()).collect();
    let place = to_container(group.range, group.elements.iter().map(Ranged::range));
    layout::remove_children(splices, text, &place, &flags);
}

/// The lists that a document had before ostler's hooks came.
fn kept_lists(original: Option<&str>) -> BTreeSet<String> {
    let mut kept = BTreeSet::new();
    let Some(Ok(Some(root))) = original.map(parse_root) else { return kept };
    let Ok(Some(hooks)) = object_in(&root, HOOKS) else { return kept };
    kept.insert(HOOKS.to_owned());
    kept.extend(
        hooks.properties.iter().map(|property| format!("{HOOKS}.{}", property.name.as_str())),
    );
    kept
}

/// The version that files of some agents state.
fn version_member(wiring: &Wiring<'_>) -> Vec<(String, JsonNode)> {
    let states = matches!(wiring.shape, HookFileShape::Flat { .. });
    states.then(|| (VERSION.to_owned(), JsonNode::Number(1))).into_iter().collect()
}

fn all_events_node(wiring: &Wiring<'_>) -> JsonNode {
    let events = wiring
        .entries
        .iter()
        .map(|entry| (entry.event.to_owned(), event_list_node(wiring, entry)))
        .collect();
    JsonNode::Object(events)
}

fn event_list_node(wiring: &Wiring<'_>, entry: &HookEntry) -> JsonNode {
    JsonNode::Array(vec![event_element_node(wiring, entry)])
}

/// What is added to an event's list.
fn event_element_node(wiring: &Wiring<'_>, entry: &HookEntry) -> JsonNode {
    let member = |key: &str, node: JsonNode| (key.to_owned(), node);
    let kind = || member("type", JsonNode::Text("command".to_owned()));
    let command = JsonNode::Text(entry.command.clone());
    match wiring.shape {
        HookFileShape::Flat { command: key, timeout, typed } => {
            let mut members: Vec<_> = typed.then(kind).into_iter().collect();
            members.push(member(key, command));
            members.push(member(timeout, JsonNode::Number(entry.seconds)));
            JsonNode::Object(members)
        }
        shape => {
            let per_second = match shape {
                HookFileShape::Groups { per_second } => per_second,
                _ => 1,
            };
            let timeout = JsonNode::Number(entry.seconds * per_second);
            let hook = vec![kind(), member("command", command), member("timeout", timeout)];
            JsonNode::Object(vec![member(HOOKS, JsonNode::Array(vec![JsonNode::Object(hook)]))])
        }
    }
}

#[cfg(test)]
mod tests {
    use jsonc_parser::cst::CstRootNode;

    use super::*;

    /// Why this editor is there: docs/decisions/0100-a-json-editor-of-our-own.md.
    #[test]
    fn a_neighbours_comment_stays_where_the_librarys_editor_removes_it() {
        let text = "{\"list\": [\"theirs\", /* ask Ann before you change theirs */ \"ours\"]}";
        let root = parse_root(text).unwrap().unwrap();
        let list = root.get_array("list").unwrap();
        let place = to_container(list.range, list.elements.iter().map(Ranged::range));
        let mut splices = Splices::default();
        layout::remove_children(&mut splices, text, &place, &[false, true]);
        let edited = splices.apply(text);
        assert!(edited.contains("ask Ann") && !edited.contains("ours"), "{edited}");

        let tree = CstRootNode::parse(text, &OPTIONS).unwrap();
        let list = tree.object_value().unwrap().array_value("list").unwrap();
        list.elements().pop().unwrap().remove();
        let edited = tree.to_string();
        assert!(!edited.contains("ask Ann") && !edited.contains("ours"), "{edited}");
    }
}
