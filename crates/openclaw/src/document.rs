//! JSON5 as OpenClaw reads it, and taking things out of it without writing the rest anew.

use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Value};

use model::edit::EditError;
use model::edit::layout::{self, JsonContainer};
use model::edit::splice::Splices;

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: true,
    allow_hexadecimal_numbers: true,
    allow_unary_plus_numbers: true,
    allow_bare_decimal_point_numbers: true,
    allow_non_finite_numbers: true,
    allow_extended_string_escapes: true,
};

/// The value of a text. A name that is there twice is refused: readers differ in which one counts.
pub(super) fn parse_json5(text: &str) -> Result<Value, EditError> {
    with_root(text, |root| node_value(root, ""))?
}

fn with_root<T>(text: &str, use_it: impl FnOnce(&Node<'_>) -> T) -> Result<T, EditError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS)?;
    let root = parsed.value.ok_or_else(|| EditError::wrong_shape("it is empty"))?;
    Ok(use_it(&root))
}

fn node_value(node: &Node<'_>, place: &str) -> Result<Value, EditError> {
    Ok(match node {
        Node::StringLit(text) => text.value.as_ref().into(),
        Node::NumberLit(number) => self::parse_number(number.value),
        Node::BooleanLit(flag) => flag.value.into(),
        Node::NullKeyword(_) => Value::Null,
        Node::Object(object) => {
            let mut map = Map::new();
            for property in &object.properties {
                let name = property.name.as_str();
                let place =
                    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
                let inner = node_value(&property.value, &place)?;
                if map.insert(name.to_owned(), inner).is_some() {
                    return Err(EditError::wrong_shape(format!("`{place}` is there twice")));
                }
            }
            Value::Object(map)
        }
        Node::Array(array) => {
            let elements = array.elements.iter().enumerate();
            elements
                .map(|(index, element)| node_value(element, &format!("{place}[{index}]")))
                .collect::<Result<_, _>>()?
        }
    })
}

/// JSON5 knows more numbers than JSON: hexadecimal ones, a leading `+`, bare points.
fn parse_number(text: &str) -> Value {
    if let Ok(number) = serde_json::from_str::<serde_json::Number>(text) {
        return number.into();
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let parsed = match hexadecimal {
        Some(hexadecimal) => i64::from_str_radix(hexadecimal, 16).ok(),
        None => digits.parse().ok(),
    };
    let sign = if negative { -1 } else { 1 };
    match parsed {
        Some(whole) => Value::from(i64::from(sign) * whole),
        // What is not finite has no place in JSON.
        None => digits.parse::<f64>().map_or(Value::Null, |n| Value::from(f64::from(sign) * n)),
    }
}

/// What is taken out of a list or an object.
#[derive(Debug)]
pub(super) enum TakenOut {
    /// One mark for each element of a list.
    Elements(Vec<bool>),
    /// Members of an object, by name.
    Members(Vec<String>),
}

impl TakenOut {
    fn is_empty(&self) -> bool {
        match self {
            Self::Elements(marked) => !marked.contains(&true),
            Self::Members(names) => names.is_empty(),
        }
    }
}

/// Takes elements out of lists and members out of objects, each named by the members that lead to it. What
/// comes out is read again, and given back only if nothing else is missing from it.
pub(super) fn remove_elements(
    text: &str,
    cuts: &[(&[&str], TakenOut)],
) -> Result<String, EditError> {
    let mut expected = parse_json5(text)?;
    for (path, taken) in cuts {
        let place = path.iter().try_fold(&mut expected, |value, name| value.get_mut(name));
        match (place, taken) {
            (Some(Value::Array(list)), TakenOut::Elements(marked)) => {
                let mut marked = marked.iter();
                list.retain(|_| marked.next() != Some(&true));
            }
            (Some(Value::Object(map)), TakenOut::Members(names)) => {
                map.retain(|name, _| !names.contains(name));
            }
            _ => {}
        }
    }
    let after = cut_elements(text, cuts)?;
    if parse_json5(&after)? == expected {
        return Ok(after);
    }
    Err(EditError::wrong_shape("it is written in a way that cannot be changed safely"))
}

fn cut_elements(text: &str, cuts: &[(&[&str], TakenOut)]) -> Result<String, EditError> {
    with_root(text, |root| {
        let mut splices = Splices::default();
        for (path, taken) in cuts.iter().filter(|(_, taken)| !taken.is_empty()) {
            let (place, marked) = place_at(root.as_object(), path, taken)
                .filter(|(place, marked)| place.children.len() == marked.len())
                .ok_or_else(|| {
                    EditError::wrong_shape(format!("`{}` is not a list", path.join(".")))
                })?;
            layout::remove_children(&mut splices, text, &place, &marked);
        }
        Ok(splices.apply(text))
    })?
}

/// Where the container is, and which of its children go.
fn place_at(
    root: Option<&Object<'_>>,
    path: &[&str],
    taken: &TakenOut,
) -> Option<(JsonContainer, Vec<bool>)> {
    let (last, above) = path.split_last()?;
    let mut object = root?;
    for name in above {
        object = object.get_object(name)?;
    }
    let range = |range: jsonc_parser::common::Range| range.start..range.end;
    match taken {
        TakenOut::Elements(marked) => {
            let list = object.get_array(last)?;
            let children = list.elements.iter().map(|element| range(element.range())).collect();
            Some((JsonContainer { range: range(list.range), children }, marked.clone()))
        }
        TakenOut::Members(names) => {
            let members = object.get_object(last)?;
            let goes = |name: &str| names.iter().any(|one| one == name);
            let marked = members.properties.iter().map(|it| goes(it.name.as_str())).collect();
            let children = members.properties.iter().map(|it| range(it.range)).collect();
            Some((JsonContainer { range: range(members.range), children }, marked))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json5_is_understood() {
        let text = "// c\n{ a: 'x', \"b\": [1, 0x10, +2, .5,], /* d */ c: null, }\n";
        let expected = serde_json::json!({ "a": "x", "b": [1, 16, 2, 0.5], "c": null });
        assert_eq!(parse_json5(text).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let wrong = |text: &str| parse_json5(text).unwrap_err().to_string();
        assert_eq!(wrong("{\n  a: 1\n  b: 2\n}"), "line 2, column 7: Expected comma");
        assert_eq!(wrong("{ a: { b: 1, b: 2 } }"), "`a.b` is there twice");
        assert_eq!(wrong("  // nothing\n"), "it is empty");
        assert!(wrong(&"[".repeat(10_000)).contains("epth"));
    }

    #[test]
    fn what_is_taken_out_takes_nothing_else_along() {
        let text = "{\n  // first\n  list: [\n    'a', // one\n    'b',\n    'c', // three\n  ],\n  x: 1,\n}\n";
        let after =
            remove_elements(text, &[(&["list"], TakenOut::Elements(vec![false, true, false]))])
                .unwrap();
        assert_eq!(
            after,
            "{\n  // first\n  list: [\n    'a', // one\n    'c', // three\n  ],\n  x: 1,\n}\n"
        );
        assert_eq!(
            remove_elements(text, &[(&["list"], TakenOut::Elements(vec![false; 3]))]).unwrap(),
            text
        );
        // The line break between two that go ends the comment before them.
        let swallowing = "{ list: [ // a\n1,\n    2 /* b */] }";
        let after =
            remove_elements(swallowing, &[(&["list"], TakenOut::Elements(vec![true, true]))])
                .unwrap();
        assert_eq!(after, "{ list: [ // a\n /* b */] }");
        assert!(remove_elements(text, &[(&["lost"], TakenOut::Elements(vec![true]))]).is_err());
    }

    #[test]
    fn p4_a_member_that_is_taken_out_takes_nothing_else_along() {
        let text = "{\n  crew: {\n    // boss\n    main: {},\n    ops: { a: 1 }, // gone\n    lab: {},\n  },\n}\n";
        let gone = || vec![(&["crew"][..], TakenOut::Members(vec!["ops".into()]))];
        let after = remove_elements(text, &gone()).unwrap();
        assert!(parse_json5(&after).unwrap()["crew"].get("ops").is_none());
        assert!(after.contains("// boss\n    main: {},") && after.contains("lab: {},"), "{after}");
        let only = remove_elements("{ crew: { ops: 1 } }", &gone()).unwrap();
        assert_eq!(parse_json5(&only).unwrap(), serde_json::json!({ "crew": {} }));
    }

    use proptest::prelude::*;

    /// What may stand between two elements, before and after the comma.
    fn gap() -> impl Strategy<Value = &'static str> {
        let gaps = ["", " ", "\n    ", " // a, ]\n", " /* b */ ", "\r\n\t", " // c\n // d\n  "];
        proptest::sample::select(gaps.to_vec())
    }

    fn element() -> impl Strategy<Value = &'static str> {
        let elements = ["1", "'a, b'", "\"]\"", "{ id: 'x', y: [1, 2,], }", "[ /* e */ ]", "null"];
        proptest::sample::select(elements.to_vec())
    }

    proptest! {
        #[test]
        fn whatever_is_taken_out_everything_else_is_still_there(
            elements in proptest::collection::vec((gap(), element(), gap(), any::<bool>()), 0..6),
            end in gap(),
            trailing in any::<bool>(),
        ) {
            let mut text = "{ /* head */ list: [".to_owned();
            for (index, (before, element, after, _)) in elements.iter().enumerate() {
                let last = index + 1 == elements.len();
                let comma = if !last || trailing { "," } else { "" };
                text.push_str(&format!("{before}{element}{after}{comma}"));
            }
            text.push_str(&format!("{end}], tail: 'list: []' }} // foot\n"));
            let marked: Vec<bool> = elements.iter().map(|(.., goes)| *goes).collect();
            let after = remove_elements(&text, &[(&["list"], TakenOut::Elements(marked))]).unwrap();
            let (head, foot) = ("{ /* head */ list: [", "], tail: 'list: []' } // foot\n");
            prop_assert!(after.starts_with(head) && after.ends_with(foot), "{}", after);
            for comment in ["// a, ]", "/* b */", "// c", "// d"] {
                let count = |text: &str| text.matches(comment).count();
                prop_assert_eq!(count(&text), count(&after), "{:?} {:?}", &text, &after);
            }
        }
    }
}
