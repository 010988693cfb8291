//! The JSON writer: pretty-printed, serialised in parallel when it is long.

use std::io::{self, Write};
use std::sync::mpsc::sync_channel;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

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

/// Writes a value with a newline at the end.
pub(super) fn write_pretty<T: Serialize>(
    out: &mut impl Write,
    value: &T,
) -> serde_json::Result<()> {
    let indented = Indented { depth: 0, has_value: false };
    value.serialize(&mut Serializer::with_formatter(&mut *out, indented))?;
    out.write_all(b"\n").map_err(serde_json::Error::io)
}

/// As [`write_pretty`], with `elements` in the place of the one empty array called `name`. Portions of them
/// become text on all cores and are written in order, so that memory stays small.
pub(super) fn write_with<T, E, S>(
    out: &mut impl Write,
    value: &T,
    name: &str,
    elements: &[E],
    view: impl Fn(E) -> S + Sync,
) -> serde_json::Result<()>
where
    T: Serialize,
    E: Copy + Sync,
    S: Serialize,
{
    let mut frame = Vec::new();
    write_pretty(&mut frame, value)?;
    let hole = format!("\"{name}\": [");
    let empty = format!("{hole}]");
    let at = frame.windows(empty.len()).position(|window| window == empty.as_bytes());
    let Some(at) = at.filter(|_| !elements.is_empty()) else {
        return out.write_all(&frame).map_err(serde_json::Error::io);
    };
    let line_start = frame[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let depth = (at - line_start) / 2 + 1;
    let spell = |portion: &[E], text: &mut Vec<u8>| -> serde_json::Result<()> {
        text.clear();
        for &element in portion {
            let mut indented = Indented { depth, has_value: false };
            indented.separate_items(text, false).map_err(serde_json::Error::io)?;
            view(element).serialize(&mut Serializer::with_formatter(&mut *text, indented))?;
        }
        Ok(())
    };
    out.write_all(&frame[..at + hole.len()]).map_err(serde_json::Error::io)?;
    in_portions(elements, spell, |portion, text| {
        // The very first element has no comma before it.
        let skip = usize::from(portion == 0);
        out.write_all(&text[skip..]).map_err(serde_json::Error::io)
    })?;
    let mut end = Vec::new();
    let indented = Indented { depth: depth - 1, has_value: true };
    indented.break_line(&mut end).map_err(serde_json::Error::io)?;
    end.extend_from_slice(&frame[at + hole.len()..]);
    out.write_all(&end).map_err(serde_json::Error::io)
}

/// Turns portions of `elements` into text on all cores and hands the texts on in order. Every worker
/// fills the same two buffers again and again: fresh memory would cost more than the text in it.
fn in_portions<E: Sync>(
    elements: &[E],
    spell: impl Fn(&[E], &mut Vec<u8>) -> serde_json::Result<()> + Sync,
    mut put: impl FnMut(usize, &[u8]) -> serde_json::Result<()>,
) -> serde_json::Result<()> {
    // About as much text as stays in a core's own cache.
    const PORTION_ITEMS: usize = 128;
    let portions: Vec<&[E]> = elements.chunks(PORTION_ITEMS).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(portions.len());
    std::thread::scope(|threads| {
        let mut workers = Vec::with_capacity(cores);
        for first in 0..cores {
            let (full, ready) = sync_channel(2);
            let (empty, used) = sync_channel(2);
            for _ in 0..2 {
                let _ = empty.send(Vec::new());
            }
            let (portions, spell) = (&portions, &spell);
            threads.spawn(move || {
                for portion in portions.iter().skip(first).step_by(cores) {
                    let Ok(mut text) = used.recv() else { return };
                    let done = spell(portion, &mut text).map(|()| text);
                    if full.send(done).is_err() {
                        return;
                    }
                }
            });
            workers.push((ready, empty));
        }
        for portion in 0..portions.len() {
            let (ready, empty) = &workers[portion % cores];
            // A worker that panicked makes the scope panic.
            let Ok(done) = ready.recv() else { break };
            let text = done?;
            put(portion, &text)?;
            let _ = empty.send(text);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
            let theirs = serde_json::to_string_pretty(&value).unwrap() + "\n";
            assert_eq!(String::from_utf8(ours).unwrap(), theirs);
        }
    }

    #[test]
    fn elements_stand_where_they_would_have_stood() {
        for count in [0, 1, 2, 127, 128, 129, 256, 5000] {
            let items: Vec<Value> =
                (0..count).map(|n| json!({"n": n, "x": [n, {"y": "[]"}], "e": {}})).collect();
            let frame =
                |items: Value| json!({"ok": true, "result": {"a": [], "items": items, "z": 1}});
            let mut ours = Vec::new();
            let refs: Vec<&Value> = items.iter().collect();
            write_with(&mut ours, &frame(json!([])), "items", &refs, |item| item).unwrap();
            let theirs = serde_json::to_string_pretty(&frame(items.into())).unwrap() + "\n";
            assert_eq!(String::from_utf8(ours).unwrap(), theirs, "{count}");
        }
    }
}
