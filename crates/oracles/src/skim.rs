//! The JSON skimmer beside a full parser.

use adapters::skim::{self, JsonValue};

/// The skimmer never panics, and agrees with a full parser about what is valid.
pub fn skim(bytes: &[u8]) {
    walk(JsonValue::new(bytes), 0);
    for field in skim::nested_fields(bytes, "message").into_iter().flatten() {
        let _ = field.map(|(_, _, value)| walk(value, 0));
    }
    if let Ok(serde_json::Value::Object(whole)) = serde_json::from_slice(bytes) {
        let fields = skim::parse_object(bytes).expect("a valid object");
        let mut seen = 0;
        for field in fields {
            field.expect("a valid field");
            seen += 1;
        }
        assert!(seen >= whole.len());
    }
}

fn walk(value: JsonValue<'_>, depth: usize) {
    let _ = (
        value.as_str(),
        value.as_u64(),
        value.as_i64(),
        value.as_f64(),
        value.as_time(),
        value.first_element(),
    );
    if depth > 8 {
        return;
    }
    for (_, inner) in value.as_object().into_iter().flatten().flatten() {
        walk(inner, depth + 1);
    }
    for inner in value.iter_elements() {
        walk(inner, depth + 1);
    }
}
