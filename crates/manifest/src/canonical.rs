//! The one way to write a JSON value.
//!
//! An id is a hash of bytes, so a value must have exactly one spelling: no white space, the keys of every object sorted by
//! their UTF-8 bytes, strings with the fewest escapes, no fractions. Integers beyond 2^53 are refused here, because
//! readers in other languages would round them; typed fields that can be that large are written as strings (`wire::int`).
//! This is RFC 8785 with its number rules replaced by "integers only" and its key order by the order of bytes.

use serde_json::{Map, Value};

/// The largest magnitude of an integer that every JSON reader keeps exact.
pub(crate) const SAFE_INTEGER: u64 = 1 << 53;

/// The parser gives up at 128; nothing we write may come near that.
const MAX_DEPTH: usize = 100;

/// Appends the canonical text of `value`, or says why there is none.
pub(crate) fn write(value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    write_at(value, out, 0)
}

fn write_at(value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("nested deeper than {MAX_DEPTH} levels"));
    }
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => {
            let magnitude = match (number.as_u64(), number.as_i64()) {
                (Some(n), _) => n,
                (None, Some(n)) => n.unsigned_abs(),
                (None, None) => return Err(format!("{number} is not an integer")),
            };
            if magnitude > SAFE_INTEGER {
                return Err(format!("{number} is beyond 2^53 and must be written as a string"));
            }
            out.extend_from_slice(number.to_string().as_bytes());
        }
        Value::String(text) => write_string(text, out)?,
        Value::Array(items) => {
            out.push(b'[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                write_at(item, out, depth + 1)?;
            }
            out.push(b']');
        }
        Value::Object(members) => write_members(members, out, depth)?,
    }
    Ok(())
}

fn write_members(members: &Map<String, Value>, out: &mut Vec<u8>, depth: usize) -> Result<(), String> {
    // serde_json's map is sorted only as long as no crate in the build asks for `preserve_order`.
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_unstable_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
    out.push(b'{');
    for (position, (key, value)) in sorted.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_string(key, out)?;
        out.push(b':');
        write_at(value, out, depth + 1)?;
    }
    out.push(b'}');
    Ok(())
}

fn write_string(text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    serde_json::to_writer(out, text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(value: &Value) -> Result<String, String> {
        let mut out = Vec::new();
        write(value, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn keys_are_sorted_by_bytes_at_every_level() {
        let value = json!({ "b": { "é": 1, "z": [ { "y": 1, "x": 2 } ] }, "a": null, "B": true });
        assert_eq!(text(&value).unwrap(), r#"{"B":true,"a":null,"b":{"z":[{"x":2,"y":1}],"é":1}}"#);
    }

    #[test]
    fn strings_have_the_fewest_escapes() {
        assert_eq!(text(&json!("\u{1}\n\"\\/é\u{7f}")).unwrap(), "\"\\u0001\\n\\\"\\\\/é\u{7f}\"");
    }

    #[test]
    fn fractions_and_integers_that_would_be_rounded_are_refused() {
        assert_eq!(
            text(&json!([SAFE_INTEGER, -(1_i64 << 53)])).unwrap(),
            "[9007199254740992,-9007199254740992]"
        );
        for value in [json!(1.0), json!(SAFE_INTEGER + 1), json!(-(1_i64 << 53) - 1), json!(u64::MAX)] {
            assert!(text(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_what_is_written_can_be_parsed() {
        let nested = |depth| (0..depth).fold(json!(1), |value, _| json!([value]));
        let deepest = text(&nested(MAX_DEPTH)).unwrap();
        serde_json::from_str::<Value>(&deepest).unwrap();
        text(&nested(MAX_DEPTH + 1)).unwrap_err();
    }
}
