//! The JSON skimmer beside a full parser.

use adapters::skim::{self, Value};

/// The skimmer never panics, and agrees with a full parser about what is valid.
pub fn skim(bytes: &[u8]) {
    walk(Value::new(bytes), 0);
    for field in skim::nested(bytes, "message").into_iter().flatten() {
        let _ = field.map(|(_, _, value)| walk(value, 0));
    }
    if let Ok(serde_json::Value::Object(whole)) = serde_json::from_slice(bytes) {
        let fields = skim::object(bytes).expect("a valid object");
        let mut seen = 0;
        for field in fields {
            field.expect("a valid field");
            seen += 1;
        }
        assert!(seen >= whole.len());
    }
}

fn walk(value: Value<'_>, depth: usize) {
    let _ = (value.str(), value.u64(), value.i64(), value.f64(), value.time(), value.first());
    if depth > 8 {
        return;
    }
    for (_, inner) in value.object().into_iter().flatten().flatten() {
        walk(inner, depth + 1);
    }
    for inner in value.elements() {
        walk(inner, depth + 1);
    }
}
