//! JSON text: the pretty-printer of every answer, and values read again from their own text.
//!
//! A type is compiled once more for every serialiser that writes it and every reader that it is read by
//! (docs/decisions/0201-one-serialiser.md). So ours go into bytes and come from bytes, and what is wanted as a
//! tree of values takes the way by text.

use std::io::{self, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

use crate::wire::{PlannedItem, SessionView};

/// The indentation of every answer; it can begin inside an object written elsewhere.
struct Indented {
    depth: usize,
    has_value: bool,
}

/// A comma, a line break and as much indentation as nearly every answer needs.
const LINE_LEAD: [u8; 66] = {
    let mut lead = [b' '; 66];
    lead[0] = b',';
    lead[1] = b'\n';
    lead
};

impl Indented {
    /// Begins a line, after a comma if `from` is 0: one piece of text instead of three.
    #[inline]
    fn begin_line<W: ?Sized + Write>(&self, out: &mut W, from: usize) -> io::Result<()> {
        let end = 2 + 2 * self.depth;
        out.write_all(&LINE_LEAD[from..end.min(LINE_LEAD.len())])?;
        for _ in LINE_LEAD.len()..end {
            out.write_all(b" ")?;
        }
        Ok(())
    }

    fn break_line<W: ?Sized + Write>(&self, out: &mut W) -> io::Result<()> {
        self.begin_line(out, 1)
    }

    fn open_bracket<W: ?Sized + Write>(&mut self, out: &mut W, bracket: u8) -> io::Result<()> {
        self.depth += 1;
        self.has_value = false;
        out.write_all(&[bracket])
    }

    fn close_bracket<W: ?Sized + Write>(&mut self, out: &mut W, bracket: u8) -> io::Result<()> {
        self.depth -= 1;
        if self.has_value {
            self.break_line(out)?;
        }
        out.write_all(&[bracket])
    }

    fn separate_items<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.begin_line(out, usize::from(first))
    }
}

impl Formatter for Indented {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open_bracket(out, b'[')
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close_bracket(out, b']')
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate_items(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open_bracket(out, b'{')
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close_bracket(out, b'}')
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate_items(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }
}

/// Appends a value.
pub fn write_pretty<T: Serialize>(out: &mut Vec<u8>, value: &T) -> serde_json::Result<()> {
    let indented = Indented { depth: 0, has_value: false };
    value.serialize(&mut Serializer::with_formatter(out, indented))
}

/// Appends a further element of an array that stands `depth` deep: a comma, a line break, the element.
pub fn write_element<T: Serialize>(
    out: &mut Vec<u8>,
    element: &T,
    depth: usize,
) -> serde_json::Result<()> {
    let mut indented = Indented { depth, has_value: false };
    indented.separate_items(out, false).map_err(serde_json::Error::io)?;
    element.serialize(&mut Serializer::with_formatter(out, indented))
}

/// [`write_element`] of a session. There may be ten thousand: compiled here, it is as fast as this crate is,
/// however the command line is compiled.
pub fn write_session_element(
    out: &mut Vec<u8>,
    session: &SessionView<'_>,
    depth: usize,
) -> serde_json::Result<()> {
    write_element(out, session, depth)
}

/// [`write_element`] of a line of a plan.
pub fn write_plan_element(
    out: &mut Vec<u8>,
    item: &PlannedItem,
    depth: usize,
) -> serde_json::Result<()> {
    write_element(out, item, depth)
}

/// Appends the line break before the end of an array that stands `depth` deep.
pub fn end_elements(out: &mut Vec<u8>, depth: usize) -> serde_json::Result<()> {
    let indented = Indented { depth: depth - 1, has_value: true };
    indented.break_line(out).map_err(serde_json::Error::io)
}

/// A value as a tree, by way of its text.
pub fn to_json_value<T: Serialize>(value: &T) -> serde_json::Result<Value> {
    serde_json::from_slice(&serde_json::to_vec(value)?)
}

/// A tree as a value, by way of its text.
pub fn from_json_value<T: DeserializeOwned>(tree: &Value) -> serde_json::Result<T> {
    serde_json::from_slice(&serde_json::to_vec(tree)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_indented_as_everybody_else_does() {
        for value in [
            json!({}),
            json!([]),
            json!({"a": [], "b": {}, "c": [1, [2, {"d": "\n\"[]"}]], "e": {"f": null}}),
            json!([{"a": {"b": {"c": [[[]]]}}}, "x"]),
            (0..50).fold(json!({"x": 1, "y": 2}), |inner, _| json!([inner, 0])),
        ] {
            let mut ours = Vec::new();
            write_pretty(&mut ours, &value).unwrap();
            let theirs = serde_json::to_string_pretty(&value).unwrap();
            assert_eq!(String::from_utf8(ours).unwrap(), theirs);
        }
    }

    #[test]
    fn a_tree_is_what_its_text_says() {
        let value = json!({"a": [1, -2, 0.5, null, "\u{1f600}"], "b": {"c": true}});
        assert_eq!(to_json_value(&value).unwrap(), value);
        assert_eq!(from_json_value::<Value>(&value).unwrap(), value);
    }
}
