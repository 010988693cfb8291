//! One field of an object changed, and no other byte of it.

use std::fmt;
use std::ops::Range;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::view::BorrowedText;

/// An object whose field has this text for a value. A field that is written twice is changed twice, so
/// that all readers see the same; one that is not there is not added.
pub(super) fn with_text(object: &str, field: &str, text: &str) -> String {
    let value = serde_json::Value::from(text).to_string();
    let mut patched = String::with_capacity(object.len() + value.len());
    let mut from = 0;
    for place in field_ranges(object, field) {
        patched.push_str(&object[from..place.start]);
        patched.push_str(&value);
        from = place.end;
    }
    patched.push_str(&object[from..]);
    patched
}

/// Where the values of a field stand.
fn field_ranges(object: &str, field: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut json = serde_json::Deserializer::from_str(object);
    match json.deserialize_map(Places { object, field, places: &mut places }) {
        Ok(()) => places,
        // What is no object has no fields.
        Err(_) => Vec::new(),
    }
}

struct Places<'d, 'a> {
    object: &'a str,
    field: &'d str,
    places: &'d mut Vec<Range<usize>>,
}

impl<'a> Visitor<'a> for Places<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        let base = self.object.as_ptr() as usize;
        while let Some(name) = map.next_key::<BorrowedText<'a>>()? {
            if name.0 == self.field {
                // The value is a part of the object.
                let value = map.next_value::<&'a RawValue>()?.get();
                let start = value.as_ptr() as usize - base;
                self.places.push(start..start + value.len());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_else_is_touched() {
        let odd =
            "{ \"sessionFile\" :\t\"/old\\u002fx\" ,\"x\":{\"sessionFile\":1},\n\"n\":1.0e2 }";
        let expected =
            "{ \"sessionFile\" :\t\"/a \\\"b\\\"\" ,\"x\":{\"sessionFile\":1},\n\"n\":1.0e2 }";
        assert_eq!(with_text(odd, "sessionFile", "/a \"b\""), expected);
        let twice = r#"{"f":1,"f":[2]}"#;
        assert_eq!(with_text(twice, "f", "x"), r#"{"f":"x","f":"x"}"#);
        assert_eq!(with_text(r#"{"\u0066":null}"#, "f", "x"), r#"{"\u0066":"x"}"#);
        for without in ["{}", "null", r#"{"g":1}"#, r#"{"f":"#] {
            assert_eq!(with_text(without, "f", "x"), without);
        }
    }

    proptest! {
        #[test]
        fn the_value_is_the_same_but_for_the_field(
            names in prop::collection::btree_set("[a-f\"\\\\é]{1,2}", 1..6),
            at in any::<prop::sample::Index>(),
            text in "[ -~é\\n]{0,12}",
            pretty in any::<bool>(),
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let field = at.get(&names);
            let mut value = serde_json::json!({});
            for (index, name) in names.iter().enumerate() {
                value[name] = serde_json::json!([index, { name: name }]);
            }
            let object = if pretty { format!("{value:#}") } else { value.to_string() };
            let patched = with_text(&object, field, &text);
            value[field] = text.into();
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&patched).unwrap(), value);
        }
    }
}
