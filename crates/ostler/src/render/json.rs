//! The JSON writer: long arrays become text in parallel.

use std::io::Write;
use std::sync::mpsc::sync_channel;

use model::json_text;

/// Appends an element of an array that stands so deep.
pub(super) type ElementWriter<'a, E> =
    &'a (dyn Fn(&mut Vec<u8>, E, usize) -> serde_json::Result<()> + Sync);

/// Writes `frame`, which is pretty-printed, with `elements` in the place of its one empty array called `name`.
/// Portions of them become text on all cores and are written in order, so that memory stays small.
pub(super) fn write_with<E: Copy + Sync>(
    out: &mut impl Write,
    frame: &[u8],
    name: &str,
    elements: &[E],
    write_element: ElementWriter<'_, E>,
) -> serde_json::Result<()> {
    let hole = format!("\"{name}\": [");
    let empty = format!("{hole}]");
    let at = frame.windows(empty.len()).position(|window| window == empty.as_bytes());
    let Some(at) = at.filter(|_| !elements.is_empty()) else {
        return out.write_all(frame).map_err(serde_json::Error::io);
    };
    let line_start = frame[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let depth = (at - line_start) / 2 + 1;
    let spell = |portion: &[E], text: &mut Vec<u8>| -> serde_json::Result<()> {
        text.clear();
        for &element in portion {
            write_element(text, element, depth)?;
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
    json_text::end_elements(&mut end, depth)?;
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
    fn elements_stand_where_they_would_have_stood() {
        for count in [0, 1, 2, 127, 128, 129, 256, 5000] {
            let items: Vec<Value> =
                (0..count).map(|n| json!({"n": n, "x": [n, {"y": "[]"}], "e": {}})).collect();
            let frame =
                |items: Value| json!({"ok": true, "result": {"a": [], "items": items, "z": 1}});
            let mut ours = Vec::new();
            let refs: Vec<&Value> = items.iter().collect();
            let mut text = Vec::new();
            json_text::write_pretty(&mut text, &frame(json!([]))).unwrap();
            let write: ElementWriter<'_, &Value> =
                &|out, item, depth| json_text::write_element(out, item, depth);
            write_with(&mut ours, &text, "items", &refs, write).unwrap();
            let theirs = serde_json::to_string_pretty(&frame(items.into())).unwrap();
            assert_eq!(String::from_utf8(ours).unwrap(), theirs, "{count}");
        }
    }
}
