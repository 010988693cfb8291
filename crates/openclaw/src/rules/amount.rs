//! Spans of time and sizes as OpenClaw's settings write them.

use std::time::Duration;

use serde_json::Value;

const DAY_MS: f64 = 86_400_000.0;

/// A span: `500ms`, `90s`, `1h30m`, `1.5d`; a bare number is in days.
pub fn parse_span(value: &Value) -> Option<Duration> {
    let millis = match value {
        Value::Number(days) => days.as_f64()? * DAY_MS,
        Value::String(text) => span_millis(text)?,
        _ => return None,
    };
    let whole = millis.round();
    (0.0..9e15).contains(&whole).then(|| Duration::from_millis(whole as u64))
}

fn span_millis(text: &str) -> Option<f64> {
    let text = text.trim().to_ascii_lowercase();
    if let Some(days) = parse_decimal(&text) {
        return Some(days * DAY_MS);
    }
    let units = [("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6), ("d", DAY_MS)];
    let mut rest = text.as_str();
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let count = parse_decimal(&rest[..end])?;
        let (unit, millis) = units.into_iter().find(|(unit, _)| rest[end..].starts_with(unit))?;
        total += count * millis;
        rest = &rest[end + unit.len()..];
    }
    (!text.is_empty()).then_some(total)
}

/// A size: `10gb`, `512k`, `1.5mb`, in powers of 1024; a bare number is in bytes.
pub fn parse_size(value: &Value) -> Option<u64> {
    let bytes = match value {
        Value::Number(bytes) => bytes.as_f64()?,
        Value::String(text) => size_bytes(text)?,
        _ => return None,
    };
    let whole = bytes.floor();
    (0.0..9e15).contains(&whole).then_some(whole as u64)
}

fn size_bytes(text: &str) -> Option<f64> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let power = match text[end..].trim() {
        "" | "b" => 0,
        "k" | "kb" => 1,
        "m" | "mb" => 2,
        "g" | "gb" => 3,
        "t" | "tb" => 4,
        _ => return None,
    };
    Some(parse_decimal(&text[..end])? * 1024_f64.powi(power))
}

/// Digits with at most one point between them: no sign, no exponent, no `inf`.
fn parse_decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let digit_first = text.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    if plain && digit_first { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spans_are_read_as_openclaw_writes_them() {
        let millis = |value| parse_span(&value).map(|span| span.as_millis());
        assert_eq!(millis(json!("500ms")), Some(500));
        assert_eq!(millis(json!("1h30m")), Some(5_400_000));
        assert_eq!(millis(json!("1.5d")), Some(129_600_000));
        assert_eq!(millis(json!("30")), Some(30 * 86_400_000));
        assert_eq!(millis(json!(7)), Some(7 * 86_400_000));
        for wrong in [json!(""), json!("soon"), json!("-1d"), json!("1d2"), json!(-3), json!(true)]
        {
            assert_eq!(millis(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(parse_size(&json!("10kb")), Some(10_240));
        assert_eq!(parse_size(&json!("1.5 MB")), Some(1_572_864));
        assert_eq!(parse_size(&json!("2g")), Some(2 << 30));
        assert_eq!(parse_size(&json!(123)), Some(123));
        for wrong in
            [json!("lots"), json!("1e9"), json!("-1"), json!("inf"), json!([1]), json!("kb")]
        {
            assert_eq!(parse_size(&wrong), None, "{wrong}");
        }
    }
}
