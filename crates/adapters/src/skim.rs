//! A lazy JSON scanner: finds the few fields that matter and skips the rest at memory speed.
//!
//! Transcripts are mostly long strings that a listing does not need. A full parser reads every
//! byte with care; this one finds the end of a value by structure alone and parses only what is
//! asked for (see docs/decisions/0003-skimming-json.md for the measurements). It never allocates
//! for a value that is skipped, never recurses, and never panics on hostile bytes. What it skips
//! it does not validate: a value is checked when it is read.

use std::borrow::Cow;

use memchr::arch::all::memchr::One;
use memchr::memchr;

/// The bytes are not the JSON they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not valid JSON")]
pub struct BrokenJson;

/// One JSON value, not looked into yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonValue<'a>(&'a [u8]);

/// The fields of a JSON object, in the order they are written.
#[derive(Clone, Debug)]
pub struct JsonObject<'a> {
    rest: &'a [u8],
    done: bool,
}

/// The elements of a JSON array.
#[derive(Clone, Debug)]
pub struct JsonArray<'a> {
    rest: &'a [u8],
    done: bool,
}

/// The fields of an object and, in one pass, those of one object inside it.
///
/// Skipping a field that holds most of a line and then looking into it reads the line twice; this
/// reads it once.
#[derive(Clone, Debug)]
pub struct NestedFields<'a> {
    outer: JsonObject<'a>,
    inner: Option<JsonObject<'a>>,
    enter: &'static str,
}

/// Where a field of [`NestedFields`] stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPlace {
    /// In the object itself.
    Outer,
    /// In the object inside it.
    Inner,
}

/// The fields of the object that `text` holds and of the object in its field `enter`.
pub fn nested_fields<'a>(
    text: &'a [u8],
    enter: &'static str,
) -> Result<NestedFields<'a>, BrokenJson> {
    Ok(NestedFields { outer: parse_object(text)?, inner: None, enter })
}

impl<'a> NestedFields<'a> {
    /// What has not been read yet, from the next key of the outer object on.
    pub fn unread_bytes(&self) -> &'a [u8] {
        self.outer.rest
    }

    /// Steps over `run`, whole fields that were read elsewhere, if they stand here byte for byte.
    pub fn step_over(&mut self, run: &[u8]) -> bool {
        let after = self.outer.rest.strip_prefix(run);
        let ends_a_field = |after: &&[u8]| matches!(after.first(), Some(b'"' | b'}'));
        match after.filter(ends_a_field) {
            Some(after) if self.inner.is_none() => {
                self.outer.rest = after;
                true
            }
            _ => false,
        }
    }
}

impl<'a> Iterator for NestedFields<'a> {
    type Item = Result<(FieldPlace, &'a [u8], JsonValue<'a>), BrokenJson>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(inner) = &mut self.inner {
                match inner.next() {
                    Some(Ok((key, value))) => return Some(Ok((FieldPlace::Inner, key, value))),
                    Some(Err(BrokenJson)) => {
                        (self.inner, self.outer.done) = (None, true);
                        return Some(Err(BrokenJson));
                    }
                    None => {
                        // `rest` stands at the closing bracket.
                        match after_element(&inner.rest[1..], b'}') {
                            Ok(rest) => self.outer.rest = rest,
                            Err(BrokenJson) => {
                                (self.inner, self.outer.done) = (None, true);
                                return Some(Err(BrokenJson));
                            }
                        }
                        self.inner = None;
                    }
                }
            }
            if self.outer.done || self.outer.rest.first() == Some(&b'}') {
                self.outer.done = true;
                return None;
            }
            let entered = self.outer.next_key().map(|(key, text)| {
                let enters = key == self.enter.as_bytes() && text.first() == Some(&b'{');
                (key, text, enters)
            });
            match entered {
                Ok((_, text, true)) => {
                    self.inner = Some(JsonObject { rest: trim_start(&text[1..]), done: false });
                }
                Ok((key, text, false)) => {
                    let field = self.outer.next_value(text);
                    self.outer.done |= field.is_err();
                    return Some(field.map(|value| (FieldPlace::Outer, key, value)));
                }
                Err(BrokenJson) => {
                    self.outer.done = true;
                    return Some(Err(BrokenJson));
                }
            }
        }
    }
}

/// The object that `text` holds, with nothing but white space around it.
pub fn parse_object(text: &[u8]) -> Result<JsonObject<'_>, BrokenJson> {
    JsonValue(trim(text)).as_object().ok_or(BrokenJson)
}

impl<'a> JsonValue<'a> {
    /// The value that makes up the whole of `text`; not validated.
    pub fn new(text: &'a [u8]) -> Self {
        Self(trim(text))
    }

    /// The bytes of the value.
    pub fn raw(self) -> &'a [u8] {
        self.0
    }

    /// The fields, if it is an object.
    pub fn as_object(self) -> Option<JsonObject<'a>> {
        let inner = self.0.strip_prefix(b"{")?;
        Some(JsonObject { rest: trim_start(inner), done: false })
    }

    /// The elements, if it is an array.
    pub fn as_array(self) -> Option<JsonArray<'a>> {
        let inner = self.0.strip_prefix(b"[")?;
        Some(JsonArray { rest: trim_start(inner), done: false })
    }

    /// The elements that can be read, if it is an array; none otherwise.
    pub fn iter_elements(self) -> impl Iterator<Item = JsonValue<'a>> + use<'a> {
        self.as_array().into_iter().flatten().filter_map(Result::ok)
    }

    /// The text, if it is a string. Invalid UTF-8 is replaced, not refused: it is shown to people.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        let inner = self.0.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if find_byte(b'\\', inner).is_none() {
            return Some(String::from_utf8_lossy(inner));
        }
        match serde_json::from_slice::<String>(self.0) {
            Ok(text) => Some(Cow::Owned(text)),
            Err(_) => {
                let lossy = String::from_utf8_lossy(self.0);
                serde_json::from_str::<String>(&lossy).ok().map(Cow::Owned)
            }
        }
    }

    /// Whether it is a string.
    pub fn is_text(self) -> bool {
        self.0.starts_with(b"\"")
    }

    /// The text as an owned string.
    pub fn to_owned_string(self) -> Option<String> {
        self.as_str().map(Cow::into_owned)
    }

    /// The number, if it is a whole one that fits.
    pub fn as_u64(self) -> Option<u64> {
        // Short runs of digits, without the detour over text.
        if self.0.len() <= 18 && !self.0.is_empty() && self.0.iter().all(u8::is_ascii_digit) {
            return Some(self.0.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')));
        }
        let text = std::str::from_utf8(self.0).ok()?;
        text.parse().ok().or_else(|| {
            let float = text.parse::<f64>().ok()?;
            (0.0..9e15).contains(&float).then_some(float as u64)
        })
    }

    /// The number, if it is a whole one, with its sign.
    pub fn as_i64(self) -> Option<i64> {
        let text = std::str::from_utf8(self.0).ok()?;
        text.parse().ok().or_else(|| {
            let float = text.parse::<f64>().ok()?;
            (float.abs() < 9e15).then_some(float as i64)
        })
    }

    pub fn as_f64(self) -> Option<f64> {
        let first = *self.0.first()?;
        if !(first == b'-' || first.is_ascii_digit()) {
            return None;
        }
        std::str::from_utf8(self.0).ok()?.parse().ok()
    }

    /// The truth value.
    pub fn as_bool(self) -> Option<bool> {
        match self.0 {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// Whether it is exactly this string, written without escapes.
    pub fn is_string(self, text: &str) -> bool {
        self.0.len() == text.len() + 2
            && self.0.starts_with(b"\"")
            && &self.0[1..=text.len()] == text.as_bytes()
    }

    /// The first field of that name, if it is an object that has one.
    pub fn get(self, name: &str) -> Option<JsonValue<'a>> {
        self.as_object()?.find_map(|field| match field {
            Ok((key, value)) if key == name.as_bytes() => Some(value),
            _ => None,
        })
    }

    /// The first element, if it is an array that has one: only to look into, since where it ends
    /// has not been looked for.
    pub fn first_element(self) -> Option<JsonValue<'a>> {
        let inner = trim_start(self.0.strip_prefix(b"[")?);
        (inner.first() != Some(&b']')).then_some(JsonValue(inner))
    }

    /// The value at the end of a path of names.
    pub fn value_at(self, path: &[&str]) -> Option<JsonValue<'a>> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }

    /// An RFC 3339 string, or milliseconds since the epoch.
    pub fn as_time(self) -> Option<model::time::Time> {
        match self.0.first()? {
            b'"' => model::time::Time::parse(&self.as_str()?),
            _ => self.as_i64().map(model::time::Time::from_millis),
        }
    }
}

impl<'a> Iterator for JsonObject<'a> {
    /// The raw key (escapes are left as they are) and its value.
    type Item = Result<(&'a [u8], JsonValue<'a>), BrokenJson>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.rest.first() == Some(&b'}') {
            self.done = true;
            return None;
        }
        let field = self.next_key().and_then(|(key, text)| Ok((key, self.next_value(text)?)));
        self.done |= field.is_err();
        Some(field)
    }
}

impl<'a> JsonObject<'a> {
    /// The next key, and the text from its value on.
    #[inline(always)]
    fn next_key(&mut self) -> Result<(&'a [u8], &'a [u8]), BrokenJson> {
        let end = string_end(self.rest)?;
        let after_key = trim_start(&self.rest[end..]);
        let text = trim_start(after_key.strip_prefix(b":").ok_or(BrokenJson)?);
        Ok((&self.rest[1..end - 1], text))
    }

    /// The value at the start of `text`, and on to the next key.
    #[inline(always)]
    fn next_value(&mut self, text: &'a [u8]) -> Result<JsonValue<'a>, BrokenJson> {
        let end = value_end(text)?;
        self.rest = after_element(&text[end..], b'}')?;
        Ok(JsonValue(&text[..end]))
    }
}

impl<'a> Iterator for JsonArray<'a> {
    type Item = Result<JsonValue<'a>, BrokenJson>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.rest.first() == Some(&b']') {
            self.done = true;
            return None;
        }
        let element = value_end(self.rest).and_then(|end| {
            let value = JsonValue(&self.rest[..end]);
            self.rest = after_element(&self.rest[end..], b']')?;
            Ok(value)
        });
        self.done |= element.is_err();
        Some(element)
    }
}

/// Steps over the comma after an element, or stays at the closing bracket.
#[inline(always)]
fn after_element(text: &[u8], close: u8) -> Result<&[u8], BrokenJson> {
    let text = trim_start(text);
    match text.first() {
        Some(b',') => Ok(trim_start(&text[1..])),
        Some(&byte) if byte == close => Ok(text),
        _ => Err(BrokenJson),
    }
}

/// The length of the value at the start of `text`.
#[inline]
fn value_end(text: &[u8]) -> Result<usize, BrokenJson> {
    match text.first() {
        Some(b'"') => string_end(text),
        Some(b'{' | b'[') => container_end(text),
        Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => Ok(text
            .iter()
            .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'))
            .unwrap_or(text.len())),
        _ => Err(BrokenJson),
    }
}

/// The length of the string at the start of `text`, quotes included.
#[inline(always)]
fn string_end(text: &[u8]) -> Result<usize, BrokenJson> {
    if text.first() != Some(&b'"') {
        return Err(BrokenJson);
    }
    let mut from = 1;
    loop {
        let quote = from + find_quote(&text[from..]).ok_or(BrokenJson)?;
        if text[quote - 1] != b'\\' || is_unescaped(&text[1..quote]) {
            return Ok(quote + 1);
        }
        from = quote + 1;
    }
}

/// Whether a quote after these bytes ends the string: the backslashes before it pair up.
#[cold]
fn is_unescaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 0
}

/// The place of the next quote. Most strings are short (keys, ids, times), and for those a few
/// steps of sixteen bytes are quicker than the call of a vector search.
#[inline(always)]
fn find_quote(text: &[u8]) -> Option<usize> {
    const STEPS: usize = 3;
    let mut at = 0;
    for (chunk, _) in text.as_chunks::<16>().0.iter().zip(0..STEPS) {
        let (low, high) = chunk.split_at(8);
        let (low, high) = (quotes_in(low), quotes_in(high));
        if low | high != 0 {
            let (word, skipped) = if low != 0 { (low, 0) } else { (high, 8) };
            return Some(at + skipped + word.trailing_zeros() as usize / 8);
        }
        at += 16;
    }
    find_byte(b'"', &text[at..]).map(|found| at + found)
}

/// The place of a byte. Asking what the processor can do takes longer than looking through a short
/// text without that, and a hook looks through nothing else.
#[inline]
fn find_byte(byte: u8, text: &[u8]) -> Option<usize> {
    const SHORT: usize = 1024;
    if text.len() < SHORT { One::new(byte).find(text) } else { memchr(byte, text) }
}

/// The top bit of the first quote among eight bytes is the lowest bit that is set.
#[inline(always)]
fn quotes_in(eight: &[u8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let Ok(bytes) = eight.try_into() else { return 0 };
    let word = u64::from_le_bytes(bytes) ^ (ONES * b'"' as u64);
    word.wrapping_sub(ONES) & !word & (ONES << 7)
}

/// The length of the object or array at the start of `text`. Brackets of either kind are counted
/// together: which one closes which is not checked for what is skipped.
fn container_end(text: &[u8]) -> Result<usize, BrokenJson> {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                at += string_end(&text[at..])?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    Err(BrokenJson)
}

#[inline(always)]
fn trim_start(text: &[u8]) -> &[u8] {
    // Agents write JSON without white space.
    if text.first().is_some_and(|byte| *byte > b' ') { text } else { text.trim_ascii_start() }
}

fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_found_and_the_rest_is_skipped() {
        let line = br#" {"a": {"x":[1,{"y":"}\""}]}, "type" :"user","n":-3,"t":true,"e":"q\n\u00e9","z":null} "#;
        let value = JsonValue::new(line);
        assert!(value.get("type").unwrap().is_string("user"));
        assert_eq!(value.get("n").unwrap().as_i64(), Some(-3));
        assert_eq!(value.get("t").unwrap().as_bool(), Some(true));
        assert_eq!(value.get("e").unwrap().as_str().unwrap(), "q\né");
        assert_eq!(value.value_at(&["a", "x"]).unwrap().as_array().unwrap().count(), 2);
        assert_eq!(value.get("missing"), None);
    }

    #[test]
    fn one_object_inside_is_read_in_the_same_pass() {
        let line = br#"{"a":1,"m":{"x":[{"m":2}],"y":"}"},"b":{"m":3},"m":4}"#;
        let fields: Vec<_> = nested_fields(line, "m")
            .unwrap()
            .map(|field| {
                let (place, key, value) = field.unwrap();
                (place, key[0], value.raw().len())
            })
            .collect();
        let (outer, inner) = (FieldPlace::Outer, FieldPlace::Inner);
        assert_eq!(
            fields,
            [
                (outer, b'a', 1),
                (inner, b'x', 9),
                (inner, b'y', 3),
                (outer, b'b', 7),
                (outer, b'm', 1)
            ]
        );
        for broken in [r#"{"m":{"#, r#"{"m":{}"#, r#"{"m":{"x"}}"#, r#"{"m":{"x":1}"b":2}"#] {
            assert!(
                nested_fields(broken.as_bytes(), "m").unwrap().any(|field| field.is_err()),
                "{broken}"
            );
        }
        assert_eq!(nested_fields(br#"{"m":{}}"#, "m").unwrap().count(), 0);
        assert_eq!(
            JsonValue::new(br#"[{"type":"x"},1]"#)
                .first_element()
                .unwrap()
                .get("type")
                .unwrap()
                .as_str()
                .unwrap(),
            "x"
        );
        assert_eq!(JsonValue::new(b"[ ]").first_element(), None);
    }

    #[test]
    fn broken_lines_end_with_an_error_and_never_loop() {
        for line in [
            "",
            "[",
            "{",
            r#"{"a""#,
            r#"{"a":"#,
            r#"{"a":1"#,
            r#"{"a":"b"#,
            r#"{"a":1 "b":2}"#,
            "nul",
            r#"{"a":}"#,
        ] {
            let broken = match parse_object(line.as_bytes()) {
                Err(BrokenJson) => true,
                Ok(fields) => fields.into_iter().any(|field| field.is_err()),
            };
            assert!(broken, "{line}");
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            "\\PC{0,12}".prop_map(Into::into),
            Just(serde_json::Value::from("a\"b\\\\\\\"{[\n")),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::btree_map("[a-z\"\\\\]{0,4}", inner, 0..5)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn read(value: JsonValue<'_>) -> serde_json::Value {
        if let Some(object) = value.as_object() {
            let fields = object.map(|field| {
                let (key, value) = field.unwrap();
                let mut quoted = vec![b'"'];
                quoted.extend_from_slice(key);
                quoted.push(b'"');
                (JsonValue::new(&quoted).to_owned_string().unwrap(), read(value))
            });
            return serde_json::Value::Object(fields.collect());
        }
        if let Some(array) = value.as_array() {
            return array.map(|element| read(element.unwrap())).collect();
        }
        if let Some(text) = value.as_str() {
            return text.into_owned().into();
        }
        serde_json::from_slice(value.raw()).unwrap()
    }

    proptest! {
        #[test]
        fn skimming_agrees_with_a_full_parser(value in json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
            prop_assert_eq!(read(JsonValue::new(&text)), value);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(fields) = nested_fields(&bytes, "a") {
                for (_, _, value) in fields.flatten() {
                    let _ = (value.as_str(), value.as_u64(), value.as_f64(), value.as_time(), value.get("a"));
                }
            }
        }

        #[test]
        fn almost_json_never_panics(text in r#"[\[\]{}:,"\\a1 ]{0,60}"#) {
            for element in JsonValue::new(text.as_bytes()).as_array().into_iter().flatten() {
                let _ = element.map(|value| value.get("a"));
            }
            for field in parse_object(text.as_bytes()).into_iter().flatten() {
                let _ = field.map(|(_, value)| value.to_owned_string());
            }
            for field in nested_fields(text.as_bytes(), "a").into_iter().flatten() {
                let _ = field.map(|(_, _, value)| (value.first_element(), value.to_owned_string()));
            }
        }
    }
}
