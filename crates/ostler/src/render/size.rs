//! Sizes as people write them.

/// Reads `500MB`, `20G`, `1.5 GiB`, `4096`: powers of 1000 as they are shown, of 1024 with an `i`.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let unit = text[split..].trim().to_ascii_lowercase();
    let letters = unit.trim_end_matches('b');
    let (letter, base) = match letters.strip_suffix('i') {
        Some(letter) => (letter, 1024u64),
        None => (letters, 1000),
    };
    let power = match (letter, unit.as_str()) {
        ("", "" | "b") => 0,
        ("k", _) => 1,
        ("m", _) => 2,
        ("g", _) => 3,
        ("t", _) => 4,
        _ => return None,
    };
    let bytes = number * (base.pow(power) as f64);
    (0.0..1e18).contains(&bytes).then_some(bytes as u64)
}

/// As [`parse_size`], for the command line.
pub(crate) fn from_argument(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| format!("`{text}` is not a size; write it like 500MB or 20GB"))
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("0"), Some(0));
        assert_eq!(parse_size("4096"), Some(4096));
        assert_eq!(parse_size("500MB"), Some(500_000_000));
        assert_eq!(parse_size("20g"), Some(20_000_000_000));
        assert_eq!(parse_size("1.5 KiB"), Some(1536));
        for wrong in ["", "MB", "-1", "5x", "1e3", "1.2.3k", "9999999999T", "5 B B"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }
}
